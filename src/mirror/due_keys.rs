//! The keys that are due, their order, their pauses, and the position that is done.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use crate::base::{Backoff, Entropy, NOT_POISONED};
use crate::store::{FollowPosition, VersionId};

/// The pauses of a key that failed.
const BACKOFF: Backoff = Backoff { first: Duration::from_secs(1), longest: Duration::from_secs(60) };
/// The tries of a key that the target refuses.
const REFUSALS_MAX: u32 = 10;

/// A key of the store.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct DueKey {
    /// The id and the name of the bucket.
    pub(super) bucket: (u64, String),
    pub(super) key: String,
}

/// What is known of the changes of a key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct DueWork {
    /// Whether the versions have changed.
    pub(super) versions: bool,
    /// Whether the target may have more or less than is known: everything is compared.
    pub(super) compare: bool,
    /// Whether an object that came from the target is sent there nevertheless, if the target lacks
    /// it.
    pub(super) refill: bool,
    /// Whether the target may differ in versions far below the newest: one was removed or replaced
    /// since the last copy, or an earlier process may have copied in part.
    pub(super) is_deep: bool,
    /// Whether a version was made since the last copy that did not come from the target.
    pub(super) made_here: bool,
    /// The versions whose tags have changed.
    pub(super) retagged: Vec<VersionId>,
    /// The last change of the versions that was read.
    pub(super) latest: Option<LatestChange>,
    /// The oldest version that the target may lack; of id 0 where everything is compared.
    pub(super) oldest: Option<VersionId>,
}

/// The last change of a key that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LatestChange {
    /// The version that it made; `None` where it removed one.
    pub(super) version: Option<VersionId>,
    /// The stores whose mirrors brought it.
    pub(super) origins: Vec<String>,
}

/// A key that a worker has.
#[derive(Debug)]
pub(super) struct TakenKey {
    pub(super) due: DueKey,
    pub(super) work: DueWork,
    batches: Vec<u64>,
}

#[derive(Default)]
struct KeyState {
    work: DueWork,
    /// The oldest version that is due, also while a worker has the key.
    oldest: Option<VersionId>,
    /// The batches that wait for it.
    batches: Vec<u64>,
    /// Whether a worker has it, or it waits for one.
    placed: bool,
    failures: u32,
    /// How often the target refused it, and the keys that it had accepted before.
    refusals: u32,
    accepted_before: u64,
}

struct BatchState {
    left: usize,
    end: Option<FollowPosition>,
}

#[derive(Default)]
struct DueState {
    keys: HashMap<DueKey, KeyState>,
    ready: VecDeque<DueKey>,
    /// The keys that failed, by the end of their pause.
    delayed: BTreeSet<(Instant, DueKey)>,
    batches: VecDeque<BatchState>,
    /// The number of the first batch.
    first: u64,
    /// The keys of which the target was found or made to have the object so far.
    accepted: u64,
    closed: bool,
}

/// The keys of a mirror that are due.
#[derive(Default)]
pub(super) struct DueKeys {
    state: Mutex<DueState>,
    wake: Condvar,
}

impl DueWork {
    /// A comparison of everything.
    pub(super) fn of_comparison() -> Self {
        Self { compare: true, oldest: Some(VersionId(0)), ..Self::default() }
    }

    fn merge(&mut self, other: Self) {
        self.versions |= other.versions;
        self.compare |= other.compare;
        self.refill |= other.refill;
        self.is_deep |= other.is_deep;
        self.made_here |= other.made_here;
        self.oldest = older(self.oldest, other.oldest);
        // A walk looks at the key as it is: what was read of the log before says nothing of that.
        let before = self.latest.take().filter(|_| !other.compare);
        self.latest = other.latest.or(before);
        for id in other.retagged {
            if !self.retagged.contains(&id) {
                self.retagged.push(id);
            }
        }
    }

    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The older one of two versions.
fn older(one: Option<VersionId>, other: Option<VersionId>) -> Option<VersionId> {
    one.into_iter().chain(other).min()
}

impl DueKeys {
    fn lock(&self) -> MutexGuard<'_, DueState> {
        self.state.lock().expect(NOT_POISONED)
    }

    /// Adds the keys of a batch. Its end, if it has one, is done once all of them and the keys of
    /// earlier batches are copied.
    pub(super) fn add(&self, keys: Vec<(DueKey, DueWork)>, end: Option<FollowPosition>) {
        let mut state = self.lock();
        let number = state.first + state.batches.len() as u64;
        let mut left = 0;
        for (due, work) in keys {
            let known = state.keys.entry(due.clone()).or_default();
            known.oldest = older(known.oldest, work.oldest);
            known.work.merge(work);
            // A key that a batch has twice is waited for once.
            if known.batches.last() != Some(&number) {
                known.batches.push(number);
                left += 1;
            }
            // A key is in one queue at a time, or with one worker: two copies of a key at once
            // could bring its versions out of order.
            if !std::mem::replace(&mut known.placed, true) {
                state.ready.push_back(due);
            }
        }
        state.batches.push_back(BatchState { left, end });
        self.wake.notify_all();
    }

    /// Whether a version of a key is due.
    pub(super) fn has_version(&self, due: &DueKey, version: VersionId) -> bool {
        let state = self.lock();
        state.keys.get(due).and_then(|known| known.oldest).is_some_and(|oldest| version >= oldest)
    }

    /// The keys that are due, including the workers'.
    pub(super) fn len(&self) -> usize {
        self.lock().keys.len()
    }

    /// Whether a key of a bucket with such an id and name is due.
    pub(super) fn has_any(&self, is_meant: impl Fn(u64, &str) -> bool) -> bool {
        self.lock().keys.keys().any(|due| is_meant(due.bucket.0, &due.bucket.1))
    }

    /// The keys that the target did not refuse yet.
    pub(super) fn unrefused(&self) -> usize {
        self.lock().keys.values().filter(|key| key.refusals == 0).count()
    }

    /// The keys that failed, and wait.
    pub(super) fn failing(&self) -> usize {
        self.lock().keys.values().filter(|key| key.failures > 0).count()
    }

    /// The next key, after at most `wait`; `None` if there is none by then.
    pub(super) fn take(&self, wait: Duration) -> Option<TakenKey> {
        let mut state = self.lock();
        if state.ready.is_empty() && state.delayed.is_empty() && !state.closed {
            state = self.wake.wait_timeout(state, wait).expect(NOT_POISONED).0;
        }
        let due = state.next(Instant::now())?;
        let known = state.keys.get_mut(&due).expect("a placed key is known");
        // Changes that are read while the worker has the key gather anew, and make it due again.
        let work = std::mem::take(&mut known.work);
        let batches = std::mem::take(&mut known.batches);
        Some(TakenKey { due, work, batches })
    }

    /// A worker has copied a key. `is_there` says whether the target has an object of it now.
    pub(super) fn copied(&self, taken: TakenKey, is_there: bool) {
        self.lock().accepted += u64::from(is_there);
        self.set_aside(taken);
    }

    /// Whether a key that was refused is to be set aside: after some tries, and if the target took
    /// other keys meanwhile.
    pub(super) fn is_refused_for_good(&self, taken: &TakenKey) -> bool {
        let mut state = self.lock();
        let accepted = state.accepted;
        let known = state.keys.get_mut(&taken.due).expect("a taken key is known");
        // The count at its first refusal. Keys that the target took since then show that it refuses
        // this one, and not everything.
        if known.refusals == 0 {
            known.accepted_before = accepted;
        }
        known.refusals += 1;
        known.refusals >= REFUSALS_MAX && accepted > known.accepted_before
    }

    /// A worker is done with a key, which is due no longer unless it has changed meanwhile.
    pub(super) fn set_aside(&self, taken: TakenKey) {
        let mut state = self.lock();
        for number in taken.batches {
            // A batch stays in the queue until those before it are done, so that the number finds
            // it.
            let at = (number - state.first) as usize;
            state.batches[at].left -= 1;
        }
        let known = state.keys.get_mut(&taken.due).expect("a taken key is known");
        known.failures = 0;
        known.refusals = 0;
        known.oldest = known.work.oldest;
        // Changes that were read while the worker had it make it due at once, and keep their
        // batches waiting.
        if known.work.is_empty() && known.batches.is_empty() {
            state.keys.remove(&taken.due);
        } else {
            state.ready.push_back(taken.due);
            self.wake.notify_one();
        }
    }

    /// A worker did not try a key, which stays due.
    pub(super) fn not_tried(&self, taken: TakenKey) {
        let mut state = self.lock();
        state.give_back(&taken.due, taken.work, taken.batches);
        // In front, where it was: an outage is to change no order.
        state.ready.push_front(taken.due);
    }

    /// A worker could not copy a key, which stays due.
    pub(super) fn failed(&self, taken: TakenKey, entropy: &dyn Entropy) {
        let mut state = self.lock();
        // Versions may have been sent whose answer was lost.
        let work = DueWork { compare: true, ..taken.work };
        let known = state.give_back(&taken.due, work, taken.batches);
        known.failures += 1;
        let pause = BACKOFF.jittered_after(known.failures, entropy);
        state.delayed.insert((Instant::now() + pause, taken.due));
    }

    /// Lets the keys that failed try again now.
    pub(super) fn retry_now(&self) {
        let mut state = self.lock();
        let delayed = std::mem::take(&mut state.delayed);
        state.ready.extend(delayed.into_iter().map(|(_, due)| due));
        self.wake.notify_all();
    }

    /// The end of the last batch before which all are done, if there is a new one.
    pub(super) fn done(&self) -> Option<FollowPosition> {
        let mut state = self.lock();
        let mut end = None;
        while state.batches.front().is_some_and(|batch| batch.left == 0) {
            end = state.batches.pop_front().and_then(|batch| batch.end).or(end);
            state.first += 1;
        }
        end
    }

    /// Wakes all workers for the end.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.wake.notify_all();
    }
}

impl DueState {
    fn give_back(&mut self, due: &DueKey, work: DueWork, mut batches: Vec<u64>) -> &mut KeyState {
        let known = self.keys.get_mut(due).expect("a taken key is known");
        // What was read or walked over meanwhile is later.
        let is_walked = known.work.compare;
        let later = known.work.latest.take();
        known.work.merge(work);
        let earlier = known.work.latest.take().filter(|_| !is_walked);
        known.work.latest = later.or(earlier);
        batches.append(&mut known.batches);
        known.batches = batches;
        known
    }

    fn next(&mut self, now: Instant) -> Option<DueKey> {
        match self.delayed.first().is_some_and(|(at, _)| *at <= now) {
            true => self.delayed.pop_first().map(|(_, due)| due),
            false => self.ready.pop_front(),
        }
    }
}
