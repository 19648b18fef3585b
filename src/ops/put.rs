//! PutObject.

use super::failure::ForClient as _;
use super::{Context, EntityTags, body, checksums, new_object, tagging, version_id};
use crate::auth::Authorized;
use crate::s3::checksum;
use crate::s3::integrity::{Integrity, Verified};
use crate::s3::{Call, Response, S3Error};
use crate::store::{Commit, ETag, Written};

/// PutObject. Durable on return. All that can be refused without the body is refused before it is asked for.
pub(super) fn put(context: &Context, proof: &Authorized, call: &mut Call<'_>) -> Result<Response, S3Error> {
    let length = body::announced_length(&call.request.body)?;
    body::check_size(length.unwrap_or(0))?;
    new_object::check_served(call)?;
    let mut integrity = Integrity::from_headers(call.headers(), call.vendor())?;
    if context.entity_tags == EntityTags::Crc {
        integrity = integrity.sparing_md5();
    }
    let attributes = new_object::attributes(call)?;
    let tags = tagging::of_new(proof, call)?;
    let condition = new_object::condition(call)?;
    let mut writer = context.store.writer(call.bucket(), call.key(), length).for_client(call)?;
    new_object::check_early(context, call, &condition)?;

    body::receive(call, &context.md5, &mut integrity, |bytes| writer.write(bytes))?;
    let verified = integrity.verify(call.request.body.reader.trailers())?;

    let etag = match (context.entity_tags, verified.md5) {
        (EntityTags::Md5, Some(md5)) => ETag::Md5(md5),
        _ => ETag::Crc(writer.crc32()),
    };
    let checksums = verified.checksum.clone().map(checksums::of_whole).into_iter().collect();
    let commit = Commit { etag, attributes, checksums, tags, condition };
    let written = writer.commit(commit).for_client(call)?;
    Ok(answer(etag, &written, &verified))
}

fn answer(etag: ETag, written: &Written, verified: &Verified) -> Response {
    let response = Response::new(200).header("ETag", etag.to_string());
    let response = version_id::announce(response, written);
    match &verified.checksum {
        Some((algorithm, value)) => response
            .header(algorithm.header(), checksum::encode(value))
            .header("p-checksum-type", "FULL_OBJECT"),
        None => response,
    }
}
