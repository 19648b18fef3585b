//! Bytes to and from a peer, for as long as its budget allows.

use std::io::{self, IoSlice};
use std::time::Duration;

use super::stall_budget::StallBudget;
use super::stream::{ClientStream, is_would_block};
use crate::base::limits;
use crate::s3::{ErrorCode, S3Error};

/// A peer that takes its response as it comes has made room after that long.
const YIELD_AFTER: Duration = Duration::from_millis(limits::YIELD_AFTER_MILLIS);

/// Receives at least one byte of a request body.
///
/// # Errors
/// `IncompleteBody` when the connection has ended, `RequestTimeout` when the peer has used up the patience.
pub(super) fn receive(
    stream: &ClientStream,
    buf: &mut [u8],
    budget: &mut StallBudget<'_>,
) -> Result<usize, S3Error> {
    loop {
        match budget.charge(|| stream.receive(buf)) {
            Ok(0) => return Err(S3Error::new(ErrorCode::IncompleteBody)),
            Ok(count) => {
                budget.earn(count);
                return Ok(count);
            }
            Err(error) if !is_would_block(&error) => return Err(S3Error::new(ErrorCode::IncompleteBody)),
            Err(_) if budget.remaining().is_zero() => return Err(S3Error::new(ErrorCode::RequestTimeout)),
            Err(_) => {
                let slice = budget.wait_slice();
                budget.charge(|| stream.wait_readable(slice));
            }
        }
    }
}

/// How far sending has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SendProgress {
    /// To the end.
    Complete,
    /// So many bytes; the peer takes no more for now.
    Partial(usize),
}

/// Sends all of `parts` behind the first `skipped` bytes, one part behind the other. Where `yields` says so, a peer that takes
/// nothing for a moment is not waited for.
///
/// # Errors
/// `TimedOut` when the peer has used up the patience, or what the connection has met with.
pub(super) fn send_all<const N: usize>(
    stream: &ClientStream,
    parts: [&[u8]; N],
    skipped: usize,
    budget: &mut StallBudget<'_>,
    yields: &dyn Fn() -> bool,
) -> io::Result<SendProgress> {
    let mut slices = parts.map(IoSlice::new);
    let mut rest = &mut slices[..];
    IoSlice::advance_slices(&mut rest, skipped);
    let (mut sent, mut has_waited) = (skipped, false);
    while !rest.is_empty() {
        let at_once = yields();
        match if at_once { stream.try_send(rest) } else { budget.charge(|| stream.send(rest)) } {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => {
                budget.earn(count);
                IoSlice::advance_slices(&mut rest, count);
                (sent, has_waited) = (sent + count, false);
            }
            Err(error) if !is_would_block(&error) => return Err(error),
            Err(_) if at_once && has_waited => return Ok(SendProgress::Partial(sent)),
            Err(_) if at_once => {
                budget.charge(|| stream.wait_writable(YIELD_AFTER));
                has_waited = true;
            }
            Err(_) => {}
        }
        if budget.remaining().is_zero() && !rest.is_empty() {
            return Err(io::ErrorKind::TimedOut.into());
        }
    }
    flush(stream, budget, yields)
        .map(|flushed| if flushed { SendProgress::Complete } else { SendProgress::Partial(sent) })
}

/// Sends what the encryption has kept back; whether that was all of it.
fn flush(stream: &ClientStream, budget: &mut StallBudget<'_>, yields: &dyn Fn() -> bool) -> io::Result<bool> {
    loop {
        match budget.charge(|| stream.flush()) {
            Err(error) if is_would_block(&error) && yields() => return Ok(false),
            Err(error) if is_would_block(&error) && !budget.remaining().is_zero() => {}
            outcome => return outcome.map(|()| true),
        }
    }
}
