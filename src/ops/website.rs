//! The websites of buckets: their configurations, and the objects that they serve.

use super::stored_document::{self, StoredDocument};
use super::{Context, client_error, get, lookup};
use crate::auth::Authorized;
use crate::base::limits::WEBSITE_MAX_BYTES;
use crate::s3::website::WebsiteConfiguration;
use crate::s3::{Call, ErrorCode, Operation, RequestId, Response, S3Error, metadata};
use crate::store::{BucketConfigurationKind, ConfiguredBucket};

impl StoredDocument for WebsiteConfiguration {
    const KIND: BucketConfigurationKind = BucketConfigurationKind::Website;
    const MAX_BYTES: usize = WEBSITE_MAX_BYTES;

    fn unset(_: &Context) -> Result<Self, ErrorCode> {
        Err(ErrorCode::NoSuchWebsiteConfiguration)
    }

    fn check(&self, _: &Context, _: &Authorized, _: &Call<'_>, _: &ConfiguredBucket) -> Result<(), S3Error> {
        self.check_new()
    }
}

/// A bucket that may have a website.
pub struct BucketWebsite(ConfiguredBucket);

/// The object for a request to a website.
pub enum WebsiteObject {
    /// The object is sent.
    Content(Response),
    /// The object names another location, which is not encoded.
    Redirect(String),
}

/// A bucket, to ask for its website.
///
/// # Errors
/// `NoSuchBucket`.
pub(super) fn of_bucket(context: &Context, bucket: &str, id: &RequestId) -> Result<BucketWebsite, S3Error> {
    let found = context.store.configured_bucket(bucket).map(BucketWebsite);
    found.map_err(|error| client_error::client_error_naming(&error, id, bucket, "", ""))
}

impl BucketWebsite {
    /// The configuration.
    ///
    /// # Errors
    /// `NoSuchWebsiteConfiguration`; `InternalError` for a stored document that this version cannot
    /// read.
    pub fn configuration(&self, id: &RequestId) -> Result<&WebsiteConfiguration, S3Error> {
        let name = self.0.info.name.as_str();
        stored_document::read(&self.0, id)?
            .ok_or_else(|| S3Error::new(ErrorCode::NoSuchWebsiteConfiguration).element("BucketName", name))
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
