//! Floor 5: the handling of a request, from its head to its response.

mod access_log;
mod activity;
mod api;
mod as_user;
mod audit;
mod audit_record;
mod audit_trail;
mod audited_act;
mod bucket_logs;
mod client_address;
mod clock;
mod concerns;
mod cors;
mod disks;
mod failed_signatures;
mod form;
mod handler_switch;
mod history;
mod html_sandbox;
mod iam;
mod iam_changes;
mod key_ring;
mod last_hour;
mod metrics;
mod metrics_token;
mod outbound;
mod pages;
mod policies;
mod queries;
mod recent;
mod replication;
mod request_ring;
mod staleness;
mod standby;
mod sts;
mod user_access;
mod users;
mod web_identity;
mod website;

use std::net::IpAddr;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, never};

use crate::auth::{Authenticator, Authorized, Identity};
use crate::base::{Clock, Entropy, Timestamp};
use crate::mirror::Mirrors;
pub use crate::mirror::{MirrorFigures, MirrorRefusal, MirrorState, OccupiedBucket};
pub use crate::ops::{
    BadFile, BucketMarks, CommitFigures, CopyFindings, DamagedObject, FolderItems, Health, HistorySample,
    LifecycleEffect, NextSweep, PreviewCount, QuotaLimit, RepairFigures, RulePreview, ShipFigures, ShownKey,
    ShownRing, TierFigures, Usage, WalkedKey, WalkedKeys,
};
use crate::ops::{Context, LifecycleFigures, RewrapRun};
use crate::s3::copy_source::CopySourceHeader;
use crate::s3::cors::CorsHeaders;
use crate::s3::hoisted;
use crate::s3::operation::ResourceLevel;
use crate::s3::query_call;
use crate::s3::render::{ResponseFrame, render};
use crate::s3::route::{self, Addressing};
use crate::s3::{
    Call, DeferredWork, Dialect, Handler, Method, Operation, QueryParams, Request, RequestId, Response,
    ResponseBody, S3Error, TargetResource, VendorHeaders,
};
pub use crate::webhook::TargetState;
use crate::webhook::WebhookFigures;
pub use access_log::{AccessLog, AccessRecord, redacted};
use access_log::{CountingBody, ProcessLog, RequestLogEntry};
use activity::LoadSource;
pub use activity::{Activity, LastActs, RequestRates, ServerLoad};
use audit::AuditEntry;
pub use audit_record::{AuditLog, AuditRecord, AuditedState};
pub use audit_trail::{AuditTrail, NotedAct};
use bucket_logs::LoggedRequest;
pub use bucket_logs::{BucketLogFigures, BucketLogs, DueRecords};
pub use client_address::{TrustedProxy, client_address, last_of_list};
use concerns::ConcernTimes;
pub use concerns::{Concern, ConcernKind};
use cors::ServerCors;
use disks::DirectoriesSource;
pub use disks::{DiskDirectory, DiskRole};
use failed_signatures::FailedSignatures;
pub use handler_switch::HandlerSwitch;
use history::HistoryKeeper;
pub use history::{BucketGrowth, HistoryRange};
pub use html_sandbox::HtmlSandbox;
pub use iam_changes::{IamChange, ProviderTrust, RoleTrust};
use last_hour::LastHour;
pub use last_hour::{BusyName, BusyNames};
use metrics::Metrics;
pub use metrics::{DiskHookFigures, MirrorSide, MirrorSides};
pub use metrics_token::MetricsToken;
pub use outbound::{MirrorStatus, OutboundStatus};
pub use pages::MetricsAccess;
pub use policies::{
    GroupEntry, PolicyChange, PolicyEntry, PolicyHolder, ProviderEntry, RoleEntry, TokenTrustEntry,
};
pub use queries::KeyPlace;
use recent::RecentRequests;
pub use recent::{NotedRequest, NotedRequests};
use request_ring::RequestRing;
pub use staleness::Staleness;
use standby::refused_write;
pub use standby::{StandbyService, StandbyState};
pub use user_access::{AccessExtent, BucketAccess};
pub use users::{
    ChangeSender, GrantEntry, NewServiceAccount, ServiceAccountEntry, UserChange, UserDirectory, UserEntry,
    UserError,
};
use web_identity::WebIdentities;

/// The settings of responses.
#[derive(Debug, Clone)]
pub struct ServiceSettings {
    /// The dialect of requests without a vendor prefix.
    pub default_dialect: Dialect,
    /// How requests name their bucket.
    pub addressing: Addressing,
    /// The clients that may read `/-/metrics`.
    pub metrics: MetricsAccess,
    /// The origins whose pages may use buckets without cross-origin rules of their own: each with
    /// at most one `*`; none by default.
    pub cors_allow_origins: Vec<String>,
    /// Whether stored documents may run scripts at the origin of the server.
    pub html_sandbox: HtmlSandbox,
}

impl Default for ServiceSettings {
    /// The settings of a server without options.
    fn default() -> Self {
        Self {
            default_dialect: Dialect::Svc,
            addressing: Addressing::default(),
            metrics: MetricsAccess::Local,
            cors_allow_origins: Vec::new(),
            html_sandbox: HtmlSandbox::On,
        }
    }
}

/// The handler of S3 requests.
pub struct Service {
    context: Context,
    authenticator: Arc<Authenticator>,
    entropy: Arc<dyn Entropy>,
    settings: ServiceSettings,
    server_cors: ServerCors,
    failed_signatures: FailedSignatures,
    lifecycle: Arc<LifecycleFigures>,
    webhooks: WebhookFigures,
    mirrors: Arc<Mirrors>,
    certificate_expiry: Option<Box<CertificateExpiry>>,
    sides: Option<Box<SidesSource>>,
    directories: Option<Box<DirectoriesSource>>,
    /// The runs of a program for changes of disks, where there is one.
    disk_hook: Option<Arc<DiskHookFigures>>,
    metrics_token: Option<Arc<MetricsToken>>,
    recorder: RequestRecorder,
    users: Option<Arc<dyn UserDirectory>>,
    web_identities: WebIdentities,
    is_trusted_proxy: TrustedProxy,
    /// Tells the load of the listener of S3 requests, once there is one.
    load: OnceLock<Box<LoadSource>>,
    history: HistoryKeeper,
    concern_times: ConcernTimes,
    /// The rewrap that is under way.
    rewrap: Mutex<Option<RewrapRun>>,
}

/// What else has the origin at which browsers open the answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// Nothing.
    Own,
    OfConsole,
}

/// Says when the certificate of the server expires, if that is known.
type CertificateExpiry = dyn Fn() -> Option<Timestamp> + Send + Sync;

/// Tells the state of the two sides of a mirrored store.
type SidesSource = dyn Fn() -> MirrorSides + Send + Sync;

/// Records the outcomes of requests: metrics, access log and audit log.
#[derive(Clone)]
struct RequestRecorder {
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
    recent: Arc<RecentRequests>,
    last_requests: Arc<RequestRing>,
    last_hour: Arc<LastHour>,
    access_log: Arc<dyn AccessLog>,
    audit: Arc<AuditTrail>,
    /// The logs of buckets, where they are delivered.
    bucket_logs: Option<Arc<BucketLogs>>,
    /// Marks the answers of a standby, which takes no writes.
    staleness: Option<Arc<Staleness>>,
}

impl Handler for Service {
    fn handle(&self, request: Request<'_>) -> Response {
        self.answer_at(Origin::Own, request)
    }

    fn overloaded(&self, request: Option<&Request<'_>>) -> Response {
        let mut response = self.refused(S3Error::slow_down());
        if let Some(request) = request {
            cors::add_headers(&mut response, self.cors_headers(request));
        }
        response
    }

    fn refused(&self, error: S3Error) -> Response {
        let id = RequestId::new(&*self.entropy);
        let mut entry = RequestLogEntry::without_request(id, self.recorder.clock.as_ref());
        entry.dialect = self.settings.default_dialect;
        self.recorder.conclude(Err(error), CorsHeaders::new(), &mut entry, &AtomicU64::new(0))
    }

    fn note_queue_wait(&self, waited: Duration) {
        self.recorder.metrics.count_queue_wait(waited);
    }
}

impl Service {
    /// A service that runs the operations of `context` for the users of `authenticator`.
    pub fn new(
        context: Context,
        authenticator: Arc<Authenticator>,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
        settings: ServiceSettings,
    ) -> Self {
        let web_identities = WebIdentities::new(Arc::clone(&clock));
        let recorder = RequestRecorder {
            clock,
            metrics: Arc::default(),
            recent: Arc::default(),
            last_requests: Arc::default(),
            last_hour: Arc::default(),
            access_log: Arc::new(ProcessLog),
            audit: Arc::default(),
            bucket_logs: None,
            staleness: None,
        };
        let failed_signatures = FailedSignatures::default();
        let lifecycle = Arc::default();
        let server_cors = ServerCors::new(&settings.cors_allow_origins);
        Self {
            context,
            authenticator,
            entropy,
            settings,
            server_cors,
            failed_signatures,
            lifecycle,
            webhooks: WebhookFigures::new(),
            mirrors: Arc::default(),
            certificate_expiry: None,
            sides: None,
            disk_hook: None,
            directories: None,
            metrics_token: None,
            recorder,
            users: None,
            web_identities,
            is_trusted_proxy: Box::new(|_| false),
            load: OnceLock::new(),
            history: HistoryKeeper::default(),
            concern_times: ConcernTimes::default(),
            rewrap: Mutex::default(),
        }
    }

    /// The same service, whose metrics show when the certificate of the server expires.
    #[must_use]
    pub fn with_certificate_expiry(
        self,
        expires: impl Fn() -> Option<Timestamp> + Send + Sync + 'static,
    ) -> Self {
        Self { certificate_expiry: Some(Box::new(expires)), ..self }
    }

    /// The same service, whose metrics show the two sides of a mirrored store.
    #[must_use]
    pub fn with_sides(self, sides: impl Fn() -> MirrorSides + Send + Sync + 'static) -> Self {
        Self { sides: Some(Box::new(sides)), ..self }
    }

    /// The same service, whose metrics show the runs of a program for changes of disks.
    #[must_use]
    pub fn with_disk_hook(self, figures: Arc<DiskHookFigures>) -> Self {
        Self { disk_hook: Some(figures), ..self }
    }

    /// The same service, whose metrics are also for clients that state the token.
    #[must_use]
    pub fn with_metrics_token(self, token: Arc<MetricsToken>) -> Self {
        Self { metrics_token: Some(token), ..self }
    }

    /// The same service, whose metrics show these figures of the lifecycle sweeps.
    #[must_use]
    pub fn with_lifecycle_figures(self, lifecycle: Arc<LifecycleFigures>) -> Self {
        Self { lifecycle, ..self }
    }

    /// The same service, whose metrics and API show these figures of webhooks.
    #[must_use]
    pub fn with_webhooks(self, webhooks: WebhookFigures) -> Self {
        Self { webhooks, ..self }
    }

    /// The same service, whose API and metrics show these mirrors.
    #[must_use]
    pub fn with_mirrors(mut self, mirrors: Arc<Mirrors>) -> Self {
        // Without such a mirror no GET looks for rules.
        if mirrors.iter().any(|mirror| mirror.follows_rules()) {
            let targets = Arc::clone(&mirrors);
            self.context.replication = Some(targets);
        }
        Self { mirrors, ..self }
    }

    /// The same service with `log` as its access log. By default requests are in the log of the
    /// process.
    #[must_use]
    pub fn with_access_log(mut self, log: Arc<dyn AccessLog>) -> Self {
        self.recorder.access_log = log;
        self
    }

    /// The same service with `log` as its audit log. By default there is none.
    #[must_use]
    pub fn with_audit_log(self, log: Arc<dyn AuditLog>) -> Self {
        self.with_audit_trail(Arc::new(AuditTrail::new(Some(log))))
    }

    /// The same service, whose acts are recorded in `trail`, which others may write to as well.
    #[must_use]
    pub fn with_audit_trail(mut self, trail: Arc<AuditTrail>) -> Self {
        self.recorder.audit = trail;
        self
    }

    /// The same service, which records requests for the logs of buckets in `logs`. Whoever calls
    /// [`Self::deliver_bucket_logs`] delivers them.
    #[must_use]
    pub fn with_bucket_logs(mut self, logs: Arc<BucketLogs>) -> Self {
        self.recorder.bucket_logs = Some(logs);
        self
    }

    /// Delivers the records for the logs of buckets that are due. One thread calls it at a time.
    /// Returns when the next records are due, if any wait.
    pub fn deliver_bucket_logs(&self, due: DueRecords) -> Option<Instant> {
        let logs = self.recorder.bucket_logs.as_ref()?;
        logs.deliver(&self.context, due)
    }

    /// Receives a value when records for the logs of buckets may be due earlier than
    /// [`Self::deliver_bucket_logs`] said. Nothing ever comes where there are no such logs.
    pub fn bucket_log_changes(&self) -> Receiver<()> {
        self.recorder.bucket_logs.as_ref().map_or_else(never, |logs| logs.changes())
    }

    /// The same service on the store of a standby: it answers reads alone, and marks all answers.
    #[must_use]
    pub fn with_staleness(mut self, staleness: Arc<Staleness>) -> Self {
        self.recorder.staleness = Some(staleness);
        self
    }

    /// The same service, which believes what these proxies say of the addresses of clients.
    #[must_use]
    pub fn with_trusted_proxies(self, is_trusted: impl Fn(IpAddr) -> bool + Send + Sync + 'static) -> Self {
        Self { is_trusted_proxy: Box::new(is_trusted), ..self }
    }

    /// The same service, whose administrators may change the users of `directory`.
    #[must_use]
    pub fn with_users(self, directory: Arc<dyn UserDirectory>) -> Self {
        Self { users: Some(directory), ..self }
    }

    /// Handles a request to a listener that also has the console. No answer that a browser may open
    /// there can act as a page of the console: all are confined but those to requests that are
    /// signed in their headers, as no browser does by itself, and websites' requests, which have
    /// hosts of their own.
    pub fn handle_beside_console(&self, request: Request<'_>) -> Response {
        self.answer_at(Origin::OfConsole, request)
    }

    /// The answer to a request that never was one, such as [`Handler::refused`], beside the
    /// console.
    pub fn confined(response: Response) -> Response {
        html_sandbox::confine(response)
    }

    fn answer_at(&self, origin: Origin, request: Request<'_>) -> Response {
        let received = AtomicU64::new(0);
        let mut entry =
            RequestLogEntry::begin(&request, RequestId::new(&*self.entropy), self.recorder.clock.as_ref());
        entry.dialect = self.settings.default_dialect;
        entry.is_confined = origin == Origin::OfConsole && self.website_bucket(&request).is_none();
        let cors = self.cors_headers(&request);
        match self.run(request, &mut entry, &received) {
            Ok(Response { body: ResponseBody::Deferred(work), .. }) => {
                self.defer(work, cors, entry, received)
            }
            outcome => self.recorder.conclude(outcome, cors, &mut entry, &received),
        }
    }

    /// Decides whether the answer to an authenticated request is confined. Only here is it known
    /// that a signature in the headers is one: browsers send credentials of other schemes by
    /// themselves.
    fn decide_confinement(&self, entry: &mut RequestLogEntry, identity: &Identity, call: &Call<'_>) {
        if call.form.is_none() && call.request.headers.get("authorization").is_some() {
            entry.is_confined = false;
            return;
        }
        let is_read = matches!(call.operation, Operation::GetObject | Operation::HeadObject);
        entry.is_confined |=
            self.settings.html_sandbox == HtmlSandbox::On && identity.is_anonymous() && is_read;
    }

    /// The states of the webhooks.
    fn webhook_states(&self) -> Vec<TargetState> {
        let followers = self.context.store.follower_figures();
        self.webhooks.iter().map(|target| target.state(&followers)).collect()
    }

    /// Handles a request and adds to `entry` what becomes known on the way.
    fn run<'c>(
        &self,
        mut request: Request<'c>,
        entry: &mut RequestLogEntry,
        received: &'c AtomicU64,
    ) -> Result<Response, S3Error> {
        // 1. The host decides before the path: at a website every path is a key, those of the
        //    server's pages included.
        if let Some(bucket) = self.website_bucket(&request) {
            entry.place = Some(format!("/{bucket}{}", request.path));
            return self.website(&bucket, &request, entry);
        }
        // 2. Pages and the API: `-` is no bucket's name. They come before the query is parsed, so
        //    that a health check does not fail by a parameter.
        if let Some(page) = self.page_name(&request) {
            return match page.strip_prefix("api/1/").map(str::to_owned) {
                Some(path) => Ok(self.api(&path, request, entry)),
                None => {
                    entry.is_health_check = pages::is_health(page);
                    self.page(page, &request)
                }
            };
        }
        // 3. Calls of STS send the root a form or an action, which no request of S3 does.
        if query_call::is_call(&request) && !self.is_host_of_bucket(&request) {
            CountingBody::wrap(&mut request.body, received);
            return Ok(self.query_call(request, entry));
        }
        let query = QueryParams::parse(&request.query)?;
        let dialect = Dialect::detect(&request.headers, query.names(), self.settings.default_dialect)?;
        entry.dialect = dialect;
        // 4. Browsers send a preflight without credentials, so it is answered before they are asked
        //    for.
        if request.method == Method::Options {
            entry.operation = "Preflight";
            return self.preflight(&request, dialect);
        }
        if self.asks_for_presence(&request) {
            return Ok(Response::new(200));
        }
        // 5. The operation is known before its sender: errors, logs and the audit name it, and a
        //    standby refuses a write without looking at its signature or its body.
        VendorHeaders::new(&request.headers, dialect).check()?;
        let (target, operation) = self.route(&request, &query, dialect)?;
        entry.operation = operation.as_str();
        if self.settings.addressing.is_of_bucket(host(&request)) {
            entry.place = Some(["/", target.bucket(), &request.path].concat());
        }
        if self.recorder.staleness.is_some() && !matches!(request.method, Method::Get | Method::Head) {
            return Err(refused_write());
        }
        self.note_for_logs(&request, &query, operation, &target, entry);
        // 6. Attempts that fail to authenticate are logged and audited, too.
        self.begin_audit(entry, operation, &target, &query);
        // 7. Counted below the verifier of the signature, which puts itself around: the log has the
        //    bytes that came, and not those of the decoded chunks.
        CountingBody::wrap(&mut request.body, received);
        let (identity, mut call) = match (operation, target) {
            (Operation::PostObject, TargetResource::Bucket(bucket)) => {
                self.admit_form(request, query, bucket, entry)?
            }
            (operation, target) => {
                let identity = self
                    .authenticator
                    .authenticate(&mut request, &query, dialect)
                    .inspect_err(|error| self.log_failed_signature(error, &request, entry))?;
                entry.user = Some(identity.name().to_owned());
                entry.session = identity.session().cloned();
                // A mirror asks this of its target, with a signature. Others do not learn the id.
                if operation == Operation::GetBucketVersioning && !identity.is_anonymous() {
                    entry.store = Some(self.store_mark());
                }
                // 8. After the signature, which covers the headers as they were sent.
                hoisted::restore_headers(&mut request.headers, &query, dialect)?;
                let call = Call::new(entry.arrival(), operation, target, request).with_query(query);
                (identity, call)
            }
        };
        self.decide_confinement(entry, &identity, &call);
        self.perform(&identity, &mut call, entry)
    }

    /// Notes the request for the log of its bucket, if that has one, and for that of the bucket
    /// which it copies from.
    fn note_for_logs(
        &self,
        request: &Request<'_>,
        query: &QueryParams,
        operation: Operation,
        target: &TargetResource,
        entry: &mut RequestLogEntry,
    ) {
        if self.recorder.bucket_logs.is_none() || target.level() == ResourceLevel::Service {
            return;
        }
        let log = self.context.log_of(target.bucket());
        let dialect = entry.dialect;
        if let Some(log) = log {
            entry.logged.push(LoggedRequest::new(log, request, query, target, operation, dialect));
        }
        if !matches!(operation, Operation::CopyObject | Operation::UploadPartCopy) {
            return;
        }
        let vendor = VendorHeaders::new(&request.headers, dialect);
        let Ok(source) = CopySourceHeader::from_headers(vendor) else { return };
        if let Some(log) = self.context.log_of(&source.bucket) {
            let noted = LoggedRequest::new(log.clone(), request, query, target, operation, dialect);
            entry.logged.push(noted.of_source(log, source.key.as_str(), source.version));
        }
    }

    /// The public id of the store, and the ids of the stores that its mirrors reach: a mirror from
    /// one of them to here knows by them that changes go in a circle.
    fn store_mark(&self) -> String {
        let own = self.context.store.public_id();
        let reached = self.mirrors.iter().flat_map(|mirror| mirror.reached_stores());
        let mut others: Vec<_> = reached.filter(|id| *id != own).collect();
        others.sort();
        others.dedup();
        others.truncate(STORES_MAX);
        others.insert(0, own);
        others.join(",")
    }

    /// Has the attempt of a request audited: in the audit log, if there is one, and if it is one of
    /// the acts that are kept in memory.
    fn begin_audit(
        &self,
        entry: &mut RequestLogEntry,
        operation: Operation,
        target: &TargetResource,
        query: &QueryParams,
    ) {
        let has_log = self.recorder.audit.log().is_some();
        entry.audit = AuditEntry::begin(operation, target, query, has_log);
    }

    /// Runs the operation of a call, if its sender may.
    fn perform(
        &self,
        identity: &Identity,
        call: &mut Call<'_>,
        entry: &mut RequestLogEntry,
    ) -> Result<Response, S3Error> {
        for logged in &mut entry.logged {
            logged.sent_by(identity, call);
        }
        if let Some(audit) = &mut entry.audit {
            audit.sent_by(identity);
        }
        call.named_objects = (!entry.logged.is_empty()).then(Vec::new);
        let outcome = self.perform_unlogged(identity, call, entry);
        if let Some(logged) = entry.logged.first_mut()
            && let Some(named) = call.named_objects.take()
        {
            logged.named_objects = named;
        }
        outcome
    }

    fn perform_unlogged(
        &self,
        identity: &Identity,
        call: &mut Call<'_>,
        entry: &mut RequestLogEntry,
    ) -> Result<Response, S3Error> {
        self.context.read_facts_for_policy(identity, call)?;
        let proof = self.context.authorize(identity, call)?;
        for logged in &mut entry.logged {
            logged.permitted_by(&proof);
        }
        self.run_operation(&proof, call, entry)
    }

    /// Runs the operation of a call that is permitted.
    fn run_operation(
        &self,
        proof: &Authorized,
        call: &mut Call<'_>,
        entry: &mut RequestLogEntry,
    ) -> Result<Response, S3Error> {
        match (&mut entry.audit, self.recorder.audit.log()) {
            (Some(audit), Some(log)) => audit.run(log, &self.context, proof, call),
            _ => self.context.dispatch(proof, call),
        }
    }

    fn log_failed_signature(&self, error: &S3Error, request: &Request<'_>, entry: &RequestLogEntry) {
        let peer = request.peer.map(|peer| peer.ip());
        self.failed_signatures.log(error, entry.id.as_str(), peer, self.recorder.clock.instant());
    }

    /// The name of the requested page below `/-/`, perhaps by a path of MinIO. At the host of a
    /// bucket or a website these paths are keys.
    fn page_name<'r>(&self, request: &'r Request<'_>) -> Option<&'r str> {
        let name = request.path.strip_prefix("/-/").or_else(|| pages::by_minio_path(request))?;
        (!self.is_host_of_bucket(request)).then_some(name)
    }

    /// Whether an unsigned request asks only whether a server is here, as monitors and proxies do.
    /// The answer says nothing else.
    fn asks_for_presence(&self, request: &Request<'_>) -> bool {
        request.method == Method::Head
            && request.path == "/"
            && request.query.is_empty()
            && request.headers.get("authorization").is_none()
            && !self.is_host_of_bucket(request)
    }

    /// Whether the request was sent to the host of a bucket or of its website.
    pub fn is_host_of_bucket(&self, request: &Request<'_>) -> bool {
        self.settings.addressing.is_of_bucket(host(request)) || self.website_bucket(request).is_some()
    }

    fn route(
        &self,
        request: &Request<'_>,
        query: &QueryParams,
        dialect: Dialect,
    ) -> Result<(TargetResource, Operation), S3Error> {
        let target = self.settings.addressing.target(&request.path, host(request))?;
        let copies = VendorHeaders::new(&request.headers, dialect).get("copy-source").is_some()
            || hoisted::has_header(query, dialect, "copy-source");
        let operation = route::operation(&request.method, target.level(), query, copies)?;
        Ok((target, operation))
    }

    /// A deferred response, which is recorded when its work is done.
    fn defer(
        &self,
        work: DeferredWork,
        cors: CorsHeaders,
        mut entry: RequestLogEntry,
        received: AtomicU64,
    ) -> Response {
        let recorder = self.recorder.clone();
        Response::new(200).with_body(ResponseBody::Deferred(Box::new(move || {
            Ok(recorder.conclude(work(), cors, &mut entry, &received))
        })))
    }
}

/// Names the store in the answer to GetBucketVersioning, by which a mirror knows where it is.
const STORE_MARK: &str = "p-siltstone-store";
/// The most stores that it names beside.
const STORES_MAX: usize = 64;

/// The host that the request was sent to, as it says.
fn host<'r>(request: &'r Request<'_>) -> &'r str {
    request.headers.get_str("host").unwrap_or_default()
}

/// The outcome with another header.
fn marked(
    outcome: Result<Response, S3Error>,
    name: &'static str,
    value: String,
) -> Result<Response, S3Error> {
    match outcome {
        Ok(response) => Ok(response.header(name, value)),
        Err(error) => Err(error.header(name, value)),
    }
}

impl RequestRecorder {
    /// Renders, audits, counts and logs an outcome. The response gets the headers of `cors`.
    fn conclude(
        &self,
        outcome: Result<Response, S3Error>,
        cors: CorsHeaders,
        entry: &mut RequestLogEntry,
        received: &AtomicU64,
    ) -> Response {
        if let Err(error) = &outcome {
            entry.error = Some(error.code.as_str());
        }
        let head = entry.method == Method::Head;
        let frame = ResponseFrame { dialect: entry.dialect, id: &entry.id, resource: &entry.path, head };
        let outcome = match &self.staleness {
            Some(staleness) => staleness.mark(outcome),
            None => outcome,
        };
        let outcome = match entry.store.take() {
            Some(id) => marked(outcome, STORE_MARK, id),
            None => outcome,
        };
        let mut response = render(outcome, frame);
        if entry.is_confined {
            response = html_sandbox::confine(response);
        }
        response = without_type_of_nothing(response);
        cors::add_headers(&mut response, cors);
        // The record is durable before the response leaves.
        entry.audit(&self.audit, response.status);
        entry.conclude(&response, received, self, self.clock.instant());
        response
    }
}

/// The response; a 304 without its type, which decides what a browser may do with its cached copy
/// and is of no use to others (RFC 9110, section 15.4.5).
fn without_type_of_nothing(mut response: Response) -> Response {
    if response.status == 304 {
        response.headers.retain(|(name, _)| !name.eq_ignore_ascii_case("content-type"));
    }
    response
}
