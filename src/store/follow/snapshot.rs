//! The walk over the index. Each step takes the index of its moment: later changes of keys that are
//! done follow in the log.

use super::change::{Change, ChangeKind, ChangePlace, KeyRange};
use crate::base::Timestamp;
use crate::format::{Entry, SnapshotCursor};
use crate::index::{Cursor, Index};

/// Keys of a step.
const KEYS_AT_ONCE: usize = 128;

/// A walk over the index.
#[derive(Debug)]
pub(super) struct SnapshotWalk {
    cursor: Cursor,
    /// The last key that is complete.
    done: SnapshotCursor,
}

/// A step of the walk.
pub(super) struct SnapshotStep {
    pub(super) changes: Vec<Change>,
    /// The range that is complete; `None` within a key.
    pub(super) range: Option<KeyRange>,
}

impl SnapshotWalk {
    /// The walk after a place.
    pub(super) fn after(done: SnapshotCursor) -> Self {
        let cursor = match done.bucket {
            0 => Cursor::Start,
            bucket => Cursor::Keys(bucket, Some(done.key.clone())),
        };
        Self { cursor, done }
    }

    /// The changes of the next keys; `None` at the end.
    pub(super) fn step(&mut self, index: &Index, sequence: u64) -> Option<SnapshotStep> {
        let entries = index.walk(&mut self.cursor, KEYS_AT_ONCE);
        if entries.is_empty() {
            return None;
        }
        let changes: Vec<_> = entries.into_iter().filter_map(|entry| change(entry, sequence)).collect();
        // A key with very many versions takes several steps.
        if matches!(self.cursor, Cursor::Versions(..)) {
            return Some(SnapshotStep { changes, range: None });
        }
        let through = self.place(&changes);
        let after = std::mem::replace(&mut self.done, through.clone());
        Some(SnapshotStep { changes, range: Some(KeyRange { after, through: Some(through) }) })
    }

    /// The place that the cursor reached.
    fn place(&self, changes: &[Change]) -> SnapshotCursor {
        match &self.cursor {
            Cursor::Keys(bucket, key) => {
                SnapshotCursor { bucket: *bucket, key: key.clone().unwrap_or_default() }
            }
            _ => changes.iter().rev().find(|change| !change.key.is_empty()).map_or_else(
                || self.done.clone(),
                |last| SnapshotCursor { bucket: last.bucket, key: last.key.clone() },
            ),
        }
    }

    pub(super) fn done(&self) -> &SnapshotCursor {
        &self.done
    }
}

/// A bucket or a version of the index.
fn change(entry: Entry, sequence: u64) -> Option<Change> {
    let at = ChangePlace { sequence, place: 0, time: Timestamp::default() };
    let change = Change::of(entry, at, None, false)?;
    // The walk states what is there now: versions and buckets. Deletions, and configurations, it
    // has none of.
    let time = match &change.kind {
        ChangeKind::Put(record) => record.modified,
        ChangeKind::BucketPut(record) => record.created,
        _ => return None,
    };
    Some(Change { time, ..change })
}
