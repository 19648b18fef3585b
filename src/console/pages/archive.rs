//! Download of objects and folders as one archive, after a page that shows its size and names the
//! objects that are left out.

use askama::Template;

use super::super::archive::{ArchiveEntry, ArchiveFormat, ArchiveSource, ArchivedObject, EntryNames};
use super::super::s3_client::Refusal;
use super::super::selected_object::SelectedObject;
use super::super::selection::{Selection, SelectionPlace};
use super::super::text;
use super::{Page, View, html};
use crate::base::Timestamp;
use crate::console::form::{self, decoded};
use crate::s3::{Response, ResponseBody, uri};

/// Objects of one archive. Of folders with more the rest is left out, and the page says so.
const ARCHIVED_MAX: usize = 10_000;
/// Names that the page shows.
const SHOWN_MAX: usize = 100;
/// The memory of an object in the list, besides its names.
const ROW_BYTES: u64 = 512;
/// Copies of a key: in the list, as the name of the entry and its copy in the directory at the end,
/// and in the set of names.
const NAME_COPIES: u64 = 5;

#[derive(Template)]
#[template(path = "archive.html", config = "src/console/askama.toml")]
struct ArchiveQuestion<'a> {
    page: Page,
    bucket: &'a str,
    back: String,
    /// The fields that select the objects, once more.
    fields: Vec<(&'a str, &'a str)>,
    count: usize,
    bytes: String,
    unreadable: Vec<String>,
    further: usize,
    is_cut: bool,
}

impl ArchiveQuestion<'_> {
    fn shown_count(&self) -> String {
        text::count(self.count as u64)
    }
}

/// An object that is to be in the archive.
struct ArchivedSource {
    key: String,
    version: Option<String>,
    etag: String,
    size: u64,
    modified_secs: u64,
}

#[derive(Default)]
struct ArchiveContent {
    objects: Vec<ArchivedSource>,
    /// Names of objects that may not be read, as shown.
    unreadable: Vec<String>,
    is_cut: bool,
}

/// The fields select as in a deletion; `confirmed` asks for the archive itself.
pub(super) fn answer(view: &View<'_>) -> Result<Response, Refusal> {
    let bucket = view.required("bucket")?;
    let at = view.given("at").map(decoded).transpose()?.unwrap_or_default();
    let selection = Selection::read(&view.params)?;
    let content = ArchiveContent::select(view, bucket, &selection)?;
    if view.given("confirmed").is_none() {
        let page = question(view, bucket, &at, content);
        return Ok(html(200, &page.page, &page));
    }
    if content.objects.is_empty() {
        return Err(Refusal::new(404, "There is nothing to download."));
    }
    let format = ArchiveFormat::named(view.given("format").unwrap_or("tar"));
    let format = format.ok_or_else(|| Refusal::new(400, "An archive is a zip or a tar archive."))?;
    send(view, bucket, &at, format, content.objects)
}

fn question<'a>(
    view: &'a View<'_>,
    bucket: &'a str,
    at: &str,
    content: ArchiveContent,
) -> ArchiveQuestion<'a> {
    let prefix = Some(at).filter(|at| !at.is_empty());
    let mut unreadable = content.unreadable;
    let further = unreadable.len().saturating_sub(SHOWN_MAX);
    unreadable.truncate(SHOWN_MAX);
    ArchiveQuestion {
        page: view.page(),
        bucket,
        back: view.link("bucket", &[("name", Some(bucket)), ("prefix", prefix)]),
        fields: form::without(&view.params, &["bucket", "confirmed", "format"]),
        count: content.objects.len(),
        bytes: text::size(content.objects.iter().map(|object| object.size).sum()),
        unreadable,
        further,
        is_cut: content.is_cut,
    }
}

/// The archive. Names are relative to the folder that the page showed.
fn send(
    view: &View<'_>,
    bucket: &str,
    at: &str,
    format: ArchiveFormat,
    objects: Vec<ArchivedSource>,
) -> Result<Response, Refusal> {
    let bytes = objects.iter().map(|object| ROW_BYTES + NAME_COPIES * object.key.len() as u64).sum();
    let held = view.console.service.reserve(bytes).map_err(|error| Refusal::of_error(&error))?;
    let keys = objects.iter().map(|object| object.key.strip_prefix(at).unwrap_or(&object.key));
    let mut names = EntryNames::of(format.name_rules(), keys);
    let mut archived = Vec::with_capacity(objects.len());
    for object in objects {
        let mut name = object.key.strip_prefix(at).unwrap_or(&object.key).to_owned();
        if let Some(version) = &object.version {
            name += &format!(".{version}");
        }
        let Some(name) = names.entry(&name, object.size == 0) else { continue };
        let entry = ArchiveEntry { name, size: object.size, modified_secs: object.modified_secs };
        archived.push(ArchivedObject { key: object.key, version: object.version, etag: object.etag, entry });
    }
    let sender = view.s3().sender();
    let (source, length) = ArchiveSource::new(view.console, view.visitor, sender, bucket, format, archived);
    let folder = at.trim_end_matches('/').rsplit('/').next().filter(|name| !name.is_empty());
    let file = format!("{}.{}", uri::encode_query(folder.unwrap_or(bucket)), format.extension());
    Ok(Response::new(200)
        .header("Content-Type", format.media_type())
        .header("Content-Disposition", format!("attachment; filename*=UTF-8''{file}"))
        .with_body(ResponseBody::Stream { length: Some(length), source: Box::new(source) })
        .holding(held))
}

impl ArchiveContent {
    fn select(view: &View<'_>, bucket: &str, selection: &Selection) -> Result<Self, Refusal> {
        let mut step = selection.step(&view.s3(), bucket, SelectionPlace::default(), ARCHIVED_MAX)?;
        let listed_max = ARCHIVED_MAX - step.named.len();
        let is_cut = step.next.is_some() || step.listed.len() > listed_max;
        step.listed.truncate(listed_max);
        let mut content = Self { is_cut, ..Self::default() };
        for object in step.named {
            content.add_object(view, bucket, object)?;
        }
        let keys: Vec<_> = step.listed.iter().map(|object| object.key.as_str()).collect();
        let readable = view.console.service.may_read(&view.visitor.identity, view.request, bucket, &keys);
        let readable = readable.map_err(|error| Refusal::of_error(&error))?;
        for (object, is_readable) in step.listed.into_iter().zip(readable) {
            if !is_readable {
                content.unreadable.push(text::visible(&object.key).into_owned());
                continue;
            }
            let modified = Timestamp::parse_iso8601(&object.modified);
            content.objects.push(ArchivedSource {
                key: object.key,
                version: None,
                etag: object.etag,
                size: object.size,
                modified_secs: modified.map_or(0, Timestamp::as_secs),
            });
        }
        content.objects.sort_by(|one, other| (&one.key, &one.version).cmp(&(&other.key, &other.version)));
        Ok(content)
    }

    fn add_object(&mut self, view: &View<'_>, bucket: &str, object: SelectedObject) -> Result<(), Refusal> {
        let head = match view.s3().head(bucket, &object.key, object.version.as_deref()) {
            Ok(head) => head,
            // A HEAD that is refused with 400 is one of an object under a key of its client.
            Err(refusal) if matches!(refusal.status, 400 | 403..=405) => {
                self.unreadable.push(text::visible(&object.key).into_owned());
                return Ok(());
            }
            Err(refusal) => return Err(refusal),
        };
        let modified = Timestamp::parse_http_date(&head.modified);
        self.objects.push(ArchivedSource {
            key: object.key,
            version: object.version,
            etag: head.etag,
            size: head.size,
            modified_secs: modified.map_or(0, Timestamp::as_secs),
        });
        Ok(())
    }
}
