//! Appending to the metadata log (data-format.md, section 5).

use std::io;
use std::sync::Arc;

use crate::base::limits::{KIB, MIB, PAGE_BYTES};
use crate::base::{Clock, Timestamp};
use crate::format::{
    Features, FileHeader, FileKind, GroupHeader, GroupKind, LogPosition, Pack, StoreId, log_path, page_ceil,
};
use crate::fs::{File, Fs};
use crate::log::{LogError, LogTail, LogVolume, create_file};

/// Zeros are written ahead of the groups in steps of this size. Overwriting them does not change
/// the file system's metadata, which halves the time of a sync.
const ZERO_STEP_BYTES: u64 = MIB;
/// The next step is taken when less than this is left, so that some commits still fit on a full
/// disk.
const ZERO_AHEAD_BYTES: u64 = 512 * KIB;

/// A group that has been written and is not yet durable.
#[must_use = "it counts only once it is durable"]
#[derive(Debug)]
pub struct WrittenGroup {
    len: u64,
    crc: u32,
}

impl WrittenGroup {
    /// Bytes, padding included.
    #[expect(clippy::len_without_is_empty, reason = "a group is never empty of bytes")]
    pub fn len(&self) -> u64 {
        self.len
    }
}

/// The metadata log, open for appending.
pub struct LogWriter {
    fs: Arc<dyn Fs>,
    clock: Arc<dyn Clock>,
    store: StoreId,
    file_max_bytes: u64,
    file: Arc<dyn File>,
    number: u64,
    /// The critical features that the header of the file states.
    features: Features,
    /// Where the next group goes.
    position: u64,
    /// The end of the zeros that were written.
    zeroed_to: u64,
    /// The durable length of the file when the last group became durable.
    durable_len: u64,
    /// The end of the bytes that a failed or torn group may have left after the position.
    dirty_to: u64,
    sequence: u64,
    previous_crc: u32,
    /// Bytes that the log may still take from the file system.
    space_limit: u64,
}

/// Bytes that a group takes from the file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogSpace {
    /// The minimum, without which the group cannot be written.
    pub minimum: u64,
    /// The minimum plus zeros for later groups.
    pub preferred: u64,
}

impl LogWriter {
    /// Starts the log of a new store. Durable on return. A file of `file_max_bytes` or more is
    /// followed by another.
    ///
    /// # Errors
    /// Of the disk.
    pub fn create(
        fs: Arc<dyn Fs>,
        clock: Arc<dyn Clock>,
        store: StoreId,
        file_max_bytes: u64,
    ) -> Result<Self, LogError> {
        let tail = begin_log(fs.as_ref(), store, clock.now(), LogPosition::default(), file_max_bytes)?;
        Self::resume(fs, clock, store, file_max_bytes, &tail)
    }

    /// Continues the log at the end that replay found.
    ///
    /// # Errors
    /// Of the disk.
    pub fn resume(
        fs: Arc<dyn Fs>,
        clock: Arc<dyn Clock>,
        store: StoreId,
        file_max_bytes: u64,
        tail: &LogTail,
    ) -> Result<Self, LogError> {
        let zeroed_to = tail.file.len()?;
        Ok(Self {
            fs,
            clock,
            store,
            file_max_bytes,
            file: tail.file.clone(),
            number: tail.number,
            features: tail.features,
            position: tail.position,
            zeroed_to,
            durable_len: tail.durable_len,
            dirty_to: tail.torn.as_ref().map_or(0, |torn| torn.end),
            sequence: tail.sequence,
            previous_crc: tail.previous_crc,
            space_limit: u64::MAX,
        })
    }

    /// The sequence that the next group gets.
    pub fn next_sequence(&self) -> u64 {
        self.sequence
    }

    /// The file to sync after [`LogWriter::write`].
    pub fn file(&self) -> &Arc<dyn File> {
        &self.file
    }

    /// The path of that file, for messages.
    pub fn path(&self) -> String {
        log_path(self.number)
    }

    /// Where the next group goes, in bytes from the start of the file.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// The file system space that a group with `body_len` bytes of entries takes; `None` where
    /// enough zeros are ready.
    pub fn space_for(&self, body_len: u64) -> Option<LogSpace> {
        let len = page_ceil(GroupHeader::BYTES as u64 + body_len);
        if self.position >= self.file_max_bytes {
            let minimum = 2 * PAGE_BYTES + len;
            return Some(LogSpace { minimum, preferred: minimum + ZERO_STEP_BYTES });
        }
        let to = self.zeros_to(self.position + len)?;
        let minimum = (self.position + len).saturating_sub(self.zeroed_to);
        Some(LogSpace { minimum, preferred: to - self.zeroed_to })
    }

    /// Sets the bytes that the log may take from the file system until the next call. Initially
    /// there is no limit.
    pub fn set_space_limit(&mut self, bytes: u64) {
        self.space_limit = bytes;
    }

    /// Writes the next group, with the entries encoded in `body`. The group counts after
    /// [`LogWriter::mark_durable`]; before it another call overwrites it.
    ///
    /// # Errors
    /// [`LogError::DiskFull`] when there is no space; nothing is lost then. After any other error
    /// the disk must not be trusted.
    pub fn write(
        &mut self,
        entry_count: u32,
        body: &[u8],
        pack: Option<Pack>,
    ) -> Result<WrittenGroup, LogError> {
        if self.position >= self.file_max_bytes {
            self.roll()?;
        }
        let header = GroupHeader {
            kind: GroupKind::Log,
            sequence: self.sequence,
            // The previous group is durable, or this one would not be written.
            stable: self.sequence - 1,
            file_len: self.durable_len,
            time: self.clock.now(),
            pack,
            previous_crc: self.previous_crc,
        };
        let (mut bytes, crc) = header.encode_group(&self.store, entry_count, body);
        let len = bytes.len() as u64;
        let end = self.position + len;
        self.write_zeros_ahead(end)?;
        bytes.resize(bytes.len() + self.dirty_bytes_after(end)? as usize, 0);
        // Noted before the write, which may fail halfway and leave a part of the group.
        self.dirty_to = self.dirty_to.max(end);
        self.file.write_all_at(&bytes, self.position)?;
        Ok(WrittenGroup { len, crc })
    }

    /// Bytes after `end` that a torn or failed group has left. They would look like another torn
    /// group, so they are overwritten. Where the disk was full they end with the file.
    fn dirty_bytes_after(&self, end: u64) -> Result<u64, LogError> {
        if self.dirty_to <= end {
            return Ok(0);
        }
        Ok(self.dirty_to.min(self.file.len()?).saturating_sub(end))
    }

    /// Records that the group has been synced; the next one is written after it.
    pub fn mark_durable(&mut self, written: &WrittenGroup) {
        self.position += written.len;
        self.previous_crc = written.crc;
        self.sequence += 1;
        self.zeroed_to = self.zeroed_to.max(self.position);
        // The sync of the group has made the zeros durable, too: the next group states the length,
        // and a shorter file is damage from then on.
        self.durable_len = self.zeroed_to;
        self.dirty_to = 0;
    }

    /// The end of the zeros to write before a group that ends at `group_end`; `None` where there
    /// are enough.
    fn zeros_to(&self, group_end: u64) -> Option<u64> {
        // No group starts after the size at which the file is closed.
        let end_max = self.file_max_bytes.max(group_end);
        if self.zeroed_to >= end_max.min(group_end + ZERO_AHEAD_BYTES) {
            return None;
        }
        Some(page_ceil(end_max.min(self.zeroed_to.max(group_end) + ZERO_STEP_BYTES)))
    }

    fn write_zeros_ahead(&mut self, group_end: u64) -> Result<(), LogError> {
        let Some(to) = self.zeros_to(group_end) else {
            return Ok(());
        };
        let to = to.min(self.zeroed_to.saturating_add(self.space_limit) / PAGE_BYTES * PAGE_BYTES);
        if to < group_end {
            let what = "the log has used up the space kept free for it";
            return Err(LogError::DiskFull(io::Error::new(io::ErrorKind::StorageFull, what)));
        }
        if to <= self.zeroed_to {
            return Ok(());
        }
        // Preallocating an existing byte takes no space, and shows whether the file system supports
        // it.
        let written = if self.file.reserve(0, 1)? {
            self.file.write_zeros(self.zeroed_to, to - self.zeroed_to)
        } else {
            // Without synced zeros, the sync of the group could be the first call to find the disk
            // full.
            self.file.ensure_allocated(self.zeroed_to, to - self.zeroed_to)?;
            Ok(())
        };
        match written {
            Ok(()) => {
                self.space_limit -= (to - self.zeroed_to).min(self.space_limit);
                self.zeroed_to = to;
            }
            Err(error) => match LogError::from(error) {
                // The group itself may still fit.
                LogError::DiskFull(_) => {}
                other => return Err(other),
            },
        }
        Ok(())
    }

    /// Continues in a new file, so that a checkpoint makes the whole log before it removable. Does
    /// nothing where the file holds no group yet.
    ///
    /// # Errors
    /// As of [`LogWriter::write`]; the log then continues in the old file.
    pub fn roll(&mut self) -> Result<(), LogError> {
        if self.position == PAGE_BYTES { Ok(()) } else { self.continue_in_new_file(self.features) }
    }

    /// Makes sure that the header of the file with the next group states `features`: a reader that
    /// does not know them must stop before it reads the group. Usually it does nothing. Otherwise
    /// the log continues in a new file; a file without groups is replaced.
    ///
    /// # Errors
    /// As of [`LogWriter::write`]; the log then continues in the old file.
    pub fn require(&mut self, features: Features) -> Result<(), LogError> {
        if self.features.contains(features) {
            return Ok(());
        }
        self.continue_in_new_file(self.features.with(features))
    }

    fn continue_in_new_file(&mut self, features: Features) -> Result<(), LogError> {
        let zeros = self.file_max_bytes.min(ZERO_STEP_BYTES).min(self.space_limit.saturating_sub(PAGE_BYTES));
        let header = FileHeader {
            kind: FileKind::Log,
            store: self.store,
            number: self.sequence,
            features,
            created: self.clock.now(),
            previous_crc: self.previous_crc,
        };
        // The file is durable before anything is changed here: after an error the log continues in
        // the old one.
        let file = create_log_file(self.fs.as_ref(), &header, zeros / PAGE_BYTES * PAGE_BYTES)?;
        self.zeroed_to = file.len()?;
        self.space_limit -= self.zeroed_to.min(self.space_limit);
        self.durable_len = self.zeroed_to;
        self.file = file;
        self.number = self.sequence;
        self.features = features;
        self.position = PAGE_BYTES;
        self.dirty_to = 0;
        Ok(())
    }
}

/// Makes a file of the log without groups, which goes on after the group `after`; the default begins a
/// log. Durable on return. Returns the end of the log, to resume it.
///
/// # Errors
/// Of the disk.
pub fn begin_log(
    fs: &dyn Fs,
    store: StoreId,
    now: Timestamp,
    after: LogPosition,
    file_max_bytes: u64,
) -> Result<LogTail, LogError> {
    let header = FileHeader {
        kind: FileKind::Log,
        store,
        number: after.sequence + 1,
        features: Features::NONE,
        created: now,
        previous_crc: after.crc,
    };
    let file = create_log_file(fs, &header, file_max_bytes.min(ZERO_STEP_BYTES))?;
    Ok(LogTail {
        durable_len: file.len()?,
        file,
        number: header.number,
        features: header.features,
        position: PAGE_BYTES,
        sequence: header.number,
        previous_crc: after.crc,
        in_doubt: false,
        doubtful_segment: None,
        torn: None,
        volume: LogVolume::default(),
        damage: None,
    })
}

fn create_log_file(fs: &dyn Fs, header: &FileHeader, zeros: u64) -> Result<Arc<dyn File>, LogError> {
    create_file(fs, header, |file| Ok(file.write_zeros(PAGE_BYTES, zeros.max(PAGE_BYTES))?))
}
