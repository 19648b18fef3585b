//! The layout of a tar archive (POSIX.1-2017, pax Interchange Format).

use super::{ArchiveEntry, ArchiveLayout};

/// Bytes of a block: headers and contents fill whole ones.
const BLOCK_BYTES: u64 = 512;
/// Blocks of zeros that end an archive.
const END_BLOCKS: u64 = 2;
/// Bytes of the name field of a header.
const NAME_BYTES: usize = 100;
/// The greatest size that the size field of a header holds.
const SIZE_MAX: u64 = (1 << 33) - 1;

#[derive(Default)]
pub(super) struct TarLayout {
    /// The size of the entry whose content comes.
    size: u64,
    has_end: bool,
}

impl ArchiveLayout for TarLayout {
    fn before(&mut self, entry: ArchiveEntry) -> Vec<u8> {
        self.size = entry.size;
        header(&entry)
    }

    fn pass(&mut self, _content: &[u8]) {}

    fn after(&mut self) -> Vec<u8> {
        vec![0; padding(self.size)]
    }

    fn end(&mut self) -> Option<Vec<u8>> {
        let is_due = !std::mem::replace(&mut self.has_end, true);
        is_due.then(|| vec![0; (END_BLOCKS * BLOCK_BYTES) as usize])
    }
}

/// The blocks before the content.
fn header(entry: &ArchiveEntry) -> Vec<u8> {
    let mut records = Vec::new();
    if entry.name.len() > NAME_BYTES || !entry.name.is_ascii() {
        records.extend(pax_record("path", &entry.name));
    }
    if entry.size > SIZE_MAX {
        records.extend(pax_record("size", &entry.size.to_string()));
    }
    let kind = if entry.is_directory() { b'5' } else { b'0' };
    let header = ustar(entry, &entry.name, entry.size.min(SIZE_MAX), kind);
    if records.is_empty() {
        return header;
    }
    let mut blocks = ustar(entry, "PaxHeader", records.len() as u64, b'x');
    blocks.extend(&records);
    blocks.resize(blocks.len() + padding(records.len() as u64), 0);
    blocks.extend(header);
    blocks
}

fn ustar(entry: &ArchiveEntry, name: &str, size: u64, kind: u8) -> Vec<u8> {
    let mut block = vec![0; BLOCK_BYTES as usize];
    set(&mut block, 0, &name.as_bytes()[..name.len().min(NAME_BYTES)]);
    set(&mut block, 100, if kind == b'5' { b"0000755" } else { b"0000644" });
    set(&mut block, 108, b"0000000");
    set(&mut block, 116, b"0000000");
    set(&mut block, 124, format!("{size:011o}").as_bytes());
    set(&mut block, 136, format!("{:011o}", entry.modified_secs.min(SIZE_MAX)).as_bytes());
    // The sum counts its own field as blanks.
    set(&mut block, 148, b"        ");
    set(&mut block, 156, &[kind]);
    set(&mut block, 257, b"ustar\x0000");
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    set(&mut block, 148, format!("{sum:06o}\0").as_bytes());
    block
}

fn set(block: &mut [u8], at: usize, bytes: &[u8]) {
    block[at..at + bytes.len()].copy_from_slice(bytes);
}

/// Zeros that fill the last block of a content.
fn padding(size: u64) -> usize {
    (size.next_multiple_of(BLOCK_BYTES) - size) as usize
}

/// A record of an extended header. Its length counts its own digits.
fn pax_record(name: &str, value: &str) -> Vec<u8> {
    let rest = format!(" {name}={value}\n");
    let mut length = rest.len() + 1;
    while rest.len() + length.to_string().len() != length {
        length += 1;
    }
    format!("{length}{rest}").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str, size: u64) -> ArchiveEntry {
        ArchiveEntry { name: name.to_owned(), size, modified_secs: 1_700_000_000 }
    }

    #[test]
    fn long_names_and_sizes_are_in_an_extended_header() {
        assert_eq!(header(&entry("a.txt", 5)).len(), 512);
        assert_eq!([padding(5), padding(0), padding(512)], [507, 0, 0]);
        let long = "n".repeat(101);
        let header = header(&entry(&long, SIZE_MAX + 1));
        assert_eq!((header.len(), header[156], header[1024 + 156]), (3 * 512, b'x', b'0'));
        let records = std::str::from_utf8(&header[512..1024]).unwrap().trim_end_matches('\0');
        assert_eq!(records, format!("111 path={long}\n19 size=8589934592\n"));
        for name in ["x".repeat(84), "x".repeat(85), "ü".repeat(500)] {
            let record = pax_record("path", &name);
            let digits = record.iter().position(|byte| *byte == b' ').unwrap();
            let length: usize = std::str::from_utf8(&record[..digits]).unwrap().parse().unwrap();
            assert_eq!(length, record.len());
        }
    }
}
