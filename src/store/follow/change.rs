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
    /// Its place among the entries of the group. Sequence and place increase with every change of
    /// the log.
    pub place: u32,
    /// The time of the group; in a snapshot, the version's.
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
    Deleted(DeletedVersion),
    /// The tags or the controls of a version were changed. Without a cause only its bytes moved, or
    /// it was in use as a source of a copy.
    Amended(Box<VersionRecord>),
    /// A bucket was created, or its versioning changed.
    BucketPut(BucketRecord),
    /// A bucket is gone.
    BucketDeleted,
    /// A configuration of a bucket was set or removed.
    BucketConfigured(BucketConfigurationKind),
}

/// A version that is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeletedVersion {
    /// Its id.
    pub id: VersionId,
    /// Whether it was a null version. The log of earlier versions of the server does not say.
    pub null: bool,
}

/// Changes that a follower does not get, since the log was not kept for so long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LostChanges {
    /// The last group that was done before them, or an earlier one.
    pub after: u64,
    /// The last group of them.
    pub through: u64,
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
    /// In a snapshot, a range that is complete: all of its keys are among the changes of this batch
    /// and those before.
    pub range: Option<KeyRange>,
    /// The changes that were lost before this batch, for a follower that does not walk. They are
    /// lost again until the place is saved.
    pub lost: Option<LostChanges>,
}

impl FollowPosition {
    /// The last group before it; 0 in a walk.
    pub fn read_through(&self) -> u64 {
        if self.state.snapshot.is_some() { 0 } else { self.state.position.sequence }
    }

    /// Whether it is in a walk over everything that there is.
    pub fn is_in_snapshot(&self) -> bool {
        self.state.snapshot.is_some()
    }
}

/// The place of an entry in the log.
#[derive(Clone, Copy)]
pub(super) struct ChangePlace {
    /// The sequence of its group.
    pub(super) sequence: u64,
    /// Its place in the group.
    pub(super) place: u32,
    /// The time of the group.
    pub(super) time: Timestamp,
}

impl Change {
    /// The change of an entry, with `null` of a null version; `None` for one that concerns no
    /// object and no bucket.
    pub(super) fn of(entry: Entry, at: ChangePlace, cause: Option<Arc<Cause>>, null: bool) -> Option<Self> {
        let (bucket, key, kind) = match entry {
            Entry::VersionPut { bucket, key, record } => (bucket, key, ChangeKind::Put(Box::new(record))),
            Entry::VersionDelete { bucket, key, version: id } => {
                (bucket, key, ChangeKind::Deleted(DeletedVersion { id, null }))
            }
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
            | Entry::FollowerNote { .. }
            | Entry::Cause(_)
            | Entry::NullDeletion
            | Entry::Origin(_)
            | Entry::UploadPut { .. }
            | Entry::UploadDelete { .. }
            | Entry::PartPut { .. }
            | Entry::CheckpointEnd(_) => return None,
        };
        let ChangePlace { sequence, place, time } = at;
        Some(Self { sequence, place, time, bucket, key, kind, cause })
    }
}
