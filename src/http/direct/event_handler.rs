//! What has to be done about a connection that no worker has when something happens on it: accept it, read its head without
//! waiting, hand it to the workers once it is whole, or turn it away. The poller does nothing else; workers lend it a
//! hand when there is more to do than their work leaves it time for.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::connection_table::{Connection, ConnectionLimits, ConnectionPhase, NoMemory};
use super::engine::DirectEngine;
use super::head::{self, Outlook};
use super::poller::{ConnectionToken, Interest, PollEvent};
use super::stream::{ClientStream, is_would_block};
use super::work_queues::WorkerClass;
use crate::base::limits;
use crate::http::Config;
use crate::http::catch_panic::catch_panic;
use crate::http::client_origin::ClientOrigin;
use crate::http::response::{DateHeader, RequestTraits, render};
use crate::s3::{Method, S3Error};

/// How long a small body may take to follow its head before it counts as large.
const SMALL_BODY_WAIT: Duration = Duration::from_millis(limits::PROMPT_BODY_MILLIS);

/// Turns that a thread takes between two pieces of its own work: some dozens of events at the limits, so that a server which
/// refuses many times as much as it accepts keeps up with it.
const ASSIST_POLLS_MAX: usize = 4;

/// Connections accepted in a row before others get their turn.
const ACCEPT_BURST_MAX: usize = 64;

/// Why a request is answered without a worker.
pub(super) enum RejectReason {
    /// Nobody has time for it.
    Overload,
    /// It is at fault.
    Error(S3Error),
}

/// One thread's means to attend to connections. Several may be at it at once: whoever takes a connection out of the connections has it.
pub(super) struct EventHandler {
    engine: Arc<DirectEngine>,
    events: Vec<PollEvent>,
    scratch: Vec<u8>,
    date: DateHeader,
}

impl EventHandler {
    /// It receives into so many bytes, which are enough for a head.
    pub(super) fn new(engine: Arc<DirectEngine>, scratch_bytes: usize) -> Self {
        Self { engine, events: Vec::new(), scratch: vec![0; scratch_bytes], date: DateHeader::default() }
    }

    /// Waits for events, at limits for `timeout` where there is one, and does what they ask for.
    ///
    /// # Errors
    /// When the system can no longer tell which sockets are ready.
    pub(super) fn poll_once(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        let mut events = std::mem::take(&mut self.events);
        let outcome = self.engine.poller.wait(&mut events, timeout);
        for event in &events {
            self.handle_event(*event);
        }
        self.events = events;
        outcome
    }

    /// Does some of what has become due, for whoever has other work.
    pub(super) fn assist_event_loop(&mut self) {
        for _ in 0..ASSIST_POLLS_MAX {
            // The poller meets the same error and ends the engine.
            if self.poll_once(Some(Duration::ZERO)).is_err() || self.events.is_empty() {
                return;
            }
            // It rings for the event_loop.
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
        let patience = if tls.is_some() { config.head_deadline } else { config.idle_deadline };
        let Ok(stream) = ClientStream::new(socket, tls, config.linger, config.write_stall_budget) else {
            return;
        };
        let counts = !config.trusted_proxies.contains(peer.ip());
        let origin = counts.then(|| ClientOrigin::of(peer.ip()));
        let max = ConnectionLimits { total: config.connections_max, of_origin: config.share_of_address() };
        let (connection, excess) = connections.insert(stream, peer, origin, (now, patience), max);
        if excess {
            self.reject(connection, RejectReason::Overload);
        } else {
            connections.park(connection, Interest::Readable);
        }
    }

    /// Something has happened on a connection that waits, unless it is no longer there.
    fn handle_ready(&mut self, token: ConnectionToken) {
        let Some(connection) = self.engine.connections.unpark(token) else {
            return;
        };
        match connection.phase {
            ConnectionPhase::Draining(left) => self.discard_input(connection, left),
            // It takes a signature and more: work for a worker.
            ConnectionPhase::Handshake => self.enqueue(connection, WorkerClass::Small),
            ConnectionPhase::Requests if connection.pending_response.is_some() => {
                self.resume_response(connection);
            }
            // A worker has given back bytes that it had no time to look at.
            ConnectionPhase::Requests
                if connection.awaited_len == 0 && connection.searched_len < connection.received.len() =>
            {
                self.dispatch(connection);
            }
            ConnectionPhase::Requests => self.receive_head(connection),
        }
    }

    /// A client may take more of its response.
    fn resume_response(&mut self, mut connection: Box<Connection>) {
        let left = connection.deadline.saturating_duration_since(self.engine.clock.instant());
        if let Some(pending) = &mut connection.pending_response {
            pending.set_patience(left);
        }
        self.enqueue(connection, WorkerClass::Large);
    }

    fn receive_head(&mut self, mut connection: Box<Connection>) {
        let room = self.engine.config.head_max_bytes - connection.received.len();
        match connection.stream.try_receive(&mut self.scratch[..room]) {
            // A worker tells the client that its body is not whole.
            Ok(0) if connection.awaited_len > 0 => self.enqueue(connection, WorkerClass::Large),
            Ok(0) => {}
            Ok(count) => {
                if connection.received.is_empty() {
                    connection.deadline = self.engine.deadline_in(self.engine.config.head_deadline);
                }
                let Config { head_max_bytes, ref memory, .. } = self.engine.config;
                match connection.append_received(&self.scratch[..count], head_max_bytes, memory) {
                    Ok(()) => self.dispatch(connection),
                    Err(NoMemory) => self.reject(connection, RejectReason::Overload),
                }
            }
            Err(error) if is_would_block(&error) => {
                self.engine.connections.park(connection, Interest::Readable);
            }
            Err(_) if connection.awaited_len > 0 => self.enqueue(connection, WorkerClass::Large),
            Err(_) => {}
        }
    }

    /// Hands a head to the workers if it is whole, and with it a body that is small; waits for the rest, or gives it up, if it
    /// is not.
    fn dispatch(&mut self, mut connection: Box<Connection>) {
        let received = connection.received.len();
        if connection.awaited_len > 0 {
            self.wait_for_body(connection);
        } else if head::has_arrived(&connection.received, connection.searched_len) {
            match head::outlook(&connection.received) {
                Outlook::Small => self.enqueue(connection, WorkerClass::Small),
                Outlook::Large => self.enqueue(connection, WorkerClass::Large),
                Outlook::Awaited(wanted) if wanted > self.engine.config.head_max_bytes => {
                    let class = class_of_missing_bytes(&connection.stream, wanted - received);
                    self.enqueue(connection, class);
                }
                Outlook::Awaited(wanted) => {
                    connection.awaited_len = wanted;
                    connection.deadline = self.engine.deadline_in(SMALL_BODY_WAIT);
                    self.wait_for_body(connection);
                }
            }
        } else if received >= self.engine.config.head_max_bytes {
            self.reject(connection, RejectReason::Error(head::too_large()));
        } else {
            connection.searched_len = received;
            self.park_for_more(connection);
        }
    }

    /// Lets a connection wait with what has come of its request. Of such there may be as many as there are connections.
    fn park_for_more(&mut self, mut connection: Box<Connection>) {
        let Config { head_max_bytes, ref memory, .. } = self.engine.config;
        match connection.reserve(head_max_bytes, memory) {
            Ok(()) => self.engine.connections.park(connection, Interest::Readable),
            Err(NoMemory) => self.reject(connection, RejectReason::Overload),
        }
    }

    /// No worker waits for a body that a head's room can hold, as long as it comes promptly.
    fn wait_for_body(&mut self, connection: Box<Connection>) {
        if connection.received.len() >= connection.awaited_len {
            self.enqueue(connection, WorkerClass::Small);
        } else {
            self.park_for_more(connection);
        }
    }

    /// Lets a request wait for a worker.
    pub(super) fn enqueue(&mut self, mut connection: Box<Connection>, class: WorkerClass) {
        connection.awaited_len = 0;
        if let Err(connection) = self.engine.queues.push(connection, class) {
            self.reject(connection, RejectReason::Overload);
        }
    }

    fn discard_input(&mut self, mut connection: Box<Connection>, left: u64) {
        match connection.stream.try_receive(&mut self.scratch) {
            Ok(count) if count > 0 && (count as u64) < left => {
                connection.phase = ConnectionPhase::Draining(left - count as u64);
            }
            Err(error) if is_would_block(&error) => {}
            _ => return,
        }
        self.engine.connections.park(connection, Interest::Readable);
    }

    /// Answers without a worker, if there is room for the answer at once. The connection stays open where all of a request was
    /// there and only the time for it was missing: the client is to come back, and a new connection would cost both more.
    pub(super) fn reject(&mut self, mut connection: Box<Connection>, reason: RejectReason) {
        if let Some(pending) = connection.pending_response.take() {
            if pending.response_started() {
                return connection.stream.reset_on_close();
            }
            // Nobody had time to send its answer. What came behind is not the request that is answered here.
            connection.discard_received();
        }
        let whole = match reason {
            RejectReason::Overload if !self.engine.is_stopping() => {
                head::of_whole_request(&connection.received, self.engine.config.headers_max)
            }
            _ => None,
        };
        let head_only = match &whole {
            Some(head) => head.method == Method::Head,
            None => connection.received.starts_with(b"HEAD "),
        };
        let DirectEngine { config, clock, handler, connections, .. } = &*self.engine;
        let response = catch_panic(|| match reason {
            RejectReason::Overload => handler.overloaded(),
            RejectReason::Error(error) => handler.refused(error),
        });
        let Some(response) = response else {
            return;
        };
        let (traits, close) = (RequestTraits { head_only, http10: false }, whole.is_none());
        let bytes = render(&response, traits, close, self.date.at(clock.now()));
        let is_sent = matches!(connection.stream.try_send_all(&bytes), Ok(sent) if sent == bytes.len());
        if is_sent && close {
            connections.start_draining(connection, self.engine.deadline_in(config.drain_deadline));
        } else if is_sent {
            connection.discard_received();
            connection.wait_for_request(clock.instant(), config.idle_deadline);
            connections.park(connection, Interest::Readable);
        }
    }
}

/// What kind of work it is to read the rest of a small body, of which no more can be kept without a worker: a worker may
/// begin with it at once where the system has all of it.
pub(super) fn class_of_missing_bytes(stream: &ClientStream, missing: usize) -> WorkerClass {
    if stream.available() >= missing { WorkerClass::Small } else { WorkerClass::Large }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::super::DirectServer;
    use super::*;
    use crate::base::SystemClock;
    use crate::s3::{Handler, Request, Response};

    struct Refusing;

    impl Handler for Refusing {
        fn handle(&self, _: Request<'_>) -> Response {
            unreachable!("no worker works")
        }

        fn overloaded(&self) -> Response {
            Response::new(503)
        }

        fn refused(&self, error: S3Error) -> Response {
            Response::new(error.status())
        }
    }

    #[test]
    fn who_lends_a_hand_takes_requests_in_and_refuses_what_is_too_much_and_hears_no_bell() {
        let config = Config { queue_len: 1, ..Config::new(([127, 0, 0, 1], 0).into()) };
        // It is bound and does not run: there are neither poller nor workers.
        let server = DirectServer::bind(config, Arc::new(SystemClock), Arc::new(Refusing)).unwrap();
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
        assert_eq!(events, [PollEvent::Wake], "it rings for the poller");
    }
}
