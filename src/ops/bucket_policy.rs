//! The policies of buckets.

use super::client_error::ForClient as _;
use super::{Context, body, configurations, stored_document};
use crate::auth::{Authorized, BucketPolicy};
use crate::s3::render::xml;
use crate::s3::{Call, ErrorCode, Response, ResponseBody, S3Error};
use crate::store::{BucketConfigurationKind, ConfiguredBucket};

/// PutBucketPolicy. Durable on return.
pub(super) fn put(context: &Context, proof: &Authorized, call: &mut Call<'_>) -> Result<Response, S3Error> {
    body::announced_length(&call.request.body)?;
    let bucket = context.store.configured_bucket(call.bucket()).for_client(call)?;
    let text = body::read_text(context, call)?;
    let policy = BucketPolicy::parse(&text, call.bucket()).map_err(|reason| malformed(&reason))?;
    policy.check_wildcards().map_err(|reason| malformed(&reason))?;
    // A policy that is stored already may name users who were removed since: what it says of them
    // is without effect.
    if let Some(unknown) = proof.identity().unknown_principal(&policy) {
        return Err(S3Error::new(ErrorCode::MalformedPolicy)
            .message(format!("Invalid principal in policy (there is no {unknown})")));
    }
    if policy.is_public() && configurations::block(&bucket).refuses_policy {
        return Err(S3Error::new(ErrorCode::AccessDenied).message(
            "The policy is public, which the public access block of the bucket refuses (BlockPublicPolicy).",
        ));
    }
    set(context, call, Some(text.to_vec()))
}

fn malformed(reason: &str) -> S3Error {
    let code = ErrorCode::MalformedPolicy;
    S3Error::new(code).message(format!("{} ({reason})", code.default_message()))
}

/// GetBucketPolicy: the document as it was put.
pub(super) fn get(context: &Context, _: &Authorized, call: &Call<'_>) -> Result<Response, S3Error> {
    let bucket = context.store.configured_bucket(call.bucket()).for_client(call)?;
    let configuration = bucket.configuration(BucketConfigurationKind::Policy);
    let document = configuration.ok_or_else(|| missing(call))?.document().to_vec();
    Ok(Response::new(200).header("Content-Type", "application/json").with_body(ResponseBody::Bytes(document)))
}

/// GetBucketPolicyStatus.
pub(super) fn status(context: &Context, _: &Authorized, call: &Call<'_>) -> Result<Response, S3Error> {
    let bucket: ConfiguredBucket = context.store.configured_bucket(call.bucket()).for_client(call)?;
    let policy = configurations::policy(&bucket).ok_or_else(|| missing(call))?;
    let mut document = context.document("PolicyStatus");
    document.plain("IsPublic", policy.is_public());
    Ok(xml(200, document))
}

/// DeleteBucketPolicy, also where there is none. Durable on return.
pub(super) fn delete(context: &Context, _: &Authorized, call: &Call<'_>) -> Result<Response, S3Error> {
    set(context, call, None)
}

fn set(context: &Context, call: &Call<'_>, document: Option<Vec<u8>>) -> Result<Response, S3Error> {
    stored_document::set(context, call, BucketConfigurationKind::Policy, document)?;
    Ok(Response::new(204))
}

fn missing(call: &Call<'_>) -> S3Error {
    S3Error::new(ErrorCode::NoSuchBucketPolicy).element("BucketName", call.bucket())
}
