//! The body of a request as a handler reads it from the crate.

use std::io::ErrorKind;

use tiny_http::Request;

use super::raw_socket::RawSocket;
use crate::http::fields::BodyFraming;
use crate::s3::{BodyRead, ErrorCode, S3Error};

/// The body of the request that a worker handles.
pub(super) struct TinyRequestBody<'w> {
    request: &'w mut Request,
    /// What is known to come; `None` where the chunks tell.
    left: Option<u64>,
    /// Where the end of chunks is seen from: the crate takes a connection that ends among them for their end.
    socket: Option<&'w RawSocket>,
    /// Whether all of it has been read, or why that failed.
    end: Option<Result<(), S3Error>>,
}

impl<'w> TinyRequestBody<'w> {
    /// The body of `request`. The line is needed where it is framed by chunks.
    pub(super) fn new(request: &'w mut Request, framing: BodyFraming, socket: Option<&'w RawSocket>) -> Self {
        let left = match framing {
            BodyFraming::Absent => Some(0),
            BodyFraming::Length(length) => Some(length),
            BodyFraming::Chunked => None,
        };
        Self { request, left, socket, end: (left == Some(0)).then_some(Ok(())) }
    }

    /// Reads what the handler left, however much that is and however long it takes; whether that was all.
    pub(super) fn consume(&mut self, scrap: &mut [u8]) -> bool {
        loop {
            match self.read_on(scrap) {
                Ok(0) => return true,
                Ok(_) => {}
                Err(_) => return false,
            }
        }
    }

    /// Bytes that are known to come and have not been read.
    pub(super) fn left(&self) -> u64 {
        self.left.unwrap_or(0)
    }

    fn read_on(&mut self, buf: &mut [u8]) -> Result<usize, S3Error> {
        if let Some(end) = &self.end {
            return end.clone().map(|()| 0);
        }
        let read = self.request.as_reader().read(buf);
        let outcome = match read {
            Ok(0) => self.judge_end(),
            Ok(count) => {
                self.left = self.left.map(|left| left - count as u64);
                return Ok(count);
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => return self.read_on(buf),
            Err(_) => Err(S3Error::new(ErrorCode::IncompleteBody)),
        };
        self.end = Some(outcome.clone());
        outcome.map(|()| 0)
    }

    /// Whether an end that the crate reports is one. That of chunks counts only while the client is still there: one that
    /// has gone may have been cut off.
    fn judge_end(&self) -> Result<(), S3Error> {
        let whole = match self.left {
            Some(left) => left == 0,
            None => self.socket.is_some_and(|socket| !socket.has_ended()),
        };
        if whole { Ok(()) } else { Err(S3Error::new(ErrorCode::IncompleteBody)) }
    }
}

impl BodyRead for &mut TinyRequestBody<'_> {
    fn read(&mut self, buf: &mut [u8]) -> Result<usize, S3Error> {
        self.read_on(buf)
    }
}
