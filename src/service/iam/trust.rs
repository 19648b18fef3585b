//! Who may assume a role, as a policy of IAM and as the users file says it: `assumed_by` and
//! `external_id`. A policy that says more is refused, since the file would lose it.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::auth::{ACCOUNT, NameKind, ROLE_OF_EVERYBODY};
use crate::service::iam_changes::RoleTrust;
use crate::service::policies::RoleEntry;

const IN_FILE: &str = "change `[[role]]` in the users file for more";
const ASSUME_ROLE: &str = "sts:AssumeRole";
const VERSION: &str = "2012-10-17";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TrustPolicy {
    #[serde(rename = "Version")]
    version: Option<String>,
    #[serde(rename = "Id")]
    _id: Option<String>,
    #[serde(rename = "Statement")]
    statements: Listed<TrustStatement>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "PascalCase")]
struct TrustStatement {
    #[serde(rename = "Sid")]
    _sid: Option<String>,
    effect: String,
    principal: Value,
    action: Listed<String>,
    condition: Option<Value>,
}

/// One value, or a list of them.
#[derive(Deserialize)]
#[serde(untagged)]
enum Listed<T> {
    Many(Vec<T>),
    One(T),
}

impl<T> Listed<T> {
    fn as_slice(&self) -> &[T] {
        match self {
            Self::Many(values) => values,
            Self::One(value) => std::slice::from_ref(value),
        }
    }
}

/// Who may assume a role, by a policy.
///
/// # Errors
/// What the users file cannot say, or what is no such policy.
pub(super) fn trust_of(text: &str) -> Result<RoleTrust, String> {
    let policy: TrustPolicy = serde_json::from_str(text).map_err(|error| error.to_string())?;
    if policy.version.as_deref().is_some_and(|version| version != VERSION && version != "2008-10-17") {
        return Err(format!("`Version` must be `{VERSION}`"));
    }
    let statements = policy.statements.as_slice();
    if statements.is_empty() {
        return Err("`Statement` is empty".to_owned());
    }
    let mut trust = RoleTrust::default();
    for statement in statements {
        if statement.effect != "Allow" {
            return Err(format!("`Effect` is `Allow` here; {IN_FILE}"));
        }
        let actions = statement.action.as_slice();
        if actions.is_empty() || actions.iter().any(|action| !action.eq_ignore_ascii_case(ASSUME_ROLE)) {
            return Err(format!("`Action` is `{ASSUME_ROLE}` here; {IN_FILE}"));
        }
        for name in principals(&statement.principal)? {
            if !trust.assumed_by.contains(&name) {
                trust.assumed_by.push(name);
            }
        }
        if let Some(condition) = &statement.condition {
            if statements.len() > 1 {
                return Err(format!("a `Condition` is of one statement for all; {IN_FILE}"));
            }
            trust.external_id = Some(external_id(condition)?);
        }
    }
    Ok(trust)
}

/// The names of users and roles in a `Principal`.
fn principals(value: &Value) -> Result<Vec<String>, String> {
    if value.as_str() == Some(ROLE_OF_EVERYBODY) {
        return Ok(vec![ROLE_OF_EVERYBODY.to_owned()]);
    }
    let of_aws = value.as_object().filter(|kinds| kinds.len() == 1).and_then(|kinds| kinds.get("AWS"));
    let arns = match of_aws {
        Some(Value::Array(arns)) if !arns.is_empty() => arns.iter().collect(),
        Some(only @ Value::String(_)) => vec![only],
        _ => return Err(wrong_principal()),
    };
    let names = arns.into_iter().map(|arn| arn.as_str().and_then(principal_name));
    names.collect::<Option<Vec<_>>>().ok_or_else(wrong_principal)
}

fn wrong_principal() -> String {
    let user = NameKind::User.arn("NAME");
    let role = NameKind::Role.arn("NAME");
    format!("`Principal` is `*`, or has `AWS` with ARNs `{user}` and `{role}` here; {IN_FILE}")
}

/// The name of the user or role of an ARN of this account, or of none.
fn principal_name(arn: &str) -> Option<String> {
    if arn == ROLE_OF_EVERYBODY {
        return Some(arn.to_owned());
    }
    let rest = arn.strip_prefix("arn:aws:iam::")?;
    let (account, resource) = rest.split_once(':')?;
    let name = resource.strip_prefix("user/").or_else(|| resource.strip_prefix("role/"))?;
    let is_ours = account == ACCOUNT || account.is_empty();
    (is_ours && !name.is_empty() && !name.contains('/') && name != ROLE_OF_EVERYBODY).then(|| name.to_owned())
}

/// The id that a condition requires, and nothing else.
fn external_id(condition: &Value) -> Result<String, String> {
    let stated =
        only_member(condition, "StringEquals").and_then(|equals| only_member(equals, "sts:ExternalId"));
    let stated = match stated {
        Some(Value::Array(values)) if values.len() == 1 => values.first(),
        other => other,
    };
    let id = stated.and_then(Value::as_str).map(str::to_owned);
    id.ok_or_else(|| format!("`Condition` is `StringEquals` of `sts:ExternalId` here; {IN_FILE}"))
}

/// The member `name` of an object that has no other.
fn only_member<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    let members: &Map<String, Value> = value.as_object()?;
    if members.len() == 1 { members.get(name) } else { None }
}

/// The ARN of a user or role that may assume `role`.
fn principal_arn(role: &RoleEntry, name: &str) -> String {
    match name {
        ROLE_OF_EVERYBODY => name.to_owned(),
        _ if role.assumed_by_roles.iter().any(|known| known == name) => NameKind::Role.arn(name),
        _ => NameKind::User.arn(name),
    }
}

/// The policy that says who may assume a role.
pub(super) fn trust_document(role: &RoleEntry) -> String {
    let mut statements = Vec::new();
    if !role.assumed_by.is_empty() {
        let arns: Vec<_> = role.assumed_by.iter().map(|name| principal_arn(role, name)).collect();
        let principal = match arns.as_slice() {
            [only] => json!(only),
            _ => json!(arns),
        };
        let mut statement =
            json!({ "Effect": "Allow", "Principal": { "AWS": principal }, "Action": ASSUME_ROLE });
        if let Some(id) = &role.external_id {
            statement["Condition"] = json!({ "StringEquals": { "sts:ExternalId": id } });
        }
        statements.push(statement);
    }
    for trust in &role.web_identities {
        let provider = trust.issuer.strip_prefix("https://").unwrap_or(&trust.issuer);
        let condition: Value = serde_json::from_str(&trust.condition).unwrap_or(Value::Null);
        statements.push(json!({
            "Effect": "Allow",
            "Principal": { "Federated": format!("arn:aws:iam::{ACCOUNT}:oidc-provider/{provider}") },
            "Action": "sts:AssumeRoleWithWebIdentity",
            "Condition": condition,
        }));
    }
    json!({ "Version": VERSION, "Statement": statements }).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(principal: &str, rest: &str) -> String {
        format!(
            r#"{{"Version": "2012-10-17", "Statement": [{{"Effect": "Allow", "Principal": {principal}, "Action": "sts:AssumeRole"{rest}}}]}}"#
        )
    }

    #[test]
    fn policies_name_who_assumes_a_role() {
        let ann = r#"{"AWS": "arn:aws:iam::000000000000:user/ann"}"#;
        let both = r#"{"AWS": ["arn:aws:iam::000000000000:user/ann", "arn:aws:iam:::role/ci"]}"#;
        let id = r#", "Condition": {"StringEquals": {"sts:ExternalId": "tenant 7"}}"#;
        for (text, names, external_id) in [
            (document(ann, ""), &["ann"][..], None),
            (document(both, ""), &["ann", "ci"], None),
            (document("\"*\"", ""), &["*"], None),
            (document(r#"{"AWS": "*"}"#, ""), &["*"], None),
            (document(ann, id), &["ann"], Some("tenant 7")),
        ] {
            let trust = trust_of(&text).unwrap();
            assert_eq!(
                (trust.assumed_by, trust.external_id.as_deref()),
                (names.iter().map(|name| (*name).to_owned()).collect(), external_id)
            );
        }
    }

    #[test]
    fn policies_that_say_more_are_refused() {
        let ann = r#"{"AWS": "arn:aws:iam::000000000000:user/ann"}"#;
        for text in [
            String::new(),
            "{}".to_owned(),
            r#"{"Statement": []}"#.to_owned(),
            document(r#"{"Service": "ec2.amazonaws.com"}"#, ""),
            document(r#"{"AWS": "arn:aws:iam::000000000000:root"}"#, ""),
            document(r#"{"AWS": "000000000000"}"#, ""),
            document(r#"{"AWS": []}"#, ""),
            document(r#"{"AWS": "arn:aws:iam::000000000000:user/a/ann"}"#, ""),
            document(r#"{"AWS": "arn:aws:iam::123456789012:user/ann"}"#, ""),
            document(r#"{"AWS": "arn:aws:iam::000000000000:user/*"}"#, ""),
            document(r#"{"AWS": "arn:aws:iam::000000000000:user/ann", "Service": "x"}"#, ""),
            document(ann, r#", "Condition": {}"#),
            document(ann, r#", "Condition": {"StringLike": {"sts:ExternalId": "a*"}}"#),
            document(ann, r#", "Condition": {"StringEquals": {"sts:ExternalId": "a", "aws:username": "b"}}"#),
            document(ann, r#", "NotAction": "x""#),
            document(ann, "").replace("Allow", "Deny"),
            document(ann, "").replace("AssumeRole", "*"),
            document(ann, "").replace("2012", "2013"),
        ] {
            assert!(trust_of(&text).is_err(), "{text}");
        }
    }
}
