//! The evaluator: the one place that decides who may do what.
//!
//! 1. A denial wins over everything: of the bucket's policy, of the sender's own policies and those
//!    of its groups, of its session's. That of the bucket cannot keep the owner and the
//!    administrators from the policy itself. A denial of PutObject is one of CreateObject, too.
//! 2. A session is refused whatever its policy does not allow, whoever else would allow it; unless
//!    the policy of the bucket allows it and names that very session.
//! 3. A grant of the users file allows, and so does a policy of the sender or of its groups.
//! 4. The policy of the bucket allows. A block of public access takes that from senders without
//!    keys.
//! 5. An ACL allows, where ACLs are in effect: the sender by its name, or a group. A block of public
//!    access takes from groups alone. The owner of an object has all permissions of its ACL.
//! 6. Everything else is refused.

#[cfg(test)]
mod session_tests;
#[cfg(test)]
mod tests;

use crate::auth::action::ActionLevel;
use crate::auth::session::{SenderSession, SessionKind};
use crate::auth::user::User;
use crate::auth::{Action, BucketPolicy, PolicyContext, PolicyDecision, Resource};
use crate::s3::PublicAccessBlock;
use crate::s3::acl::{AclGroup, AclPermission, AclPermissions, AclUser, GroupGrants};

/// The facts about a bucket, an object in it and a request that a decision may depend on. Each is
/// asked for only where the decision depends on it.
pub trait AccessFacts {
    /// The owner of the bucket; `None` if there is no bucket.
    fn owner(&self) -> Option<&str>;

    /// The policy of the bucket.
    fn policy(&self) -> Option<&BucketPolicy>;

    /// The facts about the request, for conditions of the policy.
    fn context(&self) -> PolicyContext<'_>;

    /// The public access block of the bucket.
    fn block(&self) -> PublicAccessBlock;

    /// Whether ACLs are in effect: by the ownership controls of the bucket.
    fn has_acls(&self) -> bool;

    /// What the ACL of the bucket grants groups.
    fn bucket_acl(&self) -> GroupGrants;

    /// What the ACL of the object grants groups. Without the object, those may read that the ACL of the bucket lets
    /// list.
    fn object_acl(&self) -> GroupGrants;

    /// What an ACL grants a user by his name. It grants the owner of an object everything. Without
    /// the object it may be read by those whom the ACL of the bucket lets list.
    fn named_in_acl(&self, place: AclPlace, user: AclUser<'_>) -> AclPermissions;

    /// Whether a user owns the object, by its record.
    fn owns_object(&self, user: AclUser<'_>) -> bool;

    /// Whether a user began the multipart upload that the request names.
    fn is_initiator(&self, _user: &str) -> bool {
        false
    }

    /// Whether a fact about the object was asked for. A decision then holds for that version of the
    /// object alone.
    fn uses_object(&self) -> bool;
}

/// The ACL that grants an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AclPlace {
    /// Of the bucket.
    Bucket,
    /// Of the object.
    Object,
}

/// Who asks: a user or a role, and the session whose keys signed.
#[derive(Clone, Copy)]
pub(super) struct Sender<'s> {
    pub(super) user: &'s User,
    pub(super) session: Option<&'s SenderSession>,
}

/// What the policies say that come with the sender.
struct OwnPolicies {
    /// Whether one denies the request.
    deny: bool,
    /// Whether the session does not allow it.
    lack: bool,
    /// Whether one of the user or role allows it.
    allow: bool,
}

impl Sender<'_> {
    fn own_policies(
        self,
        action: Action,
        resource: Resource<'_>,
        context: &PolicyContext<'_>,
    ) -> OwnPolicies {
        let of_user = self.user.decide(action, resource, context);
        let of_session = self.session.map(|session| session.decide(action, resource, context));
        OwnPolicies {
            deny: of_user == PolicyDecision::Deny
                || of_session == Some(PolicyDecision::Deny)
                || self.is_kept_from(action),
            lack: of_session == Some(PolicyDecision::NoMatch),
            allow: of_user == PolicyDecision::Allow,
        }
    }

    /// Whether it is a session that never has this action. As with IAM, no session of a user
    /// administers, and none that a user hands to others.
    fn is_kept_from(self, action: Action) -> bool {
        let is_of_user = self
            .session
            .is_some_and(|session| matches!(session.kind, SessionKind::User | SessionKind::Federated));
        is_of_user && action.level() == ActionLevel::Administration
    }

    fn has_policies(self) -> bool {
        self.session.is_some() || self.user.has_policies()
    }
}

/// Whether `sender` may do an action of administration.
pub(super) fn may_administer(sender: Sender<'_>, action: Action, context: &PolicyContext<'_>) -> bool {
    let own = sender.own_policies(action, Resource::Service, context);
    !own.deny && !own.lack && (own.allow || sender.user.may(action, Resource::Service, &|| false))
}

/// By what a sender may do something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Grounds {
    /// By its rights, or by the policy of the bucket.
    Rights,
    /// By an ACL, and by nothing else.
    Acl,
}

/// Whether `sender` may do `action` on `resource`.
pub(super) fn decide(
    sender: Sender<'_>,
    action: Action,
    resource: Resource<'_>,
    facts: &dyn AccessFacts,
) -> bool {
    grounds(sender, action, resource, facts).is_some()
}

/// By what `sender` may do `action` on `resource`; `None` where it may not.
pub(super) fn grounds(
    sender: Sender<'_>,
    action: Action,
    resource: Resource<'_>,
    facts: &dyn AccessFacts,
) -> Option<Grounds> {
    let user = sender.user;
    let policy = facts.policy().filter(|_| action.is_of_existing_bucket());
    let by_policy =
        policy.map_or(PolicyDecision::NoMatch, |policy| policy.decide(action, resource, &facts.context()));
    if by_policy == PolicyDecision::Deny && !keeps_policy(user, action, facts) {
        return None;
    }
    if action == Action::CreateObject && denies_puts(policy, resource, facts) {
        return None;
    }
    let own = sender.has_policies().then(|| sender.own_policies(action, resource, &facts.context()));
    if own.as_ref().is_some_and(|own| own.deny) {
        return None;
    }
    if own.as_ref().is_some_and(|own| own.lack) {
        let by_policy = policy.filter(|_| by_policy == PolicyDecision::Allow)?;
        let allows = by_policy.allows_session(action, resource, &facts.context());
        return allows.then_some(Grounds::Rights);
    }
    if own.is_some_and(|own| own.allow)
        || user.may(action, resource, &|| owns(user, facts))
        || policy
            .is_some_and(|policy| by_policy == PolicyDecision::Allow && !is_restricted(user, policy, facts))
    {
        return Some(Grounds::Rights);
    }
    if is_allowed_by_acl(user, action, facts) || deletes_own_object(user, action, facts) {
        return Some(Grounds::Acl);
    }
    began_upload(user, action, facts).then_some(Grounds::Rights)
}

fn owns(user: &User, facts: &dyn AccessFacts) -> bool {
    facts.owner() == Some(user.name())
}

/// Whether the policy denies PutObject. Policies that were written for S3 know no other action that
/// puts.
fn denies_puts(policy: Option<&BucketPolicy>, resource: Resource<'_>, facts: &dyn AccessFacts) -> bool {
    let decision = policy.map(|policy| policy.decide(Action::PutObject, resource, &facts.context()));
    decision == Some(PolicyDecision::Deny)
}

/// Whether no policy denies the action to this user: a mistake in a policy could not be corrected
/// otherwise (S3 API reference, PutBucketPolicy).
fn keeps_policy(user: &User, action: Action, facts: &dyn AccessFacts) -> bool {
    matches!(action, Action::GetBucketPolicy | Action::PutBucketPolicy | Action::DeleteBucketPolicy)
        && (user.is_administrator() || owns(user, facts))
}

/// Whether the block of public access takes from this user whatever the policy allows.
fn is_restricted(user: &User, policy: &BucketPolicy, facts: &dyn AccessFacts) -> bool {
    user.is_anonymous() && policy.is_public() && facts.block().restricts_policy
}

fn is_allowed_by_acl(user: &User, action: Action, facts: &dyn AccessFacts) -> bool {
    let Some((place, permission)) = permission(action) else { return false };
    if !facts.has_acls() {
        return false;
    }
    if !user.is_anonymous() && facts.named_in_acl(place, user.in_acls()).includes(permission) {
        return true;
    }
    if facts.block().ignores_acls {
        return false;
    }
    let acl = match place {
        AclPlace::Bucket => facts.bucket_acl(),
        AclPlace::Object => facts.object_acl(),
    };
    acl.includes(AclGroup::AllUsers, permission)
        || !user.is_anonymous() && acl.includes(AclGroup::AuthenticatedUsers, permission)
}

/// Whether the ACL of the bucket lets this user write there, and the object is his: he may delete it
/// (S3 user guide, "Access control list (ACL) overview", "What permissions can I grant?").
fn deletes_own_object(user: &User, action: Action, facts: &dyn AccessFacts) -> bool {
    action == Action::DeleteObject
        && !user.is_anonymous()
        && is_allowed_by_acl(user, Action::PutObject, facts)
        && facts.owns_object(user.in_acls())
}

/// Whether it is an upload of this user, who may give it up and see its parts, whatever lets him
/// put objects (S3 user guide, "Multipart upload API and permissions").
fn began_upload(user: &User, action: Action, facts: &dyn AccessFacts) -> bool {
    matches!(action, Action::AbortMultipartUpload | Action::ListMultipartUploadParts)
        && !user.is_anonymous()
        && facts.is_initiator(user.name())
}

/// Whether the ACL of the object or of the bucket grants an action, and its permission there
/// (S3 user guide, "Mapping of ACL permissions and access policy permissions").
fn permission(action: Action) -> Option<(AclPlace, AclPermission)> {
    match action {
        Action::ListBucket | Action::ListBucketVersions | Action::ListBucketMultipartUploads => {
            Some((AclPlace::Bucket, AclPermission::Read))
        }
        Action::PutObject => Some((AclPlace::Bucket, AclPermission::Write)),
        Action::GetBucketAcl => Some((AclPlace::Bucket, AclPermission::ReadAcp)),
        Action::PutBucketAcl => Some((AclPlace::Bucket, AclPermission::WriteAcp)),
        Action::GetObject | Action::GetObjectVersion => Some((AclPlace::Object, AclPermission::Read)),
        Action::GetObjectAcl | Action::GetObjectVersionAcl => {
            Some((AclPlace::Object, AclPermission::ReadAcp))
        }
        Action::PutObjectAcl | Action::PutObjectVersionAcl => {
            Some((AclPlace::Object, AclPermission::WriteAcp))
        }
        _ => None,
    }
}
