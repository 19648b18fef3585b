//! Bytes to and from a peer, for as long as its pace allows.

use std::io::{self, IoSlice};

use super::pace::Pace;
use super::stream::{Stream, is_wait};
use crate::s3::{ErrorCode, S3Error};

/// Receives at least one byte of a request body.
///
/// # Errors
/// `IncompleteBody` when the connection has ended, `RequestTimeout` when the peer has used up the patience.
pub(super) fn receive(stream: &Stream, buf: &mut [u8], pace: &mut Pace<'_>) -> Result<usize, S3Error> {
    loop {
        match pace.waiting(|| stream.receive(buf)) {
            Ok(0) => return Err(S3Error::new(ErrorCode::IncompleteBody)),
            Ok(count) => {
                pace.moved(count);
                return Ok(count);
            }
            Err(error) if !is_wait(&error) => return Err(S3Error::new(ErrorCode::IncompleteBody)),
            Err(_) if pace.left().is_zero() => return Err(S3Error::new(ErrorCode::RequestTimeout)),
            Err(_) => {
                let slice = pace.slice();
                pace.waiting(|| stream.wait_readable(slice));
            }
        }
    }
}

/// Sends all of `parts`, one behind the other.
///
/// # Errors
/// `TimedOut` when the peer has used up the patience, or what the connection has met with.
pub(super) fn transmit<const N: usize>(
    stream: &Stream,
    parts: [&[u8]; N],
    pace: &mut Pace<'_>,
) -> io::Result<()> {
    let mut slices = parts.map(IoSlice::new);
    let mut rest = &mut slices[..];
    IoSlice::advance_slices(&mut rest, 0);
    while !rest.is_empty() {
        match pace.waiting(|| stream.send(rest)) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => {
                pace.moved(count);
                IoSlice::advance_slices(&mut rest, count);
            }
            Err(error) if is_wait(&error) => {}
            Err(error) => return Err(error),
        }
        if pace.left().is_zero() && !rest.is_empty() {
            return Err(io::ErrorKind::TimedOut.into());
        }
    }
    loop {
        match pace.waiting(|| stream.flush()) {
            Err(error) if is_wait(&error) && !pace.left().is_zero() => {}
            outcome => return outcome,
        }
    }
}
