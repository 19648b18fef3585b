//! The parts of an engine that the event loop and the workers share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::acceptor::Acceptor;
use super::connections::{Connection, ConnectionTable};
use super::poller::Poller;
use super::work_queues::WorkQueues;
use super::worker_class::WorkerClass;
use crate::base::Clock;
use crate::http::Config;
use crate::s3::Handler;

/// One engine, as all its threads see it.
pub(super) struct DirectEngine {
    /// The settings.
    pub(super) config: Config,
    /// The time.
    pub(super) clock: Arc<dyn Clock>,
    /// Answers the requests.
    pub(super) handler: Arc<dyn Handler>,
    /// Accepts connections.
    pub(super) acceptor: Acceptor,
    /// The open connections.
    pub(super) connections: Arc<ConnectionTable>,
    /// Reports events, and wakes the event loop.
    pub(super) poller: Arc<Poller>,
    /// Set once, when the engine is to stop.
    pub(super) stopping: Arc<AtomicBool>,
    /// The requests that wait for a worker.
    pub(super) queues: Arc<WorkQueues>,
}

impl DirectEngine {
    /// Whether the engine is to stop.
    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// The moment `time` from now.
    pub(super) fn deadline_in(&self, time: Duration) -> Instant {
        self.clock.instant() + time
    }

    /// Queues a connection whose request waits for a worker, from now on.
    ///
    /// # Errors
    /// As of [`WorkQueues::push`].
    pub(super) fn enqueue(
        &self,
        mut connection: Box<Connection>,
        class: WorkerClass,
    ) -> Result<(), Box<Connection>> {
        connection.queued_at = self.clock.instant();
        self.queues.push(connection, class)
    }
}
