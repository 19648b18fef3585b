//! ListObjectVersions.

use super::client_error::ForClient as _;
use super::listing::{Listing, write_user};
use super::{Context, memory, version_id};
use crate::auth::Authorized;
use crate::s3::render::xml;
use crate::s3::{Call, QueryParams, Response, S3Error};
use crate::store::{Page, VersionRef, VersionSummary, VersionsItem};
use crate::xml::Writer;

/// ListObjectVersions: keys ascending, the newest version of each first.
pub(super) fn list(context: &Context, _: &Authorized, call: &Call<'_>) -> Result<Response, S3Error> {
    let query = &call.query;
    let listing = Listing::parse(query, "max-keys", 0..=i32::MAX as usize)?;
    let markers = Markers::parse(context, query)?;
    let bucket = context.store.bucket(call.bucket()).for_client(call)?;
    let _page = memory::for_page(context, listing.limit)?;
    let page = markers.page(&listing, context, call)?;
    let held = memory::for_document(context, page.items.iter().map(name_of))?;

    let mut document = context.long_document("ListVersionsResult", &held);
    document.leaf("Name", &bucket.name);
    listing.write_head(&mut document, "MaxKeys", page.truncated);
    document.leaf("KeyMarker", &listing.name(markers.key));
    document.leaf("VersionIdMarker", markers.version_text);
    if page.truncated {
        write_next(context, &listing, &mut document, &page);
    }
    write_items(context, &listing, &mut document, &page, &bucket.owner);
    Ok(xml(200, document).holding(held))
}

/// Where a page goes on.
struct Markers<'q> {
    key: &'q str,
    version_text: &'q str,
    version: Option<VersionRef>,
}

impl<'q> Markers<'q> {
    /// An empty marker is as none: that is what clients send back where a page ended with a common prefix.
    fn parse(context: &Context, query: &'q QueryParams) -> Result<Self, S3Error> {
        let (name, text) = ("version-id-marker", |name| query.get(name).unwrap_or_default());
        let (key, version_text) = (text("key-marker"), text(name));
        if key.is_empty() && !version_text.is_empty() {
            let message = "A version-id marker cannot be specified without a key marker.";
            return Err(S3Error::invalid_argument(name, version_text, message));
        }
        let version = match version_text {
            "" => None,
            text => Some(
                version_id::marker(context, text)
                    .ok_or_else(|| S3Error::invalid_argument(name, text, "Invalid version id specified"))?,
            ),
        };
        Ok(Self { key, version_text, version })
    }

    fn page(
        &self,
        listing: &Listing<'_>,
        context: &Context,
        call: &Call<'_>,
    ) -> Result<Page<VersionsItem>, S3Error> {
        let after = (!self.key.is_empty()).then(|| self.key.to_owned());
        context.store.list_versions(call.bucket(), &listing.query(after), self.version).for_client(call)
    }
}

fn write_next(context: &Context, listing: &Listing<'_>, document: &mut Writer, page: &Page<VersionsItem>) {
    match page.items.last() {
        Some(VersionsItem::Version { key, version, .. }) => {
            document.leaf("NextKeyMarker", &listing.name(key));
            document.leaf("NextVersionIdMarker", &version_id::listed(context, version));
        }
        Some(VersionsItem::Prefix(prefix)) => document.leaf("NextKeyMarker", &listing.name(prefix)),
        None => {}
    }
}

/// Versions and delete markers as they come, then common prefixes.
fn name_of(item: &VersionsItem) -> &str {
    match item {
        VersionsItem::Version { key, .. } => key,
        VersionsItem::Prefix(prefix) => prefix,
    }
}

fn write_items(
    context: &Context,
    listing: &Listing<'_>,
    document: &mut Writer,
    page: &Page<VersionsItem>,
    owner: &str,
) {
    let mut prefixes = Vec::new();
    for item in &page.items {
        match item {
            VersionsItem::Version { key, version, latest } => {
                let id = version_id::listed(context, version);
                write_version(document, (&listing.name(key), &id), version, *latest, owner);
            }
            VersionsItem::Prefix(prefix) => prefixes.push(prefix.as_str()),
        }
    }
    listing.write_prefixes(document, prefixes.into_iter());
}

fn write_version(
    document: &mut Writer,
    (key, id): (&str, &str),
    version: &VersionSummary,
    latest: bool,
    owner: &str,
) {
    let name = if version.delete_marker { "DeleteMarker" } else { "Version" };
    document.element(name, |entry| {
        entry.leaf("Key", key);
        entry.leaf("VersionId", id);
        entry.plain("IsLatest", latest);
        entry.plain("LastModified", version.modified);
        if !version.delete_marker {
            entry.plain("ETag", version.etag);
            entry.plain("Size", version.size);
        }
        write_user(entry, "Owner", owner);
        if !version.delete_marker {
            entry.plain("StorageClass", "STANDARD");
        }
    });
}
