//! Policies and groups, by the API.

use serde_json::{Value, json};

use super::{ApiError, document, done, name_in};
use crate::auth::Identity;
use crate::s3::{Method, Request, Response};
use crate::service::users::{UserChange, UserError};
use crate::service::{PolicyChange, PolicyHolder, Service};

/// A resource about policies and groups.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PolicyResource {
    All,
    Policy(String),
    Groups,
    Group(String),
    Member { group: String, user: String },
    Attached { to: PolicyHolder, policy: String },
}

impl PolicyResource {
    pub(super) fn of(parts: &[&str]) -> Option<Self> {
        Some(match parts {
            ["policies"] => Self::All,
            ["policies", policy] => Self::Policy(name_in(policy)?),
            ["groups"] => Self::Groups,
            ["groups", group] => Self::Group(name_in(group)?),
            ["groups", group, "members", user] => {
                Self::Member { group: name_in(group)?, user: name_in(user)? }
            }
            ["groups", group, "policies", policy] => {
                Self::Attached { to: PolicyHolder::Group(name_in(group)?), policy: name_in(policy)? }
            }
            ["users", user, "policies", policy] => {
                Self::Attached { to: PolicyHolder::User(name_in(user)?), policy: name_in(policy)? }
            }
            _ => return None,
        })
    }

    pub(super) fn methods(&self) -> &'static str {
        match self {
            Self::All | Self::Groups => "GET",
            Self::Policy(_) | Self::Group(_) => "GET, PUT, DELETE",
            Self::Member { .. } | Self::Attached { .. } => "PUT, DELETE",
        }
    }

    /// The change that a request asks for, whose method is one of the resource; `None` for one that
    /// asks to see it.
    fn change(&self, method: &Method, body: &[u8]) -> Result<Option<PolicyChange>, ApiError> {
        let is_put = *method == Method::Put;
        if *method == Method::Get {
            return Ok(None);
        }
        Ok(Some(match (self, is_put) {
            (Self::All | Self::Groups, _) => return Ok(None),
            (Self::Policy(name), true) => {
                let text = std::str::from_utf8(body);
                let text =
                    text.map_err(|_| ApiError::new(400, "MalformedJSON", "The policy is not UTF-8."))?;
                PolicyChange::PutPolicy { name: name.clone(), document: text.to_owned() }
            }
            (Self::Policy(name), false) => PolicyChange::DeletePolicy { name: name.clone() },
            (Self::Group(name), true) => PolicyChange::CreateGroup { name: name.clone() },
            (Self::Group(name), false) => PolicyChange::DeleteGroup { name: name.clone() },
            (Self::Member { group, user }, true) => {
                PolicyChange::AddMember { group: group.clone(), user: user.clone() }
            }
            (Self::Member { group, user }, false) => {
                PolicyChange::RemoveMember { group: group.clone(), user: user.clone() }
            }
            (Self::Attached { to, policy }, true) => {
                PolicyChange::Attach { to: to.clone(), policy: policy.clone() }
            }
            (Self::Attached { to, policy }, false) => {
                PolicyChange::Detach { from: to.clone(), policy: policy.clone() }
            }
        }))
    }
}

impl Service {
    pub(super) fn at_policies(
        &self,
        resource: &PolicyResource,
        identity: &Identity,
        request: &Request<'_>,
        body: &[u8],
    ) -> Result<Response, ApiError> {
        if let Some(change) = resource.change(&request.method, body)? {
            self.change_user(identity, request, &UserChange::Policies(change))?;
            return Ok(done());
        }
        let shown: Value = match resource {
            PolicyResource::Policy(name) => {
                let found = self.policies(identity)?.into_iter().find(|policy| policy.name == *name);
                json!(found.ok_or_else(|| UserError::Unknown { kind: "policy", name: name.clone() })?)
            }
            PolicyResource::Group(name) => {
                let found = self.groups(identity)?.into_iter().find(|group| group.name == *name);
                json!(found.ok_or_else(|| UserError::Unknown { kind: "group", name: name.clone() })?)
            }
            PolicyResource::Groups => json!({ "groups": self.groups(identity)? }),
            _ => json!({ "policies": self.policies(identity)? }),
        };
        Ok(document(200, &shown))
    }
}
