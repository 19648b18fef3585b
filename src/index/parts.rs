//! The parts of one multipart upload, by number.

use std::sync::Arc;

use rpds::RedBlackTreeMapSync;

use crate::format::{ByteDecoder, PartRecord};
use crate::index::counted_bytes::part_index_bytes;
use crate::index::expect_valid;
use crate::index::memory::{map_entry_bytes, shared_bytes};

/// Parts with this many consecutive numbers share a row. Longer rows make reading cheaper, shorter
/// ones make adding a part cheaper.
const ROW_NUMBERS: u32 = 16;

/// Memory for the encoding of most parts.
const PART_BYTES: usize = 64;

/// The parts of an upload. A clone is a snapshot and costs O(1).
#[derive(Clone, Default)]
pub(super) struct PartTable {
    /// Encoded [`PartRecord`]s, ascending by number, in rows.
    rows: RedBlackTreeMapSync<u32, Arc<[u8]>>,
    /// The memory of the rows, in bytes.
    bytes: u64,
    /// The sizes of all parts, in bytes.
    payload: u64,
    /// The bytes of the index that the parts count for.
    counted: u64,
}

fn row_bytes(len: usize) -> u64 {
    map_entry_bytes::<u32, Arc<[u8]>>() + shared_bytes(len)
}

impl PartTable {
    /// The memory of the rows, in bytes.
    pub(super) fn memory_bytes(&self) -> u64 {
        self.bytes
    }

    /// The sizes of all parts, in bytes.
    pub(super) fn payload_bytes(&self) -> u64 {
        self.payload
    }

    /// The bytes of the index that the parts count for.
    pub(super) fn index_bytes(&self) -> u64 {
        self.counted
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = PartRecord> {
        self.rows.values().flat_map(|row| records(row))
    }

    /// The parts with higher numbers, in order.
    pub(super) fn after(&self, number: u32) -> impl Iterator<Item = PartRecord> {
        let rows = self.rows.range(number / ROW_NUMBERS..).flat_map(|(_, row)| records(row));
        rows.skip_while(move |part| part.number <= number)
    }

    /// An upper bound on the number of parts.
    pub(super) fn count_max(&self) -> usize {
        self.rows.size() * ROW_NUMBERS as usize
    }

    pub(super) fn get(&self, number: u32) -> Option<PartRecord> {
        records(self.row(number)).find(|part| part.number == number)
    }

    /// Adds a part and returns the one that it replaces.
    pub(super) fn put(&mut self, record: &PartRecord) -> Option<PartRecord> {
        let old = self.row(record.number);
        let (before, replaced, after) = split_row(old, record.number);
        let mut row = Vec::with_capacity(old.len() + PART_BYTES);
        row.extend_from_slice(before);
        record.encode(&mut row);
        row.extend_from_slice(after);
        let old_bytes = if old.is_empty() { 0 } else { row_bytes(old.len()) };
        self.bytes = self.bytes - old_bytes + row_bytes(row.len());
        self.payload = self.payload + record.size - replaced.as_ref().map_or(0, |old| old.size);
        let replaced_bytes = replaced.as_ref().map_or(0, |old| part_index_bytes(old.size));
        self.counted = self.counted + part_index_bytes(record.size) - replaced_bytes;
        self.rows.insert_mut(record.number / ROW_NUMBERS, row.into());
        replaced
    }

    /// The row for a part number; empty if there is none.
    fn row(&self, number: u32) -> &[u8] {
        self.rows.get(&(number / ROW_NUMBERS)).map_or(&[], |row| row)
    }
}

fn records(row: &[u8]) -> impl Iterator<Item = PartRecord> {
    let mut row = ByteDecoder::new(row);
    std::iter::from_fn(move || (!row.is_done()).then(|| expect_valid(PartRecord::decode(&mut row))))
}

/// The encoded parts of a row before the number, the part itself, and the encoded parts after it.
fn split_row(row: &[u8], number: u32) -> (&[u8], Option<PartRecord>, &[u8]) {
    let mut rest = ByteDecoder::new(row);
    while !rest.is_done() {
        let from = rest.rest();
        let before = &row[..row.len() - from.len()];
        let part = expect_valid(PartRecord::decode(&mut rest));
        if part.number == number {
            return (before, Some(part), rest.rest());
        }
        if part.number > number {
            return (before, None, from);
        }
    }
    (row, None, &[])
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::base::Timestamp;

    fn part(number: u32, id: u64) -> PartRecord {
        let modified = Timestamp::from_millis(id);
        PartRecord {
            number,
            id,
            modified,
            size: 0,
            md5: [0; 16],
            extents: Vec::new(),
            checksum: None,
            encryption: None,
        }
    }

    #[test]
    fn parts_are_sorted_by_number_in_any_order_of_arrival() {
        let mut parts = PartTable::default();
        let mut model = BTreeMap::new();
        for step in 0..500 {
            // Few rows, so that numbers repeat, at both ends of a row and in between.
            let new = part(1 + step * 37 % 101, u64::from(step));
            assert_eq!(parts.put(&new), model.insert(new.number, new.clone()), "step {step}");
            assert!(parts.iter().eq(model.values().cloned()), "step {step}");
            assert_eq!(parts.bytes, parts.rows.values().map(|row| row_bytes(row.len())).sum::<u64>());
        }
        for number in 0..=ROW_NUMBERS * 8 {
            assert!(parts.after(number).eq(model.range(number + 1..).map(|(_, part)| part.clone())));
            assert_eq!(parts.get(number), model.get(&number).cloned(), "part {number}");
        }
    }

    #[test]
    fn a_snapshot_keeps_versions_replaced_later() {
        let mut parts = PartTable::default();
        parts.put(&part(1, 1));
        parts.put(&part(2, 2));
        let snapshot = parts.clone();
        parts.put(&part(1, 3));
        assert_eq!(snapshot.get(1), Some(part(1, 1)));
        assert_eq!(parts.get(1), Some(part(1, 3)));
        assert_eq!(parts.get(2), Some(part(2, 2)));
    }
}
