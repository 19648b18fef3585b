//! The next extents for the scrub: live extents from a given location on, in disk order. The index
//! holds them in key order; so a walk over all of it keeps those that come first on the disk, as
//! many as fit into memory.

use crate::format::{Entry, ExtentHeader, ExtentRef, StoreId};
use crate::index::Cursor;
use crate::log::ExtentLocation;
use crate::store::shared::extents::owner_mark;

/// An extent that a record refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::store) struct LiveExtent {
    pub(in crate::store) segment: u64,
    pub(in crate::store) offset: u64,
    pub(in crate::store) payload_len: u32,
    pub(in crate::store) check: u32,
    /// The mark of its owner, as of [`owner_mark`], or [`SHARED`].
    pub(in crate::store) owner: u32,
}

impl LiveExtent {
    fn new(extent: &ExtentRef, owner: u32) -> Self {
        let ExtentRef { segment, offset, payload_len, check, shared, .. } = *extent;
        Self { segment, offset, payload_len, check, owner: if shared { SHARED } else { owner } }
    }

    pub(in crate::store) fn location(&self) -> ExtentLocation {
        (self.segment, self.offset)
    }

    /// The header in these bytes, if it belongs to the extent.
    pub(in crate::store) fn header(&self, store: &StoreId, bytes: &[u8]) -> Option<ExtentHeader> {
        let header = ExtentHeader::decode(store, bytes).ok()?;
        let expected = (self.segment, self.offset, self.payload_len, self.check);
        ((header.segment, header.offset, header.payload_len, header.check) == expected).then_some(header)
    }

    /// Bytes of header, payload and block table.
    pub(in crate::store) fn len(&self) -> u64 {
        let payload_len = u64::from(self.payload_len);
        ExtentHeader::BYTES as u64 + payload_len + ExtentHeader::table_len(payload_len)
    }
}

/// The owner of a shared extent, which names only the first of its owners. It is the mark of no
/// key.
pub(in crate::store) const SHARED: u32 = 0;

/// A walk over the index that collects extents.
pub(in crate::store) struct BatchBuilder {
    pub(in crate::store) cursor: Cursor,
    from: ExtentLocation,
    /// The last segment.
    end: u64,
    /// Extents at this location and after it are left to the next walk.
    limit: Option<ExtentLocation>,
    most: usize,
    found: Vec<LiveExtent>,
}

impl BatchBuilder {
    /// A walk for the extents at `from` and after it, in segments up to `end`. It uses up to
    /// `memory_bytes` bytes, and finds at least one extent if there is any.
    pub(in crate::store) fn new(from: ExtentLocation, end: u64, memory_bytes: u64) -> Self {
        // Two at least: of one, half would be kept, which is none.
        let most = (memory_bytes as usize / size_of::<LiveExtent>()).max(2);
        Self { cursor: Cursor::Start, from, end, limit: None, most, found: Vec::new() }
    }

    pub(in crate::store) fn add(&mut self, entry: &Entry) {
        let Some((bucket, key, extents)) = extents_of(entry) else {
            return;
        };
        let owner = owner_mark(bucket, key);
        for extent in extents {
            let location = (extent.segment, extent.offset);
            let is_next = location >= self.from && self.limit.is_none_or(|limit| location < limit);
            if is_next && extent.segment <= self.end {
                self.found.push(LiveExtent::new(extent, owner));
                if self.found.len() >= self.most {
                    self.cut();
                }
            }
        }
    }

    /// Keeps the first half.
    fn cut(&mut self) {
        self.sort();
        let kept = self.most / 2;
        if let Some(first_left) = self.found.get(kept) {
            self.limit = Some(first_left.location());
            self.found.truncate(kept);
        }
    }

    /// Sorts the extents, and leaves each shared one once.
    fn sort(&mut self) {
        self.found.sort_unstable();
        self.found.dedup_by_key(|extent| extent.location());
    }

    /// The extents in order, and the start of the next walk; `None` after the last.
    pub(in crate::store) fn finish(mut self) -> (Vec<LiveExtent>, Option<ExtentLocation>) {
        self.sort();
        (self.found, self.limit)
    }
}

/// The extents of a version or part, with its bucket and key.
pub(in crate::store) fn extents_of(entry: &Entry) -> Option<(u64, &[u8], &[ExtentRef])> {
    match entry {
        Entry::VersionPut { bucket, key, record } => Some((*bucket, key, &record.extents)),
        Entry::PartPut { bucket, key, record, .. } => Some((*bucket, key, &record.extents)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::{Entropy, SeededEntropy, Timestamp};
    use crate::format::PartRecord;
    use crate::format::UploadId;

    fn part(extents: Vec<ExtentRef>) -> Entry {
        let record = PartRecord {
            number: 1,
            id: 1,
            modified: Timestamp::from_millis(1),
            size: 0,
            md5: [0; 16],
            extents,
            checksum: None,
            encryption: None,
        };
        Entry::PartPut { bucket: 1, key: b"k".to_vec(), upload: UploadId(1), record }
    }

    #[test]
    fn walks_with_little_memory_find_all_extents_once_in_the_order_of_the_disk() {
        let draw = SeededEntropy::new(5);
        let random = || ExtentRef {
            segment: draw.below(9),
            offset: draw.below(500) * 64,
            payload_len: 10,
            check: 3,
            skip: 0,
            take: 10,
            shared: draw.next_u64().is_multiple_of(2),
        };
        let entries: Vec<Entry> = (0..600).map(|_| part(vec![random(), random()])).collect();
        let mut from = (2, 700);
        let mut walks = 0;
        let mut found = Vec::new();
        loop {
            let mut builder = BatchBuilder::new(from, 7, 100 * size_of::<LiveExtent>() as u64);
            for entry in &entries {
                builder.add(entry);
            }
            assert!(builder.found.capacity() <= 200);
            let (batch, next) = builder.finish();
            assert!(batch.len() >= 50 || next.is_none());
            found.extend(batch.iter().map(LiveExtent::location));
            walks += 1;
            match next {
                Some(next) => from = next,
                None => break,
            }
        }
        let all = entries.iter().flat_map(|entry| extents_of(entry).unwrap().2);
        let mut expected: Vec<ExtentLocation> = all.map(|extent| (extent.segment, extent.offset)).collect();
        expected.sort_unstable();
        expected.dedup();
        expected.retain(|location| *location >= (2, 700) && location.0 <= 7);
        assert_eq!(found, expected);
        assert!(walks > 5, "{walks}");
    }
}
