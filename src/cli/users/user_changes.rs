//! The differences between two versions of the users, for the audit log. Keys are compared by
//! digest and never shown.

use serde_json::Value;
use siltstone::auth::{KeyPair, OidcPerson, Users};
use siltstone::base::digest::Sha256;
use siltstone::base::{Clock as _, SystemClock};
use siltstone::service::{AuditLog, AuditRecord, AuditedState};
use toml::{Table, Value as TomlValue};

/// The parts of a table that the audit log shows. An allow list, so that no secret can appear.
const SHOWN: [&str; 21] = [
    "name",
    "allow",
    "quota",
    "oidc",
    "sessions_after",
    "assumed_by",
    "web_identity",
    "max_duration",
    "policy",
    "members",
    "document",
    "url",
    "audiences",
    "thumbprints",
    "ca_file",
    "keys_file",
    "user",
    "expires",
    "inactive",
    "inline_policies",
    "created",
];
/// The parts that sign, and the time when they were made: it changes with them, in one record.
const KEYS: [&str; 4] = ["access_key", "secret_key", "previous", "key_created"];

/// A kind of tables of the users file, with the names of its changes.
#[derive(Debug, PartialEq)]
struct OutlineKind {
    table: &'static str,
    /// The field with the name.
    name: &'static str,
    created: &'static str,
    changed: &'static str,
    deleted: &'static str,
}

const KINDS: [OutlineKind; 6] = [
    OutlineKind {
        table: "user",
        name: "name",
        created: "CreateUser",
        changed: "ChangeUser",
        deleted: "DeleteUser",
    },
    OutlineKind {
        table: "service_account",
        name: "name",
        created: "CreateServiceAccount",
        changed: "ChangeServiceAccount",
        deleted: "DeleteServiceAccount",
    },
    OutlineKind {
        table: "role",
        name: "name",
        created: "CreateRole",
        changed: "ChangeRole",
        deleted: "DeleteRole",
    },
    OutlineKind {
        table: "group",
        name: "name",
        created: "CreateGroup",
        changed: "ChangeGroup",
        deleted: "DeleteGroup",
    },
    OutlineKind {
        table: "policy",
        name: "name",
        created: "PutPolicy",
        changed: "PutPolicy",
        deleted: "DeletePolicy",
    },
    OutlineKind {
        table: "issuer",
        name: "url",
        created: "CreateIssuer",
        changed: "ChangeIssuer",
        deleted: "DeleteIssuer",
    },
];

/// The tables of one version of the file.
#[derive(Debug, Default, Clone, PartialEq)]
pub(crate) struct UserList(Vec<UserOutline>);

#[derive(Debug, Clone, PartialEq)]
struct UserOutline {
    kind: &'static OutlineKind,
    name: String,
    /// What the audit log shows of it, as JSON.
    shown: String,
    /// The digest of all but its keys: no part is changed without a record, whether it is shown or
    /// not.
    rest: [u8; 32],
    /// The digest of its keys.
    keys: [u8; 32],
}

/// Where a change of the users comes from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ChangeOrigin<'o> {
    /// The user who asked a server for it, or the account of the system that runs the command;
    /// `None` for a signal.
    pub(crate) user: Option<&'o str>,
    /// The person who acted as that user, where an OpenID provider vouched for it.
    pub(crate) person: Option<&'o OidcPerson>,
    /// The ARN of the session whose keys signed.
    pub(crate) session: Option<&'o str>,
    /// The access key that signed, or that a session of the console stands for.
    pub(crate) access_key: Option<&'o str>,
    /// The number of the session of the console.
    pub(crate) console_session: Option<u64>,
    /// The address of a client, `command` or `SIGHUP`.
    pub(crate) peer: &'o str,
}

impl<'o> ChangeOrigin<'o> {
    /// The server that reads the users file again.
    pub(crate) const SIGNAL: Self = Self {
        user: None,
        person: None,
        session: None,
        access_key: None,
        console_session: None,
        peer: "SIGHUP",
    };

    /// The server that adds a key for the tokens of sessions.
    pub(crate) const SEALING_KEY: Self = Self { peer: "sealing key", ..Self::SIGNAL };

    /// Records an attempt that changed nothing.
    pub(crate) fn record_refused(self, action: &str, subject: Option<&str>, log: &dyn AuditLog) {
        log.record(&[AuditRecord { action, subject, error: Some("Refused"), ..self.record() }]);
    }

    fn record(self) -> AuditRecord<'o> {
        let time = SystemClock.now();
        let Self { user, person, session, access_key, console_session, peer } = self;
        AuditRecord {
            time,
            user,
            person,
            session,
            access_key,
            console_session,
            peer: Some(peer),
            ..AuditRecord::default()
        }
    }
}

/// A change of one user.
#[derive(Debug, PartialEq)]
pub(crate) struct UserDifference {
    pub(crate) action: &'static str,
    pub(crate) name: String,
    /// Name, grants, quota and people, as JSON.
    pub(crate) before: Option<String>,
    pub(crate) after: Option<String>,
}

impl UserList {
    /// The users and roles of a valid users file.
    pub(crate) fn of(text: &str) -> Self {
        let mut file = text.parse::<Table>().unwrap_or_default();
        let mut outlines = Vec::new();
        for kind in &KINDS {
            let tables = file.remove(kind.table).and_then(|tables| tables.try_into::<Vec<Table>>().ok());
            for table in tables.unwrap_or_default() {
                outlines.push(UserOutline::of(&table, kind));
            }
        }
        Self(outlines)
    }

    /// These users with an administrator who signs with `keys`, in place of the file's.
    pub(crate) fn with_administrator(mut self, keys: &KeyPair) -> Self {
        self.0.retain(|user| user.kind.table != "user" || user.name != Users::ADMINISTRATOR);
        self.0.extend(Self::of(&Users::first_file(keys)).0);
        self
    }

    /// Records the changes from `old` to these users.
    pub(crate) fn record_changes(&self, old: &Self, log: &dyn AuditLog, origin: ChangeOrigin<'_>) {
        let changes = self.changes_since(old);
        let states: Vec<_> = changes
            .iter()
            .map(|change| [&change.before, &change.after].map(|it| it.clone().map(AuditedState::new)))
            .collect();
        let records = changes.iter().zip(&states).map(|(change, [before, after])| AuditRecord {
            action: change.action,
            subject: Some(&change.name),
            before: before.as_ref(),
            after: after.as_ref(),
            ..origin.record()
        });
        let records: Vec<_> = records.collect();
        if !records.is_empty() {
            log.record(&records);
        }
    }

    /// The changes from `old` to these users: those who went, then the others in the order of the
    /// file.
    pub(crate) fn changes_since(&self, old: &Self) -> Vec<UserDifference> {
        let gone = old.0.iter().filter(|user| self.find(user).is_none());
        let gone = gone.map(|user| change(user.kind.deleted, Some(user), None));
        gone.chain(self.0.iter().flat_map(|user| changes_of(old.find(user), user))).collect()
    }

    /// That of the same kind and name.
    fn find(&self, it: &UserOutline) -> Option<&UserOutline> {
        self.0.iter().find(|user| user.kind == it.kind && user.name == it.name)
    }
}

impl UserOutline {
    fn of(table: &Table, kind: &'static OutlineKind) -> Self {
        let name = table.get(kind.name).and_then(TomlValue::as_str).unwrap_or_default().to_owned();
        let shown = serde_json::to_value(part_of(table, &SHOWN)).unwrap_or(Value::Null).to_string();
        let mut rest = table.clone();
        rest.retain(|name, _| KEYS.iter().all(|key| *key != name));
        let keys = digest(&part_of(table, &KEYS));
        Self { kind, name, shown, rest: digest(&rest), keys }
    }
}

fn part_of(table: &Table, names: &[&str]) -> Table {
    let held = names.iter().filter_map(|name| Some(((*name).to_owned(), table.get(*name)?.clone())));
    held.collect()
}

fn digest(table: &Table) -> [u8; 32] {
    Sha256::of(table.to_string().as_bytes())
}

fn changes_of(old: Option<&UserOutline>, user: &UserOutline) -> Vec<UserDifference> {
    let Some(old) = old else { return vec![change(user.kind.created, None, Some(user))] };
    let rest = (old.rest != user.rest).then(|| change(user.kind.changed, Some(old), Some(user)));
    let keys = (old.keys != user.keys).then(|| change("RotateKeys", Some(user), Some(user)));
    rest.into_iter().chain(keys).collect()
}

fn change(action: &'static str, before: Option<&UserOutline>, after: Option<&UserOutline>) -> UserDifference {
    let name = after.or(before).map_or_else(String::new, |user| user.name.clone());
    UserDifference {
        action,
        name,
        before: before.map(|user| user.shown.clone()),
        after: after.map(|user| user.shown.clone()),
    }
}

#[cfg(test)]
mod tests {
    use siltstone::auth::Secret;

    use super::*;

    const OLD: &str = "[[user]]\nname = \"a\"\naccess_key = \"AK1\"\nsecret_key = \"s3cr3t\"\n
[[user]]\nname = \"b\"\naccess_key = \"AK2\"\nsecret_key = \"s3cr3t\"\nallow = [{ actions = [\"GetObject\"], resources = [\"x/*\"] }]\n
[[user]]\nname = \"anonymous\"\n";

    #[test]
    fn users_come_and_go_and_change_and_no_key_is_shown() {
        let new = OLD
            .replace("\"anonymous\"", "\"c\"")
            .replace("GetObject", "PutObject")
            .replacen("s3cr3t", "s3cr3t2", 1);
        let changes = UserList::of(&new).changes_since(&UserList::of(OLD));
        let named: Vec<_> = changes.iter().map(|change| (change.action, change.name.as_str())).collect();
        assert_eq!(
            named,
            [("DeleteUser", "anonymous"), ("RotateKeys", "a"), ("ChangeUser", "b"), ("CreateUser", "c")]
        );
        assert!(changes[2].before.as_ref().unwrap().contains("GetObject"));
        assert!(changes[2].after.as_ref().unwrap().contains("PutObject"));
        let told = format!("{changes:?}");
        assert!(!told.contains("s3cr3t") && !told.contains("AK"), "{told}");
        assert_eq!(UserList::of(OLD).changes_since(&UserList::of(OLD)), []);
    }

    #[test]
    fn a_rotation_is_one_record_with_the_times_of_the_keys() {
        let keys = "access_key = \"AK1\"\nsecret_key = \"s3cr3t\"\n";
        let rotated = "access_key = \"AK9\"\nsecret_key = \"s3cr3t9\"\nkey_created = 2002-02-03T00:00:00Z\n\
            previous = { access_key = \"AK1\", secret_key = \"s3cr3t\", created = 2001-02-03T00:00:00Z }\n";
        let dated = OLD.replacen(keys, &format!("{keys}key_created = 2001-02-03T00:00:00Z\n"), 1);
        let new = OLD.replacen(keys, rotated, 1);
        // The last pair: no time of keys changes without a record.
        for (before, after) in [(OLD, &*new), (&*dated, &*new), (&*new, &*dated), (OLD, &*dated)] {
            let changes = UserList::of(after).changes_since(&UserList::of(before));
            let named: Vec<_> = changes.iter().map(|change| (change.action, &*change.name)).collect();
            assert_eq!(named, [("RotateKeys", "a")], "{before} {after}");
            assert_eq!(changes[0].after.as_deref(), Some("{\"name\":\"a\"}"));
        }
    }

    #[test]
    fn every_part_of_a_user_but_its_keys_is_compared() {
        for part in
            ["oidc = { groups = [\"ops\"] }", "quota = { bytes = \"1GiB\" }", "allow = []", "unheard_of = 1"]
        {
            let new = OLD.replacen("secret_key = \"s3cr3t\"", &format!("secret_key = \"s3cr3t\"\n{part}"), 1);
            for (before, after) in [(OLD, &*new), (&*new, OLD)] {
                let changes = UserList::of(after).changes_since(&UserList::of(before));
                assert_eq!(
                    (changes.len(), changes[0].action, &*changes[0].name),
                    (1, "ChangeUser", "a"),
                    "{part}"
                );
            }
        }
        let with = |people: &str| {
            OLD.replacen("secret_key = \"s3cr3t\"", &format!("secret_key = \"s3cr3t\"\noidc = {people}"), 1)
        };
        let changes = UserList::of(&with("{ subjects = [\"eve\"] }"))
            .changes_since(&UserList::of(&with("{ groups = [\"ops\"] }")));
        assert!(
            changes[0].before.as_ref().unwrap().contains("ops")
                && changes[0].after.as_ref().unwrap().contains("eve")
        );
    }

    #[test]
    fn roles_and_issuers_are_recorded_with_whom_they_trust() {
        let new = OLD.to_owned()
            + "[[issuer]]\nurl = \"https://id.example\"\naudiences = [\"sts\"]\n\
               [[role]]\nname = \"ci\"\n[[role.web_identity]]\nissuer = \"https://id.example\"\ncondition = 'jwt:sub'\n";
        let changes = UserList::of(&new).changes_since(&UserList::of(OLD));
        let named: Vec<_> = changes.iter().map(|change| (change.action, change.name.as_str())).collect();
        assert_eq!(named, [("CreateRole", "ci"), ("CreateIssuer", "https://id.example")]);
        assert!(changes[0].after.as_ref().unwrap().contains("jwt:sub"));
        assert!(changes[1].after.as_ref().unwrap().contains("audiences"));
        let other = new.replace("[\"sts\"]", "[\"sts\", \"other\"]");
        let changes = UserList::of(&other).changes_since(&UserList::of(&new));
        assert_eq!((changes.len(), changes[0].action), (1, "ChangeIssuer"));
        assert_eq!(UserList::of(OLD).changes_since(&UserList::of(&new))[1].action, "DeleteIssuer");
    }

    #[test]
    fn the_administrator_of_the_environment_is_one_of_the_users() {
        let keys = |secret: &str| KeyPair { access_key: "AK".to_owned(), secret_key: Secret::new(secret) };
        let of = |secret: &str| UserList::of(OLD).with_administrator(&keys(secret));
        let changes = of("two").changes_since(&of("one"));
        assert_eq!((changes.len(), changes[0].action, changes[0].name.as_str()), (1, "RotateKeys", "admin"));
    }
}
