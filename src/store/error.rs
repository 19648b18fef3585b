//! Errors of the store.

use thiserror::Error;

use crate::base::entity_tag::Unmet;
use crate::log::{Damage, LogError};

/// The holder of a quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum QuotaHolder {
    /// The bucket.
    #[error("the bucket")]
    Bucket,
    /// Its owner.
    #[error("the owner of the bucket")]
    Owner,
}

/// The error of a call. The store is unchanged unless the error says otherwise.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum StoreError {
    /// There is no bucket of that name.
    #[error("the bucket does not exist")]
    NoSuchBucket,
    /// A bucket of that name exists.
    #[error("the bucket exists and belongs to {owner}")]
    BucketExists {
        /// Its owner.
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
    /// A part has been replaced since the caller saw it.
    #[error("part {0} of the multipart upload has been replaced")]
    PartReplaced(u32),
    /// The list of parts is empty, or its numbers do not ascend.
    #[error("the list of parts is empty or not in order")]
    PartsOutOfOrder,
    /// The ring lacks the key with that id; empty without a ring.
    #[error("the key ring has no key {0:?} for this")]
    KeyUnavailable(String),
    /// The ring has another key with that id than the one that the object was encrypted with.
    #[error("the key {0:?} of the ring is not the one that encrypted the object")]
    WrongRingKey(String),
    /// The key of the ring that a new object asks for has been retired since it was asked for.
    #[error("the key {0} has been retired")]
    RetiredKey(String),
    /// The bytes are encrypted with a key of a customer, who gave none.
    #[error("the object is encrypted with a key that the request has to bring")]
    CustomerKeyNeeded,
    /// The bytes are not encrypted with a key of a customer.
    #[error("the object is not encrypted with the key of a customer")]
    CustomerKeyRefused,
    /// The bytes are encrypted with another key than the customer gave.
    #[error("the object is encrypted with another key")]
    WrongCustomerKey,
    /// The keys of the bytes do not allow that extents are shared.
    #[error("encrypted bytes are not shared")]
    Encrypted,
    /// A precondition was false at the commit.
    #[error("a precondition is false")]
    PreconditionFailed,
    /// The object is not, or is no longer, that of the user who may delete it as its owner.
    #[error("the object belongs to another user")]
    OtherOwner,
    /// A retention or a legal hold keeps the version.
    #[error("a retention or a legal hold keeps the version")]
    Locked,
    /// Object lock and the versioning state of the bucket exclude each other.
    #[error("object lock demands versioning, and is never removed")]
    InvalidBucketState,
    /// The disk is full up to the reserve. Deleting frees space.
    #[error("the disk is full")]
    DiskFull,
    /// The index, which is in memory, is near its limit. Deleting frees space.
    #[error(
        "the index uses {used} bytes of the {ceiling} that --index-max allows: delete objects or raise it"
    )]
    IndexFull {
        /// Its memory in bytes.
        used: u64,
        /// Its limit in bytes.
        ceiling: u64,
    },
    /// A quota does not allow the growth. Deleting frees space.
    #[error("the quota of {holder} allows {allowed} {limit}, and {used} are used")]
    QuotaExceeded {
        /// The holder of the quota.
        holder: QuotaHolder,
        /// The name of the limit.
        limit: &'static str,
        /// The limit.
        allowed: u64,
        /// The usage before the growth.
        used: u64,
    },
    /// The owner has as many buckets as it may have.
    #[error("the owner may have {allowed} buckets")]
    TooManyBuckets {
        /// The limit.
        allowed: u64,
    },
    /// The process or the system lacks file descriptors or memory to open a file. The call may
    /// succeed later.
    #[error("no file can be opened at the moment: {0}")]
    Exhausted(String),
    /// The store is read-only until it is opened again. Whether the first failed write survives is
    /// unknown.
    #[error("the store takes no writes: {0}")]
    ReadOnly(String),
    /// More metadata than one commit can hold.
    #[error("the object has more metadata than one commit can hold")]
    TooLarge,
    /// Bytes on the disk differ from those that were written.
    #[error("{0}")]
    Corrupt(Damage),
    /// The remote has to answer first: bytes are there, or its log has to be continued. The call
    /// may succeed later.
    #[error("not without the remote: {0}")]
    RemoteUnavailable(String),
    /// The change is durable here. It is published once the remote has it, or was made by nobody if
    /// another host takes over before.
    #[error("the change waits for the remote: {0}")]
    InDoubt(String),
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
            LogError::Unreachable(error) => Self::RemoteUnavailable(error.to_string()),
            LogError::Io(error) => Self::Io(error.to_string()),
        }
    }
}

/// Why a store could not be opened.
#[derive(Debug, Error)]
pub enum OpenError {
    /// Another process has it open.
    #[error("another process uses this data directory: stop it first, or choose another --data-dir")]
    Locked,
    /// The directory holds no store, or an unreadable one.
    #[error("{0}: restore it from a backup, or check it with siltstone-tools verify")]
    Damaged(Damage),
    /// The disk failed.
    #[error("{0}")]
    Io(#[from] std::io::Error),
}

impl From<LogError> for OpenError {
    fn from(error: LogError) -> Self {
        error.damage_or_io().map_or_else(Self::Io, Self::Damaged)
    }
}
