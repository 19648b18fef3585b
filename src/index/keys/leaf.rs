//! Leaves: some tens of neighbouring entries in one immutable allocation, with keys compressed by
//! their common prefixes.
//!
//! A leaf consists of restart blocks. The first entry of a block has its whole key, so each block
//! can be decoded alone. A change rewrites one block and copies the others.
//!
//! A leaf starts with the number of blocks and the number of entries (u16 each). Then, for each
//! block, follow its offset among the entries (u32) and its number of entries (a byte). An entry
//! is:
//!
//! - three varints: bytes shared with the previous key, bytes of the rest of the key, bytes of the
//!   value;
//! - the version order (u64);
//! - the rest of the key, and the value.

use std::cmp::Ordering;
use std::hint::black_box;
use std::ops::Range;
use std::sync::Arc;

use crate::format::{ByteDecoder, Encode};
use crate::index::expect_valid;

/// A leaf with more entries is split.
pub(super) const ENTRIES_MAX: usize = 64;
/// A leaf with more bytes and more than one block is split: the cost of a change must not depend on
/// large neighbours.
pub(super) const BYTES_MAX: usize = 16 * 1024;
/// Entries of a block that is built in order.
pub(super) const BLOCK_ENTRIES: usize = 16;
/// A changed block with more entries is split.
const BLOCK_ENTRIES_MAX: usize = 24;
/// A block of this size is not extended. A value of this size starts a new block, so that a change
/// of its neighbours does not copy it.
const BLOCK_LARGE_BYTES: usize = 4 * 1024;
/// The bytes of the counts, and of the header of each block.
const COUNTS_BYTES: usize = 4;
const BLOCK_HEADER_BYTES: usize = 5;
/// The unit in which a processor loads memory.
const CACHE_LINE_BYTES: usize = 64;

/// The position of an entry: keys ascend, and versions of one key descend by their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct EntryPos<'k> {
    pub(super) key: &'k [u8],
    pub(super) order: u64,
}

impl<'k> EntryPos<'k> {
    /// The position before all entries of `key`.
    pub(super) fn first_of(key: &'k [u8]) -> Self {
        Self { key, order: u64::MAX }
    }

    /// Its key, if entries of that key may be before it.
    pub(super) fn within(self) -> Option<&'k [u8]> {
        (self.order < u64::MAX).then_some(self.key)
    }
}

/// Skips the comparison with an empty slice, which is slow: for a dangling pointer, `memcmp` takes
/// a hundred nanoseconds on processors with masked loads. Listings do the same.
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

    /// The number of restart blocks.
    pub(super) fn blocks(&self) -> usize {
        usize::from(u16::from_le_bytes([self.0[0], self.0[1]]))
    }

    /// The number of entries.
    pub(super) fn len(&self) -> usize {
        usize::from(u16::from_le_bytes([self.0[2], self.0[3]]))
    }

    /// The offset of a block among the entries; past the last block, the end of the entries.
    pub(super) fn block_start(&self, nth: usize) -> usize {
        match self.block(nth) {
            Some([a, b, c, d, _]) => u32::from_le_bytes([*a, *b, *c, *d]) as usize,
            None => self.entries().len(),
        }
    }

    pub(super) fn block_len(&self, nth: usize) -> usize {
        self.block(nth).map_or(0, |block| usize::from(block[4]))
    }

    /// The header of a block.
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

    /// The position of the first entry of a block.
    pub(super) fn block_pos(&self, nth: usize) -> EntryPos<'_> {
        let head = EntryHeader::read(&self.entries()[self.block_start(nth)..]);
        EntryPos { key: &head.rest[..head.key_len], order: head.order }
    }

    /// The last block that does not start after `at`, or else the first: the block of `at`.
    pub(super) fn block_of(&self, at: EntryPos<'_>) -> usize {
        let mut low = 0;
        let mut high = self.blocks();
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
        let mut scan = LeafScan::empty();
        scan.rest = &self.entries()[self.block_start(blocks.start)..self.block_start(blocks.end)];
        scan
    }

    /// A scan of the block before `end`, positioned at its last entry.
    pub(super) fn scan_to_last(&self, end: usize) -> LeafScan<'_> {
        let mut scan = self.scan(end - 1..end);
        while scan.next() {}
        scan
    }

    /// Loads one byte, so that later accesses need not wait: a processor loads from many addresses
    /// at once if they are independent.
    pub(super) fn touch(&self) {
        black_box(self.0[0]);
    }
}

/// Loads all cache lines of bytes that are then read in order.
fn prefetch(bytes: &[u8]) {
    black_box(bytes.iter().step_by(CACHE_LINE_BYTES).fold(0, |all, byte| all ^ byte));
}

/// The header of an entry.
struct EntryHeader<'l> {
    shared: usize,
    key_len: usize,
    order: u64,
    value_len: usize,
    /// The entries from the rest of the key on.
    rest: &'l [u8],
}

impl<'l> EntryHeader<'l> {
    #[inline]
    fn read(bytes: &'l [u8]) -> Self {
        let mut from = ByteDecoder::new(bytes);
        let shared = expect_valid(from.varint()) as usize;
        let key_len = expect_valid(from.varint()) as usize;
        let value_len = expect_valid(from.varint()) as usize;
        let order = expect_valid(from.u64());
        Self { shared, key_len, order, value_len, rest: from.rest() }
    }

    /// The rest of the key, the value, and the following entries.
    #[inline]
    fn split(&self) -> (&'l [u8], &'l [u8], &'l [u8]) {
        let (key, rest) = self.rest.split_at(self.key_len);
        let (value, rest) = rest.split_at(self.value_len);
        (key, value, rest)
    }
}

/// Reads entries in order.
pub(super) struct LeafScan<'l> {
    /// The entries that have not been read.
    rest: &'l [u8],
    key: Vec<u8>,
    order: u64,
    value: &'l [u8],
    /// Whether the next step is the first one after a seek.
    fresh: bool,
    same_key: bool,
}

impl<'l> LeafScan<'l> {
    /// An empty scan.
    pub(super) fn empty() -> Self {
        Self { rest: &[], key: Vec::with_capacity(64), order: 0, value: &[], fresh: true, same_key: false }
    }

    /// Continues with the first entry of a leaf.
    pub(super) fn enter(&mut self, leaf: &'l Leaf) {
        prefetch(&leaf.0);
        self.rest = leaf.entries();
    }

    /// Makes the next entry count as a successor of an entry of `key`.
    pub(super) fn continue_key(&mut self, key: &[u8]) {
        self.key.clear();
        self.key.extend_from_slice(key);
        self.fresh = false;
    }

    /// Seeks the first entry of a leaf at or after `at`. Skipped keys are not assembled. If an
    /// entry shares another number of bytes with its predecessor than the predecessor shares with
    /// `at`, that number alone decides how the entry compares.
    pub(super) fn seek(&mut self, leaf: &'l Leaf, at: EntryPos<'_>) {
        let block = leaf.block_of(at);
        let entries = leaf.entries();
        let start = leaf.block_start(block);
        prefetch(&entries[start..leaf.block_start(block + 1)]);
        self.rest = &entries[start..];
        let mut common = 0;
        while let Some((rest, passed_common)) = skip_entry(self.rest, at, common) {
            (self.rest, common) = (rest, passed_common);
        }
        // The next entry shares at most this much with the last skipped one.
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
        // Shared bytes are the longest common prefix, except at the start of a block, where there
        // are none.
        let same_len = head.shared + head.key_len == self.key.len();
        let same = same_len && (head.key_len == 0 || head.shared == 0 && key == self.key);
        self.same_key = same && !self.fresh;
        self.fresh = false;
        self.key.truncate(head.shared);
        self.key.extend_from_slice(key);
        self.order = head.order;
        true
    }

    /// Whether the last two steps went to entries of the same key.
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

/// Skips an entry before `at`. Returns the following entries and the number of bytes that its key
/// shares with the entry of `at`; `common` is this number for the previous entry of the block.
/// `None` if no entry is left before `at`.
#[inline]
fn skip_entry<'l>(entries: &'l [u8], at: EntryPos<'_>, common: usize) -> Option<(&'l [u8], usize)> {
    if entries.is_empty() {
        return None;
    }
    let head = EntryHeader::read(entries);
    let (key, _, rest) = head.split();
    match head.shared.cmp(&common) {
        // It differs from `at` where its predecessor does, and in the same way.
        Ordering::Greater => Some((rest, common)),
        // It is greater than its predecessor at a byte that is equal in `at`; or it starts the next
        // block, which is after `at`.
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

/// Builds leaves from entries in order.
#[derive(Default)]
pub(super) struct LeafBuilder {
    /// The entries.
    bytes: Vec<u8>,
    /// The offset of each block, and its number of entries.
    blocks: Vec<(usize, usize)>,
    /// Whether the last block accepts entries.
    block_is_open: bool,
    len: usize,
    /// The key and order of the last entry.
    key: Vec<u8>,
    order: u64,
    /// A buffer for the whole leaf.
    encoded: Vec<u8>,
}

impl LeafBuilder {
    /// Reserves memory for a leaf of `bytes` bytes.
    pub(super) fn reserve(&mut self, bytes: usize) {
        self.bytes.reserve(bytes);
        self.encoded.reserve(bytes + 2 * BLOCK_HEADER_BYTES);
    }

    /// The number of entries.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn byte_len(&self) -> usize {
        self.bytes.len()
    }

    /// The position of the last entry.
    pub(super) fn last(&self) -> EntryPos<'_> {
        EntryPos { key: &self.key, order: self.order }
    }

    /// Adds an entry, to the last block if that has fewer than `block_max` entries.
    pub(super) fn push(&mut self, at: EntryPos<'_>, value: &[u8], block_max: usize) {
        if !self.block_has_room(value.len(), block_max) {
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

    /// Whether the last block may have another entry, with a value of `value_len` bytes.
    fn block_has_room(&self, value_len: usize, block_max: usize) -> bool {
        let Some((start, len)) = self.blocks.last() else { return false };
        self.block_is_open
            && value_len < BLOCK_LARGE_BYTES
            && *len < block_max
            && self.bytes.len() - start < BLOCK_LARGE_BYTES
    }

    /// Copies blocks of another leaf.
    pub(super) fn copy_blocks(&mut self, leaf: &Leaf, blocks: Range<usize>) {
        let start = leaf.block_start(blocks.start);
        let end = leaf.block_start(blocks.end);
        for nth in blocks {
            self.blocks.push((self.bytes.len() + leaf.block_start(nth) - start, leaf.block_len(nth)));
            self.len += leaf.block_len(nth);
        }
        self.bytes.extend_from_slice(&leaf.entries()[start..end]);
        self.block_is_open = false;
    }

    /// The leaf with all entries since the last call.
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

/// The maximum of entries for the blocks that replace one of `len` entries.
pub(super) fn rewritten_block_max(len: usize) -> usize {
    if len > BLOCK_ENTRIES_MAX { len.div_ceil(2) } else { BLOCK_ENTRIES_MAX }
}

/// The length of the common prefix of two keys, compared eight bytes at a time.
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
