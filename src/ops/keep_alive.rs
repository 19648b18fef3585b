//! Keeps a client waiting that would else give up: the head of a late answer goes out first, then blanks, and what it comes
//! to stands at the end (S3 API reference, CompleteMultipartUpload).

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, bounded};

use crate::base::limits::{KEEP_ALIVE_AFTER_SECS, KEEP_ALIVE_EVERY_SECS, PROMPT_COMMIT_MILLIS};
use crate::s3::render::{Frame, render};
use crate::s3::{BodySource, Call, Client, Dialect, ErrorCode, RequestId, Response, ResponseBody, S3Error};
use crate::xml::DECLARATION;

/// For how long a client is left without a byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeepAlive {
    /// An answer that takes longer begins before it is known.
    pub after: Duration,
    /// How far apart the blanks are.
    pub every: Duration,
}

impl Default for KeepAlive {
    fn default() -> Self {
        Self {
            after: Duration::from_secs(KEEP_ALIVE_AFTER_SECS),
            every: Duration::from_secs(KEEP_ALIVE_EVERY_SECS),
        }
    }
}

/// A wait of this length is nothing to speak of: ordinary commits take less.
const PROMPT: Duration = Duration::from_millis(PROMPT_COMMIT_MILLIS);

/// How often there is a look whether the client is still there.
const LOOK: Duration = Duration::from_millis(50);

type Outcome = Result<Response, S3Error>;

/// Answers with what `work` comes to, a document or an error. Where that takes too long the answer is a 200 whose body holds
/// the document or the error; headers are lost then. Work that does not ask whether it was abandoned is finished also when
/// the client has gone.
///
/// # Errors
/// Those of `work` where it ends at once; `SlowDown` when the system has no thread to spare.
pub(super) fn answer(
    times: KeepAlive,
    call: &Call<'_>,
    work: impl FnOnce(&Abandoned) -> Outcome + Send + 'static,
) -> Outcome {
    let late = Late::new(times, call);
    let running = Running::start(work)?;
    match running.wait(PROMPT.min(times.after)) {
        Some(outcome) => outcome,
        None => Ok(Response::new(200).with_body(ResponseBody::Deferred(Box::new(|| late.follow(running))))),
    }
}

/// The same for work that takes long by its nature: it begins when the engine has time for it.
pub(super) fn defer(
    times: KeepAlive,
    call: &Call<'_>,
    work: impl FnOnce(&Abandoned) -> Outcome + Send + 'static,
) -> Response {
    let late = Late::new(times, call);
    let follow = move || {
        late.check_client()?;
        late.follow(Running::start(work)?)
    };
    Response::new(200).with_body(ResponseBody::Deferred(Box::new(follow)))
}

/// What tells work that nobody waits for it any more.
#[derive(Debug, Clone, Default)]
pub(super) struct Abandoned(Arc<AtomicBool>);

impl Abandoned {
    /// Whether the work is still wanted.
    ///
    /// # Errors
    /// `RequestTimeout`, which nobody will read.
    pub(super) fn check(&self) -> Result<(), S3Error> {
        match self.0.load(Ordering::Relaxed) {
            true => Err(S3Error::new(ErrorCode::RequestTimeout)),
            false => Ok(()),
        }
    }
}

/// Work in a thread of its own. It is abandoned when this is dropped.
struct Running {
    outcome: Receiver<Outcome>,
    abandoned: Abandoned,
}

impl Running {
    fn start(work: impl FnOnce(&Abandoned) -> Outcome + Send + 'static) -> Result<Self, S3Error> {
        let (sender, outcome) = bounded(1);
        let abandoned = Abandoned::default();
        let is_abandoned = abandoned.clone();
        let run = move || {
            // Where the client has gone there is nobody to tell.
            let _ = sender.send(work(&is_abandoned));
        };
        thread::Builder::new().name("late-answer".into()).spawn(run).map_err(|error| {
            log::error!("no thread can be started: {error}");
            S3Error::new(ErrorCode::SlowDown)
        })?;
        Ok(Self { outcome, abandoned })
    }

    /// What the work came to, if it ends within that time.
    fn wait(&self, time: Duration) -> Option<Outcome> {
        match self.outcome.recv_timeout(time) {
            Ok(outcome) => Some(outcome),
            Err(RecvTimeoutError::Disconnected) => Some(Err(S3Error::new(ErrorCode::InternalError))),
            Err(RecvTimeoutError::Timeout) => None,
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.abandoned.0.store(true, Ordering::Relaxed);
    }
}

/// What a late answer takes from its request.
struct Late {
    times: KeepAlive,
    since: Instant,
    client: Option<Arc<dyn Client>>,
    id: RequestId,
    dialect: Dialect,
    resource: String,
}

impl Late {
    fn new(times: KeepAlive, call: &Call<'_>) -> Self {
        Self {
            times,
            since: Instant::now(),
            client: call.request.client.clone(),
            id: call.id.clone(),
            dialect: call.dialect,
            resource: call.request.path.clone(),
        }
    }

    /// Waits for the work as long as the client may be left without a byte; from then on the answer is one that has begun.
    fn follow(self, running: Running) -> Outcome {
        let left = self.times.after.saturating_sub(self.since.elapsed());
        match self.wait(&running, left)? {
            Some(outcome) => outcome,
            None => Ok(self.begin(running)),
        }
    }

    /// What the work came to, if it ends within that time.
    ///
    /// # Errors
    /// The client has left.
    fn wait(&self, running: &Running, time: Duration) -> Result<Option<Outcome>, S3Error> {
        let until = Instant::now() + time;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let outcome = running.wait(left.min(LOOK));
            if outcome.is_some() {
                return Ok(outcome);
            }
            self.check_client()?;
            if left <= LOOK {
                return Ok(None);
            }
        }
    }

    /// Whether there is anybody to work for.
    ///
    /// # Errors
    /// `RequestTimeout`, which nobody will read.
    fn check_client(&self) -> Result<(), S3Error> {
        match &self.client {
            Some(client) if client.has_left() => Err(S3Error::new(ErrorCode::RequestTimeout)),
            _ => Ok(()),
        }
    }

    fn begin(self, running: Running) -> Response {
        // The declaration must be the first of all, also before blanks (XML 1.0, section 2.8).
        let ready = DECLARATION.as_bytes().to_vec();
        let body = LateBody { late: self, running, ready, sent: 0, ended: false };
        Response::new(200)
            .header("Content-Type", "application/xml")
            .with_body(ResponseBody::Stream { length: None, source: Box::new(body) })
    }
}

/// A document that begins before it is known.
struct LateBody {
    late: Late,
    running: Running,
    /// What may be sent now, and how much of it has been.
    ready: Vec<u8>,
    sent: usize,
    /// Whether nothing comes behind what is ready.
    ended: bool,
}

impl BodySource for LateBody {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if self.sent == self.ready.len() && !self.ended {
            (self.ready, self.sent) = (self.wait()?, 0);
        }
        let rest = &self.ready[self.sent..];
        let count = rest.len().min(buf.len());
        buf[..count].copy_from_slice(&rest[..count]);
        self.sent += count;
        Ok(count)
    }
}

impl LateBody {
    /// The rest of the document, or a blank when it has not come in time.
    fn wait(&mut self) -> io::Result<Vec<u8>> {
        let waited = self.late.wait(&self.running, self.late.times.every);
        let waited = waited.map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?;
        let Some(outcome) = waited else { return Ok(b" ".to_vec()) };
        self.ended = true;
        let Late { dialect, ref id, ref resource, .. } = self.late;
        let frame = Frame { dialect, id, resource, head: false };
        Ok(match render(outcome, frame).body {
            ResponseBody::Bytes(document) => {
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

    /// A client that leaves when it is told to.
    struct Leaving(AtomicBool);

    impl Client for Leaving {
        fn has_left(&self) -> bool {
            self.0.load(Ordering::Relaxed)
        }
    }

    fn late(after: Duration, client: &Arc<Leaving>) -> Late {
        Late {
            times: KeepAlive { after, every: Duration::from_secs(600) },
            since: Instant::now(),
            client: Some(client.clone()),
            id: RequestId::new(&SeededEntropy::new(1)),
            dialect: Dialect::Aws,
            resource: "/b/k".to_owned(),
        }
    }

    /// Work without an end, unless it is abandoned; then it says so.
    fn endless() -> (Running, Receiver<()>) {
        let (ended, end) = unbounded();
        let work = move |abandoned: &Abandoned| loop {
            if let Err(error) = abandoned.check() {
                ended.send(()).expect("the test waits for it");
                return Err(error);
            }
            thread::sleep(Duration::from_millis(1));
        };
        (Running::start(work).expect("there is a thread"), end)
    }

    #[test]
    fn work_ends_when_its_client_leaves_before_the_answer_begins() {
        let client = Arc::new(Leaving(AtomicBool::new(false)));
        let (running, end) = endless();
        let leaver = Arc::clone(&client);
        thread::spawn(move || leaver.0.store(true, Ordering::Relaxed));
        assert!(late(Duration::from_secs(600), &client).follow(running).is_err());
        assert!(end.recv().is_ok());
    }

    #[test]
    fn work_ends_when_its_client_leaves_after_the_answer_has_begun() {
        let client = Arc::new(Leaving(AtomicBool::new(false)));
        let (running, end) = endless();
        let response = late(Duration::ZERO, &client).follow(running).expect("it has begun");
        let ResponseBody::Stream { length: None, mut source } = response.body else {
            panic!("the answer is not late")
        };
        let mut buffer = [0; 100];
        assert_eq!(source.read(&mut buffer).expect("a declaration"), DECLARATION.len());
        client.0.store(true, Ordering::Relaxed);
        assert!(source.read(&mut buffer).is_err(), "the connection is to be cut");
        drop(source);
        assert!(end.recv().is_ok());
    }
}
