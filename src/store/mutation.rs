//! What the committer is asked to do, and what it answers.

use std::collections::HashMap;
use std::ops::Range;

use crate::base::limits::{TAG_KEY_LEN_MAX_CHARS, TAG_VALUE_LEN_MAX_CHARS, TAGS_MAX};
use crate::base::{Timestamp, WriteCondition};
use crate::format::{
    Assembly, Attributes, BucketRecord, Checksum, ChecksumAlgorithm, ChecksumType, ETag, ExtentRef,
    PartRecord, PayloadSource, UploadId, UploadRecord, VersionId, VersionRecord, VersionSummary, Versioning,
};
use crate::index::{BUCKET_BYTES, Liveness};
use crate::log::{ExtentLocation, SpaceClaim};
use crate::store::extents::slices;
use crate::store::{StoreError, VersionRef};

/// Which version of a key is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Selector {
    /// The newest.
    Current,
    /// The one that clients see as `null`.
    Null,
    /// The one with that id.
    Id(VersionId),
}

impl Selector {
    /// Whether `version` is meant; of several, the newest.
    pub(super) fn accepts(self, version: &VersionSummary) -> bool {
        match self {
            Self::Current => true,
            Self::Null => version.null,
            Self::Id(id) => version.id == id && !version.null,
        }
    }
}

/// What is put, beside the bytes.
#[derive(Debug, Clone)]
pub struct Commit {
    /// The entity tag.
    pub etag: ETag,
    /// Standard headers and user metadata.
    pub attributes: Attributes,
    /// Checksums, verified by the caller.
    pub checksums: Vec<Checksum>,
    /// Tags: names and values.
    pub tags: Vec<(String, String)>,
    /// What must hold.
    pub condition: WriteCondition,
}

/// A version that was put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommittedVersion {
    /// Its id.
    pub id: VersionId,
    /// Whether clients see it as `null`.
    pub null: bool,
    /// When.
    pub modified: Timestamp,
    /// Its entity tag.
    pub etag: ETag,
}

/// One object or version to delete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deletion {
    /// The key.
    pub key: String,
    /// `Current` deletes as the bucket's versioning says; the others remove that version for good.
    pub which: Selector,
    /// The entity tag that the version must have.
    pub if_match: Option<String>,
}

/// What a deletion did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deleted {
    /// Whether a delete marker was added, or, for a named version, whether it was one.
    pub delete_marker: bool,
    /// The version that was added or named.
    pub version: Option<VersionRef>,
}

/// A multipart upload to be initiated.
#[derive(Debug, Clone)]
pub struct NewUpload {
    /// The name of the user.
    pub initiator: String,
    /// The checksums that its parts will bring.
    pub checksum: Option<(ChecksumAlgorithm, ChecksumType)>,
    /// The attributes of the object.
    pub attributes: Attributes,
    /// The tags of the object.
    pub tags: Vec<(String, String)>,
}

/// A multipart upload to be completed.
#[derive(Debug, Clone)]
pub struct Completion {
    /// The upload.
    pub upload: UploadId,
    /// The parts as they were when the caller looked at them, in order.
    pub parts: Vec<PartRecord>,
    /// What the object gets; the caller takes attributes and tags from the upload.
    pub commit: Commit,
}

/// What is copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyRange {
    /// The id of the bucket.
    pub bucket: u64,
    /// The key.
    pub key: String,
    /// The version, as the caller found it.
    pub version: VersionRecord,
    /// Which of its bytes.
    pub range: Range<u64>,
}

/// A change of buckets. It is a commit of its own, so that what is decided about objects never depends on it.
#[derive(Debug, Clone)]
pub(super) enum BucketChange {
    Create { name: String, owner: String },
    Delete { name: String },
    SetVersioning { name: String, versioning: Versioning },
}

/// Where the bytes of a version or part to be put are.
#[derive(Debug)]
pub(super) enum Content {
    /// In memory, to be packed.
    Packed { payload: Vec<u8>, crc: u32 },
    /// In extents that have been synced.
    Stored(StoredContent),
    /// In the extents of a version, which `sources` names for good.
    Copied { source: CopyRange, sources: Vec<PayloadSource> },
}

/// Extents that have been synced, the last of which brings a record that says this.
#[derive(Debug)]
pub(super) struct StoredContent {
    pub(super) extents: Vec<ExtentRef>,
    /// The write that the extents belong to.
    pub(super) write: u64,
    pub(super) id: u64,
    pub(super) size: u64,
    pub(super) modified: Timestamp,
    /// Of an object, whether it is a null version.
    pub(super) null: bool,
}

/// A version to be put.
#[derive(Debug)]
pub(super) struct Put {
    /// The bucket as it was when the first byte came.
    pub(super) bucket: BucketRecord,
    pub(super) key: String,
    pub(super) content: Content,
    pub(super) commit: Commit,
    /// Whether the committer sets the entity tag to the MD5 of a packed payload (`base::md5_policy`).
    pub(super) md5_by_committer: bool,
}

/// A part to be put.
#[derive(Debug)]
pub(super) struct PutPart {
    /// The bucket as it was when the first byte came.
    pub(super) bucket: BucketRecord,
    pub(super) key: String,
    /// The upload as it was when the first byte came; it never changes while it is there.
    pub(super) upload: UploadRecord,
    pub(super) number: u32,
    pub(super) content: Content,
    pub(super) md5: [u8; 16],
    pub(super) checksum: Option<Checksum>,
}

/// Extents that have been copied to another place, and the records that refer to them.
#[derive(Debug)]
pub(super) struct Relocation {
    pub(super) referrers: Vec<ReferringRecord>,
    /// Copies that nothing refers to yet. Whoever asks keeps their places.
    pub(super) fresh: HashMap<ExtentLocation, ExtentLocation>,
    /// Copies of shared extents that some record refers to already, unless it is gone by now.
    pub(super) shared: HashMap<ExtentLocation, ExtentLocation>,
}

/// A record that refers to extents.
#[derive(Debug, Clone)]
pub(super) struct ReferringRecord {
    pub(super) bucket: u64,
    pub(super) key: Vec<u8>,
    pub(super) id: RecordId,
    /// Bytes of the record.
    pub(super) len: usize,
}

/// Which record of a key.
#[derive(Debug, Clone, Copy)]
pub(super) enum RecordId {
    Version(VersionId),
    Part { upload: UploadId, number: u32, id: u64 },
}

impl Relocation {
    /// Where an extent is to be found now, if it was moved.
    pub(super) fn new_spot(&self, extent: &ExtentRef, liveness: &Liveness) -> Option<ExtentLocation> {
        let from = (extent.segment, extent.offset);
        let is_kept = |(segment, offset): &&ExtentLocation| liveness.is_shared(*segment, *offset);
        self.fresh.get(&from).or_else(|| self.shared.get(&from).filter(is_kept)).copied()
    }
}

/// What happens to a multipart upload, its parts apart.
#[derive(Debug)]
pub(super) enum UploadChange {
    Create(NewUpload),
    Abort(UploadId),
}

/// Where an answer goes. Whoever waits for it sleeps at once: it takes a sync, for which no spinning pays.
pub(super) type Reply<T> = oneshot::Sender<Result<T, StoreError>>;

/// What a deletion request is answered: one result for each.
pub(super) type DeletionResults = Vec<Result<Deleted, StoreError>>;

/// What the committer is asked to do.
pub(super) enum Mutation {
    Bucket(BucketChange, Reply<BucketRecord>),
    Put(Box<Put>, Reply<CommittedVersion>),
    Delete {
        bucket: String,
        deletions: Vec<Deletion>,
        reply: Reply<DeletionResults>,
    },
    Upload {
        bucket: String,
        key: String,
        change: UploadChange,
        reply: Reply<Option<UploadRecord>>,
    },
    PutPart(Box<PutPart>, Reply<PartRecord>),
    Complete {
        bucket: String,
        key: String,
        completion: Box<Completion>,
        reply: Reply<CommittedVersion>,
    },
    Relocate(Box<Relocation>, Reply<()>),
    /// The version as the caller found it, and its new tags.
    SetTags {
        bucket: String,
        key: String,
        version: Box<VersionRecord>,
        tags: Vec<(String, String)>,
        reply: Reply<()>,
    },
}

/// A generous bound on what an entry has beside keys, extents, parts and attributes.
const ENTRY_BYTES_MAX: usize = 1024;
/// The same of a deletion.
const DELETION_BYTES_MAX: usize = 128;
/// A generous bound on the encoding of one extent.
pub(super) const EXTENT_BYTES_MAX: usize = 32;
/// A bound on the encoding of one source: three varints.
const SOURCE_BYTES_MAX: usize = 30;
/// A generous bound on the tags of a version: a character has at most four bytes.
const TAGS_BYTES_MAX: usize = TAGS_MAX * 4 * (TAG_KEY_LEN_MAX_CHARS + TAG_VALUE_LEN_MAX_CHARS + 4);
/// A generous bound on what a version keeps of one part.
const PART_BYTES_MAX: usize = 80;

/// A generous bound on what a version takes of the index beside what stands above, its place in a leaf and what a leaf that is
/// split takes for itself included. A key stands in a leaf, and may stand between two.
const VERSION_INDEX_BYTES_MAX: usize = 512;
/// The same of an upload and its first part; each attribute and tag is two allocations.
const UPLOAD_INDEX_BYTES_MAX: usize = 1024;
/// What an allocation takes beside its bytes.
const TEXT_BYTES_MAX: usize = 32;
/// What an extent takes from when it is shared.
const SHARED_INDEX_BYTES_MAX: usize = 256;

/// A bound on what a delete marker takes of the index.
pub(super) fn marker_index_bytes_max(key: &[u8]) -> u64 {
    (VERSION_INDEX_BYTES_MAX + 2 * key.len()) as u64
}

fn bytes_of(attributes: &Attributes, tags: &[(String, String)]) -> usize {
    let tags = tags.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    attributes.iter().chain(tags).map(|(name, value)| name.len() + value.len() + 8).sum()
}

/// The same as an upload keeps them: each name and each value is an allocation.
fn texts_in_memory(attributes: &Attributes, tags: &[(String, String)]) -> usize {
    bytes_of(attributes, tags)
        + (attributes.iter().count() + tags.len()) * 2 * (size_of::<String>() + TEXT_BYTES_MAX)
}

fn version_bytes_max(version: &VersionRecord) -> usize {
    let parts = version.upload.as_ref().map_or(0, |assembly| assembly.parts.len());
    ENTRY_BYTES_MAX
        + version.extents.len() * EXTENT_BYTES_MAX
        + parts * PART_BYTES_MAX
        + bytes_of(&version.attributes, &version.tags)
}

impl Mutation {
    /// No more than so many bytes of entries come of it.
    pub(super) fn entry_bytes_max(&self) -> usize {
        match self {
            Self::Bucket(..) => ENTRY_BYTES_MAX,
            Self::Put(put, _) => put.record_bytes_max() + put.content.extent_bytes_max(),
            Self::Delete { deletions, .. } => {
                deletions.iter().map(|d| d.key.len() + DELETION_BYTES_MAX).sum()
            }
            Self::Upload { key, change: UploadChange::Create(new), .. } => {
                ENTRY_BYTES_MAX + key.len() + bytes_of(&new.attributes, &new.tags)
            }
            Self::Upload { key, .. } => ENTRY_BYTES_MAX + key.len(),
            Self::PutPart(put, _) => put.record_bytes_max() + put.content.extent_bytes_max(),
            Self::Complete { key, completion, .. } => {
                let extents: usize = completion.parts.iter().map(|part| part.extents.len()).sum();
                completion.record_bytes_max(key) + extents * EXTENT_BYTES_MAX
            }
            // A record may have got other tags since it was looked at.
            Self::Relocate(relocation, _) => {
                let record = |record: &ReferringRecord| {
                    ENTRY_BYTES_MAX + record.key.len() + record.len + TAGS_BYTES_MAX
                };
                relocation.referrers.iter().map(record).sum()
            }
            Self::SetTags { key, version, tags, .. } => {
                key.len() + version_bytes_max(version) + bytes_of(&Attributes::new(), tags)
            }
        }
    }

    /// What it may take room for. A deletion may still turn out to be upkeep, where it adds a delete marker.
    pub(super) fn claim(&self) -> SpaceClaim {
        match self {
            Self::Bucket(BucketChange::Create { .. }, _)
            | Self::Put(..)
            | Self::Upload { change: UploadChange::Create(_), .. }
            | Self::PutPart(..)
            | Self::Complete { .. } => SpaceClaim::Growth,
            Self::SetTags { tags, .. } if !tags.is_empty() => SpaceClaim::Growth,
            Self::Relocate(..) => SpaceClaim::Upkeep,
            Self::Bucket(..) | Self::Delete { .. } | Self::Upload { .. } | Self::SetTags { .. } => {
                SpaceClaim::Removal
            }
        }
    }

    /// No more than so many bytes of the pack come of it.
    pub(super) fn packed_bytes_max(&self) -> usize {
        match self {
            Self::Put(put, _) => put.content.packed_bytes_max(put.record_bytes_max()),
            Self::PutPart(put, _) => put.content.packed_bytes_max(put.record_bytes_max()),
            Self::Complete { key, completion, .. } => {
                completion.record_bytes_max(key) + completion.parts.len() * SOURCE_BYTES_MAX
            }
            Self::Bucket(..)
            | Self::Delete { .. }
            | Self::Upload { .. }
            | Self::SetTags { .. }
            | Self::Relocate(..) => 0,
        }
    }

    /// The payload that the committer hashes, and the entity tag that becomes its MD5.
    pub(super) fn md5_due(&mut self) -> Option<(&[u8], &mut ETag)> {
        let Self::Put(put, _) = self else { return None };
        let Put { content: Content::Packed { payload, .. }, commit, md5_by_committer: true, .. } = &mut **put
        else {
            return None;
        };
        Some((payload, &mut commit.etag))
    }

    /// The index grows by no more than so many bytes; 0 of what may be done however little is left. To complete an upload is
    /// among that, since the upload takes more than its object, and so are deletions: markers are counted one by one.
    pub(super) fn index_bytes_max(&self) -> u64 {
        let bytes = match self {
            Self::Bucket(BucketChange::Create { .. }, _) => BUCKET_BYTES as usize,
            Self::Put(put, _) => put.index_bytes_max(),
            Self::PutPart(put, _) => UPLOAD_INDEX_BYTES_MAX + put.content.index_bytes_max(),
            Self::Upload { key, change: UploadChange::Create(new), .. } => {
                UPLOAD_INDEX_BYTES_MAX + key.len() + texts_in_memory(&new.attributes, &new.tags)
            }
            Self::SetTags { tags, .. } if !tags.is_empty() => {
                VERSION_INDEX_BYTES_MAX + bytes_of(&Attributes::new(), tags)
            }
            Self::Bucket(..)
            | Self::Upload { .. }
            | Self::SetTags { .. }
            | Self::Delete { .. }
            | Self::Complete { .. }
            | Self::Relocate(..) => 0,
        };
        bytes as u64
    }

    /// Answers that it was not done.
    pub(super) fn reject(self, error: StoreError) {
        // Whoever asked may have gone away: then nobody is told.
        let _ = match self {
            Self::Bucket(_, reply) => reply.send(Err(error)).is_ok(),
            Self::Put(_, reply) | Self::Complete { reply, .. } => reply.send(Err(error)).is_ok(),
            Self::Delete { reply, .. } => reply.send(Err(error)).is_ok(),
            Self::Upload { reply, .. } => reply.send(Err(error)).is_ok(),
            Self::PutPart(_, reply) => reply.send(Err(error)).is_ok(),
            Self::SetTags { reply, .. } | Self::Relocate(_, reply) => reply.send(Err(error)).is_ok(),
        };
    }
}

impl Content {
    /// The parts of what is copied whole, which the copy has, too. No upload made it, so that a client which completes one
    /// again never takes the copy for what came of it.
    pub(super) fn assembly(&self) -> Option<Assembly> {
        let Self::Copied { source: CopyRange { version, range, .. }, .. } = self else { return None };
        let made = version.upload.as_ref().filter(|_| *range == (0..version.size))?;
        Some(Assembly { upload: UploadId::NONE, parts: made.parts.clone() })
    }

    fn part_count(&self) -> usize {
        match self {
            Self::Packed { .. } | Self::Stored { .. } => 0,
            Self::Copied { source, .. } => source.version.upload.as_ref().map_or(0, |made| made.parts.len()),
        }
    }

    fn extent_bytes_max(&self) -> usize {
        match self {
            Self::Packed { .. } => EXTENT_BYTES_MAX,
            Self::Stored(stored) => stored.extents.len() * EXTENT_BYTES_MAX,
            // The source is written again, too, so that its extents say that they are shared.
            Self::Copied { source, .. } => {
                let copied = slices(&source.version.extents, &source.range).len() * EXTENT_BYTES_MAX;
                source.key.len() + version_bytes_max(&source.version) + copied
            }
        }
    }

    fn index_bytes_max(&self) -> usize {
        match self {
            Self::Copied { source, .. } => {
                (source.version.extents.len() + 1) * (EXTENT_BYTES_MAX + SHARED_INDEX_BYTES_MAX)
            }
            Self::Packed { .. } | Self::Stored(_) => self.extent_bytes_max(),
        }
    }

    fn packed_bytes_max(&self, record_bytes_max: usize) -> usize {
        match self {
            Self::Packed { payload, .. } => payload.len() + record_bytes_max,
            // Where the record that was written does not hold any more.
            Self::Stored(_) => record_bytes_max,
            Self::Copied { sources, .. } => record_bytes_max + sources.len() * SOURCE_BYTES_MAX,
        }
    }
}

impl Put {
    fn record_bytes_max(&self) -> usize {
        ENTRY_BYTES_MAX
            + self.key.len()
            + self.content.part_count() * PART_BYTES_MAX
            + bytes_of(&self.commit.attributes, &self.commit.tags)
    }
}

impl Put {
    fn index_bytes_max(&self) -> usize {
        VERSION_INDEX_BYTES_MAX
            + 2 * self.key.len()
            + self.content.index_bytes_max()
            + self.content.part_count() * PART_BYTES_MAX
            + bytes_of(&self.commit.attributes, &self.commit.tags)
    }
}

impl PutPart {
    fn record_bytes_max(&self) -> usize {
        ENTRY_BYTES_MAX + self.key.len() + bytes_of(&self.upload.attributes, &self.upload.tags)
    }
}

impl Completion {
    fn record_bytes_max(&self, key: &str) -> usize {
        ENTRY_BYTES_MAX
            + key.len()
            + self.parts.len() * PART_BYTES_MAX
            + bytes_of(&self.commit.attributes, &self.commit.tags)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::limits::{
        EXTENT_PAYLOAD_MAX_BYTES, GROUP_BODY_MAX_BYTES, OBJECT_SIZE_MAX_BYTES, PUT_SIZE_MAX_BYTES,
    };
    use crate::format::{AssembledPart, ETag, PartRecord, Versioning};

    /// The largest object there may be, of 10,000 parts, each with a last extent of its own and one that brings its record.
    fn largest() -> VersionRecord {
        let parts = 10_000;
        let extent = |payload_len: u64, at: u64| ExtentRef {
            segment: 80_000 + at,
            offset: u64::from(u32::MAX) * 64,
            payload_len: payload_len as u32,
            check: 0,
            skip: 0,
            take: payload_len as u32,
            shared: true,
        };
        let full = OBJECT_SIZE_MAX_BYTES / EXTENT_PAYLOAD_MAX_BYTES;
        let mut extents: Vec<_> = (0..full).map(|at| extent(EXTENT_PAYLOAD_MAX_BYTES, at)).collect();
        extents.extend((0..2 * parts).map(|at| extent(0, at)));
        let part = |number| AssembledPart { number, size: OBJECT_SIZE_MAX_BYTES / 10_000, checksum: None };
        VersionRecord {
            id: VersionId(1),
            null: true,
            delete_marker: false,
            modified: Timestamp::from_millis(1),
            size: OBJECT_SIZE_MAX_BYTES,
            etag: ETag::None,
            extents,
            attributes: Attributes::new(),
            checksums: vec![],
            tags: vec![],
            upload: Some(Assembly { upload: UploadId(1), parts: (1..=parts as u32).map(part).collect() }),
        }
    }

    #[test]
    fn the_largest_part_can_be_copied_from_the_largest_object() {
        let version = largest();
        let mut encoded = Vec::new();
        version.encode(&mut encoded);
        let upload = UploadRecord {
            id: UploadId(2),
            initiated: Timestamp::from_millis(1),
            initiator: "admin".into(),
            checksum: None,
            attributes: Attributes::new(),
            tags: vec![],
        };
        let range = OBJECT_SIZE_MAX_BYTES - PUT_SIZE_MAX_BYTES..OBJECT_SIZE_MAX_BYTES;
        let source = CopyRange { bucket: 1, key: "k".repeat(1024), version, range };
        let content = Content::Copied { source, sources: vec![] };
        let (name, owner, created) = ("b".into(), "admin".into(), Timestamp::from_millis(1));
        let bucket = BucketRecord { id: 1, name, owner, created, versioning: Versioning::Unset };
        let put =
            PutPart { bucket, key: "k".into(), upload, number: 1, content, md5: [0; 16], checksum: None };
        let (reply, _answer) = oneshot::channel::<Result<PartRecord, StoreError>>();
        let bound = Mutation::PutPart(Box::new(put), reply).entry_bytes_max();
        assert!(encoded.len() < bound, "the source is written again");
        assert!(bound as u64 <= GROUP_BODY_MAX_BYTES, "{bound}");
    }
}
