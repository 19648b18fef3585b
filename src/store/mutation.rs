//! What the committer is asked to do, and what it answers.

use std::fmt;

use crossbeam_channel::Sender;

use crate::base::Timestamp;
use crate::format::{
    Attributes, BucketRecord, Checksum, ETag, ExtentRef, VersionId, VersionSummary, Versioning,
};
use crate::store::StoreError;

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

/// The id of a version as clients see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VersionRef {
    /// `null`.
    Null,
    /// An id.
    Id(VersionId),
}

impl fmt::Display for VersionRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Id(id) => id.fmt(f),
        }
    }
}

/// What must hold when a version is put. Decided at the commit, so that of two who race exactly one wins. A delete
/// marker counts as absent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum WriteCondition {
    /// Nothing.
    #[default]
    None,
    /// The key has no current version.
    IfAbsent,
    /// The current version has this entity tag, with or without quotes; `*` is any.
    IfMatch(String),
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
pub struct Written {
    /// Its id.
    pub id: VersionId,
    /// Whether clients see it as `null`.
    pub null: bool,
    /// When.
    pub modified: Timestamp,
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

/// A change of buckets. It is a commit of its own, so that what is decided about objects never depends on it.
#[derive(Debug, Clone)]
pub(super) enum BucketChange {
    Create { name: String, owner: String },
    Delete { name: String },
    SetVersioning { name: String, versioning: Versioning },
}

/// Where the bytes of a version to be put are.
#[derive(Debug)]
pub(super) enum Content {
    /// In memory, to be packed.
    Packed { payload: Vec<u8>, crc: u32 },
    /// In extents that have been synced.
    Stored { extents: Vec<ExtentRef>, id: VersionId, size: u64 },
}

/// A version to be put.
#[derive(Debug)]
pub(super) struct Put {
    /// The bucket as it was when the first byte came.
    pub(super) bucket: BucketRecord,
    pub(super) key: String,
    pub(super) content: Content,
    pub(super) commit: Commit,
}

/// Where an answer goes.
pub(super) type Reply<T> = Sender<Result<T, StoreError>>;

/// What a deletion request is answered: one result for each.
pub(super) type Deletions = Vec<Result<Deleted, StoreError>>;

/// What the committer is asked to do.
pub(super) enum Mutation {
    Bucket(BucketChange, Reply<BucketRecord>),
    Put(Box<Put>, Reply<Written>),
    Delete { bucket: String, deletions: Vec<Deletion>, reply: Reply<Deletions> },
}

/// A generous bound on what an entry has beside keys, extents and attributes.
const ENTRY_BYTES_MAX: usize = 1024;
/// A generous bound on the encoding of one extent.
const EXTENT_BYTES_MAX: usize = 32;

impl Mutation {
    /// No more than so many bytes of entries come of it.
    pub(super) fn entry_bytes_max(&self) -> usize {
        match self {
            Self::Bucket(..) => ENTRY_BYTES_MAX,
            Self::Put(put, _) => put.entry_bytes_max(),
            Self::Delete { deletions, .. } => {
                deletions.iter().map(|d| d.key.len() + ENTRY_BYTES_MAX / 8).sum()
            }
        }
    }

    /// Bytes that it adds to the pack, as far as they count.
    pub(super) fn packed_bytes(&self) -> usize {
        match self {
            Self::Put(put, _) => match &put.content {
                Content::Packed { payload, .. } => payload.len() + put.entry_bytes_max(),
                Content::Stored { .. } => 0,
            },
            _ => 0,
        }
    }

    /// Answers that it was not done.
    pub(super) fn fail(self, error: StoreError) {
        // Whoever asked may have gone away: then nobody is told.
        let _ = match self {
            Self::Bucket(_, reply) => reply.send(Err(error)).is_ok(),
            Self::Put(_, reply) => reply.send(Err(error)).is_ok(),
            Self::Delete { reply, .. } => reply.send(Err(error)).is_ok(),
        };
    }
}

impl Put {
    fn entry_bytes_max(&self) -> usize {
        let tags = self.commit.tags.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let pairs = self.commit.attributes.iter().chain(tags);
        let pairs: usize = pairs.map(|(name, value)| name.len() + value.len() + 8).sum();
        let extents = match &self.content {
            Content::Packed { .. } => 1,
            Content::Stored { extents, .. } => extents.len(),
        };
        ENTRY_BYTES_MAX + self.key.len() + pairs + extents * EXTENT_BYTES_MAX
    }
}
