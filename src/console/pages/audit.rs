//! The last changes of buckets, users, permissions and locks, for administrators.

use askama::Template;

use super::super::s3_client::Refusal;
use super::super::shown_time::ShownTime;
use super::super::text::visible;
use super::state_tabs::StateTabs;
use super::user_refusal::refusal;
use super::{Page, View, html};
use crate::s3::Response;
use crate::service::NotedAct;

#[derive(Template)]
#[template(path = "audit.html", config = "src/console/askama.toml")]
struct AuditPage {
    page: Page,
    tabs: StateTabs,
    /// Whether an audit log has all of them.
    are_logged: bool,
    rows: Vec<ActRow>,
}

/// An act on the page.
struct ActRow {
    time: ShownTime,
    who: String,
    /// The key, the session and the address.
    by: String,
    action: String,
    /// What it was done to.
    on: String,
    outcome: String,
    is_refused: bool,
    id: String,
}

/// The page.
///
/// # Errors
/// The user may not see it.
pub(super) fn show(view: &View<'_>) -> Result<Response, Refusal> {
    let last = view.console.service.last_acts(&view.visitor.identity);
    let last = last.map_err(|error| refusal(&error))?;
    let page = AuditPage {
        page: view.page(),
        tabs: StateTabs::of(view, "audit"),
        are_logged: last.are_logged,
        rows: last.acts.iter().map(row).collect(),
    };
    Ok(html(200, &page.page, &page))
}

fn row(act: &NotedAct) -> ActRow {
    let user = act.user.as_deref().unwrap_or("unknown");
    let who = match &act.person {
        Some(person) => format!("{person} as {user}"),
        None => user.to_owned(),
    };
    let is_refused = act.error.is_some();
    ActRow {
        time: ShownTime::age(&act.time.to_iso8601()),
        who: visible(&who).into_owned(),
        by: visible(&by(act)).into_owned(),
        action: act.action.clone(),
        on: visible(&on(act)).into_owned(),
        outcome: act.error.clone().unwrap_or_else(|| "done".to_owned()),
        is_refused,
        id: act.id.clone().unwrap_or_default(),
    }
}

/// By what the sender is known.
fn by(act: &NotedAct) -> String {
    let mut parts = Vec::new();
    if let Some(number) = act.console_session {
        parts.push(format!("console session {number}"));
    }
    if let Some(session) = &act.session {
        parts.push(session.clone());
    }
    if let Some(key) = &act.access_key {
        parts.push(format!("key {key}"));
    }
    if let Some(peer) = &act.peer {
        parts.push(format!("from {peer}"));
    }
    parts.join(", ")
}

/// What an act was done to.
fn on(act: &NotedAct) -> String {
    let place = match (&act.bucket, &act.key) {
        (Some(bucket), Some(key)) => Some(format!("{bucket}/{key}")),
        (Some(bucket), None) => Some(bucket.clone()),
        (None, _) => None,
    };
    let version = act.version.as_ref().map(|version| format!("version {version}"));
    let parts = [act.subject.clone(), place, version];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
}
