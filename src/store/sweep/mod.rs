//! Reading live extents in disk order: neighbours together in one piece, and each byte once. The
//! scrub reads by it, and the tier before it sends a segment.
//!
//! In order: `batch` finds the next extents, this page reads them, `references` names the records
//! that refer to them. `sealed` does all three for whole segments.
//!
//! The result is only whether an extent is good. [`extents::check`](crate::store::shared::extents)
//! finds out what is wrong with a bad one.

pub(super) mod batch;
pub(super) mod references;
pub(super) mod sealed;

use std::ops::Range;
use std::sync::Arc;

use crate::base::digest::Crc32;
use crate::base::limits::{BLOCK_BYTES, KIB, MIB, PAGE_BYTES};
use crate::format::{ExtentHeader, StoreId, page_ceil};
use crate::log::{LogError, Segment};
use crate::store::shared::extents::owner_mark;
use batch::{LiveExtent, SHARED};

/// The largest single read, in bytes, except for a descriptor.
const PIECE_BYTES: u64 = MIB;
/// Up to this many dead bytes between two extents are read along with them.
const DEAD_BETWEEN_MAX_BYTES: u64 = 16 * KIB;
/// Bytes read after the last extent of a piece for its descriptor, whose length is not known yet.
const DESCRIPTOR_USUAL_BYTES: u64 = 512;
/// A longer descriptor is not read here.
const DESCRIPTOR_MAX_BYTES: u32 = MIB as u32;

/// Reads a segment from its start to its end.
pub(in crate::store) struct Sweep {
    segment: Arc<Segment>,
    store: StoreId,
    /// The length of the file.
    len: u64,
    piece: Vec<u8>,
    /// The offset of the piece in the file.
    at: u64,
    /// Bytes read, in whole pages.
    pub(in crate::store) read_bytes: u64,
}

impl Sweep {
    pub(in crate::store) fn new(segment: Arc<Segment>, store: StoreId) -> Result<Self, LogError> {
        let len = segment.file.len()?;
        Ok(Self { segment, store, len, piece: Vec::new(), at: 0, read_bytes: 0 })
    }

    pub(in crate::store) fn segment(&self) -> u64 {
        self.segment.id
    }

    /// Whether the extent can be checked without another read, except for a long descriptor.
    pub(in crate::store) fn has_read(&self, extent: &LiveExtent) -> bool {
        extent.segment == self.segment.id
            && self.has(&(extent.offset..extent.offset.saturating_add(extent.len())))
    }

    /// Whether the first of `next` is as it was written. The others follow it on the disk; as many
    /// of them are read along as fit into `budget` bytes.
    ///
    /// # Errors
    /// Of the disk. An extent that the disk cannot read is bad, which is not an error.
    pub(in crate::store) fn is_good(&mut self, next: &[LiveExtent], budget: u64) -> Result<bool, LogError> {
        match self.check(next, budget) {
            Err(LogError::Damaged(_)) => Ok(false),
            checked => checked,
        }
    }

    fn check(&mut self, next: &[LiveExtent], budget: u64) -> Result<bool, LogError> {
        let Some(extent) =
            next.first().filter(|extent| extent.offset.saturating_add(extent.len()) <= self.len)
        else {
            return Ok(false);
        };
        if extent.len() > PIECE_BYTES {
            return self.check_large(extent);
        }
        let whole = extent.offset..extent.offset + extent.len();
        if !self.has(&whole) {
            let end = run_end(next, budget.min(PIECE_BYTES));
            // If some of that cannot be read, this extent may be.
            if self.read(whole.start..end).is_err() {
                self.read(whole.start..whole.end + DESCRIPTOR_USUAL_BYTES)?;
            }
        }
        let Some(header) = self.header(extent) else {
            return Ok(false);
        };
        let body = &self.bytes(&whole)[ExtentHeader::BYTES..];
        let (payload, table) = body.split_at(extent.payload_len as usize);
        let crcs: Vec<u32> = payload.chunks(BLOCK_BYTES as usize).map(Crc32::of).collect();
        Ok(is_payload_good(extent, &crcs, table) && self.is_descriptor_good(extent, &header)?)
    }

    /// Reads an extent piece by piece. The block table, which holds the CRCs of the pieces, comes
    /// last.
    fn check_large(&mut self, extent: &LiveExtent) -> Result<bool, LogError> {
        let payload = extent.offset + ExtentHeader::BYTES as u64;
        let end = payload + u64::from(extent.payload_len);
        let whole_end = extent.offset + extent.len();
        let mut header = None;
        let mut crcs = Vec::new();
        let mut from = payload;
        while from < end {
            let to = end.min(from + PIECE_BYTES);
            let first = if from == payload { extent.offset } else { from };
            let last = if to == end { whole_end + DESCRIPTOR_USUAL_BYTES } else { to };
            self.read(first..last)?;
            if from == payload {
                header = self.header(extent);
            }
            crcs.extend(self.bytes(&(from..to)).chunks(BLOCK_BYTES as usize).map(Crc32::of));
            from = to;
        }
        let is_good = is_payload_good(extent, &crcs, self.bytes(&(end..whole_end)));
        match header {
            Some(header) if is_good => self.is_descriptor_good(extent, &header),
            _ => Ok(false),
        }
    }

    /// The header in the piece, if it belongs to the extent.
    fn header(&self, extent: &LiveExtent) -> Option<ExtentHeader> {
        extent.header(&self.store, self.bytes(&(extent.offset..extent.offset + ExtentHeader::BYTES as u64)))
    }

    fn is_descriptor_good(&mut self, extent: &LiveExtent, header: &ExtentHeader) -> Result<bool, LogError> {
        let start = extent.offset + header.descriptor_at();
        let range = start..start + u64::from(header.descriptor_len);
        if header.descriptor_len > DESCRIPTOR_MAX_BYTES || range.end > self.len {
            return Ok(false);
        }
        if !self.has(&range) {
            self.read(range.clone())?;
        }
        let Ok(descriptor) = header.decode_descriptor(self.bytes(&range)) else { return Ok(false) };
        Ok(extent.owner == SHARED || extent.owner == owner_mark(descriptor.bucket, &descriptor.key))
    }

    /// Reads these bytes into the piece, along with the rest of their pages, up to the end of the
    /// file.
    fn read(&mut self, range: Range<u64>) -> Result<(), LogError> {
        let start = range.start - range.start % PAGE_BYTES;
        let end = page_ceil(range.end).min(self.len);
        self.at = start;
        self.piece.resize((end - start) as usize, 0);
        self.read_bytes += page_ceil(end - start);
        let read = self.segment.read_at(&mut self.piece, start);
        // A piece that was read in part would pass for bytes of the disk.
        read.inspect_err(|_| self.piece.clear())
    }

    fn has(&self, range: &Range<u64>) -> bool {
        range.start >= self.at && range.end <= self.at + self.piece.len() as u64
    }

    /// Bytes of the piece.
    fn bytes(&self, range: &Range<u64>) -> &[u8] {
        &self.piece[(range.start - self.at) as usize..(range.end - self.at) as usize]
    }
}

/// The end of the piece that begins with the first extent and includes the near ones after it, up
/// to `most` bytes.
fn run_end(next: &[LiveExtent], most: u64) -> u64 {
    let mut end = next[0].offset + next[0].len();
    for pair in next.windows(2) {
        let extent = pair[1];
        let is_near =
            extent.segment == pair[0].segment && extent.offset.saturating_sub(end) <= DEAD_BETWEEN_MAX_BYTES;
        let next_end = extent.offset.saturating_add(extent.len());
        if !is_near || next_end - next[0].offset > most {
            break;
        }
        end = end.max(next_end);
    }
    end + DESCRIPTOR_USUAL_BYTES
}

/// Whether these are the CRCs of the blocks of the extent.
pub(in crate::store) fn is_payload_good(extent: &LiveExtent, crcs: &[u32], table: &[u8]) -> bool {
    if table.is_empty() {
        return crcs.first().copied().unwrap_or_else(|| Crc32::of(&[])) == extent.check;
    }
    let is_table = crcs.iter().flat_map(|crc| crc.to_le_bytes()).eq(table.iter().copied());
    is_table && Crc32::of(table) == extent.check
}
