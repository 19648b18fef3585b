//! What the mutations of a group so far have made of the versions of a key. What they have not touched is asked of the
//! index, and only as far as somebody wants to know: a key may have very many versions.

use crate::format::{VersionId, VersionSummary};

/// The changes of one key.
#[derive(Default)]
pub(super) struct KeyChanges {
    /// Newest first.
    added: Vec<VersionSummary>,
    /// Versions of the index that are gone.
    gone: Vec<VersionId>,
    /// Whether the null version of the index is.
    null_gone: bool,
}

impl KeyChanges {
    /// A version is the newest from now on.
    pub(super) fn add(&mut self, version: VersionSummary) {
        if version.null {
            self.added.retain(|old| !old.null);
            self.null_gone = true;
        }
        self.added.insert(0, version);
    }

    /// A version is gone from now on.
    pub(super) fn remove(&mut self, id: VersionId) {
        self.added.retain(|old| old.id != id);
        self.gone.push(id);
    }

    /// The versions that have been added, newest first; they are newer than those of the index.
    pub(super) fn added(&self) -> impl Iterator<Item = VersionSummary> {
        self.added.iter().copied()
    }

    /// Whether a version of the index is still there.
    pub(super) fn keeps(&self, version: &VersionSummary) -> bool {
        !(version.null && self.null_gone || self.gone.contains(&version.id))
    }
}
