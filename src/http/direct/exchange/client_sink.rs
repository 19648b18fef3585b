//! Sends a response to its client, and keeps the bytes that a stalled client does not receive.

use std::io;
use std::sync::Arc;

use crate::base::{Budget, limits};
use crate::http::direct::pending_response::UnsentBytes;
use crate::http::direct::stall_budget::StallBudget;
use crate::http::direct::stream::ClientStream;
use crate::http::direct::timed_io::{SendProgress, send_all};
use crate::http::response_writer::ResponseSink;

/// The client that a response goes to.
pub(super) struct ClientSink<'w> {
    pub(super) stream: &'w ClientStream,
    /// How long the client may stall the worker.
    pub(super) budget: StallBudget<'w>,
    /// Set before the first byte is sent.
    pub(super) response_started: &'w mut bool,
    /// Whether the worker should leave a stalled client.
    pub(super) should_yield: &'w (dyn Fn() -> bool + 'w),
    /// Bytes kept for a stalled client are reserved from it.
    pub(super) memory: &'w Arc<Budget>,
    pub(super) unsent: UnsentBytes,
}

impl ClientSink<'_> {
    /// Sends the bytes kept from an earlier stall. Returns whether the client has received all of
    /// them.
    ///
    /// # Errors
    /// As `send_all`.
    pub(super) fn send_unsent(&mut self) -> io::Result<bool> {
        let UnsentBytes { bytes, sent, .. } = &mut self.unsent;
        match send_all(self.stream, [bytes], *sent, &mut self.budget, self.should_yield)? {
            SendProgress::Partial(count) => {
                *sent = count;
                Ok(false)
            }
            SendProgress::Complete => {
                self.unsent = UnsentBytes::default();
                Ok(true)
            }
        }
    }

    /// Keeps `parts` without their first `sent` bytes. Returns whether there is memory for them.
    fn keep_unsent(&mut self, parts: &[&[u8]], sent: usize) -> bool {
        let len = parts.iter().map(|part| part.len()).sum::<usize>() - sent;
        let Some(reservation) = self.memory.reserve(len as u64) else {
            return false;
        };
        let mut bytes = Vec::with_capacity(len);
        let mut to_skip = sent;
        for part in parts {
            let skipped = to_skip.min(part.len());
            bytes.extend_from_slice(&part[skipped..]);
            to_skip -= skipped;
        }
        self.unsent = UnsentBytes { bytes, sent: 0, _reservation: reservation };
        true
    }
}

impl ResponseSink for ClientSink<'_> {
    /// Keeps the bytes that a stalled client does not receive. Where there is no memory for them,
    /// waits for the client.
    fn write_all<const N: usize>(&mut self, parts: [&[u8]; N]) -> io::Result<()> {
        *self.response_started = true;
        let progress = send_all(self.stream, parts, 0, &mut self.budget, self.should_yield)?;
        let SendProgress::Partial(sent) = progress else {
            return Ok(());
        };
        if self.keep_unsent(&parts, sent) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        send_all(self.stream, parts, sent, &mut self.budget, &|| false).map(drop)
    }

    /// Small pieces while the worker should yield, so that few bytes have to be kept.
    fn piece_len_max(&self) -> usize {
        if (self.should_yield)() { limits::BLOCK_BYTES as usize } else { limits::RESPONSE_BUFFER_BYTES }
    }
}
