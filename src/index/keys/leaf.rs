//! Leaves: some tens of neighbours in one immutable piece of memory, each written as what sets its key apart from the one
//! before it.
//!
//! A leaf is blocks of entries, each of which can be read without the others: its first entry has all of its key. A change
//! writes one block anew and takes the others over as they are.
//!
//! In front stand the number of blocks and the number of entries (u16 each) and, of each block, where in the entries it starts
//! (u32) and how many it has (a byte). An entry is three varints (bytes shared with the key before, bytes of the rest of the
//! key, bytes of the value), the order (u64), the rest of the key, and the value.

use std::cmp::Ordering;
use std::hint::black_box;
use std::ops::Range;
use std::sync::Arc;

use crate::format::{ByteDecoder, Encode};
use crate::index::trusted;

/// A leaf is split when it has more entries.
pub(super) const ENTRIES_MAX: usize = 64;
/// A leaf of more than one block is split when it has more bytes: what a change costs must not depend on large neighbours.
pub(super) const BYTES_MAX: usize = 16 * 1024;
/// Entries of a block where entries come in order.
pub(super) const BLOCK_ENTRIES: usize = 16;
/// A block that grows is split when it has more entries.
const BLOCK_ENTRIES_MAX: usize = 24;
/// A block of so many bytes is long enough; a value that long begins one, so that its neighbours can change without it.
const BLOCK_LARGE_BYTES: usize = 4 * 1024;
/// What stands of the leaf, and of each block, in front of the entries.
const COUNTS_BYTES: usize = 4;
const BLOCK_HEADER_BYTES: usize = 5;
/// What a processor fetches from memory at once.
const CACHE_LINE_BYTES: usize = 64;

/// A place in the order of entries: keys ascend, the ranks under one key descend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct EntryPos<'k> {
    pub(super) key: &'k [u8],
    pub(super) order: u64,
}

impl<'k> EntryPos<'k> {
    /// Before everything under `key`.
    pub(super) fn first_of(key: &'k [u8]) -> Self {
        Self { key, order: u64::MAX }
    }

    /// Its key, where entries of that key may stand before it.
    pub(super) fn within(self) -> Option<&'k [u8]> {
        (self.order < u64::MAX).then_some(self.key)
    }
}

/// Comparing with an empty slice is far from free: where that points to no memory, `memcmp` takes a hundred nanoseconds on
/// processors with masked loads. So here, and in listings, it is left out.
impl Ord for EntryPos<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        let keys = match other.key {
            [] => self.key.len().cmp(&0),
            key => self.key.cmp(key),
        };
        keys.then(other.order.cmp(&self.order))
    }
}

impl PartialOrd for EntryPos<'_> {
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

    /// How many blocks there are.
    pub(super) fn blocks(&self) -> usize {
        usize::from(u16::from_le_bytes([self.0[0], self.0[1]]))
    }

    /// How many entries there are.
    pub(super) fn len(&self) -> usize {
        usize::from(u16::from_le_bytes([self.0[2], self.0[3]]))
    }

    /// Where in the entries a block starts; of the one behind the last, where they end.
    pub(super) fn block_start(&self, nth: usize) -> usize {
        match self.block(nth) {
            Some([a, b, c, d, _]) => u32::from_le_bytes([*a, *b, *c, *d]) as usize,
            None => self.entries().len(),
        }
    }

    pub(super) fn block_len(&self, nth: usize) -> usize {
        self.block(nth).map_or(0, |block| usize::from(block[4]))
    }

    /// What stands in front of a block.
    fn block(&self, nth: usize) -> Option<&[u8; BLOCK_HEADER_BYTES]> {
        if nth < self.blocks() {
            self.0[COUNTS_BYTES + BLOCK_HEADER_BYTES * nth..].first_chunk()
        } else {
            None
        }
    }

    fn entries(&self) -> &[u8] {
        &self.0[COUNTS_BYTES + BLOCK_HEADER_BYTES * self.blocks()..]
    }

    /// The place that a block starts at.
    pub(super) fn block_pos(&self, nth: usize) -> EntryPos<'_> {
        let head = EntryHeader::read(&self.entries()[self.block_start(nth)..]);
        EntryPos { key: &head.rest[..head.key_len], order: head.order }
    }

    /// The last block that does not start behind `at`, or the first: where `at` is, or belongs.
    pub(super) fn block_of(&self, at: EntryPos<'_>) -> usize {
        let (mut low, mut high) = (0, self.blocks());
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if self.block_pos(middle) <= at {
                low = middle;
            } else {
                high = middle;
            }
        }
        low
    }

    /// The entries of some blocks.
    pub(super) fn scan(&self, blocks: Range<usize>) -> LeafScan<'_> {
        let mut scan = LeafScan::nowhere();
        scan.rest = &self.entries()[self.block_start(blocks.start)..self.block_start(blocks.end)];
        scan
    }

    /// A scan of the block before `end`, which is at its last entry.
    pub(super) fn scan_to_last(&self, end: usize) -> LeafScan<'_> {
        let mut scan = self.scan(end - 1..end);
        while scan.next() {}
        scan
    }

    /// Reads a byte of it, so that what is counted or compared next need not be waited for: a processor fetches from many
    /// places at once if no step hangs on the one before.
    pub(super) fn touch(&self) {
        black_box(self.0[0]);
    }
}

/// Brings bytes that will be read step by step into the cache, all at once.
fn prefetch(bytes: &[u8]) {
    black_box(bytes.iter().step_by(CACHE_LINE_BYTES).fold(0, |all, byte| all ^ byte));
}

/// The numbers in front of an entry.
struct EntryHeader<'l> {
    shared: usize,
    key_len: usize,
    order: u64,
    value_len: usize,
    /// From the rest of the key on.
    rest: &'l [u8],
}

impl<'l> EntryHeader<'l> {
    #[inline]
    fn read(bytes: &'l [u8]) -> Self {
        let mut from = ByteDecoder::new(bytes);
        let (shared, key_len) = (trusted(from.varint()) as usize, trusted(from.varint()) as usize);
        let value_len = trusted(from.varint()) as usize;
        let order = trusted(from.u64());
        Self { shared, key_len, order, value_len, rest: from.rest() }
    }

    /// What is left of the key, the value, and the entries behind this one.
    #[inline]
    fn split(&self) -> (&'l [u8], &'l [u8], &'l [u8]) {
        let (key, rest) = self.rest.split_at(self.key_len);
        let (value, rest) = rest.split_at(self.value_len);
        (key, value, rest)
    }
}

/// Reads entries in order.
pub(super) struct LeafScan<'l> {
    /// The entries from the next one on.
    rest: &'l [u8],
    key: Vec<u8>,
    order: u64,
    value: &'l [u8],
    /// Whether the next step is the first one behind a place that was searched for.
    fresh: bool,
    same_key: bool,
}

impl<'l> LeafScan<'l> {
    /// Nothing to read.
    pub(super) fn nowhere() -> Self {
        Self { rest: &[], key: Vec::with_capacity(64), order: 0, value: &[], fresh: true, same_key: false }
    }

    /// Goes on with the first entry of a leaf.
    pub(super) fn enter(&mut self, leaf: &'l Leaf) {
        prefetch(&leaf.0);
        self.rest = leaf.entries();
    }

    /// Takes the next entry for one that follows another of `key`.
    pub(super) fn follow(&mut self, key: &[u8]) {
        self.key.clear();
        self.key.extend_from_slice(key);
        self.fresh = false;
    }

    /// Goes before the first entry of a leaf that stands at or behind `at`. Keys that are passed over are not put together:
    /// what an entry shares with the one before it tells how it compares, where that differs from what that one has in
    /// common with `at`.
    pub(super) fn seek(&mut self, leaf: &'l Leaf, at: EntryPos<'_>) {
        let block = leaf.block_of(at);
        let (entries, start) = (leaf.entries(), leaf.block_start(block));
        prefetch(&entries[start..leaf.block_start(block + 1)]);
        self.rest = &entries[start..];
        let mut common = 0;
        while let Some((rest, passed_common)) = pass(self.rest, at, common) {
            (self.rest, common) = (rest, passed_common);
        }
        // The next entry shares no more than this with the last one that was passed.
        self.key.clear();
        self.key.extend_from_slice(&at.key[..common]);
        self.fresh = true;
    }

    /// Goes to the next entry; `false` when there is none.
    #[inline]
    pub(super) fn next(&mut self) -> bool {
        if self.rest.is_empty() {
            return false;
        }
        let head = EntryHeader::read(self.rest);
        let key;
        (key, self.value, self.rest) = head.split();
        // What is shared is all that could be, but at the start of a block, where nothing is.
        let same_len = head.shared + head.key_len == self.key.len();
        let same = same_len && (head.key_len == 0 || head.shared == 0 && key == self.key);
        self.same_key = same && !self.fresh;
        self.fresh = false;
        self.key.truncate(head.shared);
        self.key.extend_from_slice(key);
        self.order = head.order;
        true
    }

    /// Whether the last step went to an entry of the same key as the step before.
    pub(super) fn is_same_key(&self) -> bool {
        self.same_key
    }

    pub(super) fn at(&self) -> EntryPos<'_> {
        EntryPos { key: &self.key, order: self.order }
    }

    pub(super) fn value(&self) -> &'l [u8] {
        self.value
    }
}

/// Passes over an entry that stands before `at`: gives what follows it, and how many bytes its key has in common with that
/// of `at`, which `common` is of the entry before it in the block. `None` where there is none.
#[inline]
fn pass<'l>(entries: &'l [u8], at: EntryPos<'_>, common: usize) -> Option<(&'l [u8], usize)> {
    if entries.is_empty() {
        return None;
    }
    let head = EntryHeader::read(entries);
    let (key, _, rest) = head.split();
    match head.shared.cmp(&common) {
        // It differs from `at` where the one before it does, and in the same way.
        Ordering::Greater => Some((rest, common)),
        // It is greater than the one before it where that is as `at`; or it starts the next block, which is behind `at`.
        Ordering::Less => None,
        Ordering::Equal => {
            let wanted = &at.key[common..];
            let more = shared_len(key, wanted);
            let before = match (key.get(more), wanted.get(more)) {
                (None, None) => head.order > at.order,
                (byte, wanted) => byte < wanted,
            };
            before.then_some((rest, common + more))
        }
    }
}

/// Puts entries together to leaves; they must come in order.
#[derive(Default)]
pub(super) struct LeafBuilder {
    /// The entries.
    bytes: Vec<u8>,
    /// Where each block starts, and how many entries it has.
    blocks: Vec<(usize, usize)>,
    /// Whether the last block takes more entries.
    block_is_open: bool,
    len: usize,
    /// The key and the order of the last entry that was pushed.
    key: Vec<u8>,
    order: u64,
    /// The leaf, put together.
    encoded: Vec<u8>,
}

impl LeafBuilder {
    /// Makes room for a leaf of so many bytes.
    pub(super) fn reserve(&mut self, bytes: usize) {
        self.bytes.reserve(bytes);
        self.encoded.reserve(bytes + 2 * BLOCK_HEADER_BYTES);
    }

    /// How many entries there are.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn byte_len(&self) -> usize {
        self.bytes.len()
    }

    /// The entry that was pushed last.
    pub(super) fn last(&self) -> EntryPos<'_> {
        EntryPos { key: &self.key, order: self.order }
    }

    /// Adds an entry to the last block, if that has less than `block_max` entries.
    pub(super) fn push(&mut self, at: EntryPos<'_>, value: &[u8], block_max: usize) {
        let large = value.len() >= BLOCK_LARGE_BYTES;
        let full = |(start, len): &(usize, usize)| {
            *len >= block_max || self.bytes.len() - start >= BLOCK_LARGE_BYTES
        };
        if large || !self.block_is_open || self.blocks.last().is_none_or(full) {
            self.blocks.push((self.bytes.len(), 0));
            self.block_is_open = true;
            self.key.clear();
        }
        let shared = shared_len(&self.key, at.key);
        let rest = &at.key[shared..];
        self.bytes.put_varint(shared as u64);
        self.bytes.put_varint(rest.len() as u64);
        self.bytes.put_varint(value.len() as u64);
        self.bytes.put_u64(at.order);
        self.bytes.extend_from_slice(rest);
        self.bytes.extend_from_slice(value);
        self.key.truncate(shared);
        self.key.extend_from_slice(rest);
        self.order = at.order;
        self.blocks.last_mut().expect("a block is open").1 += 1;
        self.len += 1;
    }

    /// Adds blocks of another leaf as they are.
    pub(super) fn copy_blocks(&mut self, leaf: &Leaf, blocks: Range<usize>) {
        let (start, end) = (leaf.block_start(blocks.start), leaf.block_start(blocks.end));
        for nth in blocks {
            self.blocks.push((self.bytes.len() + leaf.block_start(nth) - start, leaf.block_len(nth)));
            self.len += leaf.block_len(nth);
        }
        self.bytes.extend_from_slice(&leaf.entries()[start..end]);
        self.block_is_open = false;
    }

    /// The leaf of all that has come since the last one.
    pub(super) fn finish(&mut self) -> Leaf {
        self.encoded.clear();
        for count in [self.blocks.len(), self.len] {
            let count = u16::try_from(count).expect("a leaf has less than 65,536 entries");
            self.encoded.extend_from_slice(&count.to_le_bytes());
        }
        for (start, len) in &self.blocks {
            self.encoded.put_u32(u32::try_from(*start).expect("a leaf has less than 4 GiB"));
            self.encoded.put_u8(u8::try_from(*len).expect("a block has less than 256 entries"));
        }
        self.encoded.extend_from_slice(&self.bytes);
        let leaf = Leaf(self.encoded.as_slice().into());
        self.bytes.clear();
        self.blocks.clear();
        self.block_is_open = false;
        self.len = 0;
        leaf
    }
}

/// How long the blocks may be that one of `len` entries is written as.
pub(super) fn rewritten_block_max(len: usize) -> usize {
    if len > BLOCK_ENTRIES_MAX { len.div_ceil(2) } else { BLOCK_ENTRIES_MAX }
}

/// How many bytes two keys have in common from their start: looked for eight at a time.
pub(super) fn shared_len(a: &[u8], b: &[u8]) -> usize {
    let words = a.as_chunks::<8>().0.iter().zip(b.as_chunks::<8>().0);
    let mut len = 0;
    for (a, b) in words {
        let differ = u64::from_le_bytes(*a) ^ u64::from_le_bytes(*b);
        if differ != 0 {
            return len + differ.trailing_zeros() as usize / 8;
        }
        len += 8;
    }
    len + a[len..].iter().zip(&b[len..]).take_while(|(a, b)| a == b).count()
}
