//! A thread that handles requests, one at a time. It stays with a connection only while no other
//! request needs it.

use std::sync::Arc;

use super::connections::{Connection, ConnectionPhase, NoMemory};
use super::engine::DirectEngine;
use super::event_handler::{EventHandler, RejectReason, class_of_missing_bytes};
use super::exchange::{Exchange, NextAction};
use super::head::{self, BodyClass};
use super::pending_response::PendingResponse;
use super::poller::Interest;
use super::socket::is_would_block;
use super::work_queues::{Assignment, Permit, WorkQueues};
use super::worker_class::WorkerClass;
use crate::http::Config;

/// Receives for which a worker lingers until a head is complete. A head in more pieces is left to
/// the event loop.
const LINGER_RECEIVES_MAX: usize = 8;

/// A worker of one engine.
pub(super) struct Worker {
    engine: Arc<DirectEngine>,
    queues: Arc<WorkQueues>,
    is_of_reserve: bool,
    exchange: Exchange,
    event_handler: EventHandler,
}

/// The next request of a connection.
enum NextRequest {
    /// It is in the read buffer, and this worker may start it.
    Ready(Option<Permit>),
    /// The connection is to be parked until such an event.
    Parked(Interest),
    /// The client has gone.
    None,
}

impl Worker {
    /// A worker that has not started.
    pub(super) fn new(engine: Arc<DirectEngine>) -> Self {
        let queues = Arc::clone(&engine.queues);
        Self::of_queues(engine, queues, false)
    }

    /// A worker of the reserve that has not started; `None` if there is no reserve.
    pub(super) fn of_reserve(engine: Arc<DirectEngine>) -> Option<Self> {
        let queues = Arc::clone(engine.reserve.as_ref()?);
        Some(Self::of_queues(engine, queues, true))
    }

    fn of_queues(engine: Arc<DirectEngine>, queues: Arc<WorkQueues>, is_of_reserve: bool) -> Self {
        let exchange = Exchange::new(Arc::clone(&engine), Arc::clone(&queues));
        let event_handler = EventHandler::new(Arc::clone(&engine), engine.config.head_max_bytes);
        Self { engine, queues, is_of_reserve, exchange, event_handler }
    }

    /// Works until the queues are closed and empty. Returns the number of requests answered.
    pub(super) fn work(mut self) -> u64 {
        let mut answered = 0;
        while let Some(assignment) = self.queues.pop() {
            answered += self.serve(assignment);
            // With a queue that fills up, clients should be rejected at once rather than wait for
            // the event loop.
            if self.queues.has_work() && !self.engine.is_stopping() {
                self.event_handler.assist_event_loop();
            }
        }
        answered
    }

    /// Serves a connection while no other request needs the worker. Returns the number of requests
    /// answered.
    fn serve(&mut self, mut assignment: Assignment) -> u64 {
        if assignment.connection.phase == ConnectionPhase::Handshake {
            self.continue_handshake(assignment.connection);
            return 0;
        }
        let waited = self.engine.clock.instant().saturating_duration_since(assignment.connection.queued_at);
        self.engine.handler.note_queue_wait(waited);
        // The reservation of the connection ends here: the worker's buffer is one of a fixed
        // number.
        self.exchange.read_buffer.load(&assignment.connection.take_received().0);
        let mut answered = 0;
        let mut next = Some(assignment);
        while let Some(Assignment { mut connection, permit }) = next {
            let class = permit.as_ref().map_or(WorkerClass::Small, Permit::class);
            let action = match connection.pending_response.take() {
                Some(pending) => self.exchange.resume(&connection, *pending, class),
                None => self.exchange.run(&connection, class),
            };
            // The next exchange takes a permit of its own.
            drop(permit);
            answered += u64::from(action.ends_exchange());
            next = self.take_action(connection, action);
        }
        answered
    }

    /// Does what is to be done after an exchange. Returns the connection if this worker goes on
    /// with it.
    fn take_action(&mut self, connection: Box<Connection>, action: NextAction) -> Option<Assignment> {
        match action {
            NextAction::KeepOpen => return self.go_on(connection),
            NextAction::Defer(pending) => return self.defer(connection, pending),
            NextAction::Stall(pending) => self.park_response(connection, pending),
            NextAction::Drain => {
                let deadline = self.engine.deadline_in(self.engine.config.drain_deadline);
                self.engine.connections.start_draining(connection, deadline);
            }
            NextAction::Abort => connection.stream.reset_on_close(),
            NextAction::Close => {}
        }
        None
    }

    /// Goes on with the next request of the connection, or parks the connection.
    fn go_on(&mut self, connection: Box<Connection>) -> Option<Assignment> {
        match self.next_request(&connection) {
            NextRequest::Ready(permit) => return Some(Assignment { connection, permit }),
            NextRequest::Parked(interest) => self.park_idle(connection, interest),
            NextRequest::None => {}
        }
        None
    }

    /// Starts a response that needs a permit, or queues it.
    fn defer(
        &mut self,
        mut connection: Box<Connection>,
        pending: Box<PendingResponse>,
    ) -> Option<Assignment> {
        let class = pending.class();
        connection.pending_response = Some(pending);
        let permit = self.queues.try_start(class);
        if permit.is_none() {
            self.requeue(connection, class);
            return None;
        }
        Some(Assignment { connection, permit })
    }

    /// Parks a response until its client receives more of it.
    fn park_response(&self, mut connection: Box<Connection>, pending: Box<PendingResponse>) {
        connection.deadline = self.engine.deadline_in(pending.stall_budget());
        connection.pending_response = Some(pending);
        match self.save_read_buffer(&mut connection) {
            Ok(()) => self.engine.connections.park(connection, Interest::Writable),
            Err(NoMemory) => connection.stream.reset_on_close(),
        }
    }

    /// Queues a response for a worker that may send it. Rejects the connection for which there is
    /// no room.
    fn requeue(&mut self, mut connection: Box<Connection>, class: WorkerClass) {
        let rejected = match self.save_read_buffer(&mut connection) {
            Ok(()) => self.engine.enqueue(connection, class).err(),
            Err(NoMemory) => Some(connection),
        };
        if let Some(rejected) = rejected {
            self.event_handler.reject(rejected, RejectReason::Overload);
        }
    }

    /// Continues a handshake as far as the client has come, and parks the connection. Its deadline
    /// is the whole handshake's until that is complete.
    fn continue_handshake(&self, mut connection: Box<Connection>) {
        match connection.stream.handshake() {
            Ok(()) => {
                connection.phase = ConnectionPhase::Requests;
                connection.deadline = self.engine.deadline_in(self.engine.config.idle_deadline);
                self.engine.connections.park(connection, Interest::Readable);
            }
            Err(error) if is_would_block(&error) => {
                self.engine.connections.park(connection, Interest::Readable);
            }
            Err(error) => ::log::debug!("the TLS handshake with {} failed: {error}", connection.peer),
        }
    }

    /// Looks for the next request of a connection. Other requests have precedence: the worker does
    /// not linger while any are queued, or while no other worker is idle. A worker of the reserve
    /// takes no request that was not chosen for it.
    fn next_request(&mut self, connection: &Connection) -> NextRequest {
        let others_wait = self.is_of_reserve || self.queues.has_work();
        if self.has_request() {
            if others_wait {
                // There is room to send, so that the event comes at once, and the request is queued
                // after the others.
                return NextRequest::Parked(Interest::ReadableOrWritable);
            }
            return self.start_buffered(connection);
        }
        if others_wait || !self.queues.has_idle_worker() || self.engine.is_stopping() {
            return NextRequest::Parked(Interest::Readable);
        }
        self.linger(connection)
    }

    /// Waits a moment for the next request, which most clients send as soon as they have read the
    /// response. It then takes no turn through the event loop.
    fn linger(&mut self, connection: &Connection) -> NextRequest {
        for _ in 0..LINGER_RECEIVES_MAX {
            match connection.stream.receive(self.exchange.read_buffer.spare()) {
                Ok(0) => return NextRequest::None,
                Ok(count) => self.exchange.read_buffer.extend_filled(count),
                Err(error) if is_would_block(&error) => break,
                Err(_) => return NextRequest::None,
            }
            if self.has_request() {
                return self.start_buffered(connection);
            }
        }
        NextRequest::Parked(Interest::Readable)
    }

    /// Whether the read buffer holds a complete head, or more bytes than a head may have.
    fn has_request(&self) -> bool {
        let buffer = &self.exchange.read_buffer;
        buffer.is_full() || head::is_complete(buffer.filled(), 0)
    }

    /// Starts the request in the read buffer, if there is a permit for its class and it awaits no
    /// small body.
    fn start_buffered(&self, connection: &Connection) -> NextRequest {
        let received = self.exchange.read_buffer.filled();
        let class = match head::body_class(received) {
            BodyClass::Small => WorkerClass::Small,
            BodyClass::Large => WorkerClass::Large,
            BodyClass::Awaited(len) if len > self.engine.config.head_max_bytes => {
                class_of_missing_bytes(&connection.stream, len - received.len())
            }
            BodyClass::Awaited(_) => return NextRequest::Parked(Interest::ReadableOrWritable),
        };
        if class == WorkerClass::Small {
            return NextRequest::Ready(None);
        }
        match self.queues.try_start(class) {
            Some(permit) => NextRequest::Ready(Some(permit)),
            None => NextRequest::Parked(Interest::ReadableOrWritable),
        }
    }

    /// Parks a connection until its next request. The event loop searches the saved bytes if this
    /// worker has not.
    fn park_idle(&self, mut connection: Box<Connection>, interest: Interest) {
        let config = &self.engine.config;
        let received = self.exchange.read_buffer.filled();
        let time = if received.is_empty() { config.idle_deadline } else { config.head_deadline };
        connection.wait_for_request(self.engine.clock.instant(), time);
        connection.searched_len = if interest == Interest::Readable { received.len() } else { 0 };
        if self.save_read_buffer(&mut connection).is_ok() {
            self.engine.connections.park(connection, interest);
        }
    }

    /// Moves the received bytes to the connection. Without memory for them the connection is to be
    /// closed: every request that was started has been answered.
    fn save_read_buffer(&self, connection: &mut Connection) -> Result<(), NoMemory> {
        let Config { head_max_bytes, ref memory, .. } = self.engine.config;
        connection.append_received(self.exchange.read_buffer.filled(), head_max_bytes, memory)
    }
}
