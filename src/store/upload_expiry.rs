//! Expiry of multipart uploads.

use crate::base::Timestamp;
use crate::base::limits::PAGE_LEN_MAX;
use crate::store::{ListQuery, Store, StoreError};

impl Store {
    /// Aborts all multipart uploads in progress that are older than [`abort_uploads_after`], and returns their number. The
    /// maintenance thread calls it at intervals. Durable on return.
    ///
    /// # Errors
    /// Errors of the commit. Uploads aborted before the error stay aborted.
    ///
    /// [`abort_uploads_after`]: crate::store::StoreOptions::abort_uploads_after
    pub fn abort_expired_uploads(&self) -> Result<u64, StoreError> {
        let Some(age) = self.shared.options.abort_uploads_after else { return Ok(0) };
        let limit = self.shared.clock.now().as_millis().saturating_sub(age.as_millis() as u64);
        let limit = Timestamp::from_millis(limit);
        let mut aborted = 0;
        for bucket in self.buckets() {
            aborted += self.abort_initiated_before(&bucket.name, limit)?;
        }
        Ok(aborted)
    }

    fn abort_initiated_before(&self, bucket: &str, limit: Timestamp) -> Result<u64, StoreError> {
        let (mut aborted, mut query, mut after) =
            (0, ListQuery { limit: PAGE_LEN_MAX, ..ListQuery::default() }, None);
        loop {
            let page = match self.list_uploads(bucket, &query, after) {
                // The bucket was deleted with its uploads.
                Err(StoreError::NoSuchBucket) => return Ok(aborted),
                page => page?,
            };
            for (key, upload) in page.keys() {
                if upload.initiated < limit && ended(self.abort_upload(bucket, &key, upload.id))? {
                    aborted += 1;
                }
                (query.after, after) = (Some(key.as_bytes().to_vec()), Some(upload.id));
            }
            if !page.truncated {
                return Ok(aborted);
            }
        }
    }
}

/// Whether this call aborted the upload; its client, or the deletion of the bucket, may have come first.
fn ended(aborted: Result<(), StoreError>) -> Result<bool, StoreError> {
    match aborted {
        Ok(()) => Ok(true),
        Err(StoreError::NoSuchUpload | StoreError::NoSuchBucket) => Ok(false),
        Err(error) => Err(error),
    }
}
