//! Handles the events of connections that no worker serves: accepts them, reads request heads
//! without waiting, hands requests to the work queues, and rejects them without a worker. The event
//! loop does nothing else. Workers assist it.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::connections::{Connection, ConnectionLimits, ConnectionPhase, NewConnection, NoMemory};
use super::engine::DirectEngine;
use super::head::{self, BodyClass};
use super::poller::{ConnectionToken, Interest, PollEvent};
use super::socket::is_would_block;
use super::stream::ClientStream;
use super::worker_class::WorkerClass;
use crate::base::limits;
use crate::http::Config;
use crate::http::catch_panic::catch_panic;
use crate::http::client_origin::ClientOrigin;
use crate::http::request_head::RequestHead;
use crate::http::response::{DateHeader, RequestTraits, render};
use crate::s3::{Body, ErrorCode, Method, Response, S3Error};

/// How long a small body may take to follow its head before it counts as large.
const SMALL_BODY_WAIT: Duration = Duration::from_millis(limits::SMALL_BODY_WAIT_MILLIS);

/// Polls by which a worker assists the event loop between two requests: some dozens of events at
/// most, enough for a server that rejects many times as many requests as it accepts.
const ASSIST_POLLS_MAX: usize = 4;

/// Connections accepted in a row before other events are handled.
const ACCEPT_BURST_MAX: usize = 64;

/// Why a request is answered without a worker.
pub(super) enum RejectReason {
    /// The server has no worker, connection or memory for it.
    Overload,
    /// The request is at fault.
    Error(S3Error),
}

/// The means of one thread to handle events. Several threads may handle events at once: each owns
/// the connections that it unparks.
pub(super) struct EventHandler {
    engine: Arc<DirectEngine>,
    events: Vec<PollEvent>,
    scratch: Vec<u8>,
    date: DateHeader,
}

impl EventHandler {
    /// A handler with a receive buffer of `scratch_bytes`, which must be enough for a head.
    pub(super) fn new(engine: Arc<DirectEngine>, scratch_bytes: usize) -> Self {
        Self { engine, events: Vec::new(), scratch: vec![0; scratch_bytes], date: DateHeader::default() }
    }

    /// Waits for events, for at most `timeout` where there is one, and handles them.
    ///
    /// # Errors
    /// When the system fails to report events.
    pub(super) fn poll_once(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        // Taken out, since handling an event needs all of `self`.
        let mut events = std::mem::take(&mut self.events);
        let outcome = self.engine.poller.wait(&mut events, timeout);
        for event in &events {
            self.handle_event(*event);
        }
        self.events = events;
        outcome
    }

    /// Handles a few pending events, for a worker between two requests.
    pub(super) fn assist_event_loop(&mut self) {
        for _ in 0..ASSIST_POLLS_MAX {
            // An error will reach the event loop, too, which then ends the engine.
            if self.poll_once(Some(Duration::ZERO)).is_err() || self.events.is_empty() {
                return;
            }
            // The wake was meant for the event loop.
            if self.events.contains(&PollEvent::Wake) {
                return self.engine.poller.wake();
            }
        }
    }

    fn handle_event(&mut self, event: PollEvent) {
        match event {
            PollEvent::Wake => {}
            PollEvent::Listener => self.accept_waiting(),
            PollEvent::Connection(token) => self.handle_ready(token),
        }
    }

    fn accept_waiting(&mut self) {
        let now = self.engine.clock.instant();
        // The poller reports the listener again if more connections wait than one burst takes.
        for _ in 0..ACCEPT_BURST_MAX {
            let Some((socket, peer)) = self.engine.acceptor.accept(now) else {
                return;
            };
            self.admit(socket, peer, now);
        }
    }

    fn admit(&mut self, socket: TcpStream, peer: SocketAddr, now: Instant) {
        let DirectEngine { config, connections, .. } = &*self.engine;
        let Ok(tls) = config.tls.as_ref().map(|tls| tls.accept()).transpose() else {
            return;
        };
        // A client of TLS speaks first and at once, so that its silence is not idleness.
        let first_wait = if tls.is_some() { config.head_deadline } else { config.idle_deadline };
        let Ok(stream) = ClientStream::new(socket, tls, config.linger, config.write_stall_budget) else {
            return;
        };
        // A trusted proxy brings the connections of many clients.
        let is_limited = !config.trusted_proxies.contains(peer.ip());
        let origin = is_limited.then(|| ClientOrigin::of(peer.ip()));
        let new = NewConnection { stream, peer, origin, accepted_at: now, deadline: now + first_wait };
        let max =
            ConnectionLimits { total: config.connections_max, of_origin: config.address_connections_max() };
        match connections.insert(new, max) {
            Ok(connection) => connections.park(connection, Interest::Readable),
            Err(connection) => self.reject(connection, RejectReason::Overload),
        }
    }

    /// Handles an event of a parked connection, unless another thread has taken it.
    fn handle_ready(&mut self, token: ConnectionToken) {
        let Some(connection) = self.engine.connections.unpark(token) else {
            return;
        };
        match connection.phase {
            ConnectionPhase::Draining(remaining) => self.discard_input(connection, remaining),
            ConnectionPhase::Handshake => self.enqueue_handshake(connection),
            ConnectionPhase::Requests if connection.pending_response.is_some() => {
                self.resume_response(connection);
            }
            // The event may say only that there is room to send, so nothing is received before the
            // bytes at hand are searched.
            ConnectionPhase::Requests if has_unsearched_bytes(&connection) => self.dispatch(connection),
            ConnectionPhase::Requests => self.receive_request(connection),
        }
    }

    /// Queues a step of a handshake. It takes a signature, which is work for a worker, and waits
    /// for nothing. What the client will ask for is not known yet.
    fn enqueue_handshake(&mut self, mut connection: Box<Connection>) {
        connection.uses_reserve = self.engine.needs_reserve();
        self.enqueue(connection, WorkerClass::Small);
    }

    /// Queues a response whose client can receive more of it.
    fn resume_response(&mut self, mut connection: Box<Connection>) {
        let remaining = connection.deadline.saturating_duration_since(self.engine.clock.instant());
        if let Some(pending) = &mut connection.pending_response {
            pending.set_stall_budget(remaining);
        }
        self.enqueue(connection, WorkerClass::Large);
    }

    /// Receives bytes of a head, or of a small body.
    fn receive_request(&mut self, mut connection: Box<Connection>) {
        let Config { head_max_bytes, head_deadline, ref memory, .. } = self.engine.config;
        // Never more than the longest head: the bytes of a large body stay in the system's buffers,
        // where they hold its client up.
        let room = head_max_bytes - connection.received.len();
        match connection.stream.try_receive(&mut self.scratch[..room]) {
            Ok(count @ 1..) => {
                // The time for a head runs from its first byte. Later bytes do not extend it: a
                // client could otherwise hold its connection by one byte now and then.
                if connection.received.is_empty() {
                    connection.deadline = self.engine.deadline_in(head_deadline);
                }
                match connection.append_received(&self.scratch[..count], head_max_bytes, memory) {
                    Ok(()) => self.dispatch(connection),
                    Err(NoMemory) => self.reject(connection, RejectReason::Overload),
                }
            }
            Err(error) if is_would_block(&error) => {
                self.engine.connections.park(connection, Interest::Readable);
            }
            // The connection has ended. A worker answers that the body is incomplete.
            _ if connection.awaited_len > 0 => self.enqueue(connection, WorkerClass::Large),
            _ => {}
        }
    }

    /// Queues a request whose head is complete, together with a small body. Parks or rejects one
    /// whose head is not.
    fn dispatch(&mut self, mut connection: Box<Connection>) {
        let received = connection.received.len();
        if connection.awaited_len > 0 {
            self.queue_or_await_body(connection);
        } else if head::is_complete(&connection.received, connection.searched_len) {
            self.dispatch_by_body(connection);
        } else if received >= self.engine.config.head_max_bytes {
            self.reject(connection, RejectReason::Error(head::too_large()));
        } else {
            connection.searched_len = received;
            self.park_for_more(connection);
        }
    }

    /// Queues a request whose head is complete, unless its small body is to be awaited.
    fn dispatch_by_body(&mut self, mut connection: Box<Connection>) {
        connection.uses_reserve = self.engine.uses_reserve(&connection.received);
        match head::body_class(&connection.received) {
            BodyClass::Small => self.enqueue(connection, WorkerClass::Small),
            BodyClass::Large => self.enqueue(connection, WorkerClass::Large),
            // More than a parked connection may keep, so that a worker has to receive the rest.
            BodyClass::Awaited(len) if len > self.engine.config.head_max_bytes => {
                let class = class_of_missing_bytes(&connection.stream, len - connection.received.len());
                self.enqueue(connection, class);
            }
            BodyClass::Awaited(len) => {
                connection.awaited_len = len;
                connection.deadline = self.engine.deadline_in(SMALL_BODY_WAIT);
                self.queue_or_await_body(connection);
            }
        }
    }

    /// Queues a request once its small body is complete. No worker waits for such a body.
    fn queue_or_await_body(&mut self, connection: Box<Connection>) {
        if connection.received.len() >= connection.awaited_len {
            self.enqueue(connection, WorkerClass::Small);
        } else {
            self.park_for_more(connection);
        }
    }

    /// Parks a connection with the received part of its request. Its memory is reserved, because
    /// every connection may have such a part.
    fn park_for_more(&mut self, mut connection: Box<Connection>) {
        let Config { head_max_bytes, ref memory, .. } = self.engine.config;
        match connection.reserve(head_max_bytes, memory) {
            Ok(()) => self.engine.connections.park(connection, Interest::Readable),
            Err(NoMemory) => self.reject(connection, RejectReason::Overload),
        }
    }

    /// Queues a request for a worker, or rejects one for which there is no room.
    fn enqueue(&mut self, mut connection: Box<Connection>, class: WorkerClass) {
        connection.awaited_len = 0;
        if let Err(connection) = self.engine.enqueue(connection, class) {
            self.reject(connection, RejectReason::Overload);
        }
    }

    /// Discards bytes received after the last response.
    fn discard_input(&mut self, mut connection: Box<Connection>, remaining: u64) {
        match connection.stream.try_receive(&mut self.scratch) {
            // The limit keeps a client from being read from for ever.
            Ok(count) if count > 0 && (count as u64) < remaining => {
                connection.phase = ConnectionPhase::Draining(remaining - count as u64);
            }
            Err(error) if is_would_block(&error) => {}
            _ => return,
        }
        self.engine.connections.park(connection, Interest::Readable);
    }

    /// Ends a connection whose deadline has passed. A small body that came too late makes its
    /// request a large one.
    pub(super) fn expire(&mut self, connection: Box<Connection>) {
        if connection.pending_response.is_some() {
            connection.stream.reset_on_close();
        } else if connection.awaited_len > 0 {
            self.enqueue(connection, WorkerClass::Large);
        } else if !connection.received.is_empty() {
            let error = S3Error::new(ErrorCode::RequestTimeout);
            self.reject(connection, RejectReason::Error(error));
        }
    }

    /// Answers without a worker, if the answer can be sent without waiting. The connection stays
    /// open if it holds exactly one request that failed only for lack of time: the client is to
    /// retry, and a new connection would cost both sides more.
    pub(super) fn reject(&mut self, mut connection: Box<Connection>, reason: RejectReason) {
        if let Some(pending) = connection.pending_response.take() {
            // No other response can follow half of one. A reset is the only way to say that it is
            // incomplete.
            if pending.response_started() {
                return connection.stream.reset_on_close();
            }
            // The request of this response has been read. The bytes after it belong to another
            // request.
            connection.discard_received();
        }
        let head = self.parse_rejected(&connection, &reason);
        let close = !head.as_ref().is_some_and(|head| self.is_retryable(&connection, head));
        // A body after the answer to HEAD would be taken for the next response.
        let head_only = match &head {
            Some(head) => head.method == Method::Head,
            None => connection.received.starts_with(b"HEAD "),
        };
        let Some(response) = self.rejection(reason, head) else {
            return;
        };
        let traits = RequestTraits { head_only, http10: false };
        let bytes = render(&response, traits, close, self.date.at(self.engine.clock.now()));
        // Not sent at all, or in part: the drop of the connection closes it.
        if connection.stream.try_send_all(&bytes).is_ok() {
            self.continue_after_rejection(connection, close);
        }
    }

    /// The head of the request in `connection`, if it is complete and only time or memory is
    /// lacking.
    fn parse_rejected(&self, connection: &Connection, reason: &RejectReason) -> Option<RequestHead> {
        match reason {
            RejectReason::Overload => {
                head::parse(&connection.received, self.engine.config.headers_max).ok().flatten()
            }
            RejectReason::Error(_) => None,
        }
    }

    /// Whether the client may send the request in `connection` again on the same connection.
    fn is_retryable(&self, connection: &Connection, head: &RequestHead) -> bool {
        !self.engine.is_stopping() && head::is_whole_request(head, connection.received.len())
    }

    /// The answer of the handler; `None` if it panics.
    fn rejection(&self, reason: RejectReason, head: Option<RequestHead>) -> Option<Response> {
        let handler = &self.engine.handler;
        catch_panic(|| match reason {
            RejectReason::Overload => {
                let request = head.map(|head| head.into_request(Body::none(), false, None, None));
                handler.overloaded(request.as_ref())
            }
            RejectReason::Error(error) => handler.refused(error),
        })
    }

    fn continue_after_rejection(&self, mut connection: Box<Connection>, close: bool) {
        let DirectEngine { config, clock, connections, .. } = &*self.engine;
        if close {
            connections.start_draining(connection, self.engine.deadline_in(config.drain_deadline));
        } else {
            connection.discard_received();
            connection.wait_for_request(clock.instant(), config.idle_deadline);
            connections.park(connection, Interest::Readable);
        }
    }
}

/// Whether a worker has parked the connection with bytes that it had no time to search for a head.
fn has_unsearched_bytes(connection: &Connection) -> bool {
    connection.awaited_len == 0 && connection.searched_len < connection.received.len()
}

/// The class of receiving the rest of a small body that is too large to be kept without a worker:
/// small if the system has received all of it.
pub(super) fn class_of_missing_bytes(stream: &ClientStream, missing: usize) -> WorkerClass {
    if stream.available() >= missing { WorkerClass::Small } else { WorkerClass::Large }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::sync::Mutex;

    use super::super::DirectServer;
    use super::super::worker::Worker;
    use super::*;
    use crate::base::{Clock, SystemClock, Timestamp};
    use crate::s3::{Handler, Request};

    struct RejectingHandler;

    impl Handler for RejectingHandler {
        fn handle(&self, _: Request<'_>) -> Response {
            unreachable!("there is no worker")
        }

        fn overloaded(&self, _: Option<&Request<'_>>) -> Response {
            Response::new(503)
        }

        fn refused(&self, error: S3Error) -> Response {
            Response::new(error.status())
        }
    }

    #[test]
    fn an_assisting_worker_queues_requests_rejects_those_beyond_the_queue_and_passes_wakes_on() {
        let config = Config { queue_len: 1, ..Config::new(([127, 0, 0, 1], 0).into()) };
        // The server is bound but does not run: there is neither an event loop nor a worker.
        let server = DirectServer::bind(config, Arc::new(SystemClock), Arc::new(RejectingHandler)).unwrap();
        let engine = &server.engine;
        let mut event_handler = EventHandler::new(Arc::clone(engine), engine.config.head_max_bytes);
        let mut clients = [(); 2].map(|()| TcpStream::connect(server.address).unwrap());
        for client in &mut clients {
            client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
            for _ in 0..1000 {
                event_handler.assist_event_loop();
            }
        }
        engine.queues.close();
        assert!(engine.queues.pop().is_some() && engine.queues.pop().is_none());
        let mut status = [0; 12];
        clients[1].read_exact(&mut status).unwrap();
        assert_eq!(&status, b"HTTP/1.1 503");

        engine.poller.wake();
        event_handler.assist_event_loop();
        let mut events = Vec::new();
        engine.poller.wait(&mut events, Some(Duration::ZERO)).unwrap();
        assert_eq!(events, [PollEvent::Wake], "the wake is passed on to the event loop");
    }

    /// A clock that the test moves.
    struct StepClock {
        begun: Instant,
        passed: Mutex<Duration>,
    }

    impl Clock for StepClock {
        fn now(&self) -> Timestamp {
            Timestamp::from_millis(0)
        }

        fn instant(&self) -> Instant {
            self.begun + *self.passed.lock().unwrap()
        }
    }

    /// Answers, and remembers the waits for a worker.
    #[derive(Default)]
    struct WaitRecorder(Mutex<Vec<Duration>>);

    impl Handler for WaitRecorder {
        fn handle(&self, _: Request<'_>) -> Response {
            Response::new(204)
        }

        fn overloaded(&self, _: Option<&Request<'_>>) -> Response {
            Response::new(503)
        }

        fn refused(&self, error: S3Error) -> Response {
            Response::new(error.status())
        }

        fn note_queue_wait(&self, waited: Duration) {
            self.0.lock().unwrap().push(waited);
        }
    }

    #[test]
    fn the_wait_of_a_request_lasts_from_the_queue_to_the_worker() {
        let clock = Arc::new(StepClock { begun: Instant::now(), passed: Mutex::default() });
        let waits = Arc::new(WaitRecorder::default());
        let config = Config::new(([127, 0, 0, 1], 0).into());
        let server = DirectServer::bind(config, clock.clone(), waits.clone()).unwrap();
        let engine = &server.engine;
        let mut event_handler = EventHandler::new(Arc::clone(engine), engine.config.head_max_bytes);
        let mut client = TcpStream::connect(server.address).unwrap();
        client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
        *clock.passed.lock().unwrap() += Duration::from_secs(1);
        while !engine.queues.has_work() {
            event_handler.assist_event_loop();
        }
        *clock.passed.lock().unwrap() += Duration::from_secs(3);
        engine.queues.close();
        assert_eq!(Worker::new(Arc::clone(engine)).work(), 1);
        assert_eq!(*waits.0.lock().unwrap(), [Duration::from_secs(3)]);
    }
}
