//! The separators between the children of a node.

use std::cmp::Ordering;
use std::sync::Arc;

use arrayvec::ArrayVec;

use super::CHILDREN_MAX;
use crate::index::keys::leaf::{EntryPos, shared_len};
use crate::index::memory::shared_bytes;

/// The maximum length of the common prefix.
const START_MAX: usize = 64;

/// Immutable positions in order. Copies of a node share the parts that a search rarely needs.
#[derive(Clone, Default)]
pub(super) struct Separators {
    /// The common prefix of all keys, up to its maximum.
    start: ArrayVec<u8, START_MAX>,
    /// The next sixteen bytes of each key.
    heads: ArrayVec<u128, CHILDREN_MAX>,
    /// All keys, without gaps.
    keys: Arc<[u8]>,
    /// The order of each, and the end of its key.
    entries: Arc<[(u64, u32)]>,
}

/// A position that owns its key.
#[derive(Clone)]
pub(super) struct Separator {
    key: Vec<u8>,
    order: u64,
}

impl Separator {
    /// The shortest position after `left` and not after `right`.
    pub(super) fn between(left: EntryPos<'_>, right: EntryPos<'_>) -> Self {
        if left.key == right.key {
            return Self { key: right.key.to_vec(), order: right.order };
        }
        // Shorter separators are shorter searches and less memory: any key between the two divides
        // them as well.
        let key = right.key[..=shared_len(left.key, right.key)].to_vec();
        Self { key, order: u64::MAX }
    }

    pub(super) fn at(&self) -> EntryPos<'_> {
        EntryPos { key: &self.key, order: self.order }
    }
}

impl From<EntryPos<'_>> for Separator {
    fn from(EntryPos { key, order }: EntryPos<'_>) -> Self {
        Self { key: key.to_vec(), order }
    }
}

impl<'k> FromIterator<EntryPos<'k>> for Separators {
    fn from_iter<I: IntoIterator<Item = EntryPos<'k>>>(entries: I) -> Self {
        let mut keys = Vec::new();
        let mut ends = Vec::with_capacity(CHILDREN_MAX);
        for EntryPos { key, order } in entries {
            keys.extend_from_slice(key);
            ends.push((order, u32::try_from(keys.len()).expect("a few keys have less than 4 GiB")));
        }
        Self { keys: keys.into(), entries: ends.into(), ..Self::default() }.with_heads()
    }
}

impl Separators {
    fn with_heads(mut self) -> Self {
        if let Some(last) = self.len().checked_sub(1) {
            let first = self.get(0).key;
            let last = self.get(last).key;
            self.start = first[..shared_len(first, last).min(START_MAX)].iter().copied().collect();
            // Keys of a bucket often begin alike, as paths do: their first bytes would divide
            // nothing.
            self.heads = self.iter().map(|entry| head(&entry.key[self.start.len()..])).collect();
        }
        self
    }

    /// The memory of the shared parts, in bytes.
    pub(super) fn memory_bytes(&self) -> u64 {
        shared_bytes(self.keys.len()) + shared_bytes(size_of_val(&self.entries[..]))
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn get(&self, nth: usize) -> EntryPos<'_> {
        let start = nth.checked_sub(1).map_or(0, |before| self.entries[before].1 as usize);
        let (order, end) = self.entries[nth];
        EntryPos { key: &self.keys[start..end as usize], order }
    }

    /// The separator before a child; `None` for the first.
    pub(super) fn before(&self, child: usize) -> Option<EntryPos<'_>> {
        child.checked_sub(1).map(|nth| self.get(nth))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = EntryPos<'_>> {
        (0..self.len()).map(|nth| self.get(nth))
    }

    pub(super) fn without(&self, nth: usize) -> Self {
        self.iter().take(nth).chain(self.iter().skip(nth + 1)).collect()
    }

    /// The number of separators at or before `at`: the index of the child for `at`.
    pub(super) fn count_up_to(&self, at: EntryPos<'_>) -> usize {
        let (start, rest) = at.key.split_at(self.start.len().min(at.key.len()));
        match start.cmp(&self.start[..]) {
            Ordering::Less => return 0,
            Ordering::Greater => return self.len(),
            Ordering::Equal => {}
        }
        let wanted = head(rest);
        // A linear scan loads all of them at once; a binary search would wait for each load.
        let count = |is: fn(&u128, &u128) -> bool| self.heads.iter().filter(|head| is(head, &wanted)).count();
        let before = count(u128::lt);
        let up_to = count(u128::le);
        // Only keys with the same sixteen bytes are read themselves.
        before + count_while(up_to - before, |nth| self.get(before + nth) <= at)
    }
}

/// The first sixteen bytes, padded with zeros. Keys sort by them, or have the same.
fn head(key: &[u8]) -> u128 {
    if let Some(whole) = key.first_chunk() {
        return u128::from_be_bytes(*whole);
    }
    let mut padded = [0; 16];
    padded[..key.len()].copy_from_slice(key);
    u128::from_be_bytes(padded)
}

/// The number of leading indices below `len` for which `is` holds; it must not hold for any later
/// one.
fn count_while(len: usize, is: impl Fn(usize) -> bool) -> usize {
    let mut low = 0;
    let mut high = len;
    while low < high {
        let middle = low + (high - low) / 2;
        if is(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}
