//! A client's connection as the rest of the engine sees it: plain bytes in, plain bytes out. Each
//! call has a known longest wait. The time-outs of the socket are set once, when the connection is
//! accepted.

use std::io::{self, IoSlice, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustls::ServerConnection;

use super::socket::{Blocking, NonBlocking};
use super::tls::TlsSession;
use crate::s3::Client;

/// The longest blocking send, after which the sender checks its stall budget.
const SEND_WAIT_MAX: Duration = Duration::from_millis(250);

/// A connected socket, encrypted or not.
#[derive(Debug)]
pub(super) struct ClientStream {
    socket: TcpStream,
    /// Never contended: only the owner of the connection reads or writes.
    session: Option<Mutex<TlsSession>>,
    /// The connection was aborted: its end must not look orderly to the client.
    is_aborted: AtomicBool,
}

impl ClientStream {
    /// Takes over a connected, blocking socket. `receive` waits for at most `receive_wait`, `send`
    /// for at most `send_wait`.
    ///
    /// # Errors
    /// When the system rejects a socket option. The connection is of no use then.
    pub(super) fn new(
        socket: TcpStream,
        tls: Option<ServerConnection>,
        receive_wait: Duration,
        send_wait: Duration,
    ) -> io::Result<Self> {
        // Responses are written in whole pieces, so that waiting to join them only delays them.
        socket.set_nodelay(true)?;
        // Set once, since each change of a socket option is a system call. Longer waits go by
        // `poll`.
        socket.set_read_timeout(Some(receive_wait))?;
        socket.set_write_timeout(Some(SEND_WAIT_MAX.min(send_wait)))?;
        let session = tls.map(|tls| Mutex::new(TlsSession::new(tls)));
        Ok(Self { socket, session, is_aborted: AtomicBool::new(false) })
    }

    /// Whether the connection is encrypted.
    pub(super) fn is_encrypted(&self) -> bool {
        self.session.is_some()
    }

    /// Continues the TLS handshake without waiting.
    ///
    /// # Errors
    /// `WouldBlock` while the client has to send more. Any other error ends the connection.
    pub(super) fn handshake(&self) -> io::Result<()> {
        self.session().map_or(Ok(()), |mut session| session.handshake(NonBlocking(&self.socket)))
    }

    /// Whether received bytes are decrypted already, so that the poller would not report them.
    pub(super) fn has_plaintext(&self) -> bool {
        self.session().is_some_and(|session| session.has_plaintext())
    }

    /// Receives bytes that have arrived, without waiting. Returns 0 at the end.
    ///
    /// # Errors
    /// `WouldBlock` when nothing has arrived.
    pub(super) fn try_receive(&self, buf: &mut [u8]) -> io::Result<usize> {
        match self.session() {
            Some(mut session) => session.read(NonBlocking(&self.socket), buf),
            None => NonBlocking(&self.socket).read(buf),
        }
    }

    /// Receives the next bytes, waiting for a short time. Returns 0 at the end.
    ///
    /// # Errors
    /// `WouldBlock` when nothing arrived in that time.
    pub(super) fn receive(&self, buf: &mut [u8]) -> io::Result<usize> {
        match self.session() {
            Some(mut session) => session.read(Blocking(&self.socket), buf),
            None => Blocking(&self.socket).read(buf),
        }
    }

    /// Bytes that can be received without waiting; 0 where that is not known.
    pub(super) fn available(&self) -> usize {
        match self.session {
            // The length of the plain text shows only when the records are decrypted.
            Some(_) => 0,
            None => rustix::io::ioctl_fionread(&self.socket).map_or(0, |count| count as usize),
        }
    }

    /// Waits for at most `timeout` until there is something to receive or the connection has ended.
    pub(super) fn wait_readable(&self, timeout: Duration) {
        if !self.has_plaintext() {
            self.wait_for(PollFlags::IN, timeout);
        }
    }

    /// Waits for at most `timeout` until there is room to send or the connection has ended.
    pub(super) fn wait_writable(&self, timeout: Duration) {
        self.wait_for(PollFlags::OUT, timeout);
    }

    fn wait_for(&self, flags: PollFlags, timeout: Duration) {
        let timeout = Timespec::try_from(timeout).ok();
        // After an error the caller's next call on the socket shows the cause.
        let _ = poll(&mut [PollFd::new(&self.socket, flags)], timeout.as_ref());
    }

    /// Sends the first bytes of `slices`, waiting for a short time for room, and returns how many.
    /// Encrypted bytes may leave only with `flush`.
    ///
    /// # Errors
    /// `WouldBlock` when no byte could be sent in that time.
    pub(super) fn send(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match self.session() {
            Some(mut session) => session.write(Blocking(&self.socket), slices),
            None => Blocking(&self.socket).write_vectored(slices),
        }
    }

    /// Like `send`, without waiting.
    ///
    /// # Errors
    /// `WouldBlock` when there is no room at all.
    pub(super) fn try_send(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match self.session() {
            Some(mut session) => session.write(NonBlocking(&self.socket), slices),
            None => NonBlocking(&self.socket).write_vectored(slices),
        }
    }

    /// Sends bytes that `send` has kept back, waiting for a short time for room.
    ///
    /// # Errors
    /// `WouldBlock` when some of them could not be sent in that time.
    pub(super) fn flush(&self) -> io::Result<()> {
        self.session().map_or(Ok(()), |mut session| session.flush(Blocking(&self.socket)))
    }

    /// Sends all of `bytes` without waiting, encrypted ones included.
    ///
    /// # Errors
    /// `WouldBlock` when there is not enough room: the client may have received a part.
    /// `NotConnected` before the handshake is complete.
    pub(super) fn try_send_all(&self, bytes: &[u8]) -> io::Result<()> {
        let sent = match self.session() {
            Some(session) if !session.is_established() => return Err(io::ErrorKind::NotConnected.into()),
            Some(mut session) => {
                let count = session.write(NonBlocking(&self.socket), &[IoSlice::new(bytes)])?;
                session.flush(NonBlocking(&self.socket)).map(|()| count)
            }
            None => NonBlocking(&self.socket).write(bytes),
        }?;
        if sent == bytes.len() { Ok(()) } else { Err(io::ErrorKind::WouldBlock.into()) }
    }

    /// Ends the sending half: the client sees that nothing more will come.
    pub(super) fn shut_down_sending(&self) {
        if let Some(mut session) = self.session() {
            session.close(NonBlocking(&self.socket));
        }
        // It fails only when the connection is gone.
        let _ = self.socket.shutdown(Shutdown::Write);
    }

    /// Ends the connection from any thread, while another one uses it.
    pub(super) fn abort(&self) {
        self.is_aborted.store(true, Ordering::Relaxed);
        let _ = self.socket.shutdown(Shutdown::Both);
    }

    /// Makes the later close a reset, which no client can take for the end of a response.
    pub(super) fn reset_on_close(&self) {
        self.is_aborted.store(true, Ordering::Relaxed);
        // Where it fails the connection is gone, or the plain close says nearly the
        // same.
        let _ = rustix::net::sockopt::set_socket_linger(&self.socket, Some(Duration::ZERO));
    }

    fn session(&self) -> Option<MutexGuard<'_, TlsSession>> {
        // A session that a panic left incomplete fails as an error of the encryption.
        self.session.as_ref().map(|session| session.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Client for ClientStream {
    fn has_left(&self) -> bool {
        let gone = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
        let mut socket = [PollFd::new(&self.socket, PollFlags::RDHUP)];
        let ready = poll(&mut socket, Some(&Timespec::default()));
        ready.is_ok_and(|count| count > 0) && socket[0].revents().intersects(gone)
    }
}

impl Drop for ClientStream {
    fn drop(&mut self) {
        if let Some(session) = &mut self.session
            && !self.is_aborted.load(Ordering::Relaxed)
        {
            // Taken after a panic, too: a second panic, in a drop, would end the process.
            session.get_mut().unwrap_or_else(PoisonError::into_inner).close(NonBlocking(&self.socket));
        }
    }
}

impl AsFd for ClientStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
