//! The properties of a new object besides its bytes, and the checks before a put.

use super::access::{self, Place};
use super::client_error::ForClient as _;
use super::{Context, acl, lookup, object_lock};
use crate::auth::{Action, Authorized};
use crate::base::Timestamp;
use crate::s3::integrity::Integrity;
use crate::s3::replication::{REPLICA, REPLICATION_STATUS};
use crate::s3::{Call, ErrorCode, Operation, S3Error, conditions, metadata};
use crate::store::{Attributes, ObjectControls, Selector, StorageClass, StoreError, WriteCondition};

/// Headers of unsupported features. Ignoring one would break a promise.
const UNSERVED: [&str; 1] = ["write-offset-bytes"];

/// The header with the modification time of an object that is imported.
const STATED_TIME: &str = "siltstone-modified";

/// Refuses requests for unsupported features.
///
/// # Errors
/// `NotImplemented`; `InvalidArgument` for a `partNumber` without `uploadId`.
pub(super) fn check_served(call: &Call<'_>) -> Result<(), S3Error> {
    if let Some(number) = call.query.get("partNumber").filter(|_| !call.query.has("uploadId")) {
        let message = "A part needs the uploadId of its upload.";
        return Err(S3Error::invalid_argument("partNumber", number, message));
    }
    let vendor = call.vendor();
    match vendor.iter().map(|(name, _)| name).find(|name| UNSERVED.contains(name)) {
        Some(name) => {
            let header = format!("{}{name}", call.dialect.header_prefix());
            Err(S3Error::new(ErrorCode::NotImplemented).element("Header", header))
        }
        None => Ok(()),
    }
}

/// The attributes of the object from the headers, and its status where a mirror writes it.
///
/// # Errors
/// As [`metadata::collect`].
pub(super) fn attributes(
    context: &Context,
    proof: &Authorized,
    call: &Call<'_>,
) -> Result<Attributes, S3Error> {
    let mut attributes = attributes_of(metadata::collect(call.headers(), call.vendor())?);
    if !context.origins(proof, call).is_empty() {
        attributes.push(REPLICATION_STATUS, REPLICA);
    }
    Ok(attributes)
}

/// Names and values as attributes.
pub(super) fn attributes_of(collected: Vec<(String, String)>) -> Attributes {
    let mut attributes = Attributes::new();
    for (name, value) in collected {
        attributes.push(name, value);
    }
    attributes
}

/// The modification time that the request states in place of the present.
///
/// # Errors
/// `AccessDenied` without the permission to state one; `InvalidArgument` for another form than that
/// of documents or headers.
pub(super) fn stated_time(
    context: &Context,
    proof: &Authorized,
    call: &Call<'_>,
) -> Result<Option<Timestamp>, S3Error> {
    let Some(value) = call.vendor().get(STATED_TIME) else { return Ok(None) };
    access::check(context, proof, call, Action::PutObjectStatedTime, Place::target(call))?;
    let text = String::from_utf8_lossy(value);
    let time = Timestamp::parse_iso8601(&text).or_else(|| Timestamp::parse_http_date(&text));
    time.map(Some).ok_or_else(|| {
        let name = format!("{}{STATED_TIME}", call.dialect.header_prefix());
        S3Error::invalid_argument(&name, &text, "This is no time such as 2026-02-03T04:05:06.007Z.")
    })
}

/// Refuses a stated modification time in requests that make no object.
///
/// # Errors
/// `InvalidRequest`.
pub(super) fn check_time_is_of_use(call: &Call<'_>) -> Result<(), S3Error> {
    let is_of_use = matches!(
        call.operation,
        Operation::PutObject
            | Operation::PostObject
            | Operation::CopyObject
            | Operation::CompleteMultipartUpload
    );
    if is_of_use || call.vendor().get(STATED_TIME).is_none() {
        return Ok(());
    }
    let name = format!("{}{STATED_TIME}", call.dialect.header_prefix());
    Err(S3Error::new(ErrorCode::InvalidRequest)
        .message(format!("{name} is a header of PutObject, CopyObject and CompleteMultipartUpload.")))
}

/// The controls of a new object. `integrity` holds the digests that the request declares, if it has
/// the bytes.
///
/// # Errors
/// As [`acl::of_new_object`] and [`object_lock::of_new_object`].
pub(super) fn controls(
    context: &Context,
    proof: &Authorized,
    call: &Call<'_>,
    integrity: Option<&Integrity>,
) -> Result<ObjectControls, S3Error> {
    let bucket = context.store.configured_bucket(call.bucket()).for_client(call)?;
    let ObjectControls { acl, users, .. } = acl::of_new_object(context, proof, call, &bucket)?;
    let locks = object_lock::of_new_object(context, proof, call, integrity, &bucket)?;
    Ok(ObjectControls { acl, users, ..locks })
}

/// The storage class of a new object. Classes that the store does not know count as the usual one:
/// all objects with them are kept here, as durable as any other.
pub(super) fn storage_class(call: &Call<'_>) -> StorageClass {
    call.vendor_header("storage-class").and_then(StorageClass::named).unwrap_or_default()
}

/// The condition of the write: the headers', and for users who may only create, that the key
/// has no current version.
///
/// # Errors
/// As [`conditions::write_condition`] and [`check_may_compare`].
pub(super) fn condition(
    context: &Context,
    proof: &Authorized,
    call: &Call<'_>,
) -> Result<WriteCondition, S3Error> {
    let condition = conditions::write_condition(call.headers())?;
    if condition.tells_content() {
        // An answer to a guess of the entity tag tells about the bytes: it takes the permission to
        // read them.
        check_may_compare(context, proof, call, Place::object(call.bucket(), call.key()))?;
    }
    Ok(match (proof.action(), condition) {
        // The permission for new keys alone is a condition of the commit: a look before it would
        // let two puts of one key through.
        (Action::CreateObject, WriteCondition::None) => WriteCondition::IfAbsent,
        (Action::CreateObject, stated) => WriteCondition::Both(Box::new((WriteCondition::IfAbsent, stated))),
        (_, stated) => stated,
    })
}

/// Checks that the caller may read the version whose entity tag a condition compares, since the
/// outcome reveals it (S3 user guide, "Conditional writes", "Permissions").
///
/// # Errors
/// `AccessDenied`.
pub(super) fn check_may_compare(
    context: &Context,
    proof: &Authorized,
    call: &Call<'_>,
    place: Place<'_>,
) -> Result<(), S3Error> {
    let action = if place.names_version() { Action::GetObjectVersion } else { Action::GetObject };
    access::check(context, proof, call, action, place)
}

/// Checks the condition before the body is read. The commit checks it again and decides.
///
/// # Errors
/// `PreconditionFailed`; `NoSuchKey` or, without the permission to list the bucket, `AccessDenied`;
/// `NoSuchBucket`.
pub(super) fn check_early(
    context: &Context,
    proof: &Authorized,
    call: &Call<'_>,
    condition: &WriteCondition,
) -> Result<(), S3Error> {
    if *condition == WriteCondition::None {
        return Ok(());
    }
    let current = match context.store.find(call.bucket(), call.key(), Selector::Current) {
        Ok(found) => Some(found.version).filter(|version| !version.delete_marker),
        Err(StoreError::NoSuchKey) => None,
        Err(error) => return Err(error).for_client(call),
    };
    let current = current.map(|version| version.etag.to_string());
    committed(condition.check(current.as_deref()).map_err(StoreError::from), context, proof, call)
}

/// Whether the sender may not learn that the target of a conditional write is missing: for work
/// that outlasts the call. Without a condition nothing shows it.
pub(super) fn hides_absence(
    condition: &WriteCondition,
    context: &Context,
    proof: &Authorized,
    call: &Call<'_>,
) -> bool {
    *condition != WriteCondition::None
        && !access::may(context, proof, call, Action::ListBucket, Place::target(call))
}

/// Converts the outcome of a conditional write.
///
/// # Errors
/// Errors of the store; `AccessDenied` for a missing key that must be concealed.
pub(super) fn committed<T>(
    outcome: Result<T, StoreError>,
    context: &Context,
    proof: &Authorized,
    call: &Call<'_>,
) -> Result<T, S3Error> {
    outcome
        .for_client(call)
        .map_err(|error| lookup::conceal(error, context, proof, call, Place::target(call)))
}
