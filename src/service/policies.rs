//! Policies by name, groups of users, roles and providers of identities, as administrators see and
//! change them.

use std::collections::BTreeMap;

use crate::auth::READY_MADE_POLICIES;

/// A policy.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
pub struct PolicyEntry {
    pub name: String,
    /// The document, as it was put.
    pub document: String,
    /// Whether it is there without the users file, and cannot be changed.
    pub ready_made: bool,
    /// When it was made, where the users file knows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created: Option<String>,
}

/// A group of users.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
pub struct GroupEntry {
    pub name: String,
    /// The names of its users.
    pub members: Vec<String>,
    /// The names of its policies, and documents.
    pub policies: Vec<String>,
    /// Documents that belong to it alone, by their names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub inline_policies: BTreeMap<String, String>,
    /// When it was made, where the users file knows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created: Option<String>,
}

/// A role.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RoleEntry {
    pub name: String,
    /// Its unique id.
    pub id: String,
    pub created: Option<String>,
    /// The names of the users and roles that may assume it.
    pub assumed_by: Vec<String>,
    /// Those of them that are roles.
    pub assumed_by_roles: Vec<String>,
    pub external_id: Option<String>,
    pub web_identities: Vec<TokenTrustEntry>,
    /// Its longest session, in seconds.
    pub max_duration_secs: u64,
    /// The names of its policies, and documents.
    pub policies: Vec<String>,
    /// Documents that belong to it alone, by their names.
    pub inline_policies: BTreeMap<String, String>,
}

/// The tokens of a provider that assume a role.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenTrustEntry {
    pub issuer: String,
    /// The condition of a policy, as JSON.
    pub condition: String,
}

/// A provider whose tokens assume roles.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProviderEntry {
    /// The URL, as its tokens state it.
    pub url: String,
    /// The client ids that its tokens are for.
    pub audiences: Vec<String>,
    /// The thumbprints, as they were put. They decide nothing.
    pub thumbprints: Vec<String>,
    /// When it was made, where the users file knows it.
    pub created: Option<String>,
}

/// Who has policies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PolicyHolder {
    User(String),
    Group(String),
    Role(String),
}

impl PolicyHolder {
    /// What a change of its policies is called in the audit log.
    pub(super) fn audited_as(&self) -> &'static str {
        match self {
            Self::User(_) => "ChangeUser",
            Self::Group(_) => "ChangeGroup",
            Self::Role(_) => "ChangeRole",
        }
    }

    /// The name of the user, group or role.
    pub fn name(&self) -> &str {
        match self {
            Self::User(name) | Self::Group(name) | Self::Role(name) => name,
        }
    }
}

/// A change of a policy, of a group, or of who has a policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PolicyChange {
    /// A new policy, or another document of one.
    PutPolicy {
        name: String,
        document: String,
    },
    /// The end of a policy that nobody has.
    DeletePolicy {
        name: String,
    },
    /// A new group without members and policies.
    CreateGroup {
        name: String,
    },
    DeleteGroup {
        name: String,
    },
    AddMember {
        group: String,
        user: String,
    },
    RemoveMember {
        group: String,
        user: String,
    },
    /// A further policy of a user or group.
    Attach {
        to: PolicyHolder,
        policy: String,
    },
    /// One policy less.
    Detach {
        from: PolicyHolder,
        policy: String,
    },
}

impl PolicyChange {
    /// The name of the policy, group or user that is changed.
    pub fn subject(&self) -> &str {
        match self {
            Self::PutPolicy { name, .. }
            | Self::DeletePolicy { name }
            | Self::CreateGroup { name }
            | Self::DeleteGroup { name } => name,
            Self::AddMember { group, .. } | Self::RemoveMember { group, .. } => group,
            Self::Attach { to, .. } => to.name(),
            Self::Detach { from, .. } => from.name(),
        }
    }

    /// The name of the change in the audit log.
    pub fn audited_as(&self) -> &'static str {
        match self {
            Self::PutPolicy { .. } => "PutPolicy",
            Self::DeletePolicy { .. } => "DeletePolicy",
            Self::CreateGroup { .. } => "CreateGroup",
            Self::DeleteGroup { .. } => "DeleteGroup",
            Self::AddMember { .. } | Self::RemoveMember { .. } => "ChangeGroup",
            Self::Attach { to: holder, .. } | Self::Detach { from: holder, .. } => holder.audited_as(),
        }
    }
}

impl PolicyEntry {
    /// The ready-made policies.
    pub fn ready_made() -> impl Iterator<Item = Self> {
        READY_MADE_POLICIES.iter().map(|policy| Self {
            name: policy.name.to_owned(),
            document: policy.document.to_owned(),
            ready_made: true,
            created: None,
        })
    }
}
