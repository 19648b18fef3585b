//! Rebuilding the log from the segments alone (data-format.md, section 9). Facts that the
//! descriptors do not hold are reported and never guessed.

mod assembler;
mod report;
mod scan;

use std::io;

pub use report::{Assumption, LostRecord, RebuildReport, RestoredCounts, SkippedCounts};

use thiserror::Error;

use crate::base::Clock;
use crate::format::{Entry, FileKind, SHADOW, StoreId};
use crate::fs::{Fs, SubdirFs};
use crate::index::{Cursor, Index};
use crate::keys::KeyRing;
use crate::log::{
    BuiltLog, CheckpointPlan, CheckpointWriter, Damage, LogError, build_log, list_numbers, open_file,
    remove_shadow,
};
use crate::offline::needed_keys::{read_ring, unopened_keys};
use crate::store::open::recovery;
use crate::store::{OpenError, Progress, ProgressStep};
use assembler::Assembler;
use scan::StoreScan;

/// Keys per step of a walk.
const KEYS_AT_ONCE: usize = 4096;

/// The choices of an operator.
#[derive(Debug, Clone)]
pub struct RebuildOptions {
    /// Whether an existing log is moved aside; otherwise it prevents the rebuild.
    pub replace: bool,
    /// The owner of buckets whose records do not name one.
    pub owner: String,
}

/// The reason for a failed rebuild. Nothing was changed.
#[derive(Debug, Error)]
pub enum RebuildError {
    /// Another process has the store open.
    #[error("another process uses this data directory: stop it first")]
    Locked,
    /// There are no segments.
    #[error("there is no segment in it")]
    NoSegment,
    /// There is a log already.
    #[error(
        "{0} exists: a rebuild restores less than the log holds, so run verify first; if the log is unusable, move meta/ aside or use --replace"
    )]
    HasLog(String),
    /// No segment names its store, or all were written by a newer siltstone.
    #[error("{0}")]
    Unreadable(Damage),
    /// The disk failed.
    #[error("{0}")]
    Io(io::Error),
}

impl From<LogError> for RebuildError {
    fn from(error: LogError) -> Self {
        error.damage_or_io().map_or_else(Self::Io, Self::Unreadable)
    }
}

impl From<io::Error> for RebuildError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Rebuilds the log from the segments in `fs`, which are only read. `progress` is called now and
/// then. The log is durable on return.
///
/// Order: all segments are read; the new log is written under another name, synced and read back;
/// an old log is moved aside; the new log gets its name. A crash leaves the directory as it was, or
/// without a log and with nothing lost, or with the new log. A checkpoint follows, which shortens
/// the next start. Written earlier, it would stand beside a log that it does not belong to.
///
/// # Errors
/// If there is a log that must not be replaced, or nothing could be rebuilt. Records that cannot be
/// restored are not an error; the report names them.
pub fn rebuild(
    fs: &dyn Fs,
    clock: &dyn Clock,
    options: &RebuildOptions,
    progress: &mut dyn FnMut(Progress),
) -> Result<RebuildReport, RebuildError> {
    if list_numbers(fs, FileKind::Segment)?.is_empty() {
        return Err(RebuildError::NoSegment);
    }
    let _lock = recovery::lock(fs).map_err(|error| match error {
        OpenError::Io(error) => RebuildError::Io(error),
        OpenError::Locked | OpenError::Damaged(_) => RebuildError::Locked,
    })?;
    let old = old_files(fs)?;
    if let Some(path) = old.first().filter(|_| !options.replace) {
        return Err(RebuildError::HasLog(path.clone()));
    }
    let store = store_id(fs)?;
    let scan = StoreScan::read(fs, store, progress)?;
    let mut assembler = Assembler::new(fs, store, &scan, &options.owner);
    assembler.run(progress)?;
    let (index, mut rebuilt) = assembler.finish();
    let ring = read_ring(fs)?;
    rebuilt.has_ring = ring.is_some();
    // A text that is no ring opens nothing.
    let ring = ring.and_then(|text| KeyRing::parse(&text).ok()).unwrap_or_default();
    rebuilt.keys_missing = unopened_keys(&index, &ring);
    progress(Progress { step: ProgressStep::NewLog, done: 0, total: 0 });
    let log = write(fs, clock, store, &index, &old, &mut rebuilt.moved)?;
    rebuilt.log_bytes = log.len;
    // It is that of the old log.
    remove_shadow(&SubdirFs::new(fs, SHADOW))?;
    let plan = CheckpointPlan {
        features: index.features(),
        expected_len: log.len,
        ..CheckpointPlan::covering(log.last)
    };
    // The log alone is a complete store.
    if log.last > 0
        && let Err(error) = write_checkpoint(fs, clock, store, &index, &plan)
    {
        log::warn!("no checkpoint was written, so that the next start takes longer: {error}");
    }
    Ok(rebuilt)
}

fn write_checkpoint(
    fs: &dyn Fs,
    clock: &dyn Clock,
    store: StoreId,
    index: &Index,
    plan: &CheckpointPlan<'_>,
) -> Result<u64, LogError> {
    CheckpointWriter::write(fs, store, clock.now(), plan, &mut |writer| {
        feed(index, &mut |entry| writer.put(entry))?;
        Ok(writer.end(plan.covered, index.last_stamp()))
    })
}

/// Passes all entries of the index to `put`.
fn feed(index: &Index, put: &mut dyn FnMut(&Entry) -> Result<(), LogError>) -> Result<(), LogError> {
    let mut cursor = Cursor::Start;
    loop {
        let entries = index.walk(&mut cursor, KEYS_AT_ONCE);
        if entries.is_empty() {
            return Ok(());
        }
        entries.iter().try_for_each(&mut *put)?;
    }
}

/// The id of the store, from the first segment with a good header.
fn store_id(fs: &dyn Fs) -> Result<StoreId, RebuildError> {
    let mut worst = None;
    for id in list_numbers(fs, FileKind::Segment)? {
        match open_file(fs, FileKind::Segment, id, None) {
            Ok((_, header)) => return Ok(header.store),
            Err(error) => worst = worst.or(Some(error)),
        }
    }
    Err(worst.map_or(RebuildError::NoSegment, RebuildError::from))
}

/// The files of an existing log: log files, oldest first, then checkpoints. If moving them aside in
/// this order is interrupted, the store either opens complete or reports missing files.
fn old_files(fs: &dyn Fs) -> io::Result<Vec<String>> {
    let paths =
        |kind: FileKind| Ok::<_, io::Error>(list_numbers(fs, kind)?.into_iter().map(move |n| kind.path(n)));
    Ok(paths(FileKind::Log)?.chain(paths(FileKind::Checkpoint)?).collect())
}

fn write(
    fs: &dyn Fs,
    clock: &dyn Clock,
    store: StoreId,
    index: &Index,
    old: &[String],
    moved: &mut Vec<String>,
) -> Result<BuiltLog, LogError> {
    let dir = FileKind::Log.dir();
    fs.create_dir(dir)?;
    let now = clock.now();
    build_log(fs, store, now, &mut |put| feed(index, put), || {
        for path in old {
            let aside = format!("{path}.replaced-{}", now.as_millis());
            fs.rename(path, &aside)?;
            fs.sync_dir(dir)?;
            moved.push(aside);
        }
        Ok(())
    })
}
