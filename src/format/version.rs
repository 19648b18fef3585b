//! Version records (data-format.md, section 7): what a version of an object is and where its bytes lie.

use std::fmt;

use crate::base::Timestamp;
use crate::base::digest::to_hex;
use crate::format::{DecodeError, Decoded, Decoder, Encode, UNIT_BYTES};

const NULL: u64 = 1;
const DELETE_MARKER: u64 = 2;
const ATTRIBUTES: u64 = 4;
const CHECKSUMS: u64 = 8;
const TAGS: u64 = 16;
const UPLOAD: u64 = 32;
const KNOWN_FLAGS: u64 = NULL | DELETE_MARKER | ATTRIBUTES | CHECKSUMS | TAGS | UPLOAD;

/// The smallest encoding of an extent in a record: three varints and a CRC.
const EXTENT_REF_BYTES_MIN: usize = 7;
/// The smallest encodings of a pair of strings, of a checksum and of a part.
const PAIR_BYTES_MIN: usize = 2;
const CHECKSUM_BYTES_MIN: usize = 4;
const PART_BYTES_MIN: usize = 3;

/// The id of a version: a stamp, unique in the store. Clients see it as [`crate::format::ClientIds`] shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VersionId(pub u64);

impl VersionId {
    /// No version. No stamp is zero.
    pub const NONE: Self = Self(0);
}

/// The id of a multipart upload: a stamp, so that ids sort by the time of initiation. Clients see it as
/// [`crate::format::ClientIds`] shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UploadId(pub u64);

impl UploadId {
    /// No upload: what a copy of a multipart object has in place of the id. No stamp is zero.
    pub const NONE: Self = Self(0);
}

/// An entity tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ETag {
    /// None: a delete marker has none.
    None,
    /// The MD5 of the bytes.
    Md5([u8; 16]),
    /// Of a multipart object.
    Multipart {
        /// The MD5 of the MD5s of the parts.
        md5: [u8; 16],
        /// How many parts there were.
        parts: u32,
    },
    /// The CRC of the bytes, where the operator chose it.
    Crc(u32),
}

impl fmt::Display for ETag {
    /// The tag as it stands in headers and XML, with its quotes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("\"\""),
            Self::Md5(md5) => ["\"", &to_hex(md5), "\""].iter().try_for_each(|part| f.write_str(part)),
            Self::Multipart { md5, parts } => write!(f, "\"{}-{parts}\"", to_hex(md5)),
            Self::Crc(crc) => write!(f, "\"{crc:08x}-1\""),
        }
    }
}

/// Names and values that are kept with a version: standard headers by their lower-case names, user metadata as
/// `meta-` and the name that the client gave. In the order in which they were given.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Attributes(Vec<(String, String)>);

impl Attributes {
    /// No attributes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds one behind the others.
    pub fn push(&mut self, name: impl Into<String>, value: impl Into<String>) {
        self.0.push((name.into(), value.into()));
    }

    /// The value of the first one of that name.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.iter().find(|(n, _)| *n == name).map(|(_, value)| value)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The algorithms of checksums.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ChecksumAlgorithm {
    /// CRC-32/ISO-HDLC, 4 bytes.
    Crc32,
    /// CRC-32/ISCSI, 4 bytes.
    Crc32c,
    /// SHA-1, 20 bytes.
    Sha1,
    /// SHA-256, 32 bytes.
    Sha256,
    /// CRC-64/NVME, 8 bytes.
    Crc64Nvme,
}

impl ChecksumAlgorithm {
    /// All of them, in the order of their numbers in the format, which start at 1.
    pub const ALL: [Self; 5] = [Self::Crc32, Self::Crc32c, Self::Sha1, Self::Sha256, Self::Crc64Nvme];

    pub(super) fn number(self) -> u8 {
        Self::ALL.iter().position(|a| *a == self).expect("ALL lists every algorithm") as u8 + 1
    }

    /// The algorithm of that number in the format.
    ///
    /// # Errors
    /// [`DecodeError::Value`] and [`DecodeError::Unknown`] for a number that has none.
    pub fn from_number(number: u8) -> Decoded<Self> {
        let at = usize::from(number).checked_sub(1).ok_or(DecodeError::Value("a checksum algorithm"))?;
        Self::ALL.get(at).copied().ok_or(DecodeError::Unknown("a checksum algorithm"))
    }
}

/// What a checksum is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ChecksumType {
    /// All bytes of the object.
    FullObject,
    /// The checksums of its parts.
    Composite,
}

impl ChecksumType {
    pub(super) fn number(self) -> u8 {
        match self {
            Self::FullObject => 0,
            Self::Composite => 1,
        }
    }

    /// The type of that number in the format.
    ///
    /// # Errors
    /// [`DecodeError::Value`] for a number that has none.
    pub fn from_number(number: u8) -> Decoded<Self> {
        match number {
            0 => Ok(Self::FullObject),
            1 => Ok(Self::Composite),
            _ => Err(DecodeError::Value("a checksum type")),
        }
    }
}

/// A checksum that a client gave and that was verified.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Checksum {
    /// How it was computed.
    pub algorithm: ChecksumAlgorithm,
    /// Of what.
    pub kind: ChecksumType,
    /// The number of parts of a composite one, else 0.
    pub parts: u32,
    /// The value, not encoded.
    pub value: Vec<u8>,
}

/// Where some of the bytes of a version lie: an extent, or a slice of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ExtentRef {
    /// The segment.
    pub segment: u64,
    /// Where in the segment the extent's header starts; a multiple of 64.
    pub offset: u64,
    /// Bytes of the whole payload.
    pub payload_len: u32,
    /// What the extent's header has for `check`.
    pub check: u32,
    /// The first byte of the payload that belongs to the version.
    pub skip: u32,
    /// How many bytes of the payload belong to the version.
    pub take: u32,
    /// Whether it may belong to another version or part, too.
    pub shared: bool,
}

impl ExtentRef {
    /// An extent that holds a record and no payload.
    pub fn of_record(segment: u64, offset: u64, shared: bool) -> Self {
        Self { segment, offset, payload_len: 0, check: 0, skip: 0, take: 0, shared }
    }

    fn holds_record_alone(&self) -> bool {
        *self == Self::of_record(self.segment, self.offset, self.shared)
    }

    fn is_slice(&self) -> bool {
        self.skip != 0 || self.take != self.payload_len
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.put_varint(self.segment << 2 | u64::from(self.shared) << 1 | u64::from(self.is_slice()));
        out.put_varint(self.offset / UNIT_BYTES);
        out.put_varint(self.payload_len.into());
        out.put_u32(self.check);
        if self.is_slice() {
            out.put_varint(self.skip.into());
            out.put_varint(self.take.into());
        }
    }

    /// Passes over one without looking at what it says.
    #[inline]
    fn skip(from: &mut Decoder<'_>) -> Decoded<()> {
        let first = from.varint()?;
        from.varint()?;
        from.varint()?;
        from.take(4)?;
        if first & 1 != 0 {
            from.varint()?;
            from.varint()?;
        }
        Ok(())
    }

    #[inline]
    fn decode(from: &mut Decoder<'_>) -> Decoded<Self> {
        let first = from.varint()?;
        let offset = from.varint()?.checked_mul(UNIT_BYTES).ok_or(DecodeError::Value("an offset"))?;
        let payload_len = small(from.varint()?, "a payload length")?;
        let check = from.u32()?;
        let (skip, take) = match first & 1 {
            0 => (0, payload_len),
            _ => (small(from.varint()?, "a slice")?, small(from.varint()?, "a slice")?),
        };
        if skip.checked_add(take).is_none_or(|end| end > payload_len) {
            return Err(DecodeError::Value("a slice"));
        }
        Ok(Self { segment: first >> 2, offset, payload_len, check, skip, take, shared: first & 2 != 0 })
    }
}

pub(super) fn small(value: u64, what: &'static str) -> Decoded<u32> {
    u32::try_from(value).map_err(|_| DecodeError::Value(what))
}

/// One version of an object, or a delete marker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionRecord {
    /// Unique in the store, also for null versions.
    pub id: VersionId,
    /// Whether clients see it as the version `null`.
    pub null: bool,
    /// Whether it says that the object is deleted.
    pub delete_marker: bool,
    /// When it was made.
    pub modified: Timestamp,
    /// Bytes.
    pub size: u64,
    /// The entity tag.
    pub etag: ETag,
    /// Where the bytes lie, in order.
    pub extents: Vec<ExtentRef>,
    /// Standard headers and user metadata.
    pub attributes: Attributes,
    /// The checksums that came with it.
    pub checksums: Vec<Checksum>,
    /// Names and values that were given to it as tags, in order.
    pub tags: Vec<(String, String)>,
    /// How it was put together, if it was uploaded in parts.
    pub upload: Option<Assembly>,
}

/// How a version was put together from parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assembly {
    /// The id of the multipart upload; [`UploadId::NONE`] in a copy of what that made.
    pub upload: UploadId,
    /// Its parts, in order.
    pub parts: Vec<AssembledPart>,
}

/// One part of a version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AssembledPart {
    /// Its number in the upload.
    pub number: u32,
    /// Bytes.
    pub size: u64,
    /// The checksum that came with it.
    pub checksum: Option<Checksum>,
}

/// What listings need of a version; cheap to decode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VersionSummary {
    /// As in [`VersionRecord`].
    pub id: VersionId,
    /// As in [`VersionRecord`].
    pub null: bool,
    /// As in [`VersionRecord`].
    pub delete_marker: bool,
    /// As in [`VersionRecord`].
    pub modified: Timestamp,
    /// As in [`VersionRecord`].
    pub size: u64,
    /// As in [`VersionRecord`].
    pub etag: ETag,
}

impl VersionRecord {
    /// What listings need of it.
    pub fn summary(&self) -> VersionSummary {
        VersionSummary {
            id: self.id,
            null: self.null,
            delete_marker: self.delete_marker,
            modified: self.modified,
            size: self.size,
            etag: self.etag,
        }
    }

    /// Appends the encoding of the record.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let flag = |set: bool, bit: u64| if set { bit } else { 0 };
        let optional = flag(!self.attributes.is_empty(), ATTRIBUTES)
            | flag(!self.checksums.is_empty(), CHECKSUMS)
            | flag(!self.tags.is_empty(), TAGS)
            | flag(self.upload.is_some(), UPLOAD);
        encode_summary(&self.summary(), optional, out);
        encode_extents(&self.extents, out);
        self.encode_optional(out);
    }

    fn encode_optional(&self, out: &mut Vec<u8>) {
        if !self.attributes.is_empty() {
            encode_pairs(&self.attributes.0, out);
        }
        if !self.checksums.is_empty() {
            out.put_varint(self.checksums.len() as u64);
            self.checksums.iter().for_each(|checksum| encode_checksum(checksum, out));
        }
        if !self.tags.is_empty() {
            encode_pairs(&self.tags, out);
        }
        if let Some(assembly) = &self.upload {
            encode_assembly(assembly, out);
        }
    }

    /// Reads a record.
    ///
    /// # Errors
    /// What is wrong with the bytes.
    pub fn decode(from: &mut Decoder<'_>) -> Decoded<Self> {
        let (flags, summary) = decode_summary(from)?;
        let extents = decode_extents(from)?;
        let mut record = Self::decode_middle(from, flags, summary)?;
        record.extents = extents;
        record.upload = if flags & UPLOAD != 0 { Some(decode_assembly(from)?) } else { None };
        Ok(record)
    }

    /// Reads a record without its extents and how it was put together, both of which may have thousands of items: it is given
    /// as if it had neither. Extents are passed over and parts are left unread, so that of neither it is known whether they are
    /// good.
    ///
    /// # Errors
    /// What is wrong with the rest of the bytes.
    pub fn decode_outline(from: &mut Decoder<'_>) -> Decoded<Self> {
        let (flags, summary) = decode_summary(from)?;
        (0..from.count(EXTENT_REF_BYTES_MIN)?).try_for_each(|_| ExtentRef::skip(from))?;
        Self::decode_middle(from, flags, summary)
    }

    /// Reads what stands between the extents and the parts.
    fn decode_middle(from: &mut Decoder<'_>, flags: u64, summary: VersionSummary) -> Decoded<Self> {
        let attributes = Attributes(if flags & ATTRIBUTES != 0 { decode_pairs(from)? } else { Vec::new() });
        let checksums = if flags & CHECKSUMS != 0 { decode_checksums(from)? } else { Vec::new() };
        let tags = if flags & TAGS != 0 { decode_pairs(from)? } else { Vec::new() };
        Ok(Self {
            id: summary.id,
            null: summary.null,
            delete_marker: summary.delete_marker,
            modified: summary.modified,
            size: summary.size,
            etag: summary.etag,
            extents: Vec::new(),
            attributes,
            checksums,
            tags,
            upload: None,
        })
    }

    /// The multipart upload that it was made by, if it was; a copy of what an upload made was not.
    pub fn completed(&self) -> Option<UploadId> {
        self.upload.as_ref().map(|made| made.upload).filter(|upload| *upload != UploadId::NONE)
    }

    /// Whether the extents add up to the size.
    pub fn is_complete(&self) -> bool {
        self.extents.iter().map(|extent| u64::from(extent.take)).sum::<u64>() == self.size
    }
}

/// What most version records are, read without building one: at most one extent with payload, at most one checksum, neither
/// tags nor parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlainVersion<'a> {
    /// What listings need of it.
    pub summary: VersionSummary,
    /// Where the bytes lie.
    pub extent: Option<ExtentRef>,
    /// The extent behind it that holds the record, and no payload.
    pub record: Option<ExtentRef>,
    /// Standard headers and user metadata.
    pub attributes: EncodedPairs<'a>,
    /// The checksum that came with it, encoded.
    pub checksum: Option<&'a [u8]>,
}

impl<'a> PlainVersion<'a> {
    /// Reads all of an encoded [`VersionRecord`]; `None` for one that is more than this.
    ///
    /// # Errors
    /// What is wrong with the bytes.
    #[inline]
    pub fn decode(bytes: &'a [u8]) -> Decoded<Option<Self>> {
        let mut from = Decoder::new(bytes);
        let (flags, summary) = decode_summary(&mut from)?;
        let extents = from.count(EXTENT_REF_BYTES_MIN)?;
        if flags & (TAGS | UPLOAD) != 0 || extents > 2 {
            return Ok(None);
        }
        let extent = if extents > 0 { Some(ExtentRef::decode(&mut from)?) } else { None };
        let record = if extents > 1 { Some(ExtentRef::decode(&mut from)?) } else { None };
        if record.is_some_and(|record| !record.holds_record_alone()) {
            return Ok(None);
        }
        let attributes =
            if flags & ATTRIBUTES != 0 { EncodedPairs::decode(&mut from)? } else { EncodedPairs::default() };
        let mut checksum = None;
        if flags & CHECKSUMS != 0 {
            if from.count(CHECKSUM_BYTES_MIN)? != 1 {
                return Ok(None);
            }
            checksum = Some(from.rest());
            check_checksum(&mut from)?;
        }
        from.finish()?;
        Ok(Some(Self { summary, extent, record, attributes, checksum }))
    }

    /// Its extents, in order.
    pub fn extents(&self) -> impl Iterator<Item = &ExtentRef> {
        self.extent.iter().chain(&self.record)
    }

    /// Appends the encoding of the [`VersionRecord`] that it is.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let flag = |set: bool, bit: u64| if set { bit } else { 0 };
        let optional =
            flag(!self.attributes.is_empty(), ATTRIBUTES) | flag(self.checksum.is_some(), CHECKSUMS);
        encode_summary(&self.summary, optional, out);
        out.put_varint(self.extents().count() as u64);
        self.extents().for_each(|extent| extent.encode(out));
        if !self.attributes.is_empty() {
            out.put_varint(self.attributes.count as u64);
            out.extend_from_slice(self.attributes.bytes);
        }
        if let Some(checksum) = self.checksum {
            out.put_varint(1);
            out.extend_from_slice(checksum);
        }
    }
}

/// Names and values, checked and left in their encoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EncodedPairs<'a> {
    count: usize,
    bytes: &'a [u8],
}

impl<'a> EncodedPairs<'a> {
    fn decode(from: &mut Decoder<'a>) -> Decoded<Self> {
        let count = from.count(PAIR_BYTES_MIN)?;
        let (start, mut strings) = (from.rest(), *from);
        for _ in 0..2 * count {
            from.bytes()?;
        }
        let bytes = &start[..start.len() - from.rest().len()];
        // The lengths between them are ASCII where they are short.
        if !bytes.is_ascii() {
            for _ in 0..2 * count {
                strings.string()?;
            }
        }
        Ok(Self { count, bytes })
    }

    /// So many pairs, as they come out of [`EncodedPairs::iter`], one behind the other.
    pub fn of(count: usize, bytes: &'a [u8]) -> Self {
        Self { count, bytes }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The encoding of each pair, and its name in it.
    pub fn iter(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        let mut from = Decoder::new(self.bytes);
        (0..self.count).map(move |_| {
            let start = from.rest();
            let mut next = || from.bytes().expect("the pairs have been checked");
            let name = next();
            next();
            (&start[..start.len() - from.rest().len()], name)
        })
    }
}

impl VersionSummary {
    /// Reads the start of an encoded [`VersionRecord`].
    ///
    /// # Errors
    /// What is wrong with the bytes.
    pub fn decode(bytes: &[u8]) -> Decoded<Self> {
        decode_summary(&mut Decoder::new(bytes)).map(|(_, summary)| summary)
    }
}

#[inline]
fn decode_summary(from: &mut Decoder<'_>) -> Decoded<(u64, VersionSummary)> {
    let flags = from.varint()?;
    if flags & !KNOWN_FLAGS != 0 {
        return Err(DecodeError::Unknown("a flag of a version record"));
    }
    let summary = VersionSummary {
        null: flags & NULL != 0,
        delete_marker: flags & DELETE_MARKER != 0,
        id: VersionId(from.u64()?),
        modified: Timestamp::from_millis(from.varint()?),
        size: from.varint()?,
        etag: decode_etag(from)?,
    };
    Ok((flags, summary))
}

/// The start of a record; `optional` are the flags of what stands at its end.
fn encode_summary(summary: &VersionSummary, optional: u64, out: &mut Vec<u8>) {
    let flag = |set: bool, bit: u64| if set { bit } else { 0 };
    out.put_varint(flag(summary.null, NULL) | flag(summary.delete_marker, DELETE_MARKER) | optional);
    out.put_u64(summary.id.0);
    out.put_varint(summary.modified.as_millis());
    out.put_varint(summary.size);
    encode_etag(&summary.etag, out);
}

fn encode_etag(etag: &ETag, out: &mut Vec<u8>) {
    match etag {
        ETag::None => out.put_u8(0),
        ETag::Md5(md5) => {
            out.put_u8(1);
            out.extend_from_slice(md5);
        }
        ETag::Multipart { md5, parts } => {
            out.put_u8(2);
            out.extend_from_slice(md5);
            out.put_varint((*parts).into());
        }
        ETag::Crc(crc) => {
            out.put_u8(3);
            out.put_u32(*crc);
        }
    }
}

#[inline]
fn decode_etag(from: &mut Decoder<'_>) -> Decoded<ETag> {
    Ok(match from.u8()? {
        0 => ETag::None,
        1 => ETag::Md5(from.array()?),
        2 => ETag::Multipart { md5: from.array()?, parts: small(from.varint()?, "a number of parts")? },
        3 => ETag::Crc(from.u32()?),
        _ => return Err(DecodeError::Unknown("a kind of ETag")),
    })
}

pub(super) fn encode_extents(extents: &[ExtentRef], out: &mut Vec<u8>) {
    out.put_varint(extents.len() as u64);
    extents.iter().for_each(|extent| extent.encode(out));
}

pub(super) fn decode_extents(from: &mut Decoder<'_>) -> Decoded<Vec<ExtentRef>> {
    let count = from.count(EXTENT_REF_BYTES_MIN)?;
    (0..count).map(|_| ExtentRef::decode(from)).collect()
}

pub(super) fn encode_pairs(pairs: &[(String, String)], out: &mut Vec<u8>) {
    out.put_varint(pairs.len() as u64);
    for (name, value) in pairs {
        out.put_bytes(name.as_bytes());
        out.put_bytes(value.as_bytes());
    }
}

pub(super) fn decode_pairs(from: &mut Decoder<'_>) -> Decoded<Vec<(String, String)>> {
    let count = from.count(PAIR_BYTES_MIN)?;
    (0..count).map(|_| Ok((from.string()?.to_owned(), from.string()?.to_owned()))).collect()
}

fn encode_assembly(assembly: &Assembly, out: &mut Vec<u8>) {
    out.put_u64(assembly.upload.0);
    out.put_varint(assembly.parts.len() as u64);
    for part in &assembly.parts {
        out.put_varint(part.number.into());
        out.put_varint(part.size);
        encode_optional_checksum(part.checksum.as_ref(), out);
    }
}

fn decode_assembly(from: &mut Decoder<'_>) -> Decoded<Assembly> {
    let upload = UploadId(from.u64()?);
    let count = from.count(PART_BYTES_MIN)?;
    let part = |_| {
        Ok(AssembledPart {
            number: small(from.varint()?, "a part number")?,
            size: from.varint()?,
            checksum: decode_optional_checksum(from)?,
        })
    };
    Ok(Assembly { upload, parts: (0..count).map(part).collect::<Decoded<_>>()? })
}

pub(super) fn encode_optional_checksum(checksum: Option<&Checksum>, out: &mut Vec<u8>) {
    out.put_u8(checksum.is_some().into());
    if let Some(checksum) = checksum {
        encode_checksum(checksum, out);
    }
}

pub(super) fn decode_optional_checksum(from: &mut Decoder<'_>) -> Decoded<Option<Checksum>> {
    match from.u8()? {
        0 => Ok(None),
        1 => decode_checksum(from).map(Some),
        _ => Err(DecodeError::Value("the mark of a checksum")),
    }
}

fn encode_checksum(checksum: &Checksum, out: &mut Vec<u8>) {
    out.put_u8(checksum.algorithm.number());
    out.put_u8(checksum.kind.number());
    out.put_varint(checksum.parts.into());
    out.put_bytes(&checksum.value);
}

fn decode_checksums(from: &mut Decoder<'_>) -> Decoded<Vec<Checksum>> {
    let count = from.count(CHECKSUM_BYTES_MIN)?;
    (0..count).map(|_| decode_checksum(from)).collect()
}

fn decode_checksum(from: &mut Decoder<'_>) -> Decoded<Checksum> {
    let (algorithm, kind, parts, value) = check_checksum(from)?;
    Ok(Checksum { algorithm, kind, parts, value: value.to_vec() })
}

fn check_checksum<'a>(from: &mut Decoder<'a>) -> Decoded<(ChecksumAlgorithm, ChecksumType, u32, &'a [u8])> {
    let algorithm = ChecksumAlgorithm::from_number(from.u8()?)?;
    let kind = ChecksumType::from_number(from.u8()?)?;
    let parts = small(from.varint()?, "a number of parts")?;
    Ok((algorithm, kind, parts, from.bytes()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full() -> VersionRecord {
        let mut attributes = Attributes::new();
        attributes.push("content-type", "text/plain");
        attributes.push("meta-name", "grün");
        let whole = ExtentRef {
            segment: 3,
            offset: 8192,
            payload_len: 100,
            check: 0xdead_beef,
            skip: 0,
            take: 100,
            shared: false,
        };
        let slice = ExtentRef { segment: 1 << 60, offset: 64, skip: 10, take: 20, shared: true, ..whole };
        let checksum = Checksum {
            algorithm: ChecksumAlgorithm::Crc64Nvme,
            kind: ChecksumType::Composite,
            parts: 3,
            value: vec![1, 2, 3, 4, 5, 6, 7, 8],
        };
        VersionRecord {
            id: VersionId(0x1234),
            null: true,
            delete_marker: false,
            modified: Timestamp::from_millis(1_700_000_000_123),
            size: 120,
            etag: ETag::Multipart { md5: [7; 16], parts: 2 },
            extents: vec![whole, slice],
            attributes,
            checksums: vec![checksum.clone()],
            tags: vec![("a".into(), "b".into())],
            upload: Some(Assembly {
                upload: UploadId(8),
                parts: vec![
                    AssembledPart { number: 1, size: 100, checksum: Some(checksum) },
                    AssembledPart { number: 7, size: 20, checksum: None },
                ],
            }),
        }
    }

    fn marker() -> VersionRecord {
        VersionRecord {
            null: false,
            delete_marker: true,
            size: 0,
            etag: ETag::None,
            extents: vec![],
            attributes: Attributes::new(),
            checksums: vec![],
            tags: vec![],
            upload: None,
            ..full()
        }
    }

    fn encoded(record: &VersionRecord) -> Vec<u8> {
        let mut bytes = Vec::new();
        record.encode(&mut bytes);
        bytes
    }

    fn plain() -> VersionRecord {
        let full = full();
        VersionRecord { size: 100, extents: vec![full.extents[0]], tags: vec![], upload: None, ..full }
    }

    #[test]
    fn an_outline_lacks_extents_and_parts_alone_and_looks_at_neither() {
        let record = full();
        let mut bytes = Vec::new();
        record.encode(&mut bytes);
        let outline = VersionRecord { extents: Vec::new(), upload: None, ..record.clone() };
        assert_eq!(VersionRecord::decode_outline(&mut Decoder::new(&bytes)), Ok(outline.clone()));
        // The parts are the last of it.
        let mut parts = Vec::new();
        encode_assembly(record.upload.as_ref().unwrap(), &mut parts);
        let rest = &bytes[..bytes.len() - parts.len()];
        assert_eq!(VersionRecord::decode_outline(&mut Decoder::new(rest)), Ok(outline));
        for len in 0..rest.len() {
            assert!(VersionRecord::decode_outline(&mut Decoder::new(&bytes[..len])).is_err());
        }
    }

    #[test]
    fn records_come_back_and_so_do_their_summaries() {
        for record in [full(), marker(), plain(), VersionRecord { etag: ETag::Crc(9), ..full() }] {
            let bytes = encoded(&record);
            let mut decoder = Decoder::new(&bytes);
            assert_eq!(VersionRecord::decode(&mut decoder), Ok(record.clone()));
            assert!(decoder.is_done());
            assert_eq!(VersionSummary::decode(&bytes), Ok(record.summary()));
            if let Some(plain) = PlainVersion::decode(&bytes).unwrap() {
                let mut again = Vec::new();
                plain.encode(&mut again);
                assert_eq!(again, bytes);
            }
        }
    }

    #[test]
    fn every_prefix_of_a_record_is_refused() {
        let bytes = encoded(&full());
        for len in 0..bytes.len() {
            assert!(VersionRecord::decode(&mut Decoder::new(&bytes[..len])).is_err(), "{len} bytes");
        }
    }

    #[test]
    fn unknown_flags_and_slices_beyond_the_payload_are_refused() {
        let mut bytes = encoded(&full());
        bytes[0] ^= 0x40;
        assert!(matches!(VersionRecord::decode(&mut Decoder::new(&bytes)), Err(DecodeError::Unknown(_))));
        let mut record = full();
        record.extents[1].take = 91;
        let refused = VersionRecord::decode(&mut Decoder::new(&encoded(&record)));
        assert_eq!(refused, Err(DecodeError::Value("a slice")));
    }

    #[test]
    fn a_record_knows_whether_its_extents_add_up() {
        assert!(full().is_complete());
        assert!(!VersionRecord { size: 121, ..full() }.is_complete());
    }

    #[test]
    fn etags_are_shown_with_their_quotes() {
        assert_eq!(ETag::Md5([0xab; 16]).to_string(), format!("\"{}\"", "ab".repeat(16)));
        assert_eq!(full().etag.to_string(), format!("\"{}-2\"", "07".repeat(16)));
        assert_eq!(ETag::Crc(0x1f).to_string(), "\"0000001f-1\"");
    }
}
