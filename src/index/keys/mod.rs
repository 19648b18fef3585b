//! The keys of a bucket and their versions, newest first: a tree with one entry for each version.
//!
//! Versions of a key are sorted by their *version order*, a number, descending. A new version gets
//! its id as its order; if the newest version has that order or a higher one, it gets the next
//! above, and is *displaced*. A map knows the orders of displaced versions, so every version is
//! found by its id without a walk over the others.
//!
//! A version that comes above the null version of its key shows the null version's order. It is
//! still right when the version is the newest: the next null version would be above it. So the null
//! version is found by the newest one, and a key without an older null version pays no byte for it.

mod background_builder;
mod dictionary;
mod displaced;
mod leaf;
mod record;
mod tree;
#[cfg(test)]
mod visits;

use std::cmp::Ordering;
use std::sync::Arc;

use crate::format::{VersionId, VersionRecord, VersionSummary};
use crate::index::Usage;
use crate::index::counted_bytes::version_index_bytes;
use background_builder::BackgroundBuilder;
use dictionary::AttributeDictionary;
use displaced::DisplacedVersions;
use leaf::EntryPos;
pub(super) use record::EncodedVersion;
use record::{RecordHeader, RecordPlace};
use tree::{LeafChange, Tree, TreeScan};
#[cfg(test)]
pub(crate) use visits::versions_visited;

/// After this number of older versions, a scan seeks the next key.
const VERSIONS_PASSED_MAX: usize = 64;

/// Versions by key. A clone is a snapshot and costs O(1).
#[derive(Clone, Default)]
pub(super) struct Keys {
    tree: Tree,
    dictionary: Arc<AttributeDictionary>,
    /// The orders of the versions that do not have their id as their order.
    displaced: DisplacedVersions,
    /// The content of the tree.
    usage: Usage,
}

/// No version order is left above the newest one of the key.
pub(super) struct VersionOrderExhausted;

impl Keys {
    /// The number of versions.
    pub(super) fn len(&self) -> u64 {
        self.tree.len()
    }

    /// The memory that they take up, in bytes.
    pub(super) fn memory_bytes(&self) -> u64 {
        self.tree.memory_bytes() + self.dictionary.memory_bytes() + self.displaced.memory_bytes()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The versions by kind.
    pub(super) fn usage(&self) -> &Usage {
        &self.usage
    }

    /// Adds the newest version of a key. Returns the versions that it replaces: the one with its id
    /// and, for a null version, the previous null version.
    pub(super) fn put(
        &mut self,
        key: &[u8],
        record: &VersionRecord,
    ) -> Result<Vec<VersionRecord>, VersionOrderExhausted> {
        let newest = self.versions(key).next().map(|newest| (newest.order, newest.summary()));
        // The newest version has the highest order, so that "newest first" needs no look at times.
        // An id that is not above it comes from a log of an earlier version, or from one that is
        // applied again over its own result.
        let order = match newest {
            Some((newest, _)) => record.id.0.max(newest.checked_add(1).ok_or(VersionOrderExhausted)?),
            None => record.id.0,
        };
        // The replaced versions are read before the tree changes: they are counted out as what they
        // were.
        let same = self.version_of(key, record.id).map(|version| (version.order, version.record()));
        let same_order = same.as_ref().map(|(order, _)| *order);
        // Without the one that is replaced by its id: it would be removed twice.
        let null = self.null_version(key).filter(|null| Some(null.order) != same_order);
        let null_below = null.map(|null| null.order);
        let replaced_null = null.filter(|_| record.null).map(|null| (null.order, null.record()));
        let out: Vec<_> = same.into_iter().chain(replaced_null).collect();
        self.count_put(key, record, newest, &out);
        for (order, old) in &out {
            self.displaced.remove(key, old.id, *order);
        }
        self.displaced.add(key, record.id, order);
        // The usual overwrite replaces a version whose entry is beside the new one: one rewrite of
        // one leaf does both.
        let remove = out.first().map(|(order, _)| *order);
        let gone = self.write(key, RecordPlace { order, null_below }, record, remove);
        for (order, _) in out.iter().skip(usize::from(gone)) {
            self.delete_entry(key, *order);
        }
        Ok(out.into_iter().map(|(_, record)| record).collect())
    }

    /// Counts a version that becomes the newest of its key and replaces others.
    fn count_put(
        &mut self,
        key: &[u8],
        record: &VersionRecord,
        newest: Option<(u64, VersionSummary)>,
        replaced: &[(u64, VersionRecord)],
    ) {
        if let Some((_, newest)) = &newest {
            self.usage.demote(newest);
        }
        for (_, old) in replaced {
            self.usage.remove_version(&old.summary(), false);
            self.usage.index_bytes -= version_index_bytes(key, old);
        }
        self.usage.add_version(&record.summary(), true);
        self.usage.index_bytes += version_index_bytes(key, record);
    }

    /// Removes and returns a version, if it exists.
    pub(super) fn remove(&mut self, key: &[u8], id: VersionId) -> Option<VersionRecord> {
        let mut versions = self.versions(key);
        let newest = versions.next()?;
        let is_newest = newest.head().id == id;
        let found = if is_newest { newest } else { self.version_of(key, id)? };
        // The version that becomes the newest is counted as current from now on. It is read before
        // the entry goes, as long as the scan is at it.
        let next = if is_newest { versions.next().map(|next| next.summary()) } else { None };
        let order = found.order;
        let record = found.record();
        self.usage.remove_version(&record.summary(), is_newest);
        self.usage.index_bytes -= version_index_bytes(key, &record);
        if let Some(next) = next {
            self.usage.promote(&next);
        }
        self.displaced.remove(key, id, order);
        self.delete_entry(key, order);
        Some(record)
    }

    /// Replaces and returns the version with the same id, if it exists.
    pub(super) fn amend(&mut self, key: &[u8], record: &VersionRecord) -> Option<VersionRecord> {
        let found = self.version_of(key, record.id)?;
        let place = found.place();
        let old = found.record();
        if (old.size, old.delete_marker, old.storage_class)
            != (record.size, record.delete_marker, record.storage_class)
        {
            // Relocations and locks change none of these, and are spared the search.
            let is_newest = self.newest_order(key) == Some(place.order);
            self.usage.remove_version(&old.summary(), is_newest);
            self.usage.add_version(&record.summary(), is_newest);
        }
        self.usage.index_bytes += version_index_bytes(key, record);
        self.usage.index_bytes -= version_index_bytes(key, &old);
        self.write(key, place, record, None);
        Some(old)
    }

    /// Writes an entry and removes the one with the order `remove`, if both are in the same leaf.
    /// Returns whether it was removed.
    fn write(&mut self, key: &[u8], place: RecordPlace, record: &VersionRecord, remove: Option<u64>) -> bool {
        let mut on_disk = Vec::with_capacity(128);
        let mut value = Vec::with_capacity(64);
        record.encode(&mut on_disk);
        EncodedVersion::of(record, &on_disk).encode(place, &mut self.dictionary, &mut value);
        self.tree.change(&LeafChange { key, remove, insert: Some((place.order, &value)) })
    }

    fn delete_entry(&mut self, key: &[u8], order: u64) {
        self.tree.change(&LeafChange { key, remove: Some(order), insert: None });
    }

    /// The version of a key with this id, null or not, in O(log n).
    pub(super) fn version_of<'k>(&'k self, key: &'k [u8], id: VersionId) -> Option<Version<'k>> {
        let order = self.displaced.order_of(key, id).unwrap_or(id.0);
        self.version_at(key, order).filter(|version| version.head().id == id)
    }

    /// The null version of a key, in O(log n).
    pub(super) fn null_version<'k>(&'k self, key: &'k [u8]) -> Option<Version<'k>> {
        let newest = self.versions(key).next()?;
        if newest.head().null() {
            return Some(newest);
        }
        // It was below when the newest version came, and may be gone since.
        self.version_at(key, newest.head().null_below?).filter(|version| version.head().null())
    }

    /// The newest version of a key with an order of at most `order`.
    pub(super) fn newest_up_to<'k>(&'k self, key: &'k [u8], order: u64) -> Option<Version<'k>> {
        self.versions_from(EntryPos { key, order }).next()
    }

    fn version_at<'k>(&'k self, key: &'k [u8], order: u64) -> Option<Version<'k>> {
        self.newest_up_to(key, order).filter(|version| version.order == order)
    }

    /// The order of the newest version of a key.
    pub(super) fn newest_order(&self, key: &[u8]) -> Option<u64> {
        self.versions(key).next().map(|version| version.order)
    }

    /// The order of the version with this id, unless it is a null version.
    pub(super) fn order_of(&self, key: &[u8], id: VersionId) -> Option<u64> {
        self.version_of(key, id).filter(|version| !version.head().null()).map(|version| version.order)
    }

    /// The order of the null version of a key.
    pub(super) fn order_of_null(&self, key: &[u8]) -> Option<u64> {
        self.null_version(key).map(|version| version.order)
    }

    /// The versions of a key, newest first.
    pub(super) fn versions<'k>(&'k self, key: &'k [u8]) -> Versions<'k> {
        self.versions_from(EntryPos::first_of(key))
    }

    /// The oldest versions of a key with a higher order than `order`, or of all, oldest first:
    /// those in one leaf. Empty at the end.
    pub(super) fn oldest_above<'k>(&'k self, key: &[u8], order: Option<u64>) -> Vec<Version<'k>> {
        // No key is between a key and the same with a zero byte.
        let behind_key = [key, &[0]].concat();
        let at = order.map_or(EntryPos::first_of(&behind_key), |order| EntryPos { key, order });
        let mut found = Vec::new();
        let Some(leaf) = self.tree.leaf_before(at) else {
            return found;
        };
        let mut scan = leaf.scan(0..leaf.blocks());
        while scan.next() && scan.at() < at {
            if scan.at().key == key {
                found.push(Version {
                    order: scan.at().order,
                    value: scan.value(),
                    dictionary: &self.dictionary,
                });
            }
        }
        found.reverse();
        found
    }

    fn versions_from<'k>(&'k self, at: EntryPos<'k>) -> Versions<'k> {
        let mut scan = self.scan();
        scan.seek_version(at.key, at.order);
        Versions { scan, key: at.key }
    }

    /// A scan without a position.
    pub(super) fn scan(&self) -> KeyScan<'_> {
        KeyScan { scan: self.tree.scan(), dictionary: &self.dictionary }
    }
}

/// A version in its leaf.
#[derive(Clone, Copy)]
pub(super) struct Version<'k> {
    order: u64,
    value: &'k [u8],
    dictionary: &'k AttributeDictionary,
}

impl Version<'_> {
    pub(super) fn order(&self) -> u64 {
        self.order
    }

    /// Bytes of the encoded version.
    pub(super) fn byte_len(&self) -> usize {
        self.value.len()
    }

    fn head(&self) -> RecordHeader {
        RecordHeader::of(self.value, self.order)
    }

    fn place(&self) -> RecordPlace {
        RecordPlace { order: self.order, null_below: self.head().null_below }
    }

    #[inline]
    pub(super) fn summary(&self) -> VersionSummary {
        record::summary(self.value, self.order)
    }

    pub(super) fn record(&self) -> VersionRecord {
        record::decode(self.value, self.order, self.dictionary)
    }

    /// The record without its extents and parts.
    pub(super) fn outline(&self) -> VersionRecord {
        record::decode_outline(self.value, self.order, self.dictionary)
    }

    /// Appends the record in its disk encoding. `scratch` is a buffer.
    pub(super) fn encode_for_disk(&self, scratch: &mut Vec<u8>, out: &mut Vec<u8>) {
        record::encode_for_disk(self.value, self.order, self.dictionary, scratch, out);
    }
}

/// Iterates over the versions of one key.
pub(super) struct Versions<'k> {
    scan: KeyScan<'k>,
    key: &'k [u8],
}

impl<'k> Iterator for Versions<'k> {
    type Item = Version<'k>;

    fn next(&mut self) -> Option<Version<'k>> {
        let there = self.scan.next() && self.scan.key() == self.key;
        there.then(|| self.scan.version())
    }
}

/// Iterates over all versions of all keys.
pub(super) struct KeyScan<'k> {
    scan: TreeScan<'k>,
    dictionary: &'k AttributeDictionary,
}

impl<'k> KeyScan<'k> {
    /// Seeks the newest version of the first key at or after `key`.
    pub(super) fn seek_key(&mut self, key: &[u8]) {
        self.scan.seek(EntryPos::first_of(key));
    }

    /// Seeks the first version after the versions of `key`.
    pub(super) fn seek_past(&mut self, key: &[u8]) {
        let mut next = key.to_vec();
        next.push(0);
        self.seek_key(&next);
    }

    /// Seeks the newest version of `key` with an order of at most `order`.
    pub(super) fn seek_version(&mut self, key: &[u8], order: u64) {
        self.scan.seek(EntryPos { key, order });
    }

    /// Advances to the next version; `false` at the end.
    pub(super) fn next(&mut self) -> bool {
        #[cfg(test)]
        visits::count();
        self.scan.next()
    }

    /// Advances to the newest version of the next visible key, one that no delete marker hides;
    /// `false` at the end.
    pub(super) fn next_visible(&mut self) -> bool {
        let mut passed = 0;
        while self.scan.next_in_visible_leaves() {
            #[cfg(test)]
            visits::count();
            match (self.is_same_key(), record::is_hidden(self.scan.value())) {
                (false, false) => return true,
                (false, true) => passed = 0,
                (true, _) => passed += 1,
            }
            // A key with many versions would be read to its end, where a seek is O(log n). The key
            // after one with few is probably in the same leaf, where a step costs less than a seek.
            if passed == VERSIONS_PASSED_MAX {
                let key = self.key().to_vec();
                self.seek_past(&key);
            }
        }
        false
    }

    /// Whether the previous version was one of the same key.
    pub(super) fn is_same_key(&self) -> bool {
        self.scan.is_same_key()
    }

    pub(super) fn order(&self) -> u64 {
        self.scan.at().order
    }

    pub(super) fn key(&self) -> &[u8] {
        self.scan.key()
    }

    pub(super) fn version(&self) -> Version<'k> {
        Version { order: self.order(), value: self.scan.value(), dictionary: self.dictionary }
    }
}

/// Builds keys from versions in the order of a checkpoint: keys ascending, the oldest version of a
/// key first.
#[derive(Default)]
pub(super) struct KeysBuilder {
    tree: BackgroundBuilder,
    dictionary: Arc<AttributeDictionary>,
    displaced: DisplacedVersions,
    /// The current key.
    key: Vec<u8>,
    /// The encoded versions of the key.
    values: Vec<u8>,
    /// The order of each version, and the end of its encoding.
    versions: Vec<(u64, usize)>,
    /// The order of the null version among them.
    null: Option<u64>,
    /// The newest of them.
    newest: Option<VersionSummary>,
    /// The content of all keys so far.
    usage: Usage,
}

impl KeysBuilder {
    /// Adds a version. Returns `false`, without adding it, if it is out of order or would replace
    /// another; [`Keys::put`] handles it then.
    pub(super) fn push(&mut self, key: &[u8], version: &EncodedVersion<'_>) -> bool {
        match key.cmp(&self.key) {
            Ordering::Less => return false,
            Ordering::Equal => {}
            Ordering::Greater => {
                self.flush();
                self.key.clear();
                self.key.extend_from_slice(key);
            }
        }
        let Some(order) = self.next_order(&version.summary) else {
            return false;
        };
        let place = RecordPlace { order, null_below: self.null };
        version.encode(place, &mut self.dictionary, &mut self.values);
        self.versions.push((order, self.values.len()));
        self.displaced.add(key, version.summary.id, order);
        self.null = self.null.or(version.summary.null.then_some(order));
        if let Some(older) = self.newest.replace(version.summary) {
            self.usage.demote(&older);
        }
        self.usage.add_version(&version.summary, true);
        self.usage.index_bytes += version.index_bytes(key);
        true
    }

    /// The order of the next version of the key; `None` if it would replace another.
    fn next_order(&self, version: &VersionSummary) -> Option<u64> {
        let id = version.id.0;
        let Some((newest, _)) = self.versions.last() else {
            return Some(id);
        };
        // An id above the newest order is new without a search.
        if version.null && self.null.is_some() || *newest >= id && self.has_version(version.id) {
            return None;
        }
        Some(id.max(newest.checked_add(1)?))
    }

    /// Whether the key has a version with this id.
    fn has_version(&self, id: VersionId) -> bool {
        let order = self.displaced.order_of(&self.key, id).unwrap_or(id.0);
        let there = self.versions.binary_search_by_key(&order, |(order, _)| *order);
        there.is_ok_and(|nth| RecordHeader::of(self.value(nth), order).id == id)
    }

    fn value(&self, nth: usize) -> &[u8] {
        let start = nth.checked_sub(1).map_or(0, |before| self.versions[before].1);
        &self.values[start..self.versions[nth].1]
    }

    fn flush(&mut self) {
        // A checkpoint has the oldest version first, as a log would, and a leaf the newest.
        for nth in (0..self.versions.len()).rev() {
            let start = nth.checked_sub(1).map_or(0, |before| self.versions[before].1);
            let (order, end) = self.versions[nth];
            self.tree.push(EntryPos { key: &self.key, order }, &self.values[start..end]);
        }
        self.null = None;
        self.newest = None;
        self.versions.clear();
        self.values.clear();
    }

    pub(super) fn finish(mut self) -> Keys {
        self.flush();
        Keys {
            tree: self.tree.finish(),
            dictionary: self.dictionary,
            displaced: self.displaced,
            usage: self.usage,
        }
    }
}
