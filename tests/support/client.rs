//! An HTTP client that knows just enough HTTP and shares no code with the server.

use std::fmt::Display;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use socket2::{Domain, Socket, Type};

/// After that long a test gives up; nothing passes because it was fast.
pub(crate) const LONG: Duration = Duration::from_secs(180);

/// A response as it came off the wire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().skip(1).find_map(|line| {
            let (n, value) = line.split_once(": ")?;
            n.eq_ignore_ascii_case(name).then_some(value)
        })
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(crate) fn says_close(&self) -> bool {
        self.header("connection") == Some("close")
    }
}

/// A client connection.
pub(crate) struct Client {
    pub(crate) socket: TcpStream,
    received: Vec<u8>,
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        Self::over(TcpStream::connect(address).unwrap())
    }

    /// A client on `127.0.0.{last}`.
    pub(crate) fn connect_from(last: u8, address: SocketAddr) -> Self {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.bind(&SocketAddr::from(([127, 0, 0, last], 0)).into()).unwrap();
        socket.connect(&address.into()).unwrap();
        Self::over(socket.into())
    }

    fn over(socket: TcpStream) -> Self {
        socket.set_read_timeout(Some(LONG)).unwrap();
        socket.set_nodelay(true).unwrap();
        Self { socket, received: Vec::new() }
    }

    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) -> &mut Self {
        self.socket.write_all(bytes.as_ref()).unwrap();
        self
    }

    /// Sends a request without a body.
    pub(crate) fn get(&mut self, path: &str) -> &mut Self {
        self.send(format!("GET {path} HTTP/1.1\r\nHost: test\r\n\r\n"))
    }

    /// Tells the server that nothing more comes.
    pub(crate) fn finish(&mut self) -> &mut Self {
        self.socket.shutdown(Shutdown::Write).unwrap();
        self
    }

    /// The next response.
    pub(crate) fn answer(&mut self) -> Answer {
        let head = self.head();
        let mut answer = Answer { status: head[9..12].parse().unwrap(), head, body: Vec::new() };
        answer.body = match (answer.header("content-length"), answer.header("transfer-encoding")) {
            (Some(length), None) => self.take(length.parse().unwrap()),
            (None, Some("chunked")) => self.chunks(),
            (None, None) if answer.says_close() => self.rest(),
            (None, None) => Vec::new(),
            framing => panic!("two framings: {framing:?}"),
        };
        answer
    }

    /// The next response where it has a head alone: interim, to HEAD, 204, 304.
    pub(crate) fn answer_without_body(&mut self) -> Answer {
        let head = self.head();
        Answer { status: head[9..12].parse().unwrap(), head, body: Vec::new() }
    }

    /// The answer to a request without a body.
    pub(crate) fn ask(&mut self, path: &str) -> Answer {
        self.get(path).answer()
    }

    /// Whatever comes until the server closes the connection in an orderly way.
    pub(crate) fn rest(&mut self) -> Vec<u8> {
        while self.receive().expect("an orderly end") > 0 {}
        std::mem::take(&mut self.received)
    }

    /// Asserts that the server closes the connection and says nothing more.
    pub(crate) fn assert_closed(&mut self) {
        assert_eq!(String::from_utf8_lossy(&self.rest()), "");
    }

    /// Asserts that the server says nothing for a while.
    pub(crate) fn assert_silent(&mut self) {
        self.socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let kind = self.receive().map_err(|error| error.kind());
        assert_eq!(kind, Err(ErrorKind::WouldBlock), "{:?}", String::from_utf8_lossy(&self.received));
        self.socket.set_read_timeout(Some(LONG)).unwrap();
    }

    /// Whether the server has said something, or closed the connection.
    pub(crate) fn has_news(&self) -> bool {
        self.socket.set_nonblocking(true).unwrap();
        let peeked = self.socket.peek(&mut [0]);
        self.socket.set_nonblocking(false).unwrap();
        peeked.is_ok()
    }

    /// Whether the server has closed the connection, or does so within a while, without a word.
    pub(crate) fn is_closed(&self) -> bool {
        self.socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let peeked = self.socket.peek(&mut [0]);
        self.socket.set_read_timeout(Some(LONG)).unwrap();
        matches!(peeked, Ok(0))
    }

    /// Whether an answer has come or comes within a while.
    pub(crate) fn is_answered(&mut self) -> bool {
        self.socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let received = self.receive();
        self.socket.set_read_timeout(Some(LONG)).unwrap();
        received.is_ok_and(|count| count > 0) || !self.received.is_empty()
    }

    /// Whatever comes until the connection ends in any way, and whether it ended by a reset.
    pub(crate) fn rest_until_cut(&mut self) -> (Vec<u8>, bool) {
        loop {
            match self.receive() {
                Ok(0) => return (std::mem::take(&mut self.received), false),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::ConnectionReset => {
                    return (std::mem::take(&mut self.received), true);
                }
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Makes the close that follows a reset.
    pub(crate) fn reset(self) {
        rustix::net::sockopt::set_socket_linger(&self.socket, Some(Duration::ZERO)).unwrap();
    }

    fn head(&mut self) -> String {
        let end = self.take_until(b"\r\n\r\n");
        String::from_utf8(end).unwrap()
    }

    fn chunks(&mut self) -> Vec<u8> {
        let mut body = Vec::new();
        loop {
            let line = String::from_utf8(self.take_until(b"\r\n")).unwrap();
            let size = usize::from_str_radix(line.trim_end(), 16).unwrap();
            body.extend(self.take(size));
            assert_eq!(self.take(2), b"\r\n");
            if size == 0 {
                return body;
            }
        }
    }

    fn take_until(&mut self, end: &[u8]) -> Vec<u8> {
        loop {
            if let Some(at) = self.received.windows(end.len()).position(|w| w == end) {
                return self.received.drain(..at + end.len()).collect();
            }
            let so_far = String::from_utf8_lossy(&self.received).into_owned();
            assert!(self.receive().unwrap() > 0, "the connection ends after {so_far:?}");
        }
    }

    /// The next bytes, as they are.
    pub(crate) fn take(&mut self, count: usize) -> Vec<u8> {
        while self.received.len() < count {
            assert!(self.receive().unwrap() > 0, "the body ends after {} bytes", self.received.len());
        }
        self.received.drain(..count).collect()
    }

    fn receive(&mut self) -> std::io::Result<usize> {
        let mut buf = [0; 16 * 1024];
        let count = self.socket.read(&mut buf)?;
        self.received.extend_from_slice(&buf[..count]);
        Ok(count)
    }
}

/// Waits until `condition` holds.
pub(crate) fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    eventually_done(|| if condition() { Ok(()) } else { Err(what) });
}

/// Waits until `attempt` succeeds, or fails for the reason that it gives last.
pub(crate) fn eventually_done<R: Display>(mut attempt: impl FnMut() -> Result<(), R>) {
    let begun = Instant::now();
    while let Err(why) = attempt() {
        assert!(begun.elapsed() < LONG, "{why}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
