//! The forms that take a deletion or a restoration of objects back, where nothing is lost by them.

use super::super::objects::ChangedObject;
use super::super::selected_object::SelectedObject;
use super::super::sessions::UndoForm;
use super::{View, settings};
use crate::s3::{Operation, uri};

/// Objects of a change that one button takes back, and the bytes of the fields about them: the
/// session holds them until the next page.
const OBJECTS_MAX: usize = 100;
const BYTES_MAX: usize = 16 << 10;

/// The form that restores what was deleted from a folder: `None` without versions, and for
/// deletions of versions.
pub(super) fn of_deletion(
    view: &View<'_>,
    bucket: &str,
    at: &str,
    deletions: &[ChangedObject],
) -> Option<UndoForm> {
    let is_of_current = deletions.iter().all(|deletion| deletion.version.is_none());
    let may_restore = deletions.iter().all(|deletion| view.may_restore(bucket, &deletion.key));
    if !is_of_current || !may_restore {
        return None;
    }
    let keys = deletions.iter().map(|deletion| uri::encode_query(&deletion.key)).collect();
    let more = [("back", "folder")];
    form(view, "restore", FormOfObjects { bucket, at, more, name: "whole", objects: keys })
}

/// The form that deletes restored objects again, unless they have changed since. Where versioning
/// is suspended that could be for good, and there is none.
pub(super) fn of_restoration(
    view: &View<'_>,
    bucket: &str,
    at: &str,
    restored: &[SelectedObject],
) -> Option<UndoForm> {
    let may = |object: &SelectedObject| view.may(Operation::DeleteObject, bucket, Some(&object.key));
    if !restored.iter().all(may) {
        return None;
    }
    let objects = restored.iter().map(SelectedObject::field).collect();
    let more = [("confirmed", "1")];
    form(view, "delete", FormOfObjects { bucket, at, more, name: "object", objects })
}

/// What a form says.
struct FormOfObjects<'f> {
    bucket: &'f str,
    at: &'f str,
    /// A field of this page alone.
    more: [(&'static str, &'static str); 1],
    /// The field of each object, and its values.
    name: &'static str,
    objects: Vec<String>,
}

/// The form, if it is small and versioning is on.
fn form(view: &View<'_>, page: &'static str, said: FormOfObjects<'_>) -> Option<UndoForm> {
    let FormOfObjects { bucket, at, more, name, objects } = said;
    let bytes: usize = objects.iter().map(String::len).sum();
    let is_small = objects.len() <= OBJECTS_MAX && bytes <= BYTES_MAX;
    if !is_small || settings::versioning(view, bucket).as_deref() != Some("Enabled") {
        return None;
    }
    let mut fields = vec![("bucket", bucket.to_owned()), ("at", uri::encode_query(at))];
    fields.extend(more.map(|(name, value)| (name, value.to_owned())));
    fields.extend(objects.into_iter().map(|object| (name, object)));
    Some(UndoForm { page, fields })
}
