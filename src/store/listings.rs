//! Pages of objects, versions and uploads. Each page is read from one snapshot of the index.

use std::sync::Arc;

use crate::format::{UploadId, VersionSummary};
use crate::index::Index;
use crate::store::{ListPage, ListQuery, ListedVersion, Store, StoreError, UploadSummary, VersionRef};

impl Store {
    /// A page of the current versions in a bucket. Keys that are hidden by delete markers cost nothing, whatever their number.
    ///
    /// # Errors
    /// [`StoreError::NoSuchBucket`].
    pub fn list_objects(
        &self,
        bucket: &str,
        query: &ListQuery,
    ) -> Result<ListPage<VersionSummary>, StoreError> {
        let (index, bucket) = self.snapshot_of(bucket)?;
        Ok(index.list(bucket, query))
    }

    /// A page of all versions and delete markers in a bucket: keys ascending, the versions of a key newest first. With
    /// `after_version`, the page begins with the versions of the key `query.after` that are older than that one.
    ///
    /// # Errors
    /// [`StoreError::NoSuchBucket`].
    pub fn list_versions(
        &self,
        bucket: &str,
        query: &ListQuery,
        after_version: Option<VersionRef>,
    ) -> Result<ListPage<ListedVersion>, StoreError> {
        let (index, bucket) = self.snapshot_of(bucket)?;
        Ok(index.list_versions(bucket, query, after_version))
    }

    /// A page of the multipart uploads in a bucket: keys ascending, then by initiation. With `after_id`, the page begins with
    /// the uploads of the key `query.after` that have a greater id.
    ///
    /// # Errors
    /// [`StoreError::NoSuchBucket`].
    pub fn list_uploads(
        &self,
        bucket: &str,
        query: &ListQuery,
        after_id: Option<UploadId>,
    ) -> Result<ListPage<UploadSummary>, StoreError> {
        let (index, bucket) = self.snapshot_of(bucket)?;
        Ok(index.list_uploads(bucket, query, after_id))
    }

    /// The published index, and the id that the bucket has in it.
    pub(super) fn snapshot_of(&self, bucket: &str) -> Result<(Arc<Index>, u64), StoreError> {
        let index = self.shared.index();
        let bucket = index.bucket(bucket).ok_or(StoreError::NoSuchBucket)?.id;
        Ok((index, bucket))
    }
}
