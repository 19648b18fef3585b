//! Who may assume a role, as a policy of IAM and as the users file says it: `assumed_by`,
//! `external_id` and `web_identity`. A policy that says more is refused, since the file would lose
//! it. Conditions on the tokens of a provider name claims as `PROVIDER:CLAIM` in a policy, and as
//! `jwt:CLAIM` in the file.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::auth::{ACCOUNT, NameKind, ROLE_OF_EVERYBODY, provider_arn, provider_name, provider_of_arn};
use crate::service::iam_changes::{ProviderTrust, RoleTrust};
use crate::service::policies::RoleEntry;

const IN_FILE: &str = "change `[[role]]` in the users file for more";
const ASSUME_ROLE: &str = "sts:AssumeRole";
const ASSUME_BY_TOKEN: &str = "sts:AssumeRoleWithWebIdentity";
/// The kind of principals that are providers.
const FEDERATED: &str = "Federated";
/// What claims are called in the users file.
const CLAIM: &str = "jwt";
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
    let of_names = statements.iter().filter(|statement| !statement.is_of_tokens()).count();
    let mut trust = RoleTrust::default();
    for statement in statements {
        if statement.effect != "Allow" {
            return Err(format!("`Effect` is `Allow` here; {IN_FILE}"));
        }
        if statement.is_of_tokens() {
            statement.check_action(ASSUME_BY_TOKEN)?;
            trust.providers.extend(statement.providers()?);
            continue;
        }
        statement.check_action(ASSUME_ROLE)?;
        for name in principals(&statement.principal)? {
            if !trust.assumed_by.contains(&name) {
                trust.assumed_by.push(name);
            }
        }
        if let Some(condition) = &statement.condition {
            if of_names > 1 {
                return Err(format!("a `Condition` is of one statement for all; {IN_FILE}"));
            }
            trust.external_id = Some(external_id(condition)?);
        }
    }
    Ok(trust)
}

impl TrustStatement {
    /// Whether it is about the tokens of providers.
    fn is_of_tokens(&self) -> bool {
        self.principal.get(FEDERATED).is_some()
    }

    fn check_action(&self, expected: &str) -> Result<(), String> {
        let actions = self.action.as_slice();
        match !actions.is_empty() && actions.iter().all(|action| action.eq_ignore_ascii_case(expected)) {
            true => Ok(()),
            false => Err(format!("`Action` is `{expected}` here; {IN_FILE}")),
        }
    }

    /// The providers, each with the condition.
    fn providers(&self) -> Result<Vec<ProviderTrust>, String> {
        let wrong = || {
            let arn = provider_arn("PROVIDER");
            format!("`Principal` has `{FEDERATED}` alone, with ARNs `{arn}`; {IN_FILE}")
        };
        let condition = self
            .condition
            .as_ref()
            .ok_or("the tokens of a provider need a `Condition` on a claim, or every one of them would do")?;
        let arns = match only_member(&self.principal, FEDERATED) {
            Some(Value::Array(arns)) if !arns.is_empty() => arns.iter().collect(),
            Some(only @ Value::String(_)) => vec![only],
            _ => return Err(wrong()),
        };
        let mut trusts = Vec::new();
        for arn in arns {
            let provider = arn.as_str().and_then(provider_of_arn).ok_or_else(wrong)?;
            let condition = with_claims_renamed(condition, provider, CLAIM)?.to_string();
            trusts.push(ProviderTrust { provider: provider.to_owned(), condition });
        }
        Ok(trusts)
    }
}

/// A condition, in which keys `FROM:CLAIM` are called `TO:CLAIM`.
///
/// # Errors
/// It is none, or two of its keys would have one name.
fn with_claims_renamed(condition: &Value, from: &str, to: &str) -> Result<Value, String> {
    let operators = condition.as_object().ok_or("`Condition` is an object of operators")?;
    let mut renamed = Map::new();
    for (operator, keys) in operators {
        let keys = keys.as_object().ok_or_else(|| format!("`{operator}` is an object of keys"))?;
        let mut kept = Map::new();
        for (key, values) in keys {
            let claim = key
                .get(..from.len())
                .filter(|start| start.eq_ignore_ascii_case(from))
                .and_then(|_| key[from.len()..].strip_prefix(':'));
            let key = claim.map_or_else(|| key.clone(), |claim| format!("{to}:{claim}"));
            if kept.contains_key(&key) {
                return Err(format!("`{operator}` has `{key}` twice"));
            }
            kept.insert(key, values.clone());
        }
        renamed.insert(operator.clone(), Value::Object(kept));
    }
    Ok(Value::Object(renamed))
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
        let provider = provider_name(&trust.issuer);
        let condition: Value = serde_json::from_str(&trust.condition).unwrap_or(Value::Null);
        let condition = with_claims_renamed(&condition, CLAIM, provider).unwrap_or(condition);
        statements.push(json!({
            "Effect": "Allow",
            "Principal": { FEDERATED: provider_arn(provider) },
            "Action": ASSUME_BY_TOKEN,
            "Condition": condition,
        }));
    }
    json!({ "Version": VERSION, "Statement": statements }).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::policies::TokenTrustEntry;

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

    const PROVIDER: &str = "localhost:8080/realms/a";

    fn of_tokens(rest: &str) -> String {
        let principal = format!(r#"{{"Federated": "{}"}}"#, provider_arn(PROVIDER));
        document(&principal, rest).replace(ASSUME_ROLE, ASSUME_BY_TOKEN)
    }

    #[test]
    fn policies_name_providers_whose_tokens_assume_a_role() {
        let condition = format!(
            r#", "Condition": {{"StringEquals": {{"{PROVIDER}:sub": "a"}}, "IpAddress": {{"aws:SourceIp": "10.0.0.0/8"}}}}"#
        );
        let in_file = r#"{"StringEquals":{"jwt:sub":"a"},"IpAddress":{"aws:SourceIp":"10.0.0.0/8"}}"#;
        let same = |one: &str, other: &str| {
            let value = |text: &str| serde_json::from_str::<Value>(text).unwrap();
            assert_eq!(value(one), value(other));
        };
        let text = of_tokens(&condition);
        let trust = trust_of(&text).unwrap();
        let [ProviderTrust { provider, condition: stored }] = &trust.providers[..] else {
            panic!("{trust:?}")
        };
        assert_eq!((&**provider, trust.assumed_by.len(), &trust.external_id), (PROVIDER, 0, &None));
        same(stored, in_file);
        // And back, as it was put.
        let entry = TokenTrustEntry { issuer: format!("http://{PROVIDER}"), condition: stored.clone() };
        let role = RoleEntry { web_identities: vec![entry], ..RoleEntry::default() };
        same(&trust_document(&role), &text);
        let list = text.replace("\"Federated\": \"", "\"Federated\": [\"arn:aws:iam:::oidc-provider/b\", \"");
        let list = list.replace("a\"}, \"Action\"", "a\"]}, \"Action\"");
        let trust = trust_of(&list).unwrap();
        assert_eq!(trust.providers.iter().map(|trust| &*trust.provider).collect::<Vec<_>>(), ["b", PROVIDER]);
        assert!(
            trust.providers[0].condition.contains(PROVIDER),
            "of another provider: refused with the file"
        );
    }

    #[test]
    fn statements_about_tokens_say_what_the_file_can_keep() {
        let sub = format!(r#", "Condition": {{"StringEquals": {{"{PROVIDER}:sub": "a"}}}}"#);
        let twice = format!(
            r#", "Condition": {{"StringEquals": {{"{PROVIDER}:sub": "a", "JWT:sub": "b", "jwt:sub": "b"}}}}"#
        );
        assert!(trust_of(&of_tokens(&sub)).is_ok());
        for text in [
            of_tokens(""),
            of_tokens(&twice),
            of_tokens(r#", "Condition": []"#),
            of_tokens(r#", "Condition": {"StringEquals": "a"}"#),
            of_tokens(&sub).replace(ASSUME_BY_TOKEN, ASSUME_ROLE),
            of_tokens(&sub).replace("\"Federated\"", "\"AWS\": \"*\", \"Federated\""),
            of_tokens(&sub).replace("000000000000", "123456789012"),
            of_tokens(&sub).replace("oidc-provider", "saml-provider"),
            of_tokens(&sub).replace("oidc-provider/localhost:8080/realms/a", "oidc-provider/"),
            of_tokens(&sub).replace("Allow", "Deny"),
        ] {
            assert!(trust_of(&text).is_err(), "{text}");
        }
        // A condition of a statement about tokens is its own.
        let both = format!(
            r#"{{"Statement": [{}, {}]}}"#,
            only_statement(&of_tokens(&sub)),
            only_statement(&document(
                r#"{"AWS": "arn:aws:iam::000000000000:user/ann"}"#,
                r#", "Condition": {"StringEquals": {"sts:ExternalId": "7"}}"#
            ))
        );
        let trust = trust_of(&both).unwrap();
        assert_eq!((trust.providers.len(), trust.external_id.as_deref()), (1, Some("7")));
        assert_eq!(trust.assumed_by, ["ann"]);
    }

    fn only_statement(text: &str) -> String {
        let policy: Value = serde_json::from_str(text).unwrap();
        policy["Statement"][0].to_string()
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
