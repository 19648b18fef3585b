//! Writing extents (data-format.md, section 4): small ones packed into one buffer, large ones in
//! pieces.

use crate::base::digest::Crc32;
use crate::base::limits::{BLOCK_BYTES, KIB, PAGE_BYTES};
use crate::format::{Descriptor, ExtentHeader, ExtentRef, Pack, StoreId, UNIT_BYTES, unit_ceil};
use crate::log::{Allocation, LogError};

/// Writeback of received bytes is started in steps of this size. If all of it were left to the
/// sync, disk and processor would wait for each other, and concurrent uploads would all wait for
/// the same disk.
const WRITEBACK_STEP_BYTES: u64 = 512 * KIB;

/// The extents of small objects that are committed together. The pack is built before its space is
/// allocated, because the allocation needs its length. [`PackBuilder::write`] then puts segment and
/// offset into the headers.
#[derive(Default)]
pub struct PackBuilder {
    bytes: Vec<u8>,
    headers: Vec<ExtentHeader>,
}

impl PackBuilder {
    /// An empty pack, with memory for so many bytes.
    pub fn with_capacity(bytes: usize) -> Self {
        Self { bytes: Vec::with_capacity(bytes), headers: Vec::new() }
    }

    /// Bytes so far.
    pub fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Whether nothing has been added.
    pub fn is_empty(&self) -> bool {
        self.headers.is_empty()
    }

    /// Adds an extent with a payload of at most one block.
    pub fn push(&mut self, payload: &[u8], payload_crc: u32, descriptor: &Descriptor) {
        debug_assert!(payload.len() as u64 <= BLOCK_BYTES, "a larger payload has a block table");
        let descriptor = descriptor.encode();
        self.headers.push(ExtentHeader {
            segment: 0,
            offset: self.len(),
            payload_len: payload.len() as u32,
            descriptor_len: descriptor.len() as u32,
            check: payload_crc,
            descriptor_crc: Crc32::of(&descriptor),
        });
        self.bytes.extend_from_slice(&[0; ExtentHeader::BYTES]);
        self.bytes.extend_from_slice(payload);
        self.bytes.extend_from_slice(&descriptor);
        self.bytes.resize(unit_ceil(self.len()) as usize, 0);
    }

    /// Writes the pack; durable after a sync of the segment. Returns the pack's fields in the group
    /// header, and the references to the extents in the order in which they were added.
    ///
    /// # Errors
    /// Of the disk.
    pub fn write(
        mut self,
        store: &StoreId,
        allocation: &Allocation,
    ) -> Result<(Pack, Vec<ExtentRef>), LogError> {
        let mut refs = Vec::with_capacity(self.headers.len());
        for header in &mut self.headers {
            let at = header.offset as usize;
            header.segment = allocation.segment.id;
            header.offset += allocation.offset;
            self.bytes[at..at + ExtentHeader::BYTES].copy_from_slice(&header.encode(store));
            refs.push(header.to_ref());
        }
        allocation.segment.file.write_all_at(&self.bytes, allocation.offset)?;
        let pack = Pack {
            segment: allocation.segment.id,
            offset: allocation.offset,
            len: self.bytes.len() as u32,
            crc: Crc32::of(&self.bytes),
        };
        Ok((pack, refs))
    }
}

/// An extent that is written while its payload arrives.
pub struct StreamExtent {
    allocation: Allocation,
    capacity: u64,
    payload_len: u64,
    block: Crc32,
    block_len: u64,
    block_crcs: Vec<u32>,
    /// The offset in the file of the first byte without writeback.
    dirty_from: u64,
}

impl StreamExtent {
    /// The bytes that an extent needs for a payload of `payload_len` bytes and a descriptor of
    /// `descriptor_len`.
    pub fn space_for(payload_len: u64, descriptor_len: u64) -> u64 {
        UNIT_BYTES + payload_len + ExtentHeader::table_len(payload_len) + descriptor_len
    }

    /// An extent at `allocation`, which has space for a payload of `capacity` bytes.
    pub fn new(allocation: Allocation, capacity: u64) -> Self {
        let block_crcs = Vec::with_capacity(capacity.div_ceil(BLOCK_BYTES) as usize);
        // The first page is rewritten with the header.
        let dirty_from = allocation.offset + PAGE_BYTES;
        Self {
            allocation,
            capacity,
            payload_len: 0,
            block: Crc32::new(),
            block_len: 0,
            block_crcs,
            dirty_from,
        }
    }

    /// Bytes of payload that still fit.
    pub fn remaining(&self) -> u64 {
        self.capacity - self.payload_len
    }

    /// Writes the next bytes of the payload; at most as many as fit.
    ///
    /// # Errors
    /// Of the disk.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), LogError> {
        debug_assert!(bytes.len() as u64 <= self.remaining(), "the caller checks the remaining space first");
        let offset = self.allocation.offset + UNIT_BYTES + self.payload_len;
        self.allocation.segment.file.write_all_at(bytes, offset)?;
        let steps = self.payload_len / WRITEBACK_STEP_BYTES;
        self.payload_len += bytes.len() as u64;
        self.update_crcs(bytes);
        if self.payload_len / WRITEBACK_STEP_BYTES > steps { self.start_writeback() } else { Ok(()) }
    }

    /// The last page is left out: more bytes of it may arrive.
    fn start_writeback(&mut self) -> Result<(), LogError> {
        let end = self.allocation.offset + UNIT_BYTES + self.payload_len;
        let whole = end - end % PAGE_BYTES - self.dirty_from;
        self.allocation.segment.file.start_writeback(self.dirty_from, whole)?;
        self.dirty_from += whole;
        Ok(())
    }

    fn update_crcs(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let (head, tail) = bytes.split_at(bytes.len().min((BLOCK_BYTES - self.block_len) as usize));
            self.block.update(head);
            self.block_len += head.len() as u64;
            bytes = tail;
            if self.block_len == BLOCK_BYTES {
                self.close_block();
            }
        }
    }

    fn close_block(&mut self) {
        self.block_crcs.push(std::mem::take(&mut self.block).value());
        self.block_len = 0;
    }

    /// Bytes of payload so far.
    pub fn payload_len(&self) -> u64 {
        self.payload_len
    }

    /// The CRC of the payload so far, combined from the CRCs of its blocks.
    pub fn payload_crc(&self) -> u32 {
        let blocks = self.block_crcs.iter().fold(0, |crc, block| Crc32::combine(crc, *block, BLOCK_BYTES));
        Crc32::combine(blocks, self.block.value(), self.block_len)
    }

    /// Writes the block table, the descriptor and, last, the header. Durable after a sync of the
    /// segment. Returns the reference to the extent, and its allocation.
    ///
    /// # Errors
    /// Of the disk.
    pub fn finish(
        mut self,
        store: &StoreId,
        descriptor: &Descriptor,
    ) -> Result<(ExtentRef, Allocation), LogError> {
        // An empty payload has one block, too: its CRC is that of no bytes.
        if self.block_len > 0 || self.block_crcs.is_empty() {
            self.close_block();
        }
        let mut tail = Vec::new();
        let check = if self.payload_len <= BLOCK_BYTES {
            self.block_crcs[0]
        } else {
            for crc in &self.block_crcs {
                tail.extend_from_slice(&crc.to_le_bytes());
            }
            Crc32::of(&tail)
        };
        let descriptor = descriptor.encode();
        tail.extend_from_slice(&descriptor);
        let header = ExtentHeader {
            segment: self.allocation.segment.id,
            offset: self.allocation.offset,
            payload_len: self.payload_len as u32,
            descriptor_len: descriptor.len() as u32,
            check,
            descriptor_crc: Crc32::of(&descriptor),
        };
        let file = &self.allocation.segment.file;
        // The header goes last: without one the bytes of an upload that was cut off are no extent.
        file.write_all_at(&tail, self.allocation.offset + UNIT_BYTES + self.payload_len)?;
        file.write_all_at(&header.encode(store), self.allocation.offset)?;
        Ok((header.to_ref(), self.allocation))
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;
    use std::sync::Arc;

    use super::*;
    use crate::base::SystemClock;
    use crate::base::limits::MIB;
    use crate::format::FileKind;
    use crate::fs::Fs as _;
    use crate::fs::sim::{OpKind, SimFs};
    use crate::log::{SegmentOptions, Segments, WriteHead};

    const STORE: StoreId = StoreId([7; 16]);

    /// The ranges whose writeback starts while a payload of `len` bytes arrives in pieces, each
    /// with the length of the file then.
    fn written_back(len: usize, piece: usize) -> Vec<(Range<u64>, u64)> {
        let fs = SimFs::new();
        fs.create_dir(FileKind::Segment.dir()).unwrap();
        let sizes = SegmentOptions { segment_max_bytes: 64 * MIB, keep_free_bytes: 0, open_max: 8 };
        let segments =
            Segments::open(Arc::new(fs.clone()), Arc::new(fs.clone()), Arc::new(SystemClock), STORE, sizes)
                .unwrap();
        let allocation = segments.allocate(WriteHead::Large, StreamExtent::space_for(len as u64, 0)).unwrap();
        let mut extent = StreamExtent::new(allocation, len as u64);
        let mut found = Vec::new();
        for bytes in vec![1; len].chunks(piece) {
            let before = fs.trace().len();
            extent.write(bytes).unwrap();
            let asked = fs.trace().into_iter().skip(before).filter(|op| op.kind == OpKind::Writeback);
            let end = extent.allocation.segment.file.len().unwrap();
            found.extend(asked.map(|op| (op.offset..op.offset + op.len, end)));
        }
        found
    }

    #[test]
    fn writeback_starts_during_the_upload_and_once_for_each_page() {
        let found = written_back(5 * MIB as usize / 2, 100_000);
        assert_eq!(found.len(), 5, "{found:?}");
        let mut from = 2 * PAGE_BYTES;
        for (range, end) in found {
            assert_eq!(range.start, from, "behind the pages of the segment's header and of the extent's");
            assert!(
                range.end.is_multiple_of(PAGE_BYTES) && (range.end..range.end + PAGE_BYTES).contains(&end)
            );
            from = range.end;
        }
    }

    #[test]
    fn bytes_below_one_step_are_left_to_the_sync() {
        assert_eq!(written_back(WRITEBACK_STEP_BYTES as usize - 1, 100_000), []);
        assert_eq!(written_back(WRITEBACK_STEP_BYTES as usize, 100_000).len(), 1);
    }
}
