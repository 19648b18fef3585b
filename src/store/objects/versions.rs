//! Objects: finding, reading, putting, copying, tagging and deleting versions.

use std::ops::Range;
use std::sync::Arc;

use super::reader::EncodedBytes;
use super::{copy, quotas};
use crate::crypto::MasterKey;
use crate::format::{AclGrants, BucketRecord, Retention, UserGrant, VersionRecord};
use crate::index::Index;
use crate::log::SegmentPins;
use crate::store::commit::mutation::{Mutation, Put};
use crate::store::commit::requests::VersionChange;
use crate::store::{
    BucketInfo, Commit, CommittedVersion, CopyRange, Deleted, Deletion, ObjectReader, ObjectWriter,
    OpenedKey, Selector, Store, StoreError,
};

/// A version of an object, and its bucket. While this value lives, the bytes stay readable, even if
/// the version is deleted or its extents are moved.
#[derive(Debug, Clone)]
pub struct FoundVersion {
    /// The bucket.
    pub bucket: BucketInfo,
    /// The version, which may be a delete marker.
    pub version: VersionRecord,
    pins: SegmentPins,
}

impl Eq for FoundVersion {}

impl PartialEq for FoundVersion {
    /// Compares the version and its bucket, not the pins.
    fn eq(&self, other: &Self) -> bool {
        (&self.bucket, &self.version) == (&other.bucket, &other.version)
    }
}

impl Store {
    /// Finds a version of an object, which may be a delete marker.
    ///
    /// # Errors
    /// [`StoreError::NoSuchBucket`]; [`StoreError::NoSuchKey`] for [`Selector::Current`] if the key
    /// has no version; [`StoreError::NoSuchVersion`] for another selector, whether or not the key
    /// has other versions.
    pub fn find(&self, bucket: &str, key: &str, which: Selector) -> Result<FoundVersion, StoreError> {
        loop {
            let index = self.shared.index();
            // 1. A snapshot names extents, which the reclaimer may be freeing.
            let (bucket, version) = look_up(&index, bucket, key, which, RecordDetail::Full)?;
            // 2. From here on it leaves them alone.
            let pins = self.shared.segments.pin(&version.extents);
            // 3. Only a second look shows that they were still there when they were pinned.
            let now = self.shared.index();
            // An extent that was moved or deleted before it was pinned may be gone already.
            if version.extents.is_empty()
                || Arc::ptr_eq(&index, &now)
                || has_its_extents(&now, bucket.id, key, &version)
            {
                return Ok(FoundVersion { bucket: bucket.clone(), version, pins });
            }
        }
    }

    /// Like [`Store::find`], but without the extents and the list of parts, whose number has no
    /// effect on the cost. The bytes cannot be read.
    ///
    /// # Errors
    /// As [`Store::find`].
    pub fn find_outline(&self, bucket: &str, key: &str, which: Selector) -> Result<FoundVersion, StoreError> {
        let index = self.shared.index();
        let (bucket, version) = look_up(&index, bucket, key, which, RecordDetail::Outline)?;
        Ok(FoundVersion { bucket: bucket.clone(), version, pins: SegmentPins::default() })
    }

    /// A reader of the bytes `range` of a version. It verifies all bytes before it returns them.
    ///
    /// # Errors
    /// If a segment cannot be opened; of an encrypted version also as of [`Store::check_key`].
    pub fn read(&self, found: &FoundVersion, range: Range<u64>) -> Result<ObjectReader, StoreError> {
        self.read_with(found, range, None)
    }

    /// As [`Store::read`], with the key of the customer for an object that is encrypted so.
    ///
    /// # Errors
    /// As of [`Store::read`] and [`Store::check_key`].
    pub fn read_with(
        &self,
        found: &FoundVersion,
        range: Range<u64>,
        customer: Option<&MasterKey>,
    ) -> Result<ObjectReader, StoreError> {
        let own = self.open_key(&found.version, customer)?;
        self.read_opened(found, range, &own, customer)
    }

    /// As [`Store::read_with`], with the key of the version, which the caller has opened.
    ///
    /// # Errors
    /// As of [`Store::read_with`].
    pub fn read_opened(
        &self,
        found: &FoundVersion,
        range: Range<u64>,
        own: &OpenedKey,
        customer: Option<&MasterKey>,
    ) -> Result<ObjectReader, StoreError> {
        let encryption = found.version.encryption.as_deref();
        let rest = encryption.map_or(&[][..], |encryption| &encryption.keys[1..]);
        let keys = self.shared.open_rest(own, rest.iter(), customer)?;
        let runs = encryption.map(|encryption| &encryption.runs[..]);
        let source = EncodedBytes { extents: &found.version.extents, runs, keys };
        ObjectReader::open(self.shared.clone(), source, range, found.pins.clone())
    }

    /// A writer for the bytes of an object under `key`. With `expected_len`, disk space is
    /// allocated in advance.
    ///
    /// # Errors
    /// [`StoreError::NoSuchBucket`]; [`StoreError::ReadOnly`]; [`StoreError::IndexFull`] and
    /// [`StoreError::QuotaExceeded`], as of now.
    pub fn writer(
        &self,
        bucket: &str,
        key: &str,
        expected_len: Option<u64>,
    ) -> Result<ObjectWriter<'_>, StoreError> {
        self.shared.check_writable()?;
        let bucket = self.bucket(bucket)?;
        self.shared.index_budget().check()?;
        quotas::check_put(&self.shared, &bucket, key, expected_len.unwrap_or(0))?;
        Ok(ObjectWriter::new(&self.shared, &self.committer, bucket, key, expected_len))
    }

    /// Puts an object with the bytes of `source`. No byte is copied: both versions share the
    /// extents. A copy of a whole multipart object has the same parts. Durable on return.
    ///
    /// # Errors
    /// [`StoreError::NoSuchVersion`] if the source is gone; [`StoreError::Encrypted`] if it is
    /// encrypted; otherwise as [`ObjectWriter::commit`].
    pub fn copy(
        &self,
        source: CopyRange,
        bucket: &str,
        key: &str,
        commit: Commit,
    ) -> Result<CommittedVersion, StoreError> {
        let bucket = self.bucket(bucket)?;
        let key = key.to_owned();
        let content = copy::copy_content(&self.shared, source)?;
        let put = Put { bucket, key, content, commit, encryption: None, md5_by_committer: false };
        self.committer.submit(|reply| Mutation::Put(Box::new(put), reply))
    }

    /// Replaces the tags of a version. Durable on return.
    ///
    /// # Errors
    /// [`StoreError::NoSuchBucket`]; [`StoreError::NoSuchVersion`] if `version` is gone.
    pub fn set_tags(
        &self,
        bucket: &str,
        key: &str,
        version: VersionRecord,
        tags: Vec<(String, String)>,
    ) -> Result<(), StoreError> {
        self.amend(bucket, key, version, VersionChange::Tags(tags))
    }

    /// Replaces the grants of the access control list of a version, to groups and to at most
    /// [`NamedUsers::GRANTS_MAX`](crate::format::NamedUsers::GRANTS_MAX) users. The owner stays.
    /// Durable on return.
    ///
    /// # Errors
    /// [`StoreError::NoSuchBucket`]; [`StoreError::NoSuchVersion`] if `version` is gone.
    pub fn set_acl(
        &self,
        bucket: &str,
        key: &str,
        version: VersionRecord,
        grants: AclGrants,
        users: Vec<UserGrant>,
    ) -> Result<(), StoreError> {
        self.amend(bucket, key, version, VersionChange::Acl { grants, users })
    }

    /// Replaces the retention of a version, or removes it where `retention` is `None`. Durable on
    /// return.
    ///
    /// # Errors
    /// [`StoreError::NoSuchBucket`]; [`StoreError::NoSuchVersion`] if `version` is gone;
    /// [`StoreError::Locked`] if the present retention forbids it. `bypass_governance` lifts one in
    /// governance mode.
    pub fn set_retention(
        &self,
        bucket: &str,
        key: &str,
        version: VersionRecord,
        retention: Option<Retention>,
        bypass_governance: bool,
    ) -> Result<(), StoreError> {
        self.amend(bucket, key, version, VersionChange::Retention { retention, bypass_governance })
    }

    /// Sets or lifts the legal hold of a version. Durable on return.
    ///
    /// # Errors
    /// [`StoreError::NoSuchBucket`]; [`StoreError::NoSuchVersion`] if `version` is gone.
    pub fn set_legal_hold(
        &self,
        bucket: &str,
        key: &str,
        version: VersionRecord,
        held: bool,
    ) -> Result<(), StoreError> {
        self.amend(bucket, key, version, VersionChange::LegalHold(held))
    }

    fn amend(
        &self,
        bucket: &str,
        key: &str,
        version: VersionRecord,
        change: VersionChange,
    ) -> Result<(), StoreError> {
        let bucket = bucket.to_owned();
        let key = key.to_owned();
        let version = Box::new(version);
        self.committer.submit(|reply| Mutation::Amend { bucket, key, version, change, reply })
    }

    /// Deletes objects or versions in one commit, with one result each. Durable on return.
    ///
    /// # Errors
    /// [`StoreError::NoSuchBucket`], and errors of the commit as a whole. For one deletion:
    /// [`StoreError::PreconditionFailed`], [`StoreError::OtherOwner`], [`StoreError::Locked`].
    pub fn delete(
        &self,
        bucket: &str,
        deletions: Vec<Deletion>,
    ) -> Result<Vec<Result<Deleted, StoreError>>, StoreError> {
        self.delete_with(bucket, deletions, false)
    }

    /// As [`Store::delete`], but a retention in governance mode does not keep a version.
    ///
    /// # Errors
    /// As of [`Store::delete`].
    pub fn delete_bypassing_governance(
        &self,
        bucket: &str,
        deletions: Vec<Deletion>,
    ) -> Result<Vec<Result<Deleted, StoreError>>, StoreError> {
        self.delete_with(bucket, deletions, true)
    }

    fn delete_with(
        &self,
        bucket: &str,
        deletions: Vec<Deletion>,
        bypass_governance: bool,
    ) -> Result<Vec<Result<Deleted, StoreError>>, StoreError> {
        let bucket = bucket.to_owned();
        self.committer.submit(|reply| Mutation::Delete { bucket, deletions, bypass_governance, reply })
    }
}

/// How much of a version's record is decoded.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RecordDetail {
    Full,
    /// Without extents and parts.
    Outline,
}

/// Whether the index has the version with the same extents.
fn has_its_extents(index: &Index, bucket: u64, key: &str, version: &VersionRecord) -> bool {
    let found = index.version(bucket, key.as_bytes(), version.id);
    found.is_some_and(|found| found.extents == version.extents)
}

fn look_up<'i>(
    index: &'i Index,
    bucket: &str,
    key: &str,
    which: Selector,
    detail: RecordDetail,
) -> Result<(&'i BucketRecord, VersionRecord), StoreError> {
    let bucket = index.bucket(bucket).ok_or(StoreError::NoSuchBucket)?;
    let id = bucket.id;
    let key = key.as_bytes();
    let found = match (which, detail) {
        // The null version has an id as well, which clients do not know: by it nothing is found.
        (Selector::Id(named), RecordDetail::Full) => index.version(id, key, named).filter(|v| !v.null),
        (Selector::Id(named), RecordDetail::Outline) => {
            index.version_outline(id, key, named).filter(|v| !v.null)
        }
        (Selector::Null, RecordDetail::Full) => index.null_version(id, key),
        (Selector::Null, RecordDetail::Outline) => index.null_outline(id, key),
        (Selector::Current, RecordDetail::Full) => index.newest(id, key),
        (Selector::Current, RecordDetail::Outline) => index.newest_outline(id, key),
    };
    match found {
        Some(version) => Ok((bucket, version)),
        None if which == Selector::Current => Err(StoreError::NoSuchKey),
        None => Err(StoreError::NoSuchVersion),
    }
}
