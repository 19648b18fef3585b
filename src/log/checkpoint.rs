//! Checkpoints (data-format.md, section 8): all metadata up to some group, as one file.

use std::io;
use std::thread;

use crossbeam_channel::{Sender, bounded};

use crate::base::Timestamp;
use crate::base::limits::{KIB, PAGE_BYTES};
use crate::format::{
    ByteDecoder, CheckpointEnd, DecodeError, Entry, Features, FileHeader, FileKind, GroupHeader, GroupKind,
    RawEntry, StoreId, checkpoint_path,
};
use crate::fs::{File, Fs};
use crate::log::files::newer;
use crate::log::groups::{GroupFile, GroupReader, RawGroup, body_error};
use crate::log::{Damage, LogError, create_file, open_file};

/// A group of a checkpoint is written when its entries have reached this size.
const GROUP_TARGET_BYTES: usize = 256 * KIB as usize;
/// Groups that are read ahead of the one being decoded.
const READ_AHEAD: usize = 4;

/// The parameters of a checkpoint.
pub struct CheckpointPlan<'p> {
    /// It covers the groups up to this sequence.
    pub covered: u64,
    /// The critical features of its entries.
    pub features: Features,
    /// Bytes to preallocate.
    pub expected_len: u64,
    /// Called for every group; an error aborts the checkpoint.
    pub check_abort: &'p dyn Fn() -> io::Result<()>,
}

impl CheckpointPlan<'_> {
    /// A checkpoint that is never aborted.
    pub fn covering(covered: u64) -> Self {
        Self { covered, features: Features::NONE, expected_len: 0, check_abort: &|| Ok(()) }
    }
}

/// Writes the entries of a checkpoint.
pub struct CheckpointWriter<'a> {
    file: &'a dyn File,
    check_abort: &'a dyn Fn() -> io::Result<()>,
    store: StoreId,
    now: Timestamp,
    body: Vec<u8>,
    entry_count: u32,
    counts: CheckpointCounts,
    position: u64,
    sequence: u64,
    previous_crc: u32,
}

/// The numbers that the end of a checkpoint states.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct CheckpointCounts {
    buckets: u64,
    versions: u64,
}

impl CheckpointCounts {
    fn add(&mut self, entry: &Entry) {
        self.buckets += u64::from(matches!(entry, Entry::BucketPut(_)));
        self.versions += u64::from(matches!(entry, Entry::VersionPut { .. }));
    }

    fn add_raw(&mut self, entry: &RawEntry<'_>) {
        self.buckets += u64::from(entry.is_bucket_put());
        self.versions += u64::from(entry.is_version_put());
    }

    fn of(end: &CheckpointEnd) -> Self {
        Self { buckets: end.buckets, versions: end.versions }
    }
}

impl<'a> CheckpointWriter<'a> {
    /// Writes a checkpoint. `feed` adds the entries and returns the end, which it gets from
    /// [`CheckpointWriter::end`]. The file is read back and checked before it gets its name.
    /// Returns the length of the file in bytes. Durable on return.
    ///
    /// # Errors
    /// - [`LogError::DiskFull`], usually before anything was written.
    /// - Others of the disk.
    /// - Damage, when the bytes read back differ from those written.
    /// - The error of `check_abort`.
    ///
    /// No file is left then.
    pub fn write(
        fs: &dyn Fs,
        store: StoreId,
        now: Timestamp,
        plan: &CheckpointPlan<'_>,
        feed: &mut dyn FnMut(&mut CheckpointWriter<'_>) -> Result<CheckpointEnd, LogError>,
    ) -> Result<u64, LogError> {
        let CheckpointPlan { covered, features, expected_len, check_abort } = *plan;
        let header = FileHeader {
            kind: FileKind::Checkpoint,
            store,
            number: covered,
            features,
            created: now,
            previous_crc: 0,
        };
        let file = create_file(fs, &header, |file| {
            // Without preallocation the sync reports a full disk, before the file has its name.
            file.reserve(0, expected_len)?;
            let mut writer = CheckpointWriter::new(file, check_abort, store, now);
            let end = feed(&mut writer)?;
            writer.put(&Entry::CheckpointEnd(end))?;
            writer.flush()?;
            // Returns unused preallocated space.
            file.truncate(writer.position)?;
            file.sync_data()?;
            // Read back before it has its name: an older checkpoint and the log before this one go
            // because of it.
            let found = read_groups(file, &checkpoint_path(covered), store, &mut |_| Ok(()))?;
            debug_assert_eq!(found, end, "what was read back is what was written");
            Ok(check_abort()?)
        })?;
        Ok(file.len()?)
    }

    fn new(
        file: &'a dyn File,
        check_abort: &'a dyn Fn() -> io::Result<()>,
        store: StoreId,
        now: Timestamp,
    ) -> Self {
        Self {
            file,
            check_abort,
            store,
            now,
            body: Vec::with_capacity(GROUP_TARGET_BYTES + KIB as usize),
            entry_count: 0,
            counts: CheckpointCounts::default(),
            position: PAGE_BYTES,
            sequence: 1,
            previous_crc: 0,
        }
    }

    /// Bytes that the file occupies, preallocated space included.
    ///
    /// # Errors
    /// Of the disk.
    pub fn allocated_bytes(&self) -> Result<u64, LogError> {
        Ok(self.file.usage()?.allocated_bytes)
    }

    /// The end of a checkpoint of the entries so far.
    pub fn end(&self, through: u64, last_stamp: u64) -> CheckpointEnd {
        let CheckpointCounts { buckets, versions } = self.counts;
        CheckpointEnd { through, last_stamp, buckets, versions }
    }

    /// Adds an entry.
    ///
    /// # Errors
    /// Of the disk.
    pub fn put(&mut self, entry: &Entry) -> Result<(), LogError> {
        self.counts.add(entry);
        entry.encode(&mut self.body);
        self.entry_count += 1;
        if self.body.len() >= GROUP_TARGET_BYTES { self.flush() } else { Ok(()) }
    }

    /// Adds entries that are already encoded, without gaps.
    ///
    /// # Errors
    /// Of the disk.
    ///
    /// # Panics
    /// On bytes that are not encoded entries.
    pub fn put_encoded(&mut self, entries: &[u8]) -> Result<(), LogError> {
        let mut from = ByteDecoder::new(entries);
        while !from.is_done() {
            let entry = RawEntry::read(&mut from).expect("encoded entries can be read");
            self.counts.add_raw(&entry);
            entry.encode(&mut self.body);
            self.entry_count += 1;
            if self.body.len() >= GROUP_TARGET_BYTES {
                self.flush()?;
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), LogError> {
        (self.check_abort)()?;
        let header = GroupHeader {
            kind: GroupKind::Checkpoint,
            sequence: self.sequence,
            stable: 0,
            file_len: 0,
            time: self.now,
            pack: None,
            previous_crc: self.previous_crc,
        };
        let (bytes, crc) = header.encode_group(&self.store, self.entry_count, &self.body);
        self.file.write_all_at(&bytes, self.position)?;
        self.position += bytes.len() as u64;
        self.sequence += 1;
        self.previous_crc = crc;
        self.body.clear();
        self.entry_count = 0;
        Ok(())
    }
}

/// Receives the entries of a checkpoint, in order. An error says why an entry is invalid.
pub(super) type EntryVisitor<'v> = dyn FnMut(&RawEntry<'_>) -> Result<(), String> + 'v;

/// Reads the checkpoint that covers the groups up to `covered`. The entries given to `visit` are
/// valid only if this succeeds.
///
/// # Errors
/// Damage where the file is not a whole and valid checkpoint; errors of the disk.
pub fn read_checkpoint(
    fs: &dyn Fs,
    store: StoreId,
    covered: u64,
    visit: &mut EntryVisitor<'_>,
) -> Result<CheckpointEnd, LogError> {
    let (file, _) = open_file(fs, FileKind::Checkpoint, covered, Some(store))?;
    read_groups(file.as_ref(), &checkpoint_path(covered), store, visit)
}

/// Checks that a file, whose header is good, holds a whole checkpoint.
///
/// # Errors
/// Damage where it does not; errors of the disk.
pub(super) fn check_copy(file: &dyn File, path: &str, store: StoreId) -> Result<(), LogError> {
    read_groups(file, path, store, &mut |_| Ok(())).map(drop)
}

/// A second thread reads and checks CRCs while this one decodes the entries.
fn read_groups(
    file: &dyn File,
    path: &str,
    store: StoreId,
    visit: &mut EntryVisitor<'_>,
) -> Result<CheckpointEnd, LogError> {
    let reader = GroupReader {
        groups: GroupFile { file, len: file.len()?, kind: GroupKind::Checkpoint, store },
        position: PAGE_BYTES,
        sequence: 1,
        previous_crc: 0,
    };
    thread::scope(|scope| {
        // A few groups ahead: enough that neither thread waits, and no more memory than they take.
        let (outbox, groups) = bounded(READ_AHEAD);
        scope.spawn(move || read_ahead(reader, path, &outbox));
        let mut counts = CheckpointCounts::default();
        for group in groups {
            let (group, at) = group?;
            if let Some(end) = read_group(&group, path, at, &mut counts, visit)? {
                return Ok(end);
            }
        }
        unreachable!("reading ahead ends with an error or when nobody takes its groups")
    })
}

type ReadGroup = Result<(RawGroup, u64), LogError>;

/// Reads until a group is bad or the receiver is dropped.
fn read_ahead(mut reader: GroupReader<'_>, path: &str, outbox: &Sender<ReadGroup>) {
    loop {
        let read = reader
            .next_raw()
            .and_then(|read| read.map_err(|none| Damage::new(path, reader.position, none.why()).into()));
        let failed = read.is_err();
        if outbox.send(read).is_err() || failed {
            return;
        }
    }
}

/// Visits the entries of a group. Returns the end of the checkpoint if this group holds it.
pub(super) fn read_group(
    group: &RawGroup,
    path: &str,
    at: u64,
    counts: &mut CheckpointCounts,
    visit: &mut EntryVisitor<'_>,
) -> Result<Option<CheckpointEnd>, LogError> {
    for entry in group.group.raw_entries(&group.body) {
        let entry = entry.map_err(|error| bad_entry(group, path, at, error))?;
        if let Some(end) = entry.checkpoint_end().map_err(|error| bad_entry(group, path, at, error))? {
            return check_end(end, *counts).map(Some).map_err(|why| Damage::new(path, at, why).into());
        }
        counts.add_raw(&entry);
        visit(&entry).map_err(|why| LogError::from(Damage::new(path, at, why)))?;
    }
    Ok(None)
}

/// An entry of a newer version is not damage: the file is whole, and another version reads it.
fn bad_entry(group: &RawGroup, path: &str, at: u64, error: DecodeError) -> LogError {
    let why = body_error(group.sequence(), error);
    if error.is_newer() { newer(path, why) } else { Damage::new(path, at, why).into() }
}

fn check_end(end: CheckpointEnd, found: CheckpointCounts) -> Result<CheckpointEnd, String> {
    let said = CheckpointCounts::of(&end);
    if said == found {
        return Ok(end);
    }
    Err(format!(
        "its end states {} buckets and {} versions, but it holds {} and {}",
        said.buckets, said.versions, found.buckets, found.versions
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::sim::SimFs;
    use crate::log::list_numbers;

    #[test]
    fn a_checkpoint_with_other_counts_than_its_end_is_refused() {
        let fs = SimFs::new();
        fs.create_dir(FileKind::Checkpoint.dir()).unwrap();
        let write = |covered, buckets| {
            CheckpointWriter::write(
                &fs,
                StoreId([1; 16]),
                Timestamp::from_millis(1),
                &CheckpointPlan::covering(covered),
                &mut |writer| {
                    writer.put(&Entry::BucketDelete { id: 1 })?;
                    Ok(CheckpointEnd { buckets, ..writer.end(covered, 0) })
                },
            )
        };
        write(1, 0).unwrap();
        let refused = write(2, 1).unwrap_err().to_string();
        assert!(refused.contains("states 1 buckets and 0 versions, but it holds 0 and 0"), "{refused}");
        assert_eq!(list_numbers(&fs, FileKind::Checkpoint).unwrap(), [1]);
    }

    #[test]
    fn nothing_after_the_end_of_a_checkpoint_is_looked_at() {
        let fs = SimFs::new();
        fs.create_dir(FileKind::Checkpoint.dir()).unwrap();
        let store = StoreId([1; 16]);
        let now = Timestamp::from_millis(1);
        let len = CheckpointWriter::write(&fs, store, now, &CheckpointPlan::covering(1), &mut |writer| {
            writer.put(&Entry::BucketDelete { id: 1 })?;
            Ok(writer.end(1, 7))
        })
        .unwrap();
        fs.open(&checkpoint_path(1)).unwrap().write_all_at(&[0xff; 5000], len).unwrap();
        let mut entries = 0;
        let end = read_checkpoint(&fs, store, 1, &mut |_| {
            entries += 1;
            Ok(())
        });
        assert_eq!((end.unwrap().last_stamp, entries), (7, 1));
    }
}
