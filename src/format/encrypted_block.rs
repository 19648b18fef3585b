//! The blocks of encrypted objects of a remote, and the lines of key files (data-format.md, section
//! 18).

use std::fmt;

use crate::base::digest::{from_hex, to_hex};
use crate::format::{DecodeError, Decoded, Field};

const MAGIC_NUMBER: &[u8; 4] = b"SENC";

const MAGIC: Field = Field::new(0, 4, "magic");
const VERSION: Field = Field::new(4, 4, "version");
const KEY: Field = Field::new(8, 8, "key id");
const SALT: Field = Field::new(16, 16, "salt");

/// The fields of the header of an encrypted block.
pub const ENCRYPTED_BLOCK_LAYOUT: &[Field] = &[MAGIC, VERSION, KEY, SALT];

/// The first words of a line of a key file.
const KEY_LINE: &str = "siltstone remote-key 1";

/// The name of a key, which is stored with each block that it encrypted. It says nothing of the
/// key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EncryptionKeyId(pub [u8; 8]);

impl fmt::Display for EncryptionKeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&to_hex(&self.0))
    }
}

/// The header of an encrypted block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EncryptedBlockHead {
    /// The key that the block was encrypted with.
    pub key: EncryptionKeyId,
    /// Distinguishes blocks that have the same place: it depends on the place and on the plaintext.
    pub salt: [u8; 16],
}

impl EncryptedBlockHead {
    /// Bytes of the header.
    pub const BYTES: usize = 32;
    /// Bytes of the tag at the end of a block.
    pub const TAG_BYTES: usize = 16;
    /// Bytes of plaintext in each block but the last, which may have fewer.
    pub const PLAIN_BYTES: u64 = 65_536;
    /// Bytes of a block with its header and its tag.
    pub const BLOCK_BYTES: u64 = Self::PLAIN_BYTES + Self::ADDED_BYTES;
    /// Bytes that a block is longer than its plaintext.
    const ADDED_BYTES: u64 = (Self::BYTES + Self::TAG_BYTES) as u64;

    /// The header.
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        MAGIC.put(&mut bytes, MAGIC_NUMBER);
        VERSION.put_u32(&mut bytes, 1);
        KEY.put(&mut bytes, &self.key.0);
        SALT.put(&mut bytes, &self.salt);
        bytes
    }

    /// Reads the header at the start of a block.
    ///
    /// # Errors
    /// `Version` for a later version; another for bytes that are no encrypted block.
    pub fn decode(block: &[u8]) -> Decoded<Self> {
        let bytes = block.get(..Self::BYTES).ok_or(DecodeError::Short)?;
        if MAGIC.of(bytes) != MAGIC_NUMBER {
            return Err(DecodeError::Magic);
        }
        match VERSION.u32(bytes) {
            1 => {}
            later => return Err(DecodeError::Version(later)),
        }
        let mut key = [0; 8];
        let mut salt = [0; 16];
        key.copy_from_slice(KEY.of(bytes));
        salt.copy_from_slice(SALT.of(bytes));
        Ok(Self { key: EncryptionKeyId(key), salt })
    }

    /// The length of an object whose plaintext has `plain` bytes.
    pub fn encrypted_length(plain: u64) -> u64 {
        let blocks = plain.div_ceil(Self::PLAIN_BYTES).max(1);
        plain.saturating_add(blocks.saturating_mul(Self::ADDED_BYTES))
    }

    /// The length of the plaintext of an object with `encrypted` bytes; `None` if no encrypted
    /// object has that length.
    pub fn plain_length(encrypted: u64) -> Option<u64> {
        let blocks = encrypted.div_ceil(Self::BLOCK_BYTES);
        let plain = encrypted.checked_sub(blocks * Self::ADDED_BYTES)?;
        (encrypted > 0 && Self::encrypted_length(plain) == encrypted).then_some(plain)
    }
}

/// A line of a key file.
pub struct EncryptionKeyLine {
    /// The name of the key.
    pub id: EncryptionKeyId,
    /// The key.
    pub secret: [u8; 32],
}

impl EncryptionKeyLine {
    /// The line, without its line feed.
    pub fn encode(&self) -> String {
        format!("{KEY_LINE} id {} secret {}", self.id, to_hex(&self.secret))
    }

    /// Reads a line.
    ///
    /// # Errors
    /// The line is none of a key. The error quotes nothing of it.
    pub fn decode(line: &str) -> Decoded<Self> {
        let words = line.strip_prefix(KEY_LINE).ok_or(DecodeError::Magic)?;
        let ["id", id, "secret", secret] = words.split_whitespace().collect::<Vec<_>>()[..] else {
            return Err(DecodeError::Value("a word"));
        };
        let id = from_hex(id).and_then(|id| id.try_into().ok()).ok_or(DecodeError::Value("the id"))?;
        let secret = from_hex(secret).and_then(|secret| secret.try_into().ok());
        let secret = secret.ok_or(DecodeError::Value("the secret"))?;
        Ok(Self { id: EncryptionKeyId(id), secret })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_go_both_ways_and_others_are_refused() {
        let block = EncryptedBlockHead::PLAIN_BYTES;
        for plain in [0, 1, 47, 48, block - 1, block, block + 1, 2 * block, 5 * block + 77, 1 << 40] {
            let encrypted = EncryptedBlockHead::encrypted_length(plain);
            assert_eq!(EncryptedBlockHead::plain_length(encrypted), Some(plain), "{plain}");
        }
        let lengths: Vec<u64> = (0..3 * block).map(EncryptedBlockHead::encrypted_length).collect();
        assert!(lengths.is_sorted_by(|a, b| a < b));
        let mut known = lengths.iter().peekable();
        for encrypted in 0..3 * block {
            let plain = EncryptedBlockHead::plain_length(encrypted);
            assert_eq!(plain.is_some(), known.next_if(|known| **known == encrypted).is_some(), "{encrypted}");
        }
        // The numbers of a hostile remote end in no overflow.
        assert!((0..200_000).any(|below| EncryptedBlockHead::plain_length(u64::MAX - below).is_some()));
    }

    #[test]
    fn headers_and_lines_of_keys_come_back_and_others_are_refused() {
        let head = EncryptedBlockHead { key: EncryptionKeyId(*b"01234567"), salt: *b"0123456789abcdef" };
        let bytes = head.encode();
        assert_eq!(EncryptedBlockHead::decode(&bytes), Ok(head));
        for length in 0..bytes.len() {
            assert_eq!(EncryptedBlockHead::decode(&bytes[..length]), Err(DecodeError::Short));
        }
        assert_eq!(EncryptedBlockHead::decode(&[b'x'; 32]), Err(DecodeError::Magic));
        let later = [&bytes[..4], &[2], &bytes[5..]].concat();
        assert_eq!(EncryptedBlockHead::decode(&later), Err(DecodeError::Version(2)));

        let line = EncryptionKeyLine { id: head.key, secret: [7; 32] }.encode();
        let read = EncryptionKeyLine::decode(&line).unwrap();
        assert_eq!((read.id, read.secret), (head.key, [7; 32]));
        for cut in 0..line.len() {
            assert!(EncryptionKeyLine::decode(&line[..cut]).is_err(), "{cut}");
        }
        assert!(EncryptionKeyLine::decode(&line.replace("remote-key 1", "remote-key 2")).is_err());
        assert!(EncryptionKeyLine::decode(&format!("{line} more")).is_err());
    }
}
