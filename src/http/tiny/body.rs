//! The body of a request as the handler reads it.

use std::io::ErrorKind;

use tiny_http::Request;

use super::raw_socket::RawSocket;
use crate::http::fields::BodyFraming;
use crate::s3::{BodyRead, ErrorCode, S3Error};

/// The body of the request that a worker handles.
pub(super) struct TinyRequestBody<'w> {
    request: &'w mut Request,
    /// Bytes that have not been read; `None` for chunks.
    unread_len: Option<u64>,
    /// Shows a connection that ends within chunks, which the crate reports as the end of the body.
    socket: Option<&'w RawSocket>,
    /// The outcome of reading, once it has ended.
    end: Option<Result<(), S3Error>>,
}

impl<'w> TinyRequestBody<'w> {
    /// The body of `request`. A chunked one needs the socket.
    pub(super) fn new(request: &'w mut Request, framing: BodyFraming, socket: Option<&'w RawSocket>) -> Self {
        let unread_len = match framing {
            BodyFraming::Absent => Some(0),
            BodyFraming::Length(length) => Some(length),
            BodyFraming::Chunked => None,
        };
        Self { request, unread_len, socket, end: (unread_len == Some(0)).then_some(Ok(())) }
    }

    /// Reads the rest of the body, whatever its length. Returns whether it is complete.
    pub(super) fn skip_rest(&mut self, scrap: &mut [u8]) -> bool {
        loop {
            match self.read_counted(scrap) {
                Ok(0) => return true,
                Ok(_) => {}
                Err(_) => return false,
            }
        }
    }

    /// Bytes that have not been read; 0 for chunks.
    pub(super) fn unread_len(&self) -> u64 {
        self.unread_len.unwrap_or(0)
    }

    fn read_counted(&mut self, buf: &mut [u8]) -> Result<usize, S3Error> {
        if let Some(end) = &self.end {
            return end.clone().map(|()| 0);
        }
        let read = self.request.as_reader().read(buf);
        let outcome = match read {
            Ok(0) => self.check_end(),
            Ok(count) => {
                self.unread_len = self.unread_len.map(|len| len - count as u64);
                return Ok(count);
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => return self.read_counted(buf),
            Err(_) => Err(S3Error::new(ErrorCode::IncompleteBody)),
        };
        self.end = Some(outcome.clone());
        outcome.map(|()| 0)
    }

    /// Checks an end that the crate reports. The end of chunks counts only while the client is
    /// connected: otherwise the connection may have been cut within them.
    fn check_end(&self) -> Result<(), S3Error> {
        let is_complete = match self.unread_len {
            Some(len) => len == 0,
            None => self.socket.is_some_and(|socket| !socket.has_ended()),
        };
        if is_complete { Ok(()) } else { Err(S3Error::new(ErrorCode::IncompleteBody)) }
    }
}

impl BodyRead for &mut TinyRequestBody<'_> {
    fn read(&mut self, buf: &mut [u8]) -> Result<usize, S3Error> {
        self.read_counted(buf)
    }
}
