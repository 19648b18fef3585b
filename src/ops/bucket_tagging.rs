//! The tags of buckets.

use super::client_error::ForClient as _;
use super::{Context, body, stored_configuration};
use crate::auth::Authorized;
use crate::s3::render::xml;
use crate::s3::tags::{self, TagHolder};
use crate::s3::{Call, ErrorCode, Response, S3Error};
use crate::store::BucketConfigurationKind;
use crate::xml::{Document, Writer};

const KIND: BucketConfigurationKind = BucketConfigurationKind::Tags;

/// PutBucketTagging. An empty set removes the tags. Durable on return.
pub(super) fn put(context: &Context, _: &Authorized, call: &mut Call<'_>) -> Result<Response, S3Error> {
    body::announced_length(&call.request.body)?;
    context.store.bucket(call.bucket()).for_client(call)?;
    let request = body::read_document(context, call)?;
    let tags = tags::parse(body::parse(&request, tags::ROOT)?.root(), TagHolder::Bucket)?;
    if tags.is_empty() {
        stored_configuration::delete(context, call, KIND)?;
        return Ok(Response::new(200));
    }
    let mut document = Writer::new(tags::ROOT, None);
    tags::render(&tags, &mut document);
    stored_configuration::set(context, call, KIND, document.finish())
}

/// GetBucketTagging.
pub(super) fn get(context: &Context, _: &Authorized, call: &Call<'_>) -> Result<Response, S3Error> {
    let stored = stored_configuration::get(context, call, KIND, ErrorCode::NoSuchTagSet)?;
    let Some(tags) = stored_tags(stored.document()) else {
        log::error!("request {}: the tags of the bucket {} cannot be read", call.id, call.bucket());
        return Err(S3Error::new(ErrorCode::InternalError));
    };
    let mut document = context.document(tags::ROOT);
    tags::render(&tags, &mut document);
    Ok(xml(200, document))
}

/// DeleteBucketTagging. Durable on return.
pub(super) fn delete(context: &Context, _: &Authorized, call: &Call<'_>) -> Result<Response, S3Error> {
    stored_configuration::delete(context, call, KIND)
}

fn stored_tags(document: &[u8]) -> Option<Vec<(String, String)>> {
    let document = Document::parse(document).ok()?;
    tags::parse(document.root(), TagHolder::Bucket).ok()
}
