//! The content of buckets and owners, as counted by the index.

use crate::store::{OwnerUsage, Store, StoreError, Usage};

/// A bucket and its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BucketUsage {
    /// The id of the bucket.
    pub id: u64,
    /// The name of the bucket.
    pub bucket: String,
    /// The name of the user who owns it.
    pub owner: String,
    /// Its content.
    pub content: Usage,
}

impl Store {
    /// The content of a bucket. Nothing is counted for it, so every request may ask.
    ///
    /// # Errors
    /// [`StoreError::NoSuchBucket`].
    pub fn usage(&self, bucket: &str) -> Result<Usage, StoreError> {
        let (index, bucket) = self.snapshot_of(bucket)?;
        Ok(index.usage(bucket))
    }

    /// The content of all buckets, of one moment, by ascending age. The cost depends on the number
    /// of buckets alone.
    pub fn bucket_usages(&self) -> Vec<BucketUsage> {
        let index = self.shared.index();
        let usages = index.usages().map(|(record, content)| {
            let bucket = record.name.clone();
            let owner = record.owner.clone();
            BucketUsage { id: record.id, bucket, owner, content }
        });
        usages.collect()
    }

    /// The number of uploads in progress. Pages ask for it every other second: it copies nothing of
    /// the buckets.
    pub fn upload_count(&self) -> u64 {
        self.shared.index().upload_count()
    }

    /// The buckets of an owner and their content. The cost does not depend on the number of its
    /// buckets.
    pub fn owner_usage(&self, owner: &str) -> OwnerUsage {
        self.shared.index().owner_usage(owner)
    }

    /// The owners of buckets, by name, each with its content, of one moment.
    pub fn owner_usages(&self) -> Vec<(String, OwnerUsage)> {
        let index = self.shared.index();
        index.owner_usages().map(|(owner, usage)| (owner.to_owned(), usage)).collect()
    }
}
