//! Counts of requests, by the classes that providers bill.

use std::sync::atomic::{AtomicU64, Ordering};

/// The kind of a call, and of the requests that it sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemoteCall {
    /// [`Remote::put`](super::Remote::put)
    Put,
    /// [`RemoteView::head`](super::RemoteView::head)
    Head,
    /// [`RemoteView::get_part`](super::RemoteView::get_part)
    Get,
    /// [`Remote::delete`](super::Remote::delete)
    Delete,
    /// [`RemoteView::list`](super::RemoteView::list)
    List,
}

impl RemoteCall {
    /// All kinds, in the order of their numbers.
    pub const ALL: [Self; 5] = [Self::Put, Self::Head, Self::Get, Self::Delete, Self::List];

    /// The name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Put => "put",
            Self::Head => "head",
            Self::Get => "get",
            Self::Delete => "delete",
            Self::List => "list",
        }
    }

    /// The method of its requests.
    pub(super) fn method(self) -> &'static str {
        match self {
            Self::Put => "PUT",
            Self::Head => "HEAD",
            Self::Get | Self::List => "GET",
            Self::Delete => "DELETE",
        }
    }
}

/// Requests of one kind since the start. Each try of a call is one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestFigures {
    /// The requests.
    pub requests: u64,
    /// Those that were not answered, or with an error. 404 and 412 are answers.
    pub failures: u64,
    /// The bytes of their bodies.
    pub sent_bytes: u64,
    /// The bytes of the bodies of good answers.
    pub received_bytes: u64,
}

/// The requests of each kind, in the order of [`RemoteCall::ALL`].
pub type RequestsByCall = [RequestFigures; RemoteCall::ALL.len()];

/// Running counts.
#[derive(Debug, Default)]
pub(super) struct RequestCounters([CallCounters; RemoteCall::ALL.len()]);

#[derive(Debug, Default)]
struct CallCounters {
    requests: AtomicU64,
    failures: AtomicU64,
    sent_bytes: AtomicU64,
    received_bytes: AtomicU64,
}

impl RequestCounters {
    /// Adds a request.
    pub(super) fn add(&self, call: RemoteCall, is_failure: bool, sent: u64, received: u64) {
        let counters = &self.0[call as usize];
        counters.requests.fetch_add(1, Ordering::Relaxed);
        counters.failures.fetch_add(u64::from(is_failure), Ordering::Relaxed);
        counters.sent_bytes.fetch_add(sent, Ordering::Relaxed);
        counters.received_bytes.fetch_add(received, Ordering::Relaxed);
    }

    /// Adds bytes of a good answer, and perhaps that it failed after its head.
    pub(super) fn add_received(&self, call: RemoteCall, is_failure: bool, received: u64) {
        let counters = &self.0[call as usize];
        counters.failures.fetch_add(u64::from(is_failure), Ordering::Relaxed);
        counters.received_bytes.fetch_add(received, Ordering::Relaxed);
    }

    pub(super) fn figures(&self) -> RequestsByCall {
        self.0.each_ref().map(|counters| RequestFigures {
            requests: counters.requests.load(Ordering::Relaxed),
            failures: counters.failures.load(Ordering::Relaxed),
            sent_bytes: counters.sent_bytes.load(Ordering::Relaxed),
            received_bytes: counters.received_bytes.load(Ordering::Relaxed),
        })
    }
}
