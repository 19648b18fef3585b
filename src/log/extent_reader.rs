//! Reading payloads. Every byte is verified before the caller gets it.

use std::ops::Range;
use std::sync::Arc;

use crate::base::digest::Crc32;
use crate::base::limits::{BLOCK_BYTES, KIB};
use crate::format::{ExtentHeader, ExtentRef, UNIT_BYTES};
use crate::fs::ReadAhead;
use crate::log::{LogError, Segment};

/// Bytes beyond the wanted ones that are worth less than another request to another host.
const TABLE_NEAR_BYTES: u64 = 256 * KIB;

/// Reads the payload of one extent, whole blocks at a time.
pub struct ExtentReader {
    segment: Arc<Segment>,
    extent: ExtentRef,
    /// The verified CRCs of the blocks; empty before the first read.
    table: Vec<u32>,
    /// The number of the block in `scratch`.
    block: Option<u64>,
    scratch: Vec<u8>,
    /// Keeps bytes coming.
    ahead: ReadAhead,
}

impl ExtentReader {
    /// A reader of the payload of `extent`, which lies in `segment`.
    pub fn new(segment: Arc<Segment>, extent: ExtentRef) -> Self {
        Self { segment, extent, table: Vec::new(), block: None, scratch: Vec::new(), ahead: None }
    }

    /// Says that the payload from `position` to `end` will be read. The block table comes along if
    /// it is elsewhere and near.
    ///
    /// # Errors
    /// As of [`ExtentReader::read`], where the bytes are elsewhere.
    pub fn will_read(&mut self, position: u64, end: u64) -> Result<(), LogError> {
        self.read_table_aside();
        let payload = self.extent.offset + UNIT_BYTES;
        let payload_len = u64::from(self.extent.payload_len);
        let table_end = payload + payload_len + ExtentHeader::table_len(payload_len);
        // Whole blocks are verified.
        let first = position - position % BLOCK_BYTES;
        let end = end.next_multiple_of(BLOCK_BYTES).min(payload_len);
        let wanted = payload + first..payload + end;
        let is_near = self.table.is_empty() && table_end - wanted.end <= TABLE_NEAR_BYTES;
        let range = wanted.start..if is_near { table_end } else { wanted.end };
        self.ahead = self.segment.will_read(range)?;
        Ok(())
    }

    /// Whether bytes were asked for elsewhere.
    pub fn is_coming(&self) -> bool {
        self.ahead.is_some()
    }

    /// Reads payload bytes from `position` on into `buf`, at most up to `end`, and returns their
    /// number: at least one if `position` is before `end`. Whole blocks that fit are read at once,
    /// straight into `buf`.
    ///
    /// # Errors
    /// [`LogError::Damaged`] when a block does not match its CRC; the bytes in `buf` must not be
    /// used then.
    pub fn read(&mut self, position: u64, end: u64, buf: &mut [u8]) -> Result<usize, LogError> {
        let end = end.min(self.extent.payload_len.into());
        if position >= end || buf.is_empty() {
            return Ok(0);
        }
        let whole = self.whole_blocks(position, end, buf.len());
        if whole > 0 {
            self.read_blocks(position, &mut buf[..whole])?;
            return Ok(whole);
        }
        let block = position / BLOCK_BYTES;
        self.load(block)?;
        let from = (position % BLOCK_BYTES) as usize;
        let to = self.scratch.len().min((end - block * BLOCK_BYTES) as usize);
        let len = (to - from).min(buf.len());
        buf[..len].copy_from_slice(&self.scratch[from..from + len]);
        Ok(len)
    }

    /// Damage of the payload at `position`, which its blocks do not show.
    pub fn damage_at(&self, position: u64, what: &str) -> LogError {
        self.segment.damage(self.extent.offset + UNIT_BYTES + position, what).into()
    }

    /// The verified block table as it is on disk; empty for a payload of one block.
    ///
    /// # Errors
    /// [`LogError::Damaged`] when it does not match its CRC.
    pub fn table_bytes(&mut self) -> Result<Vec<u8>, LogError> {
        self.read_table()?;
        let len = ExtentHeader::table_len(self.extent.payload_len.into()) as usize;
        Ok(self.table.iter().flat_map(|crc| crc.to_le_bytes()).take(len).collect())
    }

    /// Bytes of the whole blocks from `position` on that are wanted and fit into `room`.
    fn whole_blocks(&self, position: u64, end: u64, room: usize) -> usize {
        if !position.is_multiple_of(BLOCK_BYTES) {
            return 0;
        }
        let wanted = (end - position).min(room as u64);
        let reaches_end = position + wanted == u64::from(self.extent.payload_len);
        if reaches_end { wanted as usize } else { (wanted - wanted % BLOCK_BYTES) as usize }
    }

    fn load(&mut self, block: u64) -> Result<(), LogError> {
        if self.block != Some(block) {
            // Until it is read and verified, the scratch buffer holds no block.
            self.block = None;
            let start = block * BLOCK_BYTES;
            let len = BLOCK_BYTES.min(u64::from(self.extent.payload_len) - start) as usize;
            let mut scratch = std::mem::take(&mut self.scratch);
            scratch.resize(len, 0);
            self.read_blocks(start, &mut scratch)?;
            self.scratch = scratch;
            self.block = Some(block);
        }
        Ok(())
    }

    fn read_blocks(&mut self, position: u64, out: &mut [u8]) -> Result<(), LogError> {
        self.read_table()?;
        let offset = self.extent.offset + UNIT_BYTES + position;
        let is_read = match self.segment.read_at(out, offset) {
            // Some of the bytes can be read, maybe.
            Err(LogError::Damaged(_)) => false,
            read => read.map(|()| true)?,
        };
        let first = (position / BLOCK_BYTES) as usize;
        for (at, block) in out.chunks_mut(BLOCK_BYTES as usize).enumerate() {
            let place = offset + at as u64 * BLOCK_BYTES;
            let expected = self.table[first + at];
            let check = |block: &[u8]| self.check_block(block, place, expected);
            if !is_read {
                self.segment.read_checked(block, place, check)?;
                continue;
            }
            match check(block) {
                Err(LogError::Damaged(damage)) => self.segment.read_copy(block, place, damage, check)?,
                checked => checked?,
            }
        }
        Ok(())
    }

    fn check_block(&self, block: &[u8], place: u64, expected: u32) -> Result<(), LogError> {
        let found = Crc32::of(block);
        if found == expected {
            return Ok(());
        }
        let what = format!("the block has CRC {found:08x} and not {expected:08x}");
        Err(self.segment.damage(place, what).into())
    }

    /// Reads the block table. For a payload of one block the reference carries the only CRC.
    fn read_table(&mut self) -> Result<(), LogError> {
        if !self.table.is_empty() {
            return Ok(());
        }
        let Some(range) = self.table_range() else {
            self.table = vec![self.extent.check];
            return Ok(());
        };
        let offset = range.start;
        let mut bytes = vec![0; (range.end - range.start) as usize];
        self.segment.read_checked(&mut bytes, offset, |bytes| {
            match Crc32::of(bytes) == self.extent.check {
                true => Ok(()),
                false => Err(self.segment.damage(offset, "the block table does not match its CRC").into()),
            }
        })?;
        // Kept beside the segment only once it has been verified.
        if let Some(elsewhere) = self.segment.file.elsewhere() {
            elsewhere.keep_aside(&bytes, offset);
        }
        self.set_table(&bytes);
        Ok(())
    }

    /// Takes the block table that is kept aside, if it is the right one.
    fn read_table_aside(&mut self) {
        let Some(range) = self.table_range().filter(|_| self.table.is_empty()) else { return };
        let aside = self.segment.file.elsewhere().and_then(|elsewhere| elsewhere.read_aside(range));
        if let Some(bytes) = aside.filter(|bytes| Crc32::of(bytes) == self.extent.check) {
            self.set_table(&bytes);
        }
    }

    /// The block table in the segment; `None` for a payload of one block, which has none.
    fn table_range(&self) -> Option<Range<u64>> {
        let payload_len = u64::from(self.extent.payload_len);
        let start = self.extent.offset + UNIT_BYTES + payload_len;
        let len = ExtentHeader::table_len(payload_len);
        (len > 0).then_some(start..start + len)
    }

    fn set_table(&mut self, bytes: &[u8]) {
        let crcs = bytes.chunks_exact(4).map(|crc| u32::from_le_bytes(crc.try_into().expect("chunks of 4")));
        self.table = crcs.collect();
    }
}
