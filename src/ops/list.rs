//! ListObjects and ListObjectsV2.

use std::borrow::Cow;

use super::acl::ListedOwners;
use super::client_error::ForClient as _;
use super::listing::{ListParams, write_user};
use super::{Context, memory, token};
use crate::auth::Authorized;
use crate::s3::render::xml;
use crate::s3::{Call, QueryParams, Response, S3Error};
use crate::store::{ListItem, ListPage, VersionSummary};
use crate::xml::Writer;

/// ListObjectsV2.
pub(super) fn list_v2(context: &Context, proof: &Authorized, call: &Call<'_>) -> Result<Response, S3Error> {
    let query = &call.query;
    let params = parse(query)?;
    let bucket = context.store.configured_bucket(call.bucket()).for_client(call)?;
    let start_after = query.get("start-after").filter(|key| !key.is_empty());
    let sent_token = query.get("continuation-token");
    let after = match sent_token {
        Some(token) => Cow::Owned(token::decode(token)?),
        None => Cow::Borrowed(start_after.unwrap_or_default()),
    };
    let _page = memory::for_page(context, params.limit)?;
    let page = context.store.list_objects(call.bucket(), &params.query(&after)).for_client(call)?;
    let held = memory::for_document(context, page.items().map(ListItem::name))?;

    let mut document = context.long_document("ListBucketResult", &held);
    document.leaf("Name", &bucket.info.name);
    params.write_head(&mut document, "MaxKeys", page.truncated);
    document.plain("KeyCount", page.len());
    if let Some(token) = sent_token {
        document.leaf("ContinuationToken", token);
    }
    if let Some(last) = page.last_if_truncated() {
        document.leaf("NextContinuationToken", &token::encode(&last.name()));
    }
    if let Some(key) = start_after {
        document.leaf("StartAfter", &params.encoded(key));
    }
    let owners = match query.get("fetch-owner") {
        Some("true") => Some(ListedOwners::of(context, proof, bucket)),
        _ => None,
    };
    write_items(&params, &mut document, &page, owners.as_ref());
    Ok(xml(200, document).holding(held))
}

/// ListObjects, version 1.
pub(super) fn list_v1(context: &Context, proof: &Authorized, call: &Call<'_>) -> Result<Response, S3Error> {
    let query = &call.query;
    if let Some(kind) = query.get("list-type") {
        return Err(S3Error::invalid_argument("list-type", kind, "list-type must be 2, or absent."));
    }
    let params = parse(query)?;
    let bucket = context.store.configured_bucket(call.bucket()).for_client(call)?;
    let marker = query.get("marker").unwrap_or_default();
    let _page = memory::for_page(context, params.limit)?;
    let page = context.store.list_objects(call.bucket(), &params.query(marker)).for_client(call)?;
    let held = memory::for_document(context, page.items().map(ListItem::name))?;

    let mut document = context.long_document("ListBucketResult", &held);
    document.leaf("Name", &bucket.info.name);
    params.write_head(&mut document, "MaxKeys", page.truncated);
    document.leaf("Marker", &params.encoded(marker));
    // Without a delimiter, clients continue after the last key (S3 API reference, ListObjects,
    // "NextMarker").
    let grouped = !params.delimiter.is_empty();
    if let Some(last) = page.last_if_truncated().filter(|_| grouped) {
        document.leaf("NextMarker", &params.encoded(&last.name()));
    }
    let owners = ListedOwners::of(context, proof, bucket);
    write_items(&params, &mut document, &page, Some(&owners));
    Ok(xml(200, document).holding(held))
}

fn parse(query: &QueryParams) -> Result<ListParams<'_>, S3Error> {
    ListParams::parse(query, "max-keys", 0..=i32::MAX as usize)
}

/// Objects first, then common prefixes.
fn write_items(
    params: &ListParams<'_>,
    document: &mut Writer,
    page: &ListPage<VersionSummary>,
    owners: Option<&ListedOwners<'_>>,
) {
    for (key, version) in page.keys() {
        let owner = owners.map(|owners| owners.of_version(&key, version));
        write_object(document, &params.encoded(&key), version, owner.as_deref());
    }
    params.write_prefixes(document, page);
}

fn write_object(document: &mut Writer, key: &str, version: &VersionSummary, owner: Option<&str>) {
    document.element("Contents", |entry| {
        entry.leaf("Key", key);
        entry.plain("LastModified", version.last_modified());
        entry.plain("ETag", version.etag);
        entry.plain("Size", version.size);
        if let Some(name) = owner {
            write_user(entry, "Owner", name);
        }
        entry.plain("StorageClass", version.storage_class.as_str());
    });
}
