//! The lifecycle rules of buckets as they are set and read.

use super::client_error::ForClient as _;
use super::{Context, body, stored_configuration};
use crate::auth::Authorized;
use crate::s3::lifecycle::{LifecycleConfiguration, TransitionMinimumSize};
use crate::s3::render::xml;
use crate::s3::{Call, ErrorCode, Response, S3Error};
use crate::store::{BucketConfiguration, BucketConfigurationKind};

const KIND: BucketConfigurationKind = BucketConfigurationKind::Lifecycle;
const MINIMUM: &str = "p-transition-default-minimum-object-size";

/// PutBucketLifecycleConfiguration, and PutBucketLifecycle, the same request with older rules. Durable on return.
pub(super) fn put(context: &Context, _: &Authorized, call: &mut Call<'_>) -> Result<Response, S3Error> {
    body::announced_length(&call.request.body)?;
    context.store.bucket(call.bucket()).for_client(call)?;
    let minimum = call.vendor_header("transition-default-minimum-object-size");
    let minimum = minimum.map(TransitionMinimumSize::named).transpose()?.unwrap_or_default();
    let request = body::read_claimed_document(context, call)?;
    let document = body::parse(&request, LifecycleConfiguration::ROOT)?;
    let rules = LifecycleConfiguration::parse(document.root(), minimum)?;
    let response = stored_configuration::set(context, call, KIND, rules.to_document())?;
    Ok(response.header(MINIMUM, minimum.as_str()))
}

/// GetBucketLifecycleConfiguration.
pub(super) fn get(context: &Context, _: &Authorized, call: &Call<'_>) -> Result<Response, S3Error> {
    let stored = stored_configuration::get(context, call, KIND, ErrorCode::NoSuchLifecycleConfiguration)?;
    let Some(rules) = parsed(&stored) else {
        log::error!(
            "request {}: the lifecycle rules of the bucket {} cannot be read",
            call.id,
            call.bucket()
        );
        return Err(S3Error::new(ErrorCode::InternalError));
    };
    let mut document = context.document(LifecycleConfiguration::ROOT);
    rules.render(&mut document);
    Ok(xml(200, document).header(MINIMUM, rules.minimum.as_str()))
}

/// DeleteBucketLifecycle. Durable on return.
pub(super) fn delete(context: &Context, _: &Authorized, call: &Call<'_>) -> Result<Response, S3Error> {
    stored_configuration::delete(context, call, KIND)
}

/// The rules; `None` if the document is of a version of the server that knows more of them.
fn parsed(stored: &BucketConfiguration) -> Option<&LifecycleConfiguration> {
    stored.parsed(LifecycleConfiguration::from_document).as_ref()
}
