//! PutObject.

use super::client_error::ForClient as _;
use super::encryption::ChosenEncryption;
use super::{Context, EntityTags, body, checksums, encryption, lifecycle, new_object, tagging, version_id};
use crate::auth::Authorized;
use crate::base::Md5Purpose;
use crate::s3::checksum;
use crate::s3::integrity::{Integrity, Verified};
use crate::s3::{Call, Response, S3Error};
use crate::store::{Commit, CommittedVersion, ETag};

/// PutObject. Durable on return. All checks that do not need the body precede its first byte.
pub(super) fn put(context: &Context, proof: &Authorized, call: &mut Call<'_>) -> Result<Response, S3Error> {
    let length = body::announced_length(&call.request.body)?;
    body::check_size(length.unwrap_or(0))?;
    // Whatever the head can be refused for is looked at before the body is read: a client that
    // waits for `100 Continue` need not send it.
    new_object::check_served(call)?;
    let encryption = ChosenEncryption::of_new_object(context, call)?;
    let mut integrity = Integrity::from_headers(call.headers(), call.vendor())?;
    let attributes = new_object::attributes(context, proof, call)?;
    let tags = tagging::of_new_object(context, proof, call)?;
    let condition = new_object::condition(context, proof, call)?;
    let controls = new_object::controls(context, proof, call, Some(&integrity))?;
    let storage_class = new_object::storage_class(call);
    let stated_time = new_object::stated_time(context, proof, call)?;
    let mut writer = context.store.writer(call.bucket(), call.key(), length).for_client(call)?;
    new_object::check_early(context, proof, call, &condition)?;
    if let Some(new) = &encryption.new {
        writer.encrypt(new).for_client(call)?;
    }

    let purpose = match context.entity_tags {
        EntityTags::Md5 => Md5Purpose::ObjectTag,
        EntityTags::Crc => Md5Purpose::CrcTaggedObject,
    };
    body::receive(call, &context.md5, purpose, &mut integrity, |piece| writer.write(piece))?;
    let verified = integrity.verify(call.request.body.reader.trailers())?;

    let checksums = verified.checksum.clone().map(checksums::of_whole).into_iter().collect();
    let commit =
        |etag| Commit { etag, attributes, checksums, tags, controls, storage_class, condition, stated_time };
    let written = match (context.entity_tags, verified.md5) {
        (EntityTags::Md5, Some(md5)) => writer.commit(commit(ETag::Md5(md5))),
        (EntityTags::Md5, None) => writer.commit_with_md5(commit(ETag::None)),
        (EntityTags::Crc, _) => {
            let crc = writer.crc32();
            writer.commit(commit(ETag::Crc(crc)))
        }
    };
    let written = new_object::committed(written, context, proof, call)?;
    let response = encryption::add_headers(encryption.shown(), answer(context, &written, &verified));
    Ok(lifecycle::add_new_expiration(&context.store, response, call.bucket(), call.key(), &written))
}

fn answer(context: &Context, written: &CommittedVersion, verified: &Verified) -> Response {
    let response = Response::new(200).header("ETag", written.etag.to_string());
    let response = version_id::add_new_version_id(&context.store, response, written);
    match &verified.checksum {
        Some((algorithm, value)) => response
            .header(algorithm.header(), checksum::encode(value))
            .header("p-checksum-type", "FULL_OBJECT"),
        None => response,
    }
}
