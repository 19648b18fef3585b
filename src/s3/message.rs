//! A request and a response as the protocol sees them: no type of any transport.

use std::borrow::Cow;
use std::io;
use std::sync::Arc;

use crate::base::Reservation;
use crate::s3::S3Error;

/// The method of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Method {
    /// GET
    Get,
    /// HEAD
    Head,
    /// PUT
    Put,
    /// POST
    Post,
    /// DELETE
    Delete,
    /// OPTIONS
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

/// Header lines in the order they came: names in lower case, values as bytes without surrounding blanks.
/// One buffer holds all names, and one all values.
#[derive(Debug, Clone, Default)]
pub struct Headers {
    names: String,
    values: Vec<u8>,
    /// Where each name ends and each value ends; a line starts where the one before it ended.
    ends: Vec<(usize, usize)>,
}

impl Headers {
    /// No lines yet, but room for `lines` of them with `bytes` bytes of names, and as many of values, in all.
    pub fn with_capacity(lines: usize, bytes: usize) -> Self {
        let (names, values) = (String::with_capacity(bytes), Vec::with_capacity(bytes));
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

    /// The list that all lines named `name` (lower case) make up (RFC 9110, section 5.3).
    pub fn get_list<'a>(&'a self, name: &'a str) -> Option<Cow<'a, [u8]>> {
        let mut lines = self.get_all(name);
        let first = Cow::Borrowed(lines.next()?);
        Some(lines.fold(first, |list, line| Cow::Owned([&list, &b","[..], line].concat())))
    }

    /// The values of all lines named `name` (lower case).
    pub fn get_all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
        self.iter().filter(move |(n, _)| *n == name).map(|(_, value)| value)
    }

    /// How many lines there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is no line at all.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }
}

/// Where the bytes of a request body come from, one layer upon the other: framing, then verification.
pub trait BodyRead: Send {
    /// Puts the next bytes into `buf` (not empty) and says how many; 0 is the verified end. The first call
    /// asks the client for the body where it waits to be asked (`Expect: 100-continue`).
    ///
    /// # Errors
    /// `IncompleteBody` when the connection ends early, `RequestTimeout` when it is too slow, and whatever
    /// the verifying layers find. After an error no call succeeds.
    fn read(&mut self, buf: &mut [u8]) -> Result<usize, S3Error>;

    /// What the client sent behind the body: names in lower case, the vendor prefix replaced by `p-`, in the order
    /// they came. Complete, and verified as far as the request was signed, once `read` has returned 0; empty before.
    /// A layer that wraps another passes on what that one has.
    fn trailers(&self) -> &[(String, String)] {
        &[]
    }
}

/// A request body and what its framing says about its length.
pub struct Body<'c> {
    /// Bytes announced by Content-Length; `None` when the body is chunked or there is none at all.
    pub content_length: Option<u64>,
    /// Whether the body came with `Transfer-Encoding: chunked`.
    pub chunked: bool,
    /// The bytes.
    pub reader: Box<dyn BodyRead + 'c>,
}

/// A body without bytes.
struct NoBytes;

impl BodyRead for NoBytes {
    fn read(&mut self, _: &mut [u8]) -> Result<usize, S3Error> {
        Ok(0)
    }
}

impl Body<'_> {
    /// The body of a request that has none.
    pub fn none() -> Self {
        Self { content_length: None, chunked: false, reader: Box::new(NoBytes) }
    }
}

/// A request, its head fully read, its body not yet.
pub struct Request<'c> {
    /// The method.
    pub method: Method,
    /// The path as sent: percent-encoded, undecoded, unnormalised, beginning with `/`; or `*` alone (OPTIONS of the
    /// whole server).
    pub path: String,
    /// What stood behind the first `?`, as sent; empty if there was none.
    pub query: String,
    /// The header lines.
    pub headers: Headers,
    /// The body.
    pub body: Body<'c>,
    /// Whether the connection is encrypted.
    pub secure: bool,
    /// The client's address, for logs and policies.
    pub peer: Option<std::net::SocketAddr>,
    /// What tells whether the client is still there; `None` where the engine cannot know.
    pub client: Option<Arc<dyn Client>>,
}

/// The client of a request, for work that outlasts the handling of it.
pub trait Client: Send + Sync {
    /// Whether it will send nothing more: it has closed the connection, or its half of it.
    fn has_left(&self) -> bool;
}

/// Produces a response body piece by piece.
pub trait BodySource: Send {
    /// Puts the next bytes into `buf` (not empty) and says how many; 0 is the end. All bytes have been verified.
    ///
    /// # Errors
    /// Whatever keeps the rest from being read or verified: the connection must be cut, so that the client
    /// cannot take what it has for the whole. `BrokenPipe` says that the client has left.
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize>;
}

/// DeferredWork that takes as long as it takes, and what it comes to.
pub type DeferredWork = Box<dyn FnOnce() -> Result<Response, S3Error> + Send>;

/// The body of a response.
#[derive(Default)]
pub enum ResponseBody {
    /// No bytes.
    #[default]
    Empty,
    /// All bytes at hand.
    Bytes(Vec<u8>),
    /// Bytes to come.
    Stream {
        /// How many bytes there will be; `None` sends them chunked (S3 API reference, CompleteMultipartUpload).
        length: Option<u64>,
        /// Where they come from.
        source: Box<dyn BodySource>,
    },
    /// Bytes that are still to be worked out, and with them the whole response that takes the place of this one. The engine
    /// decides when there is time for it.
    Deferred(DeferredWork),
}

impl ResponseBody {
    /// The length in bytes, when it is known.
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

/// A response, ready to be framed. Framing headers (`Content-Length`, `Transfer-Encoding`, `Connection`, `Date`) are
/// the engine's; only a HEAD response names its `Content-Length` itself.
#[derive(Default)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// The header lines, spelled as they go out.
    pub headers: Vec<(Cow<'static, str>, Vec<u8>)>,
    /// The body.
    pub body: ResponseBody,
    /// Whether the connection must be closed behind this response.
    pub close: bool,
    /// The memory that the body takes up, as far as it was reserved.
    pub held: Reservation,
}

impl Response {
    /// A response without headers or body.
    pub fn new(status: u16) -> Self {
        Self { status, ..Self::default() }
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

    /// The same response, which keeps what has been reserved for its body until it has been sent.
    #[must_use]
    pub fn holding(mut self, held: Reservation) -> Self {
        self.held = held;
        self
    }

    /// The response itself, after the work that it may still take.
    ///
    /// # Errors
    /// Those of that work.
    pub fn complete_deferred(mut self) -> Result<Self, S3Error> {
        while let ResponseBody::Deferred(work) = self.body {
            self = work()?;
        }
        Ok(self)
    }

    /// The value of the first header line of that name, whatever the case.
    pub fn get_header(&self, name: &str) -> Option<&[u8]> {
        self.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_slice())
    }
}

/// Whatever answers requests; an engine knows no more of the server than this.
pub trait Handler: Send + Sync {
    /// Answers one request. A body that was not read to its end is the engine's to drain or to cut off.
    fn handle(&self, request: Request<'_>) -> Response;

    /// The answer when no worker is free to handle a request (S3 API reference, SlowDown): made without looking at
    /// the request.
    fn overloaded(&self) -> Response;

    /// The answer to bytes that are no acceptable request head: rendered from `error`, without a request.
    fn refused(&self, error: S3Error) -> Response;
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
