//! The footer of a sealed segment (data-format.md, section 4).

use crate::base::limits::PAGE_BYTES;
use crate::format::{DecodeError, Decoded, Field, StoreId};

const MAGIC_BYTES: &[u8; 8] = b"SiltSeal";

const MAGIC: Field = Field::new(0, 8, "magic");
const SEGMENT: Field = Field::new(8, 8, "segment");
const OFFSET: Field = Field::new(16, 8, "offset");
const RESERVED: Field = Field::new(24, 4068, "reserved");
const CRC: Field = Field::new(4092, 4, "CRC");

/// The fields of a footer.
pub const FOOTER_LAYOUT: &[Field] = &[MAGIC, SEGMENT, OFFSET, RESERVED, CRC];

/// The last page of a segment. It marks the segment as sealed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Footer {
    /// The segment.
    pub segment: u64,
    /// The offset of the footer.
    pub offset: u64,
}

impl Footer {
    /// Bytes of a footer.
    pub const BYTES: usize = PAGE_BYTES as usize;

    /// The page.
    pub fn encode(&self, store: &StoreId) -> Vec<u8> {
        let mut page = vec![0; Self::BYTES];
        MAGIC.put(&mut page, MAGIC_BYTES);
        SEGMENT.put_u64(&mut page, self.segment);
        OFFSET.put_u64(&mut page, self.offset);
        let crc = store.seal(&page[..CRC.offset]);
        CRC.put_u32(&mut page, crc);
        page
    }

    /// Reads a page.
    ///
    /// # Errors
    /// On invalid bytes.
    pub fn decode(store: &StoreId, page: &[u8]) -> Decoded<Self> {
        if page.len() < Self::BYTES {
            return Err(DecodeError::Short);
        }
        if MAGIC.of(page) != MAGIC_BYTES {
            return Err(DecodeError::Magic);
        }
        if CRC.u32(page) != store.seal(&page[..CRC.offset]) {
            return Err(DecodeError::Crc("footer"));
        }
        Ok(Self { segment: SEGMENT.u64(page), offset: OFFSET.u64(page) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_footer_comes_back_and_no_flip_passes() {
        let store = StoreId([1; 16]);
        let footer = Footer { segment: 5, offset: 8192 };
        let page = footer.encode(&store);
        assert_eq!(Footer::decode(&store, &page), Ok(footer));
        for at in 0..page.len() {
            let mut bad = page.clone();
            bad[at] ^= 2;
            assert!(Footer::decode(&store, &bad).is_err(), "byte {at}");
        }
    }
}
