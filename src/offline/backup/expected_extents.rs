//! The extents that a backup must hold. A copy is checked against them while it is read once, from
//! start to end.

use std::collections::BTreeMap;
use std::io;

use crate::base::digest::Crc32;
use crate::base::limits::{BLOCK_BYTES, MIB};
use crate::format::{Entry, ExtentHeader, ExtentRef, StoreId, UNIT_BYTES, segment_path};
use crate::fs::File;
use crate::index::{Cursor, Index};
use crate::log::Damage;
use crate::offline::verify::{Finding, NamedOwner};

/// Keys per step of a walk.
const KEYS_AT_ONCE: usize = 4096;
/// Extents in memory at a time, 12 bytes each; for more the index is walked again. A single segment
/// may exceed it. Tests use a small number.
const EXTENTS_AT_ONCE: usize = if cfg!(test) { 3 } else { 4 << 20 };
/// Bad extents of one segment that are reported.
const FINDINGS_PER_SEGMENT_MAX: usize = 10;

/// An extent as recorded in the metadata. The offset is counted in units, to keep it small.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct ExpectedExtent {
    unit: u32,
    payload_len: u32,
    check: u32,
}

impl ExpectedExtent {
    fn of(extent: &ExtentRef) -> Self {
        let unit = (extent.offset / UNIT_BYTES) as u32;
        Self { unit, payload_len: extent.payload_len, check: extent.check }
    }

    fn offset(self) -> u64 {
        u64::from(self.unit) * UNIT_BYTES
    }
}

/// The extents that an index refers to, for some segments at a time. Segments are asked for in
/// ascending order.
pub(super) struct ExpectedExtents<'i> {
    index: &'i Index,
    collected: BTreeMap<u64, Vec<ExpectedExtent>>,
    /// Segments before this one have been collected.
    collected_to: u64,
}

impl<'i> ExpectedExtents<'i> {
    pub(super) fn new(index: &'i Index) -> Self {
        Self { index, collected: BTreeMap::new(), collected_to: 0 }
    }

    /// The extents in a segment, in the order of the disk.
    fn remove(&mut self, segment: u64) -> Vec<ExpectedExtent> {
        if segment >= self.collected_to {
            self.collect_from(segment);
        }
        let mut extents = self.collected.remove(&segment).unwrap_or_default();
        extents.sort_unstable();
        // A shared extent is referred to more than once.
        extents.dedup();
        extents
    }

    /// Collects the extents of segments from `first` on, for as many segments as fit into memory.
    fn collect_from(&mut self, first: u64) {
        (self.collected, self.collected_to) = (BTreeMap::new(), u64::MAX);
        let mut cursor = Cursor::Start;
        let mut count = 0;
        loop {
            let entries = self.index.walk(&mut cursor, KEYS_AT_ONCE);
            if entries.is_empty() {
                return;
            }
            for extent in entries.iter().flat_map(Entry::extents) {
                if (first..self.collected_to).contains(&extent.segment) {
                    self.collected.entry(extent.segment).or_default().push(ExpectedExtent::of(extent));
                    count += 1;
                }
            }
            while count > EXTENTS_AT_ONCE && self.collected.len() > 1 {
                let (last, extents) = self.collected.pop_last().expect("there are two at the least");
                (self.collected_to, count) = (last, count - extents.len());
            }
        }
    }

    /// Reads a copy of a segment to its end, and checks header, payload and descriptor of every
    /// extent. Returns the CRC of the copy, and the damage found.
    ///
    /// # Errors
    /// Of the disk.
    pub(super) fn check(
        &mut self,
        segment: u64,
        store: &StoreId,
        copy: &dyn File,
    ) -> io::Result<(u32, Vec<Damage>)> {
        let mut reader = SequentialReader::new(copy)?;
        let mut damage = Vec::new();
        for expected in self.remove(segment) {
            if let Err(what) = check(&mut reader, segment, store, expected)? {
                damage.push(Damage::new(segment_path(segment), expected.offset(), what));
            }
        }
        damage.truncate(FINDINGS_PER_SEGMENT_MAX);
        Ok((reader.finish()?, damage))
    }
}

/// The damage with the versions and parts that it concerns.
pub(super) fn findings_with_owners(store: &StoreId, index: &Index, damage: Vec<Damage>) -> Vec<Finding> {
    let bad: BTreeMap<_, _> = damage.into_iter().map(|bad| ((bad.file.clone(), bad.offset), bad)).collect();
    let mut findings = Vec::new();
    let mut bucket = String::new();
    let mut cursor = Cursor::Start;
    loop {
        let entries = index.walk(&mut cursor, KEYS_AT_ONCE);
        if entries.is_empty() {
            return findings;
        }
        for entry in &entries {
            if let Entry::BucketPut(record) = entry {
                bucket.clone_from(&record.name);
            }
            for extent in entry.extents() {
                let damage = bad.get(&(segment_path(extent.segment), extent.offset)).cloned();
                let owner = NamedOwner::of_entry(store, &bucket, entry);
                findings.extend(damage.map(|damage| Finding { damage, owner }));
            }
        }
    }
}

/// The reason why an extent is bad, if it is.
fn check(
    reader: &mut SequentialReader<'_>,
    segment: u64,
    store: &StoreId,
    expected: ExpectedExtent,
) -> io::Result<Result<(), String>> {
    let offset = expected.offset();
    let Some(bytes) = reader.bytes(offset, ExtentHeader::BYTES as u64)? else {
        return Ok(Err("the segment ends before the extent does".into()));
    };
    let header = match ExtentHeader::decode(store, bytes) {
        Ok(header) => header,
        Err(error) => return Ok(Err(format!("extent header: {error}"))),
    };
    let is_it = (header.segment, header.offset) == (segment, offset);
    if !is_it || (header.payload_len, header.check) != (expected.payload_len, expected.check) {
        return Ok(Err("the extent differs from the one that the metadata refers to".into()));
    }
    match reader.bytes(offset, header.extent_len())? {
        Some(bytes) => Ok(check_bytes(&header, bytes)),
        None => Ok(Err("the segment ends before the extent does".into())),
    }
}

fn check_bytes(header: &ExtentHeader, bytes: &[u8]) -> Result<(), String> {
    let (rest, descriptor) = bytes.split_at(header.descriptor_at() as usize);
    let (payload, table) = rest[ExtentHeader::BYTES..].split_at(header.payload_len as usize);
    let checked = if table.is_empty() { payload } else { table };
    if Crc32::of(checked) != header.check {
        return Err("payload or block table does not match the CRC".into());
    }
    let blocks = payload.chunks(BLOCK_BYTES as usize).zip(table.chunks_exact(4));
    for (at, (block, crc)) in blocks.enumerate() {
        if Crc32::of(block).to_le_bytes() != *crc {
            return Err(format!("block {at} of the payload does not match its CRC"));
        }
    }
    header.decode_descriptor(descriptor).map(|_| ()).map_err(|error| format!("descriptor: {error}"))
}

/// A file read once, from start to end. Bytes are kept as long as they may be asked for.
struct SequentialReader<'a> {
    file: &'a dyn File,
    len: u64,
    /// The bytes read and not skipped yet, and their offset.
    kept: Vec<u8>,
    kept_from: u64,
    crc: Crc32,
}

impl<'a> SequentialReader<'a> {
    fn new(file: &'a dyn File) -> io::Result<Self> {
        let len = file.len()?;
        Ok(Self { file, len, kept: Vec::new(), kept_from: 0, crc: Crc32::new() })
    }

    /// The bytes from `offset` on; `None` after the end of the file. Bytes before `offset` cannot
    /// be asked for later.
    fn bytes(&mut self, offset: u64, len: u64) -> io::Result<Option<&[u8]>> {
        if offset.checked_add(len).is_none_or(|end| end > self.len) {
            return Ok(None);
        }
        self.skip_to(offset)?;
        while self.kept.len() as u64 <= len && self.read_to() < self.len {
            self.read_more()?;
        }
        Ok(self.kept.get(..len as usize))
    }

    fn finish(mut self) -> io::Result<u32> {
        self.skip_to(self.len)?;
        Ok(self.crc.value())
    }

    fn read_to(&self) -> u64 {
        self.kept_from + self.kept.len() as u64
    }

    fn skip_to(&mut self, offset: u64) -> io::Result<()> {
        while self.read_to() < offset {
            (self.kept_from, self.kept) = (self.read_to(), Vec::new());
            self.read_more()?;
        }
        self.kept.drain(..offset.saturating_sub(self.kept_from) as usize);
        self.kept_from = self.kept_from.max(offset);
        Ok(())
    }

    fn read_more(&mut self) -> io::Result<()> {
        let from = self.read_to();
        let before = self.kept.len();
        self.kept.resize(before + MIB.min(self.len - from) as usize, 0);
        self.file.read_exact_at(&mut self.kept[before..], from)?;
        self.crc.update(&self.kept[before..]);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::Fs;
    use crate::fs::sim::SimFs;

    #[test]
    fn a_file_is_read_once_whatever_is_looked_at() {
        let bytes: Vec<u8> = (0..3 * MIB as u32 + 1_000).map(|at| (at / 7) as u8).collect();
        let file = SimFs::new().create("a").unwrap();
        file.write_all_at(&bytes, 0).unwrap();
        let looks =
            [(0, 64), (0, 4_000), (4_096, 0), (1_048_000, 64), (1_048_000, 1_500_000), (3_100_000, 5)];
        let mut reader = SequentialReader::new(file.as_ref()).unwrap();
        for (offset, len) in looks {
            let found = reader.bytes(offset, len).unwrap().unwrap();
            assert_eq!(found, &bytes[offset as usize..(offset + len) as usize]);
        }
        assert_eq!(reader.bytes(3_100_000, MIB).unwrap(), None);
        assert_eq!(reader.bytes(u64::MAX, 2).unwrap(), None);
        assert_eq!(reader.finish().unwrap(), Crc32::of(&bytes));
        assert_eq!(SequentialReader::new(file.as_ref()).unwrap().finish().unwrap(), Crc32::of(&bytes));
    }
}
