//! Multipart uploads that nobody goes on with.

use crate::base::Timestamp;
use crate::base::limits::PAGE_LEN_MAX;
use crate::store::{ListQuery, Store, StoreError};

impl Store {
    /// Aborts every multipart upload that was initiated longer ago than [`abort_uploads_after`] and is still in progress, and
    /// says how many there were. For whoever keeps house, every now and then. Durable on return.
    ///
    /// # Errors
    /// What keeps the store from committing; those aborted before it stay so.
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
                // It went with its uploads.
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

/// Whether the upload was aborted now; its client, or a delete of the bucket, may have been faster.
fn ended(aborted: Result<(), StoreError>) -> Result<bool, StoreError> {
    match aborted {
        Ok(()) => Ok(true),
        Err(StoreError::NoSuchUpload | StoreError::NoSuchBucket) => Ok(false),
        Err(error) => Err(error),
    }
}
