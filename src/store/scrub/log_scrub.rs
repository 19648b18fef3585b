//! The scrub of the metadata: once a day the checkpoints, and the log after the older one, are read
//! again from the disk. Without it, damage there shows at the next start, when nothing else knows
//! the metadata any more.
//!
//! While the store is open, its index has all that the log and the checkpoints say. So a damaged
//! file is replaced:
//!
//! 1. It is reported.
//! 2. The log goes on in a new file, where no damage follows it: the file in use may be the damaged
//!    one.
//! 3. A checkpoint of the index is written, read back and named. It covers every group before that
//!    file.
//! 4. The damaged file goes. For a log file that means the older checkpoint, too, which is of no
//!    use without it.
//!
//! A crash before the end of 3 finds the damage again at the start, as it would have without the
//! scrub. A crash after it finds the new checkpoint.

use std::collections::VecDeque;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::base::limits::LOG_SCRUB_EVERY_SECS;
use crate::base::{NOT_POISONED, Timestamp, push_latest};
use crate::format::FileKind;
use crate::log::{Damage, FileRecheck, LogError, list_numbers};
use crate::store::commit::checkpointer::{self, GENERATIONS};
use crate::store::shared::SharedStore;
use crate::store::shared::health::BadFile;
use crate::store::{Store, StoreError};

/// The time from the start to the first check, which has just read most of it; and from a pass that
/// found damage, or lost its files, to the next.
const SOON: Duration = Duration::from_secs(3600);

/// Files that were replaced and are listed, the latest ones.
const LISTED_MAX: usize = 20;

/// The check of the log and the checkpoints, from call to call.
pub(super) struct LogScrub {
    /// Locked for the length of a call.
    pass: Mutex<LogPass>,
    /// Never locked while anything is read or written.
    figures: Mutex<LogScrubFigures>,
}

struct LogPass {
    /// What is left; empty between two passes.
    left: VecDeque<FileRecheck>,
    /// The first of them as it was at its beginning.
    begun: Option<FileRecheck>,
    /// Whether that one was found damaged once.
    is_second_look: bool,
    /// The time of the next pass.
    due: Instant,
}

/// What the passes since the start have found.
#[derive(Debug, Clone, Default)]
pub(super) struct LogScrubFigures {
    /// The end of the last pass.
    pub(super) finished: Option<Timestamp>,
    /// The number of files that were replaced.
    pub(super) replaced_files: u64,
    /// The latest of them, the oldest first.
    pub(super) replaced: VecDeque<BadFile>,
}

impl LogScrub {
    pub(super) fn starting_at(now: Instant) -> Self {
        let pass = LogPass { left: VecDeque::new(), begun: None, is_second_look: false, due: now + SOON };
        Self { pass: Mutex::new(pass), figures: Mutex::default() }
    }

    /// What was found since the start.
    pub(super) fn figures(&self) -> MutexGuard<'_, LogScrubFigures> {
        self.figures.lock().expect(NOT_POISONED)
    }

    fn add_replaced(&self, file: BadFile) {
        let mut figures = self.figures();
        figures.replaced_files += 1;
        push_latest(&mut figures.replaced, file, LISTED_MAX);
    }
}

impl LogPass {
    /// Begins a pass where one is due.
    fn begin_if_due(&mut self, shared: &SharedStore) -> Result<(), LogError> {
        if !self.left.is_empty() || shared.clock.instant() < self.due {
            return Ok(());
        }
        self.due = shared.clock.instant() + Duration::from_secs(LOG_SCRUB_EVERY_SECS);
        let fs = shared.fs.as_ref();
        // No checkpoint is named, and no file removed, between the lists.
        let _no_checkpoint = shared.checkpointing.lock().unwrap_or_else(PoisonError::into_inner);
        // Before the files are listed: a checkpoint that comes meanwhile covers more.
        let through = shared.published().sequence;
        let mut checkpoints = list_numbers(fs, FileKind::Checkpoint)?;
        // Older ones are the remains of a crash.
        checkpoints.drain(..checkpoints.len().saturating_sub(GENERATIONS));
        let log_files = list_numbers(fs, FileKind::Log)?;
        let log_from = log_files.first().copied().unwrap_or(u64::MAX);
        // The log after the older one may be gone, where space was short.
        let covered = checkpoints.iter().find(|covered| log_from <= **covered + 1);
        let covered = covered.or(checkpoints.last()).copied().unwrap_or(0);
        let log = FileRecheck::of_log(&log_files, covered, through)?;
        self.left = checkpoints.into_iter().map(FileRecheck::of_checkpoint).collect();
        self.left.push_back(log);
        self.begin_file();
        Ok(())
    }

    fn begin_file(&mut self) {
        self.begun = self.left.front().cloned();
        self.is_second_look = false;
    }

    /// Reads on, up to so many bytes.
    fn read(&mut self, shared: &SharedStore, budget_bytes: u64) -> Result<LogScrubbed, LogError> {
        let mut bytes = 0;
        if self.left.is_empty() {
            return Ok(LogScrubbed { bytes, end: LogScrubEnd::Rests });
        }
        while let Some(file) = self.left.front_mut() {
            if bytes >= budget_bytes {
                return Ok(LogScrubbed { bytes, end: LogScrubEnd::Pauses });
            }
            match file.step(shared.fs.as_ref(), shared.store, budget_bytes - bytes) {
                Ok(done) => {
                    bytes += done.bytes;
                    if !done.more {
                        self.left.pop_front();
                        self.begin_file();
                    }
                }
                // Another file may have taken the place of this one while it was read.
                Err(LogError::Damaged(_)) if !self.is_second_look => {
                    self.is_second_look = true;
                    *file = self.begun.clone().expect("a file that is read was begun");
                }
                Err(LogError::Damaged(damage)) => {
                    self.give_up(shared);
                    return Ok(LogScrubbed { bytes, end: LogScrubEnd::Damaged(damage) });
                }
                // The store has removed what it does not need any more.
                Err(LogError::Io(error)) if error.kind() == io::ErrorKind::NotFound => {
                    self.give_up(shared);
                    return Ok(LogScrubbed { bytes, end: LogScrubEnd::GaveUp });
                }
                Err(error) => {
                    self.give_up(shared);
                    return Err(error);
                }
            }
        }
        Ok(LogScrubbed { bytes, end: LogScrubEnd::Finished })
    }

    /// Ends the pass. The next one is due soon.
    fn give_up(&mut self, shared: &SharedStore) {
        self.left.clear();
        self.begin_file();
        self.due = shared.clock.instant() + SOON;
    }
}

/// What one call did to the log and the checkpoints.
pub(super) struct LogScrubbed {
    /// Bytes that were read.
    pub(super) bytes: u64,
    end: LogScrubEnd,
}

/// Where a call ended.
enum LogScrubEnd {
    /// No pass is due.
    Rests,
    /// In the midst of a pass.
    Pauses,
    /// At the end of a pass that found nothing.
    Finished,
    /// A file was removed while it was read.
    GaveUp,
    /// At damage that was found twice.
    Damaged(Damage),
}

impl LogScrubbed {
    /// Whether the pass goes on.
    pub(super) fn more(&self) -> bool {
        matches!(self.end, LogScrubEnd::Pauses)
    }
}

impl Store {
    /// The files of the log, and checkpoints, that were damaged and that a new checkpoint has
    /// replaced: the latest ones since the store was opened, the oldest first.
    pub fn replaced_log_files(&self) -> Vec<BadFile> {
        self.scrubber.log.figures().replaced.iter().cloned().collect()
    }

    /// Reads on in the log and the checkpoints, where a pass is due or under way, and replaces a
    /// damaged file.
    ///
    /// # Errors
    /// Of the disk. Damage is not an error.
    pub(super) fn scrub_log(&self, budget_bytes: u64) -> Result<LogScrubbed, StoreError> {
        let shared = &self.shared;
        let LogScrub { pass, .. } = &self.scrubber.log;
        // After a panic, at worst a file is read twice.
        let mut pass = pass.lock().unwrap_or_else(PoisonError::into_inner);
        let begun = pass.begin_if_due(shared);
        let read = match begun.and_then(|()| pass.read(shared, budget_bytes)) {
            // Of a log whose first file is missing.
            Err(LogError::Damaged(damage)) => LogScrubbed { bytes: 0, end: LogScrubEnd::Damaged(damage) },
            read => read.map_err(|error| shared.failed(error))?,
        };
        match &read.end {
            LogScrubEnd::Damaged(damage) => self.replace_log_file(damage)?,
            LogScrubEnd::Finished => self.scrubber.log.figures().finished = Some(shared.clock.now()),
            LogScrubEnd::Rests | LogScrubEnd::Pauses | LogScrubEnd::GaveUp => {}
        }
        Ok(read)
    }

    fn replace_log_file(&self, damage: &Damage) -> Result<(), StoreError> {
        let shared = &self.shared;
        let found = shared.clock.now();
        shared.report(damage);
        if shared.check_writable().is_err() {
            return Ok(());
        }
        self.committer.begin_log_file()?;
        if !checkpointer::replace_damaged(shared, &damage.file)? {
            log::warn!("{} stays for now: the log cannot go on without it", damage.file);
            return Ok(());
        }
        shared.forget_damage(&damage.file);
        log::warn!(
            "{} was damaged: a new checkpoint has all that it had, and the file was removed",
            damage.file
        );
        let Damage { file, offset, what } = damage.clone();
        let repaired = Some(shared.clock.now());
        self.scrubber.log.add_replaced(BadFile { file, offset, what, found, repaired });
        Ok(())
    }
}
