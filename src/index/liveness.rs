//! How many bytes of each segment are still wanted.

use std::collections::BTreeMap;

use rpds::RedBlackTreeMapSync;

use crate::format::{ExtentHeader, ExtentRef};
use crate::index::memory::map_entry_bytes;

/// Bytes of extents (header, payload and block table) that versions and parts refer to, by segment. An extent that
/// several of them share counts once. A clone is a snapshot and costs nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Liveness {
    bytes: RedBlackTreeMapSync<u64, u64>,
    /// The shared extents, by segment and offset. An extent that belongs to one version alone needs no count, which keeps
    /// this empty for most stores.
    shared: RedBlackTreeMapSync<(u64, u64), Shared>,
}

/// A shared extent. Its size is that of the first reference: what was added is what will be taken away, also when a log
/// that somebody has tampered with tells of one extent in two ways.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Shared {
    references: u32,
    size: u64,
}

impl Liveness {
    /// The live bytes of every segment that has any.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> {
        self.bytes.iter().map(|(segment, bytes)| (*segment, *bytes))
    }

    /// The memory that it takes up, in bytes.
    pub(super) fn memory_bytes(&self) -> u64 {
        self.bytes.size() as u64 * map_entry_bytes::<u64, u64>()
            + self.shared.size() as u64 * map_entry_bytes::<(u64, u64), Shared>()
    }

    /// The live bytes of one segment.
    pub fn of(&self, segment: u64) -> u64 {
        self.bytes.get(&segment).copied().unwrap_or(0)
    }

    /// Whether some record refers to the extent at `offset` of a segment as one that several share.
    pub fn is_shared(&self, segment: u64, offset: u64) -> bool {
        self.shared.contains_key(&(segment, offset))
    }

    pub(super) fn add(&mut self, extents: &[ExtentRef]) {
        for extent in extents {
            if let Some(size) = self.take(extent) {
                self.grow(extent.segment, size);
            }
        }
    }

    /// Adds what has been counted apart.
    pub(super) fn add_counted(&mut self, counted: Counted) {
        let Counted { bytes, last: (segment, size) } = counted;
        let all = bytes.into_iter().chain([(segment, size)]);
        all.filter(|(_, size)| *size > 0).for_each(|(segment, size)| self.grow(segment, size));
    }

    fn grow(&mut self, segment: u64, size: u64) {
        match self.bytes.get_mut(&segment) {
            Some(live) => *live += size,
            None => self.bytes.insert_mut(segment, size),
        }
    }

    pub(super) fn remove(&mut self, extents: &[ExtentRef]) {
        for extent in extents {
            if let Some(size) = self.release(extent) {
                let live = self.bytes.get_mut(&extent.segment).and_then(|live| {
                    *live = live.checked_sub(size)?;
                    Some(*live)
                });
                if live.expect("what is removed had been added") == 0 {
                    self.bytes.remove_mut(&extent.segment);
                }
            }
        }
    }

    /// Counts a reference, and gives the bytes that become live by it.
    fn take(&mut self, extent: &ExtentRef) -> Option<u64> {
        if !extent.shared {
            return Some(size_of(extent));
        }
        let place = (extent.segment, extent.offset);
        if let Some(shared) = self.shared.get_mut(&place) {
            shared.references += 1;
            return None;
        }
        let size = size_of(extent);
        self.shared.insert_mut(place, Shared { references: 1, size });
        Some(size)
    }

    /// Takes a reference back, and gives the bytes that were live by it alone.
    fn release(&mut self, extent: &ExtentRef) -> Option<u64> {
        if !extent.shared {
            return Some(size_of(extent));
        }
        let place = (extent.segment, extent.offset);
        let shared = self.shared.get_mut(&place).expect("what is removed had been added");
        shared.references -= 1;
        let Shared { references, size } = *shared;
        (references == 0).then(|| {
            self.shared.remove_mut(&place);
            size
        })
    }
}

/// Bytes of many extents that nobody shares, by segment, on their way into a [`Liveness`]: no snapshot is made of them
/// meanwhile, which makes counting cheaper.
#[derive(Default)]
pub(super) struct Counted {
    bytes: BTreeMap<u64, u64>,
    /// The segment of the last extent, and what is not among the others yet: neighbours often lie in one.
    last: (u64, u64),
}

impl Counted {
    /// Counts an extent, which is not shared.
    pub(super) fn add(&mut self, extent: &ExtentRef) {
        if extent.segment != self.last.0 {
            let (segment, size) = std::mem::replace(&mut self.last, (extent.segment, 0));
            *self.bytes.entry(segment).or_default() += size;
        }
        self.last.1 += size_of(extent);
    }
}

fn size_of(extent: &ExtentRef) -> u64 {
    let payload_len = u64::from(extent.payload_len);
    ExtentHeader::BYTES as u64 + payload_len + ExtentHeader::table_len(payload_len)
}
