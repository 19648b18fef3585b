//! The parts of an engine that the event loop and the workers share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::acceptor::Acceptor;
use super::connections::{Connection, ConnectionTable};
use super::head;
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
    /// Those that the reserve of workers takes, if there is one.
    pub(super) reserve: Option<Arc<WorkQueues>>,
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
        // A large request waits for its client. A pending response does not: it yields to others.
        let is_quick = class == WorkerClass::Small || connection.pending_response.is_some();
        connection.uses_reserve &= is_quick;
        let reserve = self.reserve.as_ref().filter(|_| connection.uses_reserve);
        reserve.unwrap_or(&self.queues).push(connection, class)
    }

    /// Whether the reserve of workers is for the request whose head is at the start of `received`.
    pub(super) fn uses_reserve(&self, received: &[u8]) -> bool {
        if self.reserve.is_none() {
            return false;
        }
        match head::request_line(received) {
            Some((method, target)) => self.handler.uses_reserve(method, target),
            None => false,
        }
    }

    /// Whether the reserve of workers is to do what any worker may do at once.
    pub(super) fn needs_reserve(&self) -> bool {
        self.reserve.is_some() && !self.queues.has_idle_worker()
    }

    /// Closes the queues of all workers.
    pub(super) fn close_queues(&self) {
        self.queues.close();
        if let Some(queues) = &self.reserve {
            queues.close();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::net::TcpStream;

    use super::super::DirectServer;
    use super::super::event_handler::EventHandler;
    use super::*;
    use crate::base::SystemClock;
    use crate::s3::{Request, Response, S3Error};

    /// Chooses all requests for the reserve.
    struct ReserveForAll;

    impl Handler for ReserveForAll {
        fn handle(&self, _: Request<'_>) -> Response {
            unreachable!("there is no worker")
        }

        fn overloaded(&self, _: Option<&Request<'_>>) -> Response {
            Response::new(503)
        }

        fn refused(&self, error: S3Error) -> Response {
            Response::new(error.status())
        }

        fn uses_reserve(&self, _: &[u8], _: &[u8]) -> bool {
            true
        }
    }

    #[test]
    fn requests_that_wait_for_their_body_are_not_for_the_reserve() {
        let config = Config { reserve_workers: 1, ..Config::new(([127, 0, 0, 1], 0).into()) };
        let server = DirectServer::bind(config, Arc::new(SystemClock), Arc::new(ReserveForAll)).unwrap();
        let engine = &server.engine;
        let reserve = engine.reserve.as_ref().unwrap();
        let mut event_handler = EventHandler::new(Arc::clone(engine), engine.config.head_max_bytes);
        let mut send = |lines: &str| {
            let mut client = TcpStream::connect(server.address).unwrap();
            client.write_all(format!("GET / HTTP/1.1\r\nHost: a\r\n{lines}\r\n").as_bytes()).unwrap();
            while !engine.queues.has_work() && !reserve.has_work() {
                event_handler.assist_event_loop();
            }
            client
        };
        let _waiting = send("Content-Length: 9000000\r\n");
        assert!(engine.queues.has_work() && !reserve.has_work());
        assert!(!engine.queues.pop().unwrap().connection.uses_reserve, "nor is its next step");
        let _complete = send("");
        assert!(!engine.queues.has_work() && reserve.has_work());
    }
}
