//! The changes of a key by the earlier mutations of a group. All other versions are read from the
//! index one by one on demand, since a key may have very many.

use std::cell::Cell;
use std::collections::HashSet;

use crate::format::{VersionId, VersionSummary};

/// A version that the group adds.
struct AddedVersion {
    summary: VersionSummary,
    /// The bytes of the index that it counts for.
    index_bytes: u64,
}

/// The changes of one key.
pub(super) struct KeyChanges {
    /// Oldest first.
    added: Vec<AddedVersion>,
    /// Removed versions of the index.
    gone: HashSet<VersionId>,
    /// Whether the null version of the index is removed or replaced.
    null_gone: bool,
    /// No version of the index with a higher version order than this remains. So the newest that
    /// remains is found without passing removed ones again and again.
    newest_below: Cell<u64>,
}

impl Default for KeyChanges {
    fn default() -> Self {
        Self { added: Vec::new(), gone: HashSet::new(), null_gone: false, newest_below: Cell::new(u64::MAX) }
    }
}

impl KeyChanges {
    /// Adds a version, which becomes the newest.
    pub(super) fn add(&mut self, summary: VersionSummary, index_bytes: u64) {
        if summary.null {
            self.added.retain(|old| !old.summary.null);
            self.null_gone = true;
        }
        self.added.push(AddedVersion { summary, index_bytes });
    }

    /// Removes a version.
    pub(super) fn remove(&mut self, id: VersionId) {
        self.added.retain(|old| old.summary.id != id);
        self.gone.insert(id);
    }

    /// The added versions, newest first. All are newer than the index's.
    pub(super) fn added(&self) -> impl Iterator<Item = VersionSummary> {
        self.added.iter().rev().map(|version| version.summary)
    }

    /// The bytes of the index that an added version counts for.
    pub(super) fn index_bytes_of(&self, id: VersionId) -> Option<u64> {
        self.added.iter().find(|version| version.summary.id == id).map(|version| version.index_bytes)
    }

    /// Whether a version of the index remains.
    pub(super) fn keeps(&self, version: &VersionSummary) -> bool {
        !(version.null && self.null_gone || self.gone.contains(&version.id))
    }

    /// The newest version of the index that remains. `newest_up_to` reads the index: the newest
    /// version with at most an order.
    pub(super) fn newest_kept(
        &self,
        newest_up_to: impl Fn(u64) -> Option<(u64, VersionSummary)>,
    ) -> Option<VersionSummary> {
        loop {
            let (order, version) = newest_up_to(self.newest_below.get())?;
            if self.keeps(&version) {
                return Some(version);
            }
            self.newest_below.set(order.checked_sub(1)?);
        }
    }
}
