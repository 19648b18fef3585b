//! One connection as the rest of the engine sees it: clear bytes in, clear bytes out, each call with a known longest wait.
//! The time-outs are set once, when the connection comes; no call changes the socket.

use std::io::{self, IoSlice, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, sendmsg};
use rustls::ServerConnection;

use super::tls::TlsSession;
use crate::s3::Client;

/// The longest wait for room to write, after which the sender looks at its patience.
const SEND_WAIT_MAX: Duration = Duration::from_millis(250);

/// A connected socket, encrypted or not.
#[derive(Debug)]
pub(super) struct ClientStream {
    socket: TcpStream,
    /// Never contended: whoever has the connection is the only one that reads or writes.
    session: Option<Mutex<TlsSession>>,
    /// The client is not to take the end for an orderly one.
    is_cut: AtomicBool,
}

impl ClientStream {
    /// Takes over a connected, blocking socket. `receive` waits for `receive_wait` at most.
    ///
    /// # Errors
    /// Whatever the system says to the options; the connection is of no use then.
    pub(super) fn new(
        socket: TcpStream,
        tls: Option<ServerConnection>,
        receive_wait: Duration,
        patience: Duration,
    ) -> io::Result<Self> {
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(receive_wait))?;
        socket.set_write_timeout(Some(SEND_WAIT_MAX.min(patience)))?;
        let session = tls.map(|tls| Mutex::new(TlsSession::new(tls)));
        Ok(Self { socket, session, is_cut: AtomicBool::new(false) })
    }

    /// Whether it is encrypted.
    pub(super) fn is_encrypted(&self) -> bool {
        self.session.is_some()
    }

    /// Goes on agreeing with the client on the encryption, without waiting.
    ///
    /// # Errors
    /// `WouldBlock` while the client has to say more; anything else ends the connection.
    pub(super) fn handshake(&self) -> io::Result<()> {
        self.session().map_or(Ok(()), |mut session| session.handshake(NonBlocking(&self.socket)))
    }

    /// Whether bytes have been received that the system knows nothing of.
    pub(super) fn has_plaintext(&self) -> bool {
        self.session().is_some_and(|session| session.has_plaintext())
    }

    /// Receives what has arrived, without waiting; 0 is the end.
    ///
    /// # Errors
    /// `WouldBlock` when nothing has arrived.
    pub(super) fn try_receive(&self, buf: &mut [u8]) -> io::Result<usize> {
        match self.session() {
            Some(mut session) => session.read(NonBlocking(&self.socket), buf),
            None => NonBlocking(&self.socket).read(buf),
        }
    }

    /// Receives what arrives first, waiting for a short time; 0 is the end.
    ///
    /// # Errors
    /// `WouldBlock` when nothing came in that time.
    pub(super) fn receive(&self, buf: &mut [u8]) -> io::Result<usize> {
        match self.session() {
            Some(mut session) => session.read(Blocking(&self.socket), buf),
            None => Blocking(&self.socket).read(buf),
        }
    }

    /// Bytes that the system has received and that can be received from here without waiting; 0 where nobody knows.
    pub(super) fn available(&self) -> usize {
        match self.session {
            // How much clear text they hold shows when they are decrypted.
            Some(_) => 0,
            None => rustix::io::ioctl_fionread(&self.socket).map_or(0, |count| count as usize),
        }
    }

    /// Waits until there is something to receive or the connection has ended, for `at_most` that long.
    pub(super) fn wait_readable(&self, at_most: Duration) {
        if !self.has_plaintext() {
            let timeout = Timespec::try_from(at_most).ok();
            // An error means the same as a wake-up for nothing: the caller receives and sees.
            let _ = poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], timeout.as_ref());
        }
    }

    /// Sends the first bytes of `slices`, waiting for room for a short time, and says how many. Some of them may be on
    /// their way only after `flush`.
    ///
    /// # Errors
    /// `WouldBlock` when no byte could be sent in that time.
    pub(super) fn send(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match self.session() {
            Some(mut session) => session.write(Blocking(&self.socket), slices),
            None => Blocking(&self.socket).write_vectored(slices),
        }
    }

    /// The same without waiting.
    ///
    /// # Errors
    /// `WouldBlock` when there is no room at all.
    pub(super) fn try_send(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match self.session() {
            Some(mut session) => session.write(NonBlocking(&self.socket), slices),
            None => NonBlocking(&self.socket).write_vectored(slices),
        }
    }

    /// Waits until there is room to send or the connection has ended, for `at_most` that long.
    pub(super) fn wait_writable(&self, at_most: Duration) {
        let timeout = Timespec::try_from(at_most).ok();
        // As in `wait_readable`.
        let _ = poll(&mut [PollFd::new(&self.socket, PollFlags::OUT)], timeout.as_ref());
    }

    /// Sends what `send` has kept back, waiting for room for a short time.
    ///
    /// # Errors
    /// `WouldBlock` when not all of it could be sent in that time.
    pub(super) fn flush(&self) -> io::Result<()> {
        self.session().map_or(Ok(()), |mut session| session.flush(Blocking(&self.socket)))
    }

    /// Sends the first bytes of `bytes`, without waiting, and says how many.
    ///
    /// # Errors
    /// `WouldBlock` when there is no room at all.
    pub(super) fn try_send_all(&self, bytes: &[u8]) -> io::Result<usize> {
        match self.session() {
            Some(session) if !session.is_established() => Err(io::ErrorKind::NotConnected.into()),
            Some(mut session) => {
                let count = session.write(NonBlocking(&self.socket), &[IoSlice::new(bytes)])?;
                session.flush(NonBlocking(&self.socket)).map(|()| count)
            }
            None => NonBlocking(&self.socket).write(bytes),
        }
    }

    /// Tells the peer that nothing more will be sent.
    pub(super) fn shut_down_sending(&self) {
        if let Some(mut session) = self.session() {
            session.finish(NonBlocking(&self.socket));
        }
        // It fails only where the connection has gone already.
        let _ = self.socket.shutdown(Shutdown::Write);
    }

    /// Ends the connection under whoever uses it, from any thread.
    pub(super) fn abort(&self) {
        self.is_cut.store(true, Ordering::Relaxed);
        let _ = self.socket.shutdown(Shutdown::Both);
    }

    /// Makes the close that follows a reset, which no client can take for the end of a response.
    pub(super) fn reset_on_close(&self) {
        self.is_cut.store(true, Ordering::Relaxed);
        // Where it fails the connection is gone, or a plain close says nearly the same.
        let _ = rustix::net::sockopt::set_socket_linger(&self.socket, Some(Duration::ZERO));
    }

    fn session(&self) -> Option<MutexGuard<'_, TlsSession>> {
        // What a panic has left half done shows as an error of the encryption.
        self.session.as_ref().map(|session| session.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Client for ClientStream {
    fn has_left(&self) -> bool {
        let gone = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
        let mut socket = [PollFd::new(&self.socket, PollFlags::RDHUP)];
        let told = poll(&mut socket, Some(&Timespec::default()));
        told.is_ok_and(|count| count > 0) && socket[0].revents().intersects(gone)
    }
}

impl Drop for ClientStream {
    fn drop(&mut self) {
        if let Some(session) = &mut self.session
            && !self.is_cut.load(Ordering::Relaxed)
        {
            session.get_mut().unwrap_or_else(PoisonError::into_inner).finish(NonBlocking(&self.socket));
        }
    }
}

impl AsFd for ClientStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// A socket that waits for as long as its time-outs say.
struct Blocking<'s>(&'s TcpStream);

impl Read for Blocking<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        retry(|| self.0.read(buf))
    }
}

impl Write for Blocking<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        retry(|| self.0.write(bytes))
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        retry(|| self.0.write_vectored(slices))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A socket that waits for nothing.
struct NonBlocking<'s>(&'s TcpStream);

impl Read for NonBlocking<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let received = retry(|| Ok(rustix::net::recv(self.0, &mut *buf, RecvFlags::DONTWAIT)?))?;
        Ok(received.0)
    }
}

impl Write for NonBlocking<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        retry(|| Ok(sendmsg(self.0, slices, &mut SendAncillaryBuffer::default(), flags)?))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Whether the error says only that a wait has ended.
pub(super) fn is_would_block(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

/// Repeats what a signal has interrupted.
fn retry<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            outcome => return outcome,
        }
    }
}
