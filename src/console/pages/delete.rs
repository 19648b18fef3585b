//! Deletion of objects, versions and folders, after a page that lists them.

use askama::Template;

use super::super::form::EnteredFields;
use super::super::objects::ChangedObject;
use super::super::s3_client::Refusal;
use super::super::sessions::UndoneDeletion;
use super::selected::{ChangeStep, ChangeWords, ChangedSelection, SelectedList};
use super::{Page, View, html, see_other};
use crate::s3::{Response, uri};

/// Objects of a deletion that one button takes back, and the bytes of their keys: the session holds
/// them until the next page.
const UNDONE_MAX: usize = 100;
const UNDONE_MAX_BYTES: usize = 16 << 10;
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
    let begins = step.done == 0;
    step.done = step.done.saturating_add(deletions.len() - refused.len().min(deletions.len()));
    step.left.extend(refused);
    if begins && step.is_whole() {
        step.undo = undo(view, &selected, &deletions);
    }
    Ok(step.end(view, bucket, selected.back, WORDS))
}

/// The way to take a deletion back: in a bucket with versions, for current objects.
fn undo(
    view: &View<'_>,
    selected: &ChangedSelection<'_>,
    deletions: &[ChangedObject],
) -> Option<UndoneDeletion> {
    let bytes: usize = deletions.iter().map(|deletion| deletion.key.len()).sum();
    let is_small = deletions.len() <= UNDONE_MAX && bytes <= UNDONE_MAX_BYTES;
    let is_current = deletions.iter().all(|deletion| deletion.version.is_none());
    let versions = super::settings::versioning(view, selected.bucket);
    let may_restore = deletions.iter().all(|deletion| view.may_restore(selected.bucket, &deletion.key));
    let can_come_back = is_small && is_current && may_restore && versions.as_deref() == Some("Enabled");
    can_come_back.then(|| UndoneDeletion {
        bucket: selected.bucket.to_owned(),
        at: uri::encode_query(&selected.at),
        keys: deletions.iter().map(|deletion| uri::encode_query(&deletion.key)).collect(),
    })
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
