//! The version that a request is about, and the one that a copy is made of.

use std::ops::{Deref, Range};

use super::client_error::{self, ErrorContext, ForClient as _};
use super::{Context, memory, owner, version_id};
use crate::auth::{Action, Authorized};
use crate::base::Reservation;
use crate::base::limits::PUT_SIZE_MAX_BYTES;
use crate::s3::conditions::{ConditionOutcome, ReadConditions};
use crate::s3::{Call, CopySourceHeader, ErrorCode, RequestId, Response, S3Error};
use crate::store::{self, FoundVersion, Selector, Store, StoreError, VersionRecord};

/// A version that was found, and the memory that it takes up.
pub(super) struct LoadedVersion {
    found: FoundVersion,
    held: Reservation,
}

impl LoadedVersion {
    /// The version, and what is to be held for as long as it is there.
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

/// The version that is asked for, if there is one to be read.
///
/// # Errors
/// Those of a read: `NoSuchKey` or, for whom it must be concealed from, `AccessDenied`; `NoSuchVersion`;
/// `MethodNotAllowed` for a delete marker that is named; `SlowDown`.
pub(super) fn target(
    context: &Context,
    proof: &Authorized,
    call: &Call<'_>,
) -> Result<LoadedVersion, S3Error> {
    let find = |which| context.store.find(call.bucket(), call.key(), which);
    target_by(find, context, proof, call)
}

/// The same, of which neither the bytes can be read nor the parts are known: what most HEADs want.
///
/// # Errors
/// As of [`target`].
pub(super) fn outline(
    context: &Context,
    proof: &Authorized,
    call: &Call<'_>,
) -> Result<LoadedVersion, S3Error> {
    let find = |which| context.store.find_outline(call.bucket(), call.key(), which);
    target_by(find, context, proof, call)
}

fn target_by(
    find: impl FnOnce(Selector) -> Result<FoundVersion, StoreError>,
    context: &Context,
    proof: &Authorized,
    call: &Call<'_>,
) -> Result<LoadedVersion, S3Error> {
    let which = version_id::selector(context, call)?;
    let found = find(which).for_client(call);
    let found = found.map_err(|error| conceal(error, proof, (call.bucket(), call.key())))?;
    if !found.version.delete_marker {
        let held = memory::for_version(context, &found.version)?;
        return Ok(LoadedVersion { found, held });
    }
    Err(match which {
        Selector::Current => conceal(deleted(context, &found, call), proof, (call.bucket(), call.key())),
        Selector::Null | Selector::Id(_) => marker(context, &found, call),
    })
}

/// Whether a key exists is told to those alone who could list it (S3 API reference, GetObject, "Permissions").
pub(super) fn conceal(error: S3Error, proof: &Authorized, (bucket, key): (&str, &str)) -> S3Error {
    let secret = error.code == ErrorCode::NoSuchKey && !proof.may(Action::ListBucket, bucket, Some(key));
    if secret { S3Error::new(ErrorCode::AccessDenied) } else { error }
}

/// The answer where the current version is a delete marker (S3 user guide, "Working with delete markers").
fn deleted(context: &Context, found: &FoundVersion, call: &Call<'_>) -> S3Error {
    let error =
        S3Error::new(ErrorCode::NoSuchKey).element("Key", call.key()).header("p-delete-marker", "true");
    with_version_id(context, error, found)
}

/// The answer where the version that was named is a delete marker.
fn marker(context: &Context, found: &FoundVersion, call: &Call<'_>) -> S3Error {
    let error = S3Error::new(ErrorCode::MethodNotAllowed)
        .element("Method", call.request.method.as_str())
        .element("ResourceType", "DeleteMarker")
        .header("Allow", "DELETE")
        .header("Last-Modified", found.version.modified.to_http_date())
        .header("p-delete-marker", "true");
    with_version_id(context, error, found)
}

fn with_version_id(context: &Context, error: S3Error, found: &FoundVersion) -> S3Error {
    match version_id::shown(&context.store, &found.bucket, &found.version) {
        Some(id) => error.header("p-version-id", id),
        None => error,
    }
}

/// What a copy is made of: a version that the caller may read.
pub(super) struct SourceObject {
    /// The bucket and the version.
    pub(super) found: FoundVersion,
    /// How the client named it.
    pub(super) named: CopySourceHeader,
    _held: Reservation,
}

/// The version that `p-copy-source` names, if the caller may read it and its conditions hold.
///
/// # Errors
/// `InvalidArgument` for what names nothing; `AccessDenied`; `NoSuchBucket`, `NoSuchKey`, `NoSuchVersion`;
/// `InvalidRequest` for a delete marker that is named; `PreconditionFailed`; `SlowDown`.
pub(super) fn source(
    context: &Context,
    proof: &Authorized,
    call: &Call<'_>,
) -> Result<SourceObject, S3Error> {
    let named = CopySourceHeader::from_headers(call.vendor())?;
    let which = version_id::named(context, named.version.as_deref())?;
    let action = if which == Selector::Current { Action::GetObject } else { Action::GetObjectVersion };
    if !proof.may(action, &named.bucket, Some(named.key.as_str())) {
        return Err(S3Error::new(ErrorCode::AccessDenied));
    }
    owner::check_source(context, call, &named.bucket)?;
    let found = context.store.find(&named.bucket, named.key.as_str(), which);
    let place = (named.bucket.as_str(), named.key.as_str());
    let found = found.map_err(|error| conceal(source_error(&error, &named, &call.id), proof, place))?;
    if found.version.delete_marker {
        return Err(conceal(marked_source(&named, which), proof, place));
    }
    check_conditions(&found.version, call)?;
    let held = memory::for_version(context, &found.version)?;
    Ok(SourceObject { found, named, _held: held })
}

/// Converts a store error about a copy source.
fn source_error(error: &StoreError, named: &CopySourceHeader, id: &RequestId) -> S3Error {
    let version = named.version.as_deref().unwrap_or_default();
    client_error::client_error_naming(error, id, (&named.bucket, named.key.as_str(), version))
}

/// The answer where a copy is to be made of a delete marker (S3 API reference, CopyObject).
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
    match conditions.decide(&version.etag.to_string(), version.modified) {
        ConditionOutcome::Proceed => Ok(()),
        ConditionOutcome::Failed(condition) | ConditionOutcome::NotModified(condition) => {
            let name = format!("{}copy-source-{condition}", call.dialect.header_prefix());
            Err(S3Error::new(ErrorCode::PreconditionFailed).element("Condition", name))
        }
    }
}

impl SourceObject {
    /// Bytes of the source, to be copied.
    ///
    /// # Errors
    /// `InvalidRequest` for more than can be put at once (S3 API reference, CopyObject and UploadPartCopy).
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

    /// What the client is told of a copy that the store has made, or not: a source that went away meanwhile is not there.
    ///
    /// # Errors
    /// `NoSuchVersion` or `NoSuchKey` for a source that is gone; else those of the store.
    pub(super) fn copied<T>(
        &self,
        outcome: Result<T, StoreError>,
        target: &ErrorContext,
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

    /// Tells in a response which version was copied, where the bucket of the source has versions.
    pub(super) fn announce(&self, store: &Store, response: Response) -> Response {
        match version_id::shown(store, &self.found.bucket, &self.found.version) {
            Some(id) => response.header("p-copy-source-version-id", id),
            None => response,
        }
    }
}
