//! CopyObject: an object made of another one, of which no byte is copied.

use super::failure::ForClient as _;
use super::find::{self, Source};
use super::{Context, body, checksums, new_object, tagging, version_id};
use crate::auth::{Action, Authorized};
use crate::s3::checksum::{Algorithm, Running};
use crate::s3::render::xml;
use crate::s3::{Call, ErrorCode, Response, S3Error};
use crate::store::{Attributes, Checksum, Commit, ETag, StoreError, Written};

/// CopyObject. Durable on return. The copy keeps the entity tag of its source, and its parts where it has any: that is
/// what was computed when the bytes were there, and they are not looked at again.
pub(super) fn copy(context: &Context, proof: &Authorized, call: &Call<'_>) -> Result<Response, S3Error> {
    new_object::check_served(call)?;
    let directives = Directives::from_headers(call)?;
    let condition = new_object::condition(proof, call)?;
    context.store.bucket(call.bucket()).for_client(call)?;
    let source = find::source(context, proof, call)?;
    check_changes(&source, &directives, call)?;
    let bytes = source.bytes(0..source.found.version.size)?;
    let commit = Commit {
        etag: source.found.version.etag,
        attributes: attributes(&source, &directives, call)?,
        tags: tags(&source, &directives, proof, call)?,
        checksums: checksums_of(&source, directives.algorithm, context, call)?,
        condition,
    };
    let (etag, kept) = (commit.etag, commit.checksums.clone());
    let written = context.store.copy(bytes, call.bucket(), call.key(), commit);
    let written = match written {
        // The target that a condition asks for. A source that is gone is a version that is not there.
        Err(StoreError::NoSuchKey) => new_object::committed(written, proof, call)?,
        written => source.copied(written, call)?,
    };
    Ok(answer(context, &source, (etag, written, &kept)))
}

/// What of the copy comes from its source and what from the request.
struct Directives {
    replace_metadata: bool,
    replace_tags: bool,
    /// The checksum that the copy is to have.
    algorithm: Option<Algorithm>,
}

impl Directives {
    fn from_headers(call: &Call<'_>) -> Result<Self, S3Error> {
        Ok(Self {
            replace_metadata: replaces(call, "metadata-directive", "Unknown metadata directive.")?,
            replace_tags: replaces(call, "tagging-directive", "Unknown tagging directive.")?,
            algorithm: checksums::wanted(call)?,
        })
    }
}

fn replaces(call: &Call<'_>, name: &str, message: &str) -> Result<bool, S3Error> {
    match call.vendor().get(name) {
        None | Some(b"COPY") => Ok(false),
        Some(b"REPLACE") => Ok(true),
        Some(other) => {
            let name = format!("{}{name}", call.dialect.header_prefix());
            Err(S3Error::invalid_argument(&name, &String::from_utf8_lossy(other), message))
        }
    }
}

/// An object is copied onto itself only to change something (S3 API reference, CopyObject). A version that is named is
/// copied onto its key to become the current one again.
fn check_changes(source: &Source, directives: &Directives, call: &Call<'_>) -> Result<(), S3Error> {
    let named = &source.named;
    let onto_itself = named.bucket == call.bucket() && named.key.as_str() == call.key();
    let kept = &source.found.version.checksums;
    let new_checksum = directives.algorithm.is_some_and(|algorithm| checksums::by(algorithm, kept).is_none());
    let changes = directives.replace_metadata
        || directives.replace_tags
        || new_checksum
        || call.vendor().get("storage-class").is_some();
    if !onto_itself || named.version.is_some() || changes {
        return Ok(());
    }
    Err(S3Error::new(ErrorCode::InvalidRequest).message(
        "This copy request is illegal because it is trying to copy an object to itself without changing the object's \
         metadata, storage class, website redirect location or encryption attributes.",
    ))
}

fn attributes(source: &Source, directives: &Directives, call: &Call<'_>) -> Result<Attributes, S3Error> {
    if directives.replace_metadata {
        new_object::attributes(call)
    } else {
        Ok(source.found.version.attributes.clone())
    }
}

/// Tags are copied for those alone who may read them there and set them here (S3 API reference, CopyObject,
/// "Permissions").
fn tags(
    source: &Source,
    directives: &Directives,
    proof: &Authorized,
    call: &Call<'_>,
) -> Result<Vec<(String, String)>, S3Error> {
    if directives.replace_tags {
        return tagging::of_new(proof, call);
    }
    let (named, tags) = (&source.named, &source.found.version.tags);
    let reading = match named.version {
        Some(_) => Action::GetObjectVersionTagging,
        None => Action::GetObjectTagging,
    };
    if !tags.is_empty() && !proof.may(reading, &named.bucket, Some(named.key.as_str())) {
        return Err(S3Error::new(ErrorCode::AccessDenied));
    }
    tagging::check_may_set(tags, proof, call)?;
    Ok(tags.clone())
}

/// The checksums of the source, unless the request wants one that it does not have: that one takes reading all bytes.
fn checksums_of(
    source: &Source,
    wanted: Option<Algorithm>,
    context: &Context,
    call: &Call<'_>,
) -> Result<Vec<Checksum>, S3Error> {
    let kept = &source.found.version.checksums;
    let Some(algorithm) = wanted else { return Ok(kept.clone()) };
    match checksums::by(algorithm, kept) {
        Some(checksum) => Ok(vec![checksum.clone()]),
        None => Ok(vec![checksums::of_whole((algorithm, compute(source, algorithm, context, call)?))]),
    }
}

fn compute(
    source: &Source,
    algorithm: Algorithm,
    context: &Context,
    call: &Call<'_>,
) -> Result<Vec<u8>, S3Error> {
    let version = &source.found.version;
    let mut reader = context.store.read(&source.found, 0..version.size).for_client(call)?;
    let mut running = Running::new(algorithm);
    body::absorb(&mut reader, |bytes| running.update(bytes)).for_client(call)?;
    Ok(running.finish())
}

fn answer(
    context: &Context,
    source: &Source,
    (etag, written, kept): (ETag, Written, &[Checksum]),
) -> Response {
    let mut document = context.document("CopyObjectResult");
    document.plain("ETag", etag);
    document.plain("LastModified", written.modified);
    checksums::write(&mut document, kept);
    version_id::announce(source.announce(xml(200, document)), &written)
}
