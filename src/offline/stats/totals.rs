//! Totals of versions, parts and uploads by size, age, key and bucket.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::base::Timestamp;
use crate::base::limits::{GIB, KIB, MIB};
use crate::format::{Entry, VersionRecord};
use crate::store::shared::text::text;

/// A number of items, with their bytes as clients count them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Count {
    /// The number.
    pub count: u64,
    /// Bytes.
    pub bytes: u64,
}

impl Count {
    fn add(&mut self, bytes: u64) {
        self.count += 1;
        self.bytes += bytes;
    }
}

/// Objects of a range of sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SizeClass {
    /// The largest size, in bytes; the last class has no bound.
    pub up_to: Option<u64>,
    /// The number of objects.
    pub of: Count,
}

/// Objects of a range of ages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AgeClass {
    /// The greatest age, in seconds; the last class has no bound.
    pub up_to_secs: Option<u64>,
    /// The number of objects.
    pub of: Count,
}

/// A bucket with the totals of its versions.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct BucketTotal {
    /// Bytes as clients count them.
    pub bytes: u64,
    /// Versions, delete markers included.
    pub versions: u64,
    /// Its name.
    pub name: String,
}

/// A current version and its size.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeySize {
    /// Bytes.
    pub bytes: u64,
    /// The bucket.
    pub bucket: String,
    /// The key.
    pub key: String,
}

/// The totals of a store.
#[derive(Debug, Clone)]
pub struct Totals {
    now: Timestamp,
    top: usize,
    /// Current versions, delete markers excluded.
    pub objects: Count,
    /// Noncurrent versions, delete markers excluded.
    pub noncurrent: Count,
    /// Delete markers.
    pub delete_markers: u64,
    /// Multipart uploads in progress.
    pub uploads: u64,
    /// Their parts.
    pub parts: Count,
    /// Current versions by size.
    pub sizes: Vec<SizeClass>,
    /// Current versions by age.
    pub ages: Vec<AgeClass>,
    /// The largest buckets, the largest first.
    pub largest_buckets: Vec<BucketTotal>,
    /// The largest current versions, the largest first.
    pub largest_keys: Vec<KeySize>,
    bucket: Option<BucketTotal>,
    key: Option<(Vec<u8>, VersionRecord)>,
    all_buckets: BinaryHeap<Reverse<BucketTotal>>,
    all_keys: BinaryHeap<Reverse<KeySize>>,
}

/// Upper bounds of the size classes.
const SIZES: [u64; 7] = [0, KIB, 64 * KIB, MIB, 16 * MIB, 256 * MIB, GIB];
const HOUR_SECS: u64 = 3600;
/// Upper bounds of the age classes: an hour, a day, a week, a month, a year.
const AGES_SECS: [u64; 5] =
    [HOUR_SECS, 24 * HOUR_SECS, 7 * 24 * HOUR_SECS, 30 * 24 * HOUR_SECS, 365 * 24 * HOUR_SECS];

/// The upper bounds of classes, of which the last has none.
fn bounds(bounds: &[u64]) -> impl Iterator<Item = Option<u64>> {
    bounds.iter().copied().map(Some).chain([None])
}

impl Totals {
    pub(super) fn new(now: Timestamp, top: usize) -> Self {
        let sizes = bounds(&SIZES).map(|up_to| SizeClass { up_to, of: Count::default() });
        let ages = bounds(&AGES_SECS).map(|up_to_secs| AgeClass { up_to_secs, of: Count::default() });
        Self {
            now,
            top,
            objects: Count::default(),
            noncurrent: Count::default(),
            delete_markers: 0,
            uploads: 0,
            parts: Count::default(),
            sizes: sizes.collect(),
            ages: ages.collect(),
            largest_buckets: Vec::new(),
            largest_keys: Vec::new(),
            bucket: None,
            key: None,
            all_buckets: BinaryHeap::new(),
            all_keys: BinaryHeap::new(),
        }
    }

    /// Adds the next entries of a walk, which has the versions of a key in sequence, the newest
    /// last.
    pub(super) fn add_all(&mut self, entries: &[Entry]) {
        for entry in entries {
            match entry {
                Entry::BucketPut(bucket) => {
                    self.end_bucket();
                    self.bucket = Some(BucketTotal { bytes: 0, versions: 0, name: bucket.name.clone() });
                }
                Entry::VersionPut { key, record, .. } => self.version(key, record),
                Entry::UploadPut { .. } => self.uploads += 1,
                Entry::PartPut { record, .. } => self.parts.add(record.size),
                _ => {}
            }
        }
    }

    pub(super) fn finish(mut self) -> Self {
        self.end_bucket();
        self.largest_buckets = into_descending(std::mem::take(&mut self.all_buckets));
        self.largest_keys = into_descending(std::mem::take(&mut self.all_keys));
        self
    }

    fn version(&mut self, key: &[u8], record: &VersionRecord) {
        if let Some(bucket) = &mut self.bucket {
            bucket.versions += 1;
            bucket.bytes += record.size;
        }
        match self.key.replace((key.to_vec(), record.clone())) {
            Some((before, older)) if before == key => self.noncurrent_version(&older),
            Some((before, current)) => self.current_version(before, &current),
            None => {}
        }
    }

    fn end_bucket(&mut self) {
        if let Some((key, current)) = self.key.take() {
            self.current_version(key, &current);
        }
        if let Some(bucket) = self.bucket.take() {
            push_bounded(&mut self.all_buckets, bucket, self.top);
        }
    }

    fn noncurrent_version(&mut self, record: &VersionRecord) {
        match record.delete_marker {
            true => self.delete_markers += 1,
            false => self.noncurrent.add(record.size),
        }
    }

    fn current_version(&mut self, key: Vec<u8>, record: &VersionRecord) {
        if record.delete_marker {
            self.delete_markers += 1;
            return;
        }
        self.objects.add(record.size);
        let mut sizes = self.sizes.iter_mut();
        if let Some(class) = sizes.find(|class| class.up_to.is_none_or(|up_to| record.size <= up_to)) {
            class.of.add(record.size);
        }
        let secs = self.now.as_millis().saturating_sub(record.modified.as_millis()) / 1000;
        let mut ages = self.ages.iter_mut();
        if let Some(class) = ages.find(|class| class.up_to_secs.is_none_or(|up_to| secs <= up_to)) {
            class.of.add(record.size);
        }
        let bucket = self.bucket.as_ref().map_or_else(String::new, |bucket| bucket.name.clone());
        push_bounded(&mut self.all_keys, KeySize { bytes: record.size, bucket, key: text(key) }, self.top);
    }
}

/// Adds an item, and keeps the `top` greatest.
fn push_bounded<T: Ord>(heap: &mut BinaryHeap<Reverse<T>>, item: T, top: usize) {
    heap.push(Reverse(item));
    if heap.len() > top {
        heap.pop();
    }
}

/// The items, the greatest first; [`Reverse`] makes the heap drop the smallest.
fn into_descending<T: Ord>(heap: BinaryHeap<Reverse<T>>) -> Vec<T> {
    heap.into_sorted_vec().into_iter().map(|Reverse(item)| item).collect()
}
