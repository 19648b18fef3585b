//! How long a slow peer may keep a worker waiting.

use std::time::Duration;

use crate::base::Clock;
use crate::base::limits::PRESSED_FACTOR;

/// A store of patience: waiting uses it up, every byte earns some back at the rate that is asked for, and it is never
/// more than it was at first. So a peer that keeps the rate is served for as long as it takes, one that stops is given
/// up after a known time, and time that the server itself needs counts against nobody.
pub(super) struct Pace<'w> {
    clock: &'w dyn Clock,
    left: Duration,
    most: Duration,
    rate_min_bytes_per_sec: u64,
    pressed: &'w (dyn Fn() -> bool + Sync + 'w),
}

/// A wait too short to look who else waits.
const BRIEF: Duration = Duration::from_millis(1);

/// After that long a waiting worker looks whether others wait for it.
const SLICE: Duration = Duration::from_millis(250);

impl<'w> Pace<'w> {
    /// Full patience. While `pressed` says that others wait for the worker, it is used up [`PRESSED_FACTOR`] times as fast,
    /// so that the rate that is asked for is that much higher.
    pub(super) fn new(
        clock: &'w dyn Clock,
        patience: Duration,
        rate_min_bytes_per_sec: u64,
        pressed: &'w (dyn Fn() -> bool + Sync + 'w),
    ) -> Self {
        Self { clock, left: patience, most: patience, rate_min_bytes_per_sec, pressed }
    }

    /// The same with what is left of the patience.
    pub(super) fn with_left(self, left: Duration) -> Self {
        Self { left: left.min(self.most), ..self }
    }

    /// How long to wait at a time.
    pub(super) fn slice(&self) -> Duration {
        self.left.min(SLICE)
    }

    /// Does what the peer may keep waiting.
    pub(super) fn waiting<T>(&mut self, call: impl FnOnce() -> T) -> T {
        let since = self.clock.instant();
        let outcome = call();
        let time = self.clock.instant().saturating_duration_since(since);
        self.waited(self.cost(time));
        outcome
    }

    /// What of the patience a wait has used up.
    fn cost(&self, time: Duration) -> Duration {
        if time >= BRIEF && (self.pressed)() { time * PRESSED_FACTOR } else { time }
    }

    /// How much longer one may wait without a byte; zero when no more.
    pub(super) fn left(&self) -> Duration {
        self.left
    }

    /// From now on waits for so long and no longer, whatever the peer does.
    pub(super) fn limit(&mut self, patience: Duration) {
        self.left = patience;
        self.most = patience;
        self.rate_min_bytes_per_sec = u64::MAX;
    }

    fn waited(&mut self, time: Duration) {
        self.left = self.left.saturating_sub(time);
    }

    /// The peer took or gave `bytes`.
    pub(super) fn moved(&mut self, bytes: usize) {
        let nanos = bytes as u128 * 1_000_000_000 / u128::from(self.rate_min_bytes_per_sec);
        let earned = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        self.left = self.left.saturating_add(earned).min(self.most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::SystemClock;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_peer_that_keeps_the_rate_never_uses_up_the_patience() {
        let mut pace = Pace::new(&SystemClock, 2 * SECOND, 100, &|| false);
        for _ in 0..1000 {
            pace.waited(SECOND);
            assert!(!pace.left().is_zero());
            pace.moved(100);
        }
        assert_eq!(pace.left(), 2 * SECOND);
    }

    #[test]
    fn a_peer_below_the_rate_uses_it_up_and_a_burst_before_does_not_help() {
        let mut pace = Pace::new(&SystemClock, 2 * SECOND, 100, &|| false);
        pace.moved(usize::MAX);
        for _ in 0..3 {
            pace.waited(SECOND);
            pace.moved(50);
        }
        assert_eq!(pace.left(), SECOND / 2);
        pace.waited(SECOND);
        assert!(pace.left().is_zero());
    }

    #[test]
    fn patience_runs_out_sooner_while_others_wait() {
        let pressed = std::sync::atomic::AtomicBool::new(false);
        let is_pressed = || pressed.load(std::sync::atomic::Ordering::Relaxed);
        let mut pace = Pace::new(&SystemClock, 32 * SECOND, 100, &is_pressed);
        assert_eq!(pace.cost(SECOND), SECOND);
        pressed.store(true, std::sync::atomic::Ordering::Relaxed);
        assert_eq!(pace.cost(SECOND), 16 * SECOND);
        assert_eq!(pace.cost(Duration::from_micros(10)), Duration::from_micros(10));
        pace.waiting(|| {});
        assert!(pace.left() > 31 * SECOND);
    }
}
