//! How many files the process may have open, which connections count against.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Files that are left for the store and the log when connections have taken theirs.
const RESERVE: u64 = 128;

/// Raises the limit of open files as far as the system lets a process do so by itself, and says how many connections
/// fit below it, `wanted` at most. Without it a login shell's limit of 1,024 would be the limit of connections.
pub(crate) fn connections_that_fit(wanted: usize) -> usize {
    let limit = raise();
    let fit = usize::try_from(limit.saturating_sub(RESERVE).max(1)).unwrap_or(usize::MAX);
    if fit < wanted {
        log::warn!(
            "only {fit} of {wanted} connections fit below the limit of {limit} open files (ulimit -n)"
        );
    }
    fit.min(wanted)
}

/// The limit after it was raised.
fn raise() -> u64 {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let raised = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    let limit = if raised.is_ok() { maximum } else { current };
    limit.unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_connections_are_taken_than_fit() {
        assert_eq!(connections_that_fit(1), 1);
        assert!(connections_that_fit(usize::MAX) >= 1);
    }
}
