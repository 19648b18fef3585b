//! Responses of long operations. The client would abort after a minute without a byte, so the head
//! is sent first, then whitespace, and the document or the error at the end (S3 API reference,
//! CompleteMultipartUpload).

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, bounded};

use super::{Context, memory};
use crate::base::limits::{PADDING_AFTER_SECS, PADDING_EVERY_SECS, PROMPT_COMMIT_MILLIS};
use crate::s3::render::{ResponseFrame, render};
use crate::s3::{BodySource, Call, Client, Dialect, ErrorCode, RequestId, Response, ResponseBody, S3Error};
use crate::store::CauseScope;
use crate::xml::DECLARATION;

/// The longest times for which a client waits without a byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PaddingTimes {
    /// The head of the response is sent after this time, if the outcome is not known by then.
    pub after: Duration,
    /// A whitespace character follows at this interval.
    pub every: Duration,
}

impl Default for PaddingTimes {
    fn default() -> Self {
        Self {
            after: Duration::from_secs(PADDING_AFTER_SECS),
            every: Duration::from_secs(PADDING_EVERY_SECS),
        }
    }
}

/// Ordinary commits take less than this. Only after it a worker leaves the wait to the engine.
const PROMPT: Duration = Duration::from_millis(PROMPT_COMMIT_MILLIS);

/// The interval at which the connection of the client is checked.
const CLIENT_CHECK_INTERVAL: Duration = Duration::from_millis(50);

type TaskOutcome = Result<Response, S3Error>;

/// Runs `work` on a thread of its own and responds with its outcome, a document or an error. If
/// that takes too long the response is a 200 whose body holds the document or the error, and the
/// headers of the outcome are lost. Work that does not check its token runs to its end, also after
/// the client has left.
///
/// # Errors
/// Errors of `work` if it ends promptly; `SlowDown` if no thread can be started.
pub(super) fn respond(
    context: &Context,
    call: &Call<'_>,
    work: impl FnOnce(&CancelToken) -> TaskOutcome + Send + 'static,
) -> TaskOutcome {
    let response = PaddedResponse::new(context.padding, call);
    let task = BackgroundTask::start(with_cause(work))?;
    match task.wait(PROMPT.min(context.padding.after)) {
        Some(outcome) => outcome,
        None => Ok(deferred(move || response.follow(task))),
    }
}

/// As [`respond`], for work that is always long: it starts when the engine has time for it.
pub(super) fn defer(
    context: &Context,
    call: &Call<'_>,
    work: impl FnOnce(&CancelToken) -> TaskOutcome + Send + 'static,
) -> Response {
    let response = PaddedResponse::new(context.padding, call);
    let work = with_cause(work);
    deferred(move || {
        response.check_client()?;
        response.follow(BackgroundTask::start(work)?)
    })
}

/// Runs `work` at once if it is short; otherwise defers it, with the memory of its thread reserved.
///
/// # Errors
/// Errors of short work; `SlowDown` without memory for long work.
pub(super) fn run_or_defer(
    context: &Context,
    call: &Call<'_>,
    is_long: bool,
    work: impl FnOnce(&CancelToken) -> TaskOutcome + Send + 'static,
) -> TaskOutcome {
    if !is_long {
        return work(&CancelToken::default());
    }
    let reservation = memory::for_padded_response(context)?;
    Ok(defer(context, call, move |cancel| {
        let _reservation = reservation;
        work(cancel)
    }))
}

/// Work that commits on behalf of the request of this thread, whatever thread it runs on.
fn with_cause(
    work: impl FnOnce(&CancelToken) -> TaskOutcome + Send + 'static,
) -> impl FnOnce(&CancelToken) -> TaskOutcome + Send + 'static {
    let cause = CauseScope::current();
    move |cancel| {
        let _scope = CauseScope::enter(cause);
        work(cancel)
    }
}

fn deferred(follow: impl FnOnce() -> TaskOutcome + Send + 'static) -> Response {
    Response::new(200).with_body(ResponseBody::Deferred(Box::new(follow)))
}

/// Informs work that its client has left.
#[derive(Debug, Clone, Default)]
pub(super) struct CancelToken(Arc<AtomicBool>);

impl CancelToken {
    /// Checks that the work is still wanted.
    ///
    /// # Errors
    /// `RequestTimeout`, which is not sent to any client.
    pub(super) fn check(&self) -> Result<(), S3Error> {
        match self.0.load(Ordering::Relaxed) {
            true => Err(S3Error::new(ErrorCode::RequestTimeout)),
            false => Ok(()),
        }
    }
}

/// Work on a thread of its own. Dropping this cancels it.
struct BackgroundTask {
    outcome: Receiver<TaskOutcome>,
    cancel: CancelToken,
}

impl BackgroundTask {
    fn start(work: impl FnOnce(&CancelToken) -> TaskOutcome + Send + 'static) -> Result<Self, S3Error> {
        let (sender, outcome) = bounded(1);
        let cancel = CancelToken::default();
        let token = cancel.clone();
        let started = thread::Builder::new().name("padded-response".into()).spawn(move || {
            // The receiver is gone if the client has left.
            let _ = sender.send(work(&token));
        });
        if let Err(error) = started {
            log::error!("no thread can be started: {error}");
            return Err(S3Error::new(ErrorCode::SlowDown));
        }
        Ok(Self { outcome, cancel })
    }

    /// The outcome, if the work ends within `timeout`.
    fn wait(&self, timeout: Duration) -> Option<TaskOutcome> {
        match self.outcome.recv_timeout(timeout) {
            Ok(outcome) => Some(outcome),
            Err(RecvTimeoutError::Disconnected) => Some(Err(S3Error::new(ErrorCode::InternalError))),
            Err(RecvTimeoutError::Timeout) => None,
        }
    }
}

impl Drop for BackgroundTask {
    fn drop(&mut self) {
        self.cancel.0.store(true, Ordering::Relaxed);
    }
}

/// A response that may have to begin before its outcome is known, with its part of the request.
struct PaddedResponse {
    times: PaddingTimes,
    since: Instant,
    client: Option<Arc<dyn Client>>,
    id: RequestId,
    dialect: Dialect,
    resource: String,
}

impl PaddedResponse {
    fn new(times: PaddingTimes, call: &Call<'_>) -> Self {
        Self {
            times,
            since: Instant::now(),
            client: call.request.client.clone(),
            id: call.id.clone(),
            dialect: call.dialect,
            resource: call.request.path.clone(),
        }
    }

    /// Waits for the outcome as long as the client may be left without a byte, then begins the
    /// response.
    fn follow(self, task: BackgroundTask) -> TaskOutcome {
        let left = self.times.after.saturating_sub(self.since.elapsed());
        match self.wait(&task, left)? {
            Some(outcome) => outcome,
            None => Ok(self.begin(task)),
        }
    }

    /// The outcome, if the work ends within `timeout`.
    ///
    /// # Errors
    /// The client has left.
    fn wait(&self, task: &BackgroundTask, timeout: Duration) -> Result<Option<TaskOutcome>, S3Error> {
        let until = Instant::now() + timeout;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let outcome = task.wait(left.min(CLIENT_CHECK_INTERVAL));
            if outcome.is_some() {
                return Ok(outcome);
            }
            self.check_client()?;
            if left <= CLIENT_CHECK_INTERVAL {
                return Ok(None);
            }
        }
    }

    /// Checks that the client is still connected.
    ///
    /// # Errors
    /// `RequestTimeout`, which is not sent to any client.
    fn check_client(&self) -> Result<(), S3Error> {
        match &self.client {
            Some(client) if client.has_left() => Err(S3Error::new(ErrorCode::RequestTimeout)),
            _ => Ok(()),
        }
    }

    fn begin(self, task: BackgroundTask) -> Response {
        // The declaration must precede everything, also whitespace (XML 1.0, section 2.8).
        let ready = DECLARATION.as_bytes().to_vec();
        let body = PaddedBody { response: self, task, ready, sent: 0, ended: false };
        Response::new(200)
            .header("Content-Type", "application/xml")
            .with_body(ResponseBody::Stream { length: None, source: Box::new(body) })
    }
}

/// A document that begins before it is known, padded with whitespace.
struct PaddedBody {
    response: PaddedResponse,
    task: BackgroundTask,
    /// Bytes that may be sent, and how many of them have been.
    ready: Vec<u8>,
    sent: usize,
    /// Whether `ready` holds the end of the document.
    ended: bool,
}

impl BodySource for PaddedBody {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if self.sent == self.ready.len() && !self.ended {
            self.ready = self.wait()?;
            self.sent = 0;
        }
        let rest = &self.ready[self.sent..];
        let count = rest.len().min(buf.len());
        buf[..count].copy_from_slice(&rest[..count]);
        self.sent += count;
        Ok(count)
    }
}

impl PaddedBody {
    /// The rest of the document, or a space if it is not known within the interval.
    fn wait(&mut self) -> io::Result<Vec<u8>> {
        let waited = self.response.wait(&self.task, self.response.times.every);
        let waited = waited.map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?;
        let Some(outcome) = waited else { return Ok(b" ".to_vec()) };
        self.ended = true;
        let PaddedResponse { dialect, ref id, ref resource, .. } = self.response;
        let frame = ResponseFrame { dialect, id, resource, head: false };
        Ok(match render(outcome, frame).body {
            ResponseBody::Bytes(document) => {
                // It went ahead of the whitespace.
                document.strip_prefix(DECLARATION.as_bytes()).unwrap_or(&document).to_vec()
            }
            _ => Vec::new(),
        })
    }
}

#[cfg(test)]
mod tests {
    use crossbeam_channel::unbounded;

    use super::*;
    use crate::base::SeededEntropy;

    /// A client that leaves on request.
    struct Leaving(AtomicBool);

    impl Client for Leaving {
        fn has_left(&self) -> bool {
            self.0.load(Ordering::Relaxed)
        }
    }

    fn response(after: Duration, client: &Arc<Leaving>) -> PaddedResponse {
        PaddedResponse {
            times: PaddingTimes { after, every: Duration::from_secs(600) },
            since: Instant::now(),
            client: Some(client.clone()),
            id: RequestId::new(&SeededEntropy::new(1)),
            dialect: Dialect::Aws,
            resource: "/b/k".to_owned(),
        }
    }

    /// Work that ends when it is cancelled, and reports that.
    fn endless() -> (BackgroundTask, Receiver<()>) {
        let (ended, end) = unbounded();
        let work = move |cancel: &CancelToken| loop {
            if let Err(error) = cancel.check() {
                ended.send(()).expect("the test waits for it");
                return Err(error);
            }
            thread::sleep(Duration::from_millis(1));
        };
        (BackgroundTask::start(work).expect("there is a thread"), end)
    }

    #[test]
    fn work_ends_when_its_client_leaves_before_the_answer_begins() {
        let client = Arc::new(Leaving(AtomicBool::new(false)));
        let (task, end) = endless();
        let leaver = Arc::clone(&client);
        thread::spawn(move || leaver.0.store(true, Ordering::Relaxed));
        assert!(response(Duration::from_secs(600), &client).follow(task).is_err());
        assert!(end.recv().is_ok());
    }

    #[test]
    fn work_ends_when_its_client_leaves_after_the_answer_has_begun() {
        let client = Arc::new(Leaving(AtomicBool::new(false)));
        let (task, end) = endless();
        let response = response(Duration::ZERO, &client).follow(task).expect("it has begun");
        let ResponseBody::Stream { length: None, mut source } = response.body else {
            panic!("the response is not padded")
        };
        let mut buffer = [0; 100];
        assert_eq!(source.read(&mut buffer).expect("a declaration"), DECLARATION.len());
        client.0.store(true, Ordering::Relaxed);
        assert!(source.read(&mut buffer).is_err(), "the connection is to be cut");
        drop(source);
        assert!(end.recv().is_ok());
    }
}
