//! The configurations of buckets and the ACLs of objects that decide about access, in their parsed
//! forms. A stored document was checked when it was set; one that cannot be read, as after a return
//! to an older version of the program, closes the bucket rather than opening it.

use super::Context;
use crate::auth::BucketPolicy;
use crate::s3::acl::{GroupGrants, RequestedAcl};
use crate::s3::{ObjectOwnership, PublicAccessBlock};
use crate::store::{AclGrants, BucketConfigurationKind, ConfiguredBucket, VersionRecord};
use crate::xml::{Document, Element};

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

/// The public access block of a bucket, if it has one.
pub(super) fn set_block(bucket: &ConfiguredBucket) -> Option<PublicAccessBlock> {
    let read = |root: Element<'_>| PublicAccessBlock::parse(root).ok();
    stored(bucket, BucketConfigurationKind::PublicAccessBlock, read, PublicAccessBlock::ALL)
}

/// The public access block that holds for a bucket.
pub(super) fn block(bucket: &ConfiguredBucket) -> PublicAccessBlock {
    set_block(bucket).unwrap_or_default()
}

/// The ownership that holds for the objects of a bucket.
pub(super) fn ownership(context: &Context, bucket: &ConfiguredBucket) -> ObjectOwnership {
    let read = |root: Element<'_>| ObjectOwnership::parse(root).ok();
    let set = stored(
        bucket,
        BucketConfigurationKind::OwnershipControls,
        read,
        ObjectOwnership::BucketOwnerEnforced,
    );
    set.unwrap_or(context.object_ownership)
}

/// The ACL of a bucket, in effect or not.
pub(super) fn bucket_acl(bucket: &ConfiguredBucket) -> GroupGrants {
    let owner = bucket.info.owner.as_str();
    let read = |root: Element<'_>| RequestedAcl::parse(root, owner).ok().map(|acl| acl.grants);
    stored(bucket, BucketConfigurationKind::Acl, read, GroupGrants::NONE).unwrap_or_default()
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

/// The parsed form of a stored document; `closed` for one that cannot be read.
fn stored<T: Copy + Send + Sync + 'static>(
    bucket: &ConfiguredBucket,
    kind: BucketConfigurationKind,
    read: impl FnOnce(Element<'_>) -> Option<T>,
    closed: T,
) -> Option<T> {
    let parse = |document: &[u8]| {
        let value = Document::parse(document).ok().and_then(|document| read(document.root()));
        value.unwrap_or_else(|| {
            log::error!("the {} of the bucket {} cannot be read", kind.as_str(), bucket.info.name);
            closed
        })
    };
    Some(*bucket.configuration(kind)?.parsed(parse))
}
