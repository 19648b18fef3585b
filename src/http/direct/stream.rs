//! One connection as the rest of the engine sees it: bytes in, bytes out, each call with a known longest wait. The
//! time-outs are set once, when the connection comes; no call changes the socket.

use std::io::{self, IoSlice, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{RecvFlags, SendFlags};

/// The longest wait for room to write, after which the sender looks at its patience.
const SEND_WAIT_MAX: Duration = Duration::from_secs(1);

/// A connected socket.
#[derive(Debug)]
pub(super) struct Stream {
    socket: TcpStream,
}

impl Stream {
    /// Takes over a connected, blocking socket. `receive` waits for `receive_wait` at most.
    ///
    /// # Errors
    /// Whatever the system says to the options; the connection is of no use then.
    pub(super) fn new(socket: TcpStream, receive_wait: Duration, patience: Duration) -> io::Result<Self> {
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(receive_wait))?;
        socket.set_write_timeout(Some(SEND_WAIT_MAX.min(patience)))?;
        Ok(Self { socket })
    }

    /// Receives what has arrived, without waiting; 0 is the end.
    ///
    /// # Errors
    /// `WouldBlock` when nothing has arrived.
    pub(super) fn receive_now(&self, buf: &mut [u8]) -> io::Result<usize> {
        let received = retry(|| Ok(rustix::net::recv(&self.socket, &mut *buf, RecvFlags::DONTWAIT)?))?;
        Ok(received.0)
    }

    /// Receives what arrives first, waiting for a short time; 0 is the end.
    ///
    /// # Errors
    /// `WouldBlock` when nothing came in that time.
    pub(super) fn receive(&self, buf: &mut [u8]) -> io::Result<usize> {
        retry(|| (&self.socket).read(buf))
    }

    /// Waits until there is something to receive or the connection has ended, for `at_most` that long.
    pub(super) fn wait_readable(&self, at_most: Duration) {
        let timeout = Timespec::try_from(at_most).ok();
        // An error means the same as a wake-up for nothing: the caller receives and sees.
        let _ = poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], timeout.as_ref());
    }

    /// Sends the first bytes of `slices`, waiting for room for a short time, and says how many.
    ///
    /// # Errors
    /// `WouldBlock` when no byte could be sent in that time.
    pub(super) fn send(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        retry(|| (&self.socket).write_vectored(slices))
    }

    /// Sends the first bytes of `bytes`, without waiting, and says how many.
    ///
    /// # Errors
    /// `WouldBlock` when there is no room at all.
    pub(super) fn send_now(&self, bytes: &[u8]) -> io::Result<usize> {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        retry(|| Ok(rustix::net::send(&self.socket, bytes, flags)?))
    }

    /// Tells the peer that nothing more will be sent.
    pub(super) fn finish(&self) {
        // It fails only where the connection has gone already.
        let _ = self.socket.shutdown(Shutdown::Write);
    }

    /// Ends the connection under whoever uses it, from any thread.
    pub(super) fn kill(&self) {
        let _ = self.socket.shutdown(Shutdown::Both);
    }

    /// Makes the close that follows a reset, which no client can take for the end of a response.
    pub(super) fn reset_on_close(&self) {
        // Where it fails the connection is gone, or a plain close says nearly the same.
        let _ = rustix::net::sockopt::set_socket_linger(&self.socket, Some(Duration::ZERO));
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Whether the error says only that a wait has ended.
pub(super) fn is_wait(error: &io::Error) -> bool {
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
