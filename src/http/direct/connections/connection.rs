//! One open connection.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::SlotGuard;
use crate::base::{Budget, Reservation, limits};
use crate::http::client_origin::ClientOrigin;
use crate::http::direct::pending_response::PendingResponse;
use crate::http::direct::stream::ClientStream;

/// There is no memory for more received bytes.
#[derive(Debug)]
pub(crate) struct NoMemory;

/// The phase of a connection's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConnectionPhase {
    /// The TLS handshake is not complete.
    Handshake,
    /// The client sends requests.
    Requests,
    /// The last response has been sent. At most that many more bytes are received and discarded: a
    /// client that is still sending must be able to read its response, which a reset would destroy
    /// (RFC 9112, section 9.6).
    Draining(u64),
}

/// An open connection. The holder of its box owns it: only the owner reads and writes. Dropping it
/// closes the connection.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(super) slot: SlotGuard,
    /// The socket.
    pub(crate) stream: Arc<ClientStream>,
    /// The client's address.
    pub(crate) peer: SocketAddr,
    /// The phase of its life.
    pub(crate) phase: ConnectionPhase,
    /// When it is closed if no event comes.
    pub(crate) deadline: Instant,
    /// When it was last served.
    idle_since: Instant,
    /// When it was last queued for a worker.
    pub(crate) queued_at: Instant,
    /// Received bytes that belong to no request yet. Allocated only while there are any.
    pub(crate) received: Vec<u8>,
    /// The memory reserved for them.
    reservation: Reservation,
    /// How many of them are known to hold no complete head.
    pub(crate) searched_len: usize,
    /// How many of them there must be before a worker is needed; 0 before the head is complete.
    pub(crate) awaited_len: usize,
    /// Whether the reserve of workers is for its request, or for its next step.
    pub(crate) uses_reserve: bool,
    /// A response that waits for a worker or for the client.
    pub(crate) pending_response: Option<Box<PendingResponse>>,
    /// Whether the poller knows the socket.
    pub(super) is_registered: bool,
}

impl Connection {
    /// A connection accepted at `now`.
    pub(super) fn new(
        slot: SlotGuard,
        stream: Arc<ClientStream>,
        peer: SocketAddr,
        now: Instant,
        deadline: Instant,
    ) -> Self {
        let encrypted = stream.is_encrypted();
        Self {
            slot,
            stream,
            peer,
            phase: if encrypted { ConnectionPhase::Handshake } else { ConnectionPhase::Requests },
            deadline,
            idle_since: now,
            queued_at: now,
            received: Vec::new(),
            reservation: Reservation::default(),
            searched_len: 0,
            awaited_len: 0,
            uses_reserve: false,
            pending_response: None,
            is_registered: false,
        }
    }

    /// Appends received bytes. More than [`limits::UNRESERVED_HEAD_BYTES`] in all take a
    /// reservation of `len_max` from `memory`.
    ///
    /// # Errors
    /// When there is no memory for them.
    pub(crate) fn append_received(
        &mut self,
        bytes: &[u8],
        len_max: usize,
        memory: &Arc<Budget>,
    ) -> Result<(), NoMemory> {
        let is_small = self.received.len() + bytes.len() <= limits::UNRESERVED_HEAD_BYTES;
        if !is_small {
            self.reserve(len_max, memory)?;
        }
        if self.received.len() + bytes.len() > self.received.capacity() {
            // Exactly what is reserved: doubling would take memory that the budget knows nothing
            // of.
            let additional = if is_small { bytes.len() } else { len_max - self.received.len() };
            self.received.reserve_exact(additional);
        }
        self.received.extend_from_slice(bytes);
        Ok(())
    }

    /// Reserves `len_max` bytes for the received bytes, unless that has been done.
    ///
    /// # Errors
    /// When there is no memory for them.
    pub(crate) fn reserve(&mut self, len_max: usize, memory: &Arc<Budget>) -> Result<(), NoMemory> {
        if self.reservation.bytes() == 0 {
            self.reservation = memory.reserve(len_max as u64).ok_or(NoMemory)?;
        }
        Ok(())
    }

    /// Begins to wait for the next request, for at most `time`.
    pub(crate) fn wait_for_request(&mut self, now: Instant, time: Duration) {
        self.idle_since = now;
        self.deadline = now + time;
    }

    /// Since when it has been idle, if another connection may displace it: no response is pending
    /// and no request is complete.
    pub(super) fn evictable_since(&self) -> Option<Instant> {
        let is_idle = !self.is_draining() && self.pending_response.is_none() && self.awaited_len == 0;
        is_idle.then_some(self.idle_since)
    }

    /// The client that it counts for.
    pub(crate) fn origin(&self) -> ClientOrigin {
        ClientOrigin::of(self.peer.ip())
    }

    /// Takes the received bytes and their reservation.
    pub(crate) fn take_received(&mut self) -> (Vec<u8>, Reservation) {
        (std::mem::take(&mut self.received), std::mem::take(&mut self.reservation))
    }

    /// Drops the received bytes: no request has begun.
    pub(crate) fn discard_received(&mut self) {
        self.take_received();
        self.searched_len = 0;
        self.awaited_len = 0;
    }

    /// Whether its last response has been sent.
    pub(super) fn is_draining(&self) -> bool {
        matches!(self.phase, ConnectionPhase::Draining(_))
    }
}
