//! Policies by their names, and groups of users that have them, by the users file: `[[policy]]` and
//! `[[group]]`. Beside them are the policies that MinIO has ready-made.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, LazyLock};

use serde::Deserialize;
use toml::Spanned;
use toml::value::Datetime;

use crate::auth::bucket_policy::IdentityPolicy;
use crate::auth::users_fields::{FieldProblem, checked, instant, is_name_char};
use crate::base::limits::{CREDENTIAL_LEN_MAX_BYTES, MANAGED_POLICY_MAX_BYTES};

/// Policies of one user, group or role by their names: IAM's inline policies.
pub(super) type InlineTable = BTreeMap<String, Spanned<String>>;

/// A policy that is there without the users file.
#[derive(Debug)]
pub struct ReadyMadePolicy {
    pub name: &'static str,
    pub document: &'static str,
}

/// The ready-made policies, by the names and with the meaning that MinIO's have. No name of S3
/// includes the administration.
pub const READY_MADE_POLICIES: [ReadyMadePolicy; 5] = [
    ReadyMadePolicy {
        name: "consoleAdmin",
        document: r#"{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}"#,
    },
    ReadyMadePolicy {
        name: "diagnostics",
        document: r#"{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": ["siltstone:AdminGetState", "siltstone:AdminGetQuota"], "Resource": "*"}]}"#,
    },
    ReadyMadePolicy {
        name: "readonly",
        document: r#"{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": ["s3:GetBucketLocation", "s3:GetObject"], "Resource": "arn:aws:s3:::*"}]}"#,
    },
    ReadyMadePolicy {
        name: "readwrite",
        document: r#"{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "arn:aws:s3:::*"}]}"#,
    },
    ReadyMadePolicy {
        name: "writeonly",
        document: r#"{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:PutObject", "Resource": "arn:aws:s3:::*"}]}"#,
    },
];

static READY_MADE: LazyLock<HashMap<String, Arc<IdentityPolicy>>> = LazyLock::new(|| {
    let mut by_name = HashMap::new();
    for policy in &READY_MADE_POLICIES {
        let read = IdentityPolicy::parse(policy.document).expect("a test reads the ready-made policies");
        by_name.insert(policy.name.to_owned(), Arc::new(read));
    }
    by_name
});

/// A table `[[policy]]`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PolicyTable {
    name: Spanned<String>,
    document: Spanned<String>,
    created: Option<Spanned<Datetime>>,
}

/// A table `[[group]]`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GroupTable {
    pub(super) name: Spanned<String>,
    #[serde(default)]
    pub(super) members: Vec<Spanned<String>>,
    pub(super) policy: Option<Spanned<toml::Value>>,
    #[serde(default)]
    pub(super) inline_policies: InlineTable,
    pub(super) created: Option<Spanned<Datetime>>,
}

/// The policies of one version of the users file, by name.
#[derive(Debug)]
pub(super) struct ManagedPolicies(HashMap<String, Arc<IdentityPolicy>>);

impl Default for ManagedPolicies {
    /// The ready-made ones.
    fn default() -> Self {
        Self(READY_MADE.clone())
    }
}

impl ManagedPolicies {
    /// Adds a policy of the file.
    pub(super) fn add(&mut self, table: &PolicyTable) -> Result<(), FieldProblem> {
        let name = checked(&table.name, "name", is_name_char)?;
        table.created.as_ref().map(instant).transpose()?;
        let document =
            document(table.document.as_ref()).map_err(|problem| (table.document.span(), problem))?;
        match self.0.insert(name.to_owned(), Arc::new(document)) {
            Some(_) => Err((table.name.span(), format!("the policy `{name}` is there already"))),
            None => Ok(()),
        }
    }

    /// A policy by its name.
    pub(super) fn get(&self, name: &str) -> Option<&Arc<IdentityPolicy>> {
        self.0.get(name)
    }

    /// The policies in a table `inline_policies`.
    pub(super) fn of_inline(table: &InlineTable) -> Result<Vec<Arc<IdentityPolicy>>, FieldProblem> {
        let mut policies = Vec::new();
        for (name, text) in table {
            let fits = (1..=CREDENTIAL_LEN_MAX_BYTES).contains(&name.len()) && name.chars().all(is_name_char);
            if !fits {
                let problem = format!("{name:?} is no name of a policy: letters, digits, _ + = , . @ -");
                return Err((text.span(), problem));
            }
            let policy = document(text.as_ref()).map_err(|problem| (text.span(), problem))?;
            policies.push(Arc::new(policy));
        }
        Ok(policies)
    }

    /// The policies in a field `policy`: a document, or a list of names and documents.
    pub(super) fn of_field(
        &self,
        field: Option<&Spanned<toml::Value>>,
    ) -> Result<Vec<Arc<IdentityPolicy>>, FieldProblem> {
        let Some(field) = field else { return Ok(Vec::new()) };
        self.of_value(field.as_ref()).map_err(|problem| (field.span(), problem))
    }

    fn of_value(&self, value: &toml::Value) -> Result<Vec<Arc<IdentityPolicy>>, String> {
        let entries = match value {
            toml::Value::String(text) => return Ok(vec![Arc::new(document(text)?)]),
            toml::Value::Array(entries) => entries,
            _ => return Err("`policy` is a document, or a list of names of policies".to_owned()),
        };
        let mut policies = Vec::new();
        for entry in entries {
            let text = entry.as_str().unwrap_or_default();
            if text.trim_start().starts_with('{') {
                policies.push(Arc::new(document(text)?));
            } else {
                let known = self.get(text).ok_or_else(|| format!("there is no policy `{text}`"))?;
                policies.push(Arc::clone(known));
            }
        }
        Ok(policies)
    }
}

/// Checks the document of a policy of users, groups and roles.
///
/// # Errors
/// The first element that is missing or wrong, by name.
pub fn check_policy_document(text: &str) -> Result<(), String> {
    document(text).map(drop)
}

fn document(text: &str) -> Result<IdentityPolicy, String> {
    if text.len() > MANAGED_POLICY_MAX_BYTES {
        return Err(format!("the policy has more than {MANAGED_POLICY_MAX_BYTES} bytes"));
    }
    IdentityPolicy::parse(text).map_err(|problem| format!("the policy: {problem}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::action::ActionLevel;
    use crate::auth::{Action, PolicyContext, PolicyDecision, Resource};

    fn allowed(name: &str) -> Vec<Action> {
        let policies = ManagedPolicies::default();
        let policy = policies.get(name).unwrap();
        let context = PolicyContext::default();
        let may = |action: &&Action| {
            let of_object = Resource::Object { bucket: "b", key: "k" };
            let resources = match action.level() {
                ActionLevel::Object => of_object,
                ActionLevel::Administration | ActionLevel::Service => Resource::Service,
                ActionLevel::Bucket | ActionLevel::Listing => Resource::Bucket("b"),
            };
            policy.decide(**action, resources, &context) == PolicyDecision::Allow
        };
        Action::ALL.iter().filter(may).copied().collect()
    }

    #[test]
    fn the_ready_made_policies_are_what_minio_has_by_these_names() {
        assert_eq!(allowed("readonly"), [Action::GetBucketLocation, Action::GetObject]);
        assert_eq!(allowed("writeonly"), [Action::PutObject, Action::CreateObject]);
        assert_eq!(allowed("consoleAdmin"), Action::ALL);
        let diagnostics = allowed("diagnostics");
        assert!(diagnostics.contains(&Action::AdminGetState), "{diagnostics:?}");
        assert!(diagnostics.iter().all(|action| action.as_str().starts_with("AdminGet")), "{diagnostics:?}");
        let readwrite = allowed("readwrite");
        for action in Action::ALL {
            let administers = action.level() == ActionLevel::Administration;
            assert_eq!(readwrite.contains(action), !administers, "{action}");
        }
        let policies = ManagedPolicies::default();
        for policy in &READY_MADE_POLICIES {
            let is_everything = policies.get(policy.name).unwrap().is_of_everything();
            assert_eq!(is_everything, policy.name == "consoleAdmin");
        }
    }
}
