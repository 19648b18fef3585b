//! The upload of one object, whole or in parts, compared with the digests that the server answers.

use std::borrow::Cow;
use std::io::{self, Read};
use std::ops::Range;

use crate::base::Timestamp;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::base::digest::{Md5, from_hex, to_hex};
use crate::base::limits::{MIB, PUT_SIZE_MAX_BYTES};
use crate::client::Answer;
use crate::xml::{Document, Element, Writer};

use super::peer::{Header, PeerCall, PeerError, PeerLink, attempts, passing};

/// The longest body that is kept in memory where its digest is not known before.
const SPOOLED_MAX_BYTES: u64 = 8 * MIB;
/// The length of a part of a longer one, as long as this makes no more than `PARTS_MAX`.
const PART_BYTES: u64 = 64 * MIB;
const PARTS_MAX: u64 = 10_000;
/// The root of a list of uploads.
const UPLOADS_ROOT: &str = "ListMultipartUploadsResult";
const CONTENT_MD5: &str = "content-md5";
/// The code of a body whose digest is another than announced.
const BAD_DIGEST: &str = "BadDigest";
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
    /// Whether the request that stores the object is sent again where its answer is lost. It could
    /// store a second version then.
    pub repeated: bool,
    /// The entity tag of the source, where it is a digest that an upload of this shape has. It is
    /// compared before anything is stored.
    pub expected: Option<&'u str>,
    /// The checksum of the source that the server verifies and keeps, if it fits an upload of this
    /// shape.
    pub checksum: Option<&'u UploadChecksum>,
}

/// A checksum of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UploadChecksum {
    /// The name in S3: `CRC32C` and so on.
    pub algorithm: String,
    /// The value, in base64.
    pub value: String,
    /// Whether it is that of all bytes, and not of the checksums of the parts.
    pub full_object: bool,
    /// Those of the parts, in base64. A checksum of checksums takes them.
    pub parts: Vec<String>,
}

impl UploadChecksum {
    fn header(&self, value: &str) -> Header {
        (format!("x-amz-checksum-{}", self.algorithm.to_ascii_lowercase()), value.to_owned())
    }

    /// The headers by which an upload in parts announces it.
    fn announcement(&self) -> [Header; 2] {
        let kind = if self.full_object { "FULL_OBJECT" } else { "COMPOSITE" };
        [
            ("x-amz-checksum-algorithm".to_owned(), self.algorithm.clone()),
            ("x-amz-checksum-type".to_owned(), kind.to_owned()),
        ]
    }

    /// That of the object, of so many parts.
    fn of_parts(&self, count: usize) -> Header {
        let value = &self.value;
        self.header(&if self.full_object { value.clone() } else { format!("{value}-{count}") })
    }
}

/// The lengths that the entity tag of an object depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UploadShape {
    /// One body of this length.
    Whole(u64),
    /// Parts of these lengths.
    Parts(Vec<u64>),
}

impl UploadShape {
    /// The shape that servers take: a body that is longer than they take at once becomes parts, and
    /// the object gets another entity tag.
    #[must_use]
    pub fn within_limits(self) -> Self {
        match self {
            Self::Whole(length) if length > PUT_SIZE_MAX_BYTES => Self::Parts(parts_of(length)),
            other => other,
        }
    }
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
    /// It is not stored, or its digest is another. Parts that are left are removed as far as the
    /// server answers.
    pub fn send(&self, link: &mut PeerLink<'_>, origin: &mut dyn Origin) -> Result<String, PeerError> {
        match self.shape {
            UploadShape::Whole(length) => match self.expected.and_then(md5_in) {
                Some(md5) => self.send_whole(link, *length, &md5, origin),
                None if *length <= SPOOLED_MAX_BYTES => {
                    let bytes = spooled(*length, origin)?;
                    let md5 = Md5::of(&bytes);
                    self.send_whole(link, *length, &md5, &mut SpooledBytes(bytes))
                }
                // Each part is compared before the object is stored.
                None => self.send_parts(link, &parts_of(*length), origin),
            },
            UploadShape::Parts(lengths) => self.send_parts(link, lengths, origin),
        }
    }

    /// Sends one body with its digest. A server that receives another one stores nothing.
    fn send_whole(
        &self,
        link: &mut PeerLink<'_>,
        length: u64,
        md5: &[u8; 16],
        origin: &mut dyn Origin,
    ) -> Result<String, PeerError> {
        let digest = (CONTENT_MD5.to_owned(), STANDARD.encode(md5));
        let checksum = self.checksum.map(|checksum| checksum.header(&checksum.value));
        let headers = self.headers.iter().cloned().chain(self.time_header()).chain(checksum).chain([digest]);
        let headers: Vec<_> = headers.collect();
        let call = PeerCall { method: "PUT", key: self.key, headers: &headers, ..PeerCall::default() };
        if self.repeated {
            return attempts(|| put(link, call, 0..length, Some(md5), origin));
        }
        put(link, call, 0..length, Some(md5), origin)
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
        let announced = self.checksum.into_iter().flat_map(UploadChecksum::announcement);
        let headers: Vec<_> = self.headers.iter().cloned().chain(announced).collect();
        let begin = PeerCall {
            method: "POST",
            key: self.key,
            query: &[("uploads", "")],
            headers: &headers,
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
        for (id, begun) in uploads_of(link, self.key).unwrap_or_default() {
            if begun.is_some_and(|begun| begun < self.begun) {
                self.abort(link, &id);
            }
        }
    }

    /// Compares the parts that the server has with the source, before they become an object.
    fn check_parts(&self, of_parts: &str, count: usize) -> Result<(), PeerError> {
        let sent = format!("{of_parts}-{count}");
        match self.expected {
            Some(expected) if expected.contains('-') && expected != sent => Err(PeerError::Passing(format!(
                "the bytes that came are not those of the source: their ETag is {sent}, not {expected}"
            ))),
            _ => Ok(()),
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
        let mut of_parts = Md5::new();
        for (at, length) in lengths.iter().enumerate() {
            let number = (at + 1).to_string();
            let query = [("partNumber", &*number), ("uploadId", id)];
            let of_part = self.checksum.and_then(|checksum| Some(checksum.header(checksum.parts.get(at)?)));
            let headers: Vec<_> = of_part.into_iter().collect();
            let call = PeerCall {
                method: "PUT",
                key: self.key,
                query: &query,
                headers: &headers,
                ..PeerCall::default()
            };
            let mut sent = [0; 16];
            let etag = attempts(|| put_part(link, call, start..start + length, origin, &mut sent))?;
            start += length;
            of_parts.update(&sent);
            document.element("Part", |part| {
                part.leaf("PartNumber", &number);
                part.leaf("ETag", &format!("\"{etag}\""));
                if let Some((checksum, value)) = self.checksum.and_then(|it| Some((it, it.parts.get(at)?))) {
                    part.leaf(&format!("Checksum{}", checksum.algorithm), value);
                }
            });
        }
        self.check_parts(&to_hex(&of_parts.finish()), lengths.len())?;
        let query = [("uploadId", id)];
        let checksum = self.checksum.map(|checksum| checksum.of_parts(lengths.len()));
        let headers: Vec<_> = self.time_header().into_iter().chain(checksum).collect();
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

/// Removes all uploads of a key.
///
/// # Errors
/// As of [`PeerLink::send`].
pub fn abort_uploads(link: &mut PeerLink<'_>, key: &str) -> Result<(), PeerError> {
    for (id, _) in uploads_of(link, key)? {
        let query = [("uploadId", &*id)];
        match link.ask(PeerCall { method: "DELETE", key, query: &query, ..PeerCall::default() }) {
            // It ended meanwhile.
            Err(PeerError::Absent) => {}
            aborted => drop(aborted?),
        }
    }
    Ok(())
}

/// The uploads of a key: the id and the beginning of each.
fn uploads_of(link: &mut PeerLink<'_>, key: &str) -> Result<Vec<(String, Option<Timestamp>)>, PeerError> {
    let query = [("prefix", key), ("uploads", "")];
    let (_, page) = link.ask(PeerCall { method: "GET", query: &query, ..PeerCall::default() })?;
    let document = Document::parse(&page).map_err(|error| passing(format!("no list of uploads: {error}")))?;
    if document.root().name() != UPLOADS_ROOT {
        return Err(passing("the answer is no list of uploads"));
    }
    let mut uploads = Vec::new();
    for upload in document.root().children().filter(|child| child.name() == "Upload") {
        if text_in(upload, "Key") == key {
            let begun = Timestamp::parse_iso8601(&text_in(upload, "Initiated"));
            uploads.push((text_in(upload, "UploadId").into_owned(), begun));
        }
    }
    Ok(uploads)
}

fn text_in<'d>(element: Element<'d>, name: &str) -> Cow<'d, str> {
    element.child_text(name).ok().flatten().unwrap_or_default()
}

/// Sends one body, and compares what the server answers with it. A version that turns out to be
/// another one is deleted.
fn put(
    link: &mut PeerLink<'_>,
    call: PeerCall<'_>,
    range: Range<u64>,
    expected: Option<&[u8; 16]>,
    origin: &mut dyn Origin,
) -> Result<String, PeerError> {
    let length = range.end - range.start;
    let mut wrong = None;
    let sent = origin.with_range(range, &mut |body| {
        let mut measured = Measured { body, left: length, md5: Md5::new() };
        let answer = link.send(PeerCall { length, ..call }, &mut measured, &mut io::sink());
        let answer = answer.map_err(digest_refused)?;
        let md5 = measured.md5.finish();
        let etag = compared(&answer, &to_hex(&md5));
        let is_other = expected.is_some_and(|expected| *expected != md5);
        if etag.is_err() || is_other {
            wrong = answer.header("x-amz-version-id").filter(|id| id != "null");
        }
        match is_other {
            true => Err(PeerError::Passing("the bytes that came are not those of the source".to_owned())),
            false => etag,
        }
    });
    if let Some(id) = wrong {
        let query = [("versionId", &*id)];
        link.ask(PeerCall { method: "DELETE", key: call.key, query: &query, ..PeerCall::default() })?;
    }
    sent
}

/// Sends a part. One that arrives as another is sent again.
fn put_part(
    link: &mut PeerLink<'_>,
    call: PeerCall<'_>,
    range: Range<u64>,
    origin: &mut dyn Origin,
    sent: &mut [u8; 16],
) -> Result<String, PeerError> {
    let length = range.end - range.start;
    origin.with_range(range, &mut |body| {
        let mut measured = Measured { body, left: length, md5: Md5::new() };
        let answer = link.send(PeerCall { length, ..call }, &mut measured, &mut io::sink())?;
        *sent = measured.md5.finish();
        compared(&answer, &to_hex(sent)).map_err(|error| PeerError::Passing(error.text()))
    })
}

/// The bytes of a short object.
fn spooled(length: u64, origin: &mut dyn Origin) -> Result<Vec<u8>, PeerError> {
    let mut bytes = Vec::new();
    attempts(|| {
        bytes.clear();
        origin.with_range(0..length, &mut |body| {
            let mut measured = Measured { body, left: length, md5: Md5::new() };
            measured.read_to_end(&mut bytes).map_err(passing)?;
            Ok(String::new())
        })
    })?;
    Ok(bytes)
}

/// Bytes that are in memory.
struct SpooledBytes(Vec<u8>);

impl Origin for SpooledBytes {
    fn with_range(&mut self, range: Range<u64>, send: &mut SendBody<'_>) -> Result<String, PeerError> {
        let within = usize::try_from(range.start).ok().zip(usize::try_from(range.end).ok());
        let bytes = within.and_then(|(from, to)| self.0.get(from..to));
        send(&mut bytes.ok_or_else(|| PeerError::Lasting("a range beyond the object".to_owned()))?)
    }
}

/// The lengths of the parts of an object whose digest is not known.
fn parts_of(length: u64) -> Vec<u64> {
    let part = PART_BYTES.max(length.div_ceil(PARTS_MAX));
    let starts = (0..length).step_by(usize::try_from(part).unwrap_or(usize::MAX));
    starts.map(|start| part.min(length - start)).collect()
}

/// A body whose digest the server did not receive: another attempt may bring the right one.
fn digest_refused(error: PeerError) -> PeerError {
    match error {
        PeerError::Lasting(why) if why.contains(BAD_DIGEST) => PeerError::Passing(why),
        other => other,
    }
}

/// The digest in an entity tag; `None` for one of several parts, or of another form.
fn md5_in(etag: &str) -> Option<[u8; 16]> {
    from_hex(etag)?.try_into().ok()
}

/// The entity tag of the answer, which must be the digest of the bytes unless the server encrypts
/// with keys of its own.
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
    document.root().child_text(name).ok()?.map(Cow::into_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_that_no_server_takes_at_once_becomes_parts() {
        let longest = UploadShape::Whole(PUT_SIZE_MAX_BYTES);
        assert_eq!(longest.clone().within_limits(), longest);
        let UploadShape::Parts(parts) = UploadShape::Whole(PUT_SIZE_MAX_BYTES + 1).within_limits() else {
            panic!("it is still whole")
        };
        assert_eq!(parts.iter().sum::<u64>(), PUT_SIZE_MAX_BYTES + 1);
        assert_eq!((parts[0], parts.last()), (PART_BYTES, Some(&1)));
        let short_parts = UploadShape::Parts(vec![1, 2]);
        assert_eq!(short_parts.clone().within_limits(), short_parts);
    }
}
