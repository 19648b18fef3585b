//! The table of operations: what each is called and what a request for it looks like. Routing reads this table and
//! no other.

use std::fmt;

use crate::s3::Method;

/// What an operation is about.
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
    /// The shape of the path.
    pub fn path(self) -> &'static str {
        match self {
            Self::Service => "/",
            Self::Bucket => "/{Bucket}",
            Self::Object => "/{Bucket}/{Key+}",
        }
    }
}

/// What, beside method, path and sub-resource, tells an operation from a more general one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RouteCondition {
    /// Nothing.
    None,
    /// A query parameter with this value.
    Parameter(&'static str, &'static str),
    /// The header `p-copy-source`.
    CopySource,
}

/// One operation in the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// The operation.
    pub operation: Operation,
    /// Its method.
    pub method: Method,
    /// The shape of its path.
    pub level: ResourceLevel,
    /// The query parameter that names its sub-resource, by being there; empty for none.
    pub subresource: &'static str,
    /// What else it takes.
    pub condition: RouteCondition,
}

macro_rules! operations {
    ($($(#[doc = $doc:literal])+ $name:ident = $method:ident $level:ident $subresource:literal $condition:expr;)+) => {
        /// An operation of the S3 API, by its name in the API reference.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Operation {
            $($(#[doc = $doc])+ $name,)+
            /// Any operation on a sub-resource that is known and not served.
            NotServed,
        }

        impl Operation {
            /// What requests look like. Of two routes that fit a request the later one is the more special.
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
    /// The buckets that the caller may see.
    ListBuckets = Get Service "" RouteCondition::None;

    /// Makes a bucket.
    CreateBucket = Put Bucket "" RouteCondition::None;
    /// Removes an empty bucket.
    DeleteBucket = Delete Bucket "" RouteCondition::None;
    /// Whether a bucket is there.
    HeadBucket = Head Bucket "" RouteCondition::None;
    /// The region of a bucket.
    GetBucketLocation = Get Bucket "location" RouteCondition::None;
    /// Turns versioning on, or suspends it.
    PutBucketVersioning = Put Bucket "versioning" RouteCondition::None;
    /// Whether versioning is on.
    GetBucketVersioning = Get Bucket "versioning" RouteCondition::None;
    /// A configuration that is never set here.
    GetBucketCors = Get Bucket "cors" RouteCondition::None;
    /// A configuration that is never set here.
    GetBucketEncryption = Get Bucket "encryption" RouteCondition::None;
    /// A configuration that is never set here.
    GetBucketLifecycleConfiguration = Get Bucket "lifecycle" RouteCondition::None;
    /// A configuration that is never set here.
    GetBucketOwnershipControls = Get Bucket "ownershipControls" RouteCondition::None;
    /// A configuration that is never set here.
    GetBucketPolicy = Get Bucket "policy" RouteCondition::None;
    /// A configuration that is never set here.
    GetBucketReplication = Get Bucket "replication" RouteCondition::None;
    /// A configuration that is never set here.
    GetBucketTagging = Get Bucket "tagging" RouteCondition::None;
    /// A configuration that is never set here.
    GetBucketWebsite = Get Bucket "website" RouteCondition::None;
    /// A configuration that is never set here.
    GetObjectLockConfiguration = Get Bucket "object-lock" RouteCondition::None;

    /// The objects of a bucket, in the first form.
    ListObjects = Get Bucket "" RouteCondition::None;
    /// The objects of a bucket.
    ListObjectsV2 = Get Bucket "" RouteCondition::Parameter("list-type", "2");
    /// The versions and delete markers of a bucket.
    ListObjectVersions = Get Bucket "versions" RouteCondition::None;
    /// The multipart uploads in progress in a bucket.
    ListMultipartUploads = Get Bucket "uploads" RouteCondition::None;
    /// Deletes up to 1000 objects.
    DeleteObjects = Post Bucket "delete" RouteCondition::None;

    /// The bytes of an object.
    GetObject = Get Object "" RouteCondition::None;
    /// What is known of an object.
    HeadObject = Head Object "" RouteCondition::None;
    /// What is known of an object, as XML.
    GetObjectAttributes = Get Object "attributes" RouteCondition::None;
    /// Stores an object.
    PutObject = Put Object "" RouteCondition::None;
    /// Stores an object made of another one.
    CopyObject = Put Object "" RouteCondition::CopySource;
    /// Deletes an object, or one version of it.
    DeleteObject = Delete Object "" RouteCondition::None;
    /// The tags of an object.
    GetObjectTagging = Get Object "tagging" RouteCondition::None;
    /// Sets the tags of an object.
    PutObjectTagging = Put Object "tagging" RouteCondition::None;
    /// Takes the tags of an object away.
    DeleteObjectTagging = Delete Object "tagging" RouteCondition::None;

    /// Begins a multipart upload.
    CreateMultipartUpload = Post Object "uploads" RouteCondition::None;
    /// Stores a part.
    UploadPart = Put Object "uploadId" RouteCondition::None;
    /// Stores a part made of an object.
    UploadPartCopy = Put Object "uploadId" RouteCondition::CopySource;
    /// Makes an object of the parts.
    CompleteMultipartUpload = Post Object "uploadId" RouteCondition::None;
    /// Gives a multipart upload up.
    AbortMultipartUpload = Delete Object "uploadId" RouteCondition::None;
    /// The parts of a multipart upload.
    ListParts = Get Object "uploadId" RouteCondition::None;
}

/// Sub-resources of buckets that S3 knows and this server does not serve (S3 API reference, "Actions"). Where the
/// table has a route for one, that route goes first.
pub(super) const UNSERVED_OF_BUCKETS: &[&str] = &[
    "abac",
    "accelerate",
    "acl",
    "analytics",
    "cors",
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
    "tagging",
    "website",
];

/// The same for objects.
pub(super) const UNSERVED_OF_OBJECTS: &[&str] =
    &["acl", "encryption", "legal-hold", "renameObject", "restore", "retention", "select", "torrent"];

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Route {
    /// The query that a request for this operation has at least, as in `versioning` or `list-type=2`; empty for none.
    pub fn query(&self) -> String {
        match self.condition {
            RouteCondition::Parameter(name, value) => format!("{name}={value}"),
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
