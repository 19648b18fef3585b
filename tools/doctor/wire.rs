//! A connection on which a request can be sent piece by piece, so that its answer can be awaited
//! between the pieces.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};

/// The longest wait for a connection, a handshake or an answer.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);
/// The longest head of an answer, and the longest body, in bytes.
const HEAD_MAX_BYTES: usize = 64 * 1024;
const BODY_MAX_BYTES: usize = 16 << 20;
const HEADERS_MAX: usize = 100;

/// A server to connect to.
#[derive(Clone)]
pub(super) struct Target {
    /// The value of the header `Host`.
    pub(super) host: String,
    pub(super) address: SocketAddr,
    /// TLS with the name of the certificate; `None` for plain HTTP.
    pub(super) tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
}

/// An answer.
#[derive(Debug, Clone, Default)]
pub(super) struct Reply {
    pub(super) status: u16,
    /// Names in lower case.
    headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

/// An open connection.
pub(super) struct Wire {
    stream: Stream,
    received: Vec<u8>,
}

enum Stream {
    Plain(TcpStream),
    Encrypted(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Stream {
    fn socket(&self) -> &TcpStream {
        match self {
            Self::Plain(socket) => socket,
            Self::Encrypted(stream) => &stream.sock,
        }
    }
}

impl Reply {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(given, _)| given == name).map(|(_, value)| &**value)
    }

    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(super) fn is_good(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// The text of an element of an error document.
    pub(super) fn element(&self, name: &str) -> Option<String> {
        let document = siltstone::xml::Document::parse(&self.body).ok()?;
        document.root().child_text(name).ok()?.map(std::borrow::Cow::into_owned)
    }

    /// The status, and the code of the error document.
    pub(super) fn refusal(&self) -> String {
        let code = self.element("Code").unwrap_or_default();
        format!("{} {code}", self.status).trim_end().to_owned()
    }
}

impl Wire {
    /// Connects, and ends the handshake of TLS.
    pub(super) fn open(target: &Target) -> io::Result<Self> {
        let mut socket = TcpStream::connect_timeout(&target.address, PATIENCE)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        socket.set_write_timeout(Some(PATIENCE))?;
        let stream = match &target.tls {
            None => Stream::Plain(socket),
            Some((config, name)) => {
                let mut session =
                    ClientConnection::new(Arc::clone(config), name.clone()).map_err(io::Error::other)?;
                while session.is_handshaking() {
                    session.complete_io(&mut socket)?;
                }
                Stream::Encrypted(Box::new(StreamOwned::new(session, socket)))
            }
        };
        Ok(Self { stream, received: Vec::new() })
    }

    /// The certificates of the server in DER form, its own first.
    pub(super) fn certificates(&self) -> Vec<Vec<u8>> {
        let Stream::Encrypted(stream) = &self.stream else { return Vec::new() };
        let chain = stream.conn.peer_certificates().unwrap_or_default();
        chain.iter().map(|certificate| certificate.to_vec()).collect()
    }

    pub(super) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.stream {
            Stream::Plain(socket) => socket.write_all(bytes),
            Stream::Encrypted(stream) => stream.write_all(bytes).and_then(|()| stream.flush()),
        }
    }

    /// Waits for the next head; `None` after `patience`. Its body is not read.
    pub(super) fn head(&mut self, patience: Duration) -> io::Result<Option<Reply>> {
        let deadline = Instant::now() + patience;
        loop {
            if let Some((reply, taken)) = parse(&self.received)? {
                self.received.drain(..taken);
                return Ok(Some(reply));
            }
            if self.received.len() > HEAD_MAX_BYTES {
                return Err(io::Error::other("the head of the answer does not end"));
            }
            match self.more(deadline) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(_) => {}
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    return Ok(None);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Reads the answer to its end. Informational ones before it are skipped.
    pub(super) fn reply(&mut self, head_only: bool) -> io::Result<Reply> {
        loop {
            let head = self.head(PATIENCE)?.ok_or(ErrorKind::TimedOut)?;
            if head.status >= 200 {
                return self.with_body(head, head_only);
            }
        }
    }

    fn with_body(&mut self, mut reply: Reply, head_only: bool) -> io::Result<Reply> {
        if head_only || matches!(reply.status, 204 | 304) {
            return Ok(reply);
        }
        let chunked = reply.header("transfer-encoding").is_some_and(|coding| coding.contains("chunked"));
        let length = reply.header("content-length").and_then(|length| length.parse::<usize>().ok());
        let deadline = Instant::now() + PATIENCE;
        reply.body = match (chunked, length) {
            (true, _) => self.chunks(deadline)?,
            (_, Some(length)) => self.take(length, deadline)?,
            _ => {
                while self.received.len() < BODY_MAX_BYTES && self.more(deadline)? > 0 {}
                std::mem::take(&mut self.received)
            }
        };
        Ok(reply)
    }

    fn chunks(&mut self, deadline: Instant) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let line = self.line(deadline)?;
            let size = line.split(';').next().unwrap_or_default().trim();
            let size = usize::from_str_radix(size, 16).map_err(io::Error::other)?;
            if size == 0 {
                return Ok(body);
            }
            if body.len().saturating_add(size) > BODY_MAX_BYTES {
                return Err(io::Error::other("the body of the answer is too long"));
            }
            body.extend(self.take(size, deadline)?);
            self.line(deadline)?;
        }
    }

    fn line(&mut self, deadline: Instant) -> io::Result<String> {
        loop {
            if let Some(end) = self.received.windows(2).position(|pair| pair == b"\r\n") {
                let line: Vec<u8> = self.received.drain(..end + 2).collect();
                return Ok(String::from_utf8_lossy(&line[..end]).into_owned());
            }
            if self.received.len() > BODY_MAX_BYTES || self.more(deadline)? == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
        }
    }

    fn take(&mut self, length: usize, deadline: Instant) -> io::Result<Vec<u8>> {
        if length > BODY_MAX_BYTES {
            return Err(io::Error::other("the body of the answer is too long"));
        }
        while self.received.len() < length {
            if self.more(deadline)? == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(self.received.drain(..length).collect())
    }

    fn more(&mut self, deadline: Instant) -> io::Result<usize> {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        self.stream.socket().set_read_timeout(Some(left))?;
        let mut piece = vec![0; 64 * 1024];
        let count = match &mut self.stream {
            Stream::Plain(socket) => socket.read(&mut piece)?,
            Stream::Encrypted(stream) => stream.read(&mut piece)?,
        };
        self.received.extend_from_slice(&piece[..count]);
        Ok(count)
    }
}

/// The head at the start of `bytes` and its length; `None` while its end is missing.
fn parse(bytes: &[u8]) -> io::Result<Option<(Reply, usize)>> {
    let mut lines = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut raw = httparse::Response::new(&mut lines);
    let httparse::Status::Complete(taken) = raw.parse(bytes).map_err(io::Error::other)? else {
        return Ok(None);
    };
    let mut headers = Vec::with_capacity(raw.headers.len());
    for line in raw.headers.iter() {
        let value = String::from_utf8_lossy(line.value).trim().to_owned();
        headers.push((line.name.to_ascii_lowercase(), value));
    }
    let reply = Reply { status: raw.code.unwrap_or_default(), headers, body: Vec::new() };
    Ok(Some((reply, taken)))
}
