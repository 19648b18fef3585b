//! Sessions: keys that count for a while, with the rights of a role or of a user, and never more.
//!
//! The server keeps nothing of them. Whoever signs with the keys of a session sends its token, in
//! which the session is sealed:
//!
//! - `token`: what a token holds, and the keys that seal it;
//! - `origin`: what a session came of, without which it is dead;
//! - `cache`: sessions that were opened, so that a request does not open its own again;
//! - `arn`: the names of senders, and their unique ids.

pub(super) mod arn;
pub(super) mod cache;
pub(super) mod origin;
pub(super) mod token;

use std::sync::Arc;

use self::origin::SessionOrigin;
use crate::auth::bucket_policy::{IdentityPolicy, PrincipalFacts, decide_by_all};
use crate::auth::{Action, PolicyContext, PolicyDecision, Resource};
use crate::base::Timestamp;

/// Whose rights a session has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(super) enum SessionKind {
    /// Those of a role (AssumeRole).
    #[serde(rename = "r")]
    Role,
    /// Those of a user, who signs with keys of a session of its own (GetSessionToken).
    #[serde(rename = "u")]
    User,
    /// What a user hands to somebody else (GetFederationToken).
    #[serde(rename = "f")]
    Federated,
    /// Those of a user, for one of its service accounts, which no token stands for.
    #[serde(skip)]
    ServiceAccount,
}

/// How far a session is limited beside the rights of its role or user.
#[derive(Debug)]
pub(super) enum SessionLimit {
    /// It is not.
    None,
    /// To what its policies allow: that of the call, and those of the users file that it named. One
    /// that is there no more allows nothing.
    Policies(Vec<Arc<IdentityPolicy>>),
}

/// A session whose token was opened. `Debug` shows neither its token nor its secret, which it does
/// not hold.
#[derive(Debug)]
pub struct SenderSession {
    pub(super) kind: SessionKind,
    /// The ARN of the session itself.
    pub(super) arn: String,
    pub(super) facts: PrincipalFacts,
    pub(super) limit: SessionLimit,
    pub(super) expires: Timestamp,
    /// The origin of the sessions that are handed out to it.
    pub(super) origin_of_next: SessionOrigin,
}

impl SenderSession {
    /// The ARN of the session.
    pub fn arn(&self) -> &str {
        &self.arn
    }

    /// The unique id of its role or user, with the name of the session.
    pub(super) fn id(&self) -> &str {
        &self.facts.id
    }

    /// What its policy says of a request; `Allow` for a session that has the rights of its role or
    /// user whole.
    pub(super) fn decide(
        &self,
        action: Action,
        resource: Resource<'_>,
        context: &PolicyContext<'_>,
    ) -> PolicyDecision {
        match &self.limit {
            SessionLimit::None => PolicyDecision::Allow,
            SessionLimit::Policies(policies) => decide_by_all(policies, action, resource, context),
        }
    }

    /// Whether it has the rights of its role or user whole.
    pub(super) fn is_unlimited(&self) -> bool {
        matches!(self.limit, SessionLimit::None)
    }
}
