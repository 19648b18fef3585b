//! The way back of deleted objects: their delete markers go, and the versions below are current
//! again.

use std::collections::BTreeSet;

use super::super::form;
use super::super::objects::{ChangedObject, Folder, LeftObject};
use super::super::s3_client::Refusal;
use super::selected::{ChangeStep, ChangeWords};
use super::{View, see_other};
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
    for key in &keys {
        let of_key = markers_above(view, bucket, key)?;
        if of_key.is_empty() {
            left.push(LeftObject { key: key.clone(), message: "It is not deleted.".to_owned() });
        }
        markers.extend(of_key);
    }
    left.extend(view.s3().delete(bucket, &markers)?);
    let refused: BTreeSet<_> = left.iter().map(|object| object.key.as_str()).collect();
    let done = keys.len() - refused.len();
    Ok(ChangeStep::made(view, done, left).end(view, bucket, back, WORDS))
}

/// The delete markers above the newest version of a key; none where no version is below them.
fn markers_above(view: &View<'_>, bucket: &str, key: &str) -> Result<Vec<ChangedObject>, Refusal> {
    let folder = Folder { bucket, prefix: key, is_grouped: false };
    let mut markers = Vec::new();
    let mut after: Option<(String, Option<String>)> = None;
    loop {
        let page = view.s3().versions(folder, after.as_ref().map(|(key, id)| (&**key, id.as_deref())))?;
        for line in page.objects.into_iter().take_while(|line| line.key == key) {
            if !line.is_marker {
                return Ok(markers);
            }
            markers.push(ChangedObject { key: line.key, version: line.version, etag: None });
        }
        // Keys that begin with this one come after its last version.
        let Some(next) = page.next.filter(|(next, _)| next == key) else { return Ok(Vec::new()) };
        after = Some(next);
    }
}
