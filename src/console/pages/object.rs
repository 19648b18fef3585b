//! One object: its properties, a preview, its versions.

use askama::Template;

use super::super::guard;
use super::super::objects::{Folder, ObjectHead, ObjectLine};
use super::super::s3_client::{Refusal, S3Request, target};
use super::super::text;
use super::{Page, View, html};
use crate::s3::{Method, Response, uri};

/// Bytes of a text that are shown.
const PREVIEW_BYTES: u64 = 64 * 1024;

#[derive(Template)]
#[template(path = "object.html", config = "src/console/askama.toml")]
struct ObjectPage<'a> {
    page: Page,
    bucket: &'a str,
    bucket_link: String,
    /// The value of the field of the key.
    key: String,
    name: String,
    id: String,
    version: Option<&'a str>,
    /// Whether the shown version is the current one.
    is_current: bool,
    head: Result<Properties, String>,
    content: String,
    /// The address of the content for a frame.
    frame: String,
    preview: Preview,
    versions: Vec<VersionRow>,
}

struct Properties {
    size: String,
    content_type: String,
    modified: String,
    etag: String,
    metadata: Vec<(String, String)>,
    tags: Vec<(String, String)>,
    /// Both as a form has them: a line for each pair.
    metadata_text: String,
    tags_text: String,
    retained_until: Option<String>,
    legal_hold: bool,
}

/// The content within the page.
enum Preview {
    None,
    Image,
    Audio,
    Video,
    Pdf,
    /// A text, and whether there is more of it.
    Text(String, bool),
}

struct VersionRow {
    link: String,
    /// The value of its field.
    id: String,
    version: String,
    size: String,
    modified: String,
    is_current: bool,
    is_marker: bool,
    is_shown: bool,
}

pub(super) fn show(view: &View<'_>) -> Result<Response, Refusal> {
    let (bucket, key, version) = (view.required("bucket")?, view.required("key")?, view.given("version"));
    let head = view.s3().head(bucket, key, version);
    let versions = versions(view, bucket, key, version)?;
    if let (Err(refusal), true) = (&head, versions.is_empty()) {
        return Err(refusal.clone());
    }
    let preview = match &head {
        Ok(head) => preview(view, bucket, key, version, head)?,
        Err(_) => Preview::None,
    };
    let head = match head {
        Ok(head) => Ok(properties(view, bucket, key, version, head)?),
        Err(refusal) => Err(refusal.message),
    };
    let content =
        view.link("content", &[("bucket", Some(bucket)), ("key", Some(key)), ("versionId", version)]);
    let page = ObjectPage {
        page: view.page(),
        bucket,
        bucket_link: view.link("bucket", &[("name", Some(bucket)), ("prefix", folder_of(key))]),
        key: uri::encode_query(key),
        name: text::visible(key).into_owned(),
        id: super::delete::object_id(key, version),
        version,
        is_current: versions.iter().any(|version| version.is_shown && version.is_current),
        head,
        frame: format!("{content}&view=1"),
        content,
        preview,
        versions,
    };
    let response = html(200, &page.page, &page);
    Ok(match page.preview {
        Preview::Pdf => guard::with_frames(response),
        _ => response,
    })
}

fn folder_of(key: &str) -> Option<&str> {
    key.trim_end_matches('/').rfind('/').map(|at| &key[..=at])
}

fn properties(
    view: &View<'_>,
    bucket: &str,
    key: &str,
    version: Option<&str>,
    head: ObjectHead,
) -> Result<Properties, Refusal> {
    let tags = match view.s3().tags(bucket, key, version) {
        Err(refusal) if refusal.status != 403 => return Err(refusal),
        tags => tags.unwrap_or_default(),
    };
    let lines = |pairs: &[(String, String)], between: &str| {
        pairs.iter().map(|(name, value)| format!("{name}{between}{value}\n")).collect::<String>()
    };
    let (metadata_text, tags_text) = (lines(&head.metadata, ": "), lines(&tags, "="));
    let shown = |text: String| text::visible(&text).into_owned();
    let pairs = |pairs: Vec<(String, String)>| {
        pairs.into_iter().map(|(name, value)| (shown(name), shown(value))).collect::<Vec<_>>()
    };
    Ok(Properties {
        size: text::size(head.size),
        content_type: shown(head.content_type),
        modified: head.modified,
        etag: head.etag,
        metadata: pairs(head.metadata),
        tags: pairs(tags),
        metadata_text,
        tags_text,
        retained_until: head.retained_until.as_deref().map(text::time),
        legal_hold: head.legal_hold,
    })
}

fn preview(
    view: &View<'_>,
    bucket: &str,
    key: &str,
    version: Option<&str>,
    head: &ObjectHead,
) -> Result<Preview, Refusal> {
    let essence = head.content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let (kind, subtype) = essence.split_once('/').unwrap_or(("", ""));
    Ok(match kind {
        "image" => Preview::Image,
        "audio" => Preview::Audio,
        "video" => Preview::Video,
        "application" if subtype == "pdf" => Preview::Pdf,
        _ if is_text(kind, subtype) && head.size > 0 => {
            let (text, has_more) = beginning(view, bucket, key, version, head.size)?;
            Preview::Text(text, has_more)
        }
        _ => Preview::None,
    })
}

fn is_text(kind: &str, subtype: &str) -> bool {
    let is_textual = ["json", "xml", "yaml", "toml", "javascript", "x-sh"].contains(&subtype)
        || subtype.ends_with("+json")
        || subtype.ends_with("+xml");
    kind == "text" || kind == "application" && is_textual
}

/// The beginning of a text, and whether there is more of it.
fn beginning(
    view: &View<'_>,
    bucket: &str,
    key: &str,
    version: Option<&str>,
    size: u64,
) -> Result<(String, bool), Refusal> {
    let query: Vec<_> = version.map(|version| ("versionId", version)).into_iter().collect();
    let range = format!("bytes=0-{}", PREVIEW_BYTES - 1);
    let request = S3Request { query: &query, headers: &[("range", &range)], ..S3Request::default() };
    match view.s3().send(Method::Get, target(Some(bucket), Some(key))?, request) {
        Ok(reply) => Ok((String::from_utf8_lossy(&reply.body).into_owned(), size > PREVIEW_BYTES)),
        // The metadata may be seen where the content may not.
        Err(refusal) if refusal.status == 403 => Ok((refusal.message, false)),
        Err(refusal) => Err(refusal),
    }
}

/// The versions of the key, if the user may list them.
fn versions(
    view: &View<'_>,
    bucket: &str,
    key: &str,
    shown: Option<&str>,
) -> Result<Vec<VersionRow>, Refusal> {
    let folder = Folder { bucket, prefix: key, is_grouped: false };
    let listing = match view.s3().versions(folder, None) {
        Err(refusal) if refusal.status == 403 => return Ok(Vec::new()),
        listing => listing?,
    };
    let of_key = listing.objects.into_iter().filter(|object| object.key == key);
    Ok(of_key.map(|object| version_row(view, bucket, object, shown)).collect())
}

fn version_row(view: &View<'_>, bucket: &str, object: ObjectLine, shown: Option<&str>) -> VersionRow {
    let version = object.version.unwrap_or_default();
    let params = [("bucket", Some(bucket)), ("key", Some(&*object.key)), ("version", Some(&*version))];
    VersionRow {
        link: view.link("object", &params),
        id: super::delete::object_id(&object.key, Some(&version)),
        size: if object.is_marker { String::new() } else { text::size(object.size) },
        modified: text::time(&object.modified),
        is_shown: shown.map_or(object.is_current, |shown| shown == version),
        version,
        is_current: object.is_current,
        is_marker: object.is_marker,
    }
}
