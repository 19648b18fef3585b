//! The live bytes of each segment.

use std::collections::BTreeMap;

use rpds::RedBlackTreeMapSync;

use crate::format::{ExtentHeader, ExtentRef};
use crate::index::memory::map_entry_bytes;

/// Bytes of extents (header, payload and block table) that versions and parts refer to, by segment.
/// A shared extent counts once. A clone is a snapshot and costs O(1).
///
/// A record that says *shared* may be the only one left that refers to the extent. A copy whose
/// source was deleted says so for good, since the extent names another key. So this type counts the
/// references of extents that are actually shared; other extents take no memory here. When a second
/// reference is added, the first one must have been counted. An amendment of its record announces
/// this (`amend`). Without the announcement both count as live bytes until one of them is removed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Liveness {
    bytes: RedBlackTreeMapSync<u64, u64>,
    /// The sum over all segments.
    total: u64,
    /// The extents with several references, or with one that others are about to follow.
    shared: RedBlackTreeMapSync<ExtentStart, SharedExtent>,
    /// While a store is loaded, the references that say *shared*.
    deferred: Option<Vec<SharedReference>>,
}

/// A segment, and the offset of an extent in it.
type ExtentStart = (u64, u64);

/// The references of a shared extent, and the size that the first one stated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SharedExtent {
    references: u64,
    size: u64,
}

/// A reference that was added or removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct SharedReference {
    start: ExtentStart,
    /// The size of the extent; negative for a removed reference.
    size: i64,
}

impl Liveness {
    /// The live bytes of every segment that has any.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> {
        debug_assert!(self.deferred.is_none(), "deferred references are not counted yet");
        self.bytes.iter().map(|(segment, bytes)| (*segment, *bytes))
    }

    /// The memory that it takes up, in bytes.
    pub(super) fn memory_bytes(&self) -> u64 {
        self.bytes.size() as u64 * map_entry_bytes::<u64, u64>()
            + self.shared.size() as u64 * map_entry_bytes::<ExtentStart, SharedExtent>()
    }

    /// The live bytes of all segments.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The live bytes of one segment.
    pub fn of(&self, segment: u64) -> u64 {
        self.bytes.get(&segment).copied().unwrap_or(0)
    }

    /// Whether the extent at `offset` of a segment has several references, or one that others may
    /// follow after a relocation.
    pub fn is_shared(&self, segment: u64, offset: u64) -> bool {
        self.shared.contains_key(&(segment, offset))
    }

    /// Defers references that say *shared* until [`Liveness::count_deferred`]. Nothing announces
    /// second references in a checkpoint, and no log has to.
    pub(super) fn defer_shared(&mut self) {
        self.deferred = Some(Vec::new());
    }

    /// Counts the deferred references.
    pub(super) fn count_deferred(&mut self) {
        let mut all = self.deferred.take().unwrap_or_default();
        // References to one extent come from records all over the checkpoint; only when all are
        // known is it known which extents are shared.
        all.sort_unstable();
        for of_one in all.chunk_by(|one, next| one.start == next.start) {
            let references: i64 = of_one.iter().map(|reference| reference.size.signum()).sum();
            let size = of_one.iter().map(|reference| reference.size.unsigned_abs()).max().unwrap_or(0);
            if references > 0 {
                self.grow(of_one[0].start.0, size);
            }
            // One that is alone is not shared, whatever its record says: it takes no memory here.
            if references > 1 {
                self.shared.insert_mut(of_one[0].start, SharedExtent { references: references as u64, size });
            }
        }
    }

    pub(super) fn add(&mut self, extents: &[ExtentRef]) {
        for extent in extents {
            if let Some(size) = self.add_reference(extent) {
                self.grow(extent.segment, size);
            }
        }
    }

    /// Adds a batch.
    pub(super) fn add_batch(&mut self, batch: LiveBytesBatch) {
        let LiveBytesBatch { bytes, last: (segment, size) } = batch;
        let all = bytes.into_iter().chain([(segment, size)]);
        for (segment, size) in all.filter(|(_, size)| *size > 0) {
            self.grow(segment, size);
        }
    }

    fn grow(&mut self, segment: u64, size: u64) {
        self.total += size;
        match self.bytes.get_mut(&segment) {
            Some(live) => *live += size,
            None => self.bytes.insert_mut(segment, size),
        }
    }

    pub(super) fn remove(&mut self, extents: &[ExtentRef]) {
        for extent in extents {
            if let Some(size) = self.remove_reference(extent) {
                self.shrink(extent.segment, size);
            }
        }
    }

    /// Stops at zero. References disagree about the size of an extent only in a log that was
    /// tampered with.
    fn shrink(&mut self, segment: u64, size: u64) {
        let live = self.of(segment);
        let gone = live.min(size);
        self.total -= gone;
        match live - gone {
            0 => drop(self.bytes.remove_mut(&segment)),
            left => self.bytes.insert_mut(segment, left),
        }
    }

    /// Replaces the extents of a record that is otherwise the same. Other references are about to
    /// follow in two cases: the extents are the same, and `announced` is set or the record has
    /// become *shared*; or the record was relocated away from references that may follow it.
    pub(super) fn amend(&mut self, old: &[ExtentRef], new: &[ExtentRef], announced: bool) {
        let pairs = old.len().min(new.len());
        for (old, new) in old.iter().zip(new) {
            self.replace(old, new, announced);
        }
        self.add(&new[pairs..]);
        self.remove(&old[pairs..]);
    }

    fn replace(&mut self, old: &ExtentRef, new: &ExtentRef, announced: bool) {
        let stays = start_of(old) == start_of(new);
        let is_counted = |extent: &ExtentRef| extent.shared && self.shared.contains_key(&start_of(extent));
        if stays && old.shared == new.shared && (!new.shared || is_counted(new) || !announced) {
            return;
        }
        // An extent without payload holds the record of one version or part, and is never shared.
        let may_be_followed = new.shared && new.payload_len > 0 && !is_counted(new);
        if !may_be_followed || !stays && !is_counted(old) || self.deferred.is_some() {
            self.add(std::slice::from_ref(new));
            return self.remove(std::slice::from_ref(old));
        }
        self.remove(std::slice::from_ref(old));
        let size = size_of(new);
        self.grow(new.segment, size);
        self.shared.insert_mut(start_of(new), SharedExtent { references: 1, size });
    }

    /// Adds a reference, and returns the bytes that become live.
    fn add_reference(&mut self, extent: &ExtentRef) -> Option<u64> {
        if !extent.shared {
            return Some(size_of(extent));
        }
        let start = start_of(extent);
        let size = size_of(extent);
        if let Some(deferred) = &mut self.deferred {
            deferred.push(SharedReference { start, size: size as i64 });
            return None;
        }
        match self.shared.get_mut(&start) {
            Some(shared) => shared.references += 1,
            None => return Some(size),
        }
        None
    }

    /// Removes a reference, and returns the bytes that are no longer live.
    fn remove_reference(&mut self, extent: &ExtentRef) -> Option<u64> {
        if !extent.shared {
            return Some(size_of(extent));
        }
        let start = start_of(extent);
        let size = size_of(extent);
        if let Some(deferred) = &mut self.deferred {
            deferred.push(SharedReference { start, size: -(size as i64) });
            return None;
        }
        let Some(shared) = self.shared.get_mut(&start) else {
            return Some(size);
        };
        shared.references -= 1;
        let SharedExtent { references, size } = *shared;
        // The last reference is one like those of unshared extents: its removal finds nothing here,
        // and frees the bytes.
        if references <= 1 {
            self.shared.remove_mut(&start);
        }
        (references == 0).then_some(size)
    }
}

/// A batch of bytes of unshared extents, by segment, to be added to a [`Liveness`]. Batches have no
/// snapshots, so counting is cheaper.
#[derive(Default)]
pub(super) struct LiveBytesBatch {
    bytes: BTreeMap<u64, u64>,
    /// The segment of the last extent, with its bytes that are not in `bytes` yet: neighbours are
    /// often in the same segment.
    last: (u64, u64),
}

impl LiveBytesBatch {
    /// Counts an unshared extent.
    pub(super) fn add(&mut self, extent: &ExtentRef) {
        if extent.segment != self.last.0 {
            let (segment, size) = std::mem::replace(&mut self.last, (extent.segment, 0));
            *self.bytes.entry(segment).or_default() += size;
        }
        self.last.1 += size_of(extent);
    }
}

fn start_of(extent: &ExtentRef) -> ExtentStart {
    (extent.segment, extent.offset)
}

fn size_of(extent: &ExtentRef) -> u64 {
    let payload_len = u64::from(extent.payload_len);
    ExtentHeader::BYTES as u64 + payload_len + ExtentHeader::table_len(payload_len)
}
