//! The objects of a bucket, by folders.

use askama::Template;

use super::super::cookie;
use super::super::form::EnteredFields;
use super::super::objects::{Folder, FolderLine, ListingPage, ObjectLine};
use super::super::s3_client::Refusal;
use super::super::text;
use super::find::{self, Wanted};
use super::page_links::{PageLinks, PagedList};
use super::walk::{Sought, StepLimits, WalkStep};
use super::{Page, View, html, pasted, see_other};
use crate::console::address::ConsoleRoot;
use crate::s3::{Operation, Response, uri};
use crate::service::{KeyPlace, WalkedKey};

/// Names of a folder that are put in order by time.
const SORTED_MAX: usize = 10_000;
/// Rows of a page of them.
const ROWS_MAX: usize = 200;
/// The largest image that a row of a list shows. The object itself is loaded for it.
const THUMBNAIL_MAX_BYTES: u64 = 200 << 10;
/// The largest one of a grid, whose pictures somebody asked to see: a photograph of a phone.
const GRID_IMAGE_MAX_BYTES: u64 = 4 << 20;
/// The ends of the names of those, which every browser shows.
const THUMBNAILS: [&str; 6] = [".png", ".jpg", ".jpeg", ".gif", ".webp", ".avif"];

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
    /// How many there are; empty where nothing is known of them.
    deleted_count: String,
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

/// The order of the objects of a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    Name,
    Newest,
    /// By name, although it was asked otherwise: there are too many.
    TooManyForNewest,
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

/// A deleted object that can come back.
struct DeletedRow {
    /// The value of the field of its key.
    key: String,
    name: String,
    link: String,
    icon: &'static str,
    bytes: u64,
    size: String,
    time: String,
    deleted: String,
}

struct ObjectRow {
    /// The value of its field.
    id: String,
    /// The value of the field of its key.
    key: String,
    name: String,
    link: String,
    content: String,
    /// The addresses of the object for clients.
    path: String,
    url: String,
    icon: &'static str,
    has_thumbnail: bool,
    bytes: u64,
    size: String,
    /// The time for browsers, and for people without scripts.
    time: String,
    modified: String,
    version: Option<String>,
    is_current: bool,
    is_marker: bool,
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
    let may_read = view.may(Operation::GetObject, bucket, Some(&some_key));
    let may_list_versions = view.may(Operation::ListObjectVersions, bucket, None);
    let has_versions = may_list_versions && super::settings::versioning(view, bucket).as_deref() != Some("");
    let deleted_count = if has_versions {
        deleted_count(view, KeyPlace { bucket, prefix, after: None })
    } else {
        String::new()
    };
    // Without an image a list says more.
    let has_image = is_of_files && listing.objects.iter().any(|it| text::icon_of(&it.key) == "image");
    let asked_for_grid = view.given("grid").map(|asked| asked == "1");
    let is_grid = has_image && asked_for_grid.unwrap_or_else(|| cookie::wants_grid(view.request));
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
        may_delete: view.may(Operation::DeleteObject, bucket, Some(&some_key)),
        may_restore: view.may_restore(bucket, &some_key),
        may_tag: view.may(Operation::PutObjectTagging, bucket, Some(&some_key)),
        may_delete_versions: may_list_versions,
        may_delete_bucket: view.may(Operation::DeleteBucket, bucket, None),
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
        Some(wants_grid) => cookie::remember_grid(&view.console.root, response, view.request, wants_grid),
        None => response,
    })
}

/// A text that is not empty.
fn given(text: &str) -> Option<&str> {
    Some(text).filter(|text| !text.is_empty())
}

/// The rows of a page, and where the next page begins.
struct Listing {
    page: ListingPage,
    /// The deleted objects, in place of the page.
    deleted: Option<Vec<WalkedKey>>,
    order: Order,
    next: Option<NextRows>,
    is_part: bool,
}

/// The number of deleted objects in words; empty without any, and where none was met in the time
/// that a number may take.
fn deleted_count(view: &View<'_>, place: KeyPlace<'_>) -> String {
    let Ok(step) = WalkStep::read(view, place, Sought::Deleted, StepLimits::GLANCE) else {
        return String::new();
    };
    match (step.keys.len(), step.next) {
        (0, _) => String::new(),
        (count, None) => count.to_string(),
        (count, Some(_)) => format!("more than {count}"),
    }
}

/// The beginning of the next page.
enum NextRows {
    /// A token, or a key and a version.
    After(String, Option<String>),
    /// So many objects of the sorted folder came before.
    From(String),
}

impl NextRows {
    /// The parameters of the page that begins there.
    fn params(&self) -> Vec<(&str, &str)> {
        match self {
            Self::After(after, version) => {
                let version = version.as_deref().map(|version| ("version", version));
                std::iter::once(("after", after.as_str())).chain(version).collect()
            }
            Self::From(from) => vec![("from", from)],
        }
    }
}

impl Listing {
    /// Reads the page that the parameters ask for.
    ///
    /// # Errors
    /// Errors of the listings.
    fn read(view: &View<'_>, folder: Folder<'_>, shows_versions: bool) -> Result<Self, Refusal> {
        let after = view.given("after");
        let mut order = Order::Name;
        if view.given("sort") == Some("new") && !shows_versions {
            match Self::newest(view, folder)? {
                Some(listing) => return Ok(listing),
                None => order = Order::TooManyForNewest,
            }
        }
        let mut page = match shows_versions {
            true => view.s3().versions(folder, after.map(|key| (key, view.given("version"))))?,
            false => view.s3().objects(folder, after)?,
        };
        let next = page.next.take().map(|(after, version)| NextRows::After(after, version));
        Ok(Self { page, deleted: None, order, next, is_part: false })
    }

    /// A step of the walk for the deleted objects, here and below.
    fn deleted(view: &View<'_>, bucket: &str, prefix: &str) -> Result<Self, Refusal> {
        let place = KeyPlace { bucket, prefix, after: view.given("after") };
        let step = WalkStep::read(view, place, Sought::Deleted, StepLimits::PAGE)?;
        Ok(Self::of_walk(step, |keys| (ListingPage::default(), Some(keys))))
    }

    /// A step of the walk for what was asked for, here and below.
    fn found(view: &View<'_>, bucket: &str, prefix: &str, wanted: Wanted<'_>) -> Result<Self, Refusal> {
        let place = KeyPlace { bucket, prefix, after: view.given("after") };
        let step = WalkStep::read(view, place, Sought::Wanted(wanted), StepLimits::PAGE)?;
        Ok(Self::of_walk(step, |keys| {
            let objects = keys.into_iter().map(ObjectLine::from).collect();
            (ListingPage { objects, ..ListingPage::default() }, None)
        }))
    }

    fn of_walk(
        step: WalkStep,
        rows: impl FnOnce(Vec<WalkedKey>) -> (ListingPage, Option<Vec<WalkedKey>>),
    ) -> Self {
        let is_part = step.next.is_some() && step.keys.len() < StepLimits::PAGE.keys;
        let (page, deleted) = rows(step.keys);
        let next = step.next.map(|after| NextRows::After(after, None));
        Self { page, deleted, order: Order::Name, next, is_part }
    }

    /// A page of a folder by time, the newest object first; `None` for a folder with more than
    /// 10,000 names.
    fn newest(view: &View<'_>, folder: Folder<'_>) -> Result<Option<Self>, Refusal> {
        let mut all = view.s3().objects(folder, None)?;
        while let Some((after, _)) = all.next.take() {
            if all.folders.len() + all.objects.len() >= SORTED_MAX {
                return Ok(None);
            }
            let further = view.s3().objects(folder, Some(&after))?;
            all.folders.extend(further.folders);
            all.objects.extend(further.objects);
            all.next = further.next;
        }
        // Times of listings are in UTC and of one length, so that their texts have their order.
        all.objects.sort_by(|one, other| other.modified.cmp(&one.modified));
        let from: usize = view.given("from").and_then(|from| from.parse().ok()).unwrap_or(0);
        if from > 0 {
            all.folders.clear();
        }
        let end = from.saturating_add(ROWS_MAX);
        let next = (end < all.objects.len()).then(|| NextRows::From(end.to_string()));
        all.objects.truncate(end);
        all.objects.drain(..from.min(all.objects.len()));
        Ok(Some(Self { page: all, deleted: None, order: Order::Newest, next, is_part: false }))
    }
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

fn folder_row(view: &View<'_>, bucket: &str, prefix: &str, folder: &FolderLine) -> FolderRow {
    let link = view.link("bucket", &[("name", Some(bucket)), ("prefix", Some(&folder.prefix))]);
    FolderRow { name: name_in(prefix, &folder.prefix), link, id: uri::encode_query(&folder.prefix) }
}

/// The rows of the objects of a folder.
struct ObjectRows<'a> {
    view: &'a View<'a>,
    bucket: &'a str,
    prefix: &'a str,
    may_read: bool,
    shows_versions: bool,
    /// Bytes of the largest image that a row shows.
    thumbnail_max: u64,
}

impl ObjectRows<'_> {
    /// The rows of all but the object that stands for the empty folder itself.
    fn of(&self, objects: Vec<ObjectLine>) -> Vec<ObjectRow> {
        let mut rows = Vec::with_capacity(objects.len());
        for object in objects {
            let is_folder = object.key == self.prefix && object.size == 0 && self.prefix.ends_with('/');
            if self.shows_versions || !is_folder {
                rows.push(self.row(object));
            }
        }
        rows
    }

    fn deleted_row(&self, object: &WalkedKey) -> DeletedRow {
        let name = name_in(self.prefix, &object.key);
        let place = [("bucket", Some(self.bucket)), ("key", Some(&*object.key))];
        let deleted = object.modified.to_iso8601();
        DeletedRow {
            key: uri::encode_query(&object.key),
            link: self.view.link("object", &place),
            icon: text::icon_of(&name),
            name,
            bytes: object.size,
            size: text::size(object.size),
            deleted: text::time(&deleted),
            time: deleted,
        }
    }

    fn row(&self, object: ObjectLine) -> ObjectRow {
        let version = object.version.as_deref();
        let bucket = ("bucket", Some(self.bucket));
        let key = ("key", Some(&*object.key));
        let name = name_in(self.prefix, &object.key);
        let lower = name.to_ascii_lowercase();
        ObjectRow {
            id: object.selected().field(),
            key: uri::encode_query(&object.key),
            link: self.view.link("object", &[bucket, key, ("version", version)]),
            content: self.view.link("content", &[bucket, key, ("versionId", version)]),
            path: text::s3_path(self.bucket, &object.key),
            url: self.view.s3_url(self.bucket, &object.key),
            icon: text::icon_of(&name),
            has_thumbnail: self.may_read
                && !object.is_marker
                && (1..=self.thumbnail_max).contains(&object.size)
                && THUMBNAILS.iter().any(|end| lower.ends_with(end)),
            name,
            bytes: object.size,
            size: if object.is_marker { String::new() } else { text::size(object.size) },
            modified: text::time(&object.modified),
            time: object.modified,
            version: object.version,
            is_current: object.is_current,
            is_marker: object.is_marker,
        }
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
