//! The table of operations: the name of each and the shape of its requests. Routing reads this
//! table only.

use std::fmt;

use crate::s3::Method;

/// The kind of resource that an operation addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResourceLevel {
    /// The service: `/`.
    Service,
    /// A bucket: `/{Bucket}`.
    Bucket,
    /// An object: `/{Bucket}/{Key+}`.
    Object,
}

impl ResourceLevel {
    /// The name of the kind in errors.
    pub fn name_in_errors(self) -> &'static str {
        match self {
            Self::Service => "SERVICE",
            Self::Bucket => "BUCKET",
            Self::Object => "OBJECT",
        }
    }

    /// The shape of the path.
    pub fn path(self) -> &'static str {
        match self {
            Self::Service => "/",
            Self::Bucket => "/{Bucket}",
            Self::Object => "/{Bucket}/{Key+}",
        }
    }
}

/// The condition that distinguishes an operation from a more general one with the same method, path
/// and sub-resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RouteCondition {
    /// No condition.
    None,
    /// A query parameter has this value.
    Parameter(&'static str, &'static str),
    /// A query parameter is present.
    Present(&'static str),
    /// The header `p-copy-source` is present.
    CopySource,
}

/// An operation and the shape of its requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    pub operation: Operation,
    pub method: Method,
    /// The shape of its path.
    pub level: ResourceLevel,
    /// The query parameter that names its sub-resource, by its presence; empty for none.
    pub subresource: &'static str,
    /// The further condition.
    pub condition: RouteCondition,
}

macro_rules! operations {
    ($($(#[doc = $doc:literal])+ $name:ident = $method:ident $level:ident $subresource:literal $condition:expr;)+) => {
        /// An operation of the S3 API, by its name in the API reference.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Operation {
            $($(#[doc = $doc])+ $name,)+
            /// Any operation on a known sub-resource that is not supported.
            NotServed,
        }

        impl Operation {
            /// The routes. Of two that match a request, the later one is more specific.
            pub const TABLE: &'static [Route] = &[$(Route {
                operation: Operation::$name,
                method: Method::$method,
                level: ResourceLevel::$level,
                subresource: $subresource,
                condition: $condition,
            }),+];

            /// The name.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)+
                    Self::NotServed => "NotServed",
                }
            }
        }
    };
}

operations! {
    /// Lists the buckets that the caller may see.
    ListBuckets = Get Service "" RouteCondition::None;

    /// Sets the quota of an owner; an extension, as all operations of quotas.
    PutOwnerQuota = Put Service "quota" RouteCondition::None;
    /// Returns the quota of an owner, or all quotas.
    GetOwnerQuota = Get Service "quota" RouteCondition::None;
    /// Removes the quota of an owner.
    DeleteOwnerQuota = Delete Service "quota" RouteCondition::None;

    /// Creates a bucket.
    CreateBucket = Put Bucket "" RouteCondition::None;
    /// Deletes an empty bucket.
    DeleteBucket = Delete Bucket "" RouteCondition::None;
    /// Checks that a bucket exists.
    HeadBucket = Head Bucket "" RouteCondition::None;
    /// Returns the region of a bucket.
    GetBucketLocation = Get Bucket "location" RouteCondition::None;
    /// Enables or suspends versioning.
    PutBucketVersioning = Put Bucket "versioning" RouteCondition::None;
    /// Returns the versioning state.
    GetBucketVersioning = Get Bucket "versioning" RouteCondition::None;
    /// Sets the cross-origin rules of a bucket.
    PutBucketCors = Put Bucket "cors" RouteCondition::None;
    /// Returns the cross-origin rules of a bucket.
    GetBucketCors = Get Bucket "cors" RouteCondition::None;
    /// Deletes the cross-origin rules of a bucket.
    DeleteBucketCors = Delete Bucket "cors" RouteCondition::None;
    /// Sets the encryption of new objects in a bucket.
    PutBucketEncryption = Put Bucket "encryption" RouteCondition::None;
    /// Returns the encryption of new objects in a bucket.
    GetBucketEncryption = Get Bucket "encryption" RouteCondition::None;
    /// Deletes the configuration of the encryption of new objects.
    DeleteBucketEncryption = Delete Bucket "encryption" RouteCondition::None;
    /// Sets the lifecycle rules of a bucket.
    PutBucketLifecycleConfiguration = Put Bucket "lifecycle" RouteCondition::None;
    /// Returns the lifecycle rules of a bucket.
    GetBucketLifecycleConfiguration = Get Bucket "lifecycle" RouteCondition::None;
    /// Removes the lifecycle rules of a bucket.
    DeleteBucketLifecycle = Delete Bucket "lifecycle" RouteCondition::None;
    /// Sets the access control list of a bucket.
    PutBucketAcl = Put Bucket "acl" RouteCondition::None;
    /// Returns the access control list of a bucket.
    GetBucketAcl = Get Bucket "acl" RouteCondition::None;
    /// Sets the ownership of the objects of a bucket.
    PutBucketOwnershipControls = Put Bucket "ownershipControls" RouteCondition::None;
    /// Returns the ownership of the objects of a bucket.
    GetBucketOwnershipControls = Get Bucket "ownershipControls" RouteCondition::None;
    /// Removes the ownership controls of a bucket, so that the default holds.
    DeleteBucketOwnershipControls = Delete Bucket "ownershipControls" RouteCondition::None;
    /// Sets the policy of a bucket.
    PutBucketPolicy = Put Bucket "policy" RouteCondition::None;
    /// Returns the policy of a bucket.
    GetBucketPolicy = Get Bucket "policy" RouteCondition::None;
    /// Removes the policy of a bucket.
    DeleteBucketPolicy = Delete Bucket "policy" RouteCondition::None;
    /// Says whether the policy of a bucket is public.
    GetBucketPolicyStatus = Get Bucket "policyStatus" RouteCondition::None;
    /// Sets the public access block of a bucket.
    PutPublicAccessBlock = Put Bucket "publicAccessBlock" RouteCondition::None;
    /// Returns the public access block of a bucket.
    GetPublicAccessBlock = Get Bucket "publicAccessBlock" RouteCondition::None;
    /// Removes the public access block of a bucket.
    DeletePublicAccessBlock = Delete Bucket "publicAccessBlock" RouteCondition::None;
    /// Sets the quota of a bucket.
    PutBucketQuota = Put Bucket "quota" RouteCondition::None;
    /// Returns the quota of a bucket, and its usage.
    GetBucketQuota = Get Bucket "quota" RouteCondition::None;
    /// Removes the quota of a bucket.
    DeleteBucketQuota = Delete Bucket "quota" RouteCondition::None;
    /// Pins the bytes of a bucket to the disk or to the remote; an extension, as all operations of
    /// placements.
    PutBucketPlacement = Put Bucket "placement" RouteCondition::None;
    /// Returns the pin of a bucket.
    GetBucketPlacement = Get Bucket "placement" RouteCondition::None;
    /// Removes the pin of a bucket.
    DeleteBucketPlacement = Delete Bucket "placement" RouteCondition::None;
    /// Sets the rules by which mirrors of the operator get the objects of a bucket.
    PutBucketReplication = Put Bucket "replication" RouteCondition::None;
    /// Returns these rules.
    GetBucketReplication = Get Bucket "replication" RouteCondition::None;
    /// Removes these rules.
    DeleteBucketReplication = Delete Bucket "replication" RouteCondition::None;
    /// Accepts that transfer acceleration is off, as it always is.
    PutBucketAccelerateConfiguration = Put Bucket "accelerate" RouteCondition::None;
    /// Returns the default: no transfer acceleration.
    GetBucketAccelerateConfiguration = Get Bucket "accelerate" RouteCondition::None;
    /// Accepts that no access log is written to a bucket.
    PutBucketLogging = Put Bucket "logging" RouteCondition::None;
    /// Returns the default: no access log in a bucket.
    GetBucketLogging = Get Bucket "logging" RouteCondition::None;
    /// Accepts that the owner of a bucket pays for requests.
    PutBucketRequestPayment = Put Bucket "requestPayment" RouteCondition::None;
    /// Returns the default: the owner of a bucket pays.
    GetBucketRequestPayment = Get Bucket "requestPayment" RouteCondition::None;
    /// Returns an empty list.
    ListBucketAnalyticsConfigurations = Get Bucket "analytics" RouteCondition::None;
    /// A configuration that is never set here.
    GetBucketAnalyticsConfiguration = Get Bucket "analytics" RouteCondition::Present("id");
    /// The same.
    DeleteBucketAnalyticsConfiguration = Delete Bucket "analytics" RouteCondition::None;
    /// Returns an empty list.
    ListBucketIntelligentTieringConfigurations = Get Bucket "intelligent-tiering" RouteCondition::None;
    /// A configuration that is never set here.
    GetBucketIntelligentTieringConfiguration = Get Bucket "intelligent-tiering" RouteCondition::Present("id");
    /// The same.
    DeleteBucketIntelligentTieringConfiguration = Delete Bucket "intelligent-tiering" RouteCondition::None;
    /// Returns an empty list.
    ListBucketInventoryConfigurations = Get Bucket "inventory" RouteCondition::None;
    /// A configuration that is never set here.
    GetBucketInventoryConfiguration = Get Bucket "inventory" RouteCondition::Present("id");
    /// The same.
    DeleteBucketInventoryConfiguration = Delete Bucket "inventory" RouteCondition::None;
    /// Returns an empty list.
    ListBucketMetricsConfigurations = Get Bucket "metrics" RouteCondition::None;
    /// A configuration that is never set here.
    GetBucketMetricsConfiguration = Get Bucket "metrics" RouteCondition::Present("id");
    /// The same.
    DeleteBucketMetricsConfiguration = Delete Bucket "metrics" RouteCondition::None;
    /// Sets the event notifications of a bucket.
    PutBucketNotificationConfiguration = Put Bucket "notification" RouteCondition::None;
    /// Returns the event notifications of a bucket.
    GetBucketNotificationConfiguration = Get Bucket "notification" RouteCondition::None;
    /// Sets the tags of a bucket.
    PutBucketTagging = Put Bucket "tagging" RouteCondition::None;
    /// Returns the tags of a bucket.
    GetBucketTagging = Get Bucket "tagging" RouteCondition::None;
    /// Deletes the tags of a bucket.
    DeleteBucketTagging = Delete Bucket "tagging" RouteCondition::None;
    /// Sets the website of a bucket.
    PutBucketWebsite = Put Bucket "website" RouteCondition::None;
    /// Returns the website of a bucket.
    GetBucketWebsite = Get Bucket "website" RouteCondition::None;
    /// Removes the website of a bucket.
    DeleteBucketWebsite = Delete Bucket "website" RouteCondition::None;
    /// Sets the object lock of a bucket.
    PutObjectLockConfiguration = Put Bucket "object-lock" RouteCondition::None;
    /// Returns the object lock of a bucket.
    GetObjectLockConfiguration = Get Bucket "object-lock" RouteCondition::None;

    /// Lists the objects of a bucket, version 1.
    ListObjects = Get Bucket "" RouteCondition::None;
    /// Lists the objects of a bucket, version 2.
    ListObjectsV2 = Get Bucket "" RouteCondition::Parameter("list-type", "2");
    /// Lists the versions and delete markers of a bucket.
    ListObjectVersions = Get Bucket "versions" RouteCondition::None;
    /// Lists the multipart uploads in progress in a bucket.
    ListMultipartUploads = Get Bucket "uploads" RouteCondition::None;
    /// Deletes up to 1000 objects.
    DeleteObjects = Post Bucket "delete" RouteCondition::None;
    /// Puts an object by a form of a browser.
    PostObject = Post Bucket "" RouteCondition::None;

    /// Returns the bytes of an object.
    GetObject = Get Object "" RouteCondition::None;
    /// Returns the metadata of an object.
    HeadObject = Head Object "" RouteCondition::None;
    /// Returns the metadata of an object as XML.
    GetObjectAttributes = Get Object "attributes" RouteCondition::None;
    /// Puts an object.
    PutObject = Put Object "" RouteCondition::None;
    /// Copies an object.
    CopyObject = Put Object "" RouteCondition::CopySource;
    /// Deletes an object, or one version of it.
    DeleteObject = Delete Object "" RouteCondition::None;
    /// Returns the tags of an object.
    GetObjectTagging = Get Object "tagging" RouteCondition::None;
    /// Sets the tags of an object.
    PutObjectTagging = Put Object "tagging" RouteCondition::None;
    /// Deletes the tags of an object.
    DeleteObjectTagging = Delete Object "tagging" RouteCondition::None;

    /// Returns the access control list of an object.
    GetObjectAcl = Get Object "acl" RouteCondition::None;
    /// Sets the access control list of an object.
    PutObjectAcl = Put Object "acl" RouteCondition::None;
    /// Sets or removes the retention of a version.
    PutObjectRetention = Put Object "retention" RouteCondition::None;
    /// Returns the retention of a version.
    GetObjectRetention = Get Object "retention" RouteCondition::None;
    /// Sets or lifts the legal hold of a version.
    PutObjectLegalHold = Put Object "legal-hold" RouteCondition::None;
    /// Returns the legal hold of a version.
    GetObjectLegalHold = Get Object "legal-hold" RouteCondition::None;

    /// Initiates a multipart upload.
    CreateMultipartUpload = Post Object "uploads" RouteCondition::None;
    /// Uploads a part.
    UploadPart = Put Object "uploadId" RouteCondition::None;
    /// Copies a part from an object.
    UploadPartCopy = Put Object "uploadId" RouteCondition::CopySource;
    /// Assembles an object from the parts.
    CompleteMultipartUpload = Post Object "uploadId" RouteCondition::None;
    /// Aborts a multipart upload.
    AbortMultipartUpload = Delete Object "uploadId" RouteCondition::None;
    /// Lists the parts of a multipart upload.
    ListParts = Get Object "uploadId" RouteCondition::None;
}

/// Sub-resources of buckets in S3 that are not supported (S3 API reference, "Actions"). Routes in
/// the table take precedence.
pub(super) const UNSERVED_OF_BUCKETS: &[&str] = &[
    "abac",
    "accelerate",
    "acl",
    "analytics",
    "encryption",
    "intelligent-tiering",
    "inventory",
    "lifecycle",
    "logging",
    "metadataConfiguration",
    "metadataInventoryTable",
    "metadataJournalTable",
    "metadataTable",
    "metrics",
    "notification",
    "object-lock",
    "ownershipControls",
    "policy",
    "policyStatus",
    "publicAccessBlock",
    "replication",
    "requestPayment",
    "session",
];

/// Sub-resources of objects in S3 that are not supported.
pub(super) const UNSERVED_OF_OBJECTS: &[&str] =
    &["acl", "encryption", "legal-hold", "renameObject", "restore", "retention", "select", "torrent"];

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Route {
    /// The minimal query of a request for this operation, as in `versioning` or `list-type=2`;
    /// empty for none.
    pub fn query(&self) -> String {
        match self.condition {
            RouteCondition::Parameter(name, value) => format!("{name}={value}"),
            RouteCondition::Present(name) => format!("{}&{name}", self.subresource),
            RouteCondition::None | RouteCondition::CopySource => self.subresource.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_rows_describe_the_same_request() {
        for (at, a) in Operation::TABLE.iter().enumerate() {
            for b in &Operation::TABLE[..at] {
                let same = (&a.method, a.level, a.subresource, a.condition)
                    == (&b.method, b.level, b.subresource, b.condition);
                assert!(!same, "{} and {}", a.operation, b.operation);
            }
        }
    }

    #[test]
    fn a_row_shows_its_query() {
        let query =
            |operation| Operation::TABLE.iter().find(|route| route.operation == operation).unwrap().query();
        assert_eq!(query(Operation::ListObjectsV2), "list-type=2");
        assert_eq!(query(Operation::GetBucketVersioning), "versioning");
        assert_eq!(query(Operation::CopyObject), "");
    }
}
