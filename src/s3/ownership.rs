//! The ownership of the objects in a bucket (S3 user guide, "Controlling ownership of objects and
//! disabling ACLs").

use super::{S3Error, XmlConfiguration};
use crate::xml::{Element, Writer};

/// The ownership of the objects in a bucket, and so whether ACLs are in effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ObjectOwnership {
    /// ACLs are off.
    #[default]
    BucketOwnerEnforced,
    /// ACLs are in effect. Objects with the canned ACL `bucket-owner-full-control` belong to the
    /// owner of the bucket.
    BucketOwnerPreferred,
    /// ACLs are in effect.
    ObjectWriter,
}

impl ObjectOwnership {
    /// All values by their names.
    pub const TABLE: [(&'static str, Self); 3] = [
        (Self::BucketOwnerEnforced.as_str(), Self::BucketOwnerEnforced),
        (Self::BucketOwnerPreferred.as_str(), Self::BucketOwnerPreferred),
        (Self::ObjectWriter.as_str(), Self::ObjectWriter),
    ];

    /// The name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::BucketOwnerEnforced => "BucketOwnerEnforced",
            Self::BucketOwnerPreferred => "BucketOwnerPreferred",
            Self::ObjectWriter => "ObjectWriter",
        }
    }

    /// The ownership of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::TABLE.iter().find(|(known, _)| *known == name).map(|(_, ownership)| *ownership)
    }

    /// Whether ACLs are in effect.
    pub fn has_acls(self) -> bool {
        self != Self::BucketOwnerEnforced
    }
}

impl XmlConfiguration for ObjectOwnership {
    const ROOT: &'static str = "OwnershipControls";

    /// Reads the element `OwnershipControls`, which has one rule.
    ///
    /// # Errors
    /// `MalformedXML`.
    fn parse(root: Element<'_>) -> Result<Self, S3Error> {
        let rule = root.child("Rule").map_err(|error| S3Error::malformed_xml(&error.to_string()))?;
        let rule = rule.ok_or_else(|| S3Error::malformed_xml("there is no <Rule>"))?;
        if let Some(unknown) = root
            .children()
            .chain(rule.children())
            .map(Element::name)
            .find(|name| !matches!(*name, "Rule" | "ObjectOwnership"))
        {
            return Err(S3Error::malformed_xml(&format!("<{unknown}> is unknown")));
        }
        let text =
            rule.child_text("ObjectOwnership").map_err(|error| S3Error::malformed_xml(&error.to_string()))?;
        let name = text.as_deref().map_or("", str::trim);
        Self::named(name)
            .ok_or_else(|| S3Error::malformed_xml(&format!("<ObjectOwnership> cannot be `{name}`")))
    }

    fn render(&self, document: &mut Writer) {
        document.element("Rule", |rule| rule.leaf("ObjectOwnership", self.as_str()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::s3::ErrorCode;
    use crate::xml::Document;

    #[test]
    fn ownership_comes_back_as_it_was_written() {
        for (_, ownership) in ObjectOwnership::TABLE {
            let mut writer = Writer::new(ObjectOwnership::ROOT, None);
            ownership.render(&mut writer);
            let text = writer.finish();
            assert_eq!(ObjectOwnership::parse(Document::parse(&text).unwrap().root()), Ok(ownership));
        }
        assert!(!ObjectOwnership::default().has_acls());
    }

    #[test]
    fn other_documents_are_refused() {
        for inner in [
            "",
            "<Rule/>",
            "<Rule><ObjectOwnership>Nobody</ObjectOwnership></Rule>",
            "<Rule><ObjectOwnership>ObjectWriter</ObjectOwnership><Also/></Rule>",
            "<Rule><ObjectOwnership>ObjectWriter</ObjectOwnership></Rule><Rule/>",
        ] {
            let text = format!("<OwnershipControls>{inner}</OwnershipControls>");
            let parsed = ObjectOwnership::parse(Document::parse(text.as_bytes()).unwrap().root());
            assert_eq!(parsed.unwrap_err().code, ErrorCode::MalformedXML, "{inner}");
        }
    }
}
