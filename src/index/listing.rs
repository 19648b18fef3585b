//! Pages of keys in order, grouped by a delimiter. Behind a common prefix the search goes on past it, never through
//! what it holds.

use std::ops::Bound;

use crate::format::VersionSummary;
use crate::index::keys::{KeyScan, Keys};

/// Room that is made for the items of a page before there are any.
const ITEMS_RESERVED: usize = 1_000;
/// Room that is made for the name of each.
const NAME_RESERVED_BYTES: usize = 64;

/// What to list.
#[derive(Debug, Clone, Default)]
pub struct Query {
    /// Only keys that begin with it.
    pub prefix: Vec<u8>,
    /// Keys are grouped up to its first occurrence behind the prefix; empty: not at all.
    pub delimiter: Vec<u8>,
    /// Only keys greater than it, and the common prefixes that group such keys: also one that begins `after`, so behind
    /// `a/b` comes `a/` while there is an `a/c`. Where it is itself a common prefix, nothing that begins with it.
    pub after: Option<Vec<u8>>,
    /// At most so many items.
    pub limit: usize,
}

/// One item of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Item<'p> {
    /// A key and its current version.
    Object(&'p [u8], &'p VersionSummary),
    /// A common prefix.
    Prefix(&'p [u8]),
}

/// Items in order. All names lie in one piece of memory: a thousand of their own would cost as much as finding them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Page {
    /// The names, one behind the other.
    names: Vec<u8>,
    /// Of each item, where its name ends, and the version of a key.
    items: Vec<(usize, Option<VersionSummary>)>,
    /// Whether there are more.
    pub truncated: bool,
}

impl Page {
    fn with_room(items: usize) -> Self {
        let names = Vec::with_capacity(items * NAME_RESERVED_BYTES);
        Self { names, items: Vec::with_capacity(items), ..Self::default() }
    }

    #[inline]
    pub(super) fn push(&mut self, name: &[u8], version: Option<VersionSummary>) {
        self.names.extend_from_slice(name);
        self.items.push((self.names.len(), version));
    }

    /// How many items there are.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// The items.
    pub fn items(&self) -> impl Iterator<Item = Item<'_>> {
        (0..self.len()).map(|nth| self.get(nth))
    }

    /// The last item.
    pub fn last(&self) -> Option<Item<'_>> {
        self.len().checked_sub(1).map(|nth| self.get(nth))
    }

    fn get(&self, nth: usize) -> Item<'_> {
        let start = nth.checked_sub(1).map_or(0, |before| self.items[before].0);
        let (end, version) = &self.items[nth];
        let name = &self.names[start..*end];
        version.as_ref().map_or(Item::Prefix(name), |version| Item::Object(name, version))
    }
}

/// A page of the current versions among `keys`. Keys whose newest version is a delete marker are passed over.
pub(super) fn list(keys: &Keys, query: &Query) -> Page {
    let Some(start) = query.start() else {
        return Page::default();
    };
    let mut page = Page::with_room(query.limit.min(ITEMS_RESERVED));
    let mut rest = scan_from(keys, start.as_ref());
    while rest.next_visible() && query.admits(rest.key()) {
        if page.len() >= query.limit {
            page.truncated = query.limit > 0;
            break;
        }
        let Some(prefix) = query.common_prefix(rest.key()) else {
            page.push(rest.key(), Some(rest.version().summary()));
            continue;
        };
        page.push(prefix, None);
        match Query::past(prefix) {
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

impl Query {
    /// Where to start; `None` where nothing can follow.
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

    /// The common prefix that a key is grouped under.
    pub(super) fn common_prefix<'k>(&self, key: &'k [u8]) -> Option<&'k [u8]> {
        if self.delimiter.is_empty() || !self.admits(key) {
            return None;
        }
        let at = find(&key[self.prefix.len()..], &self.delimiter)?;
        Some(&key[..self.prefix.len() + at + self.delimiter.len()])
    }

    /// The first key behind everything that begins with `prefix`; `None` where there can be none.
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
