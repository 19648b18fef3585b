//! The users file: the users, their keys and their permissions.
//!
//! ```toml
//! [[user]]
//! name = "backup"
//! access_key = "AKIAIOSFODNN7EXAMPLE"
//! secret_key = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
//!
//! previous = { access_key = "AKIAI44QH8DHBEXAMPLE", secret_key = "je7MtGbClwBF/2Zp9Utk/h3yCo8nvbEXAMPLEKEY" }
//!
//! [[user.allow]]
//! actions = ["ListBucket"]
//! resources = ["archive"]
//!
//! [[user.allow]]
//! actions = ["GetObject", "PutObject"]
//! resources = ["archive/2026/*"]
//!
//! [[user]]                      # requests without a signature
//! name = "anonymous"
//! allow = [{ actions = ["GetObject"], resources = ["public/*"] }]
//! ```
//!
//! A user has one pair of keys and, during a rotation, the previous pair in addition.
//!
//! A table `[user.quota]` limits the buckets that the user owns: `bytes = "10GiB"`, `objects`,
//! `uploads` and `buckets`.
//!
//! A table `[user.oidc]` names the people who act as this user in the console, after an OpenID
//! provider has vouched for them: `subjects` and `groups`, lists of names.
//!
//! `"*"` stands for all actions or all resources. A resource `bucket` is the bucket itself,
//! `bucket/key` one object, `bucket/prefix*` the objects whose keys begin with the prefix; neither
//! includes the other. A `*` at the end of a bucket name stands for all buckets with that prefix.
//! `@owned` stands for the buckets that the user created and all their objects, `@owned/prefix*`
//! for some of the objects. Actions without a grant are refused unless a bucket policy or an ACL
//! allows them. A grant without effect is an error.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::Deserialize;
use toml::Spanned;

use crate::auth::admission::{Admissions, OidcPerson, OidcTable};
use crate::auth::policy::Grant;
use crate::auth::resource::Ownership;
use crate::auth::signing_key::{SigningKey, SigningKeys};
use crate::auth::user_quota::QuotaTable;
use crate::auth::{Action, KeyPair, Resource, Secret};
use crate::base::digest::HmacSha1;
use crate::base::{Quota, limits};
use crate::s3::{ErrorCode, S3Error};

const ADMINISTRATOR: &str = Users::ADMINISTRATOR;

/// An error in a users file. It never quotes a secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct UsersError {
    /// The line, counted from 1.
    pub line: usize,
    pub problem: String,
}

/// The users of one version of the file.
#[derive(Debug)]
pub struct Users {
    by_access_key: HashMap<String, Signer>,
    anonymous: Arc<User>,
    quotas: HashMap<String, Quota>,
    admissions: Admissions,
}

impl Default for Users {
    /// No users, as in an empty file.
    fn default() -> Self {
        UsersBuilder::default().finish()
    }
}

impl Users {
    /// The name of the user that the first start creates, and of the one that the environment sets.
    pub const ADMINISTRATOR: &'static str = "admin";

    /// The name of the user of requests without a signature.
    pub const ANONYMOUS: &'static str = "anonymous";

    /// Parses a users file.
    ///
    /// # Errors
    /// The first problem: malformed TOML, an unknown key, action or resource, or a name or access
    /// key that is missing, malformed or repeated.
    pub fn parse(text: &str) -> Result<Self, UsersError> {
        let line_of = |at: &Range<usize>| 1 + text.bytes().take(at.start).filter(|&b| b == b'\n').count();
        let file: FileTable = toml::from_str(text).map_err(|error| UsersError {
            line: line_of(&error.span().unwrap_or_default()),
            problem: error.message().to_owned(),
        })?;
        let mut reader = UsersBuilder::default();
        for user in &file.user {
            reader.user(user.as_ref()).map_err(|(at, problem)| UsersError { line: line_of(&at), problem })?;
        }
        Ok(reader.finish())
    }

    /// The text of the first file: one administrator with all permissions, who signs with `keys`.
    pub fn first_file(keys: &KeyPair) -> String {
        let quote = |text: &str| toml::Value::from(text).to_string();
        format!(
            "# Who may do what. Read again on SIGHUP.\n\n[[user]]\nname = \"{ADMINISTRATOR}\"\naccess_key = {}\nsecret_key = {}\n\n\
             [[user.allow]]\nactions = [\"*\"]\nresources = [\"*\"]\n",
            quote(&keys.access_key),
            quote(keys.secret_key.reveal())
        )
    }

    /// These users with an administrator who signs with `keys` and has all permissions, in place of
    /// the one in the file. `keys` are valid in a users file.
    ///
    /// # Errors
    /// The access key belongs to another user, whom the message names.
    pub fn with_administrator(mut self, keys: KeyPair) -> Result<Self, String> {
        self.by_access_key.retain(|_, signer| signer.user.name != ADMINISTRATOR);
        let administrator = User::new(ADMINISTRATOR, vec![Grant::of_everything()]);
        self.admissions.replace_key(ADMINISTRATOR, &keys.access_key);
        match self.by_access_key.insert(keys.access_key, Signer::new(&administrator, keys.secret_key)) {
            Some(other) => {
                Err(format!("the access key of `{ADMINISTRATOR}` belongs to `{}` already", other.user.name))
            }
            None => Ok(self),
        }
    }

    /// The names of the users with a secret that is short enough to be guessed, sorted and without
    /// repetition.
    pub fn with_short_secrets(&self) -> BTreeSet<&str> {
        let short = |signer: &&Signer| signer.secret.reveal().len() < limits::SECRET_ADVISED_BYTES;
        self.by_access_key.values().filter(short).map(|signer| signer.user.name()).collect()
    }

    /// The quotas, by the name of the user.
    pub fn quotas(&self) -> &HashMap<String, Quota> {
        &self.quotas
    }

    /// The keys of an administrator: of the one that the first start creates, or else of the first
    /// by access key.
    pub fn administrator_keys(&self) -> Option<KeyPair> {
        let all = self.by_access_key.iter().filter(|(_, signer)| signer.user.is_administrator());
        let order = |entry: &(&String, &Signer)| (entry.1.user.name != ADMINISTRATOR, entry.0.clone());
        let (access_key, signer) = all.min_by_key(order)?;
        Some(KeyPair { access_key: access_key.clone(), secret_key: signer.secret.clone() })
    }

    /// The access key of the user as whom a person acts.
    pub(super) fn access_key_of(&self, person: &OidcPerson) -> Option<&str> {
        self.admissions.access_key_of(person)
    }

    /// The user of an access key in a request.
    ///
    /// # Errors
    /// `InvalidAccessKeyId`.
    pub(super) fn signer(&self, access_key: &str) -> Result<&Signer, S3Error> {
        self.find(access_key)
            .ok_or_else(|| S3Error::new(ErrorCode::InvalidAccessKeyId).element("AWSAccessKeyId", access_key))
    }

    /// The user of an access key, with its secret.
    pub(super) fn find(&self, access_key: &str) -> Option<&Signer> {
        self.by_access_key.get(access_key)
    }

    /// Whether there is a user of that name with a key.
    pub(super) fn has_signer(&self, name: &str) -> bool {
        self.by_access_key.values().any(|signer| signer.user.name == name)
    }

    /// The user of unsigned requests; a user without grants if the file has none.
    pub(super) fn anonymous(&self) -> &Arc<User> {
        &self.anonymous
    }
}

/// One user.
#[derive(Debug)]
pub(super) struct User {
    name: String,
    grants: Vec<Grant>,
}

impl User {
    fn new(name: &str, grants: Vec<Grant>) -> Arc<Self> {
        Arc::new(Self { name: name.to_owned(), grants })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn is_anonymous(&self) -> bool {
        self.name == Users::ANONYMOUS
    }

    /// Whether a grant of the users file allows `action` on `resource`. Anonymous requests never
    /// create buckets. `owned` says whether the user owns the bucket of the resource.
    pub(super) fn may(&self, action: Action, resource: Resource<'_>, owned: Ownership<'_>) -> bool {
        let barred = self.is_anonymous() && action == Action::CreateBucket;
        !barred && self.grants.iter().any(|grant| grant.allows(action, resource, owned))
    }

    /// Whether it may create a bucket of some name.
    pub(super) fn may_create_some_bucket(&self) -> bool {
        let names = self.grants.iter().flat_map(Grant::names_of_buckets);
        names.into_iter().any(|name| self.may(Action::CreateBucket, Resource::Bucket(name), &|| false))
    }

    /// Whether it has keys and a grant of everything.
    pub(super) fn is_administrator(&self) -> bool {
        !self.is_anonymous() && self.grants.iter().any(Grant::is_of_everything)
    }
}

/// A user by one of its access keys.
#[derive(Debug)]
pub(super) struct Signer {
    user: Arc<User>,
    secret: Secret,
    signing_keys: SigningKeys,
}

impl Signer {
    fn new(user: &Arc<User>, secret: Secret) -> Self {
        Self { user: Arc::clone(user), secret, signing_keys: SigningKeys::default() }
    }

    pub(super) fn user(&self) -> &Arc<User> {
        &self.user
    }

    pub(super) fn secret(&self) -> &Secret {
        &self.secret
    }

    /// The signing key for a day and a region.
    pub(super) fn signing_key(&self, date: &str, region: &str) -> SigningKey {
        self.signing_keys.get(&self.secret, date, region)
    }

    /// The signature of `text` by version 2, in base64: 28 characters.
    pub(super) fn sign_v2(&self, text: &[u8]) -> String {
        BASE64.encode(HmacSha1::of(self.secret.reveal().as_bytes(), text))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileTable {
    #[serde(default)]
    user: Vec<Spanned<UserTable>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UserTable {
    name: Spanned<String>,
    access_key: Option<Spanned<String>>,
    /// Of any type, so that no message about a wrong type quotes the value.
    secret_key: Option<Spanned<toml::Value>>,
    previous: Option<PairTable>,
    #[serde(default)]
    allow: Vec<AllowTable>,
    quota: Option<Spanned<QuotaTable>>,
    oidc: Option<Spanned<OidcTable>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PairTable {
    access_key: Spanned<String>,
    /// As [`UserTable::secret_key`].
    secret_key: Spanned<toml::Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AllowTable {
    actions: Vec<Spanned<String>>,
    resources: Vec<Spanned<String>>,
}

/// The place in the file and the problem.
type Problem = (Range<usize>, String);

/// Builds users from tables, and refuses repeated names and keys.
#[derive(Default)]
struct UsersBuilder {
    names: HashSet<String>,
    by_access_key: HashMap<String, Signer>,
    anonymous: Option<Arc<User>>,
    quotas: HashMap<String, Quota>,
    admissions: Admissions,
}

impl UsersBuilder {
    fn user(&mut self, table: &UserTable) -> Result<(), Problem> {
        let name = checked(&table.name, "name", |c| !c.is_control())?;
        if !self.names.insert(name.to_owned()) {
            return Err((table.name.span(), format!("the user `{name}` is there twice")));
        }
        let grants = table.allow.iter().map(grant).collect::<Result<_, _>>()?;
        if name == Users::ANONYMOUS {
            table.allow.iter().try_for_each(check_anonymous)?;
        }
        if let Some(quota) = &table.quota {
            let at = |problem: String| (quota.span(), problem);
            self.quotas.insert(name.to_owned(), quota.as_ref().quota_of(name).map_err(at)?);
        }
        let pairs = pairs_of(table)?;
        if let Some(oidc) = &table.oidc {
            let at = |problem: String| (oidc.span(), problem);
            let (_, keys) = pairs.first().ok_or_else(|| at("the user `anonymous` is nobody".to_owned()))?;
            self.admissions.add(name, &keys.access_key, oidc.as_ref()).map_err(at)?;
        }
        let user = User::new(name, grants);
        for (at, KeyPair { access_key, secret_key }) in pairs {
            if self.by_access_key.insert(access_key, Signer::new(&user, secret_key)).is_some() {
                return Err((at, format!("the access key of `{name}` is there already")));
            }
        }
        if user.is_anonymous() {
            self.anonymous = Some(user);
        }
        Ok(())
    }

    fn finish(self) -> Users {
        let anonymous = self.anonymous.unwrap_or_else(|| User::new(Users::ANONYMOUS, Vec::new()));
        Users {
            by_access_key: self.by_access_key,
            anonymous,
            quotas: self.quotas,
            admissions: self.admissions,
        }
    }
}

/// A pair of keys and its place in the file.
type PlacedPair = (Range<usize>, KeyPair);

/// The pairs of keys of a user: the current one and, if present, the previous one; none for the
/// anonymous user.
fn pairs_of(table: &UserTable) -> Result<Vec<PlacedPair>, Problem> {
    let name = table.name.as_ref();
    match (&table.access_key, &table.secret_key, &table.previous) {
        (None, None, None) if name == Users::ANONYMOUS => Ok(Vec::new()),
        _ if name == Users::ANONYMOUS => {
            Err((table.name.span(), "the user `anonymous` has no keys".to_owned()))
        }
        (Some(access_key), Some(secret_key), previous) => {
            let previous = previous.as_ref().map(|pair| (&pair.access_key, &pair.secret_key));
            let pairs = std::iter::once((access_key, secret_key)).chain(previous);
            pairs.map(|(access_key, secret_key)| pair(access_key, secret_key)).collect()
        }
        _ => Err((table.name.span(), format!("the user `{name}` needs an access_key and a secret_key"))),
    }
}

fn pair(access_key: &Spanned<String>, secret_key: &Spanned<toml::Value>) -> Result<PlacedPair, Problem> {
    // `/` and `,` separate the parts of a credential in a request.
    let plain = |c: char| c.is_ascii_graphic() && !matches!(c, '/' | ',');
    let at = access_key.span();
    let access_key = checked(access_key, "access_key", plain)?.to_owned();
    Ok((at, KeyPair { access_key, secret_key: secret(secret_key)? }))
}

fn secret(value: &Spanned<toml::Value>) -> Result<Secret, Problem> {
    let wrong = || (value.span(), "a secret_key is a string of 1 to 128 characters".to_owned());
    let text = value.as_ref().as_str().ok_or_else(wrong)?;
    if text.is_empty() || text.len() > limits::CREDENTIAL_LEN_MAX_BYTES {
        return Err(wrong());
    }
    Ok(Secret::new(text))
}

/// The text of a short field, all of whose characters must pass `allowed`.
fn checked<'t>(
    value: &'t Spanned<String>,
    field: &str,
    allowed: impl Fn(char) -> bool,
) -> Result<&'t str, Problem> {
    let text = value.as_ref();
    let max = limits::CREDENTIAL_LEN_MAX_BYTES;
    if text.is_empty() || text.len() > max {
        return Err((value.span(), format!("`{field}` is 1 to {max} bytes long")));
    }
    match text.chars().find(|&c| !allowed(c)) {
        Some(c) => Err((value.span(), format!("`{field}` may not hold {c:?}"))),
        None => Ok(text),
    }
}

fn grant(table: &AllowTable) -> Result<Grant, Problem> {
    let mut grant = Grant::default();
    for action in &table.actions {
        grant.add_action(action.as_ref()).map_err(|problem| (action.span(), problem))?;
    }
    for resource in &table.resources {
        grant.add_resource(resource.as_ref()).map_err(|problem| (resource.span(), problem))?;
    }
    check_effect(&grant, table)?;
    Ok(grant)
}

/// Refuses actions and resources without effect, since their author expects one. An empty list
/// plainly grants nothing.
fn check_effect(grant: &Grant, table: &AllowTable) -> Result<(), Problem> {
    if table.actions.is_empty() || table.resources.is_empty() {
        return Ok(());
    }
    for action in &table.actions {
        grant.check_action(action.as_ref()).map_err(|problem| (action.span(), problem))?;
    }
    for resource in &table.resources {
        grant.check_resource(resource.as_ref()).map_err(|problem| (resource.span(), problem))?;
    }
    Ok(())
}

/// Refuses actions that the anonymous user is never allowed.
fn check_anonymous(table: &AllowTable) -> Result<(), Problem> {
    match table.actions.iter().find(|action| action.as_ref() == Action::CreateBucket.as_str()) {
        Some(action) => Err((action.span(), "buckets are never created without a signature".to_owned())),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::SeededEntropy;

    /// The example in the documentation of this module.
    fn documented() -> String {
        let source = include_str!("users.rs");
        let lines = source.lines().map_while(|line| line.strip_prefix("//!"));
        let inside = lines.skip_while(|line| !line.contains("```toml")).skip(1);
        inside.take_while(|line| !line.contains("```")).map(|line| format!("{}\n", line.trim())).collect()
    }

    #[test]
    fn the_documented_file_means_what_it_says() {
        let users = Users::parse(&documented()).unwrap();
        let backup = users.find("AKIAIOSFODNN7EXAMPLE").unwrap().user();
        assert!(Arc::ptr_eq(backup, users.find("AKIAI44QH8DHBEXAMPLE").unwrap().user()));
        assert_eq!((backup.name(), backup.is_anonymous()), ("backup", false));
        assert!(backup.may(Action::ListBucket, Resource::Bucket("archive"), &|| false));
        let object = |key| Resource::Object { bucket: "archive", key };
        assert!(backup.may(Action::PutObject, object("2026/x"), &|| false));
        assert!(!backup.may(Action::PutObject, object("2025/x"), &|| false));
        assert!(!backup.may(Action::DeleteObject, object("2026/x"), &|| false));
        let public = Resource::Object { bucket: "public", key: "x" };
        assert!(users.anonymous().may(Action::GetObject, public, &|| false));
        assert!(users.find("AKIAIOSFODNN7EXAMPLF").is_none());
    }

    #[test]
    fn anonymous_requests_never_create_buckets() {
        let granted = |action: &str| {
            format!(
                "[[user]]\nname = \"anonymous\"\n[[user.allow]]\nactions = [\"{action}\"]\nresources = [\"*\"]"
            )
        };
        let users = Users::parse(&granted("*")).unwrap();
        assert!(!users.anonymous().may(Action::CreateBucket, Resource::Bucket("b"), &|| false));
        assert!(users.anonymous().may(Action::DeleteBucket, Resource::Bucket("b"), &|| false));
        assert_eq!(
            refusal(&granted("CreateBucket")),
            (4, "buckets are never created without a signature".to_owned())
        );
    }

    #[test]
    fn without_an_anonymous_user_unsigned_requests_may_do_nothing() {
        let users = Users::parse("").unwrap();
        assert!(users.anonymous().is_anonymous());
        for &action in Action::ALL {
            assert!(!users.anonymous().may(action, Resource::Bucket("b"), &|| false));
        }
    }

    #[test]
    fn the_first_file_has_an_administrator_with_all_permissions() {
        let keys = KeyPair::generate(&SeededEntropy::new(1));
        let users = Users::parse(&Users::first_file(&keys)).unwrap();
        assert!(users.find(&keys.access_key).unwrap().secret == keys.secret_key);
        let admin = users.find(&keys.access_key).unwrap().user();
        assert_eq!(admin.name(), "admin");
        for &action in Action::ALL {
            assert!(admin.may(action, Resource::Object { bucket: "b", key: "k" }, &|| false), "{action}");
        }
    }

    #[test]
    fn keys_chosen_by_the_operator_are_quoted_in_the_first_file() {
        let keys = KeyPair { access_key: "a\"b".to_owned(), secret_key: Secret::new("c\\d\"\n'''é") };
        let users = Users::parse(&Users::first_file(&keys)).unwrap();
        assert!(users.find("a\"b").unwrap().secret == keys.secret_key);
    }

    #[test]
    fn the_environment_replaces_the_administrator_and_no_other_user() {
        let keys =
            |access_key: &str| KeyPair { access_key: access_key.to_owned(), secret_key: Secret::new("s") };
        let users = || Users::parse(&file(&[("admin", "AK1"), ("other", "AK2")], "")).unwrap();
        for access_key in ["AK1", "AK3"] {
            let users = users().with_administrator(keys(access_key)).unwrap();
            assert!(users.find(access_key).unwrap().secret == Secret::new("s"));
            let admin = users.find(access_key).unwrap().user();
            assert_eq!(admin.name(), "admin");
            assert!(admin.may(Action::CreateBucket, Resource::Bucket("b"), &|| false));
            assert_eq!(users.find("AK1").is_some(), access_key == "AK1");
            assert_eq!(users.find("AK2").unwrap().user().name(), "other");
        }
        assert!(users().with_administrator(keys("AK2")).unwrap_err().contains("`other`"));
    }

    /// A file of users given as (name, access key), four lines each, followed by `rest`.
    fn file(users: &[(&str, &str)], rest: &str) -> String {
        let users = users.iter().map(|(name, access_key)| {
            format!("[[user]]\nname = {name:?}\naccess_key = {access_key:?}\nsecret_key = \"s3cr3t\"\n")
        });
        users.chain([rest.to_owned()]).collect()
    }

    fn refusal(text: &str) -> (usize, String) {
        let error = Users::parse(text).unwrap_err();
        (error.line, error.problem)
    }

    #[test]
    fn a_name_or_access_key_used_twice_is_refused_by_line() {
        let (line, problem) = refusal(&file(&[("a", "AK1"), ("a", "AK2")], ""));
        assert_eq!((line, problem.as_str()), (6, "the user `a` is there twice"));
        let (line, problem) = refusal(&file(&[("a", "AK1"), ("b", "AK1")], ""));
        assert_eq!((line, problem.as_str()), (7, "the access key of `b` is there already"));
        for previous in ["AK1", "AK2"] {
            let rest = format!("previous = {{ access_key = \"{previous}\", secret_key = \"s\" }}\n");
            let (line, problem) = refusal(&file(&[("a", "AK1"), ("b", "AK2")], &rest));
            assert_eq!((line, problem.as_str()), (9, "the access key of `b` is there already"));
        }
    }

    #[test]
    fn a_user_signs_with_either_of_its_pairs_and_each_has_keys_of_its_own() {
        let previous = "[user.previous]\naccess_key = \"AK0\"\nsecret_key = \"s0\"\n";
        let users = Users::parse(&file(&[("a", "AK1")], previous)).unwrap();
        let key = |access_key: &str| {
            let signer = users.find(access_key).unwrap();
            assert_eq!(signer.user().name(), "a");
            signer.signing_key("20130524", "eu").sign(&[b"x"])
        };
        assert_ne!(key("AK0"), key("AK1"));
        assert_eq!(key("AK0"), key("AK0"));
        assert_eq!(refusal(&file(&[("a", "AK1")], "previous = { access_key = \"AK0\" }\n")).0, 5);
        let anonymous =
            "[[user]]\nname = \"anonymous\"\n[user.previous]\naccess_key = \"A\"\nsecret_key = \"s\"\n";
        assert_eq!(refusal(anonymous), (2, "the user `anonymous` has no keys".to_owned()));
    }

    #[test]
    fn short_secrets_are_reported_by_user() {
        let text = file(&[("long", "AK1"), ("short", "AK2"), ("shorter", "AK3")], "").replacen(
            "s3cr3t",
            &"x".repeat(limits::SECRET_ADVISED_BYTES),
            1,
        );
        assert!(Users::parse(&text).unwrap().with_short_secrets().into_iter().eq(["short", "shorter"]));
    }

    #[test]
    fn unknown_keys_are_refused_by_line() {
        for (rest, line) in [
            ("admin = true\n", 5),
            ("[[user.allow]]\nactions = []\nresources = []\neffect = \"Deny\"\n", 8),
            ("[[group]]\n", 5),
        ] {
            let (at, problem) = refusal(&file(&[("a", "AK1")], rest));
            assert_eq!(at, line, "{rest}");
            assert!(problem.contains("unknown field"), "{problem}");
        }
    }

    #[test]
    fn unknown_actions_and_resources_are_refused_by_line() {
        let allow = "[[user.allow]]\nactions = [\n\"GetObject\",\n\"Get\"]\nresources = []\n";
        assert_eq!(refusal(&file(&[("a", "AK1")], allow)), (8, "there is no action `Get`".to_owned()));
        let allow = "[[user.allow]]\nactions = []\nresources = [\"*b\"]\n";
        assert_eq!(refusal(&file(&[("a", "AK1")], allow)).0, 7);
    }

    #[test]
    fn grants_without_effect_are_refused_by_line() {
        let refusal = |actions: &str, resources: &str| {
            let allow = format!("[[user.allow]]\nactions = [{actions}]\nresources = [{resources}]\n");
            refusal(&file(&[("a", "AK1")], &allow))
        };
        let (line, problem) = refusal("\"ListBucket\",\n\"GetObject\"", "\"b\"");
        assert!(line == 7 && problem.contains("`GetObject` does nothing here"), "{line} {problem}");
        let (line, problem) = refusal("\"GetObject\"", "\"b/*\",\n\"c\"");
        assert!(line == 8 && problem.contains("`c/*`"), "{line} {problem}");
        let (line, problem) = refusal("\"ListBucket\"", "\"b/key\"");
        assert!(line == 6 && problem.contains("`bucket/prefix*`"), "{line} {problem}");
        for (actions, resources) in [("", "'b'"), ("'GetObject'", ""), ("'*'", "'b/k', 'b', 'c*'")] {
            let allow = format!("[[user.allow]]\nactions = [{actions}]\nresources = [{resources}]\n");
            assert!(Users::parse(&file(&[("a", "AK1")], &allow)).is_ok(), "{actions} on {resources}");
        }
    }

    #[test]
    fn keys_are_there_for_everybody_but_the_anonymous() {
        assert_eq!(refusal(&file(&[("anonymous", "AK1")], "")).0, 2);
        assert_eq!(refusal("\n[[user]]\nname = \"a\"\n").0, 3);
        assert_eq!(refusal("[[user]]\nname = \"a\"\naccess_key = \"AK\"\n").0, 2);
        assert_eq!(refusal("[[user]]\naccess_key = \"AK\"\nsecret_key = \"s\"\n").1, "missing field `name`");
    }

    #[test]
    fn access_keys_that_no_request_could_name_are_refused() {
        for access_key in ["", "a b", "a/b", "a,b", "é", &"a".repeat(129)] {
            assert_eq!(refusal(&file(&[("a", access_key)], "")).0, 3, "{access_key}");
        }
    }

    #[test]
    fn no_error_and_no_debug_output_quotes_a_secret() {
        let with =
            |value: &str| format!("[[user]]\nname = \"a\"\naccess_key = \"AK\"\nsecret_key = {value}\n");
        for value in [
            "8675309",
            "['8675309']",
            "\"8675309",
            "8675309x",
            "\"8675309\\q\"",
            "8675309 8675309",
            "\"8675309\"\nsecret_key = \"8675309\"",
        ] {
            let error = Users::parse(&with(value)).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("8675309"), "{value}: {error}");
            assert!((4..=5).contains(&error.line), "{value}: {error}");
        }
        for value in ["8675309", "\"8675309"] {
            let previous = format!("\"s\"\nprevious = {{ access_key = \"A\", secret_key = {value} }}");
            let error = Users::parse(&with(&previous)).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("8675309"), "{value}: {error}");
            assert_eq!(error.line, 5);
        }
        let users = Users::parse(&with("\"8675309\"")).unwrap();
        assert!(!format!("{users:?}").contains("8675309"));
    }
}
