//! Encrypted bytes: DARE, "data at rest encryption", versions 1.0 and 2.0.
//!
//! Up to 65,536 plain bytes are a package: a header of 16 bytes, the bytes, a tag of 16.
//!
//! | bytes | 2.0 | 1.0 |
//! |---|---|---|
//! | 0 | 0x20 | 0x10 |
//! | 1 | cipher: 0 AES-256-GCM, 1 ChaCha20-Poly1305 | the same |
//! | 2-3 | length - 1, little-endian | the same |
//! | 4-7 | the nonce begins; its highest bit marks the last package | number of the package |
//! | 8-15 | the nonce goes on | the nonce, equal in all packages |
//!
//! The nonce of a package is that of its header; in 2.0 its last word is combined with the number of
//! the package. The first 4 bytes are authenticated with the package. 1.0 has no mark of the end, so
//! that the length of the stream must be known.

use std::io::{self, Read};

use ring::aead::{AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};

const HEADER_BYTES: usize = 16;
const TAG_BYTES: usize = 16;
/// The plain bytes of all packages but the last.
pub(crate) const PAYLOAD_BYTES: usize = 65_536;
/// What a full package takes.
pub(crate) const PACKAGE_BYTES: u64 = (HEADER_BYTES + PAYLOAD_BYTES + TAG_BYTES) as u64;
const LAST: u8 = 0x80;

/// The plain length of so many encrypted bytes; `None` if it is none.
pub(crate) fn plain_length(encrypted: u64) -> Option<u64> {
    let whole = encrypted / PACKAGE_BYTES;
    let overhead = (HEADER_BYTES + TAG_BYTES) as u64;
    let plain = whole * PAYLOAD_BYTES as u64;
    match encrypted % PACKAGE_BYTES {
        0 => Some(plain),
        rest if rest > overhead => Some(plain + rest - overhead),
        _ => None,
    }
}

/// An encrypted stream that is read as plain bytes.
pub(crate) struct DareReader<R> {
    inner: R,
    key: [u8; 32],
    /// The number of the next package.
    number: u32,
    /// The header of the first package, if that was the first of the stream.
    first: Option<[u8; HEADER_BYTES]>,
    ended: bool,
    payload: Vec<u8>,
    at: usize,
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("encrypted data: {what}"))
}

impl<R: Read> DareReader<R> {
    /// Reads a stream from the package with this number on.
    pub(crate) fn new(inner: R, key: [u8; 32], number: u32) -> Self {
        Self { inner, key, number, first: None, ended: false, payload: Vec::new(), at: 0 }
    }

    /// Reads the next package. Returns `false` at the end.
    fn next_package(&mut self) -> io::Result<bool> {
        let mut package = Vec::new();
        self.inner.by_ref().take(PACKAGE_BYTES).read_to_end(&mut package)?;
        if package.is_empty() {
            let may_end = self.ended || self.first.is_none_or(|header| header[0] == 0x10);
            return if may_end { Ok(false) } else { Err(invalid("it is cut off")) };
        }
        if self.ended {
            return Err(invalid("there is more after its end"));
        }
        if package.len() <= HEADER_BYTES + TAG_BYTES {
            return Err(invalid("a package is cut off"));
        }
        let mut header = [0; HEADER_BYTES];
        header.copy_from_slice(&package[..HEADER_BYTES]);
        let length = usize::from(u16::from_le_bytes([header[2], header[3]])) + 1;
        if length != package.len() - HEADER_BYTES - TAG_BYTES {
            return Err(invalid("a package has another length than it says"));
        }
        let first = *self.first.get_or_insert(header);
        let nonce = self.nonce(&header, &first, length)?;
        let body = &mut package[HEADER_BYTES..];
        if !open(&self.key, header[1], nonce, &header[..4], body)? {
            return Err(invalid("a package is damaged, or the key is another one"));
        }
        package.truncate(HEADER_BYTES + length);
        package.drain(..HEADER_BYTES);
        self.payload = package;
        self.at = 0;
        self.number = self.number.wrapping_add(1);
        Ok(true)
    }

    fn nonce(&mut self, header: &[u8; 16], first: &[u8; 16], length: usize) -> io::Result<[u8; 12]> {
        let mut nonce = [0; 12];
        nonce.copy_from_slice(&header[4..]);
        let is_full = length == PAYLOAD_BYTES;
        match header[0] {
            0x20 => {
                self.ended = nonce[0] & LAST != 0;
                let is_first = header[1] == first[1] && header[5..] == first[5..];
                if !is_first || header[4] & !LAST != first[4] & !LAST {
                    return Err(invalid("a package is of another stream"));
                }
                if !self.ended && !is_full {
                    return Err(invalid("a package before the last is short"));
                }
                for (byte, number) in nonce[8..].iter_mut().zip(self.number.to_le_bytes()) {
                    *byte ^= number;
                }
            }
            0x10 => {
                if header[4..8] != self.number.to_le_bytes() {
                    return Err(invalid("a package is out of order"));
                }
                if header[1] != first[1] || header[8..] != first[8..] {
                    return Err(invalid("a package is of another stream"));
                }
                self.ended = !is_full;
            }
            other => return Err(invalid(&format!("a package of the unknown version {other:#04x}"))),
        }
        if header[0] != first[0] {
            return Err(invalid("a package is of another version"));
        }
        Ok(nonce)
    }
}

/// Decrypts in place. Returns whether the tag matches.
///
/// # Errors
/// The cipher is unknown.
pub(crate) fn open(
    key: &[u8; 32],
    cipher: u8,
    nonce: [u8; 12],
    authenticated: &[u8],
    body: &mut [u8],
) -> io::Result<bool> {
    let key = key_of(cipher, key)?;
    // Who encrypts must not use a nonce twice. Nothing is encrypted here.
    let nonce = Nonce::assume_unique_for_key(nonce);
    Ok(key.open_in_place(nonce, Aad::from(authenticated), body).is_ok())
}

/// A key for a cipher, by the number of that.
///
/// # Errors
/// The cipher is unknown.
pub(crate) fn key_of(cipher: u8, key: &[u8; 32]) -> io::Result<LessSafeKey> {
    let algorithm = match cipher {
        0 => &AES_256_GCM,
        1 => &CHACHA20_POLY1305,
        other => return Err(invalid(&format!("the unknown cipher {other}"))),
    };
    let key = UnboundKey::new(algorithm, key).map_err(|_| invalid("a key of another length"))?;
    Ok(LessSafeKey::new(key))
}

impl<R: Read> Read for DareReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.at == self.payload.len() && !self.next_package()? {
            return Ok(0);
        }
        let count = buffer.len().min(self.payload.len() - self.at);
        buffer[..count].copy_from_slice(&self.payload[self.at..self.at + count]);
        self.at += count;
        Ok(count)
    }
}

/// The plain bytes of a short stream; `None` if the key is another one, or they are damaged.
pub(crate) fn open_short(key: &[u8; 32], bytes: &[u8]) -> Option<Vec<u8>> {
    let mut plain = Vec::new();
    DareReader::new(bytes, *key, 0).read_to_end(&mut plain).ok()?;
    Some(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sealed entity tag of the project's own test of MinIO: one package under a key of zeros.
    const SEALED: &str =
        "20000f00f27834c9a2654927546df57f9e998187496394d4ee80f3d9978f85f3c7d81f72600cdbe03d80dc5a13d69354";

    fn bytes(hex: &str) -> Vec<u8> {
        (0..hex.len() / 2).map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap()).collect()
    }

    #[test]
    fn a_package_of_minio_is_opened_and_a_changed_one_is_not() {
        let key = super::super::keys::hmac(&[0; 32], &[b"SSE-etag"]);
        let sealed = bytes(SEALED);
        assert_eq!(open_short(&key, &sealed).unwrap(), bytes("8ad3fe6b84bf38489e95c701c84355b6"));
        for at in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[at] ^= 1;
            assert_eq!(open_short(&key, &changed), None, "{at}");
        }
        assert_eq!(open_short(&key, &sealed[..40]), None);
        assert_eq!(open_short(&key, &[&sealed[..], &sealed].concat()), None);
    }

    #[test]
    fn lengths_follow_from_packages() {
        assert_eq!(plain_length(0), Some(0));
        assert_eq!(plain_length(33), Some(1));
        assert_eq!(plain_length(32), None);
        assert_eq!(plain_length(PACKAGE_BYTES), Some(65_536));
        assert_eq!(plain_length(PACKAGE_BYTES + 32 + 5), Some(65_541));
    }
}
