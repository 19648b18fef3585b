//! Reading, setting and deleting a configuration of a bucket: the steps that all kinds have in
//! common.

use std::sync::Arc;

use super::Context;
use super::client_error::ForClient as _;
use crate::s3::{Call, ErrorCode, Response, S3Error};
use crate::store::{BucketConfiguration, BucketConfigurationKind};

/// The configuration of this kind.
///
/// # Errors
/// `NoSuchBucket`; `missing`, if there is none.
pub(super) fn get(
    context: &Context,
    call: &Call<'_>,
    kind: BucketConfigurationKind,
    missing: ErrorCode,
) -> Result<Arc<BucketConfiguration>, S3Error> {
    let bucket = context.store.configured_bucket(call.bucket()).for_client(call)?;
    let stored = bucket.configurations.get(kind).cloned();
    stored.ok_or_else(|| S3Error::new(missing).element("BucketName", call.bucket()))
}

/// Sets the configuration of this kind. Durable on return.
///
/// # Errors
/// `NoSuchBucket`; the errors of the commit.
pub(super) fn set(
    context: &Context,
    call: &Call<'_>,
    kind: BucketConfigurationKind,
    document: Vec<u8>,
) -> Result<Response, S3Error> {
    context.store.set_bucket_configuration(call.bucket(), kind, Some(document)).for_client(call)?;
    Ok(Response::new(200))
}

/// Removes the configuration of this kind, if there is one. Durable on return.
///
/// # Errors
/// `NoSuchBucket`; the errors of the commit.
pub(super) fn delete(
    context: &Context,
    call: &Call<'_>,
    kind: BucketConfigurationKind,
) -> Result<Response, S3Error> {
    context.store.set_bucket_configuration(call.bucket(), kind, None).for_client(call)?;
    Ok(Response::new(204))
}
