//! The upload of one object, whole or in parts, compared with the digests that the server answers.

use std::io::{self, Read};
use std::ops::Range;

use crate::base::Timestamp;
use crate::base::digest::{Md5, to_hex};
use crate::client::Answer;
use crate::xml::{Document, Writer};

use super::peer::{Header, PeerCall, PeerError, PeerLink, attempts};

/// The header by which a Siltstone learns the modification time of an object.
const STATED_TIME: &str = "x-amz-siltstone-modified";

/// Sends a body, and returns the entity tag.
pub type SendBody<'s> = dyn FnMut(&mut dyn Read) -> Result<String, PeerError> + 's;

/// The bytes of an object.
pub trait Origin {
    /// Lets `send` read the bytes of `range`.
    ///
    /// # Errors
    /// The bytes cannot be read, or are not sent.
    fn with_range(&mut self, range: Range<u64>, send: &mut SendBody<'_>) -> Result<String, PeerError>;
}

/// An object to be uploaded.
pub struct ObjectUpload<'u> {
    /// The key.
    pub key: &'u str,
    /// The headers of its attributes.
    pub headers: &'u [Header],
    /// The lengths of its parts.
    pub shape: &'u UploadShape,
    /// The start of the transfer: older uploads of the key are left from one that was interrupted.
    pub begun: Timestamp,
    /// The modification time to state, to a server that keeps it.
    pub stated_time: Option<Timestamp>,
    /// Whether the request that stores the object is sent again where its answer is lost. It could store a second version then.
    pub repeated: bool,
}

/// The lengths that the entity tag of an object depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UploadShape {
    /// One body of this length.
    Whole(u64),
    /// Parts of these lengths.
    Parts(Vec<u64>),
}

/// A body whose digest is computed while it is sent, and which fails if it ends early.
struct Measured<'b> {
    body: &'b mut dyn Read,
    left: u64,
    md5: Md5,
}

impl Read for Measured<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        let count = self.body.read(&mut buffer[..most])?;
        if count == 0 && self.left > 0 && !buffer.is_empty() {
            return Err(io::Error::other("the object is shorter than announced"));
        }
        self.left -= count as u64;
        self.md5.update(&buffer[..count]);
        Ok(count)
    }
}

impl ObjectUpload<'_> {
    /// Uploads the object. It is durable as far as the answers of the server say so.
    ///
    /// # Errors
    /// It is not stored, or its digest is another. Parts that are left are removed as far as the server answers.
    pub fn send(&self, link: &mut PeerLink<'_>, origin: &mut dyn Origin) -> Result<String, PeerError> {
        match self.shape {
            UploadShape::Whole(length) => {
                let headers: Vec<_> = self.headers.iter().cloned().chain(self.time_header()).collect();
                let call =
                    PeerCall { method: "PUT", key: self.key, headers: &headers, ..PeerCall::default() };
                match self.repeated {
                    true => attempts(|| put(link, call, 0..*length, origin)),
                    false => put(link, call, 0..*length, origin),
                }
            }
            UploadShape::Parts(lengths) => self.send_parts(link, lengths, origin),
        }
    }

    fn time_header(&self) -> Option<Header> {
        self.stated_time.map(|time| (STATED_TIME.to_owned(), time.to_iso8601()))
    }

    fn send_parts(
        &self,
        link: &mut PeerLink<'_>,
        lengths: &[u64],
        origin: &mut dyn Origin,
    ) -> Result<String, PeerError> {
        self.abort_former(link);
        let begin = PeerCall {
            method: "POST",
            key: self.key,
            query: &[("uploads", "")],
            headers: self.headers,
            length: 0,
        };
        let (_, answer) = link.ask(begin)?;
        let id = child(&answer, "UploadId")
            .ok_or_else(|| PeerError::Lasting("the server begins an upload without an id".to_owned()))?;
        let done = self.fill(link, &id, lengths, origin);
        if done.is_err() {
            self.abort(link, &id);
        }
        done
    }

    /// Removes the parts of an upload. A failure leaves them to the next run or a lifecycle rule.
    fn abort(&self, link: &mut PeerLink<'_>, id: &str) {
        let query = [("uploadId", id)];
        drop(link.ask(PeerCall { method: "DELETE", key: self.key, query: &query, ..PeerCall::default() }));
    }

    /// Removes uploads of this key that were begun before this transfer.
    fn abort_former(&self, link: &mut PeerLink<'_>) {
        let query = [("prefix", self.key), ("uploads", "")];
        let Ok((_, page)) = link.ask(PeerCall { method: "GET", query: &query, ..PeerCall::default() }) else {
            return;
        };
        let Ok(document) = Document::parse(&page) else { return };
        for upload in document.root().children().filter(|child| child.name() == "Upload") {
            let text = |name| upload.child_text(name).ok().flatten().unwrap_or_default();
            let begun = Timestamp::parse_iso8601(&text("Initiated"));
            if text("Key") == self.key && begun.is_some_and(|begun| begun < self.begun) {
                self.abort(link, &text("UploadId"));
            }
        }
    }

    fn fill(
        &self,
        link: &mut PeerLink<'_>,
        id: &str,
        lengths: &[u64],
        origin: &mut dyn Origin,
    ) -> Result<String, PeerError> {
        let mut document = Writer::new("CompleteMultipartUpload", None);
        let mut start = 0;
        for (at, length) in lengths.iter().enumerate() {
            let number = (at + 1).to_string();
            let query = [("partNumber", &*number), ("uploadId", id)];
            let call = PeerCall { method: "PUT", key: self.key, query: &query, ..PeerCall::default() };
            let etag = attempts(|| put(link, call, start..start + length, origin))?;
            start += length;
            document.element("Part", |part| {
                part.leaf("PartNumber", &number);
                part.leaf("ETag", &format!("\"{etag}\""));
            });
        }
        let query = [("uploadId", id)];
        let headers: Vec<_> = self.time_header().into_iter().collect();
        let complete = PeerCall {
            method: "POST",
            key: self.key,
            query: &query,
            headers: &headers,
            ..PeerCall::default()
        };
        let body = document.finish();
        let answered =
            if self.repeated { link.ask_with(complete, &body) } else { link.ask_once(complete, &body) };
        let (_, answer) = answered?;
        // An error may come with status 200.
        let etag = child(&answer, "ETag").ok_or_else(|| {
            let said = child(&answer, "Message").unwrap_or_default();
            PeerError::Lasting(format!("the upload is not completed: {said}"))
        })?;
        Ok(bare(&etag))
    }
}

fn put(
    link: &mut PeerLink<'_>,
    call: PeerCall<'_>,
    range: Range<u64>,
    origin: &mut dyn Origin,
) -> Result<String, PeerError> {
    let length = range.end - range.start;
    origin.with_range(range, &mut |body| {
        let mut measured = Measured { body, left: length, md5: Md5::new() };
        let answer = link.send(PeerCall { length, ..call }, &mut measured, &mut io::sink())?;
        compared(&answer, &to_hex(&measured.md5.finish()))
    })
}

/// The entity tag of the answer, which must be the digest of the bytes unless the server encrypts with keys of its own.
fn compared(answer: &Answer, md5: &str) -> Result<String, PeerError> {
    let etag = bare(&answer.header("ETag").unwrap_or_default());
    let encrypted =
        answer.header("x-amz-server-side-encryption").is_some_and(|how| how.starts_with("aws:kms"));
    if etag == md5 || encrypted {
        return Ok(etag);
    }
    Err(PeerError::Lasting(format!(
        "the server has stored other bytes: its ETag is {etag}, their MD5 is {md5}"
    )))
}

/// An entity tag without its quotes.
pub fn bare(etag: &str) -> String {
    etag.trim_matches('"').to_owned()
}

fn child(document: &[u8], name: &str) -> Option<String> {
    let document = Document::parse(document).ok()?;
    document.root().child_text(name).ok()?.map(std::borrow::Cow::into_owned)
}
