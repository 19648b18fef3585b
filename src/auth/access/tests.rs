//! The evaluator against a model: slow, obvious, and written apart from it. The model knows
//! policies by their parts and never parses one.

use std::fmt::Write as _;
use std::sync::Arc;

use super::*;
use crate::auth::{PrincipalFacts, Users};
use crate::base::test_scope::{cases, is_long};
use crate::base::{Entropy, SeededEntropy, Timestamp};
use crate::s3::acl::{self, Acl, NamedGrant};

pub(super) const BUCKET: &str = "site";
const USERS: [&str; 4] = ["admin", "ann", "bob", "anonymous"];
const ACTIONS: [Action; 15] = [
    Action::ListBucket,
    Action::ListBucketVersions,
    Action::GetBucketPolicy,
    Action::PutBucketPolicy,
    Action::DeleteBucket,
    Action::GetBucketAcl,
    Action::CreateBucket,
    Action::ListAllMyBuckets,
    Action::GetObject,
    Action::GetObjectVersion,
    Action::PutObject,
    Action::CreateObject,
    Action::DeleteObject,
    Action::GetObjectAcl,
    Action::PutObjectAcl,
];
const KEYS: [&str; 4] = ["a", "pub/a", "pub/", "home/ann/x"];

/// A statement by its parts.
#[derive(Debug, Clone)]
pub(super) struct Part {
    pub(super) denies: bool,
    /// `None` for everyone.
    pub(super) users: Option<Vec<&'static str>>,
    /// Names with wildcards.
    actions: Vec<&'static str>,
    /// Whether it is about all users, actions and resources but those.
    pub(super) all_but: [bool; 3],
    /// After the name of the bucket, with wildcards.
    resources: Vec<&'static str>,
    /// Only over TLS, or only without.
    secure: Option<bool>,
}

/// Everything that a decision depends on.
#[derive(Debug, Clone)]
pub(super) struct Case {
    pub(super) policy: Option<Vec<Part>>,
    pub(super) block: PublicAccessBlock,
    pub(super) acls: bool,
    pub(super) bucket_acl: GroupGrants,
    pub(super) object_acl: GroupGrants,
    /// The actions and resources that the users file grants ann, bob and the anonymous user.
    pub(super) grants: Option<(&'static str, &'static str)>,
    pub(super) secure: bool,
    /// What ACLs say of users by their names.
    pub(super) named: NamedInAcls,
}

/// A name in an ACL, and since when it is there.
#[derive(Debug, Clone, Copy)]
pub(super) struct Named {
    name: &'static str,
    since: u64,
    permissions: &'static [AclPermission],
}

/// The names in the ACL of the bucket and of the object, and the owner of the object.
#[derive(Debug, Clone, Default)]
pub(super) struct NamedInAcls {
    bucket: Vec<Named>,
    object: Vec<Named>,
    owner: Option<Named>,
}

/// When a user of a name was made, where the users file says so.
fn born(name: &str) -> Option<u64> {
    (name == "bob").then_some(100)
}

impl Named {
    /// Whether it means the present user of that name.
    fn means(&self, user: &str) -> bool {
        user != "anonymous" && self.name == user && born(user).unwrap_or(0) <= self.since
    }

    fn grant(&self) -> NamedGrant {
        NamedGrant {
            grantee: self.name.to_owned(),
            since: Timestamp::from_millis(self.since),
            permissions: AclPermissions::of(self.permissions),
        }
    }
}

pub(super) fn matches(pattern: &[u8], text: &[u8]) -> bool {
    match pattern.split_first() {
        None => text.is_empty(),
        Some((b'*', rest)) => (0..=text.len()).any(|from| matches(rest, &text[from..])),
        Some((first, rest)) => text.first() == Some(first) && matches(rest, &text[1..]),
    }
}

/// The ARN of a user, or of what is written as the end of one.
fn arn(name: &str) -> String {
    match name {
        "root" => "arn:aws:iam::1:root".to_owned(),
        name if name.starts_with("role/") => format!("arn:aws:iam::1:{name}"),
        name if name.contains('/') => format!("arn:aws:sts::1:{name}"),
        name => format!("arn:aws:iam::1:user/{name}"),
    }
}

fn not(negated: bool) -> &'static str {
    if negated { "Not" } else { "" }
}

impl Part {
    fn json(&self) -> String {
        let list = |texts: Vec<String>| format!("[{}]", texts.join(", "));
        let principal = match &self.users {
            None => r#""*""#.to_owned(),
            Some(users) => format!(
                r#"{{"AWS": {}}}"#,
                list(users.iter().map(|name| format!("\"{}\"", arn(name))).collect())
            ),
        };
        let actions = list(self.actions.iter().map(|name| format!(r#""s3:{name}""#)).collect());
        let resources =
            list(self.resources.iter().map(|rest| format!(r#""arn:aws:s3:::{BUCKET}{rest}""#)).collect());
        let mut text = format!(
            r#"{{"Effect": "{}", "{}Principal": {principal}, "{}Action": {actions}, "{}Resource": {resources}"#,
            if self.denies { "Deny" } else { "Allow" },
            not(self.all_but[0]),
            not(self.all_but[1]),
            not(self.all_but[2]),
        );
        if let Some(secure) = self.secure {
            let _ = write!(text, r#", "Condition": {{"Bool": {{"aws:SecureTransport": "{secure}"}}}}"#);
        }
        text + "}"
    }

    /// Whether it is about a request.
    pub(super) fn applies(&self, user: &str, action: Action, resource: Resource<'_>, secure: bool) -> bool {
        let path = match resource {
            Resource::Object { key, .. } if action.as_str().contains("Object") => format!("/{key}"),
            _ => String::new(),
        };
        let is_named = |users: &Vec<&str>| user != "anonymous" && users.contains(&user);
        let acts = self.actions.iter().any(|pattern| matches(pattern.as_bytes(), action.as_str().as_bytes()));
        let lies = self.resources.iter().any(|pattern| matches(pattern.as_bytes(), path.as_bytes()));
        self.users.as_ref().is_none_or(|users| is_named(users) != self.all_but[0])
            && acts != self.all_but[1]
            && lies != self.all_but[2]
            && self.secure.is_none_or(|wanted| wanted == secure)
    }
}

/// The policy language without its exceptions: whether the users file grants it. Resources: `*`,
/// `site`, `site/*`, `@owned`.
pub(super) fn is_granted(case: &Case, user: &str, action: Action, resource: Resource<'_>) -> bool {
    if user == "admin" {
        return true;
    }
    let Some((granted, on)) = case.grants else { return false };
    if user == "anonymous" && action == Action::CreateBucket || granted != "*" && granted != action.as_str() {
        return false;
    }
    let of_service = action == Action::ListAllMyBuckets;
    let is_object = action.as_str().contains("Object");
    let is_listing = matches!(action, Action::ListBucket | Action::ListBucketVersions);
    match on {
        "*" => true,
        "@owned" => user == "ann" || of_service && resource == Resource::Service,
        "site" => !is_object,
        "site/*" => is_object || is_listing || of_service && resource == Resource::Service,
        other => unreachable!("{other}"),
    }
}

pub(super) fn is_granted_by_acl(case: &Case, user: &str, action: Action) -> bool {
    use AclPermission::{Read, ReadAcp, Write, WriteAcp};
    if !case.acls {
        return false;
    }
    let owns = case.named.owner.map_or(user == "ann", |owner| owner.means(user));
    let (acl, permission) = match action {
        Action::ListBucket | Action::ListBucketVersions => (case.bucket_acl, Read),
        Action::PutObject => (case.bucket_acl, Write),
        Action::GetBucketAcl => (case.bucket_acl, ReadAcp),
        Action::GetObject | Action::GetObjectVersion => (case.object_acl, Read),
        Action::GetObjectAcl => (case.object_acl, ReadAcp),
        Action::PutObjectAcl => (case.object_acl, WriteAcp),
        // Whoever may write to the bucket may delete what is his.
        Action::DeleteObject => return owns && is_granted_by_acl(case, user, Action::PutObject),
        _ => return false,
    };
    let of_bucket = action.as_str().contains("Bucket") || action == Action::PutObject;
    let names = if of_bucket { &case.named.bucket } else { &case.named.object };
    if names.iter().any(|named| named.means(user) && named.permissions.contains(&permission)) {
        return true;
    }
    if !of_bucket && case.named.owner.is_some_and(|owner| owner.means(user)) {
        return true;
    }
    if case.block.ignores_acls {
        return false;
    }
    acl.includes(AclGroup::AllUsers, permission)
        || user != "anonymous" && acl.includes(AclGroup::AuthenticatedUsers, permission)
}

/// The model. `ann` owns the bucket.
fn model(case: &Case, user: &str, action: Action, resource: Resource<'_>) -> bool {
    let of_server = matches!(action, Action::CreateBucket | Action::ListAllMyBuckets);
    let parts = case.policy.iter().flatten().filter(|_| !of_server);
    let applying: Vec<_> = parts.filter(|part| part.applies(user, action, resource, case.secure)).collect();
    let of_policy = matches!(action, Action::GetBucketPolicy | Action::PutBucketPolicy);
    let is_administrator = user == "admin" || case.grants == Some(("*", "*")) && user != "anonymous";
    let keeps = of_policy && (is_administrator || user == "ann");
    if applying.iter().any(|part| part.denies) && !keeps {
        return false;
    }
    let denied = applying.iter().any(|part| part.denies);
    // To create is to put: whoever must not put must not create.
    let denies_puts =
        |part: &&Part| part.denies && part.applies(user, Action::PutObject, resource, case.secure);
    if action == Action::CreateObject && case.policy.iter().flatten().any(|part| denies_puts(&part)) {
        return false;
    }
    let allowed = applying.iter().any(|part| !part.denies) && !denied;
    let is_public = case.policy.iter().flatten().any(|part| !part.denies && part.users.is_none());
    let restricted = user == "anonymous" && is_public && case.block.restricts_policy;
    is_granted(case, user, action, resource)
        || allowed && !restricted
        || is_granted_by_acl(case, user, action)
}

/// The facts of a case.
pub(super) struct CaseFacts<'c>(
    pub(super) &'c Case,
    pub(super) &'c str,
    pub(super) Option<BucketPolicy>,
    pub(super) Option<&'c PrincipalFacts>,
);

impl AccessFacts for CaseFacts<'_> {
    fn owner(&self) -> Option<&str> {
        Some("ann")
    }
    fn policy(&self) -> Option<&BucketPolicy> {
        self.2.as_ref()
    }
    fn context(&self) -> PolicyContext<'_> {
        let user = (!["anonymous", "lake"].contains(&self.1)).then_some(self.1);
        PolicyContext { user, principal: self.3, secure: self.0.secure, ..PolicyContext::default() }
    }
    fn block(&self) -> PublicAccessBlock {
        self.0.block
    }
    fn has_acls(&self) -> bool {
        self.0.acls
    }
    fn bucket_acl(&self) -> GroupGrants {
        self.0.bucket_acl
    }
    fn object_acl(&self) -> GroupGrants {
        self.0.object_acl
    }
    fn named_in_acl(&self, place: AclPlace, user: AclUser<'_>) -> AclPermissions {
        let named = &self.0.named;
        if place == AclPlace::Object && named.owner.is_some() && self.owns_object(user) {
            return AclPermissions::ALL;
        }
        let names = if place == AclPlace::Bucket { &named.bucket } else { &named.object };
        let users = names.iter().map(Named::grant).collect();
        Acl { users, ..Acl::PRIVATE }.permissions_of(user)
    }
    fn owns_object(&self, user: AclUser<'_>) -> bool {
        match self.0.named.owner {
            Some(owner) => user.is_meant(owner.name, Timestamp::from_millis(owner.since)),
            None => user.name == "ann",
        }
    }
    fn uses_object(&self) -> bool {
        false
    }
}

impl Case {
    pub(super) fn parsed_policy(&self) -> Option<BucketPolicy> {
        let parts: Vec<_> = self.policy.as_ref()?.iter().map(Part::json).collect();
        let text = format!(r#"{{"Version": "2012-10-17", "Statement": [{}]}}"#, parts.join(", "));
        Some(BucketPolicy::parse(text.as_bytes(), BUCKET).unwrap_or_else(|error| panic!("{error}: {text}")))
    }

    fn users(&self) -> Users {
        let allow = self.grants.map_or_else(String::new, |(action, on)| {
            format!("allow = [{{ actions = [\"{action}\"], resources = [\"{on}\"] }}]")
        });
        let user = |name: &str| {
            let created = born(name)
                .map_or_else(String::new, |millis| format!("created = 1970-01-01T00:00:00.{millis:03}Z\n"));
            format!(
                "[[user]]\nname = \"{name}\"\naccess_key = \"{name}\"\nsecret_key = \"s\"\n{created}{allow}\n"
            )
        };
        let admin = "[[user]]\nname = \"admin\"\naccess_key = \"admin\"\nsecret_key = \"s\"\n\
                     allow = [{ actions = [\"*\"], resources = [\"*\"] }]\n";
        let anonymous = format!("[[user]]\nname = \"anonymous\"\n{allow}\n");
        Users::parse(&[admin, &user("ann"), &user("bob"), &anonymous].concat()).unwrap()
    }

    /// Compares the evaluator with the model for every user, action and resource. Returns how many
    /// were allowed and refused.
    fn check(&self) -> [u32; 2] {
        let users = self.users();
        let mut counts = [0; 2];
        let mut policy = self.parsed_policy();
        for name in USERS {
            let user = match name {
                "anonymous" => Arc::clone(users.anonymous()),
                name => Arc::clone(users.find(name).unwrap().user()),
            };
            let facts = CaseFacts(self, name, policy.take(), None);
            for action in ACTIONS {
                for resource in resources(action) {
                    let sender = Sender { user: &user, session: None };
                    let decided = decide(sender, action, resource, &facts);
                    let expected = model(self, name, action, resource);
                    assert_eq!(decided, expected, "{name} {action} {resource:?}: {self:?}");
                    counts[usize::from(decided)] += 1;
                }
            }
            policy = facts.2;
        }
        counts
    }
}

/// The resources that requests for an action name.
fn resources(action: Action) -> Vec<Resource<'static>> {
    match action {
        Action::ListAllMyBuckets => vec![Resource::Service, Resource::Bucket(BUCKET)],
        Action::ListBucket | Action::ListBucketVersions => {
            vec![
                Resource::Prefix { bucket: BUCKET, prefix: "" },
                Resource::Object { bucket: BUCKET, key: "a" },
            ]
        }
        action if action.applies_to_objects() => {
            KEYS.iter().map(|key| Resource::Object { bucket: BUCKET, key }).collect()
        }
        _ => vec![Resource::Bucket(BUCKET)],
    }
}

pub(super) const GRANTS: [Option<(&str, &str)>; 8] = [
    None,
    Some(("*", "*")),
    Some(("*", "@owned")),
    Some(("*", "site")),
    Some(("*", "site/*")),
    Some(("GetObject", "site/*")),
    Some(("CreateObject", "site/*")),
    Some(("ListBucket", "site")),
];

pub(super) fn blocks() -> impl Iterator<Item = PublicAccessBlock> {
    (0..4).map(|bits| PublicAccessBlock {
        ignores_acls: bits & 1 != 0,
        restricts_policy: bits & 2 != 0,
        // They concern requests that set an ACL or a policy.
        refuses_acls: bits == 0,
        refuses_policy: bits == 0,
    })
}

fn part(
    denies: bool,
    users: Option<&'static [&'static str]>,
    action: &'static str,
    resource: &'static str,
) -> Part {
    let users = users.map(<[_]>::to_vec);
    Part {
        denies,
        users,
        actions: vec![action],
        all_but: [false; 3],
        resources: vec![resource],
        secure: None,
    }
}

#[test]
fn the_table_of_policies_grants_acls_and_blocks_agrees_with_the_model() {
    let policies: [Option<Vec<Part>>; 7] = [
        None,
        Some(vec![part(false, None, "GetObject", "/*")]),
        Some(vec![part(false, None, "GetObject", "/pub/*")]),
        Some(vec![part(false, Some(&["bob"]), "*", "*")]),
        Some(vec![part(true, None, "*", "*")]),
        Some(vec![part(false, None, "*", "*"), part(true, Some(&["bob"]), "Get*", "/pub/*")]),
        Some(vec![part(false, None, "ListBucket", ""), part(true, Some(&["admin", "ann"]), "*Policy", "")]),
    ];
    let acls = [
        GroupGrants::NONE,
        GroupGrants::NONE.with(AclGroup::AllUsers, AclPermission::Read),
        GroupGrants::NONE
            .with(AclGroup::AuthenticatedUsers, AclPermission::Read)
            .with(AclGroup::AllUsers, AclPermission::Write),
        GroupGrants::from_bits(u8::MAX),
    ];
    let mut counts = [0; 2];
    for policy in cases(&policies, 2) {
        for (grants, block) in GRANTS.iter().flat_map(|grants| blocks().map(move |block| (*grants, block))) {
            for (bucket_acl, object_acl) in acls.iter().flat_map(|one| acls.map(|other| (*one, other))) {
                for acls in [true, false] {
                    let policy = policy.clone();
                    let named = NamedInAcls::default();
                    let case =
                        Case { policy, block, acls, bucket_acl, object_acl, grants, secure: false, named };
                    let [refused, allowed] = case.check();
                    counts = [counts[0] + refused, counts[1] + allowed];
                }
            }
        }
    }
    let least = if is_long() { 100_000 } else { 10_000 };
    assert!(counts.iter().all(|count| *count > least), "{counts:?}");
}

/// A choice of one of several values.
pub(super) fn one<T: Clone>(entropy: &SeededEntropy, of: &[T]) -> T {
    of[entropy.next_u64() as usize % of.len()].clone()
}

pub(super) fn some<T: Clone>(entropy: &SeededEntropy, of: &[T]) -> Vec<T> {
    (0..=entropy.next_u64() % 2).map(|_| one(entropy, of)).collect()
}

pub(super) fn random_part(entropy: &SeededEntropy) -> Part {
    let on_objects =
        ["GetObject", "Get*", "*Object", "PutObject*", "CreateObject", "*", "DeleteObject", "G*t*l"];
    let on_bucket = ["ListBucket*", "*", "DeleteBucket", "PutBucketPolicy", "*Policy", "L*s"];
    let of_objects = ["/*", "/pub/*", "/a", "*", "*a", "/home/*/x"];
    let (actions, resources) = match entropy.next_u64() % 2 {
        0 => (some(entropy, &on_objects), some(entropy, &of_objects)),
        _ => (some(entropy, &on_bucket), vec![one(entropy, &["", "*"])]),
    };
    let everyone = entropy.next_u64().is_multiple_of(2);
    let denies = entropy.next_u64().is_multiple_of(3);
    let [users, but_actions, but_resources] = [4, 8, 8].map(|nth| entropy.next_u64().is_multiple_of(nth));
    Part {
        denies,
        all_but: [users && denies && !everyone, but_actions, but_resources],
        users: (!everyone).then(|| some(entropy, &["admin", "ann", "bob", "eve"])),
        actions,
        resources,
        secure: one(entropy, &[None, None, Some(true), Some(false)]),
    }
}

#[test]
fn a_thousand_random_policies_agree_with_the_model() {
    let entropy = SeededEntropy::new(18);
    let mut counts = [0; 2];
    let blocks: Vec<_> = blocks().collect();
    // More by hand: 20_000.
    let count = std::env::var("SILTSTONE_TEST_POLICIES").ok().and_then(|text| text.parse().ok());
    for _ in 0..count.unwrap_or(1_000) {
        let parts = (0..1 + entropy.next_u64() % 5).map(|_| random_part(&entropy)).collect();
        let case = Case {
            policy: Some(parts),
            block: one(&entropy, &blocks),
            acls: entropy.next_u64().is_multiple_of(2),
            bucket_acl: GroupGrants::from_bits(entropy.next_u64() as u8 & entropy.next_u64() as u8),
            object_acl: GroupGrants::from_bits(entropy.next_u64() as u8 & entropy.next_u64() as u8),
            grants: one(&entropy, &GRANTS),
            secure: entropy.next_u64().is_multiple_of(2),
            named: NamedInAcls::default(),
        };
        let [refused, allowed] = case.check();
        counts = [counts[0] + refused, counts[1] + allowed];
    }
    assert!(counts.iter().all(|count| *count > 20_000), "{counts:?}");
}

/// A name that an ACL may hold: of a user of the file, of one who is not there, and of a user of
/// whose name there was another before.
fn random_name(entropy: &SeededEntropy) -> Named {
    use AclPermission::{Read, ReadAcp, Write, WriteAcp};
    let sets: [&[AclPermission]; 6] =
        [&[Read], &[Write], &[ReadAcp], &[WriteAcp], &[Read, Write], &AclPermission::ALL];
    Named {
        name: one(entropy, &["ann", "bob", "eve", "anonymous", acl::LOG_DELIVERY]),
        since: one(entropy, &[0, 99, 100, 101, 1_000_000]),
        permissions: one(entropy, &sets),
    }
}

#[test]
fn names_in_acls_agree_with_the_model() {
    let entropy = SeededEntropy::new(39);
    let mut counts = [0; 2];
    let blocks: Vec<_> = blocks().collect();
    // More by hand: 20_000.
    let count = std::env::var("SILTSTONE_TEST_POLICIES").ok().and_then(|text| text.parse().ok());
    for _ in 0..count.unwrap_or(2_000) {
        let names = |most: u64| (0..entropy.next_u64() % most).map(|_| random_name(&entropy)).collect();
        let named = NamedInAcls {
            bucket: names(3),
            object: names(3),
            owner: entropy.next_u64().is_multiple_of(2).then(|| random_name(&entropy)),
        };
        let has_policy = entropy.next_u64().is_multiple_of(4);
        let case = Case {
            policy: has_policy.then(|| vec![random_part(&entropy)]),
            block: one(&entropy, &blocks),
            acls: !entropy.next_u64().is_multiple_of(4),
            bucket_acl: GroupGrants::from_bits(one(&entropy, &[0, 0, 1, 2, 16, 32])),
            object_acl: GroupGrants::from_bits(one(&entropy, &[0, 0, 1, 4, 8, 128])),
            grants: one(&entropy, &[None, None, Some(("GetObject", "site/*")), Some(("*", "@owned"))]),
            secure: false,
            named,
        };
        let [refused, allowed] = case.check();
        counts = [counts[0] + refused, counts[1] + allowed];
    }
    assert!(counts.iter().all(|count| *count > 50_000), "{counts:?}");
}

#[test]
fn a_granted_request_without_a_policy_asks_for_nothing_else() {
    struct Silent;
    impl AccessFacts for Silent {
        fn owner(&self) -> Option<&str> {
            unreachable!()
        }
        fn policy(&self) -> Option<&BucketPolicy> {
            None
        }
        fn context(&self) -> PolicyContext<'_> {
            unreachable!()
        }
        fn block(&self) -> PublicAccessBlock {
            unreachable!()
        }
        fn has_acls(&self) -> bool {
            unreachable!()
        }
        fn bucket_acl(&self) -> GroupGrants {
            unreachable!()
        }
        fn object_acl(&self) -> GroupGrants {
            unreachable!()
        }
        fn named_in_acl(&self, _: AclPlace, _: AclUser<'_>) -> AclPermissions {
            unreachable!()
        }
        fn owns_object(&self, _: AclUser<'_>) -> bool {
            unreachable!()
        }
        fn uses_object(&self) -> bool {
            false
        }
    }
    let case = Case {
        policy: None,
        block: PublicAccessBlock::default(),
        acls: true,
        bucket_acl: GroupGrants::NONE,
        object_acl: GroupGrants::NONE,
        grants: Some(("*", "site/*")),
        secure: false,
        named: NamedInAcls::default(),
    };
    let users = case.users();
    for name in ["admin", "bob"] {
        let user = users.find(name).unwrap().user();
        let sender = Sender { user, session: None };
        assert!(decide(sender, Action::GetObject, Resource::Object { bucket: BUCKET, key: "a" }, &Silent));
    }
}
