//! The users of the server, as administrators see and change them.

use std::collections::BTreeMap;

use super::Service;
use super::iam_changes::IamChange;
use super::policies::{GroupEntry, PolicyChange, PolicyEntry, ProviderEntry, RoleEntry};
use crate::auth::{Action, Identity, KeyPair, OidcPerson, Users};
use crate::s3::Request;

/// Actions on resources, in the form of the users file (`[[user.allow]]`).
#[derive(Debug, Clone, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub struct GrantEntry {
    /// The names of the actions; `*` for all.
    pub actions: Vec<String>,
    /// The resources: buckets (`b`, `b*`), keys (`b/k`, `b/k*`, `b*/k*`), `@owned` or `*`.
    pub resources: Vec<String>,
}

impl GrantEntry {
    /// All actions on all resources.
    pub fn everything() -> Self {
        Self { actions: vec!["*".to_owned()], resources: vec!["*".to_owned()] }
    }

    /// Whether it grants all actions on all resources.
    pub fn is_everything(&self) -> bool {
        self.actions.iter().any(|action| action == "*")
            && self.resources.iter().any(|resource| resource == "*")
    }
}

/// A user without its secrets.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
pub struct UserEntry {
    pub name: String,
    /// The access keys, the previous one last; none of the anonymous user.
    pub access_keys: Vec<String>,
    pub allow: Vec<GrantEntry>,
    /// The names of its policies, and documents.
    #[serde(default)]
    pub policies: Vec<String>,
    /// The names of its groups.
    #[serde(default)]
    pub groups: Vec<String>,
    /// Those of its access keys that sign nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inactive_keys: Vec<String>,
    /// Documents of policies that belong to it alone, by their names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub inline_policies: BTreeMap<String, String>,
    /// When it was made, where the users file knows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created: Option<String>,
    /// When its access keys were made, by key, where the users file knows it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub keys_created: BTreeMap<String, String>,
    /// Its unique id in IAM.
    #[serde(skip)]
    pub id: String,
    /// Its service accounts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub service_accounts: Vec<ServiceAccountEntry>,
    /// Whether it signs requests and one of its grants is for everything.
    pub administrator: bool,
    /// Whether its keys come from the environment of the server, so that they are changed there.
    pub from_environment: bool,
}

/// A service account without its secret.
#[derive(Debug, Clone, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
pub struct ServiceAccountEntry {
    pub name: String,
    pub access_key: String,
    /// When its keys end; none for keys without an end.
    #[serde(default)]
    pub expires: Option<String>,
    /// When it was made, where the users file knows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created: Option<String>,
    /// The policies that narrow it, by name or as documents; none for an account that has all
    /// rights of its user.
    #[serde(default)]
    pub policies: Option<Vec<String>>,
}

/// A service account that is to be made.
#[derive(Debug, Clone, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub struct NewServiceAccount {
    /// Its name, which no other service account has.
    pub name: String,
    /// The document of a policy, or the name of one, beyond which it may do nothing.
    #[serde(default)]
    pub policy: Option<String>,
    /// When its keys end, as `2026-12-31T00:00:00Z`.
    #[serde(default)]
    pub expires: Option<String>,
}

/// A change of one user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UserChange {
    /// A new user with keys that the server makes; `anonymous` has none.
    Create { name: String, allow: Vec<GrantEntry> },
    /// Other grants in place of those that the user has.
    SetGrants { name: String, allow: Vec<GrantEntry> },
    /// New keys. The current ones stay valid as the previous ones.
    RotateKeys { name: String },
    /// The end of the previous keys.
    RemovePreviousKeys { name: String },
    /// The end of all sessions of a user or a role that were issued up to now.
    RevokeSessions { name: String },
    /// The end of the user, also as a member of groups. Its buckets and objects stay.
    Delete { name: String },
    /// A new service account of a user.
    CreateServiceAccount { user: String, account: NewServiceAccount },
    /// The end of a service account.
    DeleteServiceAccount { user: String, account: String },
    /// A policy, a group, or who has a policy.
    Policies(PolicyChange),
    /// What IAM's calls ask for beyond the API.
    Iam(IamChange),
}

impl UserChange {
    /// The name of the user, the group or the policy.
    pub fn name(&self) -> &str {
        match self {
            Self::Create { name, .. }
            | Self::SetGrants { name, .. }
            | Self::RotateKeys { name }
            | Self::RemovePreviousKeys { name }
            | Self::RevokeSessions { name }
            | Self::Delete { name } => name,
            Self::CreateServiceAccount { user, .. } | Self::DeleteServiceAccount { user, .. } => user,
            Self::Policies(change) => change.subject(),
            Self::Iam(change) => change.subject(),
        }
    }

    /// Whether the user gets new keys by it.
    pub fn makes_keys(&self) -> bool {
        let makes = match self {
            Self::Create { .. } | Self::RotateKeys { .. } | Self::CreateServiceAccount { .. } => true,
            Self::Iam(change) => matches!(change, IamChange::AddKey { .. }),
            _ => false,
        };
        makes && self.name() != Users::ANONYMOUS
    }

    /// The permission that it takes.
    fn action(&self) -> Action {
        match self {
            Self::Create { .. } => Action::AdminCreateUser,
            // Who may put policies on others has every permission.
            Self::SetGrants { .. } | Self::Policies(_) => Action::AdminSetGrants,
            Self::RotateKeys { .. }
            | Self::RemovePreviousKeys { .. }
            | Self::RevokeSessions { .. }
            | Self::CreateServiceAccount { .. }
            | Self::DeleteServiceAccount { .. } => Action::AdminRotateKeys,
            Self::Delete { .. } => Action::AdminDeleteUser,
            Self::Iam(change) => change.action(),
        }
    }

    /// Whether it gives rights. Who may do that has every permission, also where he gives them to a
    /// user whom he makes.
    fn gives_rights(&self) -> bool {
        matches!(self, Self::Create { allow, .. } if !allow.is_empty())
    }

    /// Whether it is one that users make for themselves.
    fn is_of_own(&self, identity: &Identity) -> bool {
        let is_of_account =
            matches!(self, Self::CreateServiceAccount { .. } | Self::DeleteServiceAccount { .. });
        is_of_account && signs_for_itself(identity, self.name())
    }

    /// The name of the change in the audit log.
    pub fn audited_as(&self) -> &'static str {
        match self {
            Self::Create { .. } => "CreateUser",
            Self::SetGrants { .. } => "ChangeUser",
            Self::RotateKeys { .. } | Self::RemovePreviousKeys { .. } => "RotateKeys",
            Self::RevokeSessions { .. } => "RevokeSessions",
            Self::Delete { .. } => "DeleteUser",
            Self::CreateServiceAccount { .. } => "CreateServiceAccount",
            Self::DeleteServiceAccount { .. } => "DeleteServiceAccount",
            Self::Policies(change) => change.audited_as(),
            Self::Iam(change) => change.audited_as(),
        }
    }
}

/// The sender of a change.
#[derive(Debug, Clone, Copy)]
pub struct ChangeSender<'s> {
    pub user: &'s str,
    /// The person who acts as the user, where an OpenID provider vouched for it.
    pub person: Option<&'s OidcPerson>,
    /// The ARN of the session whose keys signed.
    pub session: Option<&'s str>,
    /// The access key that signed, or that a session of the console stands for.
    pub access_key: Option<&'s str>,
    /// The number of the session of the console.
    pub console_session: Option<u64>,
    /// The address of the client.
    pub peer: &'s str,
}

/// A change, or a question, that was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UserError {
    /// The sender lacks the permission.
    #[error("this takes the permission {0}, which is granted on `*` alone")]
    Denied(Action),
    /// Nothing of that kind has the name.
    #[error("there is no {kind} `{name}`")]
    Unknown { kind: &'static str, name: String },
    /// The name is another's, perhaps but for upper and lower case.
    #[error("there is a {kind} `{name}` already")]
    Taken { kind: &'static str, name: String },
    /// What the change names beside its subject is not there. The message says what.
    #[error("{0}")]
    Missing(String),
    /// What is to be removed is still of use. The message says for what.
    #[error("{0}")]
    InUse(String),
    /// There may not be more of them.
    #[error("{0}")]
    TooMany(String),
    /// The change is not sound. The message says why.
    #[error("{0}")]
    Invalid(String),
    /// The state of the server does not allow it. The message says why.
    #[error("{0}")]
    Refused(String),
    /// The users file or the audit log could not be read or written, or this server has no users
    /// file.
    #[error("{0}")]
    Failed(String),
}

/// The users of a server: the users file, and those who come from the environment.
pub trait UserDirectory: Send + Sync {
    /// The users, in the order of the file.
    ///
    /// # Errors
    /// [`UserError::Failed`].
    fn list(&self) -> Result<Vec<UserEntry>, UserError>;

    /// The policies in the order of the file, then the ready-made ones.
    ///
    /// # Errors
    /// [`UserError::Failed`].
    fn policies(&self) -> Result<Vec<PolicyEntry>, UserError>;

    /// The groups, in the order of the file.
    ///
    /// # Errors
    /// [`UserError::Failed`].
    fn groups(&self) -> Result<Vec<GroupEntry>, UserError>;

    /// The roles, in the order of the file.
    ///
    /// # Errors
    /// [`UserError::Failed`].
    fn roles(&self) -> Result<Vec<RoleEntry>, UserError>;

    /// The providers of identities, in the order of the file.
    ///
    /// # Errors
    /// [`UserError::Failed`].
    fn providers(&self) -> Result<Vec<ProviderEntry>, UserError>;

    /// Makes a change. On return it is durable, in effect from the next request on, and recorded in
    /// the audit log if there is one. Returns new keys, which are shown nowhere else.
    ///
    /// # Errors
    /// All but [`UserError::Denied`]; nothing has changed, unless the message says otherwise.
    fn change(&self, change: &UserChange, sender: ChangeSender<'_>) -> Result<Option<KeyPair>, UserError>;

    /// Adds a key that seals the tokens of sessions, if there is none. On return it is durable and
    /// in effect.
    ///
    /// # Errors
    /// [`UserError::Failed`].
    fn add_sealing_key(&self) -> Result<(), UserError>;

    /// Records an attempt without permission in the audit log.
    fn record_denied(&self, change: &UserChange, sender: ChangeSender<'_>);
}

impl Service {
    /// The users.
    ///
    /// # Errors
    /// As [`UserError`].
    pub fn users(&self, identity: &Identity) -> Result<Vec<UserEntry>, UserError> {
        check(identity, Action::AdminListUsers)?;
        self.directory()?.list()
    }

    /// Changes a user, on behalf of `identity`, who sent `request`. On return the change is durable
    /// and in effect. Returns new keys, which are shown nowhere else.
    ///
    /// # Errors
    /// As [`UserError`].
    pub fn change_user(
        &self,
        identity: &Identity,
        request: &Request<'_>,
        change: &UserChange,
    ) -> Result<Option<KeyPair>, UserError> {
        let directory = self.directory()?;
        let peer = request.peer.map_or_else(String::new, |peer| peer.ip().to_string());
        let person = identity.person().map(|person| &**person);
        let session = identity.session().map(|session| session.arn());
        let sender = ChangeSender {
            user: identity.name(),
            person,
            session,
            access_key: identity.access_key().map(|key| &**key),
            console_session: identity.console_session(),
            peer: &peer,
        };
        // A refused attempt is in the audit log, too: it may be the first sign of a stolen key.
        if let Err(denied) = check_change(identity, change)
            && !change.is_of_own(identity)
        {
            directory.record_denied(change, sender);
            return Err(denied);
        }
        directory.change(change, sender)
    }

    /// The service accounts of a user, for itself and for administrators.
    ///
    /// # Errors
    /// As [`UserError`].
    pub fn service_accounts(
        &self,
        identity: &Identity,
        user: &str,
    ) -> Result<Vec<ServiceAccountEntry>, UserError> {
        if !signs_for_itself(identity, user) {
            check(identity, Action::AdminListUsers)?;
        }
        let found = self.directory()?.list()?.into_iter().find(|entry| entry.name == user);
        let found = found.ok_or_else(|| UserError::Unknown { kind: "user", name: user.to_owned() })?;
        Ok(found.service_accounts)
    }

    /// Whether the sender may make service accounts of the user as whom it acts. It decides what a
    /// page offers, and nothing else.
    pub fn may_make_own_keys(&self, identity: &Identity) -> bool {
        identity.user_in_policies().is_some_and(|user| {
            signs_for_itself(identity, user) || check(identity, Action::AdminRotateKeys).is_ok()
        })
    }

    /// The policies, the ready-made ones last.
    ///
    /// # Errors
    /// As [`UserError`].
    pub fn policies(&self, identity: &Identity) -> Result<Vec<PolicyEntry>, UserError> {
        check(identity, Action::AdminListUsers)?;
        self.directory()?.policies()
    }

    /// The groups.
    ///
    /// # Errors
    /// As [`UserError`].
    pub fn groups(&self, identity: &Identity) -> Result<Vec<GroupEntry>, UserError> {
        check(identity, Action::AdminListUsers)?;
        self.directory()?.groups()
    }

    /// The roles.
    ///
    /// # Errors
    /// As [`UserError`].
    pub fn roles(&self, identity: &Identity) -> Result<Vec<RoleEntry>, UserError> {
        check(identity, Action::AdminListUsers)?;
        self.directory()?.roles()
    }

    /// The providers of identities.
    ///
    /// # Errors
    /// As [`UserError`].
    pub fn providers(&self, identity: &Identity) -> Result<Vec<ProviderEntry>, UserError> {
        check(identity, Action::AdminListUsers)?;
        self.directory()?.providers()
    }

    /// The user who asks, as administrators see it; `None` for a role, and for one that is gone.
    ///
    /// # Errors
    /// [`UserError::Failed`].
    pub fn own_entry(&self, identity: &Identity) -> Result<Option<UserEntry>, UserError> {
        let Some(name) = identity.user_in_policies() else { return Ok(None) };
        Ok(self.directory()?.list()?.into_iter().find(|entry| entry.name == name))
    }

    /// The users, for who may see them.
    ///
    /// # Errors
    /// [`UserError::Failed`] without a users file.
    pub(super) fn directory(&self) -> Result<&dyn UserDirectory, UserError> {
        match &self.users {
            Some(users) => Ok(&**users),
            None => Err(UserError::Failed("this server has no users that could be changed".to_owned())),
        }
    }
}

/// Whether the user signs with keys of its own: neither a session nor a service account makes keys
/// that would have more rights, or last longer. Nor does a person for whom an OpenID provider
/// vouches: the keys would outlast its leave to act as the user.
fn signs_for_itself(identity: &Identity, user: &str) -> bool {
    identity.user_in_policies() == Some(user) && identity.session().is_none() && identity.person().is_none()
}

/// Checks the permissions that a change takes.
///
/// # Errors
/// [`UserError::Denied`].
fn check_change(identity: &Identity, change: &UserChange) -> Result<(), UserError> {
    check(identity, change.action())?;
    if change.gives_rights() {
        check(identity, Action::AdminSetGrants)?;
    }
    Ok(())
}

/// Checks a permission of administration.
///
/// # Errors
/// [`UserError::Denied`].
pub(super) fn check(identity: &Identity, action: Action) -> Result<(), UserError> {
    if identity.may_administer(action) { Ok(()) } else { Err(UserError::Denied(action)) }
}
