//! An encrypted connection: what the clear bytes have to pass. It knows the state of the encryption and no socket; bytes
//! come from and go to whatever it is handed, which may block or not.

use std::io::{self, ErrorKind, IoSlice, Read, Write};

use rustls::ServerConnection;

use super::stream::is_would_block;

/// The server's side of one encrypted connection.
#[derive(Debug)]
pub(super) struct TlsSession {
    tls: ServerConnection,
    /// Decrypted bytes that nobody has taken.
    plaintext_len: usize,
}

impl TlsSession {
    /// Nothing has been said yet.
    pub(super) fn new(tls: ServerConnection) -> Self {
        Self { tls, plaintext_len: 0 }
    }

    /// Whether both sides have agreed, so that requests can come.
    pub(super) fn is_established(&self) -> bool {
        !self.tls.is_handshaking()
    }

    /// Whether decrypted bytes wait, of which no socket tells.
    pub(super) fn has_plaintext(&self) -> bool {
        self.plaintext_len > 0
    }

    /// Goes on with the handshake as far as what has come allows.
    ///
    /// # Errors
    /// `WouldBlock` when the client has to say more or to take what was said; anything else ends the connection.
    pub(super) fn handshake(&mut self, mut transport: impl Read + Write) -> io::Result<()> {
        loop {
            self.flush(&mut transport)?;
            if self.is_established() {
                return Ok(());
            }
            self.receive_records(&mut transport)?;
        }
    }

    /// Decrypts into `buf` what waits, or else what comes; 0 is the end that the client has told of.
    ///
    /// # Errors
    /// `WouldBlock` when nothing comes, `UnexpectedEof` for an end that the client has not told of.
    pub(super) fn read(&mut self, mut transport: impl Read + Write, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.tls.reader().read(buf) {
                Err(error) if is_would_block(&error) => self.receive_records(&mut transport)?,
                Ok(count) => {
                    self.plaintext_len = self.plaintext_len.saturating_sub(count);
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
    pub(super) fn write(&mut self, mut transport: impl Write, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.flush(&mut transport)?;
        let count = self.tls.writer().write_vectored(slices)?;
        match self.flush(&mut transport) {
            Err(error) if !is_would_block(&error) => Err(error),
            _ => Ok(count),
        }
    }

    /// Sends what has been encrypted.
    ///
    /// # Errors
    /// `WouldBlock` when not all of it finds room.
    pub(super) fn flush(&mut self, mut transport: impl Write) -> io::Result<()> {
        while self.tls.wants_write() {
            if self.tls.write_tls(&mut transport)? == 0 {
                return Err(ErrorKind::WriteZero.into());
            }
        }
        Ok(())
    }

    /// Tells the client that nothing more comes, so that it can tell the end from a cut.
    pub(super) fn finish(&mut self, transport: impl Write) {
        if self.is_established() {
            self.tls.send_close_notify();
            // Whoever takes nothing is not told.
            let _ = self.flush(transport);
        }
    }

    /// Receives and decrypts; answers what the encryption itself has to answer, as far as there is room.
    fn receive_records(&mut self, transport: &mut (impl Read + Write)) -> io::Result<()> {
        let ended = self.tls.read_tls(transport)? == 0;
        let state = self.tls.process_new_packets();
        let answered = self.flush(&mut *transport);
        self.plaintext_len =
            state.map_err(|e| io::Error::new(ErrorKind::InvalidData, e))?.plaintext_bytes_to_read();
        match answered {
            Err(error) if !is_would_block(&error) => Err(error),
            _ if ended && !self.is_established() => Err(ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }
}
