//! A bucket of an S3 server, and the requests to it.

use std::io::{self, Read, Write};
use std::thread;
use std::time::{Duration, Instant};

use crate::base::Backoff;
use crate::client::{
    Answer, Endpoint, HttpConnection, RequestSigner, RequestToSign, StreamedRequest, encoded_query,
};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// The longest time of one request. A silent server is given up much earlier.
const REQUEST_MAX: Duration = Duration::from_secs(12 * 60 * 60);
/// Attempts at a request that fails for reasons that may pass.
const ATTEMPTS: u32 = 5;
/// The pauses after attempts.
const BACKOFF: Backoff = Backoff { first: Duration::from_millis(200), longest: Duration::from_secs(60) };
/// The longest document that a server may answer.
const DOCUMENT_MAX_BYTES: usize = 32 << 20;
/// The characters of a path that stay as they are.
const PATH: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~').remove(b'/');

/// The header by which a Siltstone learns which stores a change comes from.
const STATED_ORIGIN: &str = "x-amz-siltstone-origin";

/// A header: its name in lower case, and its value.
pub type Header = (String, String);

/// A bucket of a server.
pub struct Peer {
    /// The server.
    pub endpoint: Endpoint,
    /// The keys.
    pub signer: RequestSigner,
    /// The name of the bucket.
    pub bucket: String,
}

/// A bucket, and the connection of one thread to it.
pub struct PeerLink<'p> {
    peer: &'p Peer,
    bucket: String,
    connection: Option<HttpConnection>,
    /// What each request that changes something states about where the change comes from.
    origin: Option<Header>,
}

/// The body of an answer that is kept in memory.
struct KeptDocument(Vec<u8>);

/// A request. The query is sorted.
#[derive(Default, Clone, Copy)]
pub struct PeerCall<'c> {
    /// The method.
    pub method: &'c str,
    /// The key; empty for the bucket.
    pub key: &'c str,
    /// The parameters, not encoded.
    pub query: &'c [(&'c str, &'c str)],
    /// The headers beside the signature's.
    pub headers: &'c [Header],
    /// The length of the body of a PUT or a POST.
    pub length: u64,
}

/// The reason why a request failed.
#[derive(Debug)]
pub enum PeerError {
    /// Another attempt may succeed.
    Passing(String),
    /// It fails again.
    Lasting(String),
    /// There is no such object or document.
    Absent,
    /// The server does not offer this.
    Unsupported(String),
}

impl PeerError {
    /// The reason.
    pub fn text(self) -> String {
        match self {
            Self::Passing(why) | Self::Lasting(why) | Self::Unsupported(why) => why,
            Self::Absent => "it is not there".to_owned(),
        }
    }
}

impl<'p> PeerLink<'p> {
    /// The bucket without a connection.
    pub fn new(peer: &'p Peer) -> Self {
        Self { peer, bucket: peer.bucket.clone(), connection: None, origin: None }
    }

    /// Sends all further requests to another bucket of the server.
    pub fn enter(&mut self, bucket: &str) {
        bucket.clone_into(&mut self.bucket);
    }

    /// Lets all further requests that change something state which stores the change comes from.
    pub fn state_origin(&mut self, stores: &[String]) {
        self.origin = (!stores.is_empty()).then(|| (STATED_ORIGIN.to_owned(), stores.join(",")));
    }

    /// The region that requests are signed for.
    pub(super) fn region(&self) -> &str {
        self.peer.signer.region()
    }

    /// Sends a request, and writes the body of a good answer to `sink`.
    ///
    /// # Errors
    /// The answer is none of success, or none came.
    pub fn send(
        &mut self,
        call: PeerCall<'_>,
        body: &mut dyn Read,
        sink: &mut dyn Write,
    ) -> Result<Answer, PeerError> {
        let answer = self.exchange(call, body, sink)?;
        match answer.status {
            200..=299 => Ok(answer),
            404 => Err(PeerError::Absent),
            405 | 501 => Err(PeerError::Unsupported(answer.refusal())),
            429 | 500..=599 => Err(PeerError::Passing(answer.refusal())),
            _ => Err(PeerError::Lasting(answer.refusal())),
        }
    }

    /// Sends a request, and returns whatever is answered.
    pub(super) fn exchange(
        &mut self,
        call: PeerCall<'_>,
        body: &mut dyn Read,
        sink: &mut dyn Write,
    ) -> Result<Answer, PeerError> {
        let head = self.head(call);
        let deadline = Instant::now() + REQUEST_MAX;
        let head_only = call.method == "HEAD";
        let mut request = StreamedRequest { head, head_only, body, sink, leaves_body: false, deadline };
        self.connected()?.exchange_streaming(&mut request).map_err(passing)
    }

    /// The answer to a request without a body, and its body, after several attempts if need be.
    ///
    /// # Errors
    /// As of [`PeerLink::send`].
    pub fn ask(&mut self, call: PeerCall<'_>) -> Result<(Answer, Vec<u8>), PeerError> {
        self.ask_with(call, b"")
    }

    /// As [`PeerLink::ask`], with a body.
    ///
    /// # Errors
    /// As of [`PeerLink::send`].
    pub fn ask_with(&mut self, call: PeerCall<'_>, body: &[u8]) -> Result<(Answer, Vec<u8>), PeerError> {
        attempts(|| self.ask_once(call, body))
    }

    /// As [`PeerLink::ask_with`], for a request that may not be repeated where its answer is lost.
    ///
    /// # Errors
    /// As of [`PeerLink::send`].
    pub fn ask_once(&mut self, call: PeerCall<'_>, mut body: &[u8]) -> Result<(Answer, Vec<u8>), PeerError> {
        let call = PeerCall { length: body.len() as u64, ..call };
        let mut kept = KeptDocument(Vec::new());
        let answer = self.send(call, &mut body, &mut kept)?;
        Ok((answer, kept.0))
    }

    /// Deletes an object, or a version for good, by one request.
    ///
    /// # Errors
    /// As of [`PeerLink::send`]; an answer with a document, which S3 does not send, says nothing.
    pub fn delete(&mut self, key: &str, id: Option<&str>) -> Result<(), PeerError> {
        let query: Vec<_> = id.map(|id| ("versionId", id)).into_iter().collect();
        let call = PeerCall { method: "DELETE", key, query: &query, ..PeerCall::default() };
        match self.ask_once(call, b"")? {
            (_, body) if body.is_empty() => Ok(()),
            _ => Err(passing("the answer to DELETE is a document, and not that of an S3 server")),
        }
    }

    fn connected(&mut self) -> Result<&mut HttpConnection, PeerError> {
        if !self.connection.as_ref().is_some_and(HttpConnection::is_open) {
            self.connection = Some(HttpConnection::open(&self.peer.endpoint).map_err(passing)?);
        }
        self.connection.as_mut().ok_or_else(|| PeerError::Passing("no connection".to_owned()))
    }

    fn head(&self, call: PeerCall<'_>) -> String {
        let Peer { endpoint, signer, .. } = self.peer;
        let mut path = format!("/{}", self.bucket);
        if !call.key.is_empty() {
            path = format!("{path}/{}", utf8_percent_encode(call.key, PATH));
        }
        let query = encoded_query(call.query);
        let (signed, plain): (Vec<_>, Vec<_>) =
            call.headers.iter().partition(|(name, _)| name.starts_with("x-amz-"));
        let origin = self.origin.as_ref().filter(|_| !matches!(call.method, "GET" | "HEAD"));
        let signed = signed.into_iter().chain(origin);
        let more: Vec<(&str, &str)> = signed.map(|(name, value)| (&**name, &**value)).collect();
        let method = call.method;
        let host = &*endpoint.host;
        let to_sign =
            RequestToSign { method, path: &path, query: &query, host, hash: "UNSIGNED-PAYLOAD", more: &more };
        let mut lines = signer.lines_for_hash(&to_sign);
        lines.extend(plain.iter().map(|(name, value)| format!("{name}: {value}\r\n")));
        if matches!(method, "PUT" | "POST") {
            lines += &format!("Content-Length: {}\r\n", call.length);
        }
        let mark = if query.is_empty() { "" } else { "?" };
        format!("{method} {path}{mark}{query} HTTP/1.1\r\nHost: {host}\r\n{lines}\r\n")
    }
}

impl Write for KeptDocument {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > DOCUMENT_MAX_BYTES {
            return Err(io::Error::other("the answer is longer than any document"));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Repeats what fails for reasons that may pass.
///
/// # Errors
/// Of the last attempt.
pub fn attempts<T>(mut attempt: impl FnMut() -> Result<T, PeerError>) -> Result<T, PeerError> {
    for failures in 1..ATTEMPTS {
        match attempt() {
            Err(PeerError::Passing(_)) => thread::sleep(BACKOFF.after(failures)),
            other => return other,
        }
    }
    attempt()
}

/// An error that may pass.
pub fn passing(error: impl std::fmt::Display) -> PeerError {
    PeerError::Passing(error.to_string())
}

/// A name in a listing of encoding type `url`.
pub(super) fn decoded(name: &str) -> Option<String> {
    let name = name.replace('+', " ");
    percent_decode_str(&name).decode_utf8().ok().map(std::borrow::Cow::into_owned)
}
