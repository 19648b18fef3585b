//! What a standby answers until it has taken over and opened its store: its pages for monitoring,
//! reads if it has a service for them, and 503 to everything else.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant, SystemTime};

use super::metrics::{self, Exposition};
use super::pages::{MetricsAccess, by_minio_path, exposition, may_read, text, token_needed};
use super::{MetricsToken, Service, Staleness};
use crate::base::{Entropy, NOT_POISONED, limits};
use crate::ops::StandbyFigures;
use crate::s3::render::{ResponseFrame, render};
use crate::s3::{Dialect, ErrorCode, Handler, Method, Request, RequestId, Response, S3Error};

/// The `Retry-After` of a standby: it may be one for months.
const STANDBY_RETRY_SECS: u64 = 10;

/// What the pages of a standby show.
#[derive(Debug, Clone, Default)]
pub struct StandbyState {
    /// The figures of the directory.
    pub figures: StandbyFigures,
    /// The time since the directory had all that the remote has.
    pub lag: Duration,
    /// Whether this host has taken over, and opens its store.
    pub opens: bool,
    /// The reason why the directory gets no further, if it does not.
    pub problem: Option<String>,
}

/// The handler of a standby.
pub struct StandbyService {
    state: Mutex<StandbyState>,
    /// When the users file was changed last, if there is one.
    users_changed: Mutex<Option<SystemTime>>,
    /// Whether there is a key ring.
    has_ring: AtomicBool,
    /// Answers the reads, while there is a store for them.
    reads: Mutex<Option<Arc<Service>>>,
    staleness: Arc<Staleness>,
    metrics: MetricsAccess,
    metrics_token: Option<Arc<MetricsToken>>,
    dialect: Dialect,
    entropy: Arc<dyn Entropy>,
}

impl StandbyService {
    /// A handler whose request ids come from `entropy`.
    pub fn new(metrics: MetricsAccess, dialect: Dialect, entropy: Arc<dyn Entropy>) -> Self {
        Self {
            state: Mutex::default(),
            users_changed: Mutex::default(),
            has_ring: AtomicBool::default(),
            reads: Mutex::default(),
            staleness: Arc::default(),
            metrics,
            metrics_token: None,
            dialect,
            entropy,
        }
    }

    /// The same handler, whose metrics are also for clients that state the token.
    #[must_use]
    pub fn with_metrics_token(self, token: Arc<MetricsToken>) -> Self {
        Self { metrics_token: Some(token), ..self }
    }

    /// Says from now on that this host opens its store.
    pub fn show_opening(&self) {
        self.lock().opens = true;
    }

    /// Replaces what the pages show.
    pub fn show(&self, state: StandbyState) {
        *self.lock() = state;
    }

    /// Remembers when the users file, a copy of the writer's, was changed last; `None` without one.
    pub fn show_users_file(&self, changed: Option<SystemTime>) {
        *self.users_changed.lock().expect(NOT_POISONED) = changed;
    }

    /// Remembers whether there is a key ring, a copy of the writer's.
    pub fn show_key_ring(&self, is_there: bool) {
        self.has_ring.store(is_there, Ordering::Relaxed);
    }

    fn ring_text(&self) -> &'static str {
        match self.has_ring.load(Ordering::Relaxed) {
            true => "",
            false => "It has no key ring, so encrypted objects cannot be read here.\n",
        }
    }

    /// How old the users file is. It is not followed as the log is, so its operator has to keep it
    /// alike.
    fn users_text(&self) -> String {
        let changed = *self.users_changed.lock().expect(NOT_POISONED);
        match changed {
            None => "It has no users file.\n".to_owned(),
            Some(changed) => {
                let age = changed.elapsed().unwrap_or_default().as_secs();
                format!("Its users file was changed {age} s ago.\n")
            }
        }
    }

    /// Remembers that the directory had at `time` all that the remote had then. Before the first
    /// such time no reads are answered.
    pub fn show_whole(&self, time: Instant) {
        self.staleness.show_whole(time);
    }

    /// Lets `service` answer the reads from now on.
    pub fn open_reads(&self, service: Service) {
        let service = service.with_staleness(Arc::clone(&self.staleness));
        *self.lock_reads() = Some(Arc::new(service));
    }

    /// Answers no more reads. Those that have begun go on.
    pub fn close_reads(&self) {
        let last = self.lock_reads().take();
        // The memory of its store is freed after the lock is released.
        drop(last);
    }

    /// The service that answers reads, if they can be answered.
    fn reads(&self) -> Option<Arc<Service>> {
        self.staleness.seconds()?;
        self.lock_reads().clone()
    }

    fn lock_reads(&self) -> MutexGuard<'_, Option<Arc<Service>>> {
        self.reads.lock().expect(NOT_POISONED)
    }

    fn lock(&self) -> MutexGuard<'_, StandbyState> {
        self.state.lock().expect(NOT_POISONED)
    }

    fn page(&self, name: &str, request: &Request<'_>) -> Response {
        match (name, self.metrics) {
            ("health", _) => text(200, "alive\n"),
            ("ready", _) => text(503, &self.obstacle()),
            ("readable", _) if self.reads().is_some() => text(200, "readable\n"),
            ("readable", _) => text(503, &self.obstacle()),
            ("metrics", access) if may_read(request, access, self.metrics_token.as_deref()) => {
                let state = self.lock().clone();
                let mut page = Exposition::default();
                metrics::standby(&mut page, &state.figures, state.lag);
                if let Some(reads) = self.reads() {
                    reads.show_metrics(&mut page);
                }
                exposition(page)
            }
            ("metrics", _) if self.metrics_token.is_some() => token_needed(),
            _ => text(404, "A standby has no such page.\n"),
        }
    }

    /// Why a put would be refused.
    fn obstacle(&self) -> String {
        let StandbyState { figures, lag, opens, problem } = self.lock().clone();
        if opens {
            return "starting: this host has taken over, and opens its store\n".to_owned();
        }
        if let Some(problem) = problem {
            return format!("a standby, which gets no further: {problem}\n");
        }
        if figures.epoch == 0 {
            return "a standby, which is being filled\n".to_owned();
        }
        let StandbyFigures { epoch, waiting_groups: groups, lag_bytes: bytes, .. } = figures;
        let lag = lag.as_secs();
        let reads = if self.reads().is_some() { ", which answers reads" } else { "" };
        let users = self.users_text();
        let ring = self.ring_text();
        format!(
            "a standby of epoch {epoch}, {groups} groups, {bytes} bytes and {lag} s behind{reads}\n{users}{ring}"
        )
    }

    fn refusal(&self, error: S3Error, resource: &str, head: bool) -> Response {
        let id = RequestId::new(&*self.entropy);
        render(Err(error), ResponseFrame { dialect: self.dialect, id: &id, resource, head })
    }
}

impl Handler for StandbyService {
    fn handle(&self, request: Request<'_>) -> Response {
        let reads = self.reads();
        // At the host of a bucket the paths of pages are keys.
        let is_of_bucket = reads.as_ref().is_some_and(|reads| reads.is_host_of_bucket(&request));
        let name = request.path.strip_prefix("/-/").or_else(|| by_minio_path(&request));
        let name = name.filter(|_| !is_of_bucket);
        if let Some(reads) = reads
            && name.is_none()
        {
            return reads.handle(request);
        }
        let head = matches!(request.method, Method::Head);
        if let Some(name) = name.filter(|_| head || matches!(request.method, Method::Get)) {
            let answer = self.page(name, &request);
            let id = RequestId::new(&*self.entropy);
            let frame = ResponseFrame { dialect: self.dialect, id: &id, resource: &request.path, head };
            return render(Ok(answer), frame);
        }
        let (message, seconds) = match self.lock().opens {
            true => ("This host has taken over, and opens its store.", limits::RETRY_AFTER_SECS),
            false => ("This host is a standby: another one serves the objects.", STANDBY_RETRY_SECS),
        };
        let error = S3Error::new(ErrorCode::ServiceUnavailable).message(message);
        let error = error.header("Retry-After", seconds.to_string());
        self.refusal(error, &request.path, head)
    }

    fn overloaded(&self, request: Option<&Request<'_>>) -> Response {
        match self.reads() {
            Some(reads) => reads.overloaded(request),
            None => self.refusal(S3Error::slow_down(), "", false),
        }
    }

    fn refused(&self, error: S3Error) -> Response {
        match self.reads() {
            Some(reads) => reads.refused(error),
            None => self.refusal(error, "", false),
        }
    }

    fn note_queue_wait(&self, waited: Duration) {
        if let Some(reads) = self.reads() {
            reads.note_queue_wait(waited);
        }
    }
}

/// The refusal of a write by a standby that answers reads.
pub(super) fn refused_write() -> S3Error {
    S3Error::new(ErrorCode::ServiceUnavailable)
        .message("This host is a standby: it answers reads alone, and another one takes the writes.")
        .header("Retry-After", STANDBY_RETRY_SECS.to_string())
}
