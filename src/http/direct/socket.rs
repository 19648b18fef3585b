//! Reads and writes of a connected socket: blocking up to its time-outs, or non-blocking.

use std::io::{self, IoSlice, Read, Write};
use std::net::TcpStream;

use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, sendmsg};

/// A socket whose calls wait for as long as its time-outs allow.
pub(super) struct Blocking<'s>(pub(super) &'s TcpStream);

impl Read for Blocking<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        retry_interrupted(|| self.0.read(buf))
    }
}

impl Write for Blocking<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        retry_interrupted(|| self.0.write(bytes))
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        retry_interrupted(|| self.0.write_vectored(slices))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A socket whose calls never wait.
pub(super) struct NonBlocking<'s>(pub(super) &'s TcpStream);

impl Read for NonBlocking<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let received = retry_interrupted(|| Ok(rustix::net::recv(self.0, &mut *buf, RecvFlags::DONTWAIT)?))?;
        Ok(received.0)
    }
}

impl Write for NonBlocking<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        retry_interrupted(|| Ok(sendmsg(self.0, slices, &mut SendAncillaryBuffer::default(), flags)?))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Whether the error says only that a call would have to wait, or to wait longer.
pub(super) fn is_would_block(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

/// Repeats a call that a signal interrupted.
fn retry_interrupted<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            outcome => return outcome,
        }
    }
}
