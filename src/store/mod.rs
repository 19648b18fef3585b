//! Floor 3: the engine. It keeps objects and knows nothing of HTTP: recovery, commit, put, get, delete, list,
//! checkpoint and health.
//!
//! One thread, the committer, makes all changes. Readers look at the index that it publishes, and see nothing that is
//! not durable.

mod checkpointer;
mod committer;
mod error;
mod health;
mod mutation;
mod options;
mod plan;
mod reader;
mod recovery;
mod shared;
mod stamps;
mod writer;

use std::ops::Range;
use std::sync::Arc;

pub use crate::format::{
    Attributes, BucketRecord as BucketInfo, Checksum, ChecksumAlgorithm, ChecksumType, ETag, VersionId,
    VersionRecord, VersionSummary, Versioning,
};
pub use crate::log::Damage;
pub use error::{OpenError, StoreError};
pub use health::Health;
pub use mutation::{Commit, Deleted, Deletion, Selector, VersionRef, WriteCondition, Written};
pub use options::Options;
pub use reader::ObjectReader;
pub use writer::ObjectWriter;

use crate::base::{Clock, Entropy};
use crate::fs::{Fs, Lock};
use crate::index::{Item, Query};
use committer::Committer;
use mutation::{BucketChange, Mutation};
use shared::Shared;

/// A version of an object, and the bucket that it is in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The bucket.
    pub bucket: BucketInfo,
    /// The version, which may be a delete marker.
    pub version: VersionRecord,
}

/// What to list.
#[derive(Debug, Clone, Default)]
pub struct ListQuery {
    /// Only keys that begin with it.
    pub prefix: String,
    /// Keys are grouped up to its first occurrence behind the prefix; empty: not at all.
    pub delimiter: String,
    /// Only keys and common prefixes greater than it; where it is itself a common prefix, nothing that begins with it.
    pub after: Option<String>,
    /// At most so many items.
    pub limit: usize,
}

/// One item of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PageItem {
    /// A key and its current version.
    Object {
        /// The key.
        key: String,
        /// The version.
        version: VersionSummary,
    },
    /// A common prefix.
    Prefix(String),
}

/// Items in the order of their bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Page {
    /// The items. The name of the last one is what the next page is `after`.
    pub items: Vec<PageItem>,
    /// Whether there are more.
    pub truncated: bool,
}

/// An open store. Dropping it stops its threads as a crash would, only in an orderly way; [`Store::close`] also writes a
/// checkpoint, so that the next start is quick.
pub struct Store {
    shared: Arc<Shared>,
    committer: Committer,
    _lock: Box<dyn Lock>,
}

impl Store {
    /// Opens the store in `fs`, or makes one where there is none. Damage does not keep a store from being opened where what
    /// came before the damage can be read: it then takes no writes, and [`Store::health`] says why.
    ///
    /// # Errors
    /// When another process has it open, when the disk fails, and when nothing can be read.
    pub fn open(
        fs: Arc<dyn Fs>,
        clock: Arc<dyn Clock>,
        entropy: &dyn Entropy,
        options: Options,
    ) -> Result<Self, OpenError> {
        let lock = recovery::lock(fs.as_ref())?;
        let recovered = recovery::open(fs, clock, entropy, options)?;
        let shared = recovered.shared;
        let committer = Committer::start(shared.clone(), recovered.journal)?;
        Ok(Self { shared, committer, _lock: lock })
    }

    /// Finishes what was submitted, writes a checkpoint and stops. What is called afterwards fails with
    /// [`StoreError::Closed`], reads excepted.
    pub fn close(&self) {
        self.committer.close();
    }

    /// Makes a bucket. Durable on return.
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

    /// Sets whether a bucket keeps versions. Durable on return.
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

    /// Finds a version of an object. It may be a delete marker: what that means is for the caller to say.
    ///
    /// # Errors
    /// [`StoreError::NoSuchBucket`]; [`StoreError::NoSuchKey`] when the key has no version at all;
    /// [`StoreError::NoSuchVersion`] when it has others.
    pub fn find(&self, bucket: &str, key: &str, which: Selector) -> Result<Found, StoreError> {
        let index = self.shared.index();
        let bucket = index.bucket(bucket).ok_or(StoreError::NoSuchBucket)?;
        match index.find(bucket.id, key.as_bytes(), |version| which.accepts(version)) {
            Some(version) => Ok(Found { bucket: bucket.clone(), version }),
            None if which == Selector::Current => Err(StoreError::NoSuchKey),
            None => Err(StoreError::NoSuchVersion),
        }
    }

    /// A reader of the bytes `range` of a version. What it hands out has been verified.
    ///
    /// # Errors
    /// When a segment cannot be opened.
    pub fn read(&self, version: &VersionRecord, range: Range<u64>) -> Result<ObjectReader, StoreError> {
        ObjectReader::open(self.shared.clone(), version, range)
    }

    /// Takes the bytes of an object that will be put under `key`. With `expected_len`, room is set aside in time.
    ///
    /// # Errors
    /// [`StoreError::NoSuchBucket`]; [`StoreError::ReadOnly`].
    pub fn writer(
        &self,
        bucket: &str,
        key: &str,
        expected_len: Option<u64>,
    ) -> Result<ObjectWriter<'_>, StoreError> {
        self.shared.check_writable()?;
        let bucket = self.bucket(bucket)?;
        Ok(ObjectWriter::new(&self.shared, &self.committer, bucket, key, expected_len))
    }

    /// Deletes objects or versions, all in one commit, each with a result of its own. Durable on return.
    ///
    /// # Errors
    /// [`StoreError::NoSuchBucket`], or what keeps the store from committing at all. Of one deletion:
    /// [`StoreError::PreconditionFailed`], [`StoreError::NoSuchKey`] for a condition on an absent key.
    pub fn delete(
        &self,
        bucket: &str,
        deletions: Vec<Deletion>,
    ) -> Result<Vec<Result<Deleted, StoreError>>, StoreError> {
        let bucket = bucket.to_owned();
        self.committer.submit(|reply| Mutation::Delete { bucket, deletions, reply })
    }

    /// A page of the current versions in a bucket.
    ///
    /// # Errors
    /// [`StoreError::NoSuchBucket`].
    pub fn list_objects(&self, bucket: &str, query: &ListQuery) -> Result<Page, StoreError> {
        let query = Query {
            prefix: query.prefix.clone().into_bytes(),
            delimiter: query.delimiter.clone().into_bytes(),
            after: query.after.clone().map(String::into_bytes),
            limit: query.limit,
        };
        let page = {
            let index = self.shared.index();
            let bucket = index.bucket(bucket).ok_or(StoreError::NoSuchBucket)?;
            index.list(bucket.id, &query)
        };
        let items = page.items.into_iter().map(|item| match item {
            Item::Object(key, version) => PageItem::Object { key: text(key), version },
            Item::Prefix(prefix) => PageItem::Prefix(text(prefix)),
        });
        Ok(Page { items: items.collect(), truncated: page.truncated })
    }

    /// Writes a checkpoint of what is visible, so that the next start is quick.
    ///
    /// # Errors
    /// [`StoreError::DiskFull`]: the store goes on without the checkpoint; [`StoreError::ReadOnly`]; after another error of the
    /// disk the store takes no more writes.
    pub fn checkpoint(&self) -> Result<(), StoreError> {
        checkpointer::write(&self.shared)
    }

    /// How the store is.
    pub fn health(&self) -> Health {
        self.shared.health()
    }
}

/// Keys are UTF-8 when they come in. A delimiter of several bytes always ends at a character's end, since both it and the
/// key are UTF-8.
fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

#[cfg(test)]
mod tests;
