//! The way back of deleted objects: their delete markers go, and the versions below are current
//! again.

use std::collections::BTreeSet;

use super::super::form;
use super::super::objects::{ChangedObject, Folder, LeftObject};
use super::super::s3_client::Refusal;
use super::super::selected_object::SelectedObject;
use super::selected::{ChangeStep, ChangeWords};
use super::{View, see_other, undo};
use crate::console::form::decoded;
use crate::s3::Response;

/// Objects that one request restores: what a page of deleted ones shows, and more.
const RESTORED_MAX: usize = 1_000;

const WORDS: ChangeWords =
    ChangeWords { page: "restore", title: "Restore", subject: "The restoration", participle: "restored" };

/// The fields `whole` have the keys, percent-encoded. `back` names the page that the restoration
/// leads to: that of the first object, or the folder `at`; the deleted objects unless it is
/// given.
pub(super) fn answer(view: &View<'_>) -> Result<Response, Refusal> {
    let bucket = view.required("bucket")?;
    let at = view.given("at").map(decoded).transpose()?.unwrap_or_default();
    let prefix = Some(&*at).filter(|at| !at.is_empty());
    let keys = form::all(&view.params, "whole").map(decoded).collect::<Result<BTreeSet<_>, _>>()?;
    let folder = [("name", Some(bucket)), ("prefix", prefix)];
    let back = match (view.given("back"), keys.first()) {
        (Some("object"), Some(key)) => {
            view.link("object", &[("bucket", Some(bucket)), ("key", Some(key.as_str()))])
        }
        (Some("folder"), _) => view.link("bucket", &folder),
        _ => view.link("bucket", &[folder[0], folder[1], ("deleted", Some("1"))]),
    };
    if keys.is_empty() {
        return Ok(see_other(&back));
    }
    if keys.len() > RESTORED_MAX {
        return Err(Refusal::new(400, format!("At most {RESTORED_MAX} objects are restored at a time.")));
    }
    let mut left = Vec::new();
    let mut markers = Vec::new();
    let mut restored = Vec::new();
    for key in &keys {
        match deleted(view, bucket, key)? {
            Some(object) => {
                markers.extend(object.markers);
                restored.push(SelectedObject { key: key.clone(), version: None, etag: Some(object.etag) });
            }
            None => left.push(LeftObject { key: key.clone(), message: "It is not deleted.".to_owned() }),
        }
    }
    left.extend(view.s3().delete(bucket, &markers)?);
    let refused: BTreeSet<_> = left.iter().map(|object| object.key.as_str()).collect();
    let done = keys.len() - refused.len();
    let mut step = ChangeStep::made(view, done, left);
    if step.is_whole() {
        step.undo = undo::of_restoration(view, bucket, &at, &restored);
    }
    Ok(step.end(view, bucket, back, WORDS))
}

/// A deleted object that can come back.
struct DeletedObject {
    /// The delete markers above its newest version.
    markers: Vec<ChangedObject>,
    /// The entity tag of that version.
    etag: String,
}

/// The deleted object of a key; `None` where it is not deleted, or no version is left of it.
fn deleted(view: &View<'_>, bucket: &str, key: &str) -> Result<Option<DeletedObject>, Refusal> {
    let folder = Folder { bucket, prefix: key, is_grouped: false };
    let mut markers = Vec::new();
    let mut after: Option<(String, Option<String>)> = None;
    loop {
        let page = view.s3().versions(folder, after.as_ref().map(|(key, id)| (&**key, id.as_deref())))?;
        for line in page.objects.into_iter().take_while(|line| line.key == key) {
            if !line.is_marker {
                let is_deleted = !markers.is_empty();
                return Ok(is_deleted.then_some(DeletedObject { markers, etag: line.etag }));
            }
            markers.push(ChangedObject { key: line.key, version: line.version, etag: None });
        }
        // Keys that begin with this one come after its last version.
        let Some(next) = page.next.filter(|(next, _)| next == key) else { return Ok(None) };
        after = Some(next);
    }
}
