//! The figures of a target, for metrics, the API and the console.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::base::{NOT_POISONED, Timestamp};
use crate::store::FollowerFigures;

/// The name of the follower of the target `name`.
pub fn follower_name(name: &str) -> String {
    format!("webhook {name}")
}

/// The figures of all targets, in the order of the configuration file.
pub type WebhookFigures = Vec<Arc<TargetFigures>>;

/// The figures of a target since the start.
#[derive(Debug, Default)]
pub struct TargetFigures {
    /// The name of the target.
    name: String,
    /// Its server, without the path.
    endpoint: String,
    delivered: AtomicU64,
    failed: AtomicU64,
    dropped: AtomicU64,
    /// The last error and the time of the first one, until the target accepts again.
    failing: Mutex<Option<(Timestamp, String)>>,
}

/// The state of a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetState {
    /// Its name.
    pub name: String,
    /// Its server, without the path, which may hold a secret.
    pub endpoint: String,
    /// Records that it accepted.
    pub delivered: u64,
    /// Requests that failed.
    pub failed: u64,
    /// Records that it refused for too long.
    pub dropped: u64,
    /// The times that it lost events, since the log was not kept for so long.
    pub overruns: u64,
    /// The age of the oldest change whose events it has not accepted, or more.
    pub lag: Duration,
    /// Groups of the log whose events it has not accepted.
    pub waiting_groups: u64,
    /// The last error; `None` once the target accepts.
    pub error: Option<String>,
    /// The time of the first error since the target accepted the last time.
    pub failing_since: Option<Timestamp>,
    /// Whether its place in the log is gone, so that it loses events.
    pub is_overrun: bool,
}

impl TargetFigures {
    /// Zeros.
    pub fn new(name: &str, endpoint: &str) -> Self {
        Self { name: name.to_owned(), endpoint: endpoint.to_owned(), ..Self::default() }
    }

    /// The name of the target.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The figures now, with its follower's, if that is in use.
    pub fn state(&self, followers: &[FollowerFigures]) -> TargetState {
        let name = follower_name(&self.name);
        let follower = followers.iter().find(|follower| follower.name == name);
        let failing = self.failing.lock().expect(NOT_POISONED).clone();
        let (failing_since, error) = failing.unzip();
        TargetState {
            overruns: follower.map_or(0, |follower| follower.starts_over),
            lag: follower.map_or(Duration::ZERO, |follower| follower.lag),
            waiting_groups: follower.map_or(0, |follower| follower.waiting_groups),
            name: self.name.clone(),
            endpoint: self.endpoint.clone(),
            delivered: self.delivered.load(Relaxed),
            failed: self.failed.load(Relaxed),
            dropped: self.dropped.load(Relaxed),
            error,
            failing_since,
            is_overrun: follower.is_some_and(|follower| follower.is_overrun),
        }
    }

    /// Counts accepted messages. Returns whether requests failed before.
    pub(super) fn add_delivered(&self, messages: usize) -> bool {
        self.delivered.fetch_add(messages as u64, Relaxed);
        self.failing.lock().expect(NOT_POISONED).take().is_some()
    }

    /// Counts a failed request. Returns whether it is the first after a success.
    pub(super) fn add_failed(&self, why: &str, now: Timestamp) -> bool {
        self.failed.fetch_add(1, Relaxed);
        let mut failing = self.failing.lock().expect(NOT_POISONED);
        let since = failing.as_ref().map(|(since, _)| *since);
        *failing = Some((since.unwrap_or(now), why.to_owned()));
        since.is_none()
    }

    pub(super) fn add_dropped(&self) {
        self.dropped.fetch_add(1, Relaxed);
    }
}
