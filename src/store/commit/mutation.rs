//! The mutations that callers submit to the committer, and their bounds.

mod bounds;

use std::collections::HashMap;
use std::sync::Arc;

use crate::base::Timestamp;
use crate::format::{
    Assembly, BucketConfigurationKind, BucketRecord, Cause, Checksum, ETag, ExtentRef, FollowerNote,
    FollowerState, PartEncryption, PartRecord, PayloadSource, RemoteCopy, UploadId, UploadRecord,
    VersionEncryption, VersionId, VersionRecord, Versioning, WrappedKey,
};
use crate::index::Liveness;
use crate::log::{ExtentLocation, SpaceClaim};
use crate::store::commit::requests::VersionChange;
use crate::store::{
    Commit, CommittedVersion, Completion, CopyRange, Deleted, Deletion, ExpiryOutcome, ExpiryRequest,
    NewBucket, NewUpload, StoreError,
};

pub(in crate::store) use bounds::{
    EXTENT_BYTES_MAX, RESTATED_MAX_BYTES, lookups_of_parts, marker_index_bytes_max,
};

/// A change of a bucket. It is the only mutation of its group, so that decisions about objects
/// never depend on it.
#[derive(Debug, Clone)]
pub(in crate::store) enum BucketChange {
    Create(NewBucket),
    Delete {
        name: String,
    },
    SetVersioning {
        name: String,
        versioning: Versioning,
    },
    /// Sets a configuration, or removes it where `document` is `None`.
    Configure {
        name: String,
        kind: BucketConfigurationKind,
        document: Option<Vec<u8>>,
    },
}

/// The location of the bytes of a new version or part.
#[derive(Debug)]
pub(in crate::store) enum Content {
    /// In memory; the committer packs them. An encrypted payload is longer than the size.
    Packed { payload: Vec<u8>, size: u64, crc: u32 },
    /// In synced extents.
    Stored(StoredContent),
    /// In the extents of a version, which `sources` names for good.
    Copied { source: Box<CopyRange>, sources: Vec<PayloadSource> },
}

/// Synced extents. The last one carries a provisional record with these fields.
#[derive(Debug)]
pub(in crate::store) struct StoredContent {
    pub(in crate::store) extents: Vec<ExtentRef>,
    /// The id of the write that the extents belong to.
    pub(in crate::store) write: u64,
    pub(in crate::store) id: u64,
    pub(in crate::store) size: u64,
    pub(in crate::store) modified: Timestamp,
    /// Whether an object becomes a null version.
    pub(in crate::store) null: bool,
}

/// The commit of a version.
#[derive(Debug)]
pub(in crate::store) struct Put {
    /// The bucket at the time of the first byte.
    pub(in crate::store) bucket: BucketRecord,
    pub(in crate::store) key: String,
    pub(in crate::store) content: Content,
    pub(in crate::store) commit: Commit,
    /// How the content is encrypted.
    pub(in crate::store) encryption: Option<Box<VersionEncryption>>,
    /// Whether the committer sets the entity tag to the MD5 of a packed payload
    /// (`base::md5_policy`).
    pub(in crate::store) md5_by_committer: bool,
}

/// The commit of a part.
#[derive(Debug)]
pub(in crate::store) struct PutPart {
    /// The bucket at the time of the first byte.
    pub(in crate::store) bucket: BucketRecord,
    pub(in crate::store) key: String,
    /// The upload. Its record never changes.
    pub(in crate::store) upload: UploadRecord,
    pub(in crate::store) number: u32,
    pub(in crate::store) content: Content,
    pub(in crate::store) md5: [u8; 16],
    pub(in crate::store) checksum: Option<Checksum>,
    /// How the content is encrypted, with the key of the upload.
    pub(in crate::store) encryption: Option<Box<PartEncryption>>,
}

/// Extents that have been copied to another location, and the records that refer to them.
#[derive(Debug)]
pub(in crate::store) struct Relocation {
    pub(in crate::store) referrers: Vec<ReferringRecord>,
    /// Copies without a reference. The caller holds their allocations.
    pub(in crate::store) fresh: HashMap<ExtentLocation, ExtentLocation>,
    /// Copies of shared extents that other records refer to, unless those have been deleted.
    pub(in crate::store) shared: HashMap<ExtentLocation, ExtentLocation>,
}

/// The keys of a record, wrapped anew.
#[derive(Debug)]
pub(in crate::store) struct RewrappedKeys {
    pub(in crate::store) record: ReferringRecord,
    /// The keys that the record had.
    pub(in crate::store) before: Vec<WrappedKey>,
    /// The same keys, wrapped by another master key.
    pub(in crate::store) keys: Vec<WrappedKey>,
}

/// A record that refers to extents, or has wrapped keys.
#[derive(Debug, Clone)]
pub(in crate::store) struct ReferringRecord {
    pub(in crate::store) bucket: u64,
    pub(in crate::store) key: Vec<u8>,
    pub(in crate::store) id: RecordId,
    /// Bytes of the record.
    pub(in crate::store) len: usize,
}

/// Identifies a record of a key.
#[derive(Debug, Clone, Copy)]
pub(in crate::store) enum RecordId {
    Version(VersionId),
    Part { upload: UploadId, number: u32, id: u64 },
    Upload(UploadId),
}

impl ReferringRecord {
    /// A version, whose record has so many bytes.
    pub(in crate::store) fn of_version(bucket: u64, key: Vec<u8>, id: VersionId, len: usize) -> Self {
        Self { bucket, key, id: RecordId::Version(id), len }
    }

    /// An upload, likewise.
    pub(in crate::store) fn of_upload(bucket: u64, key: Vec<u8>, id: UploadId, len: usize) -> Self {
        Self { bucket, key, id: RecordId::Upload(id), len }
    }
}

impl Relocation {
    /// The new location of an extent, if it was moved.
    pub(in crate::store) fn new_spot(
        &self,
        extent: &ExtentRef,
        liveness: &Liveness,
    ) -> Option<ExtentLocation> {
        let from = (extent.segment, extent.offset);
        if let Some(copy) = self.fresh.get(&from) {
            return Some(*copy);
        }
        let shared = self.shared.get(&from);
        shared.filter(|(segment, offset)| liveness.is_shared(*segment, *offset)).copied()
    }
}

/// A change of a multipart upload itself, not of its parts.
#[derive(Debug)]
pub(in crate::store) enum UploadChange {
    /// With the wrapped key that is to encrypt its parts.
    Create(NewUpload, Option<Box<WrappedKey>>),
    Abort {
        upload: UploadId,
        /// About as many parts as it had before.
        parts: usize,
    },
}

/// The sender of a result. The receiver sleeps without spinning first: a sync takes too long for
/// that.
pub(in crate::store) type Reply<T> = oneshot::Sender<Result<T, StoreError>>;

/// The result of each deletion of a request.
pub(in crate::store) type DeletionResults = Vec<Result<Deleted, StoreError>>;

/// A change that the committer decides and makes durable.
pub(in crate::store) enum Mutation {
    Bucket(BucketChange, Reply<BucketRecord>),
    Put(Box<Put>, Reply<CommittedVersion>),
    Delete {
        bucket: String,
        deletions: Vec<Deletion>,
        /// Whether versions in governance mode go, too.
        bypass_governance: bool,
        reply: Reply<DeletionResults>,
    },
    /// Expiries, decided alone: their conditions are read from the index.
    Expire(Box<ExpiryRequest>, Reply<Vec<ExpiryOutcome>>),
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
        /// What the record of an encrypted object seals.
        sealed: Vec<u8>,
        reply: Reply<CommittedVersion>,
    },
    Relocate(Box<Relocation>, Reply<()>),
    /// Keys wrapped anew. Replies with the number of records that had them still. It is the only
    /// mutation of its group.
    Rewrap(Vec<RewrappedKeys>, Reply<u64>),
    /// Sets or removes the quota of an owner. It is the only mutation of its group.
    OwnerQuota {
        owner: String,
        document: Option<Vec<u8>>,
        reply: Reply<()>,
    },
    /// Sets or removes the remote copy of a segment. It is the only mutation of its group.
    RemoteSegment {
        segment: u64,
        copy: Option<RemoteCopy>,
        reply: Reply<()>,
    },
    /// Saves or removes the progress of a follower. It is the only mutation of its group.
    Follower {
        name: String,
        state: Option<FollowerState>,
        reply: Reply<()>,
    },
    /// Sets or removes notes of a follower. It is the only mutation of its group.
    FollowerNotes {
        name: String,
        notes: Vec<FollowerNote>,
        reply: Reply<()>,
    },
    /// The version that the caller found, and the change of its metadata.
    Amend {
        bucket: String,
        key: String,
        version: Box<VersionRecord>,
        change: VersionChange,
        reply: Reply<()>,
    },
    /// A mutation on behalf of a request.
    Caused(Box<Mutation>, Arc<Cause>),
}

impl Mutation {
    /// The mutation itself.
    pub(in crate::store) fn without_cause(&self) -> &Self {
        match self {
            Self::Caused(mutation, _) => mutation.without_cause(),
            other => other,
        }
    }

    /// The claim on disk space. A deletion that adds a delete marker turns out to be upkeep later.
    pub(in crate::store) fn claim(&self) -> SpaceClaim {
        match self {
            Self::Bucket(BucketChange::Create(_) | BucketChange::Configure { document: Some(_), .. }, _)
            | Self::Put(..)
            | Self::Upload { change: UploadChange::Create(..), .. }
            | Self::PutPart(..)
            | Self::OwnerQuota { document: Some(_), .. }
            | Self::Complete { .. } => SpaceClaim::Growth,
            Self::Amend { change, .. } if change.adds() => SpaceClaim::Growth,
            Self::Relocate(..)
            | Self::Rewrap(..)
            | Self::RemoteSegment { .. }
            | Self::FollowerNotes { .. }
            | Self::Follower { state: Some(_), .. } => SpaceClaim::Upkeep,
            Self::Bucket(..)
            | Self::Delete { .. }
            | Self::Expire(..)
            | Self::Upload { .. }
            | Self::Amend { .. }
            | Self::Follower { .. }
            | Self::OwnerQuota { .. } => SpaceClaim::Removal,
            Self::Caused(mutation, _) => mutation.claim(),
        }
    }

    /// The payload that the committer hashes, and the entity tag that becomes its MD5.
    pub(in crate::store) fn md5_due(&mut self) -> Option<(&[u8], &mut ETag)> {
        let put = match self {
            Self::Put(put, _) => put,
            Self::Caused(mutation, _) => return mutation.md5_due(),
            _ => return None,
        };
        let Put { content: Content::Packed { payload, .. }, commit, md5_by_committer: true, .. } = &mut **put
        else {
            return None;
        };
        Some((payload, &mut commit.etag))
    }

    /// Replies with an error.
    pub(in crate::store) fn reject(self, error: StoreError) {
        // A caller that has gone away needs no reply.
        let _ = match self {
            Self::Bucket(_, reply) => reply.send(Err(error)).is_ok(),
            Self::Put(_, reply) | Self::Complete { reply, .. } => reply.send(Err(error)).is_ok(),
            Self::Delete { reply, .. } => reply.send(Err(error)).is_ok(),
            Self::Expire(_, reply) => reply.send(Err(error)).is_ok(),
            Self::Upload { reply, .. } => reply.send(Err(error)).is_ok(),
            Self::PutPart(_, reply) => reply.send(Err(error)).is_ok(),
            Self::Rewrap(_, reply) => reply.send(Err(error)).is_ok(),
            Self::Amend { reply, .. }
            | Self::Relocate(_, reply)
            | Self::OwnerQuota { reply, .. }
            | Self::RemoteSegment { reply, .. }
            | Self::FollowerNotes { reply, .. }
            | Self::Follower { reply, .. } => reply.send(Err(error)).is_ok(),
            Self::Caused(mutation, _) => {
                mutation.reject(error);
                true
            }
        };
    }
}

impl Content {
    /// The bytes of the version or part.
    pub(in crate::store) fn size(&self) -> u64 {
        match self {
            Self::Packed { size, .. } => *size,
            Self::Stored(stored) => stored.size,
            Self::Copied { source, .. } => source.range.end - source.range.start,
        }
    }

    /// The parts of an object that is copied whole; the copy has the same. It names no upload: a
    /// client that repeats a completion must not mistake the copy for its result.
    pub(in crate::store) fn assembly(&self) -> Option<Assembly> {
        let Self::Copied { source, .. } = self else { return None };
        let CopyRange { version, range, .. } = &**source;
        let made = version.upload.as_ref().filter(|_| *range == (0..version.size))?;
        Some(Assembly { upload: UploadId::NONE, parts: made.parts.clone() })
    }
}
