//! The evaluator against a model, for senders that bring policies along: users, their groups, roles
//! and sessions. The model knows policies by their parts and never parses one.

use std::sync::Arc;

use super::tests::{
    BUCKET, Case, CaseFacts, GRANTS, NamedInAcls, Part, blocks, is_granted, is_granted_by_acl, matches, one,
    random_part, some,
};
use super::*;
use crate::auth::bucket_policy::IdentityPolicy;
use crate::auth::session::SessionLimit;
use crate::auth::session::origin::SessionOrigin;
use crate::auth::{PrincipalFacts, Users};
use crate::base::{Entropy as _, SeededEntropy, Timestamp};

/// A statement of a role's or a session's policy, by its parts.
#[derive(Debug, Clone)]
struct OwnPart {
    denies: bool,
    /// Whether it is about all actions but these.
    not_actions: bool,
    /// With their service, in lower case, with wildcards.
    actions: Vec<&'static str>,
    not_resources: bool,
    /// `*`, or what follows `arn:aws:s3:::`; none for a statement without resources.
    resources: Vec<&'static str>,
    secure: Option<bool>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SenderKind {
    /// A user with keys of its own.
    User,
    RoleSession,
    UserSession,
    Federated,
    /// A service account of a user.
    Account,
}

/// A sender with its policies.
#[derive(Debug, Clone)]
struct OwnCase {
    kind: SenderKind,
    /// Of the user or role.
    policies: Vec<Vec<OwnPart>>,
    /// Of the groups of the user, each with a policy.
    of_groups: Vec<Vec<OwnPart>>,
    /// Of the session: that of the call, and those of the users file that it named.
    session_policies: Option<Vec<Vec<OwnPart>>>,
}

impl OwnCase {
    fn is_role(&self) -> bool {
        self.kind == SenderKind::RoleSession
    }

    fn name(&self) -> &'static str {
        if self.is_role() { "lake" } else { "ann" }
    }

    /// The parts of all policies of the user or role. Roles are in no group.
    fn own_parts(&self) -> Vec<OwnPart> {
        let of_groups = self.of_groups.iter().filter(|_| !self.is_role());
        self.policies.iter().chain(of_groups).flatten().cloned().collect()
    }

    /// Whether the policies allow everything, whatever is asked.
    fn may_everything(&self) -> bool {
        let parts = self.own_parts();
        !parts.iter().any(|part| part.denies) && parts.iter().any(OwnPart::is_everything)
    }
}

const ACTIONS: [Action; 16] = [
    Action::ListBucket,
    Action::ListBucketVersions,
    Action::GetBucketPolicy,
    Action::PutBucketPolicy,
    Action::DeleteBucket,
    Action::GetBucketAcl,
    Action::CreateBucket,
    Action::ListAllMyBuckets,
    Action::GetObject,
    Action::PutObject,
    Action::CreateObject,
    Action::DeleteObject,
    Action::GetObjectAcl,
    Action::PutObjectAcl,
    Action::PutObjectStatedTime,
    Action::AdminCreateUser,
];
/// Whom policies of the bucket name.
const NAMED: [&str; 8] = [
    "ann",
    "bob",
    "role/lake",
    "role/pond",
    "assumed-role/lake/job",
    "assumed-role/lake/other",
    "federated-user/guest",
    "root",
];
const KEYS: [&str; 3] = ["a", "pub/a", "home/ann/x"];

fn is_administration(action: Action) -> bool {
    action.as_str().starts_with("Admin") || action.as_str().contains("Stated")
}

impl OwnPart {
    fn json(&self) -> String {
        let list = |texts: Vec<String>| format!("[{}]", texts.join(", "));
        let quoted = |names: &[&str]| list(names.iter().map(|name| format!("\"{name}\"")).collect());
        let arn =
            |rest: &&str| if *rest == "*" { "\"*\"".to_owned() } else { format!("\"arn:aws:s3:::{rest}\"") };
        let effect = if self.denies { "Deny" } else { "Allow" };
        let action = if self.not_actions { "NotAction" } else { "Action" };
        let resource = if self.not_resources { "NotResource" } else { "Resource" };
        let mut parts = vec![format!("\"Effect\": \"{effect}\", \"{action}\": {}", quoted(&self.actions))];
        if !self.resources.is_empty() {
            parts.push(format!("\"{resource}\": {}", list(self.resources.iter().map(arn).collect())));
        }
        if let Some(secure) = self.secure {
            parts.push(format!("\"Condition\": {{\"Bool\": {{\"aws:SecureTransport\": \"{secure}\"}}}}"));
        }
        format!("{{{}}}", parts.join(", "))
    }

    fn is_everything(&self) -> bool {
        let has = |name: &str| self.actions.contains(&name);
        let all = has("*") || has("*:*") || has("s3:*") && has("siltstone:*");
        !self.denies
            && !self.not_actions
            && all
            && self.resources.contains(&"*")
            && !self.not_resources
            && self.secure.is_none()
    }

    fn applies(&self, action: Action, resource: Resource<'_>, secure: bool) -> bool {
        let administers = is_administration(action);
        let service = if administers { "siltstone" } else { "s3" };
        let name = format!("{service}:{}", action.as_str().to_ascii_lowercase());
        let mut named = self.actions.iter().any(|pattern| matches(pattern.as_bytes(), name.as_bytes()));
        if self.not_actions {
            named = !named && (self.denies || !administers);
        }
        if !named || self.resources.is_empty() || self.secure.is_some_and(|wanted| wanted != secure) {
            return false;
        }
        if administers && !self.denies {
            return self.resources.contains(&"*") && !self.not_resources;
        }
        let path = match resource {
            Resource::Service => String::new(),
            Resource::Object { bucket, key } if action.as_str().contains("Object") => {
                format!("{bucket}/{key}")
            }
            other => other.bucket().unwrap().to_owned(),
        };
        let listed = self
            .resources
            .iter()
            .any(|pattern| *pattern == "*" || matches(pattern.as_bytes(), path.as_bytes()));
        listed != self.not_resources
    }
}

fn document_of(parts: &[OwnPart]) -> String {
    let statements: Vec<_> = parts.iter().map(OwnPart::json).collect();
    format!(r#"{{"Version": "2012-10-17", "Statement": [{}]}}"#, statements.join(", "))
}

fn policy_of(parts: &[OwnPart]) -> IdentityPolicy {
    let text = document_of(parts);
    IdentityPolicy::parse(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Whether parts deny, and whether they allow. To create is to put.
fn said(parts: &[OwnPart], action: Action, resource: Resource<'_>, secure: bool) -> (bool, bool) {
    let also = if action == Action::CreateObject { Action::PutObject } else { action };
    let about =
        |part: &&OwnPart| part.applies(action, resource, secure) || part.applies(also, resource, secure);
    let denies = parts.iter().filter(about).any(|part| part.denies);
    let allows = parts.iter().filter(about).any(|part| !part.denies);
    (denies, allows)
}

/// The model. `ann` owns the bucket; the sender is she, a session of hers, or one of the role `lake`.
fn model(case: &Case, own: &OwnCase, action: Action, resource: Resource<'_>) -> bool {
    let is_role = own.is_role();
    let name = own.name();
    if is_administration(action) && matches!(own.kind, SenderKind::UserSession | SenderKind::Federated) {
        return false;
    }
    let (own_denies, own_allows) = said(&own.own_parts(), action, resource, case.secure);
    if own_denies {
        return false;
    }
    let lacks = match &own.session_policies {
        _ if own.kind == SenderKind::User => false,
        Some(policies) => {
            let (denies, allows) = said(&policies.concat(), action, resource, case.secure);
            if denies {
                return false;
            }
            !allows
        }
        None => own.kind == SenderKind::Federated,
    };
    let of_server =
        matches!(action, Action::CreateBucket | Action::ListAllMyBuckets) || is_administration(action);
    let parts: Vec<&Part> = case.policy.iter().flatten().filter(|_| !of_server).collect();
    let is_named = |part: &Part| {
        let Some(users) = &part.users else { return true };
        let mut names = match own.kind {
            SenderKind::RoleSession => vec!["role/lake", "assumed-role/lake/job"],
            SenderKind::User | SenderKind::UserSession | SenderKind::Account => vec!["ann"],
            SenderKind::Federated => vec!["ann", "federated-user/guest"],
        };
        if !part.all_but[0] {
            names.push("root");
        }
        users.iter().any(|user| names.contains(user)) != part.all_but[0]
    };
    let is_about = |part: &Part, about: Action| {
        let mut of_all = part.clone();
        of_all.users = None;
        is_named(part) && of_all.applies(name, about, resource, case.secure)
    };
    let applying = |about: Action| parts.iter().filter(move |part| is_about(part, about));
    let everything = case.grants == Some(("*", "*")) || own.may_everything();
    let keeps =
        matches!(action, Action::GetBucketPolicy | Action::PutBucketPolicy) && (everything || !is_role);
    if applying(action).any(|part| part.denies) && !keeps {
        return false;
    }
    if action == Action::CreateObject && applying(Action::PutObject).any(|part| part.denies) {
        return false;
    }
    let by_bucket = applying(action).any(|part| !part.denies) && !applying(action).any(|part| part.denies);
    let session = if is_role { "assumed-role/lake/job" } else { "federated-user/guest" };
    let names_session = |part: &&&Part| {
        let named = part.users.as_ref().is_some_and(|users| users.contains(&session));
        named && !part.denies && matches!(own.kind, SenderKind::RoleSession | SenderKind::Federated)
    };
    if lacks {
        return by_bucket && applying(action).any(|part| names_session(&part));
    }
    let granted = match (is_administration(action), case.grants) {
        (true, grants) => grants == Some(("*", "*")),
        (false, _) => is_granted(case, name, action, resource),
    };
    own_allows || granted || by_bucket || is_granted_by_acl(case, name, action)
}

/// The users file of a case.
fn users_of(case: &Case, own: &OwnCase) -> Users {
    let allow = case.grants.map_or_else(String::new, |(action, on)| {
        format!("allow = [{{ actions = [\"{action}\"], resources = [\"{on}\"] }}]")
    });
    let documents: Vec<_> = own.policies.iter().map(|parts| format!("'{}'", document_of(parts))).collect();
    let policy = format!("policy = [{}]", documents.join(", "));
    let mut text = match own.is_role() {
        true => format!("[[role]]\nname = \"lake\"\nassumed_by = []\n{policy}\n{allow}\n"),
        false => String::new(),
    };
    let policy = if own.is_role() { "" } else { &policy };
    text +=
        &format!("[[user]]\nname = \"ann\"\naccess_key = \"ann\"\nsecret_key = \"s\"\n{policy}\n{allow}\n");
    for (nth, parts) in own.of_groups.iter().enumerate() {
        let document = document_of(parts);
        text += &format!(
            "[[policy]]\nname = \"p{nth}\"\ndocument = '{document}'\n\
             [[group]]\nname = \"g{nth}\"\nmembers = [\"ann\"]\npolicy = [\"p{nth}\"]\n"
        );
    }
    Users::parse(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn session_of(own: &OwnCase) -> Option<SenderSession> {
    let kind = match own.kind {
        SenderKind::User => return None,
        SenderKind::RoleSession => SessionKind::Role,
        SenderKind::UserSession => SessionKind::User,
        SenderKind::Federated => SessionKind::Federated,
        SenderKind::Account => SessionKind::ServiceAccount,
    };
    let limit = match &own.session_policies {
        Some(policies) => {
            SessionLimit::Policies(policies.iter().map(|parts| Arc::new(policy_of(parts))).collect())
        }
        None if own.kind == SenderKind::Federated => SessionLimit::Policies(Vec::new()),
        None => SessionLimit::None,
    };
    let expires = Timestamp::from_millis(1);
    let sts = |name: &str| Some(format!("arn:aws:sts::000000000000:{name}"));
    let facts = match own.kind {
        SenderKind::RoleSession => PrincipalFacts {
            role: Some("lake".to_owned()),
            session_arn: sts("assumed-role/lake/job"),
            ..PrincipalFacts::default()
        },
        SenderKind::User | SenderKind::UserSession | SenderKind::Account => PrincipalFacts::default(),
        SenderKind::Federated => {
            PrincipalFacts { session_arn: sts("federated-user/guest"), ..PrincipalFacts::default() }
        }
    };
    let origin_of_next = SessionOrigin::default();
    Some(SenderSession { kind, arn: String::new(), facts, limit, expires, origin_of_next })
}

fn random_own_part(entropy: &SeededEntropy) -> OwnPart {
    let actions = [
        "*",
        "s3:*",
        "s3:get*",
        "s3:putobject",
        "s3:createobject",
        "s3:*object",
        "s3:list*",
        "s3:*policy",
        "siltstone:*",
        "siltstone:admincreateuser",
        "kms:*",
        "s3:deleteobject",
        "*:*",
    ];
    let resources = ["*", "*", "site", "site/*", "site/pub/*", "other/*", "s*", "*/a", "site/home/*/x"];
    let denies = entropy.next_u64().is_multiple_of(4);
    let without = !denies && entropy.next_u64().is_multiple_of(12);
    OwnPart {
        denies,
        not_actions: entropy.next_u64().is_multiple_of(5),
        actions: some(entropy, &actions),
        not_resources: !without && entropy.next_u64().is_multiple_of(6),
        resources: if without { Vec::new() } else { some(entropy, &resources) },
        secure: one(entropy, &[None, None, None, Some(true), Some(false)]),
    }
}

fn random_own_parts(entropy: &SeededEntropy) -> Vec<OwnPart> {
    (0..=entropy.next_u64() % 3).map(|_| random_own_part(entropy)).collect()
}

/// None, one or two policies.
fn random_policies(entropy: &SeededEntropy) -> Vec<Vec<OwnPart>> {
    (0..one(entropy, &[0, 0, 1, 1, 2])).map(|_| random_own_parts(entropy)).collect()
}

/// The resources that requests for an action name.
fn resources(action: Action) -> Vec<Resource<'static>> {
    match action {
        Action::AdminCreateUser => vec![Resource::Service],
        Action::ListAllMyBuckets => vec![Resource::Service, Resource::Bucket(BUCKET)],
        Action::ListBucket | Action::ListBucketVersions => {
            vec![Resource::Bucket(BUCKET), Resource::Prefix { bucket: BUCKET, prefix: "pub/" }]
        }
        action if action.as_str().contains("Object") => {
            KEYS.iter().map(|key| Resource::Object { bucket: BUCKET, key }).collect()
        }
        _ => vec![Resource::Bucket(BUCKET)],
    }
}

#[test]
fn generated_sessions_agree_with_the_model() {
    let entropy = SeededEntropy::new(39);
    let blocks: Vec<_> = blocks().collect();
    let mut counts = [0; 2];
    // More by hand: 20_000.
    let count = std::env::var("SILTSTONE_TEST_POLICIES").ok().and_then(|text| text.parse().ok());
    for _ in 0..count.unwrap_or(4_000) {
        let mut parts = (0..entropy.next_u64() % 4).map(|_| random_part(&entropy)).collect::<Vec<_>>();
        for part in parts.iter_mut().filter(|part| part.users.is_some()) {
            part.users = Some(some(&entropy, &NAMED));
        }
        let case = Case {
            policy: (!parts.is_empty()).then_some(parts),
            block: one(&entropy, &blocks),
            acls: entropy.next_u64().is_multiple_of(2),
            bucket_acl: GroupGrants::from_bits(entropy.next_u64() as u8 & entropy.next_u64() as u8),
            object_acl: GroupGrants::from_bits(entropy.next_u64() as u8 & entropy.next_u64() as u8),
            grants: one(&entropy, &GRANTS),
            secure: entropy.next_u64().is_multiple_of(2),
            named: NamedInAcls::default(),
        };
        let own = OwnCase {
            kind: one(
                &entropy,
                &[
                    SenderKind::User,
                    SenderKind::User,
                    SenderKind::RoleSession,
                    SenderKind::RoleSession,
                    SenderKind::UserSession,
                    SenderKind::Federated,
                    SenderKind::Account,
                ],
            ),
            policies: random_policies(&entropy),
            of_groups: random_policies(&entropy),
            session_policies: (!entropy.next_u64().is_multiple_of(4)).then(|| {
                let mut policies = random_policies(&entropy);
                policies.push(random_own_parts(&entropy));
                policies
            }),
        };
        let users = users_of(&case, &own);
        let user = match own.is_role() {
            true => &users.role("lake").unwrap().user,
            false => users.find("ann").unwrap().user(),
        };
        let session = session_of(&own);
        let sender = Sender { user, session: session.as_ref() };
        let principal = session.as_ref().map_or_else(|| user.facts(), |session| &session.facts);
        let facts = CaseFacts(&case, own.name(), case.parsed_policy(), Some(principal));
        for _ in 0..8 {
            let action = one(&entropy, &ACTIONS);
            let resource = one(&entropy, &resources(action));
            let decided = decide(sender, action, resource, &facts);
            let expected = model(&case, &own, action, resource);
            assert_eq!(decided, expected, "{action} {resource:?}: {own:?} {case:?}");
            if resource == Resource::Service {
                assert_eq!(may_administer(sender, action, &facts.context()), expected, "{own:?} {case:?}");
            }
            counts[usize::from(decided)] += 1;
        }
    }
    assert!(counts.iter().all(|count| *count > 4_000), "{counts:?}");
}
