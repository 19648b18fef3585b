//! The first page of an encrypted file, which stands before all that the file holds
//! (data-format.md, "The encrypted data directory").

use std::fmt;

use crate::base::digest::{Crc32, to_hex};
use crate::format::{DecodeError, Decoded, Field};

const MAGIC_NUMBER: &[u8; 8] = b"SiltSalt";
const VERSION_NUMBER: u32 = 1;

const MAGIC: Field = Field::new(0, 8, "magic");
const VERSION: Field = Field::new(8, 4, "version");
const PAGE: Field = Field::new(12, 4, "page length");
const KEY: Field = Field::new(16, 8, "key id");
const SALT: Field = Field::new(24, 32, "salt");
const RESERVED: Field = Field::new(56, 4, "reserved");
const CRC: Field = Field::new(60, 4, "CRC");

/// The fields of the first page of an encrypted file.
pub const SALT_PAGE_LAYOUT: &[Field] = &[MAGIC, VERSION, PAGE, KEY, SALT, RESERVED, CRC];

/// The name of a key of a data directory, or of a key file. It says nothing of the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreKeyId(pub [u8; 8]);

impl fmt::Display for StoreKeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&to_hex(&self.0))
    }
}

/// What stands in the clear before an encrypted file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SaltPage {
    /// The key of the data directory that the key of the file is derived from.
    pub key: StoreKeyId,
    /// Distinguishes the keys of files.
    pub salt: [u8; 32],
}

impl SaltPage {
    /// Bytes of the page.
    pub const BYTES: u64 = 4096;
    /// Bytes at its start that say anything. They are in one sector, which the disk writes wholly
    /// or not at all.
    pub const HEAD_BYTES: usize = 64;

    /// The page.
    pub fn encode(&self) -> Vec<u8> {
        let mut page = vec![0; Self::BYTES as usize];
        MAGIC.put(&mut page, MAGIC_NUMBER);
        VERSION.put_u32(&mut page, VERSION_NUMBER);
        PAGE.put_u32(&mut page, Self::BYTES as u32);
        KEY.put(&mut page, &self.key.0);
        SALT.put(&mut page, &self.salt);
        let crc = Crc32::of(&page[..CRC.offset]);
        CRC.put_u32(&mut page, crc);
        page
    }

    /// Reads the head of the page.
    ///
    /// # Errors
    /// `Magic` for a file that is not encrypted, `Version` for a later version; another for a
    /// damaged page.
    pub fn decode(head: &[u8]) -> Decoded<Self> {
        let head = head.get(..Self::HEAD_BYTES).ok_or(DecodeError::Short)?;
        if MAGIC.of(head) != MAGIC_NUMBER {
            return Err(DecodeError::Magic);
        }
        if CRC.u32(head) != Crc32::of(&head[..CRC.offset]) {
            return Err(DecodeError::Crc("salt"));
        }
        if VERSION.u32(head) != VERSION_NUMBER {
            return Err(DecodeError::Version(VERSION.u32(head)));
        }
        if PAGE.u32(head) != Self::BYTES as u32 {
            return Err(DecodeError::Value("the page length"));
        }
        let mut key = [0; 8];
        let mut salt = [0; 32];
        key.copy_from_slice(KEY.of(head));
        salt.copy_from_slice(SALT.of(head));
        Ok(Self { key: StoreKeyId(key), salt })
    }

    /// Whether the bytes at the start of a file, as many as it has up to [`SaltPage::HEAD_BYTES`],
    /// are what a crash leaves of a page that was never synced.
    pub fn is_unfinished(head: &[u8]) -> bool {
        let is_cut = head.len() < Self::HEAD_BYTES
            && MAGIC_NUMBER.iter().zip(head).all(|(expected, found)| expected == found);
        is_cut || head.iter().all(|byte| *byte == 0)
    }

    /// Whether the bytes at the start of a file say that it is encrypted, be its page damaged or
    /// not.
    pub fn is_meant(head: &[u8]) -> bool {
        head.starts_with(MAGIC_NUMBER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_reads_back_and_any_flipped_bit_of_its_head_is_refused() {
        let page = SaltPage { key: StoreKeyId([1; 8]), salt: [2; 32] };
        let bytes = page.encode();
        assert_eq!(SaltPage::decode(&bytes), Ok(page));
        for bit in 0..SaltPage::HEAD_BYTES * 8 {
            let mut bytes = bytes.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(SaltPage::decode(&bytes).is_err(), "bit {bit}");
        }
        for len in 0..SaltPage::HEAD_BYTES {
            assert!(SaltPage::decode(&bytes[..len]).is_err(), "{len} bytes");
        }
    }

    #[test]
    fn what_a_crash_leaves_of_a_page_is_unfinished_and_a_whole_or_a_damaged_one_is_not() {
        let head = SaltPage { key: StoreKeyId([1; 8]), salt: [2; 32] }.encode();
        let head = &head[..SaltPage::HEAD_BYTES];
        assert!((0..head.len()).all(|len| SaltPage::is_unfinished(&head[..len])));
        assert!(SaltPage::is_unfinished(&[0; 64]) && SaltPage::is_unfinished(&[0; 10]));
        assert!(
            !SaltPage::is_unfinished(head) && !SaltPage::is_unfinished(b"plain") && SaltPage::is_meant(head)
        );
    }

    #[test]
    fn a_later_version_is_named() {
        let mut bytes = SaltPage { key: StoreKeyId([1; 8]), salt: [2; 32] }.encode();
        VERSION.put_u32(&mut bytes, 2);
        let crc = Crc32::of(&bytes[..CRC.offset]);
        CRC.put_u32(&mut bytes, crc);
        assert_eq!(SaltPage::decode(&bytes), Err(DecodeError::Version(2)));
    }
}
