//! Building a whole log at once, for a store whose own log was lost: one file, complete before it
//! gets its name.

use crate::base::Timestamp;
use crate::base::limits::{KIB, PAGE_BYTES};
use crate::format::{
    Entry, Features, FileHeader, FileKind, GroupHeader, GroupKind, StoreId, log_path, page_ceil,
};
use crate::fs::{File, Fs};
use crate::log::groups::{GroupFile, GroupReader};
use crate::log::{Damage, LogError, create_file};

/// A group is closed when its entries have reached this size.
const GROUP_TARGET_BYTES: usize = 256 * KIB as usize;

/// Adds all entries. Every call adds the same entries in the same order.
type EntryFeed<'f> = dyn FnMut(&mut dyn FnMut(&Entry) -> Result<(), LogError>) -> Result<(), LogError> + 'f;

/// A log that has been built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BuiltLog {
    /// The length of its file, in bytes.
    pub len: u64,
    /// The sequence of its last group; 0 where it has none.
    pub last: u64,
}

/// Writes a log that starts with sequence 1 and holds the entries that `feed` adds. The file is
/// synced, read back and checked before it gets its name. Then `make_way` is called to move aside
/// any file of that name. Durable on return.
///
/// `feed` is called twice: every group states the length of the file, so that truncation is
/// detected.
///
/// # Errors
/// Of the disk; damage when the bytes read back differ from those written. The file then has no
/// name.
pub fn build_log(
    fs: &dyn Fs,
    store: StoreId,
    now: Timestamp,
    feed: &mut EntryFeed<'_>,
    make_way: impl FnOnce() -> Result<(), LogError>,
) -> Result<BuiltLog, LogError> {
    let mut measure = EntryWriter::new(store, now, 0, None);
    measure.write(feed)?;
    let len = measure.position;
    let last = measure.sequence - 1;
    let features = measure.features;
    let header =
        FileHeader { kind: FileKind::Log, store, number: 1, features, created: now, previous_crc: 0 };
    create_file(fs, &header, |file| {
        let mut writer = EntryWriter::new(store, now, len, Some(file));
        writer.write(feed)?;
        file.sync_data()?;
        // Read back before the old log makes way for it.
        check(file, store, writer.sequence)?;
        make_way()
    })?;
    Ok(BuiltLog { len, last })
}

/// Writes groups, or only counts their bytes.
struct EntryWriter<'a> {
    file: Option<&'a dyn File>,
    /// The length that the file will have.
    len: u64,
    store: StoreId,
    now: Timestamp,
    body: Vec<u8>,
    entry_count: u32,
    position: u64,
    sequence: u64,
    previous_crc: u32,
    /// The features of the entries so far.
    features: Features,
}

impl<'a> EntryWriter<'a> {
    fn new(store: StoreId, now: Timestamp, len: u64, file: Option<&'a dyn File>) -> Self {
        let body = Vec::with_capacity(2 * GROUP_TARGET_BYTES);
        let position = PAGE_BYTES;
        Self {
            file,
            len,
            store,
            now,
            body,
            entry_count: 0,
            position,
            sequence: 1,
            previous_crc: 0,
            features: Features::NONE,
        }
    }

    /// Writes all groups. The last one is empty: it vouches for the one before it.
    fn write(&mut self, feed: &mut EntryFeed<'_>) -> Result<(), LogError> {
        feed(&mut |entry| self.put(entry))?;
        if self.entry_count > 0 {
            self.flush()?;
        }
        self.flush()
    }

    fn put(&mut self, entry: &Entry) -> Result<(), LogError> {
        entry.encode(&mut self.body);
        self.features = self.features.with(entry.features());
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

/// Reads back the groups before the sequence `end`.
fn check(file: &dyn File, store: StoreId, end: u64) -> Result<(), LogError> {
    let groups = GroupFile { file, len: file.len()?, kind: GroupKind::Log, store };
    let mut reader = GroupReader { groups, position: PAGE_BYTES, sequence: 1, previous_crc: 0 };
    while reader.sequence < end {
        if let Err(none) = reader.next()? {
            let what = format!("the written group cannot be read back: {}", none.why());
            return Err(Damage::new(log_path(1), reader.position, what).into());
        }
    }
    Ok(())
}
