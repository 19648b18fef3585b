//! The shadow of the log: a copy of a checkpoint, and of the log after it, on the large one of two
//! disks (data-format.md, section 23). With it the large disk alone is a store again, as of the last
//! group of the shadow.

use std::io;
use std::sync::Arc;

use crate::base::Clock;
use crate::base::limits::{MIB, PAGE_BYTES};
use crate::format::{
    FileHeader, FileKind, GroupKind, LogPosition, SHADOW, StoreId, checkpoint_path, log_path, unfinished,
};
use crate::fs::{File, Fs, SubdirFs};
use crate::log::checkpoint::check_copy;
use crate::log::groups::{GroupFile, GroupReader};
use crate::log::{Damage, LogError, LogFollower, create_file, list_numbers, open_file};

/// The shadow of the log of a store in use. One thread at a time extends it.
pub struct LogShadow {
    log: Arc<dyn Fs>,
    shadow: SubdirFs<Arc<dyn Fs>>,
    clock: Arc<dyn Clock>,
    store: StoreId,
    /// Where the shadow goes on; `None` before the first look at it, and after an error.
    tail: Option<ShadowTail>,
    /// Bytes that one call copies.
    step_bytes: u64,
}

/// The end of a shadow.
struct ShadowTail {
    follower: LogFollower,
    /// The last file of the shadow.
    file: ShadowFile,
    /// Whether it begins with a checkpoint, or with the first group.
    is_whole: bool,
}

struct ShadowFile {
    file: Arc<dyn File>,
    number: u64,
    /// The highest length that its groups state: a shorter file is damaged. 0 where it has none.
    stated_len: u64,
}

/// The end of a shadow that was read.
struct FoundEnd {
    position: LogPosition,
    file: ShadowFile,
}

/// How far a shadow is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShadowProgress {
    /// The last group of the log that is in it, durably; 0 while it has no beginning.
    pub covered: u64,
    /// Whether another call has more to copy.
    pub more: bool,
}

/// What the disks have for a shadow.
pub struct ShadowRoom<'r> {
    /// Bytes that it may take.
    pub bytes: &'r dyn Fn() -> Result<u64, LogError>,
    /// Called now and then; an error ends the call.
    pub check_abort: &'r dyn Fn() -> io::Result<()>,
}

/// The directory with the shadow as a disk of its own, on which its files have the names that they
/// have in the log.
pub fn shadow_of(fs: Arc<dyn Fs>) -> SubdirFs<Arc<dyn Fs>> {
    SubdirFs::new(fs, SHADOW)
}

impl LogShadow {
    /// The shadow of the log on `fs`. Nothing is read or written yet.
    pub fn new(fs: Arc<dyn Fs>, clock: Arc<dyn Clock>, store: StoreId) -> Self {
        Self { log: Arc::clone(&fs), shadow: shadow_of(fs), clock, store, tail: None, step_bytes: 8 * MIB }
    }

    /// Extends the shadow by some groups, but by none after `through`, all up to which are durable. A
    /// checkpoint is copied after that where the shadow has no beginning, or a log that is longer than
    /// the checkpoint, and what it makes obsolete is removed. Durable on return.
    ///
    /// # Errors
    /// - [`LogError::DiskFull`].
    /// - [`LogError::Io`] of the kind `NotFound` where a file of the log was removed meanwhile.
    /// - [`LogError::Damaged`] where the log cannot be read; also where the shadow is none of this log:
    ///   it has been set aside then.
    /// - Others of the disks.
    pub fn extend(&mut self, through: u64, room: &ShadowRoom<'_>) -> Result<ShadowProgress, LogError> {
        // Taken out: after an error nothing of it is trusted.
        let mut tail = match self.tail.take() {
            Some(tail) => tail,
            None => self.resume(through)?,
        };
        let more = self.copy_groups(&mut tail, through, room)?;
        let covered = tail.follower.position().sequence;
        if !more {
            self.take_checkpoint(&mut tail, covered, room)?;
            // A shadow of all of the log has its beginning, once it has caught up.
            tail.is_whole |= list_numbers(&self.shadow, FileKind::Log)?.first() == Some(&1);
        }
        let progress = ShadowProgress { covered: if tail.is_whole { covered } else { 0 }, more };
        self.tail = Some(tail);
        Ok(progress)
    }

    /// Gives the shadow up: all of it is removed, and the next call begins anew. Durable on return.
    ///
    /// # Errors
    /// Of the disk.
    pub fn give_up(&mut self) -> io::Result<()> {
        self.tail = None;
        remove_shadow(&self.shadow)
    }

    /// Copies groups up to `through`, durably. Returns whether there are more.
    fn copy_groups(
        &self,
        tail: &mut ShadowTail,
        through: u64,
        room: &ShadowRoom<'_>,
    ) -> Result<bool, LogError> {
        let free = (room.bytes)()?;
        if free < self.step_bytes {
            let what = format!("the large disk has {free} bytes for it");
            return Err(LogError::DiskFull(io::Error::new(io::ErrorKind::StorageFull, what)));
        }
        let mut copied_bytes = 0;
        while copied_bytes < self.step_bytes {
            (room.check_abort)()?;
            let followed = match tail.follower.next(through) {
                Ok(Some(followed)) => followed,
                Ok(None) => break,
                // A checkpoint has taken the place of the file that the log went on in.
                Err(LogError::Damaged(_)) if self.is_gone(tail.follower.position().sequence)? => {
                    *tail = self.restart()?;
                    continue;
                }
                Err(error) => return Err(error),
            };
            if tail.file.number != followed.file {
                tail.file.make_durable()?;
            }
            // A file without groups may have been replaced by one with other features.
            if tail.file.number != followed.file || tail.file.stated_len == 0 {
                tail.file = self.begin_file(followed.file)?;
            }
            tail.file.file.write_all_at(&followed.bytes, followed.offset)?;
            tail.file.stated_len = tail.file.stated_len.max(followed.group.header.file_len);
            copied_bytes += followed.bytes.len() as u64;
        }
        if copied_bytes > 0 {
            tail.file.make_durable()?;
        }
        Ok(copied_bytes >= self.step_bytes)
    }

    /// Finds the end of the shadow, and that place in the log. Where there is none, or the log after
    /// it is gone, the shadow begins anew.
    fn resume(&self, through: u64) -> Result<ShadowTail, LogError> {
        self.shadow.create_dir(FileKind::Log.dir())?;
        remove_unfinished_of(&self.shadow)?;
        let logs = list_numbers(&self.shadow, FileKind::Log)?;
        let (Some(first), Some(last)) = (logs.first(), logs.last()) else { return self.restart() };
        let (file, header) = match open_file(&self.shadow, FileKind::Log, *last, Some(self.store)) {
            Err(LogError::Damaged(_)) => return self.restart(),
            opened => opened?,
        };
        // What a crash of the process left in the page cache may never have reached the disk.
        file.sync_data()?;
        file.evict()?;
        let found = self.read_to_end(file, &header)?;
        if found.position.sequence > through {
            return Err(
                self.set_aside(&found, "it has groups after the end of the log, which has lost them")?
            );
        }
        if self.is_gone(found.position.sequence)? {
            return self.restart();
        }
        let follower = LogFollower::after(Arc::clone(&self.log), self.store, found.position.sequence)?;
        if follower.position() != found.position {
            return Err(self.set_aside(&found, "it has other groups than the log")?);
        }
        let checkpoints = list_numbers(&self.shadow, FileKind::Checkpoint)?;
        let is_whole = *first == 1 || checkpoints.last().is_some_and(|covered| *covered + 1 >= *first);
        Ok(ShadowTail { follower, file: found.file, is_whole })
    }

    /// Whether the log begins later than after the group `sequence`.
    fn is_gone(&self, sequence: u64) -> Result<bool, LogError> {
        let logs = list_numbers(self.log.as_ref(), FileKind::Log)?;
        // A log is never empty: its disk may be gone.
        let first = logs.first().ok_or_else(|| LogError::Io(io::ErrorKind::NotFound.into()))?;
        Ok(*first > sequence + 1)
    }

    /// Gives the files of a shadow that is none of this log other names: they may be all that is left
    /// of writes that were answered. Durable on return. Returns the damage that it is.
    fn set_aside(&self, found: &FoundEnd, what: &str) -> Result<LogError, LogError> {
        let now = self.clock.now().as_millis();
        for path in files_of(&self.shadow)? {
            self.shadow.rename(&path, &format!("{path}.replaced-{now}"))?;
        }
        self.shadow.sync_dir(FileKind::Log.dir())?;
        let file = format!("{SHADOW}/{}", log_path(found.file.number));
        let what = format!("the shadow of the log was set aside, as *.replaced-{now}: {what}");
        Ok(Damage::new(file, 0, what).into())
    }

    /// Reads a file of the shadow up to its last good group.
    fn read_to_end(&self, file: Arc<dyn File>, header: &FileHeader) -> Result<FoundEnd, LogError> {
        let number = header.number;
        let mut position = LogPosition { sequence: number - 1, crc: header.previous_crc };
        let mut stated_len = 0;
        let mut reader = GroupReader {
            groups: GroupFile {
                file: file.as_ref(),
                len: file.len()?,
                kind: GroupKind::Log,
                store: self.store,
            },
            position: PAGE_BYTES,
            sequence: number,
            previous_crc: header.previous_crc,
        };
        while let Ok((group, _)) = reader.next()? {
            position = LogPosition { sequence: group.header.sequence, crc: group.crc };
            stated_len = group.header.file_len;
        }
        Ok(FoundEnd { position, file: ShadowFile { file, number, stated_len } })
    }

    /// Removes all of the shadow, and begins with the log that the newest checkpoint needs, once that
    /// was found.
    fn restart(&self) -> Result<ShadowTail, LogError> {
        let covered = list_numbers(self.log.as_ref(), FileKind::Checkpoint)?.pop().unwrap_or(0);
        let logs = list_numbers(self.log.as_ref(), FileKind::Log)?;
        let number = logs.into_iter().rfind(|number| *number <= covered + 1);
        let number = number.ok_or_else(|| {
            Damage::new(log_path(covered + 1), 0, format!("the log after group {covered} is gone"))
        })?;
        let follower = LogFollower::after(Arc::clone(&self.log), self.store, number - 1)?;
        remove_shadow(&self.shadow)?;
        // Also where the checkpoint covers all groups of it: a store has a log.
        let file = self.begin_file(number)?;
        Ok(ShadowTail { follower, file, is_whole: false })
    }

    /// Begins the file of that number.
    fn begin_file(&self, number: u64) -> Result<ShadowFile, LogError> {
        let (_, header) = open_file(self.log.as_ref(), FileKind::Log, number, Some(self.store))?;
        let file = create_file(&self.shadow, &header, |file| Ok(file.write_zeros(PAGE_BYTES, PAGE_BYTES)?))?;
        Ok(ShadowFile { file, number, stated_len: 0 })
    }

    /// Copies the newest checkpoint if it is worth that, and the shadow has all groups that it covers.
    fn take_checkpoint(
        &self,
        tail: &mut ShadowTail,
        covered: u64,
        room: &ShadowRoom<'_>,
    ) -> Result<(), LogError> {
        let newest = list_numbers(self.log.as_ref(), FileKind::Checkpoint)?.pop();
        let Some(newest) = newest.filter(|newest| *newest <= covered) else { return Ok(()) };
        if !list_numbers(&self.shadow, FileKind::Checkpoint)?.contains(&newest) {
            let opened = open_file(self.log.as_ref(), FileKind::Checkpoint, newest, Some(self.store));
            let (from, header) = match opened {
                // A later one has taken its place.
                Err(LogError::Io(error)) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                opened => opened?,
            };
            let len = from.len()?;
            if tail.is_whole && self.log_bytes()? < len {
                return Ok(());
            }
            let free = (room.bytes)()?;
            if free < len {
                let what = format!("the large disk has {free} bytes for a checkpoint of {len}");
                let full = LogError::DiskFull(io::Error::new(io::ErrorKind::StorageFull, what));
                // The log is enough where the shadow has a beginning.
                return if tail.is_whole { Ok(()) } else { Err(full) };
            }
            create_file(&self.shadow, &header, |file| {
                file.reserve(0, len)?;
                copy_after_header(from.as_ref(), file, newest, room.check_abort)?;
                file.sync_data()?;
                // From the disk, and before it has its name: what it makes obsolete goes.
                file.evict()?;
                check_copy(file, &format!("{SHADOW}/{}", checkpoint_path(newest)), self.store)
            })?;
        }
        tail.is_whole = true;
        self.remove_obsolete(newest)
    }

    /// The bytes of the log files of the shadow.
    fn log_bytes(&self) -> Result<u64, LogError> {
        let mut bytes = 0;
        for number in list_numbers(&self.shadow, FileKind::Log)? {
            bytes += self.shadow.open_read(&log_path(number))?.len()?;
        }
        Ok(bytes)
    }

    /// Removes the checkpoints before this one, and the log that only they need, the oldest first.
    fn remove_obsolete(&self, newest: u64) -> Result<(), LogError> {
        let mut obsolete: Vec<String> = Vec::new();
        for number in list_numbers(&self.shadow, FileKind::Checkpoint)? {
            if number < newest {
                obsolete.push(checkpoint_path(number));
            }
        }
        // A log file is obsolete if the next one begins no later than the group after the checkpoint.
        for pair in list_numbers(&self.shadow, FileKind::Log)?.windows(2) {
            if pair[1] <= newest + 1 {
                obsolete.push(log_path(pair[0]));
            }
        }
        if obsolete.is_empty() {
            return Ok(());
        }
        for path in obsolete {
            self.shadow.remove(&path)?;
        }
        Ok(self.shadow.sync_dir(FileKind::Log.dir())?)
    }
}

impl ShadowFile {
    /// Gives the file the length that its groups state, and makes it durable.
    fn make_durable(&self) -> Result<(), LogError> {
        let len = self.file.len()?;
        if len < self.stated_len {
            self.file.write_zeros(len, self.stated_len - len)?;
        }
        Ok(self.file.sync_data()?)
    }
}

/// Removes the files of a shadow, the checkpoints first: without them a part of the log is none. What
/// was set aside stays. Durable on return.
///
/// # Errors
/// Of the disk.
pub fn remove_shadow(shadow: &dyn Fs) -> io::Result<()> {
    remove_unfinished_of(shadow)?;
    let files = files_of(shadow)?;
    if files.is_empty() {
        return Ok(());
    }
    for path in files {
        shadow.remove(&path)?;
    }
    shadow.sync_dir(FileKind::Log.dir())
}

/// The checkpoints and the log files of a shadow.
fn files_of(shadow: &dyn Fs) -> io::Result<Vec<String>> {
    let checkpoints = list_numbers(shadow, FileKind::Checkpoint)?.into_iter().map(checkpoint_path);
    let logs = list_numbers(shadow, FileKind::Log)?.into_iter().map(log_path);
    Ok(checkpoints.chain(logs).collect())
}

/// Removes what a crash has left.
fn remove_unfinished_of(shadow: &dyn Fs) -> io::Result<()> {
    let dir = FileKind::Log.dir();
    for name in shadow.list(dir)?.iter().filter(|name| name.ends_with(&unfinished(""))) {
        shadow.remove(&format!("{dir}/{name}"))?;
    }
    Ok(())
}

fn copy_after_header(
    from: &dyn File,
    to: &dyn File,
    number: u64,
    check_abort: &dyn Fn() -> io::Result<()>,
) -> Result<(), LogError> {
    let len = from.len()?;
    let mut buffer = vec![0; MIB as usize];
    let mut at = PAGE_BYTES;
    while at < len {
        check_abort()?;
        let part = &mut buffer[..MIB.min(len - at) as usize];
        let read = from.read_exact_at(part, at);
        read.map_err(|error| LogError::of_read(error, &checkpoint_path(number), at))?;
        to.write_all_at(part, at)?;
        at += part.len() as u64;
    }
    Ok(())
}
