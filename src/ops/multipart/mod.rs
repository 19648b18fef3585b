//! Multipart uploads (S3 user guide, "Uploading and copying objects using multipart upload").

mod checksum;
mod complete;
mod create;
mod list_parts;
mod list_uploads;
mod part_list;
mod parts;

pub(super) use complete::complete;
pub(super) use create::{abort, create};
pub(super) use list_parts::list_parts;
pub(super) use list_uploads::list_uploads;
pub(super) use parts::{copy_part, upload_part};

use crate::base::digest::Md5;
use crate::ops::Context;
use crate::ops::client_error::ForClient as _;
use crate::s3::{Call, S3Error};
use crate::store::{ETag, StoreError, UploadId};

/// The upload id in the query.
///
/// # Errors
/// `NoSuchUpload` for a malformed id.
fn upload_id(context: &Context, call: &Call<'_>) -> Result<UploadId, S3Error> {
    let text = call.query.get("uploadId").unwrap_or_default();
    context.store.client_ids().upload(text).ok_or(StoreError::NoSuchUpload).for_client(call)
}

/// The entity tag of an object of parts with these digests (S3 user guide, "Checking object
/// integrity", "Using part-level checksums for multipart uploads").
fn etag_of(md5s: &[[u8; 16]]) -> ETag {
    ETag::Multipart { md5: Md5::of(&md5s.concat()), parts: md5s.len() as u32 }
}
