//! Changing the metadata of a version that exists: its tags, its access control list, its locks.

use super::client_error::ForClient as _;
use super::lookup::LoadedVersion;
use super::{Context, version_id};
use crate::s3::{Call, Response, S3Error};
use crate::store::{StoreError, VersionRecord};

/// Makes `change` to the version that a call found, and answers with its id. Durable on return if
/// the change is.
///
/// # Errors
/// Errors of `change`. A version that has gone meanwhile is missed by the name that the call gave
/// it.
pub(super) fn amend(
    context: &Context,
    call: &Call<'_>,
    found: LoadedVersion,
    status: u16,
    change: impl FnOnce(VersionRecord) -> Result<(), StoreError>,
) -> Result<Response, S3Error> {
    let response = version_id::add_version_id(context, Response::new(status), &found);
    let (found, _held) = found.into_parts();
    let changed = change(found.version).map_err(|error| match error {
        StoreError::NoSuchVersion if !call.query.has("versionId") => StoreError::NoSuchKey,
        other => other,
    });
    changed.for_client(call)?;
    Ok(response)
}
