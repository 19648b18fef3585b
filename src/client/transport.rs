//! The bytes of a connection: plain or encrypted.

use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::RecvFlags;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};

use crate::client::trust::CertificateTrust;

/// The usual timeout for a silent server.
pub(super) const SILENCE_MAX: Duration = Duration::from_secs(60);

/// A timeout of a socket is set again when this part of it has passed.
const TIMEOUT_STEPS: u32 = 16;

/// A stream to a server.
pub(super) enum Transport {
    Plain(TimedSocket),
    Encrypted(Box<StreamOwned<ClientConnection, TimedSocket>>),
}

/// A socket whose reads and writes end by a deadline, if there is one, and after a silence of the
/// server.
pub(super) struct TimedSocket {
    socket: TcpStream,
    silence_max: Duration,
    deadline: Option<Instant>,
    /// The timeouts that the socket has.
    timeout: Duration,
}

/// The client's side of TLS for one server.
#[derive(Clone)]
pub(super) struct TlsClient {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl TlsClient {
    /// TLS 1.2 and 1.3 for the server `name`, whose certificate is verified as `trust` says.
    ///
    /// # Errors
    /// A message, if the name is none that certificates have, or if no authority is known.
    pub(super) fn new(name: &str, trust: &CertificateTrust) -> Result<Self, String> {
        let bare = name.trim_start_matches('[').trim_end_matches(']').to_owned();
        let name = ServerName::try_from(bare).map_err(|why| why.to_string())?;
        Ok(Self { config: Arc::new(trust.client_config()?), name })
    }
}

impl Transport {
    /// Connects. The handshake of TLS happens with the first request.
    pub(super) fn connect(
        address: SocketAddr,
        tls: Option<&TlsClient>,
        patience: Duration,
    ) -> io::Result<Self> {
        let socket = TcpStream::connect_timeout(&address, patience)?;
        // Requests are written in whole pieces. Nagle's algorithm would keep the last one back
        // until those before it are acknowledged.
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(patience))?;
        socket.set_write_timeout(Some(patience))?;
        let socket = TimedSocket { socket, silence_max: patience, deadline: None, timeout: patience };
        let Some(TlsClient { config, name }) = tls else { return Ok(Self::Plain(socket)) };
        let session = ClientConnection::new(Arc::clone(config), name.clone()).map_err(io::Error::other)?;
        Ok(Self::Encrypted(Box::new(StreamOwned::new(session, socket))))
    }

    /// Makes all further reads and writes fail with `TimedOut` after `deadline`, and after a
    /// silence of `silence_max`.
    pub(super) fn end_by(&mut self, deadline: Instant, silence_max: Duration) {
        let socket = match self {
            Self::Plain(socket) => socket,
            Self::Encrypted(stream) => &mut stream.sock,
        };
        socket.deadline = Some(deadline);
        socket.silence_max = silence_max;
    }

    /// Whether nothing has come since the last answer was read. The end of the connection would
    /// have, and so would bytes that belong to no request, such as a refusal or the end of TLS.
    pub(super) fn is_silent(&self) -> bool {
        let socket = match self {
            Self::Plain(socket) => socket,
            Self::Encrypted(stream) => &stream.sock,
        };
        let found = rustix::net::recv(&socket.socket, &mut [0; 1], RecvFlags::PEEK | RecvFlags::DONTWAIT);
        matches!(found, Err(Errno::AGAIN))
    }
}

impl TimedSocket {
    /// Sets the timeouts of the socket to the time that is left. They stay where they differ by a
    /// little alone: setting them takes two system calls, for each piece of a body.
    fn prepare(&mut self) -> io::Result<()> {
        let Some(deadline) = self.deadline else { return Ok(()) };
        let left = deadline.saturating_duration_since(Instant::now()).min(self.silence_max);
        // A socket takes no timeout of zero.
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        if left.abs_diff(self.timeout) > self.timeout / TIMEOUT_STEPS {
            self.socket.set_read_timeout(Some(left))?;
            self.socket.set_write_timeout(Some(left))?;
            self.timeout = left;
        }
        Ok(())
    }

    /// The outcome of a read or a write. Without a deadline it stays as the system reports it.
    fn outcome(&self, done: io::Result<usize>) -> io::Result<usize> {
        match done {
            Err(error) if error.kind() == ErrorKind::WouldBlock && self.deadline.is_some() => {
                Err(ErrorKind::TimedOut.into())
            }
            other => other,
        }
    }
}

impl Read for TimedSocket {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.prepare()?;
        let done = self.socket.read(buf);
        self.outcome(done)
    }
}

impl Write for TimedSocket {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.prepare()?;
        let done = self.socket.write(buf);
        self.outcome(done)
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        self.prepare()?;
        let done = self.socket.write_vectored(bufs);
        self.outcome(done)
    }

    /// Ends a request. The answer is acknowledged at once: a server that sends it in several
    /// pieces, with Nagle's algorithm, keeps its end back until then.
    fn flush(&mut self) -> io::Result<()> {
        rustix::net::sockopt::set_tcp_quickack(&self.socket, true)?;
        self.socket.flush()
    }
}

impl Read for Transport {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.read(buf),
            Self::Encrypted(stream) => stream.read(buf),
        }
    }
}

impl Write for Transport {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.write(buf),
            Self::Encrypted(stream) => stream.write(buf),
        }
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.write_vectored(bufs),
            Self::Encrypted(stream) => stream.write_vectored(bufs),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(socket) => socket.flush(),
            Self::Encrypted(stream) => stream.flush(),
        }
    }
}
