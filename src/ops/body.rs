//! Request bodies: their length, the bodies of objects and parts, and documents.

use std::borrow::Cow;

use super::Context;
use super::client_error::{self, ForClient as _};
use super::memory::{self, ReservedBytes};
use super::padded_response::CancelToken;
use crate::base::limits::{
    KIB, MD5_PIECE_BYTES, PUT_SIZE_MAX_BYTES, SMALL_BODY_MAX_BYTES, XML_BODY_MAX_BYTES,
};
use crate::base::{Md5Owner, Md5Pool, Md5Purpose, Reservation};
use crate::s3::integrity::Integrity;
use crate::s3::{Body, BodyRead, Call, ErrorCode, RequestId, S3Error};
use crate::store::{ObjectReader, StoreError};
use crate::xml::{Document, XmlError, tree_bytes_max};

/// Bytes of an object that are read at a time.
const BUFFER_BYTES: u64 = 256 * KIB;

/// The length that the client announced; `None` for a chunked body.
///
/// # Errors
/// `MissingContentLength` if there is neither a length nor chunks (RFC 9110, section 15.5.12).
pub(super) fn announced_length(body: &Body<'_>) -> Result<Option<u64>, S3Error> {
    match (body.content_length, body.chunked) {
        (None, false) => Err(S3Error::new(ErrorCode::MissingContentLength)),
        (length, _) => Ok(length),
    }
}

/// Checks the size of an object or part.
///
/// # Errors
/// `EntityTooLarge`.
pub(super) fn check_size(size: u64) -> Result<(), S3Error> {
    if size <= PUT_SIZE_MAX_BYTES {
        return Ok(());
    }
    Err(S3Error::new(ErrorCode::EntityTooLarge)
        .element("ProposedSize", size.to_string())
        .element("MaxSizeAllowed", PUT_SIZE_MAX_BYTES.to_string()))
}

/// Reads the body to its verified end and passes each piece to `integrity` and then to `write`. A
/// small body is one piece, which `write` gets to own. If the MD5 belongs to `md5_pool`, it hashes
/// each piece while the next one is read.
///
/// # Errors
/// Errors of reading, `EntityTooLarge`, and the errors of `write`.
pub(super) fn receive(
    call: &mut Call<'_>,
    md5_pool: &Md5Pool,
    purpose: Md5Purpose,
    integrity: &mut Integrity,
    mut write: impl FnMut(Cow<'_, [u8]>) -> Result<(), StoreError>,
) -> Result<(), S3Error> {
    let small = call.request.body.content_length.filter(|length| *length <= SMALL_BODY_MAX_BYTES);
    let md5_owner = integrity.assign_md5(purpose, call.request.body.content_length);
    let mut md5 = (md5_owner == Md5Owner::Pool).then(|| md5_pool.begin());
    // One byte more than its length, so that a small body ends within its first piece.
    let mut piece = vec![0; small.map_or(MD5_PIECE_BYTES, |length| length as usize + 1)];
    let mut received = 0;
    let len = loop {
        let len = fill(call.request.body.reader.as_mut(), &mut piece)?;
        received += len as u64;
        // A body in chunks of HTTP states no length: what it has is known only here.
        check_size(received)?;
        integrity.update(&piece[..len]);
        if len < piece.len() {
            break len;
        }
        write(Cow::Borrowed(&piece)).for_client(call)?;
        if let Some(md5) = &mut md5 {
            piece = md5.update(piece);
        }
    };
    let Some(md5) = md5 else {
        piece.truncate(len);
        return write(Cow::Owned(piece)).for_client(call);
    };
    write(Cow::Borrowed(&piece[..len])).for_client(call)?;
    integrity.set_md5(md5.finish(piece, len));
    Ok(())
}

/// Reads until `piece` is full or the body has ended, verified.
fn fill(reader: &mut dyn BodyRead, piece: &mut [u8]) -> Result<usize, S3Error> {
    let mut filled = 0;
    while filled < piece.len() {
        match reader.read(&mut piece[filled..])? {
            0 => break,
            read => filled += read,
        }
    }
    Ok(filled)
}

/// Passes the bytes of an object or part to `take`, chunk by chunk, until the request is cancelled.
///
/// # Errors
/// Errors of reading and of `take`, and the error of [`CancelToken::check`].
pub(super) fn for_each_chunk(
    reader: &mut ObjectReader,
    id: &RequestId,
    cancel: &CancelToken,
    mut take: impl FnMut(&[u8]) -> Result<(), S3Error>,
) -> Result<(), S3Error> {
    let mut buffer = vec![0; BUFFER_BYTES as usize];
    loop {
        cancel.check()?;
        match reader.read(&mut buffer).map_err(|error| client_error::to_client_error(&error, id))? {
            0 => return Ok(()),
            read => take(&buffer[..read])?,
        }
    }
}

/// Whether a small request may read so many bytes before its response.
pub(super) fn is_read_at_once(bytes: u64) -> bool {
    bytes <= SMALL_BODY_MAX_BYTES
}

/// Reads the whole body of a call as a document, and verifies the digests in its headers.
///
/// # Errors
/// `MaxMessageLengthExceeded` above the limit, and `SlowDown` without memory for it, both before
/// the first byte if the length is known; `BadDigest` and the others of [`Integrity`]; those of
/// reading.
pub(super) fn read_document(context: &Context, call: &mut Call<'_>) -> Result<ReservedBytes, S3Error> {
    read_document_up_to(context, call, XML_BODY_MAX_BYTES)
}

/// Like [`read_document`], for at most `max` bytes.
///
/// # Errors
/// As [`read_document`].
pub(super) fn read_document_up_to(
    context: &Context,
    call: &mut Call<'_>,
    max: usize,
) -> Result<ReservedBytes, S3Error> {
    let integrity = Integrity::from_headers(call.headers(), call.vendor())?;
    DocumentReader { context, integrity, max }.run(&mut call.request.body)
}

/// Like [`read_document`], for a text that is no XML.
///
/// # Errors
/// As [`read_document`].
pub(super) fn read_text(context: &Context, call: &mut Call<'_>) -> Result<ReservedBytes, S3Error> {
    let integrity = Integrity::from_headers(call.headers(), call.vendor())?;
    DocumentReader { context, integrity, max: XML_BODY_MAX_BYTES }.read(&mut call.request.body)
}

/// Like [`read_document`], but the headers must have a digest: a corrupted document would do too
/// much harm.
///
/// # Errors
/// `InvalidRequest` without a digest; the errors of [`read_document`].
pub(super) fn read_claimed_document(
    context: &Context,
    call: &mut Call<'_>,
) -> Result<ReservedBytes, S3Error> {
    let integrity = Integrity::from_headers(call.headers(), call.vendor())?;
    if !integrity.is_claimed() {
        return Err(S3Error::new(ErrorCode::InvalidRequest)
            .message("Missing required header for this request: Content-MD5 or a checksum"));
    }
    DocumentReader { context, integrity, max: XML_BODY_MAX_BYTES }.run(&mut call.request.body)
}

/// Like [`read_document`], for at most `max` bytes; the checksum in the headers does not cover the
/// document.
///
/// # Errors
/// As [`read_document`].
pub(super) fn read_document_by_md5(
    context: &Context,
    call: &mut Call<'_>,
    max: usize,
) -> Result<ReservedBytes, S3Error> {
    let integrity = Integrity::from_content_md5(call.headers())?;
    DocumentReader { context, integrity, max }.run(&mut call.request.body)
}

/// A reader for a document.
struct DocumentReader<'c> {
    context: &'c Context,
    integrity: Integrity,
    /// The maximum length of the text in bytes.
    max: usize,
}

impl DocumentReader<'_> {
    /// The memory of a growing buffer together with the one that it replaces, in halves of its
    /// final length.
    const GROWTH_HALVES: u64 = 3;

    fn run(self, body: &mut Body<'_>) -> Result<ReservedBytes, S3Error> {
        let context = self.context;
        let ReservedBytes { bytes, _memory: [text, _] } = self.read(body)?;
        let tree = tree_bytes_max(&bytes).map_err(malformed)?;
        // Before it is built: a short text may make a tree of many times its size.
        let tree = memory::reserve(context, tree)?;
        Ok(ReservedBytes { bytes, _memory: [text, tree] })
    }

    fn read(self, body: &mut Body<'_>) -> Result<ReservedBytes, S3Error> {
        let announced = body.content_length.unwrap_or(self.max as u64);
        if announced > self.max as u64 {
            return Err(too_long(self.max));
        }
        let text = memory::reserve(self.context, announced * Self::GROWTH_HALVES / 2)?;
        let bytes = read_bounded(body, announced as usize)?;
        let mut integrity = self.integrity;
        integrity.assign_md5(Md5Purpose::Document, Some(bytes.len() as u64));
        integrity.update(&bytes);
        integrity.verify(body.reader.trailers())?;
        Ok(ReservedBytes { bytes, _memory: [text, Reservation::default()] })
    }
}

fn too_long(max: usize) -> S3Error {
    S3Error::new(ErrorCode::MaxMessageLengthExceeded).element("MaxMessageLengthBytes", max.to_string())
}

/// Reads a body of at most `max` bytes into a buffer that grows with the received bytes.
fn read_bounded(body: &mut Body<'_>, max: usize) -> Result<Vec<u8>, S3Error> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 16 * KIB as usize];
    loop {
        match body.reader.read(&mut buffer)? {
            0 => return Ok(bytes),
            read if bytes.len() + read > max => {
                return Err(too_long(max));
            }
            read => {
                if bytes.len() + read > bytes.capacity() {
                    let room = max.min(2 * (bytes.len() + read));
                    bytes.reserve_exact(room - bytes.len());
                }
                bytes.extend_from_slice(&buffer[..read]);
            }
        }
    }
}

/// Parses a document with the root element `root`.
///
/// # Errors
/// `MalformedXML`.
pub(super) fn parse<'b>(bytes: &'b [u8], root: &str) -> Result<Document<'b>, S3Error> {
    let document = Document::parse(bytes).map_err(malformed)?;
    match document.root().name() {
        name if name == root => Ok(document),
        name => Err(malformed_because(&format!("the root is {name}, not {root}"))),
    }
}

/// The error for text that is not well-formed XML.
// By value, as `map_err` hands it over.
#[allow(clippy::needless_pass_by_value)]
pub(super) fn malformed(error: XmlError) -> S3Error {
    malformed_because(&error.to_string())
}

/// The error for a document that the operation does not accept.
pub(super) fn malformed_because(reason: &str) -> S3Error {
    S3Error::malformed_xml(reason)
}
