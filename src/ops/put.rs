//! PutObject.

use super::failure::ForClient as _;
use super::{Context, body, checksums, tagging};
use crate::auth::Authorized;
use crate::base::limits::{KIB, PUT_SIZE_MAX_BYTES};
use crate::s3::checksum;
use crate::s3::conditions::{self, same_tag};
use crate::s3::integrity::{Integrity, Verified};
use crate::s3::{Call, ErrorCode, Response, S3Error, metadata};
use crate::store::{Attributes, Commit, ETag, ObjectWriter, Selector, StoreError, WriteCondition, Written};

/// Bytes that are read from the client at a time.
const BUFFER_BYTES: u64 = 256 * KIB;

/// Headers that ask for what is not served. To ignore one would be to promise it.
const UNSERVED: [&str; 9] = [
    "copy-source-server-side-encryption-customer-algorithm",
    "object-lock-legal-hold",
    "object-lock-mode",
    "object-lock-retain-until-date",
    "server-side-encryption",
    "server-side-encryption-aws-kms-key-id",
    "server-side-encryption-customer-algorithm",
    "website-redirect-location",
    "write-offset-bytes",
];

/// PutObject. Durable on return. All that can be refused without the body is refused before it is asked for.
pub(super) fn put(context: &Context, proof: &Authorized, call: &mut Call<'_>) -> Result<Response, S3Error> {
    let length = body::announced_length(&call.request.body)?;
    check_size(length.unwrap_or(0))?;
    check_served(call)?;
    let mut integrity = Integrity::from_headers(call.headers(), call.vendor())?;
    let attributes = attributes(call)?;
    let tags = tagging::of_new(proof, call)?;
    let condition = conditions::WriteCondition::from_headers(call.headers())?;
    let mut writer = context.store.writer(call.bucket(), call.key(), length).for_client(call)?;
    check_early(context, call, &condition)?;

    receive(call, &mut writer, &mut integrity, length)?;
    let verified = integrity.verify(call.request.body.reader.trailers())?;

    let commit = Commit {
        etag: ETag::Md5(verified.md5),
        attributes,
        checksums: verified.checksum.clone().map(checksums::of_whole).into_iter().collect(),
        tags,
        condition: to_store(condition),
    };
    let etag = commit.etag;
    let written = writer.commit(commit).for_client(call)?;
    Ok(answer(etag, written, &verified))
}

fn answer(etag: ETag, written: Written, verified: &Verified) -> Response {
    let mut response = Response::new(200).header("ETag", etag.to_string());
    if !written.null {
        response = response.header("p-version-id", written.id.to_string());
    }
    if let Some((algorithm, value)) = &verified.checksum {
        response = response
            .header(algorithm.header(), checksum::encode(value))
            .header("p-checksum-type", "FULL_OBJECT");
    }
    response
}

fn check_size(size: u64) -> Result<(), S3Error> {
    if size <= PUT_SIZE_MAX_BYTES {
        return Ok(());
    }
    Err(S3Error::new(ErrorCode::EntityTooLarge)
        .element("ProposedSize", size.to_string())
        .element("MaxSizeAllowed", PUT_SIZE_MAX_BYTES.to_string()))
}

/// Refuses a put that asks for what it would not get.
///
/// # Errors
/// `NotImplemented`; `InvalidArgument` for half of what a part takes.
pub(super) fn check_served(call: &Call<'_>) -> Result<(), S3Error> {
    if call.query.has("partNumber") {
        let number = call.query.get("partNumber").unwrap_or_default();
        return Err(S3Error::invalid_argument(
            "partNumber",
            number,
            "A part needs the uploadId of its upload.",
        ));
    }
    let vendor = call.vendor();
    let asks = |name: &str| UNSERVED.contains(&name) || name.starts_with("grant-");
    let shared = call.p("acl").is_some_and(|acl| !matches!(acl, "private" | "bucket-owner-full-control"));
    let asked = vendor.iter().map(|(name, _)| name).find(|name| asks(name)).or(shared.then_some("acl"));
    match asked {
        Some(name) => Err(S3Error::new(ErrorCode::NotImplemented).element("Header", format!("p-{name}"))),
        None => Ok(()),
    }
}

/// What is kept with the object that a request makes.
///
/// # Errors
/// Those of [`metadata::collect`].
pub(super) fn attributes(call: &Call<'_>) -> Result<Attributes, S3Error> {
    let mut attributes = Attributes::new();
    for (name, value) in metadata::collect(call.headers(), call.vendor())? {
        attributes.push(name, value);
    }
    Ok(attributes)
}

/// Refuses early what the commit would refuse anyway, as things stand now. The commit decides for good.
fn check_early(
    context: &Context,
    call: &Call<'_>,
    condition: &conditions::WriteCondition,
) -> Result<(), S3Error> {
    if *condition == conditions::WriteCondition::None {
        return Ok(());
    }
    let current = match context.store.find(call.bucket(), call.key(), Selector::Current) {
        Ok(found) => Some(found.version).filter(|version| !version.delete_marker),
        Err(StoreError::NoSuchKey) => None,
        Err(error) => return Err(error).for_client(call),
    };
    let holds = match (condition, current) {
        (conditions::WriteCondition::IfMatch(_), None) => Err(StoreError::NoSuchKey),
        (conditions::WriteCondition::IfMatch(tag), Some(version)) => {
            Ok(tag == "*" || same_tag(tag, &version.etag.to_string()))
        }
        (conditions::WriteCondition::IfAbsent, current) => Ok(current.is_none()),
        (conditions::WriteCondition::None, _) => Ok(true),
    };
    match holds {
        Ok(true) => Ok(()),
        Ok(false) => Err(StoreError::PreconditionFailed).for_client(call),
        Err(error) => Err(error).for_client(call),
    }
}

/// Takes the body in, to its verified end.
fn receive(
    call: &mut Call<'_>,
    writer: &mut ObjectWriter<'_>,
    integrity: &mut Integrity,
    length: Option<u64>,
) -> Result<(), S3Error> {
    // One byte at least: reading into none would look like the end.
    let size = length.unwrap_or(BUFFER_BYTES).clamp(1, BUFFER_BYTES);
    let mut buffer = vec![0; size as usize];
    loop {
        let read = call.request.body.reader.read(&mut buffer)?;
        if read == 0 {
            return Ok(());
        }
        check_size(writer.len() + read as u64)?;
        integrity.update(&buffer[..read]);
        writer.write(&buffer[..read]).for_client(call)?;
    }
}

/// The condition as the store takes it.
pub(super) fn to_store(condition: conditions::WriteCondition) -> WriteCondition {
    match condition {
        conditions::WriteCondition::None => WriteCondition::None,
        conditions::WriteCondition::IfAbsent => WriteCondition::IfAbsent,
        conditions::WriteCondition::IfMatch(tag) => WriteCondition::IfMatch(tag),
    }
}
