//! The activity of the server, for administrators: its last requests, the last acts that the audit
//! is about, and what it does now.

use std::time::Duration;

use super::Service;
use super::audit_trail::NotedAct;
use super::last_hour::BusyNames;
use super::recent::NotedRequest;
use super::users::{UserError, check};
use crate::auth::{Action, Identity};
use crate::base::Timestamp;

/// Requests that are shown.
const SHOWN_MAX: usize = 200;
/// The time over which requests and bytes are counted.
const RATE_OVER: Duration = Duration::from_secs(10);

/// What the server does.
#[derive(Debug, Clone, PartialEq)]
pub struct Activity {
    /// The last requests, the newest first.
    pub requests: Vec<NotedRequest>,
    /// The requests and the bytes of a second, of late.
    pub rates: RequestRates,
    /// The users and the buckets with the most requests of the last hour.
    pub busiest: BusyNames,
    /// Uploads in parts that were begun, and neither completed nor aborted.
    pub open_uploads: u64,
    /// The load of the listener of S3 requests; `None` where its engine does not tell it.
    pub load: Option<ServerLoad>,
}

/// Requests and bytes of a second.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct RequestRates {
    pub requests: f64,
    pub received_bytes: f64,
    pub sent_bytes: f64,
}

/// The load of a listener.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ServerLoad {
    /// Threads that handle requests.
    pub workers: usize,
    /// Those that have one.
    pub busy_workers: usize,
    /// Connections whose request, or the rest of a response, waits for a worker.
    pub waiting: usize,
    /// Connections that are open.
    pub connections: usize,
}

/// Tells the load of a listener.
pub(super) type LoadSource = dyn Fn() -> Option<ServerLoad> + Send + Sync;

/// The last acts that the audit is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastActs {
    /// The newest first.
    pub acts: Vec<NotedAct>,
    /// Whether an audit log has all of them.
    pub are_logged: bool,
}

impl Service {
    /// Lets the activity show the load that `source` tells. A second call changes nothing.
    pub fn show_load(&self, source: impl Fn() -> Option<ServerLoad> + Send + Sync + 'static) {
        self.load.get_or_init(|| Box::new(source));
    }

    /// The activity of the server.
    ///
    /// # Errors
    /// [`UserError::Denied`].
    pub fn activity(&self, identity: &Identity) -> Result<Activity, UserError> {
        check(identity, Action::AdminGetActivity)?;
        let mut requests = self.recorder.last_requests.snapshot();
        let now = self.recorder.clock.now();
        let rates = rates(&requests, now);
        let busiest = self.recorder.last_hour.busiest(now);
        requests.truncate(SHOWN_MAX);
        let open_uploads = self.context.store.upload_count();
        let load = self.load.get().and_then(|source| source());
        Ok(Activity { requests, rates, busiest, open_uploads, load })
    }

    /// The last acts that the audit is about, since the start.
    ///
    /// # Errors
    /// [`UserError::Denied`].
    pub fn last_acts(&self, identity: &Identity) -> Result<LastActs, UserError> {
        check(identity, Action::AdminGetActivity)?;
        let trail = &self.recorder.audit;
        Ok(LastActs { acts: trail.last(), are_logged: trail.log().is_some() })
    }
}

/// The rates of the last seconds. Where more requests came in them than are kept, those that are
/// kept count, over the time since the oldest of them.
fn rates(requests: &[NotedRequest], now: Timestamp) -> RequestRates {
    let is_late = |request: &&NotedRequest| now.distance(request.time) < RATE_OVER;
    let late: Vec<_> = requests.iter().filter(is_late).collect();
    let oldest = late.last().filter(|_| late.len() >= SHOWN_MAX);
    let over = oldest.map_or(RATE_OVER, |oldest| now.distance(oldest.time));
    let seconds = over.max(Duration::from_millis(1)).as_secs_f64();
    let received: u64 = late.iter().map(|request| request.received).sum();
    let sent: u64 = late.iter().map(|request| request.sent).sum();
    RequestRates {
        requests: late.len() as f64 / seconds,
        received_bytes: received as f64 / seconds,
        sent_bytes: sent as f64 / seconds,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requests(count: u64, every_millis: u64, now: Timestamp) -> Vec<NotedRequest> {
        let request = |number: u64| NotedRequest {
            time: Timestamp::from_millis(now.as_millis() - number * every_millis),
            id: String::new(),
            peer: None,
            user: None,
            operation: String::new(),
            path: String::new(),
            status: 200,
            error: None,
            received: 10,
            sent: 20,
            took: Duration::ZERO,
        };
        (0..count).map(request).collect()
    }

    #[test]
    fn rates_are_of_the_last_seconds_or_of_the_time_that_is_kept() {
        let now = Timestamp::from_millis(1 << 40);
        assert_eq!(rates(&[], now), RequestRates::default());
        let one = rates(&requests(100, 1_000, now), now);
        assert_eq!((one.requests, one.received_bytes, one.sent_bytes), (1.0, 10.0, 20.0));
        let many = rates(&requests(256, 10, now), now);
        assert!((many.requests - 100.0).abs() < 1.0, "{many:?}");
        let at_once = rates(&requests(256, 0, now), now);
        assert!(at_once.requests.is_finite());
    }
}
