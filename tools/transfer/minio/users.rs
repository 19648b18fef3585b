//! The users of MinIO as a users file: their keys stay, so that their clients go on, and so do their
//! policies, their groups and their service accounts.
//!
//! Nobody may get more than before. A statement that allows something and cannot be read here is left
//! out and told. One that denies something and cannot be read leaves everyone without policies who has
//! it.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use serde_json::{Value, json};
use siltstone::auth::{BucketPolicy, READY_MADE_POLICIES, Users};

use crate::minio::iam::{MinioGroup, MinioIdentities, MinioUser};

/// The version of policies with variables, which MinIO reads in all of them.
const VERSION: &str = "2012-10-17";
/// The beginning of actions that a policy of S3 has.
const S3: &str = "s3:";
/// What the name of a policy gets where a ready-made one has it.
const OTHER: &str = ".minio";

/// What a policy of MinIO becomes.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Converted {
    /// An entry of a field `policy`: a name, or a document.
    Entry(String),
    /// Nothing is left of it.
    Nothing,
    /// It denies something that cannot be said.
    Unreadable,
}

/// A users file, and what is to be told about it.
#[derive(Default)]
pub(super) struct UsersFile {
    text: String,
    pub(super) count: u64,
    /// Users, groups and policies, and what they lose.
    pub(super) losses: Vec<(String, String)>,
}

/// A users file that is being written.
struct Writing<'w> {
    identities: &'w MinioIdentities,
    /// The name of MinIO's first user, if it is known.
    root: Option<&'w str>,
    policies: BTreeMap<&'w str, Converted>,
    /// Users who have a policy that cannot be read, of their own or of a group, and so get none.
    barred: HashSet<&'w str>,
    /// The tables of the policies, which others name.
    policy_text: String,
    /// The names of users and groups, which share one space.
    names: BTreeSet<&'w str>,
    file: UsersFile,
}

impl UsersFile {
    /// The users, groups and policies. `root` is the name of MinIO's first user, if it is known.
    pub(super) fn of(identities: &MinioIdentities, root: Option<&str>) -> Self {
        let mut writing = Writing {
            identities,
            root,
            policies: BTreeMap::new(),
            barred: HashSet::new(),
            policy_text: String::new(),
            names: BTreeSet::new(),
            file: Self::default(),
        };
        writing.policies();
        writing.bar();
        writing.users();
        writing.groups();
        writing.service_accounts();
        if let Err(error) = Users::parse(&writing.file.text) {
            writing.lose("the users file", error.to_string());
        }
        if identities.foreign > 0 {
            let why = format!(
                "policies of {} people of LDAP or OpenID are not kept: give them roles or the console's sign-in",
                identities.foreign
            );
            writing.lose("LDAP and OpenID", why);
        }
        writing.file
    }

    /// Writes the file, readable by its owner alone.
    pub(super) fn write(&self, path: &Path) -> std::io::Result<()> {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        file.write_all(self.text.as_bytes())?;
        file.sync_all()
    }
}

impl<'w> Writing<'w> {
    fn lose(&mut self, who: &str, why: String) {
        self.file.losses.push((who.to_owned(), why));
    }

    fn policies(&mut self) {
        for (name, policy) in &self.identities.policies {
            let converted = self.policy(name, policy);
            self.policies.insert(name, converted);
        }
        self.file.text = self.policy_text.clone();
    }

    /// Converts a policy, which gets a table where its name can be one.
    fn policy(&mut self, name: &str, policy: &Value) -> Converted {
        let document = match self.document(&format!("policy {name}"), policy) {
            Ok(Some(document)) => document,
            Ok(None) => return Converted::Nothing,
            Err(()) => return Converted::Unreadable,
        };
        let is_ready_made = READY_MADE_POLICIES.iter().any(|ready| ready.name == name);
        let own_name = if is_ready_made { format!("{name}{OTHER}") } else { name.to_owned() };
        let table = format!("[[policy]]\nname = {}\ndocument = {}\n\n", quoted(&own_name), quoted(&document));
        let extended = self.policy_text.clone() + &table;
        if Users::parse(&extended).is_err() {
            return Converted::Entry(document);
        }
        self.policy_text = extended;
        Converted::Entry(own_name)
    }

    /// The document that says the same; `None` if it allows nothing.
    ///
    /// # Errors
    /// It denies something that cannot be read here, which is told.
    fn document(&mut self, subject: &str, policy: &Value) -> Result<Option<String>, ()> {
        let given = match &policy["Statement"] {
            Value::Array(statements) => statements.clone(),
            one => vec![one.clone()],
        };
        let mut statements = Vec::new();
        for statement in &given {
            let Some(own) = own_statement(statement) else { continue };
            match check_statement(&own) {
                Ok(()) => statements.push(own),
                Err(why) if statement["Effect"] == "Allow" => {
                    self.lose(subject, format!("left out: {statement}: {why}"));
                }
                Err(why) => {
                    self.lose(subject, format!("nobody who has it gets a policy: {statement}: {why}"));
                    return Err(());
                }
            }
        }
        if is_of_everything(&given) {
            statements.push(json!({ "Effect": "Allow", "Action": "*", "Resource": "*" }));
        }
        let document = text_of(&statements);
        match check(&document) {
            _ if statements.is_empty() => Ok(None),
            Ok(()) => Ok(Some(document)),
            Err(why) => {
                self.lose(subject, format!("nobody who has it gets a policy: {why}"));
                Err(())
            }
        }
    }

    /// A policy by its name.
    fn named(&mut self, who: &str, name: &str) -> Converted {
        if let Some(converted) = self.policies.get(name) {
            return converted.clone();
        }
        if READY_MADE_POLICIES.iter().any(|ready| ready.name == name) {
            return Converted::Entry(name.to_owned());
        }
        self.lose(who, format!("its policy {name:?} is not there"));
        Converted::Nothing
    }

    /// The entries of a list of names; `None` where one of them cannot be read.
    fn entries(&mut self, who: &str, names: &[String]) -> Option<Vec<String>> {
        let mut entries = Vec::new();
        for name in names {
            match self.named(who, name) {
                Converted::Entry(entry) => entries.push(entry),
                Converted::Nothing => {}
                Converted::Unreadable => return None,
            }
        }
        Some(entries)
    }

    /// Finds whoever has a policy that cannot be read, and so gets none at all.
    fn bar(&mut self) {
        for user in &self.identities.users {
            if self.has_unreadable(&user.policies) {
                self.barred.insert(&user.access_key);
            }
        }
        for group in &self.identities.groups {
            if self.has_unreadable(&group.policies) {
                self.barred.extend(group.members.iter().map(String::as_str));
            }
        }
    }

    fn has_unreadable(&self, policies: &[String]) -> bool {
        policies.iter().any(|name| self.policies.get(&**name) == Some(&Converted::Unreadable))
    }

    /// Adds a table, if a file takes it beside the policies and `others`.
    fn add(&mut self, who: &str, others: &str, table: &str) -> bool {
        let taken = Users::parse(&[&self.policy_text, others, table].concat());
        if let Err(error) = &taken {
            self.lose(who, format!("it is left out: {error}"));
            return false;
        }
        self.file.text += table;
        true
    }

    fn users(&mut self) {
        for user in &self.identities.users {
            if user.parent.is_some() {
                continue;
            }
            let name = &user.access_key;
            if self.barred.contains(&**name) {
                self.lose(name, "it gets no policy: one of its own cannot be read".to_owned());
                self.user(user, &[]);
                continue;
            }
            let entries = self.entries(name, &user.policies).unwrap_or_default();
            self.user(user, &entries);
        }
    }

    fn user(&mut self, user: &'w MinioUser, entries: &[String]) {
        let name = quoted(&user.access_key);
        let secret = quoted(&user.secret_key);
        let mut table = format!("[[user]]\nname = {name}\naccess_key = {name}\nsecret_key = {secret}\n");
        if !user.enabled {
            table += &format!("inactive = [{name}]\n");
        }
        if !entries.is_empty() {
            table += &policy_line(entries);
        }
        if self.add(&user.access_key, "", &(table + "\n")) {
            self.names.insert(&user.access_key);
            self.file.count += 1;
        }
    }

    fn groups(&mut self) {
        for MinioGroup { name, members, policies } in &self.identities.groups {
            let who = format!("group {name}");
            // Nobody of it has a policy then.
            let Some(entries) = self.entries(&who, policies) else { continue };
            let members: HashSet<_> = members.iter().collect();
            let mut known = Vec::new();
            let mut stubs = String::new();
            for user in &self.identities.users {
                let is_member = self.names.contains(&*user.access_key) && members.contains(&user.access_key);
                if is_member && !self.barred.contains(&*user.access_key) {
                    known.push(quoted(&user.access_key));
                    stubs += &stub(&user.access_key);
                }
            }
            if known.is_empty() || entries.is_empty() {
                continue;
            }
            if !self.names.insert(name) {
                self.lose(&who, "it is left out: a user has its name".to_owned());
                continue;
            }
            let members = known.join(", ");
            let policies = policy_line(&entries);
            let table = format!("[[group]]\nname = {}\nmembers = [{members}]\n{policies}\n", quoted(name));
            self.add(&who, &stubs, &table);
        }
    }

    fn service_accounts(&mut self) {
        for account in &self.identities.users {
            let Some(parent) = &account.parent else { continue };
            let name = &account.access_key;
            let limit = account.embedded.as_ref().map(|policy| self.document(name, policy));
            let limit = match limit {
                None => None,
                Some(Ok(document)) => Some(document.into_iter().collect()),
                Some(Err(())) => Some(Vec::new()),
            };
            let mut users = self.identities.users.iter();
            let user = users.find(|user| user.parent.is_none() && user.access_key == *parent);
            let is_of_root = user.is_none() && self.root == Some(parent);
            // The keys of an account cannot rest, and those of a user who is disabled must not work.
            if !account.enabled {
                self.lose(name, "it is left out: it is disabled".to_owned());
            } else if user.is_some_and(|user| !user.enabled) {
                self.lose(name, "it is left out: its user is disabled".to_owned());
            } else if is_of_root {
                // The first user is not in the file, and cannot have accounts there.
                let entries = limit.unwrap_or_else(|| vec!["consoleAdmin".to_owned()]);
                self.user(account, &entries);
            } else if user.is_some() {
                self.service_account(account, parent, limit);
            } else {
                self.lose(name, format!("it is left out: its parent {parent:?} is not known"));
            }
        }
    }

    fn service_account(&mut self, account: &MinioUser, parent: &str, limit: Option<Vec<String>>) {
        let name = quoted(&account.access_key);
        let user = quoted(parent);
        let secret = quoted(&account.secret_key);
        let mut table = format!(
            "[[service_account]]\nname = {name}\nuser = {user}\naccess_key = {name}\nsecret_key = {secret}\n"
        );
        if let Some(time) = &account.expires {
            table += &format!("expires = {time}\n");
        }
        if let Some(entries) = limit {
            table += &policy_line(&entries);
        }
        if self.add(&account.access_key, &stub(parent), &(table + "\n")) {
            self.file.count += 1;
        }
    }
}

/// A statement with what has a meaning here; `None` where it is about the administration of MinIO
/// alone.
fn own_statement(statement: &Value) -> Option<Value> {
    let mut own = statement.clone();
    let actions: Vec<&str> = texts(&statement["Action"]).collect();
    if !actions.is_empty() {
        // By `*` alone a policy of this server would mean its administration.
        let everything = |action: &str| if action == "*" { "s3:*".to_owned() } else { action.to_owned() };
        let is_of_s3 = |action: &&str| *action == "*" || action.starts_with(S3);
        let kept: Vec<String> = actions.into_iter().filter(is_of_s3).map(everything).collect();
        if kept.is_empty() {
            return None;
        }
        own["Action"] = kept.into();
    }
    if own["Condition"].as_object().is_some_and(serde_json::Map::is_empty) {
        own.as_object_mut()?.remove("Condition");
    }
    Some(own)
}

/// Whether the statements are those of MinIO's administrators: all of S3, and its administration.
fn is_of_everything(statements: &[Value]) -> bool {
    let allows = |statement: &Value, wanted: &str| {
        statement["Effect"] == "Allow"
            && statement["Condition"].as_object().is_none_or(serde_json::Map::is_empty)
            && texts(&statement["Action"]).any(|action| action == wanted)
    };
    let is_everywhere = |statement: &Value| {
        texts(&statement["Resource"]).any(|resource| resource == "*" || resource == "arn:aws:s3:::*")
    };
    statements.iter().any(|statement| allows(statement, "admin:*"))
        && statements.iter().any(|statement| allows(statement, "s3:*") && is_everywhere(statement))
}

fn text_of(statements: &[Value]) -> String {
    json!({ "Version": VERSION, "Statement": statements }).to_string()
}

/// Whether a statement means here what it meant before: the keys of its conditions and the variables
/// in its resources are known, which programs may take for absent.
fn check_statement(statement: &Value) -> Result<(), String> {
    for element in ["Resource", "NotResource"] {
        for resource in texts(&statement[element]) {
            let rest = resource.replace("${aws:username}", "");
            if rest.contains("${") {
                return Err(format!("the resource {resource:?} has an unknown variable"));
            }
        }
    }
    if !statement["Condition"].is_null() {
        // The policies of buckets take no keys that they do not know.
        let strict = json!({ "Version": VERSION, "Statement": [{ "Effect": "Allow", "Principal": "*", "Action": "s3:*",
            "Resource": ["arn:aws:s3:::b", "arn:aws:s3:::b/*"], "Condition": statement["Condition"] }] });
        BucketPolicy::parse(strict.to_string().as_bytes(), "b")?;
    }
    check(&text_of(std::slice::from_ref(statement)))
}

/// Whether a users file takes the document.
fn check(document: &str) -> Result<(), String> {
    let file = format!("[[policy]]\nname = \"p\"\ndocument = {}\n", quoted(document));
    Users::parse(&file).map(drop).map_err(|error| error.to_string())
}

/// The texts of a value that is one or a list.
fn texts(value: &Value) -> impl Iterator<Item = &str> {
    let list = value.as_array().into_iter().flatten().chain(value.is_string().then_some(value));
    list.filter_map(Value::as_str)
}

fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

/// A user of this name, for tables that need one.
fn stub(name: &str) -> String {
    let name = quoted(name);
    format!("[[user]]\nname = {name}\naccess_key = {name}\nsecret_key = \"a secret for checks\"\n")
}

fn policy_line(entries: &[String]) -> String {
    let entries: Vec<String> = entries.iter().map(|entry| quoted(entry)).collect();
    format!("policy = [{}]\n", entries.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(name: &str, policies: &[&str]) -> MinioUser {
        MinioUser {
            access_key: name.to_owned(),
            secret_key: format!("the secret of {name}"),
            enabled: true,
            policies: policies.iter().map(|policy| (*policy).to_owned()).collect(),
            ..MinioUser::default()
        }
    }

    fn service_account(name: &str, parent: &str, embedded: Option<Value>) -> MinioUser {
        MinioUser { parent: Some(parent.to_owned()), embedded, ..user(name, &[]) }
    }

    fn group(name: &str, members: &[&str], policies: &[&str]) -> MinioGroup {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        MinioGroup { name: name.to_owned(), members: owned(members), policies: owned(policies) }
    }

    fn statement(effect: &str, actions: &[&str], resources: &[&str]) -> Value {
        json!({ "Statement": [{ "Effect": effect, "Action": actions, "Resource": resources }] })
    }

    fn written(users: Vec<MinioUser>, groups: Vec<MinioGroup>, policies: &[(&str, Value)]) -> UsersFile {
        let policies = policies.iter().map(|(name, policy)| ((*name).to_owned(), policy.clone())).collect();
        let identities = MinioIdentities { users, groups, policies, ..MinioIdentities::default() };
        let file = UsersFile::of(&identities, Some("root"));
        Users::parse(&file.text).unwrap();
        file
    }

    /// The table with a name.
    fn table(file: &UsersFile, name: &str) -> String {
        let start = file.text.find(&format!("name = \"{name}\"")).unwrap_or_else(|| panic!("{}", file.text));
        let text = &file.text[start..];
        text[..text.find("\n\n").unwrap()].to_owned()
    }

    fn losses(file: &UsersFile) -> Vec<String> {
        file.losses.iter().map(|(who, why)| format!("{who}: {why}")).collect()
    }

    #[test]
    fn policies_groups_and_accounts_stay_what_they_are() {
        let home = statement("Allow", &["s3:PutObject*"], &["arn:aws:s3:::pictures/${aws:username}/*"]);
        let denying = json!({ "Version": "2012-10-17", "Statement": [
            { "Effect": "Allow", "Action": ["s3:*", "admin:ServerInfo"], "Resource": ["arn:aws:s3:::*"] },
            { "Effect": "Deny", "Action": ["s3:DeleteObject"], "Resource": ["arn:aws:s3:::*"],
              "Condition": { "NotIpAddress": { "aws:SourceIp": "10.0.0.0/8" } } },
        ] });
        let only = statement("Allow", &["s3:GetObject"], &["arn:aws:s3:::pictures/*"]);
        let mut limited = service_account("limited1", "camera01", Some(only));
        limited.expires = Some("2031-01-02T03:04:05Z".to_owned());
        let users = vec![
            user("camera01", &["home", "readonly"]),
            user("careful1", &["denying"]),
            service_account("inherits", "camera01", None),
            limited,
        ];
        let groups = vec![group("team", &["careful1", "gone"], &["writeonly"])];
        let file = written(users, groups, &[("home", home), ("denying", denying)]);
        assert!(file.losses.is_empty(), "{:?}", file.losses);
        assert_eq!(file.count, 4);
        let camera = table(&file, "camera01");
        assert!(camera.ends_with("policy = [\"home\", \"readonly\"]"), "{camera}");
        assert!(camera.contains("secret_key = \"the secret of camera01\""), "{camera}");
        assert!(table(&file, "home").contains("${aws:username}"));
        let denying = table(&file, "denying");
        assert!(denying.contains("NotIpAddress") && !denying.contains("admin:"), "{denying}");
        assert!(table(&file, "team").ends_with("members = [\"careful1\"]\npolicy = [\"writeonly\"]"));
        assert!(!table(&file, "inherits").contains("policy"));
        let limited = table(&file, "limited1");
        assert!(
            limited.contains("user = \"camera01\"\n")
                && limited.contains("\nexpires = 2031-01-02T03:04:05Z\n")
        );
        assert!(limited.contains("s3:GetObject"), "{limited}");
    }

    #[test]
    fn nobody_gets_more_than_before() {
        let allow = |more: &str| {
            let text = format!(
                r#"{{"Statement": [{{"Effect": "Allow", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::a/*"{more}}}]}}"#
            );
            serde_json::from_str::<Value>(&text).unwrap()
        };
        let deny_with = |more: &str| {
            let mut policy = statement("Allow", &["s3:*"], &["arn:aws:s3:::*"]);
            let text = format!(r#"{{"Effect": "Deny", "Action": "s3:DeleteObject"{more}}}"#);
            policy["Statement"].as_array_mut().unwrap().push(serde_json::from_str(&text).unwrap());
            policy
        };
        let unknown_key = r#", "Condition": {"StringNotEquals": {"ldap:groups": "x"}}"#;
        let everywhere = r#", "Resource": "arn:aws:s3:::*""#;
        let policies = [
            ("unknown-key", allow(unknown_key)),
            ("unknown-variable", statement("Allow", &["s3:*"], &["arn:aws:s3:::${ldap:user}/*"])),
            ("deny-of-key", deny_with(&format!("{everywhere}{unknown_key}"))),
            ("deny-of-variable", deny_with(r#", "Resource": "arn:aws:s3:::a/${ldap:user}/*""#)),
            ("star", statement("Allow", &["*"], &["*"])),
        ];
        let users = vec![
            user("allowed1", &["unknown-key", "unknown-variable"]),
            user("denied01", &["readwrite", "deny-of-key"]),
            user("denied02", &["readwrite", "deny-of-variable"]),
            user("grouped1", &["readwrite"]),
            MinioUser { enabled: false, ..user("disabled", &["readwrite"]) },
            service_account("off-user", "disabled", None),
            user("starred1", &["star"]),
            service_account("barred01", "starred1", Some(deny_with(&format!("{everywhere}{unknown_key}")))),
            MinioUser { enabled: false, ..service_account("off-acct", "starred1", None) },
            service_account("orphaned", "nobody", None),
        ];
        let groups = vec![
            group("barring", &["grouped1"], &["deny-of-key"]),
            group("all", &["disabled", "grouped1", "denied01", "starred1"], &["readwrite"]),
        ];
        let file = written(users, groups, &policies);
        for name in ["allowed1", "denied01", "denied02", "grouped1"] {
            assert!(!table(&file, name).contains("policy"), "{name}: {}", file.text);
        }
        assert!(table(&file, "disabled").contains("inactive = [\"disabled\"]"), "{}", file.text);
        let all = table(&file, "all");
        assert!(all.contains("members = [\"disabled\", \"starred1\"]"), "{all}");
        assert!(
            !file.text.contains("name = \"barring\"") && !file.text.contains("off-acct"),
            "{}",
            file.text
        );
        assert!(table(&file, "star").contains("\"s3:*\""), "a star is not the administration here");
        assert!(table(&file, "barred01").ends_with("policy = []"), "{}", table(&file, "barred01"));
        let told = losses(&file);
        for words in [
            "policy unknown-key: left out: ",
            "policy unknown-variable: left out: ",
            "policy deny-of-key: nobody who has it gets a policy: ",
            "policy deny-of-variable: nobody who has it gets a policy: ",
            "denied01: it gets no policy: one of its own cannot be read",
            "grouped1: it gets no policy: one of its own cannot be read",
            "off-user: it is left out: its user is disabled",
            "barred01: nobody who has it gets a policy: ",
            "off-acct: it is left out: it is disabled",
            "orphaned: it is left out: its parent \"nobody\" is not known",
        ] {
            assert!(told.iter().any(|line| line.starts_with(words)), "{words}: {told:#?}");
        }
    }

    #[test]
    fn administrators_and_accounts_of_the_first_user_are_known() {
        let own = json!({ "Statement": [
            { "Effect": "Allow", "Action": ["admin:*"] },
            { "Effect": "Allow", "Action": ["s3:*"], "Resource": ["arn:aws:s3:::*"] },
        ] });
        let readonly = statement("Allow", &["s3:ListBucket"], &["arn:aws:s3:::*"]);
        let users = vec![
            user("console1", &["consoleAdmin"]),
            user("another1", &["own-admin"]),
            user("reader01", &["readonly"]),
            service_account("of-root1", "root", None),
            service_account("of-root2", "root", Some(readonly.clone())),
        ];
        let file = written(users, vec![], &[("own-admin", own), ("readonly", readonly)]);
        assert!(table(&file, "console1").ends_with("policy = [\"consoleAdmin\"]"));
        assert!(table(&file, "own-admin").contains("\"Action\":\"*\""), "{}", table(&file, "own-admin"));
        assert!(table(&file, "reader01").ends_with("policy = [\"readonly.minio\"]"));
        assert!(table(&file, "of-root1").ends_with("policy = [\"consoleAdmin\"]"));
        assert!(table(&file, "of-root2").contains("s3:ListBucket"));
        assert!(file.losses.is_empty(), "{:?}", file.losses);
    }

    #[test]
    fn names_that_cannot_stay_are_told() {
        let policy = statement("Allow", &["s3:GetObject"], &["arn:aws:s3:::a/*"]);
        let users =
            vec![user("team", &["odd name"]), user("a user", &["readonly"]), user("lost0001", &["gone"])];
        let file = written(users, vec![group("team", &["team"], &["readonly"])], &[("odd name", policy)]);
        assert!(table(&file, "team").contains("arn:aws:s3:::a/*"), "the document is in its place");
        let told = losses(&file);
        for words in [
            "group team: it is left out: a user has its name",
            "a user: it is left out: ",
            "lost0001: its policy \"gone\" is not there",
        ] {
            assert!(told.iter().any(|line| line.starts_with(words)), "{words}: {told:#?}");
        }
    }
}
