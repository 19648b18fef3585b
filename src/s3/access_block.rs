//! The public access block of a bucket (S3 user guide, "Blocking public access to your Amazon S3
//! storage").

use super::{S3Error, XmlConfiguration};
use crate::xml::{Element, Writer};

/// Which public access a bucket refuses, whatever its policy and its ACLs say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PublicAccessBlock {
    /// Public ACLs are not set (`BlockPublicAcls`).
    pub refuses_acls: bool,
    /// Public ACLs have no effect (`IgnorePublicAcls`).
    pub ignores_acls: bool,
    /// A public policy is not set (`BlockPublicPolicy`).
    pub refuses_policy: bool,
    /// A public policy allows nothing to senders without keys (`RestrictPublicBuckets`).
    pub restricts_policy: bool,
}

impl PublicAccessBlock {
    /// Everything refused.
    pub const ALL: Self =
        Self { refuses_acls: true, ignores_acls: true, refuses_policy: true, restricts_policy: true };

    fn setting(&mut self, name: &str) -> Option<&mut bool> {
        match name {
            "BlockPublicAcls" => Some(&mut self.refuses_acls),
            "IgnorePublicAcls" => Some(&mut self.ignores_acls),
            "BlockPublicPolicy" => Some(&mut self.refuses_policy),
            "RestrictPublicBuckets" => Some(&mut self.restricts_policy),
            _ => None,
        }
    }
}

impl XmlConfiguration for PublicAccessBlock {
    const ROOT: &'static str = "PublicAccessBlockConfiguration";

    /// Reads the element `PublicAccessBlockConfiguration`. Absent settings are off.
    ///
    /// # Errors
    /// `MalformedXML` for an unknown or repeated setting and for a value that is neither `true` nor
    /// `false`.
    fn parse(root: Element<'_>) -> Result<Self, S3Error> {
        let mut block = Self::default();
        for element in root.children() {
            let name = element.name();
            if root.all(name).count() > 1 {
                return Err(S3Error::malformed_xml(&format!("more than one <{name}>")));
            }
            let value = element.text().trim().to_ascii_lowercase().parse();
            let value =
                value.map_err(|_| S3Error::malformed_xml(&format!("<{name}> is neither true nor false")));
            *block.setting(name).ok_or_else(|| S3Error::malformed_xml(&format!("<{name}> is unknown")))? =
                value?;
        }
        Ok(block)
    }

    fn render(&self, document: &mut Writer) {
        document.plain("BlockPublicAcls", self.refuses_acls);
        document.plain("IgnorePublicAcls", self.ignores_acls);
        document.plain("BlockPublicPolicy", self.refuses_policy);
        document.plain("RestrictPublicBuckets", self.restricts_policy);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::s3::ErrorCode;
    use crate::xml::Document;

    fn parse(inner: &str) -> Result<PublicAccessBlock, S3Error> {
        let text = format!("<{0}>{inner}</{0}>", PublicAccessBlock::ROOT);
        PublicAccessBlock::parse(Document::parse(text.as_bytes()).unwrap().root())
    }

    #[test]
    fn a_block_comes_back_as_it_was_written() {
        for bits in 0..16 {
            let is_on = |bit: u32| bits >> bit & 1 == 1;
            let block = PublicAccessBlock {
                refuses_acls: is_on(0),
                ignores_acls: is_on(1),
                refuses_policy: is_on(2),
                restricts_policy: is_on(3),
            };
            let mut writer = Writer::new(PublicAccessBlock::ROOT, None);
            block.render(&mut writer);
            let text = writer.finish();
            assert_eq!(PublicAccessBlock::parse(Document::parse(&text).unwrap().root()), Ok(block));
        }
    }

    #[test]
    fn absent_settings_are_off_and_others_are_refused() {
        assert_eq!(parse(""), Ok(PublicAccessBlock::default()));
        let block = parse("<IgnorePublicAcls>TRUE</IgnorePublicAcls>").unwrap();
        assert_eq!(block, PublicAccessBlock { ignores_acls: true, ..PublicAccessBlock::default() });
        for inner in [
            "<BlockPublicAcls>yes</BlockPublicAcls>",
            "<BlockPublicAcls/>",
            "<BlockEverything>true</BlockEverything>",
            "<BlockPublicAcls>true</BlockPublicAcls><BlockPublicAcls>true</BlockPublicAcls>",
        ] {
            assert_eq!(parse(inner).unwrap_err().code, ErrorCode::MalformedXML, "{inner}");
        }
    }
}
