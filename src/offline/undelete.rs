//! Undoing deletions in buckets with versions.

use crate::base::Timestamp;
use crate::base::limits::PAGE_LEN_MAX;
use crate::store::{
    DeleteCondition, Deletion, ListQuery, Selector, Store, StoreError, VersionRef, VersionSummary,
};

/// A key whose newest version is a delete marker, and that has an older version with data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Undeletable {
    /// The key.
    pub key: String,
    /// The markers above that version, newest first.
    pub markers: Vec<VersionRef>,
    /// The creation time of the oldest marker.
    pub deleted: Timestamp,
    /// The version that becomes current without the markers.
    pub version: VersionSummary,
}

/// A selection of deletions.
#[derive(Debug, Clone, Default)]
pub struct UndeleteQuery {
    /// Only keys with this prefix.
    pub prefix: String,
    /// Only this key.
    pub key: Option<String>,
    /// Only deletions at this time or later.
    pub since: Option<Timestamp>,
}

impl UndeleteQuery {
    /// Whether all later keys are out of the selection.
    fn is_done(&self, seen: Option<&[u8]>) -> bool {
        self.key.is_some() && self.key.as_deref().map(str::as_bytes) != seen
    }

    fn wants(&self, found: &Undeletable) -> bool {
        self.key.as_ref().is_none_or(|key| *key == found.key)
            && self.since.is_none_or(|since| found.deleted >= since)
    }
}

/// The versions of one key seen so far.
struct SeenVersions {
    key: String,
    markers: Vec<VersionRef>,
    deleted: Timestamp,
    /// Whether a version that is not a marker was seen.
    over: bool,
}

impl Store {
    /// Passes the deletions in a bucket that can be undone to `visit`, by key, in batches of at
    /// most one page. `visit` may call [`Store::undelete`].
    ///
    /// # Errors
    /// [`StoreError::NoSuchBucket`], and errors of `visit`.
    pub fn undeletable(
        &self,
        bucket: &str,
        wanted: &UndeleteQuery,
        visit: &mut dyn FnMut(&[Undeletable]) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let prefix = wanted.key.as_ref().unwrap_or(&wanted.prefix).clone().into_bytes();
        let mut query = ListQuery { prefix, limit: PAGE_LEN_MAX, ..ListQuery::default() };
        let mut after = None;
        let mut versions = None;
        loop {
            let page = self.list_versions(bucket, &query, after)?;
            let mut found = Vec::new();
            for (key, listed) in page.keys() {
                after = Some(reference(&listed.version));
                found.extend(next_deletion(&mut versions, &key, listed.version));
                query.after = Some(key.as_bytes().to_vec());
            }
            found.retain(|found| wanted.wants(found));
            if !found.is_empty() {
                visit(&found)?;
            }
            if !page.truncated || wanted.is_done(query.after.as_deref()) {
                return Ok(());
            }
        }
    }

    /// Undoes deletions by removing their markers for good. Durable on return.
    ///
    /// # Errors
    /// Errors of the commit. Markers that were removed before it stay removed.
    pub fn undelete(&self, bucket: &str, deletions: &[Undeletable]) -> Result<(), StoreError> {
        let markers =
            deletions.iter().flat_map(|found| found.markers.iter().map(|marker| (&found.key, *marker)));
        let removals: Vec<_> = markers.map(|(key, marker)| removal(key, marker)).collect();
        for some in removals.chunks(PAGE_LEN_MAX) {
            self.delete(bucket, some.to_vec())?.into_iter().try_for_each(|done| done.map(|_| ()))?;
        }
        Ok(())
    }
}

/// Takes the next version of a listing. Returns the key at its first version that is not a marker,
/// if markers came before.
fn next_deletion(
    versions: &mut Option<SeenVersions>,
    key: &str,
    version: VersionSummary,
) -> Option<Undeletable> {
    if versions.as_ref().is_none_or(|versions| versions.key != key) {
        *versions = Some(SeenVersions {
            key: key.to_owned(),
            markers: Vec::new(),
            deleted: version.modified,
            over: false,
        });
    }
    let versions = versions.as_mut().filter(|versions| !versions.over)?;
    if version.delete_marker {
        versions.markers.push(reference(&version));
        versions.deleted = version.modified;
        return None;
    }
    versions.over = true;
    let markers = std::mem::take(&mut versions.markers);
    let found = Undeletable { key: key.to_owned(), markers, deleted: versions.deleted, version };
    (!found.markers.is_empty()).then_some(found)
}

fn reference(version: &VersionSummary) -> VersionRef {
    if version.null { VersionRef::Null } else { VersionRef::Id(version.id) }
}

fn removal(key: &str, marker: VersionRef) -> Deletion {
    let which = match marker {
        VersionRef::Null => Selector::Null,
        VersionRef::Id(id) => Selector::Id(id),
    };
    Deletion { key: key.to_owned(), which, condition: DeleteCondition::default() }
}
