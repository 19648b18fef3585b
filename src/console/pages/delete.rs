//! Deletion of objects, versions and folders, after a page that lists them. What was changed after
//! the list was shown stays.

use askama::Template;

use super::super::objects::{DeletionError, SelectedDeletion};
use super::super::s3_client::Refusal;
use super::super::selection::{self, SelectedObject, Selection, SelectionPlace, SelectionStep};
use super::super::text;
use super::{Page, View, html, see_other};
use crate::base::Timestamp;
use crate::console::form::decoded;
use crate::console::rewind;
use crate::s3::Response;

/// Objects that the page counts.
const COUNTED_MAX: usize = 10_000;
/// Objects that one request deletes.
const DELETED_MAX: usize = 1_000;
/// Names that the page shows.
const SHOWN_MAX: usize = 100;

const CHANGED: &str = "It was changed after the list was shown.";

#[derive(Template)]
#[template(path = "delete.html", config = "src/console/askama.toml")]
struct DeletePage<'a> {
    page: Page,
    bucket: &'a str,
    back: String,
    /// The fields that select the objects, once more.
    fields: Vec<(&'static str, String)>,
    /// The time of this list.
    seen: String,
    names: Vec<String>,
    further: usize,
    count: usize,
    bytes: String,
    is_cut: bool,
    /// Whether versions go for good; objects of a bucket with versions get a delete marker.
    names_versions: bool,
    /// Whether delete markers go alone, by which deleted objects come back.
    restores: bool,
}

#[derive(Template)]
#[template(path = "deleted.html", config = "src/console/askama.toml")]
struct DeletedPage<'a> {
    page: Page,
    bucket: &'a str,
    back: String,
    fields: Vec<(&'static str, String)>,
    seen: String,
    deleted: usize,
    errors: Vec<DeletionError>,
    /// The value of the field for the next step.
    after: Option<String>,
}

/// The fields `object` and `folder` select, `at` is the percent-encoded prefix of the page to
/// return to; `confirmed` says that the list was seen, and `seen` when it was made.
pub(super) fn answer(view: &View<'_>) -> Result<Response, Refusal> {
    let bucket = view.required("bucket")?;
    let at = view.given("at").map(decoded).transpose()?;
    let back = view.link("bucket", &[("name", Some(bucket)), ("prefix", at.as_deref())]);
    let selection = Selection::read(&view.params)?;
    if selection.is_empty() {
        return Ok(see_other(&back));
    }
    match view.given("confirmed") {
        None => question(view, bucket, back, &selection),
        Some(_) => delete(view, bucket, back, &selection),
    }
}

fn question(view: &View<'_>, bucket: &str, back: String, selection: &Selection) -> Result<Response, Refusal> {
    // An object that comes while the folders are listed is not on the list.
    let seen = view.console.clock.now().to_iso8601();
    let mut step = selection.step(&view.s3(), bucket, SelectionPlace::default(), COUNTED_MAX)?;
    let mut bytes: u64 = step.listed.iter().map(|object| object.size).sum();
    for object in &mut step.named {
        if object.is_marker() {
            continue;
        }
        // The size and the tag of an object that may not be read are not known.
        if let Ok(head) = view.s3().head(bucket, &object.key, object.version.as_deref()) {
            bytes += head.size;
            object.etag.get_or_insert(head.etag);
        }
    }
    let count = step.named.len() + step.listed.len();
    if count == 0 {
        return Ok(see_other(&back));
    }
    let named = step.named.iter().map(shown_name);
    let names = named.chain(step.listed.iter().map(|line| shown_name(&line.selected())));
    let page = DeletePage {
        page: view.page(),
        bucket,
        back,
        fields: fields(view, &step.named, selection),
        seen,
        names: names.take(SHOWN_MAX).collect(),
        further: count.saturating_sub(SHOWN_MAX),
        count,
        bytes: text::size(bytes),
        is_cut: step.next.is_some(),
        names_versions: step.named.iter().any(|object| object.version.is_some())
            || step.listed.iter().any(|line| line.version.is_some()),
        restores: step.listed.is_empty() && step.named.iter().all(SelectedObject::is_marker),
    };
    Ok(html(200, &page.page, &page))
}

fn shown_name(object: &SelectedObject) -> String {
    match &object.version {
        Some(version) => format!("{} ({version})", text::visible(&object.key)),
        None => text::visible(&object.key).into_owned(),
    }
}

/// The fields that select the same once more.
fn fields(view: &View<'_>, named: &[SelectedObject], selection: &Selection) -> Vec<(&'static str, String)> {
    let at = view.given("at").map(|at| ("at", at.to_owned()));
    let objects = named.iter().map(|object| ("object", object.field()));
    at.into_iter().chain(objects).chain(selection.prefix_fields()).collect()
}

/// Deletes the objects of one step, and leads on to the next one or back.
fn delete(view: &View<'_>, bucket: &str, back: String, selection: &Selection) -> Result<Response, Refusal> {
    let seen = view.given("seen").map_or_else(|| Ok(view.console.clock.now()), rewind::time)?;
    let place = view.given("after").map(SelectionPlace::parse).transpose()?.unwrap_or_default();
    let step = selection.step(&view.s3(), bucket, place, DELETED_MAX)?;
    let after = step.next.as_ref().map(SelectionPlace::field);
    let (deletions, mut errors) = deletions(step, seen);
    let deletions = with_conditions_that_count(view, bucket, deletions)?;
    let of_this_step = deletions.len();
    let refused = view.s3().delete(bucket, &deletions)?;
    let before = view.given("deleted").and_then(|count| count.parse::<usize>().ok()).unwrap_or(0);
    let deleted = before.saturating_add(of_this_step - refused.len().min(of_this_step));
    errors.extend(refused);
    if errors.is_empty() && after.is_none() {
        return Ok(see_other(&back));
    }
    let page = DeletedPage {
        page: view.page(),
        bucket,
        back,
        fields: selection::fields_again(&view.params),
        seen: seen.to_iso8601(),
        deleted,
        errors,
        after,
    };
    Ok(html(if page.errors.is_empty() { 200 } else { 409 }, &page.page, &page))
}

/// The deletions of a step, and the objects of folders that were changed after `seen`.
fn deletions(step: SelectionStep, seen: Timestamp) -> (Vec<SelectedDeletion>, Vec<DeletionError>) {
    let mut deletions = Vec::new();
    let mut changed = Vec::new();
    for SelectedObject { key, version, etag } in step.named {
        // A version does not change.
        let etag = etag.filter(|_| version.is_none());
        deletions.push(SelectedDeletion { key, version, etag });
    }
    for object in step.listed {
        let is_changed = rewind::modified(&object).map_or(true, |modified| modified > seen);
        match is_changed {
            true => changed.push(DeletionError { key: object.key, message: CHANGED.to_owned() }),
            false => {
                // A version does not change.
                let etag = object.version.is_none().then_some(object.etag);
                deletions.push(SelectedDeletion { key: object.key, version: object.version, etag });
            }
        }
    }
    (deletions, changed)
}

/// The deletions without the conditions on objects that the user may not read: S3 refuses those.
fn with_conditions_that_count(
    view: &View<'_>,
    bucket: &str,
    mut deletions: Vec<SelectedDeletion>,
) -> Result<Vec<SelectedDeletion>, Refusal> {
    let keys: Vec<_> = deletions.iter().map(|deletion| deletion.key.as_str()).collect();
    let readable = view.console.service.may_read(&view.visitor.identity, view.request, bucket, &keys);
    let readable = readable.map_err(|error| Refusal::of_error(&error))?;
    for (deletion, is_readable) in deletions.iter_mut().zip(readable) {
        if !is_readable {
            deletion.etag = None;
        }
    }
    Ok(deletions)
}
