//! The access log: one record for each request, and its collection during the request.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::RequestRecorder;
use super::audit::{AuditEntry, AuditOutcome};
use super::audit_trail::AuditTrail;
use super::bucket_logs::{AnsweredRequest, LoggedRequest};
use crate::auth::{OidcPerson, SenderSession};
use crate::base::{Clock, Timestamp};
use crate::s3::{Arrival, Body, BodyRead, Dialect, Method, Request, RequestId, Response, S3Error};

/// The target of the lines, for filters.
const TARGET: &str = "access";

/// One request and its response. It holds no secrets: values that could be used to make requests,
/// or to repeat this one, are redacted.
#[derive(Debug)]
pub struct AccessRecord<'r> {
    /// The time of arrival.
    pub time: Timestamp,
    /// The request id, which other log lines also have.
    pub id: &'r str,
    /// The client's address.
    pub peer: Option<SocketAddr>,
    /// The user, if it is authenticated.
    pub user: Option<&'r str>,
    /// The operation; `None` for a request without one.
    pub operation: &'r str,
    /// The method; empty for a malformed request head.
    pub method: &'r str,
    /// The path as sent.
    pub path: &'r str,
    /// The query as sent, without the values that [`redacted`] removes.
    pub query: &'r str,
    /// The status of the response.
    pub status: u16,
    /// The code of the error in the response.
    pub error: Option<&'r str>,
    /// Bytes of the request body that were read.
    pub received: u64,
    /// Bytes of the response body, as announced.
    pub sent: u64,
    /// The time from the head of the request to the head of the response.
    pub took: Duration,
    /// Whether the connection was encrypted.
    pub secure: bool,
    /// The `User-Agent`.
    pub agent: &'r str,
}

/// A destination for access records.
pub trait AccessLog: Send + Sync {
    /// Records a request after its response. The implementation handles its own errors.
    fn record(&self, record: &AccessRecord<'_>);
}

/// The access log within the log of the process, the default.
pub(super) struct ProcessLog;

impl AccessLog for ProcessLog {
    fn record(&self, record: &AccessRecord<'_>) {
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

/// Removes the values of vendor parameters, among them signature, credential and token, and of the
/// parameters of signature version 2.
pub fn redacted(query: &str) -> String {
    // Most requests for objects have no query.
    if query.is_empty() {
        return String::new();
    }
    query.split('&').map(redacted_parameter).collect::<Vec<_>>().join("&")
}

/// A parameter of a query, without its value if that is a secret.
fn redacted_parameter(parameter: &str) -> String {
    let name = parameter.split('=').next().unwrap_or_default();
    // As the server decodes it: a name may be escaped, so that its letters do not show.
    let decoded = percent_encoding::percent_decode_str(name).decode_utf8_lossy().to_ascii_lowercase();
    let is_vendors = ["x-amz-", "x-svc-"].iter().any(|prefix| decoded.starts_with(prefix));
    if is_vendors || ["signature", "awsaccesskeyid"].contains(&decoded.as_str()) {
        return format!("{name}=-");
    }
    parameter.to_owned()
}

/// The access record of a request in progress. The query is redacted.
pub(super) struct RequestLogEntry {
    pub(super) id: RequestId,
    pub(super) dialect: Dialect,
    pub(super) method: Method,
    pub(super) path: String,
    /// The operation, once it is known.
    pub(super) operation: &'static str,
    /// The user, once it is authenticated.
    pub(super) user: Option<String>,
    /// The person who acts as the user, where an OpenID provider vouched for it.
    pub(super) person: Option<Arc<OidcPerson>>,
    /// The session whose keys signed.
    pub(super) session: Option<Arc<SenderSession>>,
    /// The code of the error in the response.
    pub(super) error: Option<&'static str>,
    /// Whether a page asks what it can show. A refusal is no failure then.
    pub(super) is_question: bool,
    /// Bucket and key, in the form of a path, where the path of the request does not name them.
    pub(super) place: Option<String>,
    /// The request for the logs of buckets: for that of its own, and for that of the source of a
    /// copy.
    pub(super) logged: Vec<LoggedRequest>,
    /// The attempt, if it is audited.
    pub(super) audit: Option<Box<AuditEntry>>,
    /// The answer to a mirror that asks which store this is.
    pub(super) store: Option<String>,
    /// Whether the answer must not run as a page of the server's origin.
    pub(super) is_confined: bool,
    /// Whether a monitor asks for the health. It asks every few seconds, so that only failures are
    /// logged.
    pub(super) is_health_check: bool,
    query: String,
    agent: String,
    secure: bool,
    peer: Option<SocketAddr>,
    pub(super) begun: Timestamp,
    begun_at: Instant,
}

impl RequestLogEntry {
    /// The marks of the request, for its call.
    pub(super) fn arrival(&self) -> Arrival {
        Arrival { id: self.id.clone(), dialect: self.dialect, received: self.begun }
    }

    /// The record of a request that has just arrived.
    pub(super) fn begin(request: &Request<'_>, id: RequestId, clock: &dyn Clock) -> Self {
        let mut entry = Self::without_request(id, clock);
        entry.method = request.method.clone();
        request.path.clone_into(&mut entry.path);
        entry.query = redacted(&request.query);
        request.headers.get_str("user-agent").unwrap_or_default().clone_into(&mut entry.agent);
        entry.secure = request.secure;
        entry.peer = request.peer;
        entry
    }

    /// The record of a malformed request head.
    pub(super) fn without_request(id: RequestId, clock: &dyn Clock) -> Self {
        Self {
            id,
            dialect: Dialect::Svc,
            method: Method::Other(String::new()),
            path: String::new(),
            operation: "None",
            user: None,
            person: None,
            session: None,
            error: None,
            is_question: false,
            place: None,
            logged: Vec::new(),
            audit: None,
            store: None,
            is_confined: false,
            is_health_check: false,
            query: String::new(),
            agent: String::new(),
            secure: false,
            peer: None,
            begun: clock.now(),
            begun_at: clock.instant(),
        }
    }

    /// The address of the client.
    pub(super) fn peer(&self) -> Option<SocketAddr> {
        self.peer
    }

    /// Records the attempt, if it is audited.
    pub(super) fn audit(&self, trail: &AuditTrail, status: u16) {
        let Some(audit) = &self.audit else { return };
        let peer = self.peer.map(|peer| peer.to_string());
        let outcome = AuditOutcome {
            time: self.begun,
            id: self.id.as_str(),
            user: self.user.as_deref(),
            person: self.person.as_deref(),
            session: self.session.as_ref().map(|session| session.arn()),
            peer: peer.as_deref(),
            status,
            error: self.error,
        };
        audit.conclude(trail, &outcome);
    }

    /// Counts the request and records it.
    pub(super) fn conclude(
        &self,
        response: &Response,
        received: &AtomicU64,
        recorder: &RequestRecorder,
        now: Instant,
    ) {
        let received = received.load(Ordering::Relaxed);
        let sent = response.body.len().unwrap_or(0);
        let took = now.duration_since(self.begun_at);
        recorder.metrics.count(self.operation, response.status, took, received, sent);
        let record = AccessRecord {
            time: self.begun,
            id: self.id.as_str(),
            peer: self.peer,
            user: self.user.as_deref(),
            operation: self.operation,
            method: self.method.as_str(),
            path: &self.path,
            query: &self.query,
            status: response.status,
            error: self.error,
            received,
            sent,
            took,
            secure: self.secure,
            agent: &self.agent,
        };
        recorder.recent.note(&record, self.is_question);
        if !self.is_health_check || response.status != 200 {
            if !self.is_question || self.error.is_none() {
                recorder.last_requests.note(&record, self.place.as_deref());
                recorder.last_hour.count(&record, self.place.as_deref());
            }
            recorder.access_log.record(&record);
        }
        if let Some(logs) = &recorder.bucket_logs {
            let answered = AnsweredRequest {
                time: self.begun,
                id: self.id.as_str(),
                peer: self.peer,
                method: self.method.as_str(),
                path: &self.path,
                query: &self.query,
                agent: &self.agent,
                dialect: self.dialect,
                took,
                error: self.error,
                response,
            };
            for logged in &self.logged {
                logs.record(logged, &answered);
            }
        }
    }
}

/// Counts the bytes of a body as they are read.
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
    fn signatures_and_keys_are_redacted() {
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
