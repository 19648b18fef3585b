//! The minimum-rate timeout of slow peers.

use std::time::Duration;

use crate::base::Clock;
use crate::base::limits::UNDER_LOAD_FACTOR;

/// The time for which a peer may stall a worker.
///
/// Waiting for the peer uses the budget up. Each byte refills it at the minimum rate, up to its
/// full size. A peer that keeps the minimum rate is served for as long as its body takes; one that
/// stops is dropped after a known time. Time that the server itself takes is not charged.
pub(super) struct StallBudget<'w> {
    clock: &'w dyn Clock,
    remaining: Duration,
    full: Duration,
    rate_min_bytes_per_sec: u64,
    under_load: &'w (dyn Fn() -> bool + Sync + 'w),
}

/// Shorter waits are charged without a look at the load.
const LOAD_CHECK_MIN: Duration = Duration::from_millis(1);

/// The interval at which a waiting worker checks the load.
const WAIT_SLICE_MAX: Duration = Duration::from_millis(250);

impl<'w> StallBudget<'w> {
    /// A full budget. While `under_load` holds, waiting costs [`UNDER_LOAD_FACTOR`] times as much,
    /// which raises the minimum rate by that factor.
    pub(super) fn new(
        clock: &'w dyn Clock,
        budget: Duration,
        rate_min_bytes_per_sec: u64,
        under_load: &'w (dyn Fn() -> bool + Sync + 'w),
    ) -> Self {
        Self { clock, remaining: budget, full: budget, rate_min_bytes_per_sec, under_load }
    }

    /// The same budget with only `remaining` left of it.
    pub(super) fn with_remaining(self, remaining: Duration) -> Self {
        Self { remaining: remaining.min(self.full), ..self }
    }

    /// The longest single wait.
    pub(super) fn wait_slice(&self) -> Duration {
        self.remaining.min(WAIT_SLICE_MAX)
    }

    /// Makes a call that may wait for the peer, and charges the time it takes.
    pub(super) fn charge<T>(&mut self, call: impl FnOnce() -> T) -> T {
        let since = self.clock.instant();
        let outcome = call();
        let time = self.clock.instant().saturating_duration_since(since);
        self.spend(self.cost(time));
        outcome
    }

    fn cost(&self, time: Duration) -> Duration {
        if time >= LOAD_CHECK_MIN && (self.under_load)() { time * UNDER_LOAD_FACTOR } else { time }
    }

    /// How long the peer may stall from here on; zero when the budget is used up.
    pub(super) fn remaining(&self) -> Duration {
        self.remaining
    }

    /// Replaces the budget by a fixed time that no byte refills.
    pub(super) fn replace_with_hard_limit(&mut self, limit: Duration) {
        self.remaining = limit;
        self.full = limit;
        self.rate_min_bytes_per_sec = u64::MAX;
    }

    fn spend(&mut self, time: Duration) {
        self.remaining = self.remaining.saturating_sub(time);
    }

    /// Refills the budget for `bytes` that the peer has sent or received.
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
    fn a_peer_that_keeps_the_rate_never_uses_up_the_budget() {
        let mut budget = StallBudget::new(&SystemClock, 2 * SECOND, 100, &|| false);
        for _ in 0..1000 {
            budget.spend(SECOND);
            assert!(!budget.remaining().is_zero());
            budget.earn(100);
        }
        assert_eq!(budget.remaining(), 2 * SECOND);
    }

    #[test]
    fn a_peer_below_the_rate_uses_it_up_and_an_earlier_burst_does_not_help() {
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
    fn waiting_costs_more_under_load() {
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
