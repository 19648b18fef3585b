//! Making a metadata log from segments alone (data-format.md, section 9): what extents tell of themselves, put in order. What
//! they do not tell is reported and never guessed.

mod assembler;
mod report;
mod scan;

use std::io;

pub use report::{Assumption, LostRecord, RebuildReport, RestoredCounts, SkippedCounts};

use thiserror::Error;

use crate::base::Clock;
use crate::format::{Entry, FileKind, StoreId};
use crate::fs::Fs;
use crate::index::{Cursor, Index};
use crate::log::{
    BuiltLog, CheckpointPlan, CheckpointWriter, Damage, LogError, build_log, list_numbers, open_file,
};
use crate::store::{OpenError, Progress, ProgressStep, recovery};
use assembler::Assembler;
use scan::StoreScan;

/// Keys that are taken out of the index at once.
const KEYS_AT_ONCE: usize = 4096;

/// What an operator may choose.
#[derive(Debug, Clone)]
pub struct RebuildOptions {
    /// Whether a log that is there is moved aside; else it keeps the rebuild from being begun.
    pub replace: bool,
    /// Who owns the buckets of which no record tells it.
    pub owner: String,
}

/// Why a log could not be rebuilt. Nothing was changed.
#[derive(Debug, Error)]
pub enum RebuildError {
    /// Somebody has it open.
    #[error("another process uses this data directory: stop it first")]
    Locked,
    /// There is nothing to rebuild from.
    #[error("there is no segment in it to rebuild a log from")]
    NoSegment,
    /// There is a log.
    #[error(
        "{0} is there: a rebuild knows less than the log does, so look at the store with verify first, and move meta/ aside or use --replace if the log is of no use"
    )]
    HasLog(String),
    /// No segment tells which store it belongs to, or all were made by a newer siltstone.
    #[error("{0}")]
    Unreadable(Damage),
    /// The disk failed.
    #[error("{0}")]
    Io(io::Error),
}

impl From<LogError> for RebuildError {
    fn from(error: LogError) -> Self {
        match error {
            LogError::Damaged(damage) => Self::Unreadable(damage),
            LogError::DiskFull(error) | LogError::Exhausted(error) | LogError::Io(error) => Self::Io(error),
        }
    }
}

impl From<io::Error> for RebuildError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Makes a log from the segments in `fs`. Segments are only read. `progress` is called now and then. The log is durable on
/// return.
///
/// The order: everything is read, and the log is written aside, synced and read back, before an old one is moved aside; the
/// new one gets its name last. A crash leaves the directory as it was, or without a log and with nothing lost, or with the
/// new log. A checkpoint follows, which only spares the next start the reading of all of the log: earlier it would stand beside a
/// log that it does not belong to.
///
/// # Errors
/// When there is a log and it may not be replaced, and when nothing could be rebuilt. What cannot be restored is no error: the
/// report names it.
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
    progress(Progress { step: ProgressStep::NewLog, done: 0, total: 0 });
    let log = write(fs, clock, store, &index, &old, &mut rebuilt.moved)?;
    rebuilt.log_bytes = log.len;
    write_checkpoint(fs, clock, store, &index, (log.last, log.len));
    Ok(rebuilt)
}

fn write_checkpoint(
    fs: &dyn Fs,
    clock: &dyn Clock,
    store: StoreId,
    index: &Index,
    (covered, expected_len): (u64, u64),
) {
    let mut fill = |writer: &mut CheckpointWriter<'_>| {
        feed(index, &mut |entry| writer.put(entry))?;
        Ok(writer.end(covered, index.last_stamp()))
    };
    let plan = CheckpointPlan { expected_len, ..CheckpointPlan::covering(covered) };
    // The log alone is a whole store.
    if covered > 0
        && let Err(error) = CheckpointWriter::write(fs, store, clock.now(), &plan, &mut fill)
    {
        log::warn!("no checkpoint was written, so that the next start takes longer: {error}");
    }
}

/// Puts in all that the index holds.
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

/// The id of the store, as the first segment with a good header tells it.
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

/// The files of a log that is there: those of the log, oldest first, then checkpoints. While they are moved aside in this
/// order, a store that is cut off in between either opens with all that was in it or says that files are missing.
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
