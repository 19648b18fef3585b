//! The users and their keys, for administrators.

use askama::Template;

use super::super::form::EnteredFields;
use super::super::s3_client::Refusal;
use super::super::seen;
use super::super::text::visible;
use super::super::tickets::{NewKeys, NewKeysPlace};
use super::account::{self, AccountRow, OwnKey};
use super::roles::{OfferedRole, ROLES, grants_of};
use super::user_quota::{self, UserQuota};
use super::user_refusal::refusal;
use super::user_rows::{self, AccessRow, UserLine};
use super::{Page, View, html, new_keys, see_other};
use crate::auth::Users;
use crate::s3::{Method, Response, uri};
use crate::service::{GrantEntry, GroupEntry, PolicyEntry, UserChange, UserEntry};

#[derive(Template)]
#[template(path = "users.html", config = "src/console/askama.toml")]
struct UsersPage<'a> {
    page: Page,
    table: Vec<UserLine>,
    users: Vec<Row<'a>>,
    groups: Vec<GroupEntry>,
    /// Those of the users file.
    policies: Vec<PolicyEntry>,
    roles: &'static [OfferedRole],
    created: EnteredFields<'a>,
    /// The first day on which keys may end.
    today: String,
}

/// A user on the page.
struct Row<'a> {
    user: UserEntry,
    keys: Vec<OwnKey>,
    /// What the forms of the user show, as their field has it.
    shown: String,
    /// Whether a change of the user was refused.
    is_refused: bool,
    granted: EnteredFields<'a>,
    shown_name: String,
    /// The grants, a line each.
    grants: String,
    has_previous: bool,
    anchor: String,
    /// Its service accounts.
    accounts: Vec<AccountRow>,
    key_entered: EnteredFields<'a>,
    /// `None` where the visitor may not see it, and for those who own nothing.
    quota: Option<UserQuota>,
    quota_entered: EnteredFields<'a>,
    /// What it may do in each bucket, if that was asked for.
    access: Option<Vec<AccessRow>>,
    /// The page with that.
    access_link: String,
}

/// The page.
///
/// # Errors
/// The user may not list users; the users file cannot be read.
pub(super) fn show(view: &View<'_>) -> Result<Response, Refusal> {
    let entries = view.console.service.users(&view.visitor.identity).map_err(|error| refusal(&error))?;
    let table = user_rows::table(view, &entries);
    let mut users = Vec::with_capacity(entries.len());
    for (at, user) in entries.into_iter().enumerate() {
        users.push(row(view, user, at)?);
    }
    let created = view.entered(&[("change", "create")]);
    let groups = view.console.service.groups(&view.visitor.identity).map_err(|error| refusal(&error))?;
    let groups = groups.into_iter().map(|group| GroupEntry {
        members: group.members.iter().map(|member| visible(member).into_owned()).collect(),
        ..group
    });
    let groups = groups.collect();
    let policies = view.console.service.policies(&view.visitor.identity).map_err(|error| refusal(&error))?;
    let policies = policies.into_iter().filter(|policy| !policy.ready_made).collect();
    let today = view.console.clock.now().to_iso8601().chars().take(10).collect();
    let page = UsersPage { page: view.page(), table, users, groups, policies, roles: &ROLES, created, today };
    Ok(html(200, &page.page, &page))
}

fn row<'a>(view: &'a View<'_>, user: UserEntry, at: usize) -> Result<Row<'a>, Refusal> {
    let of_user = view.entered(&[("name", &user.name)]);
    let granted = view.entered(&[("name", &user.name), ("change", "grants")]);
    let key_entered = view.entered(&[("name", &user.name), ("change", "create-key")]);
    let is_asked_for = view.request.method == Method::Get && view.given("access") == Some(&*user.name);
    let access = is_asked_for.then(|| access(view, &user)).transpose()?;
    let anchor = user_rows::anchor(at);
    let access_link = format!("{}#{anchor}", view.link("users", &[("access", Some(&user.name))]));
    let keys = account::key_rows(&user, |_| false);
    let accounts = account::account_rows(&user, view.console.clock.now());
    let is_refused = of_user.are_there() && of_user.text("change", "") != "create";
    let grants = user.allow.iter().map(line).collect::<Vec<_>>().join("\n");
    let shown = shown(&user);
    let shown_name = visible(&user.name).into_owned();
    let has_previous = user.access_keys.len() > 1;
    let owns = user.name != Users::ANONYMOUS;
    let quota = if owns { UserQuota::read(view, &user.name) } else { None };
    let quota_entered = view.entered(&[("name", &user.name), ("change", "quota")]);
    Ok(Row {
        user,
        keys,
        shown,
        is_refused,
        granted,
        shown_name,
        grants,
        has_previous,
        anchor,
        accounts,
        key_entered,
        quota,
        quota_entered,
        access,
        access_link,
    })
}

/// What a user may do in the first buckets that the administrator may list.
fn access(view: &View<'_>, user: &UserEntry) -> Result<Vec<AccessRow>, Refusal> {
    let (lines, _) = view.s3().buckets(None)?;
    let buckets: Vec<_> = lines.into_iter().map(|line| line.name).collect();
    let names: Vec<_> = buckets.iter().map(String::as_str).collect();
    let service = &view.console.service;
    let access = service.access_of(&view.visitor.identity, view.request, user, &names);
    Ok(user_rows::access_rows(&buckets, &access.map_err(|error| refusal(&error))?))
}

/// A grant as `siltstone user list` shows it.
fn line(entry: &GrantEntry) -> String {
    format!("{} on {}", entry.actions.join(","), entry.resources.join(","))
}

/// The digest of what the forms of a user show.
fn shown(user: &UserEntry) -> String {
    let keys = user.access_keys.iter().map(|key| ("key", &**key));
    let grants = user.allow.iter().flat_map(|entry| {
        let actions = entry.actions.iter().map(|action| ("action", &**action));
        actions.chain(entry.resources.iter().map(|resource| ("resource", &**resource)))
    });
    let resting = user.inactive_keys.iter().map(|key| ("inactive", &**key));
    seen::digest(&uri::encode_pairs(keys.chain(grants).chain(resting)))
}

/// A change of one user.
///
/// # Errors
/// The form is not one of the page, or the user may not change users.
pub(super) fn change(view: &View<'_>) -> Result<Response, Refusal> {
    if view.given("change") == Some("quota") {
        return user_quota::set(view);
    }
    let name = view.required("name")?.to_owned();
    // Whoever may not list the users may change none, which the change itself finds and notes.
    let present = view.console.service.users(&view.visitor.identity).unwrap_or_default();
    let present = present.into_iter().find(|user| user.name == name);
    if let Some(user) = &present {
        seen::check_digest(view.given("shown"), &shown(user))?;
    }
    let change = asked_change(view, name, present.as_ref().map(|user| &*user.allow).unwrap_or_default())?;
    let made = view.console.service.change_user(&view.visitor.identity, view.request, &change);
    match made.map_err(|error| refusal(&error))? {
        Some(keys) => {
            let has_previous = matches!(change, UserChange::RotateKeys { .. });
            let holder = match &change {
                UserChange::CreateServiceAccount { account, .. } => account.name.clone(),
                change => change.name().to_owned(),
            };
            let made_by = NewKeysPlace::Users;
            Ok(new_keys::lead_to(view, NewKeys { holder, keys, has_previous, replaces: None, made_by }))
        }
        None => {
            view.tell(format!("Saved the user {}", visible(change.name())));
            Ok(see_other(&view.link("users", &[])))
        }
    }
}

fn asked_change(view: &View<'_>, name: String, present: &[GrantEntry]) -> Result<UserChange, Refusal> {
    Ok(match view.required("change")? {
        "create" => UserChange::Create { name, allow: role_grants(view)? },
        "grants" => {
            UserChange::SetGrants { name, allow: grants(view.given("grants").unwrap_or_default(), present)? }
        }
        "rotate" => UserChange::RotateKeys { name },
        "finish" => UserChange::RemovePreviousKeys { name },
        "create-key" => UserChange::CreateServiceAccount { user: name, account: account::new_account(view)? },
        "delete-key" => {
            UserChange::DeleteServiceAccount { user: name, account: view.required("account")?.to_owned() }
        }
        "delete" if view.given("sure").is_some() => UserChange::Delete { name },
        "delete" => return Err(Refusal::new(400, "Tick the box to remove the user.")),
        _ => return Err(Refusal::new(400, "There is no such change.")),
    })
}

fn role_grants(view: &View<'_>) -> Result<Vec<GrantEntry>, Refusal> {
    let role = view.required("role")?;
    if role == "custom" {
        return grants(view.given("grants").unwrap_or_default(), &[]);
    }
    let role = ROLES.iter().find(|known| known.name == role);
    let role = role.ok_or_else(|| Refusal::new(400, "There is no such role."))?;
    let bucket = view.given("bucket").unwrap_or_default().trim();
    let needs_bucket = role.needs_bucket();
    if needs_bucket && bucket.is_empty() {
        return Err(Refusal::new(400, "Name the bucket of this role."));
    }
    Ok(grants_of(role, bucket))
}

/// Grants as `siltstone user list` shows them: a line each, `ACTION,... on RESOURCE,...`.
fn grants(lines: &str, present: &[GrantEntry]) -> Result<Vec<GrantEntry>, Refusal> {
    let mut grants = Vec::new();
    for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let Some(grant) = grant(line, present) else {
            return Err(Refusal::new(
                400,
                format!("A grant is a line like GetObject,ListBucket on photos,photos/*, and not: {line}"),
            ));
        };
        grants.push(grant);
    }
    Ok(grants)
}

/// The grant of a line. The line of a present grant stands for it, also where its names have
/// commas.
fn grant(given: &str, present: &[GrantEntry]) -> Option<GrantEntry> {
    if let Some(known) = present.iter().find(|known| line(known).trim() == given) {
        return Some(known.clone());
    }
    let (actions, resources) = given.split_once(" on ")?;
    Some(GrantEntry { actions: names(actions), resources: names(resources) })
}

fn names(list: &str) -> Vec<String> {
    list.split(',').map(|name| name.trim().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grants_are_lines_of_actions_and_resources() {
        let parsed = grants(" GetObject, ListBucket on b,b/*\r\n\r\n* on *\n", &[]).unwrap();
        assert_eq!(parsed[0].actions, ["GetObject", "ListBucket"]);
        assert_eq!(parsed[0].resources, ["b", "b/*"]);
        assert!(parsed[1].is_everything() && parsed.len() == 2);
        assert!(grants("", &[]).unwrap().is_empty());
        assert!(grants("GetObject b/*", &[]).is_err());
    }

    #[test]
    fn grants_that_are_not_edited_stay_as_they_are() {
        let odd = GrantEntry {
            actions: vec!["GetObject".to_owned()],
            resources: vec!["b/a,b on c".to_owned(), "b/d ".to_owned()],
        };
        let edited =
            grants(&format!("{}\r\nPutObject on b/e", line(&odd)), std::slice::from_ref(&odd)).unwrap();
        assert_eq!(edited[0], odd);
        assert_eq!(edited[1].resources, ["b/e"]);
    }
}
