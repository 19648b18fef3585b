//! Users, groups, policies and service accounts, as they are below `.minio.sys/config/iam`.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use serde_json::Value;

use super::damage::DamageLog;
use super::drive::SYSTEM;
use super::layout::Deployment;
use super::system::system_object;

const ROOT: &str = "config/iam";

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
}

/// All that was found.
#[derive(Debug, Default)]
pub(crate) struct MinioIdentities {
    pub(crate) users: Vec<MinioUser>,
    pub(crate) policies: BTreeMap<String, Value>,
    /// The policies of each group, by its members.
    pub(crate) of_groups: BTreeMap<String, Vec<String>>,
    /// Files that cannot be read, and why.
    pub(crate) faults: Vec<(String, String)>,
}

/// A reader of the files.
struct Reading<'r> {
    deployment: &'r Deployment,
    damage: &'r DamageLog,
    found: MinioIdentities,
}

impl MinioIdentities {
    /// Reads all of them.
    pub(crate) fn read(deployment: &Deployment, damage: &DamageLog) -> Self {
        let mut reading = Reading { deployment, damage, found: Self::default() };
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
        reading.found
    }
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
        let read = system_object(self.deployment, &format!("{ROOT}/{path}"), self.damage);
        let why = match read {
            Ok(None) => return None,
            Ok(Some(bytes)) => match serde_json::from_slice(&bytes) {
                Ok(value) => return Some(value),
                Err(_) if std::str::from_utf8(&bytes).is_err() => {
                    "it is encrypted, which is not read".to_owned()
                }
                Err(error) => error.to_string(),
            },
            Err(why) => why,
        };
        self.found.faults.push((format!("{SYSTEM}/{ROOT}/{path}"), why));
        None
    }

    /// The policies that a file of `policydb` maps to a name.
    fn mapped(&mut self, kind: &str, name: &str) -> Vec<String> {
        let file = self.json(&format!("policydb/{kind}/{name}.json")).unwrap_or_default();
        let names = file["policy"].as_str().unwrap_or_default().split(',').map(str::trim);
        names.filter(|name| !name.is_empty()).map(str::to_owned).collect()
    }

    fn user(&mut self, name: &str, directory: &str) {
        let Some(file) = self.json(&format!("{directory}/{name}/identity.json")) else { return };
        let credentials = &file["credentials"];
        let text = |field: &str| credentials[field].as_str().unwrap_or_default().to_owned();
        let access_key =
            Some(text("accessKey")).filter(|key| !key.is_empty()).unwrap_or_else(|| name.to_owned());
        let mut user = MinioUser {
            access_key,
            secret_key: text("secretKey"),
            enabled: !matches!(&*text("status"), "off" | "disabled"),
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
            if claims["sa-policy"] == "embedded-policy" {
                user.embedded = Some(embedded(&claims).unwrap_or_default());
            }
        }
        self.found.users.push(user);
    }

    fn group(&mut self, name: &str) {
        let Some(file) = self.json(&format!("groups/{name}/members.json")) else { return };
        if file["status"] == "disabled" {
            return;
        }
        let policies = self.mapped("groups", name);
        let members = file["members"].as_array().into_iter().flatten().filter_map(Value::as_str);
        for member in members {
            self.found.of_groups.entry(member.to_owned()).or_default().extend(policies.iter().cloned());
        }
    }
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
