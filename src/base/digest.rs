//! Digests, checksums and hexadecimal. No other module uses their implementations directly.

use std::fmt;

use hmac::{KeyInit as _, Mac as _};
use md5::Digest as _;

/// A running CRC-32 (ISO-HDLC, the one of zlib and of `x-amz-checksum-crc32`).
#[derive(Debug, Clone, Default)]
pub struct Crc32(crc32fast::Hasher);

impl Crc32 {
    /// The CRC of no bytes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Continues from `seed`, the CRC of the preceding bytes.
    pub fn with_seed(seed: u32) -> Self {
        Self(crc32fast::Hasher::new_with_initial(seed))
    }

    /// Adds bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The CRC of all bytes so far.
    pub fn value(&self) -> u32 {
        self.0.clone().finalize()
    }

    /// The CRC of `bytes`.
    pub fn of(bytes: &[u8]) -> u32 {
        crc32fast::hash(bytes)
    }

    /// The CRC of two byte strings, concatenated, from the CRC of each and the length of the
    /// second.
    pub fn combine(first: u32, second: u32, second_len: u64) -> u32 {
        let mut whole = crc32fast::Hasher::new_with_initial(first);
        whole.combine(&crc32fast::Hasher::new_with_initial_len(second, second_len));
        whole.finalize()
    }
}

/// A running CRC-32/ISCSI (Castagnoli), the one of `x-amz-checksum-crc32c`.
#[derive(Debug, Clone)]
pub struct Crc32c(crc_fast::Digest);

impl Crc32c {
    /// The CRC of no bytes.
    pub fn new() -> Self {
        Self(crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi))
    }

    /// Adds bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The CRC of all bytes so far.
    pub fn value(&self) -> u32 {
        u32::try_from(self.0.finalize()).expect("the CRC has 32 bits")
    }

    /// As [`Crc32::combine`].
    pub fn combine(first: u32, second: u32, second_len: u64) -> u32 {
        let algorithm = crc_fast::CrcAlgorithm::Crc32Iscsi;
        let whole = crc_fast::checksum_combine(algorithm, first.into(), second.into(), second_len);
        u32::try_from(whole).expect("the CRC has 32 bits")
    }
}

impl Default for Crc32c {
    fn default() -> Self {
        Self::new()
    }
}

/// A running CRC-64/NVME, the one of `x-amz-checksum-crc64nvme`.
#[derive(Debug, Clone)]
pub struct Crc64Nvme(crc_fast::Digest);

impl Crc64Nvme {
    /// The CRC of no bytes.
    pub fn new() -> Self {
        Self(crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc64Nvme))
    }

    /// Adds bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The CRC of all bytes so far.
    pub fn value(&self) -> u64 {
        self.0.finalize()
    }

    /// As [`Crc32::combine`].
    pub fn combine(first: u64, second: u64, second_len: u64) -> u64 {
        crc_fast::checksum_combine(crc_fast::CrcAlgorithm::Crc64Nvme, first, second, second_len)
    }
}

impl Default for Crc64Nvme {
    fn default() -> Self {
        Self::new()
    }
}

/// A running SHA-1, for clients that send it. It is not collision-resistant.
#[derive(Debug, Clone, Default)]
pub struct Sha1(sha1::Sha1);

impl Sha1 {
    /// The digest of no bytes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The digest of all bytes.
    pub fn finish(self) -> [u8; 20] {
        self.0.finalize().into()
    }
}

/// A running MD5, for entity tags and `Content-MD5`. It is not collision-resistant.
#[derive(Debug, Clone, Default)]
pub struct Md5(md5::Md5);

impl Md5 {
    /// The digest of no bytes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The digest of all bytes.
    pub fn finish(self) -> [u8; 16] {
        self.0.finalize().into()
    }

    /// The digest of `bytes`.
    pub fn of(bytes: &[u8]) -> [u8; 16] {
        md5::Md5::digest(bytes).into()
    }
}

/// A running SHA-256.
#[derive(Debug, Clone, Default)]
pub struct Sha256(sha2::Sha256);

impl Sha256 {
    /// The digest of no bytes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The digest of all bytes.
    pub fn finish(self) -> [u8; 32] {
        self.0.finalize().into()
    }

    /// The digest of `bytes`.
    pub fn of(bytes: &[u8]) -> [u8; 32] {
        sha2::Sha256::digest(bytes).into()
    }
}

/// A running HMAC-SHA-256 (FIPS 198-1). Cloning it before the first byte saves the set-up of the
/// key.
#[derive(Clone)]
pub struct HmacSha256(hmac::Hmac<sha2::Sha256>);

impl HmacSha256 {
    /// The code of no bytes under `key`.
    pub fn new(key: &[u8]) -> Self {
        Self(hmac::Hmac::new_from_slice(key).expect("HMAC takes a key of any length"))
    }

    /// Adds bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The code of all bytes.
    pub fn finish(self) -> [u8; 32] {
        self.0.finalize().into_bytes().into()
    }

    /// The code of `bytes` under `key`.
    pub fn of(key: &[u8], bytes: &[u8]) -> [u8; 32] {
        let mut mac = Self::new(key);
        mac.update(bytes);
        mac.finish()
    }
}

impl fmt::Debug for HmacSha256 {
    /// Does not show the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HmacSha256")
    }
}

/// HMAC-SHA-1 (RFC 2104), for signatures of version 2. Collisions of SHA-1 do not weaken it.
#[derive(Debug, Clone, Copy)]
pub struct HmacSha1;

impl HmacSha1 {
    /// The code of `bytes` under `key`.
    pub fn of(key: &[u8], bytes: &[u8]) -> [u8; 20] {
        let mut mac = hmac::Hmac::<sha1::Sha1>::new_from_slice(key).expect("HMAC takes a key of any length");
        mac.update(bytes);
        mac.finalize().into_bytes().into()
    }
}

/// A 32-byte digest in lower-case hexadecimal, as ASCII bytes on the stack.
pub fn hex32(digest: &[u8; 32]) -> [u8; 64] {
    let mut out = [0; 64];
    write_hex(digest, &mut out);
    out
}

/// `bytes` in lower-case hexadecimal.
pub fn to_hex(bytes: &[u8]) -> String {
    let mut out = vec![0; 2 * bytes.len()];
    write_hex(bytes, &mut out);
    String::from_utf8(out).expect("the digits are ASCII")
}

/// Writes the two digits of each byte to `out`, which has the length for them.
pub fn write_hex(bytes: &[u8], out: &mut [u8]) {
    for (pair, byte) in out.as_chunks_mut().0.iter_mut().zip(bytes) {
        *pair = digits(*byte);
    }
}

fn digits(byte: u8) -> [u8; 2] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]
}

/// Whether `text` equals [`to_hex`] of `bytes`, without an allocation.
pub fn is_hex_of(text: &str, bytes: &[u8]) -> bool {
    let mut pairs = text.as_bytes().as_chunks().0.iter().zip(bytes);
    text.len() == 2 * bytes.len() && pairs.all(|(pair, byte)| *pair == digits(*byte))
}

/// Parses hexadecimal digits of either case; `None` for other characters and for an odd count.
pub fn from_hex(text: &str) -> Option<Vec<u8>> {
    let (pairs, []) = text.as_bytes().as_chunks() else { return None };
    let mut bytes = Vec::with_capacity(pairs.len());
    for [high, low] in pairs {
        bytes.push(digit(*high)? << 4 | digit(*low)?);
    }
    Some(bytes)
}

fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_match_published_vectors() {
        // The check value of CRC-32/ISO-HDLC, RFC 1321 appendix A.5, FIPS 180-2 appendix B.1.
        assert_eq!(Crc32::of(b"123456789"), 0xcbf4_3926);
        assert_eq!(to_hex(&Md5::of(b"abc")), "900150983cd24fb0d6963f7d28e17f72");
        assert_eq!(
            to_hex(&Sha256::of(b"abc")),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }

    #[test]
    fn the_digests_that_clients_may_choose_match_published_vectors() {
        // The check values of the CRC catalogue for CRC-32/ISCSI and CRC-64/NVME; FIPS 180-2,
        // appendix A.1.
        let mut crc32c = Crc32c::new();
        let mut crc64 = Crc64Nvme::new();
        let mut sha1 = Sha1::new();
        for piece in [&b"1234"[..], b"56789"] {
            crc32c.update(piece);
            crc64.update(piece);
        }
        sha1.update(b"abc");
        assert_eq!(crc32c.value(), 0xe306_9283);
        assert_eq!(crc64.value(), 0xae8b_1486_0a79_9888);
        assert_eq!(to_hex(&sha1.finish()), "a9993e364706816aba3e25717850c26c9cd0d89d");
    }

    #[test]
    fn a_keyed_digest_matches_its_published_vectors() {
        // RFC 4231, sections 4.2 and 4.3.
        let first = HmacSha256::of(&[0x0b; 20], b"Hi There");
        assert_eq!(to_hex(&first), "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
        let second = HmacSha256::of(b"Jefe", b"what do ya want for nothing?");
        assert_eq!(to_hex(&second), "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
        // RFC 2202, section 3, test case 2.
        let sha1 = HmacSha1::of(b"Jefe", b"what do ya want for nothing?");
        assert_eq!(to_hex(&sha1), "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79");
    }

    #[test]
    fn a_keyed_digest_shows_nothing_of_its_key() {
        assert_eq!(format!("{:?}", HmacSha256::new(b"key")), "HmacSha256");
    }

    #[test]
    fn a_crc_in_pieces_is_the_crc_of_the_whole() {
        let a = &b"1234"[..];
        let b = &b"56789"[..];
        assert_eq!(Crc32::combine(Crc32::of(a), Crc32::of(b), 5), 0xcbf4_3926);
        let crc32c = |bytes| {
            let mut crc = Crc32c::new();
            crc.update(bytes);
            crc.value()
        };
        assert_eq!(Crc32c::combine(crc32c(a), crc32c(b), 5), 0xe306_9283);
        assert_eq!(Crc32c::combine(crc32c(a), crc32c(b""), 0), crc32c(a));
        let crc64 = |bytes| {
            let mut crc = Crc64Nvme::new();
            crc.update(bytes);
            crc.value()
        };
        assert_eq!(Crc64Nvme::combine(crc64(a), crc64(b), 5), 0xae8b_1486_0a79_9888);
        assert_eq!(Crc64Nvme::combine(crc64(b""), crc64(a), 4), crc64(a));
        let mut running = Crc32::with_seed(Crc32::of(a));
        running.update(b);
        assert_eq!(running.value(), 0xcbf4_3926);
    }

    #[test]
    fn hexadecimal_goes_both_ways() {
        assert_eq!(to_hex(&[0, 0xaf, 0x10]), "00af10");
        assert!(is_hex_of("00af10", &[0, 0xaf, 0x10]) && is_hex_of("", &[]));
        for other in ["00AF10", "00af11", "00af1", "00af100", "00af1010", "00af", ""] {
            assert!(!is_hex_of(other, &[0, 0xaf, 0x10]), "{other}");
        }
        assert_eq!(hex32(&[0xc5; 32]), *to_hex(&[0xc5; 32]).as_bytes());
        assert_eq!(from_hex("00AF10"), Some(vec![0, 0xaf, 0x10]));
        assert_eq!(from_hex("0"), None);
        assert_eq!(from_hex("0g"), None);
        assert_eq!(from_hex("é"), None);
    }
}
