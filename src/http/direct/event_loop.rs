//! The thread that watches every parked connection, and closes those whose deadline has passed.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::engine::DirectEngine;
use super::event_handler::{EventHandler, RejectReason};
use crate::base::limits;

/// The bounds of the time between two scans for expired connections.
const EXPIRY_SCAN_MIN: Duration = Duration::from_millis(10);
const EXPIRY_SCAN_MAX: Duration = Duration::from_secs(1);

/// The interval at which the end of the last connections is checked while the engine stops.
const STOP_POLL: Duration = Duration::from_millis(5);

/// The size of the receive buffer, unless a head may be larger.
const SCRATCH_BYTES: usize = 64 * limits::KIB as usize;

/// The event loop of one engine.
pub(super) struct EventLoop {
    engine: Arc<DirectEngine>,
    event_handler: EventHandler,
    next_expiry_scan: Instant,
}

impl EventLoop {
    /// An event loop that has not started.
    pub(super) fn new(engine: Arc<DirectEngine>) -> Self {
        let scratch_bytes = SCRATCH_BYTES.max(engine.config.head_max_bytes);
        let event_handler = EventHandler::new(Arc::clone(&engine), scratch_bytes);
        let next_expiry_scan = engine.clock.instant();
        Self { engine, event_handler, next_expiry_scan }
    }

    /// Serves until the engine is to stop. Then it closes the listener, the work queues and the
    /// idle connections, and rejects requests that no worker has. Returns how many connections were
    /// accepted.
    ///
    /// # Errors
    /// When the system fails to report events.
    pub(super) fn serve(&mut self) -> io::Result<u64> {
        let mut outcome = Ok(());
        while !self.engine.is_stopping() && outcome.is_ok() {
            let timeout = self.timeout();
            outcome = self.poll_and_expire(timeout);
        }
        // Also after an error of the poller: no client may wait at a listener that nobody serves.
        let accepted = self.engine.acceptor.close();
        // Workers finish the queued requests, and end.
        self.engine.close_queues();
        // An idle client sees the end between two requests. One that has sent something waits for
        // an answer, and learns that it is to try again.
        for connection in self.engine.connections.close_to_requests() {
            if !connection.received.is_empty() || connection.pending_response.is_some() {
                self.event_handler.reject(connection, RejectReason::Overload);
            }
        }
        outcome.map(|()| accepted)
    }

    /// Goes on draining connections until `done` or until `deadline`. Returns whether it was done
    /// in time.
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
        self.expire_connections();
        Ok(())
    }

    /// The time until the next expiry scan or the end of the listener's pause; `None` if neither is
    /// due.
    fn timeout(&self) -> Option<Duration> {
        let now = self.engine.clock.instant();
        let resume = self.engine.acceptor.resume(now);
        // Without connections nothing can expire, and an idle server sleeps until an event.
        let counts = self.engine.connections.counts();
        let scan = (counts.serving + counts.draining > 0).then_some(self.next_expiry_scan);
        let next = resume.into_iter().chain(scan).min()?;
        Some(next.saturating_duration_since(now))
    }

    fn expire_connections(&mut self) {
        let DirectEngine { config, clock, connections, .. } = &*self.engine;
        let now = clock.instant();
        if now < self.next_expiry_scan {
            return;
        }
        // A scan visits every slot under the lock of the table, so it isn't made at each event. A
        // connection outlives its deadline by the time between two scans at most.
        let shortest = config.head_deadline.min(config.idle_deadline).min(config.drain_deadline);
        self.next_expiry_scan = now + (shortest / 4).clamp(EXPIRY_SCAN_MIN, EXPIRY_SCAN_MAX);
        for connection in connections.take_expired(now) {
            self.event_handler.expire(connection);
        }
    }
}
