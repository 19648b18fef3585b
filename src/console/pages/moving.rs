//! Moves and copies of objects and folders to other names, folders and buckets, after a page that
//! lists them: each object is copied where there is none, and deleted then if it moves.

use askama::Template;

use super::super::copy::{ObjectCopy, ObjectPlace};
use super::super::form::EnteredFields;
use super::super::objects::ChangedObject;
use super::super::pair_rows::kept;
use super::super::s3_client::{Refusal, S3Request, target};
use super::super::selection::Selection;
use super::selected::{CHANGED, ChangeStep, ChangeWords, ChangedSelection, SelectedList};
use super::{Page, View, html, see_other};
use crate::s3::{Method, Operation, Response};

/// Objects that one request moves or copies.
const MOVED_MAX: usize = 200;

const MOVE: ChangeWords =
    ChangeWords { page: "move", title: "Move", subject: "The move", participle: "moved" };
const COPY: ChangeWords =
    ChangeWords { page: "move", title: "Copy", subject: "The copy", participle: "copied" };

#[derive(Template)]
#[template(path = "move.html", config = "src/console/askama.toml")]
struct MovePage<'a> {
    page: Page,
    bucket: &'a str,
    back: String,
    list: SelectedList,
    /// Whether a copy alone was asked for.
    asks_copy: bool,
    /// Whether the user may delete what is selected, so that it can move.
    may_delete: bool,
    /// The folder of the page on which the objects were selected.
    folder: &'a str,
    /// The name of the single object or folder in it.
    name: Option<String>,
    entered: EnteredFields<'a>,
}

/// The fields select as in a deletion; `to_bucket`, `to_folder` and, for a single object
/// or folder, `to_name` say where to. `how` says whether the objects stay here, too.
pub(super) fn answer(view: &View<'_>) -> Result<Response, Refusal> {
    let selected = ChangedSelection::read(view)?;
    if selected.selection.is_empty() {
        return Ok(see_other(&selected.back));
    }
    if view.given("confirmed").is_none() || view.refusal.is_some() {
        return question(view, &selected);
    }
    let bucket = selected.bucket;
    let is_copy = match view.given("how") {
        Some("copy") => true,
        Some("move") | None => false,
        Some(_) => return Err(Refusal::new(400, "Objects are moved or copied.")),
    };
    let destination = MoveTarget::read(view, bucket, &selected.at, &selected.selection)?;
    let mut step = ChangeStep::read(view, bucket, &selected.selection, MOVED_MAX)?;
    step.make(|object| {
        let key = destination.key(&object.key);
        relocate(view, bucket, object, ObjectPlace { bucket: destination.bucket, key: &key }, is_copy)
    });
    Ok(step.end(view, bucket, selected.back, if is_copy { COPY } else { MOVE }))
}

fn question(view: &View<'_>, selected: &ChangedSelection<'_>) -> Result<Response, Refusal> {
    let list = selected.list(view)?;
    if list.has_versions {
        return Err(Refusal::new(400, "Versions stay with their object. Select the objects themselves."));
    }
    if list.count == 0 {
        return Ok(see_other(&selected.back));
    }
    let at = &*selected.at;
    let name = selected.selection.single().map(|single| name_in(at, single).trim_end_matches('/').to_owned());
    let entered =
        if view.given("confirmed").is_some() { view.entered(&[]) } else { EnteredFields::default() };
    let back = selected.back.clone();
    let bucket = selected.bucket;
    // Permissions go by prefixes, so that any name stands for the folder's.
    let may_delete = view.may(Operation::DeleteObject, bucket, Some(&format!("{at}name")));
    let page = MovePage {
        page: view.page(),
        bucket,
        back,
        list,
        asks_copy: view.given("asked") == Some("copy"),
        may_delete,
        folder: at,
        name,
        entered,
    };
    Ok(html(200, &page.page, &page))
}

/// The part of a key below a folder.
fn name_in<'k>(folder: &str, key: &'k str) -> &'k str {
    key.strip_prefix(folder).unwrap_or(key)
}

/// Where the selected objects go: one prefix takes the place of another.
struct MoveTarget<'a> {
    bucket: &'a str,
    /// The part of the keys that is replaced.
    from: String,
    to: String,
}

impl<'a> MoveTarget<'a> {
    /// # Errors
    /// A name is missing; the objects are there already, or would come into a folder that is moved
    /// itself.
    fn read(view: &'a View<'_>, bucket: &str, at: &str, selection: &Selection) -> Result<Self, Refusal> {
        let entered = view.given("to_folder").unwrap_or_default();
        // Browsers leave line ends out of a field.
        let mut folder = kept(entered, at.to_owned());
        if !folder.is_empty() && !folder.ends_with('/') {
            folder.push('/');
        }
        let (from, to) = match selection.single() {
            Some(single) => {
                let own = name_in(at, single);
                let (own_name, slash) = own.strip_suffix('/').map_or((own, ""), |name| (name, "/"));
                let name = kept(view.required("to_name")?, own_name.to_owned());
                (single.to_owned(), format!("{folder}{name}{slash}"))
            }
            None => (at.to_owned(), folder),
        };
        let destination = Self { bucket: view.required("to_bucket")?, from, to };
        if destination.bucket != bucket {
            return Ok(destination);
        }
        if destination.from == destination.to {
            return Err(Refusal::new(400, "The objects are there already. Name another place."));
        }
        match selection.folders().any(|folder| destination.key(folder).starts_with(folder)) {
            true => Err(Refusal::new(400, "A folder cannot be moved or copied into itself.")),
            false => Ok(destination),
        }
    }

    /// The key that an object gets.
    fn key(&self, key: &str) -> String {
        format!("{}{}", self.to, name_in(&self.from, key))
    }
}

/// Copies an object to a place without one and, unless it is to stay, deletes it then, if it is
/// still the one that was listed.
fn relocate(
    view: &View<'_>,
    bucket: &str,
    object: &ChangedObject,
    to: ObjectPlace<'_>,
    stays: bool,
) -> Result<(), Refusal> {
    let key = &*object.key;
    let head = view.s3().head(bucket, key, None)?;
    if object.etag.as_ref().is_some_and(|etag| *etag != head.etag) {
        return Err(Refusal::new(412, CHANGED));
    }
    let copy = ObjectCopy {
        source: ObjectPlace { bucket, key },
        version: head.version.as_deref(),
        head: &head,
        target: to,
        metadata: None,
        condition: Some(("if-none-match", "*")),
    };
    copy.make(&view.s3()).map_err(|refusal| match refusal.status {
        412 => Refusal::new(412, "There is an object of this name already, or it was changed."),
        _ => refusal,
    })?;
    if stays {
        return Ok(());
    }
    // The copy is durable. One that was replaced meanwhile stays, beside the copy.
    let request = S3Request { headers: &[("if-match", &*head.etag)], ..S3Request::default() };
    view.s3().send(Method::Delete, target(Some(bucket), Some(key))?, request).map(drop)
}
