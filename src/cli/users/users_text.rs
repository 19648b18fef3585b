//! Edits of the text of a users file that preserve everything else, such as comments and order.
//! Input texts are valid users files; callers validate the results.

use std::collections::{BTreeMap, HashSet};

use serde::Deserialize;
use siltstone::auth::{KeyPair, NameKind, SealingKey, Users};
use siltstone::base::Timestamp;
use siltstone::service::{GrantEntry, UserChange, UserEntry};
use toml_edit::{Array, ArrayOfTables, Datetime, DocumentMut, InlineTable, Item, Table, Value};

use super::policies_text;
use super::service_accounts_text;
use super::tables_text::{
    KEY_CREATED, datetime, edit_tables, forget_inactive, instant_of, position, remove_table, shown_time,
};

/// A user without its secret.
#[derive(Debug, PartialEq, Deserialize)]
pub(crate) struct ListedUser {
    pub(crate) name: String,
    /// `None` for the anonymous user.
    pub(crate) access_key: Option<String>,
    pub(crate) previous: Option<ListedPair>,
    #[serde(default)]
    pub(crate) allow: Vec<GrantEntry>,
    /// A document, or a list of names and documents.
    pub(crate) policy: Option<toml::Value>,
    #[serde(default)]
    pub(crate) inline_policies: BTreeMap<String, String>,
    #[serde(default)]
    pub(crate) inactive: Vec<String>,
    pub(crate) created: Option<Datetime>,
    pub(crate) key_created: Option<Datetime>,
    pub(crate) sessions_after: Option<Datetime>,
}

/// A pair of keys without its secret.
#[derive(Debug, PartialEq, Deserialize)]
pub(crate) struct ListedPair {
    pub(crate) access_key: String,
    pub(crate) created: Option<Datetime>,
}

impl ListedUser {
    /// The access keys, the previous one last.
    pub(crate) fn access_keys(&self) -> impl Iterator<Item = &str> {
        let previous = self.previous.as_ref().map(|pair| &pair.access_key);
        self.access_key.iter().chain(previous).map(String::as_str)
    }

    /// When its access keys were made, as far as the file knows.
    fn keys_created(&self) -> BTreeMap<String, String> {
        let mut times = BTreeMap::new();
        if let (Some(access_key), Some(created)) = (&self.access_key, &self.key_created) {
            times.insert(access_key.clone(), shown_time(created));
        }
        if let Some(ListedPair { access_key, created: Some(created) }) = &self.previous {
            times.insert(access_key.clone(), shown_time(created));
        }
        times
    }
}

/// The text after a change at `now`, with the new keys if it makes some.
///
/// # Errors
/// Errors of the edit.
pub(crate) fn changed(
    text: &str,
    change: &UserChange,
    keys: Option<&KeyPair>,
    now: Timestamp,
) -> Result<String, String> {
    let name = change.name();
    match (change, keys) {
        (UserChange::Create { allow, .. }, keys) => add(text, name, keys, allow, now),
        (UserChange::SetGrants { allow, .. }, _) => set_grants(text, name, allow),
        (UserChange::RotateKeys { .. }, Some(keys)) => rotate(text, name, keys, now),
        (UserChange::RotateKeys { .. }, None) => Err(format!("the user `{name}` has no keys")),
        (UserChange::RemovePreviousKeys { .. }, _) => finish_rotation(text, name),
        (UserChange::RevokeSessions { .. }, _) => revoke_sessions(text, name, now),
        (UserChange::Delete { .. }, _) => remove(text, name),
        (UserChange::CreateServiceAccount { account, .. }, Some(keys)) => {
            service_accounts_text::add(text, name, account, keys, now)
        }
        (UserChange::CreateServiceAccount { .. }, None) => Err(format!("the user `{name}` has no keys")),
        (UserChange::DeleteServiceAccount { account, .. }, _) => {
            service_accounts_text::remove(text, name, account)
        }
        (UserChange::Policies(change), _) => policies_text::changed(text, change),
        (UserChange::Iam(_), _) => Err("only a running server makes this change".to_owned()),
    }
}

/// Whether the text has a role of that name.
pub(crate) fn has_role(text: &str, name: &str) -> bool {
    let file: Result<DocumentMut, _> = text.parse();
    let Ok(file) = file else { return false };
    let roles = file.get("role").and_then(Item::as_array_of_tables);
    roles.is_some_and(|roles| position(roles, "role", name).is_ok())
}

/// The text with a key that seals the tokens of sessions at its end, unless it has one.
///
/// # Errors
/// The text is not a valid users file.
pub(crate) fn with_sealing_key(text: &str, key: &SealingKey) -> Result<String, String> {
    let file: DocumentMut = text.parse().map_err(|e: toml_edit::TomlError| e.message().to_owned())?;
    if file.contains_key("sealing_key") {
        return Ok(text.to_owned());
    }
    let gap = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    let why = "# Seals the tokens of sessions. The last such key seals, all of them open.";
    Ok(format!("{text}{gap}\n{why}\n[[sealing_key]]\nkey = \"{}\"\n", key.reveal()))
}

/// Ends the sessions of a user or role that were issued up to `now`.
///
/// # Errors
/// There is neither, or the file has a form that cannot be edited.
fn revoke_sessions(text: &str, name: &str, now: Timestamp) -> Result<String, String> {
    let mut file: DocumentMut = text.parse().map_err(|e: toml_edit::TomlError| e.message().to_owned())?;
    for kind in ["user", "role"] {
        let Some(item) = file.get_mut(kind) else { continue };
        let tables = item.as_array_of_tables_mut();
        let tables = tables.ok_or_else(|| {
            format!(
                "only tables in the form [[{kind}]] can be edited by commands: set `sessions_after` yourself"
            )
        })?;
        if let Ok(at) = position(tables, kind, name) {
            let table = tables.get_mut(at).expect("it was found there");
            table.insert("sessions_after", toml_edit::value(datetime(now)?));
            return Ok(file.to_string());
        }
    }
    if name != Users::ADMINISTRATOR {
        return Err(format!("there is no user and no role `{name}`"));
    }
    // The administrator of the environment has no table yet.
    let ended = datetime(now)?;
    edit(text, |users| {
        let mut user = Table::new();
        user["name"] = toml_edit::value(name);
        user["sessions_after"] = toml_edit::value(ended);
        users.push(user);
        Ok(String::new())
    })
}

/// The users in the order of the file.
///
/// # Errors
/// The text is not a valid users file.
pub(crate) fn list(text: &str) -> Result<Vec<ListedUser>, String> {
    #[derive(Deserialize)]
    struct UsersToml {
        #[serde(default)]
        user: Vec<ListedUser>,
    }
    toml::from_str(text).map(|file: UsersToml| file.user).map_err(|e| e.message().to_owned())
}

/// Whether a text is a valid users file in which somebody may do everything.
pub(crate) fn has_administrator(text: &str) -> bool {
    Users::parse(text).is_ok_and(|users| users.has_administrator())
}

/// The users as administrators see them, with their groups.
///
/// # Errors
/// The text is not a valid users file.
pub(crate) fn entries(text: &str) -> Result<Vec<UserEntry>, String> {
    let groups = policies_text::groups(text)?;
    let known = Users::parse(text).map_err(|error| error.problem)?;
    let administrators: HashSet<&str> = known.administrators().collect();
    // Once for all users: the text is parsed for it.
    let mut service_accounts = service_accounts_text::by_user(text)?;
    let mut entries = Vec::new();
    for user in list(text)? {
        let access_keys = user.access_keys().map(str::to_owned).collect();
        let of_user = groups.iter().filter(|group| group.members.contains(&user.name));
        let id_of = user.created.or(user.sessions_after).as_ref().and_then(instant_of);
        entries.push(UserEntry {
            id: NameKind::User.unique_id(&user.name, id_of),
            created: user.created.as_ref().map(shown_time),
            keys_created: user.keys_created(),
            inactive_keys: user.inactive,
            inline_policies: user.inline_policies,
            groups: of_user.map(|group| group.name.clone()).collect(),
            service_accounts: service_accounts.remove(&user.name).unwrap_or_default(),
            access_keys,
            policies: policies_text::texts(user.policy.as_ref()),
            administrator: administrators.contains(user.name.as_str()),
            from_environment: false,
            name: user.name,
            allow: user.allow,
        });
    }
    Ok(entries)
}

/// Adds a user at the end. Sessions of a user of the same name that was there before do not count
/// any more.
///
/// # Errors
/// The name is taken, or the file has a form that cannot be edited.
fn add(
    text: &str,
    name: &str,
    keys: Option<&KeyPair>,
    allowed: &[GrantEntry],
    now: Timestamp,
) -> Result<String, String> {
    if list(text)?.iter().any(|user| user.name == name) {
        return Err(format!("there is a user `{name}` already"));
    }
    let created = datetime(now)?;
    edit(text, |users| {
        let mut user = Table::new();
        user["name"] = toml_edit::value(name);
        if let Some(keys) = keys {
            user["access_key"] = toml_edit::value(&keys.access_key);
            user["secret_key"] = toml_edit::value(keys.secret_key.reveal());
        }
        if name != Users::ANONYMOUS {
            user["sessions_after"] = toml_edit::value(created);
            // Nor do the grants of ACLs to that user.
            user["created"] = toml_edit::value(created);
        }
        if keys.is_some() {
            user[KEY_CREATED] = toml_edit::value(created);
        }
        user["allow"] = grants(allowed);
        users.push(user);
        Ok(String::new())
    })
}

/// Replaces the grants of a user.
///
/// # Errors
/// There is no such user, or the file has a form that cannot be edited.
fn set_grants(text: &str, name: &str, allowed: &[GrantEntry]) -> Result<String, String> {
    edit(text, |users| {
        user_mut(users, name)?.insert("allow", grants(allowed));
        Ok(String::new())
    })
}

fn grants(allowed: &[GrantEntry]) -> Item {
    let mut tables = ArrayOfTables::new();
    for entry in allowed {
        let mut table = Table::new();
        table["actions"] = toml_edit::value(entry.actions.iter().collect::<Array>());
        table["resources"] = toml_edit::value(entry.resources.iter().collect::<Array>());
        tables.push(table);
    }
    Item::ArrayOfTables(tables)
}

/// Gives a user new keys, perhaps its first ones. The current keys become the previous ones, in place of the former
/// previous ones.
///
/// # Errors
/// There is no such user, it has no keys, or the file has a form that cannot be edited.
pub(super) fn rotate(text: &str, name: &str, keys: &KeyPair, now: Timestamp) -> Result<String, String> {
    let created = datetime(now)?;
    edit(text, |users| {
        let user = user_mut(users, name)?;
        // The first keys of a user that was made without any.
        if !user.contains_key("access_key") && user.contains_key("created") {
            user.insert("access_key", toml_edit::value(&keys.access_key));
            user.insert("secret_key", toml_edit::value(keys.secret_key.reveal()));
            user.insert(KEY_CREATED, toml_edit::value(created));
            return Ok(String::new());
        }
        let present = ["access_key", "secret_key"].map(|key| (key, user.get(key).and_then(Item::as_str)));
        let mut previous = InlineTable::new();
        for (key, value) in present {
            previous.insert(key, value.ok_or_else(|| format!("the user `{name}` has no keys"))?.into());
        }
        if let Some(created) = user.get(KEY_CREATED).and_then(Item::as_datetime) {
            previous.insert("created", (*created).into());
        }
        user.remove("previous");
        user.insert("previous", toml_edit::value(previous));
        set(user, "access_key", &keys.access_key);
        set(user, "secret_key", keys.secret_key.reveal());
        user.insert(KEY_CREATED, toml_edit::value(created));
        forget_inactive(user);
        Ok(String::new())
    })
}

/// Removes the previous keys of a user.
///
/// # Errors
/// There is no such user, it has no previous keys, or the file has a form that cannot be edited.
fn finish_rotation(text: &str, name: &str) -> Result<String, String> {
    edit(text, |users| {
        let user = user_mut(users, name)?;
        user.remove("previous").ok_or_else(|| format!("the user `{name}` has no previous keys"))?;
        forget_inactive(user);
        Ok(String::new())
    })
}

/// Removes a user, also from its groups, with its service accounts and the comment directly above
/// it.
///
/// # Errors
/// There is no such user, or the file has a form that cannot be edited.
pub(super) fn remove(text: &str, name: &str) -> Result<String, String> {
    let text = service_accounts_text::without_those_of(text, name)?;
    remove_table(&policies_text::without_member(&text, name)?, "user", name)
}

/// Edits the array of users. The text that `change` returns is inserted before the end of the file.
fn edit(
    text: &str,
    change: impl FnOnce(&mut ArrayOfTables) -> Result<String, String>,
) -> Result<String, String> {
    edit_tables(text, "user", change)
}

fn user_mut<'u>(users: &'u mut ArrayOfTables, name: &str) -> Result<&'u mut Table, String> {
    let index = position(users, "user", name)?;
    Ok(users.get_mut(index).expect("it was found there"))
}

/// Replaces a value and keeps the comment beside it.
fn set(table: &mut Table, key: &str, text: &str) {
    if let Some(value) = table.get_mut(key).and_then(Item::as_value_mut) {
        let decor = value.decor().clone();
        *value = Value::from(text);
        *value.decor_mut() = decor;
    }
}

#[cfg(test)]
mod tests {
    use siltstone::auth::Secret;

    use super::*;

    const FILE: &str = "\
# Who may do what.

# The boss.
[[user]]
name = \"admin\" # me
access_key = \"AK1\"   # since May
secret_key = 's1'

[[user.allow]]
actions = [\"*\"]
resources = [ \"*\" ]

# Of the garden.
[[user]]
secret_key = \"s2\"
name = \"camera\"
access_key = \"AK2\"
allow = [{ actions = [\"PutObject\"], resources = [\"pictures/*\"] }]

[[user]]
name = \"anonymous\"
# The end.
";

    fn keys() -> KeyPair {
        KeyPair { access_key: "AK9".to_owned(), secret_key: Secret::new("s9") }
    }

    #[test]
    fn users_are_listed_in_the_order_of_the_file() {
        let users = list(FILE).unwrap();
        let names: Vec<_> =
            users.iter().map(|user| (user.name.as_str(), user.access_key.as_deref())).collect();
        assert_eq!(names, [("admin", Some("AK1")), ("camera", Some("AK2")), ("anonymous", None)]);
        let entries = entries(FILE).unwrap();
        assert_eq!(entries.iter().map(|user| user.administrator).collect::<Vec<_>>(), [true, false, false]);
        assert_eq!(users[1].allow[0].resources, ["pictures/*"]);
    }

    #[test]
    fn a_user_is_added_after_the_others_which_are_unchanged() {
        let allowed = GrantEntry {
            actions: vec!["GetObject".to_owned()],
            resources: vec!["b".to_owned(), "b/*".to_owned()],
        };
        let added = add(FILE, "new", Some(&keys()), &[allowed], Timestamp::from_millis(1_502)).unwrap();
        let (before, end) = FILE.split_once("# The end.").unwrap();
        assert_eq!(
            added,
            format!(
                "{before}\n[[user]]\nname = \"new\"\naccess_key = \"AK9\"\nsecret_key = \"s9\"\n\
                 sessions_after = 1970-01-01T00:00:01.502Z\ncreated = 1970-01-01T00:00:01.502Z\n\
                 key_created = 1970-01-01T00:00:01.502Z\n\n[[user.allow]]\n\
                 actions = [\"GetObject\"]\nresources = [\"b\", \"b/*\"]\n# The end.{end}"
            )
        );
        let first = add("", "anonymous", None, &[GrantEntry::everything()], Timestamp::default()).unwrap();
        assert!(!entries(&first).unwrap()[0].administrator);
    }

    #[test]
    fn grants_are_replaced_and_the_rest_is_unchanged() {
        let grant =
            |action: &str| GrantEntry { actions: vec![action.to_owned()], resources: vec!["b/*".to_owned()] };
        for name in ["admin", "camera", "anonymous"] {
            let changed = set_grants(FILE, name, &[grant("GetObject"), grant("PutObject")]).unwrap();
            assert!(
                changed.starts_with("# Who may do what.\n\n# The boss.") && changed.ends_with("# The end.\n"),
                "{changed}"
            );
            assert!(changed.contains("# since May") && changed.contains("# Of the garden."), "{changed}");
            for (old, new) in list(FILE).unwrap().iter().zip(list(&changed).unwrap()) {
                let expected = if old.name == name {
                    vec![grant("GetObject"), grant("PutObject")]
                } else {
                    old.allow.clone()
                };
                assert_eq!((&old.name, &old.access_key, expected), (&new.name, &new.access_key, new.allow));
            }
            assert!(list(&set_grants(FILE, name, &[]).unwrap()).is_ok());
        }
        assert_eq!(set_grants(FILE, "eve", &[]).unwrap_err(), "there is no user `eve`");
    }

    #[test]
    fn a_name_that_is_taken_is_not_added() {
        let problem = add(FILE, "camera", Some(&keys()), &[GrantEntry::everything()], Timestamp::default());
        let problem = problem.unwrap_err();
        assert_eq!(problem, "there is a user `camera` already");
    }

    #[test]
    fn rotation_keeps_the_keys_that_were_as_the_previous_ones_until_it_is_finished() {
        let changed = FILE.replace("AK1", "AK9").replace("'s1'", "\"s9\"");
        let previous = "previous = { access_key = \"AK1\", secret_key = \"s1\" }\n";
        let created = "key_created = 1970-01-01T00:00:01.502Z\n";
        let changed = changed.replacen("\n\n[[user.allow]]", &format!("\n{created}\n[[user.allow]]"), 1);
        let at = Timestamp::from_millis(1_502);
        let rotated = rotate(FILE, "admin", &keys(), at).unwrap();
        assert_eq!(rotated, changed.replacen(created, &format!("{previous}{created}"), 1));
        let listed = list(&rotated).unwrap();
        assert_eq!(listed[0].access_keys().collect::<Vec<_>>(), ["AK9", "AK1"]);
        assert_eq!(finish_rotation(&rotated, "admin").unwrap(), changed);
        assert_eq!(finish_rotation(&changed, "admin").unwrap_err(), "the user `admin` has no previous keys");

        let again = KeyPair { access_key: "AK10".to_owned(), secret_key: Secret::new("s10") };
        let twice = rotate(&rotated, "admin", &again, Timestamp::from_millis(2_502)).unwrap();
        assert_eq!(list(&twice).unwrap()[0].access_keys().collect::<Vec<_>>(), ["AK10", "AK9"]);
        assert!(!twice.contains("AK1\"") && !twice.contains("\"s1\""), "{twice}");
        let times = &entries(&twice).unwrap()[0].keys_created;
        let expected = [("AK10", "1970-01-01T00:00:02.502Z"), ("AK9", "1970-01-01T00:00:01.502Z")];
        assert!(times.iter().map(|(key, time)| (key.as_str(), time.as_str())).eq(expected), "{times:?}");
        assert!(entries(&rotated).unwrap()[0].keys_created.contains_key("AK9"), "AK1 is of unknown age");
        let table = "[user.previous]\naccess_key = \"AK1\"\nsecret_key = \"s1\"\n";
        let apart = changed.replacen(created, &format!("{created}{table}"), 1);
        assert_eq!(rotate(&apart, "admin", &again, Timestamp::from_millis(2_502)).unwrap(), twice);
        assert!(
            Users::parse(
                &twice.replace("key_created = 1970-01-01T00:00:02.502Z", "key_created = 1970-01-01")
            )
            .is_err()
        );

        assert_eq!(rotate(FILE, "anonymous", &keys(), at).unwrap_err(), "the user `anonymous` has no keys");
        assert_eq!(rotate(FILE, "nobody", &keys(), at).unwrap_err(), "there is no user `nobody`");
    }

    #[test]
    fn a_user_without_keys_gets_its_first_ones() {
        let bare = "[[user]]\nname = \"bob\"\ncreated = 1970-01-01T00:00:01Z\n";
        let first = rotate(bare, "bob", &keys(), Timestamp::default()).unwrap();
        assert_eq!(list(&first).unwrap()[0].access_keys().collect::<Vec<_>>(), ["AK9"]);
        Users::parse(&first).unwrap();
    }

    #[test]
    fn keys_that_rest_are_forgotten_with_their_end() {
        let rests =
            |text: &str, keys: &str| text.replace("# since May", &format!("# since May\ninactive = {keys}"));
        let first = rests(FILE, "[\"AK1\"]");
        let rotated = rotate(&first, "admin", &keys(), Timestamp::default()).unwrap();
        assert!(rotated.contains("inactive = [\"AK1\"]"), "the previous one rests: {rotated}");
        assert!(!finish_rotation(&rotated, "admin").unwrap().contains("inactive"));
        let again = KeyPair { access_key: "AK10".to_owned(), secret_key: Secret::new("s10") };
        let twice = rotate(&rotated, "admin", &again, Timestamp::default()).unwrap();
        assert!(!twice.contains("inactive"), "{twice}");
        let both = rotated.replace("[\"AK1\"]", "[\"AK1\", \"AK9\"]");
        assert!(finish_rotation(&both, "admin").unwrap().contains("inactive = [ \"AK9\"]"));
        for text in [rotated, twice, both] {
            Users::parse(&text).unwrap();
        }
    }

    #[test]
    fn a_user_is_removed_with_the_comment_right_above_it_alone() {
        let (admin, rest) = FILE.split_once("# Of the garden.").unwrap();
        let (camera, anonymous) = rest.split_once("\n[[user]]\nname = \"anonymous\"").unwrap();
        let without_admin = remove(FILE, "admin").unwrap();
        assert_eq!(without_admin, format!("# Who may do what.\n\n# Of the garden.{rest}"));
        let without_camera = remove(FILE, "camera").unwrap();
        assert_eq!(without_camera, format!("{admin}[[user]]\nname = \"anonymous\"{anonymous}"));
        let without_both = remove(&remove(FILE, "anonymous").unwrap(), "admin").unwrap();
        assert_eq!(without_both, format!("# Who may do what.\n\n# Of the garden.{camera}# The end.\n"));
        assert_eq!(
            remove(&remove(&without_both, "camera").unwrap(), "x").unwrap_err(),
            "there is no user `x`"
        );
        assert_eq!(remove(&without_both, "camera").unwrap(), "# Who may do what.\n\n# The end.\n");
    }

    #[test]
    fn sessions_of_users_and_roles_are_ended_and_the_rest_stays() {
        let role = "\n[[role]]\nname = \"lake\" # a role\nassumed_by = [\"camera\"]\n";
        let file = format!("{FILE}{role}");
        assert!(has_role(&file, "lake") && !has_role(&file, "camera") && !has_role(FILE, "lake"));
        for (name, line) in [("camera", "access_key = \"AK2\"\n"), ("lake", "assumed_by = [\"camera\"]\n")] {
            let ended = revoke_sessions(&file, name, Timestamp::from_millis(1_502)).unwrap();
            let again = revoke_sessions(&ended, name, Timestamp::from_millis(2_502)).unwrap();
            assert!(ended.contains("sessions_after = 1970-01-01T00:00:01.502Z\n"), "{ended}");
            assert_eq!(again, ended.replace("01.502Z", "02.502Z"));
            assert!(ended.contains(line));
            assert_eq!(ended.replace("sessions_after = 1970-01-01T00:00:01.502Z\n", ""), file);
            Users::parse(&ended).unwrap();
        }
        assert!(revoke_sessions(&file, "nobody", Timestamp::default()).is_err());
    }

    #[test]
    fn a_sealing_key_is_added_once() {
        let key = |seed| SealingKey::generate(&siltstone::base::SeededEntropy::new(seed));
        for text in ["", FILE, FILE.trim_end()] {
            let with = with_sealing_key(text, &key(1)).unwrap();
            assert!(with.starts_with(text) && with.contains(&key(1).reveal()));
            Users::parse(&with).unwrap();
            assert_eq!(with_sealing_key(&with, &key(2)).unwrap(), with);
        }
    }

    #[test]
    fn users_that_are_not_tables_are_left_to_their_owner() {
        let inline = "user = [{ name = \"anonymous\" }]\n";
        assert_eq!(list(inline).unwrap().len(), 1);
        assert!(remove(inline, "anonymous").unwrap_err().contains("[[user]]"));
    }
}
