//! The content of buckets and owners, counted as entries apply. Nothing is kept per key.

use std::sync::Arc;

use rpds::RedBlackTreeMapSync;

use crate::format::{StorageClass, VersionSummary};
use crate::index::memory::{map_entry_bytes, shared_bytes};

/// A generous bound on the memory of an owner, in bytes.
pub const OWNER_BYTES: u64 = map_entry_bytes::<Arc<str>, OwnerUsage>() + shared_bytes(64);

/// Versions or uploads, and the bytes of their payload. Bytes that versions share count for each of
/// them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ContentTotal {
    /// Their number.
    pub count: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// The content of a bucket, or of all buckets of an owner.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// The newest version of each key, unless it is a delete marker.
    pub current: ContentTotal,
    /// The other versions, without delete markers.
    pub noncurrent: ContentTotal,
    /// Of both, the part in the class COLD.
    pub cold: ContentTotal,
    /// The delete markers.
    pub delete_markers: u64,
    /// The uploads in progress, with the bytes of their parts.
    pub uploads: ContentTotal,
    /// The bytes of the index that the buckets and all of this, delete markers and configurations
    /// count for.
    pub index_bytes: u64,
}

/// An owner of buckets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OwnerUsage {
    /// Its buckets.
    pub buckets: u64,
    /// Their content.
    pub content: Usage,
}

impl ContentTotal {
    fn add(&mut self, other: Self) {
        self.count += other.count;
        self.bytes += other.bytes;
    }

    fn subtract(&mut self, other: Self) {
        self.count -= other.count;
        self.bytes -= other.bytes;
    }
}

impl Usage {
    /// The bytes of all versions and of the parts of uploads.
    pub fn bytes(&self) -> u64 {
        self.current.bytes + self.noncurrent.bytes + self.uploads.bytes
    }

    /// The versions, without delete markers.
    pub fn objects(&self) -> u64 {
        self.current.count + self.noncurrent.count
    }

    /// Adds the content of another bucket.
    pub fn add(&mut self, other: &Self) {
        self.current.add(other.current);
        self.noncurrent.add(other.noncurrent);
        self.cold.add(other.cold);
        self.delete_markers += other.delete_markers;
        self.uploads.add(other.uploads);
        self.index_bytes += other.index_bytes;
    }

    fn subtract(&mut self, other: &Self) {
        self.current.subtract(other.current);
        self.noncurrent.subtract(other.noncurrent);
        self.cold.subtract(other.cold);
        self.delete_markers -= other.delete_markers;
        self.uploads.subtract(other.uploads);
        self.index_bytes -= other.index_bytes;
    }

    /// Counts a version that was added.
    pub(super) fn add_version(&mut self, version: &VersionSummary, is_newest: bool) {
        match (version.delete_marker, is_newest) {
            (true, _) => self.delete_markers += 1,
            (false, true) => self.current.add(total_of(version)),
            (false, false) => self.noncurrent.add(total_of(version)),
        }
        self.cold.add(cold_of(version));
    }

    /// Counts a version that was removed. `is_newest` says whether it was the newest of its key.
    pub(super) fn remove_version(&mut self, version: &VersionSummary, is_newest: bool) {
        match (version.delete_marker, is_newest) {
            (true, _) => self.delete_markers -= 1,
            (false, true) => self.current.subtract(total_of(version)),
            (false, false) => self.noncurrent.subtract(total_of(version)),
        }
        self.cold.subtract(cold_of(version));
    }

    /// Counts a version that is no longer the newest of its key.
    pub(super) fn demote(&mut self, version: &VersionSummary) {
        self.remove_version(version, true);
        self.add_version(version, false);
    }

    /// Counts a version that has become the newest of its key.
    pub(super) fn promote(&mut self, version: &VersionSummary) {
        self.remove_version(version, false);
        self.add_version(version, true);
    }
}

fn cold_of(version: &VersionSummary) -> ContentTotal {
    match version.storage_class {
        StorageClass::Cold if !version.delete_marker => total_of(version),
        StorageClass::Standard | StorageClass::Cold => ContentTotal::default(),
    }
}

fn total_of(version: &VersionSummary) -> ContentTotal {
    ContentTotal { count: 1, bytes: version.size }
}

/// The content of each owner's buckets. A clone is a snapshot and costs O(1).
#[derive(Clone, Default)]
pub(super) struct OwnerUsages(RedBlackTreeMapSync<Arc<str>, OwnerUsage>);

impl OwnerUsages {
    /// The memory that they take up, in bytes.
    pub(super) fn memory_bytes(&self) -> u64 {
        self.0.size() as u64 * OWNER_BYTES
    }

    pub(super) fn get(&self, owner: &str) -> OwnerUsage {
        self.0.get(owner).copied().unwrap_or_default()
    }

    /// The owners of buckets, by name.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, OwnerUsage)> {
        self.0.iter().map(|(owner, usage)| (owner.as_ref(), *usage))
    }

    /// Counts a bucket that was added.
    pub(super) fn add_bucket(&mut self, owner: &str, content: &Usage) {
        let mut usage = self.get(owner);
        usage.buckets += 1;
        usage.content.add(content);
        self.0.insert_mut(owner.into(), usage);
    }

    /// Counts a bucket that was removed.
    pub(super) fn remove_bucket(&mut self, owner: &str, content: &Usage) {
        let mut usage = self.get(owner);
        usage.buckets -= 1;
        usage.content.subtract(content);
        match usage.buckets {
            0 => drop(self.0.remove_mut(owner)),
            _ => self.0.insert_mut(owner.into(), usage),
        }
    }

    /// Counts a change of a bucket's content.
    pub(super) fn change(&mut self, owner: &str, before: &Usage, after: &Usage) {
        if let Some(usage) = self.0.get_mut(owner).filter(|_| before != after) {
            usage.content.add(after);
            usage.content.subtract(before);
        }
    }
}
