//! The names of operations in the logs of buckets (S3 user guide, "Amazon S3 server access log
//! format", "Operation").

use crate::s3::{Method, Operation};

/// The name of an operation, such as `REST.PUT.OBJECT`.
pub(super) fn operation_name(operation: Operation, method: &Method) -> String {
    let method = match operation {
        Operation::CopyObject | Operation::UploadPartCopy => "COPY",
        _ => method.as_str(),
    };
    format!("REST.{method}.{}", resource(operation))
}

/// The kind of what an operation is about.
fn resource(operation: Operation) -> &'static str {
    use Operation as O;
    match operation {
        O::ListBuckets => "SERVICE",
        O::PutOwnerQuota
        | O::GetOwnerQuota
        | O::DeleteOwnerQuota
        | O::PutBucketQuota
        | O::GetBucketQuota
        | O::DeleteBucketQuota => "QUOTA",
        O::CreateBucket
        | O::DeleteBucket
        | O::HeadBucket
        | O::ListObjects
        | O::ListObjectsV2
        | O::PostObject => "BUCKET",
        O::ListObjectVersions => "BUCKETVERSIONS",
        O::GetBucketLocation => "LOCATION",
        O::PutBucketVersioning | O::GetBucketVersioning => "VERSIONING",
        O::PutBucketCors | O::GetBucketCors | O::DeleteBucketCors => "CORS",
        O::PutBucketEncryption | O::GetBucketEncryption | O::DeleteBucketEncryption => "ENCRYPTION",
        O::PutBucketLifecycleConfiguration
        | O::GetBucketLifecycleConfiguration
        | O::DeleteBucketLifecycle => "LIFECYCLE",
        O::PutBucketAcl | O::GetBucketAcl => "ACL",
        O::PutObjectAcl | O::GetObjectAcl => "OBJECT_ACL",
        O::PutBucketOwnershipControls | O::GetBucketOwnershipControls | O::DeleteBucketOwnershipControls => {
            "OWNERSHIP_CONTROLS"
        }
        O::PutBucketPolicy | O::GetBucketPolicy | O::DeleteBucketPolicy => "BUCKETPOLICY",
        O::GetBucketPolicyStatus => "POLICY_STATUS",
        O::PutPublicAccessBlock | O::GetPublicAccessBlock | O::DeletePublicAccessBlock => {
            "PUBLIC_ACCESS_BLOCK"
        }
        O::PutBucketPlacement | O::GetBucketPlacement | O::DeleteBucketPlacement => "PLACEMENT",
        O::PutBucketReplication | O::GetBucketReplication | O::DeleteBucketReplication => "REPLICATION",
        O::PutBucketAccelerateConfiguration | O::GetBucketAccelerateConfiguration => "ACCELERATE",
        O::PutBucketLogging | O::GetBucketLogging => "LOGGING_STATUS",
        O::PutBucketRequestPayment | O::GetBucketRequestPayment => "REQUEST_PAYMENT",
        O::ListBucketAnalyticsConfigurations
        | O::GetBucketAnalyticsConfiguration
        | O::DeleteBucketAnalyticsConfiguration => "ANALYTICS",
        O::ListBucketIntelligentTieringConfigurations
        | O::GetBucketIntelligentTieringConfiguration
        | O::DeleteBucketIntelligentTieringConfiguration => "INTELLIGENT_TIERING",
        O::ListBucketInventoryConfigurations
        | O::GetBucketInventoryConfiguration
        | O::DeleteBucketInventoryConfiguration => "INVENTORY",
        O::ListBucketMetricsConfigurations
        | O::GetBucketMetricsConfiguration
        | O::DeleteBucketMetricsConfiguration => "METRICS",
        O::PutBucketNotificationConfiguration | O::GetBucketNotificationConfiguration => "NOTIFICATION",
        O::PutBucketTagging | O::GetBucketTagging | O::DeleteBucketTagging => "TAGGING",
        O::GetObjectTagging | O::PutObjectTagging | O::DeleteObjectTagging => "OBJECT_TAGGING",
        O::PutBucketWebsite | O::GetBucketWebsite | O::DeleteBucketWebsite => "WEBSITE",
        O::PutObjectLockConfiguration | O::GetObjectLockConfiguration => "OBJECT_LOCK_CONFIGURATION",
        O::PutObjectRetention | O::GetObjectRetention => "OBJECT_LOCK_RETENTION",
        O::PutObjectLegalHold | O::GetObjectLegalHold => "OBJECT_LOCK_LEGALHOLD",
        O::ListMultipartUploads | O::CreateMultipartUpload => "UPLOADS",
        O::CompleteMultipartUpload | O::AbortMultipartUpload | O::ListParts => "UPLOAD",
        O::UploadPart | O::UploadPartCopy => "PART",
        O::DeleteObjects => "MULTI_OBJECT_DELETE",
        O::GetObject | O::HeadObject | O::PutObject | O::CopyObject | O::DeleteObject => "OBJECT",
        O::GetObjectAttributes => "OBJECT_ATTRIBUTES",
        O::NotServed => "UNKNOWN",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_named_as_in_the_reference() {
        for (operation, method, name) in [
            (Operation::GetObject, Method::Get, "REST.GET.OBJECT"),
            (Operation::CopyObject, Method::Put, "REST.COPY.OBJECT"),
            (Operation::UploadPartCopy, Method::Put, "REST.COPY.PART"),
            (Operation::DeleteObjects, Method::Post, "REST.POST.MULTI_OBJECT_DELETE"),
            (Operation::ListObjectsV2, Method::Get, "REST.GET.BUCKET"),
            (Operation::CompleteMultipartUpload, Method::Post, "REST.POST.UPLOAD"),
            (Operation::GetBucketVersioning, Method::Get, "REST.GET.VERSIONING"),
        ] {
            assert_eq!(operation_name(operation, &method), name);
        }
    }
}
