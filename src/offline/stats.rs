//! Statistics of a store, read-only, and also while a server uses it.

mod totals;

use std::io;

pub use totals::{AgeClass, BucketTotal, Count, KeySize, SizeClass, Totals};

use thiserror::Error;

use crate::base::{Clock, Timestamp};
use crate::format::{FileKind, StoreId, WrittenBytes};
use crate::fs::{Fs, ReadOnlyFs};
use crate::index::{Cursor, Index};
use crate::log::{Damage, LogError, Segment, any_header, list_numbers, open_file};
use crate::store::open::loader::{MissingSegment, StoreLoader, store_id};

/// Keys per step of a walk.
const KEYS_AT_ONCE: usize = 4096;
/// Attempts at reading a store that a server changes meanwhile.
const ATTEMPTS_MAX: usize = 5;

/// The statistics of a store.
#[derive(Debug, Clone)]
pub struct Stats {
    /// The sequence of the last group that was read.
    pub sequence: u64,
    /// Buckets.
    pub buckets: u64,
    /// The totals of their content.
    pub totals: Totals,
    /// The segments, by id.
    pub segments: Vec<SegmentStats>,
    /// The log files.
    pub log: FileStats,
    /// The checkpoints.
    pub checkpoints: FileStats,
    /// The creation time of the newest checkpoint.
    pub newest_checkpoint: Option<Timestamp>,
    /// Groups after the newest checkpoint, which a start has to replay.
    pub groups_behind: u64,
    /// Bytes written to the disk in the life of the store, as of the newest checkpoint.
    pub written: WrittenBytes,
    /// Damage that makes the statistics incomplete.
    pub damage: Vec<Damage>,
}

/// A segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentStats {
    /// Its id.
    pub id: u64,
    /// Bytes from its start to its end.
    pub len: u64,
    /// Bytes allocated on the disk: without holes, with preallocated space.
    pub on_disk: u64,
    /// Bytes of extents that versions and parts refer to.
    pub live: u64,
    /// Whether it is sealed.
    pub sealed: bool,
}

/// The files of one kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FileStats {
    /// The number of files.
    pub files: u64,
    /// The sum of their lengths, in bytes.
    pub len: u64,
    /// Bytes allocated on the disk.
    pub on_disk: u64,
}

/// The reason why there are no statistics.
#[derive(Debug, Error)]
pub enum StatsError {
    /// There is no store.
    #[error("there is no store in it: no segment, no log and no checkpoint")]
    NotAStore,
    /// The metadata cannot be read at all.
    #[error("{0}: check the store with verify")]
    Damaged(Damage),
    /// The disk failed.
    #[error("{0}")]
    Io(io::Error),
}

impl From<LogError> for StatsError {
    fn from(error: LogError) -> Self {
        error.damage_or_io().map_or_else(Self::Io, Self::Damaged)
    }
}

impl From<io::Error> for StatsError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl Stats {
    /// Bytes of live extents.
    pub fn live_bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.live).sum()
    }

    /// Bytes of objects, older versions and parts. The live bytes are these, copies' once,
    /// and the headers and checksums of their extents.
    pub fn content_bytes(&self) -> u64 {
        let Totals { objects, noncurrent, parts, .. } = &self.totals;
        objects.bytes + noncurrent.bytes + parts.bytes
    }

    /// Bytes allocated for all files.
    pub fn on_disk(&self) -> u64 {
        let segments: u64 = self.segments.iter().map(|segment| segment.on_disk).sum();
        segments + self.log.on_disk + self.checkpoints.on_disk
    }

    /// Bytes of disk for each live byte; `None` without live bytes.
    pub fn amplification(&self) -> Option<f64> {
        let live = self.live_bytes();
        (live > 0).then(|| self.on_disk() as f64 / live as f64)
    }
}

/// Reads the metadata of the store in `fs`, and names its `top` largest keys and buckets. If a
/// server uses the store, the result is its state at some moment. Nothing is written or locked.
///
/// # Errors
/// If there is no store, or its metadata cannot be read.
pub fn stats(fs: &dyn Fs, clock: &dyn Clock, top: usize) -> Result<Stats, StatsError> {
    let guarded = ReadOnlyFs::new(fs);
    attempt(&guarded, |fs| read(fs, clock.now(), top), |stats| stats.damage.is_empty())
}

/// The index of the store in `fs`, and damage of its metadata, as [`stats`] reads them.
///
/// # Errors
/// As [`stats`].
pub(super) fn load(fs: &ReadOnlyFs<&dyn Fs>) -> Result<(Index, Vec<Damage>), StatsError> {
    attempt(fs, load_once, |(_, damage)| damage.is_empty())
}

fn load_once(fs: &dyn Fs) -> Result<(Index, Vec<Damage>), StatsError> {
    let store = store_id(fs)?.ok_or(StatsError::NotAStore)?;
    let mut damage = Vec::new();
    let mut loader = StoreLoader::from_newest(fs, store, &mut damage)?;
    damage.extend(loader.replay()?.damage);
    Ok((loader.index, damage))
}

/// Reads until the result is whole, or too often. While a server writes, the end of the log may
/// look damaged and files may go; the next attempt may find another state.
fn attempt<T>(
    fs: &ReadOnlyFs<&dyn Fs>,
    read: impl Fn(&dyn Fs) -> Result<T, StatsError>,
    is_whole: impl Fn(&T) -> bool,
) -> Result<T, StatsError> {
    if any_header(fs)?.is_none() {
        return Err(StatsError::NotAStore);
    }
    let mut attempt = 1;
    loop {
        match read(fs) {
            Ok(found) if is_whole(&found) || attempt == ATTEMPTS_MAX => return Ok(found),
            Err(error) if attempt == ATTEMPTS_MAX => return Err(error),
            _ => attempt += 1,
        }
    }
}

fn read(fs: &dyn Fs, now: Timestamp, top: usize) -> Result<Stats, StatsError> {
    let store = store_id(fs)?.ok_or(StatsError::NotAStore)?;
    let mut damage = Vec::new();
    let mut loader = StoreLoader::from_newest(fs, store, &mut damage)?;
    let covered = loader.start.covered;
    let tail = loader.replay()?;
    damage.extend(tail.damage);
    damage.extend(loader.missing_segments()?.iter().map(MissingSegment::damage));
    let index = loader.index;
    let written = loader.written;
    let newest_checkpoint = match covered {
        0 => None,
        covered => Some(open_file(fs, FileKind::Checkpoint, covered, Some(store))?.1.created),
    };
    let mut totals = Totals::new(now, top);
    let mut cursor = Cursor::Start;
    loop {
        let entries = index.walk(&mut cursor, KEYS_AT_ONCE);
        if entries.is_empty() {
            break;
        }
        totals.add_all(&entries);
    }
    Ok(Stats {
        sequence: tail.sequence - 1,
        buckets: index.bucket_count(),
        totals: totals.finish(),
        segments: segments(fs, store, &index)?,
        log: files(fs, FileKind::Log)?,
        checkpoints: files(fs, FileKind::Checkpoint)?,
        newest_checkpoint,
        groups_behind: tail.sequence - 1 - covered.min(tail.sequence - 1),
        written,
        damage,
    })
}

fn segments(fs: &dyn Fs, store: StoreId, index: &Index) -> Result<Vec<SegmentStats>, StatsError> {
    let mut segments = Vec::new();
    for id in list_numbers(fs, FileKind::Segment)? {
        let segment = Segment::open(fs, store, id)?;
        let sealed = !matches!(segment.footer(&store), Ok(None));
        let len = segment.file.len()?;
        let on_disk = segment.file.usage()?.allocated_bytes;
        segments.push(SegmentStats { id, len, on_disk, live: index.liveness().of(id), sealed });
    }
    Ok(segments)
}

fn files(fs: &dyn Fs, kind: FileKind) -> Result<FileStats, StatsError> {
    let mut stats = FileStats::default();
    for number in list_numbers(fs, kind)? {
        let file = fs.open_read(&kind.path(number))?;
        stats.files += 1;
        stats.len += file.len()?;
        stats.on_disk += file.usage()?.allocated_bytes;
    }
    Ok(stats)
}
