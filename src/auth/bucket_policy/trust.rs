//! The conditions under which the token of a provider is good for a role.

use super::PolicyContext;
use super::condition::{Condition, PolicySyntax};
use super::condition_key::ConditionKey;
use super::json::StrictJson;
use crate::base::limits::POLICY_WILDCARDS_MAX;

/// The claims that all tokens of a provider for this server have alike, or that say nothing of whom
/// a token is about (RFC 7519, section 4.1; OpenID Connect Core 1.0, section 2).
const NOT_OF_SUBJECTS: [&str; 12] =
    ["acr", "amr", "at_hash", "aud", "auth_time", "azp", "exp", "iat", "iss", "jti", "nbf", "nonce"];

/// The conditions on a token, all of which must hold.
#[derive(Debug, Clone)]
pub(in crate::auth) struct TrustConditions(Vec<Condition>);

impl TrustConditions {
    /// Parses the element `Condition` of a policy. One of its conditions must bind a claim that
    /// tells the subjects of a provider apart: all others could assume the role otherwise.
    ///
    /// # Errors
    /// The reason.
    pub(in crate::auth) fn parse(text: &str) -> Result<Self, String> {
        let json = StrictJson::parse(text.as_bytes())?;
        // Claims are read by the lenient syntax alone; what it does not know is refused below.
        let syntax = PolicySyntax { variables: false, lenient: true };
        let conditions = Condition::parse_all(&json, syntax)?;
        let keys = conditions.iter().flat_map(Condition::compared);
        if let Some(unknown) = keys.into_iter().find(|key| !is_of_token(key)) {
            return Err(format!("the condition key `{unknown}` is none of a token: name claims by `jwt:`"));
        }
        if conditions.iter().any(|condition| condition.wildcards() > POLICY_WILDCARDS_MAX) {
            return Err(format!("a pattern has more than {POLICY_WILDCARDS_MAX} wildcards"));
        }
        let binds = conditions.iter().any(|condition| {
            let claim = condition.key().claim().unwrap_or_default();
            condition.binds_claim() && !NOT_OF_SUBJECTS.contains(&claim)
        });
        match binds {
            true => Ok(Self(conditions)),
            false => Err("it must require a value of a claim beside `aud`, such as \
                {\"StringEquals\": {\"jwt:sub\": \"...\"}}, or every token of the issuer would do"
                .to_owned()),
        }
    }

    /// The claims that they name.
    pub(in crate::auth) fn claims(&self) -> impl Iterator<Item = &str> {
        self.0.iter().flat_map(Condition::compared).filter_map(ConditionKey::claim)
    }

    /// Whether all hold.
    pub(in crate::auth) fn hold(&self, context: &PolicyContext<'_>) -> bool {
        self.0.iter().all(|condition| !condition.is_beyond(context) && condition.holds(context))
    }
}

fn is_of_token(key: &ConditionKey) -> bool {
    use ConditionKey::{Claim, CurrentTime, EpochTime, SecureTransport, SourceIp};
    matches!(key, Claim(_) | CurrentTime | EpochTime | SecureTransport | SourceIp)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::bucket_policy::{PrincipalFacts, TokenClaim};

    fn holds(text: &str, claims: &[(&str, &[&str])]) -> bool {
        let claim = |(name, values): &(&str, &[&str])| TokenClaim {
            name: (*name).to_owned(),
            values: values.iter().map(|value| (*value).to_owned()).collect(),
        };
        let facts =
            PrincipalFacts { claims: claims.iter().map(claim).collect(), ..PrincipalFacts::default() };
        let context = PolicyContext { principal: Some(&facts), ..PolicyContext::default() };
        TrustConditions::parse(text).unwrap().hold(&context)
    }

    #[test]
    fn a_role_needs_a_condition_that_tells_subjects_apart() {
        for text in [
            "{}",
            r#"{"StringEquals": {"jwt:aud": "sts"}}"#,
            r#"{"StringEquals": {"jwt:iss": "https://a"}}"#,
            r#"{"StringLike": {"jwt:sub": "*"}}"#,
            r#"{"StringLike": {"jwt:sub": ["a", "*?*"]}}"#,
            r#"{"StringNotEquals": {"jwt:sub": "a"}}"#,
            r#"{"StringEqualsIfExists": {"jwt:sub": "a"}}"#,
            r#"{"ForAllValues:StringEquals": {"jwt:groups": "a"}}"#,
            r#"{"Null": {"jwt:sub": "false"}}"#,
            r#"{"Bool": {"jwt:email_verified": "true"}}"#,
            r#"{"NumericGreaterThan": {"jwt:project": "0"}}"#,
            r#"{"IpAddress": {"aws:SourceIp": "10.0.0.0/8"}}"#,
        ] {
            let refusal = TrustConditions::parse(text).unwrap_err();
            assert!(refusal.contains("beside `aud`"), "{text}: {refusal}");
        }
        for text in [
            r#"{"StringEquals": {"jwt:sub": "a", "aws:username": "b"}}"#,
            r#"{"StringEquals": {"jwt:sub": "a", "gitlab:sub": "b"}}"#,
            r#"{"StringEqual": {"jwt:sub": "a"}}"#,
            r#"{"IpAddress": {"jwt:sub": "10.0.0.0/8"}}"#,
            "[]",
            "",
        ] {
            assert!(TrustConditions::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn conditions_on_claims_hold_for_tokens_with_their_values() {
        let of_branch =
            r#"{"StringLike": {"jwt:sub": "project:a/*"}, "StringEquals": {"jwt:ref": ["main", "next"]}}"#;
        let claims =
            |sub: &'static [&'static str], branch: &'static [&'static str]| [("sub", sub), ("ref", branch)];
        assert!(holds(of_branch, &claims(&["project:a/b"], &["main"])));
        assert!(!holds(of_branch, &claims(&["project:ab"], &["main"])));
        assert!(!holds(of_branch, &claims(&["project:a/b"], &["other"])));
        assert!(!holds(of_branch, &[("sub", &["project:a/b"])]), "an absent claim equals nothing");
        for operator in ["StringEquals", "ForAnyValue:StringEquals"] {
            let of_group = format!(r#"{{"{operator}": {{"jwt:groups": "ops"}}}}"#);
            assert!(holds(&of_group, &[("groups", &["dev", "ops"])]), "{operator}");
            assert!(!holds(&of_group, &[("groups", &["dev"])]), "{operator}");
            assert!(!holds(&of_group, &[("groups", &[])]), "{operator}");
        }
        let not_banned = r#"{"StringEquals": {"jwt:sub": "a"}, "StringNotEquals": {"jwt:groups": "banned"}}"#;
        assert!(holds(not_banned, &[("sub", &["a"]), ("groups", &["ops"])]));
        assert!(!holds(not_banned, &[("sub", &["a"]), ("groups", &["ops", "banned"])]));
        assert!(holds(r#"{"NumericEquals": {"jwt:project": "7"}}"#, &[("project", &["7"])]));
    }
}
