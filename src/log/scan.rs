//! Finding records in any file, also in a damaged one, for the tools. A record found here is whole
//! and in its place. Whether it counts is decided by [`Replay`](crate::log::Replay).

use std::io;
use std::sync::Arc;

use crate::base::limits::{KIB, PAGE_BYTES};
use crate::format::{
    DecodeError, ExtentHeader, Footer, Group, GroupKind, StoreId, UNIT_BYTES, UncheckedGroup, page_ceil,
    unit_ceil,
};
use crate::fs::File;
use crate::log::groups::GroupFile;
use crate::log::{LogError, Segment, unreadable};

/// Bytes of a segment that are read at once.
const WINDOW_BYTES: u64 = 256 * KIB;

/// The content of a file at some offset. Zeros are skipped: they are preallocated space or padding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scanned<T> {
    /// A record.
    Record(T),
    /// Bytes that are no record.
    Unread {
        /// Their number, up to the last one that is not zero.
        len: u64,
        /// The reason why no record starts there.
        why: String,
        /// Whether they start like a record, or are where only records may be.
        damaged: bool,
    },
}

/// A record of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SegmentRecord {
    /// An extent; only its header has been checked.
    Extent(ExtentHeader),
    /// The footer.
    Footer(Footer),
}

/// The groups of a log file or checkpoint, with their offsets. After damage the scan continues at
/// the next page with a group header.
pub struct GroupScan<'a> {
    groups: GroupFile<'a>,
    position: u64,
}

impl<'a> GroupScan<'a> {
    /// A scan of everything after the header of `file`.
    ///
    /// # Errors
    /// Of the disk.
    pub fn new(file: &'a dyn File, kind: GroupKind, store: StoreId) -> Result<Self, LogError> {
        let groups = GroupFile { file, len: file.len()?, kind, store };
        Ok(Self { groups, position: PAGE_BYTES })
    }

    fn find_next(&mut self) -> Result<Option<(u64, Scanned<Group>)>, LogError> {
        while self.position < self.groups.len && self.page()?.is_none() {
            self.position += PAGE_BYTES;
        }
        if self.position >= self.groups.len {
            return Ok(None);
        }
        let at = self.position;
        let found = match self.groups.read(at)? {
            Ok((group, len)) => {
                self.position += len;
                Scanned::Record(group)
            }
            Err(none) => Scanned::Unread { len: self.pass_over()?, why: none.why(), damaged: true },
        };
        Ok(Some((at, found)))
    }

    /// Advances to the next page that is all zeros or starts with a group header. Returns the
    /// distance.
    fn pass_over(&mut self) -> Result<u64, LogError> {
        let at = self.position;
        self.position += PAGE_BYTES;
        while self.position < self.groups.len {
            match self.page()? {
                Some(page)
                    if UncheckedGroup::decode(self.groups.kind, &self.groups.store, &page).is_err() =>
                {
                    self.position += PAGE_BYTES;
                }
                _ => break,
            }
        }
        Ok(self.position.min(self.groups.len) - at)
    }

    /// The page at the position, as far as it can be read; `None` when it is all zeros.
    fn page(&self) -> Result<Option<Vec<u8>>, LogError> {
        let mut page = vec![0; PAGE_BYTES.min(self.groups.len - self.position) as usize];
        match self.groups.file.read_exact_at(&mut page, self.position) {
            Err(error) if error.kind() == io::ErrorKind::InvalidData => return Ok(Some(Vec::new())),
            read => read?,
        }
        Ok(page.iter().any(|byte| *byte != 0).then_some(page))
    }
}

impl Iterator for GroupScan<'_> {
    type Item = Result<(u64, Scanned<Group>), LogError>;

    fn next(&mut self) -> Option<Self::Item> {
        let found = self.find_next().transpose();
        if matches!(found, Some(Err(_))) {
            // An error ends the scan: the same place would fail without end.
            self.position = self.groups.len;
        }
        found
    }
}

/// The records of a segment, with their offsets. The scan advances record by record. After damage
/// or meaningless bytes it tries every unit, because the extents of a pack may start at any.
pub struct SegmentScan {
    segment: Arc<Segment>,
    store: StoreId,
    len: u64,
    position: u64,
    window: Vec<u8>,
    window_at: u64,
}

/// The kind of a unit of a segment.
enum SegmentUnit {
    Record(SegmentRecord),
    /// The start of a damaged record.
    Damaged(String),
    /// Meaningless bytes.
    Other,
    Zeros,
    /// The disk cannot read it; the reason.
    Unreadable(String),
}

impl SegmentScan {
    /// A scan of everything after the header of `segment`.
    ///
    /// # Errors
    /// Of the disk.
    pub fn new(segment: Arc<Segment>, store: StoreId) -> Result<Self, LogError> {
        let len = segment.file.len()?;
        Ok(Self { segment, store, len, position: PAGE_BYTES, window: Vec::new(), window_at: 0 })
    }

    fn find_next(&mut self) -> Result<Option<(u64, Scanned<SegmentRecord>)>, LogError> {
        while self.position < self.len {
            let at = self.position;
            let found = match self.unit()? {
                SegmentUnit::Zeros => {
                    self.position += UNIT_BYTES;
                    continue;
                }
                SegmentUnit::Record(record) => {
                    self.position = unit_ceil(at + record.len());
                    Scanned::Record(record)
                }
                SegmentUnit::Damaged(why) => Scanned::Unread { len: self.pass_over()?, why, damaged: true },
                SegmentUnit::Unreadable(why) => {
                    self.position = page_ceil(at + 1).min(self.len);
                    Scanned::Unread { len: self.position - at, why, damaged: true }
                }
                SegmentUnit::Other => {
                    let why = DecodeError::Magic.to_string();
                    Scanned::Unread { len: self.pass_over()?, why, damaged: false }
                }
            };
            return Ok(Some((at, found)));
        }
        Ok(None)
    }

    /// Advances to the next unit that starts like a record. Returns the number of bytes up to the
    /// last unit before it that is not zero.
    fn pass_over(&mut self) -> Result<u64, LogError> {
        let at = self.position;
        let mut last = at;
        self.position += UNIT_BYTES;
        while self.position < self.len {
            match self.unit()? {
                SegmentUnit::Record(_) | SegmentUnit::Damaged(_) | SegmentUnit::Unreadable(_) => break,
                SegmentUnit::Other => last = self.position,
                SegmentUnit::Zeros => {}
            }
            self.position += UNIT_BYTES;
        }
        Ok((last + UNIT_BYTES).min(self.len) - at)
    }

    /// Classifies the unit at the position.
    fn unit(&mut self) -> Result<SegmentUnit, LogError> {
        let at = self.position;
        let store = self.store;
        let id = self.segment.id;
        let bytes = match self.bytes(UNIT_BYTES) {
            Err(LogError::Io(error)) if error.kind() == io::ErrorKind::InvalidData => {
                return Ok(SegmentUnit::Unreadable(unreadable(&error)));
            }
            bytes => bytes?,
        };
        if bytes.iter().all(|byte| *byte == 0) {
            return Ok(SegmentUnit::Zeros);
        }
        match ExtentHeader::decode(&store, bytes) {
            Ok(header) if (header.segment, header.offset) == (id, at) => {
                Ok(SegmentUnit::Record(SegmentRecord::Extent(header)))
            }
            Ok(header) => Ok(SegmentUnit::Damaged(format!(
                "the extent belongs to offset {} of segment {:016x}",
                header.offset, header.segment
            ))),
            Err(DecodeError::Magic | DecodeError::Short) => self.footer(),
            Err(error) => Ok(SegmentUnit::Damaged(format!("extent header: {error}"))),
        }
    }

    fn footer(&mut self) -> Result<SegmentUnit, LogError> {
        let at = self.position;
        let store = self.store;
        if !at.is_multiple_of(PAGE_BYTES) {
            return Ok(SegmentUnit::Other);
        }
        let expected = Footer { segment: self.segment.id, offset: at };
        Ok(match Footer::decode(&store, self.bytes(PAGE_BYTES)?) {
            Ok(footer) if footer == expected => SegmentUnit::Record(SegmentRecord::Footer(footer)),
            Ok(_) => SegmentUnit::Damaged("the footer belongs elsewhere".into()),
            Err(DecodeError::Magic | DecodeError::Short) => SegmentUnit::Other,
            Err(error) => SegmentUnit::Damaged(format!("footer: {error}")),
        })
    }

    /// The next `len` bytes, at most a page, as far as the segment has them.
    fn bytes(&mut self, len: u64) -> Result<&[u8], LogError> {
        let end = (self.position + len).min(self.len);
        if self.position < self.window_at || end > self.window_at + self.window.len() as u64 {
            self.read_window(WINDOW_BYTES).or_else(|_| {
                // Some bytes of the window are unreadable; the page may still be readable.
                self.read_window(page_ceil(self.position + 1) - self.position)
            })?;
        }
        Ok(&self.window[(self.position - self.window_at) as usize..(end - self.window_at) as usize])
    }

    fn read_window(&mut self, len: u64) -> Result<(), LogError> {
        self.window_at = self.position;
        self.window.resize(len.min(self.len - self.position) as usize, 0);
        let read = self.segment.file.read_exact_at(&mut self.window, self.window_at);
        Ok(read.inspect_err(|_| self.window.clear())?)
    }
}

impl SegmentRecord {
    fn len(&self) -> u64 {
        match self {
            Self::Extent(header) => header.extent_len(),
            Self::Footer(_) => Footer::BYTES as u64,
        }
    }
}

impl Iterator for SegmentScan {
    type Item = Result<(u64, Scanned<SegmentRecord>), LogError>;

    fn next(&mut self) -> Option<Self::Item> {
        let found = self.find_next().transpose();
        if matches!(found, Some(Err(_))) {
            self.position = self.len;
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::limits::MIB;
    use crate::base::{ManualClock, Timestamp};
    use crate::format::{Descriptor, ExtentPurpose, GroupHeader, page_ceil};
    use crate::fs::Fs;
    use crate::fs::sim::SimFs;
    use crate::log::{PackBuilder, SegmentOptions, Segments, WriteHead};

    const STORE: StoreId = StoreId([1; 16]);
    const SIZES: SegmentOptions = SegmentOptions { segment_max_bytes: MIB, keep_free_bytes: 0, open_max: 8 };
    const PATH: &str = "data/0000000000000001.segment";

    /// A segment with a pack of three extents and the leftovers of an aborted upload.
    fn segment(fs: &SimFs) -> (Arc<Segment>, Vec<u64>) {
        fs.create_dir("data").unwrap();
        let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1)));
        let segments =
            Segments::open(Arc::new(fs.clone()), Arc::new(fs.clone()), clock, STORE, SIZES).unwrap();
        let mut pack = PackBuilder::default();
        for key in [b"a", b"b", b"c"] {
            let descriptor = Descriptor {
                bucket: 1,
                bucket_name: "photos".into(),
                key: key.to_vec(),
                write: 2,
                position: 0,
                purpose: ExtentPurpose::Object(None),
            };
            pack.push(&[7; 100], 0, &descriptor);
        }
        let place = segments.allocate(WriteHead::Small, pack.len()).unwrap();
        let (_, refs) = pack.write(&STORE, &place).unwrap();
        place.segment.file.write_all_at(&[9; 200], page_ceil(place.offset + place.len)).unwrap();
        (place.segment.clone(), refs.iter().map(|extent| extent.offset).collect())
    }

    fn scan(segment: &Arc<Segment>) -> Vec<(u64, Scanned<SegmentRecord>)> {
        SegmentScan::new(segment.clone(), STORE).unwrap().map(Result::unwrap).collect()
    }

    fn offsets<T>(found: &[(u64, Scanned<T>)]) -> Vec<u64> {
        let records = found.iter().filter(|(_, found)| matches!(found, Scanned::Record(_)));
        records.map(|(at, _)| *at).collect()
    }

    #[test]
    fn every_extent_is_found_and_other_bytes_are_classified() {
        let (segment, expected) = segment(&SimFs::new());
        let found = scan(&segment);
        assert_eq!(offsets(&found), expected);
        let left = Scanned::Unread { len: 200, why: "the magic number is wrong".into(), damaged: false };
        assert_eq!(found.last(), Some(&(8192, left)));
    }

    #[test]
    fn extents_after_a_damaged_one_in_a_pack_are_found() {
        let fs = SimFs::new();
        let (segment, expected) = segment(&fs);
        fs.damage(PATH, expected[1] + 30, 1).unwrap();
        let found = scan(&segment);
        assert_eq!(offsets(&found), [expected[0], expected[2]]);
        assert!(matches!(&found[1], (at, Scanned::Unread { damaged: true, .. }) if *at == expected[1]));
    }

    #[test]
    fn an_extent_in_another_place_is_none() {
        let fs = SimFs::new();
        let (segment, expected) = segment(&fs);
        let bytes = fs.contents(PATH).unwrap();
        fs.overwrite(PATH, 16_384, &bytes[expected[0] as usize..][..1024]).unwrap();
        let found = scan(&segment);
        assert_eq!(offsets(&found), expected);
        let Some((16_384, Scanned::Unread { why, .. })) = found.get(4) else { panic!("{found:?}") };
        assert_eq!(why, "the extent belongs to offset 4096 of segment 0000000000000001");
    }

    #[test]
    fn groups_after_damage_in_a_log_are_found() {
        let fs = SimFs::new();
        let file = fs.create("log").unwrap();
        let mut position = PAGE_BYTES;
        for sequence in 1..=3 {
            let header = GroupHeader {
                kind: GroupKind::Log,
                sequence,
                stable: 0,
                file_len: 0,
                time: Timestamp::from_millis(1),
                pack: None,
                previous_crc: 0,
            };
            // An ignorable entry that fills two pages and a bit.
            let body = [&[200, 0x80, 0x40][..], &[5; 0x2000]].concat();
            let (bytes, _) = header.encode_group(&STORE, 1, &body);
            file.write_all_at(&bytes, position).unwrap();
            position += bytes.len() as u64;
        }
        file.write_all_at(&[0; 100_000], position).unwrap();
        fs.damage("log", PAGE_BYTES * 4 + 200, 1).unwrap();
        let found: Vec<_> =
            GroupScan::new(file.as_ref(), GroupKind::Log, STORE).unwrap().map(Result::unwrap).collect();
        assert_eq!(offsets(&found), [PAGE_BYTES, PAGE_BYTES * 7]);
        let why = "body of group 2: the body CRC does not match".to_owned();
        let unread = Scanned::Unread { len: 3 * PAGE_BYTES, why, damaged: true };
        assert_eq!(found[1], (PAGE_BYTES * 4, unread));
    }
}
