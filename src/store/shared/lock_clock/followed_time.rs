//! A time that follows the wall clock as far as that is believed.

use std::time::Duration;

use crate::base::{Clock, Timestamp};
use crate::format::SavedTime;

/// The lead over the uptime with which the wall clock is followed, in a day.
pub(super) const FOLLOWED_MAX: Duration = Duration::from_secs(60 * 60);
/// The distance from the saved time with which the wall clock is followed at a start: that time is
/// up to an hour old, and a restart takes a while.
const FOLLOWED_AT_START_MAX: Duration = Duration::from_secs(3 * 60 * 60);
/// The time of steady running after which a jump is believed.
pub(super) const STEADY_AFTER: Duration = Duration::from_secs(24 * 60 * 60);
/// The longest stop that the hardware clock proves. A clock that is further ahead was set wrong, or
/// its battery was changed.
const STOP_MAX: Duration = Duration::from_secs(366 * 24 * 60 * 60);
/// The difference at which a hardware clock agrees: many run on local time.
const HARDWARE_TOLERANCE: Duration = Duration::from_secs(15 * 60 * 60);

/// Whether the hardware clock shows about the time of the wall clock.
fn hardware_agrees(clock: &dyn Clock, wall: Timestamp) -> bool {
    clock.hardware().is_some_and(|hardware| hardware.distance(wall) <= HARDWARE_TOLERANCE)
}

/// What a look at the clocks found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClockNews {
    /// The wall clock is that far ahead, and not believed.
    Doubted(Duration),
    /// The wall clock is believed again, or at once, since it agrees with a source of time or has
    /// run steadily.
    Believed,
    /// The wall clock is where it was expected, after a doubt.
    Returned,
}

/// The time. It never goes back, unless the operator sets it.
#[derive(Debug, Clone, Copy)]
pub(super) struct FollowedTime {
    time: Timestamp,
    /// The uptime at that time.
    at: Duration,
    /// How far the time was led ahead of the uptime, and the uptime from which that counts.
    led: Duration,
    led_since: Duration,
    doubt: Option<Doubt>,
}

/// A jump ahead that is not believed.
#[derive(Debug, Clone, Copy)]
struct Doubt {
    /// The uptime and the wall clock when it was found.
    since: Duration,
    wall: Timestamp,
}

impl FollowedTime {
    /// The time that goes on from the one that was saved, or from the newest stamp.
    pub(super) fn resume(saved: SavedTime, clock: &dyn Clock) -> Self {
        let uptime = clock.uptime();
        let wall = clock.now();
        let ahead = wall.since(saved.time);
        let is_believed = ahead <= FOLLOWED_AT_START_MAX
            || clock.is_synchronized()
            || (!saved.in_doubt && ahead <= STOP_MAX && hardware_agrees(clock, wall));
        let doubt = (!is_believed).then_some(Doubt { since: uptime, wall });
        let time = if is_believed { saved.time.max(wall) } else { saved.time };
        Self { time, at: uptime, led: Duration::ZERO, led_since: uptime, doubt }
    }

    /// Compares the time with the wall clock, and follows it.
    pub(super) fn look(&mut self, clock: &dyn Clock) -> Option<ClockNews> {
        let uptime = clock.uptime();
        let wall = clock.now();
        let before = self.time;
        // The uptime is what a wrong clock cannot change: the time goes on by it, and the wall
        // clock only corrects it.
        self.time = before.plus(uptime.saturating_sub(self.at));
        self.at = uptime;
        // Many small steps in a row are a jump as well: what was followed counts together for a
        // day.
        if uptime.saturating_sub(self.led_since) >= STEADY_AFTER {
            self.led = Duration::ZERO;
            self.led_since = uptime;
        }
        let ahead = wall.since(self.time);
        if self.doubt.is_some() {
            return self.look_in_doubt(wall, ahead, clock);
        }
        if ahead.is_zero() {
            self.wait_for(wall, before);
            return None;
        }
        if self.led + ahead <= FOLLOWED_MAX {
            self.led += ahead;
            self.time = wall;
            return None;
        }
        if clock.is_synchronized() {
            self.believe(wall);
            return Some(ClockNews::Believed);
        }
        self.doubt = Some(Doubt { since: uptime, wall });
        Some(ClockNews::Doubted(ahead))
    }

    fn look_in_doubt(&mut self, wall: Timestamp, ahead: Duration, clock: &dyn Clock) -> Option<ClockNews> {
        let doubt = self.doubt?;
        if ahead <= FOLLOWED_MAX {
            self.doubt = None;
            return Some(ClockNews::Returned);
        }
        let steady = self.at.saturating_sub(doubt.since);
        // It has jumped again: what it showed before proves nothing about it.
        if doubt.wall.plus(steady).distance(wall) > FOLLOWED_MAX {
            self.doubt = Some(Doubt { since: self.at, wall });
            return Some(ClockNews::Doubted(ahead));
        }
        if steady < STEADY_AFTER && !clock.is_synchronized() {
            return None;
        }
        self.believe(wall);
        Some(ClockNews::Believed)
    }

    /// Stands still while the wall clock is a little behind, so that neither runs away from the
    /// other.
    fn wait_for(&mut self, wall: Timestamp, before: Timestamp) {
        if self.time.since(wall) <= FOLLOWED_MAX {
            let waited = before.max(wall);
            self.led = self.led.saturating_sub(self.time.since(waited));
            self.time = waited;
        }
    }

    /// Takes the wall clock for right.
    pub(super) fn believe(&mut self, wall: Timestamp) {
        self.time = wall;
        self.led = Duration::ZERO;
        self.led_since = self.at;
        self.doubt = None;
    }

    /// The time of the last look.
    pub(super) fn time(&self) -> Timestamp {
        self.time
    }

    pub(super) fn is_in_doubt(&self) -> bool {
        self.doubt.is_some()
    }

    /// The time until a doubt ends by itself, if the wall clock goes on steadily.
    pub(super) fn doubt_left(&self) -> Option<Duration> {
        let doubt = self.doubt?;
        Some(STEADY_AFTER.saturating_sub(self.at.saturating_sub(doubt.since)))
    }

    pub(super) fn saved(&self) -> SavedTime {
        SavedTime { time: self.time, in_doubt: self.is_in_doubt() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::ManualClock;

    const HOUR: Duration = Duration::from_secs(60 * 60);
    const MINUTE: Duration = Duration::from_secs(60);

    fn started() -> (ManualClock, FollowedTime) {
        let clock = ManualClock::new(Timestamp::from_millis(1_700_000_000_000));
        let saved = SavedTime { time: clock.now(), in_doubt: false };
        let time = FollowedTime::resume(saved, &clock);
        (clock, time)
    }

    #[test]
    fn a_wall_clock_that_runs_fast_is_followed_for_an_hour_a_day() {
        let (clock, mut time) = started();
        for _ in 0..3 * 24 {
            clock.advance(HOUR);
            clock.set_wall(clock.now().plus(2 * MINUTE));
            assert_eq!(time.look(&clock), None);
            assert_eq!(time.time(), clock.now());
        }
        let steps = (0..100).take_while(|_| {
            clock.set_wall(clock.now().plus(10 * MINUTE));
            time.look(&clock).is_none()
        });
        assert!(steps.count() <= 6, "many small jumps are a large one");
        assert!(time.is_in_doubt());
    }

    #[test]
    fn the_jitter_of_many_looks_is_no_lead() {
        let (clock, mut time) = started();
        for _ in 0..10_000 {
            clock.set_wall(clock.now().plus(MINUTE));
            assert_eq!(time.look(&clock), None);
            clock.set_wall(Timestamp::from_millis(clock.now().as_millis() - 60_000));
            clock.advance(MINUTE);
            assert_eq!(time.look(&clock), None);
        }
    }

    #[test]
    fn a_time_waits_for_a_wall_clock_that_is_a_little_behind_and_not_for_one_that_was_set_back() {
        let (clock, mut time) = started();
        let begun = time.time();
        clock.set_wall(Timestamp::from_millis(begun.as_millis() - 60_000));
        clock.advance(30 * Duration::from_secs(1));
        time.look(&clock);
        assert_eq!(time.time(), begun);
        clock.advance(HOUR);
        time.look(&clock);
        assert_eq!(time.time(), clock.now());
        let before = time.time();
        clock.set_wall(Timestamp::from_millis(0));
        clock.advance(HOUR);
        time.look(&clock);
        assert_eq!(time.time(), before.plus(HOUR));
    }

    #[test]
    fn a_second_jump_begins_the_wait_anew_and_a_return_ends_it() {
        let (clock, mut time) = started();
        clock.set_wall(clock.now().plus(1_000 * HOUR));
        assert_eq!(time.look(&clock), Some(ClockNews::Doubted(1_000 * HOUR)));
        clock.advance(23 * HOUR);
        assert_eq!(time.look(&clock), None);
        clock.set_wall(clock.now().plus(1_000 * HOUR));
        assert!(matches!(time.look(&clock), Some(ClockNews::Doubted(_))));
        assert_eq!(time.doubt_left(), Some(24 * HOUR));
        clock.advance(23 * HOUR);
        assert_eq!(time.look(&clock), None);
        clock.set_wall(time.time());
        assert_eq!(time.look(&clock), Some(ClockNews::Returned));
        assert_eq!(time.doubt_left(), None);
    }
}
