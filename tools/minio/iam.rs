//! Users, groups, policies and service accounts, as they are below `.minio.sys/config/iam`, and as
//! `mc admin cluster iam export` writes them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use serde_json::{Map, Value};

use super::damage::DamageLog;
use super::drive::SYSTEM;
use super::format::assumption::Assumption;
use super::format::keys::OperatorKeys;
use super::format::sealed_config;
use super::layout::Deployment;
use super::system::system_object;

const ROOT: &str = "config/iam";
/// The directory within an export.
const EXPORTED: &str = "iam-assets";
/// The longest file of an export that is read.
const EXPORTED_MAX_BYTES: u64 = 64 << 20;

/// Someone with keys.
#[derive(Debug, Clone, Default)]
pub(crate) struct MinioUser {
    pub(crate) access_key: String,
    pub(crate) secret_key: String,
    pub(crate) enabled: bool,
    /// The user whose service account it is.
    pub(crate) parent: Option<String>,
    /// The policy of a service account, if it has one of its own.
    pub(crate) embedded: Option<Value>,
    /// The names of its own policies.
    pub(crate) policies: Vec<String>,
    /// When a service account ends, as RFC 3339 has it.
    pub(crate) expires: Option<String>,
}

/// Users with the same policies.
#[derive(Debug, Clone, Default)]
pub(crate) struct MinioGroup {
    pub(crate) name: String,
    /// Their access keys.
    pub(crate) members: Vec<String>,
    /// The names of its policies.
    pub(crate) policies: Vec<String>,
}

/// All that was found.
#[derive(Debug, Default)]
pub(crate) struct MinioIdentities {
    pub(crate) users: Vec<MinioUser>,
    pub(crate) policies: BTreeMap<String, Value>,
    /// The groups that are enabled.
    pub(crate) groups: Vec<MinioGroup>,
    /// How many people of LDAP and OpenID have policies.
    pub(crate) foreign: usize,
    /// Files that cannot be read, and why.
    pub(crate) faults: Vec<(String, String)>,
    /// What was relied on, once for each file.
    pub(crate) assumptions: Vec<Assumption>,
}

/// A reader of the files.
struct Reading<'r> {
    deployment: &'r Deployment,
    keys: &'r OperatorKeys,
    damage: &'r DamageLog,
    found: MinioIdentities,
}

impl MinioIdentities {
    /// Reads all of them; what is encrypted, with these keys.
    pub(crate) fn read(deployment: &Deployment, keys: &OperatorKeys, damage: &DamageLog) -> Self {
        let mut reading = Reading { deployment, keys, damage, found: Self::default() };
        for name in reading.names("policies") {
            if let Some(file) = reading.json(&format!("policies/{name}/policy.json")) {
                // Before 2021-12 the file was the policy itself.
                let policy = if file["Policy"].is_object() { file["Policy"].clone() } else { file };
                reading.found.policies.insert(name, policy);
            }
        }
        for name in reading.names("users") {
            reading.user(&name, "users");
        }
        for name in reading.names("service-accounts") {
            reading.user(&name, "service-accounts");
        }
        for name in reading.names("groups") {
            reading.group(&name);
        }
        reading.found.foreign = reading.names("policydb/sts-users").len();
        reading.found
    }
}

impl MinioIdentities {
    /// Reads an unpacked export: the directory `iam-assets`, or the one that it is in.
    ///
    /// # Errors
    /// A message: a file cannot be read, or there is none.
    pub(crate) fn of_export(directory: &Path) -> Result<Self, String> {
        let inner = directory.join(EXPORTED);
        let directory = if inner.is_dir() { &*inner } else { directory };
        let users = exported(directory, "users.json")?;
        let users = users.ok_or_else(|| {
            format!(
                "{}: there is no users.json; unpack the zip of `mc admin cluster iam export`",
                directory.display()
            )
        })?;
        let of_users = exported(directory, "user_mappings.json")?.unwrap_or_default();
        let of_groups = exported(directory, "group_mappings.json")?.unwrap_or_default();
        let mut found = Self::default();
        for (name, policy) in exported(directory, "policies.json")?.unwrap_or_default() {
            found.policies.insert(name, policy);
        }
        for (name, user) in users {
            found.users.push(MinioUser {
                secret_key: text_in(&user, "secretKey"),
                enabled: is_enabled(&user["status"]),
                policies: policies_in(of_users.get(&name)),
                access_key: name,
                ..MinioUser::default()
            });
        }
        for (name, account) in exported(directory, "svcaccts.json")?.unwrap_or_default() {
            let policy = &account["sessionPolicy"];
            found.users.push(MinioUser {
                secret_key: text_in(&account, "secretKey"),
                enabled: is_enabled(&account["status"]),
                parent: Some(text_in(&account, "parent")),
                embedded: policy.is_object().then(|| policy.clone()),
                expires: end_of(&text_in(&account, "expiration")),
                access_key: name,
                ..MinioUser::default()
            });
        }
        for (name, group) in exported(directory, "groups.json")?.unwrap_or_default() {
            if is_enabled(&group["status"]) && is_enabled(&group["groupStatus"]) {
                let policies = policies_in(of_groups.get(&name));
                found.groups.push(MinioGroup { name, members: members_in(&group), policies });
            }
        }
        found.foreign = exported(directory, "stsuser_mappings.json")?.map_or(0, |people| people.len());
        Ok(found)
    }
}

/// The entries of a file of an export; `None` without it.
fn exported(directory: &Path, name: &str) -> Result<Option<Map<String, Value>>, String> {
    let path = directory.join(name);
    let failed = |why: String| format!("{}: {why}", path.display());
    let mut text = String::new();
    let read = match File::open(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file.and_then(|file| file.take(EXPORTED_MAX_BYTES + 1).read_to_string(&mut text)),
    };
    if read.map_err(|error| failed(error.to_string()))? as u64 > EXPORTED_MAX_BYTES {
        return Err(failed(format!("it has more than {EXPORTED_MAX_BYTES} bytes")));
    }
    serde_json::from_str(&text).map(Some).map_err(|error| failed(error.to_string()))
}

fn text_in(entry: &Value, field: &str) -> String {
    entry[field].as_str().unwrap_or_default().to_owned()
}

/// Whether a status says nothing else.
fn is_enabled(status: &Value) -> bool {
    !matches!(status.as_str(), Some("off" | "disabled"))
}

/// The policies that an entry of a mapping names, after commas.
fn policies_in(mapping: Option<&Value>) -> Vec<String> {
    let names = mapping.and_then(|mapping| mapping["policy"].as_str()).unwrap_or_default();
    names.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

fn members_in(group: &Value) -> Vec<String> {
    let members = group["members"].as_array().into_iter().flatten().filter_map(Value::as_str);
    members.map(str::to_owned).collect()
}

impl Reading<'_> {
    /// The names of the directories below a path on all drives.
    fn names(&self, path: &str) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        for drive in &self.deployment.drives {
            let entries = drive.entries(&format!("{SYSTEM}/{ROOT}/{path}")).unwrap_or_default();
            names.extend(entries.into_iter().filter_map(|entry| entry.name.into_string().ok()));
        }
        names
    }

    fn json(&mut self, path: &str) -> Option<Value> {
        match self.read_json(&format!("{ROOT}/{path}")) {
            Ok(value) => value,
            Err(why) => {
                self.found.faults.push((format!("{SYSTEM}/{ROOT}/{path}"), why));
                None
            }
        }
    }

    fn read_json(&mut self, path: &str) -> Result<Option<Value>, String> {
        let Some(mut bytes) = system_object(self.deployment, path, self.damage)? else {
            return Ok(None);
        };
        // Encrypted bytes have no mark of their own. JSON is text.
        if std::str::from_utf8(&bytes).is_err() {
            let opened = sealed_config::open(self.keys, path, &bytes)?;
            self.found.assumptions.extend(sealed_config::assumption(&bytes));
            bytes = opened;
        }
        serde_json::from_slice(&bytes).map(Some).map_err(|error| error.to_string())
    }

    /// The policies that a file of `policydb` maps to a name.
    fn mapped(&mut self, kind: &str, name: &str) -> Vec<String> {
        policies_in(self.json(&format!("policydb/{kind}/{name}.json")).as_ref())
    }

    fn user(&mut self, name: &str, directory: &str) {
        let Some(file) = self.json(&format!("{directory}/{name}/identity.json")) else { return };
        let credentials = &file["credentials"];
        let text = |field: &str| text_in(credentials, field);
        let access_key =
            Some(text("accessKey")).filter(|key| !key.is_empty()).unwrap_or_else(|| name.to_owned());
        let mut user = MinioUser {
            access_key,
            secret_key: text("secretKey"),
            enabled: is_enabled(&credentials["status"]),
            ..MinioUser::default()
        };
        if directory == "users" {
            user.policies = self.mapped("users", name);
        } else {
            let claims = claims_of(&text("sessionToken"));
            let parent = text("parentUser");
            let parent = if parent.is_empty() {
                claims["parent"].as_str().unwrap_or_default().to_owned()
            } else {
                parent
            };
            user.parent = Some(parent);
            user.expires = end_of(&text("expiration"));
            if claims["sa-policy"] == "embedded-policy" {
                user.embedded = Some(embedded(&claims).unwrap_or_default());
            }
        }
        self.found.users.push(user);
    }

    fn group(&mut self, name: &str) {
        let Some(file) = self.json(&format!("groups/{name}/members.json")) else { return };
        if is_enabled(&file["status"]) {
            let policies = self.mapped("groups", name);
            let members = members_in(&file);
            self.found.groups.push(MinioGroup { name: name.to_owned(), members, policies });
        }
    }
}

/// A time that is one: Go's zero time and the beginning of 1970 stand for none.
fn end_of(time: &str) -> Option<String> {
    let is_one = !time.is_empty() && !time.starts_with("0001-") && !time.starts_with("1970-01-01");
    is_one.then(|| time.to_owned())
}

/// The claims of a token, whose signature is of no concern: the file is the operator's own.
fn claims_of(token: &str) -> Value {
    let payload = token.split('.').nth(1).unwrap_or_default().trim_end_matches('=');
    let bytes = URL_SAFE_NO_PAD.decode(payload).unwrap_or_default();
    serde_json::from_slice(&bytes).unwrap_or_default()
}

fn embedded(claims: &Value) -> Option<Value> {
    let text = claims["sessionPolicy"].as_str()?.trim_end_matches('=');
    let bytes = STANDARD_NO_PAD.decode(text).or_else(|_| URL_SAFE_NO_PAD.decode(text)).ok()?;
    serde_json::from_slice(&bytes).ok()
}
