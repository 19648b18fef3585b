//! One bucket as its metadata on the disk states it, for tools beside a running server.

use std::sync::Arc;

use crate::format::{BucketConfigurationKind, BucketRecord};
use crate::fs::{Fs, ReadOnlyFs};
use crate::index::{
    BucketConfiguration, Index, ListPage, ListQuery, PlaceCursor, PlacedVersion, UploadSummary,
};
use crate::log::Damage;
use crate::offline::stats::{StatsError, load};
use crate::store::UploadId;

/// A bucket at one moment.
pub struct StoredBucket {
    index: Index,
    record: BucketRecord,
    /// Damage of the metadata, because of which something may be missing.
    pub damage: Vec<Damage>,
}

/// Reads the metadata of the store in `fs`; `None` if it has no bucket of that name. If a server
/// uses the store, the result is its state at some moment. Nothing is written or locked.
///
/// # Errors
/// If there is no store, or its metadata cannot be read.
pub fn stored_bucket(fs: &dyn Fs, name: &str) -> Result<Option<StoredBucket>, StatsError> {
    let (index, damage) = load(&ReadOnlyFs::new(fs))?;
    let Some(record) = index.bucket(name).cloned() else { return Ok(None) };
    Ok(Some(StoredBucket { index, record, damage }))
}

impl StoredBucket {
    /// A configuration of the bucket.
    pub fn configuration(&self, kind: BucketConfigurationKind) -> Option<&Arc<BucketConfiguration>> {
        self.index.configuration(self.record.id, kind)
    }

    /// Reads up to `limit` further versions with their places, and advances the cursor; `false` at
    /// the end.
    pub fn visit_places(
        &self,
        cursor: &mut PlaceCursor,
        limit: usize,
        visit: &mut dyn FnMut(&PlacedVersion<'_>),
    ) -> bool {
        self.index.visit_places(self.record.id, cursor, limit, visit)
    }

    /// A page of the multipart uploads in progress.
    pub fn list_uploads(&self, query: &ListQuery, after: Option<UploadId>) -> ListPage<UploadSummary> {
        self.index.list_uploads(self.record.id, query, after)
    }

    /// The bytes of the parts of an upload.
    pub fn upload_bytes(&self, key: &[u8], upload: UploadId) -> u64 {
        self.index.upload_bytes(self.record.id, key, upload)
    }
}
