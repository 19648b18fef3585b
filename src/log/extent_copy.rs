//! Copying extents as they are: payload, block table, `check` and descriptor stay the same to the
//! last bit. In the header only the segment, the offset and the CRC change. So the checksums that
//! an object arrived with cover it for good.

use std::collections::{HashMap, HashSet};

use crate::base::digest::Crc32;
use crate::base::limits::{KIB, MIB};
use crate::format::{ExtentHeader, ExtentRef, StoreId, UNIT_BYTES, unit_ceil};
use crate::log::{Allocation, ExtentReader, LogError, Segments, WriteHead};

/// Extents up to this size are gathered and written together; a larger one gets pages of its own.
const GATHERED_MAX_BYTES: u64 = 256 * KIB;
/// The buffer for copying a larger extent.
const BUFFER_BYTES: usize = MIB as usize;

/// Where an extent starts: segment and offset.
pub type ExtentLocation = (u64, u64);

/// Why an extent was not copied.
#[derive(Debug)]
pub enum CopyError {
    /// The extent is unreadable or damaged. It should stay where it is.
    Source(LogError),
    /// The copy cannot be written.
    Target(LogError),
}

/// Extents that have been copied. The copies are durable.
#[derive(Default)]
pub struct CopiedExtents {
    /// The old and new location of each.
    pub locations: HashMap<ExtentLocation, ExtentLocation>,
    /// Bytes of the copies.
    pub bytes: u64,
    /// Protect the copies until records refer to them.
    pub allocations: Vec<Allocation>,
}

/// Copies extents to the relocation head.
pub struct ExtentCopier<'a> {
    segments: &'a Segments,
    store: StoreId,
    gather_bytes: usize,
    /// Gathered extents, not allocated yet.
    gathered: Vec<u8>,
    /// The old location of each, and its header; the offset in the header is the one in the buffer.
    headers: Vec<(ExtentLocation, ExtentHeader)>,
    seen: HashSet<ExtentLocation>,
    copied: CopiedExtents,
}

impl<'a> ExtentCopier<'a> {
    /// A copier without copies.
    pub fn new(segments: &'a Segments, store: StoreId) -> Self {
        let gathered = Vec::new();
        let headers = Vec::new();
        let seen = HashSet::new();
        let gather_bytes = Self::gather_bytes(segments.max_bytes()) as usize;
        Self { segments, store, gather_bytes, gathered, headers, seen, copied: CopiedExtents::default() }
    }

    /// The size of the gather buffer for segments of `segment_max_bytes`, both in bytes. Up to this
    /// much space at the end of a segment stays unused, as with any extent that does not fit. In
    /// smaller segments one buffer fills the segment.
    pub fn gather_bytes(segment_max_bytes: u64) -> u64 {
        if segment_max_bytes < MIB { MIB } else { (segment_max_bytes / 8).min(MIB) }
    }

    /// Bytes copied so far.
    pub fn bytes(&self) -> u64 {
        self.copied.bytes
    }

    /// Copies an extent and verifies all of it. An extent that was copied before is skipped.
    ///
    /// # Errors
    /// After [`CopyError::Source`] other extents can still be copied; the partial copy of this one
    /// is ignored.
    pub fn copy(&mut self, extent: &ExtentRef) -> Result<(), CopyError> {
        let from = (extent.segment, extent.offset);
        if !self.seen.insert(from) {
            return Ok(());
        }
        let mut original =
            SourceExtent::open(self.segments, &self.store, extent).map_err(CopyError::Source)?;
        if original.header.extent_len() <= GATHERED_MAX_BYTES {
            self.gather(from, &mut original)?;
        } else {
            self.copy_large(from, &mut original)?;
        }
        self.copied.bytes += original.header.extent_len();
        Ok(())
    }

    /// Makes the copies durable.
    ///
    /// # Errors
    /// [`LogError::DiskFull`], and others of the disk: none of the copies may be used then.
    pub fn finish(mut self) -> Result<CopiedExtents, LogError> {
        self.write_gathered()?;
        let mut synced: Vec<u64> = Vec::new();
        // Each segment once, after all of its copies: no record refers to one of them before this
        // returns.
        for Allocation { segment, .. } in &self.copied.allocations {
            if !synced.contains(&segment.id) {
                segment.file.sync_data()?;
                synced.push(segment.id);
            }
        }
        Ok(self.copied)
    }

    fn gather(&mut self, from: ExtentLocation, original: &mut SourceExtent) -> Result<(), CopyError> {
        if self.gathered.len() + original.header.extent_len() as usize > self.gather_bytes {
            self.write_gathered().map_err(CopyError::Target)?;
        }
        let start = self.gathered.len();
        let payload_at = start + ExtentHeader::BYTES;
        self.gathered.resize(payload_at + original.header.payload_len as usize, 0);
        let read = original.read(0, &mut self.gathered[payload_at..]).and_then(|()| original.tail());
        match read {
            Ok(tail) => self.gathered.extend_from_slice(&tail),
            Err(error) => {
                self.gathered.truncate(start);
                return Err(CopyError::Source(error));
            }
        }
        // Extents begin at units, so that a scan of a damaged segment finds the next one.
        self.gathered.resize(unit_ceil(self.gathered.len() as u64) as usize, 0);
        self.headers.push((from, ExtentHeader { offset: start as u64, ..original.header }));
        Ok(())
    }

    fn write_gathered(&mut self) -> Result<(), LogError> {
        if self.headers.is_empty() {
            return Ok(());
        }
        let allocation = self.segments.allocate(WriteHead::Relocation, self.gathered.len() as u64)?;
        for (from, header) in self.headers.drain(..) {
            let at = header.offset as usize;
            let moved = ExtentHeader {
                segment: allocation.segment.id,
                offset: allocation.offset + header.offset,
                ..header
            };
            self.gathered[at..at + ExtentHeader::BYTES].copy_from_slice(&moved.encode(&self.store));
            self.copied.locations.insert(from, (moved.segment, moved.offset));
        }
        allocation.segment.file.write_all_at(&self.gathered, allocation.offset)?;
        self.gathered.clear();
        self.copied.allocations.push(allocation);
        Ok(())
    }

    /// Writes the header last: the partial copy of a damaged extent must not be an extent.
    fn copy_large(&mut self, from: ExtentLocation, original: &mut SourceExtent) -> Result<(), CopyError> {
        let tail = original.tail().map_err(CopyError::Source)?;
        let allocation = self
            .segments
            .allocate(WriteHead::Relocation, original.header.extent_len())
            .map_err(CopyError::Target)?;
        let write = |bytes: &[u8], at: u64| {
            let written = allocation.segment.file.write_all_at(bytes, allocation.offset + at);
            written.map_err(|error| CopyError::Target(error.into()))
        };
        let payload_len = u64::from(original.header.payload_len);
        let mut buffer = vec![0; BUFFER_BYTES.min(payload_len as usize)];
        let mut position = 0;
        while position < payload_len {
            let len = (buffer.len() as u64).min(payload_len - position) as usize;
            original.read(position, &mut buffer[..len]).map_err(CopyError::Source)?;
            write(&buffer[..len], UNIT_BYTES + position)?;
            position += len as u64;
        }
        write(&tail, UNIT_BYTES + payload_len)?;
        let moved =
            ExtentHeader { segment: allocation.segment.id, offset: allocation.offset, ..original.header };
        write(&moved.encode(&self.store), 0)?;
        self.copied.locations.insert(from, (moved.segment, moved.offset));
        self.copied.allocations.push(allocation);
        Ok(())
    }
}

/// The extent that is being copied.
struct SourceExtent {
    header: ExtentHeader,
    reader: ExtentReader,
    descriptor: Vec<u8>,
}

impl SourceExtent {
    fn open(segments: &Segments, store: &StoreId, extent: &ExtentRef) -> Result<Self, LogError> {
        let segment = segments.get(extent.segment)?;
        let header = segment.extent(store, extent.offset)?;
        if (header.payload_len, header.check) != (extent.payload_len, extent.check) {
            return Err(segment.damage(extent.offset, "the record refers to another extent").into());
        }
        let descriptor = segment.descriptor_bytes(&header)?;
        if Crc32::of(&descriptor) != header.descriptor_crc {
            let at = header.offset + header.descriptor_at();
            return Err(segment.damage(at, "the descriptor does not match its CRC").into());
        }
        Ok(Self { header, reader: ExtentReader::new(segment, header.to_ref()), descriptor })
    }

    /// Fills `out` with verified bytes: whole blocks, or up to the end of the payload.
    fn read(&mut self, position: u64, out: &mut [u8]) -> Result<(), LogError> {
        let mut done = 0;
        while done < out.len() {
            let at = position + done as u64;
            done += self.reader.read(at, self.header.payload_len.into(), &mut out[done..])?;
        }
        Ok(())
    }

    /// The block table and the descriptor.
    fn tail(&mut self) -> Result<Vec<u8>, LogError> {
        let mut tail = self.reader.table_bytes()?;
        tail.extend_from_slice(&self.descriptor);
        Ok(tail)
    }
}
