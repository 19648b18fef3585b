//! Keeps a client waiting that would else give up: the head of a late answer goes out first, then blanks, and what it comes
//! to stands at the end (S3 API reference, CompleteMultipartUpload).

use std::io;
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, bounded};

use crate::base::limits::{KEEP_ALIVE_AFTER_SECS, KEEP_ALIVE_EVERY_SECS};
use crate::s3::render::{Frame, render};
use crate::s3::{BodySource, Call, Dialect, ErrorCode, RequestId, Response, ResponseBody, S3Error};
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

type Outcome = Result<Response, S3Error>;

/// Answers with what `work` comes to, a document or an error. Where that takes too long the answer is a 200 whose body holds
/// the document or the error; headers are lost then. The work is finished also when the client has gone.
///
/// # Errors
/// Those of `work` while the answer has not begun; `SlowDown` when the system has no thread to spare.
pub(super) fn answer(
    times: KeepAlive,
    call: &Call<'_>,
    work: impl FnOnce() -> Outcome + Send + 'static,
) -> Outcome {
    let (sender, outcome) = bounded(1);
    let run = move || {
        // Where the client has gone there is nobody to tell.
        let _ = sender.send(work());
    };
    thread::Builder::new().name("late-answer".into()).spawn(run).map_err(|error| {
        log::error!("request {}: no thread can be started: {error}", call.id);
        S3Error::new(ErrorCode::SlowDown)
    })?;
    match outcome.recv_timeout(times.after) {
        Ok(outcome) => outcome,
        Err(RecvTimeoutError::Disconnected) => Err(S3Error::new(ErrorCode::InternalError)),
        Err(RecvTimeoutError::Timeout) => Ok(late(outcome, times.every, call)),
    }
}

fn late(outcome: Receiver<Outcome>, every: Duration, call: &Call<'_>) -> Response {
    let body = LateBody {
        outcome,
        every,
        id: call.id.clone(),
        dialect: call.dialect,
        resource: call.request.path.clone(),
        // It must be the first of all, also before blanks (XML 1.0, section 2.8).
        ready: DECLARATION.as_bytes().to_vec(),
        sent: 0,
        ended: false,
    };
    Response::new(200)
        .header("Content-Type", "application/xml")
        .with_body(ResponseBody::Stream { length: None, source: Box::new(body) })
}

/// A document that begins before it is known.
struct LateBody {
    outcome: Receiver<Outcome>,
    every: Duration,
    id: RequestId,
    dialect: Dialect,
    resource: String,
    /// What may be sent now, and how much of it has been.
    ready: Vec<u8>,
    sent: usize,
    /// Whether nothing comes behind what is ready.
    ended: bool,
}

impl BodySource for LateBody {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if self.sent == self.ready.len() && !self.ended {
            (self.ready, self.sent) = (self.wait(), 0);
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
    fn wait(&mut self) -> Vec<u8> {
        let outcome = match self.outcome.recv_timeout(self.every) {
            Err(RecvTimeoutError::Timeout) => return b" ".to_vec(),
            Err(RecvTimeoutError::Disconnected) => Err(S3Error::new(ErrorCode::InternalError)),
            Ok(outcome) => outcome,
        };
        self.ended = true;
        let frame = Frame { dialect: self.dialect, id: &self.id, resource: &self.resource, head: false };
        match render(outcome, frame).body {
            ResponseBody::Bytes(document) => {
                document.strip_prefix(DECLARATION.as_bytes()).unwrap_or(&document).to_vec()
            }
            ResponseBody::Empty | ResponseBody::Stream { .. } => Vec::new(),
        }
    }
}
