//! A store whose fast disk is dead, made of its large disk alone: the shadow of its log tells what
//! there was, and records of bytes that went with the disk are dropped.

use std::collections::BTreeSet;
use std::io;

use thiserror::Error;

use crate::base::Clock;
use crate::format::{Entry, Features, FileHeader, FileKind, LogPosition, SHADOW, StoreId, UploadId};
use crate::fs::{Fs, SubdirFs};
use crate::index::{Cursor, Index};
use crate::log::{CheckpointPlan, CheckpointWriter, Damage, LogError, begin_log, create_file, list_numbers};
use crate::offline::verify::NamedOwner;
use crate::store::open::loader::{StoreLoader, store_id};

/// Keys per step of a walk.
const KEYS_AT_ONCE: usize = 4096;
/// Ids of segments that are not given again: the dead disk may have had segments of which the shadow
/// does not know, and an id never means two of them.
const SEGMENT_IDS_SKIPPED: u64 = 1 << 16;

/// Why no log was made. Nothing has changed.
#[derive(Debug, Error)]
pub enum LostDiskError {
    /// There is no shadow.
    #[error(
        "there is no copy of the log in {SHADOW}/: make one from the segments with --discard-log, and then siltstone-tools rebuild"
    )]
    NoShadow,
    /// The shadow cannot be read.
    #[error(
        "the copy of the log in {SHADOW}/ cannot be read: {0}. Make one from the segments with --discard-log, and then siltstone-tools \
         rebuild"
    )]
    Unreadable(Damage),
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
    /// Damage of the shadow: what it has after that is not known.
    pub damage: Vec<Damage>,
}

/// Writes the log of the large disk `fs` anew, from the shadow there, without records whose segments
/// are missing and on no remote. Each of them is given to `lost`. There must be no log, and nothing
/// uses the directory. Durable on return.
///
/// # Errors
/// The shadow is missing or unusable; of the disk.
pub fn drop_lost(
    fs: &dyn Fs,
    clock: &dyn Clock,
    lost: &mut dyn FnMut(&NamedOwner) -> io::Result<()>,
) -> Result<LostDiskReport, LostDiskError> {
    let shadow = SubdirFs::new(fs, SHADOW);
    let store = match store_id(&shadow) {
        Ok(None) => return Err(LostDiskError::NoShadow),
        Ok(Some(store)) => store,
        Err(error) => return Err(error.into()),
    };
    let mut damage = Vec::new();
    // All of the shadow was durable in the log before it was copied: packs prove nothing here.
    let loader = StoreLoader::from_newest(&shadow, store, &mut damage)?;
    let mut loader = loader.with_segments_on(fs).of_durable_groups();
    let tail = loader.replay()?;
    damage.extend(tail.damage);
    let mut missing = BTreeSet::new();
    for segment in loader.missing_segments()? {
        if segment.copy.is_none() {
            missing.insert(segment.id);
        }
    }
    let mut dropper = RecordDropper { store, missing, lost_versions: 0, lost_parts: 0 };
    let mut index = loader.index;
    dropper.drop_from(&mut index, lost)?;
    let end = LogPosition { sequence: tail.sequence - 1, crc: tail.previous_crc };
    write_log(fs, clock, store, &index, end)?;
    skip_segment_ids(fs, clock, store, &index)?;
    Ok(LostDiskReport {
        last_group: end.sequence,
        buckets: index.bucket_count(),
        versions: index.version_count(),
        lost_versions: dropper.lost_versions,
        lost_parts: dropper.lost_parts,
        damage,
    })
}

/// The records whose bytes are gone.
struct RecordDropper {
    store: StoreId,
    missing: BTreeSet<u64>,
    lost_versions: u64,
    lost_parts: u64,
}

impl RecordDropper {
    fn drop_from(
        &mut self,
        index: &mut Index,
        lost: &mut dyn FnMut(&NamedOwner) -> io::Result<()>,
    ) -> Result<(), LostDiskError> {
        let snapshot = index.clone();
        let mut cursor = Cursor::Start;
        let mut bucket = String::new();
        let mut uploads: BTreeSet<UploadId> = BTreeSet::new();
        loop {
            let entries = snapshot.walk(&mut cursor, KEYS_AT_ONCE);
            if entries.is_empty() {
                return Ok(());
            }
            for entry in &entries {
                if let Entry::BucketPut(record) = entry {
                    bucket.clone_from(&record.name);
                }
                if !entry.extents().iter().any(|extent| self.missing.contains(&extent.segment)) {
                    continue;
                }
                if let Some(owner) = NamedOwner::of_entry(&self.store, &bucket, entry) {
                    lost(&owner)?;
                }
                if let Some(deletion) = self.deletion_of(entry, &mut uploads) {
                    index.apply(&deletion).map_err(|error| io::Error::other(error.to_string()))?;
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

/// Writes a checkpoint of the index, and a log that goes on after it.
fn write_log(
    fs: &dyn Fs,
    clock: &dyn Clock,
    store: StoreId,
    index: &Index,
    end: LogPosition,
) -> Result<(), LogError> {
    fs.create_dir(FileKind::Log.dir())?;
    begin_log(fs, store, clock.now(), end)?;
    let plan = CheckpointPlan { features: index.features(), ..CheckpointPlan::covering(end.sequence) };
    CheckpointWriter::write(fs, store, clock.now(), &plan, &mut |writer| {
        let mut cursor = Cursor::Start;
        let mut entries = Vec::new();
        while index.walk_encoded(&mut cursor, KEYS_AT_ONCE, &mut entries) {
            writer.put_encoded(&entries)?;
        }
        Ok(writer.end(end.sequence, index.last_stamp()))
    })?;
    Ok(())
}

/// Makes an empty segment, after whose id later ones follow.
fn skip_segment_ids(fs: &dyn Fs, clock: &dyn Clock, store: StoreId, index: &Index) -> Result<(), LogError> {
    let on_disk = list_numbers(fs, FileKind::Segment)?.pop().unwrap_or(0);
    let named = index.liveness().iter().map(|(id, _)| id).max().unwrap_or(0);
    let header = FileHeader {
        kind: FileKind::Segment,
        store,
        number: on_disk.max(named) + SEGMENT_IDS_SKIPPED,
        features: Features::NONE,
        created: clock.now(),
        previous_crc: 0,
    };
    create_file(fs, &header, |_| Ok(()))?;
    Ok(())
}
