//! The keys of encrypted objects: from the key that an operator has to that of the bytes.
//!
//! 1. A data key. Where clients gave keys (SSE-C) it is that of the client. Otherwise it stands
//!    encrypted beside the object, under a key of the operator, bound to the object by a context: a
//!    JSON map from the bucket to bucket and key.
//! 2. A sealing key: HMAC-SHA256 of the data key over the IV, a domain, the name of the algorithm and
//!    the cleaned path. The oldest form is SHA-256 over data key and IV.
//! 3. The object key, which is encrypted under the sealing key.
//! 4. The key of a part: HMAC-SHA256 of the object key over the number of the part.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use ring::hmac::{HMAC_SHA256, Key, sign};
use serde_json::Value;

use super::assumption::Assumption;
use super::dare;

/// A key of 32 bytes.
pub(crate) type SecretKey = [u8; 32];

/// Who encrypted an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EncryptionKind {
    /// The server, with a key of its own.
    S3,
    /// The server, with a key that a client named.
    Kms,
    /// The server, with a key that the client gave and kept.
    Customer,
}

/// What stands beside an encrypted object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Encryption {
    pub(crate) kind: EncryptionKind,
    /// The name of the operator's key; empty for that of a client.
    pub(crate) key_id: String,
    iv: Vec<u8>,
    algorithm: String,
    sealed_key: Vec<u8>,
    data_key: Vec<u8>,
    context: BTreeMap<String, String>,
    /// Whether each part has a key of its own.
    pub(crate) by_parts: bool,
}

/// The reason why a key is not had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum KeyFault {
    /// No key of this name was given.
    Missing(String),
    /// The key of this name is another one, or what stands beside the object is damaged.
    Wrong(String),
}

/// The keys of the user that a server has from its environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FirstUser {
    pub(crate) access_key: String,
    pub(crate) secret_key: String,
}

impl FirstUser {
    /// The password of encrypted configurations.
    pub(crate) fn text(&self) -> String {
        format!("{}:{}", self.access_key, self.secret_key)
    }
}

/// The keys that an operator gave.
#[derive(Default)]
pub(crate) struct OperatorKeys {
    /// The access key of the first user, which may be known without its secret key.
    pub(crate) root_user: Option<String>,
    /// Those of MINIO_ROOT_USER and MINIO_ROOT_PASSWORD, and of their former names and values.
    pub(crate) first_users: Vec<FirstUser>,
    /// Those of MINIO_KMS_SECRET_KEY.
    pub(crate) secret: Vec<(String, SecretKey)>,
    /// Those of MINIO_KMS_MASTER_KEY.
    pub(crate) master: Vec<(String, SecretKey)>,
    /// Those of clients, by the beginning of bucket and key.
    pub(crate) customer: Vec<(String, SecretKey)>,
}

const PREFIX: &str = "x-minio-internal-server-side-encryption-";
const ARN: &str = "arn:aws:kms:";
const DERIVED: &str = "DAREv2-HMAC-SHA256";
const OLDEST: &str = "DARE-SHA256";
/// The cipher of a data key in JSON.
const AES_BY_HMAC: &str = "AES-256-GCM-HMAC-SHA-256";

/// HMAC-SHA256 over the parts, one after another.
pub(crate) fn hmac(key: &[u8], parts: &[&[u8]]) -> SecretKey {
    let tag = sign(&Key::new(HMAC_SHA256, key), &parts.concat());
    let mut bytes = [0; 32];
    bytes.copy_from_slice(tag.as_ref());
    bytes
}

impl Encryption {
    /// What the internal metadata say; `None` for an object that is not encrypted.
    pub(crate) fn of(internal: &BTreeMap<String, Vec<u8>>) -> Option<Self> {
        let value = |name: &str| internal.get(&format!("{PREFIX}{name}")).map(Vec::as_slice);
        let text = |name: &str| String::from_utf8_lossy(value(name).unwrap_or_default()).into_owned();
        let decoded = |name: &str| BASE64.decode(value(name).unwrap_or_default()).unwrap_or_default();
        let kinds = [
            ("kms-sealed-key", EncryptionKind::Kms),
            ("s3-sealed-key", EncryptionKind::S3),
            ("sealed-key", EncryptionKind::Customer),
        ];
        let (name, kind) = kinds.into_iter().find(|(name, _)| value(name).is_some())?;
        let key_id = text("s3-kms-key-id");
        let context = serde_json::from_slice::<Value>(&decoded("context")).unwrap_or_default();
        Some(Self {
            kind,
            key_id: key_id.strip_prefix(ARN).unwrap_or(&key_id).to_owned(),
            iv: decoded("iv"),
            algorithm: text("seal-algorithm"),
            sealed_key: decoded(name),
            data_key: decoded("s3-kms-sealed-key"),
            context: super::xl_json::metadata(&context),
            by_parts: internal.contains_key("x-minio-internal-encrypted-multipart"),
        })
    }

    /// What opening it relies on that no bytes of MinIO have shown.
    pub(crate) fn assumption(&self, keys: &OperatorKeys) -> Option<Assumption> {
        if self.kind == EncryptionKind::Customer {
            return (self.algorithm == OLDEST).then_some(Assumption::OldestSealedKey);
        }
        if self.data_key.first() == Some(&b'{') {
            let json: Value = serde_json::from_slice(&self.data_key).unwrap_or_default();
            return (json["aead"] == AES_BY_HMAC).then_some(Assumption::JsonAesDataKey);
        }
        let is_secret = keys.secret.iter().any(|(id, _)| *id == self.key_id);
        is_secret.then_some(Assumption::BinaryDataKey)
    }

    /// The key of the object in this bucket.
    ///
    /// # Errors
    /// It takes a key that was not given, or another one.
    pub(crate) fn object_key(
        &self,
        keys: &OperatorKeys,
        bucket: &str,
        key: &str,
    ) -> Result<SecretKey, KeyFault> {
        let path = cleaned(&format!("{bucket}/{key}"));
        if self.kind == EncryptionKind::Customer {
            let fitting =
                keys.customer.iter().filter(|(prefix, _)| format!("{bucket}/{key}").starts_with(prefix));
            // The beginnings may overlap: the object tells by which key it was sealed.
            let mut tried = false;
            for (_, data_key) in fitting {
                tried = true;
                if let Some(key) = self.unseal(data_key, &path) {
                    return Ok(key);
                }
            }
            let name = "that the client gave (SSE-C)".to_owned();
            return Err(if tried { KeyFault::Wrong(name) } else { KeyFault::Missing(name) });
        }
        // MinIO adds the entry of the bucket where the context of the client has none, and stores
        // the context without it.
        let mut context = self.context.clone();
        context.entry(bucket.to_owned()).or_insert_with(|| path.clone());
        let data_key = keys.data_key(&self.key_id, &self.data_key, &context_text(&context))?;
        self.unseal(&data_key, &path).ok_or_else(|| KeyFault::Wrong(self.key_id.clone()))
    }

    fn unseal(&self, data_key: &SecretKey, path: &str) -> Option<SecretKey> {
        let sealing_key = match &*self.algorithm {
            DERIVED => {
                let domain: &[u8] = match self.kind {
                    EncryptionKind::S3 => b"SSE-S3",
                    EncryptionKind::Kms => b"SSE-KMS",
                    EncryptionKind::Customer => b"SSE-C",
                };
                hmac(data_key, &[&self.iv, domain, DERIVED.as_bytes(), path.as_bytes()])
            }
            OLDEST => {
                let mut key = [0; 32];
                let sum = ring::digest::digest(&ring::digest::SHA256, &[&data_key[..], &self.iv].concat());
                key.copy_from_slice(sum.as_ref());
                key
            }
            _ => return None,
        };
        dare::open_short(&sealing_key, &self.sealed_key)?.try_into().ok()
    }
}

/// The key of a part.
pub(crate) fn part_key(object_key: &SecretKey, number: u32) -> SecretKey {
    hmac(object_key, &[&number.to_le_bytes()])
}

/// The entity tag in an encrypted one; `None` if that is damaged.
pub(crate) fn open_etag(object_key: &SecretKey, sealed: &[u8]) -> Option<Vec<u8>> {
    dare::open_short(&hmac(object_key, &[b"SSE-etag"]), sealed)
}

/// The checksums in encrypted ones; `None` if they are damaged.
pub(crate) fn open_checksums(object_key: &SecretKey, sealed: &[u8]) -> Option<Vec<u8>> {
    dare::open_short(&hmac(object_key, &[b"object-checksum"]), sealed)
}

impl OperatorKeys {
    /// The data key that is encrypted under the key of this name.
    pub(crate) fn data_key(&self, id: &str, sealed: &[u8], context: &str) -> Result<SecretKey, KeyFault> {
        let named = |(name, _): &&(String, SecretKey)| name == id;
        let mut fitting = self.secret.iter().filter(named).map(|(_, key)| key).peekable();
        let mut masters = self.master.iter().filter(named).map(|(_, key)| key).peekable();
        if fitting.peek().is_none() && masters.peek().is_none() {
            return Err(KeyFault::Missing(id.to_owned()));
        }
        let opened = fitting.find_map(|key| open_data_key(key, sealed, context.as_bytes()));
        let opened = opened.or_else(|| {
            masters.find_map(|key| {
                let key = hmac(key, &[id.as_bytes(), context.as_bytes()]);
                dare::open_short(&key, sealed)?.try_into().ok()
            })
        });
        opened.ok_or_else(|| KeyFault::Wrong(id.to_owned()))
    }
}

/// Opens a data key: JSON with the parts by name, or the encrypted key with tag, IV and nonce at its
/// end.
fn open_data_key(key: &SecretKey, sealed: &[u8], context: &[u8]) -> Option<SecretKey> {
    let (cipher, iv, nonce, body) = if sealed.first() == Some(&b'{') {
        let value: Value = serde_json::from_slice(sealed).ok()?;
        let decoded = |name: &str| BASE64.decode(value[name].as_str().unwrap_or_default()).ok();
        let cipher = match value["aead"].as_str()? {
            AES_BY_HMAC => 0,
            "ChaCha20Poly1305" => 1,
            _ => return None,
        };
        (cipher, decoded("iv")?, decoded("nonce")?, decoded("bytes")?)
    } else {
        let (rest, nonce) = sealed.split_at_checked(sealed.len().checked_sub(12)?)?;
        let (body, iv) = rest.split_at_checked(rest.len().checked_sub(16)?)?;
        (0, iv.to_vec(), nonce.to_vec(), body.to_vec())
    };
    let sealing_key = match cipher {
        0 => hmac(key, &[&iv]),
        _ => hchacha20(key, &iv.try_into().ok()?),
    };
    let mut body = body;
    let is_open = dare::open(&sealing_key, cipher, nonce.try_into().ok()?, context, &mut body).ok()?;
    if !is_open {
        return None;
    }
    body.get(..32)?.try_into().ok()
}

/// A key of a long nonce (draft-irtf-cfrg-xchacha, "HChaCha20").
fn hchacha20(key: &SecretKey, nonce: &[u8; 16]) -> SecretKey {
    let mut state =
        [0x6170_7865_u32, 0x3320_646e, 0x7962_2d32, 0x6b20_6574, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    for (word, bytes) in state[4..].iter_mut().zip(key.chunks_exact(4).chain(nonce.chunks_exact(4))) {
        *word = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    }
    for _ in 0..10 {
        for lane in 0..4 {
            quarter(&mut state, lane, lane + 4, lane + 8, lane + 12);
        }
        for lane in 0..4 {
            quarter(&mut state, lane, (lane + 1) % 4 + 4, (lane + 2) % 4 + 8, (lane + 3) % 4 + 12);
        }
    }
    let mut derived = [0; 32];
    let words = state[..4].iter().chain(&state[12..]);
    for (bytes, word) in derived.chunks_exact_mut(4).zip(words) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    derived
}

fn quarter(state: &mut [u32; 16], a: usize, b: usize, c: usize, d: usize) {
    state[a] = state[a].wrapping_add(state[b]);
    state[d] = (state[d] ^ state[a]).rotate_left(16);
    state[c] = state[c].wrapping_add(state[d]);
    state[b] = (state[b] ^ state[c]).rotate_left(12);
    state[a] = state[a].wrapping_add(state[b]);
    state[d] = (state[d] ^ state[a]).rotate_left(8);
    state[c] = state[c].wrapping_add(state[d]);
    state[b] = (state[b] ^ state[c]).rotate_left(7);
}

/// A path without empty segments.
fn cleaned(path: &str) -> String {
    path.split('/').filter(|segment| !segment.is_empty() && *segment != ".").collect::<Vec<_>>().join("/")
}

/// A context as the text that was authenticated: names in order, without spaces, escaped as Go does.
pub(crate) fn context_text(context: &BTreeMap<String, String>) -> String {
    let pairs = context.iter().map(|(name, value)| format!("{}:{}", quoted(name), quoted(value)));
    format!("{{{}}}", pairs.collect::<Vec<_>>().join(","))
}

fn quoted(text: &str) -> String {
    let mut quoted = "\"".to_owned();
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '\n' => quoted += "\\n",
            '\r' => quoted += "\\r",
            '\t' => quoted += "\\t",
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' | '\0'..='\u{1f}' => {
                quoted += &format!("\\u{:04x}", u32::from(c));
            }
            _ => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The keys that MinIO's own tests expect.
    #[test]
    fn part_keys_are_those_of_minio() {
        let keys = [0, 1, 10_000].map(|number| hex(&part_key(&[0; 32], number)));
        assert_eq!(keys[0], "aa7855e13839dd767cd5da7c1ff5036540c9264b7a803029315e55375287b4af");
        assert_eq!(keys[1], "a3e7181c6eed030fd52f79537c56c4d07da92e56d374ff1dd2043350785b37d8");
        assert_eq!(keys[2], "f86e65c396ed52d204ee44bd1a0bbd86eb8b01b7354e67a3b3ae0e34dd5bd115");
    }

    #[test]
    fn data_keys_of_the_json_form_are_opened() {
        let key = BASE64.decode("eEm+JI9/q4JhH8QwKvf3LKo4DEBl6QbfvAl1CAbMIv8=").unwrap();
        let keys = OperatorKeys {
            secret: vec![("my-key".to_owned(), key.try_into().unwrap())],
            ..OperatorKeys::default()
        };
        let sealed = r#"{"aead":"ChaCha20Poly1305","iv":"JbI+vwvYww1lCb5VpkAFuQ==","nonce":"ARjIjJxBSD541Gz8","bytes":"KCbEc2sA0TLvA7aWTWa23AdccVfJMpOxwgG8hm+4PaNrxYfy1xFWZg2gEenVrOgv"}"#;
        let opened = keys.data_key("my-key", sealed.as_bytes(), "{}").unwrap();
        assert_eq!(BASE64.encode(opened), "zmS7NrG765UZ0ZN85oPjybelxqVvpz01vxsSpOISy2M=");
        let fault = |id: &str, context: &str| keys.data_key(id, sealed.as_bytes(), context).unwrap_err();
        assert_eq!(fault("my-key", "{\"a\":\"b\"}"), KeyFault::Wrong("my-key".to_owned()));
        assert_eq!(fault("other", "{}"), KeyFault::Missing("other".to_owned()));
    }

    #[test]
    fn contexts_are_escaped_as_go_does() {
        let context = [("b", "b/a&<>\u{2028}\u{1}\"\\\n\r\té"), ("a", "")];
        let context = context.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        assert_eq!(context_text(&context), r#"{"a":"","b":"b/a\u0026\u003c\u003e\u2028\u0001\"\\\n\r\té"}"#);
        assert_eq!(context_text(&BTreeMap::new()), "{}");
        assert_eq!(cleaned("bucket/a//b/"), "bucket/a/b");
    }

    #[test]
    fn the_key_of_a_client_unseals() {
        let prefix = "x-minio-internal-server-side-encryption-";
        let metadata = [
            ("iv", "coVfGS3I/CTrqexX5vUN+PQPoP9aUFiPYYrSzqTWfBA="),
            (
                "sealed-key",
                "IAAfAMBdYor5tf/UlVaQvwYlw5yKbPBeQqfygqsfHqhu1wHD9KDAP4bw38AhL12prFTS23JbbR9Re5Qv26ZnlQ==",
            ),
            ("seal-algorithm", DERIVED),
        ];
        let metadata =
            metadata.map(|(name, value)| (format!("{prefix}{name}"), value.as_bytes().to_vec())).into();
        let encryption = Encryption::of(&metadata).unwrap();
        let given = BASE64.decode("MzJieXRlc2xvbmdzZWNyZXRrZXltdXN0cHJvdmlkZWQ=").unwrap();
        let customer = vec![("bucket/".to_owned(), given.try_into().unwrap())];
        let keys = OperatorKeys { customer, ..OperatorKeys::default() };
        let key = encryption.object_key(&keys, "bucket", "object").unwrap();
        assert_eq!(hex(&key), "d4bef6fb18079e63828e8ab5953d9ae6d765d410d70e098d5c3d309731668f4e");
        assert!(encryption.object_key(&keys, "bucket", "object2").is_err());
        assert!(encryption.object_key(&keys, "other", "object").is_err());
    }
}
