//! The body of a request as a handler reads it: off the wire, out of its framing, at a minimum pace.

use std::time::Duration;

use super::chunked::{TransferDecoder, TransferStep};
use super::read_buffer::ReadBuffer;
use super::stall_budget::StallBudget;
use super::stream::ClientStream;
use super::timed_io::{receive, send_all};
use crate::base::limits;
use crate::http::fields::{BodyFraming, invalid_request};
use crate::s3::{BodyRead, ErrorCode, S3Error};

/// What asks a waiting client for the body (RFC 9110, section 15.2.1).
const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// What of the body has not been read.
enum Unread {
    /// That many bytes.
    Length(u64),
    /// TransferDecoder.
    Chunked(TransferDecoder),
}

/// The body of the request that a worker handles.
pub(super) struct RequestBody<'w> {
    stream: &'w ClientStream,
    read_buffer: &'w mut ReadBuffer,
    unread: Unread,
    /// Whether the client waits to be traits.
    awaits_continue: bool,
    failure: Option<S3Error>,
    budget: StallBudget<'w>,
}

impl<'w> RequestBody<'w> {
    /// The body that begins with what `read_buffer` holds. `awaits_continue`: the client waits for the interim response.
    pub(super) fn new(
        stream: &'w ClientStream,
        read_buffer: &'w mut ReadBuffer,
        framing: BodyFraming,
        awaits_continue: bool,
        budget: StallBudget<'w>,
    ) -> Self {
        let unread = match framing {
            BodyFraming::Absent => Unread::Length(0),
            BodyFraming::Length(length) => Unread::Length(length),
            BodyFraming::Chunked => Unread::Chunked(TransferDecoder::new()),
        };
        // A client that has response_started to send does not wait, whatever it said. One that announces no bytes may well wait:
        // botocore does, and takes a response without the interim one for the next request's, too, unless the
        // connection ends.
        let awaits_continue = awaits_continue && read_buffer.is_empty() && framing != BodyFraming::Absent;
        Self { stream, read_buffer, unread, awaits_continue, failure: None, budget }
    }

    /// Reads what the handler left of a small body that is arriving anyway; whether that was all, so that the next
    /// request begins where the read_buffer does.
    pub(super) fn skip_rest(&mut self) -> bool {
        match self.unread {
            _ if self.awaits_continue || self.failure.is_some() => return false,
            Unread::Length(0) => return true,
            Unread::Length(left) if left > limits::UNREAD_BODY_MAX_BYTES => return false,
            _ => {}
        }
        self.budget.replace_with_hard_limit(Duration::from_millis(limits::UNREAD_BODY_PATIENCE_MILLIS));
        let (mut scrap, mut total) = ([0; 8 * limits::KIB as usize], 0);
        while total <= limits::UNREAD_BODY_MAX_BYTES {
            match self.read(&mut scrap) {
                Ok(0) => return true,
                Ok(count) => total += count as u64,
                Err(_) => return false,
            }
        }
        false
    }

    fn read(&mut self, buf: &mut [u8]) -> Result<usize, S3Error> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        let outcome = self.send_continue().and_then(|()| self.read_framed(buf));
        if let Err(error) = &outcome {
            self.failure = Some(error.clone());
        }
        outcome
    }

    /// Asks for the body, once, where the client waits for that.
    fn send_continue(&mut self) -> Result<(), S3Error> {
        if !std::mem::take(&mut self.awaits_continue) {
            return Ok(());
        }
        send_all(self.stream, [CONTINUE], 0, &mut self.budget, &|| false)
            .map(drop)
            .map_err(|_| S3Error::new(ErrorCode::IncompleteBody))
    }

    fn read_framed(&mut self, buf: &mut [u8]) -> Result<usize, S3Error> {
        if let Unread::Length(left) = self.unread {
            let count = self.take(buf, left)?;
            self.unread = Unread::Length(left - count as u64);
            return Ok(count);
        }
        self.read_chunk(buf)
    }

    fn read_chunk(&mut self, buf: &mut [u8]) -> Result<usize, S3Error> {
        loop {
            let Unread::Chunked(chunks) = &mut self.unread else {
                return Ok(0);
            };
            let (used, next) = chunks.advance(self.read_buffer.filled())?;
            self.read_buffer.consume(used);
            match next {
                TransferStep::End => {
                    self.unread = Unread::Length(0);
                    return Ok(0);
                }
                TransferStep::MoreInput => self.refill()?,
                TransferStep::Data(left) => {
                    let count = self.take(buf, left)?;
                    if let Unread::Chunked(chunks) = &mut self.unread {
                        chunks.took(count as u64);
                    }
                    return Ok(count);
                }
            }
        }
    }

    /// Takes at most `left` bytes of data; 0 only where that is 0.
    fn take(&mut self, buf: &mut [u8], left: u64) -> Result<usize, S3Error> {
        let want = buf.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        match self.read_buffer.read_into(&mut buf[..want]) {
            0 if want > 0 => receive(self.stream, &mut buf[..want], &mut self.budget),
            count => Ok(count),
        }
    }

    /// Receives more framing. The longest line fits the read_buffer, so there is room.
    fn refill(&mut self) -> Result<(), S3Error> {
        if self.read_buffer.is_full() {
            return Err(invalid_request("A framing line of the request body is too long."));
        }
        let count = receive(self.stream, self.read_buffer.spare(), &mut self.budget)?;
        self.read_buffer.extend_filled(count);
        Ok(())
    }
}

impl BodyRead for &mut RequestBody<'_> {
    fn read(&mut self, buf: &mut [u8]) -> Result<usize, S3Error> {
        RequestBody::read(self, buf)
    }
}
