//! The websites of buckets: their configurations.

use super::client_error::ForClient as _;
use super::{Context, body};
use crate::auth::Authorized;
use crate::base::limits::WEBSITE_MAX_BYTES;
use crate::s3::render::xml;
use crate::s3::website::{ROOT, WebsiteConfiguration};
use crate::s3::{Call, ErrorCode, Response, S3Error};
use crate::store::{BucketConfigurationKind, ConfiguredBucket};

/// PutBucketWebsite. Durable on return.
pub(super) fn put(context: &Context, _: &Authorized, call: &mut Call<'_>) -> Result<Response, S3Error> {
    body::announced_length(&call.request.body)?;
    context.store.bucket(call.bucket()).for_client(call)?;
    let request = body::read_document_up_to(context, call, WEBSITE_MAX_BYTES)?;
    let configuration = WebsiteConfiguration::parse(body::parse(&request, ROOT)?.root())?;
    set(context, call, Some(configuration.to_document()))?;
    Ok(Response::new(200))
}

/// GetBucketWebsite.
pub(super) fn get(context: &Context, _: &Authorized, call: &Call<'_>) -> Result<Response, S3Error> {
    let bucket = context.store.configured_bucket(call.bucket()).for_client(call)?;
    let mut document = context.document(ROOT);
    configuration(&bucket, call)?.render(&mut document);
    Ok(xml(200, document))
}

/// DeleteBucketWebsite. Durable on return. A bucket without a website stays as it is.
pub(super) fn delete(context: &Context, _: &Authorized, call: &Call<'_>) -> Result<Response, S3Error> {
    let bucket = context.store.configured_bucket(call.bucket()).for_client(call)?;
    if bucket.configuration(BucketConfigurationKind::Website).is_some() {
        set(context, call, None)?;
    }
    Ok(Response::new(204))
}

fn set(context: &Context, call: &Call<'_>, document: Option<Vec<u8>>) -> Result<(), S3Error> {
    let kind = BucketConfigurationKind::Website;
    context.store.set_bucket_configuration(call.bucket(), kind, document).for_client(call)
}

/// The website of a bucket.
///
/// # Errors
/// `NoSuchWebsiteConfiguration`; `InternalError` for a stored document that this version cannot read.
fn configuration<'b>(
    bucket: &'b ConfiguredBucket,
    call: &Call<'_>,
) -> Result<&'b WebsiteConfiguration, S3Error> {
    let found = bucket.configuration(BucketConfigurationKind::Website).ok_or_else(|| {
        S3Error::new(ErrorCode::NoSuchWebsiteConfiguration).element("BucketName", call.bucket())
    })?;
    found.parsed(WebsiteConfiguration::from_document).as_ref().ok_or_else(|| {
        log::error!("request {}: the website configuration of {} is not readable", call.id, call.bucket());
        S3Error::new(ErrorCode::InternalError)
    })
}
