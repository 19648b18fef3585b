//! CopyObject. The copy shares the extents of its source; no byte of the payload is copied.

use std::sync::Arc;

use super::access::{self, Place};
use super::client_error::{ForClient as _, RequestNames};
use super::copy_directives::Directives;
use super::lookup::{self, SourceObject};
use super::padded_response::{self, CancelToken};
use super::{Context, body, checksums, lifecycle, new_object, tagging, version_id};
use crate::auth::{Action, Authorized};
use crate::base::ChecksumAlgorithm;
use crate::s3::checksum::ChecksumHasher;
use crate::s3::render::xml;
use crate::s3::{Call, ErrorCode, Response, S3Error, metadata};
use crate::store::{Attributes, Checksum, Commit, CopyRange, Store, StoreError, stated_before};
use crate::xml::Writer;

/// CopyObject. Durable when the response reports success. The copy keeps the entity tag and the
/// parts of its source. The source is read only for a checksum that it does not have; for a large
/// source that is long work, whose response may be padded.
pub(super) fn copy(context: &Context, proof: &Authorized, call: &Call<'_>) -> Result<Response, S3Error> {
    new_object::check_served(call)?;
    let directives = Directives::from_headers(call)?;
    let condition = new_object::condition(context, proof, call)?;
    context.store.bucket(call.bucket()).for_client(call)?;
    let source = lookup::source(context, proof, call)?;
    check_changes(&source, &directives, call)?;
    let (checksums, unknown) = checksums_of(&source, directives.algorithm);
    let commit = Commit {
        etag: source.found.version.etag,
        attributes: attributes(&source, &directives, call)?,
        tags: tags(&source, &directives, context, proof, call)?,
        checksums,
        controls: new_object::controls(context, proof, call, None)?,
        storage_class: new_object::storage_class(call),
        condition,
        stated_time: new_object::stated_time(context, proof, call)?,
    };
    new_object::check_early(context, proof, call, &commit.condition)?;
    let bytes = source.bytes(0..source.found.version.size)?;
    let is_long = unknown.is_some() && !body::is_read_at_once(source.found.version.size);
    let task = CopyTask {
        store: Arc::clone(&context.store),
        hides_absence: new_object::hides_absence(&commit.condition, context, proof, call),
        target: RequestNames::of(call),
        document: context.document("CopyObjectResult"),
        source,
        unknown,
    };
    padded_response::run_or_defer(context, call, is_long, move |cancel| task.run(bytes, commit, cancel))
}

/// The copy, apart from its call, which may end before it.
struct CopyTask {
    store: Arc<Store>,
    /// Whether the sender may not learn that the target is missing.
    hides_absence: bool,
    target: RequestNames,
    source: SourceObject,
    /// The checksum to compute by reading the source.
    unknown: Option<ChecksumAlgorithm>,
    /// The beginning of the response.
    document: Writer,
}

impl CopyTask {
    fn run(self, bytes: CopyRange, mut commit: Commit, cancel: &CancelToken) -> Result<Response, S3Error> {
        if let Some(algorithm) = self.unknown {
            commit.checksums = vec![checksums::of_whole((algorithm, self.compute(algorithm, cancel)?))];
        }
        let etag = commit.etag;
        let kept = commit.checksums.clone();
        let stated = commit.stated_time;
        let RequestNames { bucket, key, .. } = &self.target;
        let written = match self.store.copy(bytes, bucket, key, commit) {
            // The target of a condition. A source that is gone is reported as `NoSuchVersion`.
            Err(error @ StoreError::NoSuchKey) => {
                return Err(lookup::conceal_if(self.hides_absence, self.target.to_client_error(&error)));
            }
            written => self.source.copied(written, &self.target)?,
        };
        let mut document = self.document;
        document.plain("ETag", etag);
        document.plain("LastModified", stated_before(stated, written.modified).unwrap_or(written.modified));
        checksums::write(&mut document, &kept);
        let response = self.source.add_version_id(&self.store, xml(200, document));
        let response = version_id::add_new_version_id(&self.store, response, &written);
        Ok(lifecycle::add_new_expiration(&self.store, response, bucket, key, &written))
    }

    fn compute(&self, algorithm: ChecksumAlgorithm, cancel: &CancelToken) -> Result<Vec<u8>, S3Error> {
        let found = &self.source.found;
        let reader = self.store.read(found, 0..found.version.size);
        let mut reader = reader.map_err(|error| self.target.to_client_error(&error))?;
        let mut running = ChecksumHasher::new(algorithm);
        body::for_each_chunk(&mut reader, &self.target.id, cancel, |bytes| running.update(bytes))?;
        Ok(running.finish())
    }
}

/// Refuses to copy an object onto itself unchanged (S3 API reference, CopyObject). A checksum alone
/// is no change; S3 wants another one beside it. A named version may be copied onto its key, to
/// become the current one again.
///
/// # Errors
/// `InvalidRequest`.
fn check_changes(source: &SourceObject, directives: &Directives, call: &Call<'_>) -> Result<(), S3Error> {
    let named = &source.named;
    let onto_itself = named.bucket == call.bucket() && named.key.as_str() == call.key();
    let changes = directives.replace_metadata
        || directives.replace_tags
        || metadata::gives_redirect_location(call.vendor())
        || call.vendor().get("storage-class").is_some();
    if !onto_itself || named.version.is_some() || changes {
        return Ok(());
    }
    Err(S3Error::new(ErrorCode::InvalidRequest).message(
        "This copy request is illegal because it is trying to copy an object to itself without changing the object's \
         metadata, storage class, website redirect location or encryption attributes.",
    ))
}

fn attributes(
    source: &SourceObject,
    directives: &Directives,
    call: &Call<'_>,
) -> Result<Attributes, S3Error> {
    if directives.replace_metadata {
        new_object::attributes(call)
    } else {
        let kept = metadata::of_copy(source.found.version.attributes.iter(), call.vendor())?;
        Ok(new_object::attributes_of(kept))
    }
}

/// The tags of the copy. Copying them takes the permissions to read the source's and to set the
/// target's (S3 API reference, CopyObject, "Permissions").
///
/// # Errors
/// `AccessDenied`.
fn tags(
    source: &SourceObject,
    directives: &Directives,
    context: &Context,
    proof: &Authorized,
    call: &Call<'_>,
) -> Result<Vec<(String, String)>, S3Error> {
    if directives.replace_tags {
        return tagging::of_new_object(context, proof, call);
    }
    let named = &source.named;
    let tags = &source.found.version.tags;
    let reading = match named.version {
        Some(_) => Action::GetObjectVersionTagging,
        None => Action::GetObjectTagging,
    };
    if !tags.is_empty() {
        let place = Place::object(&named.bucket, named.key.as_str()).version(named.version.as_deref());
        access::check(context, proof, call, reading, place.found(&source.found.version))?;
    }
    // The policy was asked about the tags that the source had then; another version may have come
    // since.
    let place = Place::target(call).tags(tags);
    access::check(context, proof, call, proof.action(), place)?;
    if !tags.is_empty() {
        access::check(context, proof, call, Action::PutObjectTagging, place)?;
    }
    Ok(tags.clone())
}

/// The known checksums of the copy, and the requested one if it takes reading the source.
fn checksums_of(
    source: &SourceObject,
    wanted: Option<ChecksumAlgorithm>,
) -> (Vec<Checksum>, Option<ChecksumAlgorithm>) {
    let kept = &source.found.version.checksums;
    let Some(algorithm) = wanted else { return (kept.clone(), None) };
    match checksums::by(algorithm, kept) {
        Some(checksum) => (vec![checksum.clone()], None),
        None => (Vec::new(), Some(algorithm)),
    }
}
