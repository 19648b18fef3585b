//! CompleteMultipartUpload.

use std::sync::Arc;

use super::checksum::{ClaimedChecksum, ObjectChecksum};
use super::part_list::PartList;
use super::{etag_of, upload_id};
use crate::auth::Authorized;
use crate::base::{Reservation, Timestamp};
use crate::ops::client_error::{self, ForClient as _};
use crate::ops::encryption::{OpenedVersion, OtherKinds, ReadKey};
use crate::ops::padded_response::CancelToken;
use crate::ops::{
    Context, body, checksums, encryption, lifecycle, lookup, memory, new_object, padded_response, version_id,
};
use crate::s3::encryption::ShownEncryption;
use crate::s3::render::xml;
use crate::s3::{Call, Dialect, ErrorCode, RequestId, Response, S3Error};
use crate::store::{
    Checksum, Commit, CommittedVersion, Completion, ETag, PartRecord, Store, StoreError, Upload, UploadId,
    UploadRecord, VersionRecord, WriteCondition,
};
use crate::xml::Writer;

/// CompleteMultipartUpload. Durable when the response reports success. All checks that do not read
/// the parts precede the response. A padded response has no version id in its headers: the id is
/// assigned at the commit.
pub(in crate::ops) fn complete(
    context: &Context,
    proof: &Authorized,
    call: &mut Call<'_>,
) -> Result<Response, S3Error> {
    check_body(call)?;
    let key = ReadKey::of_target(call, OtherKinds::Ignored)?;
    let headers = CompletionHeaders::from_headers(context, proof, call)?;
    // Before the parts are copied out of the index: there may be ten thousand of them.
    let held = reserve(context, call)?;
    let status = UploadStatus::find(context, call)?;
    let list = PartList::read(context, call)?;
    match status {
        UploadStatus::Completed(version) if list.made(&version) => repeated(context, call, &key, &version),
        UploadStatus::Completed(_) => Err(StoreError::NoSuchUpload).for_client(call),
        UploadStatus::InProgress(upload) => {
            let Upload { record, mut parts } = upload;
            // S3 wants the key of the customer only where a checksum is compared, and clients send
            // it only then.
            let compares = record.checksum.is_some() || list.has_checksums() || headers.claimed.is_stated();
            if compares || !key.is_left_out(&record) {
                let own = key.open_upload(context, call, &record)?;
                context.store.open_parts(&mut parts, &own).for_client(call)?;
            }
            let upload = call.query.get("uploadId").unwrap_or_default();
            let parts = list.choose(parts).map_err(|error| match error.code {
                ErrorCode::InvalidPart | ErrorCode::InvalidPartOrder => error.element("UploadId", upload),
                _ => error,
            })?;
            let (commit, checksum) = headers.into_commit(context, proof, call, &record, &parts)?;
            let encrypted = Encrypted { shown: key.shown(context, record.encryption.as_deref()), key };
            let completion = Completion { upload: record.id, parts, commit };
            let checked = CheckedCompletion { completion, checksum, encrypted, held };
            commit_parts(context, proof, call, checked)
        }
    }
}

/// A completion that the request may have.
struct CheckedCompletion {
    completion: Completion,
    checksum: ObjectChecksum,
    encrypted: Encrypted,
    /// The memory of the parts.
    held: Reservation,
}

/// The encryption of the parts: the key that reads them, and what the response shows.
struct Encrypted {
    key: ReadKey,
    shown: Option<ShownEncryption>,
}

/// Refuses a body that is sent as a form, as clients do by mistake (S3 API reference,
/// CompleteMultipartUpload).
///
/// # Errors
/// `MissingContentLength`, `InvalidRequest`.
fn check_body(call: &Call<'_>) -> Result<(), S3Error> {
    body::announced_length(&call.request.body)?;
    let content_type = call.headers().get_str("content-type").unwrap_or_default();
    let media_type = content_type.split(';').next().unwrap_or_default().trim();
    if media_type.eq_ignore_ascii_case("application/x-www-form-urlencoded") {
        return Err(S3Error::new(ErrorCode::InvalidRequest)
            .message("The Content-Type of a list of parts must not be application/x-www-form-urlencoded."));
    }
    Ok(())
}

/// The status of the upload.
enum UploadStatus {
    InProgress(Upload),
    /// The request is a retry. In the service's own dialect a retry gets `NoSuchUpload`.
    Completed(VersionRecord),
}

impl UploadStatus {
    fn find(context: &Context, call: &Call<'_>) -> Result<Self, S3Error> {
        let id = upload_id(context, call)?;
        match context.store.upload(call.bucket(), call.key(), id) {
            Err(StoreError::NoSuchUpload) if call.dialect == Dialect::Aws => {
                let made = context.store.find_completed(call.bucket(), call.key(), id).for_client(call)?;
                made.map(UploadStatus::Completed).ok_or(StoreError::NoSuchUpload).for_client(call)
            }
            upload => upload.map(UploadStatus::InProgress).for_client(call),
        }
    }
}

/// Reserves the memory for the parts before they are loaded.
fn reserve(context: &Context, call: &Call<'_>) -> Result<Reservation, S3Error> {
    match context.store.parts_total(call.bucket(), call.key(), upload_id(context, call)?) {
        Ok(total) => memory::for_parts(context, total),
        // The upload may be completed already.
        Err(StoreError::NoSuchUpload) => Ok(Reservation::default()),
        Err(error) => Err(error).for_client(call),
    }
}

/// The properties of the object in the headers.
struct CompletionHeaders {
    condition: WriteCondition,
    stated_time: Option<Timestamp>,
    size: Option<u64>,
    claimed: ClaimedChecksum,
}

impl CompletionHeaders {
    fn from_headers(context: &Context, proof: &Authorized, call: &Call<'_>) -> Result<Self, S3Error> {
        let condition = new_object::condition(context, proof, call)?;
        let stated_time = new_object::stated_time(context, proof, call)?;
        let size = expected_size(call)?;
        let claimed = ClaimedChecksum::from_headers(call)?;
        Ok(Self { condition, stated_time, size, claimed })
    }

    fn into_commit(
        self,
        context: &Context,
        proof: &Authorized,
        call: &Call<'_>,
        upload: &UploadRecord,
        parts: &[PartRecord],
    ) -> Result<(Commit, ObjectChecksum), S3Error> {
        let size: u64 = parts.iter().map(|part| part.size).sum();
        if self.size.is_some_and(|wanted| wanted != size) {
            let name = size_header(call);
            let wanted = self.size.unwrap_or_default();
            return Err(S3Error::new(ErrorCode::InvalidRequest).message(format!(
                "The provided '{name}' header value {wanted} does not match what was computed: {size}"
            )));
        }
        let checksum = self.claimed.resolve(upload.checksum, parts)?;
        new_object::check_early(context, proof, call, &self.condition)?;
        let md5s: Vec<_> = parts.iter().map(|part| part.md5).collect();
        let commit = Commit {
            etag: etag_of(&md5s),
            attributes: upload.attributes.clone(),
            checksums: Vec::new(),
            tags: upload.tags.clone(),
            controls: upload.controls.clone(),
            storage_class: upload.storage_class,
            condition: self.condition,
            stated_time: self.stated_time,
        };
        Ok((commit, checksum))
    }
}

/// The size of the object that the client expects (S3 API reference, CompleteMultipartUpload,
/// "x-amz-mp-object-size").
///
/// # Errors
/// `InvalidRequest`.
fn expected_size(call: &Call<'_>) -> Result<Option<u64>, S3Error> {
    let Some(text) = call.vendor_header("mp-object-size") else { return Ok(None) };
    text.parse().map(Some).map_err(|_| {
        let is_negative = text.parse::<i64>().is_ok();
        let why = if is_negative { "less than zero" } else { "invalid" };
        let message = format!("Value for {} header is {why}: '{text}'", size_header(call));
        S3Error::new(ErrorCode::InvalidRequest).message(message)
    })
}

fn size_header(call: &Call<'_>) -> String {
    format!("{}mp-object-size", call.dialect.header_prefix())
}

/// Commits the object on a thread of its own; the response may be padded.
fn commit_parts(
    context: &Context,
    proof: &Authorized,
    call: &Call<'_>,
    checked: CheckedCompletion,
) -> Result<Response, S3Error> {
    let CheckedCompletion { completion, checksum, encrypted, held } = checked;
    let commit = CompletionTask {
        store: Arc::clone(&context.store),
        hides_absence: new_object::hides_absence(&completion.commit.condition, context, proof, call),
        id: call.id.clone(),
        dialect: call.dialect,
        bucket: call.bucket().to_owned(),
        key: call.key().to_owned(),
        document: document_start(context, call),
        encrypted,
        _held: held,
    };
    let needs_reading = matches!(checksum, ObjectChecksum::NeedsReading { .. });
    match needs_reading {
        true => {
            Ok(padded_response::defer(context, call, move |cancel| commit.run(completion, checksum, cancel)))
        }
        false => {
            padded_response::respond(context, call, move |cancel| commit.run(completion, checksum, cancel))
        }
    }
}

/// The commit, apart from its call, which may end before it.
struct CompletionTask {
    store: Arc<Store>,
    /// Whether the sender may not learn that the key is missing.
    hides_absence: bool,
    id: RequestId,
    dialect: Dialect,
    bucket: String,
    key: String,
    document: Writer,
    encrypted: Encrypted,
    /// Released when the work is done, also if the client has left.
    _held: Reservation,
}

impl CompletionTask {
    fn run(
        self,
        mut completion: Completion,
        checksum: ObjectChecksum,
        cancel: &CancelToken,
    ) -> Result<Response, S3Error> {
        let upload = completion.upload;
        let customer = self.encrypted.key.key();
        let checksum = checksum.finish(
            &|part| self.store.read_part_with(&self.bucket, &self.key, upload, part, customer),
            &self.id,
            cancel,
            &completion.parts,
        )?;
        completion.commit.checksums = checksum.into_iter().collect();
        let etag = completion.commit.etag;
        let kept = completion.commit.checksums.clone();
        let written = self.store.complete_upload_with(&self.bucket, &self.key, completion, customer);
        let written = written.or_else(|error| self.made_meanwhile(error, upload, etag));
        let written = written.map_err(|error| {
            lookup::conceal_if(self.hides_absence, client_error::to_client_error(&error, &self.id))
        })?;
        let response = response(self.document, written.etag, &kept);
        let response = encryption::add_headers(self.encrypted.shown.as_ref(), response);
        let response = version_id::add_new_version_id(&self.store, response, &written);
        Ok(lifecycle::add_new_expiration(&self.store, response, &self.bucket, &self.key, &written))
    }

    /// The outcome for a client that repeated its request while the first one was in progress: the
    /// same for both.
    fn made_meanwhile(
        &self,
        error: StoreError,
        upload: UploadId,
        etag: ETag,
    ) -> Result<CommittedVersion, StoreError> {
        if error != StoreError::NoSuchUpload || self.dialect != Dialect::Aws {
            return Err(error);
        }
        let made = self.store.find_completed(&self.bucket, &self.key, upload)?;
        let version = made.filter(|version| version.etag == etag).ok_or(error)?;
        Ok(written(&version))
    }
}

/// The response to a retry of a completed upload.
///
/// # Errors
/// Those of the key.
fn repeated(
    context: &Context,
    call: &Call<'_>,
    key: &ReadKey,
    version: &VersionRecord,
) -> Result<Response, S3Error> {
    let own = key.open(context, call, version)?;
    let opened = OpenedVersion::open(context, version, &own, call)?;
    let response = response(document_start(context, call), version.etag, &opened.checksums);
    let shown = key.shown(context, encryption::key_of(version));
    let response = encryption::add_headers(shown.as_ref(), response);
    Ok(version_id::add_new_version_id(&context.store, response, &written(version)))
}

fn written(version: &VersionRecord) -> CommittedVersion {
    CommittedVersion { id: version.id, null: version.null, modified: version.modified, etag: version.etag }
}

/// The beginning of the response, which is known before the commit.
fn document_start(context: &Context, call: &Call<'_>) -> Writer {
    let mut document = context.document("CompleteMultipartUploadResult");
    document.leaf("Location", &location(call));
    document.leaf("Bucket", call.bucket());
    document.leaf("Key", call.key());
    document
}

fn response(mut document: Writer, etag: ETag, kept: &[Checksum]) -> Response {
    document.plain("ETag", etag);
    checksums::write(&mut document, kept);
    xml(200, document)
}

/// The URI of the object as the client addresses it.
fn location(call: &Call<'_>) -> String {
    let scheme = if call.request.secure { "https" } else { "http" };
    let host = call.headers().get_str("host").unwrap_or_default();
    format!("{scheme}://{host}{}", call.request.path)
}
