//! The objects of a bucket, by folders.

use askama::Template;

use super::super::objects::{Folder, FolderLine, ListingPage, ObjectLine};
use super::super::s3_client::Refusal;
use super::super::text;
use super::{Page, View, html};
use crate::console::address::ConsoleRoot;
use crate::s3::{Operation, Response, uri};

#[derive(Template)]
#[template(path = "bucket.html", config = "src/console/askama.toml")]
struct BucketPage<'a> {
    page: Page,
    bucket: &'a str,
    /// The value of the field of the place: the prefix, percent-encoded.
    at: String,
    search: &'a str,
    shows_versions: bool,
    /// What the user may do here.
    may_write: bool,
    may_delete: bool,
    may_tag: bool,
    may_delete_bucket: bool,
    may_delete_versions: bool,
    crumbs: Vec<Crumb>,
    folders: Vec<FolderRow>,
    objects: Vec<ObjectRow>,
    next: Option<String>,
    /// The rewind of this folder.
    rewind: String,
    /// The same place, with versions shown or hidden.
    other_view: String,
}

/// A folder on the way to the shown one.
struct Crumb {
    name: String,
    link: String,
}

struct FolderRow {
    name: String,
    /// The value of its field.
    id: String,
    link: String,
}

struct ObjectRow {
    /// The value of its field.
    id: String,
    name: String,
    link: String,
    size: String,
    modified: String,
    version: Option<String>,
    is_current: bool,
    is_marker: bool,
}

pub(super) fn show(view: &View<'_>) -> Result<Response, Refusal> {
    let bucket = view.required("name")?;
    let prefix = &*view.folder()?;
    let search = view.given("search").unwrap_or_default();
    let shows_versions = view.given("versions").is_some();
    let sought = format!("{prefix}{search}");
    let listing = listing(view, Folder { bucket, prefix: &sought, is_grouped: true }, shows_versions)?;
    let link = |name, value| {
        view.link(
            "bucket",
            &[
                ("name", Some(bucket)),
                ("prefix", Some(prefix).filter(|prefix| !prefix.is_empty())),
                ("search", Some(search).filter(|search| !search.is_empty())),
                (name, value),
            ],
        )
    };
    let next = listing.next.as_ref().map(|(after, version)| {
        let versions = if shows_versions { "&versions=1" } else { "" };
        let of_version = version.as_ref().map(|version| format!("&version={version}")).unwrap_or_default();
        link("after", Some(after)) + versions + &of_version
    });
    // Permissions go by prefixes, so that any name stands for the folder's.
    let some_key = format!("{prefix}name");
    let page = BucketPage {
        page: view.page(),
        bucket,
        at: uri::encode_query(prefix),
        search,
        shows_versions,
        may_write: view.may(Operation::PutObject, bucket, Some(&some_key)),
        may_delete: view.may(Operation::DeleteObject, bucket, Some(&some_key)),
        may_tag: view.may(Operation::PutObjectTagging, bucket, Some(&some_key)),
        may_delete_versions: view.may(Operation::ListObjectVersions, bucket, None),
        may_delete_bucket: view.may(Operation::DeleteBucket, bucket, None),
        crumbs: crumbs(&view.console.root, bucket, prefix),
        folders: listing.folders.iter().map(|folder| folder_row(view, bucket, prefix, folder)).collect(),
        objects: listing.objects.into_iter().map(|object| object_row(view, bucket, prefix, object)).collect(),
        next,
        rewind: view.link(
            "rewind",
            &[("bucket", Some(bucket)), ("prefix", Some(prefix).filter(|prefix| !prefix.is_empty()))],
        ),
        other_view: link("versions", (!shows_versions).then_some("1")),
    };
    Ok(html(200, &page.page, &page))
}

fn listing(view: &View<'_>, folder: Folder<'_>, versions: bool) -> Result<ListingPage, Refusal> {
    let after = view.given("after");
    match versions {
        true => view.s3().versions(folder, after.map(|key| (key, view.given("version")))),
        false => view.s3().objects(folder, after),
    }
}

fn crumbs(root: &ConsoleRoot, bucket: &str, prefix: &str) -> Vec<Crumb> {
    let ends = prefix.match_indices('/').map(|(at, _)| at + 1);
    let starts = std::iter::once(0).chain(ends.clone());
    starts
        .zip(ends)
        .map(|(start, end)| Crumb {
            name: text::visible(&prefix[start..end - 1]).into_owned(),
            link: root.with_params("bucket", &[("name", Some(bucket)), ("prefix", Some(&prefix[..end]))]),
        })
        .collect()
}

fn folder_row(view: &View<'_>, bucket: &str, prefix: &str, folder: &FolderLine) -> FolderRow {
    let link = view.link("bucket", &[("name", Some(bucket)), ("prefix", Some(&folder.prefix))]);
    FolderRow { name: name_in(prefix, &folder.prefix), link, id: uri::encode_query(&folder.prefix) }
}

fn object_row(view: &View<'_>, bucket: &str, prefix: &str, object: ObjectLine) -> ObjectRow {
    let version = object.version.as_deref();
    let link =
        view.link("object", &[("bucket", Some(bucket)), ("key", Some(&object.key)), ("version", version)]);
    ObjectRow {
        id: object.selected().field(),
        name: name_in(prefix, &object.key),
        link,
        size: if object.is_marker { String::new() } else { text::size(object.size) },
        modified: text::time(&object.modified),
        version: object.version,
        is_current: object.is_current,
        is_marker: object.is_marker,
    }
}

/// The part of a key that a folder shows.
fn name_in(prefix: &str, key: &str) -> String {
    let name = key.strip_prefix(prefix).unwrap_or(key);
    match name.trim().is_empty() {
        // A link of blanks could not be seen.
        true => name.replace(' ', "␠"),
        false => text::visible(name).into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_to_a_folder_has_a_link_for_each_step() {
        let root = ConsoleRoot::default();
        let crumbs = crumbs(&root, "b", "a/ü//c/");
        let shown: Vec<_> = crumbs.iter().map(|crumb| (crumb.name.as_str(), crumb.link.as_str())).collect();
        assert_eq!(
            shown,
            [
                ("a", "/-/console/bucket?name=b&prefix=a%2F"),
                ("ü", "/-/console/bucket?name=b&prefix=a%2F%C3%BC%2F"),
                ("", "/-/console/bucket?name=b&prefix=a%2F%C3%BC%2F%2F"),
                ("c", "/-/console/bucket?name=b&prefix=a%2F%C3%BC%2F%2Fc%2F"),
            ]
        );
        assert!(super::crumbs(&root, "b", "").is_empty() && super::crumbs(&root, "b", "half").is_empty());
    }
}
