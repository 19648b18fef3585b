//! What the poller and the workers of one engine have in common.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::acceptor::Acceptor;
use super::connection_table::ConnectionTable;
use super::poller::Poller;
use super::work_queues::WorkQueues;
use crate::base::Clock;
use crate::http::Config;
use crate::s3::Handler;

/// The parts of an engine that all its threads use.
pub(super) struct DirectEngine {
    /// The settings.
    pub(super) config: Config,
    /// The time.
    pub(super) clock: Arc<dyn Clock>,
    /// Whatever answers the requests.
    pub(super) handler: Arc<dyn Handler>,
    /// What lets connections in.
    pub(super) acceptor: Acceptor,
    /// The connections.
    pub(super) connections: Arc<ConnectionTable>,
    /// What wakes the event_loop.
    pub(super) poller: Arc<Poller>,
    /// Set once, by the order to stop.
    pub(super) stopping: Arc<AtomicBool>,
    /// The requests that wait for a worker.
    pub(super) queues: Arc<WorkQueues>,
}

impl DirectEngine {
    /// Whether the order to stop has come.
    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// The moment that lies `time` ahead.
    pub(super) fn deadline_in(&self, time: Duration) -> Instant {
        self.clock.instant() + time
    }
}
