//! The keys that the target refuses: they are set aside after some tries, and hold the position
//! back no longer.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard};

use super::due_keys::DueKey;
use crate::base::{NOT_POISONED, Timestamp, beginning_of};
use crate::store::{RefusedKey, RefusedKeys, Store, VersionId};

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

/// A key in the list.
struct ListedRefusal {
    time: Timestamp,
    reason: String,
    /// The versions that the target lacks, in their order. By rules, later ones may be there.
    versions: Vec<Range<VersionId>>,
}

#[derive(Default)]
struct RefusalState {
    listed: BTreeMap<DueKey, ListedRefusal>,
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
            // Which versions it lacks, the next try tells, which comes at once.
            let listed = ListedRefusal {
                time: refused.time,
                reason: refused.reason.clone(),
                versions: vec![since(VersionId(0))],
            };
            Some((due, listed))
        });
        *self.lock() = RefusalState { listed: listed.collect(), unlisted: saved.unlisted };
    }

    /// All of them, to be saved.
    pub(super) fn saved(&self) -> RefusedKeys {
        let state = self.lock();
        let keys = state.listed.iter().map(|(due, listed)| RefusedKey {
            bucket: due.bucket.0,
            key: due.key.clone().into_bytes(),
            time: listed.time,
            reason: listed.reason.clone(),
        });
        RefusedKeys { unlisted: state.unlisted, keys: keys.collect() }
    }

    /// Sets a key aside. Its versions from the start of `tried` on were tried, and the target lacks
    /// those from the end on. One that finds no place in the list is counted.
    pub(super) fn add(&self, due: &DueKey, tried: Range<VersionId>, time: Timestamp, reason: &str) {
        let reason = beginning_of(reason, REASON_BYTES_MAX).to_owned();
        let mut state = self.lock();
        if let Some(listed) = state.listed.get_mut(due) {
            listed.time = time;
            listed.reason = reason;
            cut(&mut listed.versions, tried.start);
            listed.versions.push(since(tried.end));
        } else if state.listed.len() < RefusedKeys::LISTED_MAX {
            let versions = vec![since(tried.end)];
            state.listed.insert(due.clone(), ListedRefusal { time, reason, versions });
        } else {
            state.unlisted += 1;
        }
    }

    /// Takes the versions of a key from `first` on out, since they were copied; the key, too, where
    /// the target lacks none before.
    pub(super) fn copied_since(&self, due: &DueKey, first: VersionId) {
        let mut state = self.lock();
        let Some(listed) = state.listed.get_mut(due) else { return };
        cut(&mut listed.versions, first);
        if listed.versions.is_empty() {
            state.listed.remove(due);
        }
    }

    /// Whether the target refused a version of a key, and has not got it since.
    pub(super) fn has_version(&self, due: &DueKey, version: VersionId) -> bool {
        let state = self.lock();
        let listed = state.listed.get(due);
        listed.is_some_and(|listed| listed.versions.iter().any(|range| range.contains(&version)))
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
        let shown = state.listed.iter().map(|(due, listed)| MirrorRefusal {
            bucket: due.bucket.1.clone(),
            key: due.key.clone(),
            time: listed.time,
            reason: listed.reason.clone(),
        });
        (shown.collect(), state.unlisted)
    }
}

/// A version and all later ones.
fn since(first: VersionId) -> Range<VersionId> {
    first..VersionId(u64::MAX)
}

/// Leaves what is before a version.
fn cut(versions: &mut Vec<Range<VersionId>>, first: VersionId) {
    for range in &mut *versions {
        range.end = range.end.min(first);
    }
    versions.retain(|range| range.start < range.end);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> DueKey {
        DueKey { bucket: (1, "b".to_owned()), key: name.to_owned() }
    }

    fn refused(refusals: &Refusals, due: &DueKey) -> Vec<u64> {
        (0..10).filter(|id| refusals.has_version(due, VersionId(*id))).collect()
    }

    #[test]
    fn versions_that_the_target_got_are_not_refused() {
        let refusals = Refusals::default();
        let due = key("k");
        let add = |oldest, first| {
            let tried = VersionId(oldest)..VersionId(first);
            refusals.add(&due, tried, Timestamp::default(), "400");
        };
        add(3, 3);
        assert_eq!(refused(&refusals, &due), [3, 4, 5, 6, 7, 8, 9]);
        assert_eq!(refused(&refusals, &key("other")), [0; 0]);
        // Later versions were sent, and the refused ones were not.
        refusals.copied_since(&due, VersionId(5));
        assert_eq!(refused(&refusals, &due), [3, 4]);
        assert!(refusals.contains(&due));
        add(7, 8);
        assert_eq!(refused(&refusals, &due), [3, 4, 8, 9]);
        // A comparison of everything found that the target has what is before 4.
        add(0, 4);
        assert_eq!(refused(&refusals, &due), [4, 5, 6, 7, 8, 9]);
        refusals.copied_since(&due, VersionId(6));
        assert_eq!(refused(&refusals, &due), [4, 5]);
        refusals.copied_since(&due, VersionId(0));
        assert!(!refusals.contains(&due) && refusals.shown().0.is_empty());
    }
}
