//! How long ago the remote had the whole log, on a clock that never jumps.
//!
//! A write is answered only while the remote had all that was written, and no other host had
//! claimed the next epoch, within the bound (`--ship-lag-max`). So a host that is cut off stops at
//! that time after it was last in touch, whatever happens on the other side.

use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use crate::base::NOT_POISONED;

/// The last times at which the remote was known to be in step. Each is taken before the requests
/// that prove it.
pub(super) struct InStep(Mutex<StepTimes>);

#[derive(Clone, Copy)]
struct StepTimes {
    /// When all that had been written was there.
    whole: Instant,
    /// When no other host had claimed the next epoch.
    alone: Instant,
}

impl InStep {
    /// Nothing was proved before `now`.
    pub(super) fn new(now: Instant) -> Self {
        Self(Mutex::new(StepTimes { whole: now, alone: now }))
    }

    /// Notes that all that had been written at `time` is on the remote.
    pub(super) fn note_whole(&self, time: Instant) {
        let mut times = self.lock();
        // Two threads note times, and the one that began first may come last.
        times.whole = times.whole.max(time);
    }

    /// Notes that no other host had claimed the next epoch at `time`.
    pub(super) fn note_alone(&self, time: Instant) {
        let mut times = self.lock();
        times.alone = times.alone.max(time);
    }

    /// The age of the oldest write that the remote may lack, at `now`.
    pub(super) fn lag(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.lock().whole)
    }

    /// The time since the last look for another host.
    pub(super) fn since_look(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.lock().alone)
    }

    fn lock(&self) -> MutexGuard<'_, StepTimes> {
        self.0.lock().expect(NOT_POISONED)
    }
}
