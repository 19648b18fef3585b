//! UploadPart and UploadPartCopy.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use super::{checksum, upload_id};
use crate::auth::Authorized;
use crate::base::limits::PART_NUMBER_MAX;
use crate::base::{ChecksumAlgorithm, Md5Purpose};
use crate::ops::client_error::{ForClient as _, RequestNames};
use crate::ops::encryption::{OtherKinds, ReadKey};
use crate::ops::lookup::{self, SourceObject};
use crate::ops::padded_response::{self, CancelToken};
use crate::ops::{Context, body, checksums, encryption, new_object, object_lock};
use crate::s3::encryption::ShownEncryption;
use crate::s3::integrity::{Integrity, Verified};
use crate::s3::range::ByteRange;
use crate::s3::render::xml;
use crate::s3::{Call, Response, S3Error};
use crate::store::{
    Checksum, CopyRange, ETag, EncryptedPartCopy, OpenedKey, PartRecord, Store, StoreError, UploadId,
};
use crate::xml::Writer;

/// UploadPart. Durable on return. All checks that do not need the body precede its first byte.
pub(in crate::ops) fn upload_part(
    context: &Context,
    _: &Authorized,
    call: &mut Call<'_>,
) -> Result<Response, S3Error> {
    let length = body::announced_length(&call.request.body)?;
    body::check_size(length.unwrap_or(0))?;
    let number = part_number(call)?;
    new_object::check_served(call)?;
    let key = ReadKey::of_target(call, OtherKinds::Ignored)?;
    let integrity = Integrity::from_headers(call.headers(), call.vendor())?;
    let id = upload_id(context, call)?;
    let upload = context.store.upload_record(call.bucket(), call.key(), id).for_client(call)?;
    let own = key.open_upload(context, call, &upload)?;
    object_lock::check_part(&upload.controls, &integrity)?;
    let mut integrity = checksum::for_part(integrity, upload.checksum)?;
    let writer = context.store.part_writer(call.bucket(), call.key(), id, number, length);
    let mut writer = writer.for_client(call)?;
    writer.unlock_with(&own);

    body::receive(call, &context.md5, Md5Purpose::PartTag, &mut integrity, |piece| writer.write(piece))?;
    let verified = integrity.verify(call.request.body.reader.trailers())?;

    let md5 = md5_of(&verified);
    let checksum = verified.checksum.map(checksums::of_whole);
    let part = writer.commit(md5, checksum.clone()).for_client(call)?;
    let response = Response::new(200).header("ETag", ETag::Md5(part.md5).to_string());
    let shown = key.shown(context, upload.encryption.as_deref());
    let response = encryption::add_headers(shown.as_ref(), response);
    Ok(match &checksum {
        Some(checksum) => response.header(checksums::header(checksum), checksums::text(checksum)),
        None => response,
    })
}

/// UploadPartCopy. Durable when the response reports success. The part shares the extents of its
/// source if both are in the clear, or their keys allow it ([`Store::shares_part`]); else its bytes
/// are decrypted and encrypted again. The source is read then, and where its digests are not known;
/// for many bytes that is long work, whose response may be padded.
pub(in crate::ops) fn copy_part(
    context: &Context,
    proof: &Authorized,
    call: &Call<'_>,
) -> Result<Response, S3Error> {
    let number = part_number(call)?;
    new_object::check_served(call)?;
    let key = ReadKey::of_target(call, OtherKinds::Ignored)?;
    let id = upload_id(context, call)?;
    let upload = context.store.upload_record(call.bucket(), call.key(), id).for_client(call)?;
    let own = key.open_upload(context, call, &upload)?;
    let source = lookup::source(context, proof, call)?;
    let range = source_range(call, source.found.version.size)?;
    let bytes = source.bytes(range.clone())?;

    let algorithm = upload.checksum.map(|(algorithm, _)| algorithm);
    let is_encrypted = upload.encryption.is_some();
    let is_shared = match &source.found.version {
        version if is_encrypted => {
            context.store.shares_part(version, &range, source.key.key(), &upload, key.key())
        }
        version => version.encryption.is_none(),
    };
    let known = match is_shared {
        true => known_digests(context, &source, &range, algorithm).for_client(call)?,
        false => None,
    };
    let is_long = known.is_none() && !body::is_read_at_once(range.end - range.start);
    let task = PartCopyTask {
        store: Arc::clone(&context.store),
        target: RequestNames::of(call),
        part: (id, number),
        document: context.document("CopyPartResult"),
        source,
        algorithm,
        shown: key.shown(context, upload.encryption.as_deref()),
        is_encrypted,
        key,
        own,
    };
    padded_response::run_or_defer(context, call, is_long, move |cancel| match is_shared {
        true => task.share(bytes, known, cancel),
        false => task.rewrite(bytes.range, cancel),
    })
}

/// The copy of a part, apart from its call, which may end before it.
struct PartCopyTask {
    store: Arc<Store>,
    target: RequestNames,
    part: (UploadId, u32),
    source: SourceObject,
    /// The checksum algorithm of the upload.
    algorithm: Option<ChecksumAlgorithm>,
    /// Whether the upload is encrypted.
    is_encrypted: bool,
    /// The customer's key of the upload.
    key: ReadKey,
    /// The key of the upload, opened.
    own: OpenedKey,
    shown: Option<ShownEncryption>,
    /// The beginning of the response.
    document: Writer,
}

impl PartCopyTask {
    /// Makes the part of the extents of the source.
    fn share(
        self,
        bytes: CopyRange,
        known: Option<Digests>,
        cancel: &CancelToken,
    ) -> Result<Response, S3Error> {
        let (md5, checksum) = match known {
            Some(known) => known,
            None => self.digests(bytes.range.clone(), cancel)?,
        };
        let bucket = self.target.bucket.as_str();
        let key = self.target.key.as_str();
        let (upload, number) = self.part;
        let part = match self.is_encrypted {
            false => self.store.copy_part(bytes, (bucket, key), self.part, md5, checksum.clone()),
            true => {
                let copy = EncryptedPartCopy {
                    source: bytes,
                    source_key: self.source.key.key(),
                    upload,
                    upload_key: self.key.key(),
                    number,
                    md5,
                    checksum: checksum.clone(),
                };
                self.store.copy_encrypted_part(bucket, key, copy)
            }
        };
        let part = self.source.copied(part, &self.target)?;
        self.answer(&part, checksum.as_ref())
    }

    /// Makes the part of the bytes of the source, which are encrypted as the upload is.
    fn rewrite(self, range: Range<u64>, cancel: &CancelToken) -> Result<Response, S3Error> {
        let mut reader = self
            .source
            .read(&self.store, range.clone())
            .map_err(|error| self.target.to_client_error(&error))?;
        let (upload, number) = self.part;
        let length = Some(range.end - range.start);
        let writer = self.store.part_writer(&self.target.bucket, &self.target.key, upload, number, length);
        let mut writer = writer.map_err(|error| self.target.to_client_error(&error))?;
        writer.unlock_with(&self.own);
        let mut integrity = Integrity::none().computing(self.algorithm);
        body::for_each_chunk(&mut reader, &self.target.id, cancel, |bytes| {
            integrity.update(bytes);
            writer.write(Cow::Borrowed(bytes)).map_err(|error| self.target.to_client_error(&error))
        })?;
        let computed = integrity.verify(&[])?;
        let md5 = md5_of(&computed);
        let checksum = computed.checksum.map(checksums::of_whole);
        let part =
            writer.commit(md5, checksum.clone()).map_err(|error| self.target.to_client_error(&error))?;
        self.answer(&part, checksum.as_ref())
    }

    fn answer(self, part: &PartRecord, checksum: Option<&Checksum>) -> Result<Response, S3Error> {
        let mut document = self.document;
        document.plain("LastModified", part.modified);
        document.plain("ETag", ETag::Md5(part.md5));
        if let Some(checksum) = checksum {
            checksums::write_value(&mut document, checksum);
        }
        let response = encryption::add_headers(self.shown.as_ref(), xml(200, document));
        Ok(self.source.add_version_id(&self.store, response))
    }

    fn digests(&self, range: Range<u64>, cancel: &CancelToken) -> Result<Digests, S3Error> {
        let mut integrity = Integrity::none().computing(self.algorithm);
        let reader = self.source.read(&self.store, range);
        let mut reader = reader.map_err(|error| self.target.to_client_error(&error))?;
        body::for_each_chunk(&mut reader, &self.target.id, cancel, |bytes| {
            integrity.update(bytes);
            Ok(())
        })?;
        let computed = integrity.verify(&[])?;
        Ok((md5_of(&computed), computed.checksum.map(checksums::of_whole)))
    }
}

/// The MD5 of a part, and the checksum of its upload's algorithm.
type Digests = ([u8; 16], Option<Checksum>);

/// The stored digests of a source that was put in one piece and is copied whole, also where its
/// record seals them.
fn known_digests(
    context: &Context,
    source: &SourceObject,
    range: &Range<u64>,
    algorithm: Option<ChecksumAlgorithm>,
) -> Result<Option<Digests>, StoreError> {
    let version = &source.found.version;
    if !matches!(version.etag, ETag::Md5(_)) || *range != (0..version.size) {
        return Ok(None);
    }
    let digests = context.store.opened_digests(version, &source.own)?;
    let Some(md5) = digests.md5 else { return Ok(None) };
    Ok(match algorithm {
        Some(algorithm) => checksums::by(algorithm, &digests.checksums).map(|it| (md5, Some(it.clone()))),
        None => Some((md5, None)),
    })
}

/// The MD5 of a part. It is computed also if objects put in one piece have other entity tags: the
/// tag of a multipart object is made of the MD5s of its parts.
fn md5_of(part: &Verified) -> [u8; 16] {
    part.md5.expect("the MD5 of a part is always computed")
}

/// The range of the source to copy. Both ends must be given and lie within the source (S3 API
/// reference, UploadPartCopy, "x-amz-copy-source-range").
///
/// # Errors
/// `InvalidArgument`.
fn source_range(call: &Call<'_>, size: u64) -> Result<Range<u64>, S3Error> {
    let Some(text) = call.vendor_header("copy-source-range") else { return Ok(0..size) };
    let name = format!("{}copy-source-range", call.dialect.header_prefix());
    match ByteRange::parse(text) {
        Some(ByteRange::Closed { first, last }) if last < size => Ok(first..last + 1),
        Some(ByteRange::Closed { .. }) => {
            let message = format!("Range specified is not valid for source object of size: {size}");
            Err(S3Error::invalid_argument(&name, text, message))
        }
        _ => {
            let message = format!(
                "The {name} value must be of the form bytes=first-last where first and last are the zero-based \
                 offsets of the first and last bytes to copy"
            );
            Err(S3Error::invalid_argument(&name, text, message))
        }
    }
}

fn part_number(call: &Call<'_>) -> Result<u32, S3Error> {
    let number = call.query.number("partNumber", 1..=PART_NUMBER_MAX).ok().flatten();
    number.ok_or_else(|| {
        let text = call.query.get("partNumber").unwrap_or_default();
        let message = format!("Part number must be an integer between 1 and {PART_NUMBER_MAX}, inclusive");
        S3Error::invalid_argument("partNumber", text, message)
    })
}
