//! The users and their keys, for administrators.

use askama::Template;

use super::super::form::EnteredFields;
use super::super::s3_client::Refusal;
use super::super::seen;
use super::super::text::visible;
use super::super::tickets::{NewKeys, NewKeysPlace};
use super::{Page, View, html, new_keys, see_other};
use crate::s3::{Response, uri};
use crate::service::{GrantEntry, GroupEntry, PolicyEntry, UserChange, UserEntry, UserError};

/// A ready-made set of grants.
struct OfferedRole {
    /// The value in the form.
    name: &'static str,
    label: &'static str,
    /// Actions, and the resources in which `BUCKET` stands for the name in the form.
    grants: &'static [(&'static [&'static str], &'static [&'static str])],
}

const LISTING: &[&str] = &["ListBucket", "GetBucketLocation"];

/// The first page of the console, and of most clients. It lists the buckets that the user may
/// list.
const BUCKETS: (&[&str], &[&str]) = (&["ListAllMyBuckets"], &["*"]);

const ROLES: [OfferedRole; 5] = [
    OfferedRole {
        name: "read",
        label: "Read the bucket",
        grants: &[BUCKETS, (LISTING, &["BUCKET"]), (&["GetObject"], &["BUCKET/*"])],
    },
    OfferedRole {
        name: "write",
        label: "Read, write and delete in the bucket",
        grants: &[
            BUCKETS,
            (&["ListBucket", "GetBucketLocation", "ListBucketMultipartUploads"], &["BUCKET"]),
            (
                &[
                    "GetObject",
                    "PutObject",
                    "DeleteObject",
                    "AbortMultipartUpload",
                    "ListMultipartUploadParts",
                ],
                &["BUCKET/*"],
            ),
        ],
    },
    OfferedRole {
        name: "create",
        label: "Read the bucket and add objects, but replace and delete none (backups)",
        grants: &[
            BUCKETS,
            (LISTING, &["BUCKET"]),
            (
                &["GetObject", "CreateObject", "AbortMultipartUpload", "ListMultipartUploadParts"],
                &["BUCKET/*"],
            ),
        ],
    },
    OfferedRole {
        name: "own",
        label: "Make buckets, and do everything in these",
        grants: &[(&["CreateBucket"], &["*"]), (&["*"], &["@owned"])],
    },
    OfferedRole { name: "administrator", label: "Everything: an administrator", grants: &[(&["*"], &["*"])] },
];

#[derive(Template)]
#[template(path = "users.html", config = "src/console/askama.toml")]
struct UsersPage<'a> {
    page: Page,
    users: Vec<Row<'a>>,
    groups: Vec<GroupEntry>,
    /// Those of the users file.
    policies: Vec<PolicyEntry>,
    roles: &'static [OfferedRole],
    created: EnteredFields<'a>,
}

/// A user on the page.
struct Row<'a> {
    user: UserEntry,
    /// What the forms of the user show, as their field has it.
    shown: String,
    /// Whether a change of the user was refused.
    is_refused: bool,
    granted: EnteredFields<'a>,
    shown_name: String,
    /// The grants, a line each.
    grants: String,
    has_previous: bool,
}

/// The page.
///
/// # Errors
/// The user may not list users; the users file cannot be read.
pub(super) fn show(view: &View<'_>) -> Result<Response, Refusal> {
    let users = view.console.service.users(&view.visitor.identity).map_err(|error| refusal(&error))?;
    let users = users.into_iter().map(|user| row(view, user)).collect();
    let created = view.entered(&[("change", "create")]);
    let groups = view.console.service.groups(&view.visitor.identity).map_err(|error| refusal(&error))?;
    let groups = groups.into_iter().map(|group| GroupEntry {
        members: group.members.iter().map(|member| visible(member).into_owned()).collect(),
        ..group
    });
    let groups = groups.collect();
    let policies = view.console.service.policies(&view.visitor.identity).map_err(|error| refusal(&error))?;
    let policies = policies.into_iter().filter(|policy| !policy.ready_made).collect();
    let page = UsersPage { page: view.page(), users, groups, policies, roles: &ROLES, created };
    Ok(html(200, &page.page, &page))
}

fn row<'a>(view: &'a View<'_>, user: UserEntry) -> Row<'a> {
    let of_user = view.entered(&[("name", &user.name)]);
    let granted = view.entered(&[("name", &user.name), ("change", "grants")]);
    let is_refused = of_user.are_there() && of_user.text("change", "") != "create";
    let grants = user.allow.iter().map(line).collect::<Vec<_>>().join("\n");
    let shown = shown(&user);
    let shown_name = visible(&user.name).into_owned();
    let has_previous = user.access_keys.len() > 1;
    Row { user, shown, is_refused, granted, shown_name, grants, has_previous }
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
            let holder = change.name().to_owned();
            let made_by = NewKeysPlace::Users;
            Ok(new_keys::lead_to(view, NewKeys { holder, keys, has_previous, made_by }))
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
    let needs_bucket = role.grants.iter().any(|(_, on)| on.iter().any(|text| text.contains("BUCKET")));
    if needs_bucket && bucket.is_empty() {
        return Err(Refusal::new(400, "Name the bucket of this role."));
    }
    Ok(grants_of(role, bucket))
}

/// The grants of a role for one bucket.
fn grants_of(role: &OfferedRole, bucket: &str) -> Vec<GrantEntry> {
    let entries = role.grants.iter().map(|(actions, on)| GrantEntry {
        actions: for_bucket(actions, bucket),
        resources: for_bucket(on, bucket),
    });
    entries.collect()
}

/// The ready-made role that has these grants, with its bucket.
pub(super) fn role_in_words(allow: &[GrantEntry]) -> Option<String> {
    let resources = allow.iter().flat_map(|entry| &entry.resources);
    let bucket = resources.into_iter().find(|name| !name.contains(['*', '/', '@']));
    let bucket = bucket.map(String::as_str).unwrap_or_default();
    let role = ROLES.iter().find(|role| grants_of(role, bucket) == allow)?;
    Some(role.label.replace("the bucket", &format!("the bucket {}", visible(bucket))))
}

fn for_bucket(texts: &[&str], bucket: &str) -> Vec<String> {
    texts.iter().map(|text| text.replace("BUCKET", bucket)).collect()
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

pub(super) fn refusal(error: &UserError) -> Refusal {
    let status = match error {
        UserError::Denied(_) => 403,
        UserError::Unknown { .. } => 404,
        UserError::Invalid(_)
        | UserError::Taken { .. }
        | UserError::Missing(_)
        | UserError::InUse(_)
        | UserError::TooMany(_) => 400,
        UserError::Refused(_) => 409,
        UserError::Failed(_) => 500,
    };
    Refusal::new(status, error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::Users;

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

    #[test]
    fn the_grants_of_a_role_are_told_by_its_label() {
        let words = |name: &str| {
            let role = ROLES.iter().find(|role| role.name == name).unwrap();
            role_in_words(&grants_of(role, "photos"))
        };
        assert_eq!(words("read").as_deref(), Some("Read the bucket photos"));
        assert_eq!(words("own").as_deref(), Some("Make buckets, and do everything in these"));
        assert_eq!(words("administrator").as_deref(), Some("Everything: an administrator"));
        let mut more = grants_of(&ROLES[0], "photos");
        more.push(GrantEntry::everything());
        assert_eq!((role_in_words(&more), role_in_words(&[])), (None, None));
    }

    #[test]
    fn every_role_is_accepted_in_a_users_file() {
        for role in &ROLES {
            let allow: String = role
                .grants
                .iter()
                .map(|(actions, on)| {
                    format!(
                        "[[user.allow]]\nactions = {actions:?}\nresources = {:?}\n",
                        on.iter().map(|on| on.replace("BUCKET", "photos")).collect::<Vec<_>>()
                    )
                })
                .collect();
            let text =
                format!("[[user]]\nname = \"u\"\naccess_key = \"A\"\nsecret_key = \"secret\"\n{allow}");
            assert!(Users::parse(&text).is_ok(), "{}: {:?}", role.name, Users::parse(&text));
        }
    }
}
