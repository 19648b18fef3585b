//! The division of the limit of open files between connections, segments and the files of the
//! server itself.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use siltstone::base::limits::{DRAINING_MAX, SEGMENTS_OPEN_MAX, SEGMENTS_OPEN_MIN};

/// Files of the server itself: standard streams, listener, poller, lock, access log, the log and
/// the active segments, a checkpoint written and one read, the scrub, synced directories.
const OWN_FILES: usize = 64;
/// One in this many open files at most is for connections that are draining.
const DRAINING_SHARE: usize = 8;

/// The division of the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OpenFiles {
    /// Connections.
    pub(crate) connections_max: usize,
    /// Cached open segments, besides those in use.
    pub(crate) segments_open_max: usize,
}

impl OpenFiles {
    /// Raises the limit of open files up to the hard limit, and divides it. Otherwise the soft
    /// limit of a login shell, 1,024, would limit the connections. `others` are files of further
    /// connections.
    pub(crate) fn divide(connections_wanted: usize, workers: usize, others: usize) -> Self {
        let limit = raise();
        let divided = Self::below(limit.saturating_sub(others), connections_wanted, workers);
        let fit = divided.connections_max;
        if fit < connections_wanted {
            log::warn!(
                "only {fit} of {connections_wanted} connections fit below the limit of {limit} open files (ulimit -n)"
            );
        }
        divided
    }

    /// Connections come first, each with a segment while a worker serves it; the rest is for cached
    /// segments.
    fn below(limit: usize, connections_wanted: usize, workers: usize) -> Self {
        let left = limit.saturating_sub(OWN_FILES + DRAINING_MAX.min(limit / DRAINING_SHARE));
        let for_both = left.saturating_sub(SEGMENTS_OPEN_MIN);
        let fit = (for_both / 2).max(for_both.saturating_sub(workers)).max(1);
        let connections_max = fit.min(connections_wanted);
        let in_use = connections_max.saturating_add(workers.min(connections_max));
        let segments_open_max = left.saturating_sub(in_use).clamp(SEGMENTS_OPEN_MIN, SEGMENTS_OPEN_MAX);
        Self { connections_max, segments_open_max }
    }
}

/// Raises the limit. Returns the limit in effect.
fn raise() -> usize {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let raised = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    let limit = if raised.is_ok() { maximum } else { current };
    limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_taken_than_fits_and_no_more_than_is_wanted() {
        for limit in [1, 64, 100, 220, 300, 512, 1_024, 4_096, 20_000, 1 << 20, usize::MAX] {
            let OpenFiles { connections_max, segments_open_max } = OpenFiles::below(limit, 8_192, 96);
            let taken = OWN_FILES + connections_max + connections_max.min(96) + segments_open_max;
            assert!(limit < 100 || taken <= limit, "{taken} of {limit}");
            assert!((1..=8_192).contains(&connections_max));
            assert!((SEGMENTS_OPEN_MIN..=SEGMENTS_OPEN_MAX).contains(&segments_open_max));
        }
        assert_eq!(OpenFiles::below(1 << 20, 1, 96).connections_max, 1);
    }

    #[test]
    fn where_files_are_few_connections_have_most_and_where_they_are_many_segments_stay_open() {
        let few = OpenFiles::below(1_024, 8_192, 96);
        assert!(few.connections_max > 700 && few.segments_open_max == SEGMENTS_OPEN_MIN, "{few:?}");
        let many = OpenFiles::below(1 << 20, 8_192, 96);
        assert_eq!((many.connections_max, many.segments_open_max), (8_192, SEGMENTS_OPEN_MAX));
    }

    #[test]
    fn by_the_limit_of_this_process() {
        assert_eq!(OpenFiles::divide(1, 1, 0).connections_max, 1);
    }
}
