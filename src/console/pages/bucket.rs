//! The objects of a bucket, by folders.

use askama::Template;

use super::super::cookie::{self, Preference};
use super::super::form::EnteredFields;
use super::super::objects::Folder;
use super::super::s3_client::Refusal;
use super::super::text;
use super::deleted_count::DeletedCount;
use super::find::{self, Wanted};
use super::greyed::Lack;
use super::listing::{Listing, NextRows, Order};
use super::object_rows::{
    DeletedRow, FolderRow, GRID_IMAGE_MAX_BYTES, ObjectRow, ObjectRows, THUMBNAIL_MAX_BYTES, Thumbnail,
    folder_row,
};
use super::page_links::{PageLinks, PagedList};
use super::{Page, View, html, pasted, see_other};
use crate::console::address::ConsoleRoot;
use crate::s3::{Operation, Response, uri};

#[derive(Template)]
#[template(path = "bucket.html", config = "src/console/askama.toml")]
struct BucketPage<'a> {
    page: Page,
    bucket: &'a str,
    /// The shown folder: the last step of the way to it.
    title: String,
    /// The value of the field of the place: the prefix, percent-encoded.
    at: String,
    is_root: bool,
    search: &'a str,
    /// What the shown objects, here and below, were looked for by; nothing for the objects of the
    /// folder.
    find: Wanted<'a>,
    shows_versions: bool,
    /// The deleted objects here and below, where they are what is shown.
    deleted: Option<Vec<DeletedRow>>,
    /// How many there are; `None` where nothing is known of them.
    deleted_count: Option<DeletedCount>,
    /// Whether the bucket has, or may have, versions that the user may list.
    has_versions: bool,
    order: Order,
    /// Whether the files are a grid of pictures.
    is_grid: bool,
    /// The address of the same page as a grid or, where it is one, as a list; `None` where there is
    /// no image.
    other_look: Option<String>,
    /// What the user may do here.
    may_write: bool,
    may_read: bool,
    may_delete: bool,
    may_restore: bool,
    may_tag: bool,
    may_delete_bucket: bool,
    may_delete_versions: bool,
    /// What the user lacks for what greyed buttons would do.
    write_lack: Option<Lack>,
    tag_lack: Option<Lack>,
    delete_lack: Option<Lack>,
    folder_entered: EnteredFields<'a>,
    crumbs: Vec<Crumb>,
    folders: Vec<FolderRow>,
    objects: Vec<ObjectRow>,
    links: PageLinks,
    /// The rewind of this folder.
    rewind: String,
    /// The same place by its other views and orders.
    files_view: String,
    versions_view: String,
    deleted_view: String,
    newest_view: String,
}

impl BucketPage<'_> {
    /// Whether an object was met that is deleted.
    fn has_deleted(&self) -> bool {
        self.deleted_count.as_ref().is_some_and(|deleted| deleted.count > 0)
    }
}

/// A folder on the way to the shown one.
struct Crumb {
    name: String,
    link: String,
}

pub(super) fn show(view: &View<'_>) -> Result<Response, Refusal> {
    if let Some(page) = view.given("find").and_then(|text| pasted::page(view, text)) {
        return Ok(see_other(&page));
    }
    let bucket = view.required("name")?;
    let prefix = &*view.folder()?;
    let search = view.given("search").unwrap_or_default();
    let shows_versions = view.given("versions").is_some();
    let sought = format!("{prefix}{search}");
    let folder = Folder { bucket, prefix: &sought, is_grouped: true };
    let shows_deleted = view.given("deleted").is_some();
    let is_of_files = !shows_versions && !shows_deleted;
    let find = if is_of_files { Wanted::read(view) } else { Wanted::default() };
    let Listing { page: listing, deleted, order, next, is_part } = match (shows_deleted, find.is_nothing()) {
        (true, _) => Listing::deleted(view, bucket, prefix)?,
        (false, true) => Listing::read(view, folder, shows_versions)?,
        (false, false) => Listing::found(view, bucket, prefix, find)?,
    };
    let place = Place { view, bucket, prefix, search, find };
    let mut crumbs = crumbs(&view.console.root, bucket, prefix);
    let last = crumbs.pop().map_or_else(|| bucket.to_owned(), |crumb| crumb.name);
    // Permissions go by prefixes, so that any name stands for the folder's.
    let some_key = format!("{prefix}name");
    let lack = |operation| match shows_versions {
        true => view.lack_to_versions(operation, bucket, &format!("{prefix}*")),
        false => view.lack_in_folder(operation, bucket, prefix),
    };
    let delete_lack = lack(Operation::DeleteObject);
    let may_read = lack(Operation::GetObject).is_none();
    let may_list_versions = view.may(Operation::ListObjectVersions, bucket, None);
    let has_versions = may_list_versions && super::settings::versioning(view, bucket).as_deref() != Some("");
    let deleted_count = if has_versions { DeletedCount::glance(view, bucket, prefix) } else { None };
    // Without an image a list says more.
    let has_image = is_of_files && listing.objects.iter().any(|it| text::icon_of(&it.key) == "image");
    let asked_for_grid = view.given("grid").map(|asked| asked == "1");
    let is_grid =
        has_image && asked_for_grid.unwrap_or_else(|| cookie::prefers(view.request, Preference::Grid));
    let thumbnail_max = if is_grid { GRID_IMAGE_MAX_BYTES } else { THUMBNAIL_MAX_BYTES };
    let rows = ObjectRows { view, bucket, prefix, may_read, shows_versions, thumbnail_max };
    let first = place.first_page(shows_deleted, shows_versions, order);
    let list = PagedList { first: &first, beginning: &["after", "version", "from"] };
    let next = next.as_ref().map(NextRows::params);
    let page = BucketPage {
        page: view.page(),
        bucket,
        title: if last.is_empty() { "(no name)".to_owned() } else { last },
        at: uri::encode_query(prefix),
        is_root: prefix.is_empty(),
        search,
        find,
        shows_versions,
        deleted: deleted.map(|keys| keys.iter().map(|key| rows.deleted_row(key)).collect()),
        deleted_count,
        has_versions,
        order,
        is_grid,
        other_look: has_image.then(|| format!("{first}&grid={}", u8::from(!is_grid))),
        may_write: view.may(Operation::PutObject, bucket, Some(&some_key)),
        may_read,
        may_delete: delete_lack.is_none(),
        may_restore: view.may_restore(bucket, &some_key),
        may_tag: view.may(Operation::PutObjectTagging, bucket, Some(&some_key)),
        may_delete_versions: may_list_versions,
        may_delete_bucket: view.may(Operation::DeleteBucket, bucket, None),
        write_lack: view.lack_in_folder(Operation::PutObject, bucket, prefix),
        tag_lack: view.lack_in_folder(Operation::PutObjectTagging, bucket, prefix),
        delete_lack,
        folder_entered: view.entered(&[]),
        crumbs,
        folders: listing.folders.iter().map(|folder| folder_row(view, bucket, prefix, folder)).collect(),
        objects: rows.of(listing.objects),
        links: PageLinks { is_part, ..PageLinks::of(&view.params, list, next.as_deref()) },
        rewind: view.link("rewind", &[("bucket", Some(bucket)), ("prefix", given(prefix))]),
        files_view: place.link("versions", None),
        versions_view: place.link("versions", Some("1")),
        deleted_view: view
            .link("bucket", &[("name", Some(bucket)), ("prefix", given(prefix)), ("deleted", Some("1"))]),
        newest_view: place.link("sort", Some("new")),
    };
    let response = html(200, &page.page, &page);
    Ok(match asked_for_grid {
        Some(wants_grid) => {
            cookie::remember(&view.console.root, response, view.request, Preference::Grid, wants_grid)
        }
        None => response,
    })
}

/// A text that is not empty.
fn given(text: &str) -> Option<&str> {
    Some(text).filter(|text| !text.is_empty())
}

/// The shown place.
struct Place<'a> {
    view: &'a View<'a>,
    bucket: &'a str,
    prefix: &'a str,
    search: &'a str,
    find: Wanted<'a>,
}

impl Place<'_> {
    /// The address of the place with a further parameter.
    fn link(&self, name: &str, value: Option<&str>) -> String {
        let place =
            [("name", Some(self.bucket)), ("prefix", given(self.prefix)), ("search", given(self.search))];
        let params: Vec<_> = place.into_iter().chain([(name, value)]).collect();
        self.view.link("bucket", &params)
    }

    /// The address of the first page.
    fn first_page(&self, shows_deleted: bool, shows_versions: bool, order: Order) -> String {
        let mut link = self.link("versions", shows_versions.then_some("1"));
        if shows_deleted {
            link += "&deleted=1";
        }
        link += &self.find.params();
        if order == Order::Newest {
            link += "&sort=new";
        }
        link
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
