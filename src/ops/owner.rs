//! The expected owner of a bucket (S3 user guide, "Verifying bucket ownership with bucket owner
//! condition"). An owner is named as in the `Owner` of listings: by the name of the user who
//! created the bucket.

use super::Context;
use crate::s3::{Call, ErrorCode, Operation, S3Error};

/// Checks `p-expected-bucket-owner` against the bucket of the call. A missing bucket is left to the
/// operation, and a new one belongs to its creator.
///
/// # Errors
/// `AccessDenied` if the bucket has another owner.
pub(super) fn check_target(context: &Context, call: &Call<'_>) -> Result<(), S3Error> {
    match call.operation {
        Operation::CreateBucket => Ok(()),
        _ => check(context, call, "expected-bucket-owner", call.bucket()),
    }
}

/// Checks `p-source-expected-bucket-owner` against the bucket of the source.
///
/// # Errors
/// As [`check_target`].
pub(super) fn check_source(context: &Context, call: &Call<'_>, bucket: &str) -> Result<(), S3Error> {
    check(context, call, "source-expected-bucket-owner", bucket)
}

fn check(context: &Context, call: &Call<'_>, header: &str, bucket: &str) -> Result<(), S3Error> {
    let mut expected = call.vendor().get_all(header).peekable();
    if expected.peek().is_none() {
        return Ok(());
    }
    match context.store.bucket(bucket) {
        Ok(bucket) if !expected.all(|name| name == bucket.owner.as_bytes()) => {
            Err(S3Error::new(ErrorCode::AccessDenied))
        }
        _ => Ok(()),
    }
}
