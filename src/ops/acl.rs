//! The access control lists of buckets and objects. An object belongs to the user who put it, unless
//! its bucket gives all objects to its own owner. Anonymous users own nothing.

use std::borrow::Cow;

use super::access::{self, Place};
use super::amend::amend;
use super::client_error::ForClient as _;
use super::configurations::{grant_to_store, object_acl, recorded_owner, to_store};
use super::{Context, body, configurations, lookup, version_id};
use crate::auth::{Action, Authorized, Identity};
use crate::base::Timestamp;
use crate::base::limits::ACL_GRANTS_MAX;
use crate::s3::acl::{
    Acl, AclPermission, AclPermissions, GRANTS_ROOT, LOG_DELIVERY, NamedGrant, OwnerShare, POLICY_ROOT,
    RequestedAcl, is_mark_of_listed_owner,
};
use crate::s3::render::xml;
use crate::s3::{Call, ErrorCode, ObjectOwnership, Operation, Response, S3Error, XmlConfiguration as _};
use crate::store::{
    BucketConfigurationKind, ConfiguredBucket, NamedUsers, ObjectControls, ObjectOwner, Selector,
    UploadSummary, VersionRecord, VersionSummary,
};

/// GetBucketAcl. Where ACLs are off, the owner alone has access by them.
pub(super) fn get_of_bucket(
    context: &Context,
    proof: &Authorized,
    call: &Call<'_>,
) -> Result<Response, S3Error> {
    let bucket = context.store.configured_bucket(call.bucket()).for_client(call)?;
    let acl = configurations::bucket_acl(&bucket).clone();
    Ok(policy(context, proof.identity(), &bucket, acl, &bucket.info.owner))
}

/// GetObjectAcl, likewise.
pub(super) fn get_of_object(
    context: &Context,
    proof: &Authorized,
    call: &Call<'_>,
) -> Result<Response, S3Error> {
    let found = lookup::target(context, proof, call)?;
    let bucket = context.store.configured_bucket(call.bucket()).for_client(call)?;
    let owner = owner(context, proof.identity(), &bucket, &found.version);
    let response = policy(context, proof.identity(), &bucket, object_acl(&found.version), owner);
    Ok(version_id::add_version_id(context, response, &found))
}

/// The ACL as it counts. What a user was given who has been removed, or made anew since, is left
/// out: a client that puts back what it read must not give it to another user of that name.
fn policy(
    context: &Context,
    identity: &Identity,
    bucket: &ConfiguredBucket,
    mut acl: Acl,
    owner: &str,
) -> Response {
    if !configurations::ownership(context, bucket).has_acls() {
        acl = Acl::PRIVATE;
    }
    acl.users.retain(|grant| {
        let user = identity.known_in_acls(&grant.grantee);
        grant.grantee == LOG_DELIVERY
            || is_mark_of_listed_owner(&grant.grantee)
            || user.is_some_and(|user| user.is_meant(&grant.grantee, grant.since))
    });
    let mut document = context.document(POLICY_ROOT);
    acl.render_policy(&mut document, owner);
    xml(200, document)
}

/// The owner of an object: the one in its record where ACLs are in effect, and that user is still
/// there; else that of the bucket.
fn owner<'o>(
    context: &Context,
    identity: &Identity,
    bucket: &'o ConfiguredBucket,
    version: &'o VersionRecord,
) -> &'o str {
    owner_of_record(context, identity, bucket, recorded_owner(version.controls.users.as_deref()))
}

/// As [`owner`], for the owner that a record names.
fn owner_of_record<'o>(
    context: &Context,
    identity: &Identity,
    bucket: &'o ConfiguredBucket,
    recorded: Option<&'o ObjectOwner>,
) -> &'o str {
    let recorded = recorded.filter(|_| configurations::ownership(context, bucket).has_acls());
    let known = recorded.filter(|owner| {
        let user = identity.known_in_acls(&owner.name);
        user.is_some_and(|user| user.is_meant(&owner.name, owner.since))
    });
    known.map_or(bucket.info.owner.as_str(), |owner| owner.name.as_str())
}

/// The owners that a listing of a bucket shows.
pub(super) struct ListedOwners<'l> {
    context: &'l Context,
    identity: &'l Identity,
    bucket: ConfiguredBucket,
    /// Whether objects may have owners of their own.
    has_acls: bool,
}

impl<'l> ListedOwners<'l> {
    /// The owners in that bucket.
    pub(super) fn of(context: &'l Context, proof: &'l Authorized, bucket: ConfiguredBucket) -> Self {
        let has_acls = configurations::ownership(context, &bucket).has_acls();
        Self { context, identity: proof.identity(), bucket, has_acls }
    }

    /// The owner of a version. Listings have no owners, so that each is looked up where objects may
    /// have one of their own. A version that is gone meanwhile, and a delete marker, are the bucket
    /// owner's.
    pub(super) fn of_version(&self, key: &str, version: &VersionSummary) -> Cow<'_, str> {
        let bucket = &self.bucket.info;
        if version.delete_marker || !self.has_acls {
            return Cow::Borrowed(&bucket.owner);
        }
        let which = if version.null { Selector::Null } else { Selector::Id(version.id) };
        match self.context.store.find_outline(&bucket.name, key, which) {
            Ok(found) => {
                let owner = owner(self.context, self.identity, &self.bucket, &found.version);
                Cow::Owned(owner.to_owned())
            }
            Err(_) => Cow::Borrowed(&bucket.owner),
        }
    }

    /// The owner of the object that an upload will make.
    pub(super) fn of_upload<'o>(&'o self, upload: &'o UploadSummary) -> &'o str {
        owner_of_record(self.context, self.identity, &self.bucket, upload.owner.as_ref())
    }
}

/// PutBucketAcl. Durable on return.
pub(super) fn put_of_bucket(
    context: &Context,
    proof: &Authorized,
    call: &mut Call<'_>,
) -> Result<Response, S3Error> {
    let bucket = context.store.configured_bucket(call.bucket()).for_client(call)?;
    let owner = bucket.info.owner.as_str();
    let requested = requested(context, call, owner)?;
    if let Some(acl) = allowed(context, proof, call, &bucket, &requested, owner)? {
        let document = stored(context, &acl);
        let kind = BucketConfigurationKind::Acl;
        context.store.set_bucket_configuration(call.bucket(), kind, document).for_client(call)?;
    }
    Ok(Response::new(200))
}

/// PutObjectAcl. Durable on return.
pub(super) fn put_of_object(
    context: &Context,
    proof: &Authorized,
    call: &mut Call<'_>,
) -> Result<Response, S3Error> {
    let found = lookup::target(context, proof, call)?;
    let bucket = context.store.configured_bucket(call.bucket()).for_client(call)?;
    let owner = owner(context, proof.identity(), &bucket, &found.version).to_owned();
    let requested = requested(context, call, &owner)?;
    let acl = allowed(context, proof, call, &bucket, &requested, &owner)?;
    amend(context, call, found, 200, |version| match acl {
        Some(Acl { groups, users }) => {
            let users = users.into_iter().map(grant_to_store).collect();
            context.store.set_acl(call.bucket(), call.key(), version, to_store(groups), users)
        }
        None => Ok(()),
    })
}

/// The ACL in the headers or in the body of a call. `owner` is the present owner.
///
/// # Errors
/// `InvalidRequest` for both; the errors of [`RequestedAcl::from_headers`] and of the body;
/// `MalformedXML`; `AccessDenied` for another owner in the body.
fn requested(context: &Context, call: &mut Call<'_>, owner: &str) -> Result<RequestedAcl, S3Error> {
    let from_headers = RequestedAcl::from_headers(call.vendor())?;
    let request = body::read_document(context, call)?;
    match from_headers {
        Some(acl) if request.is_empty() => Ok(acl),
        Some(_) => Err(S3Error::new(ErrorCode::InvalidRequest)
            .message("An ACL is in the headers of a request or in its body, not in both.")),
        None => parse(&request, owner),
    }
}

fn parse(request: &[u8], owner: &str) -> Result<RequestedAcl, S3Error> {
    let document = body::parse(request, POLICY_ROOT)?;
    let root = document.root();
    if let Some(named) = root.child("Owner").map_err(body::malformed)? {
        let id = named.child_text("ID").map_err(body::malformed)?;
        if id.is_some_and(|id| id.trim() != owner) {
            return Err(S3Error::new(ErrorCode::AccessDenied));
        }
    }
    let list = root.child(GRANTS_ROOT).map_err(body::malformed)?;
    RequestedAcl::parse(list.ok_or_else(|| body::malformed_because("there is no AccessControlList"))?)
}

/// The ACL to set; `None` where ACLs are off and the request changes nothing (S3 user guide,
/// "Controlling ownership of objects and disabling ACLs"). `owner` has full control unless it is a
/// list that says otherwise.
///
/// Where ACLs are off, S3 takes `private` with a new object from the account of the bucket, and SDKs
/// send it unasked. It refuses to set it later, whoever asks.
///
/// # Errors
/// `AccessControlListNotSupported` where ACLs are off; `InvalidArgument` for an unknown user;
/// `AccessDenied` for a public ACL that the public access block refuses.
fn allowed(
    context: &Context,
    proof: &Authorized,
    call: &Call<'_>,
    bucket: &ConfiguredBucket,
    requested: &RequestedAcl,
    owner: &str,
) -> Result<Option<Acl>, S3Error> {
    let bucket_owner = bucket.info.owner.as_str();
    if !configurations::ownership(context, bucket).has_acls() {
        let is_taken = match call.operation {
            Operation::PutBucketAcl | Operation::PutObjectAcl => requested.is_full_control_of(bucket_owner),
            _ => requested.is_without_effect(bucket_owner),
        };
        return match is_taken {
            true => Ok(None),
            false => Err(S3Error::new(ErrorCode::AccessControlListNotSupported)),
        };
    }
    if requested.groups.is_public() && configurations::block(bucket).refuses_acls {
        return Err(S3Error::new(ErrorCode::AccessDenied).message(
            "The ACL is public, which the public access block of the bucket refuses (BlockPublicAcls).",
        ));
    }
    let mut acl = granted(proof.identity(), call.received, requested, owner)?;
    let share = match requested.share {
        OwnerShare::None => AclPermissions::NONE,
        OwnerShare::Read => AclPermissions::of(&[AclPermission::Read]),
        OwnerShare::FullControl => AclPermissions::ALL,
    };
    if share != AclPermissions::NONE && bucket_owner != owner {
        let grantee = bucket_owner.to_owned();
        acl.users.push(NamedGrant { grantee, since: call.received, permissions: share });
    }
    Ok(Some(acl))
}

/// The grants that a request asks for, from now on. Full control of the owner is not among them.
///
/// # Errors
/// `InvalidArgument` for a user whom the users file does not have; `MalformedACLError` for more
/// grants than a list may have.
fn granted(
    identity: &Identity,
    now: Timestamp,
    requested: &RequestedAcl,
    owner: &str,
) -> Result<Acl, S3Error> {
    let of_owner = requested.listed_of_owner(owner);
    let mut users = Vec::new();
    if of_owner.is_some() {
        users.push(Acl::mark_of_listed_owner(now));
    }
    let of_others = requested.users.iter().filter(|grant| grant.grantee != owner);
    for grant in of_owner.into_iter().flatten().chain(of_others) {
        if grant.grantee != owner
            && grant.grantee != LOG_DELIVERY
            && identity.known_in_acls(&grant.grantee).is_none()
        {
            let message = "There is no user of this id. The id of a user is its name.";
            return Err(S3Error::invalid_argument("CanonicalUser/ID", &grant.grantee, message));
        }
        let grantee = grant.grantee.clone();
        users.push(NamedGrant { grantee, since: now, permissions: grant.permissions });
    }
    // The mark takes a place of its own.
    if users.len() > ACL_GRANTS_MAX {
        return Err(S3Error::new(ErrorCode::MalformedACLError).message(format!(
            "A list that does not give the owner FULL_CONTROL has at most {} grants.",
            ACL_GRANTS_MAX - 1
        )));
    }
    Ok(Acl { groups: requested.groups, users })
}

/// The ACL and the owner of a new object: the ACL that the headers ask for, which takes a permission
/// of its own (S3 API reference, PutObject, "Permissions").
///
/// # Errors
/// As [`RequestedAcl::from_headers`] and [`allowed`]; `AccessDenied`.
pub(super) fn of_new_object(
    context: &Context,
    proof: &Authorized,
    call: &Call<'_>,
    bucket: &ConfiguredBucket,
) -> Result<ObjectControls, S3Error> {
    let mut names = call.vendor().iter().map(|(name, _)| name);
    let requested = match names.any(|name| name == "acl" || name.starts_with("grant-")) {
        true => RequestedAcl::from_headers(call.vendor())?,
        false => None,
    };
    let share = requested.as_ref().map_or(OwnerShare::None, |acl| acl.share);
    let own = owner_of_new(context, proof, call, bucket, share);
    let Some(requested) = requested else {
        return Ok(ObjectControls { users: NamedUsers::of(own, Vec::new()), ..ObjectControls::default() });
    };
    let owner = own.as_ref().map_or(bucket.info.owner.as_str(), |own| own.name.as_str());
    let acl = allowed(context, proof, call, bucket, &requested, owner)?.unwrap_or_default();
    if !acl.is_private() {
        let place = Place::target(call);
        // S3 has anonymous senders own what they put, so that they may say who reads it.
        let is_own = own.is_some() || proof.identity().is_anonymous() && keeps_writer(context, bucket, share);
        let place = if is_own { place.own() } else { place };
        access::check(context, proof, call, Action::PutObjectAcl, place)?;
    }
    let grants = acl.users.into_iter().map(grant_to_store).collect();
    Ok(ObjectControls {
        acl: to_store(acl.groups),
        users: NamedUsers::of(own, grants),
        ..ObjectControls::default()
    })
}

/// The owner of a new object, if it is not that of the bucket (S3 user guide, "Controlling ownership
/// of objects and disabling ACLs").
fn owner_of_new(
    context: &Context,
    proof: &Authorized,
    call: &Call<'_>,
    bucket: &ConfiguredBucket,
    share: OwnerShare,
) -> Option<ObjectOwner> {
    let user = proof.identity().in_acls().filter(|user| user.name != bucket.info.owner)?;
    let keeps = keeps_writer(context, bucket, share);
    keeps.then(|| ObjectOwner { name: user.name.to_owned(), since: call.received })
}

/// Whether objects of a bucket belong to who puts them with such a share of its owner.
fn keeps_writer(context: &Context, bucket: &ConfiguredBucket, share: OwnerShare) -> bool {
    match configurations::ownership(context, bucket) {
        ObjectOwnership::BucketOwnerEnforced => false,
        ObjectOwnership::BucketOwnerPreferred => share != OwnerShare::FullControl,
        ObjectOwnership::ObjectWriter => true,
    }
}

/// The configurations of a new bucket: the ownership and the ACL that the headers ask for. Each
/// takes a permission of its own (S3 API reference, CreateBucket, "Permissions").
///
/// # Errors
/// As [`RequestedAcl::from_headers`]; `InvalidArgument` for an unknown ownership or user;
/// `InvalidBucketAclWithObjectOwnership` for an ACL where ACLs are off; `AccessDenied`.
pub(super) fn of_new_bucket(
    context: &Context,
    proof: &Authorized,
    call: &Call<'_>,
) -> Result<Vec<(BucketConfigurationKind, Vec<u8>)>, S3Error> {
    let mut documents = Vec::new();
    let place = Place::new_bucket(call.bucket(), proof.user());
    let ownership = named_ownership(call)?;
    if let Some(ownership) = ownership {
        access::check(context, proof, call, Action::PutBucketOwnershipControls, place)?;
        documents.push((BucketConfigurationKind::OwnershipControls, ownership.to_document()));
    }
    let Some(requested) = RequestedAcl::from_headers(call.vendor())? else { return Ok(documents) };
    let acl = granted(proof.identity(), call.received, &requested, proof.user())?;
    if !acl.is_private() && !ownership.unwrap_or(context.object_ownership).has_acls() {
        return Err(S3Error::new(ErrorCode::InvalidBucketAclWithObjectOwnership));
    }
    if let Some(document) = stored(context, &acl) {
        access::check(context, proof, call, Action::PutBucketAcl, place)?;
        documents.push((BucketConfigurationKind::Acl, document));
    }
    Ok(documents)
}

/// The ownership that the header `p-object-ownership` names.
fn named_ownership(call: &Call<'_>) -> Result<Option<ObjectOwnership>, S3Error> {
    let Some(name) = call.vendor_header("object-ownership") else { return Ok(None) };
    let Some(ownership) = ObjectOwnership::named(name) else {
        let header = format!("{}object-ownership", call.dialect.header_prefix());
        return Err(S3Error::invalid_argument(&header, name, "There is no such object ownership."));
    };
    Ok(Some(ownership))
}

/// The document of the ACL of a bucket; `None` for no grants.
fn stored(context: &Context, acl: &Acl) -> Option<Vec<u8>> {
    (!acl.is_private()).then(|| {
        let mut document = context.document(GRANTS_ROOT);
        acl.render_stored(&mut document);
        document.finish()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::configurations::from_store;
    use crate::s3::acl::{AclGroup, AclPermission, GroupGrants};
    use crate::store::AclGrants;

    #[test]
    fn each_grant_has_the_bit_that_the_store_gives_it() {
        use AclGroup::{AllUsers, AuthenticatedUsers};
        use AclPermission::{Read, ReadAcp, Write, WriteAcp};
        for (group, permission, stored) in [
            (AllUsers, Read, AclGrants::ALL_READ),
            (AllUsers, Write, AclGrants::ALL_WRITE),
            (AllUsers, ReadAcp, AclGrants::ALL_READ_ACP),
            (AllUsers, WriteAcp, AclGrants::ALL_WRITE_ACP),
            (AuthenticatedUsers, Read, AclGrants::AUTHENTICATED_READ),
            (AuthenticatedUsers, Write, AclGrants::AUTHENTICATED_WRITE),
            (AuthenticatedUsers, ReadAcp, AclGrants::AUTHENTICATED_READ_ACP),
            (AuthenticatedUsers, WriteAcp, AclGrants::AUTHENTICATED_WRITE_ACP),
        ] {
            let grants = GroupGrants::NONE.with(group, permission);
            assert_eq!((to_store(grants), from_store(stored)), (stored, grants));
        }
    }
}
