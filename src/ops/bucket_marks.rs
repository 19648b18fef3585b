//! What a list of buckets tells of each at a glance.

use super::{Context, configurations};
use crate::store::{BucketConfigurationKind, Versioning};

/// The settings of a bucket that people look for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BucketMarks {
    /// Whether its policy lets everyone do something that the public access block leaves.
    pub is_public: bool,
    /// Whether versioning is on.
    pub keeps_versions: bool,
    /// Whether versions can be locked.
    pub has_locks: bool,
    /// Whether it has lifecycle rules.
    pub has_lifecycle: bool,
    /// Whether rules send it to other servers.
    pub has_replication: bool,
}

impl Context {
    /// The marks of a bucket; none for one that is missing. Nobody's permissions are asked.
    pub fn bucket_marks(&self, bucket: &str) -> BucketMarks {
        let Ok(bucket) = self.store.configured_bucket(bucket) else { return BucketMarks::default() };
        let is_public = match configurations::policy(&bucket) {
            Some(policy) => policy.is_public(),
            None => false,
        };
        let has = |kind| bucket.configuration(kind).is_some();
        BucketMarks {
            is_public: is_public && !configurations::block(&bucket).restricts_policy,
            keeps_versions: bucket.info.versioning == Versioning::Enabled,
            has_locks: has(BucketConfigurationKind::ObjectLock),
            has_lifecycle: has(BucketConfigurationKind::Lifecycle),
            has_replication: has(BucketConfigurationKind::Replication),
        }
    }
}
