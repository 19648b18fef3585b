//! ListObjectVersions.

use super::acl::ListedOwners;
use super::client_error::ForClient as _;
use super::listing::{ListParams, write_user};
use super::{Context, memory, version_id};
use crate::auth::Authorized;
use crate::s3::render::xml;
use crate::s3::{Call, QueryParams, Response, S3Error};
use crate::store::{ListItem, ListPage, ListedVersion, VersionRef};
use crate::xml::Writer;

/// ListObjectVersions: keys ascending, the newest version of each first.
pub(super) fn list(context: &Context, proof: &Authorized, call: &Call<'_>) -> Result<Response, S3Error> {
    let params = ListParams::parse(&call.query, "max-keys", 0..=i32::MAX as usize)?;
    let markers = Markers::parse(context, &call.query)?;
    let bucket = context.store.configured_bucket(call.bucket()).for_client(call)?;
    let _page = memory::for_page(context, params.limit)?;
    let query = params.query(markers.key);
    let page = context.store.list_versions(call.bucket(), &query, markers.version).for_client(call)?;
    let held = memory::for_document(context, page.items().map(ListItem::name))?;

    let mut document = context.long_document("ListVersionsResult", &held);
    document.leaf("Name", &bucket.info.name);
    params.write_head(&mut document, "MaxKeys", page.truncated);
    document.leaf("KeyMarker", &params.encoded(markers.key));
    document.leaf("VersionIdMarker", markers.version_text);
    if let Some(last) = page.last_if_truncated() {
        write_next(context, &params, &mut document, last);
    }
    let owners = ListedOwners::of(context, proof, bucket);
    write_items(context, &owners, &params, &mut document, &page);
    Ok(xml(200, document).holding(held))
}

/// The key and the version after which the page begins.
struct Markers<'q> {
    key: &'q str,
    version_text: &'q str,
    version: Option<VersionRef>,
}

impl<'q> Markers<'q> {
    /// An empty marker counts as none: clients send one back after a page that ended with a common
    /// prefix.
    fn parse(context: &Context, query: &'q QueryParams) -> Result<Self, S3Error> {
        let name = "version-id-marker";
        let key = query.get("key-marker").unwrap_or_default();
        let version_text = query.get(name).unwrap_or_default();
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
}

fn write_next(
    context: &Context,
    params: &ListParams<'_>,
    document: &mut Writer,
    last: ListItem<'_, ListedVersion>,
) {
    let listed = match last {
        ListItem::Key(_, listed) => Some(listed),
        ListItem::Prefix(_) => None,
    };
    document.leaf("NextKeyMarker", &params.encoded(&last.name()));
    if let Some(listed) = listed {
        document.leaf("NextVersionIdMarker", &version_id::listing_id(context, &listed.version));
    }
}

/// Versions and delete markers in their order, then common prefixes.
fn write_items(
    context: &Context,
    owners: &ListedOwners<'_>,
    params: &ListParams<'_>,
    document: &mut Writer,
    page: &ListPage<ListedVersion>,
) {
    for (key, listed) in page.keys() {
        let id = version_id::listing_id(context, &listed.version);
        let owner = owners.of_version(&key, &listed.version);
        write_version(document, &params.encoded(&key), &id, listed, &owner);
    }
    params.write_prefixes(document, page);
}

fn write_version(document: &mut Writer, key: &str, id: &str, listed: &ListedVersion, owner: &str) {
    let ListedVersion { version, latest } = listed;
    let name = if version.delete_marker { "DeleteMarker" } else { "Version" };
    document.element(name, |entry| {
        entry.leaf("Key", key);
        entry.leaf("VersionId", id);
        entry.plain("IsLatest", latest);
        entry.plain("LastModified", version.last_modified());
        if version.stated_time.is_some() {
            entry.plain("Stored", version.modified);
        }
        if !version.delete_marker {
            entry.plain("ETag", version.etag);
            entry.plain("Size", version.size);
        }
        write_user(entry, "Owner", owner);
        if !version.delete_marker {
            entry.plain("StorageClass", version.storage_class.as_str());
        }
    });
}
