//! Access control lists (S3 user guide, "Access control list (ACL) overview"): the permissions of
//! the two predefined groups. The owner always has all of them.
//!
//! - `request`: the ACL that the headers of a request ask for.
//! - `document`: ACLs in XML.

mod document;
mod request;

pub use document::{GRANTS_ROOT, POLICY_ROOT};
pub use request::RequestedAcl;

/// A permission of an ACL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AclPermission {
    /// To list a bucket, or to read an object.
    Read,
    /// To put objects into a bucket.
    Write,
    /// To read the ACL.
    ReadAcp,
    /// To replace the ACL.
    WriteAcp,
}

impl AclPermission {
    /// All permissions.
    pub const ALL: [Self; 4] = [Self::Read, Self::Write, Self::ReadAcp, Self::WriteAcp];

    /// The name in a document.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "READ",
            Self::Write => "WRITE",
            Self::ReadAcp => "READ_ACP",
            Self::WriteAcp => "WRITE_ACP",
        }
    }

    /// The permissions of a name in a document; `FULL_CONTROL` stands for all.
    fn named(name: &str) -> Option<&'static [Self]> {
        const FULL_CONTROL: &str = "FULL_CONTROL";
        let at = Self::ALL.iter().position(|permission| permission.as_str() == name);
        at.map(|at| &Self::ALL[at..=at]).or((name == FULL_CONTROL).then_some(&Self::ALL))
    }
}

/// A predefined group of an ACL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AclGroup {
    /// All senders, anonymous ones included.
    AllUsers,
    /// All users with keys.
    AuthenticatedUsers,
}

impl AclGroup {
    /// Both groups.
    pub const ALL: [Self; 2] = [Self::AllUsers, Self::AuthenticatedUsers];

    /// The URI that names it.
    pub fn uri(self) -> &'static str {
        match self {
            Self::AllUsers => "http://acs.amazonaws.com/groups/global/AllUsers",
            Self::AuthenticatedUsers => "http://acs.amazonaws.com/groups/global/AuthenticatedUsers",
        }
    }
}

/// The permissions that an ACL grants beside the owner's, one bit each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GroupGrants(u8);

impl GroupGrants {
    /// Nothing granted: the canned ACL `private`.
    pub const NONE: Self = Self(0);

    /// The grants of these bits.
    pub fn from_bits(bits: u8) -> Self {
        Self(bits)
    }

    /// The bits: one for each permission in their order, first of all users, then of users with
    /// keys.
    pub fn bits(self) -> u8 {
        self.0
    }

    fn bit(group: AclGroup, permission: AclPermission) -> u8 {
        1 << (group as u8 * 4 + permission as u8)
    }

    /// The same grants with one more.
    #[must_use]
    pub fn with(self, group: AclGroup, permission: AclPermission) -> Self {
        Self(self.0 | Self::bit(group, permission))
    }

    /// Whether a group has a permission.
    pub fn includes(self, group: AclGroup, permission: AclPermission) -> bool {
        self.0 & Self::bit(group, permission) != 0
    }

    /// The permissions to read alone.
    #[must_use]
    pub fn readable(self) -> Self {
        let everyone = Self::bit(AclGroup::AllUsers, AclPermission::Read);
        let signed_in = Self::bit(AclGroup::AuthenticatedUsers, AclPermission::Read);
        Self(self.0 & (everyone | signed_in))
    }

    /// Whether anybody but the owner has a permission. S3 calls such ACLs public, since everybody
    /// can get keys.
    pub fn is_public(self) -> bool {
        self != Self::NONE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_permission_of_each_group_has_a_bit_of_its_own() {
        let mut all = GroupGrants::NONE;
        for group in AclGroup::ALL {
            for permission in AclPermission::ALL {
                assert!(!all.includes(group, permission));
                all = all.with(group, permission);
                assert!(all.includes(group, permission) && all.is_public());
            }
        }
        assert_eq!(all.bits(), u8::MAX);
        let read = GroupGrants::NONE.with(AclGroup::AllUsers, AclPermission::Read);
        assert_eq!(all.readable(), read.with(AclGroup::AuthenticatedUsers, AclPermission::Read));
        let write = GroupGrants::NONE.with(AclGroup::AllUsers, AclPermission::Write);
        assert_eq!(write.readable(), GroupGrants::NONE);
        assert_eq!(GroupGrants::from_bits(all.bits()), all);
    }
}
