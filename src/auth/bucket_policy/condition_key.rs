//! The keys of conditions and variables (IAM reference, "AWS global condition context keys"; S3
//! user guide, "Amazon S3 condition keys").

use std::borrow::Cow;
use std::fmt;

use super::context::{PolicyContext, StatedHeader};
use crate::auth::action::has_existing_tags;
use crate::auth::session::arn::ACCOUNT;
use crate::base::Timestamp;

const DAY_SECS: u64 = 24 * 60 * 60;

/// Why the policy of a bucket names no claims: sessions keep those that policies of the users file
/// name, and a denial by another one would deny nobody.
pub(super) const CLAIM_IN_BUCKET_POLICY: &str =
    "`jwt:` claims are for the policies of roles and sessions alone";

/// The name of a fact about a request. Names are compared without regard to case; the keys of tags
/// are not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ConditionKey {
    /// `aws:username`
    UserName,
    /// `aws:userid`
    UserId,
    /// `aws:PrincipalArn`
    PrincipalArn,
    /// `aws:PrincipalType`
    PrincipalType,
    /// `aws:SourceArn` and `aws:SourceAccount`, which only requests by services of AWS have: always
    /// absent.
    OfService(&'static str),
    /// `aws:PrincipalTag/KEY`
    PrincipalTag(String),
    /// `aws:TokenIssueTime`
    TokenIssueTime,
    /// `aws:SourceIp`
    SourceIp,
    /// `aws:SecureTransport`
    SecureTransport,
    /// `aws:CurrentTime`
    CurrentTime,
    /// `aws:EpochTime`, in seconds
    EpochTime,
    /// `aws:Referer`
    Referer,
    /// `aws:UserAgent`
    UserAgent,
    /// `s3:prefix`
    Prefix,
    /// `s3:delimiter`
    Delimiter,
    /// `s3:max-keys`
    MaxKeys,
    /// `s3:x-amz-acl`
    CannedAcl,
    /// `s3:x-amz-server-side-encryption`
    Encryption,
    /// `s3:x-amz-server-side-encryption-aws-kms-key-id`
    EncryptionKey,
    /// `s3:x-amz-server-side-encryption-customer-algorithm`
    CustomerAlgorithm,
    /// `s3:ResourceAccount`
    ResourceAccount,
    /// `s3:x-amz-HEADER` and `s3:object-lock-HEADER`
    Header(StatedHeader),
    /// `s3:object-lock-remaining-retention-days`
    RetentionDays,
    /// `s3:VersionId`
    VersionId,
    /// `s3:ExistingObjectTag/KEY`
    ExistingTag(String),
    /// `s3:RequestObjectTag/KEY`
    RequestTag(String),
    /// `s3:RequestObjectTagKeys`, which has several values
    RequestTagKeys,
    /// `jwt:CLAIM`: a claim of the token of a provider by which a role was assumed. It may have
    /// several values.
    Claim(String),
    /// A key of other services, which no request has.
    Unknown(String),
}

/// The type of the values of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ValueType {
    /// Strings.
    Text,
    /// Integers and decimals.
    Number,
    /// Points in time.
    Date,
    /// `true` and `false`.
    Bool,
    /// IP addresses.
    Address,
}

impl ConditionKey {
    const PLAIN: [(&'static str, Self); 35] = [
        ("aws:username", Self::UserName),
        ("aws:userid", Self::UserId),
        ("aws:PrincipalArn", Self::PrincipalArn),
        ("aws:PrincipalType", Self::PrincipalType),
        ("aws:TokenIssueTime", Self::TokenIssueTime),
        ("aws:SourceArn", Self::OfService("aws:SourceArn")),
        ("aws:SourceAccount", Self::OfService("aws:SourceAccount")),
        ("aws:SourceIp", Self::SourceIp),
        ("aws:SecureTransport", Self::SecureTransport),
        ("aws:CurrentTime", Self::CurrentTime),
        ("aws:EpochTime", Self::EpochTime),
        ("aws:Referer", Self::Referer),
        ("aws:UserAgent", Self::UserAgent),
        ("s3:prefix", Self::Prefix),
        ("s3:delimiter", Self::Delimiter),
        ("s3:max-keys", Self::MaxKeys),
        ("s3:x-amz-acl", Self::CannedAcl),
        ("s3:x-amz-server-side-encryption", Self::Encryption),
        ("s3:x-amz-server-side-encryption-aws-kms-key-id", Self::EncryptionKey),
        ("s3:x-amz-server-side-encryption-customer-algorithm", Self::CustomerAlgorithm),
        ("s3:ResourceAccount", Self::ResourceAccount),
        ("s3:x-amz-copy-source", Self::Header(StatedHeader::CopySource)),
        ("s3:x-amz-metadata-directive", Self::Header(StatedHeader::MetadataDirective)),
        ("s3:x-amz-storage-class", Self::Header(StatedHeader::StorageClass)),
        ("s3:x-amz-grant-read", Self::Header(StatedHeader::GrantRead)),
        ("s3:x-amz-grant-write", Self::Header(StatedHeader::GrantWrite)),
        ("s3:x-amz-grant-read-acp", Self::Header(StatedHeader::GrantReadAcp)),
        ("s3:x-amz-grant-write-acp", Self::Header(StatedHeader::GrantWriteAcp)),
        ("s3:x-amz-grant-full-control", Self::Header(StatedHeader::GrantFullControl)),
        ("s3:object-lock-mode", Self::Header(StatedHeader::LockMode)),
        ("s3:object-lock-retain-until-date", Self::Header(StatedHeader::LockUntil)),
        ("s3:object-lock-legal-hold", Self::Header(StatedHeader::LegalHold)),
        ("s3:object-lock-remaining-retention-days", Self::RetentionDays),
        ("s3:VersionId", Self::VersionId),
        ("s3:RequestObjectTagKeys", Self::RequestTagKeys),
    ];

    /// Parses the name of a key.
    ///
    /// # Errors
    /// An unknown key, by name.
    pub(super) fn parse(name: &str) -> Result<Self, String> {
        if let Some((_, key)) = Self::PLAIN.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)) {
            return Ok(key.clone());
        }
        if let Some((service, claim)) = name.split_once(':')
            && service.eq_ignore_ascii_case("jwt")
            && !claim.is_empty()
        {
            return Ok(Self::Claim(claim.to_owned()));
        }
        let tag = name.split_once('/').filter(|(_, tag)| !tag.is_empty());
        match tag.map(|(kind, tag)| (kind.to_ascii_lowercase(), tag)) {
            Some((kind, tag)) if kind == "s3:existingobjecttag" => Ok(Self::ExistingTag(tag.to_owned())),
            Some((kind, tag)) if kind == "s3:requestobjecttag" => Ok(Self::RequestTag(tag.to_owned())),
            Some((kind, tag)) if kind == "aws:principaltag" => Ok(Self::PrincipalTag(tag.to_owned())),
            _ => Err(format!("the condition key `{name}` is not supported")),
        }
    }

    /// Whether requests for this action can have it (S3 service authorization reference). A
    /// condition on another action would never hold, or always.
    pub(super) fn is_of_action(&self, action: &str) -> bool {
        match self {
            Self::Prefix | Self::Delimiter | Self::MaxKeys => action.starts_with("ListBucket"),
            Self::CannedAcl => is_put(action) || action == "CreateBucket" || is_put_of_acl(action),
            Self::Header(header) if header.is_grant() => {
                is_put(action) || action == "CreateBucket" || is_put_of_acl(action)
            }
            Self::Header(_) | Self::RetentionDays => is_put(action),
            Self::Encryption | Self::EncryptionKey => is_put(action),
            Self::CustomerAlgorithm => is_put(action) || is_get(action),
            Self::VersionId => action.contains("Version") && !action.contains("Bucket"),
            Self::ExistingTag(_) => has_existing_tags(action),
            Self::RequestTag(_) | Self::RequestTagKeys => {
                is_put(action) || matches!(action, "PutObjectTagging" | "PutObjectVersionTagging")
            }
            _ => true,
        }
    }

    /// The claim that it stands for.
    pub(super) fn claim(&self) -> Option<&str> {
        match self {
            Self::Claim(name) => Some(name),
            _ => None,
        }
    }

    /// Whether it is about the tags that a request gives an object.
    pub(super) fn is_of_request_tags(&self) -> bool {
        matches!(self, Self::RequestTag(_) | Self::RequestTagKeys)
    }

    /// Whether its value depends on the object, and not on the request alone.
    pub(super) fn is_of_object(&self) -> bool {
        matches!(self, Self::ExistingTag(_) | Self::VersionId)
    }

    /// Whether a request has at most one value for it.
    pub(super) fn has_single_value(&self) -> bool {
        *self != Self::RequestTagKeys
    }

    /// Whether operators of that type can be applied to it.
    pub(super) fn accepts(&self, value_type: ValueType) -> bool {
        match self {
            Self::Unknown(_) => true,
            Self::Claim(_) => value_type != ValueType::Address,
            Self::SourceIp => value_type == ValueType::Address,
            Self::SecureTransport => value_type == ValueType::Bool,
            Self::CurrentTime | Self::TokenIssueTime => value_type == ValueType::Date,
            Self::EpochTime => matches!(value_type, ValueType::Date | ValueType::Number),
            Self::MaxKeys | Self::RetentionDays => value_type == ValueType::Number,
            Self::Header(StatedHeader::LockUntil) => value_type == ValueType::Date,
            _ => value_type == ValueType::Text,
        }
    }

    /// Whether its values are short by their nature, so that none needs to be written to learn it.
    pub(super) fn is_short(&self) -> bool {
        matches!(
            self,
            Self::SourceIp
                | Self::SecureTransport
                | Self::CurrentTime
                | Self::EpochTime
                | Self::TokenIssueTime
                | Self::RetentionDays
                | Self::ResourceAccount
        )
    }

    /// The value in the request of a key with a single one; `None` where it is absent.
    pub(super) fn single_value<'c>(&self, context: &PolicyContext<'c>) -> Option<Cow<'c, str>> {
        let tag =
            |key: &str| context.request_tags.iter().find(|(name, _)| name == key).map(|(_, value)| value);
        match self {
            Self::UserName => match context.principal {
                Some(principal) => principal.user_name.as_deref().map(Cow::from),
                None => context.user.map(Cow::from),
            },
            Self::UserId => context.principal.map(|principal| principal.id.as_str().into()),
            Self::PrincipalArn => context.principal.map(|principal| principal.arn.as_str().into()),
            Self::PrincipalType => match context.principal {
                Some(principal) => Some(principal.kind.into()),
                None => context.user.is_none().then(|| "Anonymous".into()),
            },
            Self::ResourceAccount => Some(ACCOUNT.into()),
            Self::Header(header) => context.encryption.stated(*header).map(Cow::from),
            Self::RetentionDays => {
                let until = context.encryption.stated(StatedHeader::LockUntil)?;
                let left = Timestamp::parse_iso8601(&until)?.since(context.now);
                Some(left.as_secs().div_ceil(DAY_SECS).to_string().into())
            }
            Self::PrincipalTag(key) => {
                let tags = &context.principal?.tags;
                // The keys of such tags regard no case (IAM user guide, "Passing session tags").
                let tag = tags.iter().find(|(name, _)| name.eq_ignore_ascii_case(key));
                tag.map(|(_, value)| value.as_str().into())
            }
            Self::TokenIssueTime => context.principal?.issued.map(|issued| issued.to_iso8601().into()),
            Self::SourceIp => context.source_ip.map(|address| address.to_canonical().to_string().into()),
            Self::SecureTransport => Some(if context.secure { "true" } else { "false" }.into()),
            Self::CurrentTime => Some(context.now.to_iso8601().into()),
            Self::EpochTime => Some(context.now.as_secs().to_string().into()),
            Self::Referer => context.referer.map(Cow::from),
            Self::UserAgent => context.user_agent.map(Cow::from),
            Self::Prefix => context.prefix.map(Cow::from),
            Self::Delimiter => context.delimiter.map(Cow::from),
            Self::MaxKeys => context.max_keys.map(Cow::from),
            Self::CannedAcl => context.canned_acl.map(Cow::from),
            Self::Encryption => context.encryption.stated(StatedHeader::Kind).map(Cow::from),
            Self::EncryptionKey => context.encryption.stated(StatedHeader::KmsKey).map(Cow::from),
            Self::CustomerAlgorithm => {
                context.encryption.stated(StatedHeader::CustomerAlgorithm).map(Cow::from)
            }
            Self::VersionId => context.version_id.map(Cow::from),
            Self::ExistingTag(key) => context.existing_tags.value(key).map(Cow::from),
            Self::RequestTag(key) => tag(key).map(|value| value.as_str().into()),
            Self::Claim(name) => match context.principal?.claim(name) {
                [only] => Some(only.as_str().into()),
                _ => None,
            },
            Self::RequestTagKeys | Self::OfService(_) | Self::Unknown(_) => None,
        }
    }

    /// All values in the request.
    pub(super) fn values<'c>(&self, context: &PolicyContext<'c>) -> Vec<Cow<'c, str>> {
        match self {
            Self::RequestTagKeys => {
                context.request_tags.iter().map(|(name, _)| name.as_str().into()).collect()
            }
            Self::Claim(name) => {
                let principal = context.principal.into_iter();
                principal.flat_map(|it| it.claim(name)).map(|value| value.as_str().into()).collect()
            }
            single => single.single_value(context).into_iter().collect(),
        }
    }
}

/// The name, as in a policy.
impl fmt::Display for ConditionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ExistingTag(tag) => write!(f, "s3:ExistingObjectTag/{tag}"),
            Self::RequestTag(tag) => write!(f, "s3:RequestObjectTag/{tag}"),
            Self::PrincipalTag(tag) => write!(f, "aws:PrincipalTag/{tag}"),
            Self::Claim(name) => write!(f, "jwt:{name}"),
            Self::Unknown(name) => f.write_str(name),
            plain => {
                f.write_str(Self::PLAIN.iter().find(|(_, key)| key == plain).map_or("", |(name, _)| name))
            }
        }
    }
}

impl StatedHeader {
    fn is_grant(self) -> bool {
        use StatedHeader::{GrantFullControl, GrantRead, GrantReadAcp, GrantWrite, GrantWriteAcp};
        matches!(self, GrantRead | GrantWrite | GrantReadAcp | GrantWriteAcp | GrantFullControl)
    }
}

fn is_put(action: &str) -> bool {
    matches!(action, "PutObject" | "CreateObject")
}

fn is_get(action: &str) -> bool {
    matches!(action, "GetObject" | "GetObjectVersion")
}

fn is_put_of_acl(action: &str) -> bool {
    matches!(action, "PutObjectAcl" | "PutObjectVersionAcl" | "PutBucketAcl")
}
