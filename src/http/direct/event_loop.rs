//! The thread that looks after every connection which no worker has, and closes what takes too long.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::engine::DirectEngine;
use super::event_handler::{EventHandler, RejectReason};
use super::work_queues::WorkerClass;
use crate::base::limits;
use crate::s3::{ErrorCode, S3Error};

/// The bounds of the time between two looks at the deadlines.
const EXPIRY_SCAN_MIN: Duration = Duration::from_millis(10);
const EXPIRY_SCAN_MAX: Duration = Duration::from_secs(1);

/// How often the end of the last connections is looked for while the engine stops.
const STOP_POLL: Duration = Duration::from_millis(5);

/// What is received into, unless a head may be larger.
const SCRATCH_BYTES: usize = 64 * limits::KIB as usize;

/// The poller of one engine.
pub(super) struct EventLoop {
    engine: Arc<DirectEngine>,
    event_handler: EventHandler,
    next_expiry_scan: Instant,
}

impl EventLoop {
    /// A poller that has not response_started.
    pub(super) fn new(engine: Arc<DirectEngine>) -> Self {
        let scratch_bytes = SCRATCH_BYTES.max(engine.config.head_max_bytes);
        let event_handler = EventHandler::new(Arc::clone(&engine), scratch_bytes);
        let next_expiry_scan = engine.clock.instant();
        Self { engine, event_handler, next_expiry_scan }
    }

    /// Serves until the order to stop; then accepts nothing more, turns away whoever waits, and lets the workers end
    /// once the queue is empty. Says how many connections have been accepted.
    ///
    /// # Errors
    /// When the system can no longer tell which sockets are ready.
    pub(super) fn serve(&mut self) -> io::Result<u64> {
        let mut outcome = Ok(());
        while !self.engine.is_stopping() && outcome.is_ok() {
            let timeout = self.timeout();
            outcome = self.poll_and_expire(timeout);
        }
        let accepted = self.engine.acceptor.close();
        self.engine.queues.close();
        for connection in self.engine.connections.close_to_requests() {
            if !connection.received.is_empty() || connection.pending_response.is_some() {
                self.event_handler.reject(connection, RejectReason::Overload);
            }
        }
        outcome.map(|()| accepted)
    }

    /// Goes on draining closed connections until `done` or until `deadline`; whether it was done.
    ///
    /// # Errors
    /// As `serve`.
    pub(super) fn drain_connections(
        &mut self,
        deadline: Instant,
        mut done: impl FnMut() -> bool,
    ) -> io::Result<bool> {
        while !done() {
            if self.engine.clock.instant() >= deadline {
                return Ok(false);
            }
            self.poll_and_expire(Some(STOP_POLL))?;
        }
        Ok(true)
    }

    fn poll_and_expire(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        self.event_handler.poll_once(timeout)?;
        self.handle_expired();
        Ok(())
    }

    /// How long nothing has to be done if nothing happens.
    fn timeout(&self) -> Option<Duration> {
        let now = self.engine.clock.instant();
        let resume = self.engine.acceptor.resume(now);
        let counts = self.engine.connections.counts();
        let scan = (counts.serving + counts.draining > 0).then_some(self.next_expiry_scan);
        let next = resume.into_iter().chain(scan).min()?;
        Some(next.saturating_duration_since(now))
    }

    fn handle_expired(&mut self) {
        let DirectEngine { config, clock, connections, .. } = &*self.engine;
        let now = clock.instant();
        if now < self.next_expiry_scan {
            return;
        }
        let shortest = config.head_deadline.min(config.idle_deadline).min(config.drain_deadline);
        self.next_expiry_scan = now + (shortest / 4).clamp(EXPIRY_SCAN_MIN, EXPIRY_SCAN_MAX);
        for connection in connections.take_expired(now) {
            if connection.pending_response.is_some() {
                connection.stream.reset_on_close();
            } else if connection.awaited_len > 0 {
                self.event_handler.enqueue(connection, WorkerClass::Large);
            } else if !connection.received.is_empty() {
                let error = S3Error::new(ErrorCode::RequestTimeout);
                self.event_handler.reject(connection, RejectReason::Error(error));
            }
        }
    }
}
