//! The file of a segment whose bytes the remote has: its first and last page, and a hole between
//! them. A start reads no other page.

use super::chain::RemoteLog;
use super::error::ShipError;
use super::object::get;
use crate::base::limits::PAGE_BYTES;
use crate::format::{FileKind, Footer, RemoteCopy, segment_path};
use crate::fs::Fs;
use crate::log::{check_header, write_atomically};

/// The first and the last page of a segment that the remote has, checked.
///
/// # Errors
/// [`ShipError::Remote`], and [`ShipError::Damaged`] where they are not those of this segment.
pub(crate) fn end_pages(
    log: RemoteLog<'_>,
    segment: u64,
    copy: RemoteCopy,
) -> Result<[Vec<u8>; 2], ShipError> {
    let name = copy.name(segment);
    if copy.length < 2 * PAGE_BYTES || !copy.length.is_multiple_of(PAGE_BYTES) {
        return Err(ShipError::damaged(name, &"its length is that of no segment"));
    }
    let first = get(log.remote, &name, 0..PAGE_BYTES)?;
    let last = get(log.remote, &name, copy.length - PAGE_BYTES..copy.length)?;
    check_header(&first, FileKind::Segment, segment, Some(log.store))
        .map_err(|error| ShipError::damaged(&name, &error))?;
    Footer::decode(&log.store, &last).map_err(|error| ShipError::damaged(&name, &error))?;
    Ok([first, last])
}

/// Creates the file of a segment that the remote has, or replaces it by one without bytes of its
/// own. Durable on return. Readers of an older file read on.
///
/// # Errors
/// As of [`end_pages`], and [`ShipError::Disk`].
pub(crate) fn place_copy(
    log: RemoteLog<'_>,
    fs: &dyn Fs,
    segment: u64,
    copy: RemoteCopy,
) -> Result<(), ShipError> {
    let [first, last] = end_pages(log, segment, copy)?;
    let path = segment_path(segment);
    let placed = write_atomically(fs, &path, FileKind::Segment.dir(), |file| {
        file.write_all_at(&first, 0)?;
        Ok(file.write_all_at(&last, copy.length - PAGE_BYTES)?)
    });
    placed.map_err(|error| ShipError::Disk(format!("{path}: {error}")))?;
    Ok(())
}
