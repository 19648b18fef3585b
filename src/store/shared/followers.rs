//! The progress of the followers in use, and the log that is kept for them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use crate::base::{NOT_POISONED, Timestamp};
use crate::format::log_path;
use crate::log::LogError;
use crate::store::shared::SharedStore;

/// In the place of a group where there is no shadow of the log: it lacks none then.
const NO_SHADOW: u64 = u64::MAX;

/// The progress of a follower.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::store) struct FollowerProgress {
    /// The last group that is done.
    pub(in crate::store) done: u64,
    /// Whether it walks over the index.
    pub(in crate::store) in_snapshot: bool,
    /// Every change up to this time is done.
    pub(in crate::store) current_at: Timestamp,
    /// How often it started over since the start of the server.
    pub(in crate::store) starts_over: u64,
    /// Whether it found its place gone, and has done nothing since.
    pub(in crate::store) is_lost: bool,
}

/// The followers in use, by name, and the log that they have.
#[derive(Default)]
pub(in crate::store) struct FollowerRegistry {
    followers: Mutex<BTreeMap<String, FollowerProgress>>,
    /// The first group of the log, as of the last removal; 0 before.
    log_from: AtomicU64,
    /// The last group that is in the shadow of the log; [`NO_SHADOW`] where there is none.
    shadowed: AtomicU64,
}

impl FollowerRegistry {
    pub(in crate::store) fn lock(&self) -> MutexGuard<'_, BTreeMap<String, FollowerProgress>> {
        self.followers.lock().expect(NOT_POISONED)
    }

    /// The first group of the log, as of the last removal; 0 before.
    pub(in crate::store) fn log_from(&self) -> u64 {
        self.log_from.load(Ordering::Relaxed)
    }

    /// States that the log before this group was removed.
    pub(in crate::store) fn set_log_from(&self, first: u64) {
        self.log_from.store(first, Ordering::Relaxed);
    }

    /// The last group that is known to be in the shadow of the log, durably; `None` where the shadow
    /// was given up.
    pub(in crate::store) fn shadowed(&self) -> Option<u64> {
        Some(self.shadowed.load(Ordering::Relaxed)).filter(|group| *group != NO_SHADOW)
    }

    /// Whether no shadow lacks this group.
    pub(in crate::store) fn is_shadowed(&self, group: u64) -> bool {
        self.shadowed.load(Ordering::Relaxed) >= group
    }

    /// States that the shadow has the groups up to this one, or that there is none.
    pub(in crate::store) fn set_shadowed(&self, group: Option<u64>) {
        self.shadowed.store(group.unwrap_or(NO_SHADOW), Ordering::Relaxed);
    }

    pub(in crate::store) fn update(&self, name: &str, change: impl FnOnce(&mut FollowerProgress)) {
        change(self.lock().entry(name.to_owned()).or_default());
    }
}

/// The first group that the log has to keep, if everything else needs it from `needed_from` on:
/// followers are waited for as far as the other files have at most `max_bytes`.
pub(in crate::store) fn keeps_log_from(
    shared: &SharedStore,
    logs: &[u64],
    needed_from: u64,
    max_bytes: u64,
) -> Result<u64, LogError> {
    let index = shared.index();
    // The shadow follows, too.
    let shadowed = shared.fs.has_two_disks().then(|| shared.followers.shadowed()).flatten();
    let positions = index.followers().map(|(_, state)| state.position.sequence);
    let Some(wanted) = positions.chain(shadowed).min().map(|done| done + 1) else {
        return Ok(needed_from);
    };
    let mut kept_from = needed_from;
    let mut bytes = 0;
    // From the newest to the oldest: what is kept has no gap, and where the room ends a follower
    // has to start over.
    let extra = logs.windows(2).rev().filter(|pair| pair[1] <= needed_from && pair[1] > wanted);
    for pair in extra {
        bytes += shared.fs.open_read(&log_path(pair[0]))?.usage()?.allocated_bytes;
        if bytes > max_bytes {
            break;
        }
        kept_from = pair[0];
    }
    Ok(kept_from)
}
