//! Requests whose sender is known without a signature: a signed-in browser's.

use std::sync::atomic::AtomicU64;

use super::Service;
use super::access_log::{CountingBody, RequestLogEntry};
use crate::auth::Identity;
use crate::ops::{Health, ShownRing};
use crate::s3::cors::CorsHeaders;
use crate::s3::{
    Call, Dialect, ErrorCode, Operation, QueryParams, Request, RequestId, Response, ResponseBody, S3Error,
    TargetResource, VendorHeaders, route, uri,
};

impl Service {
    /// Handles a request of `identity` for `target`, in the AWS dialect. Its permissions, its
    /// records and its response equal the same request's with a signature. The path of the
    /// request counts for records alone.
    pub fn handle_as(&self, identity: &Identity, target: TargetResource, request: Request<'_>) -> Response {
        let entry =
            RequestLogEntry::begin(&request, RequestId::new(&*self.entropy), self.recorder.clock.as_ref());
        self.handle_with(entry, identity, target, request)
    }

    /// Like [`Service::handle_as`], for a page that asks what it can show: a refusal is not listed
    /// among the requests that failed.
    pub fn ask_as(&self, identity: &Identity, target: TargetResource, request: Request<'_>) -> Response {
        let mut entry =
            RequestLogEntry::begin(&request, RequestId::new(&*self.entropy), self.recorder.clock.as_ref());
        entry.is_question = true;
        self.handle_with(entry, identity, target, request)
    }

    fn handle_with(
        &self,
        mut entry: RequestLogEntry,
        identity: &Identity,
        target: TargetResource,
        request: Request<'_>,
    ) -> Response {
        let received = AtomicU64::new(0);
        entry.dialect = Dialect::Aws;
        entry.user = Some(identity.name().to_owned());
        entry.person = identity.person().cloned();
        entry.place = Some(place_of(&target));
        let cors = CorsHeaders::new();
        match self.run_as(identity, target, request, &mut entry, &received) {
            Ok(Response { body: ResponseBody::Deferred(work), .. }) => {
                self.defer(work, cors, entry, received)
            }
            outcome => self.recorder.conclude(outcome, cors, &mut entry, &received),
        }
    }

    /// The health of the store.
    pub fn health(&self) -> Health {
        self.context.health()
    }

    /// The key ring, without its keys.
    pub fn key_ring(&self) -> ShownRing {
        self.context.shown_ring()
    }

    /// The region of all buckets.
    pub fn region(&self) -> &str {
        &self.context.region
    }

    fn run_as<'c>(
        &self,
        identity: &Identity,
        target: TargetResource,
        mut request: Request<'c>,
        entry: &mut RequestLogEntry,
        received: &'c AtomicU64,
    ) -> Result<Response, S3Error> {
        let query = QueryParams::parse(&request.query)?;
        let dialect = entry.dialect;
        let headers = VendorHeaders::new(&request.headers, dialect);
        headers.check()?;
        let copies = headers.get("copy-source").is_some();
        let operation = route::operation(&request.method, target.level(), &query, copies)?;
        entry.operation = operation.as_str();
        self.note_for_logs(&request, &query, operation, &target, entry);
        self.begin_audit(entry, operation, &target, &query);
        if operation == Operation::PostObject {
            // The sender of a form is known by its fields, and would not be this user.
            return Err(S3Error::new(ErrorCode::MethodNotAllowed)
                .element("Method", "POST")
                .element("ResourceType", target.level().name_in_errors()));
        }
        CountingBody::wrap(&mut request.body, received);
        let mut call = Call::new(entry.arrival(), operation, target, request).with_query(query);
        self.perform(identity, &mut call, entry)
    }
}

/// A target in the form of a path.
fn place_of(target: &TargetResource) -> String {
    match target {
        TargetResource::Service => "/".to_owned(),
        TargetResource::Bucket(bucket) => format!("/{bucket}"),
        TargetResource::Object { bucket, key } => format!("/{bucket}/{}", uri::encode_path(key.as_str())),
    }
}
