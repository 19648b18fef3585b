//! Writes framed responses with few system calls.

use std::io::{self, Write};

use super::response::{DateHeader, ResponseFraming, SendOptions, write_head};
use crate::base::{Timestamp, limits};
use crate::s3::{BodySource, ErrorCode, Response, ResponseBody, S3Error};

/// Why a response was not sent to its end.
#[derive(Debug)]
pub(super) enum SendFailure {
    /// The source of the body failed, or gave more or fewer bytes than announced.
    BrokenSource(io::Error),
    /// The client is gone, or has used up its stall budget.
    ClientGone,
    /// The client stalls, and the sink keeps the bytes that it did not receive. This is the body
    /// after them.
    Stalled(RemainingBody),
}

/// The part of a body that no sink has been given.
pub(super) struct RemainingBody {
    /// `None` if there is no more.
    source: Option<Box<dyn BodySource>>,
    len: u64,
}

impl std::fmt::Debug for RemainingBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RemainingBody").field("len", &self.len).finish_non_exhaustive()
    }
}

/// The destination of a response.
pub(super) trait ResponseSink {
    /// Sends all of `parts` in order. From the first call on no other response can replace this
    /// one.
    ///
    /// # Errors
    /// `WouldBlock` if the client stalls: the sink keeps the bytes that it did not receive, and
    /// must send them before any others. Any other error: the client is gone, or has used up its
    /// stall budget.
    fn write_all<const N: usize>(&mut self, parts: [&[u8]; N]) -> io::Result<()>;

    /// The longest piece of a body that should be written at a time.
    fn piece_len_max(&self) -> usize {
        limits::RESPONSE_BUFFER_BYTES
    }
}

/// The buffers from which a worker sends.
#[derive(Debug, Default)]
pub(super) struct ResponseWriter {
    head: Vec<u8>,
    /// A piece of a streamed body. Allocated for the first such body.
    piece: Vec<u8>,
    date: DateHeader,
}

impl ResponseWriter {
    /// Sends a response with the date `now`.
    ///
    /// # Errors
    /// As [`SendFailure`] says. If anything has been written, the client has received a part of the
    /// response, and the connection must be aborted.
    pub(super) fn send(
        &mut self,
        sink: &mut impl ResponseSink,
        response: Response,
        options: SendOptions,
        now: Timestamp,
    ) -> Result<(), SendFailure> {
        let Self { head, piece, date } = self;
        head.clear();
        write_head(head, &response, options, date.at(now));
        match (options.framing, response.body) {
            (ResponseFraming::Length(_), ResponseBody::Bytes(body)) => {
                sink.write_all([head, &body]).map_err(|error| write_failure(&error, None, 0))
            }
            (ResponseFraming::Length(length), ResponseBody::Stream { source, .. }) => {
                send_counted(sink, head, allocated(piece), source, length)
            }
            (ResponseFraming::Chunked, ResponseBody::Stream { source, .. }) => {
                sink.write_all([head]).map_err(client_gone)?;
                send_chunks(sink, allocated(piece), source)
            }
            (ResponseFraming::UntilClose, ResponseBody::Stream { source, .. }) => {
                sink.write_all([head]).map_err(client_gone)?;
                send_until_close(sink, allocated(piece), source)
            }
            _ => sink.write_all([head]).map_err(|error| write_failure(&error, None, 0)),
        }
    }

    /// Sends the rest of a response, after the sink has sent the bytes that it kept.
    ///
    /// # Errors
    /// As `send`.
    pub(super) fn resume(
        &mut self,
        sink: &mut impl ResponseSink,
        rest: RemainingBody,
    ) -> Result<(), SendFailure> {
        match rest.source {
            Some(source) => send_counted(sink, &[], allocated(&mut self.piece), source, rest.len),
            None => Ok(()),
        }
    }
}

/// The failure of a write after which `len` bytes of `source` would follow.
fn write_failure(error: &io::Error, source: Option<Box<dyn BodySource>>, len: u64) -> SendFailure {
    match error.kind() {
        io::ErrorKind::WouldBlock => SendFailure::Stalled(RemainingBody { source, len }),
        _ => SendFailure::ClientGone,
    }
}

/// The buffer for pieces, allocated on first use.
fn allocated(piece: &mut Vec<u8>) -> &mut [u8] {
    piece.resize(limits::RESPONSE_BUFFER_BYTES, 0);
    piece
}

/// Sends a body of `length` bytes, the first piece together with the head. The last piece is sent
/// only after the source has reported its end without an error: until then the client must not take
/// the body for complete.
fn send_counted(
    sink: &mut impl ResponseSink,
    mut head: &[u8],
    piece: &mut [u8],
    mut source: Box<dyn BodySource>,
    length: u64,
) -> Result<(), SendFailure> {
    let mut remaining = length;
    loop {
        let most = piece.len().min(sink.piece_len_max()).min(source.piece_len_max());
        let count = most.min(usize::try_from(remaining).unwrap_or(usize::MAX));
        fill(&mut *source, &mut piece[..count])?;
        remaining -= count as u64;
        // A source may report damage only at its end.
        if remaining == 0 && read(&mut *source, &mut [0])? > 0 {
            return Err(broken("the source gives more than its announced length"));
        }
        if let Err(error) = sink.write_all([head, &piece[..count]]) {
            return Err(write_failure(&error, (remaining > 0).then_some(source), remaining));
        }
        if remaining == 0 {
            return Ok(());
        }
        head = &[];
    }
}

/// Sends each piece of the source as one chunk, as soon as it comes.
fn send_chunks(
    sink: &mut impl ResponseSink,
    piece: &mut [u8],
    mut source: Box<dyn BodySource>,
) -> Result<(), SendFailure> {
    let mut size_line = Vec::new();
    loop {
        let count = read(&mut *source, piece)?;
        size_line.clear();
        write!(size_line, "{count:x}\r\n").expect("a vector takes every byte");
        // The last chunk is empty. The line after it is the empty trailer section.
        sink.write_all([&size_line, &piece[..count], b"\r\n"]).map_err(client_gone)?;
        if count == 0 {
            return Ok(());
        }
    }
}

/// Sends each piece of the source as soon as it comes.
fn send_until_close(
    sink: &mut impl ResponseSink,
    piece: &mut [u8],
    mut source: Box<dyn BodySource>,
) -> Result<(), SendFailure> {
    loop {
        match read(&mut *source, piece)? {
            0 => return Ok(()),
            count => sink.write_all([&piece[..count]]).map_err(client_gone)?,
        }
    }
}

/// Fills `buf` from the source.
fn fill(source: &mut dyn BodySource, buf: &mut [u8]) -> Result<(), SendFailure> {
    let mut filled = 0;
    while filled < buf.len() {
        match read(source, &mut buf[filled..])? {
            0 => return Err(broken("the source ends before its announced length")),
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

// By value, as `map_err` passes it.
#[allow(clippy::needless_pass_by_value)]
fn client_gone(_: io::Error) -> SendFailure {
    SendFailure::ClientGone
}

/// The error to answer where the source of a response broke before its first byte was sent: the one
/// that the source states, as for bytes on a remote that is away.
pub(super) fn error_of_source(error: &io::Error) -> S3Error {
    let stated = error.get_ref().and_then(|inner| inner.downcast_ref::<S3Error>());
    stated.cloned().unwrap_or_else(|| S3Error::new(ErrorCode::InternalError))
}

fn broken(reason: &str) -> SendFailure {
    SendFailure::BrokenSource(io::Error::other(reason))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_source_is_answered_with_the_error_that_it_states() {
        let stated = io::Error::other(S3Error::slow_down());
        assert_eq!(error_of_source(&stated).code, ErrorCode::SlowDown);
        assert_eq!(error_of_source(&io::Error::other("why")).code, ErrorCode::InternalError);
    }

    /// A source whose bytes come from another host: some are here.
    struct ComingBody {
        at_hand: usize,
        left: usize,
    }

    impl BodySource for ComingBody {
        fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
            let count = buf.len().min(self.left);
            self.at_hand = self.at_hand.saturating_sub(count);
            self.left -= count;
            Ok(count)
        }

        fn piece_len_max(&self) -> usize {
            if self.at_hand > 0 { self.at_hand } else { usize::MAX }
        }
    }

    /// The lengths of the writes.
    #[derive(Default)]
    struct WriteLengths(Vec<usize>);

    impl ResponseSink for WriteLengths {
        fn write_all<const N: usize>(&mut self, parts: [&[u8]; N]) -> io::Result<()> {
            self.0.push(parts.iter().map(|part| part.len()).sum());
            Ok(())
        }
    }

    #[test]
    fn bytes_that_are_here_are_sent_before_others_are_waited_for() {
        let mut piece = Vec::new();
        let mut sink = WriteLengths::default();
        let body = ComingBody { at_hand: 65_536, left: 400_000 };
        send_counted(&mut sink, b"head", allocated(&mut piece), Box::new(body), 400_000).unwrap();
        assert_eq!(sink.0, [4 + 65_536, limits::RESPONSE_BUFFER_BYTES, 400_000 - 65_536 - 262_144]);
    }
}
