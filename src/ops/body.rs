//! Request bodies: how long they are said to be, and reading those that are documents.

use crate::base::limits::XML_BODY_MAX_BYTES;
use crate::s3::integrity::Integrity;
use crate::s3::{Body, Call, ErrorCode, S3Error};
use crate::xml::{Document, XmlError};

/// The length that the client announced; `None` for a body that comes in chunks.
///
/// # Errors
/// `MissingContentLength` when there is neither a length nor chunks (RFC 9110, section 15.5.12).
pub(super) fn announced_length(body: &Body<'_>) -> Result<Option<u64>, S3Error> {
    match (body.content_length, body.chunked) {
        (None, false) => Err(S3Error::new(ErrorCode::MissingContentLength)),
        (length, _) => Ok(length),
    }
}

/// Reads the whole body of a call as a document, and verifies whatever its headers claim of it.
///
/// # Errors
/// `MaxMessageLengthExceeded` above the limit, before anything is read where the length says so; `BadDigest` and the
/// others of [`Integrity`]; those of reading.
pub(super) fn read_document(call: &mut Call<'_>) -> Result<Vec<u8>, S3Error> {
    let integrity = Integrity::from_headers(call.headers(), call.vendor())?;
    read_verified(&mut call.request.body, integrity)
}

/// The same for a document so harmful, were it damaged underway, that its headers must claim something of it.
///
/// # Errors
/// `InvalidRequest` when they do not, and those of [`read_document`].
pub(super) fn read_claimed_document(call: &mut Call<'_>) -> Result<Vec<u8>, S3Error> {
    let integrity = Integrity::from_headers(call.headers(), call.vendor())?;
    if !integrity.is_claimed() {
        return Err(S3Error::new(ErrorCode::InvalidRequest)
            .message("Missing required header for this request: Content-MD5 or a checksum"));
    }
    read_verified(&mut call.request.body, integrity)
}

fn read_verified(body: &mut Body<'_>, mut integrity: Integrity) -> Result<Vec<u8>, S3Error> {
    if body.content_length.is_some_and(|length| length > XML_BODY_MAX_BYTES as u64) {
        return Err(S3Error::new(ErrorCode::MaxMessageLengthExceeded));
    }
    let bytes = read_bounded(body)?;
    integrity.update(&bytes);
    integrity.verify(body.reader.trailers())?;
    Ok(bytes)
}

fn read_bounded(body: &mut Body<'_>) -> Result<Vec<u8>, S3Error> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 8192];
    loop {
        match body.reader.read(&mut buffer)? {
            0 => return Ok(bytes),
            read if bytes.len() + read > XML_BODY_MAX_BYTES => {
                return Err(S3Error::new(ErrorCode::MaxMessageLengthExceeded));
            }
            read => bytes.extend_from_slice(&buffer[..read]),
        }
    }
}

/// Reads a document whose root must be called `root`.
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

/// What the client is told of a document that is none.
// By value, as `map_err` hands it over.
#[allow(clippy::needless_pass_by_value)]
pub(super) fn malformed(error: XmlError) -> S3Error {
    malformed_because(&error.to_string())
}

/// What the client is told of a document that is not what the operation takes.
pub(super) fn malformed_because(reason: &str) -> S3Error {
    let code = ErrorCode::MalformedXML;
    S3Error::new(code).message(format!("{} ({reason})", code.default_message()))
}
