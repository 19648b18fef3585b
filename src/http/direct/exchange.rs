//! One request and its response.

use std::io;
use std::sync::Arc;

use super::body::RequestBody;
use super::head;
use super::inbox::Inbox;
use super::lot::Connection;
use super::pace::Pace;
use super::shared::Shared;
use super::stream::Stream;
use super::wire::transmit;
use super::work_queues::Class;
use crate::base::limits::QUICK_BODY_MAX_BYTES;
use crate::http::fields::{BodyFraming, refused};
use crate::http::guarded::guarded;
use crate::http::outbox::{Failure, Manner, Outbox, Recipient};
use crate::http::request::Head;
use crate::http::response::{Asked, Framing};
use crate::s3::{Body, ErrorCode, Method, Request, Response, ResponseBody, S3Error};

/// What becomes of a connection after an exchange.
#[derive(Debug)]
pub(super) enum After {
    /// It waits for the next request.
    KeepOpen,
    /// Both sides have said all.
    Close,
    /// The client may still be sending: it must come to read its response.
    Drain,
    /// The client must see that its response is not whole.
    Cut,
    /// Its response takes more than the worker has the right to.
    Defer(Box<Outgoing>),
}

/// A response that is ready to be sent.
pub(super) struct Outgoing {
    response: Response,
    asked: Asked,
    /// It is the last of its connection.
    close: bool,
    /// The client has sent all that it will send.
    is_said: bool,
}

impl std::fmt::Debug for Outgoing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Outgoing").field("status", &self.response.status).finish_non_exhaustive()
    }
}

impl Outgoing {
    /// What kind of work it is to send it.
    pub(super) fn class(&self) -> Class {
        match &self.response.body {
            ResponseBody::Deferred(_) => Class::Heavy,
            ResponseBody::Stream { length, .. } if !self.asked.head_only => match length {
                Some(..=QUICK_BODY_MAX_BYTES) => Class::Small,
                _ => Class::Large,
            },
            _ => Class::Small,
        }
    }
}

/// What a worker needs to turn requests into responses, used again for each.
pub(super) struct Exchange {
    shared: Arc<Shared>,
    /// What has been received and not been read. A request begins where it does.
    pub(super) inbox: Inbox,
    outbox: Outbox,
    /// Whether the response to the current request has begun to go out.
    begun: bool,
    asked: Asked,
    /// What the worker has the right to do.
    class: Class,
}

/// The client that a response goes to.
struct Peer<'w> {
    stream: &'w Stream,
    /// How long it may keep us waiting.
    pace: Pace<'w>,
    /// Set before the first byte goes out.
    begun: &'w mut bool,
}

impl Recipient for Peer<'_> {
    fn put<const N: usize>(&mut self, parts: [&[u8]; N]) -> io::Result<()> {
        *self.begun = true;
        transmit(self.stream, parts, &mut self.pace)
    }
}

impl Exchange {
    /// Empty buffers.
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        let inbox = Inbox::new(shared.config.head_max_bytes);
        let (asked, class) = (Asked::default(), Class::Small);
        Self { shared, inbox, outbox: Outbox::default(), begun: false, asked, class }
    }

    /// Answers the request whose head is in the inbox, for a worker that may do work of that class. Whatever panics on the
    /// way answers 500 if the response has not begun, and cuts the connection if it has.
    pub(super) fn run(&mut self, connection: &Connection, class: Class) -> After {
        self.class = class;
        self.begun = false;
        self.asked = Asked::default();
        let after = guarded(|| self.answer(connection));
        after.unwrap_or_else(|| self.after_panic(connection))
    }

    /// Sends a response that was deferred, for a worker that may do work of that class.
    pub(super) fn resume(&mut self, connection: &Connection, outgoing: Outgoing, class: Class) -> After {
        self.class = class;
        self.begun = false;
        self.asked = outgoing.asked;
        let after = guarded(|| self.deliver(connection, outgoing));
        after.unwrap_or_else(|| self.after_panic(connection))
    }

    fn after_panic(&mut self, connection: &Connection) -> After {
        if self.begun {
            return After::Cut;
        }
        let error = S3Error::new(ErrorCode::InternalError);
        guarded(|| self.refuse(connection, error)).unwrap_or(After::Cut)
    }

    fn answer(&mut self, connection: &Connection) -> After {
        let limit = self.shared.config.headers_max;
        let error = match head::parse(self.inbox.filled(), limit) {
            Ok(Some(head)) => return self.handle(connection, head),
            Ok(None) if self.inbox.is_full() => head::too_large(),
            Ok(None) => refused("The request head is incomplete."),
            Err(error) => error,
        };
        self.refuse(connection, error)
    }

    fn handle(&mut self, connection: &Connection, head: Head) -> After {
        self.inbox.consume(head.len);
        self.asked = Asked { head_only: head.method == Method::Head, http10: head.http10 };
        let keep_alive = head.keep_alive;
        let (response, is_read) = self.call_handler(connection, head);
        let close = response.close || !keep_alive || !is_read || self.shared.is_stopping();
        let is_said = is_read && !keep_alive && self.inbox.is_empty();
        let outgoing = Outgoing { response, asked: self.asked, close, is_said };
        match outgoing.class() > self.class {
            true => After::Defer(Box::new(outgoing)),
            false => self.deliver(connection, outgoing),
        }
    }

    fn deliver(&mut self, connection: &Connection, outgoing: Outgoing) -> After {
        let response = outgoing.response.settled();
        let response = response.unwrap_or_else(|error| self.shared.handler.refused(error));
        match self.send(connection, response, outgoing.close) {
            // A client that wanted the connection closed sends nothing more.
            After::Drain if outgoing.is_said => After::Close,
            after => after,
        }
    }

    /// The response, and whether the request has been read to its end.
    fn call_handler(&mut self, connection: &Connection, head: Head) -> (Response, bool) {
        let Self { shared, inbox, class, .. } = self;
        let pressed = || shared.queues.is_waited_for(*class);
        let (patience, rate) = (shared.config.read_patience, shared.config.rate_min_bytes_per_sec);
        let pace = Pace::new(&*shared.clock, patience, rate, &pressed);
        let mut unread = RequestBody::new(&connection.stream, inbox, head.body, head.expects_continue, pace);
        let body = match head.body {
            BodyFraming::Absent => Body::none(),
            BodyFraming::Length(length) => {
                Body { content_length: Some(length), chunked: false, reader: Box::new(&mut unread) }
            }
            BodyFraming::Chunked => {
                Body { content_length: None, chunked: true, reader: Box::new(&mut unread) }
            }
        };
        let response = shared.handler.handle(Request {
            method: head.method,
            path: head.path,
            query: head.query,
            headers: head.headers,
            body,
            secure: connection.stream.is_encrypted(),
            peer: Some(connection.peer),
            client: Some(connection.stream.clone()),
        });
        let is_read = unread.settle();
        (response, is_read)
    }

    /// Answers with an error as the last thing on this connection.
    fn refuse(&mut self, connection: &Connection, error: S3Error) -> After {
        let response = self.shared.handler.refused(error);
        self.send(connection, response, true)
    }

    fn send(&mut self, connection: &Connection, response: Response, close: bool) -> After {
        let Self { shared, outbox, begun, asked, class, .. } = self;
        let framing = Framing::of(&response, *asked);
        let manner = Manner { asked: *asked, framing, close: close || framing == Framing::UntilClose };
        let pressed = || shared.queues.is_waited_for(*class);
        let (patience, rate) = (shared.config.write_patience, shared.config.rate_min_bytes_per_sec);
        let pace = Pace::new(&*shared.clock, patience, rate, &pressed);
        let mut to = Peer { stream: &connection.stream, pace, begun };
        match outbox.send(&mut to, response, manner, shared.clock.now()) {
            Ok(()) if manner.close => After::Drain,
            Ok(()) => After::KeepOpen,
            Err(Failure::Client) => After::Cut,
            Err(Failure::Source(error)) => {
                ::log::error!("a response cannot be sent whole: {error}");
                self.after_broken_source(connection)
            }
        }
    }

    /// A source that fails at once leaves room for a proper answer.
    fn after_broken_source(&mut self, connection: &Connection) -> After {
        if self.begun {
            return After::Cut;
        }
        self.refuse(connection, S3Error::new(ErrorCode::InternalError))
    }
}
