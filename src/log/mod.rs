//! Floor 2: segmented append-only logs of records, independent of S3. There are two: the data
//! segments, whose records are extents, and the metadata log, whose records are groups of entries.
//!
//! - `segments`, `extent_writer`, `extent_reader`, `extent_copy`: extents are allocated, written,
//!   read and relocated.
//! - `log_writer`, `log_builder`, `replay`, `follow`: the log is appended to, built at once, and
//!   read; replay distinguishes a torn end from a corrupt one, and a follower reads while another
//!   thread appends.
//! - `checkpoint`, `reserve`: all metadata in one file, and the disk space that is kept free for
//!   it.
//! - `shadow`: a copy of the log on the large one of two disks.
//! - `level`: two copies of one log are made equal after a crash.
//! - `recheck`: log files and checkpoints are read again while the store is in use.
//! - `scan`, `inspect`: records are found and checked, for readers and tools.

mod checkpoint;
mod extent_copy;
mod extent_reader;
mod extent_writer;
mod files;
mod follow;
mod groups;
mod inspect;
mod level;
mod log_builder;
mod log_writer;
mod recheck;
mod replay;
mod reserve;
mod scan;
mod segments;
mod shadow;

use std::io;

use thiserror::Error;

pub use checkpoint::{CheckpointPlan, CheckpointWriter, read_checkpoint};
pub use extent_copy::{CopiedExtents, CopyError, ExtentCopier, ExtentLocation};
pub use extent_reader::ExtentReader;
pub use extent_writer::{PackBuilder, StreamExtent};
pub use files::{
    any_header, check_header, create_file, holds_store, list_numbers, open_file, remove_unfinished,
    write_atomically,
};
pub use follow::{FollowedGroup, LogFollower};
pub use level::{Levelled, level_log};
pub use log_builder::{BuiltLog, build_log};
pub use log_writer::{LogSpace, LogWriter, WrittenGroup, begin_log};
pub use recheck::{FileRecheck, Rechecked};
pub use replay::{LogTail, LogVolume, PackCheck, Replay, ReplayStart, TornGroup};
pub use reserve::{Reserve, SpaceClaim};
pub use scan::{GroupScan, Scanned, SegmentRecord, SegmentScan};
pub use segments::{Allocation, Segment, SegmentOptions, SegmentPins, Segments, WriteHead};
pub use shadow::{LogShadow, ShadowProgress, ShadowRoom, remove_shadow, shadow_of};

/// Damage to bytes that had been durable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The file, relative to the data directory.
    pub file: String,
    /// Bytes from its start.
    pub offset: u64,
    /// The expected and the actual content.
    pub what: String,
}

impl Damage {
    /// Damage in a file, at an offset.
    pub fn new(file: impl Into<String>, offset: u64, what: impl Into<String>) -> Self {
        Self { file: file.into(), offset, what: what.into() }
    }
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} is damaged at offset {}: {}", self.file, self.offset, self.what)
    }
}

/// Why an operation on a log failed.
#[derive(Debug, Error)]
pub enum LogError {
    /// Damage was found.
    #[error("{0}")]
    Damaged(Damage),
    /// The file system has no space left.
    #[error("the disk is full: {0}")]
    DiskFull(io::Error),
    /// The process or the system has no file descriptor or no memory left to open a file. Nothing
    /// has been changed.
    #[error("{0}")]
    Exhausted(io::Error),
    /// The bytes are on another host that does not answer.
    #[error("{0}")]
    Unreachable(io::Error),
    /// The disk failed.
    #[error("{0}")]
    Io(io::Error),
}

impl From<io::Error> for LogError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::DiskFull(error),
            io::ErrorKind::ResourceBusy => Self::Exhausted(error),
            io::ErrorKind::HostUnreachable => Self::Unreachable(error),
            _ => Self::Io(error),
        }
    }
}

impl LogError {
    /// The error of a failed read: bytes that the disk cannot read are damage.
    fn of_read(error: io::Error, file: &str, offset: u64) -> Self {
        match error.kind() {
            io::ErrorKind::InvalidData => Damage::new(file, offset, unreadable(&error)).into(),
            _ => error.into(),
        }
    }

    /// Says whether a newer siltstone wrote what was read. It is whole, and must neither be treated
    /// as lost nor be written over. Reads alone tell: a write that the file system does not support
    /// has an error of the same kind.
    pub(crate) fn is_newer(&self) -> bool {
        matches!(self, Self::Io(error) if error.kind() == io::ErrorKind::Unsupported)
    }

    /// Damage found at `offset` of `file`: a place that cannot be read counts as damaged.
    pub(crate) fn into_damage(self, file: &str, offset: u64) -> Damage {
        self.damage_or_io().unwrap_or_else(|error| Damage::new(file, offset, unreadable(&error)))
    }

    /// The damage that was found.
    ///
    /// # Errors
    /// The error of the disk, where it was none.
    pub(crate) fn damage_or_io(self) -> Result<Damage, io::Error> {
        match self {
            Self::Damaged(damage) => Ok(damage),
            Self::DiskFull(error) | Self::Exhausted(error) | Self::Unreachable(error) | Self::Io(error) => {
                Err(error)
            }
        }
    }
}

fn unreadable(error: &io::Error) -> String {
    format!("it cannot be read: {error}")
}

impl From<Damage> for LogError {
    fn from(damage: Damage) -> Self {
        Self::Damaged(damage)
    }
}
