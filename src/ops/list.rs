//! ListObjects in both of its forms.

use super::client_error::ForClient as _;
use super::listing::{Listing, write_user};
use super::{Context, memory, token};
use crate::auth::Authorized;
use crate::s3::render::xml;
use crate::s3::{Call, QueryParams, Response, S3Error};
use crate::store::{KeysPage, PageItem, VersionSummary};
use crate::xml::Writer;

/// ListObjectsV2.
pub(super) fn second_form(context: &Context, _: &Authorized, call: &Call<'_>) -> Result<Response, S3Error> {
    let query = &call.query;
    let listing = parse(query)?;
    let bucket = context.store.bucket(call.bucket()).for_client(call)?;
    let start_after = query.get("start-after").filter(|key| !key.is_empty());
    let sent_token = query.get("continuation-token");
    let after = match sent_token {
        Some(token) => Some(token::decode(token)?),
        None => start_after.map(str::to_owned),
    };
    let _page = memory::for_page(context, listing.limit)?;
    let page = context.store.list_objects(call.bucket(), &listing.query(after)).for_client(call)?;
    let held = memory::for_document(context, page.items().map(PageItem::name))?;

    let mut document = context.long_document("ListBucketResult", &held);
    document.leaf("Name", &bucket.name);
    listing.write_head(&mut document, "MaxKeys", page.truncated());
    document.plain("KeyCount", page.len());
    if let Some(token) = sent_token {
        document.leaf("ContinuationToken", token);
    }
    if let Some(last) = page.next() {
        document.leaf("NextContinuationToken", &token::encode(&last));
    }
    if let Some(key) = start_after {
        document.leaf("StartAfter", &listing.name(key));
    }
    let owner = (query.get("fetch-owner") == Some("true")).then_some(bucket.owner.as_str());
    write_items(&listing, &mut document, &page, owner);
    Ok(xml(200, document).holding(held))
}

/// ListObjects, the first form.
pub(super) fn first_form(context: &Context, _: &Authorized, call: &Call<'_>) -> Result<Response, S3Error> {
    let query = &call.query;
    if let Some(kind) = query.get("list-type") {
        return Err(S3Error::invalid_argument("list-type", kind, "list-type must be 2, or absent."));
    }
    let listing = parse(query)?;
    let bucket = context.store.bucket(call.bucket()).for_client(call)?;
    let marker = query.get("marker").unwrap_or_default();
    let after = (!marker.is_empty()).then(|| marker.to_owned());
    let _page = memory::for_page(context, listing.limit)?;
    let page = context.store.list_objects(call.bucket(), &listing.query(after)).for_client(call)?;
    let held = memory::for_document(context, page.items().map(PageItem::name))?;

    let mut document = context.long_document("ListBucketResult", &held);
    document.leaf("Name", &bucket.name);
    listing.write_head(&mut document, "MaxKeys", page.truncated());
    document.leaf("Marker", &listing.name(marker));
    // Without a delimiter clients go on from the last key (S3 API reference, ListObjects, "NextMarker").
    let grouped = !listing.delimiter.is_empty();
    if let Some(last) = page.next().filter(|_| grouped) {
        document.leaf("NextMarker", &listing.name(&last));
    }
    write_items(&listing, &mut document, &page, Some(&bucket.owner));
    Ok(xml(200, document).holding(held))
}

fn parse(query: &QueryParams) -> Result<Listing<'_>, S3Error> {
    Listing::parse(query, "max-keys", 0..=i32::MAX as usize)
}

/// Objects first, then common prefixes.
fn write_items(listing: &Listing<'_>, document: &mut Writer, page: &KeysPage, owner: Option<&str>) {
    let mut prefixes = Vec::new();
    for item in page.items() {
        match item {
            PageItem::Object { key, version } => {
                write_object(document, &listing.name(&key), version, owner);
            }
            PageItem::Prefix(prefix) => prefixes.push(prefix),
        }
    }
    listing.write_prefixes(document, prefixes.iter().map(AsRef::as_ref));
}

fn write_object(document: &mut Writer, key: &str, version: &VersionSummary, owner: Option<&str>) {
    document.element("Contents", |entry| {
        entry.leaf("Key", key);
        entry.plain("LastModified", version.modified);
        entry.plain("ETag", version.etag);
        entry.plain("Size", version.size);
        if let Some(name) = owner {
            write_user(entry, "Owner", name);
        }
        entry.plain("StorageClass", "STANDARD");
    });
}
