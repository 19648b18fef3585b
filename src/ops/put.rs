//! PutObject.

use super::client_error::ForClient as _;
use super::{Context, EntityTags, body, checksums, new_object, tagging, version_id};
use crate::auth::Authorized;
use crate::base::limits::PACKED_PAYLOAD_MAX_BYTES;
use crate::s3::checksum;
use crate::s3::integrity::{Integrity, Verified};
use crate::s3::{Call, Response, S3Error};
use crate::store::{Commit, CommittedVersion, ETag};

/// PutObject. Durable on return. All that can be refused without the body is refused before it is asked for.
pub(super) fn put(context: &Context, proof: &Authorized, call: &mut Call<'_>) -> Result<Response, S3Error> {
    let length = body::announced_length(&call.request.body)?;
    body::check_size(length.unwrap_or(0))?;
    new_object::check_served(call)?;
    let md5 = WhoseMd5::of(context.entity_tags, length);
    let mut integrity = md5.integrity(call)?;
    let attributes = new_object::attributes(call)?;
    let tags = tagging::of_new(proof, call)?;
    let condition = new_object::condition(proof, call)?;
    let mut writer = context.store.writer(call.bucket(), call.key(), length).for_client(call)?;
    new_object::check_early(context, proof, call, &condition)?;

    body::receive(call, &context.md5, &mut integrity, |piece| writer.write(piece))?;
    let verified = integrity.verify(call.request.body.reader.trailers())?;

    let checksums = verified.checksum.clone().map(checksums::of_whole).into_iter().collect();
    let commit = |etag| Commit { etag, attributes, checksums, tags, condition };
    let written = match (md5, verified.md5) {
        (WhoseMd5::Ours | WhoseMd5::Stores, Some(md5)) => writer.commit(commit(ETag::Md5(md5))),
        (WhoseMd5::Stores, None) => writer.commit_by_md5(commit(ETag::None)),
        _ => {
            let crc = writer.crc32();
            writer.commit(commit(ETag::Crc(crc)))
        }
    };
    Ok(answer(context, &new_object::committed(written, proof, call)?, &verified))
}

/// Who works out the MD5 that is to be the entity tag. One that the headers claim is worked out here, whoever it is.
#[derive(Clone, Copy)]
enum WhoseMd5 {
    Ours,
    /// The store, when it commits: that of what it packs, along with those of others.
    Stores,
    /// The tag is another.
    Nobodys,
}

impl WhoseMd5 {
    fn of(tags: EntityTags, length: Option<u64>) -> Self {
        match tags {
            EntityTags::Crc => Self::Nobodys,
            EntityTags::Md5 if length.is_some_and(|length| length <= PACKED_PAYLOAD_MAX_BYTES) => {
                Self::Stores
            }
            EntityTags::Md5 => Self::Ours,
        }
    }

    fn integrity(self, call: &Call<'_>) -> Result<Integrity, S3Error> {
        let integrity = Integrity::from_headers(call.headers(), call.vendor())?;
        Ok(if let Self::Ours = self { integrity } else { integrity.without_md5() })
    }
}

fn answer(context: &Context, written: &CommittedVersion, verified: &Verified) -> Response {
    let response = Response::new(200).header("ETag", written.etag.to_string());
    let response = version_id::announce(&context.store, response, written);
    match &verified.checksum {
        Some((algorithm, value)) => response
            .header(algorithm.header(), checksum::encode(value))
            .header("p-checksum-type", "FULL_OBJECT"),
        None => response,
    }
}
