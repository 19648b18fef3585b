//! The entries of a tar archive (POSIX.1-2017, pax Interchange Format): headers, and names that are
//! safe to extract.

use std::collections::{HashMap, HashSet};

/// Bytes of a block: headers and contents fill whole ones.
pub(super) const TAR_BLOCK_BYTES: u64 = 512;
/// The end of an archive: two blocks of zeros.
pub(super) const TAR_END: [u8; 2 * TAR_BLOCK_BYTES as usize] = [0; 2 * TAR_BLOCK_BYTES as usize];
/// Bytes of the name field of a header.
const NAME_BYTES: usize = 100;
/// The greatest size that the size field of a header holds.
const SIZE_MAX: u64 = (1 << 33) - 1;

/// An entry: a file, or a directory, whose name ends in a slash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TarEntry {
    pub(super) name: String,
    pub(super) size: u64,
    /// Seconds since 1970.
    pub(super) modified_secs: u64,
}

impl TarEntry {
    /// The blocks before the content.
    pub(super) fn header(&self) -> Vec<u8> {
        let mut records = Vec::new();
        if self.name.len() > NAME_BYTES || !self.name.is_ascii() {
            records.extend(pax_record("path", &self.name));
        }
        if self.size > SIZE_MAX {
            records.extend(pax_record("size", &self.size.to_string()));
        }
        let kind = if self.name.ends_with('/') { b'5' } else { b'0' };
        let header = self.ustar(&self.name, self.size.min(SIZE_MAX), kind);
        if records.is_empty() {
            return header;
        }
        let mut blocks = self.ustar("PaxHeader", records.len() as u64, b'x');
        blocks.extend(&records);
        blocks.resize(blocks.len() + padding(records.len() as u64), 0);
        blocks.extend(header);
        blocks
    }

    /// The bytes of the whole entry.
    pub(super) fn len(&self) -> u64 {
        (self.header().len() as u64) + self.size + padding(self.size) as u64
    }

    fn ustar(&self, name: &str, size: u64, kind: u8) -> Vec<u8> {
        let mut block = vec![0; TAR_BLOCK_BYTES as usize];
        let mut set = |at: usize, bytes: &[u8]| block[at..at + bytes.len()].copy_from_slice(bytes);
        set(0, &name.as_bytes()[..name.len().min(NAME_BYTES)]);
        set(100, if kind == b'5' { b"0000755" } else { b"0000644" });
        set(108, b"0000000");
        set(116, b"0000000");
        set(124, format!("{size:011o}").as_bytes());
        set(136, format!("{:011o}", self.modified_secs.min(SIZE_MAX)).as_bytes());
        set(148, b"        ");
        set(156, &[kind]);
        set(257, b"ustar\x0000");
        let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
        block[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
        block
    }
}

/// Zeros that fill the last block of a content.
pub(super) fn padding(size: u64) -> usize {
    (size.next_multiple_of(TAR_BLOCK_BYTES) - size) as usize
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

/// The names of an archive. Each is relative, stays below the directory of extraction, and is that
/// of one entry, also where case does not count.
#[derive(Default)]
pub(super) struct TarNames {
    /// Names in lower case.
    files: HashSet<String>,
    directories: HashSet<String>,
    /// The number that the next entry of a name in lower case tries first.
    numbers: HashMap<String, u32>,
}

impl TarNames {
    /// Names for these keys, in which no file takes the name of a directory.
    pub(super) fn of<'k>(keys: impl Iterator<Item = &'k str>) -> Self {
        let mut names = Self::default();
        for key in keys {
            let name = safe(key);
            let ends = name.match_indices('/').map(|(at, _)| at);
            names.directories.extend(ends.map(|end| name[..end].to_lowercase()));
        }
        names
    }

    /// The name of the entry for a key; `None` for the directory of extraction itself. A key that
    /// ends in a slash and has no content is a directory.
    pub(super) fn entry(&mut self, key: &str, is_empty: bool) -> Option<String> {
        let name = safe(key);
        let plain = name.trim_end_matches('/');
        if key.ends_with('/') && is_empty {
            return (!plain.is_empty()).then(|| name.clone());
        }
        let plain = if plain.is_empty() { "_" } else { plain };
        let number = self.numbers.entry(plain.to_lowercase()).or_insert(1);
        loop {
            let name = if *number == 1 { plain.to_owned() } else { format!("{plain}~{number}") };
            *number += 1;
            let folded = name.to_lowercase();
            if !self.directories.contains(&folded) && self.files.insert(folded) {
                return Some(name);
            }
        }
    }
}

/// A key as a relative path: no step leads upwards, none is empty, and nothing in it means
/// something to a shell or to Windows.
fn safe(key: &str) -> String {
    let steps: Vec<_> = key.split('/').filter(|step| !step.is_empty()).map(safe_step).collect();
    let mut name = steps.join("/");
    if key.ends_with('/') && !name.is_empty() {
        name.push('/');
    }
    name
}

fn safe_step(step: &str) -> String {
    if step.bytes().all(|byte| byte == b'.') {
        return "_".repeat(step.len());
    }
    let is_drive = step.as_bytes().get(1) == Some(&b':') && step.as_bytes()[0].is_ascii_alphabetic();
    let harmless = |(at, c): (usize, char)| match c {
        '\\' => '_',
        ':' if is_drive && at == 1 => '_',
        c if c.is_control() => '_',
        c => c,
    };
    step.char_indices().map(harmless).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str, size: u64) -> TarEntry {
        TarEntry { name: name.to_owned(), size, modified_secs: 1_700_000_000 }
    }

    #[test]
    fn names_lead_to_nothing_outside() {
        for (key, name) in [
            ("a/b.txt", "a/b.txt"),
            ("/etc/passwd", "etc/passwd"),
            ("../../etc/passwd", "__/__/etc/passwd"),
            ("a/../../b", "a/__/__/b"),
            ("a//b/./c", "a/b/_/c"),
            ("..\\..\\x", ".._.._x"),
            ("C:\\x", "C__x"),
            ("C:/x", "C_/x"),
            ("12:30", "12:30"),
            ("line\nfeed\u{0}", "line_feed_"),
            ("...", "___"),
            ("ü/日", "ü/日"),
        ] {
            assert_eq!(TarNames::default().entry(key, false).as_deref(), Some(name), "{key:?}");
        }
        assert_eq!(TarNames::default().entry("/", true), None);
        assert_eq!(TarNames::default().entry("dir/", true).as_deref(), Some("dir/"));
        assert_eq!(TarNames::default().entry("dir/", false).as_deref(), Some("dir"));
        assert_eq!(TarNames::default().entry("//", false).as_deref(), Some("_"));
    }

    #[test]
    fn no_entry_overwrites_another() {
        let keys = ["a", "a/../b", "a/__/b", "a/b", "a//b", "a/b~2", "c", "/c"];
        let mut names = TarNames::of(keys.into_iter());
        let entries: Vec<_> = keys.iter().map(|key| names.entry(key, false).unwrap()).collect();
        assert_eq!(entries, ["a~2", "a/__/b", "a/__/b~2", "a/b", "a/b~2", "a/b~2~2", "c", "c~2"]);
    }

    #[test]
    fn long_names_and_sizes_are_in_an_extended_header() {
        assert_eq!(entry("a.txt", 5).header().len(), 512);
        assert_eq!(
            (entry("a.txt", 5).len(), entry("a.txt", 0).len(), entry("a.txt", 512).len()),
            (1024, 512, 1024)
        );
        let long = "n".repeat(101);
        let header = entry(&long, SIZE_MAX + 1).header();
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
