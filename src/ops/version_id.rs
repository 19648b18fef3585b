//! Version ids in requests and responses.

use super::Context;
use crate::s3::{Call, Response, S3Error};
use crate::store::{
    BucketInfo, CommittedVersion, FoundVersion, Selector, Store, VersionId, VersionRecord, VersionRef,
    VersionSummary, Versioning,
};

/// The version that `versionId` selects (S3 user guide, "Retrieving object versions from a
/// versioning-enabled bucket").
///
/// # Errors
/// `InvalidArgument` for malformed text.
pub(super) fn selector(context: &Context, call: &Call<'_>) -> Result<Selector, S3Error> {
    named(context, call.query.get("versionId"))
}

/// The version that `text` selects; the current one without it.
///
/// # Errors
/// As [`selector`].
pub(super) fn named(context: &Context, text: Option<&str>) -> Result<Selector, S3Error> {
    let Some(text) = text else { return Ok(Selector::Current) };
    parse(context, text)
        .ok_or_else(|| S3Error::invalid_argument("versionId", text, "Invalid version id specified"))
}

/// The version that `text` names; `None` for malformed text. A well-formed id that was never
/// assigned names no version.
pub(super) fn parse(context: &Context, text: &str) -> Option<Selector> {
    match text {
        "null" => Some(Selector::Null),
        _ => context.store.client_ids().version(text).map(Selector::Id),
    }
}

/// The version after which a page of a listing begins; `None` for malformed text.
pub(super) fn marker(context: &Context, text: &str) -> Option<VersionRef> {
    match parse(context, text)? {
        Selector::Id(VersionId::NONE) => None,
        Selector::Id(id) => Some(VersionRef::Id(id)),
        Selector::Null | Selector::Current => Some(VersionRef::Null),
    }
}

/// The id of a version in a listing. Every version has one there, also in a bucket that never had
/// versions.
pub(super) fn listing_id(context: &Context, version: &VersionSummary) -> String {
    let named = if version.null { VersionRef::Null } else { VersionRef::Id(version.id) };
    named.text(context.store.client_ids())
}

/// The id of an existing version in a response; `None` in a bucket that never had versions.
pub(super) fn response_id(store: &Store, bucket: &BucketInfo, version: &VersionRecord) -> Option<String> {
    let named = match (version.null, bucket.versioning) {
        (false, _) => VersionRef::Id(version.id),
        (true, Versioning::Unset) => return None,
        (true, Versioning::Enabled | Versioning::Suspended) => VersionRef::Null,
    };
    Some(named.text(store.client_ids()))
}

/// Adds the id of the version to a response.
pub(super) fn add_version_id(context: &Context, response: Response, found: &FoundVersion) -> Response {
    match response_id(&context.store, &found.bucket, &found.version) {
        Some(id) => response.header("p-version-id", id),
        None => response,
    }
}

/// Adds the id of a new version to a response, unless it is the null version.
pub(super) fn add_new_version_id(store: &Store, response: Response, written: &CommittedVersion) -> Response {
    if written.null {
        return response;
    }
    response.header("p-version-id", store.client_ids().of_version(written.id).to_string())
}
