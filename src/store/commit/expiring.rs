//! Requests of expiry: what expires for which reason, and how it went.

use std::sync::Arc;

use crate::base::Timestamp;
use crate::format::{StorageClass, UploadId, VersionId};
use crate::index::BucketConfiguration;
use crate::store::BucketInfo;

/// Versions and uploads that expire in one commit, so that no other commit waits for long.
pub const EXPIRY_GROUP_MAX: usize = 500;
/// The bytes of their entries, at most. The entry of the largest record is smaller.
pub const EXPIRY_GROUP_MAX_BYTES: usize = 4 << 20;
/// A bound on the bytes of the entry of an expiry beside its key and record.
const ENTRY_BYTES_MAX: usize = 128;

/// The reason for which a version or an upload expires. It must hold at the commit, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExpiringRole {
    /// The version is the current one, and no delete marker. It is deleted as by a request that
    /// names no version.
    Current(VersionId),
    /// The version is a delete marker and the only version of its key. It is removed.
    LoneDeleteMarker(VersionId),
    /// The version is below the current one. It is removed.
    Noncurrent {
        /// The version.
        version: VersionId,
        /// Newer noncurrent versions that the key must have.
        newer_noncurrent_min: u32,
    },
    /// The upload is in progress. It is aborted.
    Upload(UploadId),
    /// The upload is in progress, and neither began nor got a part since that time. It is aborted.
    IdleUpload(UploadId, Timestamp),
}

/// A version or an upload that expires.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpiringItem {
    /// The key.
    pub key: Vec<u8>,
    /// The version or upload, and the reason.
    pub role: ExpiringRole,
    /// The class that the version gets instead of being removed or hidden.
    pub transition: Option<ClassTransition>,
}

/// A transition of a version to a storage class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClassTransition {
    /// The class.
    pub class: StorageClass,
    /// The length of the record. One that has grown by the commit waits for another request.
    pub record_bytes: usize,
}

impl ExpiringItem {
    /// A bound on the bytes of its entries.
    pub fn entry_bytes_max(&self) -> usize {
        self.key.len() + ENTRY_BYTES_MAX + self.transition.map_or(0, |transition| transition.record_bytes)
    }
}

/// Expiries in a bucket that become durable together.
#[derive(Clone)]
pub struct ExpiryRequest {
    /// The bucket.
    pub bucket: BucketInfo,
    /// The lifecycle configuration by which it was decided. Once the bucket has another one, or
    /// none, nothing expires. `None` for a decision by no configuration.
    pub configuration: Option<Arc<BucketConfiguration>>,
    /// The versions and uploads, at most [`EXPIRY_GROUP_MAX`].
    pub items: Vec<ExpiringItem>,
}

/// The result of one expiry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExpiryOutcome {
    /// The version was removed, or the upload aborted.
    Removed,
    /// A delete marker was added.
    MarkerAdded,
    /// The version has the class of the transition.
    Moved,
    /// A lock keeps the version.
    Locked,
    /// The reason is gone: the version was deleted or is in another place, or the configuration was
    /// changed.
    Obsolete,
    /// The index is full, so that a delete marker has no place.
    IndexFull,
    /// The disk is full, so that a delete marker or a transition has no place. Removals of the same
    /// request are done.
    DiskFull,
}
