//! CopyObject: an object made of another one, of which no byte is copied.

use std::sync::Arc;

use super::failure::{ForClient as _, Subject};
use super::find::{self, Source};
use super::keep_alive::{self, Abandoned};
use super::{Context, body, checksums, memory, new_object, tagging, version_id};
use crate::auth::{Action, Authorized};
use crate::s3::checksum::{Algorithm, Running};
use crate::s3::render::xml;
use crate::s3::{Call, ErrorCode, Response, S3Error};
use crate::store::{Attributes, Checksum, Commit, CommittedVersion, CopyRange, ETag, Store, StoreError};
use crate::xml::Writer;

/// CopyObject. Durable once the answer tells of the copy. It keeps the entity tag of its source, and its parts where it has
/// any: that is what was computed when the bytes were there. They are read again only for a checksum that is not known; of a
/// large source, that is work for which the client may be kept waiting.
pub(super) fn copy(context: &Context, proof: &Authorized, call: &Call<'_>) -> Result<Response, S3Error> {
    new_object::check_served(call)?;
    let directives = Directives::from_headers(call)?;
    let condition = new_object::condition(proof, call)?;
    context.store.bucket(call.bucket()).for_client(call)?;
    let source = find::source(context, proof, call)?;
    check_changes(&source, &directives, call)?;
    let (checksums, unknown) = checksums_of(&source, directives.algorithm);
    let commit = Commit {
        etag: source.found.version.etag,
        attributes: attributes(&source, &directives, call)?,
        tags: tags(&source, &directives, proof, call)?,
        checksums,
        condition,
    };
    new_object::check_early(context, proof, call, &commit.condition)?;
    let bytes = source.bytes(0..source.found.version.size)?;
    let is_long = unknown.is_some() && !body::is_read_at_once(source.found.version.size);
    let copying = Copying {
        store: Arc::clone(&context.store),
        proof: proof.clone(),
        target: Subject::of(call),
        document: context.document("CopyObjectResult"),
        source,
        unknown,
    };
    if !is_long {
        return copying.run(bytes, commit, &Abandoned::default());
    }
    let held = memory::for_late_answer(context)?;
    let run = move |abandoned: &Abandoned| {
        let _held = held;
        copying.run(bytes, commit, abandoned)
    };
    Ok(keep_alive::defer(context.keep_alive, call, run))
}

/// What it takes to make a copy when the call is over.
struct Copying {
    store: Arc<Store>,
    proof: Authorized,
    target: Subject,
    source: Source,
    /// The checksum for which the source has to be read.
    unknown: Option<Algorithm>,
    /// The beginning of the answer.
    document: Writer,
}

impl Copying {
    fn run(self, bytes: CopyRange, mut commit: Commit, abandoned: &Abandoned) -> Result<Response, S3Error> {
        if let Some(algorithm) = self.unknown {
            commit.checksums = vec![checksums::of_whole((algorithm, self.compute(algorithm, abandoned)?))];
        }
        let (etag, kept) = (commit.etag, commit.checksums.clone());
        let place = (self.target.bucket.as_str(), self.target.key.as_str());
        let written = match self.store.copy(bytes, place.0, place.1, commit) {
            // The target that a condition asks for. A source that is gone is a version that is not there.
            Err(error @ StoreError::NoSuchKey) => {
                return Err(find::conceal(self.target.told(&error), &self.proof, place));
            }
            written => self.source.copied(written, &self.target)?,
        };
        Ok(answer(&self.store, self.document, &self.source, (etag, written, &kept)))
    }

    fn compute(&self, algorithm: Algorithm, abandoned: &Abandoned) -> Result<Vec<u8>, S3Error> {
        let found = &self.source.found;
        let reader = self.store.read(found, 0..found.version.size);
        let mut reader = reader.map_err(|error| self.target.told(&error))?;
        let mut running = Running::new(algorithm);
        body::absorb(&mut reader, &self.target.id, abandoned, |bytes| running.update(bytes))?;
        Ok(running.finish())
    }
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

/// The checksums of the source, and the one that the request wants where it is not among them: that takes reading all bytes.
fn checksums_of(source: &Source, wanted: Option<Algorithm>) -> (Vec<Checksum>, Option<Algorithm>) {
    let kept = &source.found.version.checksums;
    let Some(algorithm) = wanted else { return (kept.clone(), None) };
    match checksums::by(algorithm, kept) {
        Some(checksum) => (vec![checksum.clone()], None),
        None => (Vec::new(), Some(algorithm)),
    }
}

fn answer(
    store: &Store,
    mut document: Writer,
    source: &Source,
    (etag, written, kept): (ETag, CommittedVersion, &[Checksum]),
) -> Response {
    document.plain("ETag", etag);
    document.plain("LastModified", written.modified);
    checksums::write(&mut document, kept);
    version_id::announce(store, source.announce(store, xml(200, document)), &written)
}
