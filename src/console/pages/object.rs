//! One object: its properties, a preview, its versions.

use askama::Template;

use super::super::form::EnteredFields;
use super::super::guard;
use super::super::objects::{Folder, ObjectHead, ObjectLine};
use super::super::pair_rows::{self, PairRow};
use super::super::s3_client::{Refusal, S3Request, target};
use super::super::seen;
use super::super::selected_object::SelectedObject;
use super::super::shown_time::{ShownTime, TimedText};
use super::super::text;
use super::greyed::Lack;
use super::page_links::{PageLinks, PagedList};
use super::walk::Neighbours;
use super::{Page, View, html, share};
use crate::base::Timestamp;
use crate::s3::{Method, Operation, Response, uri};

/// Bytes of a text that are shown.
const PREVIEW_BYTES: u64 = 64 * 1024;
/// The largest image or document that is loaded before somebody asks for it.
const LOADED_MAX_BYTES: u64 = 20 << 20;
/// How long a link to share may last, in seconds and in words, and whether it does unless it is
/// asked otherwise.
const SHARED_FOR: [(&str, &str, bool); 3] =
    [("3600", "1 hour", false), ("86400", "1 day", true), ("604800", "7 days", false)];
/// What the forms of metadata and of tags send besides what was entered.
const METADATA_FORM: &[(&str, &str)] = &[("change", "metadata")];
const TAGS_FORM: &[(&str, &str)] = &[("change", "tags")];
const RETENTION_FORM: &[(&str, &str)] = &[("change", "retention")];

#[derive(Template)]
#[template(path = "object.html", config = "src/console/askama.toml")]
struct ObjectPage<'a> {
    page: Page,
    bucket: &'a str,
    bucket_link: String,
    /// The values of the fields of the key and of its folder.
    key: String,
    folder: String,
    name: String,
    id: String,
    version: Option<&'a str>,
    /// Whether the shown version is the current one.
    is_current: bool,
    /// What the user may do to the object.
    may_write: bool,
    may_tag: bool,
    may_read: bool,
    may_restore: bool,
    /// What the user lacks for what greyed buttons would do.
    read_lack: Option<Lack>,
    copy_lack: Option<Lack>,
    move_lack: Option<Lack>,
    delete_lack: Option<Lack>,
    restore_lack: Option<Lack>,
    /// What was entered in the forms of the page.
    metadata_entered: EnteredFields<'a>,
    tags_entered: EnteredFields<'a>,
    share_entered: EnteredFields<'a>,
    retention_entered: EnteredFields<'a>,
    /// What the user may do to the locks; `None` in a bucket without them.
    locks: Option<LockForms>,
    head: Result<Properties, String>,
    /// The time of the deletion, where the object is deleted and can come back.
    deleted: Option<ShownTime>,
    /// The pages of the objects before and after this one in its folder.
    previous_link: Option<String>,
    next_link: Option<String>,
    icon: &'static str,
    /// The addresses for clients.
    path: String,
    url: String,
    /// The first and the last day on which a shared link can end.
    first_day: String,
    last_day: String,
    content: String,
    /// The address of the content for a frame.
    frame: String,
    preview: Preview,
    versions: Vec<VersionRow>,
    /// The pages with newer and older versions.
    links: PageLinks,
}

/// The forms for the locks of a version.
struct LockForms {
    may_retain: bool,
    may_hold: bool,
}

struct Properties {
    size: String,
    content_type: String,
    modified: TimedText,
    etag: String,
    metadata: Vec<(String, String)>,
    tags: Vec<(String, String)>,
    /// Both as the rows of a form.
    metadata_rows: Vec<PairRow>,
    tag_rows: Vec<PairRow>,
    /// What the form of the tags shows, as its field has it.
    tags_shown: String,
    /// The entity tag, percent-encoded.
    etag_value: String,
    retained_until: Option<ShownTime>,
    retention_mode: String,
    legal_hold: bool,
}

/// The content within the page.
enum Preview {
    None,
    /// A large one, with the page that loads it.
    OnClick(String),
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
    time: ShownTime,
    is_current: bool,
    is_marker: bool,
    is_shown: bool,
}

pub(super) fn show(view: &View<'_>) -> Result<Response, Refusal> {
    let bucket = view.required("bucket")?;
    let key = &*view.key()?;
    let version = view.given("version");
    let head = view.s3().head(bucket, key, version);
    let VersionList { rows: versions, next } = versions(view, bucket, key, version)?;
    if let Err(refusal) = &head
        && versions.is_empty()
    {
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
    let Neighbours { previous, next: next_object } = match version {
        None => Neighbours::read(view, bucket, folder_of(key).unwrap_or_default(), key),
        Some(_) => Neighbours::default(),
    };
    let link = |key: &String| view.link("object", &[("bucket", Some(bucket)), ("key", Some(key))]);
    let first = view.link("object", &[("bucket", Some(bucket)), ("key", Some(key)), ("version", version)]);
    let list = PagedList { first: &first, beginning: &["after"] };
    let next = next.as_deref().map(|after| [("after", after)]);
    let now = view.console.clock.now();
    let id = SelectedObject {
        key: key.to_owned(),
        version: version.map(str::to_owned),
        etag: head.as_ref().ok().map(|head| head.etag.clone()),
    };
    let content =
        view.link("content", &[("bucket", Some(bucket)), ("key", Some(key)), ("versionId", version)]);
    let lack = |operation| match version {
        Some(_) => view.lack_to_versions(operation, bucket, key),
        None => view.lack(operation, bucket, Some(key)),
    };
    let read_lack = lack(Operation::GetObject);
    let delete_lack = lack(Operation::DeleteObject);
    let write_lack = view.lack(Operation::PutObject, bucket, Some(key));
    let copy_lack = write_lack.clone().or_else(|| read_lack.clone());
    let page = ObjectPage {
        page: view.page(),
        bucket,
        bucket_link: view.link("bucket", &[("name", Some(bucket)), ("prefix", folder_of(key))]),
        key: uri::encode_query(key),
        folder: uri::encode_query(folder_of(key).unwrap_or_default()),
        name: text::visible(key).into_owned(),
        id: id.field(),
        version,
        is_current: is_current(view, bucket, key, version),
        may_write: view.may(Operation::PutObject, bucket, Some(key)),
        may_tag: view.may(Operation::PutObjectTagging, bucket, Some(key)),
        may_read: read_lack.is_none(),
        restore_lack: write_lack.or_else(|| view.lack_to_versions(Operation::GetObject, bucket, key)),
        may_restore: view.may_restore(bucket, key),
        move_lack: copy_lack.clone().or_else(|| delete_lack.clone()),
        read_lack,
        copy_lack,
        delete_lack,
        metadata_entered: view.entered(METADATA_FORM),
        tags_entered: view.entered(TAGS_FORM),
        share_entered: if view.params.has("expires") { view.entered(&[]) } else { EnteredFields::default() },
        retention_entered: view.entered(RETENTION_FORM),
        locks: lock_forms(view, bucket, key),
        deleted: head.is_err().then(|| deletion(&versions)).flatten(),
        head,
        previous_link: previous.as_ref().map(link),
        next_link: next_object.as_ref().map(link),
        icon: text::icon_of(key),
        path: text::s3_path(bucket, key),
        url: view.s3_url(bucket, key),
        first_day: share::day(now),
        last_day: share::last_day(now),
        frame: format!("{content}&view=1"),
        content,
        preview,
        versions,
        links: PageLinks::of(&view.params, list, next.as_ref().map(<[_; 1]>::as_slice)),
    };
    let response = html(200, &page.page, &page);
    Ok(match page.preview {
        Preview::Pdf => guard::with_frames(response),
        _ => response,
    })
}

/// The time at which an object was deleted whose versions are there still.
fn deletion(versions: &[VersionRow]) -> Option<ShownTime> {
    let marker = versions.first().filter(|newest| newest.is_marker && newest.is_current)?;
    versions.iter().any(|version| !version.is_marker).then(|| marker.time.clone())
}

/// Whether a version is the current one, as far as the user may know.
fn is_current(view: &View<'_>, bucket: &str, key: &str, version: Option<&str>) -> bool {
    version.is_none_or(|version| {
        let current = view.s3().head(bucket, key, None);
        current.is_ok_and(|current| current.version.as_deref() == Some(version))
    })
}

/// What the user may do to the locks of an object, if its bucket has locks, as far as the user may
/// know.
fn lock_forms(view: &View<'_>, bucket: &str, key: &str) -> Option<LockForms> {
    let document = view.document(bucket, "object-lock").ok()?;
    let has_locks = document.contains("<ObjectLockEnabled>Enabled<");
    has_locks.then(|| LockForms {
        may_retain: view.may(Operation::PutObjectRetention, bucket, Some(key)),
        may_hold: view.may(Operation::PutObjectLegalHold, bucket, Some(key)),
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
    let metadata_rows = pair_rows::shown(view.entered(METADATA_FORM), &head.metadata);
    let tag_rows = pair_rows::shown(view.entered(TAGS_FORM), &tags);
    let tags_shown = seen::digest(&seen::pairs(&tags));

    Ok(Properties {
        size: text::size(head.size),
        content_type: text::visible(&head.content_type).into_owned(),
        modified: match Timestamp::parse_http_date(&head.modified) {
            Some(time) => TimedText::moment(time),
            None => head.modified.into(),
        },
        etag_value: uri::encode_query(&head.etag),
        etag: head.etag,
        metadata: visible_pairs(&head.metadata),
        tags: visible_pairs(&tags),
        metadata_rows,
        tag_rows,
        tags_shown,
        retained_until: head.retained_until.as_deref().map(ShownTime::moment),
        retention_mode: head.retention_mode.unwrap_or_default().to_lowercase(),
        legal_hold: head.legal_hold,
    })
}

fn visible_pairs(pairs: &[(String, String)]) -> Vec<(String, String)> {
    let visible = pairs.iter().map(|(name, value)| (text::visible(name), text::visible(value)));
    visible.map(|(name, value)| (name.into_owned(), value.into_owned())).collect()
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
    let is_loaded_whole = kind == "image" || essence == "application/pdf";
    if is_loaded_whole && head.size > LOADED_MAX_BYTES && view.given("preview").is_none() {
        let params =
            [("bucket", Some(bucket)), ("key", Some(key)), ("version", version), ("preview", Some("1"))];
        return Ok(Preview::OnClick(view.link("object", &params)));
    }
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

/// Some versions of a key, and where the list goes on.
#[derive(Default)]
struct VersionList {
    rows: Vec<VersionRow>,
    next: Option<String>,
}

/// The versions of the key, if the user may list them.
fn versions(view: &View<'_>, bucket: &str, key: &str, shown: Option<&str>) -> Result<VersionList, Refusal> {
    let folder = Folder { bucket, prefix: key, is_grouped: false };
    let after = view.given("after").map(|version| (key, Some(version)));
    let listing = match view.s3().versions(folder, after) {
        Err(refusal) if refusal.status == 403 => return Ok(VersionList::default()),
        listing => listing?,
    };
    let of_key = listing.objects.into_iter().filter(|object| object.key == key);
    // Keys that begin with this one come after its last version.
    let next = listing.next.filter(|(next, _)| next == key).and_then(|(_, version)| version);
    Ok(VersionList { rows: of_key.map(|object| version_row(view, bucket, object, shown)).collect(), next })
}

fn version_row(view: &View<'_>, bucket: &str, object: ObjectLine, shown: Option<&str>) -> VersionRow {
    let id = object.selected();
    let version = object.version.unwrap_or_default();
    let params = [("bucket", Some(bucket)), ("key", Some(&*object.key)), ("version", Some(&*version))];
    VersionRow {
        link: view.link("object", &params),
        id: id.field(),
        size: if object.is_marker { String::new() } else { text::size(object.size) },
        time: ShownTime::of_day(&object.modified),
        is_shown: shown.map_or(object.is_current, |shown| shown == version),
        version,
        is_current: object.is_current,
        is_marker: object.is_marker,
    }
}
