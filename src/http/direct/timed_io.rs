//! Bytes from and to a peer, for as long as its stall budget allows.

use std::io::{self, IoSlice};
use std::time::Duration;

use super::socket::is_would_block;
use super::stall_budget::StallBudget;
use super::stream::ClientStream;
use crate::base::limits;
use crate::s3::{ErrorCode, S3Error};

/// The wait after which a peer that makes no room counts as stalled.
const YIELD_AFTER: Duration = Duration::from_millis(limits::YIELD_AFTER_MILLIS);

/// Receives at least one byte of a request body.
///
/// # Errors
/// `IncompleteBody` when the connection has ended, `RequestTimeout` when the budget is used up.
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
                // The socket's own time-out is short. Longer waits go by slices, so that each is
                // charged by the load of its time.
                let slice = budget.wait_slice();
                budget.charge(|| stream.wait_readable(slice));
            }
        }
    }
}

/// How far a send has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SendProgress {
    /// All bytes were sent.
    Complete,
    /// That many bytes were sent; the peer receives no more for the moment.
    Partial(usize),
}

/// Sends `parts` in order, without their first `skipped` bytes. While `should_yield` holds, a
/// stalled peer ends the call early.
///
/// # Errors
/// `TimedOut` when the budget is used up, or the error of the connection.
pub(super) fn send_all<const N: usize>(
    stream: &ClientStream,
    parts: [&[u8]; N],
    skipped: usize,
    budget: &mut StallBudget<'_>,
    should_yield: &dyn Fn() -> bool,
) -> io::Result<SendProgress> {
    let mut slices = parts.map(IoSlice::new);
    let mut rest = &mut slices[..];
    IoSlice::advance_slices(&mut rest, skipped);
    let mut sent = skipped;
    let mut has_waited = false;
    while !rest.is_empty() {
        // Asked for each piece, since the load changes while a client is slow.
        let yields = should_yield();
        match send_some(stream, rest, budget, yields) {
            Ok(count) => {
                IoSlice::advance_slices(&mut rest, count);
                sent += count;
                has_waited = false;
            }
            Err(error) if !is_would_block(&error) => return Err(error),
            Err(_) if yields && has_waited => return Ok(SendProgress::Partial(sent)),
            // One short wait before the worker leaves: a client that still reads makes room within
            // it, and parking a response costs more.
            Err(_) if yields => {
                budget.charge(|| stream.wait_writable(YIELD_AFTER));
                has_waited = true;
            }
            Err(_) => {}
        }
        if budget.remaining().is_zero() && !rest.is_empty() {
            return Err(io::ErrorKind::TimedOut.into());
        }
    }
    let flushed = flush(stream, budget, should_yield)?;
    Ok(if flushed { SendProgress::Complete } else { SendProgress::Partial(sent) })
}

/// Sends at least one byte of `slices`, without waiting if the worker yields.
fn send_some(
    stream: &ClientStream,
    slices: &[IoSlice<'_>],
    budget: &mut StallBudget<'_>,
    yields: bool,
) -> io::Result<usize> {
    let count = if yields { stream.try_send(slices) } else { budget.charge(|| stream.send(slices)) }?;
    if count == 0 {
        return Err(io::ErrorKind::WriteZero.into());
    }
    budget.earn(count);
    Ok(count)
}

/// Sends the bytes that the encryption has kept back. Returns whether all of them were sent.
fn flush(
    stream: &ClientStream,
    budget: &mut StallBudget<'_>,
    should_yield: &dyn Fn() -> bool,
) -> io::Result<bool> {
    loop {
        match budget.charge(|| stream.flush()) {
            Err(error) if is_would_block(&error) && should_yield() => return Ok(false),
            Err(error) if is_would_block(&error) && !budget.remaining().is_zero() => {}
            outcome => return outcome.map(|()| true),
        }
    }
}
