//! ACLs in XML (S3 API reference, AccessControlPolicy).

use super::{AclGroup, AclPermission, GroupGrants, RequestedAcl};
use crate::s3::S3Error;
use crate::xml::{Element, Writer};

/// The root element of an ACL.
pub const POLICY_ROOT: &str = "AccessControlPolicy";
/// The element with the grants.
pub const GRANTS_ROOT: &str = "AccessControlList";

/// The namespace of the type of a grantee.
const INSTANCE: &str = "http://www.w3.org/2001/XMLSchema-instance";

impl GroupGrants {
    /// Writes the grants of the groups.
    pub fn render(self, document: &mut Writer) {
        for group in AclGroup::ALL {
            let granted =
                AclPermission::ALL.into_iter().filter(|permission| self.includes(group, *permission));
            for permission in granted {
                grant(document, "Group", |grantee| grantee.leaf("URI", group.uri()), permission.as_str());
            }
        }
    }

    /// Writes an ACL below its root element: the owner, who has full control, and the grants of the
    /// groups.
    pub fn render_policy(self, document: &mut Writer, owner: &str) {
        document.element("Owner", |element| render_user(element, owner));
        document.element(GRANTS_ROOT, |list| {
            grant(list, "CanonicalUser", |grantee| render_user(grantee, owner), "FULL_CONTROL");
            self.render(list);
        });
    }
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
    /// Reads the element `AccessControlList`. `owner` is the owner of the bucket.
    ///
    /// # Errors
    /// `MalformedXML`.
    pub fn parse(list: Element<'_>, owner: &str) -> Result<Self, S3Error> {
        let mut acl = Self::private();
        for grant in list.children() {
            if grant.name() != "Grant" {
                return Err(S3Error::malformed_xml(&format!("<{}> is unknown", grant.name())));
            }
            acl.add_grant(grant, owner)?;
        }
        Ok(acl)
    }

    fn add_grant(&mut self, grant: Element<'_>, owner: &str) -> Result<(), S3Error> {
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
            (Some(uri), None, None) => self
                .add_group(uri.trim(), permissions)
                .ok_or_else(|| S3Error::malformed_xml(&format!("there is no group `{}`", uri.trim()))),
            (None, Some(id), None) => {
                self.add_user(id.trim(), owner, permissions);
                Ok(())
            }
            (None, None, Some(address)) => {
                self.add_unserved(address.trim());
                Ok(())
            }
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
    use crate::xml::Document;

    fn parse(text: &[u8]) -> Result<RequestedAcl, S3Error> {
        let document = Document::parse(text).unwrap();
        RequestedAcl::parse(document.root().child(GRANTS_ROOT).unwrap().unwrap(), "ann")
    }

    #[test]
    fn every_acl_comes_back_as_it_was_written() {
        for bits in 0..=u8::MAX {
            let grants = GroupGrants::from_bits(bits);
            let mut writer = Writer::new(POLICY_ROOT, None);
            grants.render_policy(&mut writer, "ann");
            let text = writer.finish();
            let is_without_effect = grants == GroupGrants::NONE;
            assert_eq!(parse(&text), Ok(RequestedAcl { grants, is_without_effect, unserved: None }));
            let other = String::from_utf8(text).unwrap().replace(">ann<", ">bob<");
            assert_eq!(parse(other.as_bytes()).unwrap().unserved.as_deref(), Some("bob"));
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
