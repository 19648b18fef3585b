//! Deletion of objects, versions and folders, after a page that lists them.

use askama::Template;

use super::super::form::EnteredFields;
use super::super::objects::ChangedObject;
use super::super::s3_client::Refusal;
use super::selected::{ChangeStep, ChangeWords, ChangedSelection, SelectedList};
use super::{Page, View, html, see_other};
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
    /// Whether it is the whole bucket, whose name is typed then.
    is_whole_bucket: bool,
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
    if selected.selection.is_whole_bucket() && view.given("typed") != Some(selected.bucket) {
        return Err(Refusal::new(400, "Type the name of the bucket to empty it."));
    }
    delete(view, selected)
}

fn question(view: &View<'_>, selected: ChangedSelection<'_>) -> Result<Response, Refusal> {
    let list = selected.list(view)?;
    if list.count == 0 {
        return Ok(see_other(&selected.back));
    }
    let is_whole_bucket = selected.selection.is_whole_bucket();
    let ChangedSelection { bucket, back, .. } = selected;
    let entered = view.entered(&[]);
    let page = DeletePage { page: view.page(), bucket, back, list, is_whole_bucket, entered };
    Ok(html(200, &page.page, &page))
}

/// Deletes the objects of one step, and leads on to the next one or back.
fn delete(view: &View<'_>, selected: ChangedSelection<'_>) -> Result<Response, Refusal> {
    let bucket = selected.bucket;
    let mut step = ChangeStep::read(view, bucket, &selected.selection, DELETED_MAX)?;
    let deletions = with_conditions_that_count(view, bucket, std::mem::take(&mut step.objects))?;
    let refused = view.s3().delete(bucket, &deletions)?;
    step.done = step.done.saturating_add(deletions.len() - refused.len().min(deletions.len()));
    step.left.extend(refused);
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
