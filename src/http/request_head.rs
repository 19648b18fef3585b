//! The head of a request, validated.

use std::net::SocketAddr;
use std::sync::Arc;

use super::fields::{BodyFraming, FramingFields};
use super::request_target::RequestTarget;
use crate::s3::{Body, Client, Headers, Method, Request, S3Error};

/// A valid request head.
#[derive(Debug)]
pub(super) struct RequestHead {
    pub(super) method: Method,
    /// The path as sent.
    pub(super) path: String,
    /// The query as sent.
    pub(super) query: String,
    /// The header lines.
    pub(super) headers: Headers,
    /// How the end of the body is found.
    pub(super) body: BodyFraming,
    /// Whether the client waits for `100 Continue`.
    pub(super) expects_continue: bool,
    /// Whether the client wants to keep the connection.
    pub(super) keep_alive: bool,
    /// Whether the client speaks HTTP/1.0.
    pub(super) http10: bool,
    /// The length of the head in bytes.
    pub(super) len: usize,
}

/// The parts of a request line.
#[derive(Debug, Clone, Copy)]
pub(super) struct RequestLine<'a> {
    /// The method as sent.
    pub(super) method: &'a str,
    /// The target as sent.
    pub(super) target: &'a str,
    /// Whether the client speaks HTTP/1.0.
    pub(super) http10: bool,
}

impl RequestHead {
    /// Validates a request line and header lines. The head has `len` bytes.
    ///
    /// # Errors
    /// `InvalidRequest` or `InvalidURI` for malformed and ambiguous heads.
    pub(super) fn from_parts<'a>(
        line: RequestLine<'_>,
        lines: impl ExactSizeIterator<Item = (&'a str, &'a [u8])>,
        len: usize,
    ) -> Result<Self, S3Error> {
        let RequestLine { method, target, http10 } = line;
        let target = RequestTarget::parse(target, method)?;
        let (headers, fields) = read_lines(lines, &target, len)?;
        Ok(Self {
            method: Method::from_token(method),
            path: target.path.to_owned(),
            query: target.query.to_owned(),
            headers,
            body: fields.body(http10)?,
            expects_continue: fields.expects_continue(http10),
            keep_alive: fields.keep_alive(http10),
            http10,
            len,
        })
    }

    /// The request that a handler is given, with its body, whether it is encrypted, and its client.
    pub(super) fn into_request(
        self,
        body: Body<'_>,
        secure: bool,
        peer: Option<SocketAddr>,
        client: Option<Arc<dyn Client>>,
    ) -> Request<'_> {
        let Self { method, path, query, headers, .. } = self;
        Request { method, path, query, headers, body, secure, peer, client }
    }
}

/// Collects the header lines, and those that frame the message. The length of the head is enough
/// room for all names and values.
fn read_lines<'a>(
    lines: impl ExactSizeIterator<Item = (&'a str, &'a [u8])>,
    target: &RequestTarget<'_>,
    head_len: usize,
) -> Result<(Headers, FramingFields), S3Error> {
    let mut headers = Headers::with_capacity(lines.len(), head_len);
    let mut fields = FramingFields::default();
    for (name, value) in lines {
        fields.add_line(name, value)?;
        match target.authority {
            // The target's host counts, and the line's does not, so that no later reader takes the
            // other one.
            Some(host) if name.eq_ignore_ascii_case("host") => headers.push("host", host.as_bytes()),
            _ => headers.push(name, value),
        }
    }
    Ok((headers, fields))
}
