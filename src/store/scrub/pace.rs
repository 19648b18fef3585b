//! The pace of the scrub.

use std::time::Duration;

use crate::base::limits::{SCRUB_PASS_SECS, SCRUB_RATE_BYTES_PER_SEC, SCRUB_TIME_SHARE};
use crate::store::Scrubbed;

/// The pace of the scrub. At any setting it reads for at most one in [`SCRUB_TIME_SHARE`] parts of
/// the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScrubPace {
    /// Fast enough for a pass over all extents in [`SCRUB_PASS_SECS`], and at least
    /// [`SCRUB_RATE_BYTES_PER_SEC`].
    Weekly,
    /// Bytes read per second.
    BytesPerSec(u64),
}

impl ScrubPace {
    /// The pause after a call that did `done` and took `took`.
    pub fn rest(self, done: &Scrubbed, took: Duration) -> Duration {
        let whole = match self {
            Self::BytesPerSec(rate) => secs(done.bytes, rate),
            Self::Weekly => {
                let share = secs(done.checked_bytes, done.live_bytes);
                secs(done.bytes, SCRUB_RATE_BYTES_PER_SEC).min(share * SCRUB_PASS_SECS as f64)
            }
        };
        // A rate too low for any number of seconds waits for one pass at most.
        let whole = Duration::from_secs_f64(whole.min(SCRUB_PASS_SECS as f64));
        whole.saturating_sub(took).max(took * (SCRUB_TIME_SHARE - 1))
    }
}

fn secs(bytes: u64, bytes_per_sec: u64) -> f64 {
    bytes as f64 / bytes_per_sec.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::limits::{MIB, SCRUB_EVERY_SECS, TIB};

    const STEP: Scrubbed =
        Scrubbed { extents: 10, bytes: 4 * MIB, checked_bytes: 3 * MIB, live_bytes: TIB, bad: 0, more: true };

    /// The duration of a pass over `live_bytes`, in seconds, on a disk with the given rate.
    fn pass_secs(pace: ScrubPace, live_bytes: u64, disk_bytes_per_sec: u64) -> f64 {
        let took = Duration::from_secs_f64(STEP.bytes as f64 / disk_bytes_per_sec as f64);
        let step = took + pace.rest(&Scrubbed { live_bytes, ..STEP }, took);
        step.as_secs_f64() * live_bytes as f64 / STEP.checked_bytes as f64
    }

    #[test]
    fn a_pass_over_20_tib_takes_less_than_a_week_and_a_quarter_of_the_time_of_a_disk() {
        let week = SCRUB_EVERY_SECS as f64;
        for disk in [200 * MIB, 300 * MIB, 2000 * MIB] {
            let secs = pass_secs(ScrubPace::Weekly, 20 * TIB, disk);
            assert!(secs < week && secs > 0.8 * week, "{secs}");
        }
        assert!(pass_secs(ScrubPace::BytesPerSec(4 * MIB), 20 * TIB, 300 * MIB) > 8.0 * week);
        assert!(pass_secs(ScrubPace::BytesPerSec(64 * MIB), 20 * TIB, 300 * MIB) < week);
    }

    #[test]
    fn little_is_read_at_the_least_rate_and_a_slow_disk_is_left_alone_for_most_of_the_time() {
        let rest = |took| ScrubPace::Weekly.rest(&STEP, Duration::from_millis(took));
        assert_eq!(rest(100), Duration::from_millis(900), "4 MiB in a second");
        assert_eq!(rest(0), Duration::from_secs(1));
        assert_eq!(rest(2_000), Duration::from_secs(6));
        let fast = ScrubPace::BytesPerSec(1 << 40);
        assert_eq!(fast.rest(&STEP, Duration::from_secs(2)), Duration::from_secs(6));
        let slow = ScrubPace::BytesPerSec(1).rest(&Scrubbed { bytes: u64::MAX, ..STEP }, Duration::ZERO);
        assert_eq!(slow, Duration::from_secs(SCRUB_PASS_SECS));
    }

    #[test]
    fn a_step_that_read_nothing_rests_in_proportion_to_its_time() {
        let done = Scrubbed { more: true, ..Scrubbed::default() };
        assert_eq!(ScrubPace::Weekly.rest(&done, Duration::from_millis(5)), Duration::from_millis(15));
    }
}
