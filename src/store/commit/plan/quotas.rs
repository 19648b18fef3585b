//! Quotas: the change of the content that each mutation makes.

use crate::format::{BucketRecord, UploadId, VersionSummary, Versioning};
use crate::index::version_index_bytes;
use crate::store::commit::plan::Planner;
use crate::store::shared::usage_accounts::Holdings;
use crate::store::{Selector, StoreError};

impl Planner<'_> {
    /// The change by a version that becomes the newest of its key, and may replace the null
    /// version.
    pub(super) fn change_by_put(&mut self, bucket: &BucketRecord, key: &[u8], added: Holdings) -> Holdings {
        if bucket.versioning == Versioning::Enabled || !self.accounts.is_limited(bucket) {
            return added;
        }
        match self.find(bucket.id, key, Selector::Null) {
            Some(replaced) => added - self.holdings_of_version(bucket, key, &replaced),
            None => added,
        }
    }

    /// A version that is there after the earlier mutations of the group. The cost grows with the
    /// number of its parts.
    pub(super) fn holdings_of_version(
        &mut self,
        bucket: &BucketRecord,
        key: &[u8],
        version: &VersionSummary,
    ) -> Holdings {
        if !self.accounts.is_limited(bucket) {
            return Holdings::NONE;
        }
        let added = self.changes(bucket.id, key).and_then(|changes| changes.index_bytes_of(version.id));
        let stored =
            || self.version(bucket.id, key, version.id).map(|record| version_index_bytes(key, &record));
        Holdings::of_version(version, added.or_else(stored).unwrap_or(0))
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
