//! What is noted of a request to a bucket with a log, until it is answered.

use std::net::SocketAddr;
use std::time::Duration;

use super::record::{LogLine, SignedBy};
use super::resource::operation_name;
use crate::auth::{Authorized, Identity};
use crate::base::Timestamp;
use crate::ops::LoggedBucket;
use crate::s3::operation::ResourceLevel;
use crate::s3::{
    Call, Dialect, ErrorCode, NamedObject, Operation, QueryParams, Request, Response, TargetResource,
    VendorHeaders,
};

const HEAD: &str = "HEAD";

/// A request that is answered.
pub(in crate::service) struct AnsweredRequest<'r> {
    pub(in crate::service) time: Timestamp,
    pub(in crate::service) id: &'r str,
    pub(in crate::service) peer: Option<SocketAddr>,
    pub(in crate::service) method: &'r str,
    pub(in crate::service) path: &'r str,
    /// Without secrets.
    pub(in crate::service) query: &'r str,
    pub(in crate::service) agent: &'r str,
    pub(in crate::service) dialect: Dialect,
    pub(in crate::service) took: Duration,
    /// The code of the error in the response.
    pub(in crate::service) error: Option<&'r str>,
    pub(in crate::service) response: &'r Response,
}

/// The request.
#[derive(Debug)]
pub(in crate::service) struct LoggedRequest {
    log: LoggedBucket,
    operation: String,
    key: Option<String>,
    version: Option<String>,
    requester: Option<String>,
    /// Whether it was the source of a copy.
    is_source: bool,
    referer: Option<String>,
    host: Option<String>,
    signed_by: Option<SignedBy>,
    /// The length of the object in the body.
    body_length: Option<u64>,
    /// Whether nothing but an ACL permitted it.
    acl_required: bool,
    /// The objects that a DeleteObjects names, with their outcomes.
    pub(in crate::service) named_objects: Vec<NamedObject>,
}

impl LoggedRequest {
    /// A request for an operation of S3.
    pub(in crate::service) fn new(
        log: LoggedBucket,
        request: &Request<'_>,
        query: &QueryParams,
        target: &TargetResource,
        operation: Operation,
        dialect: Dialect,
    ) -> Self {
        let is_object = target.level() == ResourceLevel::Object;
        let noted = Self::of_request(log, request, operation_name(operation, &request.method));
        let takes_body = matches!(operation, Operation::PutObject | Operation::UploadPart);
        Self {
            key: is_object.then(|| target.key().to_owned()),
            version: query.get("versionId").map(str::to_owned),
            signed_by: signed_by(request, query),
            body_length: takes_body.then(|| body_length(request, dialect)).flatten(),
            ..noted
        }
    }

    /// A request of another kind, such as a visit of a website.
    pub(in crate::service) fn of_request(
        log: LoggedBucket,
        request: &Request<'_>,
        operation: String,
    ) -> Self {
        Self {
            log,
            operation,
            key: None,
            version: None,
            requester: None,
            is_source: false,
            referer: request.headers.get_str("referer").map(str::to_owned),
            host: request.headers.get_str("host").map(str::to_owned),
            signed_by: None,
            body_length: None,
            acl_required: false,
            named_objects: Vec::new(),
        }
    }

    /// The same with the key of an object.
    pub(in crate::service) fn with_key(self, key: String) -> Self {
        Self { key: Some(key).filter(|key| !key.is_empty()), ..self }
    }

    /// The same request, in the log of the bucket that it copies from.
    pub(in crate::service) fn of_source(
        &self,
        log: LoggedBucket,
        key: &str,
        version: Option<String>,
    ) -> Self {
        Self {
            log,
            operation: format!("{}_GET", self.operation),
            key: Some(key.to_owned()),
            version,
            requester: self.requester.clone(),
            is_source: true,
            referer: self.referer.clone(),
            host: self.host.clone(),
            signed_by: self.signed_by,
            body_length: None,
            acl_required: false,
            named_objects: Vec::new(),
        }
    }

    /// Notes who sent it, and for which object, if it is a form.
    pub(in crate::service) fn sent_by(&mut self, identity: &Identity, call: &Call<'_>) {
        if call.operation == Operation::PostObject {
            self.key = Some(call.key().to_owned());
        }
        self.requester = (!identity.is_anonymous()).then(|| identity.caller().arn);
    }

    /// Notes by what it was permitted. That is not known of the source of a copy.
    pub(in crate::service) fn permitted_by(&mut self, proof: &Authorized) {
        self.acl_required = proof.needs_acl() && !self.is_source;
    }

    /// The lines of the answered request.
    pub(super) fn lines(&self, answered: &AnsweredRequest<'_>, text: &mut String) {
        let AnsweredRequest { method, path, query, response, .. } = *answered;
        let mark = if query.is_empty() { "" } else { "?" };
        let request = format!("{method} {path}{mark}{query} HTTP/1.1");
        let made = header(response, &format!("{}version-id", answered.dialect.header_prefix()));
        let version = self.version.clone().or(made.filter(|_| !self.is_source));
        let line = LogLine {
            log: &self.log,
            time: answered.time,
            peer: answered.peer,
            requester: self.requester.as_deref(),
            id: answered.id,
            operation: &self.operation,
            key: self.key.as_deref(),
            request: Some(&request),
            status: response.status,
            error: answered.error,
            sent: response.body.len().filter(|length| method != HEAD && *length > 0),
            object_size: self.object_size(answered).filter(|_| response.status < 300),
            took: Some(answered.took),
            referer: self.referer.as_deref(),
            agent: Some(answered.agent),
            version: version.as_deref(),
            signed_by: self.signed_by,
            host: self.host.as_deref(),
            acl_required: self.acl_required,
        };
        line.write(text);
        for named in &self.named_objects {
            let of_object = LogLine {
                operation: "BATCH.DELETE.OBJECT",
                key: Some(&named.key),
                version: named.version.as_deref(),
                status: named.error.map_or(204, ErrorCode::status),
                error: named.error.map(ErrorCode::as_str),
                sent: None,
                took: None,
                // Each object is decided about by itself.
                acl_required: false,
                ..line
            };
            of_object.write(text);
        }
    }

    /// The size of the object that was put, or of the whole one that was read in part.
    fn object_size(&self, answered: &AnsweredRequest<'_>) -> Option<u64> {
        if !matches!(self.operation.as_str(), "REST.GET.OBJECT" | "REST.HEAD.OBJECT") {
            return self.body_length;
        }
        let response = answered.response;
        let range = header(response, "content-range");
        let total = range.as_deref().and_then(|range| range.rsplit('/').next()?.parse().ok());
        total.or(match answered.method {
            HEAD => header(response, "content-length").and_then(|length| length.parse().ok()),
            _ => response.body.len(),
        })
    }

    pub(super) fn log(&self) -> &LoggedBucket {
        &self.log
    }
}

/// The value of a header of a response.
fn header(response: &Response, name: &str) -> Option<String> {
    let found = response.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
    found.map(|(_, value)| String::from_utf8_lossy(value).into_owned())
}

/// How a request says that it is signed.
fn signed_by(request: &Request<'_>, query: &QueryParams) -> Option<SignedBy> {
    if request.headers.get("authorization").is_some() {
        return Some(SignedBy { version: "SigV4", place: "AuthHeader" });
    }
    let by_v4 = Dialect::ALL.iter().any(|dialect| query.has(&format!("{}Signature", dialect.query_prefix())));
    let version = if by_v4 { "SigV4" } else { "SigV2" };
    let is_signed = by_v4 || query.has("AWSAccessKeyId");
    is_signed.then_some(SignedBy { version, place: "QueryString" })
}

/// The length of the object in the body, without the signatures of its chunks.
fn body_length(request: &Request<'_>, dialect: Dialect) -> Option<u64> {
    let decoded = VendorHeaders::new(&request.headers, dialect).get_str("decoded-content-length");
    decoded.and_then(|length| length.parse().ok()).or(request.body.content_length)
}
