//! The cross-origin rules of buckets.

use std::sync::Arc;

use super::client_error::ForClient as _;
use super::{Context, body, stored_configuration};
use crate::auth::Authorized;
use crate::base::limits::CORS_MAX_BYTES;
use crate::s3::cors::CorsConfiguration;
use crate::s3::render::xml;
use crate::s3::{Call, ErrorCode, Response, S3Error};
use crate::store::{BucketConfiguration, BucketConfigurationKind};
use crate::xml::{Document, Writer};

const KIND: BucketConfigurationKind = BucketConfigurationKind::Cors;
const ROOT: &str = "CORSConfiguration";

/// The stored rules of a bucket.
pub struct BucketCors(Arc<BucketConfiguration>);

impl BucketCors {
    /// The rules; `None` if the document is of a version of the server that knows more of them.
    pub fn rules(&self) -> Option<&CorsConfiguration> {
        self.0.parsed(stored_rules).as_ref()
    }
}

fn stored_rules(document: &[u8]) -> Option<CorsConfiguration> {
    let document = Document::parse(document).ok()?;
    CorsConfiguration::parse(document.root()).ok()
}

impl Context {
    /// The rules of a bucket; `None` for a bucket without rules and for a missing one.
    pub fn bucket_cors(&self, bucket: &str) -> Option<BucketCors> {
        let bucket = self.store.configured_bucket(bucket).ok()?;
        bucket.configurations.get(KIND).cloned().map(BucketCors)
    }
}

/// PutBucketCors. Durable on return.
pub(super) fn put(context: &Context, _: &Authorized, call: &mut Call<'_>) -> Result<Response, S3Error> {
    body::announced_length(&call.request.body)?;
    context.store.bucket(call.bucket()).for_client(call)?;
    let request = body::read_document_up_to(context, call, CORS_MAX_BYTES)?;
    let rules = CorsConfiguration::parse(body::parse(&request, ROOT)?.root())?;
    let mut document = Writer::new(ROOT, None);
    rules.render(&mut document);
    stored_configuration::set(context, call, KIND, document.finish())
}

/// GetBucketCors.
pub(super) fn get(context: &Context, _: &Authorized, call: &Call<'_>) -> Result<Response, S3Error> {
    let stored = stored_configuration::get(context, call, KIND, ErrorCode::NoSuchCORSConfiguration)?;
    let stored = BucketCors(stored);
    let Some(rules) = stored.rules() else {
        log::error!("request {}: the CORS rules of the bucket {} cannot be read", call.id, call.bucket());
        return Err(S3Error::new(ErrorCode::InternalError));
    };
    let mut document = context.document(ROOT);
    rules.render(&mut document);
    Ok(xml(200, document))
}

/// DeleteBucketCors. Durable on return.
pub(super) fn delete(context: &Context, _: &Authorized, call: &Call<'_>) -> Result<Response, S3Error> {
    stored_configuration::delete(context, call, KIND)
}
