//! Expiry of multipart uploads that nobody goes on with.

use crate::base::Timestamp;
use crate::format::BucketRecord;
use crate::store::{
    ConfiguredBucket, EXPIRY_GROUP_MAX, ExpiringItem, ExpiringRole, ExpiryOutcome, ExpiryRequest, Store,
    StoreError, UploadPages,
};

/// Whether a rule of its bucket aborts an upload for this key that was initiated at this time.
type IsRuled<'r> = &'r dyn Fn(&ConfiguredBucket, &str, Timestamp) -> bool;

impl Store {
    /// Aborts all multipart uploads in progress whose latest part, or initiation if they have none,
    /// is longer ago than [`abort_uploads_after`], except those that a rule of their bucket aborts.
    /// Returns their number. The maintenance thread calls it at intervals. Durable on return.
    ///
    /// # Errors
    /// Errors of the commit. Uploads aborted before the error stay aborted.
    ///
    /// [`abort_uploads_after`]: crate::store::StoreOptions::abort_uploads_after
    pub fn abort_idle_uploads(&self, is_ruled: IsRuled<'_>) -> Result<u64, StoreError> {
        let Some(age) = self.shared.options.abort_uploads_after else { return Ok(0) };
        // While the clock is in doubt, no upload is known to be idle.
        let Some(now) = self.acts_time() else { return Ok(0) };
        let limit = now.as_millis().saturating_sub(age.as_millis() as u64);
        let limit = Timestamp::from_millis(limit);
        let mut aborted = 0;
        for bucket in self.buckets() {
            match self.abort_idle_since(&bucket, limit, is_ruled) {
                Ok(count) => aborted += count,
                // The bucket was deleted with its uploads.
                Err(StoreError::NoSuchBucket) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(aborted)
    }

    fn abort_idle_since(
        &self,
        bucket: &BucketRecord,
        limit: Timestamp,
        is_ruled: IsRuled<'_>,
    ) -> Result<u64, StoreError> {
        let configured = self.configured_bucket(&bucket.name)?;
        let mut aborted = 0;
        let mut pages = UploadPages::default();
        while let Some(page) = pages.next(|query, after| self.list_uploads(&bucket.name, query, after))? {
            let mut items = Vec::new();
            for (key, upload) in page.keys() {
                // Parts are looked at by the commit alone: another one may come until then.
                if upload.initiated < limit && !is_ruled(&configured, &key, upload.initiated) {
                    let role = ExpiringRole::IdleUpload(upload.id, limit);
                    items.push(ExpiringItem { key: key.as_bytes().to_vec(), role, transition: None });
                }
            }
            aborted += self.abort_in_groups(bucket, &items)?;
        }
        Ok(aborted)
    }

    /// Aborts all multipart uploads in progress of a bucket. Durable on return.
    ///
    /// # Errors
    /// Errors of the commit. Uploads aborted before the error stay aborted.
    pub(in crate::store) fn abort_all_uploads(&self, bucket: &BucketRecord) -> Result<(), StoreError> {
        let mut pages = UploadPages::default();
        while let Some(page) = pages.next(|query, after| self.list_uploads(&bucket.name, query, after))? {
            let mut items = Vec::new();
            for (key, upload) in page.keys() {
                let role = ExpiringRole::Upload(upload.id);
                items.push(ExpiringItem { key: key.as_bytes().to_vec(), role, transition: None });
            }
            self.abort_in_groups(bucket, &items)?;
        }
        Ok(())
    }

    /// Aborts uploads that are idle at the commit, too. Returns their number.
    fn abort_in_groups(&self, bucket: &BucketRecord, items: &[ExpiringItem]) -> Result<u64, StoreError> {
        let mut aborted = 0;
        for group in items.chunks(EXPIRY_GROUP_MAX) {
            let bucket = bucket.clone();
            let items = group.to_vec();
            let outcomes = self.expire(ExpiryRequest { bucket, configuration: None, items })?;
            aborted += outcomes.iter().filter(|outcome| **outcome == ExpiryOutcome::Removed).count() as u64;
        }
        Ok(aborted)
    }
}
