//! ListParts.

use super::upload_id;
use crate::auth::Authorized;
use crate::ops::acl::ListedOwners;
use crate::ops::client_error::ForClient as _;
use crate::ops::encryption::{OtherKinds, ReadKey};
use crate::ops::listing::{ListParams, write_user};
use crate::ops::{Context, checksums, lifecycle, memory};
use crate::s3::render::xml;
use crate::s3::{Call, Response, S3Error};
use crate::store::{ETag, PartSummary, UploadSummary};
use crate::xml::Writer;

/// ListParts. The key of a customer is only needed for checksums (S3 API reference, ListParts):
/// without it the parts are listed without.
pub(in crate::ops) fn list_parts(
    context: &Context,
    proof: &Authorized,
    call: &Call<'_>,
) -> Result<Response, S3Error> {
    let params = ListParams::parse(&call.query, "max-parts", 0..=i32::MAX as usize)?;
    let marker = call.query.number("part-number-marker", 0..=i32::MAX as u32)?.unwrap_or(0);
    let bucket = context.store.configured_bucket(call.bucket()).for_client(call)?;
    let id = upload_id(context, call)?;
    let key = ReadKey::of_target(call, OtherKinds::Ignored)?;
    let upload = context.store.upload_record(call.bucket(), call.key(), id).for_client(call)?;
    if !key.is_left_out(&upload) {
        key.open_upload(context, call, &upload)?;
    }
    let _page = memory::for_page_of_parts(context, params.limit)?;
    let found = context.store.list_parts(call.bucket(), call.key(), id, marker, params.limit, key.key());
    let page = found.for_client(call)?;

    let held = memory::for_document(context, page.parts.iter().map(|_| ""))?;
    let mut document = context.long_document("ListPartsResult", &held);
    document.leaf("Bucket", &bucket.info.name);
    params.write_encoding(&mut document);
    document.leaf("Key", &params.encoded(call.key()));
    document.plain("UploadId", context.store.client_ids().of_upload(page.upload.id));
    document.plain("PartNumberMarker", marker);
    document.plain("NextPartNumberMarker", page.parts.last().map_or(marker, |part| part.number));
    document.plain("MaxParts", params.limit);
    // A client that asks for no parts must not ask again forever.
    document.plain("IsTruncated", page.truncated && params.limit > 0);
    for part in &page.parts {
        write_part(&mut document, part);
    }
    write_user(&mut document, "Initiator", &page.upload.initiator);
    let owners = ListedOwners::of(context, proof, bucket);
    write_user(&mut document, "Owner", owners.of_upload(&page.upload));
    document.plain("StorageClass", page.upload.storage_class.as_str());
    write_announced(&mut document, &page.upload);
    let response = xml(200, document).holding(held);
    Ok(lifecycle::add_abort_date(context, response, call, page.upload.initiated))
}

fn write_part(document: &mut Writer, part: &PartSummary) {
    document.element("Part", |entry| {
        entry.plain("PartNumber", part.number);
        entry.plain("LastModified", part.modified);
        entry.plain("ETag", ETag::Md5(part.md5));
        entry.plain("Size", part.size);
        if let Some(checksum) = &part.checksum {
            checksums::write_value(entry, checksum);
        }
    });
}

/// Writes the checksum algorithm and type that an upload was created with.
pub(super) fn write_announced(document: &mut Writer, upload: &UploadSummary) {
    if let Some((algorithm, kind)) = upload.checksum {
        document.leaf("ChecksumAlgorithm", algorithm.as_str());
        document.leaf("ChecksumType", checksums::type_name(kind));
    }
}
