//! Policies (S3 user guide, "Bucket policies"; IAM reference, "IAM JSON policy elements"): those of
//! buckets here, those of roles and sessions in `identity_policy`.
//!
//! - `json`: JSON without duplicate names.
//! - `statement`: principals, actions, resources.
//! - `statement_parts`: effects, and when the conditions of a statement hold.
//! - `condition`, `condition_key`: operators and values; the keys that they refer to.
//! - `pattern`: wildcards and variables.
//! - `publicity`: how much of the Internet networks are.
//! - `context`: the facts about a request.
//! - `trust`: the conditions under which a provider's token is good for a role.
//!
//! The policy of a bucket is understood whole or refused: an ignored condition would allow more
//! than its author wrote. Those of sessions come from catalogues that write for other services,
//! too.

mod condition;
mod condition_key;
mod context;
mod identity_policy;
pub(super) mod json;
mod number;
mod pattern;
mod publicity;
mod statement;
mod statement_parts;
mod trust;

use std::borrow::Cow;
use std::sync::atomic::{AtomicU64, Ordering};

use condition::ClientLimit;
pub use context::{
    ConditionMemo, ExistingTags, PolicyContext, PrincipalFacts, StatedEncryption, StatedHeader, TokenClaim,
};
pub(super) use identity_policy::{IdentityPolicy, decide_by_all};
use json::{StrictJson, StrictMembers};
use pattern::VERSION_WITH_VARIABLES;
pub(super) use statement::Principal;
use statement::{PolicyScope, PolicyStatement};
use statement_parts::{PolicyEffect, StatementPlace};
pub(super) use trust::TrustConditions;

use crate::auth::{Action, Resource};
use crate::base::limits::{BUCKET_POLICY_MAX_BYTES, POLICY_WILDCARDS_MAX};

/// The first version of the policy language, which holds where a policy names none.
const FIRST_VERSION: &str = "2008-10-17";

/// The serial number of the next policy that is parsed, by which what was found about one is never
/// taken for another.
static NEXT_SERIAL: AtomicU64 = AtomicU64::new(1);

/// The policy of a bucket, parsed.
#[derive(Debug, Clone)]
pub struct BucketPolicy {
    bucket: String,
    statements: Vec<PolicyStatement>,
    public: bool,
    request_tags: bool,
}

/// What a policy says of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PolicyDecision {
    /// A statement denies it: nothing else can allow it.
    Deny,
    /// A statement allows it, and none denies it.
    Allow,
    /// No statement applies.
    NoMatch,
}

impl BucketPolicy {
    /// Parses the policy of a bucket.
    ///
    /// # Errors
    /// The reason for a `MalformedPolicy`: the first element that is missing, wrong or not
    /// supported, by name.
    pub fn parse(text: &[u8], bucket: &str) -> Result<Self, String> {
        if text.len() > BUCKET_POLICY_MAX_BYTES {
            return Err(format!("the policy is longer than {BUCKET_POLICY_MAX_BYTES} bytes"));
        }
        let json = StrictJson::parse(text)?;
        let members = StrictMembers::of(&json, "the policy", &["Version", "Id", "Statement"])?;
        let scope = PolicyScope { bucket, variables: version(members)? == VERSION_WITH_VARIABLES };
        let statements = members.required("Statement")?.elements();
        if statements.is_empty() {
            return Err("`Statement` is empty".to_owned());
        }
        let policy = NEXT_SERIAL.fetch_add(1, Ordering::Relaxed);
        let mut parsed = Vec::new();
        for (nth, json) in statements.iter().enumerate() {
            parsed.push(PolicyStatement::parse(json, scope, StatementPlace { policy, nth })?);
        }
        let statements = parsed;
        let public = are_public(&statements);
        let request_tags = statements.iter().any(PolicyStatement::reads_request_tags);
        Ok(Self { bucket: bucket.to_owned(), statements, public, request_tags })
    }

    /// Whether it may be put: its patterns have few wildcards. One that was stored before is
    /// evaluated all the same.
    ///
    /// # Errors
    /// The reason for a `MalformedPolicy`.
    pub fn check_wildcards(&self) -> Result<(), String> {
        match self.statements.iter().any(|statement| statement.wildcards() > POLICY_WILDCARDS_MAX) {
            true => Err(format!("a pattern has more than {POLICY_WILDCARDS_MAX} wildcards")),
            false => Ok(()),
        }
    }

    /// The policy in place of one that was stored and cannot be read: it denies everything to
    /// everyone.
    pub fn denying_all(bucket: &str) -> Self {
        let resource = format!(r#""arn:aws:s3:::{bucket}", "arn:aws:s3:::{bucket}/*""#);
        let statement =
            format!(r#"{{"Effect": "Deny", "Principal": "*", "Action": "*", "Resource": [{resource}]}}"#);
        let text = format!(r#"{{"Statement": {statement}}}"#);
        Self::parse(text.as_bytes(), bucket).expect("the policy is well-formed")
    }

    /// Decides about a request. An action on objects with [`Resource::Bucket`] is decided for some
    /// object: denied where every object is. An action on the bucket with an object is decided for
    /// the bucket.
    pub fn decide(
        &self,
        action: Action,
        resource: Resource<'_>,
        context: &PolicyContext<'_>,
    ) -> PolicyDecision {
        let path = match resource {
            Resource::Service => return PolicyDecision::NoMatch,
            Resource::Object { key, .. } if action.applies_to_objects() => {
                Cow::Owned([&self.bucket, "/", key].concat())
            }
            _ => Cow::Borrowed(self.bucket.as_str()),
        };
        let of_some_object = action.applies_to_objects() && matches!(resource, Resource::Bucket(_));
        let mut decision = PolicyDecision::NoMatch;
        for statement in &self.statements {
            let applies = match statement.effect {
                PolicyEffect::Allow if of_some_object => {
                    statement.applies_to_some_object(action, &self.bucket, context)
                }
                PolicyEffect::Deny if of_some_object => {
                    statement.denies_all_objects(action, &self.bucket, context)
                }
                _ => statement.applies(action, &path, context),
            };
            match statement.effect {
                PolicyEffect::Deny if applies => return PolicyDecision::Deny,
                PolicyEffect::Allow if applies => decision = PolicyDecision::Allow,
                PolicyEffect::Deny | PolicyEffect::Allow => {}
            }
        }
        decision
    }

    /// Whether a statement that names the session of the sender allows a request: such a one does
    /// so whatever the policy of the session lacks.
    pub(super) fn allows_session(
        &self,
        action: Action,
        resource: Resource<'_>,
        context: &PolicyContext<'_>,
    ) -> bool {
        let path = match resource {
            Resource::Service => return false,
            Resource::Object { key, .. } if action.applies_to_objects() => [&self.bucket, "/", key].concat(),
            _ => self.bucket.clone(),
        };
        let of_some_object = action.applies_to_objects() && matches!(resource, Resource::Bucket(_));
        self.statements.iter().filter(|it| it.effect == PolicyEffect::Allow && it.names_session(context)).any(
            |statement| match of_some_object {
                true => statement.applies_to_some_object(action, &self.bucket, context),
                false => statement.applies(action, &path, context),
            },
        )
    }

    /// Whom it names, in the order of the text.
    pub(super) fn principals(&self) -> impl Iterator<Item = &Principal> {
        self.statements.iter().flat_map(PolicyStatement::principals)
    }

    /// Whether it allows something to everyone without restricting clients to small networks or
    /// named users (GetBucketPolicyStatus, `BlockPublicPolicy`). The networks of all its statements
    /// count together.
    pub fn is_public(&self) -> bool {
        self.public
    }

    /// Whether it depends on the tags that a request gives an object (`s3:RequestObjectTag/KEY`).
    pub fn reads_request_tags(&self) -> bool {
        self.request_tags
    }
}

/// Whether statements let in everyone, or clients in networks that together are as good as the
/// Internet.
fn are_public(statements: &[PolicyStatement]) -> bool {
    let mut networks = Vec::new();
    for statement in statements {
        match statement.clients() {
            ClientLimit::Everyone => return true,
            ClientLimit::Users => {}
            ClientLimit::Networks(of_statement) => networks.extend(of_statement),
        }
    }
    publicity::are_public(&networks)
}

/// The version of the policy language.
fn version(members: StrictMembers<'_>) -> Result<String, String> {
    let version = members.get("Version").map(StrictJson::scalar);
    match version.unwrap_or_else(|| Some(FIRST_VERSION.to_owned())) {
        Some(version) if version == FIRST_VERSION || version == VERSION_WITH_VARIABLES => Ok(version),
        _ => Err(format!("`Version` must be `{VERSION_WITH_VARIABLES}` or `{FIRST_VERSION}`")),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::base::limits::POLICY_VALUE_MAX_BYTES;

    const PUBLIC_READ: &str = r#"{"Version": "2012-10-17", "Statement": [{"Sid": "PublicRead", "Effect": "Allow",
        "Principal": "*", "Action": ["s3:GetObject"], "Resource": ["arn:aws:s3:::site/*"]}]}"#;

    fn statement(rest: &str) -> String {
        format!(r#"{{"Version": "2012-10-17", "Statement": {{"Effect": "Allow", {rest}}}}}"#)
    }

    fn object(key: &str) -> Resource<'_> {
        Resource::Object { bucket: "site", key }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(at in 0..PUBLIC_READ.len(), len in 0..20_usize, text in "[ -~é]{0,20}") {
            let end = PUBLIC_READ.len().min(at + len);
            let text = [&PUBLIC_READ[..at], &text, &PUBLIC_READ[end..]].concat();
            if let Ok(policy) = BucketPolicy::parse(text.as_bytes(), "site") {
                let _ = policy.decide(Action::GetObject, object("x"), &PolicyContext::default());
            }
        }

        #[test]
        fn a_policy_that_denies_all_can_be_written_for_every_bucket(name in "[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]") {
            let policy = BucketPolicy::denying_all(&name);
            let bucket = policy.decide(Action::ListBucket, Resource::Bucket(&name), &PolicyContext::default());
            let object = Resource::Object { bucket: &name, key: "k" };
            let object = policy.decide(Action::GetObject, object, &PolicyContext::default());
            prop_assert_eq!((bucket, object), (PolicyDecision::Deny, PolicyDecision::Deny));
        }
    }

    #[test]
    fn roles_and_sessions_are_principals_of_their_own() {
        let facts = |role: Option<&str>, session: Option<&str>| PrincipalFacts {
            role: role.map(str::to_owned),
            session_arn: session.map(|rest| format!("arn:aws:sts::000000000000:{rest}")),
            ..PrincipalFacts::default()
        };
        let user = PolicyContext { user: Some("ann"), ..PolicyContext::default() };
        let of_role = facts(Some("lake"), Some("assumed-role/lake/job"));
        let of_role = PolicyContext { principal: Some(&of_role), ..PolicyContext::default() };
        let guest = facts(None, Some("federated-user/guest"));
        let guest = PolicyContext { user: Some("ann"), principal: Some(&guest), ..PolicyContext::default() };
        let anonymous = PolicyContext::default();
        for (principal, expected) in [
            ("arn:aws:iam::1:user/ann", [true, false, true, false]),
            ("arn:aws:iam::1:role/lake", [false, true, false, false]),
            ("arn:aws:iam::1:role/pond", [false, false, false, false]),
            ("arn:aws:sts::1:assumed-role/lake/job", [false, true, false, false]),
            ("arn:aws:sts::1:assumed-role/lake/other", [false, false, false, false]),
            ("arn:aws:sts::1:federated-user/guest", [false, false, true, false]),
            ("arn:aws:iam::1:root", [true, true, true, false]),
            ("lake", [false, false, false, false]),
        ] {
            let rest = |element: &str| {
                format!(
                    r#""{element}": {{"AWS": "{principal}"}}, "Action": "s3:GetObject", "Resource": "arn:aws:s3:::site/*""#
                )
            };
            let named = BucketPolicy::parse(statement(&rest("Principal")).as_bytes(), "site").unwrap();
            let denial = statement(&rest("NotPrincipal")).replace("Allow", "Deny");
            let others = BucketPolicy::parse(denial.as_bytes(), "site").unwrap();
            let decide =
                |policy: &BucketPolicy, context| policy.decide(Action::GetObject, object("x"), context);
            let senders = [&user, &of_role, &guest, &anonymous];
            for (sender, expected) in senders.into_iter().zip(expected) {
                assert_eq!(decide(&named, sender) == PolicyDecision::Allow, expected, "{principal}");
                // The account is nobody by itself, so that it leaves nobody out.
                let left_out = expected && !principal.ends_with("root");
                assert_eq!(decide(&others, sender) != PolicyDecision::Deny, left_out, "{principal}");
            }
            let allows = |context| named.allows_session(Action::GetObject, object("x"), context);
            let of_session = principal.contains("sts") && !principal.ends_with("other");
            assert_eq!(allows(&of_role), of_session && principal.contains("role"), "{principal}");
            assert_eq!(allows(&guest), of_session && principal.contains("guest"), "{principal}");
            assert!(!allows(&user) && !allows(&anonymous));
        }
        for refused in [
            r#""NotPrincipal": {"AWS": "ann"}, "Action": "s3:GetObject", "Resource": "arn:aws:s3:::site/*""#,
            r#""Principal": "*", "NotPrincipal": "*", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::site/*""#,
            r#""Principal": {"AWS": "arn:aws:iam::1:group/x"}, "Action": "s3:GetObject", "Resource": "arn:aws:s3:::site/*""#,
            r#""Principal": {"AWS": "arn:aws:sts::1:assumed-role/x"}, "Action": "s3:GetObject", "Resource": "arn:aws:s3:::site/*""#,
            r#""Principal": {"AWS": "arn:aws:iam::1:role/x*"}, "Action": "s3:GetObject", "Resource": "arn:aws:s3:::site/*""#,
        ] {
            assert!(BucketPolicy::parse(statement(refused).as_bytes(), "site").is_err(), "{refused}");
        }
    }

    #[test]
    fn services_of_aws_may_be_named_and_send_no_requests() {
        let ann = PolicyContext { user: Some("ann"), ..PolicyContext::default() };
        let nobody = PolicyContext::default();
        let decide = |principal: &str, effect: &str, context: &PolicyContext<'_>| {
            let rest = format!(
                r#""Principal": {principal}, "Action": "s3:PutObject", "Resource": "arn:aws:s3:::site/logs/*",
                   "Condition": {{"ArnLike": {{"aws:SourceArn": "arn:aws:s3:::source"}},
                                  "StringEquals": {{"aws:SourceAccount": "000000000000"}}}}"#
            );
            let text = statement(&rest).replace(r#""Allow""#, &format!(r#""{effect}""#));
            let policy = BucketPolicy::parse(text.as_bytes(), "site").unwrap();
            assert!(!policy.is_public(), "{principal}");
            policy.decide(Action::PutObject, object("logs/x"), context)
        };
        let service = r#"{"Service": "logging.s3.amazonaws.com"}"#;
        for effect in ["Allow", "Deny"] {
            for principal in [service, r#"{"Service": ["logging.s3.amazonaws.com"], "AWS": "ann"}"#, r#""*""#]
            {
                assert_eq!(decide(principal, effect, &ann), PolicyDecision::NoMatch, "{principal}");
                assert_eq!(decide(principal, effect, &nobody), PolicyDecision::NoMatch, "{principal}");
            }
        }
        let both = r#""Principal": {"Service": "s3.amazonaws.com", "AWS": "ann"}, "Action": "s3:GetObject",
                      "Resource": "arn:aws:s3:::site/*""#;
        let both = BucketPolicy::parse(statement(both).as_bytes(), "site").unwrap();
        assert_eq!(both.decide(Action::GetObject, object("x"), &ann), PolicyDecision::Allow);
        assert_eq!(both.decide(Action::GetObject, object("x"), &nobody), PolicyDecision::NoMatch);
        let foreign = statement(
            r#""Principal": {"Service": "ann"}, "Action": "s3:GetObject", "Resource": "arn:aws:s3:::site/*""#,
        );
        assert!(BucketPolicy::parse(foreign.as_bytes(), "site").unwrap_err().contains("no service of AWS"));
    }

    #[test]
    fn negated_actions_and_resources_are_about_all_others_of_the_bucket() {
        let decide = |rest: &str, action, resource| {
            let policy = BucketPolicy::parse(statement(rest).as_bytes(), "site");
            policy.unwrap_or_else(|e| panic!("{rest}: {e}")).decide(
                action,
                resource,
                &PolicyContext::default(),
            )
        };
        let bucket = Resource::Bucket("site");
        let not_action = r#""Principal": "*", "NotAction": ["s3:Delete*", "s3:PutObject"], "Resource": "arn:aws:s3:::site/*""#;
        assert_eq!(decide(not_action, Action::GetObject, object("x")), PolicyDecision::Allow);
        assert_eq!(decide(not_action, Action::DeleteObject, object("x")), PolicyDecision::NoMatch);
        assert_eq!(decide(not_action, Action::ListBucket, bucket), PolicyDecision::NoMatch);
        let not_resource = r#""Principal": "*", "Action": "s3:*", "NotResource": ["arn:aws:s3:::site/in/*", "arn:aws:s3:::site"]"#;
        assert_eq!(decide(not_resource, Action::GetObject, object("x")), PolicyDecision::Allow);
        assert_eq!(decide(not_resource, Action::GetObject, object("in/x")), PolicyDecision::NoMatch);
        assert_eq!(decide(not_resource, Action::ListBucket, bucket), PolicyDecision::NoMatch);
        assert_eq!(decide(not_resource, Action::DeleteObject, bucket), PolicyDecision::Allow, "some object");
        let none = r#""Principal": "*", "Action": "s3:*", "NotResource": "arn:aws:s3:::site/*""#;
        assert_eq!(decide(none, Action::DeleteObject, bucket), PolicyDecision::NoMatch);
        assert_eq!(decide(none, Action::ListBucket, bucket), PolicyDecision::Allow);
        for refused in [
            r#""Principal": "*", "Action": "s3:*", "NotAction": "s3:*", "Resource": "arn:aws:s3:::site/*""#,
            r#""Principal": "*", "Action": "s3:*", "Resource": "arn:aws:s3:::site", "NotResource": "arn:aws:s3:::site/*""#,
            r#""Principal": "*", "Action": "s3:*", "NotResource": "arn:aws:s3:::other/*""#,
            r#""Principal": "*", "NotAction": "s3:Nonsense", "Resource": "arn:aws:s3:::site/*""#,
        ] {
            assert!(BucketPolicy::parse(statement(refused).as_bytes(), "site").is_err(), "{refused}");
        }
    }

    #[test]
    fn public_read_allows_objects_and_no_listing() {
        let policy = BucketPolicy::parse(PUBLIC_READ.as_bytes(), "site").unwrap();
        let anonymous = PolicyContext::default();
        let decide = |action, resource| policy.decide(action, resource, &anonymous);
        assert_eq!(decide(Action::GetObject, object("index.html")), PolicyDecision::Allow);
        assert_eq!(decide(Action::PutObject, object("index.html")), PolicyDecision::NoMatch);
        assert_eq!(decide(Action::GetObjectVersion, object("index.html")), PolicyDecision::NoMatch);
        let all = Resource::Prefix { bucket: "site", prefix: "" };
        assert_eq!(decide(Action::ListBucket, all), PolicyDecision::NoMatch);
        assert!(policy.is_public());
    }

    #[test]
    fn a_denial_wins_wherever_it_stands() {
        let policy = r#"{"Statement": [
            {"Effect": "Allow", "Principal": "*", "Action": "s3:*", "Resource": "arn:aws:s3:::site*"},
            {"Effect": "Deny", "Principal": {"AWS": ["bob", "arn:aws:iam::123456789012:user/eve"]}, "Action": "s3:Get*",
             "Resource": "arn:aws:s3:::site/private/*"}]}"#;
        let policy = BucketPolicy::parse(policy.as_bytes(), "site").unwrap();
        let decide = |user, action, resource| {
            policy.decide(action, resource, &PolicyContext { user, ..PolicyContext::default() })
        };
        for user in [Some("bob"), Some("eve")] {
            assert_eq!(decide(user, Action::GetObject, object("private/a")), PolicyDecision::Deny);
            assert_eq!(decide(user, Action::GetObject, object("public/a")), PolicyDecision::Allow);
            assert_eq!(decide(user, Action::PutObject, object("private/a")), PolicyDecision::Allow);
        }
        for user in [None, Some("ann")] {
            assert_eq!(decide(user, Action::GetObject, object("private/a")), PolicyDecision::Allow);
        }
        assert_eq!(decide(None, Action::ListBucket, Resource::Bucket("site")), PolicyDecision::Allow);
        assert_eq!(decide(Some("bob"), Action::GetObject, Resource::Bucket("site")), PolicyDecision::Allow);
    }

    #[test]
    fn statements_of_one_name_all_count() {
        let one = |effect, key| {
            format!(
                r#"{{"Sid": "a", "Effect": "{effect}", "Principal": "*", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::site/{key}"}}"#
            )
        };
        let text = format!(r#"{{"Statement": [{}, {}]}}"#, one("Allow", "*"), one("Deny", "kept/*"));
        let policy = BucketPolicy::parse(text.as_bytes(), "site").unwrap();
        let decide = |key| policy.decide(Action::GetObject, object(key), &PolicyContext::default());
        assert_eq!(decide("shown"), PolicyDecision::Allow);
        assert_eq!(decide("kept/x"), PolicyDecision::Deny);
    }

    #[test]
    fn users_reach_their_own_folders_by_a_variable() {
        let text = statement(
            r#""Principal": {"AWS": "*"}, "Action": "s3:PutObject", "Resource": "arn:aws:s3:::site/home/${aws:username}/*""#,
        );
        let policy = BucketPolicy::parse(text.as_bytes(), "site").unwrap();
        let decide = |user, key| {
            policy.decide(Action::PutObject, object(key), &PolicyContext { user, ..PolicyContext::default() })
        };
        assert_eq!(decide(Some("ann"), "home/ann/x"), PolicyDecision::Allow);
        assert_eq!(decide(Some("bob"), "home/ann/x"), PolicyDecision::NoMatch);
        assert_eq!(decide(None, "home/ann/x"), PolicyDecision::NoMatch);
        let literal =
            BucketPolicy::parse(text.replace("2012-10-17", "2008-10-17").as_bytes(), "site").unwrap();
        let decision = literal.decide(
            Action::PutObject,
            object("home/${aws:username}/x"),
            &PolicyContext { user: Some("ann"), ..PolicyContext::default() },
        );
        assert_eq!(decision, PolicyDecision::Allow, "the first version has no variables");
    }

    #[test]
    fn an_action_for_some_object_is_denied_only_where_all_are() {
        let text = |resource: &str| {
            format!(
                r#"{{"Statement": [{{"Effect": "Deny", "Principal": "*", "Action": "s3:DeleteObject", "Resource": "{resource}"}}]}}"#
            )
        };
        let decide = |resource: &str| {
            let policy = BucketPolicy::parse(text(resource).as_bytes(), "site").unwrap();
            policy.decide(Action::DeleteObject, Resource::Bucket("site"), &PolicyContext::default())
        };
        assert_eq!(decide("arn:aws:s3:::site/*"), PolicyDecision::Deny);
        assert_eq!(decide("arn:aws:s3:::site*"), PolicyDecision::Deny);
        assert_eq!(decide("arn:aws:s3:::site/kept/*"), PolicyDecision::NoMatch);
    }

    #[test]
    fn policies_are_public_unless_they_restrict_clients() {
        let public = |condition: &str| {
            let text = statement(&format!(
                r#""Principal": "*", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::site/*", "Condition": {condition}"#
            ));
            BucketPolicy::parse(text.as_bytes(), "site").unwrap().is_public()
        };
        assert!(!public(r#"{"IpAddress": {"aws:SourceIp": "192.0.2.0/24"}}"#));
        assert!(!public(r#"{"StringEquals": {"aws:username": "ann"}}"#));
        for condition in [
            r#"{"IpAddress": {"aws:SourceIp": ["192.0.2.0/24", "0.0.0.0/1"]}}"#,
            r#"{"IpAddressIfExists": {"aws:SourceIp": "192.0.2.0/24"}}"#,
            r#"{"NotIpAddress": {"aws:SourceIp": "192.0.2.0/24"}}"#,
            r#"{"StringLike": {"aws:Referer": "https://site.example/*"}}"#,
            r#"{"Bool": {"aws:SecureTransport": "true"}}"#,
        ] {
            assert!(public(condition), "{condition}");
        }
    }

    #[test]
    fn a_value_that_is_too_long_to_compare_allows_nothing_and_denies() {
        let agents =
            [("x".repeat(POLICY_VALUE_MAX_BYTES), true), ("x".repeat(POLICY_VALUE_MAX_BYTES + 1), false)];
        for (agent, is_compared) in agents {
            let context = PolicyContext { user_agent: Some(&agent), ..PolicyContext::default() };
            for (condition, holds) in [
                (r#"{"StringLike": {"aws:UserAgent": "x*"}}"#, true),
                (r#"{"StringNotLike": {"aws:UserAgent": "x*"}}"#, false),
                (r#"{"StringNotLike": {"aws:Referer": "*${aws:UserAgent}"}}"#, true),
            ] {
                for (effect, beyond) in [("Allow", false), ("Deny", true)] {
                    let text = format!(
                        r#"{{"Version": "2012-10-17", "Statement": {{"Effect": "{effect}", "Principal": "*",
                            "Action": "s3:GetObject", "Resource": "arn:aws:s3:::site/a*", "Condition": {condition}}}}}"#
                    );
                    let policy = BucketPolicy::parse(text.as_bytes(), "site").unwrap();
                    let decide = |key| policy.decide(Action::GetObject, object(key), &context);
                    let applies = if is_compared { holds } else { beyond };
                    assert_eq!(decide("a1") != PolicyDecision::NoMatch, applies, "{effect} {condition}");
                    assert_eq!(decide("b1"), PolicyDecision::NoMatch, "another object");
                }
            }
        }
    }

    #[test]
    fn conditions_of_the_request_are_evaluated_once_and_those_of_objects_each_time() {
        let text = statement(
            r#""Principal": "*", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::site/*", "Condition":
               {"StringLike": {"aws:UserAgent": "good*", "s3:ExistingObjectTag/state": "open"}}"#,
        );
        let policy = BucketPolicy::parse(text.as_bytes(), "site").unwrap();
        let memo = ConditionMemo::default();
        let decide = |agent, state: &str| {
            let tags = |_: &str| Some(state.to_owned());
            let context = PolicyContext {
                user_agent: Some(agent),
                existing_tags: &tags,
                memo: Some(&memo),
                ..PolicyContext::default()
            };
            policy.decide(Action::GetObject, object("k"), &context) == PolicyDecision::Allow
        };
        assert!(decide("good one", "open"));
        assert!(!decide("good one", "closed"), "a condition of the object");
        assert!(decide("bad one", "open"), "the request is the same, so its header is not looked at again");
        // Another policy, or the same one parsed again, is evaluated anew.
        let again = BucketPolicy::parse(text.as_bytes(), "site").unwrap();
        let context =
            PolicyContext { user_agent: Some("bad one"), memo: Some(&memo), ..PolicyContext::default() };
        assert_eq!(again.decide(Action::GetObject, object("k"), &context), PolicyDecision::NoMatch);
    }

    #[test]
    fn a_policy_with_many_wildcards_cannot_be_put_and_is_evaluated() {
        let with = |key: &str| {
            let resource = format!(r#""Resource": "arn:aws:s3:::site/{key}""#);
            let text = statement(&format!(r#""Principal": "*", "Action": "s3:GetObject", {resource}"#));
            BucketPolicy::parse(text.as_bytes(), "site").unwrap()
        };
        let few = with(&"a*".repeat(64));
        let many = with(&"a*".repeat(65));
        assert_eq!(few.check_wildcards(), Ok(()));
        assert_eq!(many.check_wildcards(), Err("a pattern has more than 64 wildcards".to_owned()));
        let decide = |key: &str| many.decide(Action::GetObject, object(key), &PolicyContext::default());
        assert_eq!(decide(&"a".repeat(65)), PolicyDecision::Allow);
        assert_eq!(decide(&"a".repeat(64)), PolicyDecision::NoMatch);
        let condition = statement(&format!(
            r#""Principal": "*", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::site/*",
               "Condition": {{"StringLike": {{"aws:Referer": "{}"}}}}"#,
            "?".repeat(65)
        ));
        assert!(BucketPolicy::parse(condition.as_bytes(), "site").unwrap().check_wildcards().is_err());
    }

    #[test]
    fn policies_that_are_not_understood_are_refused_by_name() {
        let usual = r#""Principal": "*", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::site/*""#;
        let with = |from: &str, to: &str| statement(&usual.replacen(from, to, 1));
        for (text, named) in [
            ("[]".to_owned(), "must be an object"),
            ("{".to_owned(), "EOF"),
            (r#"{"Version": "2012-10-17"}"#.to_owned(), "`Statement` is missing"),
            (r#"{"Statement": []}"#.to_owned(), "`Statement` is empty"),
            (r#"{"Version": "2020-01-01", "Statement": []}"#.to_owned(), "`Version` must be"),
            (r#"{"Comment": "", "Statement": []}"#.to_owned(), "`Comment` is not supported"),
            (
                statement(&format!(r#"{usual}, "NotAction": "s3:PutObject""#)),
                "`Action` or `NotAction`, not both",
            ),
            (PUBLIC_READ.replace(r#""Effect""#, r#""effect""#), "`effect` is not supported"),
            (PUBLIC_READ.replace("Allow", "allow"), "`Effect` must be"),
            (with(r#""Principal": "*", "#, ""), "`Principal` is missing"),
            (with(r#""*""#, r#"{"CanonicalUser": "x"}"#), "`CanonicalUser` is not supported"),
            (with(r#""*""#, r#"{"AWS": "arn:aws:iam::1:group/x"}"#), "`arn:aws:iam::1:group/x`"),
            (with(r#""*""#, r#"{"AWS": "arn:aws:iam::1:user/x*"}"#), "`arn:aws:iam::1:user/x*`"),
            (with(r#""*""#, r#"{"AWS": []}"#), "`Principal` is empty"),
            (with("s3:GetObject", "s3:GetObjekt"), "no action `s3:GetObjekt`"),
            (with("s3:GetObject", "ec2:Run"), "`ec2:Run` does not begin with"),
            (with("s3:GetObject", "s3:ListBucket"), "`s3:ListBucket` does not apply to any resource"),
            (with("site/*", "site"), "`s3:GetObject` does not apply to any resource"),
            (with("site/*", "other/*"), "`arn:aws:s3:::other/*` is not of this bucket"),
            (with("site/*", "sites/*"), "is not of this bucket"),
            (with("site/*", "site/${aws:nonsense}"), "`${aws:nonsense}` is unknown"),
            (
                statement(&format!(r#"{usual}, "Condition": {{"StringLike": {{"S3:prefix": "a/*"}}}}"#)),
                "the condition key `s3:prefix` does not apply to the action `s3:GetObject`",
            ),
            (
                statement(&format!(
                    r#"{}, "Condition": {{"StringEquals": {{"s3:ExistingObjectTag/a": "b"}}}}"#,
                    usual.replace("GetObject", "DeleteObject")
                )),
                "the condition key `s3:ExistingObjectTag/a` does not apply to the action `s3:DeleteObject`",
            ),
            (statement(&format!(r#"{usual}, "Effect": "Deny""#)), "\"Effect\" appears twice"),
            (format!("{}{PUBLIC_READ}", " ".repeat(BUCKET_POLICY_MAX_BYTES)), "is longer than"),
        ] {
            let error = BucketPolicy::parse(text.as_bytes(), "site").unwrap_err();
            assert!(error.contains(named), "{text}: {error}");
        }
        BucketPolicy::parse(statement(usual).as_bytes(), "site").unwrap();
    }
}
