//! Tags of many objects, after a page that lists them.

use askama::Template;

use super::super::form::EnteredFields;
use super::super::objects::ChangedObject;
use super::super::pair_rows::{self, PairRow};
use super::super::s3_client::Refusal;
use super::selected::{CHANGED, ChangeStep, ChangeWords, ChangedSelection, SelectedList};
use super::{Page, View, html, see_other};
use crate::s3::Response;

/// Objects that one request tags.
const TAGGED_MAX: usize = 200;

const WORDS: ChangeWords =
    ChangeWords { page: "tag", title: "Tag", subject: "The tagging", participle: "tagged" };

#[derive(Template)]
#[template(path = "tag.html", config = "src/console/askama.toml")]
struct TagPage<'a> {
    page: Page,
    bucket: &'a str,
    back: String,
    list: SelectedList,
    rows: Vec<PairRow>,
    entered: EnteredFields<'a>,
}

/// The fields select as in a deletion; the rows have the tags, and `mode` says whether the
/// tags from before stay.
pub(super) fn answer(view: &View<'_>) -> Result<Response, Refusal> {
    let selected = ChangedSelection::read(view)?;
    if selected.selection.is_empty() {
        return Ok(see_other(&selected.back));
    }
    if view.given("confirmed").is_none() || view.refusal.is_some() {
        return question(view, selected);
    }
    let bucket = selected.bucket;
    let tags = pair_rows::read(&view.params)?;
    let keeps_others = match view.required("mode")? {
        "add" if tags.is_empty() => return Err(Refusal::new(400, "Give at least one tag.")),
        "add" => true,
        "replace" => false,
        _ => return Err(Refusal::new(400, "There is no such way to tag.")),
    };
    let mut step = ChangeStep::read(view, bucket, &selected.selection, TAGGED_MAX)?;
    step.make(|object| tag(view, bucket, object, &tags, keeps_others));
    Ok(step.end(view, bucket, selected.back, WORDS))
}

fn question(view: &View<'_>, selected: ChangedSelection<'_>) -> Result<Response, Refusal> {
    let list = selected.list(view)?;
    let ChangedSelection { bucket, back, .. } = selected;
    if list.count == 0 {
        return Ok(see_other(&back));
    }
    let entered =
        if view.given("confirmed").is_some() { view.entered(&[]) } else { EnteredFields::default() };
    let rows = pair_rows::shown(entered, &[]);
    let page = TagPage { page: view.page(), bucket, back, list, rows, entered };
    Ok(html(200, &page.page, &page))
}

/// Tags the version of an object that was listed.
fn tag(
    view: &View<'_>,
    bucket: &str,
    object: &ChangedObject,
    tags: &[(String, String)],
    keeps_others: bool,
) -> Result<(), Refusal> {
    let key = &*object.key;
    let head = view.s3().head(bucket, key, object.version.as_deref())?;
    if object.etag.as_ref().is_some_and(|etag| *etag != head.etag) {
        return Err(Refusal::new(412, CHANGED));
    }
    let version = head.version.as_deref();
    let mut all = Vec::new();
    if keeps_others {
        all = view.s3().tags(bucket, key, version)?;
        all.retain(|(name, _)| tags.iter().all(|(added, _)| added != name));
    }
    all.extend_from_slice(tags);
    view.s3().set_tags(bucket, key, version, &all)
}
