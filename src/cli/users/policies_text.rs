//! Edits of the policies and the groups in the text of a users file, and of who has a policy.

use std::collections::BTreeMap;

use serde::Deserialize;
use siltstone::base::Timestamp;
use siltstone::service::{GroupEntry, PolicyChange, PolicyEntry, PolicyHolder};
use toml_edit::{Array, Datetime, Table};

use super::tables_text::{datetime, edit_tables, position, remove_table, shown_time};

/// The text after a change.
///
/// # Errors
/// There is no such policy, group or user, or the file has a form that cannot be edited.
pub(crate) fn changed(text: &str, change: &PolicyChange) -> Result<String, String> {
    match change {
        PolicyChange::PutPolicy { name, document } => put_policy(text, name, document, None),
        PolicyChange::DeletePolicy { name } => {
            check_unused(text, name)?;
            remove_table(text, "policy", name)
        }
        PolicyChange::CreateGroup { name } => create_group(text, name, None),
        PolicyChange::DeleteGroup { name } => remove_table(text, "group", name),
        PolicyChange::AddMember { group, user } => add_to(text, "group", group, "members", user),
        PolicyChange::RemoveMember { group, user } => remove_from(text, "group", group, "members", user),
        PolicyChange::Attach { to, policy } => add_to(text, kind(to), to.name(), "policy", policy),
        PolicyChange::Detach { from, policy } => remove_from(text, kind(from), from.name(), "policy", policy),
    }
}

/// The kind of the table of a user, group or role.
pub(super) fn kind(holder: &PolicyHolder) -> &'static str {
    match holder {
        PolicyHolder::User(_) => "user",
        PolicyHolder::Group(_) => "group",
        PolicyHolder::Role(_) => "role",
    }
}

/// Puts a policy: a new one, made at `created`, or another document of one.
///
/// # Errors
/// The file has a form that cannot be edited.
pub(super) fn put_policy(
    text: &str,
    name: &str,
    document: &str,
    created: Option<Timestamp>,
) -> Result<String, String> {
    let created = created.map(datetime).transpose()?;
    edit_tables(text, "policy", |policies| {
        if let Ok(at) = position(policies, "policy", name) {
            let policy = policies.get_mut(at).expect("it was found there");
            policy.insert("document", toml_edit::value(document));
            return Ok(String::new());
        }
        let mut policy = Table::new();
        policy["name"] = toml_edit::value(name);
        policy["document"] = toml_edit::value(document);
        if let Some(created) = created {
            policy["created"] = toml_edit::value(created);
        }
        policies.push(policy);
        Ok(String::new())
    })
}

/// Adds a group without members and policies.
///
/// # Errors
/// The file has a form that cannot be edited.
pub(super) fn create_group(text: &str, name: &str, created: Option<Timestamp>) -> Result<String, String> {
    let created = created.map(datetime).transpose()?;
    edit_tables(text, "group", |groups| {
        let mut group = Table::new();
        group["name"] = toml_edit::value(name);
        group["members"] = toml_edit::value(Array::new());
        if let Some(created) = created {
            group["created"] = toml_edit::value(created);
        }
        groups.push(group);
        Ok(String::new())
    })
}

/// Adds a text to a list of a table, unless it is there.
fn add_to(text: &str, kind: &'static str, name: &str, field: &str, entry: &str) -> Result<String, String> {
    edit_tables(text, kind, |tables| {
        let at = position(tables, kind, name)?;
        let list = list_mut(tables.get_mut(at).expect("it was found there"), field)?;
        if !list.iter().any(|it| it.as_str() == Some(entry)) {
            list.push(entry);
        }
        Ok(String::new())
    })
}

/// Removes a text from a list of a table.
fn remove_from(
    text: &str,
    kind: &'static str,
    name: &str,
    field: &str,
    entry: &str,
) -> Result<String, String> {
    edit_tables(text, kind, |tables| {
        let at = position(tables, kind, name)?;
        let list = list_mut(tables.get_mut(at).expect("it was found there"), field)?;
        let at = list.iter().position(|it| it.as_str() == Some(entry));
        list.remove(at.ok_or_else(|| format!("the {kind} `{name}` has no `{entry}`"))?);
        Ok(String::new())
    })
}

/// A list of a table. A single text becomes a list of one.
fn list_mut<'t>(table: &'t mut Table, field: &str) -> Result<&'t mut Array, String> {
    let item = table.entry(field).or_insert_with(|| toml_edit::value(Array::new()));
    if let Some(only) = item.as_str() {
        let list: Array = [only].into_iter().collect();
        *item = toml_edit::value(list);
    }
    item.as_array_mut().ok_or_else(|| format!("`{field}` is no list"))
}

/// The text without a user among the members of its groups.
///
/// # Errors
/// The file has a form that cannot be edited.
pub(super) fn without_member(text: &str, user: &str) -> Result<String, String> {
    let mut text = text.to_owned();
    for group in groups(&text)? {
        if group.members.iter().any(|member| member == user) {
            text = remove_from(&text, "group", &group.name, "members", user)?;
        }
    }
    Ok(text)
}

/// Checks that nobody has a policy.
///
/// # Errors
/// Says who has it.
pub(super) fn check_unused(text: &str, policy: &str) -> Result<(), String> {
    let holders = parsed(text)?;
    let all = holders.user.iter().chain(&holders.group).chain(&holders.role).chain(&holders.service_account);
    let holders = all.filter(|holder| texts(holder.policy.as_ref()).iter().any(|it| it == policy));
    let names: Vec<_> = holders.map(|holder| holder.name.as_str()).take(10).collect();
    match names.is_empty() {
        true => Ok(()),
        false => Err(format!("the policy `{policy}` is attached to {}", names.join(", "))),
    }
}

#[derive(Deserialize)]
struct ListedHolder {
    name: String,
    #[serde(default)]
    members: Vec<String>,
    policy: Option<toml::Value>,
    #[serde(default)]
    inline_policies: BTreeMap<String, String>,
    created: Option<Datetime>,
}

#[derive(Deserialize)]
struct ListedPolicy {
    name: String,
    document: String,
    created: Option<Datetime>,
}

#[derive(Deserialize)]
struct HoldersToml {
    #[serde(default)]
    user: Vec<ListedHolder>,
    #[serde(default)]
    group: Vec<ListedHolder>,
    #[serde(default)]
    role: Vec<ListedHolder>,
    #[serde(default)]
    service_account: Vec<ListedHolder>,
    #[serde(default)]
    policy: Vec<ListedPolicy>,
}

fn parsed(text: &str) -> Result<HoldersToml, String> {
    toml::from_str(text).map_err(|e| e.message().to_owned())
}

/// The policies of the file in its order, then the ready-made ones.
///
/// # Errors
/// The text is not a valid users file.
pub(crate) fn policies(text: &str) -> Result<Vec<PolicyEntry>, String> {
    let of_file = parsed(text)?.policy.into_iter();
    let of_file = of_file.map(|policy| PolicyEntry {
        created: policy.created.as_ref().map(shown_time),
        name: policy.name,
        document: policy.document,
        ready_made: false,
    });
    Ok(of_file.chain(PolicyEntry::ready_made()).collect())
}

/// The groups in the order of the file.
///
/// # Errors
/// The text is not a valid users file.
pub(crate) fn groups(text: &str) -> Result<Vec<GroupEntry>, String> {
    let mut groups = Vec::new();
    for group in parsed(text)?.group {
        groups.push(GroupEntry {
            policies: texts(group.policy.as_ref()),
            created: group.created.as_ref().map(shown_time),
            inline_policies: group.inline_policies,
            name: group.name,
            members: group.members,
        });
    }
    Ok(groups)
}

/// The texts of a field `policy`: names and documents.
pub(super) fn texts(field: Option<&toml::Value>) -> Vec<String> {
    match field {
        Some(toml::Value::Array(entries)) => {
            entries.iter().filter_map(toml::Value::as_str).map(str::to_owned).collect()
        }
        Some(only) => only.as_str().map(str::to_owned).into_iter().collect(),
        None => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use siltstone::auth::Users;

    use super::*;

    const FILE: &str = "\
# The boss.
[[user]]
name = \"ann\"
access_key = \"AK1\"
secret_key = 's1'
policy = '{\"Statement\": {\"Effect\": \"Allow\", \"Action\": \"s3:*\", \"Resource\": \"*\"}}' # all

[[user.allow]]
actions = [\"*\"]
resources = [\"*\"]

# A robot.
[[user]]
name = \"bob\"
access_key = \"AK2\"
secret_key = 's2'

# Who reads.
[[group]]
name = \"readers\"
members = [\"bob\"] # and others
policy = [\"readonly\"]
";

    const DOCUMENT: &str = "{\"Statement\": {\"Effect\": \"Deny\",\n \"Action\": \"s3:*\", \"Resource\": \"arn:aws:s3:::it's/*\"}}";

    fn after(text: &str, change: &PolicyChange) -> String {
        let text = changed(text, change).unwrap();
        Users::parse(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
        text
    }

    fn group(name: &str) -> PolicyHolder {
        PolicyHolder::Group(name.to_owned())
    }

    fn user(name: &str) -> PolicyHolder {
        PolicyHolder::User(name.to_owned())
    }

    #[test]
    fn policies_are_put_attached_detached_and_removed() {
        let name = || "lake".to_owned();
        let put = |document: &str| PolicyChange::PutPolicy { name: name(), document: document.to_owned() };
        let text =
            after(FILE, &put(r#"{"Statement": {"Effect": "Allow", "Action": "s3:*", "Resource": "*"}}"#));
        let text = after(&text, &put(DOCUMENT));
        let listed = policies(&text).unwrap();
        assert_eq!((&*listed[0].name, &*listed[0].document, listed.len()), ("lake", DOCUMENT, 6));
        assert!(listed[1..].iter().all(|policy| policy.ready_made) && !listed[0].ready_made);
        let delete = PolicyChange::DeletePolicy { name: name() };
        for holder in [user("ann"), user("bob"), group("readers")] {
            let attach = PolicyChange::Attach { to: holder.clone(), policy: name() };
            let attached = after(&text, &attach);
            assert_eq!(after(&attached, &attach), attached, "attached once");
            assert!(attached.contains("# The boss.") && attached.contains("# A robot."));
            let refusal = changed(&attached, &delete).unwrap_err();
            assert!(refusal.contains(holder.name()), "{refusal}");
            let detach = PolicyChange::Detach { from: holder.clone(), policy: name() };
            let detached = after(&attached, &detach);
            assert!(changed(&detached, &detach).unwrap_err().contains("no `lake`"));
            assert_eq!(policies(&after(&detached, &delete)).unwrap().len(), 5);
        }
        let attach = PolicyChange::Attach { to: user("ann"), policy: name() };
        let both = after(&text, &attach);
        let file: toml::Table = both.parse().unwrap();
        assert_eq!(texts(file["user"][0].get("policy")).len(), 2, "the document stays: {both}");
        for wrong in [
            PolicyChange::DeletePolicy { name: "none".to_owned() },
            PolicyChange::DeletePolicy { name: "readonly".to_owned() },
            PolicyChange::Attach { to: user("eve"), policy: name() },
            PolicyChange::Attach { to: group("ann"), policy: name() },
        ] {
            assert!(changed(&text, &wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn groups_come_and_go_with_their_members() {
        let members = |text: &str| groups(text).unwrap().into_iter().map(|it| it.members).collect::<Vec<_>>();
        let text = after(FILE, &PolicyChange::CreateGroup { name: "team".to_owned() });
        let add = PolicyChange::AddMember { group: "team".to_owned(), user: "ann".to_owned() };
        let text = after(&text, &add);
        assert_eq!(after(&text, &add), text);
        assert_eq!(members(&text), [vec!["bob"], vec!["ann"]]);
        let without = without_member(&text, "ann").unwrap();
        assert_eq!(members(&without), [vec!["bob"], vec![]]);
        assert!(without.contains("# and others"));
        let remove = PolicyChange::RemoveMember { group: "readers".to_owned(), user: "bob".to_owned() };
        assert_eq!(members(&after(&text, &remove)), [vec![], vec!["ann"]]);
        let text = after(&text, &PolicyChange::DeleteGroup { name: "readers".to_owned() });
        assert_eq!(members(&text), [vec!["ann"]]);
        assert!(!text.contains("# Who reads."));
        assert!(changed(&text, &remove).unwrap_err().contains("no group `readers`"));
    }
}
