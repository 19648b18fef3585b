//! The changes of a key by the earlier mutations of a group. All other versions are read from the index one by one on demand,
//! since a key may have very many.

use crate::format::{VersionId, VersionSummary};

/// The changes of one key.
#[derive(Default)]
pub(super) struct KeyChanges {
    /// Newest first.
    added: Vec<VersionSummary>,
    /// Removed versions of the index.
    gone: Vec<VersionId>,
    /// Whether the null version of the index is removed or replaced.
    null_gone: bool,
}

impl KeyChanges {
    /// Adds a version, which becomes the newest.
    pub(super) fn add(&mut self, version: VersionSummary) {
        if version.null {
            self.added.retain(|old| !old.null);
            self.null_gone = true;
        }
        self.added.insert(0, version);
    }

    /// Removes a version.
    pub(super) fn remove(&mut self, id: VersionId) {
        self.added.retain(|old| old.id != id);
        self.gone.push(id);
    }

    /// The added versions, newest first. All are newer than those of the index.
    pub(super) fn added(&self) -> impl Iterator<Item = VersionSummary> {
        self.added.iter().copied()
    }

    /// Whether a version of the index remains.
    pub(super) fn keeps(&self, version: &VersionSummary) -> bool {
        !(version.null && self.null_gone || self.gone.contains(&version.id))
    }
}
