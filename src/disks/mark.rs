//! The marks of a pair of directories: the same page in both (data-format.md, section 23).

use std::io;

use super::DisksError;
use crate::base::Timestamp;
use crate::base::limits::PAGE_BYTES;
use crate::format::{BULK_MARK_NUMBER, FAST_MARK, Features, FileHeader, FileKind, StoreId, log_path};
use crate::fs::Fs;
use crate::log::write_atomically;

/// The path of the mark of the data directory.
pub(super) fn data_path() -> String {
    log_path(BULK_MARK_NUMBER)
}

/// The pair that a data directory belongs to; `None` where its log is its own.
pub(super) fn of_data(disk: &dyn Fs) -> Result<Option<StoreId>, DisksError> {
    read(disk, &data_path())
}

/// The pair that a fast directory belongs to; `None` where it is none.
pub(super) fn of_fast(disk: &dyn Fs) -> Result<Option<StoreId>, DisksError> {
    read(disk, FAST_MARK)
}

/// Marks a data directory: its log is in the fast one from then on. Durable on return.
pub(super) fn mark_data(disk: &dyn Fs, pair: StoreId, now: Timestamp) -> Result<(), DisksError> {
    let dir = FileKind::Log.dir();
    disk.create_dir(dir)?;
    disk.sync_dir("")?;
    write(disk, &data_path(), dir, pair, now)
}

/// Marks a fast directory. Durable on return.
pub(super) fn mark_fast(disk: &dyn Fs, pair: StoreId, now: Timestamp) -> Result<(), DisksError> {
    write(disk, FAST_MARK, "", pair, now)
}

fn write(disk: &dyn Fs, path: &str, dir: &str, pair: StoreId, now: Timestamp) -> Result<(), DisksError> {
    let header = FileHeader {
        kind: FileKind::Log,
        store: pair,
        number: BULK_MARK_NUMBER,
        features: Features::FAST_DIRECTORY,
        created: now,
        previous_crc: 0,
    };
    write_atomically(disk, path, dir, |file| Ok(file.write_all_at(&header.encode(), 0)?))?;
    Ok(())
}

fn read(disk: &dyn Fs, path: &str) -> Result<Option<StoreId>, DisksError> {
    let file = match disk.open_read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    let bad = |why: String| DisksError::BadMark(path.to_owned(), why);
    let mut page = vec![0; PAGE_BYTES as usize];
    file.read_exact_at(&mut page, 0).map_err(|error| bad(error.to_string()))?;
    let header = FileHeader::decode(&page).map_err(|error| bad(error.to_string()))?;
    if header.number != BULK_MARK_NUMBER || !header.features.contains(Features::FAST_DIRECTORY) {
        return Err(bad("it is another file".to_owned()));
    }
    Ok(Some(header.store))
}
