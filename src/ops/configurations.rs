//! The configurations of buckets and the ACLs of objects that decide about access, in their parsed
//! forms. A stored document was checked when it was set; one that cannot be read, as after a return
//! to an older version of the program, closes the bucket rather than opening it.

use super::{Context, stored_document};
use crate::auth::BucketPolicy;
use crate::s3::acl::{GroupGrants, RequestedAcl};
use crate::s3::{ObjectOwnership, PublicAccessBlock};
use crate::store::{AclGrants, BucketConfigurationKind, ConfiguredBucket, VersionRecord};
use crate::xml::Document;

/// The policy of a bucket.
pub(super) fn policy(bucket: &ConfiguredBucket) -> Option<&BucketPolicy> {
    let name = &bucket.info.name;
    let configuration = bucket.configuration(BucketConfigurationKind::Policy)?;
    Some(configuration.parsed(|document| {
        BucketPolicy::parse(document, name).unwrap_or_else(|reason| {
            log::error!("the policy of the bucket {name} cannot be read and denies everything: {reason}");
            BucketPolicy::denying_all(name)
        })
    }))
}

/// The public access block that holds for a bucket.
pub(super) fn block(bucket: &ConfiguredBucket) -> PublicAccessBlock {
    stored_document::stored(bucket).copied().unwrap_or_default()
}

/// The ownership that holds for the objects of a bucket.
pub(super) fn ownership(context: &Context, bucket: &ConfiguredBucket) -> ObjectOwnership {
    stored_document::stored(bucket).copied().unwrap_or(context.object_ownership)
}

/// The ACL of a bucket, in effect or not. One that cannot be read grants nothing.
pub(super) fn bucket_acl(bucket: &ConfiguredBucket) -> GroupGrants {
    let Some(configuration) = bucket.configuration(BucketConfigurationKind::Acl) else {
        return GroupGrants::default();
    };
    *configuration.parsed(|document| {
        parse_acl(document, &bucket.info.owner).unwrap_or_else(|| {
            log::error!("the acl of the bucket {} cannot be read", bucket.info.name);
            GroupGrants::NONE
        })
    })
}

fn parse_acl(document: &[u8], owner: &str) -> Option<GroupGrants> {
    let document = Document::parse(document).ok()?;
    Some(RequestedAcl::parse(document.root(), owner).ok()?.grants)
}

/// The ACL of an object, in effect or not.
pub(super) fn object_acl(version: &VersionRecord) -> GroupGrants {
    from_store(version.controls.acl)
}

/// The grants of a stored list.
pub(super) fn from_store(grants: AclGrants) -> GroupGrants {
    GroupGrants::from_bits(grants.bits())
}

/// The grants as they are stored.
pub(super) fn to_store(grants: GroupGrants) -> AclGrants {
    AclGrants::from_bits(grants.bits())
}
