//! The values that audited operations change, as text for the audit log.

use serde_json::{Value, json};

use super::configurations::object_acl;
use super::{Context, version_id};
use crate::base::Quota;
use crate::s3::acl::POLICY_ROOT;
use crate::s3::object_lock::legal_hold_name;
use crate::s3::{Call, Operation};
use crate::store::{BucketConfigurationKind, Retention, RetentionMode, Selector, VersionRecord, Versioning};

impl Context {
    /// The value that the operation of `call` changes, as it is now; `None` if there is none.
    /// Documents are as stored; a version and a bucket are JSON objects. Concurrent changes may
    /// come between this value and the operation.
    pub fn audited_state(&self, call: &Call<'_>) -> Option<String> {
        match call.operation {
            Operation::CreateBucket | Operation::DeleteBucket => bucket(self, call),
            Operation::PutBucketVersioning => versioning(self, call),
            Operation::PutOwnerQuota | Operation::DeleteOwnerQuota => owner_quota(self, call),
            Operation::PutObjectAcl
            | Operation::PutObjectRetention
            | Operation::PutObjectLegalHold
            | Operation::DeleteObject => {
                let which = version_id::selector(self, call).ok()?;
                let version = find(self, call, call.key(), which)?;
                state_of(self, call, &version)
            }
            operation => configuration(self, call, kind_of(operation)?),
        }
    }
}

/// The version that a deletion would remove, as JSON; `None` if there is none.
pub(super) fn version_state(context: &Context, call: &Call<'_>, key: &str, named: &str) -> Option<String> {
    let which = version_id::parse(context, named)?;
    Some(describe(&find(context, call, key, which)?).to_string())
}

fn find(context: &Context, call: &Call<'_>, key: &str, which: Selector) -> Option<VersionRecord> {
    Some(context.store.find_outline(call.bucket(), key, which).ok()?.version)
}

/// The property of a version that the operation changes; the whole version for a deletion.
fn state_of(context: &Context, call: &Call<'_>, version: &VersionRecord) -> Option<String> {
    match call.operation {
        Operation::PutObjectAcl => {
            let owner = context.store.bucket(call.bucket()).ok()?.owner;
            let mut document = context.document(POLICY_ROOT);
            object_acl(version).render_policy(&mut document, &owner);
            String::from_utf8(document.finish()).ok()
        }
        Operation::PutObjectRetention => Some(retention(version.controls.retention?)),
        Operation::PutObjectLegalHold => Some(legal_hold_name(version.controls.is_held()).to_owned()),
        _ => Some(describe(version).to_string()),
    }
}

fn describe(version: &VersionRecord) -> Value {
    json!({
        "modified": version.modified.to_iso8601(),
        "delete_marker": version.delete_marker,
        "size": version.size,
        "etag": version.etag.to_string(),
        "retention": version.controls.retention.map(retention),
        "legal_hold": version.controls.is_held(),
    })
}

fn retention(retention: Retention) -> String {
    let mode = match retention.mode {
        RetentionMode::Governance => "GOVERNANCE",
        RetentionMode::Compliance => "COMPLIANCE",
    };
    format!("{mode} until {}", retention.until.to_iso8601())
}

fn bucket(context: &Context, call: &Call<'_>) -> Option<String> {
    let found = context.store.configured_bucket(call.bucket()).ok()?;
    let mut described = json!({ "owner": found.info.owner, "versioning": status(found.info.versioning) });
    for (kind, _, name) in BucketConfigurationKind::TABLE {
        if let Some(set) = found.configuration(kind) {
            described[name] = String::from_utf8_lossy(set.document()).into();
        }
    }
    Some(described.to_string())
}

fn versioning(context: &Context, call: &Call<'_>) -> Option<String> {
    status(context.store.bucket(call.bucket()).ok()?.versioning).map(str::to_owned)
}

fn status(versioning: Versioning) -> Option<&'static str> {
    match versioning {
        Versioning::Unset => None,
        Versioning::Enabled => Some("Enabled"),
        Versioning::Suspended => Some("Suspended"),
    }
}

fn owner_quota(context: &Context, call: &Call<'_>) -> Option<String> {
    let stored = context.store.limited_owner(call.query.get("owner")?).stored?;
    String::from_utf8(Quota::document(&stored)).ok()
}

fn configuration(context: &Context, call: &Call<'_>, kind: BucketConfigurationKind) -> Option<String> {
    let bucket = context.store.configured_bucket(call.bucket()).ok()?;
    Some(String::from_utf8_lossy(bucket.configuration(kind)?.document()).into_owned())
}

/// The configuration that an operation sets or removes.
fn kind_of(operation: Operation) -> Option<BucketConfigurationKind> {
    use BucketConfigurationKind as Kind;
    Some(match operation {
        Operation::PutBucketCors | Operation::DeleteBucketCors => Kind::Cors,
        Operation::PutBucketPolicy | Operation::DeleteBucketPolicy => Kind::Policy,
        Operation::PutPublicAccessBlock | Operation::DeletePublicAccessBlock => Kind::PublicAccessBlock,
        Operation::PutBucketOwnershipControls | Operation::DeleteBucketOwnershipControls => {
            Kind::OwnershipControls
        }
        Operation::PutBucketAcl => Kind::Acl,
        Operation::PutBucketTagging | Operation::DeleteBucketTagging => Kind::Tags,
        Operation::PutBucketLifecycleConfiguration | Operation::DeleteBucketLifecycle => Kind::Lifecycle,
        Operation::PutBucketQuota | Operation::DeleteBucketQuota => Kind::Quota,
        Operation::PutBucketPlacement | Operation::DeleteBucketPlacement => Kind::Placement,
        Operation::PutBucketWebsite | Operation::DeleteBucketWebsite => Kind::Website,
        Operation::PutObjectLockConfiguration => Kind::ObjectLock,
        Operation::PutBucketNotificationConfiguration => Kind::Notification,
        Operation::ListBuckets
        | Operation::PutOwnerQuota
        | Operation::GetOwnerQuota
        | Operation::DeleteOwnerQuota
        | Operation::CreateBucket
        | Operation::DeleteBucket
        | Operation::HeadBucket
        | Operation::GetBucketLocation
        | Operation::PutBucketVersioning
        | Operation::GetBucketVersioning
        | Operation::GetBucketCors
        | Operation::GetBucketEncryption
        | Operation::GetBucketLifecycleConfiguration
        | Operation::GetBucketAcl
        | Operation::GetBucketOwnershipControls
        | Operation::GetBucketPolicy
        | Operation::GetBucketPolicyStatus
        | Operation::GetPublicAccessBlock
        | Operation::GetBucketQuota
        | Operation::GetBucketPlacement
        | Operation::GetBucketAccelerateConfiguration
        | Operation::GetBucketLogging
        | Operation::GetBucketRequestPayment
        | Operation::ListBucketAnalyticsConfigurations
        | Operation::GetBucketAnalyticsConfiguration
        | Operation::ListBucketIntelligentTieringConfigurations
        | Operation::GetBucketIntelligentTieringConfiguration
        | Operation::ListBucketInventoryConfigurations
        | Operation::GetBucketInventoryConfiguration
        | Operation::ListBucketMetricsConfigurations
        | Operation::GetBucketMetricsConfiguration
        | Operation::PutBucketAccelerateConfiguration
        | Operation::PutBucketLogging
        | Operation::PutBucketRequestPayment
        | Operation::DeleteBucketAnalyticsConfiguration
        | Operation::DeleteBucketIntelligentTieringConfiguration
        | Operation::DeleteBucketInventoryConfiguration
        | Operation::DeleteBucketMetricsConfiguration
        | Operation::DeleteBucketEncryption
        | Operation::DeleteBucketReplication
        | Operation::GetBucketReplication
        | Operation::GetBucketTagging
        | Operation::GetBucketNotificationConfiguration
        | Operation::GetBucketWebsite
        | Operation::GetObjectLockConfiguration
        | Operation::ListObjects
        | Operation::ListObjectsV2
        | Operation::ListObjectVersions
        | Operation::ListMultipartUploads
        | Operation::DeleteObjects
        | Operation::PostObject
        | Operation::GetObject
        | Operation::HeadObject
        | Operation::GetObjectAttributes
        | Operation::PutObject
        | Operation::CopyObject
        | Operation::DeleteObject
        | Operation::GetObjectTagging
        | Operation::PutObjectTagging
        | Operation::DeleteObjectTagging
        | Operation::GetObjectAcl
        | Operation::PutObjectAcl
        | Operation::PutObjectRetention
        | Operation::GetObjectRetention
        | Operation::PutObjectLegalHold
        | Operation::GetObjectLegalHold
        | Operation::CreateMultipartUpload
        | Operation::UploadPart
        | Operation::UploadPartCopy
        | Operation::CompleteMultipartUpload
        | Operation::AbortMultipartUpload
        | Operation::ListParts
        | Operation::NotServed => return None,
    })
}
