//! CreateBucket, DeleteBucket, HeadBucket, GetBucketLocation and ListBuckets.

use super::access::{self, Place};
use super::client_error::ForClient as _;
use super::listing::write_user;
use super::{Context, acl, body, memory, quota, token};
use crate::auth::{Action, Authorized};
use crate::base::Reservation;
use crate::s3::object_lock::LockConfiguration;
use crate::s3::render::xml;
use crate::s3::tags::{self, BucketTags};
use crate::s3::{BucketName, Call, Dialect, ErrorCode, Response, S3Error, XmlConfiguration as _};
use crate::store::{BucketConfigurationKind, BucketInfo, NewBucket, StoreError, Versioning};

/// Buckets on one page of their listing (S3 API reference, ListBuckets, "max-buckets").
const BUCKETS_PAGE_MAX: usize = 10_000;
/// The memory of one bucket while ListBuckets filters all of them.
const BUCKET_BYTES: u64 = 512;

/// CreateBucket. Durable on return.
pub(super) fn create(
    context: &Context,
    proof: &Authorized,
    call: &mut Call<'_>,
) -> Result<Response, S3Error> {
    BucketName::new(call.bucket())?;
    let configuration = body::read_document(context, call)?;
    let tags = check_configuration(context, &configuration)?;
    match context.store.create_configured_bucket(new_bucket(context, proof, call, &tags)?) {
        // Clients that retry treat this as success (S3 API reference, CreateBucket).
        Err(StoreError::BucketExists { owner }) if owner == proof.user() && call.dialect == Dialect::Aws => {
            Err(S3Error::new(ErrorCode::BucketAlreadyOwnedByYou).element("BucketName", call.bucket()))
        }
        made => made
            .for_client(call)
            .map(|_| Response::new(200).header("Location", format!("/{}", call.bucket()))),
    }
}

/// The new bucket, with its access control list, and with the tags and the object lock that the
/// caller asks for, if it may set them.
fn new_bucket(
    context: &Context,
    proof: &Authorized,
    call: &Call<'_>,
    tags: &BucketTags,
) -> Result<NewBucket, S3Error> {
    let name = call.bucket().to_owned();
    let owner = proof.user().to_owned();
    let mut configurations = acl::of_new_bucket(context, proof, call)?;
    if !tags.0.is_empty() {
        let place = Place::new_bucket(call.bucket(), proof.user());
        access::check(context, proof, call, Action::PutBucketTagging, place)?;
        configurations.push((BucketConfigurationKind::Tags, tags.to_document()));
    }
    let locked = call.vendor_header("bucket-object-lock-enabled");
    if !locked.is_some_and(|value| value.eq_ignore_ascii_case("true")) {
        return Ok(NewBucket { name, owner, versioning: Versioning::Unset, configurations });
    }
    for action in [Action::PutBucketObjectLockConfiguration, Action::PutBucketVersioning] {
        access::check(context, proof, call, action, Place::new_bucket(call.bucket(), proof.user()))?;
    }
    let document = LockConfiguration::default().to_document();
    configurations.push((BucketConfigurationKind::ObjectLock, document));
    Ok(NewBucket { name, owner, versioning: Versioning::Enabled, configurations })
}

/// Checks the requested region of a new bucket. Returns its tags.
fn check_configuration(context: &Context, configuration: &[u8]) -> Result<BucketTags, S3Error> {
    if configuration.is_empty() {
        return Ok(BucketTags::default());
    }
    let document = body::parse(configuration, "CreateBucketConfiguration")?;
    let location = document.root().child_text("LocationConstraint").map_err(body::malformed)?;
    let tags = tags::of_new_bucket(document.root())?;
    match location.as_deref().map_or("", str::trim) {
        "" | "eu" | "EU" => Ok(tags),
        location if location == context.region || context.any_region => Ok(tags),
        location => {
            Err(S3Error::new(ErrorCode::InvalidLocationConstraint).element("LocationConstraint", location))
        }
    }
}

/// DeleteBucket. Durable on return.
pub(super) fn delete(context: &Context, proof: &Authorized, call: &Call<'_>) -> Result<Response, S3Error> {
    check_sheds_nothing(context, proof, call)?;
    context.store.delete_bucket(call.bucket()).for_client(call)?;
    Ok(Response::new(204))
}

/// Checks that the sender of a call may remove what administrators have set for its bucket: an
/// owner could make the bucket anew without it.
///
/// # Errors
/// `AccessDenied`; `NoSuchBucket`.
fn check_sheds_nothing(context: &Context, proof: &Authorized, call: &Call<'_>) -> Result<(), S3Error> {
    let bucket = context.store.configured_bucket(call.bucket()).for_client(call)?;
    let has_quota = context.store.limited_bucket(call.bucket()).for_client(call)?.is_some();
    let is_placed = bucket.configuration(BucketConfigurationKind::Placement).is_some();
    let place = Place::bucket(call.bucket());
    for (is_set, action, name) in
        [(has_quota, Action::PutBucketQuota, "quota"), (is_placed, Action::PutBucketPlacement, "placement")]
    {
        if is_set && !access::may(context, proof, call, action, place) {
            return Err(S3Error::new(ErrorCode::AccessDenied).message(format!(
                "An administrator has set a {name} for this bucket, so only an administrator may delete it."
            )));
        }
    }
    Ok(())
}

/// HeadBucket.
pub(super) fn head(context: &Context, _: &Authorized, call: &Call<'_>) -> Result<Response, S3Error> {
    let limited = context.store.limited_bucket(call.bucket()).for_client(call)?;
    let response = Response::new(200).header("p-bucket-region", context.region.as_str());
    Ok(match limited {
        Some(limited) => quota::add_headers(response, &limited),
        None => response,
    })
}

/// GetBucketLocation.
pub(super) fn location(context: &Context, _: &Authorized, call: &Call<'_>) -> Result<Response, S3Error> {
    context.store.bucket(call.bucket()).for_client(call)?;
    let mut document = context.document("LocationConstraint");
    document.text(&context.region);
    Ok(xml(200, document))
}

/// ListBuckets: those that the caller may list.
pub(super) fn list(context: &Context, proof: &Authorized, call: &Call<'_>) -> Result<Response, S3Error> {
    let prefix = call.query.get("prefix").unwrap_or_default();
    let limit = call.query.number("max-buckets", 1..=BUCKETS_PAGE_MAX)?.unwrap_or(BUCKETS_PAGE_MAX);
    let after = call.query.get("continuation-token").map(token::decode).transpose()?;
    let _list = memory::reserve(context, BUCKET_BYTES * context.store.bucket_count())?;
    let mut buckets = context.store.buckets();
    buckets.retain(|bucket| {
        bucket.name.starts_with(prefix)
            && after.as_ref().is_none_or(|after| bucket.name > *after)
            && access::may(context, proof, call, Action::ListAllMyBuckets, Place::bucket(&bucket.name))
    });
    let more = buckets.len() > limit;
    buckets.truncate(limit);
    let next = buckets.last().filter(|_| more).map(|last| token::encode(&last.name));
    let held = memory::for_document(context, buckets.iter().map(|bucket| bucket.name.as_str()))?;
    Ok(list_document(context, &held, proof.user(), &buckets, prefix, next.as_deref()).holding(held))
}

fn list_document(
    context: &Context,
    held: &Reservation,
    user: &str,
    buckets: &[BucketInfo],
    prefix: &str,
    next: Option<&str>,
) -> Response {
    let mut document = context.long_document("ListAllMyBucketsResult", held);
    write_user(&mut document, "Owner", user);
    document.element("Buckets", |list| {
        for bucket in buckets {
            list.element("Bucket", |entry| {
                entry.leaf("Name", &bucket.name);
                entry.plain("CreationDate", bucket.created);
            });
        }
    });
    if !prefix.is_empty() {
        document.leaf("Prefix", prefix);
    }
    if let Some(token) = next {
        document.leaf("ContinuationToken", token);
    }
    xml(200, document)
}
