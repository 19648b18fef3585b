//! What a client gives with a new object beside its bytes, and what keeps it from being put.

use super::Context;
use super::failure::ForClient as _;
use crate::s3::conditions::{self, same_tag};
use crate::s3::{Call, ErrorCode, S3Error, metadata};
use crate::store::{Attributes, Selector, StoreError, WriteCondition};

/// Headers that ask for what is not served. To ignore one would be to promise it.
const UNSERVED: [&str; 9] = [
    "copy-source-server-side-encryption-customer-algorithm",
    "object-lock-legal-hold",
    "object-lock-mode",
    "object-lock-retain-until-date",
    "server-side-encryption",
    "server-side-encryption-aws-kms-key-id",
    "server-side-encryption-customer-algorithm",
    "website-redirect-location",
    "write-offset-bytes",
];

/// Refuses a request that asks for what it would not get.
///
/// # Errors
/// `NotImplemented`; `InvalidArgument` for half of what a part takes.
pub(super) fn check_served(call: &Call<'_>) -> Result<(), S3Error> {
    if let Some(number) = call.query.get("partNumber").filter(|_| !call.query.has("uploadId")) {
        let message = "A part needs the uploadId of its upload.";
        return Err(S3Error::invalid_argument("partNumber", number, message));
    }
    let vendor = call.vendor();
    let asks = |name: &str| UNSERVED.contains(&name) || name.starts_with("grant-");
    let shared = call.p("acl").is_some_and(|acl| !matches!(acl, "private" | "bucket-owner-full-control"));
    let asked = vendor.iter().map(|(name, _)| name).find(|name| asks(name)).or(shared.then_some("acl"));
    match asked {
        Some(name) => Err(S3Error::new(ErrorCode::NotImplemented).element("Header", format!("p-{name}"))),
        None => Ok(()),
    }
}

/// The attributes that the headers give to the object.
///
/// # Errors
/// Those of [`metadata::collect`].
pub(super) fn attributes(call: &Call<'_>) -> Result<Attributes, S3Error> {
    let mut attributes = Attributes::new();
    for (name, value) in metadata::collect(call.headers(), call.vendor())? {
        attributes.push(name, value);
    }
    Ok(attributes)
}

/// The condition that the headers put on the write.
///
/// # Errors
/// Those of [`conditions::WriteCondition::from_headers`].
pub(super) fn condition(call: &Call<'_>) -> Result<WriteCondition, S3Error> {
    Ok(match conditions::WriteCondition::from_headers(call.headers())? {
        conditions::WriteCondition::None => WriteCondition::None,
        conditions::WriteCondition::IfAbsent => WriteCondition::IfAbsent,
        conditions::WriteCondition::IfMatch(tag) => WriteCondition::IfMatch(tag),
    })
}

/// Refuses early what the commit would refuse anyway, as things stand now. The commit decides for good.
///
/// # Errors
/// `PreconditionFailed`, `NoSuchKey`, `NoSuchBucket`.
pub(super) fn check_early(
    context: &Context,
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
    let holds = match (condition, current) {
        (WriteCondition::IfMatch(_), None) => Err(StoreError::NoSuchKey),
        (WriteCondition::IfMatch(tag), Some(version)) => {
            Ok(tag == "*" || same_tag(tag, &version.etag.to_string()))
        }
        (WriteCondition::IfAbsent, current) => Ok(current.is_none()),
        (WriteCondition::None, _) => Ok(true),
    };
    match holds {
        Ok(true) => Ok(()),
        Ok(false) => Err(StoreError::PreconditionFailed).for_client(call),
        Err(error) => Err(error).for_client(call),
    }
}
