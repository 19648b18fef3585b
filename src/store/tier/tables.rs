//! The block tables of remote segments, which stay here: a range of a remote segment is one request
//! and not two (data-format.md, section 4, *Tables of remote segments*).
//!
//! The file is written without a sync, and read without trust: a reader compares a table with the
//! CRC in the record, and fetches the one in the segment where they differ.

use std::io;
use std::ops::Range;

use super::Tier;
use crate::base::limits::BLOCK_BYTES;
use crate::format::tables_path;

/// Bytes of a segment for each CRC in the file. A table has one CRC for each block that was begun,
/// and none for a payload of at most one block. So there are at least as many of these in a payload
/// as CRCs in its table, and no two tables meet.
const BYTES_PER_CRC: u64 = BLOCK_BYTES / 2;
const CRC_BYTES: u64 = 4;

/// Where the file of tables has the table at `table` of the segment.
fn place(table: &Range<u64>) -> Option<Range<u64>> {
    let end = table.start / BYTES_PER_CRC * CRC_BYTES;
    Some(end.checked_sub(table.end - table.start)?..end)
}

impl Tier {
    /// The table at a range of a segment, as far as it is known. It may be old or damaged.
    pub(super) fn read_table(&self, segment: u64, table: &Range<u64>) -> Option<Vec<u8>> {
        let place = place(table)?;
        let mut bytes = vec![0; (place.end - place.start) as usize];
        let file = self.fs.open_read(&tables_path(segment)).ok()?;
        file.read_exact_at(&mut bytes, place.start).ok()?;
        Some(bytes)
    }

    /// Keeps tables of a segment, each with its offset there. Without them the next readers of
    /// these extents ask the remote twice.
    pub(super) fn keep_tables<'t>(&self, segment: u64, tables: impl IntoIterator<Item = (u64, &'t [u8])>) {
        match self.write_tables(segment, tables) {
            Err(error) if error.kind() != io::ErrorKind::StorageFull => {
                log::warn!("{}: some block tables are not kept: {error}", tables_path(segment));
            }
            _ => {}
        }
    }

    fn write_tables<'t>(
        &self,
        segment: u64,
        tables: impl IntoIterator<Item = (u64, &'t [u8])>,
    ) -> io::Result<()> {
        let path = tables_path(segment);
        let file = match self.fs.create(&path) {
            // Kept where it exists: tables of other extents, which readers fetched, are in it.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => self.fs.open(&path),
            created => created,
        }?;
        for (offset, bytes) in tables {
            if let Some(place) = place(&(offset..offset + bytes.len() as u64)) {
                file.write_all_at(bytes, place.start)?;
            }
        }
        Ok(())
    }

    /// Removes the tables of a segment that is about to be removed.
    pub(super) fn remove_tables(&self, segment: u64) -> io::Result<()> {
        match self.fs.remove(&tables_path(segment)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{ExtentHeader, UNIT_BYTES};

    #[test]
    fn no_two_tables_meet_however_close_their_extents_are() {
        let lengths = [65_537, 98_304, 131_072, 131_073, 196_608, 196_609, 1 << 20, (1 << 20) + 1, 16 << 20];
        for first in (4096..400_000).step_by(4096) {
            for one in lengths {
                let mut at = first;
                let mut end = 0;
                for length in [one, 65_537, one, 65_537, 131_073] {
                    let table =
                        at + UNIT_BYTES + length..at + UNIT_BYTES + length + ExtentHeader::table_len(length);
                    let place = place(&table).unwrap();
                    assert!(place.start >= end, "{place:?} begins before {end}");
                    (at, end) = (table.end, place.end);
                }
            }
        }
    }
}
