//! Deletion of objects, versions and folders, after a page that lists them.

use askama::Template;

use super::super::form::EnteredFields;
use super::super::objects::ChangedObject;
use super::super::s3_client::Refusal;
use super::super::selection::Selection;
use super::selected::{ChangeStep, ChangeWords, ChangedSelection, SelectedList};
use super::{Page, View, html, see_other, undo};
use crate::s3::Response;

/// Objects that one request deletes.
const DELETED_MAX: usize = 1_000;

const WORDS: ChangeWords =
    ChangeWords { page: "delete", title: "Delete", subject: "The deletion", participle: "deleted" };

#[derive(Template)]
#[template(path = "delete.html", config = "src/console/askama.toml")]
struct DeletePage<'a> {
    page: Page,
    bucket: &'a str,
    back: String,
    list: SelectedList,
    /// Whether it is the whole bucket.
    is_whole_bucket: bool,
    /// What the name of the bucket is typed for, where it is.
    typed_for: Option<&'static str>,
    entered: EnteredFields<'a>,
}

/// `confirmed` says that the list of the selection was seen, and `seen` when it was made.
pub(super) fn answer(view: &View<'_>) -> Result<Response, Refusal> {
    let selected = ChangedSelection::read(view)?;
    if selected.selection.is_empty() {
        return Ok(see_other(&selected.back));
    }
    if view.given("confirmed").is_none() || view.refusal.is_some() {
        return question(view, selected);
    }
    if let Some(purpose) = typed_for(&selected.selection)
        && view.given("typed") != Some(selected.bucket)
    {
        return Err(Refusal::new(400, format!("Type the name of the bucket {purpose}.")));
    }
    delete(view, selected)
}

/// What the name of the bucket is typed for: a deletion of many objects that none of them comes
/// back from.
fn typed_for(selection: &Selection) -> Option<&'static str> {
    match selection.whole_keys() {
        _ if selection.is_whole_bucket() => Some("to empty it"),
        0 | 1 => None,
        _ => Some("to delete them for good"),
    }
}

fn question(view: &View<'_>, selected: ChangedSelection<'_>) -> Result<Response, Refusal> {
    let list = selected.list(view)?;
    if list.count == 0 {
        return Ok(see_other(&selected.back));
    }
    let is_whole_bucket = selected.selection.is_whole_bucket();
    let typed_for = typed_for(&selected.selection);
    let ChangedSelection { bucket, back, .. } = selected;
    let entered = view.entered(&[]);
    let page = DeletePage { page: view.page(), bucket, back, list, is_whole_bucket, typed_for, entered };
    Ok(html(200, &page.page, &page))
}

/// Deletes the objects of one step, and leads on to the next one or back.
fn delete(view: &View<'_>, selected: ChangedSelection<'_>) -> Result<Response, Refusal> {
    let bucket = selected.bucket;
    let mut step = ChangeStep::read(view, bucket, &selected.selection, DELETED_MAX)?;
    let deletions = with_conditions_that_count(view, bucket, std::mem::take(&mut step.objects))?;
    let refused = view.s3().delete(bucket, &deletions)?;
    let begins = step.done == 0;
    step.done = step.done.saturating_add(deletions.len() - refused.len().min(deletions.len()));
    step.left.extend(refused);
    if begins && step.is_whole() {
        step.undo = undo::of_deletion(view, bucket, &selected.at, &deletions);
    }
    Ok(step.end(view, bucket, selected.back, WORDS))
}

/// The deletions without the conditions on objects that the user may not read: S3 refuses those.
fn with_conditions_that_count(
    view: &View<'_>,
    bucket: &str,
    mut deletions: Vec<ChangedObject>,
) -> Result<Vec<ChangedObject>, Refusal> {
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
