//! Multipart uploads and their parts (data-format.md, section 7).

use crate::base::Timestamp;
use crate::format::attributes::{decode_pairs, encode_pairs};
use crate::format::checksum::{decode_checksum, encode_checksum};
use crate::format::codec::to_u32;
use crate::format::extent_ref::{decode_extents, encode_extents};
use crate::format::{
    Attributes, ByteDecoder, Checksum, ChecksumAlgorithm, ChecksumType, DecodeError, Decoded, Encode,
    ExtentRef, Features, ObjectControls, PartEncryption, StorageClass, UploadId, WrappedKey, storage_class,
};

/// In the byte of the algorithm: controls follow the tags.
const CONTROLS: u8 = 0x80;
/// There, too: a storage class follows the controls.
const STORAGE_CLASS: u8 = 0x40;
/// There, too: a wrapped key follows the storage class.
const WRAPPED_KEY: u8 = 0x20;

/// In the last byte of the fixed fields of a part: a checksum follows.
const CHECKSUM: u8 = 1;
/// There, too: its encryption follows the checksum.
const ENCRYPTION: u8 = 2;

/// A multipart upload in progress.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UploadRecord {
    /// Its id.
    pub id: UploadId,
    /// The time of initiation.
    pub initiated: Timestamp,
    /// The name of the user who initiated it.
    pub initiator: String,
    /// The checksum that the client announced.
    pub checksum: Option<(ChecksumAlgorithm, ChecksumType)>,
    /// The attributes that the object will have.
    pub attributes: Attributes,
    /// The tags that the object will have.
    pub tags: Vec<(String, String)>,
    /// The controls that the object will have.
    pub controls: ObjectControls,
    /// The storage class that the object will have.
    pub storage_class: StorageClass,
    /// The key that encrypts its parts.
    pub encryption: Option<Box<WrappedKey>>,
}

impl UploadRecord {
    /// Its key, wrapped; none in the clear.
    pub fn wrapped_keys(&self) -> &[WrappedKey] {
        self.encryption.as_deref().map_or(&[], std::slice::from_ref)
    }

    /// Appends the encoding of the record.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.put_u64(self.id.0);
        out.put_varint(self.initiated.as_millis());
        out.put_bytes(self.initiator.as_bytes());
        let controls = if self.controls.is_empty() { 0 } else { CONTROLS };
        let class = if storage_class::is_stated(self.storage_class) { STORAGE_CLASS } else { 0 };
        let key = if self.encryption.is_some() { WRAPPED_KEY } else { 0 };
        out.put_u8(self.checksum.map_or(0, |(algorithm, _)| algorithm.number()) | controls | class | key);
        out.put_u8(self.checksum.map_or(0, |(_, kind)| kind.number()));
        let attributes: Vec<_> =
            self.attributes.iter().map(|(name, value)| (name.into(), value.into())).collect();
        encode_pairs(&attributes, out);
        encode_pairs(&self.tags, out);
        if !self.controls.is_empty() {
            self.controls.encode(out);
        }
        storage_class::encode(self.storage_class, out);
        if let Some(key) = &self.encryption {
            key.encode(out);
        }
    }

    /// The critical features that a file with this record needs.
    pub(super) fn features(&self) -> Features {
        let encrypted = self.encryption.as_ref().map_or(Features::NONE, |_| Features::ENCRYPTED_OBJECTS);
        self.controls.features().with(storage_class::features(self.storage_class)).with(encrypted)
    }

    /// Reads a record.
    ///
    /// # Errors
    /// On invalid bytes.
    pub fn decode(from: &mut ByteDecoder<'_>) -> Decoded<Self> {
        let id = UploadId(from.u64()?);
        let initiated = Timestamp::from_millis(from.varint()?);
        let initiator = from.string()?.to_owned();
        let algorithm = from.u8()?;
        let kind = ChecksumType::from_number(from.u8()?)?;
        let checksum = match algorithm & !(CONTROLS | STORAGE_CLASS | WRAPPED_KEY) {
            0 => None,
            number => Some((ChecksumAlgorithm::from_number(number)?, kind)),
        };
        let mut attributes = Attributes::new();
        for (name, value) in decode_pairs(from)? {
            attributes.push(name, value);
        }
        let tags = decode_pairs(from)?;
        let controls =
            if algorithm & CONTROLS != 0 { ObjectControls::decode(from)? } else { ObjectControls::default() };
        let storage_class = storage_class::decode(algorithm & STORAGE_CLASS != 0, from)?;
        let encryption = match algorithm & WRAPPED_KEY {
            0 => None,
            _ => Some(Box::new(WrappedKey::decode(from)?)),
        };
        Ok(Self { id, initiated, initiator, checksum, attributes, tags, controls, storage_class, encryption })
    }
}

/// A part of an upload in progress.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartRecord {
    /// Its number, which orders the parts in the object.
    pub number: u32,
    /// A stamp; a part that is uploaded again has a new one.
    pub id: u64,
    /// The time of the upload.
    pub modified: Timestamp,
    /// Bytes.
    pub size: u64,
    /// The MD5 of its bytes.
    pub md5: [u8; 16],
    /// The locations of the bytes, in order.
    pub extents: Vec<ExtentRef>,
    /// The checksum that came with it.
    pub checksum: Option<Checksum>,
    /// How its bytes are encrypted.
    pub encryption: Option<Box<PartEncryption>>,
}

impl PartRecord {
    /// Its keys, wrapped; none in the clear.
    pub fn wrapped_keys(&self) -> &[WrappedKey] {
        self.encryption.as_ref().map_or(&[], |encryption| &encryption.keys)
    }

    /// Appends the encoding of the record.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.put_varint(self.number.into());
        out.put_u64(self.id);
        out.put_varint(self.modified.as_millis());
        out.put_varint(self.size);
        out.extend_from_slice(&self.md5);
        encode_extents(&self.extents, out);
        let checksum = if self.checksum.is_some() { CHECKSUM } else { 0 };
        let encryption = if self.encryption.is_some() { ENCRYPTION } else { 0 };
        out.put_u8(checksum | encryption);
        if let Some(checksum) = &self.checksum {
            encode_checksum(checksum, out);
        }
        if let Some(encryption) = &self.encryption {
            encryption.encode(out);
        }
    }

    /// The critical features that a file with this record needs.
    pub(super) fn features(&self) -> Features {
        self.encryption.as_ref().map_or(Features::NONE, |_| Features::ENCRYPTED_OBJECTS)
    }

    /// Reads a record.
    ///
    /// # Errors
    /// On invalid bytes.
    pub fn decode(from: &mut ByteDecoder<'_>) -> Decoded<Self> {
        let number = to_u32(from.varint()?, "a part number")?;
        let id = from.u64()?;
        let modified = Timestamp::from_millis(from.varint()?);
        let size = from.varint()?;
        let md5 = from.array()?;
        let extents = decode_extents(from)?;
        let marks = from.u8()?;
        if marks & !(CHECKSUM | ENCRYPTION) != 0 {
            return Err(DecodeError::Value("the marks of a part"));
        }
        let checksum = if marks & CHECKSUM != 0 { Some(decode_checksum(from)?) } else { None };
        let encryption = match marks & ENCRYPTION {
            0 => None,
            _ => Some(Box::new(PartEncryption::decode(size, from)?)),
        };
        Ok(Self { number, id, modified, size, md5, extents, checksum, encryption })
    }

    /// Whether the extents add up to the size.
    pub fn is_complete(&self) -> bool {
        self.extents.iter().map(|extent| u64::from(extent.take)).sum::<u64>() == self.size
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{EncryptedRun, EncryptionKind};

    fn upload() -> UploadRecord {
        let mut attributes = Attributes::new();
        attributes.push("content-type", "text/plain");
        UploadRecord {
            id: UploadId(5),
            initiated: Timestamp::from_millis(7),
            initiator: "admin".into(),
            checksum: Some((ChecksumAlgorithm::Crc32, ChecksumType::Composite)),
            attributes,
            tags: vec![("k".into(), "v".into())],
            controls: ObjectControls::default(),
            storage_class: StorageClass::Standard,
            encryption: None,
        }
    }

    fn part() -> PartRecord {
        let extent =
            ExtentRef { segment: 3, offset: 64, payload_len: 9, check: 1, skip: 0, take: 9, shared: true };
        let checksum = Checksum {
            algorithm: ChecksumAlgorithm::Crc32,
            kind: ChecksumType::FullObject,
            parts: 0,
            value: vec![1, 2, 3, 4],
        };
        PartRecord {
            number: 10_000,
            id: 11,
            modified: Timestamp::from_millis(8),
            size: 9,
            md5: [4; 16],
            extents: vec![extent],
            checksum: Some(checksum),
            encryption: None,
        }
    }

    fn key() -> WrappedKey {
        WrappedKey {
            kind: EncryptionKind::S3,
            reach: crate::crypto::KeyReach::Object,
            bucket_key: false,
            key_id: "k1".into(),
            context: String::new(),
            salt: [1; 16],
            sealed: [2; 48],
        }
    }

    #[test]
    fn uploads_come_back_and_no_prefix_passes() {
        let held = ObjectControls { legal_hold: Some(true), ..ObjectControls::default() };
        let controlled = UploadRecord { controls: held, ..upload() };
        let unchecked = UploadRecord { checksum: None, ..controlled.clone() };
        let cold = UploadRecord { storage_class: StorageClass::Cold, ..upload() };
        let encrypted = UploadRecord { encryption: Some(Box::new(key())), ..cold.clone() };
        assert_eq!(upload().features(), Features::NONE);
        assert!(encrypted.features().contains(Features::ENCRYPTED_OBJECTS));
        let cold_and_controlled = UploadRecord { storage_class: StorageClass::Cold, ..unchecked.clone() };
        for upload in [
            upload(),
            UploadRecord { checksum: None, tags: vec![], ..upload() },
            controlled,
            unchecked,
            cold,
            cold_and_controlled,
            encrypted,
        ] {
            let mut bytes = Vec::new();
            upload.encode(&mut bytes);
            assert_eq!(UploadRecord::decode(&mut ByteDecoder::new(&bytes)), Ok(upload));
            for len in 0..bytes.len() {
                assert!(UploadRecord::decode(&mut ByteDecoder::new(&bytes[..len])).is_err(), "cut to {len}");
            }
        }
    }

    #[test]
    fn parts_come_back_and_no_prefix_passes() {
        let run = EncryptedRun { key: 1, salt: [5; 16], packages: 1, first: 0, len: 9 };
        let encryption = PartEncryption { keys: vec![key()], runs: vec![run], sealed: vec![6] };
        let encrypted = PartRecord { encryption: Some(Box::new(encryption)), ..part() };
        assert_eq!(encrypted.features(), Features::ENCRYPTED_OBJECTS);
        let sealed = PartRecord { checksum: None, ..encrypted.clone() };
        for part in [part(), PartRecord { checksum: None, ..part() }, encrypted, sealed] {
            let mut bytes = Vec::new();
            part.encode(&mut bytes);
            assert_eq!(PartRecord::decode(&mut ByteDecoder::new(&bytes)), Ok(part.clone()));
            assert!(part.is_complete());
            for len in 0..bytes.len() {
                assert!(PartRecord::decode(&mut ByteDecoder::new(&bytes[..len])).is_err(), "cut to {len}");
            }
        }
    }
}
