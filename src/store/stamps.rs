//! Numbers that are never given twice, near the microseconds since 1970, so that they sort by time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::base::Clock;

/// Gives stamps (data-format.md, "Words").
pub(super) struct Stamps {
    clock: Arc<dyn Clock>,
    last: AtomicU64,
}

impl Stamps {
    /// Stamps above `last`.
    pub(super) fn new(clock: Arc<dyn Clock>, last: u64) -> Self {
        Self { clock, last: AtomicU64::new(last) }
    }

    /// A stamp above all before, also where the clock was set back.
    pub(super) fn next(&self) -> u64 {
        let now = self.clock.now().as_millis() * 1000;
        let step = |last: u64| Some(now.max(last + 1));
        let last = self.last.fetch_update(Ordering::Relaxed, Ordering::Relaxed, step);
        now.max(last.expect("the step always gives a stamp") + 1)
    }

    /// The highest given so far.
    pub(super) fn last(&self) -> u64 {
        self.last.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::{ManualClock, Timestamp};

    #[test]
    fn stamps_rise_with_the_clock_and_also_when_it_stands_or_goes_back() {
        let clock = Arc::new(ManualClock::new(Timestamp::from_millis(5)));
        let stamps = Stamps::new(clock.clone(), 0);
        assert_eq!([stamps.next(), stamps.next()], [5000, 5001]);
        clock.set(Timestamp::from_millis(1));
        assert_eq!(stamps.next(), 5002);
        clock.set(Timestamp::from_millis(9));
        assert_eq!([stamps.next(), stamps.last()], [9000, 9000]);
    }
}
