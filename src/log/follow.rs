//! Following the log while another thread appends to it: whole groups, as they are on the disk.

use std::io;
use std::sync::Arc;

use crate::base::limits::PAGE_BYTES;
use crate::format::{FileKind, Group, GroupKind, LogPosition, StoreId, log_path};
use crate::fs::{File, Fs};
use crate::log::groups::{GroupError, GroupFile, GroupReader};
use crate::log::{Damage, LogError, LogTail, list_numbers, open_file};

/// A group, and its bytes in the log.
pub struct FollowedGroup {
    /// The group.
    pub group: Group,
    /// Its bytes with their padding.
    pub bytes: Vec<u8>,
    /// The number of the log file with it.
    pub file: u64,
    /// Where it begins there, in bytes.
    pub offset: u64,
}

/// A place in the log of a store in use.
pub struct LogFollower {
    fs: Arc<dyn Fs>,
    store: StoreId,
    /// The file with the place, and the number in its name.
    file: Arc<dyn File>,
    number: u64,
    /// Where the next group is expected in it.
    position: u64,
    /// The group before.
    at: LogPosition,
}

impl LogFollower {
    /// The place after the group `sequence`, which is durable; 0 for the beginning of the log.
    ///
    /// # Errors
    /// [`LogError::Damaged`] where the log does not hold that place any more; of the disk.
    pub fn after(fs: Arc<dyn Fs>, store: StoreId, sequence: u64) -> Result<Self, LogError> {
        let numbers = list_numbers(fs.as_ref(), FileKind::Log)?;
        // A file is named after its first group.
        let number = numbers.into_iter().rfind(|number| *number <= sequence + 1);
        let number = number.ok_or_else(|| {
            Damage::new(log_path(sequence + 1), 0, format!("the log after group {sequence} is gone"))
        })?;
        let (file, crc) = open(fs.as_ref(), store, number)?;
        let at = LogPosition { sequence: number - 1, crc };
        let mut follower = Self { fs, store, file, number, position: PAGE_BYTES, at };
        while follower.at.sequence < sequence {
            follower.read()?;
        }
        Ok(follower)
    }

    /// The place after the last group of a log that was read.
    pub fn at_end(fs: Arc<dyn Fs>, store: StoreId, tail: &LogTail) -> Self {
        let at = LogPosition { sequence: tail.sequence - 1, crc: tail.previous_crc };
        Self { fs, store, file: tail.file.clone(), number: tail.number, position: tail.position, at }
    }

    /// The group before the place.
    pub fn position(&self) -> LogPosition {
        self.at
    }

    /// The next group, unless its sequence is beyond `through`. All groups up to that one are
    /// durable.
    ///
    /// # Errors
    /// [`LogError::Damaged`] where there is no such group; of the disk.
    pub fn next(&mut self, through: u64) -> Result<Option<FollowedGroup>, LogError> {
        if self.at.sequence >= through { Ok(None) } else { self.read().map(Some) }
    }

    fn read(&mut self) -> Result<FollowedGroup, LogError> {
        if self.at.sequence + 1 == self.number {
            self.replaced()?;
        }
        let read = match self.read_here()? {
            // Where this file has no next group, the log may have gone on in another. It is looked
            // for only then: usually it is not there.
            Err(GroupError::Bad(_)) if self.enter_next()? => self.read_here()?,
            read => read,
        };
        read.map_err(|why| self.damage(why))
    }

    /// Reads the next group if this file has it.
    fn read_here(&mut self) -> Result<Result<FollowedGroup, GroupError>, LogError> {
        let groups = GroupFile {
            file: self.file.as_ref(),
            len: self.file.len()?,
            kind: GroupKind::Log,
            store: self.store,
        };
        let sequence = self.at.sequence + 1;
        let previous_crc = self.at.crc;
        let mut reader = GroupReader { groups, position: self.position, sequence, previous_crc };
        let (group, at) = match reader.next()? {
            Ok(read) => read,
            Err(why) => return Ok(Err(why)),
        };
        let end = reader.position;
        let mut bytes = vec![0; (end - at) as usize];
        self.file.read_exact_at(&mut bytes, at)?;
        // The place moves on once the bytes are here: after an error the group is read again.
        self.position = end;
        self.at = LogPosition { sequence, crc: group.crc };
        Ok(Ok(FollowedGroup { group, bytes, file: self.number, offset: at }))
    }

    /// Goes on in the file that begins with the next group, if there is one: what follows in this
    /// one means nothing then.
    fn enter_next(&mut self) -> Result<bool, LogError> {
        let next = self.at.sequence + 1;
        if next == self.number {
            return Ok(false);
        }
        match open(self.fs.as_ref(), self.store, next) {
            Ok((file, crc)) if crc == self.at.crc => {
                self.file = file;
                self.number = next;
                self.position = PAGE_BYTES;
                Ok(true)
            }
            Ok(_) => {
                let what = "the file does not follow the group before it";
                Err(Damage::new(log_path(next), 0, what).into())
            }
            Err(LogError::Io(error)) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Opens the file again whose first group is expected: one without groups may have been
    /// replaced.
    fn replaced(&mut self) -> Result<(), LogError> {
        self.file = open(self.fs.as_ref(), self.store, self.number)?.0;
        Ok(())
    }

    fn damage(&self, why: GroupError) -> LogError {
        Damage::new(log_path(self.number), self.position, why.why()).into()
    }
}

/// A log file, and the header CRC of the group before it.
fn open(fs: &dyn Fs, store: StoreId, number: u64) -> Result<(Arc<dyn File>, u32), LogError> {
    let (file, header) = open_file(fs, FileKind::Log, number, Some(store))?;
    Ok((file, header.previous_crc))
}
