//! Groups (data-format.md, section 5): entries that were committed together.

use crate::base::Timestamp;
use crate::base::digest::Crc32;
use crate::base::limits::GROUP_BODY_MAX_BYTES;
use crate::format::{ByteDecoder, DecodeError, Decoded, Entry, Field, RawEntry, StoreId, page_ceil};

const MAGIC: Field = Field::new(0, 4, "magic");
const BODY_LEN: Field = Field::new(4, 4, "body length");
const SEQUENCE: Field = Field::new(8, 8, "sequence");
const STABLE: Field = Field::new(16, 8, "stable");
const FILE_LEN: Field = Field::new(24, 8, "file length");
const TIME: Field = Field::new(32, 8, "time");
const PACK_SEGMENT: Field = Field::new(40, 8, "pack segment");
const PACK_OFFSET: Field = Field::new(48, 8, "pack offset");
const PACK_LEN: Field = Field::new(56, 4, "pack length");
const PACK_CRC: Field = Field::new(60, 4, "pack CRC");
const ENTRY_COUNT: Field = Field::new(64, 4, "entry count");
const BODY_CRC: Field = Field::new(68, 4, "body CRC");
const PREVIOUS_CRC: Field = Field::new(72, 4, "previous CRC");
const RESERVED: Field = Field::new(76, 48, "reserved");
const HEADER_CRC: Field = Field::new(124, 4, "header CRC");

/// The fields of a group's header.
pub const GROUP_LAYOUT: &[Field] = &[
    MAGIC,
    BODY_LEN,
    SEQUENCE,
    STABLE,
    FILE_LEN,
    TIME,
    PACK_SEGMENT,
    PACK_OFFSET,
    PACK_LEN,
    PACK_CRC,
    ENTRY_COUNT,
    BODY_CRC,
    PREVIOUS_CRC,
    RESERVED,
    HEADER_CRC,
];

/// The kind of file that holds a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupKind {
    /// In the log.
    Log,
    /// In a checkpoint.
    Checkpoint,
}

impl GroupKind {
    fn magic(self) -> &'static [u8; 4] {
        match self {
            Self::Log => b"SGRP",
            Self::Checkpoint => b"SCKG",
        }
    }
}

/// The pack of a group: the extents of its small objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pack {
    /// The segment; never 0.
    pub segment: u64,
    /// The offset of the pack.
    pub offset: u64,
    /// Bytes.
    pub len: u32,
    /// CRC of these bytes.
    pub crc: u32,
}

/// The header of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupHeader {
    /// Log or checkpoint.
    pub kind: GroupKind,
    /// Its number.
    pub sequence: u64,
    /// Every group up to this sequence was durable when this one was written.
    pub stable: u64,
    /// The durable length of the file when this group was written, or less; bytes.
    pub file_len: u64,
    /// The time when it was written.
    pub time: Timestamp,
    /// The pack of the group.
    pub pack: Option<Pack>,
    /// The header CRC of the group before.
    pub previous_crc: u32,
}

/// A decoded group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Its header.
    pub header: GroupHeader,
    /// Its entries.
    pub entries: Vec<Entry>,
    /// The length of the entries, in bytes.
    pub body_len: usize,
    /// Its header CRC, which the next group contains.
    pub crc: u32,
}

impl GroupHeader {
    /// Bytes of the header itself.
    pub const BYTES: usize = 128;

    /// The group with the entries encoded in `body`, padded to whole pages, and its header CRC.
    ///
    /// # Panics
    /// When the body is longer than the maximum; the committer closes groups before.
    pub fn encode_group(&self, store: &StoreId, entry_count: u32, body: &[u8]) -> (Vec<u8>, u32) {
        assert!(
            body.len() as u64 <= GROUP_BODY_MAX_BYTES,
            "a group holds at most {GROUP_BODY_MAX_BYTES} bytes"
        );
        let mut bytes = vec![0; page_ceil((Self::BYTES + body.len()) as u64) as usize];
        MAGIC.put(&mut bytes, self.kind.magic());
        BODY_LEN.put_u32(&mut bytes, body.len() as u32);
        SEQUENCE.put_u64(&mut bytes, self.sequence);
        STABLE.put_u64(&mut bytes, self.stable);
        FILE_LEN.put_u64(&mut bytes, self.file_len);
        TIME.put_u64(&mut bytes, self.time.as_millis());
        if let Some(pack) = &self.pack {
            PACK_SEGMENT.put_u64(&mut bytes, pack.segment);
            PACK_OFFSET.put_u64(&mut bytes, pack.offset);
            PACK_LEN.put_u32(&mut bytes, pack.len);
            PACK_CRC.put_u32(&mut bytes, pack.crc);
        }
        ENTRY_COUNT.put_u32(&mut bytes, entry_count);
        BODY_CRC.put_u32(&mut bytes, Crc32::of(body));
        PREVIOUS_CRC.put_u32(&mut bytes, self.previous_crc);
        let crc = store.seal(&bytes[..HEADER_CRC.offset]);
        HEADER_CRC.put_u32(&mut bytes, crc);
        bytes[Self::BYTES..Self::BYTES + body.len()].copy_from_slice(body);
        (bytes, crc)
    }
}

/// A header that has passed its CRC, without a checked body.
#[derive(Debug, Clone, Copy)]
pub struct UncheckedGroup {
    header: GroupHeader,
    entry_count: u32,
    body_len: u32,
    body_crc: u32,
    crc: u32,
}

impl UncheckedGroup {
    /// Reads the first 128 bytes of a group.
    ///
    /// # Errors
    /// On invalid bytes.
    pub fn decode(kind: GroupKind, store: &StoreId, bytes: &[u8]) -> Decoded<Self> {
        if bytes.len() < GroupHeader::BYTES {
            return Err(DecodeError::Short);
        }
        if MAGIC.of(bytes) != kind.magic() {
            return Err(DecodeError::Magic);
        }
        let crc = HEADER_CRC.u32(bytes);
        if crc != store.seal(&bytes[..HEADER_CRC.offset]) {
            return Err(DecodeError::Crc("header"));
        }
        let body_len = BODY_LEN.u32(bytes);
        if u64::from(body_len) > GROUP_BODY_MAX_BYTES {
            return Err(DecodeError::Value("a body length"));
        }
        let pack = Pack {
            segment: PACK_SEGMENT.u64(bytes),
            offset: PACK_OFFSET.u64(bytes),
            len: PACK_LEN.u32(bytes),
            crc: PACK_CRC.u32(bytes),
        };
        let header = GroupHeader {
            kind,
            sequence: SEQUENCE.counter(bytes)?,
            stable: STABLE.u64(bytes),
            file_len: FILE_LEN.u64(bytes),
            time: Timestamp::from_millis(TIME.u64(bytes)),
            pack: (pack.segment != 0).then_some(pack),
            previous_crc: PREVIOUS_CRC.u32(bytes),
        };
        let entry_count = ENTRY_COUNT.u32(bytes);
        Ok(Self { header, entry_count, body_len, body_crc: BODY_CRC.u32(bytes), crc })
    }

    /// The header.
    pub fn header(&self) -> &GroupHeader {
        &self.header
    }

    /// Bytes of the body.
    pub fn body_len(&self) -> usize {
        self.body_len as usize
    }

    /// Bytes of the group with its padding.
    pub fn group_len(&self) -> u64 {
        page_ceil(GroupHeader::BYTES as u64 + u64::from(self.body_len))
    }

    /// Its header CRC, which the next group contains.
    pub fn crc(&self) -> u32 {
        self.crc
    }

    /// Checks the body against its CRC.
    ///
    /// # Errors
    /// [`DecodeError::Crc`].
    pub fn check_body(&self, body: &[u8]) -> Decoded<()> {
        let good = Crc32::of(body) == self.body_crc && body.len() == self.body_len();
        if good { Ok(()) } else { Err(DecodeError::Crc("body")) }
    }

    /// The entries of a checked body, up to the first error. Bytes left over at the end are an
    /// error.
    pub fn raw_entries<'b>(&self, body: &'b [u8]) -> impl Iterator<Item = Decoded<RawEntry<'b>>> + use<'b> {
        let mut from = ByteDecoder::new(body);
        let mut left = self.entry_count;
        std::iter::from_fn(move || match left {
            0 if from.is_done() => None,
            0 => Some(Err(DecodeError::Long)),
            _ => {
                left -= 1;
                Some(RawEntry::read(&mut from))
            }
        })
    }

    /// Checks the body against its CRC and decodes its entries.
    ///
    /// # Errors
    /// On invalid bytes.
    pub fn check(self, body: &[u8]) -> Decoded<Group> {
        self.check_body(body)?;
        let mut entries = Vec::new();
        for raw in self.raw_entries(body) {
            entries.extend(raw?.decode()?);
        }
        Ok(Group { header: self.header, entries, body_len: body.len(), crc: self.crc })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::limits::COUNTERS_END;

    const STORE: StoreId = StoreId([3; 16]);

    fn header() -> GroupHeader {
        GroupHeader {
            kind: GroupKind::Log,
            sequence: 12,
            stable: 11,
            file_len: 1 << 20,
            time: Timestamp::from_millis(99),
            pack: Some(Pack { segment: 2, offset: 8192, len: 640, crc: 7 }),
            previous_crc: 5,
        }
    }

    fn encoded(entries: &[Entry]) -> (Vec<u8>, u32) {
        let mut body = Vec::new();
        for entry in entries {
            entry.encode(&mut body);
        }
        header().encode_group(&STORE, entries.len() as u32, &body)
    }

    fn decode(bytes: &[u8]) -> Decoded<Group> {
        let unchecked = UncheckedGroup::decode(GroupKind::Log, &STORE, bytes)?;
        let body = &bytes[GroupHeader::BYTES..];
        unchecked.check(body.get(..unchecked.body_len()).ok_or(DecodeError::Short)?)
    }

    #[test]
    fn groups_come_back_in_whole_pages() {
        let entries = vec![Entry::BucketDelete { id: 1 }, Entry::BucketDelete { id: 2 }];
        let (bytes, crc) = encoded(&entries);
        assert_eq!(bytes.len(), 4096);
        assert_eq!(decode(&bytes), Ok(Group { header: header(), entries, body_len: 6, crc }));
        assert_eq!(decode(&encoded(&[]).0).map(|group| group.entries.len()), Ok(0));
    }

    #[test]
    fn no_flip_of_a_byte_that_means_something_passes() {
        let (bytes, _) = encoded(&[Entry::BucketDelete { id: 1 }]);
        for at in 0..GroupHeader::BYTES + 3 {
            let mut bad = bytes.clone();
            bad[at] ^= 0x10;
            assert!(decode(&bad).is_err(), "byte {at}");
        }
    }

    #[test]
    fn no_group_follows_a_sequence_that_leaves_none() {
        let last = GroupHeader { sequence: COUNTERS_END, ..header() };
        let (bytes, _) = last.encode_group(&STORE, 0, b"");
        assert_eq!(decode(&bytes), Err(DecodeError::Value("sequence")));
    }

    #[test]
    fn a_group_of_another_store_or_another_kind_of_file_does_not_pass() {
        let (bytes, _) = encoded(&[]);
        assert!(UncheckedGroup::decode(GroupKind::Log, &StoreId([4; 16]), &bytes).is_err());
        assert!(UncheckedGroup::decode(GroupKind::Checkpoint, &STORE, &bytes).is_err());
    }
}
