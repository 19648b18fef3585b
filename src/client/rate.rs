//! A rate limit for all transfers in one direction.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::base::NOT_POISONED;

/// The transfers that may run ahead of the rate.
const BURST: Duration = Duration::from_millis(250);

/// A token bucket that is kept as the time at which it will be full.
#[derive(Debug)]
pub(crate) struct RateLimit {
    bytes_per_sec: u64,
    paid_until: Mutex<Option<Instant>>,
}

impl RateLimit {
    /// A limit; `None` for a rate of zero, which stands for none.
    pub(crate) fn new(bytes_per_sec: u64) -> Option<Self> {
        (bytes_per_sec > 0).then(|| Self { bytes_per_sec, paid_until: Mutex::new(None) })
    }

    /// Books `bytes`, and returns the time to wait before they are transferred.
    pub(crate) fn book(&self, bytes: usize, now: Instant) -> Duration {
        // Booked before it is waited for: callers at the same time get places one after another,
        // where waiting first would let all of them go at once.
        let cost = Duration::from_secs_f64(bytes as f64 / self.bytes_per_sec as f64);
        let mut paid_until = self.paid_until.lock().expect(NOT_POISONED);
        // A pause saves up one burst, however long it was.
        let earliest = now.checked_sub(BURST).unwrap_or(now);
        let until = paid_until.map_or(earliest, |until| until.max(earliest)) + cost;
        *paid_until = Some(until);
        until.saturating_duration_since(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_free_and_the_rest_goes_at_the_rate() {
        let limit = RateLimit::new(1000).unwrap();
        let now = Instant::now();
        assert_eq!(limit.book(250, now), Duration::ZERO);
        assert_eq!(limit.book(1000, now), Duration::from_secs(1));
        assert_eq!(limit.book(500, now), Duration::from_millis(1500), "transfers at a time share it");
        let later = now + Duration::from_secs(60);
        assert_eq!(limit.book(250, later), Duration::ZERO, "a pause saves up one burst");
        assert_eq!(limit.book(1000, later), Duration::from_secs(1));
        assert!(RateLimit::new(0).is_none());
    }
}
