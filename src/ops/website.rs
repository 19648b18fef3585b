//! The websites of buckets: their configurations, and the objects that they serve.

use super::client_error::{self, ForClient as _};
use super::{Context, body, get, lookup};
use crate::auth::Authorized;
use crate::base::limits::WEBSITE_MAX_BYTES;
use crate::s3::render::xml;
use crate::s3::website::{ROOT, WebsiteConfiguration};
use crate::s3::{Call, ErrorCode, Operation, RequestId, Response, S3Error, metadata};
use crate::store::{BucketConfigurationKind, ConfiguredBucket};

/// A bucket that may have a website.
pub struct BucketWebsite(ConfiguredBucket);

/// The object for a request to a website.
pub enum WebsiteObject {
    /// The object is sent.
    Content(Response),
    /// The object names another location, which is not encoded.
    Redirect(String),
}

/// PutBucketWebsite. Durable on return.
pub(super) fn put(context: &Context, _: &Authorized, call: &mut Call<'_>) -> Result<Response, S3Error> {
    body::announced_length(&call.request.body)?;
    context.store.bucket(call.bucket()).for_client(call)?;
    let request = body::read_document_up_to(context, call, WEBSITE_MAX_BYTES)?;
    let configuration = WebsiteConfiguration::parse(body::parse(&request, ROOT)?.root())?;
    configuration.check_new()?;
    set(context, call, Some(configuration.to_document()))?;
    Ok(Response::new(200))
}

/// GetBucketWebsite.
pub(super) fn get(context: &Context, _: &Authorized, call: &Call<'_>) -> Result<Response, S3Error> {
    let website = of_bucket(context, call.bucket(), &call.id)?;
    let mut document = context.document(ROOT);
    website.configuration(&call.id)?.render(&mut document);
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

/// A bucket, to ask for its website.
///
/// # Errors
/// `NoSuchBucket`.
pub(super) fn of_bucket(context: &Context, bucket: &str, id: &RequestId) -> Result<BucketWebsite, S3Error> {
    let found = context.store.configured_bucket(bucket).map(BucketWebsite);
    found.map_err(|error| client_error::client_error_naming(&error, id, (bucket, "", "")))
}

impl BucketWebsite {
    /// The configuration.
    ///
    /// # Errors
    /// `NoSuchWebsiteConfiguration`; `InternalError` for a stored document that this version cannot
    /// read.
    pub fn configuration(&self, id: &RequestId) -> Result<&WebsiteConfiguration, S3Error> {
        let name = &self.0.info.name;
        let found = self.0.configuration(BucketConfigurationKind::Website).ok_or_else(|| {
            S3Error::new(ErrorCode::NoSuchWebsiteConfiguration).element("BucketName", name.as_str())
        })?;
        found.parsed(WebsiteConfiguration::from_document).as_ref().ok_or_else(|| {
            log::error!("request {id}: the website configuration of {name} is not readable");
            S3Error::new(ErrorCode::InternalError)
        })
    }
}

/// The object that a GET or HEAD names. A redirect takes precedence over conditions and ranges.
///
/// # Errors
/// Errors of the operation.
pub(super) fn object(
    context: &Context,
    proof: &Authorized,
    call: &Call<'_>,
) -> Result<WebsiteObject, S3Error> {
    let is_head = call.operation == Operation::HeadObject;
    let found = match is_head {
        true => lookup::outline(context, proof, call)?,
        false => lookup::target(context, proof, call)?,
    };
    if let Some(location) = metadata::stored_redirect_location(found.version.attributes.iter()) {
        return Ok(WebsiteObject::Redirect(location.to_owned()));
    }
    let response = match is_head {
        true => get::without_body(context, proof, call, &found),
        false => get::with_body(context, proof, call, &found),
    };
    response.map(WebsiteObject::Content)
}
