//! Pins of buckets to the disk or to the remote, as JSON: an extension beside S3.

use serde_json::json;

use super::client_error::ForClient as _;
use super::{Context, body, stored_document};
use crate::auth::Authorized;
use crate::s3::{Call, Response, ResponseBody, S3Error};
use crate::store::{BucketConfigurationKind, BucketPlacement};

const KIND: BucketConfigurationKind = BucketConfigurationKind::Placement;

/// PutBucketPlacement. Durable on return.
pub(super) fn put(context: &Context, _: &Authorized, call: &mut Call<'_>) -> Result<Response, S3Error> {
    body::announced_length(&call.request.body)?;
    context.store.bucket(call.bucket()).for_client(call)?;
    let text = body::read_text(context, call)?;
    let placement = BucketPlacement::from_document(&text).ok_or_else(|| {
        let message = "The placement is not valid: it is {\"placement\": \"local\"} or \"remote\".";
        S3Error::invalid_argument("placement", &String::from_utf8_lossy(&text), message)
    })?;
    if placement == BucketPlacement::Local {
        check_fits(context, call)?;
    }
    stored_document::set(context, call, KIND, Some(placement.document()))?;
    Ok(Response::new(200))
}

/// Checks that the bytes of a bucket fit on the disk. What it gets later is not checked: a quota
/// limits it.
fn check_fits(context: &Context, call: &Call<'_>) -> Result<(), S3Error> {
    let bytes = context.store.usage(call.bucket()).for_client(call)?.bytes();
    match context.store.local_max_bytes() {
        Some(max) if bytes > max => {
            let message = format!(
                "The bucket has {bytes} bytes, and --local-max permits {max} bytes on the disk. Raise --local-max, or leave the bucket without a placement."
            );
            Err(S3Error::invalid_argument("placement", "local", message))
        }
        _ => Ok(()),
    }
}

/// GetBucketPlacement: the placement of the bucket, or null.
pub(super) fn get(context: &Context, _: &Authorized, call: &Call<'_>) -> Result<Response, S3Error> {
    let bucket = context.store.configured_bucket(call.bucket()).for_client(call)?;
    let placement = bucket.configuration(KIND).and_then(BucketPlacement::of).map(BucketPlacement::as_str);
    let response = Response::new(200).header("Content-Type", "application/json");
    let document = json!({ "placement": placement }).to_string();
    Ok(response.with_body(ResponseBody::Bytes(document.into_bytes())))
}

/// DeleteBucketPlacement. Durable on return.
pub(super) fn delete(context: &Context, _: &Authorized, call: &Call<'_>) -> Result<Response, S3Error> {
    stored_document::set(context, call, KIND, None)?;
    Ok(Response::new(204))
}
