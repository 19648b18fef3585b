//! CopyObject. The copy shares the extents of its source, and no byte of the payload is copied, if
//! both are in the clear, under keys of the ring, or under one key of a customer. Else the bytes
//! are decrypted and encrypted again.

use std::borrow::Cow;
use std::sync::Arc;

use super::access::{self, Place};
use super::client_error::RequestNames;
use super::copy_directives::Directives;
use super::encryption::{ChosenEncryption, OpenedVersion};
use super::lookup::{self, SourceObject};
use super::padded_response::{self, CancelToken};
use super::{Context, body, checksums, encryption, lifecycle, new_object, tagging, version_id};
use crate::auth::{Action, Authorized};
use crate::base::{ChecksumAlgorithm, Timestamp};
use crate::s3::checksum::ChecksumHasher;
use crate::s3::encryption::RequestedEncryption;
use crate::s3::integrity::Integrity;
use crate::s3::render::xml;
use crate::s3::{Call, ErrorCode, Response, S3Error, metadata};
use crate::store::{
    Attributes, Checksum, ChecksumType, Commit, CommittedVersion, CopyRange, ETag, Store, StoreError,
    stated_before,
};
use crate::xml::Writer;

/// CopyObject. Durable when the response reports success. The copy keeps the entity tag and the
/// parts of its source. The source is read only for a checksum that it does not have; for a large
/// source that is long work, whose response may be padded.
pub(super) fn copy(context: &Context, proof: &Authorized, call: &Call<'_>) -> Result<Response, S3Error> {
    new_object::check_served(call)?;
    let encryption = ChosenEncryption::of_new_object(context, call)?;
    let directives = Directives::from_headers(call)?;
    let condition = new_object::condition(context, proof, call)?;
    let source = lookup::source(context, proof, call)?;
    check_changes(&source, &directives, &encryption, call)?;
    let plan = CopyPlan::of(context, &source, &encryption, directives.algorithm, call)?;
    let commit = Commit {
        etag: source.found.version.etag,
        attributes: attributes(&source, &directives, call)?,
        tags: tags(&source, &directives, context, proof, call)?,
        checksums: plan.known,
        controls: new_object::controls(context, proof, call, None)?,
        storage_class: new_object::storage_class(call),
        condition,
        stated_time: new_object::stated_time(context, proof, call)?,
    };
    new_object::check_early(context, proof, call, &commit.condition)?;
    let bytes = source.bytes(0..source.found.version.size)?;
    let reads = plan.unknown.is_some() || !plan.is_shared;
    let is_long = reads && !body::is_read_at_once(source.found.version.size);
    let task = CopyTask {
        store: Arc::clone(&context.store),
        hides_absence: new_object::hides_absence(&commit.condition, context, proof, call),
        target: RequestNames::of(call),
        document: context.document("CopyObjectResult"),
        source,
        unknown: plan.unknown,
        encryption,
    };
    padded_response::run_or_defer(context, call, is_long, move |cancel| match plan.is_shared {
        true => task.share(bytes, commit, cancel),
        false => task.rewrite(commit, cancel),
    })
}

/// How a copy is made.
struct CopyPlan {
    /// Whether it shares the extents of its source.
    is_shared: bool,
    /// The checksums that are known.
    known: Vec<Checksum>,
    /// The checksum to compute by reading the source.
    unknown: Option<ChecksumAlgorithm>,
}

impl CopyPlan {
    fn of(
        context: &Context,
        source: &SourceObject,
        encryption: &ChosenEncryption,
        wanted: Option<ChecksumAlgorithm>,
        call: &Call<'_>,
    ) -> Result<Self, S3Error> {
        let version = OpenedVersion::open(context, &source.found.version, &source.own, call)?;
        let is_shared = match &encryption.new {
            None => version.encryption.is_none(),
            Some(new) => {
                !is_refresh(source, encryption, call)
                    && context.store.shares_encrypted(&version, source.key.key(), new)
            }
        };
        let Some(algorithm) = wanted.or_else(|| of_parts(&version.checksums).filter(|_| !is_shared)) else {
            return Ok(Self { is_shared, known: version.checksums.clone(), unknown: None });
        };
        // A copy that is written anew has no parts.
        match checksums::by(algorithm, &version.checksums) {
            Some(checksum) if is_shared || checksum.kind == ChecksumType::FullObject => {
                Ok(Self { is_shared, known: vec![checksum.clone()], unknown: None })
            }
            _ => Ok(Self { is_shared, known: Vec::new(), unknown: Some(algorithm) }),
        }
    }
}

/// Whether an encrypted object is copied onto itself in the kind that it has: its bytes are to be
/// encrypted anew, as after a leak of the key that wrapped theirs.
fn is_refresh(source: &SourceObject, encryption: &ChosenEncryption, call: &Call<'_>) -> bool {
    is_onto_itself(source, call) && encryption.is_kind_of(&source.found.version)
}

fn is_onto_itself(source: &SourceObject, call: &Call<'_>) -> bool {
    source.named.bucket == call.bucket() && source.named.key.as_str() == call.key()
}

/// The algorithm of a checksum of parts, if there is one.
fn of_parts(checksums: &[Checksum]) -> Option<ChecksumAlgorithm> {
    let found = checksums.iter().find(|checksum| checksum.kind == ChecksumType::Composite);
    found.map(|checksum| checksum.algorithm)
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
    /// The encryption of the copy.
    encryption: ChosenEncryption,
    /// The beginning of the response.
    document: Writer,
}

impl CopyTask {
    /// Makes the copy of the extents of the source.
    fn share(self, bytes: CopyRange, mut commit: Commit, cancel: &CancelToken) -> Result<Response, S3Error> {
        if let Some(algorithm) = self.unknown {
            commit.checksums = vec![checksums::of_whole((algorithm, self.compute(algorithm, cancel)?))];
        }
        let kept = commit.checksums.clone();
        let stated = commit.stated_time;
        let RequestNames { bucket, key, .. } = &self.target;
        let written = match &self.encryption.new {
            None => self.store.copy(bytes, bucket, key, commit),
            Some(new) => self.store.copy_encrypted(bytes, bucket, key, commit, new, self.source.key.key()),
        };
        let written = match written {
            // The target of a condition. A source that is gone is reported as `NoSuchVersion`.
            Err(error @ StoreError::NoSuchKey) => return Err(self.concealed(&error)),
            written => self.source.copied(written, &self.target)?,
        };
        Ok(self.answer(&written, &kept, stated))
    }

    /// Makes the copy of the bytes of the source.
    fn rewrite(self, mut commit: Commit, cancel: &CancelToken) -> Result<Response, S3Error> {
        let size = self.source.found.version.size;
        let mut reader =
            self.source.read(&self.store, 0..size).map_err(|error| self.target.to_client_error(&error))?;
        let writer = self.store.writer(&self.target.bucket, &self.target.key, Some(size));
        let mut writer = writer.map_err(|error| self.target.to_client_error(&error))?;
        if let Some(new) = &self.encryption.new {
            writer.encrypt(new).map_err(|error| self.target.to_client_error(&error))?;
        }
        let mut integrity = Integrity::none().computing(self.unknown);
        body::for_each_chunk(&mut reader, &self.target.id, cancel, |bytes| {
            integrity.update(bytes);
            writer.write(Cow::Borrowed(bytes)).map_err(|error| self.target.to_client_error(&error))
        })?;
        let computed = integrity.verify(&[])?;
        if let Some(checksum) = computed.checksum {
            commit.checksums = vec![checksums::of_whole(checksum)];
        }
        let kept = commit.checksums.clone();
        let stated = commit.stated_time;
        commit.etag = ETag::Md5(computed.md5.expect("an MD5 is computed unless it is given up"));
        let written = writer.commit(commit).map_err(|error| self.concealed(&error))?;
        Ok(self.answer(&written, &kept, stated))
    }

    fn concealed(&self, error: &StoreError) -> S3Error {
        lookup::conceal_if(self.hides_absence, self.target.to_client_error(error))
    }

    fn answer(self, written: &CommittedVersion, kept: &[Checksum], stated: Option<Timestamp>) -> Response {
        let mut document = self.document;
        document.plain("ETag", written.etag);
        document.plain("LastModified", stated_before(stated, written.modified).unwrap_or(written.modified));
        checksums::write(&mut document, kept);
        let response = encryption::add_headers(self.encryption.shown(), xml(200, document));
        let response = self.source.add_version_id(&self.store, response);
        let response = version_id::add_new_version_id(&self.store, response, written);
        let RequestNames { bucket, key, .. } = &self.target;
        lifecycle::add_new_expiration(&self.store, response, bucket, key, written)
    }

    fn compute(&self, algorithm: ChecksumAlgorithm, cancel: &CancelToken) -> Result<Vec<u8>, S3Error> {
        let reader = self.source.read(&self.store, 0..self.source.found.version.size);
        let mut reader = reader.map_err(|error| self.target.to_client_error(&error))?;
        let mut running = ChecksumHasher::new(algorithm);
        body::for_each_chunk(&mut reader, &self.target.id, cancel, |bytes| {
            running.update(bytes);
            Ok(())
        })?;
        Ok(running.finish())
    }
}

/// Refuses to copy an object onto itself unchanged (S3 API reference, CopyObject). A checksum alone
/// is no change; S3 wants another one beside it. A named version may be copied onto its key, to
/// become the current one again.
///
/// # Errors
/// `InvalidRequest`.
fn check_changes(
    source: &SourceObject,
    directives: &Directives,
    encryption: &ChosenEncryption,
    call: &Call<'_>,
) -> Result<(), S3Error> {
    let changes = directives.replace_metadata
        || directives.replace_tags
        || metadata::gives_redirect_location(call.vendor())
        || call.vendor().get("storage-class").is_some()
        || RequestedEncryption::is_stated(call.vendor())
        || encryption.changes(&source.found.version);
    if !is_onto_itself(source, call) || source.named.version.is_some() || changes {
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
        metadata::collect(call.headers(), call.vendor()).map(new_object::attributes_of)
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
