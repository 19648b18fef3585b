//! ListMultipartUploads.

use super::list_parts::write_announced;
use crate::auth::Authorized;
use crate::ops::client_error::ForClient as _;
use crate::ops::listing::{Listing, write_user};
use crate::ops::{Context, memory};
use crate::s3::render::xml;
use crate::s3::{Call, QueryParams, Response, S3Error};
use crate::store::{ClientId, UploadId, UploadSummary, UploadsItem};
use crate::xml::Writer;

/// ListMultipartUploads.
pub(in crate::ops) fn list_uploads(
    context: &Context,
    _: &Authorized,
    call: &Call<'_>,
) -> Result<Response, S3Error> {
    let listing = Listing::parse(&call.query, "max-uploads", 1..=i32::MAX as usize)?;
    let marker = Marker::parse(context, &call.query)?;
    let bucket = context.store.bucket(call.bucket()).for_client(call)?;
    let query = listing.query(marker.key.map(str::to_owned));
    let _page = memory::for_page(context, listing.limit)?;
    let page = context
        .store
        .list_uploads(call.bucket(), &query, marker.upload.map(|(_, id)| id))
        .for_client(call)?;

    let held = memory::for_document(context, page.items.iter().map(name_of))?;
    let mut document = context.long_document("ListMultipartUploadsResult", &held);
    document.leaf("Bucket", &bucket.name);
    marker.write(&mut document, &listing);
    if let Some(last) = page.items.last().filter(|_| page.truncated) {
        write_next(context, &mut document, &listing, last);
    }
    listing.write_head(&mut document, "MaxUploads", page.truncated);
    let mut prefixes = Vec::new();
    for item in &page.items {
        match item {
            UploadsItem::Upload { key, upload } => {
                let id = context.store.client_ids().of_upload(upload.id);
                write_upload(&mut document, (&listing.name(key), id), upload, &bucket.owner);
            }
            UploadsItem::Prefix(prefix) => prefixes.push(prefix.as_str()),
        }
    }
    listing.write_prefixes(&mut document, prefixes.into_iter());
    Ok(xml(200, document).holding(held))
}

/// Where the page before this one ended.
struct Marker<'q> {
    key: Option<&'q str>,
    /// Uploads for that key follow, too, if their ids are greater.
    upload: Option<(&'q str, UploadId)>,
}

impl<'q> Marker<'q> {
    fn parse(context: &Context, query: &'q QueryParams) -> Result<Self, S3Error> {
        let given = |name| query.get(name).filter(|text| !text.is_empty());
        let key = given("key-marker");
        let upload = match given("upload-id-marker").filter(|_| key.is_some()) {
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

    fn write(&self, document: &mut Writer, listing: &Listing<'_>) {
        document.leaf("KeyMarker", &listing.name(self.key.unwrap_or_default()));
        document.leaf("UploadIdMarker", self.upload.map_or("", |(text, _)| text));
    }
}

fn write_next(context: &Context, document: &mut Writer, listing: &Listing<'_>, last: &UploadsItem) {
    let (key, id) = match last {
        UploadsItem::Upload { key, upload } => {
            (key, context.store.client_ids().of_upload(upload.id).to_string())
        }
        UploadsItem::Prefix(prefix) => (prefix, String::new()),
    };
    document.leaf("NextKeyMarker", &listing.name(key));
    document.leaf("NextUploadIdMarker", &id);
}

fn name_of(item: &UploadsItem) -> &str {
    match item {
        UploadsItem::Upload { key, .. } => key,
        UploadsItem::Prefix(prefix) => prefix,
    }
}

fn write_upload(document: &mut Writer, (key, id): (&str, ClientId), upload: &UploadSummary, owner: &str) {
    document.element("Upload", |entry| {
        entry.leaf("Key", key);
        entry.plain("UploadId", id);
        write_user(entry, "Initiator", &upload.initiator);
        write_user(entry, "Owner", owner);
        entry.plain("StorageClass", "STANDARD");
        entry.plain("Initiated", upload.initiated);
        write_announced(entry, upload);
    });
}
