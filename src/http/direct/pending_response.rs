//! A response that waits: for a worker of its class, or for its client to receive more of it.

use std::time::Duration;

use super::worker_class::WorkerClass;
use crate::base::Reservation;
use crate::base::limits::SMALL_BODY_MAX_BYTES;
use crate::http::response::RequestTraits;
use crate::http::response_writer::RemainingBody;
use crate::s3::{Response, ResponseBody};

/// A response that is ready to be sent, or the part of it that has not been sent.
pub(super) struct PendingResponse {
    /// The bytes to send.
    pub(super) content: UnsentContent,
    /// The properties of its request that decide its framing.
    pub(super) traits: RequestTraits,
    /// Whether it is the last response of its connection.
    pub(super) close: bool,
    /// Whether the client has sent all that it will ever send.
    pub(super) request_complete: bool,
}

/// How much of a response is left to send.
pub(super) enum UnsentContent {
    Response(Response),
    /// A part of its body.
    Tail(Box<ResponseTail>),
}

/// The unsent part of a response that has been started.
pub(super) struct ResponseTail {
    /// The bytes to send first.
    pub(super) unsent: UnsentBytes,
    /// The body after them.
    pub(super) rest: RemainingBody,
    /// The memory that the handler has reserved for the response.
    pub(super) reservation: Reservation,
    /// How long the client may go on stalling.
    pub(super) stall_budget: Duration,
}

/// Bytes that a client did not receive, with the memory reserved for them.
#[derive(Default)]
pub(super) struct UnsentBytes {
    pub(super) bytes: Vec<u8>,
    /// How many of them have been sent since.
    pub(super) sent: usize,
    /// The memory that they occupy.
    pub(super) _reservation: Reservation,
}

impl std::fmt::Debug for PendingResponse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PendingResponse")
            .field("response_started", &self.response_started())
            .finish_non_exhaustive()
    }
}

impl PendingResponse {
    /// The class of the work of sending it.
    pub(super) fn class(&self) -> WorkerClass {
        let UnsentContent::Response(response) = &self.content else { return WorkerClass::Large };
        match &response.body {
            // Its work is still to be done: most of it is none of the client's time.
            ResponseBody::Deferred(_) => WorkerClass::Heavy,
            ResponseBody::Stream { length, .. } if !self.traits.head_only => match length {
                Some(..=SMALL_BODY_MAX_BYTES) => WorkerClass::Small,
                _ => WorkerClass::Large,
            },
            _ => WorkerClass::Small,
        }
    }

    /// Whether a part of it has been sent, so that no other response can replace it.
    pub(super) fn response_started(&self) -> bool {
        matches!(self.content, UnsentContent::Tail(_))
    }

    /// How long its client may go on stalling; zero before it has been started.
    pub(super) fn stall_budget(&self) -> Duration {
        match &self.content {
            UnsentContent::Tail(tail) => tail.stall_budget,
            UnsentContent::Response(_) => Duration::ZERO,
        }
    }

    /// Sets how long its client may go on stalling, if it has been started.
    pub(super) fn set_stall_budget(&mut self, remaining: Duration) {
        if let UnsentContent::Tail(tail) = &mut self.content {
            tail.stall_budget = remaining;
        }
    }
}
