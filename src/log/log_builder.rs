//! A log made in one go, for a store whose own was lost: one file that holds all groups before it gets its name.

use crate::base::Timestamp;
use crate::base::limits::{KIB, PAGE_BYTES};
use crate::format::{Entry, FileHeader, FileKind, GroupHeader, GroupKind, StoreId, log_path, page_ceil};
use crate::fs::{File, Fs};
use crate::log::groups::{GroupFile, GroupReader};
use crate::log::{Damage, LogError, create_file};

/// A group is closed when its entries have reached this size.
const GROUP_TARGET_BYTES: usize = 256 * KIB as usize;

/// Puts in all entries, the same ones in the same order whenever it is called.
type EntryFeed<'f> = dyn FnMut(&mut dyn FnMut(&Entry) -> Result<(), LogError>) -> Result<(), LogError> + 'f;

/// A log that was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BuiltLog {
    /// The length of its file, in bytes.
    pub len: u64,
    /// The sequence of its last group; 0 where it has none.
    pub last: u64,
}

/// Writes a log that starts with sequence 1 and holds the entries that `feed` puts in. Before the file gets its name, all of
/// it is synced, read back and checked, and then `make_way` is called, to move aside what stands where it belongs. Durable on
/// return.
///
/// The entries are asked for twice: every group tells how long the file is, so that a file that was cut off is known for it.
///
/// # Errors
/// Of the disk; damage when reading back finds something else than was written. The file then has no name.
pub fn build_log(
    fs: &dyn Fs,
    store: StoreId,
    now: Timestamp,
    feed: &mut EntryFeed<'_>,
    make_way: impl FnOnce() -> Result<(), LogError>,
) -> Result<BuiltLog, LogError> {
    let mut measure = EntryWriter::new(store, now, 0, None);
    measure.write(feed)?;
    let (len, last) = (measure.position, measure.sequence - 1);
    let header = FileHeader { kind: FileKind::Log, store, number: 1, created: now, previous_crc: 0 };
    create_file(fs, &header, |file| {
        let mut writer = EntryWriter::new(store, now, len, Some(file));
        writer.write(feed)?;
        file.sync_data()?;
        check(file, store, writer.sequence)?;
        make_way()
    })?;
    Ok(BuiltLog { len, last })
}

/// Writes groups, or only counts how long they are.
struct EntryWriter<'a> {
    file: Option<&'a dyn File>,
    /// How long the file will be.
    len: u64,
    store: StoreId,
    now: Timestamp,
    body: Vec<u8>,
    entry_count: u32,
    position: u64,
    sequence: u64,
    previous_crc: u32,
}

impl<'a> EntryWriter<'a> {
    fn new(store: StoreId, now: Timestamp, len: u64, file: Option<&'a dyn File>) -> Self {
        let (body, position) = (Vec::with_capacity(2 * GROUP_TARGET_BYTES), PAGE_BYTES);
        Self { file, len, store, now, body, entry_count: 0, position, sequence: 1, previous_crc: 0 }
    }

    /// The last group is empty: it says of the one before it that it is durable.
    fn write(&mut self, feed: &mut EntryFeed<'_>) -> Result<(), LogError> {
        feed(&mut |entry| self.put(entry))?;
        if self.entry_count > 0 {
            self.flush()?;
        }
        self.flush()
    }

    fn put(&mut self, entry: &Entry) -> Result<(), LogError> {
        entry.encode(&mut self.body);
        self.entry_count += 1;
        if self.body.len() >= GROUP_TARGET_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), LogError> {
        if let Some(file) = self.file {
            let header = GroupHeader {
                kind: GroupKind::Log,
                sequence: self.sequence,
                stable: self.sequence - 1,
                file_len: self.len,
                time: self.now,
                pack: None,
                previous_crc: self.previous_crc,
            };
            let (bytes, crc) = header.encode_group(&self.store, self.entry_count, &self.body);
            file.write_all_at(&bytes, self.position)?;
            self.previous_crc = crc;
        }
        self.position += page_ceil((GroupHeader::BYTES + self.body.len()) as u64);
        self.sequence += 1;
        self.body.clear();
        self.entry_count = 0;
        Ok(())
    }
}

/// Reads the groups before `end` back.
fn check(file: &dyn File, store: StoreId, end: u64) -> Result<(), LogError> {
    let groups = GroupFile { file, len: file.len()?, kind: GroupKind::Log, store };
    let mut reader = GroupReader { groups, position: PAGE_BYTES, sequence: 1, previous_crc: 0 };
    while reader.sequence < end {
        if let Err(none) = reader.next()? {
            let what = format!("what was written cannot be read back: {}", none.why());
            return Err(Damage::new(log_path(1), reader.position, what).into());
        }
    }
    Ok(())
}
