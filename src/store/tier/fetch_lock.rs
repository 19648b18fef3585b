//! The lock that readers take to fetch: one fetches at a place at a time, and those who wait share
//! what it finds.

use std::io;
use std::time::Instant;

/// What the readers at a place have found.
#[derive(Default)]
pub(super) struct FetchLock {
    /// The end of the last fetch that brought bytes.
    served: Option<Instant>,
    failed: Option<FailedFetch>,
}

/// A fetch that failed.
struct FailedFetch {
    at: Instant,
    segment: u64,
    kind: io::ErrorKind,
    why: String,
}

impl FetchLock {
    /// Fails as the last fetch did, if that was after the reader had arrived: it has waited for it.
    /// What is wrong with one copy says nothing of another.
    pub(super) fn check(&self, segment: u64, arrived: Instant) -> io::Result<()> {
        let Some(failed) = &self.failed else { return Ok(()) };
        let concerns = failed.segment == segment || failed.kind == io::ErrorKind::HostUnreachable;
        if !concerns || failed.at < arrived {
            return Ok(());
        }
        Err(io::Error::new(failed.kind, failed.why.clone()))
    }

    /// The time from which a reader waits for the remote: its arrival, or a later fetch that the
    /// remote has answered.
    pub(super) fn waits_since(&self, arrived: Instant) -> Instant {
        self.served.map_or(arrived, |served| served.max(arrived))
    }

    /// Notes the outcome of a fetch, which has ended at that time, for those who wait.
    pub(super) fn note<T>(&mut self, segment: u64, at: Instant, fetched: io::Result<T>) -> io::Result<T> {
        match &fetched {
            Ok(_) => {
                self.served = Some(at);
                self.failed = None;
            }
            Err(error) => {
                self.failed = Some(FailedFetch { at, segment, kind: error.kind(), why: error.to_string() });
            }
        }
        fetched
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn those_who_wait_share_a_failure_and_later_ones_do_not() {
        let before = Instant::now();
        let end = before + Duration::from_secs(2);
        let after = end + Duration::from_nanos(1);
        let mut lock = FetchLock::default();
        let silent = || io::Error::new(io::ErrorKind::HostUnreachable, "silent");
        assert!(lock.note::<()>(1, end, Err(silent())).is_err());
        assert_eq!(lock.check(1, before).unwrap_err().to_string(), "silent");
        assert!(lock.check(2, before).is_err(), "the remote is away for all");
        assert!(lock.check(1, after).is_ok());
        let gone = io::Error::new(io::ErrorKind::InvalidData, "gone");
        assert!(lock.note::<()>(1, end, Err(gone)).is_err());
        assert!(lock.check(1, before).is_err() && lock.check(2, before).is_ok());
        assert!(lock.note(2, end, Ok(())).is_ok() && lock.check(1, before).is_ok());
        assert_eq!(lock.waits_since(before), end);
        assert_eq!(lock.waits_since(after), after);
    }
}
