//! The configurations of a bucket of another server.
//!
//! The quota is no part of S3. MinIO has it in its API for administrators, which takes the signatures
//! of S3 and names buckets in a parameter.

use siltstone::transfer::{PeerCall, PeerError, PeerLink};
use siltstone::xml::Document;

use super::threads::Transfer;
use crate::minio::format::bucket_metadata::{BucketMetadata, SUBRESOURCES};

/// What MinIO calls itself in the header `Server`.
const MINIO: &str = "MinIO";
/// The first step of the path of its API, where S3 has the bucket, and the rest.
const ADMIN: (&str, &str) = ("minio", "admin/v3/get-bucket-quota");
const QUOTA: &str = "QuotaConfigJSON";

/// Reads all configurations of the bucket of the link. Those that cannot be read are told.
pub(super) fn configurations_of(
    link: &mut PeerLink<'_>,
    bucket: &str,
    transfer: &Transfer,
) -> BucketMetadata {
    let mut metadata = BucketMetadata { name: bucket.to_owned(), ..BucketMetadata::default() };
    let mut is_minio = false;
    for (field, subresource) in SUBRESOURCES {
        let call = PeerCall { method: "GET", query: &[(subresource, "")], ..PeerCall::default() };
        let asked = link.ask(call);
        if let Ok((answer, _)) = &asked {
            is_minio |= answer.header("server").is_some_and(|name| name.contains(MINIO));
        }
        match asked {
            Ok((_, document)) if says_something(field, &document) => {
                metadata.documents.insert(field.to_owned(), document);
            }
            // Servers that do not know a configuration have none.
            Ok(_) | Err(PeerError::Absent | PeerError::Unsupported(_)) => {}
            Err(error) => {
                let name = format!("{bucket}, {subresource}");
                transfer.report().find("configurations not read", &name, &error.text());
            }
        }
    }
    if is_minio {
        match quota_of(link, bucket) {
            Ok(quota) => {
                metadata.documents.insert(QUOTA.to_owned(), quota);
            }
            Err(PeerError::Absent | PeerError::Unsupported(_)) => {}
            Err(error) => {
                let why = format!("{}; an administrator of MinIO may read it", error.text());
                transfer.report().find("configurations not read", &format!("{bucket}, quota"), &why);
            }
        }
    }
    metadata
}

/// The quota of a bucket of MinIO, as that stores it. Without one all its fields are empty.
fn quota_of(link: &mut PeerLink<'_>, bucket: &str) -> Result<Vec<u8>, PeerError> {
    let (api, key) = ADMIN;
    link.enter(api);
    let call = PeerCall { method: "GET", key, query: &[("bucket", bucket)], ..PeerCall::default() };
    let asked = link.ask(call);
    link.enter(bucket);
    asked.map(|(_, quota)| quota)
}

/// Whether a document is more than the empty one of a bucket without the configuration.
fn says_something(field: &str, document: &[u8]) -> bool {
    if field.ends_with("JSON") {
        return !document.is_empty();
    }
    Document::parse(document).is_ok_and(|document| document.root().children().next().is_some())
}
