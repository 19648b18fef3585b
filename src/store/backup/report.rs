//! What making a backup, and going back to one, tells.

use std::io;

use thiserror::Error;

use super::SegmentTransfer;
use crate::base::Timestamp;
use crate::format::{BackupSlot, StoreId};
use crate::log::{Damage, LogError};
use crate::store::verify::{Finding, VerifyError};

/// A backup that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackupReport {
    /// The slot that it is in.
    pub slot: BackupSlot,
    /// The store that it is of.
    pub store: StoreId,
    /// When it was begun.
    pub taken: Timestamp,
    /// The last group in it.
    pub sequence: u64,
    /// Segments that are further names of the store's own.
    pub linked: FileTotals,
    /// Segments that the former backup had.
    pub kept: FileTotals,
    /// Segments that were copied.
    pub copied: FileTotals,
    /// Bytes of log and checkpoints, which are always copied.
    pub metadata_bytes: u64,
    /// Whether the users were copied.
    pub with_users: bool,
}

/// Some files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FileTotals {
    /// How many.
    pub count: u64,
    /// Their lengths in all.
    pub bytes: u64,
}

/// A store that was restored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestoreReport {
    /// When the backup was begun.
    pub taken: Timestamp,
    /// The last group in it.
    pub sequence: u64,
    /// What was copied.
    pub files: FileTotals,
    /// Whether users came with it.
    pub with_users: bool,
    /// What is wrong with the restored store.
    pub findings: Vec<Finding>,
}

/// Why there is no new backup, or nothing was restored.
#[derive(Debug, Error)]
pub enum BackupError {
    /// There is nothing to be backed up.
    #[error("there is no store in it: no segment, no log and no checkpoint")]
    NotAStore,
    /// There is nothing to be restored.
    #[error("there is no backup in it that is whole")]
    NotABackup,
    /// The target has files that are no part of a backup.
    #[error("it holds {0:?}, which is no part of a backup: choose an empty directory, or that of a backup")]
    Foreign(String),
    /// The target holds the backup of another store.
    #[error("it holds the backup of another store")]
    OtherStore,
    /// Somebody else makes a backup, or goes back to this one.
    #[error("another process is making a backup, or restoring one")]
    Busy,
    /// A store is restored into an empty directory alone.
    #[error("it is not empty, and a store is restored into an empty directory alone")]
    NotEmpty,
    /// There is too little room for it.
    #[error("{needed_bytes} bytes are needed, and {free_bytes} are free")]
    NoRoom {
        /// Bytes that would be written.
        needed_bytes: u64,
        /// Bytes that may be.
        free_bytes: u64,
    },
    /// Nothing would keep the store from giving away bytes of a segment while it is copied.
    #[error(
        "a segment can be given no further name ({no_name}) and cannot be locked ({no_lock}), so that its bytes could go while \
         they are copied: let the backup write to the data directory, or stop the server meanwhile and give it a copy"
    )]
    NotPinned {
        /// Why it gets no further name.
        no_name: io::Error,
        /// Why it cannot be locked.
        no_lock: io::Error,
    },
    /// The store, or the backup, is damaged where everything else depends on it.
    #[error("{0}")]
    Damaged(Damage),
    /// What was copied is damaged.
    #[error("{} places of what was copied are damaged", .0.len())]
    Findings(Vec<Finding>),
    /// The disk failed.
    #[error("{0}")]
    Io(#[from] io::Error),
}

impl BackupReport {
    pub(super) fn started(slot: BackupSlot, store: StoreId, taken: Timestamp) -> Self {
        let none = FileTotals::default();
        Self {
            slot,
            store,
            taken,
            sequence: 0,
            linked: none,
            kept: none,
            copied: none,
            metadata_bytes: 0,
            with_users: false,
        }
    }

    pub(super) fn count(&mut self, way: SegmentTransfer, bytes: u64) {
        let files = match way {
            SegmentTransfer::RenamePin => &mut self.linked,
            SegmentTransfer::LinkFormer => &mut self.kept,
            SegmentTransfer::Copy => &mut self.copied,
        };
        files.add(bytes);
    }
}

impl FileTotals {
    pub(super) fn add(&mut self, bytes: u64) {
        self.count += 1;
        self.bytes += bytes;
    }
}

impl From<LogError> for BackupError {
    fn from(error: LogError) -> Self {
        match error {
            LogError::Damaged(damage) => Self::Damaged(damage),
            LogError::DiskFull(error) | LogError::Exhausted(error) | LogError::Io(error) => Self::Io(error),
        }
    }
}

impl From<Damage> for BackupError {
    fn from(damage: Damage) -> Self {
        Self::Damaged(damage)
    }
}

impl From<VerifyError> for BackupError {
    fn from(error: VerifyError) -> Self {
        match error {
            VerifyError::Io(error) => Self::Io(error),
            VerifyError::Locked => Self::Busy,
            VerifyError::NotAStore => Self::NotAStore,
        }
    }
}
