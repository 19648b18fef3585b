//! Bounds on the bytes that a mutation adds to the log, to a pack and to the index. The committer
//! checks them before it decides.

use crate::base::limits::{
    ENCRYPTION_CONTEXT_MAX_BYTES, TAG_KEY_LEN_MAX_CHARS, TAG_VALUE_LEN_MAX_CHARS, TAGS_MAX,
    XML_BODY_MAX_BYTES,
};
use crate::format::{Attributes, Cause, FollowerNote, FollowerState, VersionRecord, WrappedKey};
use crate::index::{BUCKET_BYTES, OWNER_BYTES, configuration_bytes, follower_bytes, follower_note_bytes};
use crate::store::commit::mutation::{
    BucketChange, Content, Mutation, Put, PutPart, RewrappedKeys, UploadChange,
};
use crate::store::shared::extents::slices;
use crate::store::{Completion, ExpiringItem};

/// A generous bound on the bytes of an entry without keys, extents, parts and attributes.
const ENTRY_BYTES_MAX: usize = 1024;
/// The same for a deletion.
const DELETION_BYTES_MAX: usize = 128;
/// The longest document of notifications that is stated again before the end of its bucket. Those
/// of clients are not longer.
pub(in crate::store) const RESTATED_MAX_BYTES: usize = XML_BODY_MAX_BYTES;
/// A generous bound on the encoding of one extent.
pub(in crate::store) const EXTENT_BYTES_MAX: usize = 32;
/// A bound on the encoding of one source: three varints.
const SOURCE_BYTES_MAX: usize = 30;
/// A generous bound on the tags of a version: a character has at most four bytes.
const TAGS_BYTES_MAX: usize = TAGS_MAX * 4 * (TAG_KEY_LEN_MAX_CHARS + TAG_VALUE_LEN_MAX_CHARS + 4);
/// A generous bound on the bytes of one part in the record of a version.
const PART_BYTES_MAX: usize = 80;

/// Parts that are read in about the time of a lookup in the index.
const PARTS_PER_LOOKUP: usize = 16;

/// A generous bound on the memory of a version in the index without the above: its share of a leaf,
/// and of the overhead of a split. The key is stored in a leaf, and may be stored in a parent, too.
const VERSION_INDEX_BYTES_MAX: usize = 512;
/// The same for an upload and its first part, without attributes and tags.
const UPLOAD_INDEX_BYTES_MAX: usize = 1024;
/// The overhead of an allocation.
const TEXT_BYTES_MAX: usize = 32;
/// The memory of an extent once it is shared.
const SHARED_INDEX_BYTES_MAX: usize = 256;

/// A bound on the memory of a delete marker in the index.
pub(in crate::store) fn marker_index_bytes_max(key: &[u8]) -> u64 {
    (VERSION_INDEX_BYTES_MAX + 2 * key.len()) as u64
}

/// The lookups that take about the time of an upload with so many parts.
pub(in crate::store) fn lookups_of_parts(parts: usize) -> usize {
    1 + parts / PARTS_PER_LOOKUP
}

fn bytes_of(attributes: &Attributes, tags: &[(String, String)]) -> usize {
    let tags = tags.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    attributes.iter().chain(tags).map(|(name, value)| name.len() + value.len() + 8).sum()
}

/// The same in the memory of an upload, where each name and each value is an allocation.
fn texts_in_memory(attributes: &Attributes, tags: &[(String, String)]) -> usize {
    bytes_of(attributes, tags)
        + (attributes.iter().count() + tags.len()) * 2 * (size_of::<String>() + TEXT_BYTES_MAX)
}

/// A bound on the bytes of the progress of a follower.
fn follower_bytes_max(state: &FollowerState) -> usize {
    let cursor = state.snapshot.as_ref().map_or(0, |cursor| cursor.key.len());
    cursor + state.refused.keys.len() * ENTRY_BYTES_MAX + state.refused.text_bytes()
}

fn note_bytes_max(name: &str, note: &FollowerNote) -> usize {
    ENTRY_BYTES_MAX + name.len() + note.key.len() + note.value.as_ref().map_or(0, Vec::len)
}

fn version_bytes_max(version: &VersionRecord) -> usize {
    let parts = version.upload.as_ref().map_or(0, |assembly| assembly.parts.len());
    ENTRY_BYTES_MAX
        + version.extents.len() * EXTENT_BYTES_MAX
        + parts * PART_BYTES_MAX
        + version.encryption.as_ref().map_or(0, |encryption| encryption.bytes_max())
        + bytes_of(&version.attributes, &version.tags)
}

/// A bound on the bytes of a cause beside its texts.
const CAUSE_BYTES_MAX: usize = 64;

fn cause_bytes_max(cause: &Cause) -> usize {
    let texts = [&cause.operation, &cause.user, &cause.address, &cause.request];
    let origins = cause.origins.iter().map(|origin| CAUSE_BYTES_MAX + origin.len()).sum::<usize>();
    2 * CAUSE_BYTES_MAX + origins + texts.iter().map(|text| text.len()).sum::<usize>()
}

impl Mutation {
    /// A bound on the bytes of its entries.
    pub(in crate::store) fn entry_bytes_max(&self) -> usize {
        match self {
            Self::Bucket(change, _) => change.entry_bytes_max(),
            Self::OwnerQuota { owner, document, .. } => {
                ENTRY_BYTES_MAX + owner.len() + document.as_ref().map_or(0, Vec::len)
            }
            Self::RemoteSegment { .. } => ENTRY_BYTES_MAX,
            Self::Follower { name, state, .. } => {
                ENTRY_BYTES_MAX + name.len() + state.as_ref().map_or(0, follower_bytes_max)
            }
            Self::FollowerNotes { name, notes, .. } => {
                notes.iter().map(|note| note_bytes_max(name, note)).sum()
            }
            Self::Caused(mutation, cause) => mutation.entry_bytes_max() + cause_bytes_max(cause),
            Self::Put(put, _) => put.record_bytes_max() + put.content.extent_bytes_max(),
            Self::Delete { deletions, .. } => {
                deletions.iter().map(|d| d.key.len() + DELETION_BYTES_MAX).sum()
            }
            Self::Expire(request, _) => request.items.iter().map(ExpiringItem::entry_bytes_max).sum(),
            Self::Upload { key, change: UploadChange::Create(new, encryption), .. } => {
                let wrapped = encryption.as_ref().map_or(0, |wrapped| wrapped.index_bytes() as usize);
                ENTRY_BYTES_MAX + key.len() + wrapped + bytes_of(&new.attributes, &new.tags)
            }
            Self::Upload { key, .. } => ENTRY_BYTES_MAX + key.len(),
            Self::PutPart(put, _) => put.record_bytes_max() + put.content.extent_bytes_max(),
            Self::Complete { key, completion, sealed, .. } => {
                let extents: usize = completion.parts.iter().map(|part| part.extents.len()).sum();
                completion.record_bytes_max(key, sealed) + extents * EXTENT_BYTES_MAX
            }
            // The tags of a record may have changed since the caller read it.
            Self::Relocate(relocation, _) => {
                let mut bytes = 0;
                for record in &relocation.referrers {
                    bytes += ENTRY_BYTES_MAX + record.key.len() + record.len + TAGS_BYTES_MAX;
                }
                bytes
            }
            Self::Rewrap(changes, _) => {
                let mut bytes = 0;
                for RewrappedKeys { record, keys, .. } in changes {
                    let keys: u64 = keys.iter().map(WrappedKey::index_bytes).sum();
                    bytes += ENTRY_BYTES_MAX + record.key.len() + record.len + TAGS_BYTES_MAX + keys as usize;
                }
                bytes
            }
            Self::Amend { key, version, change, .. } => {
                key.len() + version_bytes_max(version) + bytes_of(&Attributes::new(), change.tags())
            }
        }
    }

    /// A bound on the keys, versions and parts that are looked up in the index to decide it.
    pub(in crate::store) fn lookups_max(&self) -> usize {
        match self {
            Self::Caused(mutation, _) => mutation.lookups_max(),
            Self::Delete { deletions, .. } => deletions.len().max(1),
            Self::Expire(request, _) => request.items.len().max(1),
            Self::Relocate(relocation, _) => relocation.referrers.len().max(1),
            Self::Rewrap(changes, _) => changes.len().max(1),
            // The parts are read one after another.
            Self::Complete { completion, .. } => lookups_of_parts(completion.parts.len()),
            Self::Upload { change: UploadChange::Abort { parts, .. }, .. } => lookups_of_parts(*parts),
            Self::Bucket(..)
            | Self::Put(..)
            | Self::PutPart(..)
            | Self::Upload { .. }
            | Self::Amend { .. }
            | Self::OwnerQuota { .. }
            | Self::RemoteSegment { .. }
            | Self::Follower { .. }
            | Self::FollowerNotes { .. } => 1,
        }
    }

    /// A bound on its bytes in the pack.
    pub(in crate::store) fn packed_bytes_max(&self) -> usize {
        match self {
            Self::Caused(mutation, _) => mutation.packed_bytes_max(),
            Self::Put(put, _) => put.content.packed_bytes_max(put.record_bytes_max()),
            Self::PutPart(put, _) => put.content.packed_bytes_max(put.record_bytes_max()),
            Self::Complete { key, completion, sealed, .. } => {
                completion.record_bytes_max(key, sealed) + completion.parts.len() * SOURCE_BYTES_MAX
            }
            Self::Amend { key, change, .. } if change.is_of_controls() => ENTRY_BYTES_MAX + key.len(),
            Self::Bucket(..)
            | Self::Delete { .. }
            | Self::Expire(..)
            | Self::Upload { .. }
            | Self::Amend { .. }
            | Self::OwnerQuota { .. }
            | Self::RemoteSegment { .. }
            | Self::Follower { .. }
            | Self::FollowerNotes { .. }
            | Self::Rewrap(..)
            | Self::Relocate(..) => 0,
        }
    }

    /// A bound on the growth of the index in bytes; 0 for mutations that a full index accepts. A
    /// completion is one of them, since the upload takes more memory than the object. So is a
    /// deletion, whose delete markers are counted one by one.
    pub(in crate::store) fn index_bytes_max(&self) -> u64 {
        let bytes = match self {
            Self::Caused(mutation, _) => return mutation.index_bytes_max(),
            Self::Bucket(change, _) => change.index_bytes_max(),
            Self::OwnerQuota { owner, document: Some(document), .. } => {
                owner.len() + ENTRY_BYTES_MAX + configuration_bytes(document.len()) as usize
            }
            Self::Follower { name, state: Some(state), .. } => follower_bytes(name, state) as usize,
            Self::FollowerNotes { name, notes, .. } => {
                notes.iter().map(|note| follower_note_bytes(name, note) as usize).sum()
            }
            Self::Put(put, _) => put.index_bytes_max(),
            Self::PutPart(put, _) => {
                let encryption = put.encryption.as_ref().map_or(0, |encryption| encryption.bytes_max());
                UPLOAD_INDEX_BYTES_MAX + encryption + put.content.index_bytes_max()
            }
            Self::Upload { key, change: UploadChange::Create(new, encryption), .. } => {
                let wrapped = encryption.as_ref().map_or(0, |wrapped| 2 * wrapped.index_bytes() as usize);
                UPLOAD_INDEX_BYTES_MAX + key.len() + wrapped + texts_in_memory(&new.attributes, &new.tags)
            }
            Self::Amend { change, .. } if change.adds() => {
                VERSION_INDEX_BYTES_MAX + bytes_of(&Attributes::new(), change.tags())
            }
            Self::Upload { .. }
            | Self::Amend { .. }
            | Self::Delete { .. }
            | Self::Expire(..)
            | Self::Complete { .. }
            | Self::OwnerQuota { .. }
            | Self::RemoteSegment { .. }
            | Self::Follower { state: None, .. }
            | Self::Rewrap(..)
            | Self::Relocate(..) => 0,
        };
        bytes as u64
    }
}

impl BucketChange {
    /// The documents of its configurations.
    fn documents(&self) -> impl Iterator<Item = &[u8]> {
        let (created, set) = match self {
            Self::Create(new) => (&new.configurations[..], None),
            Self::Configure { document, .. } => (&[][..], document.as_deref()),
            Self::Delete { .. } | Self::SetVersioning { .. } => (&[][..], None),
        };
        created.iter().map(|(_, document)| &document[..]).chain(set)
    }

    fn entry_bytes_max(&self) -> usize {
        let restated =
            if matches!(self, Self::Delete { .. }) { ENTRY_BYTES_MAX + RESTATED_MAX_BYTES } else { 0 };
        let documents = self.documents().map(|document| document.len() + ENTRY_BYTES_MAX).sum::<usize>();
        ENTRY_BYTES_MAX + restated + documents
    }

    fn index_bytes_max(&self) -> usize {
        let bucket = if matches!(self, Self::Create(_)) { BUCKET_BYTES + OWNER_BYTES } else { 0 };
        let configurations: u64 = self.documents().map(|document| configuration_bytes(document.len())).sum();
        (bucket + configurations) as usize
    }
}

impl Content {
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
            // The record of the source is written again, with its extents marked as shared.
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
            // For another record, if the provisional one is not valid.
            Self::Stored(_) => record_bytes_max,
            Self::Copied { sources, .. } => record_bytes_max + sources.len() * SOURCE_BYTES_MAX,
        }
    }
}

impl Put {
    fn record_bytes_max(&self) -> usize {
        ENTRY_BYTES_MAX
            + self.encryption.as_ref().map_or(0, |encryption| encryption.bytes_max())
            + self.key.len()
            + self.content.part_count() * PART_BYTES_MAX
            + bytes_of(&self.commit.attributes, &self.commit.tags)
    }

    fn index_bytes_max(&self) -> usize {
        VERSION_INDEX_BYTES_MAX
            + self.encryption.as_ref().map_or(0, |encryption| encryption.bytes_max())
            + 2 * self.key.len()
            + self.content.index_bytes_max()
            + self.content.part_count() * PART_BYTES_MAX
            + bytes_of(&self.commit.attributes, &self.commit.tags)
    }
}

impl PutPart {
    fn record_bytes_max(&self) -> usize {
        let upload = self.upload.encryption.as_ref().map_or(0, |key| key.index_bytes() as usize);
        ENTRY_BYTES_MAX
            + self.key.len()
            + upload
            + self.encryption.as_ref().map_or(0, |encryption| encryption.bytes_max())
            + bytes_of(&self.upload.attributes, &self.upload.tags)
    }
}

impl Completion {
    /// The key of the upload fits in what is left of [`ENTRY_BYTES_MAX`], but for its context.
    fn record_bytes_max(&self, key: &str, sealed: &[u8]) -> usize {
        let encryptions = self.parts.iter().filter_map(|part| part.encryption.as_ref());
        ENTRY_BYTES_MAX
            + key.len()
            + sealed.len()
            + ENCRYPTION_CONTEXT_MAX_BYTES
            + encryptions.map(|encryption| encryption.bytes_max()).sum::<usize>()
            + self.parts.len() * PART_BYTES_MAX
            + bytes_of(&self.commit.attributes, &self.commit.tags)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Timestamp;
    use crate::base::limits::{
        EXTENT_PAYLOAD_MAX_BYTES, GROUP_BODY_MAX_BYTES, OBJECT_SIZE_MAX_BYTES, PUT_SIZE_MAX_BYTES,
    };
    use crate::format::{
        AssembledPart, Assembly, BucketRecord, ETag, ExtentRef, PartRecord, UploadId, UploadRecord,
        VersionId, Versioning,
    };
    use crate::store::{CopyRange, ObjectControls, StorageClass, StoreError};

    /// The largest object there may be, of 10,000 parts, each with a last extent of its own and one
    /// that brings its record.
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
            storage_class: StorageClass::Standard,
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
            controls: ObjectControls::default(),
            controls_stamp: None,
            encryption: None,
            stated_time: None,
        }
    }

    #[test]
    fn the_largest_part_can_be_copied_from_the_largest_object() {
        let version = largest();
        let mut encoded = Vec::new();
        version.encode(&mut encoded);
        let upload = UploadRecord {
            storage_class: StorageClass::Standard,
            id: UploadId(2),
            initiated: Timestamp::from_millis(1),
            initiator: "admin".into(),
            checksum: None,
            attributes: Attributes::new(),
            tags: vec![],
            controls: ObjectControls::default(),
            encryption: None,
        };
        let range = OBJECT_SIZE_MAX_BYTES - PUT_SIZE_MAX_BYTES..OBJECT_SIZE_MAX_BYTES;
        let source = CopyRange { bucket: 1, key: "k".repeat(1024), version, range };
        let content = Content::Copied { source: Box::new(source), sources: vec![] };
        let name = "b".into();
        let owner = "admin".into();
        let created = Timestamp::from_millis(1);
        let bucket = BucketRecord { id: 1, name, owner, created, versioning: Versioning::Unset };
        let put = PutPart {
            bucket,
            key: "k".into(),
            upload,
            number: 1,
            content,
            md5: [0; 16],
            checksum: None,
            encryption: None,
        };
        let (reply, _answer) = oneshot::channel::<Result<PartRecord, StoreError>>();
        let bound = Mutation::PutPart(Box::new(put), reply).entry_bytes_max();
        assert!(encoded.len() < bound, "the source is written again");
        assert!(bound as u64 <= GROUP_BODY_MAX_BYTES, "{bound}");
    }
}
