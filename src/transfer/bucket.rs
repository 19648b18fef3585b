//! Buckets of the other server.

use super::attributes::write_tags;
use crate::transfer::{PeerCall, PeerError, PeerLink, Tags};
use crate::xml::Writer;

/// The region whose buckets name no location (S3, "CreateBucket").
const UNNAMED_REGION: &str = "us-east-1";

/// Makes the bucket of the link, in the region of the signer.
///
/// # Errors
/// As of [`PeerLink::send`]; it may be there then.
pub fn make_bucket(link: &mut PeerLink<'_>) -> Result<(), PeerError> {
    let body = match link.region() {
        UNNAMED_REGION => Vec::new(),
        region => configuration(region).finish(),
    };
    link.ask_with(PeerCall { method: "PUT", ..PeerCall::default() }, &body).map(drop)
}

/// Makes the bucket of the link with tags, and with object lock if that is wanted, in one step.
///
/// # Errors
/// As of [`PeerLink::send`].
pub fn make_tagged_bucket(link: &mut PeerLink<'_>, tags: &Tags, lock: bool) -> Result<(), PeerError> {
    let mut document = configuration(link.region());
    document.element("Tags", |set| write_tags(set, tags));
    let locked = [("x-amz-bucket-object-lock-enabled".to_owned(), "true".to_owned())];
    let headers = if lock { &locked[..] } else { &[] };
    link.ask_with(PeerCall { method: "PUT", headers, ..PeerCall::default() }, &document.finish()).map(drop)
}

/// Lets the bucket of the link keep versions.
///
/// # Errors
/// As of [`PeerLink::send`].
pub fn enable_versions(link: &mut PeerLink<'_>) -> Result<(), PeerError> {
    let mut document = Writer::new("VersioningConfiguration", None);
    document.leaf("Status", "Enabled");
    let call = PeerCall { method: "PUT", query: &[("versioning", "")], ..PeerCall::default() };
    link.ask_with(call, &document.finish()).map(drop)
}

/// The configuration of a new bucket in a region.
fn configuration(region: &str) -> Writer {
    let mut document = Writer::new("CreateBucketConfiguration", None);
    if region != UNNAMED_REGION {
        document.leaf("LocationConstraint", region);
    }
    document
}
