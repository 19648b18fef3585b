//! Policies by name and groups of users, as administrators see and change them.

use crate::auth::READY_MADE_POLICIES;

/// A policy.
#[derive(Debug, Clone, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
pub struct PolicyEntry {
    pub name: String,
    /// The document, as it was put.
    pub document: String,
    /// Whether it is there without the users file, and cannot be changed.
    pub ready_made: bool,
}

/// A group of users.
#[derive(Debug, Clone, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
pub struct GroupEntry {
    pub name: String,
    /// The names of its users.
    pub members: Vec<String>,
    /// The names of its policies, and documents.
    pub policies: Vec<String>,
}

/// Who has policies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PolicyHolder {
    User(String),
    Group(String),
}

impl PolicyHolder {
    /// The name of the user or group.
    pub fn name(&self) -> &str {
        match self {
            Self::User(name) | Self::Group(name) => name,
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
            Self::Attach { to: holder, .. } | Self::Detach { from: holder, .. } => match holder {
                PolicyHolder::User(_) => "ChangeUser",
                PolicyHolder::Group(_) => "ChangeGroup",
            },
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
        })
    }
}
