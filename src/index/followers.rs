//! The progress of the followers of the log.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use crate::format::FollowerState;

/// A bound on the memory of a follower without its name and key.
const FOLLOWER_BYTES: u64 = 256;

/// A bound on the memory of a refused key without its key and reason.
const REFUSED_BYTES: u64 = 128;

/// The memory that a follower may take, in bytes.
pub fn follower_bytes(name: &str, state: &FollowerState) -> u64 {
    let cursor = state.snapshot.as_ref().map_or(0, |cursor| cursor.key.len());
    let refused = state.refused.keys.len() as u64 * REFUSED_BYTES;
    FOLLOWER_BYTES + refused + (name.len() + cursor + state.refused.text_bytes()) as u64
}

/// The followers by name. A clone is a snapshot and costs O(1).
#[derive(Clone, Default)]
pub(super) struct Followers {
    by_name: Arc<BTreeMap<String, FollowerState>>,
}

impl Followers {
    pub(super) fn get(&self, name: &str) -> Option<&FollowerState> {
        self.by_name.get(name)
    }

    /// The followers after one, or all, by name.
    pub(super) fn after(&self, name: Option<&str>) -> impl Iterator<Item = (&str, &FollowerState)> {
        let from = name.map_or(Bound::Unbounded, Bound::Excluded);
        self.by_name.range::<str, _>((from, Bound::Unbounded)).map(|(name, state)| (name.as_str(), state))
    }

    /// Sets or removes the progress of a follower.
    pub(super) fn set(&mut self, name: &str, state: Option<&FollowerState>) {
        let all = Arc::make_mut(&mut self.by_name);
        match state {
            Some(state) => drop(all.insert(name.to_owned(), state.clone())),
            None => drop(all.remove(name)),
        }
    }

    /// The memory that they take up, in bytes.
    pub(super) fn memory_bytes(&self) -> u64 {
        self.by_name.iter().map(|(name, state)| follower_bytes(name, state)).sum()
    }
}
