//! A thread that handles requests, one at a time, and stays with a connection only while nobody else needs it.

use std::sync::Arc;

use super::connection_table::{Connection, ConnectionPhase, NoMemory};
use super::engine::DirectEngine;
use super::event_handler::{EventHandler, RejectReason, class_of_missing_bytes};
use super::exchange::{Exchange, NextAction, PendingResponse};
use super::head::{self, Outlook};
use super::poller::Interest;
use super::stream::is_would_block;
use super::work_queues::{Assignment, Permit, WorkerClass};
use crate::http::Config;

/// Pieces in which a head may come while a worker waits for it. One that comes in more is read by the event_loop.
const PIECES_MAX: usize = 8;

/// A worker of one engine.
pub(super) struct Worker {
    engine: Arc<DirectEngine>,
    exchange: Exchange,
    event_handler: EventHandler,
}

/// Where the next request of a connection is.
enum NextRequest {
    /// In the read_buffer of this worker, which may begin with it.
    Here(Option<Permit>),
    /// Not here: the connection has to wait for it, and for what.
    Wait(Interest),
    /// There will be none.
    Never,
}

impl Worker {
    /// A worker that has not response_started.
    pub(super) fn new(engine: Arc<DirectEngine>) -> Self {
        let exchange = Exchange::new(Arc::clone(&engine));
        let event_handler = EventHandler::new(Arc::clone(&engine), engine.config.head_max_bytes);
        Self { engine, exchange, event_handler }
    }

    /// Works until nothing can come into the queues any more. Says how many requests it has answered.
    pub(super) fn work(mut self) -> u64 {
        let mut answered = 0;
        while let Some(job) = self.engine.queues.pop() {
            answered += self.serve(job);
            // Whoever comes then would find the queue full, or may have to find it so: they are to be told at once.
            if self.engine.queues.has_work() && !self.engine.is_stopping() {
                self.event_handler.assist_event_loop();
            }
        }
        answered
    }

    /// Answers the request that has come on a connection, and those that follow while nobody else needs the worker.
    fn serve(&mut self, Assignment { mut connection, mut permit }: Assignment) -> u64 {
        if connection.phase == ConnectionPhase::Handshake {
            self.continue_handshake(connection);
            return 0;
        }
        self.exchange.read_buffer.load(&connection.take_received().0);
        let mut answered = 0;
        loop {
            let class = permit.as_ref().map_or(WorkerClass::Small, Permit::class);
            let after = match connection.pending_response.take() {
                Some(pending) => self.exchange.resume(&connection, *pending, class),
                None => self.exchange.run(&connection, class),
            };
            // Whatever comes next takes a right of its own.
            drop(permit.take());
            match after {
                NextAction::Defer(pending) => {
                    let class = pending.class();
                    connection.pending_response = Some(pending);
                    permit = self.engine.queues.try_start(class);
                    if permit.is_none() {
                        self.requeue(connection, class);
                        return answered;
                    }
                }
                NextAction::Stall(pending) => {
                    self.park_response(connection, pending);
                    return answered;
                }
                NextAction::KeepOpen => {
                    answered += 1;
                    match self.next_request(&connection) {
                        NextRequest::Here(right) => permit = right,
                        NextRequest::Wait(interest) => {
                            self.park_idle(connection, interest);
                            return answered;
                        }
                        NextRequest::Never => return answered,
                    }
                }
                last => {
                    self.close_after(connection, &last);
                    return answered + 1;
                }
            }
        }
    }

    /// Lets a response wait until its client takes more of it.
    fn park_response(&self, mut connection: Box<Connection>, pending: Box<PendingResponse>) {
        connection.deadline = self.engine.deadline_in(pending.patience());
        connection.pending_response = Some(pending);
        match self.save_read_buffer(&mut connection) {
            Ok(()) => self.engine.connections.park(connection, Interest::Writable),
            Err(NoMemory) => connection.stream.reset_on_close(),
        }
    }

    /// Ends a connection after its last response.
    fn close_after(&self, connection: Box<Connection>, after: &NextAction) {
        match after {
            NextAction::Drain => {
                let deadline = self.engine.deadline_in(self.engine.config.drain_deadline);
                self.engine.connections.start_draining(connection, deadline);
            }
            NextAction::Abort => connection.stream.reset_on_close(),
            NextAction::Close | NextAction::KeepOpen | NextAction::Defer(_) | NextAction::Stall(_) => {}
        }
    }

    /// Lets a response wait until a worker may send it, or one for which there is less room than for others be refused.
    fn requeue(&mut self, mut connection: Box<Connection>, class: WorkerClass) {
        let refused = match self.save_read_buffer(&mut connection) {
            Ok(()) => self.engine.queues.push(connection, class).err(),
            Err(NoMemory) => Some(connection),
        };
        if let Some(refused) = refused {
            self.event_handler.reject(refused, RejectReason::Overload);
        }
    }

    /// Goes on with a handshake as far as the client has come, and lets the connection wait for the rest. The deadline is
    /// that of the whole handshake.
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
            Err(error) => ::log::debug!("no encryption with {}: {error}", connection.peer),
        }
    }

    /// Looks for the next request of a connection. Others have precedence: with requests in the queue, or with no
    /// other worker free for those to come, it does not wait.
    fn next_request(&mut self, connection: &Connection) -> NextRequest {
        let others_wait = self.engine.queues.has_work();
        match self.has_request() {
            true if others_wait => return NextRequest::Wait(Interest::ReadableOrWritable),
            true => return self.begin(connection),
            false => {}
        }
        if others_wait || !self.engine.queues.has_idle_worker() || self.engine.is_stopping() {
            return NextRequest::Wait(Interest::Readable);
        }
        self.linger(connection)
    }

    fn linger(&mut self, connection: &Connection) -> NextRequest {
        for _ in 0..PIECES_MAX {
            match connection.stream.receive(self.exchange.read_buffer.spare()) {
                Ok(0) => return NextRequest::Never,
                Ok(count) => self.exchange.read_buffer.extend_filled(count),
                Err(error) if is_would_block(&error) => break,
                Err(_) => return NextRequest::Never,
            }
            if self.has_request() {
                return self.begin(connection);
            }
        }
        NextRequest::Wait(Interest::Readable)
    }

    /// Whether the read_buffer holds a head, or more than a head may have.
    fn has_request(&self) -> bool {
        let read_buffer = &self.exchange.read_buffer;
        read_buffer.is_full() || head::has_arrived(read_buffer.filled(), 0)
    }

    /// Takes on the request in the read_buffer, if a worker may begin with it and needs no more of the client before.
    fn begin(&self, connection: &Connection) -> NextRequest {
        let received = self.exchange.read_buffer.filled();
        let class = match head::outlook(received) {
            Outlook::Small => WorkerClass::Small,
            Outlook::Large => WorkerClass::Large,
            Outlook::Awaited(wanted) if wanted > self.engine.config.head_max_bytes => {
                class_of_missing_bytes(&connection.stream, wanted - received.len())
            }
            Outlook::Awaited(_) => return NextRequest::Wait(Interest::ReadableOrWritable),
        };
        match class {
            WorkerClass::Small => NextRequest::Here(None),
            class => self
                .engine
                .queues
                .try_start(class)
                .map_or(NextRequest::Wait(Interest::ReadableOrWritable), |right| {
                    NextRequest::Here(Some(right))
                }),
        }
    }

    fn park_idle(&self, mut connection: Box<Connection>, interest: Interest) {
        let config = &self.engine.config;
        let received = self.exchange.read_buffer.filled();
        let patience = if received.is_empty() { config.idle_deadline } else { config.head_deadline };
        connection.wait_for_request(self.engine.clock.instant(), patience);
        connection.searched_len = if interest == Interest::Readable { received.len() } else { 0 };
        if self.save_read_buffer(&mut connection).is_ok() {
            self.engine.connections.park(connection, interest);
        }
    }

    /// Leaves with a connection what it has received. Where there is no memory for it the connection is to be closed: what
    /// was answered has been sent, and what was not has not been response_started.
    fn save_read_buffer(&self, connection: &mut Connection) -> Result<(), NoMemory> {
        let Config { head_max_bytes, ref memory, .. } = self.engine.config;
        connection.append_received(self.exchange.read_buffer.filled(), head_max_bytes, memory)
    }
}
