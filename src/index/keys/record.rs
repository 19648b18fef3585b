//! The encoding of versions in leaves, which is never written to disk.
//!
//! It starts with a varint of flags, and the id unless it equals the version order. If the key had
//! a null version when this one came above it, the distance to that version's order follows. A
//! plain version continues with:
//!
//! - the distance from its id to the time of modification, the size and the ETag, and the stated
//!   time;
//! - the extent with the payload, and the extent with the record;
//! - the attributes: their number, then the dictionary code of each, or 0 and the attribute;
//! - the checksum.
//!
//! Any other version continues with its record in the disk encoding.

use std::borrow::Cow;
use std::sync::Arc;

use crate::base::Timestamp;
use crate::format::{
    Attributes, ByteDecoder, Checksum, ChecksumAlgorithm, ChecksumType, Decoded, ETag, Encode, EncodedPairs,
    ExtentRef, Features, ObjectControls, PlainVersion, StorageClass, UNIT_BYTES, VersionId, VersionRecord,
    VersionSummary, WrappedKey, flag,
};
use crate::index::counted_bytes::{plain_index_bytes, version_index_bytes};
use crate::index::expect_valid;
use crate::index::keys::dictionary::AttributeDictionary;

const NULL: u64 = 1;
const DELETE_MARKER: u64 = 1 << 1;
/// One whole extent, as long as the version.
const EXTENT: u64 = 1 << 2;
const ATTRIBUTES: u64 = 1 << 3;
const CHECKSUM: u64 = 1 << 4;
const ETAG_SHIFT: u32 = 5;
/// The id differs from the order, and follows. Flags from this one on take a second byte.
const OTHER_ID: u64 = 1 << 7;
/// The record follows in its disk encoding.
const AS_ON_DISK: u64 = 1 << 8;
/// A second extent, with the record and without payload.
const RECORD_EXTENT: u64 = 1 << 9;
/// A plain version of the class COLD.
const COLD: u64 = 1 << 10;
/// A stated time, after the ETag.
const STATED_TIME: u64 = 1 << 11;
/// The null version of the key was below this one. The distance between their orders follows the
/// id.
const ABOVE_NULL: u64 = 1 << 12;

/// Marks a full object checksum with the length of its algorithm.
const USUAL: u8 = 0x80;

/// The flags and the id of a version, which identify it.
#[derive(Clone, Copy)]
pub(super) struct RecordHeader {
    flags: u64,
    pub(super) id: VersionId,
    /// The order of the null version that was below this one when it was put. That version may be
    /// gone.
    pub(super) null_below: Option<u64>,
}

impl RecordHeader {
    #[inline]
    fn read(from: &mut ByteDecoder<'_>, order: u64) -> Decoded<Self> {
        let flags = from.varint()?;
        let id = if flags & OTHER_ID != 0 { from.u64()? } else { order };
        let null_below =
            if flags & ABOVE_NULL != 0 { Some(order.wrapping_sub(from.varint()?)) } else { None };
        Ok(Self { flags, id: VersionId(id), null_below })
    }

    pub(super) fn of(value: &[u8], order: u64) -> Self {
        expect_valid(Self::read(&mut ByteDecoder::new(value), order))
    }

    pub(super) fn null(self) -> bool {
        self.flags & NULL != 0
    }

    fn delete_marker(self) -> bool {
        self.flags & DELETE_MARKER != 0
    }
}

/// Whether a version hides its key from object listings, as delete markers do. The first byte
/// suffices.
pub(super) fn is_hidden(value: &[u8]) -> bool {
    u64::from(value[0]) & DELETE_MARKER != 0
}

/// The place of a version among its key's.
#[derive(Clone, Copy)]
pub(super) struct RecordPlace {
    pub(super) order: u64,
    /// The order of the null version of the key, if it is below.
    pub(super) null_below: Option<u64>,
}

/// A validated version record, to be encoded for a leaf.
pub(in crate::index) struct EncodedVersion<'a> {
    pub(in crate::index) summary: VersionSummary,
    pub(in crate::index) features: Features,
    /// Its wrapped keys; none where the caller has the record.
    pub(in crate::index) keys: Vec<WrappedKey>,
    form: RecordForm<'a>,
}

enum RecordForm<'a> {
    Plain(PlainVersion<'a>),
    /// Its encoding and extents, and the bytes of the index that it counts for without its key.
    AsOnDisk(&'a [u8], Cow<'a, [ExtentRef]>, u64),
}

impl<'a> EncodedVersion<'a> {
    /// Reads a record in its disk encoding.
    ///
    /// # Errors
    /// On invalid bytes.
    #[inline]
    pub(in crate::index) fn read(on_disk: &'a [u8]) -> Decoded<Self> {
        if let Some(plain) = PlainVersion::decode(on_disk)?.filter(is_plain) {
            let summary = plain.summary;
            let features = plain.summary.features();
            return Ok(Self { summary, features, keys: Vec::new(), form: RecordForm::Plain(plain) });
        }
        let mut from = ByteDecoder::new(on_disk);
        let record = VersionRecord::decode(&mut from)?;
        from.finish()?;
        let summary = record.summary();
        let features = record.features();
        let counted = version_index_bytes(&[], &record);
        let keys = record.encryption.map(|encryption| encryption.keys).unwrap_or_default();
        let form = RecordForm::AsOnDisk(on_disk, record.extents.into(), counted);
        Ok(Self { summary, features, keys, form })
    }

    /// A record with its disk encoding, which spares decoding thousands of extents.
    pub(super) fn of(record: &'a VersionRecord, on_disk: &'a [u8]) -> Self {
        let form = match expect_valid(PlainVersion::decode(on_disk)).filter(is_plain) {
            Some(plain) => RecordForm::Plain(plain),
            None => {
                let counted = version_index_bytes(&[], record);
                RecordForm::AsOnDisk(on_disk, Cow::Borrowed(&record.extents), counted)
            }
        };
        Self { summary: record.summary(), features: record.features(), keys: Vec::new(), form }
    }

    pub(in crate::index) fn extents(&self) -> impl Iterator<Item = &ExtentRef> {
        let (plain, all) = match &self.form {
            RecordForm::Plain(plain) => (Some(plain), &[][..]),
            RecordForm::AsOnDisk(_, extents, _) => (None, &extents[..]),
        };
        plain.into_iter().flat_map(PlainVersion::extents).chain(all)
    }

    /// The bytes of the index that it counts for.
    pub(super) fn index_bytes(&self, key: &[u8]) -> u64 {
        match &self.form {
            RecordForm::Plain(plain) => plain_index_bytes(key, plain),
            RecordForm::AsOnDisk(_, _, counted) => key.len() as u64 + counted,
        }
    }

    /// Appends the encoding for a place among the versions of the key.
    pub(super) fn encode(
        &self,
        place: RecordPlace,
        dictionary: &mut Arc<AttributeDictionary>,
        out: &mut Vec<u8>,
    ) {
        let other_id = self.summary.id.0 != place.order;
        let null_below = place.null_below.filter(|_| !self.summary.null);
        out.put_varint(self.flags() | flag(other_id, OTHER_ID) | flag(null_below.is_some(), ABOVE_NULL));
        if other_id {
            out.put_u64(self.summary.id.0);
        }
        if let Some(null) = null_below {
            out.put_varint(place.order - null);
        }
        match &self.form {
            RecordForm::Plain(plain) => encode_plain(plain, dictionary, out),
            RecordForm::AsOnDisk(on_disk, ..) => out.extend_from_slice(on_disk),
        }
    }

    fn flags(&self) -> u64 {
        let summary = &self.summary;
        let form = match &self.form {
            RecordForm::Plain(plain) => {
                flag(plain.extent.is_some(), EXTENT)
                    | flag(plain.record.is_some(), RECORD_EXTENT)
                    | flag(!plain.attributes.is_empty(), ATTRIBUTES)
                    | flag(plain.checksum.is_some(), CHECKSUM)
                    | flag(summary.storage_class == StorageClass::Cold, COLD)
                    | flag(summary.stated_time.is_some(), STATED_TIME)
                    | etag_kind(&summary.etag) << ETAG_SHIFT
            }
            RecordForm::AsOnDisk(..) => AS_ON_DISK,
        };
        flag(summary.null, NULL) | flag(summary.delete_marker, DELETE_MARKER) | form
    }
}

fn is_plain(version: &PlainVersion<'_>) -> bool {
    match &version.extent {
        None => true,
        Some(extent) => {
            extent.skip == 0
                && extent.take == extent.payload_len
                && u64::from(extent.take) == version.summary.size
        }
    }
}

fn encode_plain(version: &PlainVersion<'_>, dictionary: &mut Arc<AttributeDictionary>, out: &mut Vec<u8>) {
    let summary = &version.summary;
    let later = summary.modified.as_millis().wrapping_sub(summary.id.0 / 1000) as i64;
    out.put_varint((later << 1 ^ later >> 63) as u64);
    out.put_varint(summary.size);
    match &summary.etag {
        ETag::None => {}
        ETag::Md5(md5) => out.extend_from_slice(md5),
        ETag::Multipart { md5, parts } => {
            out.extend_from_slice(md5);
            out.put_varint((*parts).into());
        }
        ETag::Crc(crc) => out.put_u32(*crc),
    }
    if let Some(time) = summary.stated_time {
        out.put_varint(time.as_millis());
    }
    if let Some(extent) = &version.extent {
        encode_place(extent, out);
        out.put_u32(extent.check);
    }
    if let Some(extent) = &version.record {
        encode_place(extent, out);
    }
    if !version.attributes.is_empty() {
        out.put_varint(version.attributes.len() as u64);
        for (pair, name) in version.attributes.iter() {
            let code = AttributeDictionary::code(dictionary, pair, name);
            out.put_u8(code);
            if code == 0 {
                out.extend_from_slice(pair);
            }
        }
    }
    if let Some(checksum) = version.checksum {
        encode_checksum(checksum, out);
    }
}

fn encode_place(extent: &ExtentRef, out: &mut Vec<u8>) {
    out.put_varint(extent.segment << 1 | u64::from(extent.shared));
    out.put_varint(extent.offset / UNIT_BYTES);
}

fn etag_kind(etag: &ETag) -> u64 {
    match etag {
        ETag::None => 0,
        ETag::Md5(_) => 1,
        ETag::Multipart { .. } => 2,
        ETag::Crc(_) => 3,
    }
}

/// On disk a checksum is its algorithm, type, number of parts, length, and value.
fn encode_checksum(on_disk: &[u8], out: &mut Vec<u8>) {
    let algorithm = expect_valid(ChecksumAlgorithm::from_number(on_disk[0]));
    let usual = [0, 0, algorithm.value_len() as u8];
    if on_disk[1..4] == usual {
        out.put_u8(on_disk[0] | USUAL);
        out.extend_from_slice(&on_disk[4..]);
    } else {
        out.extend_from_slice(on_disk);
    }
}

/// The fields of a version that listings show.
#[inline(always)]
pub(super) fn summary(value: &[u8], order: u64) -> VersionSummary {
    let mut from = ByteDecoder::new(value);
    expect_valid(RecordHeader::read(&mut from, order).and_then(|head| decode_summary(head, &mut from)))
}

/// The whole version.
pub(super) fn decode(value: &[u8], order: u64, dictionary: &AttributeDictionary) -> VersionRecord {
    expect_valid(decode_record(&mut ByteDecoder::new(value), order, dictionary))
}

/// The version without extents and parts, as [`VersionRecord::decode_outline`] returns it.
pub(super) fn decode_outline(value: &[u8], order: u64, dictionary: &AttributeDictionary) -> VersionRecord {
    let mut from = ByteDecoder::new(value);
    let head = expect_valid(RecordHeader::read(&mut from, order));
    if head.flags & AS_ON_DISK != 0 {
        return expect_valid(VersionRecord::decode_outline(&mut from));
    }
    VersionRecord { extents: Vec::new(), ..decode(value, order, dictionary) }
}

/// Appends the record in its disk encoding. `scratch` is a buffer.
pub(super) fn encode_for_disk(
    value: &[u8],
    order: u64,
    dictionary: &AttributeDictionary,
    scratch: &mut Vec<u8>,
    out: &mut Vec<u8>,
) {
    let mut from = ByteDecoder::new(value);
    let head = expect_valid(RecordHeader::read(&mut from, order));
    if head.flags & AS_ON_DISK != 0 {
        out.extend_from_slice(from.rest());
    } else {
        expect_valid(read_plain(head, &mut from, dictionary, scratch)).encode(out);
    }
}

/// The plain version, with attributes and checksum in their disk encoding in `scratch`.
fn read_plain<'a, 's>(
    head: RecordHeader,
    from: &mut ByteDecoder<'a>,
    dictionary: &'a AttributeDictionary,
    scratch: &'s mut Vec<u8>,
) -> Decoded<PlainVersion<'s>> {
    scratch.clear();
    let summary = decode_summary(head, from)?;
    let extent = if head.flags & EXTENT != 0 { Some(decode_extent(from, summary.size)?) } else { None };
    let record = if head.flags & RECORD_EXTENT != 0 { Some(decode_record_extent(from)?) } else { None };
    let mut pairs = 0;
    if head.flags & ATTRIBUTES != 0 {
        pairs = from.varint()? as usize;
        (0..pairs).try_for_each(|_| {
            scratch.extend_from_slice(read_pair(from, dictionary)?);
            Ok(())
        })?;
    }
    let pairs_len = scratch.len();
    if head.flags & CHECKSUM != 0 {
        checksum_for_disk(from, scratch)?;
    }
    let (attributes, checksum) = scratch.split_at(pairs_len);
    let checksum = (head.flags & CHECKSUM != 0).then_some(checksum);
    Ok(PlainVersion { summary, extent, record, attributes: EncodedPairs::of(pairs, attributes), checksum })
}

/// The encoding of the next attribute.
fn read_pair<'a>(from: &mut ByteDecoder<'a>, dictionary: &'a AttributeDictionary) -> Decoded<&'a [u8]> {
    match from.u8()? {
        0 => {
            let start = from.rest();
            from.bytes()?;
            from.bytes()?;
            Ok(&start[..start.len() - from.rest().len()])
        }
        code => Ok(dictionary.attribute(code)),
    }
}

/// The inverse of [`encode_checksum`].
fn checksum_for_disk(from: &mut ByteDecoder<'_>, out: &mut Vec<u8>) -> Decoded<()> {
    let first = from.u8()?;
    out.put_u8(first & !USUAL);
    if first & USUAL != 0 {
        out.extend_from_slice(&[0, 0, ChecksumAlgorithm::from_number(first & !USUAL)?.value_len() as u8]);
    }
    out.extend_from_slice(from.rest());
    Ok(())
}

#[inline(always)]
fn decode_summary(head: RecordHeader, from: &mut ByteDecoder<'_>) -> Decoded<VersionSummary> {
    if head.flags & AS_ON_DISK != 0 {
        return VersionSummary::decode(from.rest());
    }
    let later = from.varint()?;
    let later = (later >> 1) ^ (later & 1).wrapping_neg();
    Ok(VersionSummary {
        id: head.id,
        null: head.null(),
        delete_marker: head.delete_marker(),
        modified: Timestamp::from_millis((head.id.0 / 1000).wrapping_add(later)),
        size: from.varint()?,
        etag: match head.flags >> ETAG_SHIFT & 3 {
            0 => ETag::None,
            1 => ETag::Md5(from.array()?),
            2 => ETag::Multipart { md5: from.array()?, parts: from.varint()? as u32 },
            _ => ETag::Crc(from.u32()?),
        },
        storage_class: if head.flags & COLD != 0 { StorageClass::Cold } else { StorageClass::Standard },
        stated_time: match head.flags & STATED_TIME {
            0 => None,
            _ => Some(Timestamp::from_millis(from.varint()?)),
        },
    })
}

fn decode_record<'a>(
    from: &mut ByteDecoder<'a>,
    order: u64,
    dictionary: &'a AttributeDictionary,
) -> Decoded<VersionRecord> {
    let head = RecordHeader::read(from, order)?;
    if head.flags & AS_ON_DISK != 0 {
        return VersionRecord::decode(from);
    }
    let summary = decode_summary(head, from)?;
    Ok(VersionRecord {
        id: summary.id,
        null: summary.null,
        delete_marker: summary.delete_marker,
        modified: summary.modified,
        size: summary.size,
        etag: summary.etag,
        storage_class: summary.storage_class,
        extents: decode_extents(head, from, summary.size)?,
        attributes: if head.flags & ATTRIBUTES != 0 {
            decode_attributes(from, dictionary)?
        } else {
            Attributes::new()
        },
        checksums: if head.flags & CHECKSUM != 0 { vec![decode_checksum(from)?] } else { Vec::new() },
        tags: Vec::new(),
        upload: None,
        controls: ObjectControls::default(),
        controls_stamp: None,
        encryption: None,
        stated_time: summary.stated_time,
    })
}

fn decode_extents(head: RecordHeader, from: &mut ByteDecoder<'_>, size: u64) -> Decoded<Vec<ExtentRef>> {
    let mut extents = Vec::with_capacity((head.flags & (EXTENT | RECORD_EXTENT)).count_ones() as usize);
    if head.flags & EXTENT != 0 {
        extents.push(decode_extent(from, size)?);
    }
    if head.flags & RECORD_EXTENT != 0 {
        extents.push(decode_record_extent(from)?);
    }
    Ok(extents)
}

fn decode_extent(from: &mut ByteDecoder<'_>, size: u64) -> Decoded<ExtentRef> {
    let len = size as u32;
    let place = decode_record_extent(from)?;
    Ok(ExtentRef { payload_len: len, take: len, check: from.u32()?, ..place })
}

/// An extent without payload is described by its location alone.
fn decode_record_extent(from: &mut ByteDecoder<'_>) -> Decoded<ExtentRef> {
    let segment = from.varint()?;
    Ok(ExtentRef::of_record(segment >> 1, from.varint()? * UNIT_BYTES, segment & 1 != 0))
}

fn decode_attributes<'a>(
    from: &mut ByteDecoder<'a>,
    dictionary: &'a AttributeDictionary,
) -> Decoded<Attributes> {
    let mut attributes = Attributes::new();
    for _ in 0..from.varint()? {
        let mut pair = ByteDecoder::new(read_pair(from, dictionary)?);
        attributes.push(pair.string()?, pair.string()?);
    }
    Ok(attributes)
}

fn decode_checksum(from: &mut ByteDecoder<'_>) -> Decoded<Checksum> {
    let first = from.u8()?;
    let algorithm = ChecksumAlgorithm::from_number(first & !USUAL)?;
    if first & USUAL == 0 {
        let kind = ChecksumType::from_number(from.u8()?)?;
        return Ok(Checksum { algorithm, kind, parts: from.varint()? as u32, value: from.bytes()?.to_vec() });
    }
    let value = from.take(algorithm.value_len())?.to_vec();
    Ok(Checksum { algorithm, kind: ChecksumType::FullObject, parts: 0, value })
}
