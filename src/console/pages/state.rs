//! The state of the server, for administrators.

use askama::Template;

use super::super::s3_client::Refusal;
use super::super::shown_time::{ShownTime, TimedText};
use super::super::text;
use super::disks::{self, DiskTable};
use super::state_tabs::StateTabs;
use super::{Page, View, html};
use crate::auth::Action;
use crate::s3::Response;
use crate::service::{CommitFigures, DamagedObject, Health, NotedRequest, ShownKey};

/// Damaged objects that the page names.
const DAMAGED_MAX: usize = 100;
const DAY_SECS: u64 = 24 * 60 * 60;

#[derive(Template)]
#[template(path = "state.html", config = "src/console/askama.toml")]
struct StatePage {
    page: Page,
    /// Why writes are refused, if they are.
    problems: Vec<String>,
    rows: Vec<(&'static str, String)>,
    /// Those with a time, which come after the others.
    times: Vec<(&'static str, TimedText)>,
    disks: Option<DiskTable>,
    tabs: StateTabs,
    keys: Vec<KeyRow>,
    /// What the ring lacks.
    key_lack: Option<String>,
    /// Whether the file of the keys is on the disk of the data.
    keys_are_with_data: bool,
    damage: Vec<String>,
    damaged: Vec<DamagedRow>,
    /// Damaged objects that are not shown.
    further: usize,
    /// Titles and requests.
    noted: [(&'static str, Vec<RequestRow>); 2],
}

/// A key of encrypted objects, without the key itself.
struct KeyRow {
    id: String,
    name: String,
    state: &'static str,
    made: ShownTime,
}

/// An object with a damaged extent.
struct DamagedRow {
    name: String,
    link: String,
}

/// A request that failed, or was slow.
struct RequestRow {
    time: ShownTime,
    user: String,
    operation: String,
    path: String,
    outcome: String,
    id: String,
}

pub(super) fn show(view: &View<'_>) -> Result<Response, Refusal> {
    if !view.visitor.identity.may_administer(Action::AdminGetState) {
        return Err(Refusal::new(403, "The state of the server is for administrators."));
    }
    let health = view.console.service.health();
    let mut rows = vec![
        ("Version", env!("CARGO_PKG_VERSION").to_owned()),
        ("Buckets", text::count(health.buckets)),
        ("Versions of objects", text::count(health.versions)),
        ("Bytes of objects", text::size(health.live_bytes)),
        (
            "Memory of the index",
            format!("{} of {}", text::size(health.index_bytes), text::size(health.index_max_bytes)),
        ),
        ("Data segments", text::count(health.segments)),
        ("Reclaimed since the start", text::size(health.reclaimed_bytes)),
        ("Scrubbed since the start", text::size(health.scrub.bytes)),
        ("Damaged extents", health.scrub.bad.to_string()),
        ("Log files replaced", health.scrub.replaced_log_files.to_string()),
    ];
    rows.extend(disk_rows(&health));
    rows.extend(commit_rows(&view.console.service.commit_figures()));
    let scrubbed = health.scrub.finished.map_or_else(|| "never".into(), TimedText::moment);
    let log_checked = health.scrub.log_finished.map_or_else(|| "not yet".into(), TimedText::moment);
    let mut times = vec![("Last scrub of everything", scrubbed), ("Last check of the log", log_checked)];
    times.extend(certificate_row(view));
    let thread = health.stopped_thread.map(|name| format!("The thread {name} panicked. Restart the server."));
    let problems = [
        health.read_only.clone(),
        health.disk_full.then(|| "The disk is full, so puts are refused.".to_owned()),
        health.index_full.then(|| "The index is full, so puts are refused.".to_owned()),
        thread,
    ];
    let problems = problems.into_iter().flatten().collect();
    let damage = health.damage.iter().map(ToString::to_string).collect();
    let damaged = view.console.service.damaged_objects();
    let further = damaged.len().saturating_sub(DAMAGED_MAX);
    let damaged = damaged.into_iter().take(DAMAGED_MAX).map(|object| damaged_row(view, object));
    let ring = view.console.service.key_ring();
    let noted = view.console.service.noted_requests();
    let page = StatePage {
        page: view.page(),
        problems,
        rows,
        times,
        disks: disks::of(view, &health),
        tabs: StateTabs::of(view, "state"),
        key_lack: ring.lack(),
        keys_are_with_data: ring.is_with_data,
        keys: ring.keys.into_iter().map(key_row).collect(),
        damage,
        damaged: damaged.collect(),
        further,
        noted: [
            ("The last requests that failed", noted.failed.into_iter().map(request_row).collect()),
            ("The last slow requests", noted.slow.into_iter().map(request_row).collect()),
        ],
    };
    Ok(html(200, &page.page, &page))
}

fn disk_rows(health: &Health) -> Vec<(&'static str, String)> {
    let disk = health.disk.map(|(free, total)| format!("{} of {}", text::size(free), text::size(total)));
    let replay = format!("{} s", health.replay_time.as_secs());
    vec![
        ("Free on the disk", disk.unwrap_or_else(|| "unknown".to_owned())),
        ("Start after a crash, at most about", replay),
    ]
}

/// The end of the certificate of the server, with TLS alone.
fn certificate_row(view: &View<'_>) -> Option<(&'static str, TimedText)> {
    let expires = view.console.service.certificate_expires()?;
    let now = view.console.clock.now();
    let left = match expires > now {
        true => format!("in {}", text::days(expires.distance(now).as_secs() / DAY_SECS)),
        false => "it has expired".to_owned(),
    };
    Some(("Certificate expires", TimedText::new("", expires, format!(" ({left})"))))
}

fn commit_rows(figures: &CommitFigures) -> Vec<(&'static str, String)> {
    let times = &figures.durations;
    if times.count == 0 {
        return vec![("Commits since the start", "0".to_owned())];
    }
    let bound = times.bound_of_99_percent().map_or_else(|| "longer than the scale".to_owned(), millis);
    vec![
        ("Commits since the start", text::count(times.count)),
        ("Mean time of a commit", millis(times.sum / times.count)),
        ("99 of 100 commits within", bound),
    ]
}

/// Microseconds, as milliseconds.
fn millis(micros: u64) -> String {
    format!("{}.{} ms", micros / 1_000, micros % 1_000 / 100)
}

fn key_row(key: ShownKey) -> KeyRow {
    let made = ShownTime::age(&key.created.to_iso8601());
    KeyRow { id: key.id, name: key.name.unwrap_or_default(), state: key.state.as_str(), made }
}

fn damaged_row(view: &View<'_>, object: DamagedObject) -> DamagedRow {
    let DamagedObject { bucket, key, version } = object;
    let params = [("bucket", Some(&*bucket)), ("key", Some(&*key)), ("version", version.as_deref())];
    let link = view.link("object", &params);
    let of_version = version.as_deref().map_or_else(|| "a part of an upload".to_owned(), str::to_owned);
    DamagedRow { name: format!("{bucket}/{} ({of_version})", text::visible(&key)), link }
}

fn request_row(noted: NotedRequest) -> RequestRow {
    let user = noted.user.as_deref().map(text::visible).unwrap_or_default().into_owned();
    let peer = noted.peer.map(|peer| format!(" from {peer}")).unwrap_or_default();
    let error = noted.error.map(|code| format!(" {code}")).unwrap_or_default();
    RequestRow {
        time: ShownTime::age(&noted.time.to_iso8601()),
        user: user + &peer,
        operation: noted.operation,
        path: text::visible(&noted.path).into_owned(),
        outcome: format!("{}{error}, {} ms", noted.status, noted.took.as_millis()),
        id: noted.id,
    }
}
