//! Leaves: some tens of neighbours in one immutable piece of memory, each written as what sets its key apart from the one
//! before it.
//!
//! A leaf is runs of entries, each of which can be read without the others: its first entry has all of its key. A change
//! writes one run anew and takes the others over as they are.
//!
//! An entry is three varints (bytes shared with the key before, bytes of the rest of the key, bytes of the value), the rank
//! (u64), the rest of the key, and the value. Behind the entries stand, of each run, its offset (u32) and the number of its
//! entries (a byte), and then the number of runs and the number of entries (u16 each).

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

use crate::format::{Decoder, Encode};
use crate::index::trusted;

/// A leaf is split when it has more entries.
pub(super) const ENTRIES_MAX: usize = 64;
/// A leaf of more than one run is split when it has more bytes: what a change costs must not depend on large neighbours.
pub(super) const BYTES_MAX: usize = 16 * 1024;
/// Entries of a run where entries come in order.
pub(super) const RUN: usize = 16;
/// A run that grows is split when it has more entries.
const RUN_MAX: usize = 24;
/// A run of so many bytes is long enough; a value that long begins one, so that its neighbours can change without it.
const RUN_LARGE_BYTES: usize = 4 * 1024;
/// What stands of each run, and of the leaf, behind the entries.
const RUN_BYTES: usize = 5;
const COUNTS_BYTES: usize = 4;

/// A place in the order of entries: keys ascend, the ranks under one key descend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct At<'k> {
    pub(super) key: &'k [u8],
    pub(super) rank: u64,
}

impl<'k> At<'k> {
    /// Before everything under `key`.
    pub(super) fn first_of(key: &'k [u8]) -> Self {
        Self { key, rank: u64::MAX }
    }
}

/// Comparing with an empty slice is far from free: where that points to no memory, `memcmp` takes a hundred nanoseconds on
/// processors with masked loads. So here, and in listings, it is left out.
impl Ord for At<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        let keys = match other.key {
            [] => self.key.len().cmp(&0),
            key => self.key.cmp(key),
        };
        keys.then(other.rank.cmp(&self.rank))
    }
}

impl PartialOrd for At<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// An immutable leaf; a clone is another reference to it.
#[derive(Clone)]
pub(super) struct Leaf(Arc<[u8]>);

impl Leaf {
    pub(super) fn byte_len(&self) -> usize {
        self.0.len()
    }

    /// How many entries there are.
    pub(super) fn len(&self) -> usize {
        usize::from(self.u16_from_end(2))
    }

    /// How many runs there are.
    pub(super) fn runs(&self) -> usize {
        usize::from(self.u16_from_end(4))
    }

    fn u16_from_end(&self, back: usize) -> u16 {
        let at = self.0.len() - back;
        u16::from_le_bytes([self.0[at], self.0[at + 1]])
    }

    /// Where a run starts; of the one behind the last, where the entries end.
    pub(super) fn run_start(&self, nth: usize) -> usize {
        if nth == self.runs() {
            return self.entries_end();
        }
        let at = self.entries_end() + RUN_BYTES * nth;
        u32::from_le_bytes([self.0[at], self.0[at + 1], self.0[at + 2], self.0[at + 3]]) as usize
    }

    pub(super) fn run_len(&self, nth: usize) -> usize {
        usize::from(self.0[self.entries_end() + RUN_BYTES * nth + 4])
    }

    fn entries_end(&self) -> usize {
        self.0.len() - COUNTS_BYTES - RUN_BYTES * self.runs()
    }

    /// The place that a run starts at.
    pub(super) fn run_at(&self, nth: usize) -> At<'_> {
        let head = Head::read(&self.0[self.run_start(nth)..]);
        At { key: &head.rest[..head.key_len], rank: head.rank }
    }

    /// The last run that does not start behind `at`, or the first: where `at` is, or belongs.
    pub(super) fn run_of(&self, at: At<'_>) -> usize {
        let (mut low, mut high) = (0, self.runs());
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if self.run_at(middle) <= at {
                low = middle;
            } else {
                high = middle;
            }
        }
        low
    }

    /// The entries of some runs.
    pub(super) fn scan(&self, runs: Range<usize>) -> LeafScan<'_> {
        let mut scan = LeafScan::nowhere();
        scan.rest = &self.0[self.run_start(runs.start)..self.run_start(runs.end)];
        scan
    }
}

/// The numbers in front of an entry.
struct Head<'l> {
    shared: usize,
    key_len: usize,
    rank: u64,
    value_len: usize,
    /// From the rest of the key on.
    rest: &'l [u8],
}

impl<'l> Head<'l> {
    fn read(bytes: &'l [u8]) -> Self {
        let mut from = Decoder::new(bytes);
        let mut number = || trusted(from.varint()) as usize;
        let (shared, key_len, value_len) = (number(), number(), number());
        let rank = trusted(from.u64());
        Self { shared, key_len, rank, value_len, rest: from.rest() }
    }
}

/// Reads entries in order.
pub(super) struct LeafScan<'l> {
    /// The entries from the next one on.
    rest: &'l [u8],
    key: Vec<u8>,
    rank: u64,
    value: &'l [u8],
    /// Whether the next step is the first one behind a place that was searched for.
    fresh: bool,
    same_key: bool,
}

impl<'l> LeafScan<'l> {
    /// Nothing to read.
    pub(super) fn nowhere() -> Self {
        Self { rest: &[], key: Vec::with_capacity(64), rank: 0, value: &[], fresh: true, same_key: false }
    }

    /// Goes on with the first entry of a leaf.
    pub(super) fn enter(&mut self, leaf: &'l Leaf) {
        self.rest = &leaf.0[..leaf.entries_end()];
    }

    /// Goes before the first entry of a leaf that stands at or behind `at`.
    pub(super) fn seek(&mut self, leaf: &'l Leaf, at: At<'_>) {
        self.rest = &leaf.0[leaf.run_start(leaf.run_of(at))..leaf.entries_end()];
        let mut before = self.rest;
        while self.next() && self.at() < at {
            before = self.rest;
        }
        // One step too many. The key of that step shares with the one before it what it is written to share.
        self.rest = before;
        self.fresh = true;
    }

    /// Goes to the next entry; `false` when there is none.
    pub(super) fn next(&mut self) -> bool {
        if self.rest.is_empty() {
            return false;
        }
        let head = Head::read(self.rest);
        let (key, rest) = head.rest.split_at(head.key_len);
        // What is shared is all that could be, but at the start of a run, where nothing is.
        let same_len = head.shared + head.key_len == self.key.len();
        let same = same_len && (head.key_len == 0 || head.shared == 0 && key == self.key);
        self.same_key = same && !self.fresh;
        self.fresh = false;
        self.key.truncate(head.shared);
        self.key.extend_from_slice(key);
        self.rank = head.rank;
        (self.value, self.rest) = rest.split_at(head.value_len);
        true
    }

    /// Whether the last step went to an entry of the same key as the step before.
    pub(super) fn is_same_key(&self) -> bool {
        self.same_key
    }

    pub(super) fn at(&self) -> At<'_> {
        At { key: &self.key, rank: self.rank }
    }

    pub(super) fn value(&self) -> &'l [u8] {
        self.value
    }
}

/// Puts entries together to leaves; they must come in order.
#[derive(Default)]
pub(super) struct LeafBuilder {
    bytes: Vec<u8>,
    /// Where each run starts, and how many entries it has.
    runs: Vec<(usize, usize)>,
    /// Whether the last run takes more entries.
    run_is_open: bool,
    len: usize,
    /// The key and the rank of the last entry that was pushed.
    key: Vec<u8>,
    rank: u64,
}

impl LeafBuilder {
    /// Makes room for a leaf of so many bytes.
    pub(super) fn reserve(&mut self, bytes: usize) {
        self.bytes.reserve(bytes + 2 * RUN_BYTES + COUNTS_BYTES);
    }

    /// How many entries there are.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn byte_len(&self) -> usize {
        self.bytes.len()
    }

    /// The entry that was pushed last.
    pub(super) fn last(&self) -> At<'_> {
        At { key: &self.key, rank: self.rank }
    }

    /// Adds an entry to the last run, if that has less than `run_max` entries.
    pub(super) fn push(&mut self, at: At<'_>, value: &[u8], run_max: usize) {
        let large = value.len() >= RUN_LARGE_BYTES;
        let full =
            |(start, len): &(usize, usize)| *len >= run_max || self.bytes.len() - start >= RUN_LARGE_BYTES;
        if large || !self.run_is_open || self.runs.last().is_none_or(full) {
            self.runs.push((self.bytes.len(), 0));
            self.run_is_open = true;
            self.key.clear();
        }
        let shared = shared_len(&self.key, at.key);
        let rest = &at.key[shared..];
        self.bytes.put_varint(shared as u64);
        self.bytes.put_varint(rest.len() as u64);
        self.bytes.put_varint(value.len() as u64);
        self.bytes.put_u64(at.rank);
        self.bytes.extend_from_slice(rest);
        self.bytes.extend_from_slice(value);
        self.key.truncate(shared);
        self.key.extend_from_slice(rest);
        self.rank = at.rank;
        self.runs.last_mut().expect("a run is open").1 += 1;
        self.len += 1;
    }

    /// Adds runs of another leaf as they are.
    pub(super) fn copy_runs(&mut self, leaf: &Leaf, runs: Range<usize>) {
        let (start, end) = (leaf.run_start(runs.start), leaf.run_start(runs.end));
        for nth in runs {
            self.runs.push((self.bytes.len() + leaf.run_start(nth) - start, leaf.run_len(nth)));
            self.len += leaf.run_len(nth);
        }
        self.bytes.extend_from_slice(&leaf.0[start..end]);
        self.run_is_open = false;
    }

    /// The leaf of all that has come since the last one.
    pub(super) fn finish(&mut self) -> Leaf {
        for (start, len) in &self.runs {
            self.bytes.put_u32(u32::try_from(*start).expect("a leaf has less than 4 GiB"));
            self.bytes.put_u8(u8::try_from(*len).expect("a run has less than 256 entries"));
        }
        for count in [self.runs.len(), self.len] {
            let count = u16::try_from(count).expect("a leaf has less than 65,536 entries");
            self.bytes.extend_from_slice(&count.to_le_bytes());
        }
        let leaf = Leaf(self.bytes.as_slice().into());
        self.bytes.clear();
        self.runs.clear();
        self.run_is_open = false;
        self.len = 0;
        leaf
    }
}

/// How long the runs may be that one of `len` entries is written as.
pub(super) fn rewritten_run_max(len: usize) -> usize {
    if len > RUN_MAX { len.div_ceil(2) } else { RUN_MAX }
}

/// How many bytes two keys have in common from their start.
pub(super) fn shared_len(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}
