//! The keys that the target refuses: they are set aside after some tries, and hold the position
//! back no longer.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

use super::due_keys::DueKey;
use crate::base::{NOT_POISONED, Timestamp};
use crate::store::{RefusedKey, RefusedKeys, Store};

/// The longest reason that is kept.
const REASON_BYTES_MAX: usize = 300;

/// A key that the target refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MirrorRefusal {
    /// The bucket.
    pub bucket: String,
    /// The key.
    pub key: String,
    /// The time of the last refusal.
    pub time: Timestamp,
    /// The answer of the target.
    pub reason: String,
}

#[derive(Default)]
struct RefusalState {
    /// The time and the reason of each key.
    listed: BTreeMap<DueKey, (Timestamp, String)>,
    unlisted: u64,
}

/// The keys that were set aside.
#[derive(Default)]
pub(super) struct Refusals(Mutex<RefusalState>);

impl Refusals {
    fn lock(&self) -> MutexGuard<'_, RefusalState> {
        self.0.lock().expect(NOT_POISONED)
    }

    /// Takes over the refusals of an earlier run. Keys of buckets that are gone are dropped.
    pub(super) fn restore(&self, store: &Store, saved: &RefusedKeys) {
        let listed = saved.keys.iter().filter_map(|refused| {
            let bucket = store.followed_bucket(refused.bucket)?;
            let key = String::from_utf8(refused.key.clone()).ok()?;
            let due = DueKey { bucket: (refused.bucket, bucket.name.clone()), key };
            Some((due, (refused.time, refused.reason.clone())))
        });
        *self.lock() = RefusalState { listed: listed.collect(), unlisted: saved.unlisted };
    }

    /// All of them, to be saved.
    pub(super) fn saved(&self) -> RefusedKeys {
        let state = self.lock();
        let keys = state.listed.iter().map(|(due, (time, reason))| RefusedKey {
            bucket: due.bucket.0,
            key: due.key.clone().into_bytes(),
            time: *time,
            reason: reason.clone(),
        });
        RefusedKeys { unlisted: state.unlisted, keys: keys.collect() }
    }

    /// Sets a key aside. One that finds no place in the list is counted.
    pub(super) fn add(&self, due: &DueKey, time: Timestamp, reason: &str) {
        let mut end = reason.len().min(REASON_BYTES_MAX);
        while !reason.is_char_boundary(end) {
            end -= 1;
        }
        let reason = reason[..end].to_owned();
        let mut state = self.lock();
        if state.listed.len() < RefusedKeys::LISTED_MAX || state.listed.contains_key(due) {
            state.listed.insert(due.clone(), (time, reason));
        } else {
            state.unlisted += 1;
        }
    }

    /// Takes a key out, since it was copied.
    pub(super) fn remove(&self, due: &DueKey) {
        self.lock().listed.remove(due);
    }

    /// Forgets the count of those that are not in the list, before every key is compared.
    pub(super) fn count_again(&self) {
        self.lock().unlisted = 0;
    }

    /// Whether the list has the key, or room for it.
    pub(super) fn has_room_for(&self, due: &DueKey) -> bool {
        let state = self.lock();
        state.listed.len() < RefusedKeys::LISTED_MAX || state.listed.contains_key(due)
    }

    pub(super) fn contains(&self, due: &DueKey) -> bool {
        self.lock().listed.contains_key(due)
    }

    /// The keys in the list.
    pub(super) fn keys(&self) -> Vec<DueKey> {
        self.lock().listed.keys().cloned().collect()
    }

    /// The list, and the number of keys that are not in it.
    pub(super) fn shown(&self) -> (Vec<MirrorRefusal>, u64) {
        let state = self.lock();
        let shown = state.listed.iter().map(|(due, (time, reason))| MirrorRefusal {
            bucket: due.bucket.1.clone(),
            key: due.key.clone(),
            time: *time,
            reason: reason.clone(),
        });
        (shown.collect(), state.unlisted)
    }
}
