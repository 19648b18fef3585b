//! An encrypted connection: what the clear bytes have to pass. It knows the state of the encryption and no socket; bytes
//! come from and go to whatever it is handed, which may block or not.

use std::io::{self, ErrorKind, IoSlice, Read, Write};

use rustls::ServerConnection;

use super::stream::is_wait;

/// The server's side of one encrypted connection.
#[derive(Debug)]
pub(super) struct Session {
    tls: ServerConnection,
    /// Decrypted bytes that nobody has taken.
    waiting: usize,
}

impl Session {
    /// Nothing has been said yet.
    pub(super) fn new(tls: ServerConnection) -> Self {
        Self { tls, waiting: 0 }
    }

    /// Whether both sides have agreed, so that requests can come.
    pub(super) fn is_agreed(&self) -> bool {
        !self.tls.is_handshaking()
    }

    /// Whether decrypted bytes wait, of which no socket tells.
    pub(super) fn has_waiting(&self) -> bool {
        self.waiting > 0
    }

    /// Goes on with the handshake as far as what has come allows.
    ///
    /// # Errors
    /// `WouldBlock` when the client has to say more or to take what was said; anything else ends the connection.
    pub(super) fn agree(&mut self, mut line: impl Read + Write) -> io::Result<()> {
        loop {
            self.flush(&mut line)?;
            if self.is_agreed() {
                return Ok(());
            }
            self.take_in(&mut line)?;
        }
    }

    /// Decrypts into `buf` what waits, or else what comes; 0 is the end that the client has told of.
    ///
    /// # Errors
    /// `WouldBlock` when nothing comes, `UnexpectedEof` for an end that the client has not told of.
    pub(super) fn read(&mut self, mut line: impl Read + Write, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.tls.reader().read(buf) {
                Err(error) if is_wait(&error) => self.take_in(&mut line)?,
                Ok(count) => {
                    self.waiting = self.waiting.saturating_sub(count);
                    return Ok(count);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Encrypts the first bytes of `slices` and says how many. They may stay here until the next call, or `flush`.
    ///
    /// # Errors
    /// `WouldBlock` when what was encrypted before finds no room.
    pub(super) fn write(&mut self, mut line: impl Write, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.flush(&mut line)?;
        let count = self.tls.writer().write_vectored(slices)?;
        match self.flush(&mut line) {
            Err(error) if !is_wait(&error) => Err(error),
            _ => Ok(count),
        }
    }

    /// Sends what has been encrypted.
    ///
    /// # Errors
    /// `WouldBlock` when not all of it finds room.
    pub(super) fn flush(&mut self, mut line: impl Write) -> io::Result<()> {
        while self.tls.wants_write() {
            if self.tls.write_tls(&mut line)? == 0 {
                return Err(ErrorKind::WriteZero.into());
            }
        }
        Ok(())
    }

    /// Tells the client that nothing more comes, so that it can tell the end from a cut.
    pub(super) fn finish(&mut self, line: impl Write) {
        if self.is_agreed() {
            self.tls.send_close_notify();
            // Whoever takes nothing is not told.
            let _ = self.flush(line);
        }
    }

    /// Receives and decrypts; answers what the encryption itself has to answer, as far as there is room.
    fn take_in(&mut self, line: &mut (impl Read + Write)) -> io::Result<()> {
        let ended = self.tls.read_tls(line)? == 0;
        let state = self.tls.process_new_packets();
        let answered = self.flush(&mut *line);
        self.waiting =
            state.map_err(|e| io::Error::new(ErrorKind::InvalidData, e))?.plaintext_bytes_to_read();
        match answered {
            Err(error) if !is_wait(&error) => Err(error),
            _ if ended && !self.is_agreed() => Err(ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }
}
