//! The requests of the checks, and their answers. Threads that race share it.

use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use std::{io, thread};

use siltstone::base::Backoff;
use siltstone::xml::{Document, Writer};

use super::place::{Place, Versions};
use siltstone::client::{Answer, HttpConnection, SignedRequest};

/// Attempts at a request that an overloaded store refuses.
const ATTEMPTS: u32 = 6;
/// The pauses after them.
const BACKOFF: Backoff = Backoff { first: Duration::from_millis(100), longest: Duration::from_secs(60) };

/// The reason for which a check does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Finding {
    /// The store broke the contract.
    Broken(String),
    /// The store refuses the condition, which is safe and no help.
    Refused(String),
    /// The check was not finished.
    Unfinished(String),
}

/// The condition of a write.
#[derive(Clone, Copy)]
pub(crate) enum Precondition<'t> {
    None,
    /// `If-None-Match: *`
    Absent,
    /// `If-Match` with a tag.
    Tag(&'t str),
}

/// The answer to a write.
#[derive(Debug)]
pub(crate) enum Reply {
    /// It is done. The entity tag is empty for a deletion.
    Done(String),
    /// Its condition does not hold: status 404, 409 or 412.
    Unmet(u16),
    /// Another answer, with the text of the error.
    Other(u16, String),
    /// No answer came. Whether the write is done is unknown.
    Lost(String),
}

/// A multipart upload with one part.
pub(crate) struct PartialUpload {
    id: String,
    /// The entity tag of the part.
    part: String,
}

/// The content of a key; `None` if the key is absent.
pub(crate) type Content = Option<Vec<u8>>;

/// The way to the store.
pub(crate) struct Link<'p> {
    pub(crate) place: &'p Place,
    stopped: Arc<AtomicBool>,
    deadline: Instant,
    requests: AtomicU64,
    contents: AtomicU64,
}

impl<'p> Link<'p> {
    pub(crate) fn new(place: &'p Place, stopped: Arc<AtomicBool>, deadline: Instant) -> Self {
        let requests = AtomicU64::new(0);
        let contents = AtomicU64::new(0);
        Self { place, stopped, deadline, requests, contents }
    }

    /// The number of requests so far.
    pub(crate) fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    pub(crate) fn connect(&self) -> Result<HttpConnection, Finding> {
        HttpConnection::open(&self.place.endpoint).map_err(unfinished)
    }

    /// A key of this run.
    pub(crate) fn key(&self, name: &str) -> String {
        let versions = if self.place.versions() == Versions::On { "versions" } else { "plain" };
        format!("{}{versions}/{name}", self.place.prefix)
    }

    /// Bytes that no other write of this run has.
    pub(crate) fn content(&self) -> Vec<u8> {
        let number = self.contents.fetch_add(1, Ordering::Relaxed);
        format!("{}write {number}", self.place.prefix).into_bytes()
    }

    pub(crate) fn put(&self, key: &str, body: &[u8], condition: Precondition<'_>) -> SignedRequest<'static> {
        self.place.bucket.request("PUT", key, &[], &condition.line(), body.to_vec().into())
    }

    pub(crate) fn delete(&self, key: &str, condition: Precondition<'_>) -> SignedRequest<'static> {
        self.place.bucket.request("DELETE", key, &[], &condition.line(), Vec::new().into())
    }

    /// The completion of an upload of one part.
    pub(crate) fn complete(
        &self,
        key: &str,
        PartialUpload { id, part }: &PartialUpload,
        condition: Precondition<'_>,
    ) -> SignedRequest<'static> {
        let mut document = Writer::new("CompleteMultipartUpload", None);
        document.element("Part", |entry| {
            entry.leaf("PartNumber", "1");
            entry.leaf("ETag", part);
        });
        let body = document.finish().into();
        self.place.bucket.request("POST", key, &[("uploadId", id)], &condition.line(), body)
    }

    pub(crate) fn abort(&self, key: &str, upload: &PartialUpload) -> SignedRequest<'static> {
        self.place.bucket.request("DELETE", key, &[("uploadId", &upload.id)], "", Vec::new().into())
    }

    /// Begins an upload, and sends its only part.
    pub(crate) fn upload(
        &self,
        connection: &mut HttpConnection,
        key: &str,
        body: &[u8],
    ) -> Result<PartialUpload, Finding> {
        let bucket = &self.place.bucket;
        let begin = bucket.request("POST", key, &[("uploads", "")], "", Vec::new().into());
        let begun = self.exchange(connection, &begin).map_err(unfinished)?;
        let id = child(&begun.text(), "UploadId")
            .ok_or_else(|| Finding::Refused(format!("multipart uploads: {}", begun.refusal())))?;
        let query = [("partNumber", "1"), ("uploadId", &*id)];
        let part = bucket.request("PUT", key, &query, "", body.to_vec().into());
        let part = self.exchange(connection, &part).map_err(unfinished)?;
        let tag = part.header("ETag").filter(|_| part.status == 200);
        let part = tag.ok_or_else(|| Finding::Unfinished(format!("a part: {}", part.refusal())))?;
        Ok(PartialUpload { id, part })
    }

    /// Reads the content of a key, and its entity tag.
    pub(crate) fn read(
        &self,
        connection: &mut HttpConnection,
        key: &str,
    ) -> Result<(Content, String), Finding> {
        let answer = self.exchange(connection, &self.place.bucket.object("GET", key)).map_err(unfinished)?;
        match answer.status {
            200 => {
                let etag = answer.header("ETag").unwrap_or_default();
                Ok((Some(answer.into_body()), etag))
            }
            404 => Ok((None, String::new())),
            _ => Err(Finding::Unfinished(format!("a read: {}", answer.refusal()))),
        }
    }

    /// Sends a write. An answer that does not come is a reply, too.
    ///
    /// # Errors
    /// The time is up.
    pub(crate) fn send(
        &self,
        connection: &mut HttpConnection,
        request: &SignedRequest<'_>,
    ) -> Result<Reply, Finding> {
        self.check_time()?;
        Ok(match self.exchange(connection, request) {
            Ok(answer) => Reply::of(&answer),
            Err(error) => Reply::Lost(error.to_string()),
        })
    }

    /// Sends a request; again after a pause where the store is overloaded, which it says before it
    /// does anything.
    fn exchange(&self, connection: &mut HttpConnection, request: &SignedRequest<'_>) -> io::Result<Answer> {
        for failures in 1..ATTEMPTS {
            self.requests.fetch_add(1, Ordering::Relaxed);
            let answer = connection.exchange(request)?;
            if !matches!(answer.status, 429 | 503) || self.check_time().is_err() {
                return Ok(answer);
            }
            thread::sleep(BACKOFF.after(failures));
        }
        self.requests.fetch_add(1, Ordering::Relaxed);
        connection.exchange(request)
    }

    fn check_time(&self) -> Result<(), Finding> {
        if self.stopped.load(Ordering::Relaxed) {
            return Err(unfinished("interrupted"));
        }
        if Instant::now() >= self.deadline { Err(unfinished("the time is up")) } else { Ok(()) }
    }
}

impl Precondition<'_> {
    fn line(self) -> String {
        match self {
            Self::None => String::new(),
            Self::Absent => "If-None-Match: *\r\n".to_owned(),
            Self::Tag(tag) => format!("If-Match: {tag}\r\n"),
        }
    }
}

impl Reply {
    fn of(answer: &Answer) -> Self {
        match answer.status {
            200 | 204 => Self::of_success(answer),
            404 | 409 | 412 => Self::Unmet(answer.status),
            status => Self::Other(status, answer.refusal()),
        }
    }

    /// A completion states the entity tag in its body, and possibly an error, although its status
    /// is 200.
    fn of_success(answer: &Answer) -> Self {
        let text = answer.text();
        let code = child(&text, "Code");
        match code.as_deref() {
            Some("PreconditionFailed") => Self::Unmet(412),
            Some("ConditionalRequestConflict") => Self::Unmet(409),
            Some("NoSuchKey") => Self::Unmet(404),
            Some(_) => Self::Other(500, answer.refusal()),
            None => Self::Done(answer.header("ETag").or_else(|| child(&text, "ETag")).unwrap_or_default()),
        }
    }

    /// The finding for a reply that says neither that the write is done nor that its condition does
    /// not hold.
    pub(crate) fn finding(self, what: &str) -> Finding {
        match self {
            Self::Other(400 | 405 | 501, why) => Finding::Refused(format!("{what}: {why}")),
            Self::Other(_, why) | Self::Lost(why) => unfinished(format!("{what}: {why}")),
            Self::Done(_) | Self::Unmet(_) => unfinished(what),
        }
    }
}

pub(crate) fn unfinished(why: impl Display) -> Finding {
    Finding::Unfinished(why.to_string())
}

/// The text of a child of the root of a document.
fn child(document: &str, name: &str) -> Option<String> {
    let document = Document::parse(document.as_bytes()).ok()?;
    document.root().child_text(name).ok()?.map(std::borrow::Cow::into_owned)
}
