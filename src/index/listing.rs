//! Pages of a listing: the query, the page that all three listings share, and the listing of
//! current versions.
//!
//! A listing never visits the keys of a common prefix one by one: it seeks past the prefix.

use std::borrow::Cow;
use std::ops::Bound;

use crate::format::VersionSummary;
use crate::index::keys::{KeyScan, Keys};

/// Items that a page reserves memory for in advance.
const ITEMS_RESERVED: usize = 1_000;
/// Bytes reserved for the name of each.
const NAME_RESERVED_BYTES: usize = 64;

/// A query for one page of keys, versions or uploads.
#[derive(Debug, Clone, Default)]
pub struct ListQuery {
    /// Only keys that begin with it.
    pub prefix: Vec<u8>,
    /// Keys are grouped up to the first delimiter after the prefix; empty: no grouping.
    pub delimiter: Vec<u8>,
    /// Only keys greater than it, and the common prefixes of such keys. A common prefix may itself
    /// sort before `after`: after `a/b` comes `a/` while there is an `a/c`. If `after` is a common
    /// prefix, all keys that begin with it are skipped.
    pub after: Option<Vec<u8>>,
    /// The most items of the page.
    pub limit: usize,
}

/// One item of a page. Names are text: invalid UTF-8, which no client can put, is replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListItem<'p, T> {
    /// A key and the listed value.
    Key(Cow<'p, str>, &'p T),
    /// A common prefix.
    Prefix(Cow<'p, str>),
}

impl<'p, T> ListItem<'p, T> {
    /// The key or the common prefix.
    pub fn name(self) -> Cow<'p, str> {
        match self {
            Self::Key(name, _) | Self::Prefix(name) => name,
        }
    }
}

/// A page of items in byte order of their names. All names share one allocation: a thousand
/// allocations would cost as much as the search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListPage<T> {
    /// The concatenated names.
    names: Vec<u8>,
    /// For each item the end of its name, and the value of a key; `None` for a common prefix.
    items: Vec<(usize, Option<T>)>,
    /// Whether there are more items after the page.
    pub truncated: bool,
}

impl<T> Default for ListPage<T> {
    fn default() -> Self {
        Self::with_capacity(0)
    }
}

impl<T> ListPage<T> {
    fn with_capacity(items: usize) -> Self {
        let names = Vec::with_capacity(items * NAME_RESERVED_BYTES);
        Self { names, items: Vec::with_capacity(items), truncated: false }
    }

    /// Adds an item. If the page already has `limit` items, marks it as truncated instead and
    /// returns `false`. A page with the limit 0 is never truncated: the client would ask again
    /// forever.
    #[inline]
    pub(super) fn push(&mut self, limit: usize, name: &[u8], value: Option<T>) -> bool {
        if self.items.len() >= limit {
            self.truncated = limit > 0;
            return false;
        }
        self.names.extend_from_slice(name);
        self.items.push((self.names.len(), value));
        true
    }

    /// The number of items.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether there is no item.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// The items in order.
    pub fn items(&self) -> impl Iterator<Item = ListItem<'_, T>> {
        (0..self.len()).map(|nth| self.get(nth))
    }

    /// The keys in order, without the common prefixes.
    pub fn keys(&self) -> impl Iterator<Item = (Cow<'_, str>, &T)> {
        self.items().filter_map(|item| match item {
            ListItem::Key(key, value) => Some((key, value)),
            ListItem::Prefix(_) => None,
        })
    }

    /// The last item of a truncated page, after which the next page begins.
    pub fn last_if_truncated(&self) -> Option<ListItem<'_, T>> {
        let last = self.len().checked_sub(1).filter(|_| self.truncated)?;
        Some(self.get(last))
    }

    fn get(&self, nth: usize) -> ListItem<'_, T> {
        let start = nth.checked_sub(1).map_or(0, |before| self.items[before].0);
        let (end, value) = &self.items[nth];
        let name = String::from_utf8_lossy(&self.names[start..*end]);
        match value {
            Some(value) => ListItem::Key(name, value),
            None => ListItem::Prefix(name),
        }
    }
}

/// A page of the current versions of `keys`. Keys whose newest version is a delete marker are
/// skipped.
pub(super) fn list(keys: &Keys, query: &ListQuery) -> ListPage<VersionSummary> {
    let Some(start) = query.start() else {
        return ListPage::default();
    };
    let mut page = ListPage::with_capacity(query.limit.min(ITEMS_RESERVED));
    let mut rest = scan_from(keys, start.as_ref());
    while rest.next_visible() && query.admits(rest.key()) {
        let Some(prefix) = query.common_prefix(rest.key()) else {
            if !page.push(query.limit, rest.key(), Some(rest.version().summary())) {
                break;
            }
            continue;
        };
        if !page.push(query.limit, prefix, None) {
            break;
        }
        match ListQuery::past(prefix) {
            Some(next) => rest.seek_key(&next),
            None => break,
        }
    }
    page
}

pub(super) fn scan_from<'k>(keys: &'k Keys, from: Bound<&Vec<u8>>) -> KeyScan<'k> {
    let mut scan = keys.scan();
    match from {
        Bound::Included(key) => scan.seek_key(key),
        Bound::Excluded(key) => scan.seek_past(key),
        Bound::Unbounded => scan.seek_key(&[]),
    }
    scan
}

impl ListQuery {
    /// The bound of the first key to visit; `None` if no key can follow.
    pub(super) fn start(&self) -> Option<Bound<Vec<u8>>> {
        match &self.after {
            Some(after) if self.common_prefix(after) == Some(after) => Self::past(after).map(Bound::Included),
            Some(after) if *after >= self.prefix => Some(Bound::Excluded(after.clone())),
            _ => Some(Bound::Included(self.prefix.clone())),
        }
    }

    /// Whether a key begins with the prefix.
    pub(super) fn admits(&self, key: &[u8]) -> bool {
        self.prefix.is_empty() || key.starts_with(&self.prefix)
    }

    /// The common prefix of a key, if the query groups it.
    pub(super) fn common_prefix<'k>(&self, key: &'k [u8]) -> Option<&'k [u8]> {
        if self.delimiter.is_empty() || !self.admits(key) {
            return None;
        }
        let at = find(&key[self.prefix.len()..], &self.delimiter)?;
        Some(&key[..self.prefix.len() + at + self.delimiter.len()])
    }

    /// The lower bound of all keys that sort after the keys with this prefix; `None` if there can
    /// be none.
    pub(super) fn past(prefix: &[u8]) -> Option<Vec<u8>> {
        let last = prefix.iter().rposition(|byte| *byte != 0xff)?;
        let mut next = prefix[..=last].to_vec();
        next[last] += 1;
        Some(next)
    }
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    match needle {
        [byte] => haystack.iter().position(|other| other == byte),
        _ => haystack.windows(needle.len()).position(|window| window == needle),
    }
}
