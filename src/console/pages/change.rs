//! Changes of an object: an older version becomes the current one, tags, content type and metadata.

use super::super::s3_client::{Refusal, S3Request, target};
use super::{View, see_other};
use crate::console::form::decoded;
use crate::s3::{Method, Response, uri};
use crate::xml::Writer;

/// The prefix of user metadata.
const METADATA: &str = "x-amz-meta-";

/// Makes the change that the field `change` names, and leads to the object.
pub(super) fn answer(view: &View<'_>) -> Result<Response, Refusal> {
    let (bucket, key) = (view.required("bucket")?, &*decoded(view.required("key")?)?);
    let version = view.given("version");
    match view.required("change")? {
        "restore" => copy(view, bucket, key, version, &[])?,
        "metadata" => {
            let headers = metadata(view)?;
            let headers: Vec<_> =
                headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
            copy(view, bucket, key, version, &headers)?;
        }
        "tags" => set_tags(view, bucket, key, version)?,
        _ => return Err(Refusal::new(400, "There is no such change.")),
    }
    Ok(see_other(&view.link("object", &[("bucket", Some(bucket)), ("key", Some(key))])))
}

/// Copies a version onto its key, where the copy becomes the current version: with its metadata, or with these headers instead.
fn copy(
    view: &View<'_>,
    bucket: &str,
    key: &str,
    version: Option<&str>,
    headers: &[(&str, &str)],
) -> Result<(), Refusal> {
    let version =
        version.map(|version| format!("?versionId={}", uri::encode_query(version))).unwrap_or_default();
    let source = format!("{}/{}{version}", uri::encode_listed(bucket), uri::encode_listed(key));
    let mut lines = vec![("x-amz-copy-source", &*source)];
    lines.extend((!headers.is_empty()).then_some(("x-amz-metadata-directive", "REPLACE")));
    lines.extend(headers);
    let request = S3Request { headers: &lines, ..S3Request::default() };
    view.s3().send(Method::Put, target(Some(bucket), Some(key))?, request).map(drop)
}

/// The headers in the text of a form: a line for each, `name: value`. Names without a known meaning become user metadata.
fn metadata(view: &View<'_>) -> Result<Vec<(String, String)>, Refusal> {
    let mut headers = vec![("content-type".to_owned(), view.required("content_type")?.to_owned())];
    for line in view.given("text").unwrap_or_default().lines().filter(|line| !line.trim().is_empty()) {
        let (name, value) = line.split_once(':').ok_or_else(|| {
            Refusal::new(400, format!("This line is not of the form `name: value`: {line}"))
        })?;
        let name = name.trim().to_ascii_lowercase();
        let is_known = name.starts_with(METADATA) || super::super::objects::SYSTEM_METADATA.contains(&&*name);
        let name = if is_known { name } else { format!("{METADATA}{name}") };
        headers.push((name, value.trim().to_owned()));
    }
    Ok(headers)
}

/// Sets the tags in the text of a form: a line for each, `name=value`.
fn set_tags(view: &View<'_>, bucket: &str, key: &str, version: Option<&str>) -> Result<(), Refusal> {
    let mut document = Writer::new("Tagging", None);
    document.element("TagSet", |set| {
        for line in view.given("text").unwrap_or_default().lines().filter(|line| !line.trim().is_empty()) {
            let (name, value) = line.split_once('=').unwrap_or((line, ""));
            set.element("Tag", |tag| {
                tag.leaf("Key", name.trim());
                tag.leaf("Value", value.trim());
            });
        }
    });
    let body = document.finish();
    let digest = super::super::objects::base64_md5(&body);
    let mut query = vec![("tagging", "")];
    query.extend(version.map(|version| ("versionId", version)));
    let request = S3Request { query: &query, headers: &[("content-md5", &digest)], body };
    view.s3().send(Method::Put, target(Some(bucket), Some(key))?, request).map(drop)
}
