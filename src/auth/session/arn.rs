//! The names of senders in the form of IAM (IAM user guide, "IAM identifiers").

use crate::base::Timestamp;
use crate::base::digest::Sha256;

/// The account of all users and roles. In what clients send, another one or none passes.
pub const ACCOUNT: &str = "000000000000";

/// The characters of unique ids.
const ID_ALPHABET: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
/// Their length after the prefix.
const ID_LEN: usize = 17;

/// The kinds of names in the users file that have ARNs and unique ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameKind {
    User,
    Role,
    Group,
    Policy,
}

impl NameKind {
    fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Role => "role",
            Self::Group => "group",
            Self::Policy => "policy",
        }
    }

    /// The ARN of what is called `name`.
    pub fn arn(self, name: &str) -> String {
        format!("arn:aws:iam::{ACCOUNT}:{}/{name}", self.as_str())
    }

    /// An id that another of the same kind and name, made later, does not have.
    pub fn unique_id(self, name: &str, created: Option<Timestamp>) -> String {
        let prefix = match self {
            Self::User => "AIDA",
            Self::Role => "AROA",
            Self::Group => "AGPA",
            Self::Policy => "ANPA",
        };
        let created = created.map_or(0, Timestamp::as_millis);
        let digest = Sha256::of(format!("{prefix} {created} {name}").as_bytes());
        let letters = digest.iter().take(ID_LEN).map(|byte| char::from(ID_ALPHABET[usize::from(byte % 32)]));
        prefix.chars().chain(letters).collect()
    }
}

/// The ARN of a session of a role.
pub(in crate::auth) fn assumed_role(role: &str, session: &str) -> String {
    format!("arn:aws:sts::{ACCOUNT}:assumed-role/{role}/{session}")
}

/// The ARN of a service account, which AWS does not have.
pub(in crate::auth) fn service_account(user: &str, name: &str) -> String {
    format!("arn:aws:iam::{ACCOUNT}:service-account/{user}/{name}")
}

/// The ARN of a federated user.
pub(in crate::auth) fn federated_user(name: &str) -> String {
    format!("arn:aws:sts::{ACCOUNT}:federated-user/{name}")
}

/// The name of the role that an ARN of any account names, without its path; `None` for other text.
pub(in crate::auth) fn role_of(arn: &str) -> Option<&str> {
    name_of(arn, "role/")
}

/// The name of the role of which an ARN names a session; `None` for other text.
pub(in crate::auth) fn role_of_session(arn: &str) -> Option<&str> {
    let (_, rest) = arn.split_once(":assumed-role/")?;
    rest.split('/').next()
}

/// The name of the policy that an ARN of any account names, likewise.
pub(in crate::auth) fn policy_of(arn: &str) -> Option<&str> {
    name_of(arn, "policy/")
}

/// The ARN of a provider of identities. `name` is its URL without the scheme.
pub fn provider_arn(name: &str) -> String {
    format!("arn:aws:iam::{ACCOUNT}:oidc-provider/{name}")
}

/// The name of the provider that an ARN of this account, or of none, names; `None` for other text.
/// It may hold colons, of a port, and slashes.
pub fn provider_of_arn(arn: &str) -> Option<&str> {
    let (account, resource) = arn.strip_prefix("arn:aws:iam::")?.split_once(':')?;
    let is_ours = account == ACCOUNT || account.is_empty();
    resource.strip_prefix("oidc-provider/").filter(|name| is_ours && !name.is_empty())
}

fn name_of<'a>(arn: &'a str, kind: &str) -> Option<&'a str> {
    let parts: Vec<_> = arn.splitn(6, ':').collect();
    let &["arn", _, "iam", _, _, resource] = parts.as_slice() else { return None };
    let path = resource.strip_prefix(kind)?;
    path.rsplit('/').next().filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_are_named_by_arns_of_any_account() {
        for arn in [
            "arn:aws:iam::000000000000:role/lake",
            "arn:aws:iam:::role/lake",
            "arn:minio:iam::1:role/teams/a/lake",
            &NameKind::Role.arn("lake"),
        ] {
            assert_eq!(role_of(arn), Some("lake"), "{arn}");
        }
        for arn in ["lake", "arn:aws:iam::1:user/lake", "arn:aws:iam::1:role/", "arn:aws:s3:::role/lake", ""]
        {
            assert_eq!(role_of(arn), None, "{arn}");
        }
        assert_eq!(role_of_session(&assumed_role("lake", "job")), Some("lake"));
        assert_eq!(role_of_session(&federated_user("guest")), None);
        assert_eq!(policy_of("arn:aws:iam::aws:policy/service-role/readonly"), Some("readonly"));
        assert_eq!(policy_of("arn:aws:iam::1:role/readonly"), None);
    }

    #[test]
    fn ids_are_of_the_creation() {
        let created = Some(Timestamp::from_millis(1));
        let id = NameKind::User.unique_id("ann", created);
        assert_eq!((id.len(), &id[..4]), (21, "AIDA"));
        assert_eq!(id, NameKind::User.unique_id("ann", created));
        for other in [
            NameKind::User.unique_id("ann", None),
            NameKind::User.unique_id("bob", created),
            NameKind::Role.unique_id("ann", created),
        ] {
            assert_ne!(id[4..], other[4..]);
        }
    }
}
