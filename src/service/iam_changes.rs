//! Changes of the users file that IAM's calls ask for beyond those of the API.

use super::policies::PolicyHolder;
use crate::auth::Action;

/// Who may assume a role.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RoleTrust {
    /// The names of users and roles; `*` for all of them.
    pub assumed_by: Vec<String>,
    /// What a request must state.
    pub external_id: Option<String>,
    /// The tokens of providers that assume it.
    pub providers: Vec<ProviderTrust>,
}

/// The tokens of a provider that assume a role.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderTrust {
    /// The URL of the provider, without the scheme.
    pub provider: String,
    /// The condition of a policy, as JSON, with claims as `jwt:CLAIM`.
    pub condition: String,
}

/// A change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IamChange {
    /// A new user without keys and rights.
    CreateUser { name: String },
    /// The end of a user that has neither keys nor policies, groups and service accounts.
    DeleteUser { name: String },
    /// A further pair of keys of a user, who has two at most.
    AddKey { user: String },
    /// Whether one of the keys of a user signs.
    SetKeyStatus { user: String, access_key: String, active: bool },
    /// The end of one of the keys of a user.
    DeleteKey { user: String, access_key: String },
    /// A new group without members and policies.
    CreateGroup { name: String },
    /// The end of a group without members and policies.
    DeleteGroup { name: String },
    /// A new policy.
    CreatePolicy { name: String, document: String },
    /// Another document of a policy that is there.
    ReplacePolicy { name: String, document: String },
    /// A policy that belongs to a user, a group or a role alone, or another document of it.
    PutInline { of: PolicyHolder, policy: String, document: String },
    /// The end of such a policy.
    DeleteInline { of: PolicyHolder, policy: String },
    /// A new role without rights.
    CreateRole { name: String, trust: RoleTrust, max_duration_secs: Option<u64> },
    /// Others who may assume a role.
    SetTrust { role: String, trust: RoleTrust },
    /// Another longest session of a role.
    SetMaxDuration { role: String, secs: u64 },
    /// The end of a role without policies and rights.
    DeleteRole { name: String },
    /// A new provider of identities.
    CreateProvider { url: String, audiences: Vec<String>, thumbprints: Vec<String> },
    /// The end of a provider. It is named by its URL without the scheme, here and below.
    DeleteProvider { provider: String },
    /// A further client of a provider.
    AddAudience { provider: String, audience: String },
    /// One client less of a provider.
    RemoveAudience { provider: String, audience: String },
    /// Other thumbprints of a provider.
    SetThumbprints { provider: String, thumbprints: Vec<String> },
}

impl IamChange {
    /// The name of the user, the group, the role, the policy or the provider.
    pub fn subject(&self) -> &str {
        match self {
            Self::CreateUser { name }
            | Self::DeleteUser { name }
            | Self::CreateGroup { name }
            | Self::DeleteGroup { name }
            | Self::CreatePolicy { name, .. }
            | Self::ReplacePolicy { name, .. }
            | Self::CreateRole { name, .. }
            | Self::DeleteRole { name } => name,
            Self::AddKey { user } | Self::SetKeyStatus { user, .. } | Self::DeleteKey { user, .. } => user,
            Self::SetTrust { role, .. } | Self::SetMaxDuration { role, .. } => role,
            Self::PutInline { of, .. } | Self::DeleteInline { of, .. } => of.name(),
            Self::CreateProvider { url, .. } => url,
            Self::DeleteProvider { provider }
            | Self::AddAudience { provider, .. }
            | Self::RemoveAudience { provider, .. }
            | Self::SetThumbprints { provider, .. } => provider,
        }
    }

    /// Whether it takes one of the names that users, groups and roles share.
    pub fn is_creation(&self) -> bool {
        matches!(self, Self::CreateUser { .. } | Self::CreateGroup { .. } | Self::CreateRole { .. })
    }

    /// The permission that it takes.
    pub(super) fn action(&self) -> Action {
        match self {
            Self::CreateUser { .. } => Action::AdminCreateUser,
            Self::DeleteUser { .. } => Action::AdminDeleteUser,
            Self::AddKey { .. } | Self::SetKeyStatus { .. } | Self::DeleteKey { .. } => {
                Action::AdminRotateKeys
            }
            // Who may say what policies hold, and who assumes roles, has every permission.
            Self::CreateGroup { .. }
            | Self::DeleteGroup { .. }
            | Self::CreatePolicy { .. }
            | Self::ReplacePolicy { .. }
            | Self::PutInline { .. }
            | Self::DeleteInline { .. }
            | Self::CreateRole { .. }
            | Self::SetTrust { .. }
            | Self::SetMaxDuration { .. }
            | Self::DeleteRole { .. }
            | Self::CreateProvider { .. }
            | Self::DeleteProvider { .. }
            | Self::AddAudience { .. }
            | Self::RemoveAudience { .. }
            | Self::SetThumbprints { .. } => Action::AdminSetGrants,
        }
    }

    /// The name of the change in the audit log.
    pub(super) fn audited_as(&self) -> &'static str {
        match self {
            Self::CreateUser { .. } => "CreateUser",
            Self::DeleteUser { .. } => "DeleteUser",
            Self::AddKey { .. } | Self::DeleteKey { .. } => "RotateKeys",
            Self::SetKeyStatus { .. } => "ChangeUser",
            Self::CreateGroup { .. } => "CreateGroup",
            Self::DeleteGroup { .. } => "DeleteGroup",
            Self::CreatePolicy { .. } | Self::ReplacePolicy { .. } => "PutPolicy",
            Self::PutInline { of, .. } | Self::DeleteInline { of, .. } => of.audited_as(),
            Self::CreateRole { .. } => "CreateRole",
            Self::SetTrust { .. } | Self::SetMaxDuration { .. } => "ChangeRole",
            Self::DeleteRole { .. } => "DeleteRole",
            Self::CreateProvider { .. } => "CreateIssuer",
            Self::DeleteProvider { .. } => "DeleteIssuer",
            Self::AddAudience { .. } | Self::RemoveAudience { .. } | Self::SetThumbprints { .. } => {
                "ChangeIssuer"
            }
        }
    }
}
