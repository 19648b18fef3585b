//! The mark of answers that may be stale: a standby's, which follows the log of another
//! host.

use std::sync::Mutex;
use std::time::Instant;

use crate::base::NOT_POISONED;
use crate::s3::{Response, S3Error};

/// Names the seconds since the store had all that was known of its log.
const MARK: &str = "p-siltstone-stale";

/// The last time at which a standby had all that the remote has.
#[derive(Debug, Default)]
pub struct Staleness(Mutex<Option<Instant>>);

impl Staleness {
    /// Remembers that the standby had at `time` all that the remote had then.
    pub(super) fn show_whole(&self, time: Instant) {
        *self.0.lock().expect(NOT_POISONED) = Some(time);
    }

    /// The seconds since that time, rounded up: all that the remote had before them is seen. `None`
    /// as long as it has not been.
    pub(super) fn seconds(&self) -> Option<u64> {
        let whole = *self.0.lock().expect(NOT_POISONED);
        whole.map(|time| time.elapsed().as_millis().div_ceil(1000).try_into().unwrap_or(u64::MAX))
    }

    /// The same outcome with the mark, and with the age by which caches know how long they may keep
    /// it (RFC 9111, section 5.1).
    pub(super) fn mark(&self, outcome: Result<Response, S3Error>) -> Result<Response, S3Error> {
        let Some(seconds) = self.seconds().map(|seconds| seconds.to_string()) else { return outcome };
        match outcome {
            Ok(response) => Ok(response.header(MARK, seconds.as_str()).header("Age", seconds)),
            Err(error) => Err(error.header(MARK, seconds.as_str()).header("Age", seconds)),
        }
    }
}
