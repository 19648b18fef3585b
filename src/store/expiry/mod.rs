//! Expiry: what the rules of a bucket take, in bounded groups. The store knows no rules. A caller
//! walks the versions and uploads, decides, and submits its decisions; the committer drops those
//! whose reason is gone.
//!
//! This page has expiry by rules, `uploads` expiry of multipart uploads that are abandoned.
//! The requests and outcomes are in `commit/expiring.rs`, the decision in `commit/plan/expiry.rs`.

mod uploads;

use crate::base::limits::GROUP_LOOKUPS_MAX;
use crate::format::UploadId;
use crate::index::{PlaceCursor, PlacedVersion};
use crate::store::commit::mutation::{Mutation, lookups_of_parts};
use crate::store::{
    BucketInfo, EXPIRY_GROUP_MAX, EXPIRY_GROUP_MAX_BYTES, ExpiringItem, ExpiringRole, ExpiryOutcome,
    ExpiryRequest, Store, StoreError,
};

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
            // An item with more work than a group may have is a group of its own.
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
