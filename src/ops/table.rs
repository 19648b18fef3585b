//! The table of operations: a row for each has its permission, its audit, the value that it changes
//! and its function. `s3/operation.rs` has its name and its route.

use super::audit::AuditedValue;
use super::stored_document as document;
use super::{
    Context, acl, attributes, bucket_policy, buckets, copy, delete, get, list, multipart, object_lock,
    placement, post, put, quota, tagging, unset, versioning, versions_list,
};
use crate::auth::{Action, Authorized};
use crate::s3::bucket_encryption::BucketEncryption;
use crate::s3::cors::CorsConfiguration;
use crate::s3::lifecycle::LifecycleConfiguration;
use crate::s3::logging::BucketLogging;
use crate::s3::notification::NotificationConfiguration;
use crate::s3::object_lock::LockConfiguration;
use crate::s3::replication::ReplicationConfiguration;
use crate::s3::tags::BucketTags;
use crate::s3::website::WebsiteConfiguration;
use crate::s3::{Call, ObjectOwnership, Operation, PublicAccessBlock, Response, S3Error};
use crate::store::BucketConfigurationKind;

/// The attempts of an operation that are audited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuditScope {
    /// None: reads, and writes of objects, which the access log has.
    None,
    /// Every attempt.
    Every,
    /// Those that name a version.
    NamedVersion,
    /// Those that name versions in their body: a record for each version.
    VersionsInBody,
}

/// The function of an operation.
#[derive(Clone, Copy)]
pub(super) enum Function {
    /// It reads the body of the request.
    OnBody(fn(&Context, &Authorized, &mut Call<'_>) -> Result<Response, S3Error>),
    /// It needs the head of the request alone.
    OnHead(fn(&Context, &Authorized, &Call<'_>) -> Result<Response, S3Error>),
}

/// The properties of an operation.
#[derive(Clone, Copy)]
pub(super) struct OperationRow {
    /// The actions, one of which suffices. The operation checks access to further resources itself.
    actions: &'static [Action],
    /// The actions for a request that names a version.
    version_actions: &'static [Action],
    /// Whether it lists keys, so that its resource is the prefix in its query.
    pub(super) is_listing: bool,
    audit_scope: AuditScope,
    pub(super) audited_value: AuditedValue,
    pub(super) function: Function,
}

impl OperationRow {
    const fn new(actions: &'static [Action], function: Function) -> Self {
        Self {
            actions,
            version_actions: actions,
            is_listing: false,
            audit_scope: AuditScope::None,
            audited_value: AuditedValue::None,
            function,
        }
    }

    /// A request that names a version takes other actions.
    const fn of_version(self, version_actions: &'static [Action]) -> Self {
        Self { version_actions, ..self }
    }

    const fn listing(self) -> Self {
        Self { is_listing: true, ..self }
    }

    /// Every attempt is audited.
    const fn audited(self, value: AuditedValue) -> Self {
        self.audited_in(AuditScope::Every, value)
    }

    const fn audited_in(self, audit_scope: AuditScope, audited_value: AuditedValue) -> Self {
        Self { audit_scope, audited_value, ..self }
    }

    /// The operation sets or removes a configuration of a bucket, and is audited.
    const fn sets(self, kind: BucketConfigurationKind) -> Self {
        self.audited(AuditedValue::Configuration(kind))
    }
}

/// An operation that reads the body of the request.
const fn on_body(
    actions: &'static [Action],
    function: fn(&Context, &Authorized, &mut Call<'_>) -> Result<Response, S3Error>,
) -> OperationRow {
    OperationRow::new(actions, Function::OnBody(function))
}

/// An operation that needs the head of the request alone.
const fn on_head(
    actions: &'static [Action],
    function: fn(&Context, &Authorized, &Call<'_>) -> Result<Response, S3Error>,
) -> OperationRow {
    OperationRow::new(actions, Function::OnHead(function))
}

/// Writes of an object. Who may only create is tried last, since the operations hold them to it.
const WRITE: &[Action] = &[Action::PutObject, Action::CreateObject];

/// The row of an operation. The compiler requires one for each.
pub(super) fn row(operation: Operation) -> OperationRow {
    use Action as A;
    use AuditedValue as Value;
    use BucketConfigurationKind as Kind;
    use Operation as O;
    match operation {
        O::ListBuckets => on_head(&[A::ListAllMyBuckets], buckets::list),

        O::PutOwnerQuota => on_body(&[A::PutOwnerQuota], quota::put_of_owner).audited(Value::OwnerQuota),
        O::GetOwnerQuota => on_head(&[A::GetOwnerQuota], quota::get_of_owner),
        O::DeleteOwnerQuota => {
            on_head(&[A::PutOwnerQuota], quota::delete_of_owner).audited(Value::OwnerQuota)
        }

        O::CreateBucket => on_body(&[A::CreateBucket], buckets::create).audited(Value::Bucket),
        O::DeleteBucket => on_head(&[A::DeleteBucket], buckets::delete).audited(Value::Bucket),
        O::HeadBucket => on_head(&[A::ListBucket], buckets::head),
        O::GetBucketLocation => on_head(&[A::GetBucketLocation], buckets::location),
        O::PutBucketVersioning => {
            on_body(&[A::PutBucketVersioning], versioning::put).audited(Value::Versioning)
        }
        O::GetBucketVersioning => on_head(&[A::GetBucketVersioning], versioning::get),
        O::PutBucketCors => on_body(&[A::PutBucketCORS], document::put::<CorsConfiguration>).sets(Kind::Cors),
        O::GetBucketCors => on_head(&[A::GetBucketCORS], document::get::<CorsConfiguration>),
        O::DeleteBucketCors => {
            on_head(&[A::PutBucketCORS], document::delete::<CorsConfiguration>).sets(Kind::Cors)
        }
        O::PutBucketEncryption => {
            on_body(&[A::PutEncryptionConfiguration], document::put::<BucketEncryption>)
                .sets(Kind::Encryption)
        }
        O::GetBucketEncryption => {
            on_head(&[A::GetEncryptionConfiguration], document::get::<BucketEncryption>)
        }
        O::DeleteBucketEncryption => {
            on_head(&[A::PutEncryptionConfiguration], document::delete::<BucketEncryption>)
                .sets(Kind::Encryption)
        }
        O::PutBucketLifecycleConfiguration => {
            on_body(&[A::PutLifecycleConfiguration], document::put::<LifecycleConfiguration>)
                .sets(Kind::Lifecycle)
        }
        O::GetBucketLifecycleConfiguration => {
            on_head(&[A::GetLifecycleConfiguration], document::get::<LifecycleConfiguration>)
        }
        O::DeleteBucketLifecycle => {
            on_head(&[A::PutLifecycleConfiguration], document::delete::<LifecycleConfiguration>)
                .sets(Kind::Lifecycle)
        }
        O::PutBucketAcl => on_body(&[A::PutBucketAcl], acl::put_of_bucket).sets(Kind::Acl),
        O::GetBucketAcl => on_head(&[A::GetBucketAcl], acl::get_of_bucket),
        O::PutBucketOwnershipControls => {
            on_body(&[A::PutBucketOwnershipControls], document::put::<ObjectOwnership>)
                .sets(Kind::OwnershipControls)
        }
        O::GetBucketOwnershipControls => {
            on_head(&[A::GetBucketOwnershipControls], document::get::<ObjectOwnership>)
        }
        O::DeleteBucketOwnershipControls => {
            on_head(&[A::PutBucketOwnershipControls], document::delete::<ObjectOwnership>)
                .sets(Kind::OwnershipControls)
        }
        O::PutBucketPolicy => on_body(&[A::PutBucketPolicy], bucket_policy::put).sets(Kind::Policy),
        O::GetBucketPolicy => on_head(&[A::GetBucketPolicy], bucket_policy::get),
        O::DeleteBucketPolicy => on_head(&[A::DeleteBucketPolicy], bucket_policy::delete).sets(Kind::Policy),
        O::GetBucketPolicyStatus => on_head(&[A::GetBucketPolicyStatus], bucket_policy::status),
        O::PutPublicAccessBlock => {
            on_body(&[A::PutBucketPublicAccessBlock], document::put::<PublicAccessBlock>)
                .sets(Kind::PublicAccessBlock)
        }
        O::GetPublicAccessBlock => {
            on_head(&[A::GetBucketPublicAccessBlock], document::get::<PublicAccessBlock>)
        }
        O::DeletePublicAccessBlock => {
            on_head(&[A::PutBucketPublicAccessBlock], document::delete::<PublicAccessBlock>)
                .sets(Kind::PublicAccessBlock)
        }
        O::PutBucketQuota => on_body(&[A::PutBucketQuota], quota::put_of_bucket).sets(Kind::Quota),
        O::GetBucketQuota => on_head(&[A::GetBucketQuota], quota::get_of_bucket),
        O::DeleteBucketQuota => on_head(&[A::PutBucketQuota], quota::delete_of_bucket).sets(Kind::Quota),
        O::PutBucketPlacement => on_body(&[A::PutBucketPlacement], placement::put).sets(Kind::Placement),
        O::GetBucketPlacement => on_head(&[A::GetBucketPlacement], placement::get),
        O::DeleteBucketPlacement => {
            on_head(&[A::PutBucketPlacement], placement::delete).sets(Kind::Placement)
        }
        O::PutBucketReplication => {
            on_body(&[A::PutReplicationConfiguration], document::put::<ReplicationConfiguration>)
                .sets(Kind::Replication)
        }
        O::GetBucketReplication => {
            on_head(&[A::GetReplicationConfiguration], document::get::<ReplicationConfiguration>)
        }
        O::DeleteBucketReplication => {
            on_head(&[A::PutReplicationConfiguration], document::delete::<ReplicationConfiguration>)
                .sets(Kind::Replication)
        }
        O::PutBucketAccelerateConfiguration => {
            on_body(&[A::PutAccelerateConfiguration], unset::put_acceleration).audited(Value::None)
        }
        O::GetBucketAccelerateConfiguration => {
            on_head(&[A::GetAccelerateConfiguration], unset::get_acceleration)
        }
        O::PutBucketLogging => {
            on_body(&[A::PutBucketLogging], document::put::<BucketLogging>).sets(Kind::Logging)
        }
        O::GetBucketLogging => on_head(&[A::GetBucketLogging], document::get::<BucketLogging>),
        O::PutBucketRequestPayment => {
            on_body(&[A::PutBucketRequestPayment], unset::put_request_payment).audited(Value::None)
        }
        O::GetBucketRequestPayment => on_head(&[A::GetBucketRequestPayment], unset::get_request_payment),
        O::ListBucketAnalyticsConfigurations => {
            on_head(&[A::GetAnalyticsConfiguration], unset::list_analytics)
        }
        O::GetBucketAnalyticsConfiguration => on_head(&[A::GetAnalyticsConfiguration], unset::absent),
        O::DeleteBucketAnalyticsConfiguration => {
            on_head(&[A::PutAnalyticsConfiguration], unset::absent).audited(Value::None)
        }
        O::ListBucketIntelligentTieringConfigurations => {
            on_head(&[A::GetIntelligentTieringConfiguration], unset::list_tiering)
        }
        O::GetBucketIntelligentTieringConfiguration => {
            on_head(&[A::GetIntelligentTieringConfiguration], unset::absent)
        }
        O::DeleteBucketIntelligentTieringConfiguration => {
            on_head(&[A::PutIntelligentTieringConfiguration], unset::absent).audited(Value::None)
        }
        O::ListBucketInventoryConfigurations => {
            on_head(&[A::GetInventoryConfiguration], unset::list_inventory)
        }
        O::GetBucketInventoryConfiguration => on_head(&[A::GetInventoryConfiguration], unset::absent),
        O::DeleteBucketInventoryConfiguration => {
            on_head(&[A::PutInventoryConfiguration], unset::absent).audited(Value::None)
        }
        O::ListBucketMetricsConfigurations => on_head(&[A::GetMetricsConfiguration], unset::list_metrics),
        O::GetBucketMetricsConfiguration => on_head(&[A::GetMetricsConfiguration], unset::absent),
        O::DeleteBucketMetricsConfiguration => {
            on_head(&[A::PutMetricsConfiguration], unset::absent).audited(Value::None)
        }
        O::PutBucketNotificationConfiguration => {
            on_body(&[A::PutBucketNotification], document::put::<NotificationConfiguration>)
                .sets(Kind::Notification)
        }
        O::GetBucketNotificationConfiguration => {
            on_head(&[A::GetBucketNotification], document::get::<NotificationConfiguration>)
        }
        O::PutBucketTagging => on_body(&[A::PutBucketTagging], document::put::<BucketTags>).sets(Kind::Tags),
        O::GetBucketTagging => on_head(&[A::GetBucketTagging], document::get::<BucketTags>),
        O::DeleteBucketTagging => {
            on_head(&[A::PutBucketTagging], document::delete::<BucketTags>).sets(Kind::Tags)
        }
        O::PutBucketWebsite => {
            on_body(&[A::PutBucketWebsite], document::put::<WebsiteConfiguration>).sets(Kind::Website)
        }
        O::GetBucketWebsite => on_head(&[A::GetBucketWebsite], document::get::<WebsiteConfiguration>),
        O::DeleteBucketWebsite => {
            on_head(&[A::DeleteBucketWebsite], document::delete::<WebsiteConfiguration>).sets(Kind::Website)
        }
        O::PutObjectLockConfiguration => {
            on_body(&[A::PutBucketObjectLockConfiguration], document::put::<LockConfiguration>)
                .sets(Kind::ObjectLock)
        }
        O::GetObjectLockConfiguration => {
            on_head(&[A::GetBucketObjectLockConfiguration], document::get::<LockConfiguration>)
        }

        O::ListObjects => on_head(&[A::ListBucket], list::list_v1).listing(),
        O::ListObjectsV2 => on_head(&[A::ListBucket], list::list_v2).listing(),
        O::ListObjectVersions => on_head(&[A::ListBucketVersions], versions_list::list).listing(),
        O::ListMultipartUploads => {
            on_head(&[A::ListBucketMultipartUploads], multipart::list_uploads).listing()
        }
        // Each object in the request is checked separately.
        O::DeleteObjects => on_body(&[A::DeleteObject, A::DeleteObjectVersion], delete::many)
            .audited_in(AuditScope::VersionsInBody, Value::None),
        O::PostObject => on_body(WRITE, post::post),

        O::GetObject => on_head(&[A::GetObject], get::get).of_version(&[A::GetObjectVersion]),
        O::HeadObject => on_head(&[A::GetObject], get::head).of_version(&[A::GetObjectVersion]),
        O::GetObjectAttributes => {
            on_head(&[A::GetObjectAttributes], attributes::get).of_version(&[A::GetObjectVersionAttributes])
        }
        O::PutObject => on_body(WRITE, put::put),
        O::CopyObject => on_head(WRITE, copy::copy),
        O::DeleteObject => on_head(&[A::DeleteObject], delete::one)
            .of_version(&[A::DeleteObjectVersion])
            .audited_in(AuditScope::NamedVersion, Value::Version),
        O::GetObjectTagging => {
            on_head(&[A::GetObjectTagging], tagging::get).of_version(&[A::GetObjectVersionTagging])
        }
        O::PutObjectTagging => {
            on_body(&[A::PutObjectTagging], tagging::put).of_version(&[A::PutObjectVersionTagging])
        }
        O::DeleteObjectTagging => {
            on_head(&[A::DeleteObjectTagging], tagging::delete).of_version(&[A::DeleteObjectVersionTagging])
        }

        O::GetObjectAcl => {
            on_head(&[A::GetObjectAcl], acl::get_of_object).of_version(&[A::GetObjectVersionAcl])
        }
        O::PutObjectAcl => on_body(&[A::PutObjectAcl], acl::put_of_object)
            .of_version(&[A::PutObjectVersionAcl])
            .audited(Value::ObjectAcl),
        O::PutObjectRetention => {
            on_body(&[A::PutObjectRetention], object_lock::put_retention).audited(Value::Retention)
        }
        O::GetObjectRetention => on_head(&[A::GetObjectRetention], object_lock::get_retention),
        O::PutObjectLegalHold => {
            on_body(&[A::PutObjectLegalHold], object_lock::put_legal_hold).audited(Value::LegalHold)
        }
        O::GetObjectLegalHold => on_head(&[A::GetObjectLegalHold], object_lock::get_legal_hold),

        O::CreateMultipartUpload => on_head(WRITE, multipart::create),
        O::UploadPart => on_body(WRITE, multipart::upload_part),
        O::UploadPartCopy => on_head(WRITE, multipart::copy_part),
        O::CompleteMultipartUpload => on_body(WRITE, multipart::complete),
        O::AbortMultipartUpload => on_head(&[A::AbortMultipartUpload], multipart::abort),
        O::ListParts => on_head(&[A::ListMultipartUploadParts], multipart::list_parts),

        // The request only gets an error, which callers with access to the bucket or the object may
        // see.
        O::NotServed => on_head(&[A::ListBucket, A::GetObject], unset::not_served),
    }
}

/// The actions of `operation`, one of which suffices. `versioned` says whether the request names a
/// version.
pub fn actions(operation: Operation, versioned: bool) -> &'static [Action] {
    let row = row(operation);
    if versioned { row.version_actions } else { row.actions }
}

/// The attempts of `operation` that are audited.
pub fn audit_scope(operation: Operation) -> AuditScope {
    row(operation).audit_scope
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::s3::Method;

    /// The operations that change something and are not audited: writes of objects.
    const UNAUDITED: [&str; 10] = [
        "AbortMultipartUpload",
        "CompleteMultipartUpload",
        "CopyObject",
        "CreateMultipartUpload",
        "DeleteObjectTagging",
        "PostObject",
        "PutObject",
        "PutObjectTagging",
        "UploadPart",
        "UploadPartCopy",
    ];

    #[test]
    fn every_operation_that_changes_something_is_audited_or_named_as_not_audited() {
        let mut unaudited = Vec::new();
        for route in Operation::TABLE {
            let changes = matches!(route.method, Method::Put | Method::Post | Method::Delete);
            let scope = audit_scope(route.operation);
            if !changes {
                assert_eq!(scope, AuditScope::None, "{}", route.operation);
            } else if scope == AuditScope::None {
                unaudited.push(route.operation.as_str());
            }
        }
        unaudited.sort_unstable();
        assert_eq!(unaudited, UNAUDITED);
    }

    #[test]
    fn a_value_is_named_where_attempts_are_audited() {
        for route in Operation::TABLE {
            let row = row(route.operation);
            let has_value = row.audited_value != AuditedValue::None;
            assert!(!has_value || row.audit_scope != AuditScope::None, "{}", route.operation);
        }
    }

    #[test]
    fn a_named_version_takes_a_permission_of_its_own() {
        for operation in [
            Operation::GetObject,
            Operation::HeadObject,
            Operation::DeleteObject,
            Operation::GetObjectAttributes,
            Operation::GetObjectTagging,
        ] {
            assert_ne!(actions(operation, false), actions(operation, true), "{operation}");
        }
    }

    #[test]
    fn every_operation_takes_some_permission() {
        for route in Operation::TABLE {
            let row = row(route.operation);
            assert!(!row.actions.is_empty() && !row.version_actions.is_empty(), "{}", route.operation);
        }
    }
}
