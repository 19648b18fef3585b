//! The configurations of buckets and the ACLs of objects that decide about access, in their parsed
//! forms. A stored document was checked when it was set; one that cannot be read, as after a return
//! to an older version of the program, closes the bucket rather than opening it.

use super::{Context, stored_document};
use crate::auth::BucketPolicy;
use crate::s3::acl::{
    Acl, AclPermission, AclPermissions, AclUser, GroupGrants, NamedGrant, is_mark_of_listed_owner,
};
use crate::s3::{ObjectOwnership, PublicAccessBlock};
use crate::store::{
    AclGrants, BucketConfigurationKind, ConfiguredBucket, NamedUsers, ObjectOwner, UserGrant, VersionRecord,
};
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
pub(super) fn bucket_acl(bucket: &ConfiguredBucket) -> &Acl {
    static PRIVATE: Acl = Acl::PRIVATE;

    let Some(configuration) = bucket.configuration(BucketConfigurationKind::Acl) else { return &PRIVATE };
    configuration.parsed(|document| {
        parse_acl(document).unwrap_or_else(|| {
            log::error!("the acl of the bucket {} cannot be read", bucket.info.name);
            Acl::PRIVATE
        })
    })
}

fn parse_acl(document: &[u8]) -> Option<Acl> {
    let document = Document::parse(document).ok()?;
    Acl::parse_stored(document.root()).ok()
}

/// The ACL of an object, in effect or not.
pub(super) fn object_acl(version: &VersionRecord) -> Acl {
    let grants = version.controls.users.iter().flat_map(|users| &users.grants);
    Acl { groups: from_store(version.controls.acl), users: grants.map(named_grant).collect() }
}

/// What the ACL of an object grants groups, in effect or not.
pub(super) fn object_groups(version: &VersionRecord) -> GroupGrants {
    from_store(version.controls.acl)
}

/// What the ACL of an object grants a user by his name, in effect or not: everything to its owner,
/// unless it lists what he has. He may read and change the list in any case, as he could not mend
/// it otherwise.
pub(super) fn named_in_object(version: &VersionRecord, user: AclUser<'_>) -> AclPermissions {
    let Some(users) = &version.controls.users else { return AclPermissions::NONE };
    let mut kept = AclPermissions::NONE;
    if is_owner(users.owner.as_ref(), user) {
        if !users.grants.iter().any(|grant| is_mark_of_listed_owner(&grant.name)) {
            return AclPermissions::ALL;
        }
        kept = AclPermissions::of(&[AclPermission::ReadAcp, AclPermission::WriteAcp]);
    }
    let meant = users.grants.iter().filter(|grant| user.is_meant(&grant.name, grant.since));
    meant.fold(kept, |all, grant| all.with(AclPermissions::from_bits(grant.permissions)))
}

/// Whether a user is the owner that a record names.
pub(super) fn is_owner(owner: Option<&ObjectOwner>, user: AclUser<'_>) -> bool {
    owner.is_some_and(|owner| user.is_meant(&owner.name, owner.since))
}

/// The owner that a record names.
pub(super) fn recorded_owner(users: Option<&NamedUsers>) -> Option<&ObjectOwner> {
    users.and_then(|users| users.owner.as_ref())
}

fn named_grant(grant: &UserGrant) -> NamedGrant {
    let permissions = AclPermissions::from_bits(grant.permissions);
    NamedGrant { grantee: grant.name.clone(), since: grant.since, permissions }
}

/// A grant as it is stored.
pub(super) fn grant_to_store(grant: NamedGrant) -> UserGrant {
    UserGrant { name: grant.grantee, since: grant.since, permissions: grant.permissions.bits() }
}

/// The grants of a stored list.
pub(super) fn from_store(grants: AclGrants) -> GroupGrants {
    GroupGrants::from_bits(grants.bits())
}

/// The grants as they are stored.
pub(super) fn to_store(grants: GroupGrants) -> AclGrants {
    AclGrants::from_bits(grants.bits())
}
