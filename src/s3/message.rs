//! Requests and responses, independent of the transport.

use std::borrow::Cow;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use crate::base::Reservation;
use crate::s3::S3Error;

/// The method of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Method {
    Get,
    Head,
    Put,
    Post,
    Delete,
    Options,
    /// Any other token.
    Other(String),
}

impl Method {
    /// The method that `token` spells; methods are case-sensitive (RFC 9110, section 9.1).
    pub fn from_token(token: &str) -> Self {
        match token {
            "GET" => Self::Get,
            "HEAD" => Self::Head,
            "PUT" => Self::Put,
            "POST" => Self::Post,
            "DELETE" => Self::Delete,
            "OPTIONS" => Self::Options,
            other => Self::Other(other.to_owned()),
        }
    }

    /// The token on the request line.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Get => "GET",
            Self::Head => "HEAD",
            Self::Put => "PUT",
            Self::Post => "POST",
            Self::Delete => "DELETE",
            Self::Options => "OPTIONS",
            Self::Other(token) => token,
        }
    }
}

/// Header lines in the order of arrival: names in lower case, values as bytes without surrounding
/// whitespace. One buffer holds all names, one all values.
#[derive(Debug, Clone, Default)]
pub struct Headers {
    names: String,
    values: Vec<u8>,
    /// The ends of each name and each value; a line starts at the end of the previous one.
    ends: Vec<(usize, usize)>,
}

impl Headers {
    /// No lines, with capacity for `lines` lines with `bytes` bytes of names and as many of values.
    pub fn with_capacity(lines: usize, bytes: usize) -> Self {
        let names = String::with_capacity(bytes);
        let values = Vec::with_capacity(bytes);
        Self { names, values, ends: Vec::with_capacity(lines) }
    }

    /// Adds a line. `name` is ASCII (the engine has checked that it is a token).
    pub fn push(&mut self, name: &str, value: &[u8]) {
        let start = self.names.len();
        self.names.push_str(name);
        self.names[start..].make_ascii_lowercase();
        self.values.extend_from_slice(value.trim_ascii());
        self.ends.push((self.names.len(), self.values.len()));
    }

    /// All lines.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        let mut start = (0, 0);
        self.ends.iter().map(move |&end| {
            let from = std::mem::replace(&mut start, end);
            (&self.names[from.0..end.0], &self.values[from.1..end.1])
        })
    }

    /// The value of the first line named `name` (lower case).
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.iter().find(|(n, _)| *n == name).map(|(_, value)| value)
    }

    /// The first value of `name`, if it is UTF-8.
    pub fn get_str(&self, name: &str) -> Option<&str> {
        self.get(name).and_then(|value| std::str::from_utf8(value).ok())
    }

    /// The values of all lines named `name` (lower case), joined to one list (RFC 9110, section
    /// 5.3).
    pub fn get_list<'a>(&'a self, name: &'a str) -> Option<Cow<'a, [u8]>> {
        let mut lines = self.get_all(name);
        let first = Cow::Borrowed(lines.next()?);
        Some(lines.fold(first, |list, line| Cow::Owned([&list, &b","[..], line].concat())))
    }

    /// The values of all lines named `name` (lower case).
    pub fn get_all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
        self.iter().filter(move |(n, _)| *n == name).map(|(_, value)| value)
    }

    /// Whether `text` can be the name of a line (RFC 9110, section 5.6.2).
    pub fn is_name(text: &str) -> bool {
        !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
    }

    /// How many lines there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are no lines.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }
}

/// The reader of a request body. Readers are layered: framing, then verification.
pub trait BodyRead: Send {
    /// Reads the next bytes into `buf` (not empty) and returns their number; 0 is the verified end.
    /// The first call sends `100 Continue` to a client that expects it.
    ///
    /// # Errors
    /// `IncompleteBody` if the connection ends early, `RequestTimeout` if the client is too slow,
    /// and the errors of the verifying layers. After an error all calls fail.
    fn read(&mut self, buf: &mut [u8]) -> Result<usize, S3Error>;

    /// The trailers: names in lower case with `p-` in place of the vendor prefix, in the order of
    /// arrival. Complete, and verified if the request was signed, once `read` has returned 0; empty
    /// before. A wrapping reader passes on the trailers of the reader inside.
    fn trailers(&self) -> &[(String, String)] {
        &[]
    }
}

/// A request body and its framing.
pub struct Body<'c> {
    /// The `Content-Length`; `None` for a chunked body and without a body.
    pub content_length: Option<u64>,
    /// Whether the body has `Transfer-Encoding: chunked`.
    pub chunked: bool,
    /// The bytes.
    pub reader: Box<dyn BodyRead + 'c>,
}

impl Body<'_> {
    /// All bytes of a body that is short: `None` for one with more than `max`, whose rest stays
    /// unread.
    ///
    /// # Errors
    /// As of [`BodyRead::read`].
    pub fn read_short(&mut self, max: usize) -> Result<Option<Vec<u8>>, S3Error> {
        let mut body = Vec::new();
        let mut piece = [0; 8 * 1024];
        loop {
            let read = self.reader.read(&mut piece)?;
            if read == 0 {
                return Ok(Some(body));
            }
            if body.len() + read > max {
                return Ok(None);
            }
            body.extend_from_slice(&piece[..read]);
        }
    }
}

/// A body without bytes.
struct NoBytes;

impl BodyRead for NoBytes {
    fn read(&mut self, _: &mut [u8]) -> Result<usize, S3Error> {
        Ok(0)
    }
}

impl Body<'_> {
    /// The body of a request without one.
    pub fn none() -> Self {
        Self { content_length: None, chunked: false, reader: Box::new(NoBytes) }
    }
}

/// A request whose head is read and whose body is not.
pub struct Request<'c> {
    pub method: Method,
    /// The path as sent: percent-encoded, undecoded, unnormalised, beginning with `/`; or `*` alone
    /// (OPTIONS of the whole server).
    pub path: String,
    /// The query as sent, after the first `?`; empty without one.
    pub query: String,
    /// The header lines.
    pub headers: Headers,
    pub body: Body<'c>,
    /// Whether the connection is encrypted.
    pub secure: bool,
    /// The client's address, for logs and policies.
    pub peer: Option<std::net::SocketAddr>,
    /// The connection of the client, to check whether it is still open; `None` if the engine cannot
    /// know.
    pub client: Option<Arc<dyn Client>>,
}

/// Headers that proxies add. A request with one of them may come from another host than its peer.
const FORWARDING_HEADERS: [&str; 4] = ["forwarded", "via", "x-forwarded-for", "x-real-ip"];

impl Request<'_> {
    /// Whether the client is on this host: the peer has a loopback address and does not forward for
    /// another client. An unknown peer may be anywhere.
    pub fn is_local(&self) -> bool {
        let is_forwarded = FORWARDING_HEADERS.iter().any(|name| self.headers.get(name).is_some());
        !is_forwarded && self.peer.is_some_and(|peer| peer.ip().to_canonical().is_loopback())
    }
}

/// The connection of a client, for work that outlasts the handling of its request.
pub trait Client: Send + Sync {
    /// Whether the client has closed the connection or its half of it.
    fn has_left(&self) -> bool;
}

/// A source of a response body.
pub trait BodySource: Send {
    /// Reads the next bytes into `buf` (not empty) and returns their number; 0 is the end. All
    /// bytes are verified.
    ///
    /// # Errors
    /// The rest cannot be read or verified. The connection must be cut, so that the client does not
    /// take its part for the whole. `BrokenPipe` means that the client has left.
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize>;

    /// The longest piece that should be sent next. Where bytes come from another host, the first
    /// ones do not wait for many others.
    fn piece_len_max(&self) -> usize {
        usize::MAX
    }
}

/// Long work, and its outcome.
pub type DeferredWork = Box<dyn FnOnce() -> Result<Response, S3Error> + Send>;

/// The body of a response.
#[derive(Default)]
pub enum ResponseBody {
    /// No bytes.
    #[default]
    Empty,
    /// Bytes in memory.
    Bytes(Vec<u8>),
    /// Bytes from a source.
    Stream {
        /// The number of bytes; `None` to send them chunked (S3 API reference,
        /// CompleteMultipartUpload).
        length: Option<u64>,
        source: Box<dyn BodySource>,
    },
    /// Work whose outcome replaces the whole response. The engine decides when to run it.
    Deferred(DeferredWork),
}

impl ResponseBody {
    /// The length in bytes, if it is known.
    pub fn len(&self) -> Option<u64> {
        match self {
            Self::Empty => Some(0),
            Self::Bytes(bytes) => Some(bytes.len() as u64),
            Self::Stream { length, .. } => *length,
            Self::Deferred(_) => None,
        }
    }

    /// Whether the body is known to hold nothing.
    pub fn is_empty(&self) -> bool {
        self.len() == Some(0)
    }
}

/// The header lines that the response to a read has room for without growth, and most others, too.
const HEADERS_USUAL: usize = 10;

/// A response, ready to be framed. Framing headers (`Content-Length`, `Transfer-Encoding`,
/// `Connection`, `Date`) are the engine's; only a HEAD response names its `Content-Length` itself.
#[derive(Default)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// The header lines, spelled as they go out.
    pub headers: Vec<(Cow<'static, str>, Vec<u8>)>,
    pub body: ResponseBody,
    /// Whether to close the connection after this response.
    pub close: bool,
    /// The reserved memory of the body.
    pub held: Reservation,
}

impl Response {
    /// A response without headers or body.
    pub fn new(status: u16) -> Self {
        Self { status, headers: Vec::with_capacity(HEADERS_USUAL), ..Self::default() }
    }

    /// The same response with one more header line.
    #[must_use]
    pub fn header(mut self, name: impl Into<Cow<'static, str>>, value: impl Into<Vec<u8>>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// The same response with a body.
    #[must_use]
    pub fn with_body(mut self, body: ResponseBody) -> Self {
        self.body = body;
        self
    }

    /// The same response, which holds the reservation of its body until it is sent.
    #[must_use]
    pub fn holding(mut self, held: Reservation) -> Self {
        self.held = held;
        self
    }

    /// Runs deferred work, if there is any, and returns the final response.
    ///
    /// # Errors
    /// Errors of the work.
    pub fn complete_deferred(mut self) -> Result<Self, S3Error> {
        while let ResponseBody::Deferred(work) = self.body {
            self = work()?;
        }
        Ok(self)
    }

    /// The value of the first header line named `name`, regardless of case.
    pub fn get_header(&self, name: &str) -> Option<&[u8]> {
        self.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_slice())
    }
}

/// The handler of requests, the only interface between an engine and the server.
pub trait Handler: Send + Sync {
    /// Handles one request. The engine drains or cuts off a body that was not read to its end.
    fn handle(&self, request: Request<'_>) -> Response;

    /// The response when no worker is free (S3 API reference, SlowDown), to `request` if its head
    /// has been read.
    fn overloaded(&self, request: Option<&Request<'_>>) -> Response;

    /// The response to a malformed request head, rendered from `error` without a request.
    fn refused(&self, error: S3Error) -> Response;

    /// Whether the request with this method and target, as its first line has them, may be answered
    /// by a worker that is kept for such requests. It must wait neither for a commit nor for its
    /// client.
    fn uses_reserve(&self, _method: &[u8], _target: &[u8]) -> bool {
        false
    }

    /// Notes the time that a request has waited in a queue until a worker took it. An engine
    /// without a queue of its own does not call it.
    fn note_queue_wait(&self, _waited: Duration) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_keep_order_and_bytes_and_lower_their_names() {
        let mut headers = Headers::default();
        headers.push("Host", b" a.example ");
        headers.push("X-Svc-Meta-Name", "grün".as_bytes());
        headers.push("Empty", b"");
        headers.push("host", b"second");
        let all: Vec<_> = headers.iter().collect();
        assert_eq!(
            all,
            [
                ("host", &b"a.example"[..]),
                ("x-svc-meta-name", "grün".as_bytes()),
                ("empty", b""),
                ("host", b"second")
            ]
        );
        assert_eq!(headers.get("host"), Some(&b"a.example"[..]));
        assert_eq!(headers.get_all("host").count(), 2);
        assert_eq!(headers.get_list("host").as_deref(), Some(&b"a.example,second"[..]));
        assert_eq!(headers.get_list("absent"), None);
        assert_eq!(headers.get("absent"), None);
    }

    #[test]
    fn methods_are_case_sensitive_tokens() {
        assert_eq!(Method::from_token("GET"), Method::Get);
        assert_eq!(Method::from_token("get"), Method::Other("get".to_owned()));
        for token in ["GET", "HEAD", "PUT", "POST", "DELETE", "OPTIONS", "PATCH"] {
            assert_eq!(Method::from_token(token).as_str(), token);
        }
    }
}
