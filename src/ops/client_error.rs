//! Conversion of the store's errors to S3 errors. Details for the operator go to the log, under the
//! request id.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::key_errors;
use crate::base::limits::PUT_SIZE_MAX_BYTES;
use crate::s3::{Call, ErrorCode, RequestId, S3Error};
use crate::store::StoreError;

const INDEX_FULL: &str = "The index of the store has reached the memory that it may take up. Delete objects or have the limit \
                          (--index-max) raised, then try again.";

const FREE_QUOTA: &str = "Delete objects or abort uploads, or have the quota raised, then try again.";

const LOCKED: &str = "Access Denied because object protected by object lock.";
const LOCK_NEEDS_VERSIONS: &str =
    "Versioning must be 'Enabled' on the bucket for object lock, which cannot be removed again.";

/// Converts a store error into an S3 error.
pub(super) trait ForClient<T> {
    /// Adds the bucket, the key, the version or the upload of `call`, depending on the error.
    fn for_client(self, call: &Call<'_>) -> Result<T, S3Error>;
}

impl<T> ForClient<T> for Result<T, StoreError> {
    fn for_client(self, call: &Call<'_>) -> Result<T, S3Error> {
        self.map_err(|error| RequestNames::of(call).to_client_error(&error))
    }
}

/// The names in a request that its errors quote, for work that outlasts the call.
pub(super) struct RequestNames {
    pub(super) id: RequestId,
    pub(super) bucket: String,
    pub(super) key: String,
    version: String,
    upload: String,
    conditions: String,
}

impl RequestNames {
    /// The names in `call`.
    pub(super) fn of(call: &Call<'_>) -> Self {
        Self {
            id: call.id.clone(),
            bucket: call.bucket().to_owned(),
            key: call.key().to_owned(),
            version: call.query.get("versionId").unwrap_or_default().to_owned(),
            upload: call.query.get("uploadId").unwrap_or_default().to_owned(),
            conditions: conditions_of(call),
        }
    }

    /// Converts `error`, with the name that was not found.
    pub(super) fn to_client_error(&self, error: &StoreError) -> S3Error {
        let converted = client_error_naming(error, &self.id, &self.bucket, &self.key, &self.version);
        match (converted.code, error) {
            (ErrorCode::InvalidPart, StoreError::PartReplaced(number)) => {
                converted.element("UploadId", self.upload.as_str()).element("PartNumber", number.to_string())
            }
            (ErrorCode::NoSuchUpload | ErrorCode::InvalidPartOrder, _) => {
                converted.element("UploadId", self.upload.as_str())
            }
            (ErrorCode::PreconditionFailed, _) => converted.element("Condition", self.conditions.as_str()),
            _ => converted,
        }
    }
}

/// The conditions that `call` states on the object that it writes or deletes, as errors name them.
/// A sender who may only create states none, and is held to one.
fn conditions_of(call: &Call<'_>) -> String {
    let standard = [("if-match", "If-Match"), ("if-none-match", "If-None-Match")];
    let standard = standard.into_iter().filter(|(name, _)| call.headers().get(name).is_some());
    let of_deletions = ["if-match-size", "if-match-last-modified-time"];
    let of_deletions = of_deletions.into_iter().filter(|name| call.vendor().get(name).is_some());
    let prefix = call.dialect.header_prefix();
    let of_deletions = of_deletions.map(|name| format!("{prefix}{name}"));
    let named: Vec<_> = standard.map(|(_, name)| name.to_owned()).chain(of_deletions).collect();
    if named.is_empty() { "If-None-Match".to_owned() } else { named.join(", ") }
}

/// Converts `error`, with the bucket, the key or the version that was not found.
pub(super) fn client_error_naming(
    error: &StoreError,
    id: &RequestId,
    bucket: &str,
    key: &str,
    version: &str,
) -> S3Error {
    let converted = to_client_error(error, id);
    match converted.code {
        ErrorCode::NoSuchBucket
        | ErrorCode::BucketAlreadyExists
        | ErrorCode::BucketNotEmpty
        | ErrorCode::InvalidBucketState => converted.element("BucketName", bucket),
        ErrorCode::NoSuchKey => converted.element("Key", key),
        ErrorCode::NoSuchVersion => converted.element("Key", key).element("VersionId", version),
        _ => converted,
    }
}

/// Converts `error`. Errors of the server are logged.
pub(super) fn to_client_error(error: &StoreError, id: &RequestId) -> S3Error {
    if let Some(error) = key_errors::client_error(error) {
        return error;
    }
    let code = match error {
        StoreError::NoSuchBucket => ErrorCode::NoSuchBucket,
        StoreError::BucketExists { .. } => ErrorCode::BucketAlreadyExists,
        StoreError::BucketNotEmpty => ErrorCode::BucketNotEmpty,
        StoreError::NoSuchKey => ErrorCode::NoSuchKey,
        StoreError::NoSuchVersion => ErrorCode::NoSuchVersion,
        StoreError::NoSuchUpload => ErrorCode::NoSuchUpload,
        StoreError::PartReplaced(_) => ErrorCode::InvalidPart,
        StoreError::PartsOutOfOrder => ErrorCode::InvalidPartOrder,
        StoreError::PreconditionFailed => ErrorCode::PreconditionFailed,
        StoreError::Locked | StoreError::OtherOwner => ErrorCode::AccessDenied,
        StoreError::InvalidBucketState => ErrorCode::InvalidBucketState,
        StoreError::TooLarge => ErrorCode::EntityTooLarge,
        StoreError::WrongCustomerKey => ErrorCode::AccessDenied,
        StoreError::KeyUnavailable(_)
        | StoreError::WrongRingKey(_)
        | StoreError::CustomerKeyNeeded
        | StoreError::CustomerKeyRefused => ErrorCode::InvalidRequest,
        StoreError::QuotaExceeded { .. } => ErrorCode::QuotaExceeded,
        StoreError::TooManyBuckets { .. } => ErrorCode::TooManyBuckets,
        StoreError::DiskFull | StoreError::IndexFull { .. } => ErrorCode::InsufficientStorage,
        // The keys have changed since it was decided that a copy shares its bytes, or which key
        // encrypts them.
        StoreError::Encrypted | StoreError::RetiredKey(_) => ErrorCode::SlowDown,
        StoreError::Exhausted(_) | StoreError::RemoteUnavailable(_) | StoreError::InDoubt(_) => {
            ErrorCode::SlowDown
        }
        StoreError::ReadOnly(_) | StoreError::Closed => ErrorCode::ServiceUnavailable,
        StoreError::Corrupt(_) | StoreError::Io(_) => ErrorCode::InternalError,
    };
    match error {
        StoreError::DiskFull | StoreError::IndexFull { .. } => warn_seldom(&LAST_FULL, error, id),
        StoreError::RemoteUnavailable(_) => warn_seldom(&LAST_REMOTE, error, id),
        _ if code.status() >= 500 => log::error!("request {id}: {error}"),
        _ => {}
    }
    match error {
        StoreError::IndexFull { .. } => S3Error::new(code).message(INDEX_FULL),
        StoreError::QuotaExceeded { holder, limit, allowed, .. } => {
            let unit = if *limit == "index_bytes" { "bytes of the index" } else { limit };
            S3Error::new(code).message(format!("The quota of {holder} allows {allowed} {unit}. {FREE_QUOTA}"))
        }
        StoreError::TooManyBuckets { allowed } => S3Error::new(code)
            .message(format!("You have attempted to create more buckets than the {allowed} allowed.")),
        StoreError::Exhausted(_) | StoreError::RemoteUnavailable(_) | StoreError::InDoubt(_) => {
            S3Error::slow_down()
        }
        StoreError::TooLarge => S3Error::new(code).element("MaxSizeAllowed", PUT_SIZE_MAX_BYTES.to_string()),
        StoreError::Locked => S3Error::new(code).message(LOCKED),
        StoreError::InvalidBucketState => S3Error::new(code).message(LOCK_NEEDS_VERSIONS),
        _ => S3Error::new(code),
    }
}

/// How long refusals of one kind are not logged after one was.
const QUIET: Duration = Duration::from_secs(60);
/// The last refusal for lack of space that was logged.
static LAST_FULL: Mutex<Option<Instant>> = Mutex::new(None);
/// The last refusal for want of the remote that was logged.
static LAST_REMOTE: Mutex<Option<Instant>> = Mutex::new(None);

/// Warns of a refusal, if none of its kind was logged for a while. Each put is one while the disk
/// is full or the remote is awaited.
fn warn_seldom(last: &Mutex<Option<Instant>>, error: &StoreError, id: &RequestId) {
    let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
    if is_due(*last, Instant::now()) {
        *last = Some(Instant::now());
        log::warn!("request {id}: {error}; further ones are not logged for {} s", QUIET.as_secs());
    }
}

fn is_due(last: Option<Instant>, now: Instant) -> bool {
    last.is_none_or(|last| now.saturating_duration_since(last) >= QUIET)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::SeededEntropy;

    fn status(error: &StoreError) -> u16 {
        to_client_error(error, &RequestId::new(&SeededEntropy::new(1))).status()
    }

    #[test]
    fn each_error_of_the_store_has_its_status() {
        assert_eq!(status(&StoreError::NoSuchBucket), 404);
        assert_eq!(status(&StoreError::BucketExists { owner: "o".to_owned() }), 409);
        assert_eq!(status(&StoreError::BucketNotEmpty), 409);
        assert_eq!(status(&StoreError::PreconditionFailed), 412);
        assert_eq!(status(&StoreError::TooLarge), 400);
        assert_eq!(status(&StoreError::DiskFull), 507);
        assert_eq!(status(&StoreError::IndexFull { used: 9, ceiling: 8 }), 507);
        assert_eq!(status(&StoreError::ReadOnly("why".to_owned())), 503);
        assert_eq!(status(&StoreError::Closed), 503);
        assert_eq!(status(&StoreError::Exhausted("why".to_owned())), 503);
    }

    #[test]
    fn refusals_are_logged_from_time_to_time() {
        let now = Instant::now();
        assert!(is_due(None, now) && is_due(Some(now), now + QUIET));
        assert!(!is_due(Some(now), now) && !is_due(Some(now), now + QUIET / 2));
    }

    #[test]
    fn clients_see_nothing_of_the_disk() {
        let id = RequestId::new(&SeededEntropy::new(1));
        let error = to_client_error(&StoreError::Io("/var/lib/store: bad sector".to_owned()), &id);
        assert_eq!(error, S3Error::new(ErrorCode::InternalError));
    }
}
