//! The encryption of new objects in a bucket (S3 API reference, PutBucketEncryption).

use super::elements::{check_children, child, missing, text};
use super::encryption::{AES256, AWS_KMS, AWS_KMS_DSSE, not_served_dsse};
use super::{S3Error, XmlConfiguration};
use crate::xml::{Element, Writer};

/// The encryption of objects whose writes ask for none, and the kinds that are refused.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BucketEncryption {
    /// `None` where the configuration only refuses kinds.
    pub default: Option<DefaultEncryption>,
    /// The element `BucketKeyEnabled`.
    pub bucket_key: Option<bool>,
    /// The types in `BlockedEncryptionTypes`; `None` without the element.
    pub blocked: Option<BlockedTypes>,
}

/// The encryption of objects whose writes ask for none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DefaultEncryption {
    /// `AES256`.
    S3,
    /// `aws:kms`, with the key as it is named; `None` for the default.
    Kms(Option<String>),
}

/// The kinds of encryption that writes may not ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockedTypes {
    /// `NONE`.
    None,
    /// `SSE-C`.
    Customer,
}

impl BucketEncryption {
    /// `AES256` for all objects.
    pub const OF_ALL: Self = Self { default: Some(DefaultEncryption::S3), bucket_key: None, blocked: None };
}

impl XmlConfiguration for BucketEncryption {
    const ROOT: &'static str = "ServerSideEncryptionConfiguration";

    /// Reads the element `ServerSideEncryptionConfiguration`, which has one rule.
    ///
    /// # Errors
    /// `MalformedXML`; `InvalidArgument` for a key beside `AES256`; `NotImplemented` for
    /// `aws:kms:dsse`.
    fn parse(root: Element<'_>) -> Result<Self, S3Error> {
        check_children(root, &["Rule"])?;
        let rule = child(root, "Rule")?.ok_or_else(|| missing("Rule"))?;
        check_children(
            rule,
            &["ApplyServerSideEncryptionByDefault", "BucketKeyEnabled", "BlockedEncryptionTypes"],
        )?;
        let default = child(rule, "ApplyServerSideEncryptionByDefault")?.map(parse_default).transpose()?;
        let blocked = child(rule, "BlockedEncryptionTypes")?.map(parse_blocked).transpose()?;
        if default.is_none() && blocked.is_none() {
            return Err(missing("ApplyServerSideEncryptionByDefault"));
        }
        let bucket_key = match text(rule, "BucketKeyEnabled")?.as_deref().map(str::trim) {
            None => None,
            Some("true") => Some(true),
            Some("false") => Some(false),
            Some(_) => return Err(S3Error::malformed_xml("<BucketKeyEnabled> is neither true nor false")),
        };
        Ok(Self { default, bucket_key, blocked })
    }

    fn render(&self, document: &mut Writer) {
        document.element("Rule", |rule| {
            if let Some(default) = &self.default {
                rule.element("ApplyServerSideEncryptionByDefault", |element| default.render(element));
            }
            if let Some(bucket_key) = self.bucket_key {
                rule.plain("BucketKeyEnabled", bucket_key);
            }
            if let Some(blocked) = self.blocked {
                rule.element("BlockedEncryptionTypes", |element| {
                    element.leaf("EncryptionType", blocked.as_str());
                });
            }
        });
    }
}

impl DefaultEncryption {
    fn render(&self, element: &mut Writer) {
        match self {
            Self::S3 => element.leaf("SSEAlgorithm", AES256),
            Self::Kms(key) => {
                element.leaf("SSEAlgorithm", AWS_KMS);
                if let Some(key) = key {
                    element.leaf("KMSMasterKeyID", key);
                }
            }
        }
    }
}

impl BlockedTypes {
    fn as_str(self) -> &'static str {
        match self {
            Self::None => "NONE",
            Self::Customer => "SSE-C",
        }
    }
}

fn parse_default(element: Element<'_>) -> Result<DefaultEncryption, S3Error> {
    check_children(element, &["SSEAlgorithm", "KMSMasterKeyID"])?;
    let key = text(element, "KMSMasterKeyID")?.map(|key| key.trim().to_owned()).filter(|key| !key.is_empty());
    let algorithm = text(element, "SSEAlgorithm")?.ok_or_else(|| missing("SSEAlgorithm"))?;
    match (algorithm.trim(), key) {
        (AES256, None) => Ok(DefaultEncryption::S3),
        (AES256, Some(key)) => {
            let message = "a KMSMasterKeyID is not applicable if the default sse algorithm is not aws:kms";
            Err(S3Error::invalid_argument("KMSMasterKeyID", &key, message))
        }
        (AWS_KMS, key) => Ok(DefaultEncryption::Kms(key)),
        (AWS_KMS_DSSE, _) => Err(not_served_dsse("SSEAlgorithm")),
        (other, _) => Err(S3Error::malformed_xml(&format!("<SSEAlgorithm> cannot be `{other}`"))),
    }
}

/// The types of an element, of which `NONE` stands alone.
fn parse_blocked(element: Element<'_>) -> Result<BlockedTypes, S3Error> {
    check_children(element, &["EncryptionType"])?;
    let mut found = None;
    for kind in element.all("EncryptionType") {
        let kind = match kind.text().trim() {
            "NONE" => BlockedTypes::None,
            "SSE-C" => BlockedTypes::Customer,
            other => return Err(S3Error::malformed_xml(&format!("<EncryptionType> cannot be `{other}`"))),
        };
        if found.is_some_and(|found| found != kind) {
            return Err(S3Error::malformed_xml("NONE stands alone in <BlockedEncryptionTypes>"));
        }
        found = Some(kind);
    }
    found.ok_or_else(|| missing("EncryptionType"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::s3::ErrorCode;
    use crate::xml::Document;

    fn parse(inner: &str) -> Result<BucketEncryption, ErrorCode> {
        let text = format!("<{0}>{inner}</{0}>", BucketEncryption::ROOT);
        BucketEncryption::parse(Document::parse(text.as_bytes()).unwrap().root()).map_err(|error| error.code)
    }

    fn rule(apply: &str, more: &str) -> String {
        format!(
            "<Rule><ApplyServerSideEncryptionByDefault>{apply}</ApplyServerSideEncryptionByDefault>{more}</Rule>"
        )
    }

    #[test]
    fn a_configuration_comes_back_as_it_was_written() {
        let kms = |key: Option<&str>| Some(DefaultEncryption::Kms(key.map(str::to_owned)));
        for default in [None, Some(DefaultEncryption::S3), kms(None), kms(Some("invoices"))] {
            for blocked in [None, Some(BlockedTypes::None), Some(BlockedTypes::Customer)] {
                for bucket_key in [None, Some(true), Some(false)] {
                    let written = BucketEncryption { default: default.clone(), bucket_key, blocked };
                    let read = BucketEncryption::from_document(&written.to_document());
                    let is_one = default.is_some() || blocked.is_some();
                    assert_eq!(read, is_one.then_some(written));
                }
            }
        }
    }

    #[test]
    fn documents_of_clients_are_read() {
        let key = "<SSEAlgorithm>aws:kms</SSEAlgorithm><KMSMasterKeyID>alias/a</KMSMasterKeyID>";
        let blocked =
            "<BlockedEncryptionTypes><EncryptionType>SSE-C</EncryptionType></BlockedEncryptionTypes>";
        assert_eq!(
            parse(&rule(key, &format!("<BucketKeyEnabled>true</BucketKeyEnabled>{blocked}"))),
            Ok(BucketEncryption {
                default: Some(DefaultEncryption::Kms(Some("alias/a".to_owned()))),
                bucket_key: Some(true),
                blocked: Some(BlockedTypes::Customer)
            })
        );
        assert_eq!(parse(&rule("<SSEAlgorithm>AES256</SSEAlgorithm>", "")), Ok(BucketEncryption::OF_ALL));
    }

    #[test]
    fn other_documents_are_refused() {
        let aes = "<SSEAlgorithm>AES256</SSEAlgorithm>";
        let good = rule(aes, "");
        for (inner, code) in [
            ("", ErrorCode::MalformedXML),
            ("<Rule/>", ErrorCode::MalformedXML),
            ("<Rule><BucketKeyEnabled>true</BucketKeyEnabled></Rule>", ErrorCode::MalformedXML),
            (&good.repeat(2), ErrorCode::MalformedXML),
            (&rule("", ""), ErrorCode::MalformedXML),
            (&rule("<SSEAlgorithm>AES192</SSEAlgorithm>", ""), ErrorCode::MalformedXML),
            (&rule(aes, "<BucketKeyEnabled>yes</BucketKeyEnabled>"), ErrorCode::MalformedXML),
            (&rule(aes, "<Other/>"), ErrorCode::MalformedXML),
            (&rule(aes, "<BlockedEncryptionTypes/>"), ErrorCode::MalformedXML),
            (
                &rule(
                    aes,
                    "<BlockedEncryptionTypes><EncryptionType>SSE-KMS</EncryptionType></BlockedEncryptionTypes>",
                ),
                ErrorCode::MalformedXML,
            ),
            (&rule(&format!("{aes}<KMSMasterKeyID>a</KMSMasterKeyID>"), ""), ErrorCode::InvalidArgument),
            (&rule("<SSEAlgorithm>aws:kms:dsse</SSEAlgorithm>", ""), ErrorCode::NotImplemented),
        ] {
            assert_eq!(parse(inner), Err(code), "{inner}");
        }
    }
}
