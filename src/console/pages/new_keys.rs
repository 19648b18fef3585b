//! The page of new keys, which shows them once.

use askama::Template;

use super::super::s3_client::Refusal;
use super::super::text::visible;
use super::super::tickets::{NewKeys, NewKeysPlace};
use super::{Page, View, html, see_other};
use crate::auth::KeyPair;
use crate::s3::Response;

#[derive(Template)]
#[template(path = "new_keys.html", config = "src/console/askama.toml")]
struct NewKeysPage<'a> {
    page: Page,
    holder: String,
    keys: KeyPair,
    /// Whether the keys before these are valid still.
    has_previous: bool,
    /// The service account whose keys these are to take the place of.
    replaces: Option<String>,
    made_by: NewKeysPlace,
    endpoint: String,
    region: &'a str,
}

/// The way to the page of keys that a change has made. A reload of that page repeats nothing.
pub(super) fn lead_to(view: &View<'_>, new_keys: NewKeys) -> Response {
    let console = view.console;
    let session = view.visitor.session;
    let ticket = console.tickets.offer(session, new_keys, console.clock.now(), &*console.entropy);
    see_other(&view.link("new-keys", &[("ticket", Some(&ticket))]))
}

/// The keys that a change has made. A reload shows them no more, and makes none.
///
/// # Errors
/// They were shown before, or belong to another session.
pub(super) fn show(view: &View<'_>) -> Result<Response, Refusal> {
    let ticket = view.given("ticket").unwrap_or_default();
    let new_keys = view.console.tickets.redeem(ticket, view.visitor.session, view.console.clock.now());
    let new_keys = new_keys.ok_or_else(|| {
        Refusal::new(404, "These keys were shown once. If they are lost, make new ones where they were made.")
    })?;
    let section = match new_keys.made_by {
        NewKeysPlace::Users => "users",
        NewKeysPlace::Account => "account",
    };
    let page = NewKeysPage {
        page: Page { section, ..view.page() },
        holder: visible(&new_keys.holder).into_owned(),
        keys: new_keys.keys,
        has_previous: new_keys.has_previous,
        replaces: new_keys.replaces,
        made_by: new_keys.made_by,
        endpoint: view.s3_origin(),
        region: view.console.service.region(),
    };
    Ok(html(200, &page.page, &page))
}
