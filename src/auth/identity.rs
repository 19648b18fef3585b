//! The identity of a sender, and the proof of a permission.

use std::net::IpAddr;
use std::sync::Arc;

use crate::auth::access::{Grounds, Sender};
use crate::auth::bucket_policy::Principal;
use crate::auth::session::SenderSession;
use crate::auth::session::arn::role_of_session;
use crate::auth::session::origin::SessionOrigin;
use crate::auth::user::{Signer, User};
use crate::auth::{
    AccessFacts, Action, BucketPolicy, ConditionMemo, OidcPerson, PolicyContext, PrincipalFacts, Resource,
    Users, access,
};
use crate::base::Timestamp;
use crate::s3::acl::AclUser;
use crate::s3::{ErrorCode, Request, S3Error};

/// The authenticated sender of a request. Its permissions come from the users file that it was
/// authenticated against, even if the file is replaced during the request.
#[derive(Debug, Clone)]
pub struct Identity {
    user: Arc<User>,
    /// The users among whom it was found.
    users: Arc<Users>,
    person: Option<Arc<OidcPerson>>,
    /// The session whose keys signed the request.
    session: Option<Arc<SenderSession>>,
    /// The access key that signed the request, or that a session of the console stands for.
    access_key: Option<Arc<str>>,
    /// The number of the session of the console.
    console_session: Option<u64>,
    /// The request, where policies of the sender may have conditions on it.
    origin: Option<Arc<RequestOrigin>>,
}

/// The facts about a request that conditions on any action may refer to.
#[derive(Debug)]
struct RequestOrigin {
    source_ip: Option<IpAddr>,
    secure: bool,
    now: Timestamp,
    referer: Option<String>,
    user_agent: Option<String>,
}

impl Identity {
    pub(super) fn new(user: Arc<User>, users: Arc<Users>) -> Self {
        Self {
            user,
            users,
            person: None,
            session: None,
            access_key: None,
            console_session: None,
            origin: None,
        }
    }

    /// The user of keys that were entered, or as whom a person acts.
    pub(super) fn of_person(signer: &Signer, users: Arc<Users>, person: Option<Arc<OidcPerson>>) -> Self {
        Self { person, ..Self::of_signer(signer, users) }
    }

    /// The same identity, in the session of the console that has this number.
    #[must_use]
    pub fn in_console_session(self, number: u64) -> Self {
        Self { console_session: Some(number), ..self }
    }

    /// The user of the keys, or their session.
    pub(super) fn of_signer(signer: &Signer, users: Arc<Users>) -> Self {
        let session = signer.session().cloned();
        let access_key = Some(Arc::clone(signer.access_key()));
        Self { session, access_key, ..Self::new(Arc::clone(signer.user()), users) }
    }

    /// The same identity, which knows the request that it sent.
    pub(super) fn sent_by(self, request: &Request<'_>, now: Timestamp) -> Self {
        // Without a policy nobody asks for it: most requests copy nothing.
        if !self.has_policies() {
            return self;
        }

        let origin = RequestOrigin {
            source_ip: request.peer.map(|peer| peer.ip()),
            secure: request.secure,
            now,
            referer: request.headers.get_str("referer").map(str::to_owned),
            user_agent: request.headers.get_str("user-agent").map(str::to_owned),
        };
        Self { origin: Some(Arc::new(origin)), ..self }
    }

    pub(super) fn sender(&self) -> Sender<'_> {
        Sender { user: &self.user, session: self.session.as_deref() }
    }

    pub(super) fn users(&self) -> &Users {
        &self.users
    }

    /// Whether policies of its own decide about it.
    pub fn has_policies(&self) -> bool {
        self.session.is_some() || self.user.has_policies()
    }

    /// The session whose keys signed the request.
    pub fn session(&self) -> Option<&Arc<SenderSession>> {
        self.session.as_ref()
    }

    /// The access key that signed the request, or that a session of the console stands for; `None`
    /// for an anonymous sender.
    pub fn access_key(&self) -> Option<&Arc<str>> {
        self.access_key.as_ref()
    }

    /// The number of the session of the console that sent the request.
    pub fn console_session(&self) -> Option<u64> {
        self.console_session
    }

    /// The origin of the sessions that are handed out to the sender.
    pub(super) fn origin_of_next(&self) -> SessionOrigin {
        match &self.session {
            Some(session) => session.origin_of_next.clone(),
            None => {
                let access_key = self.access_key.as_deref().map(str::to_owned);
                SessionOrigin { access_key, sessions: Vec::new() }
            }
        }
    }

    /// The user whom policies of buckets may name; `None` for an anonymous sender and for a role.
    pub fn user_in_policies(&self) -> Option<&str> {
        (!self.is_anonymous() && !self.user.is_role()).then(|| self.name())
    }

    /// How conditions name the sender; `None` for an anonymous one.
    pub fn principal(&self) -> Option<&PrincipalFacts> {
        match &self.session {
            Some(session) => Some(&session.facts),
            None => (!self.is_anonymous()).then(|| self.user.facts()),
        }
    }

    /// The facts about the request that do not depend on what it is for.
    fn context(&self) -> PolicyContext<'_> {
        let user = self.user_in_policies();
        let principal = self.principal();
        let Some(origin) = &self.origin else {
            return PolicyContext { user, principal, ..PolicyContext::default() };
        };
        PolicyContext {
            user,
            principal,
            source_ip: origin.source_ip,
            secure: origin.secure,
            now: origin.now,
            referer: origin.referer.as_deref(),
            user_agent: origin.user_agent.as_deref(),
            ..PolicyContext::default()
        }
    }

    /// Whom a policy of a bucket names although the users file does not have him.
    pub fn unknown_principal(&self, policy: &BucketPolicy) -> Option<String> {
        policy.principals().find_map(|principal| match principal {
            Principal::User(name) if !self.users.has_signer(name) => Some(format!("user `{name}`")),
            Principal::Role(name) if self.users.role(name).is_none() => Some(format!("role `{name}`")),
            Principal::SenderSession(arn) => {
                let role = role_of_session(arn).filter(|role| self.users.role(role).is_none())?;
                Some(format!("role `{role}`"))
            }
            _ => None,
        })
    }

    /// The sender as ACLs know it; `None` for an anonymous one.
    pub fn in_acls(&self) -> Option<AclUser<'_>> {
        (!self.is_anonymous()).then(|| self.user.in_acls())
    }

    /// The user or role of a name, as ACLs know it.
    pub fn known_in_acls(&self, name: &str) -> Option<AclUser<'_>> {
        self.users.in_acls(name)
    }

    /// The person who acts as the user, where an OpenID provider vouched for it.
    pub fn person(&self) -> Option<&Arc<OidcPerson>> {
        self.person.as_ref()
    }

    /// The name of the user or role in the users file, which becomes the owner of buckets and
    /// uploads.
    pub fn name(&self) -> &str {
        self.user.name()
    }

    /// Whether the request was not signed.
    pub fn is_anonymous(&self) -> bool {
        self.user.is_anonymous()
    }

    /// Whether the users file grants everything to the user, and its session takes nothing of it.
    pub fn is_administrator(&self) -> bool {
        self.user.is_administrator() && self.session.as_ref().is_none_or(|it| it.is_unlimited())
    }

    /// Whether the user may create a bucket of some name. Owners and policies have no say in it.
    pub fn may_create_some_bucket(&self) -> bool {
        self.user.may_create_some_bucket()
    }

    /// Whether the users file grants an action of administration, and the session of the sender
    /// leaves it. Owners and bucket policies grant none.
    pub fn may_administer(&self, action: Action) -> bool {
        access::may_administer(self.sender(), action, &self.context())
    }

    /// The proof that this user may do `action` on `resource`.
    ///
    /// # Errors
    /// `AccessDenied`.
    pub fn authorize(
        &self,
        action: Action,
        resource: Resource<'_>,
        facts: &dyn AccessFacts,
    ) -> Result<Authorized, S3Error> {
        let grounds = access::grounds(self.sender(), action, resource, facts);
        let grounds = grounds.ok_or_else(|| S3Error::new(ErrorCode::AccessDenied))?;
        Ok(Authorized {
            identity: self.clone(),
            action,
            by_object: facts.uses_object(),
            by_acl: grounds == Grounds::Acl,
            memo: ConditionMemo::default(),
        })
    }
}

/// The proof of a permission. Only authorization makes one, and every operation requires one.
#[derive(Debug, Clone)]
pub struct Authorized {
    identity: Identity,
    action: Action,
    by_object: bool,
    by_acl: bool,
    memo: ConditionMemo,
}

impl Authorized {
    /// The sender.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The name of the sender, which becomes the owner of what the operation creates.
    pub fn user(&self) -> &str {
        self.identity.name()
    }

    /// The permitted action.
    pub fn action(&self) -> Action {
        self.action
    }

    /// What the request found about the conditions of a policy. It holds for this request alone.
    pub fn memo(&self) -> &ConditionMemo {
        &self.memo
    }

    /// Whether the decision depended on the object, and so holds for that version of it alone.
    pub fn depends_on_object(&self) -> bool {
        self.by_object
    }

    /// Whether nothing but an ACL permits it.
    pub fn needs_acl(&self) -> bool {
        self.by_acl
    }

    /// Whether the same user may also do `action` on `resource`: for permissions that an operation
    /// checks itself, such as `ListBucket` before it reports a missing key.
    pub fn may(&self, action: Action, resource: Resource<'_>, facts: &dyn AccessFacts) -> bool {
        access::decide(self.identity.sender(), action, resource, facts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::access::AclPlace;
    use crate::auth::{BucketPolicy, PolicyContext};
    use crate::s3::PublicAccessBlock;
    use crate::s3::acl::{AclPermissions, GroupGrants};

    fn identity() -> Identity {
        let text = "[[user]]\nname = \"eve\"\naccess_key = \"AK\"\nsecret_key = \"s\"\n\
                    allow = [{ actions = [\"GetObject\", \"ListBucket\"], resources = [\"b\", \"b/p*\"] },
                    { actions = [\"*\"], resources = [\"@owned\"] }]";
        let users = Arc::new(Users::parse(text).unwrap());
        let eve = Arc::clone(users.find("AK").unwrap().user());
        Identity::new(eve, users)
    }

    /// A bucket `b` of `owner`, without a policy and ACLs.
    struct Bare(&'static str);

    impl AccessFacts for Bare {
        fn owner(&self) -> Option<&str> {
            Some(self.0)
        }
        fn policy(&self) -> Option<&BucketPolicy> {
            None
        }
        fn context(&self) -> PolicyContext<'_> {
            PolicyContext::default()
        }
        fn block(&self) -> PublicAccessBlock {
            PublicAccessBlock::default()
        }
        fn has_acls(&self) -> bool {
            false
        }
        fn bucket_acl(&self) -> GroupGrants {
            GroupGrants::NONE
        }
        fn object_acl(&self) -> GroupGrants {
            GroupGrants::NONE
        }
        fn named_in_acl(&self, _: AclPlace, _: AclUser<'_>) -> AclPermissions {
            AclPermissions::NONE
        }
        fn owns_object(&self, _: AclUser<'_>) -> bool {
            false
        }
        fn uses_object(&self) -> bool {
            true
        }
    }

    fn object<'a>(bucket: &'a str, key: &'a str) -> Resource<'a> {
        Resource::Object { bucket, key }
    }

    #[test]
    fn a_permitted_action_yields_a_proof_that_names_the_user() {
        let proof = identity().authorize(Action::GetObject, object("b", "p1"), &Bare("ann")).unwrap();
        assert_eq!((proof.user(), proof.action()), ("eve", Action::GetObject));
        assert!(!proof.identity().is_anonymous() && proof.depends_on_object());
    }

    #[test]
    fn an_action_without_permission_is_access_denied() {
        let refused = identity().authorize(Action::GetObject, object("b", "q"), &Bare("ann"));
        assert_eq!(refused.unwrap_err().code, ErrorCode::AccessDenied);
    }

    #[test]
    fn a_proof_answers_for_other_permissions_of_its_user() {
        let bare = Bare("ann");
        let proof = identity().authorize(Action::ListBucket, Resource::Bucket("b"), &bare).unwrap();
        assert!(proof.may(Action::GetObject, object("b", "p2"), &bare));
        assert!(proof.may(Action::ListBucket, Resource::Bucket("b"), &bare));
        assert!(!proof.may(Action::GetObject, object("b", "q"), &bare));
        assert!(!proof.may(Action::GetObject, object("c", "p2"), &bare));
        assert!(!proof.may(Action::DeleteObject, object("b", "p2"), &bare));
        assert!(proof.may(Action::DeleteObject, object("b", "p2"), &Bare("eve")), "its own bucket");
    }
}
