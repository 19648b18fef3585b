//! What standbys wish of their writer: heartbeats as often as their takeover needs.

use std::time::Duration;

use super::HEARTBEATS_PER_TAKEOVER;
use crate::base::Timestamp;
use crate::format::TakeoverWish;

/// The interval of looks for a wish.
const LOOK_INTERVAL: Duration = Duration::from_secs(20);
/// The time for which a wish counts after it was first read. A standby that is there puts another
/// before.
const COUNTS_FOR: Duration = Duration::from_secs(60 * 60);
/// The time after which a standby puts its wish again.
const AGAIN_AFTER: Duration = Duration::from_secs(30 * 60);
/// The shortest time between two wishes of a standby.
const PAUSE: Duration = Duration::from_secs(60);

/// The wishes that a writer has read.
#[derive(Debug, Default)]
pub(super) struct KnownWishes {
    looked: Option<Timestamp>,
    /// The last one, and when it was first read.
    last: Option<(TakeoverWish, Timestamp)>,
}

impl KnownWishes {
    /// Whether a look for a wish is due.
    pub(super) fn is_due(&self, now: Timestamp) -> bool {
        self.looked.is_none_or(|looked| now.distance(looked) >= LOOK_INTERVAL)
    }

    /// Notes what a look has found.
    pub(super) fn learn(&mut self, found: Option<TakeoverWish>, now: Timestamp) {
        self.looked = Some(now);
        // A wish counts from the time when it was first read, on this clock: the clock of the
        // standby that put it may be another.
        if let Some(wish) = found.filter(|wish| self.last.is_none_or(|(last, _)| last != *wish)) {
            self.last = Some((wish, now));
        }
    }

    /// The time after which a standby takes over that is there.
    pub(super) fn after(&self, now: Timestamp) -> Option<Duration> {
        self.last.filter(|(_, read)| now.distance(*read) < COUNTS_FOR).map(|(wish, _)| wish.after)
    }
}

/// The wish of a standby.
#[derive(Debug)]
pub(super) struct OwnWish {
    pub(super) after: Duration,
    put: Option<Timestamp>,
}

impl OwnWish {
    pub(super) fn new(after: Duration) -> Self {
        Self { after, put: None }
    }

    /// Whether it is to be put: the writer promises fewer heartbeats than the takeover needs, or
    /// the last one ends to count.
    pub(super) fn is_due(&self, now: Timestamp, every: Duration) -> bool {
        let age = self.put.map(|put| now.distance(put));
        let is_slow = every * HEARTBEATS_PER_TAKEOVER > self.after;
        age.is_none_or(|age| age >= AGAIN_AFTER || (is_slow && age >= PAUSE))
    }

    /// Notes that it was put.
    pub(super) fn was_put(&mut self, now: Timestamp) {
        self.put = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::StoreId;

    fn at(secs: u64) -> Timestamp {
        Timestamp::from_millis(1_700_000_000_000 + secs * 1000)
    }

    #[test]
    fn a_wish_counts_for_an_hour_and_a_new_one_for_another() {
        let wish = |secs| {
            Some(TakeoverWish { store: StoreId([1; 16]), after: Duration::from_secs(15), made: at(secs) })
        };
        let mut known = KnownWishes::default();
        assert!(known.is_due(at(0)) && known.after(at(0)).is_none());
        known.learn(None, at(0));
        assert!(!known.is_due(at(19)) && known.is_due(at(20)));
        known.learn(wish(1), at(60));
        assert_eq!(known.after(at(3659)), Some(Duration::from_secs(15)));
        known.learn(wish(1), at(3600));
        assert_eq!(known.after(at(3660)), None, "its standby has gone");
        known.learn(wish(3661), at(3662));
        known.learn(None, at(3722));
        assert!(known.after(at(3723)).is_some());
    }

    #[test]
    fn a_standby_wishes_again_while_its_writer_is_slow_and_every_half_an_hour() {
        let mut own = OwnWish::new(Duration::from_secs(15));
        let slow = Duration::from_secs(60);
        let fast = Duration::from_secs(5);
        assert!(own.is_due(at(0), fast), "it has not told yet");
        own.was_put(at(0));
        assert!(!own.is_due(at(59), slow) && own.is_due(at(60), slow));
        assert!(!own.is_due(at(1799), fast) && own.is_due(at(1800), fast));
    }
}
