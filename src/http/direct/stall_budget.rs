//! How long a slow peer may keep a worker waiting.

use std::time::Duration;

use crate::base::Clock;
use crate::base::limits::PRESSED_FACTOR;

/// A store of patience: waiting uses it up, every byte earns some back at the rate that is asked for, and it is never
/// more than it was at first. So a peer that keeps the rate is served for as long as it takes, one that stops is given
/// up after a known time, and time that the server itself needs counts against nobody.
pub(super) struct StallBudget<'w> {
    clock: &'w dyn Clock,
    remaining: Duration,
    full: Duration,
    rate_min_bytes_per_sec: u64,
    under_load: &'w (dyn Fn() -> bool + Sync + 'w),
}

/// A wait too short to look who else waits.
const LOAD_CHECK_MIN: Duration = Duration::from_millis(1);

/// NextAction that long a waiting worker looks whether others wait for it.
const WAIT_SLICE_MAX: Duration = Duration::from_millis(250);

impl<'w> StallBudget<'w> {
    /// Full patience. While `under_load` says that others wait for the worker, it is used up [`PRESSED_FACTOR`] times as fast,
    /// so that the rate that is asked for is that much higher.
    pub(super) fn new(
        clock: &'w dyn Clock,
        budget: Duration,
        rate_min_bytes_per_sec: u64,
        under_load: &'w (dyn Fn() -> bool + Sync + 'w),
    ) -> Self {
        Self { clock, remaining: budget, full: budget, rate_min_bytes_per_sec, under_load }
    }

    /// The same with what is left of the patience.
    pub(super) fn with_remaining(self, remaining: Duration) -> Self {
        Self { remaining: remaining.min(self.full), ..self }
    }

    /// How long to wait at a time.
    pub(super) fn wait_slice(&self) -> Duration {
        self.remaining.min(WAIT_SLICE_MAX)
    }

    /// Does what the peer may keep waiting.
    pub(super) fn charge<T>(&mut self, call: impl FnOnce() -> T) -> T {
        let since = self.clock.instant();
        let outcome = call();
        let time = self.clock.instant().saturating_duration_since(since);
        self.spend(self.cost(time));
        outcome
    }

    /// What of the patience a wait has used up.
    fn cost(&self, time: Duration) -> Duration {
        if time >= LOAD_CHECK_MIN && (self.under_load)() { time * PRESSED_FACTOR } else { time }
    }

    /// How much longer one may wait without a byte; zero when no more.
    pub(super) fn remaining(&self) -> Duration {
        self.remaining
    }

    /// From now on waits for so long and no longer, whatever the peer does.
    pub(super) fn replace_with_hard_limit(&mut self, budget: Duration) {
        self.remaining = budget;
        self.full = budget;
        self.rate_min_bytes_per_sec = u64::MAX;
    }

    fn spend(&mut self, time: Duration) {
        self.remaining = self.remaining.saturating_sub(time);
    }

    /// The peer took or gave `bytes`.
    pub(super) fn earn(&mut self, bytes: usize) {
        let nanos = bytes as u128 * 1_000_000_000 / u128::from(self.rate_min_bytes_per_sec);
        let earned = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        self.remaining = self.remaining.saturating_add(earned).min(self.full);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::SystemClock;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_peer_that_keeps_the_rate_never_uses_up_the_patience() {
        let mut budget = StallBudget::new(&SystemClock, 2 * SECOND, 100, &|| false);
        for _ in 0..1000 {
            budget.spend(SECOND);
            assert!(!budget.remaining().is_zero());
            budget.earn(100);
        }
        assert_eq!(budget.remaining(), 2 * SECOND);
    }

    #[test]
    fn a_peer_below_the_rate_uses_it_up_and_a_burst_before_does_not_help() {
        let mut budget = StallBudget::new(&SystemClock, 2 * SECOND, 100, &|| false);
        budget.earn(usize::MAX);
        for _ in 0..3 {
            budget.spend(SECOND);
            budget.earn(50);
        }
        assert_eq!(budget.remaining(), SECOND / 2);
        budget.spend(SECOND);
        assert!(budget.remaining().is_zero());
    }

    #[test]
    fn patience_runs_out_sooner_while_others_wait() {
        let under_load = std::sync::atomic::AtomicBool::new(false);
        let is_under_load = || under_load.load(std::sync::atomic::Ordering::Relaxed);
        let mut budget = StallBudget::new(&SystemClock, 32 * SECOND, 100, &is_under_load);
        assert_eq!(budget.cost(SECOND), SECOND);
        under_load.store(true, std::sync::atomic::Ordering::Relaxed);
        assert_eq!(budget.cost(SECOND), 16 * SECOND);
        assert_eq!(budget.cost(Duration::from_micros(10)), Duration::from_micros(10));
        budget.charge(|| {});
        assert!(budget.remaining() > 31 * SECOND);
    }
}
