//! Actions: the permissions of the S3 service authorization reference, and sets of them.

use std::fmt;

/// The kind of resource that an action applies to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ActionLevel {
    /// The administration of the server: of all or nothing, so that neither owners nor bucket
    /// policies have it.
    Administration,
    /// The whole server.
    Service,
    /// A bucket itself.
    Bucket,
    /// The keys of a bucket: granted on the bucket or on a key prefix.
    Listing,
    Object,
}

impl ActionLevel {
    /// The resources that an action of this level can be granted on.
    pub(super) fn expected(self) -> &'static str {
        match self {
            Self::Administration => "everything (`*`)",
            Self::Service | Self::Bucket => "a bucket (`bucket`, `start*`)",
            Self::Listing => "a bucket or a key prefix (`bucket`, `bucket/prefix*`)",
            Self::Object => "objects (`bucket/*`, `bucket/prefix*`, `bucket/key`)",
        }
    }
}

macro_rules! actions {
    ($($(#[doc = $use:literal])+ $action:ident: $level:ident;)+) => {
        /// A permission. None includes another. The names come from the S3 service authorization
        /// reference, without `s3:`, where it has the action.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Action {
            $($(#[doc = $use])+ $action,)+
        }

        impl Action {
            /// Every action.
            pub const ALL: &'static [Self] = &[$(Self::$action),+];

            /// The name in a users file.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$action => stringify!($action)),+ }
            }

            /// Whether it is granted on objects.
            pub(super) fn applies_to_objects(self) -> bool {
                self.level() == ActionLevel::Object
            }

            /// Whether conditions may refer to the tags of the object that it is done to.
            pub fn has_existing_tags(self) -> bool {
                has_existing_tags(self.as_str())
            }

            /// Whether the policy of a bucket may allow and deny it. Others concern the server:
            /// bucket policies neither show buckets in lists nor create them.
            pub(super) fn is_of_existing_bucket(self) -> bool {
                let of_server = matches!(self.level(), ActionLevel::Administration | ActionLevel::Service);
                !of_server && self != Self::CreateBucket
            }

            /// The kind of resource that it applies to.
            pub(super) fn level(self) -> ActionLevel {
                match self { $(Self::$action => ActionLevel::$level),+ }
            }
        }
    };
}

actions! {
    /// ListBuckets: on the service to call it, on a bucket to see it in the list.
    ListAllMyBuckets: Service;
    /// CreateBucket; never anonymous.
    CreateBucket: Bucket;
    /// DeleteBucket.
    DeleteBucket: Bucket;
    /// HeadBucket and the listings of objects; its holder also learns that a key does not exist.
    ListBucket: Listing;
    /// ListObjectVersions.
    ListBucketVersions: Listing;
    /// ListMultipartUploads.
    ListBucketMultipartUploads: Listing;
    /// GetBucketLocation.
    GetBucketLocation: Bucket;
    /// GetBucketVersioning.
    GetBucketVersioning: Bucket;
    /// PutBucketVersioning.
    PutBucketVersioning: Bucket;
    /// PutBucketCors and DeleteBucketCors.
    PutBucketCORS: Bucket;
    /// GetBucketCors.
    GetBucketCORS: Bucket;
    /// GetBucketEncryption.
    GetEncryptionConfiguration: Bucket;
    /// PutBucketLifecycleConfiguration and DeleteBucketLifecycle.
    PutLifecycleConfiguration: Bucket;
    /// GetBucketLifecycleConfiguration.
    GetLifecycleConfiguration: Bucket;
    /// GetObjectLockConfiguration.
    GetBucketObjectLockConfiguration: Bucket;
    /// PutObjectLockConfiguration, and object lock of a new bucket.
    PutBucketObjectLockConfiguration: Bucket;
    /// GetBucketNotificationConfiguration.
    GetBucketNotification: Bucket;
    /// PutBucketNotificationConfiguration.
    PutBucketNotification: Bucket;
    /// GetBucketOwnershipControls.
    GetBucketOwnershipControls: Bucket;
    /// PutBucketOwnershipControls and DeleteBucketOwnershipControls.
    PutBucketOwnershipControls: Bucket;
    /// GetBucketPolicy.
    GetBucketPolicy: Bucket;
    /// GetBucketPolicyStatus.
    GetBucketPolicyStatus: Bucket;
    /// PutBucketPolicy.
    PutBucketPolicy: Bucket;
    /// DeleteBucketPolicy.
    DeleteBucketPolicy: Bucket;
    /// GetPublicAccessBlock.
    GetBucketPublicAccessBlock: Bucket;
    /// PutPublicAccessBlock and DeletePublicAccessBlock.
    PutBucketPublicAccessBlock: Bucket;
    /// GetBucketAcl.
    GetBucketAcl: Bucket;
    /// PutBucketAcl, and an ACL that comes with a new bucket.
    PutBucketAcl: Bucket;
    /// PutBucketQuota and DeleteBucketQuota.
    PutBucketQuota: Administration;
    /// GetBucketQuota.
    GetBucketQuota: Bucket;
    /// PutOwnerQuota and DeleteOwnerQuota.
    PutOwnerQuota: Administration;
    /// GetOwnerQuota.
    GetOwnerQuota: Administration;
    /// PutBucketPlacement and DeleteBucketPlacement, also by the API of the server.
    PutBucketPlacement: Administration;
    /// GetBucketPlacement, also by the API of the server.
    GetBucketPlacement: Administration;
    /// The users of the server, by its API and its console.
    AdminListUsers: Administration;
    /// New users. As a new user may have every grant, this includes all permissions.
    AdminCreateUser: Administration;
    /// Other grants of a user. This includes all permissions.
    AdminSetGrants: Administration;
    /// New keys of a user. This includes all permissions of the users.
    AdminRotateKeys: Administration;
    /// The end of users.
    AdminDeleteUser: Administration;
    /// The quotas of buckets and owners and their usage, by the API of the server.
    AdminGetQuota: Administration;
    /// Other quotas of buckets and owners, by the API of the server.
    AdminSetQuota: Administration;
    /// The state of the server, by its API.
    AdminGetState: Administration;
    /// The last requests of all users and the last changes of users, permissions and locks, by the
    /// console.
    AdminGetActivity: Administration;
    /// A new start of a mirror, by the API of the server.
    AdminResyncMirror: Administration;
    /// The statement that the clock of the server is right, by its API.
    AdminAcceptClock: Administration;
    /// Wrapping the keys of encrypted objects anew, and the end of a master key, by the API of the
    /// server.
    AdminChangeKeys: Administration;
    /// GetFederationToken: sessions of any name, which bucket policies may name. (`sts:` in IAM.)
    GetFederationToken: Administration;
    /// Tags of a session, which conditions of policies may ask for. (`sts:` in IAM.)
    TagSession: Administration;
    /// PutBucketAccelerateConfiguration.
    PutAccelerateConfiguration: Bucket;
    /// GetBucketAccelerateConfiguration.
    GetAccelerateConfiguration: Bucket;
    /// PutBucketLogging.
    PutBucketLogging: Bucket;
    /// GetBucketLogging.
    GetBucketLogging: Bucket;
    /// PutBucketRequestPayment.
    PutBucketRequestPayment: Bucket;
    /// GetBucketRequestPayment.
    GetBucketRequestPayment: Bucket;
    /// DeleteBucketAnalyticsConfiguration.
    PutAnalyticsConfiguration: Bucket;
    /// GetBucketAnalyticsConfiguration and ListBucketAnalyticsConfigurations.
    GetAnalyticsConfiguration: Bucket;
    /// DeleteBucketIntelligentTieringConfiguration.
    PutIntelligentTieringConfiguration: Bucket;
    /// GetBucketIntelligentTieringConfiguration and ListBucketIntelligentTieringConfigurations.
    GetIntelligentTieringConfiguration: Bucket;
    /// DeleteBucketInventoryConfiguration.
    PutInventoryConfiguration: Bucket;
    /// GetBucketInventoryConfiguration and ListBucketInventoryConfigurations.
    GetInventoryConfiguration: Bucket;
    /// DeleteBucketMetricsConfiguration.
    PutMetricsConfiguration: Bucket;
    /// GetBucketMetricsConfiguration and ListBucketMetricsConfigurations.
    GetMetricsConfiguration: Bucket;
    /// PutBucketEncryption, DeleteBucketEncryption.
    PutEncryptionConfiguration: Bucket;
    /// PutBucketReplication and DeleteBucketReplication.
    PutReplicationConfiguration: Bucket;
    /// GetBucketReplication.
    GetReplicationConfiguration: Bucket;
    /// PutBucketTagging and DeleteBucketTagging.
    PutBucketTagging: Bucket;
    /// GetBucketTagging.
    GetBucketTagging: Bucket;
    /// PutBucketWebsite.
    PutBucketWebsite: Bucket;
    /// GetBucketWebsite.
    GetBucketWebsite: Bucket;
    /// DeleteBucketWebsite.
    DeleteBucketWebsite: Bucket;
    /// GetObject, HeadObject and the source of a copy, for the current version.
    GetObject: Object;
    /// GetObject, HeadObject and the source of a copy, for a named version.
    GetObjectVersion: Object;
    /// GetObjectAttributes of the current version.
    GetObjectAttributes: Object;
    /// GetObjectAttributes of a named version.
    GetObjectVersionAttributes: Object;
    /// PutObject, the target of a copy, and the creation, parts and completion of a multipart
    /// upload.
    PutObject: Object;
    /// The same for keys without a current version: nothing is overwritten. Not an action of S3.
    CreateObject: Object;
    /// The modification time that comes with a put, by import. Not an action of S3.
    PutObjectStatedTime: Administration;
    /// The stores that a change by a mirror comes from, which mirrors do not send it back to. Not
    /// an action of S3.
    PutObjectStatedOrigin: Administration;
    /// AbortMultipartUpload.
    AbortMultipartUpload: Object;
    /// ListParts.
    ListMultipartUploadParts: Object;
    /// DeleteObject and DeleteObjects without a version.
    DeleteObject: Object;
    /// DeleteObject and DeleteObjects with a version.
    DeleteObjectVersion: Object;
    /// GetObjectAcl of the current version.
    GetObjectAcl: Object;
    /// GetObjectAcl of a named version.
    GetObjectVersionAcl: Object;
    /// PutObjectAcl of the current version, and an ACL that comes with a put.
    PutObjectAcl: Object;
    /// PutObjectAcl of a named version.
    PutObjectVersionAcl: Object;
    /// GetObjectRetention, and the retention in responses to reads.
    GetObjectRetention: Object;
    /// PutObjectRetention, and a retention that comes with a put.
    PutObjectRetention: Object;
    /// GetObjectLegalHold, and the legal hold in responses to reads.
    GetObjectLegalHold: Object;
    /// PutObjectLegalHold, and a legal hold that comes with a put.
    PutObjectLegalHold: Object;
    /// Deletes and changes versions that a retention in governance mode keeps.
    BypassGovernanceRetention: Object;
    /// GetObjectTagging of the current version.
    GetObjectTagging: Object;
    /// GetObjectTagging of a named version.
    GetObjectVersionTagging: Object;
    /// PutObjectTagging of the current version, and tags that come with a put.
    PutObjectTagging: Object;
    /// PutObjectTagging of a named version.
    PutObjectVersionTagging: Object;
    /// DeleteObjectTagging of the current version.
    DeleteObjectTagging: Object;
    /// DeleteObjectTagging of a named version.
    DeleteObjectVersionTagging: Object;
}

/// Whether an action, of this server or another one of S3, is done to an object that is there.
/// PutObject and DeleteObject are not among them (S3 user guide, "Tagging and access control
/// policies").
pub(super) fn has_existing_tags(action: &str) -> bool {
    let of_object = action.strip_prefix("Get").or_else(|| action.strip_prefix("Put"));
    let of_object =
        of_object.or_else(|| action.strip_prefix("Delete")).and_then(|rest| rest.strip_prefix("Object"));
    let subject = of_object.map(|rest| rest.strip_prefix("Version").unwrap_or(rest));
    matches!(
        (subject, action.starts_with("Get")),
        (Some("Tagging" | "Acl"), _) | (Some("" | "Attributes" | "Retention" | "LegalHold"), true)
    )
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A set of actions, one bit each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ActionSet(u128);

const _: () = assert!(Action::ALL.len() <= u128::BITS as usize);

impl ActionSet {
    /// Every action.
    pub(super) const EVERY: Self = Self(u128::MAX);

    fn bit(action: Action) -> u128 {
        1 << action as u32
    }

    /// The actions of a name in a users file. The error describes the problem.
    pub(super) fn named(name: &str) -> Result<Self, String> {
        if name == "*" {
            return Ok(Self::EVERY);
        }
        let action = Action::ALL.iter().find(|action| action.as_str() == name);
        action.map(|&action| Self(Self::bit(action))).ok_or_else(|| format!("there is no action `{name}`"))
    }

    /// The actions, in the order of [`Action::ALL`].
    pub(super) fn iter(self) -> impl Iterator<Item = Action> {
        Action::ALL.iter().copied().filter(move |&action| self.contains(action))
    }

    /// Adds an action.
    pub(super) fn insert(&mut self, action: Action) {
        self.0 |= Self::bit(action);
    }

    /// Adds the actions of another set.
    pub(super) fn extend(&mut self, other: Self) {
        self.0 |= other.0;
    }

    /// Whether the action is among them.
    pub(super) fn contains(self, action: Action) -> bool {
        self.0 & Self::bit(action) != 0
    }
}
