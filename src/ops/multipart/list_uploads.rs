//! ListMultipartUploads.

use super::list_parts::write_announced;
use crate::auth::Authorized;
use crate::ops::acl::ListedOwners;
use crate::ops::client_error::ForClient as _;
use crate::ops::listing::{ListParams, write_user};
use crate::ops::{Context, memory};
use crate::s3::render::xml;
use crate::s3::{Call, QueryParams, Response, S3Error};
use crate::store::{ClientId, ListItem, UploadId, UploadSummary};
use crate::xml::Writer;

/// ListMultipartUploads.
pub(in crate::ops) fn list_uploads(
    context: &Context,
    proof: &Authorized,
    call: &Call<'_>,
) -> Result<Response, S3Error> {
    let params = ListParams::parse(&call.query, "max-uploads", 1..=i32::MAX as usize)?;
    let marker = UploadMarker::parse(context, &call.query)?;
    let bucket = context.store.configured_bucket(call.bucket()).for_client(call)?;
    let query = params.query(marker.key);
    let _page = memory::for_page(context, params.limit)?;
    let page = context
        .store
        .list_uploads(call.bucket(), &query, marker.upload.map(|(_, id)| id))
        .for_client(call)?;

    let held = memory::for_document(context, page.items().map(ListItem::name))?;
    let mut document = context.long_document("ListMultipartUploadsResult", &held);
    document.leaf("Bucket", &bucket.info.name);
    marker.write(&mut document, &params);
    if let Some(last) = page.last_if_truncated() {
        write_next(context, &mut document, &params, last);
    }
    params.write_head(&mut document, "MaxUploads", page.truncated);
    let owners = ListedOwners::of(context, proof, bucket);
    for (key, upload) in page.keys() {
        let id = context.store.client_ids().of_upload(upload.id);
        let owner = owners.of_upload(upload);
        write_upload(&mut document, &params.encoded(&key), id, upload, owner);
    }
    params.write_prefixes(&mut document, &page);
    Ok(xml(200, document).holding(held))
}

/// The key and the upload after which the page begins.
struct UploadMarker<'q> {
    key: &'q str,
    /// The page begins with the uploads for that key that have greater ids.
    upload: Option<(&'q str, UploadId)>,
}

impl<'q> UploadMarker<'q> {
    fn parse(context: &Context, query: &'q QueryParams) -> Result<Self, S3Error> {
        let given = |name| query.get(name).filter(|text| !text.is_empty());
        let key = given("key-marker").unwrap_or_default();
        // Without a marker of the key S3 ignores that of the upload.
        let upload = match given("upload-id-marker").filter(|_| !key.is_empty()) {
            None => None,
            Some(text) => Some((
                text,
                context.store.client_ids().upload(text).ok_or_else(|| {
                    S3Error::invalid_argument("upload-id-marker", text, "Invalid uploadId marker")
                })?,
            )),
        };
        Ok(Self { key, upload })
    }

    fn write(&self, document: &mut Writer, params: &ListParams<'_>) {
        document.leaf("KeyMarker", &params.encoded(self.key));
        document.leaf("UploadIdMarker", self.upload.map_or("", |(text, _)| text));
    }
}

fn write_next(
    context: &Context,
    document: &mut Writer,
    params: &ListParams<'_>,
    last: ListItem<'_, UploadSummary>,
) {
    let id = match last {
        ListItem::Key(_, upload) => context.store.client_ids().of_upload(upload.id).to_string(),
        ListItem::Prefix(_) => String::new(),
    };
    document.leaf("NextKeyMarker", &params.encoded(&last.name()));
    document.leaf("NextUploadIdMarker", &id);
}

fn write_upload(document: &mut Writer, key: &str, id: ClientId, upload: &UploadSummary, owner: &str) {
    document.element("Upload", |entry| {
        entry.leaf("Key", key);
        entry.plain("UploadId", id);
        write_user(entry, "Initiator", &upload.initiator);
        write_user(entry, "Owner", owner);
        entry.plain("StorageClass", upload.storage_class.as_str());
        entry.plain("Initiated", upload.initiated);
        write_announced(entry, upload);
    });
}
