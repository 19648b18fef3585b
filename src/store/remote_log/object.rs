//! Single objects of the remote: reading them whole or in part, and creating them.

use std::ops::Range;

use super::error::ShipError;
use super::request::{BACKGROUND, PATIENCE};
use crate::base::limits::MIB;
use crate::format::{Decoded, RemoteMark, SEALED_LINE_MAX_BYTES, StoreId};
use crate::remote::{NewObject, ObjectPart, Remote, RemoteError, RemoteView, read_mark};

/// Bytes that one request fetches of an object: the whole of most parcels.
const START_BYTES: u64 = MIB;

/// An object that is one line, by one request.
pub(crate) fn line<T>(
    remote: &dyn RemoteView,
    name: &str,
    decode: impl Fn(&[u8]) -> Decoded<T>,
) -> Result<Option<T>, ShipError> {
    let part = match remote.get_part(name, 0..SEALED_LINE_MAX_BYTES, PATIENCE) {
        Err(RemoteError::Missing) => return Ok(None),
        read => read.map_err(|error| ShipError::of_object(name, error))?,
    };
    // Hostile or foreign: nothing longer was ever put there.
    if part.object_length > SEALED_LINE_MAX_BYTES {
        return Err(ShipError::damaged(name, &format!("it has {} bytes", part.object_length)));
    }
    decode(&part.bytes).map(Some).map_err(|error| ShipError::damaged(name, &error))
}

/// The first bytes of an object: all of it, unless it is long.
pub(crate) fn start_of_object(remote: &dyn RemoteView, name: &str) -> Result<Option<ObjectPart>, ShipError> {
    match remote.get_part(name, 0..START_BYTES, PATIENCE) {
        Err(RemoteError::Missing) => Ok(None),
        found => found.map(Some).map_err(|error| ShipError::of_object(name, error)),
    }
}

/// A whole object of at most `most` bytes, whose first bytes are here.
pub(crate) fn rest_of_object(
    remote: &dyn RemoteView,
    name: &str,
    start: ObjectPart,
    most: u64,
) -> Result<Vec<u8>, ShipError> {
    let ObjectPart { mut bytes, object_length } = start;
    if object_length == 0 || object_length > most {
        return Err(ShipError::damaged(name, &format!("it has {object_length} bytes")));
    }
    if (bytes.len() as u64) < object_length {
        bytes.extend(get(remote, name, bytes.len() as u64..object_length)?);
    }
    Ok(bytes)
}

/// Bytes of an object.
pub(crate) fn get(remote: &dyn RemoteView, name: &str, range: Range<u64>) -> Result<Vec<u8>, ShipError> {
    let found = remote.get(name, range.clone(), BACKGROUND.of_bytes(range.end - range.start));
    found.map_err(|error| ShipError::Remote { name: name.to_owned(), error })
}

pub(crate) fn missing(name: &str) -> ShipError {
    ShipError::Remote { name: name.to_owned(), error: RemoteError::Missing }
}

/// The store that the remote is marked for.
pub(crate) fn store_of(remote: &dyn RemoteView) -> Result<StoreId, ShipError> {
    Ok(mark_of(remote)?.store)
}

/// The mark of the remote, which names its store.
pub(crate) fn mark_of(remote: &dyn RemoteView) -> Result<RemoteMark, ShipError> {
    let name = RemoteMark::NAME;
    let mark = read_mark(remote, PATIENCE).map_err(|error| ShipError::of_object(name, error))?;
    mark.ok_or_else(|| missing(name))
}

/// Creates an object; fails with [`RemoteError::Exists`] where another put has.
pub(crate) fn put_once(remote: &dyn Remote, name: &str, bytes: &[u8], nonce: &str) -> Result<(), ShipError> {
    let object = NewObject { name, body: &bytes, nonce, create_only: true };
    let put = remote.put(&object, PATIENCE);
    put.map(drop).map_err(|error| ShipError::Remote { name: name.to_owned(), error })
}
