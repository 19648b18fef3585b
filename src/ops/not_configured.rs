//! Known operations that are not supported, and reads of configurations that are never set. Tools fail if such a read
//! is reported as not implemented.

use super::Context;
use super::client_error::ForClient as _;
use crate::auth::Authorized;
use crate::s3::{Call, ErrorCode, Operation, Response, S3Error};

/// Responds with the error of the operation, or with `NoSuchBucket`.
pub(super) fn respond(context: &Context, _: &Authorized, call: &Call<'_>) -> Result<Response, S3Error> {
    context.store.bucket(call.bucket()).for_client(call)?;
    let code = code_of(call.operation).unwrap_or(ErrorCode::NotImplemented);
    Err(S3Error::new(code).element("BucketName", call.bucket()))
}

/// The code for a configuration that is not set (S3 API reference, each operation's "Errors").
fn code_of(operation: Operation) -> Option<ErrorCode> {
    match operation {
        Operation::GetBucketEncryption => Some(ErrorCode::ServerSideEncryptionConfigurationNotFoundError),
        Operation::GetBucketReplication => Some(ErrorCode::ReplicationConfigurationNotFoundError),
        _ => None,
    }
}
