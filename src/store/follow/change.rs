//! The changes that consumers get.

use std::sync::Arc;

use crate::base::Timestamp;
use crate::format::{
    BucketConfigurationKind, BucketRecord, Cause, Entry, FollowerState, SnapshotCursor, VersionId,
    VersionRecord,
};

/// A change of an object or a bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The group that made it; in a snapshot, the one from which the log follows.
    pub sequence: u64,
    /// Its place among the entries of the group. Sequence and place increase with every change of the log.
    pub place: u32,
    /// The time of the group; in a snapshot, that of the version.
    pub time: Timestamp,
    /// The id of the bucket.
    pub bucket: u64,
    /// The key; empty for a change of a bucket.
    pub key: Vec<u8>,
    /// The kind, with the new value.
    pub kind: ChangeKind,
    /// The request that made it, where the log names it.
    pub cause: Option<Arc<Cause>>,
}

/// The kinds of changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangeKind {
    /// A new version, which may be a delete marker. A null version replaced the one before.
    Put(Box<VersionRecord>),
    /// A version is gone for good.
    Deleted(VersionId),
    /// The tags or the controls of a version were changed. Without a cause only its bytes moved, or it was in use as a source of a
    /// copy.
    Amended(Box<VersionRecord>),
    /// A bucket was created, or its versioning changed.
    BucketPut(BucketRecord),
    /// A bucket is gone.
    BucketDeleted,
    /// A configuration of a bucket was set or removed.
    BucketConfigured(BucketConfigurationKind),
}

/// A place that a consumer hands back when everything before it is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FollowPosition {
    /// Without refused keys, which the follower knows.
    pub(super) state: FollowerState,
    /// Every change up to this time is before the place.
    pub(super) time: Timestamp,
    /// The number of reads with news before the place.
    pub(super) news: u64,
}

/// The keys of a step of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRange {
    /// The keys come after this place.
    pub after: SnapshotCursor,
    /// The last key; `None` where the step ends behind everything.
    pub through: Option<SnapshotCursor>,
}

/// Changes in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangeBatch {
    /// The changes. In a snapshot, the versions of a key are listed oldest first.
    pub changes: Vec<Change>,
    /// The place after them.
    pub end: FollowPosition,
    /// In a snapshot, a range that is complete: all of its keys are among the changes of this batch and those before.
    pub range: Option<KeyRange>,
}

impl FollowPosition {
    /// Whether it is in a walk over everything that there is.
    pub fn is_in_snapshot(&self) -> bool {
        self.state.snapshot.is_some()
    }
}

impl Change {
    /// The change of an entry; `None` for one that concerns no object and no bucket.
    pub(super) fn of(
        entry: Entry,
        (sequence, place, time): (u64, u32, Timestamp),
        cause: Option<Arc<Cause>>,
    ) -> Option<Self> {
        let (bucket, key, kind) = match entry {
            Entry::VersionPut { bucket, key, record } => (bucket, key, ChangeKind::Put(Box::new(record))),
            Entry::VersionDelete { bucket, key, version } => (bucket, key, ChangeKind::Deleted(version)),
            Entry::VersionAmend { bucket, key, record } => {
                (bucket, key, ChangeKind::Amended(Box::new(record)))
            }
            Entry::BucketPut(record) => (record.id, Vec::new(), ChangeKind::BucketPut(record)),
            Entry::BucketDelete { id } => (id, Vec::new(), ChangeKind::BucketDeleted),
            Entry::BucketConfiguration { bucket, kind, .. } => {
                (bucket, Vec::new(), ChangeKind::BucketConfigured(kind))
            }
            Entry::OwnerQuota { .. }
            | Entry::RemoteSegment { .. }
            | Entry::Follower { .. }
            | Entry::Cause(_)
            | Entry::UploadPut { .. }
            | Entry::UploadDelete { .. }
            | Entry::PartPut { .. }
            | Entry::CheckpointEnd(_) => return None,
        };
        Some(Self { sequence, place, time, bucket, key, kind, cause })
    }
}
