//! Changes of an object: an older version becomes the current one, tags, content type and metadata,
//! retention and legal hold.

use std::time::Duration;

use super::super::copy::{ObjectCopy, ObjectPlace};
use super::super::objects::{SYSTEM_METADATA, base64_md5};
use super::super::pair_rows;
use super::super::s3_client::{Refusal, S3Request, target};
use super::super::seen;
use super::{View, see_other};
use crate::console::form::decoded;
use crate::s3::{Method, Response, TargetResource};
use crate::xml::Writer;

/// The prefix of user metadata.
const METADATA: &str = "x-amz-meta-";
const SECS_OF_DAY: u64 = 24 * 60 * 60;

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
        "retention" => {
            set_retention(view, bucket, key, version)?;
            view.tell("The version is locked");
        }
        "legal-hold" => {
            let is_on = set_legal_hold(view, bucket, key, version)?;
            view.tell(if is_on { "The legal hold is on" } else { "The legal hold is off" });
        }
        _ => return Err(Refusal::new(400, "There is no such change.")),
    }
    // Tags and locks belong to a version; the other changes make one.
    let shown = version.filter(|_| !matches!(change, "restore" | "metadata"));
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

/// Locks a version from the moment on for some days.
fn set_retention(view: &View<'_>, bucket: &str, key: &str, version: Option<&str>) -> Result<(), Refusal> {
    let days = view.required("days")?.trim().parse::<u32>().ok().filter(|days| *days > 0);
    let days = days.ok_or_else(|| Refusal::new(400, "A lock lasts for a whole number of days."))?;
    let until = view.console.clock.now().plus(Duration::from_secs(u64::from(days) * SECS_OF_DAY));
    let mut document = Writer::new("Retention", None);
    document.leaf("Mode", view.required("mode")?);
    document.leaf("RetainUntilDate", &until.to_iso8601());
    let bypass = view.given("bypass").map(|_| ("x-amz-bypass-governance-retention", "true"));
    set_lock(view, target(Some(bucket), Some(key))?, "retention", version, bypass, document.finish())
}

/// Puts a legal hold on a version, or takes it off. Returns whether it is on.
fn set_legal_hold(view: &View<'_>, bucket: &str, key: &str, version: Option<&str>) -> Result<bool, Refusal> {
    let status = view.required("hold")?;
    let mut document = Writer::new("LegalHold", None);
    document.leaf("Status", status);
    set_lock(view, target(Some(bucket), Some(key))?, "legal-hold", version, None, document.finish())?;
    Ok(status == "ON")
}

fn set_lock(
    view: &View<'_>,
    object: TargetResource,
    name: &str,
    version: Option<&str>,
    bypass: Option<(&str, &str)>,
    body: Vec<u8>,
) -> Result<(), Refusal> {
    let digest = base64_md5(&body);
    let query: Vec<_> =
        [(name, "")].into_iter().chain(version.map(|version| ("versionId", version))).collect();
    let headers: Vec<_> = [("content-md5", &*digest)].into_iter().chain(bypass).collect();
    view.s3().send(Method::Put, object, S3Request { query: &query, headers: &headers, body }).map(drop)
}

/// Sets the tags in the rows of a form.
fn set_tags(view: &View<'_>, bucket: &str, key: &str, version: Option<&str>) -> Result<(), Refusal> {
    seen::check(view.given("shown"), &seen::pairs(&view.s3().tags(bucket, key, version)?))?;
    view.s3().set_tags(bucket, key, version, &pair_rows::read(&view.params)?)
}
