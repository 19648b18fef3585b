//! CompleteMultipartUpload.

use std::sync::Arc;

use super::checksum::{Claimed, Settled};
use super::part_list::PartList;
use super::{etag_of, upload_id};
use crate::auth::Authorized;
use crate::base::Reservation;
use crate::ops::failure::{self, ForClient as _};
use crate::ops::keep_alive::Abandoned;
use crate::ops::{Context, body, checksums, find, keep_alive, memory, new_object, version_id};
use crate::s3::render::xml;
use crate::s3::{Call, Dialect, ErrorCode, RequestId, Response, S3Error};
use crate::store::{
    Checksum, Commit, CommittedVersion, Completion, ETag, PartRecord, Store, StoreError, Upload, UploadId,
    UploadRecord, VersionRecord, WriteCondition,
};
use crate::xml::Writer;

/// CompleteMultipartUpload. Durable once the answer tells of the object. Whatever can be refused without reading the parts
/// is refused before the answer may begin. Where it begins early its headers cannot tell the version: ids rise with the
/// commits of a key, so that none is allotted before.
pub(in crate::ops) fn complete(
    context: &Context,
    proof: &Authorized,
    call: &mut Call<'_>,
) -> Result<Response, S3Error> {
    check_body(call)?;
    let wanted = Wanted::from_headers(proof, call)?;
    let held = reserve(context, call)?;
    let state = State::find(context, call)?;
    let list = PartList::read(context, call)?;
    match state {
        State::Completed(version) if list.made(&version) => Ok(repeated(context, call, &version)),
        State::Completed(_) => Err(StoreError::NoSuchUpload).for_client(call),
        State::InProgress(upload) => {
            let Upload { record, parts } = upload;
            let parts = list.choose(parts)?;
            let (commit, checksum) = wanted.settle((context, proof), call, &record, &parts)?;
            let completion = Completion { upload: record.id, parts, commit };
            commit_parts((context, proof), call, completion, checksum, held)
        }
    }
}

/// A form is what clients send who do not know what they send (S3 API reference, CompleteMultipartUpload).
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

/// What has become of the upload.
enum State {
    InProgress(Upload),
    /// A client that did not get the answer asks again. Those of the service's own dialect are told that there is no such
    /// upload.
    Completed(VersionRecord),
}

impl State {
    fn find(context: &Context, call: &Call<'_>) -> Result<Self, S3Error> {
        let id = upload_id(context, call)?;
        match context.store.upload(call.bucket(), call.key(), id) {
            Err(StoreError::NoSuchUpload) if call.dialect == Dialect::Aws => {
                let made = context.store.find_completed(call.bucket(), call.key(), id).for_client(call)?;
                made.map(State::Completed).ok_or(StoreError::NoSuchUpload).for_client(call)
            }
            upload => upload.map(State::InProgress).for_client(call),
        }
    }
}

/// What it takes to make an object of the parts, before they are brought.
fn reserve(context: &Context, call: &Call<'_>) -> Result<Reservation, S3Error> {
    match context.store.parts_total(call.bucket(), call.key(), upload_id(context, call)?) {
        Ok(total) => memory::for_parts(context, total),
        // It may have been completed.
        Err(StoreError::NoSuchUpload) => Ok(Reservation::default()),
        Err(error) => Err(error).for_client(call),
    }
}

/// What the headers say of the object that is to be.
struct Wanted {
    condition: WriteCondition,
    size: Option<u64>,
    claimed: Claimed,
}

impl Wanted {
    fn from_headers(proof: &Authorized, call: &Call<'_>) -> Result<Self, S3Error> {
        let condition = new_object::condition(proof, call)?;
        let size = call.p("mp-object-size").map(|text| {
            let name = format!("{}mp-object-size", call.dialect.header_prefix());
            let message = "The size of the object is a number of bytes.";
            text.parse().map_err(|_| S3Error::invalid_argument(&name, text, message))
        });
        Ok(Self { condition, size: size.transpose()?, claimed: Claimed::from_headers(call)? })
    }

    fn settle(
        self,
        (context, proof): (&Context, &Authorized),
        call: &Call<'_>,
        upload: &UploadRecord,
        parts: &[PartRecord],
    ) -> Result<(Commit, Settled), S3Error> {
        let size: u64 = parts.iter().map(|part| part.size).sum();
        if self.size.is_some_and(|wanted| wanted != size) {
            return Err(S3Error::new(ErrorCode::InvalidRequest)
                .message(format!("The size of the object is {size} bytes, not what was specified.")));
        }
        let checksum = self.claimed.settle(upload.checksum, parts)?;
        new_object::check_early(context, proof, call, &self.condition)?;
        let md5s: Vec<_> = parts.iter().map(|part| part.md5).collect();
        let commit = Commit {
            etag: etag_of(&md5s),
            attributes: upload.attributes.clone(),
            checksums: Vec::new(),
            tags: upload.tags.clone(),
            condition: self.condition,
        };
        Ok((commit, checksum))
    }
}

/// Has the parts made an object, and keeps the client waiting meanwhile.
fn commit_parts(
    (context, proof): (&Context, &Authorized),
    call: &Call<'_>,
    completion: Completion,
    checksum: Settled,
    held: Reservation,
) -> Result<Response, S3Error> {
    let commit = Committing {
        store: Arc::clone(&context.store),
        proof: proof.clone(),
        id: call.id.clone(),
        dialect: call.dialect,
        bucket: call.bucket().to_owned(),
        key: call.key().to_owned(),
        document: begun(context, call),
        _held: held,
    };
    let takes_reading = matches!(checksum, Settled::Unread { .. });
    let run = move |abandoned: &Abandoned| commit.run(completion, checksum, abandoned);
    match takes_reading {
        true => Ok(keep_alive::defer(context.keep_alive, call, run)),
        false => keep_alive::answer(context.keep_alive, call, run),
    }
}

/// What a commit takes with it to its thread.
struct Committing {
    store: Arc<Store>,
    proof: Authorized,
    id: RequestId,
    dialect: Dialect,
    bucket: String,
    key: String,
    document: Writer,
    /// Given back when the work is done, whatever has become of the client.
    _held: Reservation,
}

impl Committing {
    fn run(
        self,
        mut completion: Completion,
        checksum: Settled,
        abandoned: &Abandoned,
    ) -> Result<Response, S3Error> {
        let (object, upload) = ((self.bucket.as_str(), self.key.as_str()), completion.upload);
        let read = |part: &PartRecord| self.store.read_part(object, upload, part);
        let checksum = checksum.finish(&read, &self.id, abandoned, &completion.parts)?;
        completion.commit.checksums = checksum.into_iter().collect();
        let etag = completion.commit.etag;
        let kept = completion.commit.checksums.clone();
        let written = self.store.complete_upload(&self.bucket, &self.key, completion);
        let written = written.or_else(|error| self.made_meanwhile(error, upload, etag));
        let concealed =
            |error| find::conceal(failure::told(&error, &self.id), &self.proof, (&self.bucket, &self.key));
        let written = written.map_err(concealed)?;
        Ok(version_id::announce(&self.store, finished(self.document, etag, &kept), &written))
    }

    /// A client that became impatient and asked again while its first request was at work gets the same answer twice.
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

/// The answer to a client that asks again.
fn repeated(context: &Context, call: &Call<'_>, version: &VersionRecord) -> Response {
    let response = finished(begun(context, call), version.etag, &version.checksums);
    version_id::announce(&context.store, response, &written(version))
}

fn written(version: &VersionRecord) -> CommittedVersion {
    CommittedVersion { id: version.id, null: version.null, modified: version.modified, etag: version.etag }
}

/// The beginning of the answer, which is known before the object is made.
fn begun(context: &Context, call: &Call<'_>) -> Writer {
    let mut document = context.document("CompleteMultipartUploadResult");
    document.leaf("Location", &location(call));
    document.leaf("Bucket", call.bucket());
    document.leaf("Key", call.key());
    document
}

fn finished(mut document: Writer, etag: ETag, kept: &[Checksum]) -> Response {
    document.plain("ETag", etag);
    checksums::write(&mut document, kept);
    xml(200, document)
}

/// The URI of the object, as the client itself would write it.
fn location(call: &Call<'_>) -> String {
    let scheme = if call.request.secure { "https" } else { "http" };
    let host = call.headers().get_str("host").unwrap_or_default();
    format!("{scheme}://{host}{}", call.request.path)
}
