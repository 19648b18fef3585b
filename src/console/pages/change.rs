//! Changes of an object: an older version becomes the current one, tags, content type and metadata.

use super::super::copy::{ObjectCopy, ObjectPlace};
use super::super::objects::SYSTEM_METADATA;
use super::super::pair_rows;
use super::super::s3_client::Refusal;
use super::super::seen;
use super::{View, see_other};
use crate::console::form::decoded;
use crate::s3::Response;

/// The prefix of user metadata.
const METADATA: &str = "x-amz-meta-";

/// Makes the change that the field `change` names, and leads to the object.
pub(super) fn answer(view: &View<'_>) -> Result<Response, Refusal> {
    let bucket = view.required("bucket")?;
    let key = &*view.key()?;
    let version = view.given("version");
    let change = view.required("change")?;
    match change {
        "restore" => {
            restore(view, bucket, key, version)?;
            view.tell("The version is the current one");
        }
        "metadata" => {
            set_metadata(view, bucket, key, version)?;
            view.tell("Saved type and metadata");
        }
        "tags" => {
            set_tags(view, bucket, key, version)?;
            view.tell("Saved the tags");
        }
        _ => return Err(Refusal::new(400, "There is no such change.")),
    }
    // Tags belong to a version; the other changes make one.
    let shown = version.filter(|_| change == "tags");
    Ok(see_other(&view.link("object", &[("bucket", Some(bucket)), ("key", Some(key)), ("version", shown)])))
}

/// Makes a version the current one, by a copy with its metadata.
fn restore(view: &View<'_>, bucket: &str, key: &str, version: Option<&str>) -> Result<(), Refusal> {
    let head = view.s3().head(bucket, key, version)?;
    let place = ObjectPlace { bucket, key };
    let copy =
        ObjectCopy { source: place, version, head: &head, target: place, metadata: None, condition: None };
    copy.make(&view.s3())
}

/// Gives the current version, which the page showed, another type and other metadata.
fn set_metadata(view: &View<'_>, bucket: &str, key: &str, version: Option<&str>) -> Result<(), Refusal> {
    let current = view.s3().head(bucket, key, None)?;
    if version.is_some() && current.version.as_deref() != version {
        return Err(Refusal::new(
            409,
            "This is an older version: its content would become the current one. Make it the current one first.",
        ));
    }
    let shown = view.given("etag").map(decoded).transpose()?;
    let metadata = metadata(view)?;
    let place = ObjectPlace { bucket, key };
    let copy = ObjectCopy {
        source: place,
        version,
        head: &current,
        target: place,
        metadata: Some(&metadata),
        condition: Some(("if-match", shown.as_deref().unwrap_or(&current.etag))),
    };
    copy.make(&view.s3())
}

/// The headers in the rows of a form. Names without a known meaning become user metadata.
fn metadata(view: &View<'_>) -> Result<Vec<(String, String)>, Refusal> {
    let mut headers = vec![("content-type".to_owned(), view.required("content_type")?.to_owned())];
    for (name, value) in pair_rows::read(&view.params)? {
        let name = name.trim().to_ascii_lowercase();
        let is_known = name.starts_with(METADATA) || SYSTEM_METADATA.contains(&&*name);
        headers.push((if is_known { name } else { format!("{METADATA}{name}") }, value));
    }
    Ok(headers)
}

/// Sets the tags in the rows of a form.
fn set_tags(view: &View<'_>, bucket: &str, key: &str, version: Option<&str>) -> Result<(), Refusal> {
    seen::check(view.given("shown"), &seen::pairs(&view.s3().tags(bucket, key, version)?))?;
    view.s3().set_tags(bucket, key, version, &pair_rows::read(&view.params)?)
}
