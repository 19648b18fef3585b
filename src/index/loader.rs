//! Building an index from a checkpoint, whose keys are in order. Leaves are filled one after
//! another, and encoded records are copied without being decoded.

use thiserror::Error;

use crate::format::{DecodeError, RawEntry, RawVersionPut};
use crate::index::keys::{EncodedVersion, KeysBuilder};
use crate::index::liveness::LiveBytesBatch;
use crate::index::{ApplyError, Index};

/// The reason why an entry of a checkpoint is invalid.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum LoadError {
    /// The entry cannot be applied.
    #[error("{0}")]
    Apply(#[from] ApplyError),
    /// The entry cannot be decoded.
    #[error("{0}")]
    Decode(#[from] DecodeError),
}

/// Builds an index from the entries of a checkpoint. The result equals the one of [`Index::apply`],
/// whatever the order of the entries.
pub struct Loader {
    index: Index,
    /// The bucket whose keys are being added.
    filling: Option<(u64, KeysBuilder)>,
    /// The bytes of these keys that are not in the index's liveness yet.
    batch: LiveBytesBatch,
}

impl Default for Loader {
    fn default() -> Self {
        Self { index: Index::bulk_loading(), filling: None, batch: LiveBytesBatch::default() }
    }
}

impl Loader {
    /// Adds an entry.
    ///
    /// # Errors
    /// When it is malformed or invalid.
    pub fn add(&mut self, entry: &RawEntry<'_>) -> Result<(), LoadError> {
        if let Some(put) = entry.version_put()? {
            return self.add_version(&put);
        }
        // The keys that were gathered come first: the entry may be about their bucket.
        self.close();
        match entry.decode()? {
            Some(entry) => Ok(self.index.apply(&entry)?),
            None => Ok(()),
        }
    }

    /// The index of all added entries.
    pub fn finish(self) -> Index {
        let mut index = self.finish_before_log();
        index.finish_loading();
        index
    }

    /// The same, for a log that is still to be applied: [`Index::finish_loading`] has not been
    /// called.
    pub fn finish_before_log(mut self) -> Index {
        self.close();
        self.index
    }

    fn add_version(&mut self, put: &RawVersionPut<'_>) -> Result<(), LoadError> {
        let version = EncodedVersion::read(put.record)?;
        let summary = &version.summary;
        // The bucket has keys: its entries do not come in one run, and the rest is applied one by
        // one.
        if !self.open(put.bucket)? {
            return self.apply(put);
        }
        let len: u64 = version.extents().map(|extent| u64::from(extent.take)).sum();
        if len != summary.size {
            return Err(ApplyError::Incomplete(summary.id).into());
        }
        let (_, keys) = self.filling.as_mut().expect("the bucket is open");
        // Out of order. The bucket has keys from here on, so that the rest is applied one by one.
        if !keys.push(put.key, &version) {
            return self.apply(put);
        }
        for extent in version.extents() {
            match extent.shared {
                true => self.index.liveness.add(std::slice::from_ref(extent)),
                false => self.batch.add(extent),
            }
        }
        self.index.key_uses.add(&version.keys);
        self.index.versions += 1;
        self.index.raise_last_stamp(summary.id.0);
        self.index.features = self.index.features.with(version.features);
        Ok(())
    }

    /// Opens a bucket for filling; `false` when it is not empty.
    fn open(&mut self, bucket: u64) -> Result<bool, ApplyError> {
        if self.filling.as_ref().is_some_and(|(open, _)| *open == bucket) {
            return Ok(true);
        }
        self.close();
        let empty = self.index.change(bucket, |bucket| bucket.keys.is_empty())?;
        self.filling = empty.then(|| (bucket, KeysBuilder::default()));
        Ok(empty)
    }

    /// Applies an entry that is out of order.
    fn apply(&mut self, put: &RawVersionPut<'_>) -> Result<(), LoadError> {
        self.close();
        Ok(self.index.apply(&put.decode()?)?)
    }

    fn close(&mut self) {
        self.index.liveness.add_batch(std::mem::take(&mut self.batch));
        if let Some((bucket, keys)) = self.filling.take() {
            let filled = self.index.change(bucket, |bucket| bucket.keys = keys.finish());
            filled.expect("no bucket is deleted while it is filled");
        }
    }
}
