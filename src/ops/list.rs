//! ListObjects in both of its forms.

use std::borrow::Cow;

use super::failure::ForClient as _;
use super::{Context, token};
use crate::auth::Authorized;
use crate::base::limits::PAGE_LEN_MAX;
use crate::s3::render::xml;
use crate::s3::{Call, Query, Response, S3Error, uri};
use crate::store::{BucketInfo, ListQuery, Page, PageItem, VersionSummary};
use crate::xml::Writer;

/// What both forms are asked for.
struct Listing<'q> {
    prefix: &'q str,
    delimiter: &'q str,
    max_keys: usize,
    /// Whether names are to be percent-encoded, for clients whose XML parsers do not take every character.
    encoded: bool,
}

/// ListObjectsV2.
pub(super) fn second_form(context: &Context, _: &Authorized, call: &Call<'_>) -> Result<Response, S3Error> {
    let query = &call.query;
    let listing = Listing::parse(query)?;
    let bucket = context.store.bucket(call.bucket()).for_client(call)?;
    let start_after = query.get("start-after").filter(|key| !key.is_empty());
    let sent_token = query.get("continuation-token");
    let after = match sent_token {
        Some(token) => Some(token::decode(token)?),
        None => start_after.map(str::to_owned),
    };
    let page = listing.page(context, call, after)?;

    let mut document = context.document("ListBucketResult");
    listing.write_head(&mut document, &bucket, &page);
    document.number("KeyCount", page.items.len());
    if let Some(token) = sent_token {
        document.leaf("ContinuationToken", token);
    }
    if let Some(last) = last_name(&page).filter(|_| page.truncated) {
        document.leaf("NextContinuationToken", &token::encode(last));
    }
    if let Some(key) = start_after {
        document.leaf("StartAfter", &listing.name(key));
    }
    let owner = (query.get("fetch-owner") == Some("true")).then_some(bucket.owner.as_str());
    listing.write_items(&mut document, &page, owner);
    Ok(xml(200, document))
}

/// ListObjects, the first form.
pub(super) fn first_form(context: &Context, _: &Authorized, call: &Call<'_>) -> Result<Response, S3Error> {
    let query = &call.query;
    if let Some(kind) = query.get("list-type") {
        return Err(S3Error::invalid_argument("list-type", kind, "list-type must be 2, or absent."));
    }
    let listing = Listing::parse(query)?;
    let bucket = context.store.bucket(call.bucket()).for_client(call)?;
    let marker = query.get("marker").unwrap_or_default();
    let after = (!marker.is_empty()).then(|| marker.to_owned());
    let page = listing.page(context, call, after)?;

    let mut document = context.document("ListBucketResult");
    listing.write_head(&mut document, &bucket, &page);
    document.leaf("Marker", &listing.name(marker));
    // Without a delimiter clients go on from the last key (S3 API reference, ListObjects, "NextMarker").
    let grouped = !listing.delimiter.is_empty();
    if let Some(last) = last_name(&page).filter(|_| page.truncated && grouped) {
        document.leaf("NextMarker", &listing.name(last));
    }
    listing.write_items(&mut document, &page, Some(&bucket.owner));
    Ok(xml(200, document))
}

impl<'q> Listing<'q> {
    fn parse(query: &'q Query) -> Result<Self, S3Error> {
        let text = |name| query.get(name).unwrap_or_default();
        let max_keys = query.number("max-keys", 0..=i32::MAX as usize)?.unwrap_or(PAGE_LEN_MAX);
        let encoded = match query.get("encoding-type") {
            None => false,
            Some("url") => true,
            Some(other) => {
                let message = "Invalid Encoding Method specified in Request";
                return Err(S3Error::invalid_argument("encoding-type", other, message));
            }
        };
        let max_keys = max_keys.min(PAGE_LEN_MAX);
        Ok(Self { prefix: text("prefix"), delimiter: text("delimiter"), max_keys, encoded })
    }

    fn page(&self, context: &Context, call: &Call<'_>, after: Option<String>) -> Result<Page, S3Error> {
        let (prefix, delimiter) = (self.prefix.to_owned(), self.delimiter.to_owned());
        let query = ListQuery { prefix, delimiter, after, limit: self.max_keys };
        context.store.list_objects(call.bucket(), &query).for_client(call)
    }

    fn name<'n>(&self, name: &'n str) -> Cow<'n, str> {
        if self.encoded { Cow::Owned(uri::encode_listed(name)) } else { Cow::Borrowed(name) }
    }

    fn write_head(&self, document: &mut Writer, bucket: &BucketInfo, page: &Page) {
        document.leaf("Name", &bucket.name);
        document.leaf("Prefix", &self.name(self.prefix));
        document.number("MaxKeys", self.max_keys);
        if !self.delimiter.is_empty() {
            document.leaf("Delimiter", &self.name(self.delimiter));
        }
        if self.encoded {
            document.leaf("EncodingType", "url");
        }
        document.number("IsTruncated", page.truncated);
    }

    /// Objects first, then common prefixes: some clients read each kind only where it stands together.
    fn write_items(&self, document: &mut Writer, page: &Page, owner: Option<&str>) {
        for item in &page.items {
            if let PageItem::Object { key, version } = item {
                self.write_object(document, key, version, owner);
            }
        }
        for item in &page.items {
            if let PageItem::Prefix(prefix) = item {
                document.element("CommonPrefixes", |entry| entry.leaf("Prefix", &self.name(prefix)));
            }
        }
    }

    fn write_object(&self, document: &mut Writer, key: &str, version: &VersionSummary, owner: Option<&str>) {
        document.element("Contents", |entry| {
            entry.leaf("Key", &self.name(key));
            entry.leaf("LastModified", &version.modified.to_iso8601());
            entry.leaf("ETag", &version.etag.to_string());
            entry.number("Size", version.size);
            if let Some(name) = owner {
                entry.element("Owner", |owner| {
                    owner.leaf("ID", name);
                    owner.leaf("DisplayName", name);
                });
            }
            entry.leaf("StorageClass", "STANDARD");
        });
    }
}

/// The name after which the next page begins.
fn last_name(page: &Page) -> Option<&str> {
    page.items.last().map(|item| match item {
        PageItem::Object { key, .. } => key.as_str(),
        PageItem::Prefix(prefix) => prefix.as_str(),
    })
}
