//! The facts about a request that conditions and variables may refer to.

use std::cell::RefCell;
use std::net::IpAddr;

use crate::base::Timestamp;

/// The tags of the object that is there.
pub trait ExistingTags {
    /// The value of a tag; `None` without the object or the tag. It is asked for only where a
    /// condition needs it.
    fn value(&self, key: &str) -> Option<String>;
}

impl<F: Fn(&str) -> Option<String>> ExistingTags for F {
    fn value(&self, key: &str) -> Option<String> {
        self(key)
    }
}

/// A header that conditions may refer to, of those that only some requests have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatedHeader {
    /// `p-copy-source`: the bucket and the key of the source, decoded
    CopySource,
    /// `p-metadata-directive`
    MetadataDirective,
    /// `p-storage-class`
    StorageClass,
    /// `p-grant-read`
    GrantRead,
    /// `p-grant-write`
    GrantWrite,
    /// `p-grant-read-acp`
    GrantReadAcp,
    /// `p-grant-write-acp`
    GrantWriteAcp,
    /// `p-grant-full-control`
    GrantFullControl,
    /// `p-object-lock-mode`
    LockMode,
    /// `p-object-lock-retain-until-date`
    LockUntil,
    /// `p-object-lock-legal-hold`
    LegalHold,
    /// `p-server-side-encryption`
    Kind,
    /// `p-server-side-encryption-aws-kms-key-id`
    KmsKey,
    /// `p-server-side-encryption-customer-algorithm`
    CustomerAlgorithm,
}

/// What a request states in its headers, not what the bucket has by default. The requests of an
/// upload state the encryption and the storage class that it was created with.
pub trait StatedEncryption {
    /// The value of a header; `None` without one. It is asked for only where a condition needs it.
    fn stated(&self, header: StatedHeader) -> Option<String>;
}

impl<F: Fn(StatedHeader) -> Option<String>> StatedEncryption for F {
    fn stated(&self, header: StatedHeader) -> Option<String> {
        self(header)
    }
}

/// The sender of a request, as conditions name it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PrincipalFacts {
    /// The ARN of the user or the role; that of a federated user's session. (`aws:PrincipalArn`)
    pub(in crate::auth) arn: String,
    /// The unique id, of a session with its name. (`aws:userid`)
    pub(in crate::auth) id: String,
    /// `User`, `AssumedRole` or `FederatedUser`. (`aws:PrincipalType`)
    pub(in crate::auth) kind: &'static str,
    /// The name of a user, also of one who signs with the keys of a session of its own.
    /// (`aws:username`)
    pub(in crate::auth) user_name: Option<String>,
    /// The name of a role, which policies of buckets may name.
    pub(in crate::auth) role: Option<String>,
    /// The ARN of the session of a role or of a federated user.
    pub(in crate::auth) session_arn: Option<String>,
    /// The tags of a session. (`aws:PrincipalTag/KEY`)
    pub(in crate::auth) tags: Vec<(String, String)>,
    /// When the keys of a session were issued. (`aws:TokenIssueTime`)
    pub(in crate::auth) issued: Option<Timestamp>,
    /// The claims of the token by which a role was assumed. (`jwt:CLAIM`)
    pub(in crate::auth) claims: Vec<TokenClaim>,
}

/// A claim of a provider's token.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct TokenClaim {
    #[serde(rename = "n")]
    pub(in crate::auth) name: String,
    #[serde(rename = "v")]
    pub(in crate::auth) values: Vec<String>,
}

impl PrincipalFacts {
    /// The values of a claim; none without it.
    pub(super) fn claim(&self, name: &str) -> &[String] {
        self.claims.iter().find(|claim| claim.name == name).map_or(&[], |claim| &claim.values)
    }
}

/// What was found about the conditions of policies that depend on the request alone. A request that
/// asks for a thousand objects evaluates them once.
#[derive(Debug, Clone, Default)]
pub struct ConditionMemo(RefCell<Vec<MemoOfPolicy>>);

#[derive(Debug, Clone)]
struct MemoOfPolicy {
    /// The serial number of the policy.
    policy: u64,
    /// By the number of the statement.
    held: Vec<Option<bool>>,
}

impl ConditionMemo {
    /// Whether those conditions of a statement hold: as it was found before, or else as `evaluate`
    /// finds.
    pub(super) fn recall(&self, policy: u64, statement: usize, evaluate: impl FnOnce() -> bool) -> bool {
        let mut memos = self.0.borrow_mut();
        let known = memos.iter().position(|memo| memo.policy == policy);
        let at = known.unwrap_or_else(|| {
            memos.push(MemoOfPolicy { policy, held: Vec::new() });
            memos.len() - 1
        });
        let memo = &mut memos[at];
        if memo.held.len() <= statement {
            memo.held.resize(statement + 1, None);
        }
        *memo.held[statement].get_or_insert_with(evaluate)
    }
}

/// The facts about a request. Absent facts are `None`.
#[derive(Clone, Copy)]
pub struct PolicyContext<'a> {
    /// The name of the user, whom policies of buckets name; `None` for an anonymous request and for
    /// the session of a role.
    pub user: Option<&'a str>,
    /// What else is known of the sender.
    pub principal: Option<&'a PrincipalFacts>,
    /// The address of the client. (`aws:SourceIp`)
    pub source_ip: Option<IpAddr>,
    /// Whether the connection is encrypted. (`aws:SecureTransport`)
    pub secure: bool,
    /// The time of the request. (`aws:CurrentTime`, `aws:EpochTime`)
    pub now: Timestamp,
    /// The header `Referer`. (`aws:Referer`)
    pub referer: Option<&'a str>,
    /// The header `User-Agent`. (`aws:UserAgent`)
    pub user_agent: Option<&'a str>,
    /// The prefix of a listing. (`s3:prefix`)
    pub prefix: Option<&'a str>,
    /// The delimiter of a listing. (`s3:delimiter`)
    pub delimiter: Option<&'a str>,
    /// The largest number of keys of a listing. (`s3:max-keys`)
    pub max_keys: Option<&'a str>,
    /// The canned ACL of a write. (`s3:x-amz-acl`)
    pub canned_acl: Option<&'a str>,
    /// What a request states. (`s3:x-amz-server-side-encryption`, `s3:x-amz-storage-class` and the
    /// like)
    pub encryption: &'a dyn StatedEncryption,
    /// The version that the request names. (`s3:VersionId`)
    pub version_id: Option<&'a str>,
    /// The tags that the request gives an object. (`s3:RequestObjectTag/KEY`,
    /// `s3:RequestObjectTagKeys`)
    pub request_tags: &'a [(String, String)],
    /// The tags of the object that is there. (`s3:ExistingObjectTag/KEY`)
    pub existing_tags: &'a dyn ExistingTags,
    /// What the request found about conditions before.
    pub memo: Option<&'a ConditionMemo>,
}

impl Default for PolicyContext<'_> {
    fn default() -> Self {
        Self {
            user: None,
            principal: None,
            source_ip: None,
            secure: false,
            now: Timestamp::default(),
            referer: None,
            user_agent: None,
            prefix: None,
            delimiter: None,
            max_keys: None,
            canned_acl: None,
            encryption: &|_: StatedHeader| None,
            version_id: None,
            request_tags: &[],
            existing_tags: &|_: &str| None,
            memo: None,
        }
    }
}
