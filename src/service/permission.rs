//! The permissions of each operation (S3 service authorization reference).

use crate::auth::{Action, Resource};
use crate::s3::{Operation, QueryParams, TargetResource};

/// The actions of `operation`, one of which suffices. `versioned` says whether the request names a
/// version. Operations check access to further resources themselves.
pub fn actions(operation: Operation, versioned: bool) -> &'static [Action] {
    let either =
        |current: &'static [Action], named: &'static [Action]| if versioned { named } else { current };
    match operation {
        Operation::ListBuckets => &[Action::ListAllMyBuckets],
        Operation::CreateBucket => &[Action::CreateBucket],
        Operation::DeleteBucket => &[Action::DeleteBucket],
        Operation::HeadBucket | Operation::ListObjects | Operation::ListObjectsV2 => &[Action::ListBucket],
        Operation::GetBucketLocation => &[Action::GetBucketLocation],
        Operation::PutBucketVersioning => &[Action::PutBucketVersioning],
        Operation::GetBucketVersioning => &[Action::GetBucketVersioning],
        Operation::PutBucketCors | Operation::DeleteBucketCors => &[Action::PutBucketCORS],
        Operation::GetBucketCors => &[Action::GetBucketCORS],
        Operation::GetBucketEncryption => &[Action::GetEncryptionConfiguration],
        Operation::PutBucketLifecycleConfiguration | Operation::DeleteBucketLifecycle => {
            &[Action::PutLifecycleConfiguration]
        }
        Operation::GetBucketLifecycleConfiguration => &[Action::GetLifecycleConfiguration],
        Operation::GetBucketOwnershipControls => &[Action::GetBucketOwnershipControls],
        Operation::PutBucketNotificationConfiguration => &[Action::PutBucketNotification],
        Operation::GetBucketNotificationConfiguration => &[Action::GetBucketNotification],
        Operation::PutBucketOwnershipControls | Operation::DeleteBucketOwnershipControls => {
            &[Action::PutBucketOwnershipControls]
        }
        Operation::GetBucketAcl => &[Action::GetBucketAcl],
        Operation::PutBucketAcl => &[Action::PutBucketAcl],
        Operation::GetObjectAcl => either(&[Action::GetObjectAcl], &[Action::GetObjectVersionAcl]),
        Operation::PutObjectAcl => either(&[Action::PutObjectAcl], &[Action::PutObjectVersionAcl]),
        Operation::GetBucketPolicy => &[Action::GetBucketPolicy],
        Operation::GetBucketPolicyStatus => &[Action::GetBucketPolicyStatus],
        Operation::PutBucketPolicy => &[Action::PutBucketPolicy],
        Operation::DeleteBucketPolicy => &[Action::DeleteBucketPolicy],
        Operation::GetPublicAccessBlock => &[Action::GetBucketPublicAccessBlock],
        Operation::PutPublicAccessBlock | Operation::DeletePublicAccessBlock => {
            &[Action::PutBucketPublicAccessBlock]
        }
        Operation::PutBucketQuota | Operation::DeleteBucketQuota => &[Action::PutBucketQuota],
        Operation::GetBucketQuota => &[Action::GetBucketQuota],
        Operation::PutOwnerQuota | Operation::DeleteOwnerQuota => &[Action::PutOwnerQuota],
        Operation::GetOwnerQuota => &[Action::GetOwnerQuota],
        Operation::PutBucketPlacement | Operation::DeleteBucketPlacement => &[Action::PutBucketPlacement],
        Operation::GetBucketPlacement => &[Action::GetBucketPlacement],
        Operation::PutBucketAccelerateConfiguration => &[Action::PutAccelerateConfiguration],
        Operation::GetBucketAccelerateConfiguration => &[Action::GetAccelerateConfiguration],
        Operation::PutBucketLogging => &[Action::PutBucketLogging],
        Operation::GetBucketLogging => &[Action::GetBucketLogging],
        Operation::PutBucketRequestPayment => &[Action::PutBucketRequestPayment],
        Operation::GetBucketRequestPayment => &[Action::GetBucketRequestPayment],
        Operation::ListBucketAnalyticsConfigurations | Operation::GetBucketAnalyticsConfiguration => {
            &[Action::GetAnalyticsConfiguration]
        }
        Operation::DeleteBucketAnalyticsConfiguration => &[Action::PutAnalyticsConfiguration],
        Operation::ListBucketIntelligentTieringConfigurations | Operation::GetBucketIntelligentTieringConfiguration => {
            &[Action::GetIntelligentTieringConfiguration]
        }
        Operation::DeleteBucketIntelligentTieringConfiguration => &[Action::PutIntelligentTieringConfiguration],
        Operation::ListBucketInventoryConfigurations | Operation::GetBucketInventoryConfiguration => {
            &[Action::GetInventoryConfiguration]
        }
        Operation::DeleteBucketInventoryConfiguration => &[Action::PutInventoryConfiguration],
        Operation::ListBucketMetricsConfigurations | Operation::GetBucketMetricsConfiguration => {
            &[Action::GetMetricsConfiguration]
        }
        Operation::DeleteBucketMetricsConfiguration => &[Action::PutMetricsConfiguration],
        Operation::DeleteBucketEncryption => &[Action::PutEncryptionConfiguration],
        Operation::DeleteBucketReplication => &[Action::PutReplicationConfiguration],
        Operation::GetBucketReplication => &[Action::GetReplicationConfiguration],
        Operation::PutBucketTagging | Operation::DeleteBucketTagging => &[Action::PutBucketTagging],
        Operation::GetBucketTagging => &[Action::GetBucketTagging],
        Operation::PutBucketWebsite => &[Action::PutBucketWebsite],
        Operation::GetBucketWebsite => &[Action::GetBucketWebsite],
        Operation::DeleteBucketWebsite => &[Action::DeleteBucketWebsite],
        Operation::PutObjectLockConfiguration => &[Action::PutBucketObjectLockConfiguration],
        Operation::PutObjectRetention => &[Action::PutObjectRetention],
        Operation::GetObjectRetention => &[Action::GetObjectRetention],
        Operation::PutObjectLegalHold => &[Action::PutObjectLegalHold],
        Operation::GetObjectLegalHold => &[Action::GetObjectLegalHold],
        Operation::GetObjectLockConfiguration => &[Action::GetBucketObjectLockConfiguration],
        Operation::ListObjectVersions => &[Action::ListBucketVersions],
        Operation::ListMultipartUploads => &[Action::ListBucketMultipartUploads],
        // Each object in the request is checked separately.
        Operation::DeleteObjects => &[Action::DeleteObject, Action::DeleteObjectVersion],
        Operation::GetObject | Operation::HeadObject => {
            either(&[Action::GetObject], &[Action::GetObjectVersion])
        }
        Operation::GetObjectAttributes => {
            either(&[Action::GetObjectAttributes], &[Action::GetObjectVersionAttributes])
        }
        Operation::DeleteObject => either(&[Action::DeleteObject], &[Action::DeleteObjectVersion]),
        Operation::GetObjectTagging => {
            either(&[Action::GetObjectTagging], &[Action::GetObjectVersionTagging])
        }
        Operation::PutObjectTagging => {
            either(&[Action::PutObjectTagging], &[Action::PutObjectVersionTagging])
        }
        Operation::DeleteObjectTagging => {
            either(&[Action::DeleteObjectTagging], &[Action::DeleteObjectVersionTagging])
        }
        Operation::PutObject
        | Operation::PostObject
        | Operation::CopyObject
        | Operation::CreateMultipartUpload
        | Operation::UploadPart
        | Operation::UploadPartCopy
        // Who may only create is tried last, since the operations hold them to it.
        | Operation::CompleteMultipartUpload => &[Action::PutObject, Action::CreateObject],
        Operation::AbortMultipartUpload => &[Action::AbortMultipartUpload],
        Operation::ListParts => &[Action::ListMultipartUploadParts],
        // The request only gets an error, which callers with access to the bucket or the object may
        // see.
        Operation::NotServed => &[Action::ListBucket, Action::GetObject],
    }
}

/// The resource of the permission for `operation`: its target, or the listed keys.
pub fn resource<'a>(
    operation: Operation,
    target: &'a TargetResource,
    query: &'a QueryParams,
) -> Resource<'a> {
    match (operation, target) {
        (_, TargetResource::Service) => Resource::Service,
        (
            Operation::ListObjects
            | Operation::ListObjectsV2
            | Operation::ListObjectVersions
            | Operation::ListMultipartUploads,
            TargetResource::Bucket(bucket),
        ) => Resource::Prefix { bucket, prefix: query.get("prefix").unwrap_or_default() },
        (_, TargetResource::Bucket(bucket)) => Resource::Bucket(bucket),
        (_, TargetResource::Object { bucket, key }) => Resource::Object { bucket, key: key.as_str() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        for row in Operation::TABLE {
            assert!(!actions(row.operation, false).is_empty() && !actions(row.operation, true).is_empty());
        }
    }
}
