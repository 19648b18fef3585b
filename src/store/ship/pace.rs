//! When a standby asks for what: the next parcel at each step, and the rest as seldom as the
//! writer's promise allows.

use std::time::Duration;

use super::HEARTBEATS_PER_TAKEOVER;
use crate::base::Timestamp;

/// The pause between two looks for the next parcel, and that after a while without one.
const PAUSE: Duration = Duration::from_secs(1);
const IDLE_PAUSE: Duration = Duration::from_secs(5);
/// The time without a parcel after which the pause is longer.
const IDLE_AFTER: Duration = Duration::from_secs(60);
/// The interval of looks for a heartbeat: half of their own, between these.
const HEARTBEAT_LOOK_MIN: Duration = Duration::from_secs(3);
const HEARTBEAT_LOOK_MAX: Duration = Duration::from_secs(10);
/// The interval of looks for later epochs and roots while nothing calls for one.
const FULL_LOOK_INTERVAL: Duration = Duration::from_secs(30 * 60);
/// The longest interval of such looks while the writer is silent.
const SILENT_LOOK_MAX: Duration = Duration::from_secs(60);
/// The interval of heartbeats where the writer tells none.
const HEARTBEAT_EVERY: Duration = Duration::from_secs(5);

/// What a standby has seen, and when.
#[derive(Debug, Default)]
pub(super) struct FollowPace {
    /// The last parcel, or the first look.
    applied: Option<Timestamp>,
    /// The last look for a heartbeat, and for later epochs and roots.
    heartbeat_look: Option<Timestamp>,
    full_look: Option<Timestamp>,
    /// The last parcel or new heartbeat.
    heard: Option<Timestamp>,
    /// The interval of heartbeats that the writer promises.
    every: Option<Duration>,
    /// Looks for later epochs since then.
    silent_looks: u32,
}

impl FollowPace {
    /// Notes a parcel.
    pub(super) fn applied(&mut self, now: Timestamp) {
        self.applied = Some(now);
        self.heard = Some(now);
        self.silent_looks = 0;
    }

    /// Notes that there was no parcel.
    pub(super) fn missed(&mut self, now: Timestamp) {
        self.applied.get_or_insert(now);
    }

    /// Whether a look for a heartbeat is due.
    pub(super) fn is_heartbeat_due(&self, now: Timestamp) -> bool {
        self.heartbeat_look.is_none_or(|last| now.distance(last) >= self.heartbeat_look_interval())
    }

    /// Notes a look for a heartbeat, which promises the next one after `every`, and may be a new
    /// one.
    pub(super) fn looked_for_heartbeat(&mut self, now: Timestamp, every: Option<Duration>, is_new: bool) {
        self.heartbeat_look = Some(now);
        self.every = every.or(self.every);
        if is_new {
            self.heard = Some(now);
            self.silent_looks = 0;
        }
    }

    /// Whether a look for later epochs and roots is due: at times, and more often while the writer
    /// is late.
    pub(super) fn is_full_look_due(&self, now: Timestamp) -> bool {
        let Some(last) = self.full_look else { return true };
        // Half an interval of grace: a heartbeat takes its time on the way, and looks for it are as
        // far apart as half an interval.
        let is_late = self.heard.is_none_or(|heard| now.distance(heard) > self.every() * 3 / 2);
        let backoff = HEARTBEAT_LOOK_MIN.saturating_mul(2_u32.saturating_pow(self.silent_looks.min(8)));
        let interval = if is_late { backoff.min(SILENT_LOOK_MAX) } else { FULL_LOOK_INTERVAL };
        now.distance(last) >= interval
    }

    /// Notes such a look.
    pub(super) fn looked_fully(&mut self, now: Timestamp) {
        self.full_look = Some(now);
        self.silent_looks = self.silent_looks.saturating_add(1);
    }

    /// The pause before the next step.
    pub(super) fn pause(&self, now: Timestamp) -> Duration {
        let is_idle = self.applied.is_some_and(|applied| now.distance(applied) >= IDLE_AFTER);
        if is_idle { IDLE_PAUSE.min(self.heartbeat_look_interval()) } else { PAUSE }
    }

    fn heartbeat_look_interval(&self) -> Duration {
        (self.every() / 2).clamp(HEARTBEAT_LOOK_MIN, HEARTBEAT_LOOK_MAX)
    }

    /// The shortest silence after which the writer may be taken for gone, as it promises.
    pub(super) fn least_silence(&self) -> Duration {
        self.every() * HEARTBEATS_PER_TAKEOVER
    }

    fn every(&self) -> Duration {
        self.every.unwrap_or(HEARTBEAT_EVERY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: u64) -> Timestamp {
        Timestamp::from_millis(1_700_000_000_000 + secs * 1000)
    }

    #[test]
    fn steps_are_slower_without_parcels_and_as_fast_as_before_with_one() {
        let mut pace = FollowPace::default();
        pace.missed(at(0));
        assert_eq!(pace.pause(at(59)), PAUSE);
        assert_eq!(pace.pause(at(60)), HEARTBEAT_LOOK_MIN, "as often as heartbeats are looked for");
        pace.looked_for_heartbeat(at(60), Some(Duration::from_secs(60)), true);
        assert_eq!(pace.pause(at(60)), IDLE_PAUSE);
        pace.applied(at(61));
        assert_eq!(pace.pause(at(62)), PAUSE);
    }

    #[test]
    fn the_promise_of_the_writer_tells_how_often_signs_are_looked_for() {
        let mut pace = FollowPace::default();
        assert!(pace.is_heartbeat_due(at(0)) && pace.is_full_look_due(at(0)));
        assert_eq!(pace.least_silence(), Duration::from_secs(15));
        pace.looked_for_heartbeat(at(0), Some(Duration::from_secs(60)), true);
        pace.looked_fully(at(0));
        assert!(!pace.is_heartbeat_due(at(9)) && pace.is_heartbeat_due(at(10)));
        assert_eq!(pace.least_silence(), Duration::from_secs(180));
        assert!(!pace.is_full_look_due(at(90)), "it is not late yet");
        assert!(pace.is_full_look_due(at(91)));
    }

    #[test]
    fn a_writer_that_stays_silent_is_looked_for_less_and_less_often() {
        let mut pace = FollowPace::default();
        pace.looked_for_heartbeat(at(0), None, true);
        pace.looked_fully(at(0));
        let looks: Vec<u64> = (1..=300)
            .filter(|secs| {
                let is_due = pace.is_full_look_due(at(*secs));
                if is_due {
                    pace.looked_fully(at(*secs));
                }
                is_due
            })
            .collect();
        assert_eq!(looks[..4], [8, 20, 44, 92], "{looks:?}");
        assert!(looks.len() < 9, "{looks:?}");
    }
}
