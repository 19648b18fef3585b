//! A connection to the server: it sends prepared requests, and reads answers to their end.

use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::time::Instant;

use crate::client::endpoint::Endpoint;
use crate::client::requests::{self, SignedRequest};
use crate::client::transport::Transport;

/// The longest head of an answer, in bytes.
const HEAD_MAX_BYTES: usize = 64 * 1024;
/// The most header lines of an answer.
const HEADERS_MAX: usize = 64;
/// The longest body that is kept: a page of a listing, or an error.
const KEPT_MAX_BYTES: usize = 4 * 1024 * 1024;
/// The longest body that is skipped so that the connection stays open.
const SKIPPED_MAX_BYTES: u64 = 64 * 1024;
/// The size of the pieces of a streamed body.
const PIECE_BYTES: usize = 64 * 1024;

/// A connection that stays open between requests.
pub struct HttpConnection {
    endpoint: Endpoint,
    socket: Transport,
    received: Vec<u8>,
    /// Whether the connection has ended, or is in an unknown state.
    ended: bool,
    /// The body that was left for [`HttpConnection::read_body`].
    left: LeftBody,
}

/// The rest of a body that is read by the caller.
#[derive(Default)]
struct LeftBody {
    len: u64,
    /// Whether the connection ends after it.
    close: bool,
}

/// An answer.
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The length of its body.
    pub len: u64,
    head: Vec<u8>,
    body: Vec<u8>,
}

/// A request whose body is read while it is sent.
pub struct StreamedRequest<'r> {
    /// The request line and the header lines, with the empty line after them.
    pub head: String,
    /// Whether the answer has no body.
    pub head_only: bool,
    /// The body, as long as its head announces.
    pub body: &'r mut dyn Read,
    /// Takes the body of a good answer.
    pub sink: &'r mut dyn Write,
    /// Whether the body of a good answer of known length is left for [`HttpConnection::read_body`].
    pub leaves_body: bool,
    /// The end of the exchange.
    pub deadline: Instant,
}

/// A request whose answer is short.
pub(super) struct ShortExchange<'r> {
    /// The request line and the header lines, with the empty line after them.
    pub(super) head: String,
    pub(super) body: &'r [u8],
    /// The longest body of a good answer.
    pub(super) kept_max_bytes: usize,
    /// The end of the exchange.
    pub(super) deadline: Instant,
}

/// A body that is kept whole, or is an error.
struct ShortBody {
    bytes: Vec<u8>,
    max: usize,
}

impl Write for ShortBody {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + bytes.len() > self.max {
            return Err(io::Error::other(format!("the answer has more than {} bytes", self.max)));
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The start of a body. The rest is dropped.
struct KeptBody(Vec<u8>);

impl Write for KeptBody {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() <= KEPT_MAX_BYTES {
            self.0.extend_from_slice(bytes);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The parsed head of an answer.
struct AnswerHead {
    status: u16,
    len: Option<u64>,
    chunked: bool,
    close: bool,
    /// The length of the head, in bytes.
    taken: usize,
}

impl Answer {
    fn is_good(&self) -> bool {
        self.status < 300
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body.
    pub fn into_body(self) -> Vec<u8> {
        self.body
    }

    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<String> {
        let mut lines = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut raw = httparse::Response::new(&mut lines);
        raw.parse(&self.head).ok()?;
        header(&raw, name)
    }

    /// The headers, with names in lower case.
    pub fn headers(&self) -> Vec<(String, String)> {
        let mut lines = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut raw = httparse::Response::new(&mut lines);
        if raw.parse(&self.head).is_err() {
            return Vec::new();
        }
        let mut headers = Vec::new();
        for line in raw.headers.iter() {
            let value = String::from_utf8_lossy(line.value);
            headers.push((line.name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        headers
    }

    /// The code and the message of the error document, if it is one.
    pub fn error_message(&self) -> Option<String> {
        requests::error_message(&self.text())
    }

    /// The status, and the message of the error document.
    pub fn refusal(&self) -> String {
        let message = requests::error_message(&self.text()).unwrap_or_default();
        format!("the server answers {} {message}", self.status)
    }
}

impl HttpConnection {
    fn new(endpoint: &Endpoint, socket: Transport) -> Self {
        let endpoint = endpoint.clone();
        let left = LeftBody::default();
        Self { endpoint, socket, received: Vec::new(), ended: false, left }
    }

    /// Connects.
    pub fn open(endpoint: &Endpoint) -> io::Result<Self> {
        let socket = connect(endpoint)?;
        Ok(Self::new(endpoint, socket))
    }

    /// Connects, and makes all exchanges end by `deadline`, the handshake of TLS included.
    pub fn open_by(endpoint: &Endpoint, deadline: Instant) -> io::Result<Self> {
        let left = deadline.saturating_duration_since(Instant::now()).min(endpoint.patience);
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        let socket = connect(&endpoint.clone().with_patience(left))?;
        Ok(Self::new(endpoint, socket))
    }

    /// Whether its last exchange ended it.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// Whether another request can be sent on it, as far as is known: servers close connections
    /// that have been idle for a while. Takes a look at the socket, so it is asked before a request.
    pub fn is_open(&self) -> bool {
        // What came after the last answer belongs to no request (RFC 9112, section 9.2).
        !self.ended && self.received.is_empty() && self.socket.is_silent()
    }

    /// Sends a request, and reads the answer with its body. A connection that has ended, also by
    /// the server while it was idle, is opened again.
    pub fn exchange(&mut self, request: &SignedRequest<'_>) -> io::Result<Answer> {
        let mut kept = KeptBody(Vec::new());
        let mut answer = self.run(request, &mut kept)?;
        if answer.is_good() {
            answer.body = kept.0;
        }
        Ok(answer)
    }

    /// Like `send`, but the body of a good answer is only counted.
    pub fn exchange_counting(&mut self, request: &SignedRequest<'_>) -> io::Result<Answer> {
        self.run(request, &mut io::sink())
    }

    /// Sends a request, and returns the head of its answer. Its body is skipped. A body that is
    /// long or of unknown length ends the connection instead, which is not opened again.
    ///
    /// # Errors
    /// Errors of the connection; `TimedOut` after the deadline.
    pub fn exchange_head(&mut self, request: &SignedRequest<'_>, deadline: Instant) -> io::Result<Answer> {
        if self.ended {
            return Err(ErrorKind::NotConnected.into());
        }
        // Until the exchange has ended well: after an error nobody knows what the next bytes belong
        // to.
        self.ended = true;
        self.socket.end_by(deadline, self.endpoint.patience);
        let sent = self.send(request);
        // A server that refuses a body early answers, and then closes.
        let (head, bytes) = match (sent, self.head()) {
            (_, Ok(received)) => received,
            (Err(error), Err(_)) | (Ok(()), Err(error)) => return Err(error),
        };
        let has_body = !matches!(head.status, 204 | 304);
        let skipped = match head.len.filter(|_| !head.chunked) {
            _ if !has_body => true,
            Some(len) if len <= SKIPPED_MAX_BYTES => self.skip(len).is_ok(),
            _ => false,
        };
        self.ended = head.close || !skipped;
        Ok(Answer { status: head.status, len: 0, head: bytes, body: Vec::new() })
    }

    fn skip(&mut self, len: u64) -> io::Result<()> {
        let mut answer = Answer { status: 200, len: 0, head: Vec::new(), body: Vec::new() };
        self.take(len, &mut answer, &mut io::sink())
    }

    /// Sends a request whose body is read piece by piece, and writes the body of a good answer to
    /// its sink. A connection that has ended is not opened again.
    ///
    /// # Errors
    /// Errors of the connection, of the body and of the sink; `TimedOut` after the deadline.
    pub fn exchange_streaming(&mut self, request: &mut StreamedRequest<'_>) -> io::Result<Answer> {
        if self.ended {
            return Err(ErrorKind::NotConnected.into());
        }
        self.ended = true;
        self.socket.end_by(request.deadline, self.endpoint.patience);
        let sent = self.send_streaming(request);
        let received = match sent {
            // A server that refuses a body early answers, and then closes. The connection ends here
            // even where it does not: it would read the rest of the body as the next request.
            Err(error) if is_of_connection(&error) => {
                let answer = self.receive(request.head_only, false, request.sink);
                answer.map(|(answer, _)| (answer, true)).map_err(|_| error)
            }
            Err(error) => Err(error),
            Ok(()) => self.receive(request.head_only, request.leaves_body, request.sink),
        };
        let (answer, close) = received?;
        self.ended = close || self.left.len > 0;
        Ok(answer)
    }

    /// Sends a request, and reads the answer with its body, within a time and up to a size.
    ///
    /// # Errors
    /// As [`HttpConnection::exchange_streaming`]; an answer that is longer.
    pub(super) fn exchange_short(&mut self, request: ShortExchange<'_>) -> io::Result<Answer> {
        let ShortExchange { head, mut body, kept_max_bytes, deadline } = request;
        let mut kept = ShortBody { bytes: Vec::new(), max: kept_max_bytes };
        let mut streamed = StreamedRequest {
            head,
            head_only: false,
            body: &mut body,
            sink: &mut kept,
            leaves_body: false,
            deadline,
        };
        let mut answer = self.exchange_streaming(&mut streamed)?;
        if answer.is_good() {
            answer.body = kept.bytes;
        }
        Ok(answer)
    }

    /// Whether a body was left, and not read to its end.
    pub fn has_left(&self) -> bool {
        self.left.len > 0
    }

    /// Reads the next bytes of a body that was left. After the last one the connection can be used
    /// again, unless the server ends it.
    ///
    /// # Errors
    /// Errors of the connection, which has ended then; `TimedOut` after the deadline;
    /// `UnexpectedEof` beyond the end of the body, and where the connection ends before.
    pub fn read_body(&mut self, buffer: &mut [u8], deadline: Instant) -> io::Result<()> {
        if buffer.len() as u64 > self.left.len {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        self.socket.end_by(deadline, self.endpoint.patience);
        let had = self.received.len().min(buffer.len());
        buffer[..had].copy_from_slice(&self.received[..had]);
        self.received.drain(..had);
        if let Err(error) = self.socket.read_exact(&mut buffer[had..]) {
            // Nobody may read on: it is not known how much of the body has come. `ended` is set
            // already.
            self.left = LeftBody::default();
            return Err(error);
        }
        self.left.len -= buffer.len() as u64;
        self.ended = self.left.len > 0 || self.left.close;
        Ok(())
    }

    fn send_streaming(&mut self, request: &mut StreamedRequest<'_>) -> io::Result<()> {
        self.socket.write_all(request.head.as_bytes())?;
        let mut piece = vec![0; PIECE_BYTES];
        loop {
            match request.body.read(&mut piece)? {
                0 => return self.socket.flush(),
                count => self.socket.write_all(&piece[..count])?,
            }
        }
    }

    /// After an error the state of the connection is unknown: the next request uses a new one.
    fn run(&mut self, request: &SignedRequest<'_>, sink: &mut dyn Write) -> io::Result<Answer> {
        if !self.is_open() {
            // What is left of another connection would be read as the start of the answer.
            self.received.clear();
            self.socket = connect(&self.endpoint)?;
        }
        self.ended = true;
        self.send(request)?;
        let (answer, close) = self.receive(request.head_only, false, sink)?;
        self.ended = close;
        Ok(answer)
    }

    fn send(&mut self, request: &SignedRequest<'_>) -> io::Result<()> {
        let head = request.head.as_bytes();
        let body = &*request.body;
        // Together, so that a small request is one packet.
        let sent = self.socket.write_vectored(&[IoSlice::new(head), IoSlice::new(body)])?;
        if sent < head.len() {
            self.socket.write_all(&head[sent..])?;
        }
        self.socket.write_all(&body[sent.saturating_sub(head.len()).min(body.len())..])?;
        self.socket.flush()
    }

    fn receive(
        &mut self,
        head_only: bool,
        leaves_body: bool,
        sink: &mut dyn Write,
    ) -> io::Result<(Answer, bool)> {
        let (head, bytes) = self.head()?;
        let mut answer = Answer { status: head.status, len: 0, head: bytes, body: Vec::new() };
        // The head may state the length of a body that does not come (RFC 9112, section 6.3).
        if head_only || matches!(head.status, 204 | 304) {
            return Ok((answer, head.close));
        }
        match (head.len, head.chunked) {
            (Some(len), false) if leaves_body && answer.is_good() => {
                answer.len = len;
                self.left = LeftBody { len, close: head.close };
            }
            (Some(len), false) => self.take(len, &mut answer, sink)?,
            (None, true) => self.take_chunks(&mut answer, sink)?,
            // With both a length and chunks, the two may end in different places, and what comes
            // between would be read as the next answer. With neither, the end of the connection
            // would be the end of the body, and a body that was cut off would pass for a whole one.
            _ => return Err(malformed("an answer has no known length")),
        }
        Ok((answer, head.close))
    }

    /// The head of the answer, parsed and as received. Informational ones before it are skipped.
    fn head(&mut self) -> io::Result<(AnswerHead, Vec<u8>)> {
        loop {
            if let Some(head) = parse(&self.received)? {
                let bytes: Vec<u8> = self.received.drain(..head.taken).collect();
                if head.status >= 200 {
                    return Ok((head, bytes));
                }
                continue;
            }
            // Before more is read, so that a head without an end takes this much memory and a piece
            // of it.
            if self.received.len() > HEAD_MAX_BYTES {
                return Err(malformed("the head of an answer does not end"));
            }
            self.more()?;
        }
    }

    /// Reads `len` bytes of a body.
    fn take(&mut self, mut len: u64, answer: &mut Answer, sink: &mut dyn Write) -> io::Result<()> {
        answer.len = answer.len.saturating_add(len);
        // Memory is taken for bytes that have come, never for the length that the server states.
        while len > 0 {
            if self.received.is_empty() {
                self.more()?;
            }
            let count = self.received.len().min(usize::try_from(len).unwrap_or(usize::MAX));
            if answer.is_good() {
                sink.write_all(&self.received[..count])?;
            } else if answer.body.len() + count <= KEPT_MAX_BYTES {
                answer.body.extend_from_slice(&self.received[..count]);
            }
            self.received.drain(..count);
            len -= count as u64;
        }
        Ok(())
    }

    fn take_chunks(&mut self, answer: &mut Answer, sink: &mut dyn Write) -> io::Result<()> {
        loop {
            let line = self.line()?;
            let size = line.split(';').next().unwrap_or_default().trim();
            let size = u64::from_str_radix(size, 16).map_err(|_| malformed("a chunk has no size"))?;
            if size == 0 {
                break;
            }
            self.take(size, answer, sink)?;
            if !self.line()?.is_empty() {
                return Err(malformed("a chunk is longer than announced"));
            }
        }
        // The trailers are read, so that the next answer begins after them; nobody needs one.
        while !self.line()?.is_empty() {}
        Ok(())
    }

    fn line(&mut self) -> io::Result<String> {
        loop {
            if let Some(end) = self.received.windows(2).position(|pair| pair == b"\r\n") {
                let line = String::from_utf8_lossy(&self.received[..end]).into_owned();
                self.received.drain(..end + 2);
                return Ok(line);
            }
            if self.received.len() > HEAD_MAX_BYTES {
                return Err(malformed("a line of an answer does not end"));
            }
            self.more()?;
        }
    }

    fn more(&mut self) -> io::Result<()> {
        let len = self.received.len();
        self.received.resize(len + PIECE_BYTES, 0);
        let read = self.socket.read(&mut self.received[len..]);
        self.received.truncate(len + read.as_ref().copied().unwrap_or(0));
        match read {
            Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
            other => other.map(|_| ()),
        }
    }
}

/// Connects to the first address that answers.
fn connect(endpoint: &Endpoint) -> io::Result<Transport> {
    // A host may have addresses that cannot be reached from here, as by IPv6.
    let mut last = io::Error::from(ErrorKind::AddrNotAvailable);
    for address in endpoint.addresses()? {
        match Transport::connect(address, endpoint.tls.as_ref(), endpoint.patience) {
            Ok(transport) => return Ok(transport),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Whether the other side has ended the connection.
fn is_of_connection(error: &io::Error) -> bool {
    use ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset};
    matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset)
}

/// The head at the start of `bytes`; `None` while its end is missing.
fn parse(bytes: &[u8]) -> io::Result<Option<AnswerHead>> {
    let mut lines = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut raw = httparse::Response::new(&mut lines);
    let taken = match raw.parse(bytes).map_err(malformed)? {
        httparse::Status::Complete(taken) => taken,
        httparse::Status::Partial => return Ok(None),
    };
    let value = |name: &str| header(&raw, name).map(|value| value.to_ascii_lowercase());
    Ok(Some(AnswerHead {
        status: raw.code.unwrap_or_default(),
        len: value("content-length").and_then(|len| len.parse().ok()),
        chunked: value("transfer-encoding").is_some_and(|coding| coding == "chunked"),
        close: value("connection").is_some_and(|said| said == "close"),
        taken,
    }))
}

fn header(head: &httparse::Response<'_, '_>, name: &str) -> Option<String> {
    let line = head.headers.iter().find(|line| line.name.eq_ignore_ascii_case(name));
    line.map(|line| String::from_utf8_lossy(line.value).trim().to_owned())
}

fn malformed(why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, why)
}
