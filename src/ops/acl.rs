//! The access control lists of buckets and objects. An object belongs to the owner of its bucket.

use super::access::{self, Place};
use super::amend::amend;
use super::client_error::ForClient as _;
use super::configurations::{object_acl, to_store};
use super::{Context, body, configurations, lookup, version_id};
use crate::auth::{Action, Authorized};
use crate::s3::acl::{GRANTS_ROOT, GroupGrants, POLICY_ROOT, RequestedAcl};
use crate::s3::render::xml;
use crate::s3::{Call, ErrorCode, ObjectOwnership, Response, S3Error, XmlConfiguration as _};
use crate::store::{BucketConfigurationKind, ConfiguredBucket, ObjectControls};

/// GetBucketAcl. Where ACLs are off, the owner alone has access by them.
pub(super) fn get_of_bucket(context: &Context, _: &Authorized, call: &Call<'_>) -> Result<Response, S3Error> {
    let bucket = context.store.configured_bucket(call.bucket()).for_client(call)?;
    Ok(policy(context, &bucket, configurations::bucket_acl(&bucket)))
}

/// GetObjectAcl, likewise.
pub(super) fn get_of_object(
    context: &Context,
    proof: &Authorized,
    call: &Call<'_>,
) -> Result<Response, S3Error> {
    let found = lookup::target(context, proof, call)?;
    let bucket = context.store.configured_bucket(call.bucket()).for_client(call)?;
    let response = policy(context, &bucket, object_acl(&found.version));
    Ok(version_id::add_version_id(context, response, &found))
}

fn policy(context: &Context, bucket: &ConfiguredBucket, grants: GroupGrants) -> Response {
    let has_acls = configurations::ownership(context, bucket).has_acls();
    let grants = if has_acls { grants } else { GroupGrants::NONE };
    let mut document = context.document(POLICY_ROOT);
    grants.render_policy(&mut document, &bucket.info.owner);
    xml(200, document)
}

/// PutBucketAcl. Durable on return.
pub(super) fn put_of_bucket(
    context: &Context,
    _: &Authorized,
    call: &mut Call<'_>,
) -> Result<Response, S3Error> {
    let bucket = context.store.configured_bucket(call.bucket()).for_client(call)?;
    let requested = requested(context, call, &bucket)?;
    if let Some(grants) = allowed(context, &bucket, &requested)? {
        let document = stored(context, grants);
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
    let requested = requested(context, call, &bucket)?;
    let grants = allowed(context, &bucket, &requested)?;
    amend(context, call, found, 200, |version| match grants {
        Some(grants) => context.store.set_acl(call.bucket(), call.key(), version, to_store(grants)),
        None => Ok(()),
    })
}

/// The ACL in the headers or in the body of a call.
///
/// # Errors
/// `InvalidRequest` for both; the errors of [`RequestedAcl::from_headers`] and of the body;
/// `MalformedXML`; `AccessDenied` for another owner in the body.
fn requested(
    context: &Context,
    call: &mut Call<'_>,
    bucket: &ConfiguredBucket,
) -> Result<RequestedAcl, S3Error> {
    let owner = bucket.info.owner.as_str();
    let from_headers = RequestedAcl::from_headers(call.vendor(), owner)?;
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
    RequestedAcl::parse(list.ok_or_else(|| body::malformed_because("there is no AccessControlList"))?, owner)
}

/// The grants to set; `None` where ACLs are off and the request changes nothing (S3 user guide,
/// "Controlling ownership of objects and disabling ACLs").
///
/// # Errors
/// `AccessControlListNotSupported` where ACLs are off; `NotImplemented` for a grantee that is not
/// supported; `AccessDenied` for a public ACL that the public access block refuses.
fn allowed(
    context: &Context,
    bucket: &ConfiguredBucket,
    requested: &RequestedAcl,
) -> Result<Option<GroupGrants>, S3Error> {
    if !configurations::ownership(context, bucket).has_acls() {
        return match requested.is_without_effect {
            true => Ok(None),
            false => Err(S3Error::new(ErrorCode::AccessControlListNotSupported)),
        };
    }
    check_served(requested)?;
    if requested.grants.is_public() && configurations::block(bucket).refuses_acls {
        return Err(S3Error::new(ErrorCode::AccessDenied).message(
            "The ACL is public, which the public access block of the bucket refuses (BlockPublicAcls).",
        ));
    }
    Ok(Some(requested.grants))
}

fn check_served(requested: &RequestedAcl) -> Result<(), S3Error> {
    match &requested.unserved {
        Some(name) => Err(S3Error::new(ErrorCode::NotImplemented)
            .message(format!(
                "ACLs grant to the owner, to AllUsers and to AuthenticatedUsers, not to {name}."
            ))
            .element("Grantee", name)),
        None => Ok(()),
    }
}

/// The controls of a new object: the ACL that the headers ask for. Grants take a permission of
/// their own (S3 API reference, PutObject, "Permissions").
///
/// # Errors
/// As [`RequestedAcl::from_headers`] and [`allowed`]; `AccessDenied`; `NoSuchBucket`.
pub(super) fn of_new_object(
    context: &Context,
    proof: &Authorized,
    call: &Call<'_>,
) -> Result<ObjectControls, S3Error> {
    let mut names = call.vendor().iter().map(|(name, _)| name);
    if !names.any(|name| name == "acl" || name.starts_with("grant-")) {
        return Ok(ObjectControls::default());
    }
    let bucket = context.store.configured_bucket(call.bucket()).for_client(call)?;
    let requested = RequestedAcl::from_headers(call.vendor(), &bucket.info.owner)?;
    let requested = requested.unwrap_or_else(RequestedAcl::private);
    let grants = allowed(context, &bucket, &requested)?.unwrap_or_default();
    if grants.is_public() {
        access::check(context, proof, call, Action::PutObjectAcl, Place::target(call))?;
    }
    Ok(ObjectControls { acl: to_store(grants), ..ObjectControls::default() })
}

/// The configurations of a new bucket: the ownership and the ACL that the headers ask for. Each
/// takes a permission of its own (S3 API reference, CreateBucket, "Permissions").
///
/// # Errors
/// As [`RequestedAcl::from_headers`]; `InvalidArgument` for an unknown ownership;
/// `NotImplemented` for a grantee that is not supported; `InvalidBucketAclWithObjectOwnership` for
/// an ACL where ACLs are off; `AccessDenied`.
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
    let Some(acl) = RequestedAcl::from_headers(call.vendor(), proof.user())? else { return Ok(documents) };
    check_served(&acl)?;
    if acl.grants.is_public() && !ownership.unwrap_or(context.object_ownership).has_acls() {
        return Err(S3Error::new(ErrorCode::InvalidBucketAclWithObjectOwnership));
    }
    if let Some(document) = stored(context, acl.grants) {
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

/// The document of the grants of a bucket; `None` for no grants.
fn stored(context: &Context, grants: GroupGrants) -> Option<Vec<u8>> {
    grants.is_public().then(|| {
        let mut document = context.document(GRANTS_ROOT);
        grants.render(&mut document);
        document.finish()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::configurations::from_store;
    use crate::s3::acl::{AclGroup, AclPermission};
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
