//! A bucket of an S3 server, and the requests to it.

use std::io::{self, Read, Write};
use std::thread;
use std::time::{Duration, Instant};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use siltstone::client::{
    Answer, Endpoint, HttpConnection, RequestSigner, RequestToSign, StreamedRequest, encoded_query,
};

/// The longest time of one request. A silent server is given up much earlier.
const REQUEST_MAX: Duration = Duration::from_secs(12 * 60 * 60);
/// Attempts at a request that fails for reasons that may pass.
const ATTEMPTS: u32 = 5;
/// The pause after the first attempt. Each later pause is twice as long.
const PAUSE: Duration = Duration::from_millis(200);
/// The longest document that a server may answer.
const DOCUMENT_MAX_BYTES: usize = 32 << 20;
/// The characters of a path that stay as they are.
const PATH: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~').remove(b'/');

/// A header: its name in lower case, and its value.
pub(super) type Header = (String, String);

/// A bucket of a server.
pub(super) struct Peer {
    pub(super) endpoint: Endpoint,
    pub(super) signer: RequestSigner,
    pub(super) bucket: String,
}

/// A bucket, and the connection of one thread to it.
pub(super) struct Link<'p> {
    peer: &'p Peer,
    connection: Option<HttpConnection>,
}

/// The body of an answer that is kept in memory.
struct Document(Vec<u8>);

/// A request. The query is sorted.
#[derive(Default, Clone, Copy)]
pub(super) struct Call<'c> {
    pub(super) method: &'c str,
    pub(super) key: &'c str,
    pub(super) query: &'c [(&'c str, &'c str)],
    pub(super) headers: &'c [Header],
    /// The length of the body of a PUT or a POST.
    pub(super) length: u64,
}

/// The reason why a request failed.
pub(super) enum CallError {
    /// Another attempt may succeed.
    Passing(String),
    /// It fails again.
    Lasting(String),
    /// There is no such object or document.
    Absent,
    /// The server does not offer this.
    Unsupported(String),
}

impl CallError {
    pub(super) fn text(self) -> String {
        match self {
            Self::Passing(why) | Self::Lasting(why) | Self::Unsupported(why) => why,
            Self::Absent => "it is not there".to_owned(),
        }
    }
}

impl<'p> Link<'p> {
    pub(super) fn new(peer: &'p Peer) -> Self {
        Self { peer, connection: None }
    }

    /// Sends a request, and writes the body of a good answer to `sink`.
    ///
    /// # Errors
    /// The answer is none of success, or none came.
    pub(super) fn send(
        &mut self,
        call: Call<'_>,
        body: &mut dyn Read,
        sink: &mut dyn Write,
    ) -> Result<Answer, CallError> {
        let head = self.head(call);
        let deadline = Instant::now() + REQUEST_MAX;
        let head_only = call.method == "HEAD";
        let mut request = StreamedRequest { head, head_only, body, sink, deadline };
        let answer = self.connected()?.exchange_streaming(&mut request).map_err(passing)?;
        match answer.status {
            200..=299 => Ok(answer),
            404 => Err(CallError::Absent),
            405 | 501 => Err(CallError::Unsupported(answer.refusal())),
            429 | 500..=599 => Err(CallError::Passing(answer.refusal())),
            _ => Err(CallError::Lasting(answer.refusal())),
        }
    }

    /// The answer to a request without a body, and its body, after several attempts if need be.
    pub(super) fn ask(&mut self, call: Call<'_>) -> Result<(Answer, Vec<u8>), CallError> {
        self.ask_with(call, b"")
    }

    /// As [`Link::ask`], with a body.
    pub(super) fn ask_with(&mut self, call: Call<'_>, body: &[u8]) -> Result<(Answer, Vec<u8>), CallError> {
        let call = Call { length: body.len() as u64, ..call };
        attempts(|| {
            let (mut kept, mut body) = (Document(Vec::new()), body);
            let answer = self.send(call, &mut body, &mut kept)?;
            Ok((answer, kept.0))
        })
    }

    fn connected(&mut self) -> Result<&mut HttpConnection, CallError> {
        if !self.connection.as_ref().is_some_and(HttpConnection::is_open) {
            self.connection = Some(HttpConnection::open(&self.peer.endpoint).map_err(passing)?);
        }
        self.connection.as_mut().ok_or_else(|| CallError::Passing("no connection".to_owned()))
    }

    fn head(&self, call: Call<'_>) -> String {
        let Peer { endpoint, signer, bucket } = self.peer;
        let mut path = format!("/{bucket}");
        if !call.key.is_empty() {
            path = format!("{path}/{}", utf8_percent_encode(call.key, PATH));
        }
        let query = encoded_query(call.query);
        let (signed, plain): (Vec<_>, Vec<_>) =
            call.headers.iter().partition(|(name, _)| name.starts_with("x-amz-"));
        let more: Vec<(&str, &str)> = signed.iter().map(|(name, value)| (&**name, &**value)).collect();
        let (method, host) = (call.method, &*endpoint.host);
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

impl Write for Document {
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
pub(super) fn attempts<T>(mut attempt: impl FnMut() -> Result<T, CallError>) -> Result<T, CallError> {
    let mut pause = PAUSE;
    for _ in 1..ATTEMPTS {
        match attempt() {
            Err(CallError::Passing(_)) => thread::sleep(pause),
            other => return other,
        }
        pause *= 2;
    }
    attempt()
}

pub(super) fn passing(error: impl std::fmt::Display) -> CallError {
    CallError::Passing(error.to_string())
}

/// A name in a listing of encoding type `url`.
pub(super) fn decoded(name: &str) -> Option<String> {
    let name = name.replace('+', " ");
    percent_decode_str(&name).decode_utf8().ok().map(std::borrow::Cow::into_owned)
}
