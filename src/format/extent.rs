//! Extents (data-format.md, section 4): header, payload, block table, descriptor.

use crate::base::digest::Crc32;
use crate::base::limits::{BLOCK_BYTES, EXTENT_PAYLOAD_MAX_BYTES};
use crate::format::{DecodeError, Decoded, Descriptor, ExtentRef, Field, StoreId, UNIT_BYTES};

const MAGIC_BYTES: &[u8; 4] = b"SXT1";
const TABLE_ENTRY_BYTES: u64 = 4;

const MAGIC: Field = Field::new(0, 4, "magic");
const RESERVED: Field = Field::new(4, 4, "reserved");
const SEGMENT: Field = Field::new(8, 8, "segment");
const OFFSET: Field = Field::new(16, 8, "offset");
const PAYLOAD_LEN: Field = Field::new(24, 4, "payload length");
const DESCRIPTOR_LEN: Field = Field::new(28, 4, "descriptor length");
const CHECK: Field = Field::new(32, 4, "check");
const DESCRIPTOR_CRC: Field = Field::new(36, 4, "descriptor CRC");
const RESERVED_MORE: Field = Field::new(40, 20, "reserved more");
const HEADER_CRC: Field = Field::new(60, 4, "header CRC");

/// The fields of an extent's header.
pub const EXTENT_LAYOUT: &[Field] = &[
    MAGIC,
    RESERVED,
    SEGMENT,
    OFFSET,
    PAYLOAD_LEN,
    DESCRIPTOR_LEN,
    CHECK,
    DESCRIPTOR_CRC,
    RESERVED_MORE,
    HEADER_CRC,
];

/// The header of an extent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExtentHeader {
    /// The segment that holds it.
    pub segment: u64,
    /// Its offset in the segment.
    pub offset: u64,
    /// Bytes of payload.
    pub payload_len: u32,
    /// Bytes of the descriptor.
    pub descriptor_len: u32,
    /// CRC of the payload, or of the block table if there is one.
    pub check: u32,
    /// CRC of the descriptor.
    pub descriptor_crc: u32,
}

impl ExtentHeader {
    /// Bytes of the header itself.
    pub const BYTES: usize = UNIT_BYTES as usize;

    /// The 64 bytes of the header.
    pub fn encode(&self, store: &StoreId) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        MAGIC.put(&mut bytes, MAGIC_BYTES);
        SEGMENT.put_u64(&mut bytes, self.segment);
        OFFSET.put_u64(&mut bytes, self.offset);
        PAYLOAD_LEN.put_u32(&mut bytes, self.payload_len);
        DESCRIPTOR_LEN.put_u32(&mut bytes, self.descriptor_len);
        CHECK.put_u32(&mut bytes, self.check);
        DESCRIPTOR_CRC.put_u32(&mut bytes, self.descriptor_crc);
        let crc = store.seal(&bytes[..HEADER_CRC.offset]);
        HEADER_CRC.put_u32(&mut bytes, crc);
        bytes
    }

    /// Reads a header. The caller compares segment and offset with the actual place.
    ///
    /// # Errors
    /// On invalid bytes.
    pub fn decode(store: &StoreId, bytes: &[u8]) -> Decoded<Self> {
        if bytes.len() < Self::BYTES {
            return Err(DecodeError::Short);
        }
        if MAGIC.of(bytes) != MAGIC_BYTES {
            return Err(DecodeError::Magic);
        }
        if HEADER_CRC.u32(bytes) != store.seal(&bytes[..HEADER_CRC.offset]) {
            return Err(DecodeError::Crc("header"));
        }
        let payload_len = PAYLOAD_LEN.u32(bytes);
        if u64::from(payload_len) > EXTENT_PAYLOAD_MAX_BYTES {
            return Err(DecodeError::Value("a payload length"));
        }
        Ok(Self {
            segment: SEGMENT.u64(bytes),
            offset: OFFSET.u64(bytes),
            payload_len,
            descriptor_len: DESCRIPTOR_LEN.u32(bytes),
            check: CHECK.u32(bytes),
            descriptor_crc: DESCRIPTOR_CRC.u32(bytes),
        })
    }

    /// Bytes of the block table after a payload.
    pub fn table_len(payload_len: u64) -> u64 {
        if payload_len <= BLOCK_BYTES { 0 } else { payload_len.div_ceil(BLOCK_BYTES) * TABLE_ENTRY_BYTES }
    }

    /// The offset of the descriptor in the extent.
    pub fn descriptor_at(&self) -> u64 {
        let payload_len = u64::from(self.payload_len);
        Self::BYTES as u64 + payload_len + Self::table_len(payload_len)
    }

    /// Bytes of the whole extent, without padding.
    pub fn extent_len(&self) -> u64 {
        self.descriptor_at() + u64::from(self.descriptor_len)
    }

    /// Checks a descriptor against its CRC and decodes it.
    ///
    /// # Errors
    /// On invalid bytes.
    pub fn decode_descriptor(&self, bytes: &[u8]) -> Decoded<Descriptor> {
        if Crc32::of(bytes) != self.descriptor_crc {
            return Err(DecodeError::Crc("descriptor"));
        }
        Descriptor::decode(bytes)
    }

    /// A reference to the whole payload.
    pub fn to_ref(&self) -> ExtentRef {
        ExtentRef {
            segment: self.segment,
            offset: self.offset,
            payload_len: self.payload_len,
            check: self.check,
            skip: 0,
            take: self.payload_len,
            shared: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::ExtentPurpose;

    const STORE: StoreId = StoreId([9; 16]);

    fn header() -> ExtentHeader {
        ExtentHeader {
            segment: 3,
            offset: 4096,
            payload_len: 70_000,
            descriptor_len: 100,
            check: 5,
            descriptor_crc: 6,
        }
    }

    #[test]
    fn headers_come_back_and_no_flip_passes() {
        let bytes = header().encode(&STORE);
        assert_eq!(ExtentHeader::decode(&STORE, &bytes), Ok(header()));
        for at in 0..bytes.len() {
            let mut bad = bytes;
            bad[at] ^= 1;
            assert!(ExtentHeader::decode(&STORE, &bad).is_err(), "byte {at}");
        }
    }

    #[test]
    fn a_header_of_another_store_does_not_pass() {
        let bytes = header().encode(&STORE);
        assert_eq!(ExtentHeader::decode(&StoreId([8; 16]), &bytes), Err(DecodeError::Crc("header")));
    }

    #[test]
    fn only_a_payload_of_more_than_a_block_has_a_table() {
        for (payload_len, table_len) in [(0, 0), (65_536, 0), (65_537, 8), (131_072, 8), (131_073, 12)] {
            assert_eq!(ExtentHeader::table_len(payload_len), table_len, "{payload_len}");
        }
        assert_eq!(header().descriptor_at(), 64 + 70_000 + 8);
        assert_eq!(header().extent_len(), 64 + 70_000 + 8 + 100);
    }

    #[test]
    fn a_descriptor_is_checked_against_its_crc() {
        let descriptor = Descriptor {
            bucket: 1,
            bucket_name: "b".into(),
            key: b"k".to_vec(),
            write: 4,
            position: 0,
            purpose: ExtentPurpose::Object(None),
        };
        let bytes = descriptor.encode();
        let header = ExtentHeader { descriptor_crc: Crc32::of(&bytes), ..header() };
        assert_eq!(header.decode_descriptor(&bytes), Ok(descriptor));
        assert_eq!(header.decode_descriptor(&bytes[1..]), Err(DecodeError::Crc("descriptor")));
    }
}
