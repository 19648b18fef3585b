//! The rows of a folder in one of its views and orders, a page of them.

use super::super::objects::{Folder, FolderLine, ListingPage, ObjectLine};
use super::super::s3_client::Refusal;
use super::View;
use super::find::Wanted;
use super::walk::{Sought, WalkLimits, WalkStep};
use crate::service::{FolderItems, KeyPlace, WalkedKey};

/// Names of a folder that are put in order by time.
const SORTED_MAX: usize = 10_000;
/// Rows of a page of them.
const ROWS_MAX: usize = 200;

/// The order of the objects of a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    Name,
    Newest,
    /// By name, although it was asked otherwise: there are too many.
    TooManyForNewest,
}

/// The rows of a page, and where the next page begins.
pub(super) struct Listing {
    pub(super) page: ListingPage,
    /// The deleted objects, in place of the page.
    pub(super) deleted: Option<Vec<WalkedKey>>,
    pub(super) order: Order,
    pub(super) next: Option<NextRows>,
    pub(super) is_part: bool,
}

/// The beginning of the next page.
pub(super) enum NextRows {
    /// A token, or a key and a version.
    After(String, Option<String>),
    /// So many objects of the sorted folder came before.
    From(String),
}

impl NextRows {
    /// The parameters of the page that begins there.
    pub(super) fn params(&self) -> Vec<(&str, &str)> {
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
    pub(super) fn read(view: &View<'_>, folder: Folder<'_>, shows_versions: bool) -> Result<Self, Refusal> {
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
    pub(super) fn deleted(view: &View<'_>, bucket: &str, prefix: &str) -> Result<Self, Refusal> {
        let place = KeyPlace { bucket, prefix, after: view.given("after") };
        let step = WalkStep::read(view, place, Sought::Deleted, WalkLimits::PAGE)?;
        Ok(Self::of_walk(step, |keys| (ListingPage::default(), Some(keys))))
    }

    /// A step of the walk for what was asked for, here and below.
    pub(super) fn found(
        view: &View<'_>,
        bucket: &str,
        prefix: &str,
        wanted: Wanted<'_>,
    ) -> Result<Self, Refusal> {
        let place = KeyPlace { bucket, prefix, after: view.given("after") };
        let step = WalkStep::read(view, place, Sought::Wanted(wanted), WalkLimits::PAGE)?;
        Ok(Self::of_walk(step, |keys| {
            let objects = keys.into_iter().map(ObjectLine::from).collect();
            (ListingPage { objects, ..ListingPage::default() }, None)
        }))
    }

    fn of_walk(
        step: WalkStep,
        rows: impl FnOnce(Vec<WalkedKey>) -> (ListingPage, Option<Vec<WalkedKey>>),
    ) -> Self {
        let is_part = step.next.is_some() && step.keys.len() < WalkLimits::PAGE.keys;
        let (page, deleted) = rows(step.keys);
        let next = step.next.map(|after| NextRows::After(after, None));
        Self { page, deleted, order: Order::Name, next, is_part }
    }

    /// A page of a folder by time, the newest object first; `None` for a folder with more than
    /// 10,000 names.
    fn newest(view: &View<'_>, folder: Folder<'_>) -> Result<Option<Self>, Refusal> {
        let Some(FolderItems { mut keys, folders, .. }) = Self::all_of(view, folder)? else {
            return Ok(None);
        };
        keys.sort_by_key(|object| std::cmp::Reverse(object.modified));
        let from: usize = view.given("from").and_then(|from| from.parse().ok()).unwrap_or(0);
        let end = from.saturating_add(ROWS_MAX);
        let next = (end < keys.len()).then(|| NextRows::From(end.to_string()));
        let rows = keys.into_iter().skip(from).take(ROWS_MAX);
        let mut page =
            ListingPage { objects: rows.map(ObjectLine::from).collect(), ..ListingPage::default() };
        if from == 0 {
            page.folders = folders.into_iter().map(|prefix| FolderLine { prefix }).collect();
        }
        Ok(Some(Self { page, deleted: None, order: Order::Newest, next, is_part: false }))
    }

    /// The keys and the folders of a folder, read as they are: as documents of S3, nearly 10,000
    /// names took the page close to 100 ms. `None` for more than 10,000.
    fn all_of(view: &View<'_>, folder: Folder<'_>) -> Result<Option<FolderItems>, Refusal> {
        let mut all = FolderItems::default();
        loop {
            let place = KeyPlace { bucket: folder.bucket, prefix: folder.prefix, after: all.next.as_deref() };
            let page = view.console.service.folder_page(&view.visitor.identity, view.request, place);
            let page = page.map_err(|error| Refusal::of_error(&error))?;
            all.keys.extend(page.keys);
            all.folders.extend(page.folders);
            all.next = page.next;
            if all.next.is_none() {
                return Ok(Some(all));
            }
            if all.keys.len() + all.folders.len() >= SORTED_MAX {
                return Ok(None);
            }
        }
    }
}
