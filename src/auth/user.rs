//! Users and roles, and the keys by which they sign.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use crate::auth::bucket_policy::{IdentityPolicy, PrincipalFacts, decide_by_all};
use crate::auth::policy::Grant;
use crate::auth::resource::Ownership;
use crate::auth::session::SenderSession;
use crate::auth::session::arn::NameKind;
use crate::auth::signing_key::{SigningKey, SigningKeys};
use crate::auth::{Action, PolicyContext, PolicyDecision, Resource, Secret, Users};
use crate::base::Timestamp;
use crate::base::digest::HmacSha1;
use crate::s3::acl::AclUser;

/// One user, or one role, whose sessions have its rights.
#[derive(Debug)]
pub(super) struct User {
    name: String,
    kind: NameKind,
    grants: Vec<Grant>,
    /// Its own, and those of its groups.
    policies: Vec<Arc<IdentityPolicy>>,
    sessions_after: Option<Timestamp>,
    created: Option<Timestamp>,
    facts: PrincipalFacts,
    /// The last use of a session of it.
    used: LastUse,
}

impl User {
    pub(super) fn new(name: &str, grants: Vec<Grant>) -> Self {
        Self::of_kind(NameKind::User, name, grants, None)
    }

    pub(super) fn of_kind(
        kind: NameKind,
        name: &str,
        grants: Vec<Grant>,
        sessions_after: Option<Timestamp>,
    ) -> Self {
        let facts = PrincipalFacts {
            arn: kind.arn(name),
            id: kind.unique_id(name, sessions_after),
            kind: "User",
            user_name: Some(name.to_owned()),
            role: (kind == NameKind::Role).then(|| name.to_owned()),
            ..PrincipalFacts::default()
        };
        Self {
            name: name.to_owned(),
            kind,
            grants,
            policies: Vec::new(),
            sessions_after,
            created: None,
            facts,
            used: LastUse::default(),
        }
    }

    /// The same, made then: its unique id is of that time.
    pub(super) fn created_at(mut self, created: Option<Timestamp>) -> Self {
        if created.is_some() {
            self.facts.id = self.kind.unique_id(&self.name, created);
        }
        self.created = created;
        self
    }

    /// The same with policies beside its grants.
    pub(super) fn with_policies(self, policies: Vec<Arc<IdentityPolicy>>) -> Self {
        Self { policies, ..self }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The last use of a session of it.
    pub(super) fn session_use(&self) -> &LastUse {
        &self.used
    }

    /// How ACLs know it.
    pub(super) fn in_acls(&self) -> AclUser<'_> {
        AclUser { name: &self.name, created: self.created }
    }

    pub(super) fn is_role(&self) -> bool {
        self.kind == NameKind::Role
    }

    pub(super) fn is_anonymous(&self) -> bool {
        self.name == Users::ANONYMOUS
    }

    /// How conditions name it.
    pub(super) fn facts(&self) -> &PrincipalFacts {
        &self.facts
    }

    /// Sessions that were issued up to then are ended.
    pub(super) fn sessions_after(&self) -> Option<Timestamp> {
        self.sessions_after
    }

    /// Whether sessions that were issued then still count.
    pub(super) fn keeps_sessions_of(&self, issued: Timestamp) -> bool {
        self.sessions_after.is_none_or(|after| issued > after)
    }

    /// Whether a grant of the users file allows `action` on `resource`. Anonymous requests never
    /// create buckets. `owned` says whether the user owns the bucket of the resource.
    pub(super) fn may(&self, action: Action, resource: Resource<'_>, owned: Ownership<'_>) -> bool {
        let barred = self.is_anonymous() && action == Action::CreateBucket;
        !barred && self.grants.iter().any(|grant| grant.allows(action, resource, owned))
    }

    /// What its policies say of a request. A denial wins.
    pub(super) fn decide(
        &self,
        action: Action,
        resource: Resource<'_>,
        context: &PolicyContext<'_>,
    ) -> PolicyDecision {
        decide_by_all(&self.policies, action, resource, context)
    }

    /// The claims of providers' tokens that its policies name.
    pub(super) fn claims(&self) -> impl Iterator<Item = &str> {
        self.policies.iter().flat_map(|policy| policy.claims())
    }

    /// Whether it has policies beside its grants.
    pub(super) fn has_policies(&self) -> bool {
        !self.policies.is_empty()
    }

    /// Whether it may create a bucket of some name.
    pub(super) fn may_create_some_bucket(&self) -> bool {
        let names = self.grants.iter().flat_map(Grant::names_of_buckets);
        names.into_iter().any(|name| self.may(Action::CreateBucket, Resource::Bucket(name), &|| false))
            || self.policies.iter().any(|policy| policy.may_allow(Action::CreateBucket))
    }

    /// Whether one of its policies denies anything.
    pub(super) fn has_denial(&self) -> bool {
        self.policies.iter().any(|policy| policy.has_denial())
    }

    /// Whether it has keys and a grant of everything, or a policy of everything and none that
    /// denies.
    pub(super) fn is_administrator(&self) -> bool {
        if self.is_anonymous() {
            return false;
        }
        self.grants.iter().any(Grant::is_of_everything)
            || self.policies.iter().any(|policy| policy.is_of_everything()) && !self.has_denial()
    }
}

/// When keys were used last, in milliseconds since 1970; 0 for never since the start.
#[derive(Debug, Default)]
pub(super) struct LastUse(AtomicU64);

impl LastUse {
    /// Notes a use, to the second. Every request has one, so it takes no lock, and writes once a
    /// second: the processors that read the key share its memory.
    pub(super) fn note(&self, at: Timestamp) {
        let noted = Timestamp::from_millis(self.0.load(Ordering::Relaxed));
        if noted.as_secs() != at.as_secs() {
            self.0.store(at.as_millis(), Ordering::Relaxed);
        }
    }

    /// The time; `None` for never since the start of the server.
    pub(super) fn time(&self) -> Option<Timestamp> {
        match self.0.load(Ordering::Relaxed) {
            0 => None,
            millis => Some(Timestamp::from_millis(millis)),
        }
    }
}

/// A user by one of its access keys, or a session by its own.
#[derive(Debug)]
pub(super) struct Signer {
    user: Arc<User>,
    access_key: Arc<str>,
    session: Option<Arc<SenderSession>>,
    secret: Secret,
    signing_keys: SigningKeys,
    used: LastUse,
}

impl Signer {
    pub(super) fn new(user: &Arc<User>, access_key: &str, secret: Secret) -> Self {
        let user = Arc::clone(user);
        let signing_keys = SigningKeys::default();
        let used = LastUse::default();
        Self { user, access_key: access_key.into(), session: None, secret, signing_keys, used }
    }

    /// The same as a session.
    pub(super) fn with_session(self, session: SenderSession) -> Self {
        Self { session: Some(Arc::new(session)), ..self }
    }

    /// The same keys, of another user or another version of it.
    pub(super) fn of_user(&self, user: &Arc<User>) -> Self {
        let session = self.session.clone();
        Self { session, ..Self::new(user, &self.access_key, self.secret.clone()) }
    }

    /// Notes that it was used. A use of a session is one of its user.
    pub(super) fn note_use(&self, at: Timestamp) {
        self.used.note(at);
        if self.session.is_some() {
            self.user.used.note(at);
        }
    }

    /// When it was used last; `None` for never since the start of the server.
    pub(super) fn last_used(&self) -> Option<Timestamp> {
        self.used.time()
    }

    pub(super) fn access_key(&self) -> &Arc<str> {
        &self.access_key
    }

    pub(super) fn user(&self) -> &Arc<User> {
        &self.user
    }

    pub(super) fn session(&self) -> Option<&Arc<SenderSession>> {
        self.session.as_ref()
    }

    pub(super) fn secret(&self) -> &Secret {
        &self.secret
    }

    /// The signing key for a day, a region and a service.
    pub(super) fn signing_key(&self, date: &str, region: &str, service: &str) -> SigningKey {
        self.signing_keys.get(&self.secret, date, region, service)
    }

    /// The signature of `text` by version 2, in base64: 28 characters.
    pub(super) fn sign_v2(&self, text: &[u8]) -> String {
        BASE64.encode(HmacSha1::of(self.secret.reveal().as_bytes(), text))
    }
}
