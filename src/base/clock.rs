//! The system time. Only this module reads it; all others use a [`Clock`].

use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime};

use rustix::time::{ClockId, clock_gettime};

use super::NOT_POISONED;
use crate::base::Timestamp;

/// A source of wall-clock time, and what else the host knows of the time.
pub trait Clock: Send + Sync {
    /// The current time of the wall clock, to the millisecond. It may jump, also backwards.
    fn now(&self) -> Timestamp;

    /// The current point on a monotonic scale, for intervals and deadlines within this process.
    fn instant(&self) -> Instant {
        Instant::now()
    }

    /// The time since a fixed point. Nobody sets it, and it passes while the host is suspended,
    /// too.
    fn uptime(&self) -> Duration {
        let time = clock_gettime(ClockId::Boottime);
        Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
    }

    /// The time of the clock that runs while the host is off; `None` where there is none.
    fn hardware(&self) -> Option<Timestamp> {
        None
    }

    /// Whether the host knows that the wall clock agrees with a source of time.
    fn is_synchronized(&self) -> bool {
        false
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

/// A host whose clocks are moved by hand, for tests.
#[derive(Debug)]
pub struct ManualClock(Mutex<ManualTime>);

#[derive(Debug)]
struct ManualTime {
    wall: Timestamp,
    /// The beginning of the scale of instants, and the time that has passed since.
    begun: Instant,
    passed: Duration,
    hardware: Option<Timestamp>,
    is_synchronized: bool,
}

impl ManualClock {
    /// A host whose wall clock and hardware clock show `now`.
    pub fn new(now: Timestamp) -> Self {
        Self(Mutex::new(ManualTime {
            wall: now,
            begun: Instant::now(),
            passed: Duration::ZERO,
            hardware: Some(now),
            is_synchronized: false,
        }))
    }

    /// Lets time pass until the wall clock shows `now`. An earlier time is one to which the wall
    /// clock is set back.
    pub fn set(&self, now: Timestamp) {
        let passed = now.since(self.now());
        self.advance(passed);
        self.set_wall(now);
    }

    /// Lets time pass.
    pub fn advance(&self, by: Duration) {
        let mut time = self.lock();
        time.passed += by;
        time.wall = time.wall.plus(by);
        time.hardware = time.hardware.map(|hardware| hardware.plus(by));
    }

    /// Sets the wall clock alone, forwards or backwards.
    pub fn set_wall(&self, wall: Timestamp) {
        self.lock().wall = wall;
    }

    /// Sets the hardware clock, or takes it away.
    pub fn set_hardware(&self, hardware: Option<Timestamp>) {
        self.lock().hardware = hardware;
    }

    /// States whether the wall clock agrees with a source of time.
    pub fn set_synchronized(&self, is_synchronized: bool) {
        self.lock().is_synchronized = is_synchronized;
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, ManualTime> {
        self.0.lock().expect(NOT_POISONED)
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        self.lock().wall
    }

    fn instant(&self) -> Instant {
        let time = self.lock();
        time.begun + time.passed
    }

    fn uptime(&self) -> Duration {
        self.lock().passed
    }

    fn hardware(&self) -> Option<Timestamp> {
        self.lock().hardware
    }

    fn is_synchronized(&self) -> bool {
        self.lock().is_synchronized
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

    #[test]
    fn a_manual_clock_that_is_set_back_lets_no_time_pass_and_one_that_is_set_ahead_does() {
        let clock = ManualClock::new(Timestamp::from_millis(1_000));
        let begun = clock.instant();
        clock.set(Timestamp::from_millis(4_000));
        clock.set(Timestamp::from_millis(500));
        clock.set_wall(Timestamp::from_millis(90_000));
        assert_eq!(clock.uptime(), Duration::from_secs(3));
        assert_eq!(clock.hardware(), Some(Timestamp::from_millis(4_000)));
        assert_eq!(clock.instant() - begun, Duration::from_secs(3));
    }

    #[test]
    fn the_system_has_been_up_for_a_while_and_longer_later() {
        let first = SystemClock.uptime();
        assert!(first > Duration::ZERO && SystemClock.uptime() >= first);
    }
}
