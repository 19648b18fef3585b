//! Version records (data-format.md, section 7): the metadata of a version of an object, and the
//! location of its bytes.

use crate::base::Timestamp;
use crate::format::attributes::{decode_pairs, encode_pairs};
use crate::format::checksum::{
    decode_checksums, decode_optional_checksum, encode_checksum, encode_optional_checksum,
};
use crate::format::codec::to_u32;
use crate::format::etag::{decode_etag, encode_etag};
use crate::format::extent_ref::{EXTENT_REF_BYTES_MIN, decode_extents, encode_extents};
use crate::format::storage_class;
use crate::format::{
    Attributes, ByteDecoder, Checksum, DecodeError, Decoded, ETag, Encode, ExtentRef, Features,
    ObjectControls, StorageClass, UploadId, VersionEncryption, VersionId, WrappedKey,
};

const NULL: u64 = 1;
const DELETE_MARKER: u64 = 2;
pub(super) const ATTRIBUTES: u64 = 4;
pub(super) const CHECKSUMS: u64 = 8;
pub(super) const TAGS: u64 = 16;
pub(super) const UPLOAD: u64 = 32;
pub(super) const CONTROLS: u64 = 64;
pub(super) const AMENDED_CONTROLS: u64 = 128;
const STORAGE_CLASS: u64 = 256;
const STATED_TIME: u64 = 512;
pub(super) const ENCRYPTION: u64 = 1024;
const KNOWN_FLAGS: u64 = NULL
    | DELETE_MARKER
    | ATTRIBUTES
    | CHECKSUMS
    | TAGS
    | UPLOAD
    | CONTROLS
    | AMENDED_CONTROLS
    | STORAGE_CLASS
    | STATED_TIME
    | ENCRYPTION;

/// The smallest encoding of a part.
const PART_BYTES_MIN: usize = 3;

/// One version of an object, or a delete marker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionRecord {
    /// Unique in the store, also for null versions.
    pub id: VersionId,
    /// Whether clients see it as the version `null`.
    pub null: bool,
    /// Whether it is a delete marker.
    pub delete_marker: bool,
    /// The time of creation.
    pub modified: Timestamp,
    /// The modification time that the put stated, which clients see.
    pub stated_time: Option<Timestamp>,
    /// Bytes.
    pub size: u64,
    /// The entity tag.
    pub etag: ETag,
    /// The storage class.
    pub storage_class: StorageClass,
    /// The locations of the bytes, in order.
    pub extents: Vec<ExtentRef>,
    /// Standard headers and user metadata.
    pub attributes: Attributes,
    /// Its checksums.
    pub checksums: Vec<Checksum>,
    /// Its tags, in order.
    pub tags: Vec<(String, String)>,
    /// Its controls.
    pub controls: ObjectControls,
    /// The stamp of the last change of the controls after the put, if there was one: the last
    /// extent holds them.
    pub controls_stamp: Option<u64>,
    /// How its bytes are encrypted.
    pub encryption: Option<Box<VersionEncryption>>,
    /// The parts, for an object made by a multipart upload.
    pub upload: Option<Assembly>,
}

/// The parts that a version was assembled from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assembly {
    /// The id of the multipart upload; [`UploadId::NONE`] in a copy of its object.
    pub upload: UploadId,
    /// Its parts, in order.
    pub parts: Vec<AssembledPart>,
}

/// One part of an assembled version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AssembledPart {
    /// Its number in the upload.
    pub number: u32,
    /// Bytes.
    pub size: u64,
    /// Its checksum.
    pub checksum: Option<Checksum>,
}

/// The fields of a version that listings show; cheap to decode.
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
    pub stated_time: Option<Timestamp>,
    /// As in [`VersionRecord`].
    pub size: u64,
    /// As in [`VersionRecord`].
    pub etag: ETag,
    /// As in [`VersionRecord`].
    pub storage_class: StorageClass,
}

impl VersionRecord {
    /// Its keys, wrapped; none in the clear.
    pub fn wrapped_keys(&self) -> &[WrappedKey] {
        self.encryption.as_ref().map_or(&[], |encryption| &encryption.keys)
    }

    /// The fields that listings show.
    pub fn summary(&self) -> VersionSummary {
        VersionSummary {
            id: self.id,
            null: self.null,
            delete_marker: self.delete_marker,
            modified: self.modified,
            size: self.size,
            etag: self.etag,
            storage_class: self.storage_class,
            stated_time: self.stated_time,
        }
    }

    /// Appends the encoding of the record.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let optional = flag(!self.attributes.is_empty(), ATTRIBUTES)
            | flag(!self.checksums.is_empty(), CHECKSUMS)
            | flag(!self.tags.is_empty(), TAGS)
            | flag(!self.controls.is_empty(), CONTROLS)
            | flag(self.controls_stamp.is_some(), AMENDED_CONTROLS)
            | flag(self.encryption.is_some(), ENCRYPTION)
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
            for checksum in &self.checksums {
                encode_checksum(checksum, out);
            }
        }
        if !self.tags.is_empty() {
            encode_pairs(&self.tags, out);
        }
        if !self.controls.is_empty() {
            self.controls.encode(out);
        }
        if let Some(stamp) = self.controls_stamp {
            out.put_varint(stamp);
        }
        if let Some(encryption) = &self.encryption {
            encryption.encode(out);
        }
        if let Some(assembly) = &self.upload {
            encode_assembly(assembly, out);
        }
    }

    /// Reads a record.
    ///
    /// # Errors
    /// On invalid bytes.
    pub fn decode(from: &mut ByteDecoder<'_>) -> Decoded<Self> {
        let (flags, summary) = decode_summary(from)?;
        let extents = decode_extents(from)?;
        let mut record = Self::decode_middle(from, flags, summary)?;
        if record.controls_stamp.is_some() && !extents.last().is_some_and(ExtentRef::holds_record_alone) {
            return Err(DecodeError::Value("the extent with the controls"));
        }
        record.extents = extents;
        record.upload = if flags & UPLOAD != 0 { Some(decode_assembly(from)?) } else { None };
        Ok(record)
    }

    /// Reads a record without its extents and parts, which may be thousands. Extents are skipped
    /// and parts are left unread, so errors in either go unnoticed.
    ///
    /// # Errors
    /// On invalid bytes elsewhere.
    pub fn decode_outline(from: &mut ByteDecoder<'_>) -> Decoded<Self> {
        let (flags, summary) = decode_summary(from)?;
        (0..from.count(EXTENT_REF_BYTES_MIN)?).try_for_each(|_| ExtentRef::skip(from))?;
        Self::decode_middle(from, flags, summary)
    }

    /// Reads the fields between the extents and the parts.
    fn decode_middle(from: &mut ByteDecoder<'_>, flags: u64, summary: VersionSummary) -> Decoded<Self> {
        let attributes = Attributes(if flags & ATTRIBUTES != 0 { decode_pairs(from)? } else { Vec::new() });
        let checksums = if flags & CHECKSUMS != 0 { decode_checksums(from)? } else { Vec::new() };
        let tags = if flags & TAGS != 0 { decode_pairs(from)? } else { Vec::new() };
        let controls =
            if flags & CONTROLS != 0 { ObjectControls::decode(from)? } else { ObjectControls::default() };
        let controls_stamp = if flags & AMENDED_CONTROLS != 0 { Some(from.varint()?) } else { None };
        let encryption = match flags & ENCRYPTION {
            0 => None,
            _ => Some(Box::new(VersionEncryption::decode(summary.size, from)?)),
        };
        Ok(Self {
            id: summary.id,
            null: summary.null,
            delete_marker: summary.delete_marker,
            modified: summary.modified,
            size: summary.size,
            etag: summary.etag,
            storage_class: summary.storage_class,
            stated_time: summary.stated_time,
            extents: Vec::new(),
            attributes,
            checksums,
            tags,
            controls,
            controls_stamp,
            encryption,
            upload: None,
        })
    }

    /// The critical features that a file with this record needs.
    pub fn features(&self) -> Features {
        let amended = self.controls_stamp.map_or(Features::NONE, |_| Features::AMENDED_CONTROLS);
        let encrypted = self.encryption.as_ref().map_or(Features::NONE, |_| Features::ENCRYPTED_OBJECTS);
        self.controls.features().with(amended).with(encrypted).with(self.summary().features())
    }

    /// The modification time that clients see.
    pub fn last_modified(&self) -> Timestamp {
        self.stated_time.unwrap_or(self.modified)
    }

    /// Its highest stamp.
    pub fn last_stamp(&self) -> u64 {
        self.controls_stamp.map_or(self.id.0, |stamp| stamp.max(self.id.0))
    }

    /// The multipart upload that made this version; `None` for copies and for objects without
    /// parts.
    pub fn completed(&self) -> Option<UploadId> {
        self.upload.as_ref().map(|made| made.upload).filter(|upload| *upload != UploadId::NONE)
    }

    /// Whether the extents add up to the size.
    pub fn is_complete(&self) -> bool {
        self.extents.iter().map(|extent| u64::from(extent.take)).sum::<u64>() == self.size
    }
}

impl VersionSummary {
    /// The modification time that clients see.
    pub fn last_modified(&self) -> Timestamp {
        self.stated_time.unwrap_or(self.modified)
    }

    /// The critical features that a file with these fields needs.
    pub(crate) fn features(&self) -> Features {
        let stated = self.stated_time.map_or(Features::NONE, |_| Features::STATED_TIMES);
        storage_class::features(self.storage_class).with(stated)
    }

    /// Reads the start of an encoded [`VersionRecord`].
    ///
    /// # Errors
    /// On invalid bytes.
    pub fn decode(bytes: &[u8]) -> Decoded<Self> {
        decode_summary(&mut ByteDecoder::new(bytes)).map(|(_, summary)| summary)
    }
}

#[inline]
pub(super) fn decode_summary(from: &mut ByteDecoder<'_>) -> Decoded<(u64, VersionSummary)> {
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
        storage_class: storage_class::decode(flags & STORAGE_CLASS != 0, from)?,
        stated_time: match flags & STATED_TIME {
            0 => None,
            _ => Some(Timestamp::from_millis(from.varint()?)),
        },
    };
    Ok((flags, summary))
}

/// Writes the start of a record; `optional` are the flags of the optional fields at its end.
pub(super) fn encode_summary(summary: &VersionSummary, optional: u64, out: &mut Vec<u8>) {
    let class = flag(storage_class::is_stated(summary.storage_class), STORAGE_CLASS);
    let stated = flag(summary.stated_time.is_some(), STATED_TIME);
    let marks = flag(summary.null, NULL) | flag(summary.delete_marker, DELETE_MARKER);
    out.put_varint(marks | class | stated | optional);
    out.put_u64(summary.id.0);
    out.put_varint(summary.modified.as_millis());
    out.put_varint(summary.size);
    encode_etag(&summary.etag, out);
    storage_class::encode(summary.storage_class, out);
    if let Some(time) = summary.stated_time {
        out.put_varint(time.as_millis());
    }
}

/// The bit of a field that is there.
pub(crate) fn flag(set: bool, bit: u64) -> u64 {
    if set { bit } else { 0 }
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

fn decode_assembly(from: &mut ByteDecoder<'_>) -> Decoded<Assembly> {
    let upload = UploadId(from.u64()?);
    let count = from.count(PART_BYTES_MIN)?;
    let mut parts = Vec::new();
    for _ in 0..count {
        parts.push(AssembledPart {
            number: to_u32(from.varint()?, "a part number")?,
            size: from.varint()?,
            checksum: decode_optional_checksum(from)?,
        });
    }
    Ok(Assembly { upload, parts })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{
        ChecksumAlgorithm, ChecksumType, EncryptedRun, EncryptionKind, PlainVersion, WrappedKey,
    };

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
            storage_class: StorageClass::Cold,
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
            controls: ObjectControls { legal_hold: Some(true), ..ObjectControls::default() },
            controls_stamp: None,
            encryption: None,
            stated_time: Some(Timestamp::from_millis(1_500_000_000_000)),
        }
    }

    /// The same after a change of its controls, which leaves none.
    fn amended() -> VersionRecord {
        let mut record = VersionRecord { controls: ObjectControls::default(), ..full() };
        record.extents.push(ExtentRef::of_record(9, 640, false));
        record.controls_stamp = Some(1 << 50);
        record
    }

    /// The same, encrypted.
    fn encrypted() -> VersionRecord {
        let salt = [1; 16];
        let key = WrappedKey {
            kind: EncryptionKind::Kms,
            reach: crate::crypto::KeyReach::Object,
            bucket_key: false,
            key_id: "k1".into(),
            context: String::new(),
            salt,
            sealed: [2; 48],
        };
        let run = |len| EncryptedRun { key: 0, salt, packages: 1, first: 0, len };
        let encryption =
            VersionEncryption { keys: vec![key], runs: vec![run(100), run(20)], sealed: vec![3] };
        VersionRecord { encryption: Some(Box::new(encryption)), ..full() }
    }

    fn marker() -> VersionRecord {
        VersionRecord {
            null: false,
            delete_marker: true,
            size: 0,
            etag: ETag::None,
            storage_class: StorageClass::Standard,
            extents: vec![],
            attributes: Attributes::new(),
            checksums: vec![],
            tags: vec![],
            controls: ObjectControls::default(),
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
        let extents = vec![full.extents[0]];
        let controls = ObjectControls::default();
        let storage_class = StorageClass::Standard;
        let stated_time = None;
        let usual = VersionRecord { storage_class, stated_time, ..full };
        VersionRecord { size: 100, extents, tags: vec![], controls, upload: None, ..usual }
    }

    #[test]
    fn an_outline_lacks_only_extents_and_parts_and_decodes_neither() {
        let record = full();
        let mut bytes = Vec::new();
        record.encode(&mut bytes);
        let outline = VersionRecord { extents: Vec::new(), upload: None, ..record.clone() };
        assert_eq!(VersionRecord::decode_outline(&mut ByteDecoder::new(&bytes)), Ok(outline.clone()));
        // The parts are the last field.
        let mut parts = Vec::new();
        encode_assembly(record.upload.as_ref().unwrap(), &mut parts);
        let rest = &bytes[..bytes.len() - parts.len()];
        assert_eq!(VersionRecord::decode_outline(&mut ByteDecoder::new(rest)), Ok(outline));
        for len in 0..rest.len() {
            assert!(VersionRecord::decode_outline(&mut ByteDecoder::new(&bytes[..len])).is_err());
        }
    }

    #[test]
    fn records_come_back_and_so_do_their_summaries() {
        let crc = VersionRecord { etag: ETag::Crc(9), ..full() };
        let cold = VersionRecord { storage_class: StorageClass::Cold, ..plain() };
        let timed = VersionRecord { stated_time: Some(Timestamp::from_millis(5)), ..plain() };
        assert_eq!((timed.features(), timed.last_modified().as_millis()), (Features::STATED_TIMES, 5));
        assert!(encrypted().features().contains(Features::ENCRYPTED_OBJECTS));
        let plain_but_encrypted = VersionRecord { size: 120, encryption: encrypted().encryption, ..plain() };
        assert_eq!(PlainVersion::decode(&encoded(&plain_but_encrypted)), Ok(None));
        for record in [full(), marker(), plain(), amended(), encrypted(), crc, cold, timed] {
            let bytes = encoded(&record);
            let mut decoder = ByteDecoder::new(&bytes);
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
        for bytes in [encoded(&full()), encoded(&amended())] {
            for len in 0..bytes.len() {
                assert!(VersionRecord::decode(&mut ByteDecoder::new(&bytes[..len])).is_err(), "{len} bytes");
            }
        }
    }

    #[test]
    fn only_a_class_that_is_not_the_usual_one_needs_a_feature_and_a_byte() {
        let usual = plain();
        let cold = VersionRecord { storage_class: StorageClass::Cold, ..plain() };
        assert_eq!((usual.features(), cold.features()), (Features::NONE, Features::STORAGE_CLASSES));
        // The varint of the flags is longer by one byte.
        assert_eq!(encoded(&cold).len(), encoded(&usual).len() + 2);
        let mut unknown = encoded(&cold);
        let class = 2 + 8 + 6 + 1 + 18;
        assert_eq!(unknown[class], 1);
        unknown[class] = 2;
        let refused = VersionRecord::decode(&mut ByteDecoder::new(&unknown));
        assert_eq!(refused, Err(DecodeError::Unknown("a storage class")));
    }

    #[test]
    fn an_extent_with_controls_is_the_last_one_and_has_no_payload() {
        for extents in [vec![], full().extents] {
            let bytes = encoded(&VersionRecord { extents, ..amended() });
            let refused = VersionRecord::decode(&mut ByteDecoder::new(&bytes));
            assert_eq!(refused, Err(DecodeError::Value("the extent with the controls")));
        }
        let features =
            Features::AMENDED_CONTROLS.with(Features::STORAGE_CLASSES).with(Features::STATED_TIMES);
        assert_eq!(amended().features(), features);
        assert!(amended().is_complete(), "it adds no bytes");
        // One that would otherwise be plain is none.
        let record = VersionRecord { extents: amended().extents.split_off(2), size: 0, ..amended() };
        let plain = VersionRecord { tags: vec![], upload: None, ..record };
        assert_eq!(PlainVersion::decode(&encoded(&plain)), Ok(None));
    }

    #[test]
    fn unknown_flags_and_slices_beyond_the_payload_are_refused() {
        let mut bytes = encoded(&full());
        assert_eq!(bytes[1], 6, "the flags from bit 7 on");
        bytes[1] |= 16;
        assert!(matches!(VersionRecord::decode(&mut ByteDecoder::new(&bytes)), Err(DecodeError::Unknown(_))));
        let mut record = full();
        record.extents[1].take = 91;
        let refused = VersionRecord::decode(&mut ByteDecoder::new(&encoded(&record)));
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
