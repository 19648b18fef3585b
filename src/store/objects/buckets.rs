//! Buckets: reading, creating, deleting, versioning state.

use crate::format::{BucketConfigurationKind, Versioning};
use crate::store::commit::mutation::{BucketChange, Mutation};
use crate::store::{BucketInfo, ConfiguredBucket, NewBucket, Store, StoreError};

impl Store {
    /// Creates a bucket without configurations. Durable on return.
    ///
    /// # Errors
    /// [`StoreError::BucketExists`].
    pub fn create_bucket(&self, name: &str, owner: &str) -> Result<BucketInfo, StoreError> {
        self.create_configured_bucket(NewBucket {
            name: name.into(),
            owner: owner.into(),
            versioning: Versioning::Unset,
            configurations: Vec::new(),
        })
    }

    /// Creates a bucket with its configurations in one step. Durable on return.
    ///
    /// # Errors
    /// [`StoreError::BucketExists`]; [`StoreError::TooManyBuckets`].
    pub fn create_configured_bucket(&self, bucket: NewBucket) -> Result<BucketInfo, StoreError> {
        let change = BucketChange::Create(bucket);
        self.committer.submit(|reply| Mutation::Bucket(change, reply))
    }

    /// Deletes an empty bucket. Durable on return. Its uploads are aborted before, in groups of
    /// bounded work: other commits wait for one group at most.
    ///
    /// # Errors
    /// [`StoreError::NoSuchBucket`], [`StoreError::BucketNotEmpty`].
    pub fn delete_bucket(&self, name: &str) -> Result<(), StoreError> {
        let bucket = self.bucket(name)?;
        if !self.shared.index().is_empty(bucket.id) {
            return Err(StoreError::BucketNotEmpty);
        }
        self.abort_all_uploads(&bucket)?;
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

    /// Sets a configuration of a bucket, or removes it where `document` is `None`. Durable on
    /// return.
    ///
    /// # Errors
    /// [`StoreError::NoSuchBucket`].
    pub fn set_bucket_configuration(
        &self,
        name: &str,
        kind: BucketConfigurationKind,
        document: Option<Vec<u8>>,
    ) -> Result<(), StoreError> {
        let change = BucketChange::Configure { name: name.into(), kind, document };
        self.committer.submit(|reply| Mutation::Bucket(change, reply)).map(|_| ())
    }

    /// A bucket with its configurations. Nothing is copied, so that every request may ask.
    ///
    /// # Errors
    /// [`StoreError::NoSuchBucket`].
    pub fn configured_bucket(&self, name: &str) -> Result<ConfiguredBucket, StoreError> {
        let (info, configurations) =
            self.shared.index().configured_bucket(name).ok_or(StoreError::NoSuchBucket)?;
        Ok(ConfiguredBucket { info, configurations })
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
