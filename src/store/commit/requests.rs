//! The values that callers pass to the store and get back from commits.

use std::ops::Range;
use std::sync::Arc;

use super::retention;
use crate::base::{DeleteCondition, Timestamp, WriteCondition};
use crate::format::{
    AclGrants, Attributes, BucketConfigurationKind, BucketRecord, Checksum, ChecksumAlgorithm, ChecksumType,
    ETag, NamedUsers, ObjectControls, PartRecord, Retention, StorageClass, UploadId, UserGrant, VersionId,
    VersionRecord, VersionSummary, Versioning,
};
use crate::index::{BucketConfiguration, BucketConfigurations};
use crate::store::VersionRef;
use crate::store::shared::lock_clock::LockTimes;

/// Selects a version of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Selector {
    /// The newest.
    Current,
    /// The null version.
    Null,
    /// The version with that id, unless it is the null version.
    Id(VersionId),
}

impl Selector {
    /// Whether it selects `version`. If it accepts several, the newest counts.
    pub(in crate::store) fn accepts(self, version: &VersionSummary) -> bool {
        match self {
            Self::Current => true,
            Self::Null => version.null,
            Self::Id(id) => version.id == id && !version.null,
        }
    }
}

/// A bucket to be created.
#[derive(Debug, Clone)]
pub struct NewBucket {
    /// Its name.
    pub name: String,
    /// The name of the user who creates it.
    pub owner: String,
    /// Its versioning.
    pub versioning: Versioning,
    /// Its configurations: the kind and the document of each.
    pub configurations: Vec<(BucketConfigurationKind, Vec<u8>)>,
}

/// A bucket with its configurations, both of one moment.
#[derive(Clone)]
pub struct ConfiguredBucket {
    /// The bucket.
    pub info: Arc<BucketRecord>,
    /// Its configurations.
    pub configurations: BucketConfigurations,
}

impl ConfiguredBucket {
    /// The configuration of this kind.
    pub fn configuration(&self, kind: BucketConfigurationKind) -> Option<&BucketConfiguration> {
        self.configurations.get(kind).map(AsRef::as_ref)
    }
}

/// The metadata and the condition of a commit.
#[derive(Debug, Clone)]
pub struct Commit {
    /// The entity tag.
    pub etag: ETag,
    /// Standard headers and user metadata.
    pub attributes: Attributes,
    /// Checksums, verified by the caller.
    pub checksums: Vec<Checksum>,
    /// Tags: names and values.
    pub tags: Vec<(String, String)>,
    /// The access control list, the retention and the legal hold.
    pub controls: ObjectControls,
    /// The storage class.
    pub storage_class: StorageClass,
    /// The precondition.
    pub condition: WriteCondition,
    /// The modification time that clients see in place of the present, unless it is later.
    pub stated_time: Option<Timestamp>,
}

/// The part of a stated time that a version of that commit has: none of one that is not before the
/// commit.
pub fn stated_before(stated: Option<Timestamp>, modified: Timestamp) -> Option<Timestamp> {
    stated.filter(|stated| *stated < modified)
}

/// A change of the metadata of a version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::store) enum VersionChange {
    /// Replaces its tags.
    Tags(Vec<(String, String)>),
    /// Replaces the grants of its access control list.
    Acl { grants: AclGrants, users: Vec<UserGrant> },
    /// Replaces or removes its retention.
    Retention { retention: Option<Retention>, bypass_governance: bool },
    /// Sets or lifts its legal hold.
    LegalHold(bool),
}

impl VersionChange {
    /// Whether the present controls permit it at these times.
    pub(in crate::store) fn is_permitted(&self, controls: &ObjectControls, times: LockTimes) -> bool {
        match self {
            Self::Retention { retention, bypass_governance } => {
                retention::may_change(controls.retention, *retention, times, *bypass_governance)
            }
            Self::Tags(_) | Self::Acl { .. } | Self::LegalHold(_) => true,
        }
    }

    /// Whether the record may grow. Other changes are made on a full disk, too.
    pub(in crate::store) fn adds(&self) -> bool {
        match self {
            Self::Tags(tags) => !tags.is_empty(),
            Self::Acl { grants, users } => *grants != AclGrants::NONE || !users.is_empty(),
            Self::Retention { retention, .. } => retention.is_some(),
            Self::LegalHold(held) => *held,
        }
    }

    /// The name of the operation that makes it.
    pub(in crate::store) fn operation(&self) -> &'static str {
        match self {
            Self::Tags(tags) if tags.is_empty() => "DeleteObjectTagging",
            Self::Tags(_) => "PutObjectTagging",
            Self::Acl { .. } => "PutObjectAcl",
            Self::Retention { .. } => "PutObjectRetention",
            Self::LegalHold(_) => "PutObjectLegalHold",
        }
    }

    /// Whether it changes controls, which segments hold, too.
    pub(in crate::store) fn is_of_controls(&self) -> bool {
        !matches!(self, Self::Tags(_))
    }

    /// The new tags.
    pub(in crate::store) fn tags(&self) -> &[(String, String)] {
        if let Self::Tags(tags) = self { tags } else { &[] }
    }

    /// The record after the change.
    pub(in crate::store) fn apply_to(self, version: VersionRecord) -> VersionRecord {
        let controls = match self {
            Self::Tags(tags) => return VersionRecord { tags, ..version },
            _ => self.apply_to_controls(version.controls),
        };
        VersionRecord { controls, ..version }
    }

    fn apply_to_controls(self, old: ObjectControls) -> ObjectControls {
        match self {
            Self::Tags(_) => old,
            Self::Acl { grants: acl, users } => {
                let owner = old.users.and_then(|users| users.owner);
                ObjectControls { acl, users: NamedUsers::of(owner, users), ..old }
            }
            Self::Retention { retention, .. } => ObjectControls { retention, ..old },
            Self::LegalHold(held) => ObjectControls { legal_hold: Some(held), ..old },
        }
    }
}

/// A version that was committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommittedVersion {
    /// Its id.
    pub id: VersionId,
    /// Whether clients see it as `null`.
    pub null: bool,
    /// The time of the commit.
    pub modified: Timestamp,
    /// Its entity tag.
    pub etag: ETag,
}

/// One object or version to delete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deletion {
    /// The key.
    pub key: String,
    /// `Current` deletes as the versioning state of the bucket demands; the others remove that
    /// version permanently.
    pub which: Selector,
    /// The condition on the version. Without a version the deletion counts as done, and nothing is
    /// written.
    pub condition: DeleteCondition,
}

/// The result of a deletion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deleted {
    /// Whether a delete marker was added, or, for a named version, whether it was one.
    pub delete_marker: bool,
    /// The version that was added or named.
    pub version: Option<VersionRef>,
}

/// The properties of a new multipart upload.
#[derive(Debug, Clone)]
pub struct NewUpload {
    /// The name of the user.
    pub initiator: String,
    /// The checksum algorithm and type of its parts.
    pub checksum: Option<(ChecksumAlgorithm, ChecksumType)>,
    /// The attributes of the object.
    pub attributes: Attributes,
    /// The tags of the object.
    pub tags: Vec<(String, String)>,
    /// The controls that the object will have.
    pub controls: ObjectControls,
    /// The storage class that the object will have.
    pub storage_class: StorageClass,
}

/// The completion of a multipart upload.
#[derive(Debug, Clone)]
pub struct Completion {
    /// The upload.
    pub upload: UploadId,
    /// The parts that the caller saw, in order.
    pub parts: Vec<PartRecord>,
    /// The metadata of the object. The caller takes attributes and tags from the upload.
    pub commit: Commit,
}

/// The source of a copy: a range of the bytes of a version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyRange {
    /// The id of the bucket.
    pub bucket: u64,
    /// The key.
    pub key: String,
    /// The version that the caller found.
    pub version: VersionRecord,
    /// The bytes.
    pub range: Range<u64>,
}
