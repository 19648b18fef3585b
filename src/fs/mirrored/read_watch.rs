//! Reads under way on a side. One that its disk does not answer is noticed by the reads after it, which go to
//! the other side until it has been answered. No thread is needed for that, and no read waits for another.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Reads that are watched at a time. Further ones are not.
const SLOTS: usize = 16;

/// The time after which a read under way speaks against its side.
const SLOW_AFTER: Duration = Duration::from_secs(1);

/// The reads under way on a side.
pub(super) struct ReadWatch {
    base: Instant,
    /// When the read of each slot began, in milliseconds after `base` and 1 more; 0 for none.
    slots: [AtomicU64; SLOTS],
    next: AtomicUsize,
    /// The slot of a read that was found to be slow, and 1 more; 0 for none.
    slow: AtomicUsize,
}

/// A read that is under way until this is dropped.
pub(super) struct WatchedRead<'w> {
    slot: Option<&'w AtomicU64>,
}

impl ReadWatch {
    pub(super) fn new() -> Self {
        Self {
            base: Instant::now(),
            slots: Default::default(),
            next: AtomicUsize::new(0),
            slow: AtomicUsize::new(0),
        }
    }

    fn now(&self) -> u64 {
        self.base.elapsed().as_millis() as u64 + 1
    }

    /// Begins a read. One in whose slot another one has been for too long takes note of that: of as many
    /// reads as there are slots, one does.
    pub(super) fn begin(&self) -> WatchedRead<'_> {
        let now = self.now();
        let at = self.next.fetch_add(1, Ordering::Relaxed) % SLOTS;
        let slot = &self.slots[at];
        match slot.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => WatchedRead { slot: Some(slot) },
            Err(begun) => {
                if is_slow(begun, now) {
                    self.slow.store(at + 1, Ordering::Relaxed);
                }
                WatchedRead { slot: None }
            }
        }
    }

    /// Whether a read has been under way for too long.
    pub(super) fn is_slow(&self) -> bool {
        let Some(noted) = self.slow.load(Ordering::Relaxed).checked_sub(1) else { return false };
        let now = self.now();
        if is_slow(self.slots[noted].load(Ordering::Relaxed), now) {
            return true;
        }
        // It was answered; others may not have been.
        let slow = self.slots.iter().position(|slot| is_slow(slot.load(Ordering::Relaxed), now));
        self.slow.store(slow.map_or(0, |at| at + 1), Ordering::Relaxed);
        slow.is_some()
    }
}

fn is_slow(begun: u64, now: u64) -> bool {
    begun != 0 && now.saturating_sub(begun) > SLOW_AFTER.as_millis() as u64
}

impl Drop for WatchedRead<'_> {
    fn drop(&mut self) {
        if let Some(slot) = self.slot {
            slot.store(0, Ordering::Relaxed);
        }
    }
}
