//! Edits of the text of a users file that IAM's calls ask for, and its roles.

use std::collections::{BTreeMap, HashSet};

use serde::Deserialize;
use siltstone::auth::{KeyPair, NameKind, ROLE_DURATION_DEFAULT_SECS, provider_name};
use siltstone::base::Timestamp;
use siltstone::service::{IamChange, PolicyHolder, ProviderTrust, RoleEntry, RoleTrust, TokenTrustEntry};
use toml_edit::{Array, ArrayOfTables, Datetime, Item, Table};

use super::issuers_text;
use super::policies_text;
use super::tables_text::{
    INACTIVE, KEY_CREATED, datetime, edit_tables, forget_inactive, instant_of, position, remove_table,
    shown_time,
};
use super::users_text;

/// The field with the policies of one user, group or role alone.
const INLINE: &str = "inline_policies";

/// The text after a change at `now`, with the new keys if it makes some.
///
/// # Errors
/// Errors of the edit.
pub(crate) fn changed(
    text: &str,
    change: &IamChange,
    keys: Option<&KeyPair>,
    now: Timestamp,
) -> Result<String, String> {
    match (change, keys) {
        (IamChange::CreateUser { name }, _) => add_user(text, name, now),
        (IamChange::DeleteUser { name }, _) => users_text::remove(text, name),
        (IamChange::AddKey { user }, Some(keys)) => users_text::rotate(text, user, keys, now),
        (IamChange::AddKey { user }, None) => Err(format!("the user `{user}` has no keys")),
        (IamChange::SetKeyStatus { user, access_key, active }, _) => {
            set_status(text, user, access_key, *active)
        }
        (IamChange::DeleteKey { user, access_key }, _) => delete_key(text, user, access_key),
        (IamChange::CreateGroup { name }, _) => policies_text::create_group(text, name, Some(now)),
        (IamChange::DeleteGroup { name }, _) => remove_table(text, "group", name),
        (IamChange::CreatePolicy { name, document } | IamChange::ReplacePolicy { name, document }, _) => {
            policies_text::put_policy(text, name, document, Some(now))
        }
        (IamChange::PutInline { of, policy, document }, _) => put_inline(text, of, policy, document),
        (IamChange::DeleteInline { of, policy }, _) => delete_inline(text, of, policy),
        (IamChange::CreateRole { name, trust, max_duration_secs }, _) => {
            add_role(text, name, trust, *max_duration_secs, now)
        }
        (IamChange::SetTrust { role, trust }, _) => {
            let issuers = issuers_of(text, trust)?;
            edit_one(text, "role", role, |table| {
                set_trust(table, trust, &issuers);
                Ok(())
            })
        }
        (IamChange::SetMaxDuration { role, secs }, _) => edit_one(text, "role", role, |table| {
            table.insert("max_duration", toml_edit::value(format!("{secs}s")));
            Ok(())
        }),
        (IamChange::DeleteRole { name }, _) => remove_table(text, "role", name),
        (IamChange::CreateProvider { url, audiences, thumbprints }, _) => {
            issuers_text::add(text, url, audiences, thumbprints, now)
        }
        (IamChange::DeleteProvider { provider }, _) => issuers_text::remove(text, provider),
        (IamChange::AddAudience { provider, audience }, _) => {
            issuers_text::add_audience(text, provider, audience)
        }
        (IamChange::RemoveAudience { provider, audience }, _) => {
            issuers_text::remove_audience(text, provider, audience)
        }
        (IamChange::SetThumbprints { provider, thumbprints }, _) => {
            issuers_text::set_thumbprints(text, provider, thumbprints)
        }
    }
}

/// Edits the table of a name.
fn edit_one(
    text: &str,
    kind: &'static str,
    name: &str,
    change: impl FnOnce(&mut Table) -> Result<(), String>,
) -> Result<String, String> {
    edit_tables(text, kind, |tables| {
        let at = position(tables, kind, name)?;
        change(tables.get_mut(at).expect("it was found there"))?;
        Ok(String::new())
    })
}

fn add_user(text: &str, name: &str, now: Timestamp) -> Result<String, String> {
    let created = datetime(now)?;
    edit_tables(text, "user", |users| {
        let mut user = Table::new();
        user["name"] = toml_edit::value(name);
        // Sessions of a user of the same name that was there before do not count any more.
        user["sessions_after"] = toml_edit::value(created);
        user["created"] = toml_edit::value(created);
        users.push(user);
        Ok(String::new())
    })
}

/// Removes one of the keys of a user. Where the current one goes, the previous one takes its place.
fn delete_key(text: &str, user: &str, access_key: &str) -> Result<String, String> {
    edit_one(text, "user", user, |table| {
        let is_current = table.get("access_key").and_then(Item::as_str) == Some(access_key);
        let previous = table.remove("previous");
        if !is_current {
            forget_inactive(table);
            return Ok(());
        }
        table.remove("access_key");
        table.remove("secret_key");
        table.remove(KEY_CREATED);
        let Some(previous) = previous else {
            forget_inactive(table);
            // Only a table with the time of its creation may have no keys.
            if !table.contains_key("created") {
                table.insert("created", toml_edit::value(unknown_creation(table)?));
            }
            return Ok(());
        };
        for key in ["access_key", "secret_key"] {
            let value = previous.get(key).and_then(Item::as_str);
            let value = value.ok_or_else(|| format!("the previous keys of `{user}` have no {key}"))?;
            table.insert(key, toml_edit::value(value));
        }
        if let Some(created) = previous.get("created").and_then(Item::as_datetime) {
            table.insert(KEY_CREATED, toml_edit::value(*created));
        }
        forget_inactive(table);
        Ok(())
    })
}

/// The time that stands for an unknown creation: that of the id which the user has.
fn unknown_creation(user: &Table) -> Result<Datetime, String> {
    match user.get("sessions_after").and_then(Item::as_datetime) {
        Some(time) => Ok(*time),
        None => datetime(Timestamp::default()),
    }
}

/// Has one of the keys of a user sign, or not.
fn set_status(text: &str, user: &str, access_key: &str, active: bool) -> Result<String, String> {
    edit_one(text, "user", user, |table| {
        let mut inactive: Vec<String> = Vec::new();
        if let Some(listed) = table.get(INACTIVE).and_then(Item::as_array) {
            inactive.extend(listed.iter().filter_map(|key| key.as_str()).map(str::to_owned));
        }
        inactive.retain(|key| key != access_key);
        if !active {
            inactive.push(access_key.to_owned());
        }
        if inactive.is_empty() {
            table.remove(INACTIVE);
        } else {
            table.insert(INACTIVE, toml_edit::value(inactive.iter().collect::<Array>()));
        }
        Ok(())
    })
}

fn put_inline(text: &str, of: &PolicyHolder, policy: &str, document: &str) -> Result<String, String> {
    edit_one(text, policies_text::kind(of), of.name(), |table| {
        let policies = table.entry(INLINE).or_insert_with(|| Item::Table(Table::new()));
        let policies = policies.as_table_like_mut().ok_or_else(|| format!("`{INLINE}` is no table"))?;
        policies.insert(policy, toml_edit::value(document));
        Ok(())
    })
}

fn delete_inline(text: &str, of: &PolicyHolder, policy: &str) -> Result<String, String> {
    edit_one(text, policies_text::kind(of), of.name(), |table| {
        let policies = table.get_mut(INLINE).and_then(Item::as_table_like_mut);
        let policies = policies.ok_or_else(|| format!("`{}` has no policies of its own", of.name()))?;
        policies.remove(policy);
        if policies.is_empty() {
            table.remove(INLINE);
        }
        Ok(())
    })
}

fn add_role(
    text: &str,
    name: &str,
    trust: &RoleTrust,
    max_duration_secs: Option<u64>,
    now: Timestamp,
) -> Result<String, String> {
    let created = datetime(now)?;
    let issuers = issuers_of(text, trust)?;
    edit_tables(text, "role", |roles| {
        let mut role = Table::new();
        role["name"] = toml_edit::value(name);
        set_trust(&mut role, trust, &issuers);
        if let Some(secs) = max_duration_secs {
            role["max_duration"] = toml_edit::value(format!("{secs}s"));
        }
        // Sessions of a role of the same name that was there before do not count any more.
        role["sessions_after"] = toml_edit::value(created);
        role["created"] = toml_edit::value(created);
        roles.push(role);
        Ok(String::new())
    })
}

/// The URLs of the providers that are trusted, in their order.
fn issuers_of(text: &str, trust: &RoleTrust) -> Result<Vec<String>, String> {
    let known = issuers_text::providers(text)?;
    let mut urls = Vec::new();
    for ProviderTrust { provider, .. } in &trust.providers {
        let found = known.iter().find(|known| provider_name(&known.url) == provider);
        urls.push(found.ok_or_else(|| format!("there is no provider `{provider}`"))?.url.clone());
    }
    Ok(urls)
}

/// Writes who may assume a role. `issuers` are the URLs of its providers.
fn set_trust(role: &mut Table, trust: &RoleTrust, issuers: &[String]) {
    role.insert("assumed_by", toml_edit::value(trust.assumed_by.iter().collect::<Array>()));
    role.remove("web_identity");
    let mut tables = ArrayOfTables::new();
    for (ProviderTrust { condition, .. }, url) in trust.providers.iter().zip(issuers) {
        let mut table = Table::new();
        table["issuer"] = toml_edit::value(url);
        table["condition"] = toml_edit::value(condition);
        tables.push(table);
    }
    if !tables.is_empty() {
        role.insert("web_identity", Item::ArrayOfTables(tables));
        if trust.assumed_by.is_empty() {
            role.remove("assumed_by");
        }
    }
    match &trust.external_id {
        Some(id) => {
            role.insert("external_id", toml_edit::value(id));
        }
        None => {
            role.remove("external_id");
        }
    }
}

#[derive(Deserialize)]
struct ListedTrust {
    issuer: String,
    condition: String,
}

impl From<ListedTrust> for TokenTrustEntry {
    fn from(listed: ListedTrust) -> Self {
        Self { issuer: listed.issuer, condition: listed.condition }
    }
}

#[derive(Deserialize)]
struct ListedRole {
    name: String,
    #[serde(default)]
    assumed_by: Vec<String>,
    #[serde(default)]
    web_identity: Vec<ListedTrust>,
    external_id: Option<String>,
    max_duration: Option<String>,
    sessions_after: Option<Datetime>,
    created: Option<Datetime>,
    policy: Option<toml::Value>,
    #[serde(default)]
    inline_policies: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct RolesToml {
    #[serde(default)]
    role: Vec<ListedRole>,
}

/// The roles in the order of the file.
///
/// # Errors
/// The text is not a valid users file.
pub(crate) fn roles(text: &str) -> Result<Vec<RoleEntry>, String> {
    let file: RolesToml = toml::from_str(text).map_err(|e| e.message().to_owned())?;
    let names: HashSet<String> = file.role.iter().map(|role| role.name.clone()).collect();
    let mut entries = Vec::new();
    for role in file.role {
        let longest = role.max_duration.as_deref().map(humantime::parse_duration).transpose();
        let longest = longest.map_err(|e| e.to_string())?;
        let created = role.created.as_ref().map(shown_time);
        let id_of = role.created.or(role.sessions_after).as_ref().and_then(instant_of);
        entries.push(RoleEntry {
            id: NameKind::Role.unique_id(&role.name, id_of),
            created,
            assumed_by_roles: role.assumed_by.iter().filter(|it| names.contains(*it)).cloned().collect(),
            assumed_by: role.assumed_by,
            external_id: role.external_id,
            web_identities: role.web_identity.into_iter().map(TokenTrustEntry::from).collect(),
            max_duration_secs: longest.map_or(ROLE_DURATION_DEFAULT_SECS, |it| it.as_secs()),
            policies: policies_text::texts(role.policy.as_ref()),
            inline_policies: role.inline_policies,
            name: role.name,
        });
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use siltstone::auth::{Secret, Users};

    use super::super::user_checks::check_iam;
    use super::*;

    const FILE: &str = "\
# The boss.
[[user]]
name = \"ann\" # me
access_key = \"AK1\" # the first
secret_key = 's1'

[[user.allow]]
actions = [\"*\"]
resources = [\"*\"]

# Who reads.
[[group]]
name = \"readers\"
members = []
# The end.
";
    const DOCUMENT: &str = "{\"Statement\": {\"Effect\": \"Deny\", \"Action\": \"s3:*\", \"Resource\": \"arn:aws:s3:::it's/*\"}}";

    fn keys(number: u32) -> KeyPair {
        KeyPair { access_key: format!("AK{number}"), secret_key: Secret::new(format!("s{number}")) }
    }

    fn after_at(text: &str, change: &IamChange, keys: Option<&KeyPair>, millis: u64) -> String {
        check_iam(text, change).unwrap();
        let text = changed(text, change, keys, Timestamp::from_millis(millis)).unwrap();
        Users::parse(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
        text
    }

    fn after(text: &str, change: &IamChange) -> String {
        after_at(text, change, Some(&keys(9)), 1_502)
    }

    fn name(name: &str) -> String {
        name.to_owned()
    }

    #[test]
    fn users_come_without_keys_and_go_when_they_have_nothing() {
        let made = after(FILE, &IamChange::CreateUser { name: name("bob") });
        assert!(
            made.contains("name = \"bob\"\nsessions_after = 1970-01-01T00:00:01.502Z\ncreated = "),
            "{made}"
        );
        let with = after(&made, &IamChange::AddKey { user: name("bob") });
        assert!(with.contains("access_key = \"AK9\"\nsecret_key = \"s9\""), "{with}");
        let delete = IamChange::DeleteUser { name: name("bob") };
        assert!(check_iam(&with, &delete).unwrap_err().to_string().contains("AK9"));
        let without = after(&with, &IamChange::DeleteKey { user: name("bob"), access_key: name("AK9") });
        assert_eq!(without, made);
        assert_eq!(after(&made, &delete).trim_end(), FILE.trim_end());
    }

    #[test]
    fn keys_are_added_deleted_and_put_to_rest() {
        let user = || name("ann");
        let key = |access_key: &str| IamChange::DeleteKey { user: user(), access_key: name(access_key) };
        let both = after(FILE, &IamChange::AddKey { user: user() });
        assert!(both.contains("previous = { access_key = \"AK1\", secret_key = \"s1\" }"), "{both}");
        assert!(check_iam(&both, &IamChange::AddKey { user: user() }).is_err(), "two at most");
        assert!(after(&both, &key("AK1")).contains("\"AK9\"") && !after(&both, &key("AK1")).contains("AK1"));
        let first = after(&both, &key("AK9"));
        assert!(first.contains("access_key = \"AK1\"") && !first.contains("previous"), "{first}");
        assert!(both.contains(KEY_CREATED) && !first.contains(KEY_CREATED), "the age of AK1 is unknown");
        let dated =
            both.replace("secret_key = \"s1\" }", "secret_key = \"s1\", created = 2001-02-03T00:00:00Z }");
        assert!(after(&dated, &key("AK9")).contains("key_created = 2001-02-03T00:00:00Z"), "{dated}");
        let rest = |access_key: &str, active| IamChange::SetKeyStatus {
            user: user(),
            access_key: name(access_key),
            active,
        };
        let resting = after(&both, &rest("AK1", false));
        assert!(resting.contains("inactive = [\"AK1\"]"), "{resting}");
        assert_eq!(after(&resting, &rest("AK1", false)), resting);
        assert_eq!(after(&resting, &rest("AK1", true)), both);
        let gone = after(&resting, &key("AK1"));
        assert!(!gone.contains("AK1") && !gone.contains("inactive"), "{gone}");
        assert!(check_iam(FILE, &rest("AK2", false)).is_err() && check_iam(FILE, &key("AK2")).is_err());
        // The last key of a table that people wrote.
        let bare = after(FILE, &key("AK1"));
        assert!(!bare.contains("secret_key") && bare.contains("created = 1970-01-01"), "{bare}");
        assert!(bare.starts_with("# The boss.") && bare.ends_with("# The end.\n"));
    }

    #[test]
    fn policies_of_one_are_put_and_deleted() {
        let role = IamChange::CreateRole {
            name: name("lake"),
            trust: RoleTrust {
                assumed_by: vec![name("ann")],
                external_id: Some(name("7")),
                ..RoleTrust::default()
            },
            max_duration_secs: Some(7_200),
        };
        let text = after(FILE, &role);
        for of in [
            PolicyHolder::User(name("ann")),
            PolicyHolder::Group(name("readers")),
            PolicyHolder::Role(name("lake")),
        ] {
            let put = |policy: &str| IamChange::PutInline {
                of: of.clone(),
                policy: name(policy),
                document: name(DOCUMENT),
            };
            let delete = |policy: &str| IamChange::DeleteInline { of: of.clone(), policy: name(policy) };
            assert!(check_iam(&text, &delete("a")).is_err(), "none is there");
            let one = after(&text, &put("a"));
            assert_eq!(after(&one, &put("a")), one);
            let two = after(&one, &put("b.c@d"));
            assert!(two.contains("# Who reads.") && two.contains("# The end."), "{two}");
            assert_eq!(after(&after(&two, &delete("b.c@d")), &delete("a")), text);
        }
    }

    #[test]
    fn roles_are_made_changed_and_deleted() {
        let trust = |by: &str, id: Option<&str>| RoleTrust {
            assumed_by: vec![name(by)],
            external_id: id.map(str::to_owned),
            ..RoleTrust::default()
        };
        let create = |millis| {
            let change = IamChange::CreateRole {
                name: name("lake"),
                trust: trust("ann", Some("7")),
                max_duration_secs: None,
            };
            after_at(FILE, &change, None, millis)
        };
        let made = create(1);
        let [role] = <[RoleEntry; 1]>::try_from(roles(&made).unwrap()).unwrap();
        assert_eq!(
            (&*role.assumed_by, role.external_id.as_deref(), role.max_duration_secs),
            (&[name("ann")][..], Some("7"), 3_600)
        );
        assert_ne!(roles(&create(2)).unwrap()[0].id, role.id, "another role of the same name");
        let changed = after(&made, &IamChange::SetTrust { role: name("lake"), trust: trust("lake", None) });
        let changed = after(&changed, &IamChange::SetMaxDuration { role: name("lake"), secs: 900 });
        let role = &roles(&changed).unwrap()[0];
        assert_eq!((&role.assumed_by, &role.assumed_by_roles), (&vec![name("lake")], &vec![name("lake")]));
        assert_eq!((role.external_id.as_deref(), role.max_duration_secs), (None, 900));
        assert_eq!(
            after(&changed, &IamChange::DeleteRole { name: name("lake") }).trim_end(),
            FILE.trim_end()
        );
    }

    #[test]
    fn roles_trust_tokens_of_providers_and_may_outlive_them() {
        let url = name("https://id.example/realms/a");
        let provider = || name("id.example/realms/a");
        let condition = "{\"StringEquals\":{\"jwt:sub\":\"it's\"}}";
        let trust = |assumed_by: &[&str]| RoleTrust {
            assumed_by: assumed_by.iter().map(|by| name(by)).collect(),
            external_id: None,
            providers: vec![ProviderTrust { provider: provider(), condition: name(condition) }],
        };
        let create =
            IamChange::CreateRole { name: name("ci"), trust: trust(&[]), max_duration_secs: Some(900) };
        assert!(check_iam(FILE, &create).unwrap_err().to_string().contains("no provider"));
        let provide =
            IamChange::CreateProvider { url: url.clone(), audiences: Vec::new(), thumbprints: Vec::new() };
        let provided = after(FILE, &provide);
        assert!(check_iam(&provided, &provide).unwrap_err().to_string().contains("already"));
        let made = after(&provided, &create);
        let listed = |text: &str| roles(text).unwrap().remove(0);
        let entry = TokenTrustEntry { issuer: url, condition: name(condition) };
        assert_eq!((listed(&made).assumed_by, listed(&made).web_identities), (vec![], vec![entry.clone()]));
        let both = after(&made, &IamChange::SetTrust { role: name("ci"), trust: trust(&["ann"]) });
        assert_eq!(
            (listed(&both).assumed_by, listed(&both).web_identities),
            (vec![name("ann")], vec![entry])
        );
        let alone = RoleTrust { providers: Vec::new(), ..trust(&["ann"]) };
        let alone = after(&both, &IamChange::SetTrust { role: name("ci"), trust: alone });
        assert_eq!(listed(&alone).web_identities, []);
        // As in IAM, the role stays where its provider goes; a role that people wrote holds it.
        let delete = IamChange::DeleteProvider { provider: provider() };
        assert!(!after(&both, &delete).contains("[[issuer]]"));
        let by_hand = both.replace("\ncreated = 1970-01-01T00:00:01.502Z", "");
        assert_ne!(by_hand, both);
        assert!(check_iam(&by_hand, &delete).unwrap_err().to_string().contains("the role `ci`"));
    }

    #[test]
    fn names_do_not_differ_by_case_alone() {
        for change in [
            IamChange::CreateUser { name: name("ANN") },
            IamChange::CreateGroup { name: name("ann") },
            IamChange::CreateUser { name: name("Readers") },
            IamChange::CreateRole { name: name("aNN"), trust: RoleTrust::default(), max_duration_secs: None },
            IamChange::CreatePolicy { name: name("ReadOnly"), document: name(DOCUMENT) },
        ] {
            assert!(check_iam(FILE, &change).unwrap_err().to_string().contains("already"), "{change:?}");
        }
        let made = after(FILE, &IamChange::CreatePolicy { name: name("own"), document: name(DOCUMENT) });
        assert!(made.contains("created = "), "{made}");
        let other =
            IamChange::ReplacePolicy { name: name("own"), document: DOCUMENT.replace("it's", "that") };
        assert!(after(&made, &other).contains("that/*"));
        assert!(
            check_iam(&made, &IamChange::ReplacePolicy { name: name("Own"), document: name(DOCUMENT) })
                .is_err()
        );
    }
}
