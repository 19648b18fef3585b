//! The body of a request as a handler reads it: received at a minimum rate, freed from its framing,
//! counted.

pub(super) mod chunked;

use std::time::Duration;

use self::chunked::{TransferDecoder, TransferStep};
use super::read_buffer::ReadBuffer;
use super::stall_budget::StallBudget;
use super::stream::ClientStream;
use super::timed_io::{receive, send_all};
use crate::base::limits;
use crate::http::fields::{BodyFraming, invalid_request};
use crate::s3::{BodyRead, ErrorCode, S3Error};

/// The interim response that asks a waiting client for the body (RFC 9110, section 15.2.1).
const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// The part of a body that has not been read, counted down by [`UnreadBody::count`].
enum UnreadBody {
    /// That many bytes.
    Length(u64),
    /// Chunks, of which the decoder counts the data.
    Chunked(TransferDecoder),
}

impl UnreadBody {
    fn new(framing: BodyFraming) -> Self {
        match framing {
            BodyFraming::Absent => Self::Length(0),
            BodyFraming::Length(length) => Self::Length(length),
            BodyFraming::Chunked => Self::Chunked(TransferDecoder::new()),
        }
    }

    /// What comes next; framing at the start of `buffer` is consumed.
    fn advance(&mut self, buffer: &mut ReadBuffer) -> Result<TransferStep, S3Error> {
        match self {
            Self::Length(0) => Ok(TransferStep::End),
            Self::Length(remaining) => Ok(TransferStep::Data(*remaining)),
            Self::Chunked(decoder) => {
                let (used, step) = decoder.advance(buffer.filled())?;
                buffer.consume(used);
                Ok(step)
            }
        }
    }

    /// Counts `len` bytes of data as read.
    fn count(&mut self, len: usize) {
        match self {
            Self::Length(remaining) => *remaining -= len as u64,
            Self::Chunked(decoder) => decoder.count(len as u64),
        }
    }
}

/// The body of the request that a worker handles. It counts its bytes as they are read.
pub(super) struct RequestBody<'w> {
    stream: &'w ClientStream,
    buffer: &'w mut ReadBuffer,
    unread: UnreadBody,
    /// Bytes of data read so far.
    read_len: u64,
    /// Whether the client waits for `100 Continue`.
    awaits_continue: bool,
    failure: Option<S3Error>,
    budget: StallBudget<'w>,
}

impl<'w> RequestBody<'w> {
    /// The body that begins with the content of `buffer`. `expects_continue`: the client has asked
    /// for `100 Continue`.
    pub(super) fn new(
        stream: &'w ClientStream,
        buffer: &'w mut ReadBuffer,
        framing: BodyFraming,
        expects_continue: bool,
        budget: StallBudget<'w>,
    ) -> Self {
        // A client that has begun to send does not wait, whatever it said. One that announces a
        // body of no bytes may wait: botocore does, and would take the next response of the
        // connection for the body of its next request.
        let awaits_continue = expects_continue && buffer.is_empty() && framing != BodyFraming::Absent;
        let unread = UnreadBody::new(framing);
        Self { stream, buffer, unread, read_len: 0, awaits_continue, failure: None, budget }
    }

    /// Reads the rest of a small body that is arriving anyway. Returns whether all of it has been
    /// read, so that the next request begins where the buffer does.
    pub(super) fn skip_rest(&mut self) -> bool {
        match self.unread {
            _ if self.awaits_continue || self.failure.is_some() => return false,
            UnreadBody::Length(0) => return true,
            // To read more than this costs both sides more than a new connection.
            UnreadBody::Length(remaining) if remaining > limits::UNREAD_BODY_MAX_BYTES => return false,
            _ => {}
        }
        let limit = Duration::from_millis(limits::UNREAD_BODY_WAIT_MILLIS);
        // No byte refills this: a client that sends a byte now and then would hold the worker.
        self.budget.replace_with_hard_limit(limit);
        let mut scrap = [0; 8 * limits::KIB as usize];
        let len_max = self.read_len + limits::UNREAD_BODY_MAX_BYTES;
        while self.read_len <= len_max {
            match self.read(&mut scrap) {
                Ok(0) => return true,
                Ok(_) => {}
                Err(_) => return false,
            }
        }
        false
    }

    fn read(&mut self, buf: &mut [u8]) -> Result<usize, S3Error> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        let outcome = self.send_continue().and_then(|()| self.read_data(buf));
        let outcome = outcome.map_err(|error| self.with_counts(error));
        match &outcome {
            Ok(count) => self.read_len += *count as u64,
            // After a failure the place of the next byte is not known, so no later read goes on.
            Err(error) => self.failure = Some(error.clone()),
        }
        outcome
    }

    /// Adds the announced and the received length to the error for a body that ends early.
    fn with_counts(&self, error: S3Error) -> S3Error {
        match (error.code, &self.unread) {
            (ErrorCode::IncompleteBody, UnreadBody::Length(missing)) => error
                .element("NumberBytesExpected", (self.read_len + missing).to_string())
                .element("NumberBytesProvided", self.read_len.to_string()),
            _ => error,
        }
    }

    /// Sends `100 Continue`, once, if the client waits for it.
    fn send_continue(&mut self) -> Result<(), S3Error> {
        if !std::mem::take(&mut self.awaits_continue) {
            return Ok(());
        }
        send_all(self.stream, [CONTINUE], 0, &mut self.budget, &|| false)
            .map(drop)
            .map_err(|_| S3Error::new(ErrorCode::IncompleteBody))
    }

    fn read_data(&mut self, buf: &mut [u8]) -> Result<usize, S3Error> {
        loop {
            match self.unread.advance(self.buffer)? {
                TransferStep::End => return Ok(0),
                TransferStep::MoreInput => self.receive_framing()?,
                TransferStep::Data(remaining) => {
                    let count = self.receive_data(buf, remaining)?;
                    self.unread.count(count);
                    return Ok(count);
                }
            }
        }
    }

    /// Receives at most `remaining` bytes of data, from the buffer while it holds any, else from
    /// the stream.
    fn receive_data(&mut self, buf: &mut [u8], remaining: u64) -> Result<usize, S3Error> {
        let want = buf.len().min(usize::try_from(remaining).unwrap_or(usize::MAX));
        match self.buffer.read_into(&mut buf[..want]) {
            0 if want > 0 => receive(self.stream, &mut buf[..want], &mut self.budget),
            count => Ok(count),
        }
    }

    /// Receives more framing into the buffer, which has room for the longest line.
    fn receive_framing(&mut self) -> Result<(), S3Error> {
        if self.buffer.is_full() {
            return Err(invalid_request("A framing line of the request body is too long."));
        }
        let count = receive(self.stream, self.buffer.spare(), &mut self.budget)?;
        self.buffer.extend_filled(count);
        Ok(())
    }
}

impl BodyRead for &mut RequestBody<'_> {
    fn read(&mut self, buf: &mut [u8]) -> Result<usize, S3Error> {
        RequestBody::read(self, buf)
    }
}
