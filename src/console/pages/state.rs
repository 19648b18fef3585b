//! The state of the server, for administrators.

use askama::Template;

use super::super::s3_client::Refusal;
use super::super::text;
use super::{Page, View, html};
use crate::s3::Response;

#[derive(Template)]
#[template(path = "state.html", config = "src/console/askama.toml")]
struct StatePage {
    page: Page,
    /// Why writes are refused, if they are.
    problems: Vec<String>,
    rows: Vec<(&'static str, String)>,
    damage: Vec<String>,
}

pub(super) fn show(view: &View<'_>) -> Result<Response, Refusal> {
    if !view.visitor.identity.is_administrator() {
        return Err(Refusal::new(403, "The state of the server is for administrators."));
    }
    let health = view.console.service.health();
    let scrubbed =
        health.scrub.finished.map_or_else(|| "never".to_owned(), |at| text::time(&at.to_iso8601()));
    let rows = vec![
        ("Version", env!("CARGO_PKG_VERSION").to_owned()),
        ("Buckets", health.buckets.to_string()),
        ("Versions of objects", health.versions.to_string()),
        ("Bytes of objects", text::size(health.live_bytes)),
        (
            "Memory of the index",
            format!("{} of {}", text::size(health.index_bytes), text::size(health.index_max_bytes)),
        ),
        ("Data segments", health.segments.to_string()),
        ("Reclaimed since the start", text::size(health.reclaimed_bytes)),
        ("Last scrub of everything", scrubbed),
        ("Scrubbed since the start", text::size(health.scrub.bytes)),
        ("Damaged extents", health.scrub.bad.to_string()),
    ];
    let thread = health.stopped_thread.map(|name| format!("The thread {name} panicked. Restart the server."));
    let problems = [
        health.read_only.clone(),
        health.disk_full.then(|| "The disk is full, so puts are refused.".to_owned()),
        health.index_full.then(|| "The index is full, so puts are refused.".to_owned()),
        thread,
    ];
    let problems = problems.into_iter().flatten().collect();
    let damage = health.damage.iter().map(ToString::to_string).collect();
    Ok(html(200, &StatePage { page: view.page(), problems, rows, damage }))
}
