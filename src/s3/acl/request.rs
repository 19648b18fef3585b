//! The ACL that a request asks for: a canned one or grants.

use super::{AclGroup, AclPermission, GroupGrants};
use crate::s3::{ErrorCode, S3Error, VendorHeaders};

/// The group that a service for logs belongs to; it has no members here.
const LOG_DELIVERY: &str = "http://acs.amazonaws.com/groups/s3/LogDelivery";

/// The headers that grant, and the permissions of each.
const GRANT_HEADERS: [(&str, &[AclPermission]); 5] = [
    ("grant-read", &[AclPermission::Read]),
    ("grant-write", &[AclPermission::Write]),
    ("grant-read-acp", &[AclPermission::ReadAcp]),
    ("grant-write-acp", &[AclPermission::WriteAcp]),
    ("grant-full-control", &AclPermission::ALL),
];

/// An ACL that a request asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestedAcl {
    /// What it grants the predefined groups.
    pub grants: GroupGrants,
    /// Whether it may be set where ACLs are off: the owner has full control, and nobody else
    /// anything.
    pub is_without_effect: bool,
    /// The first canned ACL or grantee that is not supported.
    pub unserved: Option<String>,
}

impl RequestedAcl {
    /// No grant beside the owner's.
    pub fn private() -> Self {
        Self { grants: GroupGrants::NONE, is_without_effect: true, unserved: None }
    }

    /// The ACL in the headers of a request; `None` where none asks for one. `owner` is the owner of
    /// the bucket.
    ///
    /// # Errors
    /// `InvalidRequest` for a canned ACL beside grants; `InvalidArgument` for an unknown canned ACL
    /// or a malformed grantee.
    pub fn from_headers(vendor: VendorHeaders<'_>, owner: &str) -> Result<Option<Self>, S3Error> {
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
                let mut acl = Self::private();
                for (name, value, permissions) in grants {
                    acl.add_header(name, value, permissions, owner, vendor)?;
                }
                Ok(Some(acl))
            }
        }
    }

    /// A canned ACL (S3 user guide, "Canned ACL").
    fn canned(name: &str, vendor: VendorHeaders<'_>) -> Result<Self, S3Error> {
        use AclGroup::{AllUsers, AuthenticatedUsers};
        use AclPermission::{Read, Write};
        let none = GroupGrants::NONE;
        let grants = match name {
            "private" | "bucket-owner-full-control" => return Ok(Self::private()),
            "bucket-owner-read" => none,
            "public-read" => none.with(AllUsers, Read),
            "public-read-write" => none.with(AllUsers, Read).with(AllUsers, Write),
            "authenticated-read" => none.with(AuthenticatedUsers, Read),
            "aws-exec-read" | "log-delivery-write" => {
                return Ok(Self {
                    unserved: Some(name.to_owned()),
                    is_without_effect: false,
                    ..Self::private()
                });
            }
            unknown => {
                let header = format!("{}acl", vendor.dialect().header_prefix());
                return Err(S3Error::invalid_argument(&header, unknown, "There is no such canned ACL."));
            }
        };
        Ok(Self { grants, is_without_effect: false, unserved: None })
    }

    /// Adds the grants of a header: `uri="..."`, `id="..."` and `emailAddress="..."`, separated by
    /// commas.
    fn add_header(
        &mut self,
        name: &str,
        value: &str,
        permissions: &[AclPermission],
        owner: &str,
        vendor: VendorHeaders<'_>,
    ) -> Result<(), S3Error> {
        for grantee in value.split(',') {
            let parsed = grantee
                .trim()
                .split_once('=')
                .map(|(kind, text)| (kind.trim(), text.trim().trim_matches('"')));
            let known = match parsed {
                Some(("uri", uri)) => self.add_group(uri, permissions).is_some(),
                Some(("id", id)) => {
                    self.add_user(id, owner, permissions);
                    true
                }
                Some(("emailAddress", address)) => {
                    self.add_unserved(address);
                    true
                }
                _ => false,
            };
            if !known {
                let header = format!("{}{name}", vendor.dialect().header_prefix());
                return Err(S3Error::invalid_argument(&header, grantee.trim(), "There is no such grantee."));
            }
        }
        Ok(())
    }

    /// Adds a grant to a group; `None` for an unknown URI.
    pub(super) fn add_group(&mut self, uri: &str, permissions: &[AclPermission]) -> Option<()> {
        if uri == LOG_DELIVERY {
            self.add_unserved(uri);
            return Some(());
        }
        let group = AclGroup::ALL.into_iter().find(|group| group.uri() == uri)?;
        self.grants =
            permissions.iter().fold(self.grants, |grants, permission| grants.with(group, *permission));
        self.is_without_effect = false;
        Some(())
    }

    /// Adds a grant to a user. The owner has full control in any case.
    pub(super) fn add_user(&mut self, id: &str, owner: &str, permissions: &[AclPermission]) {
        if id != owner {
            self.add_unserved(id);
        } else if permissions != AclPermission::ALL {
            self.is_without_effect = false;
        }
    }

    /// Notes a grantee that is not supported.
    pub(super) fn add_unserved(&mut self, name: &str) {
        self.is_without_effect = false;
        self.unserved.get_or_insert_with(|| name.to_owned());
    }
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
        RequestedAcl::from_headers(VendorHeaders::new(&headers, Dialect::Aws), "ann")
            .map_err(|error| error.code)
    }

    fn grants(of: &[(AclGroup, AclPermission)]) -> GroupGrants {
        of.iter().fold(GroupGrants::NONE, |grants, (group, permission)| grants.with(*group, *permission))
    }

    #[test]
    fn canned_acls_stand_for_their_grants() {
        use AclGroup::{AllUsers, AuthenticatedUsers};
        use AclPermission::{Read, Write};
        assert_eq!(requested(&[]), Ok(None));
        for (name, expected, is_without_effect) in [
            ("private", vec![], true),
            ("bucket-owner-full-control", vec![], true),
            ("bucket-owner-read", vec![], false),
            ("public-read", vec![(AllUsers, Read)], false),
            ("public-read-write", vec![(AllUsers, Read), (AllUsers, Write)], false),
            ("authenticated-read", vec![(AuthenticatedUsers, Read)], false),
        ] {
            let expected = RequestedAcl { grants: grants(&expected), is_without_effect, unserved: None };
            assert_eq!(requested(&[("acl", name)]), Ok(Some(expected)), "{name}");
        }
        for name in ["aws-exec-read", "log-delivery-write"] {
            assert_eq!(requested(&[("acl", name)]).unwrap().unwrap().unserved.as_deref(), Some(name));
        }
        for name in ["", "public", "Private"] {
            assert_eq!(requested(&[("acl", name)]), Err(ErrorCode::InvalidArgument));
        }
    }

    #[test]
    fn headers_grant_to_groups_and_to_the_owner() {
        let all = "uri=\"http://acs.amazonaws.com/groups/global/AllUsers\"";
        let signed = "uri=http://acs.amazonaws.com/groups/global/AuthenticatedUsers";
        let acl =
            requested(&[("grant-read", &format!("{all}, id=\"ann\" ,{signed}")), ("grant-write-acp", all)]);
        let expected = [
            (AclGroup::AllUsers, AclPermission::Read),
            (AclGroup::AuthenticatedUsers, AclPermission::Read),
            (AclGroup::AllUsers, AclPermission::WriteAcp),
        ];
        assert_eq!(
            acl,
            Ok(Some(RequestedAcl { grants: grants(&expected), is_without_effect: false, unserved: None }))
        );
        let full = requested(&[("grant-full-control", all)]).unwrap().unwrap();
        assert!(
            AclPermission::ALL.iter().all(|permission| full.grants.includes(AclGroup::AllUsers, *permission))
        );
        assert_eq!(requested(&[("grant-full-control", "id=ann")]), Ok(Some(RequestedAcl::private())));
        assert!(!requested(&[("grant-read", "id=ann")]).unwrap().unwrap().is_without_effect);
        for (value, unserved) in [
            ("id=bob, id=eve", "bob"),
            ("emailAddress=\"bob@example.org\"", "bob@example.org"),
            (LOG_DELIVERY, LOG_DELIVERY),
        ] {
            let value = if value == LOG_DELIVERY { format!("uri={value}") } else { value.to_owned() };
            let acl = requested(&[("grant-read", &value)]).unwrap().unwrap();
            assert_eq!(acl.unserved.as_deref(), Some(unserved));
        }
        for value in ["", "bob", "uri=http://example.org/", "name=bob", "id=ann,"] {
            assert_eq!(requested(&[("grant-read", value)]), Err(ErrorCode::InvalidArgument), "{value}");
        }
        assert_eq!(requested(&[("acl", "private"), ("grant-read", all)]), Err(ErrorCode::InvalidRequest));
    }
}
