//! ACLs in XML (S3 API reference, AccessControlPolicy).

use super::request::no_such_address;
use super::{
    Acl, AclGroup, AclPermission, AclPermissions, FULL_CONTROL, GroupGrants, LOG_DELIVERY, NamedGrant,
    RequestedAcl, RequestedGrant, is_mark_of_listed_owner,
};
use crate::base::Timestamp;
use crate::s3::S3Error;
use crate::xml::{Element, Writer};

/// The root element of an ACL.
pub const POLICY_ROOT: &str = "AccessControlPolicy";
/// The element with the grants.
pub const GRANTS_ROOT: &str = "AccessControlList";

/// The element of a stored grant with its time, in milliseconds since 1970.
const SINCE: &str = "Since";

/// The namespace of the type of a grantee.
const INSTANCE: &str = "http://www.w3.org/2001/XMLSchema-instance";

impl Acl {
    /// Writes the grants as the store keeps them: each to a user has the time when it was given.
    pub fn render_stored(&self, document: &mut Writer) {
        self.groups.render(document);
        for granted in &self.users {
            for permission in names(granted.permissions) {
                document.element("Grant", |grant| {
                    render_grantee(grant, &granted.grantee);
                    grant.leaf("Permission", permission);
                    grant.plain(SINCE, granted.since.as_millis());
                });
            }
        }
    }

    /// Writes an ACL below its root element: the owner, and the grants. Those of groups come first,
    /// then the full control of the owner, unless it is a list that says what he has.
    pub fn render_policy(&self, document: &mut Writer, owner: &str) {
        document.element("Owner", |element| render_user(element, owner));
        document.element(GRANTS_ROOT, |list| {
            self.groups.render(list);
            if !self.lists_owner() {
                grant(list, "CanonicalUser", |grantee| render_user(grantee, owner), FULL_CONTROL);
            }
            for granted in self.users.iter().filter(|granted| !is_mark_of_listed_owner(&granted.grantee)) {
                for permission in names(granted.permissions) {
                    list.element("Grant", |grant| {
                        render_grantee(grant, &granted.grantee);
                        grant.leaf("Permission", permission);
                    });
                }
            }
        });
    }

    /// Reads the element `AccessControlList` that the store keeps.
    ///
    /// # Errors
    /// `MalformedXML`; as [`RequestedAcl::parse`].
    pub fn parse_stored(list: Element<'_>) -> Result<Self, S3Error> {
        let mut acl = Self::PRIVATE;
        for element in list.children() {
            let mut read = RequestedAcl::default();
            read.add_grant(element)?;
            acl.groups = acl.groups.union(read.groups);
            let Some(RequestedGrant { grantee, permissions }) = read.users.pop() else { continue };
            let since = element.child_text(SINCE).map_err(|error| repeated(&error))?;
            let since = since.and_then(|text| text.trim().parse().ok());
            let since = since.ok_or_else(|| S3Error::malformed_xml("a grant to a user has a time"))?;
            acl.users.push(NamedGrant { grantee, since: Timestamp::from_millis(since), permissions });
        }
        Ok(acl)
    }
}

impl GroupGrants {
    fn render(self, document: &mut Writer) {
        for group in AclGroup::ALL {
            let granted =
                AclPermission::ALL.into_iter().filter(|permission| self.includes(group, *permission));
            for permission in granted {
                grant(document, "Group", |grantee| grantee.leaf("URI", group.uri()), permission.as_str());
            }
        }
    }
}

/// The names of permissions in a document.
fn names(permissions: AclPermissions) -> Vec<&'static str> {
    if permissions == AclPermissions::ALL {
        return vec![FULL_CONTROL];
    }
    let granted = AclPermission::ALL.into_iter().filter(|permission| permissions.includes(*permission));
    granted.map(AclPermission::as_str).collect()
}

fn render_grantee(element: &mut Writer, name: &str) {
    let kind = if name == LOG_DELIVERY { "Group" } else { "CanonicalUser" };
    let attributes = [("xmlns:xsi", INSTANCE), ("xsi:type", kind)];
    element.element_with_attributes("Grantee", &attributes, |grantee| match name {
        LOG_DELIVERY => grantee.leaf("URI", name),
        _ => render_user(grantee, name),
    });
}

fn render_user(element: &mut Writer, name: &str) {
    element.leaf("ID", name);
    element.leaf("DisplayName", name);
}

fn grant(document: &mut Writer, kind: &str, grantee: impl FnOnce(&mut Writer), permission: &str) {
    document.element("Grant", |grant| {
        let attributes = [("xmlns:xsi", INSTANCE), ("xsi:type", kind)];
        grant.element_with_attributes("Grantee", &attributes, grantee);
        grant.leaf("Permission", permission);
    });
}

impl RequestedAcl {
    /// Reads the element `AccessControlList`.
    ///
    /// # Errors
    /// `MalformedXML`; `MalformedACLError` for more grants than a list may have;
    /// `UnresolvableGrantByEmailAddress`.
    pub fn parse(list: Element<'_>) -> Result<Self, S3Error> {
        let mut acl = Self::of_list();
        for grant in list.children() {
            acl.add_grant(grant)?;
        }
        Ok(acl)
    }

    fn add_grant(&mut self, grant: Element<'_>) -> Result<(), S3Error> {
        if grant.name() != "Grant" {
            return Err(S3Error::malformed_xml(&format!("<{}> is unknown", grant.name())));
        }
        let permission = grant.child_text("Permission").map_err(|error| repeated(&error))?;
        let permission = permission.as_deref().map_or("", str::trim);
        let permissions = AclPermission::named(permission)
            .ok_or_else(|| S3Error::malformed_xml(&format!("there is no permission `{permission}`")))?;
        let grantee = grant.child("Grantee").map_err(|error| repeated(&error))?;
        let grantee = grantee.ok_or_else(|| S3Error::malformed_xml("a Grant has a Grantee"))?;
        let uri = grantee.child_text("URI").map_err(|error| repeated(&error))?;
        let id = grantee.child_text("ID").map_err(|error| repeated(&error))?;
        let address = grantee.child_text("EmailAddress").map_err(|error| repeated(&error))?;
        match (uri, id, address) {
            (Some(uri), None, None) => match self.add_group(uri.trim(), permissions)? {
                true => Ok(()),
                false => Err(S3Error::malformed_xml(&format!("there is no group `{}`", uri.trim()))),
            },
            (None, Some(id), None) => self.add_user(id.trim(), permissions),
            (None, None, Some(address)) => Err(no_such_address(address.trim())),
            _ => Err(S3Error::malformed_xml("a Grantee has a URI, an ID or an EmailAddress")),
        }
    }
}

fn repeated(error: &crate::xml::XmlError) -> S3Error {
    S3Error::malformed_xml(&error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::s3::ErrorCode;
    use crate::s3::acl::AclUser;
    use crate::xml::Document;

    fn parse(text: &[u8]) -> Result<RequestedAcl, S3Error> {
        let document = Document::parse(text).unwrap();
        RequestedAcl::parse(document.root().child(GRANTS_ROOT).unwrap().unwrap())
    }

    fn named(grantee: &str, since: u64, bits: u8) -> NamedGrant {
        let permissions = AclPermissions::from_bits(bits);
        NamedGrant { grantee: grantee.into(), since: Timestamp::from_millis(since), permissions }
    }

    #[test]
    fn every_acl_comes_back_as_it_was_written() {
        for bits in 0..=u8::MAX {
            let groups = GroupGrants::from_bits(bits);
            let mut users = vec![named("bob", 7, bits & 15), named(LOG_DELIVERY, 8, bits >> 4)];
            users.retain(|grant| grant.permissions != AclPermissions::NONE);
            let acl = Acl { groups, users };
            let mut writer = Writer::new(POLICY_ROOT, None);
            acl.render_policy(&mut writer, "ann");
            let read = parse(&writer.finish()).unwrap();
            let owner = RequestedGrant { grantee: "ann".into(), permissions: AclPermissions::ALL };
            assert_eq!((read.groups, read.users.first()), (groups, Some(&owner)));
            let asked = |grant: &NamedGrant| RequestedGrant {
                grantee: grant.grantee.clone(),
                permissions: grant.permissions,
            };
            assert_eq!(read.users[1..], acl.users.iter().map(asked).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_stored_list_keeps_the_times_of_grants_and_a_request_states_none() {
        for bits in 1..=15 {
            let groups = GroupGrants::from_bits(bits);
            let users = vec![named("bob", 7, bits), named("eve", 9, 15), named(LOG_DELIVERY, 8, 2)];
            let acl = Acl { groups, users };
            let mut writer = Writer::new(GRANTS_ROOT, None);
            acl.render_stored(&mut writer);
            let text = writer.finish();
            let read = Acl::parse_stored(Document::parse(&text).unwrap().root()).unwrap();
            assert_eq!(read.groups, groups);
            for (name, created) in [("bob", 7), ("bob", 8), ("eve", 9), ("eve", 10), ("ann", 0)] {
                let user = AclUser { name, created: Some(Timestamp::from_millis(created)) };
                assert_eq!(read.permissions_of(user), acl.permissions_of(user), "{name} {created}");
            }
            let untimed = String::from_utf8(text).unwrap().replace("Since>", "When>");
            let refused = Acl::parse_stored(Document::parse(untimed.as_bytes()).unwrap().root());
            assert_eq!(refused.unwrap_err().code, ErrorCode::MalformedXML);
        }
    }

    #[test]
    fn other_documents_are_refused() {
        let grant = |grantee: &str, permission: &str| {
            format!("<Grant><Grantee>{grantee}</Grantee><Permission>{permission}</Permission></Grant>")
        };
        let all = "<URI>http://acs.amazonaws.com/groups/global/AllUsers</URI>";
        for list in [
            "<Other/>".to_owned(),
            "<Grant/>".to_owned(),
            "<Grant><Permission>READ</Permission></Grant>".to_owned(),
            grant(all, "EVERYTHING"),
            grant("", "READ"),
            grant("<URI>urn:x</URI>", "READ"),
            grant(&format!("{all}<ID>ann</ID>"), "READ"),
            grant(&format!("{all}{all}"), "READ"),
        ] {
            let text = format!(
                "<AccessControlPolicy><AccessControlList>{list}</AccessControlList></AccessControlPolicy>"
            );
            assert_eq!(parse(text.as_bytes()).unwrap_err().code, ErrorCode::MalformedXML, "{list}");
        }
    }
}
