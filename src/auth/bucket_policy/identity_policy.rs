//! The policies of roles and sessions: what a sender may do, wherever.
//!
//! Programs write them for all services at once, so they are read leniently: actions and resources
//! of other services grant nothing, a permission without a resource is of no use, and keys that are
//! unknown count as absent. What cannot be read at all is refused, and a denial that would deny
//! nothing is, too.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::condition::{Condition, PolicySyntax};
use super::condition_key::ConditionKey;
use super::context::PolicyContext;
use super::json::{StrictJson, StrictMembers};
use super::pattern::{GlobPattern, GlobSyntax, VERSION_WITH_VARIABLES};
use super::statement_parts::{PolicyEffect, StatementConditions, StatementPlace, texts};
use super::{FIRST_VERSION, NEXT_SERIAL, PolicyDecision};
use crate::auth::action::{ActionLevel, ActionSet};
use crate::auth::{Action, Resource};
use crate::base::limits::POLICY_WILDCARDS_MAX;

/// The service of the actions of S3, and that of the administration of this server.
const S3: &str = "s3";
const ADMINISTRATION: &str = "siltstone";

/// The policy of a role or of a session, parsed.
#[derive(Debug, Clone)]
pub(in crate::auth) struct IdentityPolicy {
    statements: Vec<IdentityStatement>,
}

#[derive(Debug, Clone)]
struct IdentityStatement {
    effect: PolicyEffect,
    actions: ActionSet,
    resources: ResourceSet,
    conditions: StatementConditions,
}

/// The resources of a statement.
#[derive(Debug, Clone, Default)]
struct ResourceSet {
    /// Whether the statement is about all others (`NotResource`).
    is_negated: bool,
    /// Whether `*` is among them.
    everything: bool,
    /// `bucket` or `bucket/key`, with wildcards.
    paths: Vec<GlobPattern>,
}

impl IdentityPolicy {
    /// Parses a policy.
    ///
    /// # Errors
    /// The reason for a `MalformedPolicyDocument`: the first element that is missing or wrong, by
    /// name.
    pub(in crate::auth) fn parse(text: &str) -> Result<Self, String> {
        let json = StrictJson::parse(text.as_bytes())?;
        let members = StrictMembers::of(&json, "the policy", &["Version", "Id", "Statement"])?;
        let version = members.get("Version").map(StrictJson::scalar);
        let variables = match version {
            None => false,
            Some(Some(version)) if version == FIRST_VERSION => false,
            Some(Some(version)) if version == VERSION_WITH_VARIABLES => true,
            Some(_) => {
                return Err(format!("`Version` must be `{VERSION_WITH_VARIABLES}` or `{FIRST_VERSION}`"));
            }
        };
        let statements = members.required("Statement")?.elements();
        if statements.is_empty() {
            return Err("`Statement` is empty".to_owned());
        }
        let syntax = PolicySyntax { variables, lenient: true };
        let policy = NEXT_SERIAL.fetch_add(1, Ordering::Relaxed);
        let mut parsed = Vec::new();
        for (nth, json) in statements.iter().enumerate() {
            parsed.push(IdentityStatement::parse(json, syntax, StatementPlace { policy, nth })?);
        }
        Ok(Self { statements: parsed })
    }

    /// Whether it allows every action on every resource, whatever the request.
    pub(in crate::auth) fn is_of_everything(&self) -> bool {
        self.statements.iter().any(IdentityStatement::allows_everything)
    }

    /// Whether it denies anything.
    pub(in crate::auth) fn has_denial(&self) -> bool {
        self.statements.iter().any(|statement| statement.effect == PolicyEffect::Deny)
    }

    /// Whether it allows the action on some resource for some request.
    pub(in crate::auth) fn may_allow(&self, action: Action) -> bool {
        self.statements.iter().any(|statement| {
            let resources = &statement.resources;
            statement.effect == PolicyEffect::Allow
                && statement.actions.contains(action)
                && (resources.everything || resources.is_negated || !resources.paths.is_empty())
        })
    }

    /// The claims of providers' tokens that it names.
    pub(in crate::auth) fn claims(&self) -> impl Iterator<Item = &str> {
        self.statements.iter().flat_map(IdentityStatement::claims)
    }

    /// Decides about a request. To create is to put: what is said of PutObject holds for
    /// CreateObject, too. An action on objects with [`Resource::Bucket`] is decided for some
    /// object: denied where every object is.
    pub(in crate::auth) fn decide(
        &self,
        action: Action,
        resource: Resource<'_>,
        context: &PolicyContext<'_>,
    ) -> PolicyDecision {
        // S3 has no CreateObject: a policy that was written for it means both by PutObject.
        let also = (action == Action::CreateObject).then_some(Action::PutObject);
        let applies = |statement: &IdentityStatement| {
            [Some(action), also].into_iter().flatten().any(|it| statement.applies(it, resource, context))
        };
        let mut decision = PolicyDecision::NoMatch;
        for statement in &self.statements {
            match statement.effect {
                PolicyEffect::Deny if applies(statement) => return PolicyDecision::Deny,
                PolicyEffect::Allow if decision == PolicyDecision::NoMatch && applies(statement) => {
                    decision = PolicyDecision::Allow;
                }
                PolicyEffect::Deny | PolicyEffect::Allow => {}
            }
        }
        decision
    }
}

/// Decides by several policies. A denial wins.
pub(in crate::auth) fn decide_by_all(
    policies: &[Arc<IdentityPolicy>],
    action: Action,
    resource: Resource<'_>,
    context: &PolicyContext<'_>,
) -> PolicyDecision {
    let mut decision = PolicyDecision::NoMatch;
    for policy in policies {
        match policy.decide(action, resource, context) {
            PolicyDecision::Deny => return PolicyDecision::Deny,
            PolicyDecision::Allow => decision = PolicyDecision::Allow,
            PolicyDecision::NoMatch => {}
        }
    }
    decision
}

impl IdentityStatement {
    fn allows_everything(&self) -> bool {
        self.effect == PolicyEffect::Allow
            && Action::ALL.iter().all(|action| self.actions.contains(*action))
            && self.resources.everything
            && !self.resources.is_negated
            && self.conditions.iter().next().is_none()
    }

    fn parse(json: &StrictJson, syntax: PolicySyntax, place: StatementPlace) -> Result<Self, String> {
        let known = ["Sid", "Effect", "Action", "NotAction", "Resource", "NotResource", "Condition"];
        let members = StrictMembers::of(json, "a statement", &known)?;
        let effect = PolicyEffect::parse(members.required("Effect")?)?;
        let actions = match (members.get("Action"), members.get("NotAction")) {
            (Some(names), None) => named_actions(&texts(names, "Action")?, effect)?,
            (None, Some(names)) => {
                // What an allowance leaves out, a denial names.
                let left_out = match effect {
                    PolicyEffect::Allow => PolicyEffect::Deny,
                    PolicyEffect::Deny => PolicyEffect::Allow,
                };
                other_actions(named_actions(&texts(names, "NotAction")?, left_out)?, effect)
            }
            (Some(_), Some(_)) => return Err("a statement has `Action` or `NotAction`, not both".to_owned()),
            (None, None) => return Err("the element `Action` is missing".to_owned()),
        };
        let resources = match (members.get("Resource"), members.get("NotResource")) {
            (Some(arns), None) => ResourceSet::parse(&texts(arns, "Resource")?, syntax, false)?,
            (None, Some(arns)) => ResourceSet::parse(&texts(arns, "NotResource")?, syntax, true)?,
            (Some(_), Some(_)) => {
                return Err("a statement has `Resource` or `NotResource`, not both".to_owned());
            }
            (None, None) if effect == PolicyEffect::Deny => {
                return Err("a denial without `Resource` would deny nothing".to_owned());
            }
            (None, None) => ResourceSet::default(),
        };
        let conditions = members.get("Condition");
        let conditions = conditions.map_or(Ok(Vec::new()), |json| Condition::parse_all(json, syntax))?;
        let of_conditions = conditions.iter().map(Condition::wildcards);
        let wildcards = resources.paths.iter().map(GlobPattern::wildcards).chain(of_conditions).max();
        if wildcards.is_some_and(|most| most > POLICY_WILDCARDS_MAX) {
            return Err(format!("a pattern has more than {POLICY_WILDCARDS_MAX} wildcards"));
        }
        Ok(Self { effect, actions, resources, conditions: StatementConditions { effect, conditions, place } })
    }

    fn claims(&self) -> impl Iterator<Item = &str> {
        let of_conditions = self.conditions.iter().flat_map(Condition::compared);
        let of_resources = self.resources.paths.iter().flat_map(GlobPattern::variables);
        of_conditions.chain(of_resources).filter_map(ConditionKey::claim)
    }

    fn applies(&self, action: Action, resource: Resource<'_>, context: &PolicyContext<'_>) -> bool {
        // The cheapest first: conditions may read the tags of an object.
        self.actions.contains(action)
            && self.covers(action, resource, context)
            && self.conditions.hold(context)
    }

    fn covers(&self, action: Action, resource: Resource<'_>, context: &PolicyContext<'_>) -> bool {
        if action.level() == ActionLevel::Administration && self.effect == PolicyEffect::Allow {
            return self.resources.everything && !self.resources.is_negated;
        }
        let of_objects = matches!(action.level(), ActionLevel::Object | ActionLevel::Administration);
        match resource {
            Resource::Bucket(bucket) if action.applies_to_objects() => {
                self.resources.cover_objects_of(bucket, self.effect)
            }
            Resource::Object { bucket, key } if of_objects => {
                self.resources.cover(&Cow::Owned([bucket, "/", key].concat()), context)
            }
            other => self.resources.cover(&Cow::Borrowed(other.bucket().unwrap_or_default()), context),
        }
    }
}

impl ResourceSet {
    fn parse(arns: &[String], syntax: PolicySyntax, is_negated: bool) -> Result<Self, String> {
        let PolicySyntax { variables, lenient } = syntax;
        let mut set = Self { is_negated, ..Self::default() };
        for arn in arns {
            if arn == "*" {
                set.everything = true;
                continue;
            }
            let parts: Vec<_> = arn.splitn(6, ':').collect();
            let &["arn", _, service, _, _, path] = parts.as_slice() else {
                return Err(format!("the resource `{arn}` is neither `*` nor an ARN"));
            };
            if path.is_empty() {
                return Err(format!("the resource `{arn}` names nothing"));
            }
            if service == S3 || service == "*" {
                set.paths.push(GlobPattern::parse(path, GlobSyntax { wildcards: true, variables, lenient })?);
            }
        }
        Ok(set)
    }

    /// Whether `bucket` or `bucket/key` is among them; the server as a whole has an empty path.
    fn cover(&self, path: &str, context: &PolicyContext<'_>) -> bool {
        let named = self.everything || self.paths.iter().any(|pattern| pattern.matches(path, context));
        named != self.is_negated
    }

    /// Whether some object of a bucket is among them, or, for a denial, every one.
    fn cover_objects_of(&self, bucket: &str, effect: PolicyEffect) -> bool {
        let objects = format!("{bucket}/");
        // An allowance counts if it may cover any object, and a denial only if it covers all.
        // Negation turns "any" into "not all".
        let needs_all = (effect == PolicyEffect::Deny) != self.is_negated;
        let covers = self.everything
            || self.paths.iter().any(|pattern| match needs_all {
                true => pattern.covers_all_after(&objects),
                false => pattern.may_go_beyond(&objects),
            });
        covers != self.is_negated
    }
}

/// The actions that names with wildcards stand for; none for those of other services. `s3:*` has
/// none of the administration, and neither has an allowance with a wildcard in a part of the
/// service: who writes `s*:*` does not think of it.
fn named_actions(names: &[String], effect: PolicyEffect) -> Result<ActionSet, String> {
    let syntax = GlobSyntax { wildcards: true, variables: false, lenient: true };
    let mut actions = ActionSet::default();
    for name in names {
        if name != "*" && !name.contains(':') {
            return Err(format!("the action `{name}` is not of the form `SERVICE:ACTION`"));
        }
        let name = name.to_ascii_lowercase();
        let named_service = name.split_once(':').map_or(name.as_str(), |(service, _)| service);
        let is_clear = matches!(name.as_str(), "*" | "*:*") || !named_service.contains(['*', '?']);
        let pattern = GlobPattern::parse(&name, syntax)?;
        for action in Action::ALL {
            if action.level() == ActionLevel::Administration && effect == PolicyEffect::Allow && !is_clear {
                continue;
            }
            let service = match action.level() {
                ActionLevel::Administration => ADMINISTRATION,
                _ => S3,
            };
            let known = format!("{service}:{}", action.as_str().to_ascii_lowercase());
            if pattern.matches(&known, &PolicyContext::default()) {
                actions.insert(*action);
            }
        }
    }
    Ok(actions)
}

/// The actions that are not among `named`. Nobody is given the administration by a name that is
/// left out, but it is denied so.
fn other_actions(named: ActionSet, effect: PolicyEffect) -> ActionSet {
    let mut others = ActionSet::default();
    for action in Action::ALL.iter().filter(|action| !named.contains(**action)) {
        if effect == PolicyEffect::Deny || action.level() != ActionLevel::Administration {
            others.insert(*action);
        }
    }
    others
}

#[cfg(test)]
mod tests {
    use PolicyDecision::{Allow, Deny, NoMatch};

    use super::*;

    fn policy(statements: &str) -> Result<IdentityPolicy, String> {
        IdentityPolicy::parse(&format!(r#"{{"Version": "2012-10-17", "Statement": [{statements}]}}"#))
    }

    fn decide(statements: &str, action: Action, resource: Resource<'_>) -> PolicyDecision {
        policy(statements).unwrap().decide(action, resource, &PolicyContext::default())
    }

    fn object<'a>(bucket: &'a str, key: &'a str) -> Resource<'a> {
        Resource::Object { bucket, key }
    }

    #[test]
    fn a_wildcard_in_the_service_gives_no_administration_and_denies_it() {
        let server = Resource::Service;
        for (names, allowed) in [
            ("\"*\"", Allow),
            ("\"*:*\"", Allow),
            ("\"siltstone:*\"", Allow),
            ("\"s*:*\"", NoMatch),
            ("\"?*:AdminListUsers\"", NoMatch),
            ("\"*:Get*\"", NoMatch),
        ] {
            let with = |effect: &str, element: &str, action| {
                let statement = format!(r#"{{"Effect": "{effect}", "{element}": {names}, "Resource": "*"}}"#);
                decide(&statement, action, server)
            };
            let action = match names.contains("Get") {
                true => Action::GetFederationToken,
                false => Action::AdminListUsers,
            };
            assert_eq!(with("Allow", "Action", action), allowed, "{names}");
            assert_eq!(with("Deny", "Action", action), Deny, "{names}");
            assert_eq!(with("Allow", "NotAction", action), NoMatch, "{names}");
        }
    }

    #[test]
    fn what_catalogues_send_is_read_as_it_is_meant() {
        let text = r#"{"Version": "2012-10-17", "Statement": [
            {"Effect": "Allow", "Action": ["s3:GetObject", "s3:GetObjectVersion", "s3:PutObject", "s3:DeleteObject"],
             "Resource": "arn:aws:s3:::lake/db/table/*"},
            {"Effect": "Allow", "Action": "s3:ListBucket", "Resource": "arn:aws:s3:::lake",
             "Condition": {"StringLike": {"s3:prefix": ["db/table/*", "db/${*}${?}${$}"]}}},
            {"Effect": "Allow", "Action": "s3:GetBucketLocation"},
            {"Effect": "Allow", "Action": ["kms:GenerateDataKey", "kms:Decrypt"], "Resource": "arn:aws:kms:eu:1:key/x",
             "Condition": {"StringEquals": {"kms:ViaService": "s3"}}}]}"#;
        let policy = IdentityPolicy::parse(text).unwrap();
        let listing = |prefix| {
            let context = PolicyContext { prefix, ..PolicyContext::default() };
            let resource = Resource::Prefix { bucket: "lake", prefix: prefix.unwrap_or_default() };
            policy.decide(Action::ListBucket, resource, &context)
        };
        let context = PolicyContext::default();
        for action in [Action::GetObject, Action::PutObject, Action::DeleteObject, Action::CreateObject] {
            assert_eq!(policy.decide(action, object("lake", "db/table/x"), &context), Allow, "{action}");
            assert_eq!(policy.decide(action, object("lake", "db/other/x"), &context), NoMatch, "{action}");
            assert_eq!(policy.decide(action, object("other", "db/table/x"), &context), NoMatch, "{action}");
        }
        assert_eq!(listing(Some("db/table/")), Allow);
        assert_eq!(listing(Some("db/*?$")), Allow);
        assert_eq!(listing(Some("db/other/")), NoMatch);
        assert_eq!(listing(None), NoMatch);
        assert_eq!(policy.decide(Action::GetBucketLocation, Resource::Bucket("lake"), &context), NoMatch);
    }

    #[test]
    fn actions_of_s3_are_never_the_administration() {
        let everything = Resource::Service;
        for &action in Action::ALL.iter().filter(|it| it.level() == ActionLevel::Administration) {
            for statement in [
                r#"{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}"#,
                r#"{"Effect": "Allow", "NotAction": "s3:GetObject", "Resource": "*"}"#,
                r#"{"Effect": "Allow", "Action": "*", "Resource": "arn:aws:s3:::*"}"#,
                r#"{"Effect": "Allow", "Action": "*", "NotResource": "arn:aws:s3:::b"}"#,
            ] {
                assert_eq!(decide(statement, action, everything), NoMatch, "{action}: {statement}");
            }
            for statement in [
                r#"{"Effect": "Allow", "Action": "*", "Resource": "*"}"#,
                r#"{"Effect": "Allow", "Action": "siltstone:*", "Resource": "*"}"#,
            ] {
                assert_eq!(decide(statement, action, everything), Allow, "{action}: {statement}");
                assert_eq!(decide(statement, action, object("b", "k")), Allow, "{action}: {statement}");
            }
            let denial = r#"{"Effect": "Deny", "NotAction": "s3:GetObject", "Resource": "*"}"#;
            assert_eq!(decide(denial, action, everything), Deny, "{action}");
        }
    }

    #[test]
    fn negated_elements_are_about_all_others() {
        let not_action = r#"{"Effect": "Allow", "NotAction": "s3:Get*", "Resource": "arn:aws:s3:::b/*"}"#;
        assert_eq!(decide(not_action, Action::PutObject, object("b", "k")), Allow);
        assert_eq!(decide(not_action, Action::GetObject, object("b", "k")), NoMatch);
        let not_resource = r#"{"Effect": "Deny", "Action": "s3:*", "NotResource": ["arn:aws:s3:::b", "arn:aws:s3:::b/p/*"]}"#;
        assert_eq!(decide(not_resource, Action::GetObject, object("b", "p/x")), NoMatch);
        assert_eq!(decide(not_resource, Action::GetObject, object("b", "q")), Deny);
        assert_eq!(decide(not_resource, Action::ListBucket, Resource::Bucket("b")), NoMatch);
        assert_eq!(decide(not_resource, Action::ListBucket, Resource::Bucket("c")), Deny);
        assert_eq!(decide(not_resource, Action::ListAllMyBuckets, Resource::Service), Deny);
    }

    #[test]
    fn a_question_about_some_object_is_denied_where_every_object_is() {
        let allow = r#"{"Effect": "Allow", "Action": "s3:*", "Resource": "arn:aws:s3:::b*/p/*"}"#;
        let some = Resource::Bucket("bucket");
        assert_eq!(decide(allow, Action::DeleteObject, some), Allow);
        assert_eq!(decide(allow, Action::DeleteObject, Resource::Bucket("a")), NoMatch);
        let with = |denial: &str| decide(&format!("{allow}, {denial}"), Action::DeleteObject, some);
        assert_eq!(
            with(r#"{"Effect": "Deny", "Action": "s3:*", "Resource": "arn:aws:s3:::bucket/p/x"}"#),
            Allow
        );
        assert_eq!(
            with(r#"{"Effect": "Deny", "Action": "s3:*", "Resource": "arn:aws:s3:::bucket/*"}"#),
            Deny
        );
        assert_eq!(with(r#"{"Effect": "Deny", "Action": "s3:*", "NotResource": "arn:aws:s3:::a/*"}"#), Deny);
        let bucket = r#"{"Effect": "Allow", "Action": "s3:*", "Resource": "arn:aws:s3:::bucket"}"#;
        assert_eq!(decide(bucket, Action::DeleteObject, some), NoMatch);
        assert_eq!(decide(bucket, Action::DeleteBucket, some), Allow);
    }

    #[test]
    fn a_denial_of_puts_is_one_of_creations() {
        let denied = r#"{"Effect": "Allow", "Action": "s3:CreateObject", "Resource": "*"},
                        {"Effect": "Deny", "Action": "s3:PutObject", "Resource": "*"}"#;
        assert_eq!(decide(denied, Action::CreateObject, object("b", "k")), Deny);
        let created = r#"{"Effect": "Allow", "Action": "s3:CreateObject", "Resource": "*"}"#;
        assert_eq!(decide(created, Action::CreateObject, object("b", "k")), Allow);
        assert_eq!(decide(created, Action::PutObject, object("b", "k")), NoMatch);
    }

    #[test]
    fn policies_that_cannot_be_read_are_refused_by_name() {
        for (statements, named) in [
            ("", "`Statement` is empty"),
            (r#"{"Action": "s3:*", "Resource": "*"}"#, "`Effect` is missing"),
            (r#"{"Effect": "allow", "Action": "s3:*", "Resource": "*"}"#, "`Effect` must be"),
            (r#"{"Effect": "Allow", "Resource": "*"}"#, "`Action` is missing"),
            (r#"{"Effect": "Allow", "Action": [], "Resource": "*"}"#, "`Action` is empty"),
            (r#"{"Effect": "Allow", "Action": "GetObject", "Resource": "*"}"#, "`GetObject`"),
            (r#"{"Effect": "Allow", "Action": "s3:*", "NotAction": "s3:*", "Resource": "*"}"#, "not both"),
            (r#"{"Effect": "Allow", "Action": "s3:*", "Resource": "b/*"}"#, "`b/*`"),
            (r#"{"Effect": "Allow", "Action": "s3:*", "Resource": "arn:aws:s3:::"}"#, "names nothing"),
            (r#"{"Effect": "Deny", "Action": "s3:*"}"#, "would deny nothing"),
            (r#"{"Effect": "Allow", "Action": "s3:*", "Resource": "*", "Principal": "*"}"#, "`Principal`"),
            (
                r#"{"Effect": "Allow", "Action": "s3:*", "Resource": "*", "Condition": {"Like": {}}}"#,
                "`Like`",
            ),
            (r#"{"Effect": "Allow", "Effect": "Deny", "Action": "s3:*", "Resource": "*"}"#, "twice"),
        ] {
            let error = policy(statements).unwrap_err();
            assert!(error.contains(named), "{statements}: {error}");
        }
        for text in ["", " ", "null", "[]", "{}", "\"\"", r#"{"Statement": {}}"#, r#"{"Version": "2012"}"#] {
            assert!(IdentityPolicy::parse(text).is_err(), "{text}");
        }
        let stars = "a*".repeat(POLICY_WILDCARDS_MAX + 1);
        let many = format!(r#"{{"Effect": "Allow", "Action": "s3:*", "Resource": "arn:aws:s3:::{stars}"}}"#);
        assert!(policy(&many).unwrap_err().contains("wildcards"));
    }
}
