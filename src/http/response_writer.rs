//! What a worker sends: responses, framed, with as few calls to the system as their bodies allow.

use std::io::{self, Write};

use super::response::{DateHeader, RequestTraits, ResponseFraming, write_head};
use crate::base::{Timestamp, limits};
use crate::s3::{BodySource, Response, ResponseBody};

/// Why a response did not get out whole.
#[derive(Debug)]
pub(super) enum SendFailure {
    /// The source of the body failed, or did not keep to the length that it was said to have.
    BrokenSource(io::Error),
    /// The client is gone or takes nothing.
    ClientGone,
    /// The recipient has kept back a part of what it was given. This is to follow it.
    Stalled(RemainingBody),
}

/// The part of a body behind what a recipient was given.
pub(super) struct RemainingBody {
    /// `None` where there is no more.
    source: Option<Box<dyn BodySource>>,
    len: u64,
}

impl std::fmt::Debug for RemainingBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RemainingBody").field("len", &self.len).finish_non_exhaustive()
    }
}

/// Whom a response goes to.
pub(super) trait ResponseSink {
    /// Sends all of `parts`, one behind the other. From the first call on no other response can take the place of this one.
    ///
    /// # Errors
    /// `WouldBlock` where the client takes nothing for now and the recipient keeps back what it did not take: then nothing
    /// may follow before that. Anything else: the client is gone or takes nothing.
    fn write_all<const N: usize>(&mut self, parts: [&[u8]; N]) -> io::Result<()>;

    /// The most that should be put at a time.
    fn piece_len_max(&self) -> usize {
        limits::RESPONSE_BUFFER_BYTES
    }
}

/// How a response is sent beyond what it says itself.
#[derive(Debug, Clone, Copy)]
pub(super) struct SendOptions {
    /// What the request asked for.
    pub(super) traits: RequestTraits,
    /// How the body is framed.
    pub(super) framing: ResponseFraming,
    /// Whether it is the last response of its connection.
    pub(super) close: bool,
}

/// The buffers that a worker sends from.
#[derive(Debug, Default)]
pub(super) struct ResponseWriter {
    head: Vec<u8>,
    /// A piece of a body; without memory until the first that needs it.
    piece: Vec<u8>,
    date: DateHeader,
}

impl ResponseWriter {
    /// Sends a response at the time `now`.
    ///
    /// # Errors
    /// Where anything has been put, the client has a part, and the connection must be cut.
    pub(super) fn send(
        &mut self,
        to: &mut impl ResponseSink,
        response: Response,
        options: SendOptions,
        now: Timestamp,
    ) -> Result<(), SendFailure> {
        let Self { head, piece, date } = self;
        head.clear();
        write_head(head, &response, options.framing, options.traits, options.close, date.at(now));
        match (options.framing, response.body) {
            (ResponseFraming::Length(_), ResponseBody::Bytes(body)) => {
                to.write_all([head, &body]).map_err(|error| stopped(&error, None, 0))
            }
            (ResponseFraming::Length(length), ResponseBody::Stream { source, .. }) => {
                send_counted(to, head, grown(piece), source, length)
            }
            (ResponseFraming::Chunked, ResponseBody::Stream { source, .. }) => {
                to.write_all([head]).map_err(gone)?;
                send_chunks(to, grown(piece), source)
            }
            (ResponseFraming::UntilClose, ResponseBody::Stream { source, .. }) => {
                to.write_all([head]).map_err(gone)?;
                send_rest(to, grown(piece), source)
            }
            _ => to.write_all([head]).map_err(|error| stopped(&error, None, 0)),
        }
    }

    /// Goes on with a response, when the recipient has sent what it had kept back.
    ///
    /// # Errors
    /// As `send`.
    pub(super) fn resume(
        &mut self,
        to: &mut impl ResponseSink,
        rest: RemainingBody,
    ) -> Result<(), SendFailure> {
        match rest.source {
            Some(source) => send_counted(to, &[], grown(&mut self.piece), source, rest.len),
            None => Ok(()),
        }
    }
}

/// Why sending ends where `len` bytes of `source` are to follow.
fn stopped(error: &io::Error, source: Option<Box<dyn BodySource>>, len: u64) -> SendFailure {
    match error.kind() {
        io::ErrorKind::WouldBlock => SendFailure::Stalled(RemainingBody { source, len }),
        _ => SendFailure::ClientGone,
    }
}

/// The buffer for pieces, allocated by the first response that needs it.
fn grown(piece: &mut Vec<u8>) -> &mut [u8] {
    piece.resize(limits::RESPONSE_BUFFER_BYTES, 0);
    piece
}

/// Sends `length` bytes, the first piece together with the head. The last piece goes out only after the source has said
/// that it is at its end: whatever it finds there, the client cannot take the body for complete.
fn send_counted(
    to: &mut impl ResponseSink,
    mut head: &[u8],
    piece: &mut [u8],
    mut source: Box<dyn BodySource>,
    length: u64,
) -> Result<(), SendFailure> {
    let mut left = length;
    loop {
        let count = piece.len().min(to.piece_len_max()).min(usize::try_from(left).unwrap_or(usize::MAX));
        fill(&mut *source, &mut piece[..count])?;
        left -= count as u64;
        if left == 0 && read(&mut *source, &mut [0])? > 0 {
            return Err(broken("the source holds more than its length"));
        }
        if let Err(error) = to.write_all([head, &piece[..count]]) {
            return Err(stopped(&error, (left > 0).then_some(source), left));
        }
        if left == 0 {
            return Ok(());
        }
        head = &[];
    }
}

/// Sends what the source gives as soon as it gives it, each time as one chunk.
fn send_chunks(
    to: &mut impl ResponseSink,
    piece: &mut [u8],
    mut source: Box<dyn BodySource>,
) -> Result<(), SendFailure> {
    let mut size_line = Vec::new();
    loop {
        let count = read(&mut *source, piece)?;
        size_line.clear();
        write!(size_line, "{count:x}\r\n").expect("a vector takes every byte");
        // The last chunk is empty, and an empty trailer section follows: it looks like any other.
        to.write_all([&size_line, &piece[..count], b"\r\n"]).map_err(gone)?;
        if count == 0 {
            return Ok(());
        }
    }
}

/// Sends what the source gives as soon as it gives it.
fn send_rest(
    to: &mut impl ResponseSink,
    piece: &mut [u8],
    mut source: Box<dyn BodySource>,
) -> Result<(), SendFailure> {
    loop {
        match read(&mut *source, piece)? {
            0 => return Ok(()),
            count => to.write_all([&piece[..count]]).map_err(gone)?,
        }
    }
}

/// Fills `buf` from the source.
fn fill(source: &mut dyn BodySource, buf: &mut [u8]) -> Result<(), SendFailure> {
    let mut filled = 0;
    while filled < buf.len() {
        match read(source, &mut buf[filled..])? {
            0 => return Err(broken("the source ends before its length")),
            count => filled += count,
        }
    }
    Ok(())
}

fn read(source: &mut dyn BodySource, buf: &mut [u8]) -> Result<usize, SendFailure> {
    source.read(buf).map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => SendFailure::ClientGone,
        _ => SendFailure::BrokenSource(error),
    })
}

// By value, as `map_err` hands it over.
#[allow(clippy::needless_pass_by_value)]
fn gone(_: io::Error) -> SendFailure {
    SendFailure::ClientGone
}

fn broken(what: &str) -> SendFailure {
    SendFailure::BrokenSource(io::Error::other(what))
}
