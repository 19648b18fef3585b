//! One line of log for each request, and what has to be remembered for it.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::metrics::Metrics;
use crate::base::Timestamp;
use crate::s3::{Body, BodyRead, Dialect, Request, RequestId, Response, S3Error};

/// The target of the lines, for filters.
const TARGET: &str = "access";

/// One request and its answer, as an access log tells of them. It holds no secret: what could serve to make requests, or to
/// repeat this one, has been struck out.
#[derive(Debug)]
pub struct AccessRecord<'r> {
    /// When the request came in.
    pub time: Timestamp,
    /// The id under which errors and other lines tell of it.
    pub id: &'r str,
    /// The client's address.
    pub peer: Option<SocketAddr>,
    /// The user, where it is certain.
    pub user: Option<&'r str>,
    /// The operation; `None` where the request was not understood.
    pub operation: &'r str,
    /// The method; empty for what never became a request.
    pub method: &'r str,
    /// The path as sent.
    pub path: &'r str,
    /// The query as sent, less the values that [`redacted`] strikes out.
    pub query: &'r str,
    /// The status of the answer.
    pub status: u16,
    /// The code of the error that was answered.
    pub error: Option<&'r str>,
    /// Bytes of the body that were read.
    pub received: u64,
    /// Bytes of the body of the answer, as announced.
    pub sent: u64,
    /// From the head of the request to the head of the answer.
    pub took: Duration,
    /// Whether the connection was encrypted.
    pub secure: bool,
    /// What the client calls itself.
    pub agent: &'r str,
}

/// Where the lines about requests go.
pub trait AccessLog: Send + Sync {
    /// Takes note of a request that has been answered. Whatever goes wrong is its own affair.
    fn note(&self, record: &AccessRecord<'_>);
}

/// The line that goes to the log of the process while there is no other.
pub(super) struct ProcessLog;

impl AccessLog for ProcessLog {
    fn note(&self, record: &AccessRecord<'_>) {
        log::info!(
            target: TARGET,
            "{} {} {} {} {} {:?} {} {} {} {}ms",
            record.id,
            record.peer.map_or_else(|| "-".to_owned(), |peer| peer.to_string()),
            record.user.unwrap_or("-"),
            record.operation,
            record.method,
            record.path,
            record.status,
            record.received,
            record.sent,
            record.took.as_millis(),
        );
    }
}

/// A query without the values of its vendor parameters, among which are signature, credential and token, and of those by
/// which signature version 2 signs.
pub fn redacted(query: &str) -> String {
    // Most requests for objects have none.
    if query.is_empty() {
        return String::new();
    }
    let strike = |pair: &str| {
        let (name, _) = pair.split_once('=').unwrap_or((pair, ""));
        let decoded = percent_encoding::percent_decode_str(name).decode_utf8_lossy().to_ascii_lowercase();
        let is_secret = ["x-amz-", "x-svc-"].iter().any(|prefix| decoded.starts_with(prefix))
            || ["signature", "awsaccesskeyid"].contains(&decoded.as_str());
        if is_secret { format!("{name}=-") } else { pair.to_owned() }
    };
    query.split('&').map(strike).collect::<Vec<_>>().join("&")
}

/// What is known of a request while it is answered. Of the query nothing is kept that may be a secret.
pub(super) struct RequestLogEntry {
    pub(super) id: RequestId,
    pub(super) dialect: Dialect,
    pub(super) method: String,
    pub(super) path: String,
    /// The operation, once it is known.
    pub(super) operation: &'static str,
    /// The user, once it is certain.
    pub(super) user: Option<String>,
    /// The code of the error that is answered.
    pub(super) error: Option<&'static str>,
    query: String,
    agent: String,
    secure: bool,
    peer: Option<SocketAddr>,
    begun: Timestamp,
}

impl RequestLogEntry {
    /// For a request that has just come in.
    pub(super) fn begin(request: &Request<'_>, id: RequestId, now: Timestamp) -> Self {
        let mut entry = Self::without_request(id, now);
        request.method.as_str().clone_into(&mut entry.method);
        request.path.clone_into(&mut entry.path);
        entry.query = redacted(&request.query);
        request.headers.get_str("user-agent").unwrap_or_default().clone_into(&mut entry.agent);
        entry.secure = request.secure;
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
            error: None,
            query: String::new(),
            agent: String::new(),
            secure: false,
            peer: None,
            begun: now,
        }
    }

    /// Counts the request and has `log` take note of it.
    pub(super) fn conclude(
        &self,
        response: &Response,
        received: &AtomicU64,
        metrics: &Metrics,
        log: &dyn AccessLog,
        now: Timestamp,
    ) {
        let received = received.load(Ordering::Relaxed);
        let sent = response.body.len().unwrap_or(0);
        let took = now.distance(self.begun);
        metrics.count(self.operation, response.status, took, received, sent);
        log.note(&AccessRecord {
            time: self.begun,
            id: self.id.as_str(),
            peer: self.peer,
            user: self.user.as_deref(),
            operation: self.operation,
            method: &self.method,
            path: &self.path,
            query: &self.query,
            status: response.status,
            error: self.error,
            received,
            sent,
            took,
            secure: self.secure,
            agent: &self.agent,
        });
    }
}

/// Counts the bytes of a body as they come in.
pub(super) struct CountingBody<'c> {
    inner: Box<dyn BodyRead + 'c>,
    count: &'c AtomicU64,
}

impl<'c> CountingBody<'c> {
    /// Counts the bytes of `body` into `count`.
    pub(super) fn wrap(body: &mut Body<'c>, count: &'c AtomicU64) {
        let inner = std::mem::replace(&mut body.reader, Body::none().reader);
        body.reader = Box::new(Self { inner, count });
    }
}

impl BodyRead for CountingBody<'_> {
    fn read(&mut self, buf: &mut [u8]) -> Result<usize, S3Error> {
        let read = self.inner.read(buf)?;
        self.count.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }

    fn trailers(&self) -> &[(String, String)] {
        self.inner.trailers()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_signs_a_request_is_struck_out_of_its_query() {
        for (query, kept) in [
            ("", ""),
            ("list-type=2&prefix=a%2Fb", "list-type=2&prefix=a%2Fb"),
            ("X-Amz-Signature=s&uploads", "X-Amz-Signature=-&uploads"),
            (
                "x-svc-credential=c&x%2Damz%2dsecurity-token=t",
                "x-svc-credential=-&x%2Damz%2dsecurity-token=-",
            ),
            ("AWSAccessKeyId=a&Signature=s&Expires=1", "AWSAccessKeyId=-&Signature=-&Expires=1"),
        ] {
            assert_eq!(redacted(query), kept);
        }
    }
}
