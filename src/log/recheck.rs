//! Reading log files and checkpoints again, step by step, while the store is in use.
//!
//! The bytes come from the disk, and not from the page cache, which may hold what the disk has lost
//! since; and they are not kept there.

use crate::base::limits::PAGE_BYTES;
use crate::format::{FileKind, GroupKind, StoreId, checkpoint_path, log_path};
use crate::fs::{File, Fs};
use crate::log::checkpoint::{CheckpointCounts, read_group};
use crate::log::files::{list_numbers, read_header};
use crate::log::groups::{GroupError, GroupFile, GroupReader};
use crate::log::{Damage, LogError};

/// What one step did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rechecked {
    /// Bytes that were read.
    pub bytes: u64,
    /// Whether more is left.
    pub more: bool,
}

/// The check of a checkpoint, or of the log from some file on, from step to step.
#[derive(Debug, Clone)]
pub struct FileRecheck {
    /// The file that is being read.
    number: u64,
    /// The place in it; `None` before its header was read.
    place: Option<ChainPlace>,
    subject: RecheckSubject,
}

#[derive(Debug, Clone, Copy)]
enum RecheckSubject {
    Checkpoint {
        /// The entries that were read.
        counts: CheckpointCounts,
    },
    Log {
        /// The last group to read. All up to it are durable.
        through: u64,
        /// The CRC that the header of the file has to name; `None` for the first file.
        previous_crc: Option<u32>,
    },
}

/// Where a step ended.
#[derive(Debug, Clone, Copy)]
enum StepEnd {
    /// Nothing is left.
    Finished,
    /// In the midst of a file.
    Paused,
    /// At the end of a log file that another one follows.
    NextFile { through: u64 },
}

/// A place in a chain of groups.
#[derive(Debug, Clone, Copy)]
struct ChainPlace {
    position: u64,
    sequence: u64,
    previous_crc: u32,
}

impl FileRecheck {
    /// The check of the checkpoint that covers the groups up to `covered`.
    pub fn of_checkpoint(covered: u64) -> Self {
        let subject = RecheckSubject::Checkpoint { counts: CheckpointCounts::default() };
        Self { number: covered, place: None, subject }
    }

    /// The check of the log from that one of `files`, in ascending order, that has the group after
    /// `covered`, to the group `through`, which is durable.
    ///
    /// # Errors
    /// There is no such file.
    pub fn of_log(files: &[u64], covered: u64, through: u64) -> Result<Self, Damage> {
        let number = files.iter().copied().rfind(|number| *number <= covered + 1).ok_or_else(|| {
            Damage::new(log_path(covered + 1), 0, format!("the log after group {covered} is missing"))
        })?;
        Ok(Self { number, place: None, subject: RecheckSubject::Log { through, previous_crc: None } })
    }

    /// Reads groups until `budget_bytes` bytes have been read, or all of the file. A check of the
    /// log goes on in the next file with the next step.
    ///
    /// # Errors
    /// - [`LogError::Damaged`].
    /// - [`LogError::Io`] of the kind `NotFound` where the file is gone: the store removes files
    ///   that it does not need any more.
    /// - Others of the disk.
    pub fn step(&mut self, fs: &dyn Fs, store: StoreId, budget_bytes: u64) -> Result<Rechecked, LogError> {
        let file = fs.open_uncached(&self.path())?;
        let start = match self.place {
            Some(place) => place,
            None => self.start(file.as_ref(), store)?,
        };
        let mut reader = self.reader(file.as_ref(), store, start)?;
        let end = self.read_groups(fs, &mut reader, start.position + budget_bytes)?;
        let bytes = reader.position - start.position;
        match end {
            StepEnd::Finished => {}
            StepEnd::Paused => {
                self.place = Some(ChainPlace {
                    position: reader.position,
                    sequence: reader.sequence,
                    previous_crc: reader.previous_crc,
                });
            }
            StepEnd::NextFile { through } => {
                self.number = reader.sequence;
                self.place = None;
                self.subject = RecheckSubject::Log { through, previous_crc: Some(reader.previous_crc) };
            }
        }
        Ok(Rechecked { bytes, more: !matches!(end, StepEnd::Finished) })
    }

    fn kind(&self) -> FileKind {
        match self.subject {
            RecheckSubject::Checkpoint { .. } => FileKind::Checkpoint,
            RecheckSubject::Log { .. } => FileKind::Log,
        }
    }

    fn path(&self) -> String {
        self.kind().path(self.number)
    }

    fn damage(&self, position: u64, what: impl Into<String>) -> LogError {
        Damage::new(self.path(), position, what).into()
    }

    /// The place after the header, which is checked.
    fn start(&self, file: &dyn File, store: StoreId) -> Result<ChainPlace, LogError> {
        // Whatever else has the file in the cache: only the disk shows what the disk has.
        file.evict()?;
        let header = read_header(file, self.kind(), self.number, Some(store))?;
        match self.subject {
            RecheckSubject::Checkpoint { .. } => {
                Ok(ChainPlace { position: PAGE_BYTES, sequence: 1, previous_crc: 0 })
            }
            RecheckSubject::Log { previous_crc, .. } => {
                if previous_crc.is_some_and(|crc| crc != header.previous_crc) {
                    return Err(self.damage(0, "the file does not follow the one before it"));
                }
                let previous_crc = header.previous_crc;
                Ok(ChainPlace { position: PAGE_BYTES, sequence: self.number, previous_crc })
            }
        }
    }

    fn reader<'f>(
        &self,
        file: &'f dyn File,
        store: StoreId,
        place: ChainPlace,
    ) -> Result<GroupReader<'f>, LogError> {
        let kind = match self.subject {
            RecheckSubject::Checkpoint { .. } => GroupKind::Checkpoint,
            RecheckSubject::Log { .. } => GroupKind::Log,
        };
        let ChainPlace { position, sequence, previous_crc } = place;
        let groups = GroupFile { file, len: file.len()?, kind, store };
        Ok(GroupReader { groups, position, sequence, previous_crc })
    }

    /// Reads groups up to `end` in the file.
    fn read_groups(
        &mut self,
        fs: &dyn Fs,
        reader: &mut GroupReader<'_>,
        end: u64,
    ) -> Result<StepEnd, LogError> {
        while reader.position < end {
            if let RecheckSubject::Log { through, .. } = self.subject
                && reader.sequence > through
            {
                return Ok(StepEnd::Finished);
            }
            let at = reader.position;
            let (group, _) = match reader.next_raw()? {
                Ok(read) => read,
                Err(why) => return self.next_file(fs, reader.sequence, at, why),
            };
            if let RecheckSubject::Checkpoint { counts } = &mut self.subject
                && read_group(&group, &checkpoint_path(self.number), at, counts, &mut |_| Ok(()))?.is_some()
            {
                return Ok(StepEnd::Finished);
            }
        }
        Ok(StepEnd::Paused)
    }

    /// The log goes on in another file, or there is a reason why the group `sequence` is not here.
    fn next_file(&self, fs: &dyn Fs, sequence: u64, at: u64, why: GroupError) -> Result<StepEnd, LogError> {
        match self.subject {
            // What follows in this file means nothing where another one begins with the group.
            RecheckSubject::Log { through, .. }
                if sequence > self.number && list_numbers(fs, FileKind::Log)?.contains(&sequence) =>
            {
                Ok(StepEnd::NextFile { through })
            }
            _ => Err(self.damage(at, why.why())),
        }
    }
}
