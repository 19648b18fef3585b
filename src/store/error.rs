//! What can go wrong in the store.

use thiserror::Error;

use crate::base::entity_tag::Unmet;
use crate::log::{Damage, LogError};

/// Why the store did not do what it was asked. Nothing was changed unless it says so.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum StoreError {
    /// There is no bucket of that name.
    #[error("the bucket does not exist")]
    NoSuchBucket,
    /// The name of a bucket is taken.
    #[error("the bucket exists and belongs to {owner}")]
    BucketExists {
        /// The user that it belongs to.
        owner: String,
    },
    /// A bucket that holds versions cannot be deleted.
    #[error("the bucket is not empty")]
    BucketNotEmpty,
    /// The key has no version.
    #[error("the key does not exist")]
    NoSuchKey,
    /// The key does not have that version.
    #[error("the version does not exist")]
    NoSuchVersion,
    /// There is no such multipart upload in progress.
    #[error("the multipart upload does not exist")]
    NoSuchUpload,
    /// A part of the upload to be completed has been replaced meanwhile.
    #[error("part {0} of the multipart upload has been replaced")]
    PartReplaced(u32),
    /// A list of parts that is empty, or in which the numbers do not ascend.
    #[error("the parts of the multipart upload are none, or not in order")]
    PartsOutOfOrder,
    /// A condition of the caller did not hold when it came to the commit.
    #[error("a precondition did not hold")]
    PreconditionFailed,
    /// The disk, less what is kept back, is full. Deleting makes room.
    #[error("the disk is full")]
    DiskFull,
    /// The index, which is in memory, is near its ceiling. Deleting makes room.
    #[error(
        "the index takes up {used} bytes of the {ceiling} that --index-max allows: delete objects or raise it"
    )]
    IndexFull {
        /// Bytes that it takes up.
        used: u64,
        /// Bytes that it may take up.
        ceiling: u64,
    },
    /// The process or the system has no file descriptor or no memory left to open a file with. It may work later.
    #[error("no file can be opened for the moment: {0}")]
    Exhausted(String),
    /// The store takes no writes until it is opened anew. Whether the write that failed first survives is not known.
    #[error("the store takes no writes: {0}")]
    ReadOnly(String),
    /// More metadata than one commit can hold.
    #[error("the object has more metadata than one commit can hold")]
    TooLarge,
    /// What is on disk is not what was written there.
    #[error("{0}")]
    Corrupt(Damage),
    /// The disk failed.
    #[error("the disk failed: {0}")]
    Io(String),
    /// The store has been closed.
    #[error("the store is closed")]
    Closed,
}

impl From<Unmet> for StoreError {
    fn from(unmet: Unmet) -> Self {
        match unmet {
            Unmet::Absent => Self::NoSuchKey,
            Unmet::Failed => Self::PreconditionFailed,
        }
    }
}

impl From<LogError> for StoreError {
    fn from(error: LogError) -> Self {
        match error {
            LogError::Damaged(damage) => Self::Corrupt(damage),
            LogError::DiskFull(_) => Self::DiskFull,
            LogError::Exhausted(error) => Self::Exhausted(error.to_string()),
            LogError::Io(error) => Self::Io(error.to_string()),
        }
    }
}

/// Why a store could not be opened.
#[derive(Debug, Error)]
pub enum OpenError {
    /// Somebody else has it open.
    #[error("another process uses this data directory: stop it first, or choose another --data-dir")]
    Locked,
    /// The directory holds something that is no store, or one that cannot be read at all.
    #[error("{0}: restore it from a backup, or look at it with siltstone-tools verify")]
    Damaged(Damage),
    /// The disk failed.
    #[error("{0}")]
    Io(#[from] std::io::Error),
}

impl From<LogError> for OpenError {
    fn from(error: LogError) -> Self {
        match error {
            LogError::Damaged(damage) => Self::Damaged(damage),
            LogError::DiskFull(error) | LogError::Exhausted(error) | LogError::Io(error) => Self::Io(error),
        }
    }
}
