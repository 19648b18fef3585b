//! The progress of the followers in use.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
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
    /// Whether it found its place gone, and has done nothing since.
    pub(super) is_lost: bool,
}

/// The followers in use, by name, and the log that they have.
#[derive(Default)]
pub(in crate::store) struct FollowerRegistry {
    followers: Mutex<BTreeMap<String, FollowerProgress>>,
    /// The first group of the log, as of the last removal; 0 before.
    log_from: AtomicU64,
}

impl FollowerRegistry {
    pub(super) fn lock(&self) -> MutexGuard<'_, BTreeMap<String, FollowerProgress>> {
        self.followers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The first group of the log, as of the last removal; 0 before.
    pub(super) fn log_from(&self) -> u64 {
        self.log_from.load(Ordering::Relaxed)
    }

    /// States that the log before this group was removed.
    pub(in crate::store) fn set_log_from(&self, first: u64) {
        self.log_from.store(first, Ordering::Relaxed);
    }

    pub(super) fn update(&self, name: &str, change: impl FnOnce(&mut FollowerProgress)) {
        change(self.lock().entry(name.to_owned()).or_default());
    }
}
