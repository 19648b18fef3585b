//! Reading objects.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use crate::base::limits::BLOCK_BYTES;
use crate::crypto::{DataKey, PackageCipher, SALT_BYTES};
use crate::format::{EncryptedRun, ExtentPackages, ExtentRef, PACKAGE_PLAIN_BYTES, RunCursor};
use crate::log::{ExtentReader, LogError, SegmentPins};
use crate::store::StoreError;
use crate::store::shared::SharedStore;

/// The extents of a version or part, and what decrypts them.
pub(in crate::store) struct EncodedBytes<'e> {
    pub(in crate::store) extents: &'e [ExtentRef],
    /// The runs of encrypted bytes.
    pub(in crate::store) runs: Option<&'e [EncryptedRun]>,
    /// The keys that the runs name by their numbers.
    pub(in crate::store) keys: Vec<DataKey>,
}

/// The range of an extent that is to be read.
struct ExtentRange {
    extent: ExtentRef,
    /// The next byte of the payload; of an encrypted one the next plain byte.
    position: u64,
    /// The end of the range in the payload, likewise.
    end: u64,
}

/// Decrypts packages, one at a time.
#[derive(Default)]
struct Decryptor {
    keys: Vec<DataKey>,
    /// The cipher of the last write, and what made it.
    cipher: Option<(u32, [u8; SALT_BYTES], PackageCipher)>,
    /// The plain bytes of a package of the first range, which starts at this plain byte.
    start: Option<u64>,
    /// The package, decrypted, with its tag.
    block: Vec<u8>,
}

/// Reads a range of the bytes of a version in order. It verifies all bytes before it returns them.
pub struct ObjectReader {
    shared: Arc<SharedStore>,
    ranges: VecDeque<ExtentRange>,
    /// The packages of each range of encrypted bytes; empty of bytes in the clear.
    packages: VecDeque<ExtentPackages>,
    /// The reader of the first range; at the end the last one's, which may hold bytes that
    /// are still to be kept.
    current: Option<ExtentReader>,
    decryptor: Decryptor,
    /// Keeps all segments until the end, since they are opened one after the other.
    _pins: SegmentPins,
}

impl ObjectReader {
    /// A reader of a range of the bytes in `extents`, which `pins` keep.
    pub(in crate::store) fn open(
        shared: Arc<SharedStore>,
        source: EncodedBytes<'_>,
        range: Range<u64>,
        pins: SegmentPins,
    ) -> Result<Self, StoreError> {
        let mut ranges = VecDeque::new();
        let mut all_packages = VecDeque::new();
        let mut start = 0;
        let mut cursor = source.runs.map(RunCursor::new);
        for extent in source.extents {
            // The cursor goes through all extents, also those before the range: packages are
            // numbered from the start of their write.
            let packages = match cursor.as_mut().filter(|_| extent.take > 0) {
                None => None,
                Some(cursor) => Some(packages_of(&shared, cursor, extent)?),
            };
            let end = start + u64::from(extent.take);
            let from = range.start.max(start);
            let to = range.end.min(end);
            if from < to {
                let skip = u64::from(extent.skip);
                ranges.push_back(ExtentRange {
                    extent: *extent,
                    position: skip + from - start,
                    end: skip + to - start,
                });
                all_packages.extend(packages);
            }
            start = end;
        }
        let decryptor = Decryptor { keys: source.keys, ..Decryptor::default() };
        let packages = all_packages;
        let mut reader = Self { shared, ranges, packages, current: None, decryptor, _pins: pins };
        reader.open_first()?;
        Ok(reader)
    }

    /// Fills `buf` with the next bytes and returns their number; fewer than its length, or 0, at
    /// the end. A `buf` of whole blocks saves a copy.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`]: the content of `buf` must not be used.
    pub fn read(&mut self, buf: &mut [u8]) -> Result<usize, StoreError> {
        let mut filled = 0;
        while filled < buf.len() && !self.ranges.is_empty() {
            filled += self.read_some(&mut buf[filled..])?;
        }
        Ok(filled)
    }

    /// Whether the next bytes come from another host.
    pub fn is_coming(&self) -> bool {
        self.current.as_ref().is_some_and(ExtentReader::is_coming)
    }

    fn read_some(&mut self, buf: &mut [u8]) -> Result<usize, StoreError> {
        let (Some(range), Some(reader)) = (self.ranges.front_mut(), self.current.as_mut()) else {
            return Ok(0);
        };
        let read = match self.packages.front() {
            None => reader.read(range.position, range.end, buf),
            Some(packages) => self.decryptor.read(reader, range, *packages, buf),
        };
        let len = read.map_err(|error| self.shared.failed(error))?;
        range.position += len as u64;
        if range.position == range.end {
            self.ranges.pop_front();
            self.packages.pop_front();
            self.open_first()?;
        }
        Ok(len)
    }

    fn open_first(&mut self) -> Result<(), StoreError> {
        let Some(range) = self.ranges.front() else { return Ok(()) };
        let segment = self.shared.segments.get(range.extent.segment);
        let segment = segment.map_err(|error| self.shared.failed(error))?;
        let mut reader = ExtentReader::new(segment, range.extent);
        let told = match self.packages.front() {
            None => reader.will_read(range.position, range.end),
            Some(_) => reader.will_read(block_of(range.position), block_of(range.end - 1) + BLOCK_BYTES),
        };
        told.map_err(|error| self.shared.failed(error))?;
        self.current = Some(reader);
        self.decryptor.start = None;
        Ok(())
    }
}

/// The block with the package of a plain byte, as an offset in the payload.
fn block_of(position: u64) -> u64 {
    position / PACKAGE_PLAIN_BYTES * BLOCK_BYTES
}

/// The stored bytes of the package that starts at a plain byte.
fn stored_len(range: &ExtentRange, start: u64) -> usize {
    u64::from(range.extent.payload_len).saturating_sub(block_of(start)).min(BLOCK_BYTES) as usize
}

fn packages_of(
    shared: &SharedStore,
    cursor: &mut RunCursor<'_>,
    extent: &ExtentRef,
) -> Result<ExtentPackages, StoreError> {
    if let Some(packages) = cursor.next(extent) {
        return Ok(packages);
    }
    let segment = shared.segments.get(extent.segment).map_err(|error| shared.failed(error))?;
    let damage = segment.damage(extent.offset, "the record names other packages than its extents have");
    Err(shared.failed(damage.into()))
}

impl Decryptor {
    /// Reads plain bytes of one package into `buf`, and returns their number.
    fn read(
        &mut self,
        reader: &mut ExtentReader,
        range: &ExtentRange,
        packages: ExtentPackages,
        buf: &mut [u8],
    ) -> Result<usize, LogError> {
        let start = range.position - range.position % PACKAGE_PLAIN_BYTES;
        let stored = stored_len(range, start);
        let is_wanted_whole = range.position == start && range.end >= start + PACKAGE_PLAIN_BYTES;
        if is_wanted_whole && self.start != Some(start) && buf.len() >= stored {
            return self.open(reader, packages, start, &mut buf[..stored]);
        }
        if self.start != Some(start) {
            self.load(reader, packages, start, stored)?;
        }
        let from = (range.position - start) as usize;
        let end = (range.end - start).min(PACKAGE_PLAIN_BYTES) as usize;
        let Some(plain) = self.block.get(from..end) else {
            return Err(
                reader.damage_at(block_of(start), "the payload has fewer packages than its record says")
            );
        };
        let len = plain.len().min(buf.len());
        buf[..len].copy_from_slice(&plain[..len]);
        Ok(len)
    }

    /// Decrypts the package that starts at a plain byte. No byte of another one stays.
    fn load(
        &mut self,
        reader: &mut ExtentReader,
        packages: ExtentPackages,
        start: u64,
        stored: usize,
    ) -> Result<(), LogError> {
        // No call may return what is not verified yet: until it is, the block counts as empty.
        self.start = None;
        let mut block = std::mem::take(&mut self.block);
        block.resize(stored, 0);
        let len = self.open(reader, packages, start, &mut block)?;
        block.truncate(len);
        self.block = block;
        self.start = Some(start);
        Ok(())
    }

    /// Fills `block` with the package that starts at a plain byte, decrypts it in its place and
    /// returns the number of plain bytes.
    fn open(
        &mut self,
        reader: &mut ExtentReader,
        packages: ExtentPackages,
        start: u64,
        block: &mut [u8],
    ) -> Result<usize, LogError> {
        let at = block_of(start);
        let end = at + block.len() as u64;
        let mut filled = 0;
        while filled < block.len() {
            filled += reader.read(at + filled as u64, end, &mut block[filled..])?;
        }
        let number = packages.first + at / BLOCK_BYTES;
        // The mark of the last package is under its tag: bytes that end early, or go on, do not
        // decrypt.
        let is_last = number.checked_add(1) == Some(packages.of);
        let opened = self.cipher(packages).and_then(|cipher| cipher.open(number, is_last, block));
        let Some(plain) = opened else {
            return Err(reader.damage_at(at, "an encrypted package does not match its tag"));
        };
        Ok(plain.len())
    }

    /// The cipher of the write of some packages.
    fn cipher(&mut self, packages: ExtentPackages) -> Option<&PackageCipher> {
        // A part of an upload has a salt of its own, and a long object may have many: the cipher of
        // one is made once for all its packages in a row.
        let is_same =
            |made: &(u32, [u8; SALT_BYTES], PackageCipher)| (made.0, made.1) == (packages.key, packages.salt);
        if !self.cipher.as_ref().is_some_and(is_same) {
            let key = self.keys.get(packages.key as usize)?;
            self.cipher = Some((packages.key, packages.salt, PackageCipher::new(key, &packages.salt)));
        }
        self.cipher.as_ref().map(|(_, _, cipher)| cipher)
    }
}
