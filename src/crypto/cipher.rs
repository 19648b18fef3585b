//! The derived keys, and what each of them encrypts.

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, Salt};

use super::keys::{DataKey, KeyReach, MasterKey};
use crate::base::Entropy;
use crate::base::digest::Sha256;

/// Bytes of a salt.
pub const SALT_BYTES: usize = 16;
/// Bytes of the tag after each ciphertext.
pub const TAG_BYTES: usize = 16;
/// Bytes of a wrapped key: the key and a tag.
pub const SEALED_KEY_BYTES: usize = 32 + TAG_BYTES;

const WRAP: &str = "siltstone object key 1";
const WRITE: &str = "siltstone write key 1";
const DIGESTS: &str = "siltstone digests 1";
/// In the byte of the kind of a wrapped key: it is the key of one write.
pub const WRITE_KEY: u8 = 0x40;
const PACKAGE: &[u8] = b"siltstone package 1";

/// The key of AES-256-GCM that a secret, a salt and a label derive.
fn derived(secret: &[u8; 32], salt: &[u8; SALT_BYTES], label: &str) -> LessSafeKey {
    let label = [label.as_bytes()];
    let extracted = Salt::new(HKDF_SHA256, salt).extract(secret);
    let expanded = extracted.expand(&label, &AES_256_GCM).expect("HKDF-SHA-256 gives 32 bytes");
    LessSafeKey::new(UnboundKey::from(expanded))
}

/// The key of one write, which opens no other write of the object.
pub fn write_key(key: &DataKey, salt: &[u8; SALT_BYTES]) -> DataKey {
    if key.reach() == KeyReach::Write {
        return key.clone();
    }
    let extracted = Salt::new(HKDF_SHA256, salt).extract(key.bytes());
    let mut bytes = zeroize::Zeroizing::new([0; 32]);
    let label = [WRITE.as_bytes()];
    let expanded = extracted.expand(&label, HKDF_SHA256);
    expanded.and_then(|expanded| expanded.fill(&mut bytes[..])).expect("HKDF-SHA-256 gives 32 bytes");
    DataKey::new(*bytes, KeyReach::Write)
}

fn nonce(number: u64) -> Nonce {
    let mut bytes = [0; 12];
    // A counter, and no random number: a key of its own for each write, and each number once under
    // it, is what makes a nonce unique for good.
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    Nonce::assume_unique_for_key(bytes)
}

/// Encrypts the packages of one write, each number once, or decrypts them.
pub struct PackageCipher(LessSafeKey);

impl PackageCipher {
    /// The cipher of the write with that salt, which a writer draws anew for each write. The key is
    /// that of the object, or of the write.
    pub fn new(key: &DataKey, salt: &[u8; SALT_BYTES]) -> Self {
        match key.reach() {
            KeyReach::Object => Self(derived(key.bytes(), salt, WRITE)),
            KeyReach::Write => {
                let key = UnboundKey::new(&AES_256_GCM, key.bytes()).expect("a key has 32 bytes");
                Self(LessSafeKey::new(key))
            }
        }
    }

    /// Encrypts the next package in place, and appends its tag.
    pub fn seal(&self, number: u64, is_last: bool, package: &mut Vec<u8>) {
        let sealed = self.0.seal_in_place_append_tag(nonce(number), bound(is_last), package);
        sealed.expect("a package is shorter than the most that one nonce encrypts");
    }

    /// Decrypts a package with its tag in place; `None` if it is another one, or any bit of it
    /// changed.
    pub fn open<'p>(&self, number: u64, is_last: bool, package: &'p mut [u8]) -> Option<&'p [u8]> {
        let opened = self.0.open_in_place(nonce(number), bound(is_last), package);
        opened.ok().map(|plain| &*plain)
    }
}

/// The associated data of a package.
fn bound(is_last: bool) -> Aad<[u8; PACKAGE.len() + 1]> {
    let mut bytes = [0; PACKAGE.len() + 1];
    bytes[..PACKAGE.len()].copy_from_slice(PACKAGE);
    // Whether it is the last is bound in, so that an object that was cut off at a package is found
    // out. The number is in the nonce, so that packages cannot change places.
    bytes[PACKAGE.len()] = is_last.into();
    Aad::from(bytes)
}

/// What a wrapped key is bound to.
#[derive(Debug, Clone, Copy)]
pub struct WrapScope<'a> {
    /// The number of the kind of encryption.
    pub kind: u8,
    /// What the key opens.
    pub reach: KeyReach,
    /// The id of the master key.
    pub key_id: &'a str,
    /// The encryption context.
    pub context: &'a str,
}

impl WrapScope<'_> {
    /// The associated data, of the same length for all.
    fn bound(self) -> Aad<[u8; 65]> {
        let mut bytes = [0; 65];
        bytes[0] = self.kind
            | match self.reach {
                KeyReach::Object => 0,
                KeyReach::Write => WRITE_KEY,
            };
        // Digests in place of the texts: of a fixed length, so that no two scopes have the same
        // bytes.
        bytes[1..33].copy_from_slice(&Sha256::of(self.key_id.as_bytes()));
        bytes[33..].copy_from_slice(&Sha256::of(self.context.as_bytes()));
        Aad::from(bytes)
    }
}

/// Wraps the key of an object or of a write, as the scope says. The salt is drawn anew for each
/// call.
pub fn wrap_key(
    master: &MasterKey,
    salt: &[u8; SALT_BYTES],
    scope: WrapScope<'_>,
    object: &DataKey,
) -> [u8; SEALED_KEY_BYTES] {
    debug_assert_eq!(object.reach(), scope.reach, "a key is wrapped as what it is");
    let mut sealed = [0; SEALED_KEY_BYTES];
    let (key, tag) = sealed.split_at_mut(32);
    key.copy_from_slice(object.bytes());
    let made = derived(master.bytes(), salt, WRAP).seal_in_place_separate_tag(nonce(0), scope.bound(), key);
    tag.copy_from_slice(made.expect("a key is shorter than the most that one nonce encrypts").as_ref());
    sealed
}

/// The key that is wrapped; `None` with another master key or scope, and where a bit has changed.
pub fn unwrap_key(
    master: &MasterKey,
    salt: &[u8; SALT_BYTES],
    scope: WrapScope<'_>,
    sealed: &[u8; SEALED_KEY_BYTES],
) -> Option<DataKey> {
    // Decrypted in place, so that the key is wiped with the buffer.
    let mut bytes = zeroize::Zeroizing::new(*sealed);
    let key = derived(master.bytes(), salt, WRAP);
    let plain = key.open_in_place(nonce(0), scope.bound(), &mut bytes[..]).ok()?;
    Some(DataKey::new(plain.try_into().ok()?, scope.reach))
}

/// Encrypts what is known of the plain bytes of an object, under a salt of its own, which comes
/// first.
pub fn seal_digests(key: &DataKey, plain: &[u8], entropy: &dyn Entropy) -> Vec<u8> {
    let mut salt = [0; SALT_BYTES];
    entropy.fill(&mut salt);
    let mut sealed = Vec::with_capacity(SALT_BYTES + plain.len() + TAG_BYTES);
    sealed.extend_from_slice(&salt);
    sealed.extend_from_slice(plain);
    let cipher = derived(key.bytes(), &salt, DIGESTS);
    let tag = cipher.seal_in_place_separate_tag(nonce(0), Aad::empty(), &mut sealed[SALT_BYTES..]);
    let tag = tag.expect("digests are shorter than the most that one nonce encrypts");
    sealed.extend_from_slice(tag.as_ref());
    sealed
}

/// Decrypts what [`seal_digests`] made; `None` with another key, and where a bit has changed.
pub fn open_digests(key: &DataKey, sealed: &[u8]) -> Option<Vec<u8>> {
    let (salt, rest) = sealed.split_first_chunk::<SALT_BYTES>()?;
    let mut bytes = rest.to_vec();
    let opened = derived(key.bytes(), salt, DIGESTS).open_in_place(nonce(0), Aad::empty(), &mut bytes);
    let len = opened.ok()?.len();
    bytes.truncate(len);
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::SeededEntropy;
    use crate::base::digest::{from_hex, to_hex};

    const SCOPE: WrapScope<'_> = WrapScope { kind: 2, reach: KeyReach::Object, key_id: "k1", context: "{}" };

    fn object_key() -> DataKey {
        DataKey::new(std::array::from_fn(|at| at as u8), KeyReach::Object)
    }

    /// RFC 5869, A.1.
    #[test]
    fn hkdf_is_that_of_the_rfc() {
        let secret = [0x0b; 22];
        let salt = from_hex("000102030405060708090a0b0c").unwrap();
        let info = from_hex("f0f1f2f3f4f5f6f7f8f9").unwrap();
        let extracted = Salt::new(HKDF_SHA256, &salt).extract(&secret);
        let mut okm = [0; 32];
        extracted.expand(&[&info], HKDF_SHA256).unwrap().fill(&mut okm).unwrap();
        assert_eq!(to_hex(&okm), "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf");
    }

    #[test]
    fn a_package_opens_in_its_place_alone() {
        let cipher = PackageCipher::new(&object_key(), &[7; 16]);
        let mut sealed = b"Hello, world!\n".to_vec();
        cipher.seal(3, true, &mut sealed);
        assert_eq!(sealed.len(), 14 + TAG_BYTES);
        let opens = |cipher: &PackageCipher, number, is_last, bytes: &[u8]| {
            cipher.open(number, is_last, &mut bytes.to_vec()).map(<[u8]>::to_vec)
        };
        assert_eq!(opens(&cipher, 3, true, &sealed).unwrap(), b"Hello, world!\n");
        assert_eq!(opens(&cipher, 2, true, &sealed), None);
        assert_eq!(opens(&cipher, 3, false, &sealed), None);
        assert_eq!(opens(&PackageCipher::new(&object_key(), &[8; 16]), 3, true, &sealed), None);
        for at in 0..sealed.len() {
            let mut bad = sealed.clone();
            bad[at] ^= 1;
            assert_eq!(opens(&cipher, 3, true, &bad), None, "byte {at}");
            assert_eq!(opens(&cipher, 3, true, &sealed[..at]), None, "cut to {at}");
        }
    }

    #[test]
    fn a_wrapped_key_opens_with_its_master_key_and_scope_alone() {
        let master = MasterKey::new([9; 32]);
        let sealed = wrap_key(&master, &[1; 16], SCOPE, &object_key());
        let opens = |master: &MasterKey, salt: u8, scope| unwrap_key(master, &[salt; 16], scope, &sealed);
        assert_eq!(opens(&master, 1, SCOPE).unwrap().bytes(), object_key().bytes());
        assert!(opens(&MasterKey::new([8; 32]), 1, SCOPE).is_none());
        assert!(opens(&master, 2, SCOPE).is_none());
        for other in [
            WrapScope { kind: 1, ..SCOPE },
            WrapScope { reach: KeyReach::Write, ..SCOPE },
            WrapScope { key_id: "k2", ..SCOPE },
            WrapScope { context: "", ..SCOPE },
        ] {
            assert!(opens(&master, 1, other).is_none(), "{other:?}");
        }
    }

    #[test]
    fn the_key_of_a_write_opens_that_write_alone() {
        let salt = [7; 16];
        let mut sealed = b"Hello, world!\n".to_vec();
        PackageCipher::new(&object_key(), &salt).seal(0, true, &mut sealed);
        let key = write_key(&object_key(), &salt);
        let opens = |key: &DataKey, salt: &[u8; 16]| {
            PackageCipher::new(key, salt).open(0, true, &mut sealed.clone()).is_some()
        };
        assert!(opens(&key, &salt) && opens(&write_key(&key, &[0; 16]), &[0; 16]));
        assert!(!opens(&write_key(&object_key(), &[8; 16]), &salt));
        let scope = WrapScope { reach: KeyReach::Write, ..SCOPE };
        let wrapped = wrap_key(&MasterKey::new([9; 32]), &[1; 16], scope, &key);
        let unwrapped = unwrap_key(&MasterKey::new([9; 32]), &[1; 16], scope, &wrapped).unwrap();
        assert!(opens(&unwrapped, &salt));
        assert!(unwrap_key(&MasterKey::new([9; 32]), &[1; 16], SCOPE, &wrapped).is_none());
    }

    #[test]
    fn sealed_digests_open_with_their_key_alone_and_never_recur() {
        let entropy = SeededEntropy::new(1);
        let sealed = seal_digests(&object_key(), b"md5", &entropy);
        assert_eq!(open_digests(&object_key(), &sealed).unwrap(), b"md5");
        assert_eq!(open_digests(&DataKey::new([0; 32], KeyReach::Object), &sealed), None);
        assert_ne!(seal_digests(&object_key(), b"md5", &entropy), sealed);
        for at in 0..sealed.len() {
            let mut bad = sealed.clone();
            bad[at] ^= 1;
            assert_eq!(open_digests(&object_key(), &bad), None, "byte {at}");
            assert_eq!(open_digests(&object_key(), &sealed[..at]), None, "cut to {at}");
        }
    }

    #[test]
    fn no_key_shows_itself() {
        let master = MasterKey::new([9; 32]);
        assert_eq!(format!("{master:?} {:?}", object_key()), "MasterKey DataKey");
        assert!(master == MasterKey::new([9; 32]) && master != MasterKey::new([8; 32]));
    }
}
