//! What a worker sends: responses, framed, with as few calls to the system as their bodies allow.

use std::io::{self, Write};

use super::response::{Asked, DateLine, Framing, write_head};
use crate::base::{Timestamp, limits};
use crate::s3::{BodySource, Response, ResponseBody};

/// Why a response did not get out whole.
#[derive(Debug)]
pub(super) enum Failure {
    /// The source of the body failed, or did not keep to the length that it was said to have.
    Source(io::Error),
    /// The client is gone or takes nothing.
    Client,
    /// The recipient has kept back a part of what it was given. This is to follow it.
    Stalled(Rest),
}

/// The part of a body behind what a recipient was given.
pub(super) struct Rest {
    /// `None` where there is no more.
    source: Option<Box<dyn BodySource>>,
    left: u64,
}

impl std::fmt::Debug for Rest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rest").field("left", &self.left).finish_non_exhaustive()
    }
}

/// Whom a response goes to.
pub(super) trait Recipient {
    /// Sends all of `parts`, one behind the other. From the first call on no other response can take the place of this one.
    ///
    /// # Errors
    /// `WouldBlock` where the client takes nothing for now and the recipient keeps back what it did not take: then nothing
    /// may follow before that. Anything else: the client is gone or takes nothing.
    fn put<const N: usize>(&mut self, parts: [&[u8]; N]) -> io::Result<()>;

    /// The most that should be put at a time.
    fn piece_max(&self) -> usize {
        limits::RESPONSE_BUFFER_BYTES
    }
}

/// How a response is sent beyond what it says itself.
#[derive(Debug, Clone, Copy)]
pub(super) struct Manner {
    /// What the request asked for.
    pub(super) asked: Asked,
    /// How the body is framed.
    pub(super) framing: Framing,
    /// Whether it is the last response of its connection.
    pub(super) close: bool,
}

/// The buffers that a worker sends from.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    head: Vec<u8>,
    /// A piece of a body; without memory until the first that needs it.
    piece: Vec<u8>,
    date: DateLine,
}

impl Outbox {
    /// Sends a response at the time `now`.
    ///
    /// # Errors
    /// Where anything has been put, the client has a part, and the connection must be cut.
    pub(super) fn send(
        &mut self,
        to: &mut impl Recipient,
        response: Response,
        manner: Manner,
        now: Timestamp,
    ) -> Result<(), Failure> {
        let Self { head, piece, date } = self;
        head.clear();
        write_head(head, &response, manner.framing, manner.asked, manner.close, date.at(now));
        match (manner.framing, response.body) {
            (Framing::Length(_), ResponseBody::Bytes(body)) => {
                to.put([head, &body]).map_err(|error| halted(&error, None, 0))
            }
            (Framing::Length(length), ResponseBody::Stream { source, .. }) => {
                send_counted(to, head, grown(piece), source, length)
            }
            (Framing::Chunked, ResponseBody::Stream { source, .. }) => {
                to.put([head]).map_err(gone)?;
                send_chunks(to, grown(piece), source)
            }
            (Framing::UntilClose, ResponseBody::Stream { source, .. }) => {
                to.put([head]).map_err(gone)?;
                send_rest(to, grown(piece), source)
            }
            _ => to.put([head]).map_err(|error| halted(&error, None, 0)),
        }
    }

    /// Goes on with a response, when the recipient has sent what it had kept back.
    ///
    /// # Errors
    /// As `send`.
    pub(super) fn resume(&mut self, to: &mut impl Recipient, rest: Rest) -> Result<(), Failure> {
        match rest.source {
            Some(source) => send_counted(to, &[], grown(&mut self.piece), source, rest.left),
            None => Ok(()),
        }
    }
}

/// Why sending ends where `left` bytes of `source` are to follow.
fn halted(error: &io::Error, source: Option<Box<dyn BodySource>>, left: u64) -> Failure {
    match error.kind() {
        io::ErrorKind::WouldBlock => Failure::Stalled(Rest { source, left }),
        _ => Failure::Client,
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
    to: &mut impl Recipient,
    mut head: &[u8],
    piece: &mut [u8],
    mut source: Box<dyn BodySource>,
    length: u64,
) -> Result<(), Failure> {
    let mut left = length;
    loop {
        let count = piece.len().min(to.piece_max()).min(usize::try_from(left).unwrap_or(usize::MAX));
        fill(&mut *source, &mut piece[..count])?;
        left -= count as u64;
        if left == 0 && read(&mut *source, &mut [0])? > 0 {
            return Err(broken("the source holds more than its length"));
        }
        if let Err(error) = to.put([head, &piece[..count]]) {
            return Err(halted(&error, (left > 0).then_some(source), left));
        }
        if left == 0 {
            return Ok(());
        }
        head = &[];
    }
}

/// Sends what the source gives as soon as it gives it, each time as one chunk.
fn send_chunks(
    to: &mut impl Recipient,
    piece: &mut [u8],
    mut source: Box<dyn BodySource>,
) -> Result<(), Failure> {
    let mut size_line = Vec::new();
    loop {
        let count = read(&mut *source, piece)?;
        size_line.clear();
        write!(size_line, "{count:x}\r\n").expect("a vector takes every byte");
        // The last chunk is empty, and an empty trailer section follows: it looks like any other.
        to.put([&size_line, &piece[..count], b"\r\n"]).map_err(gone)?;
        if count == 0 {
            return Ok(());
        }
    }
}

/// Sends what the source gives as soon as it gives it.
fn send_rest(
    to: &mut impl Recipient,
    piece: &mut [u8],
    mut source: Box<dyn BodySource>,
) -> Result<(), Failure> {
    loop {
        match read(&mut *source, piece)? {
            0 => return Ok(()),
            count => to.put([&piece[..count]]).map_err(gone)?,
        }
    }
}

/// Fills `buf` from the source.
fn fill(source: &mut dyn BodySource, buf: &mut [u8]) -> Result<(), Failure> {
    let mut filled = 0;
    while filled < buf.len() {
        match read(source, &mut buf[filled..])? {
            0 => return Err(broken("the source ends before its length")),
            count => filled += count,
        }
    }
    Ok(())
}

fn read(source: &mut dyn BodySource, buf: &mut [u8]) -> Result<usize, Failure> {
    source.read(buf).map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => Failure::Client,
        _ => Failure::Source(error),
    })
}

// By value, as `map_err` hands it over.
#[allow(clippy::needless_pass_by_value)]
fn gone(_: io::Error) -> Failure {
    Failure::Client
}

fn broken(what: &str) -> Failure {
    Failure::Source(io::Error::other(what))
}
