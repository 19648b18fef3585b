//! The users of MinIO as a users file: their keys stay, so that their clients go on.
//!
//! Nobody may get more than before. What an `Allow` says beyond the words of grants is left out and
//! told. A `Deny` that grants cannot say leaves the user without any grant.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use serde_json::Value;
use siltstone::auth::{Action, Users};

use crate::minio::iam::{MinioIdentities, MinioUser};

/// The permissions that S3 does not have, which no policy of MinIO meant.
const OWN_ACTIONS: [&str; 9] = [
    "CreateObject",
    "PutObjectStatedTime",
    "PutObjectStatedOrigin",
    "PutBucketQuota",
    "GetBucketQuota",
    "PutOwnerQuota",
    "GetOwnerQuota",
    "PutBucketPlacement",
    "GetBucketPlacement",
];
const ADMINISTRATIVE: &str = "Admin";
const ACTION_PREFIX: &str = "s3:";
const RESOURCE_PREFIX: &str = "arn:aws:s3:::";
const USER_NAME: &str = "${aws:username}";
/// The policies that every MinIO has, with their S3 actions.
const BUILT_IN: [(&str, &[&str]); 4] = [
    ("readonly", &["s3:GetBucketLocation", "s3:GetObject"]),
    ("readwrite", &["s3:*"]),
    ("writeonly", &["s3:PutObject"]),
    ("consoleAdmin", &["s3:*", "admin:*"]),
];

/// Grants as pairs of action and resource.
type Pairs = BTreeSet<(String, String)>;

/// What policies become.
#[derive(Default)]
struct Grants {
    pairs: Pairs,
    /// Whether they are those of an administrator.
    all: bool,
    /// What was left out.
    dropped: Vec<String>,
    denied: bool,
}

/// A users file, and what is to be told about it.
pub(super) struct UsersFile {
    text: String,
    pub(super) count: u64,
    /// Users, and what they lose.
    pub(super) losses: Vec<(String, String)>,
}

impl UsersFile {
    /// The users of the drives. `root` is the name of MinIO's first user, if it is known.
    pub(super) fn of(identities: &MinioIdentities, root: Option<&str>) -> Self {
        let mut file = Self { text: String::new(), count: 0, losses: Vec::new() };
        for user in &identities.users {
            let grants = file.grants_of(identities, user, root);
            let text = user_text(user, &grants);
            match Users::parse(&text) {
                Ok(_) => {
                    file.text += &text;
                    file.count += 1;
                }
                Err(error) => file.lose(user, format!("it is left out: {error}")),
            }
        }
        file
    }

    /// Writes the file, readable by its owner alone.
    pub(super) fn write(&self, path: &Path) -> std::io::Result<()> {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        file.write_all(self.text.as_bytes())?;
        file.sync_all()
    }

    fn lose(&mut self, user: &MinioUser, why: String) {
        self.losses.push((user.access_key.clone(), why));
    }

    fn grants_of(&mut self, identities: &MinioIdentities, user: &MinioUser, root: Option<&str>) -> Grants {
        let grants = self.granted(identities, user, root);
        for dropped in &grants.dropped {
            self.lose(user, dropped.clone());
        }
        if grants.denied {
            self.lose(
                user,
                "it gets no grants: a policy denies something, which grants cannot say".to_owned(),
            );
            return Grants::default();
        }
        grants
    }

    fn granted(&mut self, identities: &MinioIdentities, user: &MinioUser, root: Option<&str>) -> Grants {
        if !user.enabled {
            self.lose(user, "it gets no grants: it is disabled".to_owned());
            return Grants::default();
        }
        let Some(parent) = &user.parent else { return own_grants(identities, user) };
        let of_parent = match identities.users.iter().find(|other| other.access_key == *parent) {
            Some(parent) if !parent.enabled => Grants::default(),
            Some(parent) => own_grants(identities, parent),
            None if root == Some(parent) => Grants { all: true, ..Grants::default() },
            None => {
                self.lose(user, format!("it gets no grants: its parent {parent:?} is not known"));
                return Grants::default();
            }
        };
        let Some(embedded) = &user.embedded else { return of_parent };
        let mut own = Grants::default();
        own.add(embedded, &user.access_key);
        if own.denied || of_parent.denied || of_parent.covers(&own) {
            return Grants { denied: own.denied || of_parent.denied, ..own };
        }
        if own.covers(&of_parent) {
            return of_parent;
        }
        self.lose(
            user,
            "it gets no grants: neither its policy nor that of its parent contains the other".to_owned(),
        );
        Grants::default()
    }
}

fn own_grants(identities: &MinioIdentities, user: &MinioUser) -> Grants {
    let mut grants = Grants::default();
    let of_groups = identities.of_groups.get(&user.access_key).into_iter().flatten();
    let names: BTreeSet<&String> = user.policies.iter().chain(of_groups).collect();
    for name in names {
        let built_in = BUILT_IN.iter().find(|(built_in, _)| built_in == name);
        match (identities.policies.get(name), built_in) {
            (Some(policy), _) => grants.add(policy, &user.access_key),
            (None, Some((_, actions))) => {
                let resources = [format!("{RESOURCE_PREFIX}*")];
                let policy = serde_json::json!({ "Statement": [{ "Effect": "Allow", "Action": actions, "Resource": resources }] });
                grants.add(&policy, &user.access_key);
            }
            (None, None) if name == "diagnostics" => {}
            (None, None) => grants.dropped.push(format!("its policy {name:?} is not there")),
        }
    }
    grants
}

impl Grants {
    fn add(&mut self, policy: &Value, user: &str) {
        let statements = match &policy["Statement"] {
            Value::Array(statements) => statements.clone(),
            one => vec![one.clone()],
        };
        for statement in &statements {
            self.add_statement(statement, user);
        }
        let said = |action: &str| {
            statements
                .iter()
                .any(|it| it["Effect"] == "Allow" && texts(&it["Action"]).any(|said| said == action))
        };
        let everywhere = self.pairs.contains(&("DeleteBucket".to_owned(), "*".to_owned()));
        self.all |= said("admin:*") && said("s3:*") && everywhere;
    }

    fn add_statement(&mut self, statement: &Value, user: &str) {
        // Actions of MinIO's administration have no meaning here.
        let actions = texts(&statement["Action"]);
        let actions: Vec<&str> =
            actions.filter(|action| action.starts_with(ACTION_PREFIX) || *action == "*").collect();
        let negated = ["NotAction", "NotResource"].iter().any(|name| !statement[name].is_null());
        if statement["Effect"] != "Allow" {
            self.denied |= !actions.is_empty() || negated;
            return;
        }
        if negated || statement["Condition"].as_object().is_some_and(|conditions| !conditions.is_empty()) {
            self.dropped
                .push(format!("left out, since grants have no conditions and negations: {statement}"));
            return;
        }
        let mut resources = Vec::new();
        for resource in texts(&statement["Resource"]) {
            let name = resource.strip_prefix(RESOURCE_PREFIX).unwrap_or(resource).replace(USER_NAME, user);
            match resources_of(&name) {
                Some(names) => resources.extend(names),
                None if actions.is_empty() => {}
                None => {
                    self.dropped.push(format!("left out, since grants cannot say the resource {resource:?}"));
                }
            }
        }
        for action in actions {
            let names: Vec<&str> = action_names()
                .filter(|name| matches(action.trim_start_matches(ACTION_PREFIX), name))
                .collect();
            if names.is_empty() {
                self.dropped.push(format!("left out, since there is no action {action:?}"));
            }
            for name in names {
                let pairs = resources.iter().map(|resource| (name.to_owned(), resource.clone()));
                self.pairs.extend(pairs.filter(|(action, resource)| is_grant(action, resource)));
            }
        }
    }

    /// Whether whatever the other allows is allowed here.
    fn covers(&self, other: &Self) -> bool {
        self.all || (!other.all && other.pairs.iter().all(|(action, resource)| self.allows(action, resource)))
    }

    fn allows(&self, action: &str, resource: &str) -> bool {
        self.pairs.iter().any(|(own, pattern)| own == action && is_within(resource, pattern))
    }
}

/// Whether a grant on `pattern` also holds for `resource`.
fn is_within(resource: &str, pattern: &str) -> bool {
    let Some(start) = pattern.strip_suffix('*') else { return pattern == resource };
    // A pattern of buckets covers no objects.
    let is_of_kind = pattern == "*" || pattern.contains('/') == resource.contains('/');
    pattern == resource || (is_of_kind && resource.starts_with(start))
}

/// The texts of a value that is one or a list.
fn texts(value: &Value) -> impl Iterator<Item = &str> {
    let list = value.as_array().into_iter().flatten().chain(value.is_string().then_some(value));
    list.filter_map(Value::as_str)
}

fn action_names() -> impl Iterator<Item = &'static str> {
    let names = Action::ALL.iter().map(|action| action.as_str());
    names.filter(|name| !name.starts_with(ADMINISTRATIVE) && !OWN_ACTIONS.contains(name))
}

/// Whether a name matches a pattern with `*` for any text.
fn matches(pattern: &str, name: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(name) = name.strip_prefix(start) else { return false };
    (0..=name.len()).any(|at| matches(rest, &name[at..]))
}

/// The resources of grants that mean the same; `None` if there are none.
fn resources_of(name: &str) -> Option<Vec<String>> {
    if name == "*" {
        return Some(vec!["*".to_owned()]);
    }
    let inner = name.trim_end_matches('*');
    if name.is_empty() || inner.contains(['*', '?', '$']) || name.ends_with("**") {
        return None;
    }
    // A pattern without a slash matches buckets and all that is in them.
    let is_open = name.ends_with('*') && !name.contains('/');
    Some(if is_open { vec![name.to_owned(), format!("{name}/*")] } else { vec![name.to_owned()] })
}

/// Whether a users file takes the grant.
fn is_grant(action: &str, resource: &str) -> bool {
    let allow = allow_text(&[action.to_owned()], &[resource.to_owned()]);
    Users::parse(&format!(
        "[[user]]\nname = \"u\"\naccess_key = \"AKFORCHECKS\"\nsecret_key = \"a secret for checks\"\n{allow}"
    ))
    .is_ok()
}

fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

fn allow_text(actions: &[String], resources: &[String]) -> String {
    let list = |texts: &[String]| texts.iter().map(|text| quoted(text)).collect::<Vec<_>>().join(", ");
    format!("[[user.allow]]\nactions = [{}]\nresources = [{}]\n", list(actions), list(resources))
}

fn user_text(user: &MinioUser, grants: &Grants) -> String {
    let name = quoted(&user.access_key);
    let secret = quoted(&user.secret_key);
    let mut text = format!("[[user]]\nname = {name}\naccess_key = {name}\nsecret_key = {secret}\n");
    if grants.all {
        text += &allow_text(&["*".to_owned()], &["*".to_owned()]);
        return text + "\n";
    }
    // Actions with the same resources share a table.
    let mut by_action: BTreeMap<&String, Vec<String>> = BTreeMap::new();
    for (action, resource) in &grants.pairs {
        by_action.entry(action).or_default().push(resource.clone());
    }
    let mut tables: BTreeMap<Vec<String>, Vec<String>> = BTreeMap::new();
    for (action, resources) in by_action {
        tables.entry(resources).or_default().push(action.clone());
    }
    for (resources, actions) in &tables {
        text += &allow_text(actions, resources);
    }
    text + "\n"
}

#[cfg(test)]
mod tests {
    use serde_json::json;

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

    fn statement(effect: &str, actions: &[&str], resources: &[&str]) -> Value {
        json!({ "Statement": [{ "Effect": effect, "Action": actions, "Resource": resources }] })
    }

    fn written(users: Vec<MinioUser>, policies: &[(&str, Value)]) -> UsersFile {
        let policies = policies.iter().map(|(name, policy)| ((*name).to_owned(), policy.clone())).collect();
        UsersFile::of(&MinioIdentities { users, policies, ..MinioIdentities::default() }, Some("root"))
    }

    /// The lines of the tables of one user.
    fn tables(file: &UsersFile, name: &str) -> String {
        let start = file.text.find(&format!("name = \"{name}\"")).unwrap();
        let text = &file.text[start..];
        text[..text.find("\n\n").unwrap()].to_owned()
    }

    #[test]
    fn allowed_actions_become_grants_of_the_same_resources() {
        let policy = statement(
            "Allow",
            &["s3:GetObject", "s3:ListBucket", "s3:PutObject*"],
            &["arn:aws:s3:::pictures", "arn:aws:s3:::pictures/${aws:username}/*"],
        );
        let file = written(vec![user("camera01", &["p"])], &[("p", policy)]);
        let told = tables(&file, "camera01");
        assert!(told.contains("secret_key = \"the secret of camera01\""), "{told}");
        assert!(
            told.contains("resources = [\"pictures/camera01/*\"]") && told.contains("\"PutObjectTagging\""),
            "{told}"
        );
        assert!(
            told.contains("actions = [\"ListBucket\"]\nresources = [\"pictures\", \"pictures/camera01/*\"]"),
            "{told}"
        );
        assert!(!told.contains("PutObjectStatedTime") && file.losses.is_empty(), "{told}");
    }

    #[test]
    fn nobody_gets_more_than_before() {
        let deny = json!({ "Statement": [
            { "Effect": "Allow", "Action": ["s3:*"], "Resource": ["arn:aws:s3:::*"] },
            { "Effect": "Deny", "Action": ["s3:DeleteObject"], "Resource": ["arn:aws:s3:::*"] },
        ] });
        let condition = json!({ "Statement": [{ "Effect": "Allow", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::a/*",
            "Condition": { "IpAddress": { "aws:SourceIp": "10.0.0.0/8" } } }] });
        let inner = statement("Allow", &["s3:GetObject", "s3:NoSuch"], &["arn:aws:s3:::a/*/b"]);
        let off = MinioUser { enabled: false, ..user("disabled", &["readwrite"]) };
        let users = vec![
            user("denied01", &["deny"]),
            user("condition", &["condition"]),
            user("inner001", &["inner"]),
            off,
        ];
        let file = written(users, &[("deny", deny), ("condition", condition), ("inner", inner)]);
        assert_eq!(file.count, 4);
        assert!(!file.text.contains("allow"), "{}", file.text);
        let losses: Vec<_> = file.losses.iter().map(|(user, why)| format!("{user}: {why}")).collect();
        for told in [
            "denied01: it gets no grants: a policy denies",
            "condition: left out, since grants have no conditions",
            "inner001: left out, since grants cannot say the resource",
            "inner001: left out, since there is no action \"s3:NoSuch\"",
            "disabled: it gets no grants: it is disabled",
        ] {
            assert!(losses.iter().any(|line| line.starts_with(told)), "{told}: {losses:?}");
        }
    }

    #[test]
    fn the_administrator_and_the_built_in_policies_are_known() {
        let file = written(
            vec![
                user("console1", &["consoleAdmin"]),
                user("reader01", &["readonly"]),
                user("writer01", &["readwrite"]),
            ],
            &[],
        );
        assert!(tables(&file, "console1").contains("actions = [\"*\"]\nresources = [\"*\"]"));
        let reader = tables(&file, "reader01");
        assert!(
            reader.contains("actions = [\"GetBucketLocation\", \"GetObject\"]\nresources = [\"*\"]"),
            "{reader}"
        );
        let writer = tables(&file, "writer01");
        assert!(
            writer.contains("\"DeleteObject\"") && !writer.contains("Admin") && !writer.contains("Quota"),
            "{writer}"
        );
    }

    #[test]
    fn service_accounts_have_the_grants_of_both_only_where_one_contains_the_other() {
        let policy = statement("Allow", &["s3:GetObject", "s3:PutObject"], &["arn:aws:s3:::a/*"]);
        let less = statement("Allow", &["s3:GetObject"], &["arn:aws:s3:::a/b/*"]);
        let other = statement("Allow", &["s3:GetObject", "s3:DeleteObject"], &["arn:aws:s3:::a/*"]);
        let users = vec![
            user("parent01", &["p"]),
            service_account("inherits", "parent01", None),
            service_account("has-less", "parent01", Some(less)),
            service_account("crosses1", "parent01", Some(other.clone())),
            service_account("of-root1", "root", Some(other)),
            service_account("orphaned", "nobody", None),
        ];
        let file = written(users, &[("p", policy)]);
        assert_eq!(tables(&file, "inherits").replace("inherits", "parent01"), tables(&file, "parent01"));
        assert!(tables(&file, "has-less").contains("actions = [\"GetObject\"]\nresources = [\"a/b/*\"]"));
        assert!(!tables(&file, "crosses1").contains("allow") && !tables(&file, "orphaned").contains("allow"));
        assert!(tables(&file, "of-root1").contains("DeleteObject"));
        assert_eq!(file.losses.len(), 2, "{:?}", file.losses);
    }
}
