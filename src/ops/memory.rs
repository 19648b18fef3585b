//! Memory reservations of requests, in addition to the memory of their workers.

use std::ops::Deref;
use std::time::Duration;

use super::Context;
use crate::base::Reservation;
use crate::base::limits::{BLOCK_BYTES, KEY_LEN_MAX_BYTES, KIB, MEMORY_PATIENCE_MILLIS};
use crate::s3::S3Error;
use crate::store::{PartsTotal, VersionRecord};

/// The size of an item of a page besides its name, in memory and in the document.
const ITEM_BYTES: u64 = 256;
const WRITTEN_ITEM_BYTES: u64 = 512;
/// The longest encoding of a byte of a name in a document, as `&#x1f;`.
const WRITTEN_BYTE_MAX: u64 = 6;
/// The size of a document besides its items: the echoed parameters, some of them encoded.
const DOCUMENT_BYTES: u64 = 32 * KIB;
/// The size of a deletion besides its key: request, mutation and result.
const DELETION_BYTES: u64 = 1024;
/// Copies of a key: in the request, in the mutation, in the document and in the log.
const KEY_COPIES: u64 = 4;

/// A part of an upload: as loaded, as listed, as committed and as written.
const PART_BYTES: u64 = 1024;
/// An extent in each of these, in the reader of an object and in a copy in progress.
const EXTENT_BYTES: u64 = 128;
/// The packages of an extent in the reader of an encrypted object.
const PACKAGES_BYTES: u64 = 64;
/// Versions with up to this many extents fit in the memory of a worker.
const EXTENTS_OF_WORKER: usize = 64;
/// The stack and the buffer of the thread of a padded response.
const PADDED_RESPONSE_BYTES: u64 = 384 * KIB;

/// Reserves memory before it is allocated. Waits for a short time for others to release theirs.
///
/// # Errors
/// `SlowDown` if the memory is not available.
pub(super) fn reserve(context: &Context, bytes: u64) -> Result<Reservation, S3Error> {
    let patience = Duration::from_millis(MEMORY_PATIENCE_MILLIS);
    context.memory.reserve_within(bytes, patience).ok_or_else(S3Error::slow_down)
}

/// Reserves memory for a page of `limit` items with the longest names.
///
/// # Errors
/// `SlowDown`.
pub(super) fn for_page(context: &Context, limit: usize) -> Result<Reservation, S3Error> {
    reserve(context, limit as u64 * (KEY_LEN_MAX_BYTES as u64 + ITEM_BYTES))
}

/// Reserves memory for the document with items of these names. The reservation is passed to
/// [`Context::long_document`].
///
/// # Errors
/// `SlowDown`.
pub(super) fn for_document(
    context: &Context,
    names: impl Iterator<Item = impl AsRef<str>>,
) -> Result<Reservation, S3Error> {
    reserve(context, document_max(names))
}

/// Reserves memory for deletions and the document of their results.
///
/// # Errors
/// `SlowDown`.
pub(super) fn for_deletions<'n>(
    context: &Context,
    keys: impl Iterator<Item = &'n str> + Clone,
) -> Result<Reservation, S3Error> {
    let committed: u64 = keys.clone().map(|key| DELETION_BYTES + KEY_COPIES * key.len() as u64).sum();
    reserve(context, committed + document_max(keys))
}

fn document_max(names: impl Iterator<Item = impl AsRef<str>>) -> u64 {
    DOCUMENT_BYTES + names.map(|name| WRITTEN_ITEM_BYTES + written_max(name.as_ref())).sum::<u64>()
}

/// Reserves memory for the parts of an upload until the object is committed, and for the thread
/// that commits it.
///
/// # Errors
/// `SlowDown`.
pub(super) fn for_parts(context: &Context, total: PartsTotal) -> Result<Reservation, S3Error> {
    reserve(context, PADDED_RESPONSE_BYTES + PART_BYTES * total.parts + EXTENT_BYTES * total.extents)
}

/// Reserves memory for a page of `limit` parts.
///
/// # Errors
/// `SlowDown`.
pub(super) fn for_page_of_parts(context: &Context, limit: usize) -> Result<Reservation, S3Error> {
    reserve(context, limit as u64 * ITEM_BYTES)
}

/// Reserves memory for the thread of a padded response.
///
/// # Errors
/// `SlowDown`.
pub(super) fn for_padded_response(context: &Context) -> Result<Reservation, S3Error> {
    reserve(context, PADDED_RESPONSE_BYTES)
}

/// Reserves memory for a version without its bytes. Most versions need none.
///
/// # Errors
/// `SlowDown`.
pub(super) fn for_version(context: &Context, version: &VersionRecord) -> Result<Reservation, S3Error> {
    match version.extents.len() {
        0..=EXTENTS_OF_WORKER => Ok(Reservation::default()),
        many => reserve(context, EXTENT_BYTES * many as u64),
    }
}

/// Reserves memory for a body that is sent block by block, and that may wait for room to send.
///
/// # Errors
/// `SlowDown`.
pub(super) fn for_stream(context: &Context, version: &VersionRecord) -> Result<Reservation, S3Error> {
    let extents = version.extents.len() as u64;
    let decrypted = if version.encryption.is_some() { BLOCK_BYTES + PACKAGES_BYTES * extents } else { 0 };
    reserve(context, BLOCK_BYTES + EXTENT_BYTES * extents + decrypted)
}

/// The most bytes of a name in a document, encoded or not.
fn written_max(name: &str) -> u64 {
    let plain =
        name.bytes().fold(true, |plain, b| plain & (b.is_ascii_alphanumeric() || b"-._/".contains(&b)));
    name.len() as u64 * if plain { 1 } else { WRITTEN_BYTE_MAX }
}

/// Bytes of a document, with the reservations for them and for the parsed tree.
pub(super) struct ReservedBytes {
    pub(super) bytes: Vec<u8>,
    pub(super) _memory: [Reservation; 2],
}

impl Deref for ReservedBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoded_names_count_with_their_encoded_length() {
        assert_eq!(written_max("a/b-c_d.e"), 9);
        assert_eq!(written_max("a b"), 18);
        assert_eq!(written_max("\u{1}\u{1f}"), "&#x1f;".len() as u64 * 2);
    }
}
