//! Deletion of objects, versions and folders, after a page that lists them.

use std::collections::BTreeSet;

use askama::Template;

use super::super::form;
use super::super::objects::{DeletionError, Folder};
use super::super::s3_client::Refusal;
use super::super::text;
use super::{Page, View, html, see_other};
use crate::console::form::decoded;
use crate::s3::{Response, uri};

/// Objects that one request deletes; of folders with more the rest stays, and the page says so.
const OBJECTS_MAX: usize = 10_000;
/// Names that the page shows.
const SHOWN_MAX: usize = 100;

#[derive(Template)]
#[template(path = "delete.html", config = "src/console/askama.toml")]
struct DeletePage<'a> {
    page: Page,
    bucket: &'a str,
    back: String,
    /// The fields that select the objects, once more.
    fields: Vec<(&'a str, &'a str)>,
    names: Vec<String>,
    further: usize,
    count: usize,
    bytes: String,
    is_cut: bool,
    /// Whether versions go for good; objects of a bucket with versions get a delete marker.
    names_versions: bool,
}

#[derive(Template)]
#[template(path = "not_deleted.html", config = "src/console/askama.toml")]
struct NotDeletedPage {
    page: Page,
    back: String,
    errors: Vec<DeletionError>,
}

/// The objects that a form selects.
#[derive(Default)]
struct Selection {
    objects: BTreeSet<(String, Option<String>)>,
    bytes: u64,
    is_cut: bool,
}

/// The value of the field for an object: its key and, after a question mark, its version. The key is percent-encoded, since browsers
/// change line ends in fields.
pub(super) fn object_id(key: &str, version: Option<&str>) -> String {
    let version = version.map(|version| format!("?{version}")).unwrap_or_default();
    uri::encode_query(key) + &version
}

/// The fields `object` are ids, `folder` percent-encoded prefixes, `at` that of the page to return to; `confirmed` says that the list was seen.
pub(super) fn answer(view: &View<'_>) -> Result<Response, Refusal> {
    let bucket = view.required("bucket")?;
    let at = view.given("at").map(decoded).transpose()?;
    let back = view.link("bucket", &[("name", Some(bucket)), ("prefix", at.as_deref())]);
    let is_confirmed = view.given("confirmed").is_some();
    let selection = select(view, bucket, !is_confirmed)?;
    if selection.objects.is_empty() {
        return Ok(see_other(&back));
    }
    if !is_confirmed {
        let page = question(view, bucket, back, &selection);
        return Ok(html(200, &page.page, &page));
    }
    let objects: Vec<_> = selection.objects.into_iter().collect();
    let errors = view.s3().delete(bucket, &objects)?;
    match errors.is_empty() {
        true => Ok(see_other(&back)),
        false => {
            let page = NotDeletedPage { page: view.page(), back, errors };
            Ok(html(409, &page.page, &page))
        }
    }
}

fn question<'a>(view: &'a View<'_>, bucket: &'a str, back: String, selection: &Selection) -> DeletePage<'a> {
    let name = |(key, version): &(String, Option<String>)| match version {
        Some(version) => format!("{} ({version})", text::visible(key)),
        None => text::visible(key).into_owned(),
    };
    let count = selection.objects.len();
    DeletePage {
        page: view.page(),
        bucket,
        back,
        fields: view.params.iter().filter(|(name, _)| ["object", "folder", "at"].contains(name)).collect(),
        names: selection.objects.iter().take(SHOWN_MAX).map(name).collect(),
        further: count.saturating_sub(SHOWN_MAX),
        count,
        bytes: text::size(selection.bytes),
        is_cut: selection.is_cut,
        names_versions: selection.objects.iter().any(|(_, version)| version.is_some()),
    }
}

/// The selected objects. The sizes of those that are named take a request each, which only the question is worth.
fn select(view: &View<'_>, bucket: &str, with_sizes: bool) -> Result<Selection, Refusal> {
    let mut selection = Selection::default();
    for id in form::all(&view.params, "object") {
        let (key, version) = id.split_once('?').map_or((id, None), |(key, version)| (key, Some(version)));
        let key = decoded(key)?;
        if with_sizes {
            selection.bytes += view.s3().head(bucket, &key, version).map_or(0, |head| head.size);
        }
        selection.objects.insert((key, version.map(str::to_owned)));
    }
    for prefix in form::all(&view.params, "folder") {
        let prefix = decoded(prefix)?;
        selection.add_folder(view, Folder { bucket, prefix: &prefix, is_grouped: false })?;
    }
    Ok(selection)
}

impl Selection {
    fn add_folder(&mut self, view: &View<'_>, folder: Folder<'_>) -> Result<(), Refusal> {
        let mut after = None;
        loop {
            let page = view.s3().objects(folder, after.as_deref())?;
            for object in page.objects {
                if self.objects.len() >= OBJECTS_MAX {
                    self.is_cut = true;
                    return Ok(());
                }
                self.bytes += object.size;
                self.objects.insert((object.key, None));
            }
            match page.next {
                Some((token, _)) => after = Some(token),
                None => return Ok(()),
            }
        }
    }
}
