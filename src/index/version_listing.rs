//! Pages of versions and delete markers: keys ascending, the versions of a key newest first.

use std::ops::Bound;

use crate::format::{VersionId, VersionSummary};
use crate::index::listing::{Keys, Query, keys_from};

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
    let rest_of_key =
        query.after.as_ref().zip(after_version).filter(|(key, _)| key.starts_with(&query.prefix));
    let mut start = query.start();
    if let Some((key, after)) = rest_of_key {
        let versions: Vec<_> = keys.get(key.as_slice()).iter().flat_map(|v| v.summaries()).collect();
        let behind = position_behind(&versions, after);
        match query.common_prefix(key) {
            None if !push_versions(&mut page, query.limit, key, &versions, behind) => return page,
            Some(prefix) if prefix != key && behind < versions.len() => {
                start = Some(Bound::Included(key.clone()));
            }
            _ => {}
        }
    }
    let Some(start) = start else {
        return page;
    };
    let mut rest = keys_from(keys, start.as_ref());
    while let Some((key, versions)) = rest.next().filter(|(key, _)| key.starts_with(&query.prefix)) {
        let Some(prefix) = query.common_prefix(key) else {
            if !push_versions(&mut page, query.limit, key, &versions.summaries().collect::<Vec<_>>(), 0) {
                break;
            }
            continue;
        };
        if !push(&mut page, query.limit, VersionItem::Prefix(prefix.to_vec())) {
            break;
        }
        let Some(next) = Query::past(prefix) else { break };
        rest = keys_from(keys, Bound::Included(&next));
    }
    page
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

fn push_versions(
    page: &mut VersionPage,
    limit: usize,
    key: &[u8],
    versions: &[VersionSummary],
    from: usize,
) -> bool {
    versions.iter().enumerate().skip(from).all(|(at, version)| {
        push(page, limit, VersionItem::Version { key: key.to_vec(), version: *version, latest: at == 0 })
    })
}

/// How many versions stand before the place behind `after`. Where that version is gone, ids, being stamps, tell what was
/// older.
fn position_behind(versions: &[VersionSummary], after: AfterVersion) -> usize {
    let named = versions.iter().position(|version| match after {
        AfterVersion::Null => version.null,
        AfterVersion::Id(id) => version.id == id && !version.null,
    });
    match (named, after) {
        (Some(at), _) => at + 1,
        (None, AfterVersion::Id(id)) => versions.iter().take_while(|version| version.id >= id).count(),
        (None, AfterVersion::Null) => versions.len(),
    }
}
