//! The first page of every file (data-format.md, section 3).

use crate::base::Timestamp;
use crate::base::digest::Crc32;
use crate::base::limits::PAGE_BYTES;
use crate::format::{DecodeError, Decoded, Features, Field};

/// Bytes of a file header.
pub(crate) const HEADER_BYTES: usize = PAGE_BYTES as usize;

const VERSION_NUMBER: u32 = 1;

const MAGIC: Field = Field::new(0, 8, "magic");
const VERSION: Field = Field::new(8, 4, "version");
const HEADER_LEN: Field = Field::new(12, 4, "header length");
const STORE_ID: Field = Field::new(16, 16, "store id");
const NUMBER: Field = Field::new(32, 8, "number");
const CRITICAL: Field = Field::new(40, 8, "critical features");
const IGNORABLE: Field = Field::new(48, 8, "ignorable features");
const CREATED: Field = Field::new(56, 8, "created");
const PREVIOUS_CRC: Field = Field::new(64, 4, "previous CRC");
const RESERVED: Field = Field::new(68, 4024, "reserved");
const CRC: Field = Field::new(4092, 4, "CRC");

/// The fields of a file header.
pub const FILE_LAYOUT: &[Field] = &[
    MAGIC,
    VERSION,
    HEADER_LEN,
    STORE_ID,
    NUMBER,
    CRITICAL,
    IGNORABLE,
    CREATED,
    PREVIOUS_CRC,
    RESERVED,
    CRC,
];

/// The kinds of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FileKind {
    /// Extents of objects.
    Segment,
    /// Groups of entries.
    Log,
    /// The entries of all metadata up to some group.
    Checkpoint,
}

impl FileKind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Segment, Self::Log, Self::Checkpoint];

    fn magic(self) -> &'static [u8; 8] {
        match self {
            Self::Segment => b"SiltSegm",
            Self::Log => b"SiltMlog",
            Self::Checkpoint => b"SiltCkpt",
        }
    }
}

/// The id of a store, which distinguishes its files from other stores'.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct StoreId(pub [u8; 16]);

impl StoreId {
    /// The sealed CRC of `bytes`: structures of other stores do not match it.
    pub fn seal(&self, bytes: &[u8]) -> u32 {
        let mut crc = Crc32::new();
        crc.update(&self.0);
        crc.update(bytes);
        crc.value()
    }
}

/// The header of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileHeader {
    /// The kind of the file.
    pub kind: FileKind,
    /// The store id.
    pub store: StoreId,
    /// The number in its name.
    pub number: u64,
    /// The critical features that its content may use.
    pub features: Features,
    /// The creation time.
    pub created: Timestamp,
    /// For a log file: the header CRC of the group before its first.
    pub previous_crc: u32,
}

impl FileHeader {
    /// The first page of the file.
    pub fn encode(&self) -> Vec<u8> {
        let mut page = vec![0; HEADER_BYTES];
        MAGIC.put(&mut page, self.kind.magic());
        VERSION.put_u32(&mut page, VERSION_NUMBER);
        HEADER_LEN.put_u32(&mut page, HEADER_BYTES as u32);
        STORE_ID.put(&mut page, &self.store.0);
        NUMBER.put_u64(&mut page, self.number);
        CRITICAL.put_u64(&mut page, self.features.bits());
        CREATED.put_u64(&mut page, self.created.as_millis());
        PREVIOUS_CRC.put_u32(&mut page, self.previous_crc);
        let crc = Crc32::of(&page[..CRC.offset]);
        CRC.put_u32(&mut page, crc);
        page
    }

    /// Reads the first page of a file.
    ///
    /// # Errors
    /// `Version` and `Features` for a file of a newer siltstone; others for a damaged page.
    pub fn decode(page: &[u8]) -> Decoded<Self> {
        if page.len() < HEADER_BYTES {
            return Err(DecodeError::Short);
        }
        let guessed = Self::guess(page).ok_or(DecodeError::Magic)?;
        if CRC.u32(page) != Crc32::of(&page[..CRC.offset]) {
            return Err(DecodeError::Crc("header"));
        }
        if VERSION.u32(page) != VERSION_NUMBER {
            return Err(DecodeError::Version(VERSION.u32(page)));
        }
        if HEADER_LEN.u32(page) != HEADER_BYTES as u32 {
            return Err(DecodeError::Value("the header length"));
        }
        let features = Features::from_bits(CRITICAL.u64(page)).map_err(DecodeError::Features)?;
        Ok(Self { features, number: NUMBER.counter(page)?, ..guessed })
    }

    /// The probable content of a damaged header, none of it certain. `None` when the kind is
    /// unknown or the page is cut off.
    pub fn guess(page: &[u8]) -> Option<Self> {
        let page = page.get(..HEADER_BYTES)?;
        Some(Self {
            kind: FileKind::ALL.into_iter().find(|kind| kind.magic() == MAGIC.of(page))?,
            store: StoreId(STORE_ID.of(page).try_into().expect("the field has 16 bytes")),
            number: NUMBER.u64(page),
            features: Features::from_bits(CRITICAL.u64(page)).unwrap_or_default(),
            created: Timestamp::from_millis(CREATED.u64(page)),
            previous_crc: PREVIOUS_CRC.u32(page),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> FileHeader {
        FileHeader {
            kind: FileKind::Log,
            store: StoreId(*b"0123456789abcdef"),
            number: 7,
            features: Features::BUCKET_CONFIGURATIONS,
            created: Timestamp::from_millis(1_700_000_000_123),
            previous_crc: 0xdead_beef,
        }
    }

    fn with_field(field: Field, bytes: &[u8]) -> Vec<u8> {
        let mut page = header().encode();
        field.put(&mut page, bytes);
        let crc = Crc32::of(&page[..CRC.offset]);
        CRC.put_u32(&mut page, crc);
        page
    }

    #[test]
    fn a_header_comes_back() {
        assert_eq!(FileHeader::decode(&header().encode()), Ok(header()));
    }

    #[test]
    fn a_flip_of_any_byte_is_seen() {
        let page = header().encode();
        for at in 0..page.len() {
            let mut bad = page.clone();
            bad[at] ^= 0x40;
            assert!(FileHeader::decode(&bad).is_err(), "byte {at}");
        }
    }

    #[test]
    fn a_damaged_header_can_be_guessed() {
        let mut page = header().encode();
        page[4000] ^= 1;
        assert_eq!(FileHeader::guess(&page), Some(header()));
        page[0] ^= 1;
        assert_eq!(FileHeader::guess(&page), None);
        assert_eq!(FileHeader::guess(&page[1..]), None);
    }

    #[test]
    fn unknown_critical_values_are_refused_and_ignorable_ones_skipped() {
        let decode = |field, bytes: &[u8]| FileHeader::decode(&with_field(field, bytes));
        assert_eq!(decode(VERSION, &2u32.to_le_bytes()), Err(DecodeError::Version(2)));
        let unknown = DecodeError::Features(1 << 20 | 1 << 40);
        assert_eq!(decode(CRITICAL, &(1u64 | 1 << 20 | 1 << 40).to_le_bytes()), Err(unknown));
        assert!(unknown.to_string().starts_with("it needs the features with bit 20, bit 40, which"));
        assert_eq!(FileHeader::decode(&with_field(IGNORABLE, &[0xff; 8])), Ok(header()));
        assert_eq!(FileHeader::decode(&with_field(RESERVED, &[1; 4024])), Ok(header()));
    }
}
