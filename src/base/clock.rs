//! The system time. Only this module reads it; all others use a [`Clock`].

use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime};

use crate::base::Timestamp;

/// A source of wall-clock time.
pub trait Clock: Send + Sync {
    /// The current time, to the millisecond. It may jump, also backwards.
    fn now(&self) -> Timestamp;

    /// The current point on a monotonic scale, for deadlines of events outside of this process. It is always that of
    /// the system.
    fn instant(&self) -> Instant {
        Instant::now()
    }
}

/// The clock of the operating system.
#[derive(Debug, Default, Clone, Copy)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_system(SystemTime::now())
    }
}

/// A clock that is moved by hand, for tests.
#[derive(Debug)]
pub struct ManualClock(Mutex<Timestamp>);

impl ManualClock {
    /// A clock that is set to `now`.
    pub fn new(now: Timestamp) -> Self {
        Self(Mutex::new(now))
    }

    /// Sets the clock to `now`, forwards or backwards.
    pub fn set(&self, now: Timestamp) {
        *self.lock() = now;
    }

    /// Moves the clock forward.
    pub fn advance(&self, by: Duration) {
        let mut now = self.lock();
        *now = Timestamp::from_millis(now.as_millis() + by.as_millis() as u64);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Timestamp> {
        self.0.lock().expect("no code panics while it holds the clock")
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        *self.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manual_clock_moves_only_by_hand() {
        let clock = ManualClock::new(Timestamp::from_millis(1_000));
        assert_eq!(clock.now().as_millis(), 1_000);
        clock.advance(Duration::from_millis(500));
        assert_eq!(clock.now().as_millis(), 1_500);
        clock.set(Timestamp::from_millis(3));
        assert_eq!(clock.now().as_millis(), 3);
    }
}
