//! The encryption of versions, uploads and parts (data-format.md, section 20): the wrapped keys,
//! and which packages a record has.

use crate::base::limits::BLOCK_BYTES;
use crate::crypto::{
    KeyReach, MasterKey, SALT_BYTES, SEALED_KEY_BYTES, TAG_BYTES, WRITE_KEY, WrapScope, unwrap_key,
};
use crate::format::checksum::{
    decode_checksums, decode_optional_checksum, encode_checksum, encode_optional_checksum,
};
use crate::format::codec::to_u32;
use crate::format::{ByteDecoder, Checksum, DecodeError, Decoded, Encode, ExtentRef};

/// Plain bytes of a package. With its tag it is a block.
pub const PACKAGE_PLAIN_BYTES: u64 = BLOCK_BYTES - TAG_BYTES as u64;

/// In the byte of the kind: a bucket key was asked for.
const BUCKET_KEY: u8 = 0x80;
/// The smallest encoding of a wrapped key: its kind, two empty strings, its salt and the key.
const WRAPPED_KEY_BYTES_MIN: usize = 3 + SALT_BYTES + SEALED_KEY_BYTES;
/// The smallest encoding of a run: its salt and four varints.
const RUN_BYTES_MIN: usize = 4 + SALT_BYTES;
/// A bound on the encoding of a run.
const RUN_BYTES_MAX: usize = 4 * 10 + SALT_BYTES;

/// The stored bytes of `plain` bytes of one write.
pub fn stored_len(plain: u64) -> u64 {
    plain + plain.div_ceil(PACKAGE_PLAIN_BYTES) * TAG_BYTES as u64
}

/// The plain bytes of an encrypted payload of `stored` bytes: each block that it begins has a tag.
pub fn plain_len(stored: u64) -> u64 {
    stored.saturating_sub(stored.div_ceil(BLOCK_BYTES) * TAG_BYTES as u64)
}

/// Whose key wraps the key of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EncryptionKind {
    /// The current key of the ring (SSE-S3).
    S3,
    /// A named key of the ring (SSE-KMS).
    Kms,
    /// A key that the client sends with each request (SSE-C).
    Customer,
}

impl EncryptionKind {
    /// The number in the format.
    pub fn number(self) -> u8 {
        match self {
            Self::S3 => 1,
            Self::Kms => 2,
            Self::Customer => 3,
        }
    }

    fn from_number(number: u8) -> Decoded<Self> {
        [Self::S3, Self::Kms, Self::Customer]
            .into_iter()
            .find(|kind| kind.number() == number)
            .ok_or(DecodeError::Unknown("a kind of encryption"))
    }

    /// Whether records seal what is known of the plain bytes: MD5 and checksums.
    pub fn seals_digests(self) -> bool {
        self != Self::S3
    }
}

/// The key of an object or an upload, or of one write that a copy shares, wrapped by a master key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrappedKey {
    /// Whose master key it is.
    pub kind: EncryptionKind,
    /// What the key opens.
    pub reach: KeyReach,
    /// Whether the client asked for a bucket key, which answers repeat.
    pub bucket_key: bool,
    /// The id of the master key; empty for a customer's.
    pub key_id: String,
    /// The encryption context as the client sent it; empty without one.
    pub context: String,
    /// The salt of the key that wraps it.
    pub salt: [u8; SALT_BYTES],
    /// The wrapped key.
    pub sealed: [u8; SEALED_KEY_BYTES],
}

impl WrappedKey {
    /// What it is bound to.
    pub fn scope(&self) -> WrapScope<'_> {
        WrapScope {
            kind: self.kind.number(),
            reach: self.reach,
            key_id: &self.key_id,
            context: &self.context,
        }
    }

    /// Whether this master key wrapped it.
    pub fn is_wrapped_by(&self, master: &MasterKey) -> bool {
        unwrap_key(master, &self.salt, self.scope(), &self.sealed).is_some()
    }

    /// The bytes of the index that it counts for: nearly its encoding.
    pub fn index_bytes(&self) -> u64 {
        (2 * WRAPPED_KEY_BYTES_MIN + self.key_id.len() + self.context.len()) as u64
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let bucket_key = if self.bucket_key { BUCKET_KEY } else { 0 };
        let write_key = if self.reach == KeyReach::Write { WRITE_KEY } else { 0 };
        out.put_u8(self.kind.number() | bucket_key | write_key);
        out.put_bytes(self.key_id.as_bytes());
        out.put_bytes(self.context.as_bytes());
        out.extend_from_slice(&self.salt);
        out.extend_from_slice(&self.sealed);
    }

    pub(super) fn decode(from: &mut ByteDecoder<'_>) -> Decoded<Self> {
        let first = from.u8()?;
        Ok(Self {
            kind: EncryptionKind::from_number(first & !(BUCKET_KEY | WRITE_KEY))?,
            reach: if first & WRITE_KEY == 0 { KeyReach::Object } else { KeyReach::Write },
            bucket_key: first & BUCKET_KEY != 0,
            key_id: from.string()?.to_owned(),
            context: from.string()?.to_owned(),
            salt: from.array()?,
            sealed: from.array()?,
        })
    }
}

/// Consecutive bytes of one write in a version or part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EncryptedRun {
    /// The number of the wrapped key, from 0; in a part 0 is that of the upload, and its own
    /// follow.
    pub key: u32,
    /// The salt of the write.
    pub salt: [u8; SALT_BYTES],
    /// The packages of the whole write.
    pub packages: u64,
    /// The number of the first package of the first extent.
    pub first: u64,
    /// Plain bytes of the run.
    pub len: u64,
}

impl EncryptedRun {
    fn encode(&self, out: &mut Vec<u8>) {
        out.put_varint(self.key.into());
        out.extend_from_slice(&self.salt);
        out.put_varint(self.packages);
        out.put_varint(self.first);
        out.put_varint(self.len);
    }

    fn decode(from: &mut ByteDecoder<'_>) -> Decoded<Self> {
        Ok(Self {
            key: to_u32(from.varint()?, "the number of a key")?,
            salt: from.array()?,
            packages: from.varint()?,
            first: from.varint()?,
            len: from.varint()?,
        })
    }
}

/// The encryption of a version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionEncryption {
    /// The wrapped keys: at least one, all of one kind. The first one is that of the put or of the
    /// upload, and is the key of an object.
    pub keys: Vec<WrappedKey>,
    /// The runs, whose lengths add up to the size.
    pub runs: Vec<EncryptedRun>,
    /// What is known of the plain bytes, encrypted with the first key; empty where the record has
    /// it in the clear.
    pub sealed: Vec<u8>,
}

impl VersionEncryption {
    /// The kind.
    pub fn kind(&self) -> EncryptionKind {
        self.keys[0].kind
    }

    /// The id of the master key; empty for a customer's.
    pub fn key_id(&self) -> &str {
        &self.keys[0].key_id
    }

    /// The encryption context as the client sent it; empty without one.
    pub fn context(&self) -> &str {
        &self.keys[0].context
    }

    /// Whether the client asked for a bucket key.
    pub fn bucket_key(&self) -> bool {
        self.keys[0].bucket_key
    }

    /// The bytes of the index that it counts for, beside its parts.
    pub fn index_bytes(&self) -> u64 {
        self.keys.iter().map(WrappedKey::index_bytes).sum()
    }

    /// A bound on its encoding.
    pub fn bytes_max(&self) -> usize {
        bytes_max_of(&self.keys, &self.runs, &self.sealed)
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        encode_all(&self.keys, &self.runs, &self.sealed, out);
    }

    /// Reads the encryption of a version of so many plain bytes.
    pub(super) fn decode(size: u64, from: &mut ByteDecoder<'_>) -> Decoded<Self> {
        let keys = decode_keys(from)?;
        let runs = decode_runs(keys.len(), size, from)?;
        let begins_well = keys.first().is_some_and(|key| key.reach == KeyReach::Object);
        if !begins_well || keys.iter().any(|key| key.kind != keys[0].kind) {
            return Err(DecodeError::Value("the keys of an encrypted version"));
        }
        Ok(Self { keys, runs, sealed: from.bytes()?.to_vec() })
    }
}

/// The encryption of a part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartEncryption {
    /// Wrapped keys beside that of the upload.
    pub keys: Vec<WrappedKey>,
    /// The runs, whose lengths add up to the size.
    pub runs: Vec<EncryptedRun>,
    /// What is known of the plain bytes, encrypted with the key of the upload; empty where the
    /// record has it in the clear.
    pub sealed: Vec<u8>,
}

impl PartEncryption {
    /// A bound on its encoding.
    pub fn bytes_max(&self) -> usize {
        bytes_max_of(&self.keys, &self.runs, &self.sealed)
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        encode_all(&self.keys, &self.runs, &self.sealed, out);
    }

    pub(super) fn decode(size: u64, from: &mut ByteDecoder<'_>) -> Decoded<Self> {
        let keys = decode_keys(from)?;
        let runs = decode_runs(keys.len() + 1, size, from)?;
        Ok(Self { keys, runs, sealed: from.bytes()?.to_vec() })
    }
}

fn encode_all(keys: &[WrappedKey], runs: &[EncryptedRun], sealed: &[u8], out: &mut Vec<u8>) {
    out.put_varint(keys.len() as u64);
    for key in keys {
        key.encode(out);
    }
    out.put_varint(runs.len() as u64);
    for run in runs {
        run.encode(out);
    }
    out.put_bytes(sealed);
}

/// A bound on what [`encode_all`] writes.
fn bytes_max_of(keys: &[WrappedKey], runs: &[EncryptedRun], sealed: &[u8]) -> usize {
    let of_keys: u64 = keys.iter().map(WrappedKey::index_bytes).sum();
    RUN_BYTES_MAX + of_keys as usize + runs.len() * RUN_BYTES_MAX + sealed.len()
}

fn decode_keys(from: &mut ByteDecoder<'_>) -> Decoded<Vec<WrappedKey>> {
    let count = from.count(WRAPPED_KEY_BYTES_MIN)?;
    (0..count).map(|_| WrappedKey::decode(from)).collect()
}

fn decode_runs(keys: usize, size: u64, from: &mut ByteDecoder<'_>) -> Decoded<Vec<EncryptedRun>> {
    let count = from.count(RUN_BYTES_MIN)?;
    let mut runs = Vec::with_capacity(count);
    let mut covered: u64 = 0;
    for _ in 0..count {
        let run = EncryptedRun::decode(from)?;
        covered = covered.saturating_add(run.len);
        if run.key as usize >= keys {
            return Err(DecodeError::Value("the number of a key"));
        }
        runs.push(run);
    }
    match covered == size {
        true => Ok(runs),
        false => Err(DecodeError::Value("the runs of an encrypted record")),
    }
}

/// The packages of an extent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExtentPackages {
    /// The number of the wrapped key.
    pub key: u32,
    /// The salt of the write.
    pub salt: [u8; SALT_BYTES],
    /// The number of the first one.
    pub first: u64,
    /// The packages of the whole write.
    pub of: u64,
}

/// Walks the runs of a record along its extents.
pub struct RunCursor<'r> {
    runs: std::slice::Iter<'r, EncryptedRun>,
    current: Option<EncryptedRun>,
    /// Plain bytes of the current run before the next extent.
    used: u64,
}

impl<'r> RunCursor<'r> {
    /// A cursor before the first extent.
    pub fn new(runs: &'r [EncryptedRun]) -> Self {
        Self { runs: runs.iter(), current: None, used: 0 }
    }

    /// The packages of the next extent, which brings bytes of the record; `None` if the runs are
    /// not those of the extents.
    pub fn next(&mut self, extent: &ExtentRef) -> Option<ExtentPackages> {
        while self.current.is_none_or(|run| self.used == run.len) {
            self.current = Some(*self.runs.next()?);
            self.used = 0;
        }
        let run = self.current.as_mut()?;
        self.used = self.used.checked_add(extent.take.into()).filter(|used| *used <= run.len)?;
        let packages = ExtentPackages { key: run.key, salt: run.salt, first: run.first, of: run.packages };
        run.first = run.first.checked_add(u64::from(extent.payload_len).div_ceil(BLOCK_BYTES))?;
        Some(packages)
    }
}

/// What is known of the plain bytes of a version or part.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PlainDigests {
    /// Their MD5.
    pub md5: Option<[u8; 16]>,
    /// Their checksums.
    pub checksums: Vec<Checksum>,
    /// The checksums of the parts that a version was assembled from, in order.
    pub parts: Vec<Option<Checksum>>,
}

impl PlainDigests {
    /// The encoding, which is encrypted before it is stored.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.put_u8(self.md5.is_some().into());
        out.extend_from_slice(self.md5.as_ref().map_or(&[], |md5| &md5[..]));
        out.put_varint(self.checksums.len() as u64);
        for checksum in &self.checksums {
            encode_checksum(checksum, &mut out);
        }
        out.put_varint(self.parts.len() as u64);
        for checksum in &self.parts {
            encode_optional_checksum(checksum.as_ref(), &mut out);
        }
        out
    }

    /// Reads them.
    ///
    /// # Errors
    /// On invalid bytes.
    pub fn decode(bytes: &[u8]) -> Decoded<Self> {
        let mut from = ByteDecoder::new(bytes);
        let md5 = match from.u8()? {
            0 => None,
            1 => Some(from.array()?),
            _ => return Err(DecodeError::Value("the mark of an MD5")),
        };
        let checksums = decode_checksums(&mut from)?;
        let count = from.count(1)?;
        let parts = (0..count).map(|_| decode_optional_checksum(&mut from)).collect::<Decoded<_>>()?;
        from.finish()?;
        Ok(Self { md5, checksums, parts })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{ChecksumAlgorithm, ChecksumType};

    fn key(kind: EncryptionKind) -> WrappedKey {
        WrappedKey {
            kind,
            reach: KeyReach::Object,
            bucket_key: kind == EncryptionKind::Kms,
            key_id: "k1".into(),
            context: "e30=".into(),
            salt: [1; 16],
            sealed: [2; 48],
        }
    }

    fn run(key: u32, first: u64, len: u64) -> EncryptedRun {
        EncryptedRun { key, salt: [3; 16], packages: 9, first, len }
    }

    fn extent(payload_len: u64) -> ExtentRef {
        let payload_len = payload_len as u32;
        let whole = ExtentRef {
            segment: 1,
            offset: 64,
            payload_len,
            check: 0,
            skip: 0,
            take: payload_len,
            shared: false,
        };
        whole.encrypted()
    }

    #[test]
    fn lengths_are_those_of_whole_blocks_with_a_tag_each() {
        for (plain, stored) in [
            (0, 0),
            (1, 17),
            (65_519, 65_535),
            (65_520, 65_536),
            (65_521, 65_553),
            (65_536, 65_568),
            (65_537, 65_569),
            (131_040, 131_072),
            (131_041, 131_089),
        ] {
            assert_eq!(stored_len(plain), stored, "{plain}");
            assert_eq!(plain_len(stored), plain, "{stored}");
        }
        // No write makes these, but a file may hold them.
        assert_eq!([plain_len(1), plain_len(16), plain_len(65_537)], [0, 0, 65_505]);
    }

    #[test]
    fn encryptions_come_back_and_no_prefix_passes() {
        let of_write = WrappedKey { reach: KeyReach::Write, ..key(EncryptionKind::Kms) };
        let keys = vec![key(EncryptionKind::Kms), of_write];
        let runs = vec![run(0, 0, 5), run(1, 3, 7)];
        let version = VersionEncryption { keys: keys.clone(), runs, sealed: vec![7; 40] };
        let mut bytes = Vec::new();
        version.encode(&mut bytes);
        assert!(bytes.len() <= version.bytes_max());
        assert_eq!(VersionEncryption::decode(12, &mut ByteDecoder::new(&bytes)), Ok(version.clone()));
        assert!(VersionEncryption::decode(13, &mut ByteDecoder::new(&bytes)).is_err(), "another size");
        for len in 0..bytes.len() {
            assert!(
                VersionEncryption::decode(12, &mut ByteDecoder::new(&bytes[..len])).is_err(),
                "cut to {len}"
            );
        }
        let part = PartEncryption { keys, runs: vec![run(2, 0, 5)], sealed: vec![] };
        let mut bytes = Vec::new();
        part.encode(&mut bytes);
        assert!(bytes.len() <= part.bytes_max());
        assert_eq!(PartEncryption::decode(5, &mut ByteDecoder::new(&bytes)), Ok(part));
    }

    #[test]
    fn keys_that_no_writer_makes_are_refused() {
        let refused = |encryption: &VersionEncryption, size| {
            let mut bytes = Vec::new();
            encryption.encode(&mut bytes);
            VersionEncryption::decode(size, &mut ByteDecoder::new(&bytes)).unwrap_err()
        };
        let keyless = VersionEncryption { keys: vec![], runs: vec![], sealed: vec![] };
        assert_eq!(refused(&keyless, 0), DecodeError::Value("the keys of an encrypted version"));
        let keys = vec![key(EncryptionKind::S3), key(EncryptionKind::Customer)];
        let mixed = VersionEncryption { keys, ..keyless.clone() };
        assert_eq!(refused(&mixed, 0), DecodeError::Value("the keys of an encrypted version"));
        let keys = vec![key(EncryptionKind::S3)];
        let of_write = WrappedKey { reach: KeyReach::Write, ..key(EncryptionKind::S3) };
        let without_own = VersionEncryption { keys: vec![of_write], ..keyless.clone() };
        assert_eq!(refused(&without_own, 0), DecodeError::Value("the keys of an encrypted version"));
        let beyond = VersionEncryption { keys, runs: vec![run(1, 0, 5)], sealed: vec![] };
        assert_eq!(refused(&beyond, 5), DecodeError::Value("the number of a key"));
        let mut bytes = Vec::new();
        key(EncryptionKind::S3).encode(&mut bytes);
        bytes[0] = 4;
        let unknown = WrappedKey::decode(&mut ByteDecoder::new(&bytes));
        assert!(unknown.is_err_and(DecodeError::is_newer));
    }

    #[test]
    fn packages_are_counted_on_across_extents_and_anew_for_each_run() {
        let runs = [run(0, 0, 65_520 + 10), run(0, 0, 0), run(1, 4, 30)];
        let mut cursor = RunCursor::new(&runs);
        let mut firsts = Vec::new();
        for of in [extent(65_536), extent(26), extent(46)] {
            let found = cursor.next(&of).unwrap();
            firsts.push((found.key, found.first));
        }
        assert_eq!(firsts, [(0, 0), (0, 1), (1, 4)]);
        assert_eq!(cursor.next(&extent(46)), None, "nothing is left");
        assert_eq!(RunCursor::new(&runs).next(&extent(131_072)), None, "an extent of two runs");
    }

    #[test]
    fn digests_come_back_and_no_prefix_passes() {
        let checksum = Checksum {
            algorithm: ChecksumAlgorithm::Crc32,
            kind: ChecksumType::FullObject,
            parts: 0,
            value: vec![1, 2, 3, 4],
        };
        let all = PlainDigests {
            md5: Some([7; 16]),
            checksums: vec![checksum.clone()],
            parts: vec![None, Some(checksum)],
        };
        for digests in [PlainDigests::default(), all] {
            let bytes = digests.encode();
            assert_eq!(PlainDigests::decode(&bytes), Ok(digests));
            for len in 0..bytes.len() {
                assert!(PlainDigests::decode(&bytes[..len]).is_err(), "cut to {len}");
            }
        }
    }
}
