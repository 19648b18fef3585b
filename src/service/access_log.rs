//! One line of log for each request, and what has to be remembered for it.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use super::metrics::Metrics;
use crate::base::Timestamp;
use crate::s3::{Body, BodyRead, Dialect, Request, RequestId, Response, S3Error};

/// The target of the lines, for filters.
const TARGET: &str = "access";

/// What is known of a request while it is answered. The query is not kept: it may hold a signature.
pub(super) struct Entry {
    pub(super) id: RequestId,
    pub(super) dialect: Dialect,
    pub(super) method: String,
    pub(super) path: String,
    /// The operation, once it is known.
    pub(super) operation: &'static str,
    /// The user, once it is certain.
    pub(super) user: Option<String>,
    peer: Option<SocketAddr>,
    begun: Timestamp,
}

impl Entry {
    /// For a request that has just come in.
    pub(super) fn begin(request: &Request<'_>, id: RequestId, now: Timestamp) -> Self {
        let mut entry = Self::without_request(id, now);
        request.method.as_str().clone_into(&mut entry.method);
        request.path.clone_into(&mut entry.path);
        entry.peer = request.peer;
        entry
    }

    /// For what never became a request.
    pub(super) fn without_request(id: RequestId, now: Timestamp) -> Self {
        Self {
            id,
            dialect: Dialect::Svc,
            method: String::new(),
            path: String::new(),
            operation: "None",
            user: None,
            peer: None,
            begun: now,
        }
    }

    /// Counts the request and writes its line.
    pub(super) fn conclude(
        &self,
        response: &Response,
        received: &AtomicU64,
        metrics: &Metrics,
        now: Timestamp,
    ) {
        let received = received.load(Ordering::Relaxed);
        let sent = response.body.len().unwrap_or(0);
        let took = now.distance(self.begun);
        metrics.count(self.operation, response.status, took, received, sent);
        log::info!(
            target: TARGET,
            "{} {} {} {} {} {:?} {} {received} {sent} {}ms",
            self.id,
            self.peer.map_or_else(|| "-".to_owned(), |peer| peer.to_string()),
            self.user.as_deref().unwrap_or("-"),
            self.operation,
            self.method,
            self.path,
            response.status,
            took.as_millis(),
        );
    }
}

/// Counts the bytes of a body as they come in.
pub(super) struct Counted<'c> {
    inner: Box<dyn BodyRead + 'c>,
    count: &'c AtomicU64,
}

impl<'c> Counted<'c> {
    /// Counts the bytes of `body` into `count`.
    pub(super) fn wrap(body: &mut Body<'c>, count: &'c AtomicU64) {
        let inner = std::mem::replace(&mut body.reader, Body::none().reader);
        body.reader = Box::new(Self { inner, count });
    }
}

impl BodyRead for Counted<'_> {
    fn read(&mut self, buf: &mut [u8]) -> Result<usize, S3Error> {
        let read = self.inner.read(buf)?;
        self.count.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }

    fn trailers(&self) -> &[(String, String)] {
        self.inner.trailers()
    }
}
