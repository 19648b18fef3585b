//! The encodings of data-format.md, section 6: varints, strings and numbers, appended to a vector
//! and read from a slice. Reading stays inside the slice and allocates no more than its length.

use thiserror::Error;

use crate::base::limits::COUNTERS_END;
use crate::format::EncryptionKeyId;

/// The reason why bytes cannot be decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum DecodeError {
    /// The bytes end before the value does.
    #[error("it ends too early")]
    Short,
    /// Bytes are left over after the value.
    #[error("there are bytes after its end")]
    Long,
    /// A varint of more than 64 bits.
    #[error("a number is too large")]
    Varint,
    /// A string that is not UTF-8.
    #[error("a string is not UTF-8")]
    Utf8,
    /// The magic number is wrong.
    #[error("the magic number is wrong")]
    Magic,
    /// A CRC does not match.
    #[error("the {0} CRC does not match")]
    Crc(&'static str),
    /// A field has a forbidden value.
    #[error("{0} has a value that is not allowed")]
    Value(&'static str),
    /// A format version other than 1.
    #[error("it has format version {0}, and this siltstone reads only version 1: use a newer siltstone")]
    Version(u32),
    /// Unknown critical features.
    #[error("it needs the features with {}, which this siltstone does not know: use a newer siltstone", bits(.0))]
    Features(u64),
    /// A value of a later version that must not be skipped.
    #[error("{0} is unknown to this version: use a newer siltstone")]
    Unknown(&'static str),
    /// An encrypted object, read without a key.
    #[error("it is encrypted with the key {0}: name the file with that key as `encryption_key_file`")]
    Encrypted(EncryptionKeyId),
}

impl DecodeError {
    /// Whether a newer siltstone wrote the bytes. They are whole and must not be treated as
    /// damaged.
    pub fn is_newer(self) -> bool {
        matches!(self, Self::Version(_) | Self::Features(_) | Self::Unknown(_))
    }
}

fn bits(set: &u64) -> String {
    let bits: Vec<_> = (0..64).filter(|bit| set & 1 << bit != 0).map(|bit| format!("bit {bit}")).collect();
    bits.join(", ")
}

/// The result of decoding.
pub type Decoded<T> = Result<T, DecodeError>;

/// Bytes of the longest varint.
const VARINT_BYTES_MAX: usize = 10;

/// Appends values to a vector.
pub trait Encode {
    /// One byte.
    fn put_u8(&mut self, value: u8);
    /// Four bytes, little-endian.
    fn put_u32(&mut self, value: u32);
    /// Eight bytes, little-endian.
    fn put_u64(&mut self, value: u64);
    /// A varint.
    fn put_varint(&mut self, value: u64);
    /// A length and that many bytes.
    fn put_bytes(&mut self, bytes: &[u8]);
}

impl Encode for Vec<u8> {
    fn put_u8(&mut self, value: u8) {
        self.push(value);
    }

    fn put_u32(&mut self, value: u32) {
        self.extend_from_slice(&value.to_le_bytes());
    }

    fn put_u64(&mut self, value: u64) {
        self.extend_from_slice(&value.to_le_bytes());
    }

    #[inline]
    fn put_varint(&mut self, value: u64) {
        if value < 0x80 {
            self.push(value as u8);
        } else {
            put_long_varint(self, value);
        }
    }

    fn put_bytes(&mut self, bytes: &[u8]) {
        self.put_varint(bytes.len() as u64);
        self.extend_from_slice(bytes);
    }
}

/// The bytes of a varint.
pub(super) fn varint_len(value: u64) -> usize {
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

/// The slow path of varints over one byte: up to eight bytes at once.
fn put_long_varint(out: &mut Vec<u8>, value: u64) {
    if value >> 56 != 0 {
        return put_varint_by_bytes(out, value);
    }
    // Spreads the bits into two halves, then each half again, down to seven bits a byte.
    let word = value & 0x0fff_ffff | (value & 0x00ff_ffff_f000_0000) << 4;
    let word = word & 0x0000_3fff_0000_3fff | (word & 0x0fff_c000_0fff_c000) << 2;
    let word = word & 0x007f_007f_007f_007f | (word & 0x3f80_3f80_3f80_3f80) << 1;
    let last = (63 - word.leading_zeros()) / 8;
    let word = word | 0x8080_8080_8080_8080 & !(u64::MAX << (8 * last));
    out.extend_from_slice(&word.to_le_bytes());
    out.truncate(out.len() - (7 - last as usize));
}

fn put_varint_by_bytes(out: &mut Vec<u8>, mut value: u64) {
    let mut bytes = [0; VARINT_BYTES_MAX];
    let mut len = 0;
    while value >= 0x80 {
        bytes[len] = value as u8 | 0x80;
        value >>= 7;
        len += 1;
    }
    bytes[len] = value as u8;
    out.extend_from_slice(&bytes[..=len]);
}

/// Reads values from a slice, in order.
#[derive(Debug, Clone, Copy)]
pub struct ByteDecoder<'a>(&'a [u8]);

impl<'a> ByteDecoder<'a> {
    /// A decoder of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The unread bytes.
    pub fn rest(&self) -> &'a [u8] {
        self.0
    }

    /// Whether all bytes have been read.
    pub fn is_done(&self) -> bool {
        self.0.is_empty()
    }

    /// Checks that all bytes have been read.
    ///
    /// # Errors
    /// [`DecodeError::Long`].
    pub fn finish(self) -> Decoded<()> {
        if self.is_done() { Ok(()) } else { Err(DecodeError::Long) }
    }

    /// The next `len` bytes.
    ///
    /// # Errors
    /// [`DecodeError::Short`], as of all methods below.
    pub fn take(&mut self, len: usize) -> Decoded<&'a [u8]> {
        let (head, tail) = self.0.split_at_checked(len).ok_or(DecodeError::Short)?;
        self.0 = tail;
        Ok(head)
    }

    /// One byte.
    pub fn u8(&mut self) -> Decoded<u8> {
        Ok(self.array::<1>()?[0])
    }

    /// Four bytes.
    pub fn u32(&mut self) -> Decoded<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// Eight bytes.
    pub fn u64(&mut self) -> Decoded<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// `N` bytes.
    pub fn array<const N: usize>(&mut self) -> Decoded<[u8; N]> {
        Ok(self.take(N)?.try_into().expect("`take` returns N bytes"))
    }

    /// A varint.
    ///
    /// # Errors
    /// [`DecodeError::Varint`] for one above 2^64-1.
    #[inline]
    pub fn varint(&mut self) -> Decoded<u64> {
        match self.0 {
            [byte @ 0..0x80, rest @ ..] => {
                self.0 = rest;
                Ok(u64::from(*byte))
            }
            _ => self.long_varint(),
        }
    }

    /// A varint that counts on.
    ///
    /// # Errors
    /// [`DecodeError::Value`] of `name` from [`COUNTERS_END`] on.
    pub fn counter(&mut self, name: &'static str) -> Decoded<u64> {
        match self.varint()? {
            number if number < COUNTERS_END => Ok(number),
            _ => Err(DecodeError::Value(name)),
        }
    }

    /// The slow path of varints over one byte: those that end within the next eight bytes at once.
    fn long_varint(&mut self) -> Decoded<u64> {
        let Some((eight, _)) = self.0.split_first_chunk() else {
            return self.varint_by_bytes();
        };
        let word = u64::from_le_bytes(*eight);
        let ends = !word & 0x8080_8080_8080_8080;
        if ends == 0 {
            return self.varint_by_bytes();
        }
        let bits = ends.trailing_zeros() + 1;
        self.0 = &self.0[bits as usize / 8..];
        // Joins groups of seven bits to fourteen, then twenty-eight, and so on.
        let word = word & (u64::MAX >> (64 - bits)) & 0x7f7f_7f7f_7f7f_7f7f;
        let word = word & 0x007f_007f_007f_007f | (word & 0x7f00_7f00_7f00_7f00) >> 1;
        let word = word & 0x0000_3fff_0000_3fff | (word & 0x3fff_0000_3fff_0000) >> 2;
        Ok(word & 0x0fff_ffff | (word & 0x0fff_ffff_0000_0000) >> 4)
    }

    fn varint_by_bytes(&mut self) -> Decoded<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return Err(DecodeError::Varint);
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(DecodeError::Varint)
    }

    /// A length and that many bytes.
    pub fn bytes(&mut self) -> Decoded<&'a [u8]> {
        let len = self.varint()?;
        self.take(usize::try_from(len).map_err(|_| DecodeError::Short)?)
    }

    /// Bytes that are UTF-8.
    ///
    /// # Errors
    /// [`DecodeError::Utf8`].
    pub fn string(&mut self) -> Decoded<&'a str> {
        std::str::from_utf8(self.bytes()?).map_err(|_| DecodeError::Utf8)
    }

    /// A count of items of at least `size_min` bytes each. It is at most the number that the rest
    /// can hold, so memory for all of them may be allocated.
    pub fn count(&mut self, size_min: usize) -> Decoded<usize> {
        let count = usize::try_from(self.varint()?).map_err(|_| DecodeError::Short)?;
        if count > self.0.len() / size_min { Err(DecodeError::Short) } else { Ok(count) }
    }
}

/// `value` as a `u32`; a larger one is an error about `what`.
pub(super) fn to_u32(value: u64, what: &'static str) -> Decoded<u32> {
    u32::try_from(value).map_err(|_| DecodeError::Value(what))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_of_every_length_come_back() {
        for value in (0..64).flat_map(|bit| [(1u64 << bit) - 1, 1 << bit]).chain([u64::MAX]) {
            let mut bytes = Vec::new();
            bytes.put_varint(value);
            let mut decoder = ByteDecoder::new(&bytes);
            assert_eq!(decoder.varint(), Ok(value));
            assert!(decoder.is_done());
            // With bytes after it, which must not affect the value.
            let followed = [&bytes[..], &[0xff; 8]].concat();
            let mut decoder = ByteDecoder::new(&followed);
            assert_eq!(decoder.varint(), Ok(value));
            assert_eq!(decoder.rest(), [0xff; 8]);
            assert_eq!(ByteDecoder::new(&bytes[..bytes.len() - 1]).varint(), Err(DecodeError::Short));
        }
    }

    #[test]
    fn a_varint_beyond_64_bits_is_refused() {
        let mut bytes = [0xff; 10];
        bytes[9] = 2;
        assert_eq!(ByteDecoder::new(&bytes).varint(), Err(DecodeError::Varint));
        assert_eq!(ByteDecoder::new(&[0x80; 11]).varint(), Err(DecodeError::Varint));
    }

    #[test]
    fn a_counter_that_leaves_no_number_is_refused() {
        let mut bytes = Vec::new();
        bytes.put_varint(COUNTERS_END - 1);
        bytes.put_varint(COUNTERS_END);
        let mut decoder = ByteDecoder::new(&bytes);
        assert_eq!(decoder.counter("a sequence"), Ok(COUNTERS_END - 1));
        assert_eq!(decoder.counter("a sequence"), Err(DecodeError::Value("a sequence")));
    }

    #[test]
    fn a_length_beyond_the_end_is_refused_before_anything_is_allocated() {
        let mut bytes = Vec::new();
        bytes.put_varint(u64::MAX);
        assert_eq!(ByteDecoder::new(&bytes).bytes(), Err(DecodeError::Short));
        assert_eq!(ByteDecoder::new(&bytes).count(1), Err(DecodeError::Short));
    }

    #[test]
    fn strings_must_be_utf8_and_nothing_may_be_left() {
        let mut bytes = Vec::new();
        bytes.put_bytes(&[0xff]);
        assert_eq!(ByteDecoder::new(&bytes).string(), Err(DecodeError::Utf8));
        assert_eq!(ByteDecoder::new(&[1]).finish(), Err(DecodeError::Long));
    }
}
