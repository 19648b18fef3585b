//! Pages of versions and delete markers: keys ascending, the versions of a key newest first.

use std::ops::Bound;

use crate::format::{ClientIds, VersionId, VersionSummary};
use crate::index::keys::{KeyScan, Keys};
use crate::index::listing::{ListPage, ListQuery, scan_from};

/// A version as clients name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VersionRef {
    /// `null`.
    Null,
    /// An id.
    Id(VersionId),
}

impl VersionRef {
    /// The text that clients see.
    pub fn text(self, ids: &ClientIds) -> String {
        match self {
            Self::Null => "null".to_owned(),
            Self::Id(id) => ids.of_version(id).to_string(),
        }
    }
}

/// A version or a delete marker in a listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListedVersion {
    /// The version.
    pub version: VersionSummary,
    /// Whether it is the newest version of its key.
    pub latest: bool,
}

/// A page of versions. With `after_version`, it begins with the versions of the key `query.after`
/// that are older than that one. The versions of a grouped key are not listed: of them only the
/// common prefix remains.
pub(super) fn list(
    keys: &Keys,
    query: &ListQuery,
    after_version: Option<VersionRef>,
) -> ListPage<ListedVersion> {
    let mut page = ListPage::default();
    let rest_of_key = query.after.as_ref().zip(after_version).filter(|(key, _)| query.admits(key));
    let mut start = query.start();
    if let Some((key, after)) = rest_of_key {
        let mut older = scan_older(keys, key, after);
        match query.common_prefix(key) {
            // The page begins inside a key, which the scan of the other keys would not find again.
            None if !push_older(&mut page, query.limit, &mut older, key, keys.newest_order(key)) => {
                return page;
            }
            // A key marker inside a group: older versions of its key are keys of the group after
            // the marker.
            Some(prefix) if prefix != key && older.next() && older.key() == key => {
                start = Some(Bound::Included(key.clone()));
            }
            _ => {}
        }
    }
    let Some(start) = start else {
        return page;
    };
    let mut rest = scan_from(keys, start.as_ref());
    while rest.next() && query.admits(rest.key()) {
        let Some(prefix) = query.common_prefix(rest.key()) else {
            if !push(&mut page, query.limit, &rest, !rest.is_same_key()) {
                break;
            }
            continue;
        };
        if !page.push(query.limit, prefix, None) {
            break;
        }
        let Some(next) = ListQuery::past(prefix) else { break };
        rest.seek_key(&next);
    }
    page
}

/// Adds the remaining versions of `key`; `false` if the page is full before their end.
fn push_older(
    page: &mut ListPage<ListedVersion>,
    limit: usize,
    older: &mut KeyScan<'_>,
    key: &[u8],
    newest: Option<u64>,
) -> bool {
    while older.next() && older.key() == key {
        if !push(page, limit, older, newest == Some(older.order())) {
            return false;
        }
    }
    true
}

/// Adds the version that `scan` is at; `false` if the page is full.
fn push(page: &mut ListPage<ListedVersion>, limit: usize, scan: &KeyScan<'_>, latest: bool) -> bool {
    page.push(limit, scan.key(), Some(ListedVersion { version: scan.version().summary(), latest }))
}

/// A scan of the versions of `key` that are older than `after`. If that version is gone, its id
/// still shows which ones are older, since ids ascend with time.
fn scan_older<'k>(keys: &'k Keys, key: &[u8], after: VersionRef) -> KeyScan<'k> {
    let mut scan = keys.scan();
    let order = match after {
        VersionRef::Null => keys.order_of_null(key),
        VersionRef::Id(id) => Some(keys.order_of(key, id).unwrap_or(id.0)),
    };
    match order.and_then(|order| order.checked_sub(1)) {
        Some(below) => scan.seek_version(key, below),
        None => scan.seek_past(key),
    }
    scan
}
