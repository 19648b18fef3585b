//! The clocks of the host: the system's, with what the kernel and the hardware know of it.

use std::fs;
use std::time::Duration;

use rtime_clock::adjtime::{Timex, adjtimex};
use siltstone::base::{Clock, SystemClock, Timestamp};

/// The hardware clock, in seconds since 1970 (Linux, Documentation/ABI/testing/rtc-cdev).
const HARDWARE: &str = "/sys/class/rtc/rtc0/since_epoch";
/// The difference at which the clock of the kernel is the one that this process sees.
const SAME: Duration = Duration::from_secs(60);
/// The clock is not synchronised (adjtimex(2), "TIME_ERROR", "STA_UNSYNC").
const TIME_ERROR: i32 = 5;
const STA_UNSYNC: i32 = 0x40;

/// The clocks of the host.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct HostClock;

impl Clock for HostClock {
    fn now(&self) -> Timestamp {
        SystemClock.now()
    }

    fn hardware(&self) -> Option<Timestamp> {
        let seconds: u64 = fs::read_to_string(HARDWARE).ok()?.trim().parse().ok()?;
        Some(Timestamp::from_millis(seconds.saturating_mul(1000)))
    }

    fn is_synchronized(&self) -> bool {
        let mut state = Timex::new();
        // A sandbox may refuse the call.
        let Ok(answer) = adjtimex(&mut state) else { return false };
        let kernel =
            Timestamp::from_millis(u64::try_from(state.0.time.tv_sec).unwrap_or(0).saturating_mul(1000));
        let is_own = kernel.distance(self.now()) <= SAME;
        is_own && answer != TIME_ERROR && state.0.status & STA_UNSYNC == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_answers_or_does_not_know() {
        let clock = HostClock;
        println!("hardware: {:?}, synchronised: {}", clock.hardware(), clock.is_synchronized());
        assert!(clock.now() > Timestamp::from_millis(0) && clock.uptime() > Duration::ZERO);
        assert!(clock.hardware().is_none_or(|hardware| hardware > Timestamp::from_millis(0)));
    }
}
