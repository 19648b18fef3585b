//! One request and its response.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::Arc;

use tiny_http::Request;

use super::TinyEngine;
use super::body::TinyRequestBody;
use super::raw_socket::RawSocket;
use super::validate;
use crate::base::limits;
use crate::http::catch_panic::catch_panic;
use crate::http::fields::BodyFraming;
use crate::http::request_head::RequestHead;
use crate::http::response::{RequestTraits, ResponseFraming, SendOptions};
use crate::http::response_writer::{ResponseSink, ResponseWriter, SendFailure, error_of_source};
use crate::s3::{ErrorCode, Handler, Method, Response, S3Error};

/// The longest head and piece of a body that are copied together to be written at once.
const JOINED_MAX_BYTES: usize = limits::RESPONSE_BUFFER_BYTES + limits::HEAD_MAX_BYTES;

/// The buffers of a worker, used for one request after the other.
pub(super) struct TinyExchange {
    engine: Arc<TinyEngine>,
    response_writer: ResponseWriter,
    /// Bytes of a body that are read only to be discarded.
    scrap: Vec<u8>,
    /// Parts that are written at once.
    joined: Vec<u8>,
}

/// A response, and what happens to the connection after it.
struct PreparedResponse {
    response: Response,
    traits: RequestTraits,
    /// Whether the client wants the connection closed after it.
    last: bool,
    /// Whether the server has to end the connection after it.
    cut: bool,
    /// Bytes of the request body that have not been read.
    unread: u64,
}

impl TinyExchange {
    /// An exchange with empty buffers.
    pub(super) fn new(engine: Arc<TinyEngine>) -> Self {
        let scrap = vec![0; limits::RESPONSE_BUFFER_BYTES];
        Self { engine, response_writer: ResponseWriter::default(), scrap, joined: Vec::new() }
    }

    /// Answers a request. A panic is answered with 500 if no byte of the response has been sent,
    /// else it ends the connection.
    pub(super) fn run(&mut self, mut request: Request) {
        let peer = request.remote_addr().copied();
        let prepared = match validate::validate(&request, &self.engine.config) {
            Ok(head) => self.handle(&mut request, head, peer),
            Err(error) => self.refuse(&request, &error, peer),
        };
        let cut = prepared.cut;
        let sent = if is_safe_to_drop(prepared.unread) {
            self.send(request.into_writer(), prepared)
        } else {
            // The connection ends, but the thread that the crate keeps for it waits for ever.
            ::log::warn!(
                "a connection is dropped: {} bytes of its request do not fit the memory",
                prepared.unread
            );
            std::mem::forget(request);
            false
        };
        if (cut || !sent)
            && let Some(socket) = peer.and_then(RawSocket::find)
        {
            socket.end();
        }
    }

    fn handle(
        &mut self,
        request: &mut Request,
        head: RequestHead,
        peer: Option<SocketAddr>,
    ) -> PreparedResponse {
        let traits = RequestTraits { head_only: head.method == Method::Head, http10: head.http10 };
        let socket = match head.body {
            BodyFraming::Chunked => peer.and_then(RawSocket::find),
            _ => None,
        };
        if head.body == BodyFraming::Chunked && socket.is_none() {
            return self.refuse(request, &S3Error::new(ErrorCode::MissingContentLength), peer);
        }
        let framing = head.body;
        let keep_alive = head.keep_alive;
        let mut body = TinyRequestBody::new(request, framing, socket.as_ref());
        let response = catch_panic(|| self.call_handler(&mut body, head, peer));
        let internal = S3Error::new(ErrorCode::InternalError);
        let response = response.unwrap_or_else(|| refusal(&*self.engine.handler, &internal));
        let is_complete = body.skip_rest(&mut self.scrap);
        let unread = body.unread_len();
        let cut = response.close || !is_complete || self.engine.is_stopping();
        PreparedResponse { response, traits, last: !keep_alive, cut, unread }
    }

    fn call_handler(
        &self,
        body: &mut TinyRequestBody<'_>,
        head: RequestHead,
        peer: Option<SocketAddr>,
    ) -> Response {
        let body = head.body.into_body(body);
        // The crate does not show the connection, so that there is no client to ask.
        let request = head.into_request(body, false, peer, None);
        let response = self.engine.handler.handle(request);
        response.complete_deferred().unwrap_or_else(|error| refusal(&*self.engine.handler, &error))
    }

    /// Answers a request of doubtful framing, as the last one of its connection. Its body is not
    /// read.
    fn refuse(&self, request: &Request, error: &S3Error, peer: Option<SocketAddr>) -> PreparedResponse {
        if let Some(socket) = peer.and_then(RawSocket::find) {
            socket.stop_receiving();
        }
        let traits = RequestTraits {
            head_only: *request.method() == tiny_http::Method::Head,
            http10: *request.http_version() < (1, 1),
        };
        let response = refusal(&*self.engine.handler, error);
        let unread = request.body_length().map_or(0, |length| length as u64);
        PreparedResponse { response, traits, last: true, cut: true, unread }
    }

    /// Sends a response, or a 500 in its place. Returns whether the connection may stay open.
    fn send(&mut self, writer: Box<dyn Write + Send>, prepared: PreparedResponse) -> bool {
        let PreparedResponse { response, traits, last, cut, .. } = prepared;
        let framing = ResponseFraming::of(&response, traits);
        let close = last || cut || framing == ResponseFraming::UntilClose;
        let now = self.engine.clock.now();
        let mut sink = TinySink { writer, joined: &mut self.joined, response_started: false };
        let sent = catch_panic(|| {
            self.response_writer.send(&mut sink, response, SendOptions { traits, framing, close }, now)
        });
        if let Some(Err(SendFailure::BrokenSource(error))) = &sent {
            ::log::error!("a response cannot be sent to its end: {error}");
        }
        match sent {
            Some(Ok(())) => framing != ResponseFraming::UntilClose,
            Some(Err(SendFailure::ClientGone | SendFailure::Stalled(_))) => false,
            _ if sink.response_started => false,
            // No byte has been sent: another response can take its place.
            failed => {
                let error = match &failed {
                    Some(Err(SendFailure::BrokenSource(error))) => error_of_source(error),
                    _ => S3Error::new(ErrorCode::InternalError),
                };
                let response = refusal(&*self.engine.handler, &error);
                let options = SendOptions { traits, framing: ResponseFraming::of(&response, traits), close };
                matches!(
                    catch_panic(|| self.response_writer.send(&mut sink, response, options, now)),
                    Some(Ok(()))
                )
            }
        }
    }
}

/// The response to an error.
fn refusal(handler: &dyn Handler, error: &S3Error) -> Response {
    catch_panic(|| handler.refused(error.clone())).unwrap_or_else(|| Response::new(500))
}

/// Whether a request may be dropped. The crate then reads the rest of its body into one buffer of
/// that length, and a failed allocation would end the process.
fn is_safe_to_drop(unread: u64) -> bool {
    usize::try_from(unread).is_ok_and(|unread| Vec::<u8>::new().try_reserve_exact(unread).is_ok())
}

/// The client of a request.
struct TinySink<'w> {
    writer: Box<dyn Write + Send>,
    joined: &'w mut Vec<u8>,
    /// Set before the first byte is sent.
    response_started: bool,
}

impl ResponseSink for TinySink<'_> {
    fn write_all<const N: usize>(&mut self, parts: [&[u8]; N]) -> io::Result<()> {
        self.response_started = true;
        if parts.iter().map(|part| part.len()).sum::<usize>() <= JOINED_MAX_BYTES {
            self.joined.clear();
            for part in &parts {
                self.joined.extend_from_slice(part);
            }
            self.writer.write_all(self.joined)?;
        } else {
            parts.iter().try_for_each(|part| self.writer.write_all(part))?;
        }
        self.writer.flush()
    }
}
