//! GetObject and HeadObject.

use std::io;
use std::ops::Range;

use super::client_error::{self, ForClient as _};
use super::encryption::{OpenedVersion, OtherKinds, ReadKey};
use super::{
    Context, checksums, encryption, lifecycle, lookup, memory, object_lock, replication, tagging, version_id,
};
use crate::auth::Authorized;
use crate::base::limits::{BLOCK_BYTES, KIB, PART_NUMBER_MAX};
use crate::s3::conditions::{ConditionOutcome, ReadConditions, range_applies};
use crate::s3::range::ByteRange;
use crate::s3::{
    BodySource, Call, ErrorCode, Operation, RequestId, Response, ResponseBody, S3Error, metadata,
};
use crate::store::{
    AssembledPart, Checksum, FoundVersion, ObjectReader, OpenedKey, StorageClass, VersionRecord,
};

/// Bodies up to this size are read, and so verified, before the response begins.
const WHOLE_MAX_BYTES: u64 = 256 * KIB;

/// GetObject.
pub(super) fn get(context: &Context, proof: &Authorized, call: &Call<'_>) -> Result<Response, S3Error> {
    let found = lookup::target(context, proof, call)?;
    with_body(context, proof, call, &found)
}

/// The response to a GET of a version.
///
/// # Errors
/// Errors of its conditions and of its range; `SlowDown`; the errors of reading.
pub(super) fn with_body(
    context: &Context,
    proof: &Authorized,
    call: &Call<'_>,
    found: &FoundVersion,
) -> Result<Response, S3Error> {
    let key = ReadKey::of_target(call, OtherKinds::Refused)?;
    check_overrides(proof, call)?;
    // Before the conditions: without the key not even they tell anything about the object.
    let own = key.open(context, call, &found.version)?;
    let (response, bytes) = head_of(context, found, &key, &own, proof, call)?;
    let length = bytes.end - bytes.start;
    if length == 0 {
        return Ok(response);
    }
    if length > WHOLE_MAX_BYTES {
        let held = memory::for_stream(context, &found.version)?;
        let reader = context.store.read_opened(found, bytes, &own, key.key()).for_client(call)?;
        return Ok(response.with_body(stream(reader, length, call)?).holding(held));
    }
    let reader = context.store.read_opened(found, bytes, &own, key.key()).for_client(call)?;
    // Bytes that come from another host are handed out before they are kept.
    let body = if reader.is_coming() { stream(reader, length, call) } else { whole(reader, length, call) };
    Ok(response.with_body(body?))
}

/// HeadObject.
pub(super) fn head(context: &Context, proof: &Authorized, call: &Call<'_>) -> Result<Response, S3Error> {
    let found = match call.query.has("partNumber") {
        true => lookup::target(context, proof, call)?,
        false => lookup::outline(context, proof, call)?,
    };
    without_body(context, proof, call, &found)
}

/// The response to a HEAD of a version.
///
/// # Errors
/// Errors of its conditions and of its range.
pub(super) fn without_body(
    context: &Context,
    proof: &Authorized,
    call: &Call<'_>,
    found: &FoundVersion,
) -> Result<Response, S3Error> {
    let key = ReadKey::of_target(call, OtherKinds::Refused)?;
    check_overrides(proof, call)?;
    let own = key.open_to_tell(context, call, &found.version, wants_checksums(call))?;
    let (response, bytes) = head_of(context, found, &key, &own, proof, call)?;
    Ok(response.header("Content-Length", (bytes.end - bytes.start).to_string()))
}

/// Refuses what anonymous users may not ask for.
fn check_overrides(proof: &Authorized, call: &Call<'_>) -> Result<(), S3Error> {
    match proof.identity().is_anonymous() && metadata::overrides(&call.query) {
        true => Err(S3Error::new(ErrorCode::InvalidRequest)
            .message("Request specific response headers cannot be used for anonymous GET requests.")),
        false => Ok(()),
    }
}

/// Status and headers of the response, and the range of its bytes. `own` is the opened key of the
/// version.
fn head_of(
    context: &Context,
    found: &FoundVersion,
    key: &ReadKey,
    own: &OpenedKey,
    proof: &Authorized,
    call: &Call<'_>,
) -> Result<(Response, Range<u64>), S3Error> {
    let opened = match wants_checksums(call) {
        true => OpenedVersion::open(context, &found.version, own, call)?,
        false => OpenedVersion::recorded(&found.version),
    };
    let version = &*opened;
    let etag = version.etag.to_string();
    let shown = key.shown(context, encryption::key_of(version));
    check_conditions(version, &etag, call)
        .map_err(|error| encryption::add_to_not_modified(shown.as_ref(), error))?;
    let selected = selected(version, &etag, call)?;
    let bytes = selected.as_ref().map_or(0..version.size, |selected| selected.bytes.clone());
    let announced = selected.filter(|_| !is_head_of_range(call));
    let mut response = Response::new(if announced.is_some() { 206 } else { 200 })
        .header("Accept-Ranges", "bytes")
        .header("Last-Modified", version.last_modified().to_http_date())
        .header("ETag", etag);
    response = version_id::add_version_id(context, response, found);
    response = metadata::send(version.attributes.iter(), &call.query, response)?;
    response = tagging::add_tag_count(response, version, context, proof, call);
    response = object_lock::add_headers(response, version, context, proof, call);
    response = lifecycle::add_expiration(context, response, found, call);
    response = replication::add_status(context, response, found, call);
    response = with_storage_class(response, version);
    response = encryption::add_headers(shown.as_ref(), response);
    response = match announced {
        Some(selected) => selected.describe(response, version, call),
        None => with_checksums(response, &version.checksums, call),
    };
    Ok((response, bytes))
}

/// Adds the storage class, unless it is the usual one (S3 API reference, GetObject,
/// `x-amz-storage-class`).
fn with_storage_class(response: Response, version: &VersionRecord) -> Response {
    match version.storage_class {
        StorageClass::Standard => response,
        class => response.header("p-storage-class", class.as_str()),
    }
}

/// The range of a HEAD changes only the length in the response (S3 API reference, HeadObject,
/// "Range").
fn is_head_of_range(call: &Call<'_>) -> bool {
    call.operation == Operation::HeadObject && !call.query.has("partNumber")
}

/// Checks the conditions of a read against a version with the entity tag `etag`.
///
/// # Errors
/// `PreconditionFailed`; `NotModified`, which is no error to the client.
pub(super) fn check_conditions(version: &VersionRecord, etag: &str, call: &Call<'_>) -> Result<(), S3Error> {
    match ReadConditions::from_headers(call.headers()).decide(etag, version.last_modified(), call.received) {
        ConditionOutcome::Proceed => Ok(()),
        ConditionOutcome::Failed(condition) => {
            Err(S3Error::new(ErrorCode::PreconditionFailed).element("Condition", condition))
        }
        ConditionOutcome::NotModified(_) => Err(not_modified(version, etag, call)),
    }
}

/// The response to a client with a valid cached copy, with the headers for its cache (RFC 9110,
/// section 15.4.5) and the type, by which the service decides what a browser may do with that copy.
fn not_modified(version: &VersionRecord, etag: &str, call: &Call<'_>) -> S3Error {
    let mut response = S3Error::new(ErrorCode::NotModified)
        .header("ETag", etag)
        .header("Last-Modified", version.last_modified().to_http_date())
        .header("Content-Type", metadata::sent_type(version.attributes.get("content-type"), &call.query));
    for (kept, sent) in [("cache-control", "Cache-Control"), ("expires", "Expires")] {
        if let Some(value) = version.attributes.get(kept) {
            response = response.header(sent, value);
        }
    }
    response
}

/// A range of a version.
struct SelectedRange<'v> {
    bytes: Range<u64>,
    /// The part with that range, and the number of parts.
    part: Option<(&'v AssembledPart, usize)>,
}

impl SelectedRange<'_> {
    /// Describes the range in a response. The checksum of the whole object is of no use there.
    fn describe(&self, mut response: Response, version: &VersionRecord, call: &Call<'_>) -> Response {
        let Range { start, end } = &self.bytes;
        let size = version.size;
        let shown = match start < end {
            true => format!("bytes {start}-{}/{size}", end - 1),
            false => format!("bytes */{size}"),
        };
        response = response.header("Content-Range", shown);
        match self.part {
            None => response,
            Some((part, count)) => {
                response = response.header("p-mp-parts-count", count.to_string());
                with_checksums(response, part.checksum.as_slice(), call)
            }
        }
    }
}

/// The range that `Range` or `partNumber` selects; `None` for the whole version.
fn selected<'v>(
    version: &'v VersionRecord,
    etag: &str,
    call: &Call<'_>,
) -> Result<Option<SelectedRange<'v>>, S3Error> {
    let number = call.query.number("partNumber", 1..=PART_NUMBER_MAX)?;
    let range = match (number, call.headers().get_str("range")) {
        (None, None) => None,
        (None, Some(_)) if !range_applies(call.headers(), etag, version.last_modified()) => None,
        (None, Some(header)) => range_of(header, version.size)?,
        (Some(_), Some(_)) => {
            return Err(S3Error::new(ErrorCode::InvalidRequest)
                .message("Cannot specify both Range header and partNumber query parameter."));
        }
        (Some(number), None) => return part_of(version, number),
    };
    Ok(range.map(|bytes| SelectedRange { bytes, part: None }))
}

/// The range of a part. An object put in one piece has one part.
fn part_of(version: &VersionRecord, number: u32) -> Result<Option<SelectedRange<'_>>, S3Error> {
    let Some(assembly) = &version.upload else {
        let whole = (version.size > 0).then_some(SelectedRange { bytes: 0..version.size, part: None });
        return if number == 1 { Ok(whole) } else { Err(no_such_part(number, 1)) };
    };
    let mut start = 0;
    for part in &assembly.parts {
        if part.number == number {
            let part = (part, assembly.parts.len());
            return Ok(Some(SelectedRange { bytes: start..start + part.0.size, part: Some(part) }));
        }
        start += part.size;
    }
    Err(no_such_part(number, assembly.parts.len()))
}

fn no_such_part(number: u32, count: usize) -> S3Error {
    S3Error::new(ErrorCode::InvalidPartNumber)
        .element("ActualPartCount", count.to_string())
        .element("PartNumberRequested", number.to_string())
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

fn wants_checksums(call: &Call<'_>) -> bool {
    call.vendor_header("checksum-mode").is_some_and(|mode| mode.eq_ignore_ascii_case("ENABLED"))
}

/// Adds checksums if the request asks for them.
fn with_checksums(mut response: Response, checksums: &[Checksum], call: &Call<'_>) -> Response {
    if !wants_checksums(call) {
        return response;
    }
    for checksum in checksums {
        response = response.header(checksums::header(checksum), checksums::text(checksum));
    }
    match checksums.first() {
        Some(checksum) => response.header("p-checksum-type", checksums::type_name(checksum.kind)),
        None => response,
    }
}

/// Reads a small body.
fn whole(mut reader: ObjectReader, length: u64, call: &Call<'_>) -> Result<ResponseBody, S3Error> {
    let mut bytes = vec![0; length as usize];
    fill(&mut reader, &mut bytes, call)?;
    Ok(ResponseBody::Bytes(bytes))
}

/// A large body. Its first block is read before the status is sent, so that damage there is still
/// reported as an error.
fn stream(mut reader: ObjectReader, length: u64, call: &Call<'_>) -> Result<ResponseBody, S3Error> {
    let mut first = vec![0; BLOCK_BYTES.min(length) as usize];
    fill(&mut reader, &mut first, call)?;
    let source = Box::new(ObjectBody { first, sent: 0, reader, id: call.id.clone() });
    Ok(ResponseBody::Stream { length: Some(length), source })
}

/// Fills `buf`, which is at most as long as the rest of the object.
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

/// The body of a large object.
struct ObjectBody {
    first: Vec<u8>,
    /// The number of first bytes that have been returned.
    sent: usize,
    reader: ObjectReader,
    id: RequestId,
}

impl BodySource for ObjectBody {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let rest = &self.first[self.sent..];
        if rest.is_empty() {
            return self
                .reader
                .read(buf)
                .map_err(|error| io::Error::other(client_error::to_client_error(&error, &self.id)));
        }
        let count = rest.len().min(buf.len());
        buf[..count].copy_from_slice(&rest[..count]);
        self.sent += count;
        Ok(count)
    }

    fn piece_len_max(&self) -> usize {
        match self.first.len() - self.sent {
            at_hand @ 1.. if self.reader.is_coming() => at_hand,
            _ => usize::MAX,
        }
    }
}
