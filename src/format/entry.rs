//! Entries (data-format.md, section 6): changes of metadata. Each states the new value, so applying
//! it again changes nothing.

use crate::base::Timestamp;
use crate::format::codec::varint_len;
use crate::format::follower::{decode_origins, decode_state, encode_origins, encode_state};
use crate::format::remote_copy::{decode_copy, encode_copy};
use crate::format::{
    BucketConfigurationKind, ByteDecoder, Cause, DecodeError, Decoded, Encode, ExtentRef, Features,
    FollowerNote, FollowerState, PartRecord, RemoteCopy, UploadId, UploadRecord, VersionId, VersionRecord,
    WrappedKey, WrittenBytes,
};

const BUCKET_PUT: u8 = 1;
const BUCKET_DELETE: u8 = 2;
const VERSION_PUT: u8 = 3;
const VERSION_DELETE: u8 = 4;
const CHECKPOINT_END: u8 = 5;
const VERSION_AMEND: u8 = 6;
const UPLOAD_PUT: u8 = 7;
const UPLOAD_DELETE: u8 = 8;
const PART_PUT: u8 = 9;
const BUCKET_CONFIGURATION: u8 = 10;
const OWNER_QUOTA: u8 = 11;
const REMOTE_SEGMENT: u8 = 12;
const FOLLOWER: u8 = 13;
const FOLLOWER_NOTE: u8 = 14;
const CAUSE: u8 = 129;
const NULL_DELETION: u8 = 130;
const ORIGIN: u8 = 131;
/// Readers may skip unknown kinds from this number on.
const IGNORABLE: u8 = 128;

/// The versioning of a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Versioning {
    /// Never configured.
    #[default]
    Unset,
    /// Every new object is a version with its own id.
    Enabled,
    /// Every new object is the version `null`.
    Suspended,
}

impl Versioning {
    const ALL: [Self; 3] = [Self::Unset, Self::Enabled, Self::Suspended];
}

/// A bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BucketRecord {
    /// A stamp; a bucket that is created again has a new one.
    pub id: u64,
    /// The name.
    pub name: String,
    /// The name of the user who created it.
    pub owner: String,
    /// The creation time.
    pub created: Timestamp,
    /// Its versioning.
    pub versioning: Versioning,
}

/// The last entry of a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckpointEnd {
    /// The last group whose entries the checkpoint may hold.
    pub through: u64,
    /// The highest stamp given so far, or a higher number.
    pub last_stamp: u64,
    /// Buckets in the checkpoint.
    pub buckets: u64,
    /// Versions in the checkpoint.
    pub versions: u64,
}

/// One change of metadata.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// Creates or replaces a bucket.
    BucketPut(BucketRecord),
    /// Deletes a bucket with its content.
    BucketDelete {
        /// Its id.
        id: u64,
    },
    /// Sets or removes a configuration of a bucket.
    BucketConfiguration {
        /// The id of its bucket.
        bucket: u64,
        /// Its kind.
        kind: BucketConfigurationKind,
        /// The document; `None` removes the configuration.
        document: Option<Vec<u8>>,
    },
    /// Sets or removes the quota of an owner, with or without buckets.
    OwnerQuota {
        /// The name of the user.
        owner: String,
        /// The document; `None` removes the quota.
        document: Option<Vec<u8>>,
    },
    /// Sets or removes the copy of a segment on the remote.
    RemoteSegment {
        /// The segment.
        segment: u64,
        /// The copy; `None` where there is none any more.
        copy: Option<RemoteCopy>,
    },
    /// Sets or removes the progress of a follower.
    Follower {
        /// Its name.
        name: String,
        /// Its progress; `None` removes the follower.
        state: Option<FollowerState>,
    },
    /// Sets or removes a note of the consumer of a follower.
    FollowerNote {
        /// The name of the follower.
        name: String,
        /// The note.
        note: FollowerNote,
    },
    /// Names the request that made the next entries. It changes nothing.
    Cause(Cause),
    /// States that the next entry deletes a null version. It changes nothing.
    NullDeletion,
    /// Names the stores whose mirrors brought the changes of the next cause. It changes nothing.
    Origin(Vec<String>),
    /// Adds the newest version of a key.
    VersionPut {
        /// The id of its bucket.
        bucket: u64,
        /// The key.
        key: Vec<u8>,
        /// The version.
        record: VersionRecord,
    },
    /// Deletes a version.
    VersionDelete {
        /// The id of its bucket.
        bucket: u64,
        /// The key.
        key: Vec<u8>,
        /// The version.
        version: VersionId,
    },
    /// Replaces the version with this id, which keeps its place in the version order.
    VersionAmend {
        /// The id of its bucket.
        bucket: u64,
        /// The key.
        key: Vec<u8>,
        /// The version.
        record: VersionRecord,
    },
    /// Creates or replaces a multipart upload.
    UploadPut {
        /// The id of its bucket.
        bucket: u64,
        /// The key.
        key: Vec<u8>,
        /// The upload.
        record: UploadRecord,
    },
    /// Deletes a multipart upload with its parts.
    UploadDelete {
        /// The id of its bucket.
        bucket: u64,
        /// The key.
        key: Vec<u8>,
        /// The upload.
        upload: UploadId,
    },
    /// Creates or replaces a part.
    PartPut {
        /// The id of its bucket.
        bucket: u64,
        /// The key.
        key: Vec<u8>,
        /// The upload.
        upload: UploadId,
        /// The part.
        record: PartRecord,
    },
    /// Ends a checkpoint.
    CheckpointEnd(CheckpointEnd),
}

impl Entry {
    /// The bucket and key that the entry concerns; `None` for entries without a key.
    pub fn bucket_and_key(&self) -> Option<(u64, &[u8])> {
        match self {
            Self::VersionPut { bucket, key, .. }
            | Self::VersionDelete { bucket, key, .. }
            | Self::VersionAmend { bucket, key, .. }
            | Self::UploadPut { bucket, key, .. }
            | Self::UploadDelete { bucket, key, .. }
            | Self::PartPut { bucket, key, .. } => Some((*bucket, key)),
            Self::BucketPut(_)
            | Self::BucketDelete { .. }
            | Self::BucketConfiguration { .. }
            | Self::OwnerQuota { .. }
            | Self::RemoteSegment { .. }
            | Self::Follower { .. }
            | Self::FollowerNote { .. }
            | Self::Cause(_)
            | Self::NullDeletion
            | Self::Origin(_)
            | Self::CheckpointEnd(_) => None,
        }
    }

    /// Whether it only states something about the next entries, and changes nothing.
    pub fn is_note(&self) -> bool {
        matches!(self, Self::Cause(_) | Self::NullDeletion | Self::Origin(_))
    }

    /// The extents of a version or part; none for entries without.
    pub fn extents(&self) -> &[ExtentRef] {
        match self {
            Self::VersionPut { record, .. } | Self::VersionAmend { record, .. } => &record.extents,
            Self::PartPut { record, .. } => &record.extents,
            _ => &[],
        }
    }

    /// The wrapped keys of a version, an upload or a part; none for other entries.
    pub fn wrapped_keys(&self) -> &[WrappedKey] {
        match self {
            Self::VersionPut { record, .. } | Self::VersionAmend { record, .. } => record.wrapped_keys(),
            Self::UploadPut { record, .. } => record.wrapped_keys(),
            Self::PartPut { record, .. } => record.wrapped_keys(),
            _ => &[],
        }
    }

    /// The critical features that a file with this entry needs.
    pub fn features(&self) -> Features {
        match self {
            Self::BucketConfiguration { .. } => Features::BUCKET_CONFIGURATIONS,
            Self::OwnerQuota { .. } => Features::OWNER_QUOTAS,
            Self::RemoteSegment { .. } => Features::REMOTE_SEGMENTS,
            Self::Follower { state, .. } => {
                Features::FOLLOWERS.with(state.as_ref().map_or(Features::NONE, FollowerState::features))
            }
            Self::FollowerNote { .. } => Features::FOLLOWER_NOTES,
            Self::VersionPut { record, .. } | Self::VersionAmend { record, .. } => record.features(),
            Self::UploadPut { record, .. } => record.features(),
            Self::PartPut { record, .. } => record.features(),
            _ => Features::NONE,
        }
    }

    /// Appends the encoding: kind, length, body.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut body = Vec::with_capacity(160);
        let kind = self.encode_body(&mut body);
        out.put_u8(kind);
        out.put_bytes(&body);
    }

    fn encode_body(&self, out: &mut Vec<u8>) -> u8 {
        match self {
            Self::BucketPut(bucket) => {
                encode_bucket(bucket, out);
                BUCKET_PUT
            }
            Self::BucketDelete { id } => {
                out.put_varint(*id);
                BUCKET_DELETE
            }
            Self::BucketConfiguration { bucket, kind, document } => {
                encode_configuration(*bucket, *kind, document.as_deref(), out);
                BUCKET_CONFIGURATION
            }
            Self::OwnerQuota { owner, document } => {
                out.put_bytes(owner.as_bytes());
                encode_document(document.as_deref(), out);
                OWNER_QUOTA
            }
            Self::RemoteSegment { segment, copy } => {
                out.put_varint(*segment);
                encode_copy(copy.as_ref(), out);
                REMOTE_SEGMENT
            }
            Self::Follower { name, state } => {
                out.put_bytes(name.as_bytes());
                encode_state(state.as_ref(), out);
                FOLLOWER
            }
            Self::FollowerNote { name, note } => {
                out.put_bytes(name.as_bytes());
                out.put_bytes(&note.key);
                encode_document(note.value.as_deref(), out);
                FOLLOWER_NOTE
            }
            Self::Cause(cause) => {
                cause.encode(out);
                CAUSE
            }
            Self::NullDeletion => NULL_DELETION,
            Self::Origin(origins) => {
                encode_origins(origins, out);
                ORIGIN
            }
            Self::VersionPut { bucket, key, record } => {
                encode_place(*bucket, key, out);
                record.encode(out);
                VERSION_PUT
            }
            Self::VersionAmend { bucket, key, record } => {
                encode_place(*bucket, key, out);
                record.encode(out);
                VERSION_AMEND
            }
            Self::VersionDelete { bucket, key, version } => {
                encode_place(*bucket, key, out);
                out.put_u64(version.0);
                VERSION_DELETE
            }
            Self::UploadPut { bucket, key, record } => {
                encode_place(*bucket, key, out);
                record.encode(out);
                UPLOAD_PUT
            }
            Self::UploadDelete { bucket, key, upload } => {
                encode_place(*bucket, key, out);
                out.put_u64(upload.0);
                UPLOAD_DELETE
            }
            Self::PartPut { bucket, key, upload, record } => {
                encode_place(*bucket, key, out);
                out.put_u64(upload.0);
                record.encode(out);
                PART_PUT
            }
            Self::CheckpointEnd(end) => {
                for value in [end.through, end.last_stamp, end.buckets, end.versions] {
                    out.put_varint(value);
                }
                CHECKPOINT_END
            }
        }
    }

    /// Reads the next entry; `None` for an entry of an unknown kind that may be skipped.
    ///
    /// # Errors
    /// On invalid bytes; `Unknown` for a kind that must not be skipped.
    pub fn decode(from: &mut ByteDecoder<'_>) -> Decoded<Option<Self>> {
        RawEntry::read(from)?.decode()
    }

    /// The kinds whose body starts with a bucket and a key.
    fn decode_placed(kind: u8, body: &mut ByteDecoder<'_>) -> Decoded<Self> {
        let bucket = body.varint()?;
        let key = body.bytes()?.to_vec();
        Ok(match kind {
            VERSION_PUT => Self::VersionPut { bucket, key, record: VersionRecord::decode(body)? },
            VERSION_DELETE => Self::VersionDelete { bucket, key, version: VersionId(body.u64()?) },
            VERSION_AMEND => Self::VersionAmend { bucket, key, record: VersionRecord::decode(body)? },
            UPLOAD_PUT => Self::UploadPut { bucket, key, record: UploadRecord::decode(body)? },
            UPLOAD_DELETE => Self::UploadDelete { bucket, key, upload: UploadId(body.u64()?) },
            PART_PUT => {
                let upload = UploadId(body.u64()?);
                Self::PartPut { bucket, key, upload, record: PartRecord::decode(body)? }
            }
            _ => return Err(DecodeError::Unknown("a kind of entry")),
        })
    }
}

/// An entry with an undecoded body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RawEntry<'a> {
    kind: u8,
    body: &'a [u8],
}

/// A *version put* with an undecoded record. A start may read millions of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RawVersionPut<'a> {
    /// The id of its bucket.
    pub bucket: u64,
    /// The key.
    pub key: &'a [u8],
    /// The encoded [`VersionRecord`].
    pub record: &'a [u8],
}

impl RawVersionPut<'_> {
    /// Appends the encoding of the entry, as [`Entry::encode`] does.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let place_len = varint_len(self.bucket) + varint_len(self.key.len() as u64) + self.key.len();
        out.put_u8(VERSION_PUT);
        out.put_varint((place_len + self.record.len()) as u64);
        encode_place(self.bucket, self.key, out);
        out.extend_from_slice(self.record);
    }

    /// Decodes the record, too.
    ///
    /// # Errors
    /// On invalid bytes.
    pub fn decode(&self) -> Decoded<Entry> {
        let mut from = ByteDecoder::new(self.record);
        let record = VersionRecord::decode(&mut from)?;
        from.finish()?;
        Ok(Entry::VersionPut { bucket: self.bucket, key: self.key.to_vec(), record })
    }
}

impl<'a> RawEntry<'a> {
    /// Reads the next entry without decoding its body.
    ///
    /// # Errors
    /// [`DecodeError::Short`].
    pub fn read(from: &mut ByteDecoder<'a>) -> Decoded<Self> {
        Ok(Self { kind: from.u8()?, body: from.bytes()? })
    }

    /// Appends the entry unchanged.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.put_u8(self.kind);
        out.put_bytes(self.body);
    }

    /// The number of its kind.
    pub fn kind(&self) -> u8 {
        self.kind
    }

    /// Whether it is a *bucket put*.
    pub fn is_bucket_put(&self) -> bool {
        self.kind == BUCKET_PUT
    }

    /// Whether it is a *version put*.
    pub fn is_version_put(&self) -> bool {
        self.kind == VERSION_PUT
    }

    /// The fields of a *version put*; `None` for other kinds.
    ///
    /// # Errors
    /// On invalid bytes.
    pub fn version_put(&self) -> Decoded<Option<RawVersionPut<'a>>> {
        if !self.is_version_put() {
            return Ok(None);
        }
        let mut body = ByteDecoder::new(self.body);
        Ok(Some(RawVersionPut { bucket: body.varint()?, key: body.bytes()?, record: body.rest() }))
    }

    /// The value of a *checkpoint end*; `None` for other kinds.
    ///
    /// # Errors
    /// On invalid bytes.
    pub fn checkpoint_end(&self) -> Decoded<Option<CheckpointEnd>> {
        if self.kind != CHECKPOINT_END {
            return Ok(None);
        }
        let mut body = ByteDecoder::new(self.body);
        let end = decode_end(&mut body)?;
        body.finish()?;
        Ok(Some(end))
    }

    /// The value of a *written bytes* entry; `None` for other kinds.
    ///
    /// # Errors
    /// On invalid bytes.
    pub fn written_bytes(&self) -> Decoded<Option<WrittenBytes>> {
        (self.kind == WrittenBytes::KIND).then(|| WrittenBytes::decode(self.body)).transpose()
    }

    /// Decodes the entry; `None` for a kind that may be skipped, or that does not change the index.
    ///
    /// # Errors
    /// On invalid bytes; `Unknown` for a kind that must not be skipped.
    pub fn decode(&self) -> Decoded<Option<Entry>> {
        let mut body = ByteDecoder::new(self.body);
        let entry = match self.kind {
            BUCKET_PUT => Entry::BucketPut(decode_bucket(&mut body)?),
            BUCKET_DELETE => Entry::BucketDelete { id: body.varint()? },
            BUCKET_CONFIGURATION => decode_configuration(&mut body)?,
            OWNER_QUOTA => {
                let owner = body.string()?.to_owned();
                Entry::OwnerQuota { owner, document: decode_document(&mut body, "an owner quota")? }
            }
            REMOTE_SEGMENT => Entry::RemoteSegment { segment: body.varint()?, copy: decode_copy(&mut body)? },
            FOLLOWER => {
                let name = body.string()?.to_owned();
                Entry::Follower { name, state: decode_state(&mut body)? }
            }
            FOLLOWER_NOTE => {
                let name = body.string()?.to_owned();
                let key = body.bytes()?.to_vec();
                let value = decode_document(&mut body, "a note of a follower")?;
                Entry::FollowerNote { name, note: FollowerNote { key, value } }
            }
            CAUSE => Entry::Cause(Cause::decode(&mut body)?),
            NULL_DELETION => Entry::NullDeletion,
            ORIGIN => Entry::Origin(decode_origins(&mut body)?),
            VERSION_PUT..=VERSION_DELETE | VERSION_AMEND..=PART_PUT => {
                Entry::decode_placed(self.kind, &mut body)?
            }
            CHECKPOINT_END => Entry::CheckpointEnd(decode_end(&mut body)?),
            IGNORABLE.. => return Ok(None),
            _ => return Err(DecodeError::Unknown("a kind of entry")),
        };
        body.finish()?;
        Ok(Some(entry))
    }
}

fn encode_place(bucket: u64, key: &[u8], out: &mut Vec<u8>) {
    out.put_varint(bucket);
    out.put_bytes(key);
}

fn encode_bucket(bucket: &BucketRecord, out: &mut Vec<u8>) {
    out.put_varint(bucket.id);
    out.put_bytes(bucket.name.as_bytes());
    out.put_bytes(bucket.owner.as_bytes());
    out.put_varint(bucket.created.as_millis());
    encode_versioning(bucket.versioning, out);
}

fn encode_configuration(
    bucket: u64,
    kind: BucketConfigurationKind,
    document: Option<&[u8]>,
    out: &mut Vec<u8>,
) {
    out.put_varint(bucket);
    out.put_u8(kind.number());
    encode_document(document, out);
}

/// Encodes a document that is set or removed.
fn encode_document(document: Option<&[u8]>, out: &mut Vec<u8>) {
    out.put_u8(document.is_some().into());
    out.put_bytes(document.unwrap_or_default());
}

fn decode_configuration(from: &mut ByteDecoder<'_>) -> Decoded<Entry> {
    let bucket = from.varint()?;
    let kind = BucketConfigurationKind::from_number(from.u8()?)?;
    let document = decode_document(from, "a bucket configuration")?;
    Ok(Entry::BucketConfiguration { bucket, kind, document })
}

fn decode_document(from: &mut ByteDecoder<'_>, subject: &'static str) -> Decoded<Option<Vec<u8>>> {
    match (from.u8()?, from.bytes()?) {
        (0, []) => Ok(None),
        (1, document) => Ok(Some(document.to_vec())),
        _ => Err(DecodeError::Value(subject)),
    }
}

pub(super) fn encode_versioning(versioning: Versioning, out: &mut Vec<u8>) {
    out.put_u8(match versioning {
        Versioning::Unset => 0,
        Versioning::Enabled => 1,
        Versioning::Suspended => 2,
    });
}

pub(super) fn decode_versioning(from: &mut ByteDecoder<'_>) -> Decoded<Versioning> {
    let number = usize::from(from.u8()?);
    Versioning::ALL.get(number).copied().ok_or(DecodeError::Unknown("a versioning state"))
}

fn decode_bucket(from: &mut ByteDecoder<'_>) -> Decoded<BucketRecord> {
    Ok(BucketRecord {
        id: from.varint()?,
        name: from.string()?.to_owned(),
        owner: from.string()?.to_owned(),
        created: Timestamp::from_millis(from.varint()?),
        versioning: decode_versioning(from)?,
    })
}

fn decode_end(from: &mut ByteDecoder<'_>) -> Decoded<CheckpointEnd> {
    Ok(CheckpointEnd {
        through: from.counter("a sequence")?,
        last_stamp: from.varint()?,
        buckets: from.varint()?,
        versions: from.varint()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{
        Attributes, CopyPhase, ETag, LogPosition, ObjectControls, RefusedKey, RefusedKeys, SnapshotCursor,
        StorageClass,
    };

    fn follower(state: Option<FollowerState>) -> Entry {
        Entry::Follower { name: "away".into(), state }
    }

    fn note(value: Option<Vec<u8>>) -> Entry {
        Entry::FollowerNote { name: "away".into(), note: FollowerNote { key: b"a/b".to_vec(), value } }
    }

    fn refused() -> RefusedKeys {
        let time = Timestamp::from_millis(9);
        let key = RefusedKey { bucket: 77, key: b"a/b".to_vec(), time, reason: "400".into() };
        RefusedKeys { unlisted: 3, keys: vec![key] }
    }

    fn all_kinds() -> Vec<Entry> {
        let bucket = BucketRecord {
            id: 77,
            name: "photos".into(),
            owner: "admin".into(),
            created: Timestamp::from_millis(5),
            versioning: Versioning::Suspended,
        };
        let record = VersionRecord {
            storage_class: StorageClass::Standard,
            id: VersionId(9),
            null: true,
            delete_marker: false,
            modified: Timestamp::from_millis(6),
            size: 0,
            etag: ETag::Md5([1; 16]),
            extents: vec![],
            attributes: Attributes::new(),
            checksums: vec![],
            tags: vec![],
            upload: None,
            controls: ObjectControls::default(),
            controls_stamp: None,
            encryption: None,
            stated_time: None,
        };
        let upload = UploadRecord {
            storage_class: StorageClass::Standard,
            id: UploadId(12),
            initiated: Timestamp::from_millis(7),
            initiator: "admin".into(),
            checksum: None,
            attributes: Attributes::new(),
            tags: vec![],
            controls: ObjectControls::default(),
            encryption: None,
        };
        let part = PartRecord {
            number: 3,
            id: 13,
            modified: Timestamp::from_millis(8),
            size: 0,
            md5: [5; 16],
            extents: vec![],
            checksum: None,
            encryption: None,
        };
        let key = || b"a/b".to_vec();
        vec![
            Entry::VersionAmend { bucket: 77, key: key(), record: record.clone() },
            Entry::UploadPut { bucket: 77, key: key(), record: upload },
            Entry::PartPut { bucket: 77, key: key(), upload: UploadId(12), record: part },
            Entry::UploadDelete { bucket: 77, key: key(), upload: UploadId(12) },
            Entry::BucketPut(bucket),
            Entry::BucketDelete { id: 77 },
            Entry::BucketConfiguration {
                bucket: 77,
                kind: BucketConfigurationKind::Policy,
                document: Some(b"{}".to_vec()),
            },
            Entry::BucketConfiguration { bucket: 77, kind: BucketConfigurationKind::Cors, document: None },
            Entry::OwnerQuota { owner: "ann".into(), document: Some(b"{}".to_vec()) },
            Entry::OwnerQuota { owner: "ann".into(), document: None },
            Entry::RemoteSegment {
                segment: 300,
                copy: Some(RemoteCopy {
                    phase: CopyPhase::Remote,
                    epoch: 1,
                    nonce: 7,
                    length: 9000,
                    since: Timestamp::from_millis(8),
                }),
            },
            Entry::RemoteSegment { segment: 300, copy: None },
            follower(Some(FollowerState {
                position: LogPosition { sequence: 900, crc: 7 },
                snapshot: None,
                refused: RefusedKeys::default(),
            })),
            follower(Some(FollowerState {
                position: LogPosition { sequence: 900, crc: 7 },
                snapshot: None,
                refused: refused(),
            })),
            follower(Some(FollowerState {
                position: LogPosition { sequence: 900, crc: 7 },
                snapshot: Some(SnapshotCursor { bucket: 77, key: key() }),
                refused: refused(),
            })),
            follower(None),
            note(Some(vec![1, 2])),
            note(None),
            Entry::Cause(Cause {
                entries: 2,
                operation: "PutObject".into(),
                user: "ann".into(),
                address: "::1".into(),
                request: "4A".into(),
                origins: vec![],
            }),
            Entry::NullDeletion,
            Entry::Origin(vec!["0a".into(), "0b".into()]),
            Entry::VersionPut { bucket: 77, key: b"a/b".to_vec(), record },
            Entry::VersionDelete { bucket: 77, key: b"a/b".to_vec(), version: VersionId(9) },
            Entry::CheckpointEnd(CheckpointEnd { through: 1, last_stamp: 2, buckets: 3, versions: 4 }),
        ]
    }

    #[test]
    fn encoded_entries_decode_in_sequence() {
        let mut bytes = Vec::new();
        for entry in &all_kinds() {
            entry.encode(&mut bytes);
        }
        let mut decoder = ByteDecoder::new(&bytes);
        for entry in all_kinds() {
            assert_eq!(Entry::decode(&mut decoder), Ok(Some(entry)));
        }
        assert!(decoder.is_done());
    }

    #[test]
    fn an_unknown_kind_is_critical_below_128_and_skipped_from_there() {
        let decode = |kind| Entry::decode(&mut ByteDecoder::new(&[kind, 2, 0, 0]));
        assert_eq!(decode(127), Err(DecodeError::Unknown("a kind of entry")));
        assert_eq!(decode(0), Err(DecodeError::Unknown("a kind of entry")));
        assert_eq!(decode(128), Ok(None));
    }

    #[test]
    fn bytes_after_a_body_are_refused() {
        assert_eq!(Entry::decode(&mut ByteDecoder::new(&[BUCKET_DELETE, 2, 1, 1])), Err(DecodeError::Long));
    }

    #[test]
    fn every_prefix_of_an_entry_is_refused() {
        for entry in all_kinds() {
            let mut bytes = Vec::new();
            entry.encode(&mut bytes);
            for len in 0..bytes.len() {
                assert!(
                    Entry::decode(&mut ByteDecoder::new(&bytes[..len])).is_err(),
                    "{entry:?} cut to {len}"
                );
            }
        }
    }
}
