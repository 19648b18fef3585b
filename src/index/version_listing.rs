//! Pages of versions and delete markers: keys ascending, the versions of a key newest first.

use std::ops::Bound;

use crate::format::{VersionId, VersionSummary};
use crate::index::keys::{KeyScan, Keys};
use crate::index::listing::{Query, scan_from};

/// One item of a page of versions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VersionItem {
    /// A version or a delete marker.
    Version {
        /// The key.
        key: Vec<u8>,
        /// The version.
        version: VersionSummary,
        /// Whether it is the newest of its key.
        latest: bool,
    },
    /// A common prefix.
    Prefix(Vec<u8>),
}

/// Where a page of versions starts within the key that the query is after.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterVersion {
    /// Behind its null version.
    Null,
    /// Behind that version.
    Id(VersionId),
}

/// Versions in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VersionPage {
    /// The items.
    pub items: Vec<VersionItem>,
    /// Whether there are more.
    pub truncated: bool,
}

/// A page of versions; those of the key that `query` is after follow, too, if they stand behind `after_version`. A key that
/// is grouped under a common prefix shows no versions: what is left of them is what is left of the prefix.
pub(super) fn list(keys: &Keys, query: &Query, after_version: Option<AfterVersion>) -> VersionPage {
    let mut page = VersionPage::default();
    let rest_of_key = query.after.as_ref().zip(after_version).filter(|(key, _)| query.admits(key));
    let mut start = query.start();
    if let Some((key, after)) = rest_of_key {
        let mut rest = behind(keys, key, after);
        match query.common_prefix(key) {
            None if !push_rest(&mut page, query.limit, &mut rest, key, keys.newest_order(key)) => {
                return page;
            }
            Some(prefix) if prefix != key && rest.next() && rest.key() == key => {
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
            if !push(&mut page, query.limit, item(&rest, !rest.is_same_key())) {
                break;
            }
            continue;
        };
        let prefix = prefix.to_vec();
        let past = Query::past(&prefix);
        if !push(&mut page, query.limit, VersionItem::Prefix(prefix)) {
            break;
        }
        let Some(next) = past else { break };
        rest.seek_key(&next);
    }
    page
}

/// The versions of `key` that are left. Whether there was room for all of them.
fn push_rest(
    page: &mut VersionPage,
    limit: usize,
    rest: &mut KeyScan<'_>,
    key: &[u8],
    newest: Option<u64>,
) -> bool {
    while rest.next() && rest.key() == key {
        if !push(page, limit, item(rest, newest == Some(rest.order()))) {
            return false;
        }
    }
    true
}

fn item(scan: &KeyScan<'_>, latest: bool) -> VersionItem {
    VersionItem::Version { key: scan.key().to_vec(), version: scan.version().summary(), latest }
}

/// A scan of what follows a version of a key. Where that version is gone, ids, being stamps, tell what was older.
fn behind<'k>(keys: &'k Keys, key: &[u8], after: AfterVersion) -> KeyScan<'k> {
    let mut scan = keys.scan();
    let rank = match after {
        AfterVersion::Null => keys.order_of_null(key),
        AfterVersion::Id(id) => Some(keys.order_of(key, id).unwrap_or(id.0)),
    };
    match rank.and_then(|rank| rank.checked_sub(1)) {
        Some(below) => scan.seek_version(key, below),
        None => scan.seek_past(key),
    }
    scan
}

/// Whether there was room; where there was none, the page is truncated.
fn push(page: &mut VersionPage, limit: usize, item: VersionItem) -> bool {
    if page.items.len() >= limit {
        page.truncated = limit > 0;
        return false;
    }
    page.items.push(item);
    true
}
