//! Descriptors of extents (data-format.md, section 4): the description of a payload, from which
//! metadata can be rebuilt.

use crate::base::Timestamp;
use crate::format::entry::{decode_versioning, encode_versioning};
use crate::format::{
    BucketRecord, ByteDecoder, DecodeError, Decoded, Encode, ObjectControls, PartRecord, UploadId,
    UploadRecord, VersionId, VersionRecord, Versioning,
};

const OBJECT: u8 = 1;
const PART: u8 = 2;
const OBJECT_RECORD: u8 = 3;
const PART_RECORD: u8 = 4;
const CONTROLS: u8 = 5;
const ENCRYPTED_OBJECT: u8 = 6;
const ENCRYPTED_PART: u8 = 7;
const ENCRYPTED_OBJECT_RECORD: u8 = 8;
const ENCRYPTED_PART_RECORD: u8 = 9;

/// The smallest encoding of a source: three varints.
const SOURCE_BYTES_MIN: usize = 3;

/// The description of an extent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Descriptor {
    /// The id of the bucket.
    pub bucket: u64,
    /// The name of the bucket.
    pub bucket_name: String,
    /// The key.
    pub key: Vec<u8>,
    /// A stamp, the same in all extents of one object or part; of controls, the stamp of their
    /// change.
    pub write: u64,
    /// The offset of the payload in the object or part.
    pub position: u64,
    /// The kind of its object or part, with the record.
    pub purpose: ExtentPurpose,
}

/// The kind of object or part that an extent belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExtentPurpose {
    /// An object. In stores made by siltstone 0.1.0 the last extent carries the record, without its
    /// extents.
    Object(Option<Box<VersionRecord>>),
    /// A part of the upload; the last extent likewise.
    Part(UploadId, Option<Box<PartRecord>>),
    /// An object and its record.
    ObjectRecord(Box<RebuildRecord<VersionRecord>>),
    /// A part of the upload and its record.
    PartRecord(Box<UploadRecord>, Box<RebuildRecord<PartRecord>>),
    /// The controls of a version, which were changed after its put. There may be none left.
    Controls(VersionId, ObjectControls),
    /// Encrypted bytes of an object.
    EncryptedObject,
    /// Encrypted bytes of a part of the upload.
    EncryptedPart(UploadId),
}

/// A record, with the other metadata from which the object or part can be rebuilt without the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RebuildRecord<T> {
    /// The owner of the bucket.
    pub owner: String,
    /// The creation time of the bucket.
    pub created: Timestamp,
    /// The versioning of the bucket at the time of the commit.
    pub versioning: Versioning,
    /// The sources of the bytes, in order; empty if the bytes are in the extents with the same
    /// write.
    pub sources: Vec<PayloadSource>,
    /// The record, without its extents.
    pub record: T,
}

/// A range of bytes of another object or part. It is named independently of the extents' locations,
/// so it survives relocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PayloadSource {
    /// The write of the extents, or the id of the part, that holds the bytes.
    pub stamp: u64,
    /// The offset of the first byte in that object or part.
    pub from: u64,
    /// The number of bytes.
    pub len: u64,
}

impl Descriptor {
    /// The encoding.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(192);
        out.put_u8(self.purpose.number());
        out.put_varint(self.bucket);
        out.put_bytes(self.bucket_name.as_bytes());
        out.put_bytes(&self.key);
        out.put_varint(self.write);
        out.put_varint(self.position);
        self.purpose.encode(&mut out);
        out
    }

    /// Reads a descriptor.
    ///
    /// # Errors
    /// On invalid bytes.
    pub fn decode(bytes: &[u8]) -> Decoded<Self> {
        let mut from = ByteDecoder::new(bytes);
        let purpose = from.u8()?;
        let descriptor = Self {
            bucket: from.varint()?,
            bucket_name: from.string()?.to_owned(),
            key: from.bytes()?.to_vec(),
            write: from.varint()?,
            position: from.varint()?,
            purpose: ExtentPurpose::decode(purpose, &mut from)?,
        };
        from.finish()?;
        Ok(descriptor)
    }

    /// The bucket as it was when the record was committed; `None` for an extent without such a
    /// record.
    pub fn bucket_record(&self) -> Option<BucketRecord> {
        let (owner, created, versioning) = match &self.purpose {
            ExtentPurpose::ObjectRecord(object) => (&object.owner, object.created, object.versioning),
            ExtentPurpose::PartRecord(_, part) => (&part.owner, part.created, part.versioning),
            ExtentPurpose::Object(_)
            | ExtentPurpose::Part(..)
            | ExtentPurpose::Controls(..)
            | ExtentPurpose::EncryptedObject
            | ExtentPurpose::EncryptedPart(_) => return None,
        };
        let id = self.bucket;
        let name = self.bucket_name.clone();
        let owner = owner.clone();
        Some(BucketRecord { id, name, owner, created, versioning })
    }
}

impl ExtentPurpose {
    /// The number in the format. Encrypted bytes have others, so that readers which know nothing of
    /// them do not take them for plain ones.
    fn number(&self) -> u8 {
        match self {
            Self::Object(_) => OBJECT,
            Self::Part(..) => PART,
            Self::ObjectRecord(object) if object.record.encryption.is_some() => ENCRYPTED_OBJECT_RECORD,
            Self::ObjectRecord(_) => OBJECT_RECORD,
            Self::PartRecord(_, part) if part.record.encryption.is_some() => ENCRYPTED_PART_RECORD,
            Self::PartRecord(..) => PART_RECORD,
            Self::Controls(..) => CONTROLS,
            Self::EncryptedObject => ENCRYPTED_OBJECT,
            Self::EncryptedPart(_) => ENCRYPTED_PART,
        }
    }

    /// Whether the payload is encrypted.
    pub fn is_encrypted(&self) -> bool {
        self.number() >= ENCRYPTED_OBJECT
    }

    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Object(last) => {
                out.put_u8(last.is_some().into());
                if let Some(record) = last {
                    record.encode(out);
                }
            }
            Self::Part(upload, last) => {
                out.put_varint(upload.0);
                out.put_u8(last.is_some().into());
                if let Some(record) = last {
                    record.encode(out);
                }
            }
            Self::ObjectRecord(object) => {
                object.encode_context(out);
                object.record.encode(out);
            }
            Self::PartRecord(upload, part) => {
                part.encode_context(out);
                upload.encode(out);
                part.record.encode(out);
            }
            Self::Controls(version, controls) => {
                out.put_u64(version.0);
                controls.encode(out);
            }
            Self::EncryptedObject => {}
            Self::EncryptedPart(upload) => out.put_varint(upload.0),
        }
    }

    fn decode(purpose: u8, from: &mut ByteDecoder<'_>) -> Decoded<Self> {
        let read = match purpose {
            OBJECT => Self::Object(decode_last(from, VersionRecord::decode)?),
            PART => Self::Part(UploadId(from.varint()?), decode_last(from, PartRecord::decode)?),
            OBJECT_RECORD | ENCRYPTED_OBJECT_RECORD => {
                let context = RebuildRecord::decode_context(from)?;
                Self::ObjectRecord(Box::new(context.with(VersionRecord::decode(from)?)))
            }
            PART_RECORD | ENCRYPTED_PART_RECORD => {
                let context = RebuildRecord::decode_context(from)?;
                let upload = UploadRecord::decode(from)?;
                Self::PartRecord(Box::new(upload), Box::new(context.with(PartRecord::decode(from)?)))
            }
            CONTROLS => Self::Controls(VersionId(from.u64()?), ObjectControls::decode(from)?),
            ENCRYPTED_OBJECT => Self::EncryptedObject,
            ENCRYPTED_PART => Self::EncryptedPart(UploadId(from.varint()?)),
            _ => return Err(DecodeError::Unknown("the purpose of an extent")),
        };
        match read.number() == purpose {
            true => Ok(read),
            false => Err(DecodeError::Value("the encryption of a record")),
        }
    }
}

impl<T> RebuildRecord<T> {
    /// A record of an object or part in `bucket`.
    pub fn in_bucket(bucket: &BucketRecord, sources: Vec<PayloadSource>, record: T) -> Box<Self> {
        let BucketRecord { owner, created, versioning, .. } = bucket;
        let owner = owner.clone();
        let created = *created;
        let versioning = *versioning;
        Box::new(Self { owner, created, versioning, sources, record })
    }

    fn encode_context(&self, out: &mut Vec<u8>) {
        out.put_bytes(self.owner.as_bytes());
        out.put_varint(self.created.as_millis());
        encode_versioning(self.versioning, out);
        out.put_varint(self.sources.len() as u64);
        for PayloadSource { stamp, from, len } in &self.sources {
            for value in [*stamp, *from, *len] {
                out.put_varint(value);
            }
        }
    }

    fn with<U>(self, record: U) -> RebuildRecord<U> {
        let Self { owner, created, versioning, sources, record: _ } = self;
        RebuildRecord { owner, created, versioning, sources, record }
    }
}

impl RebuildRecord<()> {
    fn decode_context(from: &mut ByteDecoder<'_>) -> Decoded<Self> {
        let owner = from.string()?.to_owned();
        let created = Timestamp::from_millis(from.varint()?);
        let versioning = decode_versioning(from)?;
        let count = from.count(SOURCE_BYTES_MIN)?;
        let mut sources = Vec::new();
        for _ in 0..count {
            sources.push(PayloadSource { stamp: from.varint()?, from: from.varint()?, len: from.varint()? });
        }
        Ok(Self { owner, created, versioning, sources, record: () })
    }
}

fn decode_last<T>(
    from: &mut ByteDecoder<'_>,
    decode: impl Fn(&mut ByteDecoder<'_>) -> Decoded<T>,
) -> Decoded<Option<Box<T>>> {
    match from.u8()? {
        0 => Ok(None),
        1 => Ok(Some(Box::new(decode(from)?))),
        _ => Err(DecodeError::Value("the last-extent mark")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{
        AclGrants, Attributes, ETag, EncryptedRun, EncryptionKind, StorageClass, VersionEncryption,
        WrappedKey,
    };

    fn object() -> VersionRecord {
        VersionRecord {
            storage_class: StorageClass::Standard,
            id: VersionId(4),
            null: true,
            delete_marker: false,
            modified: Timestamp::from_millis(1),
            size: 3,
            etag: ETag::Md5([2; 16]),
            extents: vec![],
            attributes: Attributes::new(),
            checksums: vec![],
            tags: vec![],
            upload: None,
            controls: ObjectControls::default(),
            controls_stamp: None,
            encryption: None,
            stated_time: None,
        }
    }

    fn encrypted_object() -> VersionRecord {
        let key = WrappedKey {
            kind: EncryptionKind::S3,
            reach: crate::crypto::KeyReach::Object,
            bucket_key: false,
            key_id: "k1".into(),
            context: String::new(),
            salt: [1; 16],
            sealed: [2; 48],
        };
        let run = EncryptedRun { key: 0, salt: [3; 16], packages: 1, first: 0, len: 3 };
        let encryption = VersionEncryption { keys: vec![key], runs: vec![run], sealed: vec![] };
        VersionRecord { encryption: Some(Box::new(encryption)), ..object() }
    }

    fn part() -> PartRecord {
        PartRecord {
            number: 3,
            id: 13,
            modified: Timestamp::from_millis(8),
            size: 0,
            md5: [5; 16],
            extents: vec![],
            checksum: None,
            encryption: None,
        }
    }

    fn upload() -> UploadRecord {
        UploadRecord {
            storage_class: StorageClass::Standard,
            id: UploadId(99),
            initiated: Timestamp::from_millis(7),
            initiator: "camera".into(),
            checksum: None,
            attributes: Attributes::new(),
            tags: vec![],
            controls: ObjectControls::default(),
            encryption: None,
        }
    }

    fn recorded<T>(sources: Vec<PayloadSource>, record: T) -> RebuildRecord<T> {
        let owner = "admin".into();
        let created = Timestamp::from_millis(6);
        RebuildRecord { owner, created, versioning: Versioning::Suspended, sources, record }
    }

    fn descriptors() -> Vec<Descriptor> {
        let sources = vec![
            PayloadSource { stamp: 9, from: 70, len: 1 << 40 },
            PayloadSource { stamp: 1 << 50, from: 0, len: 1 },
        ];
        let purposes = vec![
            ExtentPurpose::Object(None),
            ExtentPurpose::Object(Some(Box::new(object()))),
            ExtentPurpose::Part(UploadId(1), None),
            ExtentPurpose::Part(UploadId(99), Some(Box::new(part()))),
            ExtentPurpose::ObjectRecord(Box::new(recorded(sources.clone(), object()))),
            ExtentPurpose::ObjectRecord(Box::new(recorded(vec![], object()))),
            ExtentPurpose::PartRecord(Box::new(upload()), Box::new(recorded(sources, part()))),
            ExtentPurpose::Controls(
                VersionId(1 << 60),
                ObjectControls {
                    acl: AclGrants::ALL_READ,
                    legal_hold: Some(true),
                    ..ObjectControls::default()
                },
            ),
            ExtentPurpose::Controls(VersionId(4), ObjectControls::default()),
            ExtentPurpose::EncryptedObject,
            ExtentPurpose::EncryptedPart(UploadId(99)),
            ExtentPurpose::ObjectRecord(Box::new(recorded(vec![], encrypted_object()))),
        ];
        let descriptor = |purpose| Descriptor {
            bucket: 1,
            bucket_name: "b".into(),
            key: b"k".to_vec(),
            write: 4,
            position: 0,
            purpose,
        };
        purposes.into_iter().map(descriptor).collect()
    }

    #[test]
    fn descriptors_come_back_and_no_prefix_passes() {
        for descriptor in descriptors() {
            let bytes = descriptor.encode();
            for len in 0..bytes.len() {
                assert!(Descriptor::decode(&bytes[..len]).is_err(), "{descriptor:?} cut to {len}");
            }
            assert_eq!(Descriptor::decode(&bytes), Ok(descriptor));
        }
    }

    #[test]
    fn a_purpose_from_the_future_is_refused() {
        let mut bytes = descriptors()[0].encode();
        bytes[0] = 10;
        assert_eq!(Descriptor::decode(&bytes), Err(DecodeError::Unknown("the purpose of an extent")));
    }

    #[test]
    fn encrypted_bytes_and_records_have_purposes_of_their_own() {
        let numbers = descriptors().into_iter().map(|descriptor| descriptor.encode()[0]);
        assert_eq!(numbers.collect::<Vec<_>>(), [1, 1, 2, 2, 3, 3, 4, 5, 5, 6, 7, 8]);
        let mut bytes = descriptors().pop().unwrap().encode();
        bytes[0] = OBJECT_RECORD;
        assert_eq!(Descriptor::decode(&bytes), Err(DecodeError::Value("the encryption of a record")));
        let clear = ExtentPurpose::ObjectRecord(Box::new(recorded(vec![], object())));
        let mut bytes = Descriptor { purpose: clear, ..descriptors().pop().unwrap() }.encode();
        bytes[0] = ENCRYPTED_OBJECT_RECORD;
        assert_eq!(Descriptor::decode(&bytes), Err(DecodeError::Value("the encryption of a record")));
    }

    #[test]
    fn records_tell_their_bucket() {
        let told = descriptors().iter().filter_map(Descriptor::bucket_record).collect::<Vec<_>>();
        let bucket = BucketRecord {
            id: 1,
            name: "b".into(),
            owner: "admin".into(),
            created: Timestamp::from_millis(6),
            versioning: Versioning::Suspended,
        };
        assert_eq!(told, [bucket.clone(), bucket.clone(), bucket.clone(), bucket]);
    }
}
