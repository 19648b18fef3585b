//! GetObject and HeadObject.

use std::io;
use std::ops::Range;

use super::failure::{self, ForClient as _};
use super::{Context, checksums, find, tagging, version_id};
use crate::auth::Authorized;
use crate::base::limits::{BLOCK_BYTES, KIB, PART_NUMBER_MAX};
use crate::s3::conditions::{ReadConditions, Verdict, range_applies};
use crate::s3::range::ByteRange;
use crate::s3::{BodySource, Call, ErrorCode, RequestId, Response, ResponseBody, S3Error, metadata};
use crate::store::{Found, ObjectReader, VersionRecord};

/// A body of at most this size is read, and so verified, before the answer begins.
const WHOLE_MAX_BYTES: u64 = 256 * KIB;

/// GetObject.
pub(super) fn get(context: &Context, proof: &Authorized, call: &Call<'_>) -> Result<Response, S3Error> {
    let found = find::target(context, proof, call)?;
    let (response, bytes) = head_of(&found, proof, call)?;
    let length = bytes.end - bytes.start;
    if length == 0 {
        return Ok(response);
    }
    let reader = context.store.read(&found.version, bytes).for_client(call)?;
    let body =
        if length <= WHOLE_MAX_BYTES { whole(reader, length, call) } else { stream(reader, length, call) };
    Ok(response.with_body(body?))
}

/// HeadObject.
pub(super) fn head(context: &Context, proof: &Authorized, call: &Call<'_>) -> Result<Response, S3Error> {
    let found = find::target(context, proof, call)?;
    let (response, bytes) = head_of(&found, proof, call)?;
    Ok(response.header("Content-Length", (bytes.end - bytes.start).to_string()))
}

/// Status and headers of the answer, and the bytes that belong to it.
fn head_of(found: &Found, proof: &Authorized, call: &Call<'_>) -> Result<(Response, Range<u64>), S3Error> {
    if proof.identity().is_anonymous() && metadata::overrides(&call.query) {
        return Err(S3Error::new(ErrorCode::InvalidRequest)
            .message("Request specific response headers cannot be used for anonymous GET requests."));
    }
    let version = &found.version;
    let etag = version.etag.to_string();
    check_conditions(version, call)?;
    let range = range(version, &etag, call)?;
    let mut response = Response::new(if range.is_some() { 206 } else { 200 })
        .header("Accept-Ranges", "bytes")
        .header("Last-Modified", version.modified.to_http_date())
        .header("ETag", etag);
    response = version_id::tell(response, found);
    response = metadata::send(version.attributes.iter(), &call.query, response)?;
    response = tagging::counted(response, version, proof, call);
    match range {
        Some(bytes) => {
            let shown = format!("bytes {}-{}/{}", bytes.start, bytes.end - 1, version.size);
            Ok((response.header("Content-Range", shown), bytes))
        }
        None => Ok((with_checksums(response, version, call), 0..version.size)),
    }
}

/// Whether the conditions of the read hold.
///
/// # Errors
/// `PreconditionFailed`, and `NotModified`, which is no error to the client.
pub(super) fn check_conditions(version: &VersionRecord, call: &Call<'_>) -> Result<(), S3Error> {
    let etag = version.etag.to_string();
    match ReadConditions::from_headers(call.headers()).decide(&etag, version.modified) {
        Verdict::Proceed => Ok(()),
        Verdict::Failed(condition) => {
            Err(S3Error::new(ErrorCode::PreconditionFailed).element("Condition", condition))
        }
        Verdict::NotModified(_) => Err(not_modified(version, &etag)),
    }
}

/// The answer to a client that has it already, with what its cache needs (RFC 9110, section 15.4.5).
fn not_modified(version: &VersionRecord, etag: &str) -> S3Error {
    let mut answer = S3Error::new(ErrorCode::NotModified)
        .header("ETag", etag)
        .header("Last-Modified", version.modified.to_http_date());
    for (kept, sent) in [("cache-control", "Cache-Control"), ("expires", "Expires")] {
        if let Some(value) = version.attributes.get(kept) {
            answer = answer.header(sent, value);
        }
    }
    answer
}

/// The bytes that `Range` or `partNumber` ask for; `None` for all.
fn range(version: &VersionRecord, etag: &str, call: &Call<'_>) -> Result<Option<Range<u64>>, S3Error> {
    let part = call.query.number("partNumber", 1..=PART_NUMBER_MAX)?;
    match (part, call.headers().get_str("range")) {
        (None, None) => Ok(None),
        (None, Some(_)) if !range_applies(call.headers(), etag, version.modified) => Ok(None),
        (None, Some(header)) => range_of(header, version.size),
        (Some(_), Some(_)) => Err(S3Error::new(ErrorCode::InvalidRequest)
            .message("Cannot specify both Range header and partNumber query parameter.")),
        // An object that was put in one piece has one part.
        (Some(1), None) => Ok((version.size > 0).then_some(0..version.size)),
        (Some(_), None) => Err(S3Error::new(ErrorCode::InvalidPartNumber)),
    }
}

fn range_of(header: &str, size: u64) -> Result<Option<Range<u64>>, S3Error> {
    let Some(range) = ByteRange::parse(header) else { return Ok(None) };
    range.resolve(size).map(Some).ok_or_else(|| {
        S3Error::new(ErrorCode::InvalidRange)
            .element("RangeRequested", header)
            .element("ActualObjectSize", size.to_string())
            .header("Content-Range", format!("bytes */{size}"))
    })
}

/// Adds the checksums that came with the object, where they are asked for.
fn with_checksums(mut response: Response, version: &VersionRecord, call: &Call<'_>) -> Response {
    if !call.p("checksum-mode").is_some_and(|mode| mode.eq_ignore_ascii_case("ENABLED")) {
        return response;
    }
    for checksum in &version.checksums {
        response = response.header(checksums::header(checksum), checksums::text(checksum));
    }
    match version.checksums.first() {
        Some(checksum) => response.header("p-checksum-type", checksums::type_name(checksum.kind)),
        None => response,
    }
}

/// All of a small body.
fn whole(mut reader: ObjectReader, length: u64, call: &Call<'_>) -> Result<ResponseBody, S3Error> {
    let mut bytes = vec![0; length as usize];
    fill(&mut reader, &mut bytes, call)?;
    Ok(ResponseBody::Bytes(bytes))
}

/// A large body. Its first bytes are read before the answer is decided, so that damage there still makes an error of it.
fn stream(mut reader: ObjectReader, length: u64, call: &Call<'_>) -> Result<ResponseBody, S3Error> {
    let mut first = vec![0; BLOCK_BYTES as usize];
    fill(&mut reader, &mut first, call)?;
    let source = Box::new(ObjectBody { first, sent: 0, reader, id: call.id.clone() });
    Ok(ResponseBody::Stream { length: Some(length), source })
}

/// Fills `buf`, which is no longer than what is there.
fn fill(reader: &mut ObjectReader, buf: &mut [u8], call: &Call<'_>) -> Result<(), S3Error> {
    let mut filled = 0;
    while filled < buf.len() {
        match reader.read(&mut buf[filled..]).for_client(call)? {
            0 => {
                log::error!("request {}: the object ends after {filled} bytes of {}", call.id, buf.len());
                return Err(S3Error::new(ErrorCode::InternalError));
            }
            read => filled += read,
        }
    }
    Ok(())
}

/// The bytes of an object on their way out.
struct ObjectBody {
    first: Vec<u8>,
    /// How many of the first bytes have been handed out.
    sent: usize,
    reader: ObjectReader,
    id: RequestId,
}

impl BodySource for ObjectBody {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let rest = &self.first[self.sent..];
        if rest.is_empty() {
            return self.reader.read(buf).map_err(|error| io::Error::other(failure::told(&error, &self.id)));
        }
        let count = rest.len().min(buf.len());
        buf[..count].copy_from_slice(&rest[..count]);
        self.sent += count;
        Ok(count)
    }
}
