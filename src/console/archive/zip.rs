//! The layout of a zip archive (PKWARE's APPNOTE 6.3.10) of stored files: Windows and phones open
//! it without a further program. Checksums follow their contents, which are read once.
//!
//! The crates that write zip archives do not give the length of one before its contents.

use std::collections::VecDeque;

use super::{ArchiveEntry, ArchiveLayout};
use crate::base::Timestamp;

/// The greatest number of a field of 4 bytes; the field of the zip64 extension holds it, and
/// greater ones.
const IN_ZIP64: u32 = u32::MAX;
/// The same for a field of 2 bytes.
const COUNT_IN_ZIP64: u16 = u16::MAX;
/// Versions of the format that a reader needs: 2.0 for directories, 4.5 for zip64.
const PLAIN_VERSION: u16 = 20;
const ZIP64_VERSION: u16 = 45;
/// Attributes are those of Unix.
const MADE_BY_UNIX: u16 = 3 << 8;
/// The name is UTF-8.
const UTF8_FLAG: u16 = 1 << 11;
/// Checksum and sizes follow the content.
const DESCRIPTOR_FLAG: u16 = 1 << 3;
const FILE_MODE: u32 = 0o100_644 << 16;
/// The mode of a directory, and its attribute of MS-DOS.
const DIRECTORY_MODE: u32 = (0o040_755 << 16) | 0x10;
/// Years that a date of MS-DOS holds.
const DOS_YEARS: std::ops::RangeInclusive<u64> = 1980..=2107;

/// An entry that was sent, as the central directory lists it.
struct ZipRecord {
    entry: ArchiveEntry,
    /// The position of its local header.
    offset: u64,
    crc32: u32,
}

#[derive(Default)]
pub(super) struct ZipLayout {
    /// The length of everything before.
    at: u64,
    crc32: crc32fast::Hasher,
    records: VecDeque<ZipRecord>,
    /// The number of entries, once the central directory has begun, and its position.
    directory: Option<ZipDirectory>,
    has_end: bool,
}

#[derive(Clone, Copy)]
struct ZipDirectory {
    at: u64,
    count: u64,
}

impl ArchiveLayout for ZipLayout {
    fn before(&mut self, entry: ArchiveEntry) -> Vec<u8> {
        let header = local_header(&entry);
        let offset = self.at;
        self.at += header.len() as u64 + entry.size;
        self.crc32 = crc32fast::Hasher::new();
        self.records.push_back(ZipRecord { entry, offset, crc32: 0 });
        header
    }

    fn pass(&mut self, content: &[u8]) {
        self.crc32.update(content);
    }

    fn after(&mut self) -> Vec<u8> {
        let Some(record) = self.records.back_mut() else {
            return Vec::new();
        };
        record.crc32 = self.crc32.clone().finalize();
        let descriptor = descriptor(record);
        self.at += descriptor.len() as u64;
        descriptor
    }

    fn end(&mut self) -> Option<Vec<u8>> {
        let directory =
            *self.directory.get_or_insert(ZipDirectory { at: self.at, count: self.records.len() as u64 });
        if let Some(record) = self.records.pop_front() {
            let header = central_header(&record);
            self.at += header.len() as u64;
            return Some(header);
        }
        let is_due = !std::mem::replace(&mut self.has_end, true);
        is_due.then(|| end_records(directory, self.at))
    }
}

/// Whether the size is in the zip64 extension.
fn is_large(entry: &ArchiveEntry) -> bool {
    entry.size >= u64::from(IN_ZIP64)
}

/// Whether checksum and sizes follow the content. Without a content they are known before.
fn has_descriptor(entry: &ArchiveEntry) -> bool {
    entry.size > 0
}

fn flags(entry: &ArchiveEntry) -> u16 {
    UTF8_FLAG | if has_descriptor(entry) { DESCRIPTOR_FLAG } else { 0 }
}

/// A number in a field of 4 bytes, unless the zip64 extension holds it.
fn short(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(IN_ZIP64)
}

/// The fields that local and central headers share before their checksum.
fn put_start(out: &mut Vec<u8>, entry: &ArchiveEntry, is_zip64: bool) {
    let version = if is_zip64 { ZIP64_VERSION } else { PLAIN_VERSION };
    let stored: u16 = 0;
    out.extend(version.to_le_bytes());
    out.extend(flags(entry).to_le_bytes());
    out.extend(stored.to_le_bytes());
    out.extend(dos_time(entry.modified_secs));
}

/// The header before a content.
fn local_header(entry: &ArchiveEntry) -> Vec<u8> {
    let mut extra = Vec::new();
    // With a descriptor the sizes are zero here; the extension says that those of the descriptor
    // have 8 bytes.
    if is_large(entry) {
        extra.extend(extension(0x0001, &[0; 16]));
    }
    extra.extend(timestamp(entry));
    let size = if is_large(entry) { IN_ZIP64 } else { 0 };
    let mut out = Vec::from(*b"PK\x03\x04");
    put_start(&mut out, entry, is_large(entry));
    out.extend([0; 4]);
    out.extend(size.to_le_bytes());
    out.extend(size.to_le_bytes());
    out.extend((entry.name.len() as u16).to_le_bytes());
    out.extend((extra.len() as u16).to_le_bytes());
    out.extend(entry.name.as_bytes());
    out.extend(extra);
    out
}

/// The checksum and the sizes after a content.
fn descriptor(record: &ZipRecord) -> Vec<u8> {
    if !has_descriptor(&record.entry) {
        return Vec::new();
    }
    let mut out = Vec::from(*b"PK\x07\x08");
    out.extend(record.crc32.to_le_bytes());
    for _ in ["compressed", "uncompressed"] {
        if is_large(&record.entry) {
            out.extend(record.entry.size.to_le_bytes());
        } else {
            out.extend(short(record.entry.size).to_le_bytes());
        }
    }
    out
}

/// The entry in the central directory.
fn central_header(record: &ZipRecord) -> Vec<u8> {
    let ZipRecord { entry, offset, crc32 } = record;
    let mut zip64 = Vec::new();
    if is_large(entry) {
        zip64.extend(entry.size.to_le_bytes());
        zip64.extend(entry.size.to_le_bytes());
    }
    if *offset >= u64::from(IN_ZIP64) {
        zip64.extend(offset.to_le_bytes());
    }
    let mut extra = Vec::new();
    if !zip64.is_empty() {
        extra.extend(extension(0x0001, &zip64));
    }
    extra.extend(timestamp(entry));
    let mode = if entry.is_directory() { DIRECTORY_MODE } else { FILE_MODE };
    let mut out = Vec::from(*b"PK\x01\x02");
    out.extend((MADE_BY_UNIX | ZIP64_VERSION).to_le_bytes());
    put_start(&mut out, entry, !zip64.is_empty());
    out.extend(crc32.to_le_bytes());
    out.extend(short(entry.size).to_le_bytes());
    out.extend(short(entry.size).to_le_bytes());
    out.extend((entry.name.len() as u16).to_le_bytes());
    out.extend((extra.len() as u16).to_le_bytes());
    // No comment, the first disk, no internal attributes.
    out.extend([0; 6]);
    out.extend(mode.to_le_bytes());
    out.extend(short(*offset).to_le_bytes());
    out.extend(entry.name.as_bytes());
    out.extend(extra);
    out
}

/// The end of the central directory, which ends at `end`, after that of zip64 where one is needed.
fn end_records(directory: ZipDirectory, end: u64) -> Vec<u8> {
    let size = end - directory.at;
    let count = u16::try_from(directory.count).unwrap_or(COUNT_IN_ZIP64);
    let mut out = Vec::new();
    if count == COUNT_IN_ZIP64 || short(size) == IN_ZIP64 || short(directory.at) == IN_ZIP64 {
        let rest_bytes: u64 = 44;
        out.extend(*b"PK\x06\x06");
        out.extend(rest_bytes.to_le_bytes());
        out.extend((MADE_BY_UNIX | ZIP64_VERSION).to_le_bytes());
        out.extend(ZIP64_VERSION.to_le_bytes());
        out.extend([0; 8]);
        out.extend(directory.count.to_le_bytes());
        out.extend(directory.count.to_le_bytes());
        out.extend(size.to_le_bytes());
        out.extend(directory.at.to_le_bytes());
        let disks: u32 = 1;
        out.extend(*b"PK\x06\x07");
        out.extend([0; 4]);
        out.extend(end.to_le_bytes());
        out.extend(disks.to_le_bytes());
    }
    out.extend(*b"PK\x05\x06");
    out.extend([0; 4]);
    out.extend(count.to_le_bytes());
    out.extend(count.to_le_bytes());
    out.extend(short(size).to_le_bytes());
    out.extend(short(directory.at).to_le_bytes());
    out.extend([0; 2]);
    out
}

/// An extra field.
fn extension(id: u16, bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::from(id.to_le_bytes());
    out.extend((bytes.len() as u16).to_le_bytes());
    out.extend(bytes);
    out
}

/// The time in seconds since 1970, since the date of MS-DOS is in an unknown zone. It has a sign.
fn timestamp(entry: &ArchiveEntry) -> Vec<u8> {
    let Ok(seconds) = i32::try_from(entry.modified_secs) else {
        return Vec::new();
    };
    let mut bytes = vec![1];
    bytes.extend(seconds.to_le_bytes());
    extension(0x5455, &bytes)
}

/// Time and date of MS-DOS, as UTC; the nearest one that it can state.
fn dos_time(seconds: u64) -> [u8; 4] {
    let text = Timestamp::from_millis(seconds.saturating_mul(1000)).to_iso_basic();
    let number =
        |from: usize, to: usize| text.get(from..to).and_then(|digits| digits.parse().ok()).unwrap_or(0);
    let year: u64 = number(0, 4);
    if year < *DOS_YEARS.start() {
        return [0, 0, 0x21, 0];
    }
    let year = year.min(*DOS_YEARS.end()) - DOS_YEARS.start();
    let date = ((year << 9) | (number(4, 6) << 5) | number(6, 8)) as u16;
    let time = ((number(9, 11) << 11) | (number(11, 13) << 5) | (number(13, 15) / 2)) as u16;
    let [time_low, time_high] = time.to_le_bytes();
    let [date_low, date_high] = date.to_le_bytes();
    [time_low, time_high, date_low, date_high]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str, size: u64) -> ArchiveEntry {
        ArchiveEntry { name: name.to_owned(), size, modified_secs: 1_700_000_001 }
    }

    /// The layout of entries without their contents.
    fn laid_out(entries: Vec<ArchiveEntry>) -> Vec<Vec<u8>> {
        let mut layout = ZipLayout::default();
        let mut pieces = Vec::new();
        for entry in entries {
            pieces.push(layout.before(entry));
            pieces.push(layout.after());
        }
        while let Some(piece) = layout.end() {
            pieces.push(piece);
        }
        pieces
    }

    #[test]
    fn sizes_and_positions_beyond_four_bytes_are_in_extensions() {
        let large = u64::from(IN_ZIP64);
        let pieces = laid_out(vec![entry("a", large), entry("b", 1)]);
        let [header, after, second, _, first_central, second_central, end] = &pieces[..] else {
            panic!("{} pieces", pieces.len());
        };
        assert_eq!(header[4], 45);
        assert_eq!(header[18..26], [0xff; 8]);
        assert_eq!(header[31..35], [1, 0, 16, 0]);
        assert_eq!((after.len(), &after[8..16]), (24, &large.to_le_bytes()[..]));
        assert_eq!(second[4], 20);
        assert_eq!(first_central[47..51], [1, 0, 16, 0]);
        assert_eq!(first_central[42..46], [0; 4]);
        assert_eq!(second_central[42..46], [0xff; 4]);
        let offset = (header.len() + after.len()) as u64 + large;
        assert_eq!(second_central[47..59], [&[1, 0, 8, 0][..], &offset.to_le_bytes()].concat());
        assert_eq!(end.len(), 56 + 20 + 22);
        let directory_at = offset + (second.len() + 1 + pieces[3].len()) as u64;
        assert_eq!(end[48..56], directory_at.to_le_bytes());
        let end_at = directory_at + (first_central.len() + second_central.len()) as u64;
        assert_eq!(end[64..72], end_at.to_le_bytes());
    }

    #[test]
    fn more_entries_than_two_bytes_count_are_in_the_extension() {
        let count = u64::from(COUNT_IN_ZIP64);
        let few = laid_out((1..count).map(|n| entry(&n.to_string(), 0)).collect());
        assert_eq!(few.last().unwrap().len(), 22);
        let many = laid_out((0..count).map(|n| entry(&n.to_string(), 0)).collect());
        assert_eq!(many.last().unwrap()[32..40], count.to_le_bytes());
    }

    #[test]
    fn dates_are_those_of_ms_dos() {
        // 14 November 2023, 22:13:20.
        assert_eq!(dos_time(1_700_000_001), [0xaa, 0xb1, 0x6e, 0x57]);
        assert_eq!(dos_time(0), [0, 0, 0x21, 0]);
        assert_eq!(dos_time(u64::MAX)[3] >> 1, 127);
        assert_eq!(timestamp(&entry("a", 1)), [0x55, 0x54, 5, 0, 1, 0x01, 0xf1, 0x53, 0x65]);
        assert!(timestamp(&ArchiveEntry { modified_secs: 1 << 31, ..entry("a", 1) }).is_empty());
    }
}
