//! Reading live extents in the order in which they lie on the disk: those that lie side by side in one piece, each byte once.
//!
//! It is only told whether an extent is good. What is wrong with a bad one is found out by [`extents::check`](crate::store::extents).

use std::ops::Range;
use std::sync::Arc;

use super::batch::{LiveExtent, SHARED};
use crate::base::digest::Crc32;
use crate::base::limits::{BLOCK_BYTES, KIB, MIB, PAGE_BYTES};
use crate::format::{ExtentHeader, StoreId, page_ceil};
use crate::log::{LogError, Segment};
use crate::store::extents::owner_mark;

/// The most that is read at once, in bytes, but for a descriptor.
const PIECE_BYTES: u64 = MIB;
/// Dead bytes between two extents are read with them where they are no more.
const DEAD_BETWEEN_MAX_BYTES: u64 = 16 * KIB;
/// Of the last extent of a piece the length of the descriptor is not known: so much is read for it.
const DESCRIPTOR_USUAL_BYTES: u64 = 512;
/// One that is longer is not read here.
const DESCRIPTOR_MAX_BYTES: u32 = MIB as u32;

/// Reads a segment from its start to its end.
pub(super) struct Sweep {
    segment: Arc<Segment>,
    store: StoreId,
    /// The length of the file.
    len: u64,
    piece: Vec<u8>,
    /// Where in the file the piece starts.
    at: u64,
    /// What was read, in bytes of whole pages.
    pub(super) read_bytes: u64,
}

impl Sweep {
    pub(super) fn new(segment: Arc<Segment>, store: StoreId) -> Result<Self, LogError> {
        let len = segment.file.len()?;
        Ok(Self { segment, store, len, piece: Vec::new(), at: 0, read_bytes: 0 })
    }

    pub(super) fn segment(&self) -> u64 {
        self.segment.id
    }

    /// Whether checking an extent takes no reading any more, but for a long descriptor.
    pub(super) fn has_read(&self, extent: &LiveExtent) -> bool {
        extent.segment == self.segment.id
            && self.has(&(extent.offset..extent.offset.saturating_add(extent.len())))
    }

    /// Whether the first of `next` is what was written. The others come after it; as many of them are read with it as there is
    /// room for in `budget` bytes.
    ///
    /// # Errors
    /// Of the disk. What the disk cannot give back is not good, and no error.
    pub(super) fn is_good(&mut self, next: &[LiveExtent], budget: u64) -> Result<bool, LogError> {
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
            // Where some of that cannot be read, this one may be.
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

    /// Piece by piece; the block table, which says what the pieces should be, comes last.
    fn check_large(&mut self, extent: &LiveExtent) -> Result<bool, LogError> {
        let payload = extent.offset + ExtentHeader::BYTES as u64;
        let (end, whole_end) = (payload + u64::from(extent.payload_len), extent.offset + extent.len());
        let (mut header, mut crcs, mut from) = (None, Vec::new(), payload);
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

    /// The header in the piece, if it is that of the extent.
    fn header(&self, extent: &LiveExtent) -> Option<ExtentHeader> {
        let bytes = self.bytes(&(extent.offset..extent.offset + ExtentHeader::BYTES as u64));
        let header = ExtentHeader::decode(&self.store, bytes).ok()?;
        let expected = (extent.segment, extent.offset, extent.payload_len, extent.check);
        ((header.segment, header.offset, header.payload_len, header.check) == expected).then_some(header)
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
        let descriptor = header.decode_descriptor(self.bytes(&range));
        let is_owner = |bucket, key: &[u8]| extent.owner == SHARED || extent.owner == owner_mark(bucket, key);
        Ok(descriptor.is_ok_and(|descriptor| is_owner(descriptor.bucket, &descriptor.key)))
    }

    /// Makes the piece hold these bytes and all others of their pages, as far as the file has them.
    fn read(&mut self, range: Range<u64>) -> Result<(), LogError> {
        let start = range.start - range.start % PAGE_BYTES;
        let end = page_ceil(range.end).min(self.len);
        self.at = start;
        self.piece.resize((end - start) as usize, 0);
        self.read_bytes += page_ceil(end - start);
        let read = self.segment.read_at(&mut self.piece, start);
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

/// Where the piece ends that begins with the first extent and has as many of the next as are near, up to `most` bytes.
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
fn is_payload_good(extent: &LiveExtent, crcs: &[u32], table: &[u8]) -> bool {
    if table.is_empty() {
        return crcs.first().copied().unwrap_or_else(|| Crc32::of(&[])) == extent.check;
    }
    let is_table = crcs.iter().flat_map(|crc| crc.to_le_bytes()).eq(table.iter().copied());
    is_table && Crc32::of(table) == extent.check
}
