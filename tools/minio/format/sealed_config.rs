//! Configurations that MinIO encrypted on its drives: users, policies, groups.
//!
//! | bytes | under the keys of the first user, 2019 to 2021 |
//! |---|---|
//! | 32 | salt |
//! | 1 | 0 AES-256-GCM, 1 ChaCha20-Poly1305, both with a key by Argon2id; 2 AES-256-GCM with a key by PBKDF2 |
//! | 8 | nonce |
//! | rest | stream |
//!
//! | bytes | under a key of the operator, since 2021 |
//! |---|---|
//! | 1 | 1 |
//! | 4 | length of the JSON, little-endian |
//! | so many | JSON: the name of the key, the encrypted data key, the cipher, the nonce |
//! | rest | stream |
//!
//! The data key is bound to the path by a context: a JSON map from `.minio.sys` to the path.
//!
//! A stream has fragments of 16,384 plain bytes and a tag of 16. The nonce of a fragment is that of
//! the stream and a number from 1, little-endian. With each fragment are authenticated: a byte that
//! tells the last fragment, and the tag of an empty message with the number 0.

use std::num::NonZeroU32;

use argon2::{Algorithm, Argon2, Params, Version};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use ring::aead::{Aad, LessSafeKey, Nonce};
use ring::pbkdf2;
use serde_json::Value;

use super::assumption::Assumption;
use super::dare;
use super::keys::{FirstUser, KeyFault, OperatorKeys, SecretKey, context_text};

const FRAGMENT_BYTES: usize = 16_384;
const TAG_BYTES: usize = 16;
const NONCE_BYTES: usize = 8;
/// Authenticated with the last fragment.
const LAST: u8 = 0x80;
const AES_256_GCM: u8 = 0;
const CHACHA20_POLY1305: u8 = 1;

/// The first user of a server whose environment has none.
const DEFAULT_PASSWORD: &str = "minioadmin:minioadmin";
const SALT_BYTES: usize = 32;
/// Of Argon2id, in KiB.
const ARGON2_MEMORY_KIB: u32 = 64 << 10;
const ARGON2_LANES: u32 = 4;
const PBKDF2_ROUNDS: NonZeroU32 = NonZeroU32::new(8_192).expect("it is not zero");

/// The format of configurations under a key of the operator.
const BY_OPERATOR: u8 = 1;

/// The plain bytes of the configuration at a path below `.minio.sys`.
///
/// # Errors
/// A message: the key is missing or another one, or the bytes are damaged.
pub(crate) fn open(keys: &OperatorKeys, path: &str, sealed: &[u8]) -> Result<Vec<u8>, String> {
    match OperatorSealed::parse(sealed) {
        Some(by_operator) => by_operator.open(keys, path),
        None => open_by_first_user(&keys.first_users, sealed),
    }
}

/// What opening a configuration relies on that no bytes of MinIO have shown.
pub(crate) fn assumption(sealed: &[u8]) -> Option<Assumption> {
    if OperatorSealed::parse(sealed).is_some() {
        return Some(Assumption::ConfigByOperator);
    }
    let is_aes = sealed.get(SALT_BYTES) == Some(&0);
    (!is_aes).then_some(Assumption::ConfigByOtherCipher)
}

/// A configuration under a key of the operator.
struct OperatorSealed<'s> {
    key_id: String,
    data_key: Vec<u8>,
    cipher: u8,
    nonce: [u8; NONCE_BYTES],
    stream: &'s [u8],
}

impl<'s> OperatorSealed<'s> {
    /// `None` if the bytes are of the other form.
    fn parse(sealed: &'s [u8]) -> Option<Self> {
        let (head, rest) = sealed.split_at_checked(5)?;
        if head[0] != BY_OPERATOR {
            return None;
        }
        let length = u32::from_le_bytes([head[1], head[2], head[3], head[4]]);
        let (json, stream) = rest.split_at_checked(length as usize)?;
        let json: Value = serde_json::from_slice(json).ok()?;
        let text = |name: &str| json[name].as_str().unwrap_or_default();
        let cipher = match text("algorithm") {
            "AES-256-GCM" => AES_256_GCM,
            "ChaCha20-Poly1305" => CHACHA20_POLY1305,
            _ => return None,
        };
        Some(Self {
            key_id: text("keyid").to_owned(),
            data_key: BASE64.decode(text("kmskey")).ok()?,
            cipher,
            nonce: BASE64.decode(text("nonce")).ok()?.try_into().ok()?,
            stream,
        })
    }

    fn open(&self, keys: &OperatorKeys, path: &str) -> Result<Vec<u8>, String> {
        // Older servers left the name of the directory out.
        for bound in [format!(".minio.sys/{path}"), path.to_owned()] {
            let context = context_text(&[(".minio.sys".to_owned(), bound)].into());
            match keys.data_key(&self.key_id, &self.data_key, &context) {
                Ok(key) => {
                    let opened = open_stream(&key, self.cipher, self.nonce, self.stream);
                    return opened.ok_or_else(|| "it is encrypted, and damaged".to_owned());
                }
                Err(KeyFault::Missing(id)) => {
                    return Err(format!(
                        "it is encrypted under the key {id:?}, which is not among those of MINIO_KMS_SECRET_KEY"
                    ));
                }
                Err(KeyFault::Wrong(_)) => {}
            }
        }
        Err(format!("it is encrypted, and the key {:?} that was given is another one", self.key_id))
    }
}

fn open_by_first_user(users: &[FirstUser], sealed: &[u8]) -> Result<Vec<u8>, String> {
    let opened = users.iter().find_map(|user| open_with(&user.text(), sealed));
    opened.or_else(|| open_with(DEFAULT_PASSWORD, sealed)).ok_or_else(|| {
        "it is encrypted with the keys of the first user, and those of MINIO_ROOT_USER and \
         MINIO_ROOT_PASSWORD do not fit"
            .to_owned()
    })
}

/// The plain bytes of a configuration under a password; `None` if that is another one.
pub(crate) fn open_with(password: &str, sealed: &[u8]) -> Option<Vec<u8>> {
    let (salt, rest) = sealed.split_at_checked(SALT_BYTES)?;
    let (kind, rest) = rest.split_first()?;
    let (nonce, stream) = rest.split_at_checked(NONCE_BYTES)?;
    let mut key: SecretKey = [0; 32];
    match kind {
        0 | 1 => {
            let params = Params::new(ARGON2_MEMORY_KIB, 1, ARGON2_LANES, Some(key.len())).ok()?;
            let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
            argon2.hash_password_into(password.as_bytes(), salt, &mut key).ok()?;
        }
        2 => {
            let hash = pbkdf2::PBKDF2_HMAC_SHA256;
            pbkdf2::derive(hash, PBKDF2_ROUNDS, salt, password.as_bytes(), &mut key);
        }
        _ => return None,
    }
    let cipher = if *kind == 1 { CHACHA20_POLY1305 } else { AES_256_GCM };
    open_stream(&key, cipher, nonce.try_into().ok()?, stream)
}

/// The plain bytes of a stream; `None` if the key is another one, or they are damaged.
pub(crate) fn open_stream(
    key: &SecretKey,
    cipher: u8,
    nonce: [u8; NONCE_BYTES],
    sealed: &[u8],
) -> Option<Vec<u8>> {
    let key = dare::key_of(cipher, key).ok()?;
    let mut authenticated = vec![0];
    authenticated.extend(empty_tag(&key, nonce)?);
    let mut plain = Vec::with_capacity(sealed.len());
    let mut rest = sealed;
    for number in 1.. {
        let (fragment, after) = rest.split_at(rest.len().min(FRAGMENT_BYTES + TAG_BYTES));
        authenticated[0] = if after.is_empty() { LAST } else { 0 };
        let mut body = fragment.to_vec();
        let nonce = numbered(nonce, number);
        plain.extend_from_slice(key.open_in_place(nonce, Aad::from(&authenticated), &mut body).ok()?);
        if after.is_empty() {
            break;
        }
        rest = after;
    }
    Some(plain)
}

/// The tag of an empty message, by which a stream is bound to its key and nonce.
fn empty_tag(key: &LessSafeKey, nonce: [u8; NONCE_BYTES]) -> Option<[u8; TAG_BYTES]> {
    let tag = key.seal_in_place_separate_tag(numbered(nonce, 0), Aad::empty(), &mut []).ok()?;
    tag.as_ref().try_into().ok()
}

fn numbered(nonce: [u8; NONCE_BYTES], number: u32) -> Nonce {
    let mut bytes = [0; NONCE_BYTES + 4];
    bytes[..NONCE_BYTES].copy_from_slice(&nonce);
    bytes[NONCE_BYTES..].copy_from_slice(&number.to_le_bytes());
    // Who encrypts must not use a nonce twice. Nothing is encrypted here.
    Nonce::assume_unique_for_key(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Encrypts as [`open_stream`] reads.
    fn sealed_stream(key: &SecretKey, cipher: u8, nonce: [u8; 8], plain: &[u8]) -> Vec<u8> {
        let key = dare::key_of(cipher, key).unwrap();
        let mut authenticated = vec![0];
        authenticated.extend(empty_tag(&key, nonce).unwrap());
        let fragments: Vec<_> = plain.chunks(FRAGMENT_BYTES).collect();
        let mut sealed = Vec::new();
        for (at, fragment) in fragments.iter().enumerate() {
            authenticated[0] = if at + 1 == fragments.len() { LAST } else { 0 };
            let mut body = fragment.to_vec();
            let nonce = numbered(nonce, at as u32 + 1);
            key.seal_in_place_append_tag(nonce, Aad::from(&authenticated), &mut body).unwrap();
            sealed.extend(body);
        }
        sealed
    }

    #[test]
    fn a_stream_is_opened_whole_or_not_at_all() {
        let key = [3; 32];
        for length in [1, FRAGMENT_BYTES, FRAGMENT_BYTES + 1, 3 * FRAGMENT_BYTES] {
            let plain: Vec<u8> = (0..length).map(|at| at as u8).collect();
            for cipher in [AES_256_GCM, CHACHA20_POLY1305] {
                let sealed = sealed_stream(&key, cipher, [7; 8], &plain);
                assert!(open_stream(&key, cipher, [7; 8], &sealed) == Some(plain.clone()), "{length}");
                assert_eq!(open_stream(&key, cipher, [8; 8], &sealed), None);
                assert_eq!(open_stream(&[4; 32], cipher, [7; 8], &sealed), None);
                let mut changed = sealed.clone();
                changed[length / 2] ^= 1;
                assert_eq!(open_stream(&key, cipher, [7; 8], &changed), None);
                let cut = sealed.len().saturating_sub(FRAGMENT_BYTES + TAG_BYTES);
                assert_eq!(open_stream(&key, cipher, [7; 8], &sealed[..cut]), None, "{length}");
            }
        }
    }

    fn first_user(secret_key: &str) -> FirstUser {
        FirstUser { access_key: "root".to_owned(), secret_key: secret_key.to_owned() }
    }

    #[test]
    fn the_keys_of_the_first_user_open_what_is_under_pbkdf2() {
        let salt = [5; SALT_BYTES];
        let mut key = [0; 32];
        pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, PBKDF2_ROUNDS, &salt, b"root:secret", &mut key);
        let stream = sealed_stream(&key, AES_256_GCM, [9; 8], b"{}");
        let sealed = [&salt[..], &[2], &[9; 8], &stream].concat();
        let keys = |secret: &str| OperatorKeys {
            first_users: vec![first_user("former"), first_user(secret)],
            ..OperatorKeys::default()
        };
        assert_eq!(open(&keys("secret"), "config/iam/x", &sealed).unwrap(), b"{}");
        let told = open(&keys("other"), "config/iam/x", &sealed).unwrap_err();
        assert!(told.contains("MINIO_ROOT_PASSWORD") && !told.contains("other "), "{told}");
    }

    #[test]
    fn no_bytes_of_a_stranger_panic() {
        let keys = OperatorKeys::default();
        let long_json = [&[BY_OPERATOR][..], &u32::MAX.to_le_bytes(), b"{}"].concat();
        let no_json = [&[BY_OPERATOR][..], &2_u32.to_le_bytes(), b"[]"].concat();
        for sealed in [&[][..], &[1], &[0xff; 40], &[0xff; 41], &long_json, &no_json] {
            assert!(open(&keys, "config/iam/x", sealed).is_err());
        }
    }
}
