//! The tries of a call: repeated with growing pauses until its deadline, on kept connections,
//! unless the circuit is open.

use std::io;
use std::sync::{Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use crate::base::{Backoff, Entropy as _, NOT_POISONED, OsEntropy, SeededEntropy};
use crate::client::{
    Answer, Endpoint, HttpConnection, QueryParameter, RequestSigner, RequestToSign, StreamedRequest,
    encoded_query,
};
use crate::client::{CircuitBreaker, RateLimit};
use crate::remote::requests::RequestCounters;
use crate::remote::s3::answers;
use crate::remote::s3::transfer::{BodyReader, BoundedSink, DigestedBody, Pace};
use crate::remote::{RemoteCall, RemoteError};

/// The most tries of a call.
const TRIES_MAX: u32 = 6;
/// The pauses after tries. The last try of a call has none, so that the longest one is not reached.
const BACKOFF: Backoff = Backoff { first: Duration::from_millis(100), longest: Duration::from_secs(10) };
/// The longest silence of the remote in a try.
const SILENCE_MAX: Duration = Duration::from_secs(20);
/// The most connections that are kept while no call uses them.
const IDLE_MAX: usize = 64;
/// The longest time that a connection is kept so: servers end them after a minute or less.
const IDLE_TIME_MAX: Duration = Duration::from_secs(10);
/// The SHA-256 of no bytes.
const EMPTY_SHA256: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// The way to a remote.
pub(super) struct RemoteLink {
    endpoint: Endpoint,
    signer: RequestSigner,
    idle: Mutex<Vec<(HttpConnection, Instant)>>,
    breaker: Mutex<CircuitBreaker>,
    upload: Option<RateLimit>,
    download: Option<RateLimit>,
    jitter: SeededEntropy,
    pub(super) requests: RequestCounters,
}

/// A request, as it is the same in all tries.
#[derive(Clone, Copy)]
pub(super) struct RemoteRequest<'r> {
    pub(super) call: RemoteCall,
    /// The path, without characters that are encoded.
    pub(super) path: &'r str,
    /// Sorted.
    pub(super) query: &'r [QueryParameter<'r>],
    /// Header lines that are not signed, each with its line end.
    pub(super) lines: &'r str,
    /// Headers that are signed.
    pub(super) signed: &'r [(&'r str, &'r str)],
    pub(super) body: Option<&'r DigestedBody<'r>>,
    /// The longest body of a good answer.
    pub(super) answer_max: u64,
    /// Whether the body of a good answer is left to the caller.
    pub(super) leaves_body: bool,
}

/// The answer to a request.
pub(super) struct Answered {
    pub(super) answer: Answer,
    /// The body of a good one.
    pub(super) bytes: Vec<u8>,
    /// The connection where the body was left.
    pub(super) connection: Option<HttpConnection>,
}

/// The failure of one try.
enum TryError {
    /// Of the connection: another try may succeed.
    Connection(io::Error),
    /// Of the own disk.
    Body(io::Error),
    /// The answer is longer than it may be.
    TooLong,
    /// The rate limit takes longer than the call may.
    TooSlow,
}

impl RemoteLink {
    pub(super) fn new(endpoint: Endpoint, signer: RequestSigner, upload: u64, download: u64) -> Self {
        Self {
            endpoint: endpoint.with_patience(SILENCE_MAX),
            signer,
            idle: Mutex::default(),
            breaker: Mutex::default(),
            upload: RateLimit::new(upload),
            download: RateLimit::new(download),
            jitter: SeededEntropy::new(OsEntropy.next_u64()),
            requests: RequestCounters::default(),
        }
    }

    /// Refuses a call that would not be tried, before a large body is read for its digests.
    pub(super) fn check(&self) -> Result<(), RemoteError> {
        self.breaker().check(Instant::now()).map_err(RemoteError::Unavailable)
    }

    /// The answer to a request, with the body of a good one.
    ///
    /// # Errors
    /// [`RemoteError::Unavailable`] if no try was answered, or each one with a status of a server
    /// that cannot work; [`RemoteError::Body`]; [`RemoteError::Wrong`] for an answer that is too
    /// long.
    pub(super) fn call(
        &self,
        request: &RemoteRequest<'_>,
        deadline: Instant,
    ) -> Result<Answered, RemoteError> {
        let mut tries = 0;
        loop {
            self.breaker().admit(Instant::now()).map_err(RemoteError::Unavailable)?;
            let tried = self.try_on_any_connection(request, deadline);
            let why = match self.judge(tried)? {
                Ok(answered) => return Ok(answered),
                Err(why) => why,
            };
            tries += 1;
            // With jitter: calls that failed at the same moment do not come back together.
            let pause = BACKOFF.jittered_after(tries, &self.jitter);
            // A pause beyond the deadline is not begun: the caller has better use for its thread.
            if tries == TRIES_MAX || Instant::now() + pause >= deadline {
                return Err(RemoteError::Unavailable(format!("{why}, in {tries} tries")));
            }
            thread::sleep(pause);
        }
    }

    /// The answer of a try, or the reason for another one. Counts for the circuit breaker.
    fn judge(&self, tried: Result<Answered, TryError>) -> Result<Result<Answered, String>, RemoteError> {
        let mut breaker = self.breaker();
        match tried {
            Ok(Answered { answer, .. }) if answers::is_transient(&answer) => {
                let why = answers::error_of(&answer).to_string();
                // A server that refuses this one try is there: the circuit stays closed for others.
                match answers::is_of_overload(&answer) {
                    true => breaker.failed(Instant::now(), &why),
                    false => breaker.succeeded(),
                }
                Ok(Err(why))
            }
            Ok(answered) => {
                breaker.succeeded();
                Ok(Ok(answered))
            }
            Err(TryError::Connection(error)) => {
                let why = format!("{}: {error}", self.endpoint.host);
                breaker.failed(Instant::now(), &why);
                Ok(Err(why))
            }
            Err(TryError::Body(error)) => {
                breaker.abandoned();
                Err(RemoteError::Body(error))
            }
            Err(TryError::TooSlow) => {
                breaker.abandoned();
                let why = "the rate limit takes longer than the call may";
                Err(RemoteError::Unavailable(why.to_owned()))
            }
            Err(TryError::TooLong) => {
                breaker.succeeded();
                Err(RemoteError::Wrong("the answer is longer than was asked for".to_owned()))
            }
        }
    }

    /// One try. The server may end a kept connection between the look at it and the request; then a
    /// new one is used at once.
    fn try_on_any_connection(
        &self,
        request: &RemoteRequest<'_>,
        deadline: Instant,
    ) -> Result<Answered, TryError> {
        if let Some(kept) = self.kept_connection() {
            match self.try_once(kept, true, request, deadline) {
                // A timeout is none of a connection that had ended: the request may have been
                // carried out, and the time is up.
                Err(TryError::Connection(error)) if error.kind() != io::ErrorKind::TimedOut => {}
                tried => return tried,
            }
        }
        let opened = HttpConnection::open_by(&self.endpoint, deadline).map_err(TryError::Connection)?;
        self.try_once(opened, false, request, deadline)
    }

    fn try_once(
        &self,
        mut connection: HttpConnection,
        is_kept: bool,
        request: &RemoteRequest<'_>,
        deadline: Instant,
    ) -> Result<Answered, TryError> {
        let mut body = BodyReader::new(
            request.body.map(|digested| digested.body),
            Pace { limit: self.upload.as_ref(), deadline },
        );
        let expected = if request.leaves_body { 0 } else { request.answer_max };
        let mut sink = BoundedSink::new(expected, self.pace(deadline));
        let answer = connection.exchange_streaming(&mut StreamedRequest {
            head: self.head(request),
            head_only: request.call == RemoteCall::Head,
            body: &mut body,
            sink: &mut sink,
            leaves_body: request.leaves_body,
            deadline,
        });
        // A kept connection that the server had ended carried no request.
        let had_ended =
            is_kept && answer.as_ref().is_err_and(|error| error.kind() != io::ErrorKind::TimedOut);
        if !had_ended {
            let is_failure = answer.as_ref().map_or(true, |answer| answers::is_failure(answer.status));
            self.requests.add(request.call, is_failure, body.offset, sink.bytes.len() as u64);
        }
        // Own failures before that of the connection, which they have broken off: taken for one of
        // the server, they would be tried again and counted against it.
        if let Some(error) = body.failed {
            return Err(TryError::Body(error));
        }
        if sink.exceeded {
            return Err(TryError::TooLong);
        }
        if body.late || sink.late {
            return Err(TryError::TooSlow);
        }
        let answer = answer.map_err(TryError::Connection)?;
        let bytes = sink.bytes;
        if request.leaves_body && answer.status < 300 {
            return Ok(Answered { answer, bytes, connection: Some(connection) });
        }
        self.keep(connection);
        Ok(Answered { answer, bytes, connection: None })
    }

    /// The head of a request, signed for the present time.
    fn head(&self, request: &RemoteRequest<'_>) -> String {
        let RemoteRequest { call, path, query, lines, signed, body, .. } = *request;
        let method = call.method();
        let query = encoded_query(query);
        let target = if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") };
        let length = body.map_or_else(String::new, |b| format!("Content-Length: {}\r\n", b.body.length()));
        let hash = body.map_or(EMPTY_SHA256, |body| &body.sha256_hex);
        let host = &self.endpoint.host;
        let to_sign = RequestToSign { method, path, query: &query, host, hash, more: signed };
        let signature = self.signer.lines_for_hash(&to_sign);
        format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\n{length}{lines}{signature}\r\n")
    }

    /// A kept connection. It is looked at now, and not when it was kept: until then the server may
    /// have ended it, or sent a refusal that would be read as the answer to the next request.
    fn kept_connection(&self) -> Option<HttpConnection> {
        let mut idle = self.idle();
        idle.retain(|(_, since)| since.elapsed() < IDLE_TIME_MAX);
        while let Some((connection, _)) = idle.pop() {
            if connection.is_open() {
                return Some(connection);
            }
        }
        None
    }

    /// Keeps a connection for another request, unless its last answer ended it.
    pub(super) fn keep(&self, connection: HttpConnection) {
        let mut idle = self.idle();
        if !connection.has_ended() && idle.len() < IDLE_MAX {
            idle.push((connection, Instant::now()));
        }
    }

    /// Reports that a body ended before its end, and what that means.
    pub(super) fn cut(&self, error: &io::Error) -> RemoteError {
        let why = format!("{}: {error}", self.endpoint.host);
        self.breaker().failed(Instant::now(), &why);
        RemoteError::Unavailable(why)
    }

    /// The time and the rate of a body that comes.
    pub(super) fn pace(&self, deadline: Instant) -> Pace<'_> {
        Pace { limit: self.download.as_ref(), deadline }
    }

    fn breaker(&self) -> MutexGuard<'_, CircuitBreaker> {
        self.breaker.lock().expect(NOT_POISONED)
    }

    fn idle(&self) -> MutexGuard<'_, Vec<(HttpConnection, Instant)>> {
        self.idle.lock().expect(NOT_POISONED)
    }
}
