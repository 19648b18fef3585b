//! Lookup of the version that a request addresses, and of the source of a copy.

use std::ops::{Deref, Range};

use super::access::{self, Place};
use super::client_error::{self, ForClient as _, RequestNames};
use super::encryption::ReadKey;
use super::{Context, memory, owner, version_id};
use crate::auth::{Action, Authorized};
use crate::base::Reservation;
use crate::base::limits::PUT_SIZE_MAX_BYTES;
use crate::s3::conditions::{ConditionOutcome, ReadConditions};
use crate::s3::{Call, CopySourceHeader, ErrorCode, RequestId, Response, S3Error};
use crate::store::{self, FoundVersion, ObjectReader, OpenedKey, Selector, Store, StoreError, VersionRecord};

/// A version, and the reservation of its memory.
pub(super) struct LoadedVersion {
    found: FoundVersion,
    held: Reservation,
}

impl LoadedVersion {
    /// The version, and the reservation to hold as long as the version is in memory.
    pub(super) fn into_parts(self) -> (FoundVersion, Reservation) {
        (self.found, self.held)
    }
}

impl Deref for LoadedVersion {
    type Target = FoundVersion;

    fn deref(&self) -> &FoundVersion {
        &self.found
    }
}

/// Looks up the requested version.
///
/// # Errors
/// `NoSuchKey` or, without the permission to list the bucket, `AccessDenied`; `NoSuchVersion`;
/// `MethodNotAllowed` for a named delete marker; `SlowDown`.
pub(super) fn target(
    context: &Context,
    proof: &Authorized,
    call: &Call<'_>,
) -> Result<LoadedVersion, S3Error> {
    target_by(|which| context.store.find(call.bucket(), call.key(), which), context, proof, call)
}

/// As [`target`], without the extents and the parts of the version: for most HEAD requests.
///
/// # Errors
/// As [`target`].
pub(super) fn outline(
    context: &Context,
    proof: &Authorized,
    call: &Call<'_>,
) -> Result<LoadedVersion, S3Error> {
    target_by(|which| context.store.find_outline(call.bucket(), call.key(), which), context, proof, call)
}

fn target_by(
    find: impl FnOnce(Selector) -> Result<FoundVersion, StoreError>,
    context: &Context,
    proof: &Authorized,
    call: &Call<'_>,
) -> Result<LoadedVersion, S3Error> {
    let which = version_id::selector(context, call)?;
    let found = find(which).for_client(call);
    let place = Place::target(call);
    let found = found.map_err(|error| conceal(error, context, proof, call, place))?;
    if !found.version.delete_marker {
        access::check_found(context, proof, call, place.found(&found.version))?;
        let held = memory::for_version(context, &found.version)?;
        return Ok(LoadedVersion { found, held });
    }
    Err(match which {
        Selector::Current => conceal(deleted(context, &found, call), context, proof, call, place),
        Selector::Null | Selector::Id(_) => marker(context, &found, call),
    })
}

/// Conceals a missing key from callers without the permission to list the bucket (S3 API reference,
/// GetObject, "Permissions").
pub(super) fn conceal(
    error: S3Error,
    context: &Context,
    proof: &Authorized,
    call: &Call<'_>,
    place: Place<'_>,
) -> S3Error {
    let absent = error.code == ErrorCode::NoSuchKey;
    conceal_if(absent && !access::may(context, proof, call, Action::ListBucket, place), error)
}

/// Conceals a missing key where `hidden`.
pub(super) fn conceal_if(hidden: bool, error: S3Error) -> S3Error {
    let hidden = hidden && error.code == ErrorCode::NoSuchKey;
    if hidden { S3Error::new(ErrorCode::AccessDenied) } else { error }
}

/// The error for a current version that is a delete marker (S3 user guide, "Working with delete
/// markers").
fn deleted(context: &Context, found: &FoundVersion, call: &Call<'_>) -> S3Error {
    let error =
        S3Error::new(ErrorCode::NoSuchKey).element("Key", call.key()).header("p-delete-marker", "true");
    with_version_id(context, error, found)
}

/// The error for a named version that is a delete marker.
fn marker(context: &Context, found: &FoundVersion, call: &Call<'_>) -> S3Error {
    let error = S3Error::new(ErrorCode::MethodNotAllowed)
        .element("Method", call.request.method.as_str())
        .element("ResourceType", "DeleteMarker")
        .header("Allow", "DELETE")
        .header("Last-Modified", found.version.last_modified().to_http_date())
        .header("p-delete-marker", "true");
    with_version_id(context, error, found)
}

fn with_version_id(context: &Context, error: S3Error, found: &FoundVersion) -> S3Error {
    match version_id::response_id(&context.store, &found.bucket, &found.version) {
        Some(id) => error.header("p-version-id", id),
        None => error,
    }
}

/// The source of a copy, which the caller may read.
pub(super) struct SourceObject {
    /// The bucket and the version.
    pub(super) found: FoundVersion,
    /// The name that the client sent.
    pub(super) named: CopySourceHeader,
    /// The key of the customer that opens it.
    pub(super) key: ReadKey,
    /// Its own key, opened.
    pub(super) own: OpenedKey,
    _held: Reservation,
}

/// Looks up the version that `p-copy-source` names. Checks the permission to read it and the
/// conditions on it.
///
/// # Errors
/// `InvalidArgument` for a malformed name; `AccessDenied`; `NoSuchBucket`, `NoSuchKey`,
/// `NoSuchVersion`; `InvalidRequest` for a named delete marker; `PreconditionFailed`; `SlowDown`.
pub(super) fn source(
    context: &Context,
    proof: &Authorized,
    call: &Call<'_>,
) -> Result<SourceObject, S3Error> {
    let named = CopySourceHeader::from_headers(call.vendor())?;
    let which = version_id::named(context, named.version.as_deref())?;
    let action = if which == Selector::Current { Action::GetObject } else { Action::GetObjectVersion };
    let place = Place::object(&named.bucket, named.key.as_str()).version(named.version.as_deref());
    // Before it is looked for: a refusal does not tell what is there.
    access::check(context, proof, call, action, place)?;
    owner::check_source(context, call, &named.bucket)?;
    let found = context.store.find(&named.bucket, named.key.as_str(), which);
    let found = found
        .map_err(|error| conceal(source_error(&error, &named, &call.id), context, proof, call, place))?;
    if found.version.delete_marker {
        return Err(conceal(marked_source(&named, which), context, proof, call, place));
    }
    // Another version may have come since the first check.
    access::check(context, proof, call, action, place.found(&found.version))?;
    let key = ReadKey::of_source(call)?;
    let own = key.open(context, call, &found.version)?;
    check_conditions(&found.version, call)?;
    let held = memory::for_version(context, &found.version)?;
    Ok(SourceObject { found, named, key, own, _held: held })
}

/// The tags of the source of a copy, for a decision alone: whether the sender may know the source,
/// or that there is none, is checked later.
pub(super) fn tags_of_source(context: &Context, call: &Call<'_>) -> Vec<(String, String)> {
    let Ok(named) = CopySourceHeader::from_headers(call.vendor()) else { return Vec::new() };
    let Ok(which) = version_id::named(context, named.version.as_deref()) else { return Vec::new() };
    let found = context.store.find_outline(&named.bucket, named.key.as_str(), which);
    found.map(|found| found.version.tags).unwrap_or_default()
}

/// Converts a store error about a copy source.
fn source_error(error: &StoreError, named: &CopySourceHeader, id: &RequestId) -> S3Error {
    let version = named.version.as_deref().unwrap_or_default();
    client_error::client_error_naming(error, id, &named.bucket, named.key.as_str(), version)
}

/// The error for a source that is a delete marker (S3 API reference, CopyObject).
fn marked_source(named: &CopySourceHeader, which: Selector) -> S3Error {
    match which {
        Selector::Current => S3Error::new(ErrorCode::NoSuchKey).element("Key", named.key.as_str()),
        Selector::Null | Selector::Id(_) => S3Error::new(ErrorCode::InvalidRequest).message(
            "The source of a copy request may not specifically refer to a delete marker by version id.",
        ),
    }
}

fn check_conditions(version: &VersionRecord, call: &Call<'_>) -> Result<(), S3Error> {
    let conditions = ReadConditions::of_copy_source(call.vendor());
    match conditions.decide(&version.etag.to_string(), version.last_modified(), call.received) {
        ConditionOutcome::Proceed => Ok(()),
        ConditionOutcome::Failed(condition) | ConditionOutcome::NotModified(condition) => {
            let name = format!("{}copy-source-{condition}", call.dialect.header_prefix());
            Err(S3Error::new(ErrorCode::PreconditionFailed).element("Condition", name))
        }
    }
}

impl SourceObject {
    /// A range of the source, as the store copies it.
    ///
    /// # Errors
    /// `InvalidRequest` for more bytes than a single put may have (S3 API reference, CopyObject and
    /// UploadPartCopy).
    pub(super) fn bytes(&self, range: Range<u64>) -> Result<store::CopyRange, S3Error> {
        if range.end - range.start > PUT_SIZE_MAX_BYTES {
            return Err(S3Error::new(ErrorCode::InvalidRequest).message(format!(
                "The specified copy source is larger than the maximum allowable size for a copy source: \
                 {PUT_SIZE_MAX_BYTES}"
            )));
        }
        let key = self.named.key.as_str().to_owned();
        Ok(store::CopyRange { bucket: self.found.bucket.id, key, version: self.found.version.clone(), range })
    }

    /// A reader of bytes of the source.
    ///
    /// # Errors
    /// Errors of the store.
    pub(super) fn read(&self, store: &Store, range: Range<u64>) -> Result<ObjectReader, StoreError> {
        store.read_opened(&self.found, range, &self.own, self.key.key())
    }

    /// Converts the outcome of a copy. The source may have been deleted in the meantime.
    ///
    /// # Errors
    /// `NoSuchVersion` or `NoSuchKey` for a deleted source; the errors of the store.
    pub(super) fn copied<T>(
        &self,
        outcome: Result<T, StoreError>,
        target: &RequestNames,
    ) -> Result<T, S3Error> {
        outcome.map_err(|error| match error {
            StoreError::NoSuchVersion => self.gone(&target.id),
            error => target.to_client_error(&error),
        })
    }

    fn gone(&self, id: &RequestId) -> S3Error {
        let error = match self.named.version {
            Some(_) => StoreError::NoSuchVersion,
            None => StoreError::NoSuchKey,
        };
        source_error(&error, &self.named, id)
    }

    /// Adds the id of the source version to a response, if the bucket of the source has versions.
    pub(super) fn add_version_id(&self, store: &Store, response: Response) -> Response {
        match version_id::response_id(store, &self.found.bucket, &self.found.version) {
            Some(id) => response.header("p-copy-source-version-id", id),
            None => response,
        }
    }
}
