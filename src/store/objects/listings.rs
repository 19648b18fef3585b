//! Pages of objects, versions and uploads. Each page is read from one snapshot of the index.

use std::sync::Arc;

use crate::base::limits::PAGE_LEN_MAX;
use crate::format::{UploadId, VersionSummary};
use crate::index::Index;
use crate::store::{ListPage, ListQuery, ListedVersion, Store, StoreError, UploadSummary, VersionRef};

/// The pages of all uploads of a bucket, one after another. Each may show a later moment.
#[derive(Debug, Default)]
pub struct UploadPages {
    /// The last upload of the page before.
    after: Option<(Vec<u8>, UploadId)>,
    is_done: bool,
}

impl UploadPages {
    /// The next page, as `list` returns it for a query and an upload; `None` after the last one.
    ///
    /// # Errors
    /// Errors of `list`.
    pub fn next<E>(
        &mut self,
        list: impl FnOnce(&ListQuery, Option<UploadId>) -> Result<ListPage<UploadSummary>, E>,
    ) -> Result<Option<ListPage<UploadSummary>>, E> {
        if self.is_done {
            return Ok(None);
        }
        let (key, id) = self.after.take().unzip();
        let page = list(&ListQuery { limit: PAGE_LEN_MAX, after: key, ..ListQuery::default() }, id)?;
        self.after = page.keys().last().map(|(key, upload)| (key.into_owned().into_bytes(), upload.id));
        self.is_done = !page.truncated;
        Ok(Some(page))
    }
}

impl Store {
    /// A page of the current versions in a bucket. Keys that are hidden by delete markers cost
    /// nothing, whatever their number.
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

    /// A page of all versions and delete markers in a bucket: keys ascending, the versions of a key
    /// newest first. With `after_version`, the page begins with the versions of the key
    /// `query.after` that are older than that one.
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

    /// A page of the multipart uploads in a bucket: keys ascending, then by initiation. With
    /// `after_id`, the page begins with the uploads of the key `query.after` that have a greater
    /// id.
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
    pub(in crate::store) fn snapshot_of(&self, bucket: &str) -> Result<(Arc<Index>, u64), StoreError> {
        let index = self.shared.index();
        let bucket = index.bucket(bucket).ok_or(StoreError::NoSuchBucket)?.id;
        Ok((index, bucket))
    }
}
