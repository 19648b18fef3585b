//! The tags of objects.

use super::access::{self, Place};
use super::amend::amend;
use super::{Context, body, lookup, version_id};
use crate::auth::{Action, Authorized};
use crate::s3::render::xml;
use crate::s3::tags::TagHolder;
use crate::s3::{Call, Response, S3Error, tags};
use crate::store::VersionRecord;

/// GetObjectTagging.
pub(super) fn get(context: &Context, proof: &Authorized, call: &Call<'_>) -> Result<Response, S3Error> {
    let found = lookup::target(context, proof, call)?;
    let mut document = context.document(tags::ROOT);
    tags::render(&found.version.tags, &mut document);
    Ok(version_id::add_version_id(context, xml(200, document), &found))
}

/// PutObjectTagging. Durable on return.
pub(super) fn put(context: &Context, proof: &Authorized, call: &mut Call<'_>) -> Result<Response, S3Error> {
    body::announced_length(&call.request.body)?;
    let found = lookup::target(context, proof, call)?;
    let tags = match call.body_tags.take() {
        Some(tags) => tags,
        None => read_tags(context, call)?,
    };
    replace(context, call, found, tags, 200)
}

/// DeleteObjectTagging. Durable on return.
pub(super) fn delete(context: &Context, proof: &Authorized, call: &Call<'_>) -> Result<Response, S3Error> {
    let found = lookup::target(context, proof, call)?;
    replace(context, call, found, Vec::new(), 204)
}

fn replace(
    context: &Context,
    call: &Call<'_>,
    found: lookup::LoadedVersion,
    tags: Vec<(String, String)>,
    status: u16,
) -> Result<Response, S3Error> {
    amend(context, call, found, status, |version| {
        context.store.set_tags(call.bucket(), call.key(), version, tags)
    })
}

/// The tags in the body of a call.
///
/// # Errors
/// Errors of the body; `MalformedXML`; the errors of [`tags::check`].
pub(super) fn read_tags(context: &Context, call: &mut Call<'_>) -> Result<Vec<(String, String)>, S3Error> {
    let request = body::read_document(context, call)?;
    tags::parse(body::parse(&request, tags::ROOT)?.root(), TagHolder::Object)
}

/// The tags of a new object from the header `p-tagging`. Setting any takes a permission of its own
/// (S3 API reference, PutObject, "Permissions").
///
/// # Errors
/// `AccessDenied`; the errors of [`tags::from_header`].
pub(super) fn of_new_object(
    context: &Context,
    proof: &Authorized,
    call: &Call<'_>,
) -> Result<Vec<(String, String)>, S3Error> {
    let tags = tags::from_header(call.vendor())?;
    check_may_set(&tags, context, proof, call)?;
    Ok(tags)
}

/// Checks the permission to set `tags`.
///
/// # Errors
/// `AccessDenied`.
pub(super) fn check_may_set(
    tags: &[(String, String)],
    context: &Context,
    proof: &Authorized,
    call: &Call<'_>,
) -> Result<(), S3Error> {
    if tags.is_empty() {
        return Ok(());
    }
    access::check(context, proof, call, Action::PutObjectTagging, Place::target(call))
}

/// Adds the number of tags to a response, if there are any and the caller may read them (S3 API
/// reference, GetObject, "x-amz-tagging-count").
pub(super) fn add_tag_count(
    response: Response,
    version: &VersionRecord,
    context: &Context,
    proof: &Authorized,
    call: &Call<'_>,
) -> Response {
    let named = call.query.has("versionId");
    let action = if named { Action::GetObjectVersionTagging } else { Action::GetObjectTagging };
    let place = Place::target(call).found(version);
    if version.tags.is_empty() || !access::may(context, proof, call, action, place) {
        return response;
    }
    response.header("p-tagging-count", version.tags.len().to_string())
}
