//! One encrypted connection: the state of the encryption, without a socket. Every call is given the
//! transport to read from and write to, which may block or not.

use std::io::{self, ErrorKind, IoSlice, Read, Write};

use rustls::ServerConnection;

use super::socket::is_would_block;

/// The server's side of one encrypted connection.
#[derive(Debug)]
pub(super) struct TlsSession {
    tls: ServerConnection,
    /// Decrypted bytes that have not been read.
    plaintext_len: usize,
}

impl TlsSession {
    /// A session before its handshake.
    pub(super) fn new(tls: ServerConnection) -> Self {
        Self { tls, plaintext_len: 0 }
    }

    /// Whether the handshake is complete, so that requests can come.
    pub(super) fn is_established(&self) -> bool {
        !self.tls.is_handshaking()
    }

    /// Whether decrypted bytes can be read, of which the socket reports nothing.
    pub(super) fn has_plaintext(&self) -> bool {
        self.plaintext_len > 0
    }

    /// Continues the handshake as far as received records allow.
    ///
    /// # Errors
    /// `WouldBlock` while the client has to send or to receive more. Any other error ends the
    /// connection.
    pub(super) fn handshake(&mut self, mut transport: impl Read + Write) -> io::Result<()> {
        loop {
            self.flush(&mut transport)?;
            if self.is_established() {
                return Ok(());
            }
            self.receive_records(&mut transport)?;
        }
    }

    /// Reads decrypted bytes into `buf`, receiving records where there are none. Returns 0 at the
    /// end that the client has announced.
    ///
    /// # Errors
    /// `WouldBlock` when nothing arrives, `UnexpectedEof` for an end that the client has not
    /// announced.
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

    /// Encrypts the first bytes of `slices` and returns how many. The records may stay here until
    /// the next `write` or `flush`.
    ///
    /// # Errors
    /// `WouldBlock` when the records of an earlier call cannot be sent.
    pub(super) fn write(&mut self, mut transport: impl Write, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.flush(&mut transport)?;
        let count = self.tls.writer().write_vectored(slices)?;
        // Encrypted bytes count as sent though the transport is full: records cannot be taken back.
        match self.flush(&mut transport) {
            Err(error) if !is_would_block(&error) => Err(error),
            _ => Ok(count),
        }
    }

    /// Sends the encrypted records that are kept here.
    ///
    /// # Errors
    /// `WouldBlock` when some of them cannot be sent.
    pub(super) fn flush(&mut self, mut transport: impl Write) -> io::Result<()> {
        while self.tls.wants_write() {
            if self.tls.write_tls(&mut transport)? == 0 {
                return Err(ErrorKind::WriteZero.into());
            }
        }
        Ok(())
    }

    /// Announces the end to the client (`close_notify`), so that it can distinguish the end from an
    /// abort.
    pub(super) fn close(&mut self, transport: impl Write) {
        if self.is_established() {
            self.tls.send_close_notify();
            // A client that receives nothing cannot be notified.
            let _ = self.flush(transport);
        }
    }

    /// Receives records and decrypts them. Sends the answers of the protocol itself as far as the
    /// transport takes them.
    fn receive_records(&mut self, transport: &mut (impl Read + Write)) -> io::Result<()> {
        let ended = self.tls.read_tls(transport)? == 0;
        let processed = self.tls.process_new_packets();
        // Before the error is returned: the records to send may hold the alert that names it.
        let flushed = self.flush(&mut *transport);
        self.plaintext_len =
            processed.map_err(|e| io::Error::new(ErrorKind::InvalidData, e))?.plaintext_bytes_to_read();
        match flushed {
            Err(error) if !is_would_block(&error) => Err(error),
            _ if ended && !self.is_established() => Err(ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }
}
