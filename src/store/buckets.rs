//! Buckets: reading, creating, deleting, versioning state.

use crate::format::Versioning;
use crate::store::mutation::{BucketChange, Mutation};
use crate::store::{BucketInfo, Store, StoreError};

impl Store {
    /// Creates a bucket. Durable on return.
    ///
    /// # Errors
    /// [`StoreError::BucketExists`].
    pub fn create_bucket(&self, name: &str, owner: &str) -> Result<BucketInfo, StoreError> {
        let change = BucketChange::Create { name: name.into(), owner: owner.into() };
        self.committer.submit(|reply| Mutation::Bucket(change, reply))
    }

    /// Deletes an empty bucket. Durable on return.
    ///
    /// # Errors
    /// [`StoreError::NoSuchBucket`], [`StoreError::BucketNotEmpty`].
    pub fn delete_bucket(&self, name: &str) -> Result<(), StoreError> {
        let change = BucketChange::Delete { name: name.into() };
        self.committer.submit(|reply| Mutation::Bucket(change, reply)).map(|_| ())
    }

    /// Sets the versioning state of a bucket. Durable on return.
    ///
    /// # Errors
    /// [`StoreError::NoSuchBucket`].
    pub fn set_versioning(&self, name: &str, versioning: Versioning) -> Result<(), StoreError> {
        let change = BucketChange::SetVersioning { name: name.into(), versioning };
        self.committer.submit(|reply| Mutation::Bucket(change, reply)).map(|_| ())
    }

    /// A bucket.
    ///
    /// # Errors
    /// [`StoreError::NoSuchBucket`].
    pub fn bucket(&self, name: &str) -> Result<BucketInfo, StoreError> {
        self.shared.index().bucket(name).cloned().ok_or(StoreError::NoSuchBucket)
    }

    /// All buckets, by name.
    pub fn buckets(&self) -> Vec<BucketInfo> {
        self.shared.index().buckets().cloned().collect()
    }

    /// The number of buckets.
    pub fn bucket_count(&self) -> u64 {
        self.shared.index().bucket_count()
    }
}
