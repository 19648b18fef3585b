//! The last requests of all users, for administrators, and what the server does now.

use std::collections::BTreeSet;

use askama::Template;

use super::super::s3_client::Refusal;
use super::super::shown_time::ShownTime;
use super::super::text::{self, visible};
use super::state_tabs::StateTabs;
use super::user_refusal::refusal;
use super::{Page, View, html};
use crate::s3::{Response, uri};
use crate::service::{Activity, BusyName, NotedRequest};

/// How the sender of a request is called who is not known, also in the filter.
const UNKNOWN: &str = "(unknown)";

/// The offered classes of status.
const CLASSES: [StatusClass; 6] = [
    StatusClass { name: "", label: "All", first: 0, last: u16::MAX },
    StatusClass { name: "errors", label: "Errors (4xx and 5xx)", first: 400, last: 599 },
    StatusClass { name: "2xx", label: "2xx", first: 200, last: 299 },
    StatusClass { name: "3xx", label: "3xx", first: 300, last: 399 },
    StatusClass { name: "4xx", label: "4xx", first: 400, last: 499 },
    StatusClass { name: "5xx", label: "5xx", first: 500, last: 599 },
];

/// Statuses that the filter names.
struct StatusClass {
    /// The value of the field.
    name: &'static str,
    label: &'static str,
    first: u16,
    last: u16,
}

#[derive(Template)]
#[template(path = "activity.html", config = "src/console/askama.toml")]
struct ActivityPage<'a> {
    page: Page,
    tabs: StateTabs,
    figures: Vec<NowFigure>,
    user: FilterChoice<'a>,
    bucket: FilterChoice<'a>,
    status: &'a str,
    classes: &'static [StatusClass],
    is_filtered: bool,
    busiest: [BusyTable; 2],
    rows: Vec<ActivityRow>,
    /// Requests that the filters leave out.
    hidden: usize,
    /// The page with the same filters, which shows what has come since.
    again: String,
}

/// A number and its name.
struct NowFigure {
    name: &'static str,
    value: String,
}

/// A field of the filter.
struct FilterChoice<'a> {
    chosen: &'a str,
    offered: BTreeSet<String>,
}

/// Users, or buckets, with the most requests of the last hour.
struct BusyTable {
    title: &'static str,
    /// The column of the names.
    of: &'static str,
    rows: Vec<BusyRow>,
}

struct BusyRow {
    name: String,
    requests: String,
    bytes: String,
}

/// A request on the page.
struct ActivityRow {
    time: ShownTime,
    user: String,
    /// The address of the client; empty where it is unknown.
    peer: String,
    operation: String,
    path: String,
    status: u16,
    is_error: bool,
    error: String,
    received: String,
    sent: String,
    took: String,
    id: String,
}

/// The page.
///
/// # Errors
/// The user may not see it.
pub(super) fn show(view: &View<'_>) -> Result<Response, Refusal> {
    let activity = view.console.service.activity(&view.visitor.identity);
    let activity = activity.map_err(|error| refusal(&error))?;
    let user = view.given("user").unwrap_or_default();
    let bucket = view.given("bucket").unwrap_or_default();
    let status = view.given("status").unwrap_or_default();
    let class = CLASSES.iter().find(|class| class.name == status).unwrap_or(&CLASSES[0]);
    let is_shown = |request: &&NotedRequest| {
        (user.is_empty() || user_of(request) == user)
            && (bucket.is_empty() || bucket_of(request) == bucket)
            && (class.first..=class.last).contains(&request.status)
    };
    let rows: Vec<_> = activity.requests.iter().filter(is_shown).map(row).collect();
    let filters =
        [("user", view.given("user")), ("bucket", view.given("bucket")), ("status", view.given("status"))];
    let page = ActivityPage {
        page: view.page(),
        tabs: StateTabs::of(view, "activity"),
        figures: figures(&activity),
        user: choice(user, &activity, user_of),
        bucket: choice(bucket, &activity, bucket_of),
        status: class.name,
        classes: &CLASSES,
        is_filtered: filters.iter().any(|(_, value)| value.is_some()),
        hidden: activity.requests.len() - rows.len(),
        busiest: [
            busy_table("Users with the most requests", "User", &activity.busiest.users),
            busy_table("Buckets with the most requests", "Bucket", &activity.busiest.buckets),
        ],
        rows,
        again: view.link("activity", &filters),
    };
    Ok(html(200, &page.page, &page))
}

/// What the server does now.
fn figures(activity: &Activity) -> Vec<NowFigure> {
    let rates = activity.rates;
    let mut figures = vec![
        NowFigure { name: "Requests a second", value: format!("{:.1}", rates.requests) },
        NowFigure { name: "In", value: format!("{}/s", text::size(rates.received_bytes as u64)) },
        NowFigure { name: "Out", value: format!("{}/s", text::size(rates.sent_bytes as u64)) },
        NowFigure { name: "Open uploads", value: text::count(activity.open_uploads) },
    ];
    if let Some(load) = activity.load {
        let busy = format!("{} of {}", load.busy_workers, load.workers);
        figures.push(NowFigure { name: "Busy workers", value: busy });
        figures.push(NowFigure { name: "Requests waiting", value: load.waiting.to_string() });
        figures.push(NowFigure { name: "Connections", value: load.connections.to_string() });
    }
    figures
}

fn busy_table(title: &'static str, of: &'static str, busy: &[BusyName]) -> BusyTable {
    let rows = busy.iter().map(|it| BusyRow {
        name: visible(&it.name).into_owned(),
        requests: text::count(it.requests),
        bytes: text::size(it.bytes),
    });
    BusyTable { title, of, rows: rows.collect() }
}

/// What a filter offers: what is there, and what was chosen.
fn choice<'a>(chosen: &'a str, activity: &Activity, of: fn(&NotedRequest) -> String) -> FilterChoice<'a> {
    let mut offered: BTreeSet<_> = activity.requests.iter().map(of).collect();
    offered.insert(chosen.to_owned());
    offered.remove("");
    FilterChoice { chosen, offered }
}

fn user_of(request: &NotedRequest) -> String {
    request.user.clone().unwrap_or_else(|| UNKNOWN.to_owned())
}

/// The bucket that the path begins with; empty for a path without one. Pages of the server are in
/// none.
fn bucket_of(request: &NotedRequest) -> String {
    let path = request.path.strip_prefix('/').unwrap_or(&request.path);
    let bucket = path.split('/').next().unwrap_or_default();
    if bucket == "-" { String::new() } else { shown_path(bucket) }
}

/// A path as people read it: decoded, if it can be.
fn shown_path(path: &str) -> String {
    let decoded = uri::decode_path(path).unwrap_or_else(|_| path.to_owned());
    visible(&decoded).into_owned()
}

fn row(request: &NotedRequest) -> ActivityRow {
    ActivityRow {
        time: ShownTime::of_clock(&request.time.to_iso8601()),
        user: visible(&user_of(request)).into_owned(),
        peer: request.peer.map(|peer| peer.to_string()).unwrap_or_default(),
        operation: if request.operation == "None" { String::new() } else { request.operation.clone() },
        path: shown_path(&request.path),
        status: request.status,
        is_error: request.status >= 400,
        error: request.error.clone().unwrap_or_default(),
        received: bytes(request.received),
        sent: bytes(request.sent),
        took: millis(request.took.as_micros()),
        id: request.id.clone(),
    }
}

/// A number of bytes; empty for none.
fn bytes(count: u64) -> String {
    if count == 0 { String::new() } else { text::size(count) }
}

/// Microseconds, as milliseconds: one decimal of less than ten.
fn millis(micros: u128) -> String {
    match micros {
        0..10_000 => format!("{}.{}", micros / 1_000, micros % 1_000 / 100),
        _ => (micros / 1_000).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_in_milliseconds() {
        assert_eq!(
            [0, 99, 150, 9_999, 10_000, 1_234_567].map(millis),
            ["0.0", "0.0", "0.1", "9.9", "10", "1234"]
        );
    }
}
