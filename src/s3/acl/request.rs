//! The ACL that a request asks for: a canned one or grants.

use super::{AclGroup, AclPermission, AclPermissions, GroupGrants, LOG_DELIVERY};
use crate::base::limits::{ACL_GRANTS_MAX, ACL_NAMES_MAX_BYTES};
use crate::s3::{ErrorCode, S3Error, VendorHeaders};

/// The headers that grant, and the permissions of each.
const GRANT_HEADERS: [(&str, &[AclPermission]); 5] = [
    ("grant-read", &[AclPermission::Read]),
    ("grant-write", &[AclPermission::Write]),
    ("grant-read-acp", &[AclPermission::ReadAcp]),
    ("grant-write-acp", &[AclPermission::WriteAcp]),
    ("grant-full-control", &AclPermission::ALL),
];

/// What a canned ACL gives the owner of the bucket of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OwnerShare {
    /// Nothing.
    #[default]
    None,
    /// `bucket-owner-read`.
    Read,
    /// `bucket-owner-full-control`.
    FullControl,
}

/// A grant to a user that a request asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestedGrant {
    /// The canonical id of the user, or the URI of the group of log delivery.
    pub grantee: String,
    /// The permissions.
    pub permissions: AclPermissions,
}

impl RequestedGrant {
    /// Whether it can have `more`, too, and still be shown as granted: all permissions in one grant
    /// are `FULL_CONTROL`.
    fn can_show(&self, more: AclPermissions) -> bool {
        let is_full = self.permissions == AclPermissions::ALL;
        let both = self.permissions.with(more);
        is_full == (more == AclPermissions::ALL) && is_full == (both == AclPermissions::ALL)
    }
}

/// An ACL that a request asks for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RequestedAcl {
    /// What it grants the predefined groups.
    pub groups: GroupGrants,
    /// What it grants users. One has two entries at most: S3 shows `FULL_CONTROL` and the four
    /// permissions as they were granted, also beside each other.
    pub users: Vec<RequestedGrant>,
    /// What a canned ACL grants the owner of the bucket.
    pub share: OwnerShare,
    /// Whether it is a list of grants, which says what the owner has. Canned ACLs leave him all
    /// permissions.
    pub lists_owner: bool,
    /// Whether it grants something to a service of AWS that is not here.
    grants_to_service: bool,
}

impl RequestedAcl {
    /// The ACL in the headers of a request; `None` where none asks for one.
    ///
    /// # Errors
    /// `InvalidRequest` for a canned ACL beside grants; `InvalidArgument` for an unknown canned ACL
    /// or a malformed grantee; `MalformedACLError` for more grants than a list may have;
    /// `UnresolvableGrantByEmailAddress`.
    pub fn from_headers(vendor: VendorHeaders<'_>) -> Result<Option<Self>, S3Error> {
        let canned = vendor.get_str("acl");
        let mut grants = GRANT_HEADERS
            .iter()
            .filter_map(|(name, permissions)| Some((*name, vendor.get_str(name)?, *permissions)))
            .peekable();
        match (canned, grants.peek()) {
            (None, None) => Ok(None),
            (Some(_), Some(_)) => Err(S3Error::new(ErrorCode::InvalidRequest)
                .message("Specifying both Canned ACLs and Header Grants is not allowed")),
            (Some(name), None) => Self::canned(name, vendor).map(Some),
            (None, Some(_)) => {
                let mut acl = Self::of_list();
                for (name, value, permissions) in grants {
                    acl.add_header(name, value, permissions, vendor)?;
                }
                Ok(Some(acl))
            }
        }
    }

    /// Whether it changes nothing where ACLs are off: the owner of the bucket has full control, and
    /// nobody else anything. `private` with a new object is such a list, since all users are of one
    /// account, and with ACLs off the objects of an account are the bucket owner's.
    pub fn is_without_effect(&self, bucket_owner: &str) -> bool {
        let is_usual = |grant: &RequestedGrant| {
            grant.grantee == bucket_owner && grant.permissions == AclPermissions::ALL
        };
        self.groups == GroupGrants::NONE
            && self.users.iter().all(is_usual)
            && self.share != OwnerShare::Read
            && !self.grants_to_service
    }

    /// Whether it says that the owner of the bucket has full control, and nothing else: the canned
    /// ACL `bucket-owner-full-control`, or the same as a list.
    pub fn is_full_control_of(&self, bucket_owner: &str) -> bool {
        let names_owner = self.share == OwnerShare::FullControl || !self.users.is_empty();
        names_owner && self.is_without_effect(bucket_owner)
    }

    /// An empty list of grants.
    pub(super) fn of_list() -> Self {
        Self { lists_owner: true, ..Self::default() }
    }

    /// What it says that the owner has; `None` for all permissions.
    pub fn listed_of_owner(&self, owner: &str) -> Option<Vec<&RequestedGrant>> {
        let listed: Vec<_> = self.users.iter().filter(|grant| grant.grantee == owner).collect();
        let has_all = listed.iter().any(|grant| grant.permissions == AclPermissions::ALL);
        (self.lists_owner && !has_all).then_some(listed)
    }

    /// Whether it grants nothing to anybody but this owner.
    pub fn is_private(&self, owner: &str) -> bool {
        self.groups == GroupGrants::NONE && self.users.iter().all(|grant| grant.grantee == owner)
    }

    /// A canned ACL (S3 user guide, "Canned ACL"). `aws-exec-read` lets a service of AWS read, which
    /// is not here.
    fn canned(name: &str, vendor: VendorHeaders<'_>) -> Result<Self, S3Error> {
        use AclGroup::{AllUsers, AuthenticatedUsers};
        use AclPermission::{Read, Write};
        let none = GroupGrants::NONE;
        let mut acl = Self::default();
        match name {
            "private" => {}
            "bucket-owner-full-control" => acl.share = OwnerShare::FullControl,
            "bucket-owner-read" => acl.share = OwnerShare::Read,
            "public-read" => acl.groups = none.with(AllUsers, Read),
            "public-read-write" => acl.groups = none.with(AllUsers, Read).with(AllUsers, Write),
            "authenticated-read" => acl.groups = none.with(AuthenticatedUsers, Read),
            "aws-exec-read" => acl.grants_to_service = true,
            "log-delivery-write" => acl.add_user(LOG_DELIVERY, &[Write, AclPermission::ReadAcp])?,
            unknown => {
                let header = format!("{}acl", vendor.dialect().header_prefix());
                return Err(S3Error::invalid_argument(&header, unknown, "There is no such canned ACL."));
            }
        }
        Ok(acl)
    }

    /// Adds the grants of a header: `uri="..."`, `id="..."` and `emailAddress="..."`, separated by
    /// commas.
    fn add_header(
        &mut self,
        name: &str,
        value: &str,
        permissions: &[AclPermission],
        vendor: VendorHeaders<'_>,
    ) -> Result<(), S3Error> {
        for grantee in value.split(',') {
            let parsed = grantee
                .trim()
                .split_once('=')
                .map(|(kind, text)| (kind.trim(), text.trim().trim_matches('"')));
            let is_known = match parsed {
                Some(("uri", uri)) => self.add_group(uri, permissions)?,
                Some(("id", id)) => {
                    self.add_user(id, permissions)?;
                    true
                }
                Some(("emailAddress", address)) => return Err(no_such_address(address)),
                _ => false,
            };
            if !is_known {
                let header = format!("{}{name}", vendor.dialect().header_prefix());
                return Err(S3Error::invalid_argument(&header, grantee.trim(), "There is no such grantee."));
            }
        }
        Ok(())
    }

    /// Adds a grant to a group. Returns whether there is one of this URI.
    ///
    /// # Errors
    /// As [`Self::add_user`].
    pub(super) fn add_group(&mut self, uri: &str, permissions: &[AclPermission]) -> Result<bool, S3Error> {
        if uri == LOG_DELIVERY {
            self.add_user(uri, permissions)?;
            return Ok(true);
        }
        let Some(group) = AclGroup::ALL.into_iter().find(|group| group.uri() == uri) else {
            return Ok(false);
        };
        for permission in permissions {
            self.groups = self.groups.with(group, *permission);
        }
        Ok(true)
    }

    /// Adds a grant to a user.
    ///
    /// # Errors
    /// `MalformedACLError` for more grants than a list may have.
    pub(super) fn add_user(&mut self, id: &str, permissions: &[AclPermission]) -> Result<(), S3Error> {
        let permissions = AclPermissions::of(permissions);
        let of_user = self.users.iter_mut().filter(|grant| grant.grantee == id);
        for grant in of_user {
            if grant.can_show(permissions) {
                grant.permissions = grant.permissions.with(permissions);
                return Ok(());
            }
        }
        let bytes: usize = self.users.iter().map(|grant| grant.grantee.len()).sum();
        if self.users.len() >= ACL_GRANTS_MAX || bytes + id.len() > ACL_NAMES_MAX_BYTES {
            return Err(S3Error::new(ErrorCode::MalformedACLError).message(format!(
                "An ACL names at most {ACL_GRANTS_MAX} users, one with FULL_CONTROL beside other grants twice, with names of {ACL_NAMES_MAX_BYTES} bytes in all."
            )));
        }
        self.users.push(RequestedGrant { grantee: id.to_owned(), permissions });
        Ok(())
    }
}

/// No user has an e-mail address, so that none is found by one.
pub(super) fn no_such_address(address: &str) -> S3Error {
    S3Error::new(ErrorCode::UnresolvableGrantByEmailAddress)
        .message("Users have no e-mail addresses here. Name them by their id.")
        .element("EmailAddress", address)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::s3::{Dialect, Headers};

    fn requested(lines: &[(&str, &str)]) -> Result<Option<RequestedAcl>, ErrorCode> {
        let mut headers = Headers::default();
        for (name, value) in lines {
            headers.push(&format!("x-amz-{name}"), value.as_bytes());
        }
        RequestedAcl::from_headers(VendorHeaders::new(&headers, Dialect::Aws)).map_err(|error| error.code)
    }

    fn groups(of: &[(AclGroup, AclPermission)]) -> GroupGrants {
        of.iter().fold(GroupGrants::NONE, |grants, (group, permission)| grants.with(*group, *permission))
    }

    fn user(name: &str, permissions: &[AclPermission]) -> RequestedGrant {
        RequestedGrant { grantee: name.to_owned(), permissions: AclPermissions::of(permissions) }
    }

    #[test]
    fn canned_acls_stand_for_their_grants() {
        use AclGroup::{AllUsers, AuthenticatedUsers};
        use AclPermission::{Read, ReadAcp, Write};
        assert_eq!(requested(&[]), Ok(None));
        let share = |share| RequestedAcl { share, ..RequestedAcl::default() };
        let public = |of: &[_]| RequestedAcl { groups: groups(of), ..RequestedAcl::default() };
        let logs = vec![user(LOG_DELIVERY, &[Write, ReadAcp])];
        for (name, expected, is_without_effect) in [
            ("private", RequestedAcl::default(), true),
            ("bucket-owner-full-control", share(OwnerShare::FullControl), true),
            ("bucket-owner-read", share(OwnerShare::Read), false),
            ("public-read", public(&[(AllUsers, Read)]), false),
            ("public-read-write", public(&[(AllUsers, Read), (AllUsers, Write)]), false),
            ("authenticated-read", public(&[(AuthenticatedUsers, Read)]), false),
            ("aws-exec-read", RequestedAcl { grants_to_service: true, ..RequestedAcl::default() }, false),
            ("log-delivery-write", RequestedAcl { users: logs, ..RequestedAcl::default() }, false),
        ] {
            assert_eq!(expected.is_without_effect("ann"), is_without_effect, "{name}");
            assert_eq!(expected.is_full_control_of("ann"), name == "bucket-owner-full-control", "{name}");
            assert_eq!(requested(&[("acl", name)]), Ok(Some(expected)), "{name}");
        }
        for name in ["", "public", "Private"] {
            assert_eq!(requested(&[("acl", name)]), Err(ErrorCode::InvalidArgument));
        }
    }

    #[test]
    fn headers_grant_to_groups_and_to_users() {
        use AclPermission::{Read, Write, WriteAcp};
        let all = "uri=\"http://acs.amazonaws.com/groups/global/AllUsers\"";
        let signed = "uri=http://acs.amazonaws.com/groups/global/AuthenticatedUsers";
        let both = requested(&[
            ("grant-read", &format!("{all}, id=\"ann\" ,{signed}, id=bob")),
            ("grant-write-acp", all),
            ("grant-write", "id=bob"),
        ]);
        let expected = RequestedAcl {
            groups: groups(&[
                (AclGroup::AllUsers, Read),
                (AclGroup::AuthenticatedUsers, Read),
                (AclGroup::AllUsers, WriteAcp),
            ]),
            users: vec![user("ann", &[Read]), user("bob", &[Read, Write])],
            lists_owner: true,
            ..RequestedAcl::default()
        };
        assert_eq!(both, Ok(Some(expected)));
        let full = requested(&[("grant-full-control", all)]).unwrap().unwrap();
        let has_all = |permission| full.groups.includes(AclGroup::AllUsers, permission);
        assert!(AclPermission::ALL.into_iter().all(has_all));
        for (name, of_owner, without_effect) in [
            ("grant-full-control", "id=ann", true),
            ("grant-read", "id=ann", false),
            ("grant-read", "id=bob", false),
        ] {
            let acl = requested(&[(name, of_owner)]).unwrap().unwrap();
            assert_eq!(acl.is_without_effect("ann"), without_effect, "{name} {of_owner}");
            assert_eq!(acl.is_full_control_of("ann"), without_effect, "{name} {of_owner}");
            assert_eq!(acl.is_private("ann"), of_owner == "id=ann");
        }
        let logs = requested(&[("grant-write", &format!("uri={LOG_DELIVERY}"))]).unwrap().unwrap();
        assert_eq!(logs.users, [user(LOG_DELIVERY, &[Write])]);
        let by_address = requested(&[("grant-read", "emailAddress=\"bob@example.org\"")]);
        assert_eq!(by_address, Err(ErrorCode::UnresolvableGrantByEmailAddress));
        for value in ["", "bob", "uri=http://example.org/", "name=bob", "id=ann,"] {
            assert_eq!(requested(&[("grant-read", value)]), Err(ErrorCode::InvalidArgument), "{value}");
        }
        assert_eq!(requested(&[("acl", "private"), ("grant-read", all)]), Err(ErrorCode::InvalidRequest));
    }

    #[test]
    fn full_control_and_its_parts_stay_as_they_were_granted() {
        use AclPermission::{Read, ReadAcp, Write, WriteAcp};
        let of = |headers: &[&str]| {
            let lines: Vec<_> = headers.iter().map(|name| (*name, "id=bob")).collect();
            requested(&lines).unwrap().unwrap().users
        };
        let parts = ["grant-read", "grant-write", "grant-read-acp", "grant-write-acp"];
        let three = user("bob", &[Read, Write, ReadAcp]);
        assert_eq!(of(&parts), [three.clone(), user("bob", &[WriteAcp])]);
        let full = user("bob", &AclPermission::ALL);
        assert_eq!(of(&["grant-full-control"]), std::slice::from_ref(&full));
        assert_eq!(of(&["grant-read", "grant-full-control"]), [user("bob", &[Read]), full]);
        let twice = requested(&[("grant-full-control", "id=bob, id=bob"), ("grant-read", "id=bob, id=bob")]);
        assert_eq!(twice.unwrap().unwrap().users.len(), 2);
        assert!(!three.can_show(AclPermissions::of(&[WriteAcp])));
    }

    #[test]
    fn the_number_of_users_and_the_bytes_of_their_names_are_bounded() {
        let named = |count: usize, name: &dyn Fn(usize) -> String| {
            let ids: Vec<_> = (0..count).map(|nth| format!("id={}", name(nth))).collect();
            requested(&[("grant-read", &ids.join(","))]).map(|acl| acl.unwrap().users.len())
        };
        let short = |nth| format!("user-{nth}");
        assert_eq!(named(ACL_GRANTS_MAX, &short), Ok(ACL_GRANTS_MAX));
        assert_eq!(named(ACL_GRANTS_MAX + 1, &short), Err(ErrorCode::MalformedACLError));
        assert_eq!(named(1_000, &|_| "bob".to_owned()), Ok(1));
        let long = |nth| format!("{}{nth}", "x".repeat(ACL_NAMES_MAX_BYTES / 2));
        assert_eq!(named(1, &long), Ok(1));
        assert_eq!(named(2, &long), Err(ErrorCode::MalformedACLError));
    }
}
