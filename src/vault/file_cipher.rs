//! The key of a data directory, and the cipher of each of its files.

use std::fmt;
use std::sync::Arc;

use ring::hkdf::{HKDF_SHA256, KeyType, Salt};
use zeroize::Zeroizing;

use super::xts::Xts;
use crate::base::Entropy;
use crate::base::digest::HmacSha256;
use crate::format::{SaltPage, StoreKeyId};

const ID_LABEL: &[u8] = b"siltstone store key 1 id";
const FILE_LABEL: &[u8] = b"siltstone store file 1";

/// The key of a data directory, from which the keys of its files come.
#[derive(Clone)]
pub struct StoreKey {
    bytes: Zeroizing<[u8; 32]>,
    id: StoreKeyId,
}

impl StoreKey {
    /// The key of these bytes.
    pub fn new(bytes: Zeroizing<[u8; 32]>) -> Self {
        let mut id = [0; 8];
        id.copy_from_slice(&HmacSha256::of(bytes.as_ref(), ID_LABEL)[..8]);
        Self { bytes, id: StoreKeyId(id) }
    }

    /// A new key.
    pub fn generate(entropy: &dyn Entropy) -> Self {
        let mut bytes = Zeroizing::new([0; 32]);
        entropy.fill(bytes.as_mut());
        Self::new(bytes)
    }

    /// Its name, which says nothing of it.
    pub fn id(&self) -> StoreKeyId {
        self.id
    }

    /// The bytes, to be wrapped.
    pub(super) fn bytes(&self) -> &[u8; 32] {
        &self.bytes
    }

    /// The cipher of the file with that page.
    pub(super) fn cipher(&self, page: &SaltPage) -> FileCipher {
        let mut keys = Zeroizing::new([0; 64]);
        derive(self.bytes.as_ref(), &page.salt, FILE_LABEL, keys.as_mut());
        FileCipher { xts: Xts::new(&keys), salt: page.salt }
    }
}

impl fmt::Debug for StoreKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoreKey({})", self.id)
    }
}

/// What every file of a disk needs.
pub(super) struct DiskKey {
    pub(super) key: StoreKey,
    pub(super) entropy: Arc<dyn Entropy>,
}

/// The cipher of one file.
pub(super) struct FileCipher {
    pub(super) xts: Xts,
    pub(super) salt: [u8; 32],
}

/// The length of a derived key.
struct KeyLength(usize);

impl KeyType for KeyLength {
    fn len(&self) -> usize {
        self.0
    }
}

/// Fills `out` with HKDF-SHA-256 (RFC 5869) of a secret.
pub(super) fn derive(secret: &[u8], salt: &[u8], label: &[u8], out: &mut [u8]) {
    let extracted = Salt::new(HKDF_SHA256, salt).extract(secret);
    let label = [label];
    let expanded = extracted.expand(&label, KeyLength(out.len()));
    let filled = expanded.and_then(|okm| okm.fill(out));
    filled.expect("a key is shorter than the most that HKDF gives");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::digest::from_hex;

    #[test]
    fn the_first_vector_of_rfc_5869() {
        let secret = [0x0b; 22];
        let salt: Vec<u8> = (0..=12).collect();
        let info: Vec<u8> = (0xf0..=0xf9).collect();
        let mut out = [0; 42];
        derive(&secret, &salt, &info, &mut out);
        let told = "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865";
        assert_eq!(out.to_vec(), from_hex(told).unwrap());
    }

    #[test]
    fn files_with_other_salts_have_other_keys_and_a_debug_line_has_none() {
        let key = StoreKey::new(Zeroizing::new([7; 32]));
        let encrypted = |salt| {
            let mut bytes = [1; 64];
            key.cipher(&SaltPage { key: key.id(), salt }).xts.encrypt(&mut bytes, 0);
            bytes
        };
        assert_ne!(encrypted([1; 32]), encrypted([2; 32]));
        assert_eq!(format!("{key:?}"), format!("StoreKey({})", key.id()));
    }
}
