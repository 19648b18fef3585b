//! The monotonic id generator. Ids are unique and near the microseconds since 1970, so that they
//! sort by time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::base::Clock;

/// The ids that are skipped at a start: so many ids above the last known one may be in extents
/// whose write never committed, and the clock may have been set back since.
const IN_DOUBT: u64 = 100_000;

/// Generates ids for buckets, versions, parts, uploads and writes.
pub(in crate::store) struct IdGenerator {
    clock: Arc<dyn Clock>,
    last: AtomicU64,
}

impl IdGenerator {
    /// A generator of ids above `last`, the highest known id; 0 if there is none.
    pub(in crate::store) fn new(clock: Arc<dyn Clock>, last: u64) -> Self {
        let in_doubt = if last > 0 { IN_DOUBT } else { 0 };
        Self { clock, last: AtomicU64::new(last.saturating_add(in_doubt)) }
    }

    /// An id above all earlier ones, even if the clock was set back.
    pub(in crate::store) fn next(&self) -> u64 {
        let now = self.clock.now().as_millis() * 1000;
        // Only a store that takes no writes has no id above the last (`Index::has_stamps_left`).
        let after = |last: u64| now.max(last.saturating_add(1));
        let last = self.last.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| Some(after(last)));
        after(last.expect("the update always has an id"))
    }

    /// The highest id so far.
    pub(in crate::store) fn last(&self) -> u64 {
        self.last.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::{ManualClock, Timestamp};

    #[test]
    fn ids_rise_with_the_clock_and_also_when_it_stands_or_goes_back() {
        let clock = Arc::new(ManualClock::new(Timestamp::from_millis(5)));
        let ids = IdGenerator::new(clock.clone(), 0);
        assert_eq!([ids.next(), ids.next()], [5000, 5001]);
        clock.set(Timestamp::from_millis(1));
        assert_eq!(ids.next(), 5002);
        clock.set(Timestamp::from_millis(9));
        assert_eq!([ids.next(), ids.last()], [9000, 9000]);
    }

    #[test]
    fn ids_that_may_have_been_generated_before_the_start_are_skipped() {
        let clock = Arc::new(ManualClock::new(Timestamp::from_millis(5)));
        assert_eq!(IdGenerator::new(clock.clone(), 7000).next(), 107_001);
        clock.set(Timestamp::from_millis(500));
        assert_eq!(IdGenerator::new(clock, 7000).next(), 500_000);
    }
}
