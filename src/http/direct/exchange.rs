//! One request and its response.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::connection_table::Connection;
use super::engine::DirectEngine;
use super::head;
use super::read_buffer::ReadBuffer;
use super::request_body::RequestBody;
use super::stall_budget::StallBudget;
use super::stream::ClientStream;
use super::timed_io::{SendProgress, send_all};
use super::work_queues::WorkerClass;
use crate::base::limits::{self, QUICK_BODY_MAX_BYTES};
use crate::base::{Budget, Reservation};
use crate::http::catch_panic::catch_panic;
use crate::http::fields::{BodyFraming, invalid_request};
use crate::http::request_head::RequestHead;
use crate::http::response::{RequestTraits, ResponseFraming};
use crate::http::response_writer::{RemainingBody, ResponseSink, ResponseWriter, SendFailure, SendOptions};
use crate::s3::{Body, ErrorCode, Method, Request, Response, ResponseBody, S3Error};

/// What becomes of a connection after an exchange.
#[derive(Debug)]
pub(super) enum NextAction {
    /// It waits for the next request.
    KeepOpen,
    /// Both sides have said all.
    Close,
    /// The client may still be sending: it must come to read its response.
    Drain,
    /// The client must see that its response is not whole.
    Abort,
    /// Its response takes more than the worker has the right to.
    Defer(Box<PendingResponse>),
    /// Its client takes no more of its response for now, and others wait for the worker.
    Stall(Box<PendingResponse>),
}

/// A response that is ready to be sent, or what has not been sent of it.
pub(super) struct PendingResponse {
    content: Unsent,
    traits: RequestTraits,
    /// It is the last of its connection.
    close: bool,
    /// The client has sent all that it will send.
    request_complete: bool,
}

enum Unsent {
    Response(Response),
    Rest(Box<ResponseTail>),
}

/// A response that has been sent in part.
struct ResponseTail {
    unsent: UnsentBytes,
    rest: RemainingBody,
    /// What the response holds of the memory.
    held: Reservation,
    /// What is left of the patience with its client.
    patience: Duration,
}

/// What a client did not take.
#[derive(Default)]
struct UnsentBytes {
    bytes: Vec<u8>,
    /// How many of them it has taken since.
    sent: usize,
    _room: Reservation,
}

impl std::fmt::Debug for PendingResponse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PendingResponse")
            .field("response_started", &self.response_started())
            .finish_non_exhaustive()
    }
}

impl PendingResponse {
    /// What kind of work it is to send it.
    pub(super) fn class(&self) -> WorkerClass {
        let Unsent::Response(response) = &self.content else { return WorkerClass::Large };
        match &response.body {
            ResponseBody::Deferred(_) => WorkerClass::Heavy,
            ResponseBody::Stream { length, .. } if !self.traits.head_only => match length {
                Some(..=QUICK_BODY_MAX_BYTES) => WorkerClass::Small,
                _ => WorkerClass::Large,
            },
            _ => WorkerClass::Small,
        }
    }

    /// Whether the client has a part of it.
    pub(super) fn response_started(&self) -> bool {
        matches!(self.content, Unsent::Rest(_))
    }

    /// How long its client may go on taking nothing.
    pub(super) fn patience(&self) -> Duration {
        match &self.content {
            Unsent::Rest(tail) => tail.patience,
            Unsent::Response(_) => Duration::ZERO,
        }
    }

    /// Its client has taken nothing for a time, and so much is left of the patience with it.
    pub(super) fn set_patience(&mut self, left: Duration) {
        if let Unsent::Rest(tail) = &mut self.content {
            tail.patience = left;
        }
    }
}

/// What a worker needs to turn requests into responses, used again for each.
pub(super) struct Exchange {
    engine: Arc<DirectEngine>,
    /// What has been received and not been read. A request begins where it does.
    pub(super) read_buffer: ReadBuffer,
    response_writer: ResponseWriter,
    /// Whether the response to the current request has response_started to go out.
    response_started: bool,
    traits: RequestTraits,
    /// What the worker has the right to do.
    class: WorkerClass,
}

/// The client that a response goes to.
struct ClientSink<'w> {
    stream: &'w ClientStream,
    /// How long it may keep us waiting.
    budget: StallBudget<'w>,
    /// Set before the first byte goes out.
    response_started: &'w mut bool,
    /// Whether somebody else needs the worker more than a client that takes nothing.
    may_yield: &'w (dyn Fn() -> bool + 'w),
    memory: &'w Arc<Budget>,
    unsent: UnsentBytes,
}

impl ClientSink<'_> {
    /// Sends what the client did not take before; whether it took all of that.
    fn put_unsent(&mut self) -> io::Result<bool> {
        let UnsentBytes { bytes, sent, .. } = &mut self.unsent;
        match send_all(self.stream, [bytes], *sent, &mut self.budget, self.may_yield)? {
            SendProgress::Partial(part) => {
                *sent = part;
                Ok(false)
            }
            SendProgress::Complete => {
                self.unsent = UnsentBytes::default();
                Ok(true)
            }
        }
    }
}

impl ResponseSink for ClientSink<'_> {
    /// What is not taken is kept back where there is memory for it; else the client is waited for.
    fn write_all<const N: usize>(&mut self, parts: [&[u8]; N]) -> io::Result<()> {
        *self.response_started = true;
        let SendProgress::Partial(sent) = send_all(self.stream, parts, 0, &mut self.budget, self.may_yield)?
        else {
            return Ok(());
        };
        let len = parts.iter().map(|part| part.len()).sum::<usize>() - sent;
        let Some(room) = self.memory.reserve(len as u64) else {
            return send_all(self.stream, parts, sent, &mut self.budget, &|| false).map(drop);
        };
        let (mut bytes, mut skipped) = (Vec::with_capacity(len), sent);
        for part in parts {
            let of_part = skipped.min(part.len());
            bytes.extend_from_slice(&part[of_part..]);
            skipped -= of_part;
        }
        self.unsent = UnsentBytes { bytes, sent: 0, _room: room };
        Err(io::ErrorKind::WouldBlock.into())
    }

    fn piece_len_max(&self) -> usize {
        if (self.may_yield)() { limits::BLOCK_BYTES as usize } else { limits::RESPONSE_BUFFER_BYTES }
    }
}

impl Exchange {
    /// Empty buffers.
    pub(super) fn new(engine: Arc<DirectEngine>) -> Self {
        let read_buffer = ReadBuffer::new(engine.config.head_max_bytes);
        let (traits, class) = (RequestTraits::default(), WorkerClass::Small);
        Self {
            engine,
            read_buffer,
            response_writer: ResponseWriter::default(),
            response_started: false,
            traits,
            class,
        }
    }

    /// Answers the request whose head is in the read_buffer, for a worker that may do work of that class. Whatever panics on the
    /// way answers 500 if the response has not response_started, and cuts the connection if it has.
    pub(super) fn run(&mut self, connection: &Connection, class: WorkerClass) -> NextAction {
        self.class = class;
        self.response_started = false;
        self.traits = RequestTraits::default();
        let after = catch_panic(|| self.answer(connection));
        after.unwrap_or_else(|| self.after_panic(connection))
    }

    /// Sends a response that was deferred, for a worker that may do work of that class.
    pub(super) fn resume(
        &mut self,
        connection: &Connection,
        pending: PendingResponse,
        class: WorkerClass,
    ) -> NextAction {
        self.class = class;
        self.response_started = pending.response_started();
        self.traits = pending.traits;
        let after = catch_panic(|| self.deliver(connection, pending));
        after.unwrap_or_else(|| self.after_panic(connection))
    }

    fn after_panic(&mut self, connection: &Connection) -> NextAction {
        if self.response_started {
            return NextAction::Abort;
        }
        let error = S3Error::new(ErrorCode::InternalError);
        catch_panic(|| self.refuse(connection, error)).unwrap_or(NextAction::Abort)
    }

    fn answer(&mut self, connection: &Connection) -> NextAction {
        let limit = self.engine.config.headers_max;
        let error = match head::parse(self.read_buffer.filled(), limit) {
            Ok(Some(head)) => return self.handle(connection, head),
            Ok(None) if self.read_buffer.is_full() => head::too_large(),
            Ok(None) => invalid_request("The request head is incomplete."),
            Err(error) => error,
        };
        self.refuse(connection, error)
    }

    fn handle(&mut self, connection: &Connection, head: RequestHead) -> NextAction {
        self.read_buffer.consume(head.len);
        self.traits = RequestTraits { head_only: head.method == Method::Head, http10: head.http10 };
        let keep_alive = head.keep_alive;
        let (response, is_read) = self.call_handler(connection, head);
        let close = response.close || !keep_alive || !is_read || self.engine.is_stopping();
        let request_complete = is_read && !keep_alive && self.read_buffer.is_empty();
        let pending = PendingResponse {
            content: Unsent::Response(response),
            traits: self.traits,
            close,
            request_complete,
        };
        match pending.class() > self.class {
            true => NextAction::Defer(Box::new(pending)),
            false => self.deliver(connection, pending),
        }
    }

    fn deliver(&mut self, connection: &Connection, pending: PendingResponse) -> NextAction {
        let PendingResponse { content, traits, close, request_complete } = pending;
        let sent = match content {
            Unsent::Response(response) => {
                let response = response.complete_deferred();
                let response = response.unwrap_or_else(|error| self.engine.handler.refused(error));
                self.send(connection, response, close)
            }
            Unsent::Rest(tail) => self.send_rest(connection, *tail, close),
        };
        match sent {
            // A client that wanted the connection closed sends nothing more.
            Ok(NextAction::Drain) if request_complete => NextAction::Close,
            Ok(after) => after,
            Err(rest) => NextAction::Stall(Box::new(PendingResponse {
                content: Unsent::Rest(rest),
                traits,
                close,
                request_complete,
            })),
        }
    }

    /// The response, and whether the request has been read to its end.
    fn call_handler(&mut self, connection: &Connection, head: RequestHead) -> (Response, bool) {
        let Self { engine, read_buffer, class, .. } = self;
        let under_load = || engine.queues.is_under_load(*class);
        let (patience, rate) = (engine.config.read_stall_budget, engine.config.rate_min_bytes_per_sec);
        let budget = StallBudget::new(&*engine.clock, patience, rate, &under_load);
        let mut unread =
            RequestBody::new(&connection.stream, read_buffer, head.body, head.expects_continue, budget);
        let body = match head.body {
            BodyFraming::Absent => Body::none(),
            BodyFraming::Length(length) => {
                Body { content_length: Some(length), chunked: false, reader: Box::new(&mut unread) }
            }
            BodyFraming::Chunked => {
                Body { content_length: None, chunked: true, reader: Box::new(&mut unread) }
            }
        };
        let response = engine.handler.handle(Request {
            method: head.method,
            path: head.path,
            query: head.query,
            headers: head.headers,
            body,
            secure: connection.stream.is_encrypted(),
            peer: Some(connection.peer),
            client: Some(connection.stream.clone()),
        });
        let is_read = unread.skip_rest();
        (response, is_read)
    }

    /// Answers with an error as the last thing on this connection.
    fn refuse(&mut self, connection: &Connection, error: S3Error) -> NextAction {
        let (traits, content) = (self.traits, Unsent::Response(self.engine.handler.refused(error)));
        self.deliver(connection, PendingResponse { content, traits, close: true, request_complete: false })
    }

    /// Sends a response. What a client did not take is handed back where nobody is to wait for it.
    fn send(
        &mut self,
        connection: &Connection,
        mut response: Response,
        close: bool,
    ) -> Result<NextAction, Box<ResponseTail>> {
        let framing = ResponseFraming::of(&response, self.traits);
        let options = SendOptions {
            traits: self.traits,
            framing,
            close: close || framing == ResponseFraming::UntilClose,
        };
        let held = std::mem::take(&mut response.held);
        let patience = self.engine.config.write_stall_budget;
        // Only where its end is known can a body be set aside between two pieces.
        let may_yield = matches!(framing, ResponseFraming::Length(_));
        let now = self.engine.clock.now();
        let unsent = UnsentBytes::default();
        self.transfer(
            connection,
            options.close,
            (may_yield, patience, held),
            unsent,
            |response_writer, to| response_writer.send(to, response, options, now),
        )
    }

    /// Goes on with a response.
    fn send_rest(
        &mut self,
        connection: &Connection,
        tail: ResponseTail,
        close: bool,
    ) -> Result<NextAction, Box<ResponseTail>> {
        let ResponseTail { unsent, rest, held, patience } = tail;
        self.transfer(connection, close, (true, patience, held), unsent, |response_writer, to| {
            match to.put_unsent() {
                Ok(true) => response_writer.resume(to, rest),
                Ok(false) => Err(SendFailure::Stalled(rest)),
                Err(_) => Err(SendFailure::ClientGone),
            }
        })
    }

    fn transfer(
        &mut self,
        connection: &Connection,
        close: bool,
        (may_yield, patience, held): (bool, Duration, Reservation),
        unsent: UnsentBytes,
        send: impl FnOnce(&mut ResponseWriter, &mut ClientSink<'_>) -> Result<(), SendFailure>,
    ) -> Result<NextAction, Box<ResponseTail>> {
        let Self { engine, response_writer, response_started, class, .. } = self;
        let under_load = || engine.queues.is_under_load(*class);
        // A small request has a worker because it takes no time: it does not become large by a client that takes nothing.
        let may_yield =
            || may_yield && !engine.is_stopping() && (*class == WorkerClass::Small || under_load());
        let config = &engine.config;
        let budget = StallBudget::new(
            &*engine.clock,
            config.write_stall_budget,
            config.rate_min_bytes_per_sec,
            &under_load,
        );
        let (budget, memory) = (budget.with_remaining(patience), &config.memory);
        let mut to = ClientSink {
            stream: &connection.stream,
            budget,
            response_started,
            may_yield: &may_yield,
            memory,
            unsent,
        };
        match send(response_writer, &mut to) {
            Ok(()) if close => Ok(NextAction::Drain),
            Ok(()) => Ok(NextAction::KeepOpen),
            Err(SendFailure::ClientGone) => Ok(NextAction::Abort),
            Err(SendFailure::Stalled(rest)) => {
                let (unsent, patience) = (to.unsent, to.budget.remaining());
                Err(Box::new(ResponseTail { unsent, rest, held, patience }))
            }
            Err(SendFailure::BrokenSource(error)) => {
                ::log::error!("a response cannot be sent whole: {error}");
                Ok(self.after_broken_source(connection))
            }
        }
    }

    /// A source that fails at once leaves room for a proper answer.
    fn after_broken_source(&mut self, connection: &Connection) -> NextAction {
        if self.response_started {
            return NextAction::Abort;
        }
        self.refuse(connection, S3Error::new(ErrorCode::InternalError))
    }
}
