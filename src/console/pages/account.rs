//! What everybody who signed in sees of themselves: rights, sessions and access keys.

use std::time::Instant;

use askama::Template;
use log::info;

use super::super::cookie::{self, Preference};
use super::super::form::EnteredFields;
use super::super::grant_words;
use super::super::s3_client::Refusal;
use super::super::sessions::OpenSession;
use super::super::shown_time::ShownTime;
use super::super::text::visible;
use super::super::tickets::{NewKeys, NewKeysPlace};
use super::roles::role_in_words;
use super::user_refusal::refusal;
use super::{Page, View, html, new_keys, see_other};
use crate::auth::Identity;
use crate::base::Timestamp;
use crate::s3::Response;
use crate::service::{NewServiceAccount, UserChange, UserEntry};

/// The ready-made policy of keys that may only read.
const READ_ONLY: &str = "readonly";

#[derive(Template)]
#[template(path = "account.html", config = "src/console/askama.toml")]
struct AccountPage<'a> {
    page: Page,
    /// The person who acts as the user, where an OpenID provider vouched for it.
    person: Option<String>,
    /// The access key of this session.
    access_key: &'a str,
    /// Why nothing is known of rights and keys.
    unknown: Option<String>,
    /// What the user may do, a sentence each.
    grants: Vec<String>,
    policies: Vec<String>,
    groups: Vec<String>,
    own_keys: Vec<OwnKey>,
    accounts: Vec<AccountRow>,
    /// Whether the forms for access keys are for this user.
    may_make_keys: bool,
    entered: EnteredFields<'a>,
    /// The first day on which keys may end.
    today: String,
    sessions: Vec<SessionRow>,
}

/// A key of the user itself, which an administrator changes.
pub(super) struct OwnKey {
    pub(super) access_key: String,
    is_of_session: bool,
    pub(super) is_inactive: bool,
    /// When it was made, if that is known.
    pub(super) made: Option<ShownTime>,
}

/// A service account of the user.
pub(super) struct AccountRow {
    /// The value of its field.
    pub(super) name: String,
    pub(super) shown_name: String,
    pub(super) access_key: String,
    /// When it ends, if it does.
    pub(super) expires: Option<ShownTime>,
    pub(super) has_expired: bool,
    /// When it was made, if that is known.
    pub(super) made: Option<ShownTime>,
    /// The policies that narrow it; empty for none.
    pub(super) narrowed_by: String,
}

/// A session of the user.
struct SessionRow {
    number: u64,
    is_this: bool,
    program: String,
    address: String,
    begun: ShownTime,
    last_used: ShownTime,
}

/// The page.
///
/// # Errors
/// None: a part that cannot be read says why.
pub(super) fn show(view: &View<'_>) -> Result<Response, Refusal> {
    let identity = &view.visitor.identity;
    let now = view.console.clock.now();
    let (entry, unknown) = match view.console.service.own_entry(identity) {
        Ok(entry) => (entry.unwrap_or_default(), None),
        Err(error) => (UserEntry::default(), Some(error.to_string())),
    };
    let has_keys = unknown.is_none() && !entry.from_environment;
    let page = AccountPage {
        page: view.page(),
        person: identity.person().map(|person| visible(&person.name).into_owned()),
        access_key: view.visitor.key.access_key(),
        unknown,
        grants: grants_of(&entry),
        policies: shown_names(entry.policies.iter().chain(entry.inline_policies.keys())),
        groups: shown_names(entry.groups.iter()),
        own_keys: own_keys(view, &entry),
        accounts: account_rows(&entry, now),
        may_make_keys: has_keys && view.console.service.may_make_own_keys(identity),
        entered: view.entered(&[("change", "create-key")]),
        today: now.to_iso8601().chars().take(10).collect(),
        sessions: own_sessions(view).iter().map(|session| session_row(view, session, now)).collect(),
    };
    Ok(html(200, &page.page, &page))
}

/// The rights that the users file grants to the user itself.
fn grants_of(entry: &UserEntry) -> Vec<String> {
    match role_in_words(&entry.allow) {
        Some(role) => vec![role],
        None => entry.allow.iter().map(grant_words::in_words).collect(),
    }
}

fn shown_names<'n>(names: impl Iterator<Item = &'n String>) -> Vec<String> {
    names.map(|name| visible(name).into_owned()).collect()
}

fn own_keys(view: &View<'_>, entry: &UserEntry) -> Vec<OwnKey> {
    let was_entered = view.visitor.identity.person().is_none();
    key_rows(entry, |access_key| was_entered && access_key == view.visitor.key.access_key())
}

/// The keys of a user itself.
pub(super) fn key_rows(entry: &UserEntry, is_of_session: impl Fn(&str) -> bool) -> Vec<OwnKey> {
    let keys = entry.access_keys.iter().map(|access_key| OwnKey {
        access_key: access_key.clone(),
        is_of_session: is_of_session(access_key),
        is_inactive: entry.inactive_keys.contains(access_key),
        made: entry.keys_created.get(access_key).map(|time| ShownTime::age(time)),
    });
    keys.collect()
}

/// The service accounts of a user.
pub(super) fn account_rows(entry: &UserEntry, now: Timestamp) -> Vec<AccountRow> {
    let mut rows = Vec::with_capacity(entry.service_accounts.len());
    for account in &entry.service_accounts {
        let expires = account.expires.as_deref();
        rows.push(AccountRow {
            name: account.name.clone(),
            shown_name: visible(&account.name).into_owned(),
            access_key: account.access_key.clone(),
            made: account.created.as_deref().map(ShownTime::age),
            has_expired: expires.and_then(Timestamp::parse_iso8601).is_some_and(|end| end <= now),
            expires: expires.map(ShownTime::age),
            narrowed_by: account.policies.as_ref().map(|names| names.join(", ")).unwrap_or_default(),
        });
    }
    rows
}

/// The sessions of the user or, where an OpenID provider vouched for one, of the person: others may
/// act as the same user. One whose key no longer counts is none.
fn own_sessions(view: &View<'_>) -> Vec<OpenSession> {
    let mut sessions = view.console.sessions.all(view.console.clock.instant());
    sessions.retain(|session| {
        let identity = view.console.authenticator.identity_of(&session.key, view.request);
        identity.is_some_and(|identity| is_same(&identity, &view.visitor.identity))
    });
    sessions
}

/// Whether two sessions act as the same user for the same person.
fn is_same(one: &Identity, other: &Identity) -> bool {
    let subject_of_one = one.person().map(|person| &person.subject);
    let subject_of_other = other.person().map(|person| &person.subject);
    one.name() == other.name() && subject_of_one == subject_of_other
}

fn session_row(view: &View<'_>, session: &OpenSession, now: Timestamp) -> SessionRow {
    let begun = wall_time(view, session.begun, now);
    let last_used = wall_time(view, session.last_used, now);
    SessionRow {
        number: session.number,
        is_this: session.id == view.visitor.session,
        program: session.place.agent.in_words().into_owned(),
        address: session.place.address.map_or_else(|| "unknown".to_owned(), |address| address.to_string()),
        begun: ShownTime::age(&begun),
        last_used: ShownTime::age(&last_used),
    }
}

/// The time of the wall clock at a moment before `now`.
fn wall_time(view: &View<'_>, moment: Instant, now: Timestamp) -> String {
    let age = view.console.clock.instant().duration_since(moment);
    let age = u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
    Timestamp::from_millis(now.as_millis().saturating_sub(age)).to_iso8601()
}

/// Ends sessions of the user, makes or deletes one of its service accounts, or turns the keys of
/// the pages on or off.
///
/// # Errors
/// The form is not one of the page; the change is refused.
pub(super) fn change(view: &View<'_>) -> Result<Response, Refusal> {
    match view.required("change")? {
        "end-session" => end_session(view),
        "end-others" => end_others(view),
        "create-key" => create_key(view),
        "replace-key" => replace_key(view),
        "delete-key" => delete_key(view),
        "page-keys" => set_page_keys(view),
        _ => Err(Refusal::new(400, "There is no such change.")),
    }
}

/// Turns the single keys of the pages on or off in this browser. Speech input and shaking hands
/// press them without meaning to.
fn set_page_keys(view: &View<'_>) -> Result<Response, Refusal> {
    let is_on = view.required("on")? == "1";
    view.tell(if is_on { "The single keys are on" } else { "The single keys are off" });
    let response = see_other(&view.link("account", &[]));
    Ok(cookie::remember(&view.console.root, response, view.request, Preference::LetterKeys, is_on))
}

/// The sessions of the user beside this one, which ends by signing out.
fn other_sessions(view: &View<'_>) -> Vec<OpenSession> {
    let mut sessions = own_sessions(view);
    sessions.retain(|session| session.id != view.visitor.session);
    sessions
}

fn end_session(view: &View<'_>) -> Result<Response, Refusal> {
    let number: Option<u64> = view.required("session")?.parse().ok();
    let sessions = other_sessions(view);
    let session = sessions.iter().find(|session| Some(session.number) == number);
    let session = session.ok_or_else(|| Refusal::new(404, "This session has ended already."))?;
    view.console.sessions.end(&session.id);
    info!("console: {} ended a session of its own", view.visitor.identity.name());
    view.tell(format!("Ended the session of {}", session.place.agent.in_words()));
    Ok(see_other(&view.link("account", &[])))
}

fn end_others(view: &View<'_>) -> Result<Response, Refusal> {
    let sessions = other_sessions(view);
    for session in &sessions {
        view.console.sessions.end(&session.id);
    }
    let count = sessions.len();
    info!("console: {} ended {count} sessions of its own", view.visitor.identity.name());
    view.tell(match count {
        1 => "Ended 1 other session".to_owned(),
        count => format!("Ended {count} other sessions"),
    });
    Ok(see_other(&view.link("account", &[])))
}

/// The service account that the form of a new key asks for.
///
/// # Errors
/// It has no label.
pub(super) fn new_account(view: &View<'_>) -> Result<NewServiceAccount, Refusal> {
    let name = view.required("label")?.trim().to_owned();
    // The day is the last one, whole.
    let expires = view.given("expires").map(|day| format!("{day}T23:59:59Z"));
    let policy = view.given("read-only").map(|_| READ_ONLY.to_owned());
    Ok(NewServiceAccount { name, policy, expires })
}

fn create_key(view: &View<'_>) -> Result<Response, Refusal> {
    make_key(view, new_account(view)?, None)
}

fn make_key(
    view: &View<'_>,
    account: NewServiceAccount,
    replaces: Option<String>,
) -> Result<Response, Refusal> {
    let name = account.name.clone();
    let user = view.visitor.identity.name().to_owned();
    let change = UserChange::CreateServiceAccount { user, account };
    let made = view.console.service.change_user(&view.visitor.identity, view.request, &change);
    let keys = made.map_err(|error| refusal(&error))?;
    let keys = keys.ok_or_else(|| Refusal::new(400, "This user has no keys."))?;
    let made_by = NewKeysPlace::Account;
    Ok(new_keys::lead_to(view, NewKeys { holder: name, keys, has_previous: false, replaces, made_by }))
}

/// Makes a key like one of the user's, which stays valid until it is deleted.
fn replace_key(view: &View<'_>) -> Result<Response, Refusal> {
    let old = view.required("account")?;
    let entry = view.console.service.own_entry(&view.visitor.identity).map_err(|error| refusal(&error))?;
    let accounts = entry.unwrap_or_default().service_accounts;
    let account = accounts.iter().find(|account| account.name == old);
    let account = account.ok_or_else(|| Refusal::new(404, "There is no such key any more."))?;
    let has_ended = account.expires.as_deref().and_then(Timestamp::parse_iso8601);
    if has_ended.is_some_and(|end| end <= view.console.clock.now()) {
        return Err(Refusal::new(409, "This key has ended. Create a new one, and delete it."));
    }
    let policy = match account.policies.as_deref() {
        None => None,
        Some([policy]) => Some(policy.clone()),
        Some(_) => {
            let message = "This key is limited by several policies. Create a new one, and delete it.";
            return Err(Refusal::new(409, message));
        }
    };
    let taken: Vec<_> = accounts.iter().map(|account| account.name.as_str()).collect();
    let like = NewServiceAccount { name: next_label(old, &taken), policy, expires: account.expires.clone() };
    make_key(view, like, Some(old.to_owned()))
}

/// The label of the key after one: `laptop`, `laptop-2`, `laptop-3`.
fn next_label(label: &str, taken: &[&str]) -> String {
    let numbered =
        label.rsplit_once('-').and_then(|(stem, number)| Some((stem, number.parse::<u32>().ok()?)));
    let (stem, mut number) = numbered.unwrap_or((label, 1));
    loop {
        number = number.saturating_add(1);
        let next = format!("{stem}-{number}");
        if !taken.contains(&&*next) || number == u32::MAX {
            return next;
        }
    }
}

fn delete_key(view: &View<'_>) -> Result<Response, Refusal> {
    let account = view.required("account")?.to_owned();
    let told = format!("Deleted the access key {}", visible(&account));
    let user = view.visitor.identity.name().to_owned();
    let change = UserChange::DeleteServiceAccount { user, account };
    let made = view.console.service.change_user(&view.visitor.identity, view.request, &change);
    made.map_err(|error| refusal(&error))?;
    view.tell(told);
    Ok(see_other(&view.link("account", &[])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_label_after_one_is_free() {
        assert_eq!(next_label("laptop", &["laptop"]), "laptop-2");
        assert_eq!(next_label("laptop-2", &["laptop-2", "laptop-3"]), "laptop-4");
        assert_eq!(next_label("a-b", &[]), "a-b-2");
        assert_eq!(next_label("a-4294967295", &[]), "a-4294967295");
    }
}
