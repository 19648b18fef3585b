//! What an object is to its clients: entity tag, length, headers, tags, locks and checksums, from
//! the metadata of a version.

use super::format::assumption::Assumption;
use super::format::dare;
use super::format::keys::{Encryption, KeyFault, OperatorKeys, SecretKey, open_checksums, open_etag};
use super::format::version::StoredObject;
use super::format::xl_json::parse_time;

/// The headers that are kept beside the client's metadata.
const KEPT: [&str; 7] = [
    "cache-control",
    "content-disposition",
    "content-encoding",
    "content-language",
    "content-type",
    "expires",
    "x-amz-website-redirect-location",
];
const METADATA: &str = "x-amz-meta-";
/// Metadata that clients with encryption of their own leave behind.
const UNENCRYPTED: &str = "x-amz-meta-x-amz-unencrypted-content-";
/// The type that S3 shows where none was given.
const DEFAULT_TYPE: &str = "binary/octet-stream";
const COMPRESSIONS: [&str; 2] = ["golang/snappy/LZ77", "klauspost/compress/s2"];

/// An object as clients saw it.
#[derive(Debug, Clone)]
pub(crate) struct ObjectFacts {
    /// The entity tag; empty where there is none.
    pub(crate) etag: String,
    /// The bytes of the object.
    pub(crate) length: u64,
    /// Those of each part.
    pub(crate) parts: Vec<u64>,
    /// Names in lower case and values, sorted.
    pub(crate) headers: Vec<(String, String)>,
    /// Sorted.
    pub(crate) tags: Vec<(String, String)>,
    pub(crate) retention: Option<Retention>,
    pub(crate) legal_hold: bool,
    pub(crate) checksum: Option<ObjectChecksum>,
    pub(crate) decoding: Decoding,
    /// What reading it relies on that no bytes of MinIO have shown.
    pub(crate) assumption: Option<Assumption>,
}

/// How the stored bytes become those of the object.
#[derive(Debug, Clone, Default)]
pub(crate) struct Decoding {
    pub(crate) key: Option<SecretKey>,
    /// Whether each part has a key that follows from that of the object.
    pub(crate) by_parts: bool,
    pub(crate) compressed: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Retention {
    pub(crate) mode: String,
    /// As RFC 3339 has it.
    pub(crate) until: String,
    /// In nanoseconds since 1970.
    pub(crate) until_nanos: i64,
}

/// A checksum that a client gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ObjectChecksum {
    /// The name in S3: `CRC32C` and so on.
    pub(crate) algorithm: &'static str,
    pub(crate) value: Vec<u8>,
    /// Whether the object was uploaded in parts.
    pub(crate) multipart: bool,
    /// Whether it is that of all bytes, and not of the checksums of the parts.
    pub(crate) full_object: bool,
    /// Those of the parts, where they were kept.
    pub(crate) parts: Vec<Vec<u8>>,
}

/// The reason why the bytes of an object cannot be had from the drives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Obstacle {
    /// They are on another store.
    OnTier(String),
    /// They are encrypted, and the key was not given.
    KeyMissing(String),
    /// They are encrypted, and no key that was given fits.
    KeyWrong(String),
    /// The metadata contradict themselves.
    Odd(String),
}

impl Obstacle {
    pub(crate) fn text(&self) -> String {
        match self {
            Self::OnTier(tier) => format!("its bytes are on the remote tier {tier:?}"),
            Self::KeyMissing(id) => format!("encrypted, and the key {id:?} was not given"),
            Self::KeyWrong(id) => format!("encrypted, and the key {id:?} that was given does not open it"),
            Self::Odd(why) => why.clone(),
        }
    }
}

impl From<KeyFault> for Obstacle {
    fn from(fault: KeyFault) -> Self {
        match fault {
            KeyFault::Missing(id) => Self::KeyMissing(id),
            KeyFault::Wrong(id) => Self::KeyWrong(id),
        }
    }
}

impl ObjectFacts {
    /// What the metadata of an object say, which is at `now` in nanoseconds since 1970.
    ///
    /// # Errors
    /// Why its bytes cannot be had.
    pub(crate) fn of(
        object: &StoredObject,
        keys: &OperatorKeys,
        bucket: &str,
        key: &str,
        now: i64,
    ) -> Result<Self, Obstacle> {
        if let Some(tier) = remote_tier(object, now) {
            return Err(Obstacle::OnTier(tier));
        }
        let compressed = compression(object)?;
        let encryption = Encryption::of(&object.internal);
        let stored_etag = object.user.get("etag").map_or("", |etag| etag.trim_matches('"'));
        let mut decoding = Decoding { key: None, by_parts: false, compressed };
        let mut etag = stored_etag.to_owned();
        if let Some(encryption) = &encryption {
            let object_key = encryption.object_key(keys, bucket, key)?;
            decoding.by_parts = encryption.by_parts && stored_etag.len() != 32;
            if let Some(sealed) = unhex(stored_etag).filter(|sealed| sealed.len() > 16) {
                let opened = open_etag(&object_key, &sealed);
                etag = hex(&opened.ok_or_else(|| Obstacle::Odd("its encrypted ETag is damaged".to_owned()))?);
            }
            decoding.key = Some(object_key);
        }
        let parts = part_lengths(object, &decoding)?;
        Ok(Self {
            etag,
            length: parts.iter().sum(),
            parts,
            headers: headers_of(object),
            tags: tags_of(object),
            retention: retention_of(object),
            legal_hold: object.user.get("x-amz-object-lock-legal-hold").is_some_and(|state| state == "ON"),
            checksum: checksum_of(object, decoding.key.as_ref()),
            decoding,
            assumption: encryption.and_then(|encryption| encryption.assumption(keys)),
        })
    }

    /// The digests of the entity tag: 0 for one of another form, 1 for that of a whole object, and
    /// the number of parts else.
    pub(crate) fn etag_parts(&self) -> Option<usize> {
        let (digest, count) = self.etag.split_once('-').unwrap_or((&self.etag, "0"));
        let is_digest = digest.len() == 32 && unhex(digest).is_some();
        count.parse().ok().filter(|_| is_digest)
    }
}

/// The tier that has the bytes, unless a copy is back.
pub(crate) fn remote_tier(object: &StoredObject, now: i64) -> Option<String> {
    if object.internal_text("x-minio-internal-transition-status") != Some("complete") {
        return None;
    }
    let restored = object.user.get("x-amz-restore").is_some_and(|state| {
        let until = state.split("expiry-date=\"").nth(1).and_then(|rest| rest.split('"').next());
        let until = until.and_then(http_date_nanos);
        state.contains("ongoing-request=\"false\"") && until.is_some_and(|until| until > now)
    });
    let tier = object.internal_text("x-minio-internal-transition-tier").unwrap_or("?");
    (!restored).then(|| tier.to_owned())
}

fn http_date_nanos(text: &str) -> Option<i64> {
    let since = httpdate::parse_http_date(text).ok()?.duration_since(std::time::UNIX_EPOCH).ok()?;
    i64::try_from(since.as_nanos()).ok()
}

/// Whether the bytes are compressed.
fn compression(object: &StoredObject) -> Result<bool, Obstacle> {
    match object.internal_text("x-minio-internal-compression") {
        None | Some("") => Ok(false),
        Some(name) if COMPRESSIONS.contains(&name) => Ok(true),
        Some(other) => Err(Obstacle::Odd(format!("its compression {other:?} is unknown"))),
    }
}

fn part_lengths(object: &StoredObject, decoding: &Decoding) -> Result<Vec<u64>, Obstacle> {
    let told = object.internal_text("x-minio-internal-actual-size").and_then(|size| size.parse::<u64>().ok());
    let is_single = object.parts.len() == 1;
    let mut lengths = Vec::new();
    for part in &object.parts {
        let length = match (decoding.compressed, &decoding.key) {
            (false, None) => Some(part.stored),
            (false, Some(_)) => dare::plain_length(part.stored),
            (true, _) if is_single => told.or(part.actual),
            (true, _) => part.actual,
        };
        let number = part.number;
        lengths.push(
            length.ok_or_else(|| Obstacle::Odd(format!("the length of its part {number} is not known")))?,
        );
    }
    let sum = lengths.iter().try_fold(0_u64, |sum, length| sum.checked_add(*length));
    match (sum, told) {
        (None, _) => Err(Obstacle::Odd("its length is out of range".to_owned())),
        (Some(sum), Some(told)) if told != sum => {
            Err(Obstacle::Odd(format!("its parts have {sum} bytes, and it is said to have {told}")))
        }
        _ => Ok(lengths),
    }
}

fn headers_of(object: &StoredObject) -> Vec<(String, String)> {
    let mut headers = Vec::new();
    for (name, value) in &object.user {
        let is_metadata = name.starts_with(METADATA) && !name.starts_with(UNENCRYPTED);
        if !is_metadata && !KEPT.contains(&&**name) {
            continue;
        }
        let mut value = value.trim().to_owned();
        if name == "content-encoding" {
            // The coding of an upload, which is none of the object.
            let codings = value.split(',').map(str::trim).filter(|coding| *coding != "aws-chunked");
            value = codings.collect::<Vec<_>>().join(",");
        }
        if is_metadata || !value.is_empty() {
            headers.push((name.clone(), value));
        }
    }
    if !headers.iter().any(|(name, _)| name == "content-type") {
        headers.push(("content-type".to_owned(), DEFAULT_TYPE.to_owned()));
    }
    headers.sort();
    headers
}

fn tags_of(object: &StoredObject) -> Vec<(String, String)> {
    let Some(text) = object.user.get("x-amz-tagging") else { return Vec::new() };
    let decoded = |text: &str| {
        let spaced = text.replace('+', " ");
        percent_encoding::percent_decode_str(&spaced).decode_utf8_lossy().into_owned()
    };
    let pairs = text.split('&').filter(|pair| !pair.is_empty());
    let mut tags: Vec<_> = pairs
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .map(|(name, value)| (decoded(name), decoded(value)))
        .collect();
    tags.sort();
    tags
}

fn retention_of(object: &StoredObject) -> Option<Retention> {
    let mode = object.user.get("x-amz-object-lock-mode")?.to_ascii_uppercase();
    let until = object.user.get("x-amz-object-lock-retain-until-date")?;
    let until_nanos = parse_time(until)?;
    matches!(&*mode, "GOVERNANCE" | "COMPLIANCE").then(|| Retention {
        mode,
        until: until.clone(),
        until_nanos,
    })
}

/// The algorithms by their bit, with the length of a checksum.
const ALGORITHMS: [(u64, &str, usize); 5] =
    [(2, "SHA256", 32), (4, "SHA1", 20), (8, "CRC32", 4), (16, "CRC32C", 4), (256, "CRC64NVME", 8)];
const MULTIPART: u64 = 64;
const INCLUDES_PARTS: u64 = 128;
const FULL_OBJECT: u64 = 512;

/// The first checksum that stands beside the object: its type, its value, and for uploads in parts
/// their number and the checksums of each.
fn checksum_of(object: &StoredObject, key: Option<&SecretKey>) -> Option<ObjectChecksum> {
    let stored = object.internal.get("x-minio-internal-crc")?;
    let opened = match key {
        Some(key) => open_checksums(key, stored)?,
        None => stored.clone(),
    };
    let mut bytes = &opened[..];
    let kind = uvarint(&mut bytes)?;
    let (bit, algorithm, length) = ALGORITHMS.into_iter().find(|(bit, ..)| kind & bit != 0)?;
    let (value, mut rest) = bytes.split_at_checked(length)?;
    let multipart = kind & MULTIPART != 0;
    let mut parts = Vec::new();
    if multipart {
        let count = usize::try_from(uvarint(&mut rest)?).ok()?;
        if kind & INCLUDES_PARTS != 0 {
            let all = rest.get(..count.checked_mul(length)?)?;
            parts = all.chunks_exact(length).map(<[u8]>::to_vec).collect();
        }
    }
    // CRC-64 is that of all bytes in any case.
    let full_object = !multipart || kind & FULL_OBJECT != 0 || bit == 256;
    Some(ObjectChecksum { algorithm, value: value.to_vec(), multipart, full_object, parts })
}

fn uvarint(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for at in 0..9 {
        let byte = *bytes.get(at)?;
        number |= u64::from(byte & 0x7f) << (7 * at);
        if byte < 0x80 {
            *bytes = &bytes[at + 1..];
            return Some(number);
        }
    }
    None
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(2) || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    (0..text.len() / 2).map(|at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::minio::format::version::{Coding, PartPlace};

    fn object(internal: &[(&str, &[u8])], user: &[(&str, &str)]) -> StoredObject {
        StoredObject {
            coding: Coding { data: 1, parity: 0, block_bytes: 1 << 20, index: 1, distribution: vec![1] },
            place: PartPlace::Beside,
            parts: Vec::new(),
            size: 0,
            internal: internal.iter().map(|(name, value)| ((*name).to_owned(), value.to_vec())).collect(),
            user: user.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
            legacy: false,
        }
    }

    fn facts(object: &StoredObject) -> ObjectFacts {
        ObjectFacts::of(object, &OperatorKeys::default(), "b", "k", 0).unwrap()
    }

    #[test]
    fn headers_and_tags_are_those_of_clients() {
        let user = [
            ("etag", "\"d41d8cd98f00b204e9800998ecf8427e\""),
            ("content-encoding", "aws-chunked, gzip"),
            ("x-amz-meta-who", " me "),
            ("x-amz-meta-x-amz-unencrypted-content-md5", "x"),
            ("x-amz-storage-class", "REDUCED_REDUNDANCY"),
            ("x-amz-tagging", "b=1&a+b=c%26d&alone"),
        ];
        let facts = facts(&object(&[], &user));
        let text =
            |pairs: &[(String, String)]| pairs.iter().map(|(a, b)| format!("{a}:{b}")).collect::<Vec<_>>();
        assert_eq!(
            text(&facts.headers),
            ["content-encoding:gzip", "content-type:binary/octet-stream", "x-amz-meta-who:me"]
        );
        assert_eq!(text(&facts.tags), ["a b:c&d", "alone:", "b:1"]);
        assert_eq!((&*facts.etag, facts.etag_parts()), ("d41d8cd98f00b204e9800998ecf8427e", Some(0)));
    }

    #[test]
    fn checksums_of_parts_are_read() {
        let blob = [0xd0, 1, 1, 2, 3, 4, 2, 5, 6, 7, 8, 9, 10, 11, 12];
        let checksum = facts(&object(&[("x-minio-internal-crc", &blob)], &[])).checksum.unwrap();
        assert_eq!((checksum.algorithm, checksum.multipart, checksum.full_object), ("CRC32C", true, false));
        assert_eq!(
            (checksum.value, checksum.parts),
            (vec![1, 2, 3, 4], vec![vec![5, 6, 7, 8], vec![9, 10, 11, 12]])
        );
        for cut in 0..blob.len() {
            assert!(checksum_of(&object(&[("x-minio-internal-crc", &blob[..cut])], &[]), None).is_none());
        }
    }

    #[test]
    fn bytes_on_a_tier_are_told_unless_a_copy_is_back() {
        let status: [(&str, &[u8]); 2] = [
            ("x-minio-internal-transition-status", b"complete"),
            ("x-minio-internal-transition-tier", b"COLD"),
        ];
        let gone = object(&status, &[]);
        let fault = ObjectFacts::of(&gone, &OperatorKeys::default(), "b", "k", 0).unwrap_err();
        assert_eq!(fault, Obstacle::OnTier("COLD".to_owned()));
        let restore = "ongoing-request=\"false\", expiry-date=\"Fri, 21 Dec 2040 00:00:00 GMT\"";
        let back = object(&status, &[("x-amz-restore", restore)]);
        assert!(remote_tier(&back, 0).is_none());
        assert!(remote_tier(&back, i64::MAX).is_some());
    }
}
