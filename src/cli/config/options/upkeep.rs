//! Options: work in the background on what is stored.

use std::path::PathBuf;

use clap::Args;
use siltstone::base::limits;
use siltstone::store::ScrubPace;

use crate::cli::config::option_values::{ByteCount, ScrubRate};

/// Work in the background on what is stored.
#[derive(Debug, Clone, PartialEq, Args)]
pub(crate) struct UpkeepOptions {
    /// Log that is kept for mirrors and other followers alone; one that is further behind starts
    /// over
    #[arg(long, value_name = "SIZE", env = "SILTSTONE_FOLLOW_MAX", global = true)]
    #[arg(default_value_t = ByteCount(limits::FOLLOW_MAX_BYTES))]
    pub(crate) follow_max: ByteCount,

    /// Bytes a second that may be moved to reclaim space; a shortage of space overrules it
    #[arg(long, value_name = "SIZE", env = "SILTSTONE_RECLAIM_RATE", global = true)]
    #[arg(default_value_t = ByteCount(limits::RECLAIM_RATE_BYTES_PER_SEC))]
    pub(crate) reclaim_rate: ByteCount,

    /// Bytes a second that may be read to scrub stored bytes for damage; 0 for none
    #[arg(long, value_name = "SIZE", env = "SILTSTONE_SCRUB_RATE", global = true)]
    #[arg(help = format!(
        "Bytes a second that may be read to scrub stored bytes for damage; 0 for none [default: for a pass in {}d, at least {}]",
        limits::SCRUB_PASS_SECS / (24 * 60 * 60),
        ByteCount(limits::SCRUB_RATE_BYTES_PER_SEC),
    ))]
    pub(crate) scrub_rate: Option<ScrubRate>,

    /// Percent of the bytes on the remote that the scrub reads in 30 days; 0 for none
    #[arg(long, value_name = "PERCENT", env = "SILTSTONE_SCRUB_REMOTE", global = true)]
    #[arg(default_value_t = limits::SCRUB_REMOTE_PERCENT, value_parser = clap::value_parser!(u64).range(0..=100))]
    pub(crate) scrub_remote: u64,

    /// Program to run when a side of --mirror is dropped, filled or repaired, or a disk stops the
    /// writes; variables SILTSTONE_DISK_... say which
    #[arg(long, value_name = "FILE", env = "SILTSTONE_DISK_HOOK", global = true)]
    pub(crate) disk_hook: Option<PathBuf>,
}

impl UpkeepOptions {
    /// The pace of the scrub; `None` for no scrub.
    pub(crate) fn scrub_pace(&self) -> Option<ScrubPace> {
        match self.scrub_rate {
            None => Some(ScrubPace::Weekly),
            Some(ScrubRate(0)) => None,
            Some(ScrubRate(bytes)) => Some(ScrubPace::BytesPerSec(bytes)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::config::config_file::options;

    #[test]
    fn a_scrub_rate_of_zero_turns_the_scrub_off() {
        assert_eq!(options(&[], "").upkeep.scrub_pace(), Some(ScrubPace::Weekly));
        assert_eq!(options(&["--scrub-rate=0"], "").upkeep.scrub_pace(), None);
        assert_eq!(
            options(&["--scrub-rate=1MiB"], "").upkeep.scrub_pace(),
            Some(ScrubPace::BytesPerSec(1 << 20))
        );
    }
}
