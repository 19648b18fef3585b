//! The bytes and headers of a version of the store.

use std::io::{self, Read};
use std::ops::Range;
use std::thread;
use std::time::Instant;

use crate::base::digest::{Md5, to_hex};
use crate::base::encoded_words;
use crate::base::limits::{GIB, MIB};
use crate::client::RateLimit;
use crate::s3::replication::REPLICATION_STATUS;
use crate::store::{ETag, FoundVersion, ObjectReader, Store, StoreError, VersionRecord};
use crate::transfer::{Header, Origin, PeerError, SendBody, Tags, UploadShape};

/// The longest body of one request (S3, "Amazon S3 multipart upload limits").
const BODY_MAX_BYTES: u64 = 5 * GIB;
/// The shortest part but the last one.
const PART_MIN_BYTES: u64 = 5 * MIB;
/// The length of the parts of a longer object that was not uploaded in parts.
const PART_BYTES: u64 = 512 * MIB;
const BUFFER_BYTES: usize = MIB as usize;

/// The bytes of a version.
pub(super) struct VersionBytes<'v> {
    pub(super) store: &'v Store,
    pub(super) found: &'v FoundVersion,
    pub(super) rate: Option<&'v RateLimit>,
}

/// A reader at the pace of a rate limit.
struct PacedReader<'r> {
    reader: ObjectReader,
    rate: Option<&'r RateLimit>,
}

impl Read for PacedReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.reader.read(buffer).map_err(io::Error::other)?;
        if let Some(rate) = self.rate {
            // After the read, which may have brought less than there was room for.
            thread::sleep(rate.book(count, Instant::now()));
        }
        Ok(count)
    }
}

impl Origin for VersionBytes<'_> {
    fn with_range(&mut self, range: Range<u64>, send: &mut SendBody<'_>) -> Result<String, PeerError> {
        let reader = self.store.read(self.found, range);
        let reader = reader.map_err(|error| PeerError::Lasting(format!("it cannot be read: {error}")))?;
        send(&mut PacedReader { reader, rate: self.rate })
    }
}

impl VersionBytes<'_> {
    /// The entity tag that an upload of this shape has.
    pub(super) fn entity_tag(&self, shape: &UploadShape) -> Result<String, PeerError> {
        match shape {
            UploadShape::Whole(length) => self.md5(0..*length).map(|md5| to_hex(&md5)),
            UploadShape::Parts(lengths) => {
                let mut of_parts = Md5::new();
                let mut start = 0;
                for length in lengths {
                    of_parts.update(&self.md5(start..start + length)?);
                    start += length;
                }
                Ok(format!("{}-{}", to_hex(&of_parts.finish()), lengths.len()))
            }
        }
    }

    fn md5(&self, range: Range<u64>) -> Result<[u8; 16], PeerError> {
        let mut reader = self.store.read(self.found, range).map_err(|error| lasting(&error))?;
        let mut md5 = Md5::new();
        let mut buffer = vec![0; BUFFER_BYTES];
        loop {
            match reader.read(&mut buffer).map_err(|error| lasting(&error))? {
                0 => return Ok(md5.finish()),
                count => md5.update(&buffer[..count]),
            }
        }
    }
}

fn lasting(error: &StoreError) -> PeerError {
    PeerError::Lasting(format!("it cannot be read: {error}"))
}

/// The lengths of the bodies that a version is sent in: its parts, so that the entity tag is the
/// same, where the target takes them.
pub(super) fn shape_of(version: &VersionRecord) -> UploadShape {
    let parts =
        version.upload.as_ref().map(|made| made.parts.iter().map(|part| part.size).collect::<Vec<_>>());
    if let Some(parts) = parts.filter(|parts| !parts.is_empty()) {
        let (_, all_but_last) = parts.split_last().expect("there is a part");
        // Servers refuse shorter parts, but for the last one: such an object is sent whole.
        if all_but_last.iter().all(|size| (PART_MIN_BYTES..=BODY_MAX_BYTES).contains(size)) {
            return UploadShape::Parts(parts);
        }
    }
    if version.size <= BODY_MAX_BYTES {
        return UploadShape::Whole(version.size);
    }
    let starts = (0..version.size).step_by(PART_BYTES as usize);
    UploadShape::Parts(starts.map(|start| PART_BYTES.min(version.size - start)).collect())
}

/// The entity tag as the target shows it, where the record states it; without quotes. That of an
/// object whose digests are sealed is random.
pub(super) fn known_entity_tag(version: &VersionRecord, shape: &UploadShape) -> Option<String> {
    if version.encryption.as_ref().is_some_and(|encryption| encryption.kind().seals_digests()) {
        return None;
    }
    let is_same_shape = match (version.etag, shape) {
        (ETag::Md5(_), UploadShape::Whole(_)) => true,
        (ETag::Multipart { parts, .. }, UploadShape::Parts(lengths)) => parts as usize == lengths.len(),
        _ => false,
    };
    is_same_shape.then(|| version.etag.to_string().trim_matches('"').to_owned())
}

/// The headers of the attributes, sorted. A version without a content type has the one that clients
/// of this server see.
pub(super) fn headers_of(version: &VersionRecord) -> Vec<Header> {
    let mut headers = Vec::new();
    for (name, value) in version.attributes.iter() {
        // It says how the version came here, and is no part of it.
        if name == REPLICATION_STATUS {
            continue;
        }
        let is_extension = name.starts_with("meta-") || name == "website-redirect-location";
        let name = if is_extension { format!("x-amz-{name}") } else { name.to_owned() };
        // A client may have stored the words in which the target shows the text.
        headers.push((name, encoded_words::decode(value).into_owned()));
    }
    if version.attributes.get("content-type").is_none() {
        headers.push(("content-type".to_owned(), "binary/octet-stream".to_owned()));
    }
    headers.sort();
    headers
}

/// The tags, sorted.
pub(super) fn tags_of(version: &VersionRecord) -> Tags {
    let mut tags = version.tags.clone();
    tags.sort();
    tags
}
