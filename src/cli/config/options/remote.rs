//! Options: the remote: segments and the log that are sent to it, and the hosts that share it.

use std::time::Duration;

use clap::{ArgAction, Args};
use siltstone::base::limits;
use siltstone::store::ShipOptions;

use crate::cli::config::option_values::{ByteCount, ShipWhen, TimeSpan};
use crate::cli::error::CliError;

/// The shortest time without a heartbeat: a writer gives one every 5 s, and it is looked for
/// every 3 s.
const TAKEOVER_AFTER_MIN: Duration = Duration::from_secs(15);
/// The least bound of the lag: the remote is looked at three times in it.
const LAG_MAX_MIN: Duration = Duration::from_secs(3);

/// The remote: segments and the log that are sent to it, and the hosts that share it.
#[derive(Debug, Clone, PartialEq, Args)]
pub(crate) struct RemoteOptions {
    /// Most bytes that data segments take up on this disk, where a remote has the others; at least
    /// 4 times --segment-size [default: none]
    #[arg(long, value_name = "SIZE", env = "SILTSTONE_LOCAL_MAX", global = true)]
    pub(crate) local_max: Option<ByteCount>,

    /// Time for which the bytes of a segment stay on this disk after the remote has got them
    /// [default: none]
    #[arg(long, value_name = "TIME", env = "SILTSTONE_KEEP_LOCAL", global = true)]
    pub(crate) keep_local: Option<TimeSpan>,

    /// Time for which the remote keeps the bytes of a segment after the last object in it is gone,
    /// for backups
    #[arg(long, value_name = "TIME", env = "SILTSTONE_KEEP_DROPPED", global = true)]
    #[arg(default_value_t = TimeSpan::from_secs(limits::KEEP_DROPPED_SECS))]
    pub(crate) keep_dropped: TimeSpan,

    /// When a write is on the remote: async for within --ship-every, sync for before it is answered
    #[arg(long, value_name = "WHEN", env = "SILTSTONE_SHIP", global = true)]
    #[arg(default_value_t = ShipWhen(None))]
    pub(crate) ship: ShipWhen,

    /// Interval at which the log is sent to the remote
    #[arg(long, value_name = "TIME", env = "SILTSTONE_SHIP_EVERY", global = true)]
    #[arg(default_value_t = TimeSpan::from_secs(limits::SHIP_EVERY_SECS))]
    pub(crate) ship_every: TimeSpan,

    /// With async: age of the oldest write that the remote lacks, beyond which writes get 503
    /// [default: --takeover-after, where it is set; else none]
    #[arg(long, value_name = "TIME", env = "SILTSTONE_SHIP_LAG_MAX", global = true)]
    pub(crate) ship_lag_max: Option<TimeSpan>,

    /// Time without a heartbeat of the writer after which a standby takes over; at least 15s.
    /// Without it only `promote` takes over. The writer has the same setting
    #[arg(long, value_name = "TIME", env = "SILTSTONE_TAKEOVER_AFTER", global = true)]
    pub(crate) takeover_after: Option<TimeSpan>,

    /// Time into the past that a restore from the remote reaches at least
    #[arg(long, value_name = "TIME", env = "SILTSTONE_SHIP_WINDOW", global = true)]
    #[arg(default_value_t = TimeSpan::from_secs(limits::SHIP_WINDOW_SECS))]
    pub(crate) ship_window: TimeSpan,

    /// Write although the remote has a log and this server does not continue it by --ship: that log
    /// ends
    #[arg(long, value_name = "BOOL", env = "SILTSTONE_ABANDON_LOG", global = true)]
    #[arg(action = ArgAction::Set, default_value_t = false)]
    pub(crate) abandon_log: bool,

    /// With an encrypted data directory: send to a remote without a key, and to mirrors, what can
    /// be read there
    #[arg(long, value_name = "BOOL", env = "SILTSTONE_REMOTE_INSECURE", global = true)]
    #[arg(action = ArgAction::Set, default_value_t = false)]
    pub(crate) remote_insecure: bool,

    /// One of several hosts with one remote: the start goes on where this directory is the newest
    /// and no other host writes, and else follows the writer, as the command standby does. All of
    /// them have the same setting
    #[arg(long, value_name = "BOOL", env = "SILTSTONE_STANDBY", global = true)]
    #[arg(action = ArgAction::Set, default_value_t = false)]
    pub(crate) standby: bool,

    /// Answer reads on a standby from the directory that it fills; the answers may be stale, and
    /// say so
    #[arg(long, value_name = "BOOL", env = "SILTSTONE_STANDBY_READS", global = true)]
    #[arg(action = ArgAction::Set, default_value_t = false)]
    pub(crate) standby_reads: bool,
}

impl RemoteOptions {
    /// The settings of shipping; `None` where the log stays here.
    pub(crate) fn shipping(&self) -> Option<ShipOptions> {
        let mode = self.ship.0?;
        let root_every = Duration::from_secs(limits::ROOT_EVERY_SECS);
        Some(ShipOptions { mode, root_every, window: self.ship_window.0, lag_max: self.lag_max() })
    }

    /// The age of the oldest write that the remote may lack. A second host may write after the time
    /// of a takeover, so this one stops by then.
    fn lag_max(&self) -> Option<Duration> {
        let most = self.ship_lag_max.as_ref().or(self.takeover_after.as_ref());
        most.map(|most| most.0)
    }

    /// The interval at which the log is sent: well within the bound of its lag.
    pub(crate) fn ship_interval(&self) -> Duration {
        self.lag_max().map_or(self.ship_every.0, |most| self.ship_every.0.min(most / 3))
    }

    /// Two hosts answer writes for as long as the bound of the lag at most, so it is no longer than
    /// the time of a takeover.
    pub(crate) fn check_takeover(&self) -> Result<(), CliError> {
        let takeover_after = self.takeover_after.as_ref().map(|time| time.0);
        if takeover_after.is_some_and(|time| time < TAKEOVER_AFTER_MIN) {
            return Err(CliError::usage("--takeover-after: at least 15s"));
        }
        let Some(most) = self.ship_lag_max.as_ref().map(|time| time.0) else { return Ok(()) };
        if most < LAG_MAX_MIN {
            return Err(CliError::usage("--ship-lag-max: at least 3s"));
        }
        match takeover_after {
            Some(time) if most > time => Err(CliError::usage(
                "--ship-lag-max: at most --takeover-after, after which another host may write",
            )),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::config::config_file::options;

    #[test]
    fn the_lag_is_bounded_where_a_takeover_is_named() {
        let bound = |arguments: &[&str]| {
            let set = options(arguments, "ship = 'async'");
            set.check().map(|()| (set.remote.shipping().unwrap().lag_max, set.remote.ship_interval()))
        };
        let seconds = Duration::from_secs;
        assert_eq!(bound(&[]).unwrap(), (None, seconds(2)));
        assert_eq!(bound(&["--takeover-after=30s"]).unwrap(), (Some(seconds(30)), seconds(2)));
        let both = ["--takeover-after=30s", "--ship-lag-max=3s"];
        assert_eq!(bound(&both).unwrap(), (Some(seconds(3)), seconds(1)));
        assert_eq!(bound(&["--ship-lag-max=1h"]).unwrap().0, Some(seconds(3600)));
        for (arguments, why) in [
            (&["--takeover-after=14s"][..], "at least 15s"),
            (&["--ship-lag-max=2s"], "at least 3s"),
            (&["--takeover-after=15s", "--ship-lag-max=16s"], "at most --takeover-after"),
        ] {
            assert!(bound(arguments).unwrap_err().to_string().contains(why), "{arguments:?}");
        }
    }
}
