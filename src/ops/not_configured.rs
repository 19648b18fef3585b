//! Known operations that are not supported, and reads of configurations that are never set. Tools
//! fail if such a read is reported as not implemented.

use super::Context;
use super::client_error::ForClient as _;
use crate::auth::Authorized;
use crate::s3::{Call, ErrorCode, Operation, Response, S3Error, route};

/// Responds with the error of the operation, or with `NoSuchBucket`.
pub(super) fn respond(context: &Context, _: &Authorized, call: &Call<'_>) -> Result<Response, S3Error> {
    context.store.bucket(call.bucket()).for_client(call)?;
    match code_of(call.operation) {
        Some(code) => Err(S3Error::new(code).element("BucketName", call.bucket())),
        None => Err(not_served(call)),
    }
}

/// The error for a sub-resource that is not supported, or not with this method.
fn not_served(call: &Call<'_>) -> S3Error {
    let method = call.request.method.as_str();
    let name = route::subresource(call.target.level(), &call.query);
    S3Error::new(ErrorCode::NotImplemented)
        .message(format!("{method} requests with the parameter '{name}' are not supported."))
        .element("Method", method)
        .element("ResourceType", name)
        .element("BucketName", call.bucket())
}

/// The code for a configuration that is not set (S3 API reference, each operation's "Errors").
fn code_of(operation: Operation) -> Option<ErrorCode> {
    match operation {
        Operation::GetBucketEncryption => Some(ErrorCode::ServerSideEncryptionConfigurationNotFoundError),
        Operation::GetBucketReplication => Some(ErrorCode::ReplicationConfigurationNotFoundError),
        _ => None,
    }
}
