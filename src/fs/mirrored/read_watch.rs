//! Reads under way on a side. One that its disk does not answer is noticed by the reads after it, which go to
//! the other side until it has been answered. No thread is needed for that, and no read waits for another.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Reads that are watched at a time. Further ones are not.
const SLOTS: usize = 16;

/// The time after which a read under way speaks against its side.
const SLOW_AFTER: Duration = Duration::from_secs(1);

/// So many reads at a time that have been under way for as long as this speak against their side, too: a
/// host with few workers must not lose all of them before the first one is slow.
const SEVERAL: usize = 4;
const SEVERAL_SLOW_AFTER: Duration = Duration::from_millis(100);

/// The reads under way on a side.
pub(super) struct ReadWatch {
    base: Instant,
    /// When the read of each slot began, in milliseconds after `base` and 1 more; 0 for none.
    slots: [AtomicU64; SLOTS],
    next: AtomicUsize,
}

/// A read that is under way until this is dropped.
pub(super) struct WatchedRead<'w> {
    slot: Option<&'w AtomicU64>,
}

impl ReadWatch {
    pub(super) fn new() -> Self {
        Self { base: Instant::now(), slots: Default::default(), next: AtomicUsize::new(0) }
    }

    fn now(&self) -> u64 {
        self.base.elapsed().as_millis() as u64 + 1
    }

    /// Begins a read. It is not watched where another one has its slot.
    pub(super) fn begin(&self) -> WatchedRead<'_> {
        let slot = &self.slots[self.next.fetch_add(1, Ordering::Relaxed) % SLOTS];
        let taken = slot.compare_exchange(0, self.now(), Ordering::Relaxed, Ordering::Relaxed);
        WatchedRead { slot: taken.is_ok().then_some(slot) }
    }

    /// Whether a read has been under way for too long, or several have been for rather long.
    pub(super) fn is_slow(&self) -> bool {
        let begun = self.slots.each_ref().map(|slot| slot.load(Ordering::Relaxed));
        if begun.iter().all(|begun| *begun == 0) {
            return false;
        }
        let now = self.now();
        let longer_than = |time: Duration| {
            let ages = begun.iter().filter(|begun| **begun != 0).map(|begun| now.saturating_sub(*begun));
            ages.filter(|age| u128::from(*age) > time.as_millis()).count()
        };
        longer_than(SLOW_AFTER) > 0 || longer_than(SEVERAL_SLOW_AFTER) >= SEVERAL
    }
}

impl Drop for WatchedRead<'_> {
    fn drop(&mut self) {
        if let Some(slot) = self.slot {
            slot.store(0, Ordering::Relaxed);
        }
    }
}
