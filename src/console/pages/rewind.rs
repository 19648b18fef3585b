//! The rewind of a folder: the question with the list of changes, then the changes in steps.

use askama::Template;

use super::super::objects::Folder;
use super::super::rewind::{self, Rewind, RewindChange, RewindStep, RewindTarget};
use super::super::s3_client::Refusal;
use super::super::shown_time::ShownTime;
use super::super::text;
use super::{Page, View, html};
use crate::base::Timestamp;
use crate::console::form::decoded;
use crate::s3::{Response, uri};

#[derive(Template)]
#[template(path = "rewind.html", config = "src/console/askama.toml")]
struct RewindPage<'a> {
    page: Page,
    bucket: &'a str,
    /// The prefix as shown.
    prefix: String,
    /// The prefix, percent-encoded, as the field has it.
    at: String,
    back: String,
    has_versions: bool,
    /// The value of the field of the time.
    time_value: String,
    preview: Option<RewindPreview>,
}

/// A part of the list of changes.
struct RewindPreview {
    restored: Vec<String>,
    removed: Vec<String>,
    bytes: String,
    /// The address of the further part.
    next: Option<String>,
    is_first: bool,
    /// The time to return to.
    time: String,
    shown_time: ShownTime,
    /// The time of this list.
    seen: String,
}

#[derive(Template)]
#[template(path = "rewound.html", config = "src/console/askama.toml")]
struct RewoundPage<'a> {
    page: Page,
    bucket: &'a str,
    at: String,
    back: String,
    time: &'a str,
    seen: &'a str,
    restored: u64,
    removed: u64,
    /// Keys that were not changed, and the reasons.
    failed: Vec<(String, String)>,
    /// The value of the field for the next step.
    after: Option<String>,
}

/// The form for the time and, with a time, the changes.
pub(super) fn show(view: &View<'_>) -> Result<Response, Refusal> {
    let bucket = view.required("bucket")?;
    let prefix = &*view.folder()?;
    let time = view.given("time").unwrap_or_default();
    let has_versions = super::settings::versioning(view, bucket).as_deref() == Some("Enabled");
    // A bucket that is not there has nothing to rewind.
    view.s3().objects(Folder { bucket, prefix, is_grouped: true }, None)?;
    let preview = match time {
        "" => None,
        _ if view.refusal.is_some() => None,
        _ if !has_versions => return Err(without_versions()),
        written => Some(preview(view, Rewind { bucket, prefix, time: rewind::time(written)? })?),
    };
    let page = RewindPage {
        page: view.page(),
        bucket,
        prefix: text::visible(prefix).into_owned(),
        at: uri::encode_query(prefix),
        back: back(view, bucket, prefix),
        has_versions,
        time_value: match &preview {
            Some(preview) => preview.time[..19].to_owned(),
            None => view.entered(&[]).text("time", "").to_owned(),
        },
        preview,
    };
    Ok(html(200, &page.page, &page))
}

fn back(view: &View<'_>, bucket: &str, prefix: &str) -> String {
    view.link(
        "bucket",
        &[("name", Some(bucket)), ("prefix", Some(prefix).filter(|prefix| !prefix.is_empty()))],
    )
}

fn without_versions() -> Refusal {
    Refusal::new(409, "Only a bucket that keeps versions can return to an earlier time.")
}

fn preview(view: &View<'_>, rewind: Rewind<'_>) -> Result<RewindPreview, Refusal> {
    let after = view.given("after");
    let now = view.console.clock.now();
    let seen = view.given("seen").map_or(Ok(now), rewind::time)?.to_iso8601();
    let step = RewindStep::read(&view.s3(), rewind, after)?;
    let mut preview = RewindPreview {
        restored: Vec::new(),
        removed: Vec::new(),
        bytes: String::new(),
        next: None,
        is_first: after.is_none(),
        time: rewind.time.to_iso8601(),
        shown_time: ShownTime::moment(&rewind.time.to_iso8601()),
        seen,
    };
    let mut bytes = 0;
    for change in &step.changes {
        let name = text::visible(&change.key).into_owned();
        match &change.target {
            RewindTarget::Absence => preview.removed.push(name),
            RewindTarget::Version { size, .. } => {
                bytes += size;
                preview.restored.push(name);
            }
        }
    }
    preview.bytes = text::size(bytes);
    preview.next = step.next.map(|after| {
        let params = [
            ("bucket", Some(rewind.bucket)),
            ("prefix", Some(rewind.prefix)),
            ("time", Some(&*preview.time)),
            ("seen", Some(&*preview.seen)),
            ("after", Some(&*after)),
        ];
        view.link("rewind", &params)
    });
    Ok(preview)
}

/// Makes the changes of one step. `seen` is the time of the list: an object that was changed after
/// it stays as it is.
pub(super) fn answer(view: &View<'_>) -> Result<Response, Refusal> {
    let bucket = view.required("bucket")?;
    let written = view.required("time")?;
    let seen = view.required("seen")?;
    let prefix = decoded(view.given("at").unwrap_or_default())?;
    let after = view.given("after").map(decoded).transpose()?;
    if super::settings::versioning(view, bucket).as_deref() != Some("Enabled") {
        return Err(without_versions());
    }
    let rewind = Rewind { bucket, prefix: &prefix, time: rewind::time(written)? };
    let step = RewindStep::read(&view.s3(), rewind, after.as_deref())?;

    let mut page = RewoundPage {
        page: view.page(),
        bucket,
        at: uri::encode_query(&prefix),
        back: back(view, bucket, &prefix),
        time: written,
        seen,
        restored: given_count(view, "restored"),
        removed: given_count(view, "removed"),
        failed: Vec::new(),
        after: step.next.as_deref().map(uri::encode_query),
    };
    page.make(view, bucket, &step.changes, rewind::time(seen)?);
    Ok(html(if page.failed.is_empty() { 200 } else { 409 }, &page.page, &page))
}

fn given_count(view: &View<'_>, name: &str) -> u64 {
    view.given(name).and_then(|count| count.parse().ok()).unwrap_or(0)
}

impl RewoundPage<'_> {
    fn make(&mut self, view: &View<'_>, bucket: &str, changes: &[RewindChange], seen: Timestamp) {
        for change in changes {
            let made = match change.modified > seen {
                true => Err(Refusal::new(412, "It was changed after the list was shown.")),
                false => change.make(&view.s3(), bucket),
            };
            let counter = match change.target {
                RewindTarget::Version { .. } => &mut self.restored,
                RewindTarget::Absence => &mut self.removed,
            };
            match made {
                Ok(()) => *counter = counter.saturating_add(1),
                Err(refusal) => {
                    self.failed.push((text::visible(&change.key).into_owned(), refusal.message));
                }
            }
        }
    }
}
