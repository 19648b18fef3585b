//! Expiry: what the rules of a bucket take, in bounded groups. The store knows no rules. A caller
//! walks the versions and uploads, decides, and submits its decisions; the committer drops those
//! whose reason is gone.

use std::sync::Arc;

use crate::base::Timestamp;
use crate::base::limits::GROUP_LOOKUPS_MAX;
use crate::format::{StorageClass, UploadId, VersionId};
use crate::index::{BucketConfiguration, PlaceCursor, PlacedVersion};
use crate::store::mutation::{Mutation, lookups_of_parts};
use crate::store::{BucketInfo, Store, StoreError};

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

impl Store {
    /// Reads up to `limit` further versions of a bucket from the newest snapshot of the index, with
    /// their places, and advances the cursor; `false` at the end, or without the bucket. No commit
    /// waits for it.
    pub fn visit_places(
        &self,
        bucket: &BucketInfo,
        cursor: &mut PlaceCursor,
        limit: usize,
        visit: &mut dyn FnMut(&PlacedVersion<'_>),
    ) -> bool {
        self.shared.index().visit_places(bucket.id, cursor, limit, visit)
    }

    /// The bytes of the parts of an upload; 0 without it.
    pub fn upload_bytes(&self, bucket: &BucketInfo, key: &[u8], upload: UploadId) -> u64 {
        self.shared.index().upload_bytes(bucket.id, key, upload)
    }

    /// Makes versions and uploads expire, with one outcome each: in one commit, or in several where
    /// uploads have many parts. Each reason is checked at the commit; locks hold, and nothing
    /// bypasses them. Durable on return.
    ///
    /// # Errors
    /// [`StoreError::NoSuchBucket`] if the bucket is gone; [`StoreError::TooLarge`] for too many
    /// items; otherwise as of every commit. What earlier commits did stays done.
    pub fn expire(&self, request: ExpiryRequest) -> Result<Vec<ExpiryOutcome>, StoreError> {
        let entry_bytes: usize = request.items.iter().map(ExpiringItem::entry_bytes_max).sum();
        if request.items.len() > EXPIRY_GROUP_MAX || entry_bytes > EXPIRY_GROUP_MAX_BYTES {
            return Err(StoreError::TooLarge);
        }
        let ExpiryRequest { bucket, configuration, items } = request;
        let mut outcomes = Vec::with_capacity(items.len());
        for items in self.by_work(&bucket, items) {
            let bucket = bucket.clone();
            let configuration = configuration.clone();
            let request = ExpiryRequest { bucket, configuration, items };
            outcomes.extend(self.committer.submit(|reply| Mutation::Expire(Box::new(request), reply))?);
        }
        Ok(outcomes)
    }

    /// The items in groups of bounded work.
    fn by_work(&self, bucket: &BucketInfo, items: Vec<ExpiringItem>) -> Vec<Vec<ExpiringItem>> {
        let index = self.shared.index();
        let mut groups = vec![Vec::new()];
        let mut lookups = 0;
        for item in items {
            let of_item = match item.role {
                ExpiringRole::Upload(upload) | ExpiringRole::IdleUpload(upload, _) => {
                    lookups_of_parts(index.upload_parts_max(bucket.id, &item.key, upload))
                }
                ExpiringRole::Current(_)
                | ExpiringRole::Noncurrent { .. }
                | ExpiringRole::LoneDeleteMarker(_) => 1,
            };
            lookups += of_item;
            let last = groups.last_mut().expect("there is a first group");
            if lookups <= GROUP_LOOKUPS_MAX || last.is_empty() {
                last.push(item);
                continue;
            }
            lookups = of_item;
            groups.push(vec![item]);
        }
        groups
    }
}
