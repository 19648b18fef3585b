//! The progress of the followers in use.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::base::Timestamp;

/// The progress of a follower.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct FollowerProgress {
    /// The last group that is done.
    pub(super) done: u64,
    /// Whether it walks over the index.
    pub(super) in_snapshot: bool,
    /// Every change up to this time is done.
    pub(super) current_at: Timestamp,
    /// How often it started over since the start of the server.
    pub(super) starts_over: u64,
}

/// The followers in use, by name.
#[derive(Default)]
pub(in crate::store) struct FollowerRegistry(Mutex<BTreeMap<String, FollowerProgress>>);

impl FollowerRegistry {
    pub(super) fn lock(&self) -> MutexGuard<'_, BTreeMap<String, FollowerProgress>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn update(&self, name: &str, change: impl FnOnce(&mut FollowerProgress)) {
        change(self.lock().entry(name.to_owned()).or_default());
    }
}
