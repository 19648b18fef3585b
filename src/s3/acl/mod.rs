//! Access control lists (S3 user guide, "Access control list (ACL) overview"): the permissions of
//! the two predefined groups and of users by their names, which are their canonical ids. The owner
//! has all of them, unless a list of grants was put that gives him less.
//!
//! - `request`: the ACL that the headers of a request ask for.
//! - `document`: ACLs in XML.

mod document;
mod request;

use crate::base::Timestamp;

pub use document::{GRANTS_ROOT, POLICY_ROOT};
pub use request::{OwnerShare, RequestedAcl, RequestedGrant};

/// The group of S3's service that delivers logs. It has no members here, so its grants are kept for
/// those who read the list, and let nobody in. No user has a name like it.
pub const LOG_DELIVERY: &str = "http://acs.amazonaws.com/groups/s3/LogDelivery";

/// Stands in a list of grants that says what the owner has: without it he has all permissions. It
/// is never shown, and no user has a name like it (data-format.md, sections 6 and 7).
const LISTS_OWNER: &str = "urn:siltstone:acl:lists-owner";

/// The name of all permissions in a document.
const FULL_CONTROL: &str = "FULL_CONTROL";

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

/// A set of permissions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AclPermissions(u8);

impl AclPermissions {
    /// No permission.
    pub const NONE: Self = Self(0);
    /// All permissions: `FULL_CONTROL`.
    pub const ALL: Self = Self(15);

    /// The permissions of these bits, one for each in their order. Others are ignored.
    pub fn from_bits(bits: u8) -> Self {
        Self(bits & Self::ALL.0)
    }

    /// The bits.
    pub fn bits(self) -> u8 {
        self.0
    }

    /// The set of these permissions.
    pub fn of(permissions: &[AclPermission]) -> Self {
        Self(permissions.iter().fold(0, |bits, permission| bits | 1 << *permission as u8))
    }

    /// The permissions of both.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Those that are in both.
    #[must_use]
    pub fn only(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Whether it has a permission.
    pub fn includes(self, permission: AclPermission) -> bool {
        self.0 & 1 << permission as u8 != 0
    }
}

/// A user as ACLs know him: by his name, and by the time when he was made, so that he gets nothing
/// that an earlier user of his name was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AclUser<'u> {
    /// The name, which is the canonical id.
    pub name: &'u str,
    /// When he was made; `None` where the users file does not say so, and the name alone counts.
    pub created: Option<Timestamp>,
}

impl AclUser<'_> {
    /// Whether a list that has had this name since then means him.
    pub fn is_meant(self, name: &str, since: Timestamp) -> bool {
        self.name == name && self.created.is_none_or(|created| created <= since)
    }
}

/// Whether a grant is the mark of a list that says what the owner has.
pub fn is_mark_of_listed_owner(grantee: &str) -> bool {
    grantee == LISTS_OWNER
}

/// A grant to a user by his name, or to the group of log delivery by its URI.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedGrant {
    /// The canonical id of the user.
    pub grantee: String,
    /// When it was given.
    pub since: Timestamp,
    /// What it grants.
    pub permissions: AclPermissions,
}

/// An ACL: what it grants beside the full control of the owner.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Acl {
    /// To the predefined groups.
    pub groups: GroupGrants,
    /// To users, in their order. A user may have several.
    pub users: Vec<NamedGrant>,
}

impl Acl {
    /// The canned ACL `private`.
    pub const PRIVATE: Self = Self { groups: GroupGrants::NONE, users: Vec::new() };

    /// Whether nobody but the owner has a permission, and he has all of them.
    pub fn is_private(&self) -> bool {
        self.groups == GroupGrants::NONE && self.users.is_empty()
    }

    /// Whether it gives nothing to anybody but this owner.
    pub fn is_private_of(&self, owner: &str) -> bool {
        let mut grantees = self.users.iter().map(|grant| grant.grantee.as_str());
        self.groups == GroupGrants::NONE && grantees.all(|name| name == owner || name == LISTS_OWNER)
    }

    /// The mark of a list that says what the owner has.
    pub fn mark_of_listed_owner(since: Timestamp) -> NamedGrant {
        NamedGrant { grantee: LISTS_OWNER.to_owned(), since, permissions: AclPermissions::ALL }
    }

    /// Whether it is a list that says what the owner has.
    fn lists_owner(&self) -> bool {
        self.users.iter().any(|grant| is_mark_of_listed_owner(&grant.grantee))
    }

    /// What it grants a user by his name.
    pub fn permissions_of(&self, user: AclUser<'_>) -> AclPermissions {
        let meant = self.users.iter().filter(|grant| user.is_meant(&grant.grantee, grant.since));
        meant.fold(AclPermissions::NONE, |all, grant| all.with(grant.permissions))
    }
}

/// The permissions that an ACL grants the two groups, one bit each.
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

    /// The grants of both.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The permissions to read alone.
    #[must_use]
    pub fn readable(self) -> Self {
        let everyone = Self::bit(AclGroup::AllUsers, AclPermission::Read);
        let signed_in = Self::bit(AclGroup::AuthenticatedUsers, AclPermission::Read);
        Self(self.0 & (everyone | signed_in))
    }

    /// Whether a group has a permission. S3 calls such ACLs public, since everybody can get keys.
    pub fn is_public(self) -> bool {
        self != Self::NONE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grant_means_the_user_who_had_the_name_when_it_was_given() {
        let at = Timestamp::from_millis;
        let grant = |grantee: &str, since, permission| NamedGrant {
            grantee: grantee.to_owned(),
            since: at(since),
            permissions: AclPermissions::of(&[permission]),
        };
        let users = vec![
            grant("bob", 10, AclPermission::Read),
            grant("bob", 20, AclPermission::WriteAcp),
            grant("eve", 10, AclPermission::Write),
        ];
        let acl = Acl { users, ..Acl::PRIVATE };
        let of = |name, created: Option<u64>| {
            let user = AclUser { name, created: created.map(at) };
            let permissions = acl.permissions_of(user);
            AclPermission::ALL.map(|permission| permissions.includes(permission))
        };
        assert_eq!(of("bob", None), [true, false, false, true], "the file does not say when");
        assert_eq!(of("bob", Some(10)), [true, false, false, true]);
        assert_eq!(of("bob", Some(11)), [false, false, false, true], "made anew after the first grant");
        assert_eq!(of("bob", Some(21)), [false; 4]);
        assert_eq!(of("ann", None), [false; 4]);
        assert!(!acl.is_private() && Acl::PRIVATE.is_private());
    }

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
