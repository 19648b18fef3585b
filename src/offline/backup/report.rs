//! The results of backing up and restoring.

use std::io;

use thiserror::Error;

use super::SegmentTransfer;
use crate::base::Timestamp;
use crate::format::{BackupSlot, StoreId};
use crate::log::{Damage, LogError};
use crate::offline::needed_keys::NeededKey;
use crate::offline::verify::{Finding, VerifyError};

/// A finished backup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackupReport {
    /// Its slot.
    pub slot: BackupSlot,
    /// Its store.
    pub store: StoreId,
    /// When the backup was started.
    pub taken: Timestamp,
    /// The sequence of its last group.
    pub sequence: u64,
    /// Segments that are hard links to the store's own.
    pub linked: FileTotals,
    /// Segments taken from the former backup.
    pub kept: FileTotals,
    /// Segments that were copied.
    pub copied: FileTotals,
    /// Bytes of log and checkpoints, which are always copied.
    pub metadata_bytes: u64,
    /// Whether the users were copied.
    pub with_users: bool,
    /// Whether the keys of encrypted objects were copied.
    pub with_keys: bool,
    /// The keys that the backup needs, where it has keys, and that were found nowhere.
    pub keys_missing: Vec<NeededKey>,
}

/// A number of files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FileTotals {
    /// The number.
    pub count: u64,
    /// The sum of their lengths.
    pub bytes: u64,
}

/// A restored store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestoreReport {
    /// When the backup was started.
    pub taken: Timestamp,
    /// The sequence of its last group.
    pub sequence: u64,
    /// The copied files.
    pub files: FileTotals,
    /// Whether the backup included users.
    pub with_users: bool,
    /// Whether the backup included keys of encrypted objects.
    pub with_keys: bool,
    /// The keys that what was restored needs, and that were not in the backup.
    pub keys_missing: Vec<NeededKey>,
    /// Findings of the check of the restored store.
    pub findings: Vec<Finding>,
    /// Bytes of objects that are on a remote, and were not checked.
    pub unchecked_bytes: u64,
}

/// A failed backup or restore.
#[derive(Debug, Error)]
pub enum BackupError {
    /// The source holds no store.
    #[error("there is no store in it: no segment, no log and no checkpoint")]
    NotAStore,
    /// The directory holds no complete backup.
    #[error("there is no complete backup in it")]
    NotABackup,
    /// The target holds files that do not belong to a backup.
    #[error(
        "it holds {0:?}, which does not belong to a backup: choose an empty directory, or one with a backup"
    )]
    Foreign(String),
    /// The target holds the backup of another store.
    #[error("it holds the backup of another store")]
    OtherStore,
    /// Another process makes or restores a backup.
    #[error("another process is making or restoring a backup")]
    Busy,
    /// The target of a restore is not empty.
    #[error("it is not empty: a store is restored into an empty directory only")]
    NotEmpty,
    /// The target has too little space.
    #[error("{needed_bytes} bytes are needed, and {free_bytes} are free")]
    NoRoom {
        /// Bytes to write.
        needed_bytes: u64,
        /// Bytes available.
        free_bytes: u64,
    },
    /// A segment can neither be linked nor locked, so that it could lose bytes while it is copied.
    #[error(
        "a segment can neither be linked ({no_name}) nor locked ({no_lock}), so that it could lose bytes while it is copied: \
         give the backup write access to the data directory, or stop the server and back up a copy of it"
    )]
    NotPinned {
        /// The error of the link.
        no_name: io::Error,
        /// The error of the lock.
        no_lock: io::Error,
    },
    /// The store, or the backup, is damaged in a place that everything else depends on.
    #[error("{0}")]
    Damaged(Damage),
    /// The copy is damaged.
    #[error("the copy is damaged in {} places", .0.len())]
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
            with_keys: false,
            keys_missing: Vec::new(),
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
        error.damage_or_io().map_or_else(Self::Io, Self::Damaged)
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
