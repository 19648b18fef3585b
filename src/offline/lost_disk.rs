//! A store whose fast disk is dead, made of its large disk alone: the shadow of its log tells what
//! there was, and records of bytes that went with the disk are dropped.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;

use thiserror::Error;

use crate::base::Clock;
use crate::base::limits::{KIB, MIB};
use crate::format::{
    Entry, Features, FileHeader, FileKind, FollowerNote, LogPosition, SHADOW, StoreId, UploadId,
    checkpoint_path, log_path,
};
use crate::fs::{DiskPlace, Fs, copy_file};
use crate::index::{Cursor, Index};
use crate::log::{Damage, LogError, LogTail, LogWriter, begin_log, create_file, list_numbers, shadow_of};
use crate::offline::verify::NamedOwner;
use crate::store::StoreOptions;
use crate::store::open::loader::{StoreLoader, store_id, sync_and_evict};

/// Keys per step of a walk.
const KEYS_AT_ONCE: usize = 4096;
/// A group is written when its entries have reached this size.
const GROUP_TARGET_BYTES: usize = 256 * KIB as usize;
/// Ids of segments that are not given again: the dead disk may have had segments of which the shadow
/// does not know, and an id never means two of them.
const SEGMENT_IDS_SKIPPED: u64 = 1 << 16;

/// What an operator accepts.
#[derive(Debug, Clone, Copy, Default)]
pub struct LostDiskOptions {
    /// Whether all that comes after damage in the shadow may be lost.
    pub accepts_damage: bool,
}

/// Why no log was made. The store is as it was.
#[derive(Debug, Error)]
pub enum LostDiskError {
    /// There is no shadow.
    #[error(
        "there is no copy of the log in {SHADOW}/: give it up with --discard-log, and make one from the segments with \
         siltstone-tools rebuild"
    )]
    NoShadow,
    /// The shadow cannot be read.
    #[error(
        "the copy of the log in {SHADOW}/ cannot be read: {0}. Give it up with --discard-log, and make one from the segments with \
         siltstone-tools rebuild"
    )]
    Unreadable(Damage),
    /// The shadow has damage, and may have more after it.
    #[error(
        "the copy of the log in {SHADOW}/ has damage, and more after it: {0}. With --accept-damage the store is made of what comes \
         before; --discard-log and siltstone-tools rebuild make it from the segments"
    )]
    Cut(Damage),
    /// The disk failed.
    #[error("{0}")]
    Io(io::Error),
}

impl From<LogError> for LostDiskError {
    fn from(error: LogError) -> Self {
        error.damage_or_io().map_or_else(Self::Io, Self::Unreadable)
    }
}

impl From<io::Error> for LostDiskError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// What is left of the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostDiskReport {
    /// The last group of the log that is known.
    pub last_group: u64,
    /// Buckets that are there.
    pub buckets: u64,
    /// Versions that are there.
    pub versions: u64,
    /// Versions that were dropped.
    pub lost_versions: u64,
    /// Parts of uploads in progress that were lost: their uploads were dropped.
    pub lost_parts: u64,
    /// Mirrors and webhooks that begin anew.
    pub followers: Vec<String>,
    /// Damage of the shadow: what it has after that is not known.
    pub damage: Vec<Damage>,
}

/// Makes the log of the large disk `fs` from the shadow there, and deletes the records whose segments
/// are missing and on no remote. Each of them is given to `lost`. Followers begin anew: one that went
/// on would take the loss for deletions. There must be no log, and nothing uses the directory. Durable
/// on return.
///
/// # Errors
/// The shadow is missing or unusable, or the operator did not accept a loss; of the disk.
pub fn drop_lost(
    fs: &Arc<dyn Fs>,
    clock: &Arc<dyn Clock>,
    options: LostDiskOptions,
    lost: &mut dyn FnMut(&NamedOwner) -> io::Result<()>,
) -> Result<LostDiskReport, LostDiskError> {
    let shadow = shadow_of(Arc::clone(fs));
    let Some(store) = store_id(&shadow)? else { return Err(LostDiskError::NoShadow) };
    sync_shadow(&shadow)?;
    let mut damage = Vec::new();
    // All of the shadow was durable in the log before it was copied: packs prove nothing here.
    let loader = StoreLoader::from_newest(&shadow, store, &mut damage)?;
    let mut loader = loader.with_segments_on(fs.as_ref()).of_durable_groups();
    let tail = loader.replay()?;
    let end = LogPosition { sequence: tail.sequence - 1, crc: tail.previous_crc };
    let has_more = list_numbers(&shadow, FileKind::Log)?.last().is_some_and(|last| *last > end.sequence + 1);
    let unknown = || Damage::new(log_path(tail.number), tail.position, "a group is missing");
    let cut = tail.damage.clone().or_else(|| has_more.then(unknown));
    if end.sequence < loader.start.covered {
        // Without the groups that the checkpoint was written beside, it is none.
        return Err(LostDiskError::Unreadable(cut.unwrap_or_else(unknown)));
    }
    if let Some(found) = cut {
        if !options.accepts_damage {
            return Err(LostDiskError::Cut(found));
        }
        damage.push(found);
    }
    let mut missing = BTreeSet::new();
    for segment in loader.missing_segments()? {
        if segment.copy.is_none() {
            missing.insert(segment.id);
        }
    }
    let index = loader.index;
    take_shadow(fs.as_ref(), &shadow, &tail)?;
    skip_segment_ids(fs.as_ref(), clock.as_ref(), store, &index)?;
    let mut writer = DeletionWriter::begin(fs, clock, store, end)?;
    let followers = writer.forget_followers(&index)?;
    writer.delete_lost(&index, store, &missing, lost)?;
    // One more in any case: it confirms the group before it, whose pack may be gone.
    writer.write()?;
    let report = LostDiskReport {
        last_group: end.sequence,
        buckets: index.bucket_count(),
        versions: index.version_count() - writer.lost_versions,
        lost_versions: writer.lost_versions,
        lost_parts: writer.lost_parts,
        followers,
        damage,
    };
    drop(index);
    check_made(fs.as_ref(), store, writer.log.next_sequence())?;
    Ok(report)
}

/// Makes the shadow durable, as far as it is there, and has it read from the disk: a process that ended
/// may have left it in the page cache alone.
fn sync_shadow(shadow: &dyn Fs) -> Result<(), LogError> {
    let dir = FileKind::Log.dir();
    for name in shadow.list(dir)? {
        sync_and_evict(shadow.open(&format!("{dir}/{name}"))?.as_ref())?;
    }
    Ok(shadow.sync_dir(dir)?)
}

/// Reads the log that was made, before the shadow goes.
fn check_made(fs: &dyn Fs, store: StoreId, next_sequence: u64) -> Result<(), LostDiskError> {
    let mut damage = Vec::new();
    let tail = StoreLoader::from_newest(fs, store, &mut damage)?.of_durable_groups().replay()?;
    if let Some(found) = tail.damage {
        return Err(LostDiskError::Unreadable(found));
    }
    if tail.sequence != next_sequence {
        let what = format!("the log that was made ends before group {}", tail.sequence);
        return Err(LostDiskError::Unreadable(Damage::new(log_path(tail.number), tail.position, what)));
    }
    Ok(())
}

/// Gives the files of the shadow up to its last good group their names in the log. The file with that
/// group is copied as far as it is good.
fn take_shadow(fs: &dyn Fs, shadow: &dyn Fs, tail: &LogTail) -> Result<(), LogError> {
    let last = tail.sequence - 1;
    let dir = FileKind::Log.dir();
    fs.create_dir(dir)?;
    let checkpoints = list_numbers(shadow, FileKind::Checkpoint)?.into_iter();
    let checkpoints = checkpoints.filter(|covered| *covered <= last).map(checkpoint_path);
    let logs = list_numbers(shadow, FileKind::Log)?.into_iter();
    let logs = logs.filter(|first| *first <= last && *first != tail.number).map(log_path);
    for path in checkpoints.chain(logs) {
        let from = format!("{SHADOW}/{path}");
        if fs.link(&from, &path).is_err() {
            // There are file systems without links.
            copy_file(fs.open_uncached(&from)?.as_ref(), fs, DiskPlace::Bulk, &path)?;
        }
    }
    if tail.number <= last {
        copy_end(fs, tail)?;
    }
    Ok(fs.sync_dir(dir)?)
}

fn copy_end(fs: &dyn Fs, tail: &LogTail) -> Result<(), LogError> {
    let file = fs.create(&log_path(tail.number))?;
    let mut buffer = vec![0; MIB as usize];
    let mut at = 0;
    while at < tail.position {
        let part = &mut buffer[..MIB.min(tail.position - at) as usize];
        tail.file.read_exact_at(part, at)?;
        file.write_all_at(part, at)?;
        at += part.len() as u64;
    }
    // Its groups state a length, zeros included.
    file.write_zeros(at, tail.durable_len.saturating_sub(at))?;
    Ok(file.sync_data()?)
}

/// The log after the shadow, with the deletions of what is lost.
struct DeletionWriter {
    log: LogWriter,
    body: Vec<u8>,
    entry_count: u32,
    lost_versions: u64,
    lost_parts: u64,
}

impl DeletionWriter {
    fn begin(
        fs: &Arc<dyn Fs>,
        clock: &Arc<dyn Clock>,
        store: StoreId,
        end: LogPosition,
    ) -> Result<Self, LogError> {
        let file_max_bytes = StoreOptions::default().log_file_max_bytes;
        let tail = begin_log(fs.as_ref(), store, clock.now(), end, file_max_bytes)?;
        let log = LogWriter::resume(Arc::clone(fs), Arc::clone(clock), store, file_max_bytes, &tail)?;
        Ok(Self { log, body: Vec::new(), entry_count: 0, lost_versions: 0, lost_parts: 0 })
    }

    fn put(&mut self, entry: &Entry) -> Result<(), LogError> {
        let features = entry.features();
        if self.entry_count == 0 || features != Features::NONE {
            self.write_entries()?;
            self.log.require(features)?;
        }
        entry.encode(&mut self.body);
        self.entry_count += 1;
        if self.body.len() >= GROUP_TARGET_BYTES { self.write() } else { Ok(()) }
    }

    fn write_entries(&mut self) -> Result<(), LogError> {
        if self.entry_count == 0 { Ok(()) } else { self.write() }
    }

    /// Writes a group of the entries so far, durably.
    fn write(&mut self) -> Result<(), LogError> {
        let written = self.log.write(self.entry_count, &self.body, None)?;
        self.log.file().sync_data()?;
        self.log.mark_durable(&written);
        self.body.clear();
        self.entry_count = 0;
        Ok(())
    }

    /// Removes the followers and their notes. Returns their names.
    fn forget_followers(&mut self, index: &Index) -> Result<Vec<String>, LogError> {
        let mut names: BTreeSet<&str> = index.followers().map(|(name, _)| name).collect();
        names.extend(index.noted_followers());
        for name in &names {
            for (key, _) in index.follower_notes(name) {
                let note = FollowerNote { key: key.to_vec(), value: None };
                self.put(&Entry::FollowerNote { name: (*name).to_owned(), note })?;
            }
            self.put(&Entry::Follower { name: (*name).to_owned(), state: None })?;
        }
        Ok(names.into_iter().map(str::to_owned).collect())
    }

    fn delete_lost(
        &mut self,
        index: &Index,
        store: StoreId,
        missing: &BTreeSet<u64>,
        lost: &mut dyn FnMut(&NamedOwner) -> io::Result<()>,
    ) -> Result<(), LostDiskError> {
        let mut cursor = Cursor::Start;
        let mut bucket = String::new();
        let mut uploads: BTreeSet<UploadId> = BTreeSet::new();
        loop {
            let entries = index.walk(&mut cursor, KEYS_AT_ONCE);
            if entries.is_empty() {
                return Ok(());
            }
            for entry in &entries {
                if let Entry::BucketPut(record) = entry {
                    bucket.clone_from(&record.name);
                }
                if !entry.extents().iter().any(|extent| missing.contains(&extent.segment)) {
                    continue;
                }
                if let Some(owner) = NamedOwner::of_entry(&store, &bucket, entry) {
                    lost(&owner)?;
                }
                if let Some(deletion) = self.deletion_of(entry, &mut uploads) {
                    self.put(&deletion)?;
                }
            }
        }
    }

    /// The deletion of a record without bytes. An upload goes once, with all of its parts.
    fn deletion_of(&mut self, entry: &Entry, uploads: &mut BTreeSet<UploadId>) -> Option<Entry> {
        match entry {
            Entry::VersionPut { bucket, key, record } => {
                self.lost_versions += 1;
                Some(Entry::VersionDelete { bucket: *bucket, key: key.clone(), version: record.id })
            }
            Entry::PartPut { bucket, key, upload, .. } => {
                self.lost_parts += 1;
                uploads.insert(*upload).then(|| Entry::UploadDelete {
                    bucket: *bucket,
                    key: key.clone(),
                    upload: *upload,
                })
            }
            _ => None,
        }
    }
}

/// Makes an empty segment, after whose id later ones follow.
fn skip_segment_ids(fs: &dyn Fs, clock: &dyn Clock, store: StoreId, index: &Index) -> Result<(), LogError> {
    let on_disk = list_numbers(fs, FileKind::Segment)?.pop().unwrap_or(0);
    let named = index.liveness().iter().map(|(id, _)| id).max().unwrap_or(0);
    let sent = index.remote_copies(None).map(|(id, _)| id).max().unwrap_or(0);
    let header = FileHeader {
        kind: FileKind::Segment,
        store,
        number: on_disk.max(named).max(sent) + SEGMENT_IDS_SKIPPED,
        features: Features::NONE,
        created: clock.now(),
        previous_crc: 0,
    };
    create_file(fs, &header, |_| Ok(()))?;
    Ok(())
}
