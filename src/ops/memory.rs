//! What a request needs of the memory beyond what its worker has anyway.

use std::ops::Deref;
use std::time::Duration;

use super::Context;
use crate::base::Reservation;
use crate::base::limits::{BLOCK_BYTES, KEY_LEN_MAX_BYTES, KIB, MEMORY_PATIENCE_MILLIS};
use crate::s3::S3Error;
use crate::store::{PartsTotal, VersionRecord};

/// What an item of a page has beside its name, in memory and in the document.
const ITEM_BYTES: u64 = 256;
const WRITTEN_ITEM_BYTES: u64 = 512;
/// A byte of a name becomes so many in a document at the most, as `&#x1f;`.
const WRITTEN_BYTE_MAX: u64 = 6;
/// What a document has beside its items: what was asked for, echoed, some of it encoded.
const DOCUMENT_BYTES: u64 = 32 * KIB;
/// A deletion beside its key: what is asked, what is committed, and what came of it.
const DELETION_BYTES: u64 = 1024;
/// A key is there as it was asked for, as it is committed, as it is written, and as the log has it.
const KEY_COPIES: u64 = 4;

/// A part of an upload: as it was found, as it was listed, as it is committed, and as it is written.
const PART_BYTES: u64 = 1024;
/// An extent in all of these, in the reader of an object, and in a copy on its way.
const EXTENT_BYTES: u64 = 128;
/// So many extents of one version are within what a worker has.
const EXTENTS_OF_WORKER: usize = 64;
/// The stack and the buffer of a thread of its own.
const PADDED_RESPONSE_BYTES: u64 = 384 * KIB;

/// Reserves memory before it is allocated, waiting for a short time where others have it.
///
/// # Errors
/// `SlowDown` when there is none to be had.
pub(super) fn reserve(context: &Context, bytes: u64) -> Result<Reservation, S3Error> {
    let patience = Duration::from_millis(MEMORY_PATIENCE_MILLIS);
    context.memory.reserve_within(bytes, patience).ok_or_else(S3Error::slow_down)
}

/// For a page of `limit` items, whatever their names.
///
/// # Errors
/// `SlowDown`.
pub(super) fn for_page(context: &Context, limit: usize) -> Result<Reservation, S3Error> {
    reserve(context, limit as u64 * (KEY_LEN_MAX_BYTES as u64 + ITEM_BYTES))
}

/// For the document that tells of items with these names, which are encoded or not. It is given to
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

/// For what is deleted, and the document that tells of it.
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

/// For all that is made of the parts of an upload until it is an object, and for the thread that makes it.
///
/// # Errors
/// `SlowDown`.
pub(super) fn for_parts(context: &Context, total: PartsTotal) -> Result<Reservation, S3Error> {
    reserve(context, PADDED_RESPONSE_BYTES + PART_BYTES * total.parts + EXTENT_BYTES * total.extents)
}

/// For a page of `limit` parts.
///
/// # Errors
/// `SlowDown`.
pub(super) fn for_page_of_parts(context: &Context, limit: usize) -> Result<Reservation, S3Error> {
    reserve(context, limit as u64 * ITEM_BYTES)
}

/// For a thread that reads an object, and its buffer.
///
/// # Errors
/// `SlowDown`.
pub(super) fn for_padded_response(context: &Context) -> Result<Reservation, S3Error> {
    reserve(context, PADDED_RESPONSE_BYTES)
}

/// For a version that was found, and what is made of it without its bytes: most take up next to nothing.
///
/// # Errors
/// `SlowDown`.
pub(super) fn for_version(context: &Context, version: &VersionRecord) -> Result<Reservation, S3Error> {
    match version.extents.len() {
        0..=EXTENTS_OF_WORKER => Ok(Reservation::default()),
        many => reserve(context, EXTENT_BYTES * many as u64),
    }
}

/// For a body that is sent from the store block by block, and may wait for its turn.
///
/// # Errors
/// `SlowDown`.
pub(super) fn for_stream(context: &Context, version: &VersionRecord) -> Result<Reservation, S3Error> {
    reserve(context, BLOCK_BYTES + EXTENT_BYTES * version.extents.len() as u64)
}

/// The most bytes that a name takes up in a document, encoded or not.
fn written_max(name: &str) -> u64 {
    let plain =
        name.bytes().fold(true, |plain, b| plain & (b.is_ascii_alphanumeric() || b"-._/".contains(&b)));
    name.len() as u64 * if plain { 1 } else { WRITTEN_BYTE_MAX }
}

/// Bytes, and the memory that they and what is made of them take up.
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
    fn names_that_have_to_be_encoded_count_for_what_becomes_of_them() {
        assert_eq!(written_max("a/b-c_d.e"), 9);
        assert_eq!(written_max("a b"), 18);
        assert_eq!(written_max("\u{1}\u{1f}"), "&#x1f;".len() as u64 * 2);
    }
}
