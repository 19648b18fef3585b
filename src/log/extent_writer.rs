//! Writing extents (data-format.md, section 4): small ones packed into one buffer, large ones piece by piece.

use crate::base::digest::Crc32;
use crate::base::limits::BLOCK_BYTES;
use crate::format::{Descriptor, ExtentHeader, ExtentRef, Pack, StoreId, UNIT_BYTES, unit_ceil};
use crate::log::{LogError, Place};

/// The extents of small objects that are committed together. Built before their place is known, because their length is
/// what the place is asked for; [`PackBuilder::write`] then puts segment and offset into their headers.
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

    /// Writes the pack; durable after a sync of the segment. Returns what the group says of it, and where each extent
    /// is, in the order in which they were added.
    ///
    /// # Errors
    /// Of the disk.
    pub fn write(mut self, store: &StoreId, place: &Place) -> Result<(Pack, Vec<ExtentRef>), LogError> {
        let mut refs = Vec::with_capacity(self.headers.len());
        for header in &mut self.headers {
            let at = header.offset as usize;
            header.segment = place.segment.id;
            header.offset += place.offset;
            self.bytes[at..at + ExtentHeader::BYTES].copy_from_slice(&header.encode(store));
            refs.push(header.to_ref());
        }
        place.segment.file.write_all_at(&self.bytes, place.offset)?;
        let pack = Pack {
            segment: place.segment.id,
            offset: place.offset,
            len: self.bytes.len() as u32,
            crc: Crc32::of(&self.bytes),
        };
        Ok((pack, refs))
    }
}

/// An extent that is written while its payload arrives.
pub struct StreamExtent {
    place: Place,
    capacity: u64,
    payload_len: u64,
    block: Crc32,
    block_len: u64,
    block_crcs: Vec<u32>,
}

impl StreamExtent {
    /// The room that an extent of `payload_len` bytes may need, with a descriptor of `descriptor_len`.
    pub fn room_for(payload_len: u64, descriptor_len: u64) -> u64 {
        UNIT_BYTES + payload_len + ExtentHeader::table_len(payload_len) + descriptor_len
    }

    /// An extent at `place`, which has room for a payload of `capacity` bytes.
    pub fn new(place: Place, capacity: u64) -> Self {
        let block_crcs = Vec::with_capacity(capacity.div_ceil(BLOCK_BYTES) as usize);
        Self { place, capacity, payload_len: 0, block: Crc32::new(), block_len: 0, block_crcs }
    }

    /// Bytes of payload that still fit.
    pub fn room(&self) -> u64 {
        self.capacity - self.payload_len
    }

    /// Writes the next bytes of the payload; at most as many as fit.
    ///
    /// # Errors
    /// Of the disk.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), LogError> {
        debug_assert!(bytes.len() as u64 <= self.room(), "the caller asks for room first");
        let offset = self.place.offset + UNIT_BYTES + self.payload_len;
        self.place.segment.file.write_all_at(bytes, offset)?;
        self.payload_len += bytes.len() as u64;
        self.take_crcs(bytes);
        Ok(())
    }

    fn take_crcs(&mut self, mut bytes: &[u8]) {
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

    /// The CRC of the payload so far, put together from those of its blocks.
    pub fn payload_crc(&self) -> u32 {
        let blocks = self.block_crcs.iter().fold(0, |crc, block| Crc32::combine(crc, *block, BLOCK_BYTES));
        Crc32::combine(blocks, self.block.value(), self.block_len)
    }

    /// Writes block table, descriptor and, last, the header. Durable after a sync of the segment. Returns the reference to
    /// the extent, and its place.
    ///
    /// # Errors
    /// Of the disk.
    pub fn finish(
        mut self,
        store: &StoreId,
        descriptor: &Descriptor,
    ) -> Result<(ExtentRef, Place), LogError> {
        if self.block_len > 0 || self.block_crcs.is_empty() {
            self.close_block();
        }
        let mut tail = Vec::new();
        let check = if self.payload_len <= BLOCK_BYTES {
            self.block_crcs[0]
        } else {
            self.block_crcs.iter().for_each(|crc| tail.extend_from_slice(&crc.to_le_bytes()));
            Crc32::of(&tail)
        };
        let descriptor = descriptor.encode();
        tail.extend_from_slice(&descriptor);
        let header = ExtentHeader {
            segment: self.place.segment.id,
            offset: self.place.offset,
            payload_len: self.payload_len as u32,
            descriptor_len: descriptor.len() as u32,
            check,
            descriptor_crc: Crc32::of(&descriptor),
        };
        let file = &self.place.segment.file;
        file.write_all_at(&tail, self.place.offset + UNIT_BYTES + self.payload_len)?;
        file.write_all_at(&header.encode(store), self.place.offset)?;
        Ok((header.to_ref(), self.place))
    }
}
