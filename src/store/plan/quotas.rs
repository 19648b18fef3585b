//! Quotas: the change of the content that each mutation makes.

use crate::format::{BucketRecord, UploadId, Versioning};
use crate::store::plan::Planner;
use crate::store::usage_accounts::Holdings;
use crate::store::{Selector, StoreError};

impl Planner<'_> {
    /// The change by a version that becomes the newest of its key, and may replace the null version.
    pub(super) fn change_by_put(&self, bucket: &BucketRecord, key: &[u8], added: Holdings) -> Holdings {
        if self.accounts.is_off() || bucket.versioning == Versioning::Enabled {
            return added;
        }
        let replaced = self.find(bucket.id, key, Selector::Null);
        added - replaced.as_ref().map(Holdings::of_version).unwrap_or_default()
    }

    /// An upload with its parts.
    pub(super) fn holdings_of_upload(&self, bucket: u64, key: &[u8], upload: UploadId) -> Holdings {
        match self.accounts.is_off() {
            true => Holdings::NONE,
            false => self.accounts.of_upload(bucket, key, upload),
        }
    }

    /// Fails if a quota does not allow the growth.
    pub(super) fn check_quota(&mut self, bucket: &BucketRecord, growth: Holdings) -> Result<(), StoreError> {
        self.accounts.check(bucket, growth)
    }

    /// Counts a change for the later mutations of the group.
    pub(super) fn count(&mut self, bucket: &BucketRecord, change: Holdings) {
        self.accounts.count(bucket, change);
    }
}
