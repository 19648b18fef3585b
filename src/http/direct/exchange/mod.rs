//! One request and its response, in three steps: read the request, call the handler, write the
//! response.

mod client_sink;

use std::sync::Arc;
use std::time::Duration;

use self::client_sink::ClientSink;
use super::connections::Connection;
use super::engine::DirectEngine;
use super::head;
use super::pending_response::{PendingResponse, ResponseTail, UnsentBytes, UnsentContent};
use super::read_buffer::ReadBuffer;
use super::request_body::RequestBody;
use super::stall_budget::StallBudget;
use super::work_queues::WorkQueues;
use super::worker_class::WorkerClass;
use crate::base::Reservation;
use crate::http::catch_panic::catch_panic;
use crate::http::fields::invalid_request;
use crate::http::request_head::RequestHead;
use crate::http::response::{RequestTraits, ResponseFraming, SendOptions};
use crate::http::response_writer::{ResponseWriter, SendFailure, error_of_source};
use crate::s3::{ErrorCode, Method, Response, S3Error};

/// What a worker does with a connection after an exchange.
#[derive(Debug)]
pub(super) enum NextAction {
    /// Wait for the next request.
    KeepOpen,
    /// Close the connection: both sides have sent everything.
    Close,
    /// Receive until the client has read its response: it may still be sending.
    Drain,
    /// Reset the connection, so that the client notices that its response is incomplete.
    Abort,
    /// Queue the response: it takes a permit that the worker does not have.
    Defer(Box<PendingResponse>),
    /// Park the response: its client stalls, and others need the worker.
    Stall(Box<PendingResponse>),
}

impl NextAction {
    /// Whether the exchange is over.
    pub(super) fn ends_exchange(&self) -> bool {
        !matches!(self, Self::Defer(_) | Self::Stall(_))
    }
}

/// The buffers of a worker, and the state of its current exchange.
pub(super) struct Exchange {
    engine: Arc<DirectEngine>,
    queues: Arc<WorkQueues>,
    /// Received bytes that have not been read. They begin with the head of the next request.
    pub(super) read_buffer: ReadBuffer,
    writer: ResponseWriter,
    /// Whether a byte of the current response has been sent.
    response_started: bool,
    traits: RequestTraits,
    /// The class of work for which the worker has a permit.
    class: WorkerClass,
}

/// The terms of sending one response.
struct SendTerms {
    /// Whether the connection closes after the response.
    close: bool,
    /// Whether the response may be parked half-sent.
    may_stall: bool,
    /// How long the client may stall.
    stall_budget: Duration,
    /// The memory that the handler has reserved for the response.
    reservation: Reservation,
}

impl Exchange {
    /// An exchange with empty buffers, for a worker that takes requests from `queues`.
    pub(super) fn new(engine: Arc<DirectEngine>, queues: Arc<WorkQueues>) -> Self {
        let read_buffer = ReadBuffer::new(engine.config.head_max_bytes);
        Self {
            engine,
            queues,
            read_buffer,
            writer: ResponseWriter::default(),
            response_started: false,
            traits: RequestTraits::default(),
            class: WorkerClass::Small,
        }
    }

    /// Answers the request in the read buffer, for a worker with a permit for `class`. A panic is
    /// answered with 500 if no byte of the response has been sent, else it aborts the connection.
    pub(super) fn run(&mut self, connection: &Connection, class: WorkerClass) -> NextAction {
        self.begin(class, RequestTraits::default(), false);
        let action = catch_panic(|| self.answer(connection));
        action.unwrap_or_else(|| self.answer_failure(connection, S3Error::new(ErrorCode::InternalError)))
    }

    /// Sends a pending response, for a worker with a permit for `class`.
    pub(super) fn resume(
        &mut self,
        connection: &Connection,
        pending: PendingResponse,
        class: WorkerClass,
    ) -> NextAction {
        self.begin(class, pending.traits, pending.response_started());
        let action = catch_panic(|| self.write_response(connection, pending));
        action.unwrap_or_else(|| self.answer_failure(connection, S3Error::new(ErrorCode::InternalError)))
    }

    fn begin(&mut self, class: WorkerClass, traits: RequestTraits, response_started: bool) {
        self.class = class;
        self.traits = traits;
        self.response_started = response_started;
    }

    fn answer(&mut self, connection: &Connection) -> NextAction {
        let response = match self.read_request() {
            Ok(head) => self.call_handler(connection, head),
            Err(error) => self.refusal(error),
        };
        match response.class() > self.class {
            true => NextAction::Defer(Box::new(response)),
            false => self.write_response(connection, response),
        }
    }

    /// Step one: takes the head of the request off the read buffer.
    fn read_request(&mut self) -> Result<RequestHead, S3Error> {
        let head = match head::parse(self.read_buffer.filled(), self.engine.config.headers_max)? {
            Some(head) => head,
            None if self.read_buffer.is_full() => return Err(head::too_large()),
            None => return Err(invalid_request("The request head is incomplete.")),
        };
        self.read_buffer.consume(head.len);
        self.traits = RequestTraits { head_only: head.method == Method::Head, http10: head.http10 };
        Ok(head)
    }

    /// Step two: has the handler answer the request, then reads a small rest of its body.
    fn call_handler(&mut self, connection: &Connection, head: RequestHead) -> PendingResponse {
        let keep_alive = head.keep_alive;
        let (response, body_complete) = self.handle(connection, head);
        let close = response.close || !keep_alive || !body_complete || self.engine.is_stopping();
        // A client that wanted the connection closed sends no other request.
        let request_complete = body_complete && !keep_alive && self.read_buffer.is_empty();
        let content = UnsentContent::Response(response);
        PendingResponse { content, traits: self.traits, close, request_complete }
    }

    /// Step three: writes the response, or goes on writing it.
    fn write_response(&mut self, connection: &Connection, response: PendingResponse) -> NextAction {
        let PendingResponse { content, traits, close, request_complete } = response;
        let sent = match content {
            UnsentContent::Response(response) => self.send(connection, response, close),
            UnsentContent::Tail(tail) => self.send_tail(connection, *tail, close),
        };
        match sent {
            Ok(NextAction::Drain) if request_complete => NextAction::Close,
            Ok(action) => action,
            Err(tail) => {
                let content = UnsentContent::Tail(tail);
                NextAction::Stall(Box::new(PendingResponse { content, traits, close, request_complete }))
            }
        }
    }

    /// Calls the handler. Returns its response, and whether the body has been read to its end.
    fn handle(&mut self, connection: &Connection, head: RequestHead) -> (Response, bool) {
        let Self { engine, queues, read_buffer, class, .. } = self;
        let config = &engine.config;
        let time = config.read_stall_budget;
        let rate = config.rate_min_bytes_per_sec;
        let under_load = || queues.is_under_load(*class);
        let budget = StallBudget::new(&*engine.clock, time, rate, &under_load);
        let mut body =
            RequestBody::new(&connection.stream, read_buffer, head.body, head.expects_continue, budget);
        let framed = head.body.into_body(&mut body);
        let secure = connection.stream.is_encrypted();
        let client = connection.stream.clone();
        let request = head.into_request(framed, secure, Some(connection.peer), Some(client));
        let response = engine.handler.handle(request);
        // A refused upload may be small enough to be read to its end, so that the connection stays.
        let is_complete = body.skip_rest();
        (response, is_complete)
    }

    /// The last response of a connection, which reports an error.
    fn refusal(&self, error: S3Error) -> PendingResponse {
        let content = UnsentContent::Response(self.engine.handler.refused(error));
        PendingResponse { content, traits: self.traits, close: true, request_complete: false }
    }

    /// Answers a panic or a broken source, or aborts where a response has been started.
    fn answer_failure(&mut self, connection: &Connection, error: S3Error) -> NextAction {
        if self.response_started {
            return NextAction::Abort;
        }
        catch_panic(|| self.write_response(connection, self.refusal(error))).unwrap_or(NextAction::Abort)
    }

    /// Sends a response from its beginning.
    ///
    /// # Errors
    /// The unsent part of it, when the client stalls and the worker is needed elsewhere.
    fn send(
        &mut self,
        connection: &Connection,
        response: Response,
        close: bool,
    ) -> Result<NextAction, Box<ResponseTail>> {
        let mut response =
            response.complete_deferred().unwrap_or_else(|error| self.engine.handler.refused(error));
        let framing = ResponseFraming::of(&response, self.traits);
        let close = close || framing == ResponseFraming::UntilClose;
        let terms = SendTerms {
            close,
            // Only a body of known length can be parked between two pieces.
            may_stall: matches!(framing, ResponseFraming::Length(_)),
            stall_budget: self.engine.config.write_stall_budget,
            // Kept apart from the response: it goes on with the bytes that are parked.
            reservation: std::mem::take(&mut response.held),
        };
        let options = SendOptions { traits: self.traits, framing, close };
        let now = self.engine.clock.now();
        self.transfer(connection, terms, UnsentBytes::default(), |writer, sink| {
            writer.send(sink, response, options, now)
        })
    }

    /// Goes on with a response that has been started.
    ///
    /// # Errors
    /// As `send`.
    fn send_tail(
        &mut self,
        connection: &Connection,
        tail: ResponseTail,
        close: bool,
    ) -> Result<NextAction, Box<ResponseTail>> {
        let ResponseTail { unsent, rest, reservation, stall_budget } = tail;
        let terms = SendTerms { close, may_stall: true, stall_budget, reservation };
        self.transfer(connection, terms, unsent, |writer, sink| match sink.send_unsent() {
            Ok(true) => writer.resume(sink, rest),
            Ok(false) => Err(SendFailure::Stalled(rest)),
            Err(_) => Err(SendFailure::ClientGone),
        })
    }

    fn transfer(
        &mut self,
        connection: &Connection,
        terms: SendTerms,
        unsent: UnsentBytes,
        send: impl FnOnce(&mut ResponseWriter, &mut ClientSink<'_>) -> Result<(), SendFailure>,
    ) -> Result<NextAction, Box<ResponseTail>> {
        let SendTerms { close, may_stall, stall_budget, reservation } = terms;
        let Self { engine, queues, writer, response_started, class, .. } = self;
        let under_load = || queues.is_under_load(*class);
        // A small request has no permit, and must not become a large one by a client that stalls.
        let should_yield =
            || may_stall && !engine.is_stopping() && (*class == WorkerClass::Small || under_load());
        let config = &engine.config;
        let time = config.write_stall_budget;
        let rate = config.rate_min_bytes_per_sec;
        let budget = StallBudget::new(&*engine.clock, time, rate, &under_load).with_remaining(stall_budget);
        let stream = &*connection.stream;
        let memory = &config.memory;
        let mut sink =
            ClientSink { stream, budget, response_started, should_yield: &should_yield, memory, unsent };
        match send(writer, &mut sink) {
            Ok(()) => Ok(if close { NextAction::Drain } else { NextAction::KeepOpen }),
            Err(SendFailure::ClientGone) => Ok(NextAction::Abort),
            Err(SendFailure::Stalled(rest)) => {
                let unsent = sink.unsent;
                let stall_budget = sink.budget.remaining();
                Err(Box::new(ResponseTail { unsent, rest, reservation, stall_budget }))
            }
            Err(SendFailure::BrokenSource(error)) => {
                ::log::error!("a response cannot be sent to its end: {error}");
                Ok(self.answer_failure(connection, error_of_source(&error)))
            }
        }
    }
}
