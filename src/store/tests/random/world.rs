//! What a store must hold, kept in the simplest way and with none of its code.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::*;

/// The id of a null delete marker, which nobody is told.
const UNKNOWN: VersionId = VersionId(0);

/// A version: its record, without the extents, and its bytes.
#[derive(Debug, Clone)]
pub(super) struct Object {
    pub(super) record: VersionRecord,
    pub(super) bytes: Arc<Vec<u8>>,
    /// The tags that it was put with.
    pub(super) first_tags: Vec<(String, String)>,
    /// The class that it was put with.
    pub(super) first_class: StorageClass,
    /// The controls that the segments know.
    pub(super) recorded_controls: ObjectControls,
}

/// An upload and its parts.
#[derive(Debug, Clone)]
pub(super) struct Pending {
    pub(super) record: UploadRecord,
    /// Parts by number: the record, without the extents, and the bytes.
    pub(super) parts: BTreeMap<u32, (PartRecord, Arc<Vec<u8>>)>,
}

#[derive(Debug, Clone)]
pub(super) struct Bucket {
    pub(super) info: BucketInfo,
    pub(super) configurations: BTreeMap<BucketConfigurationKind, Vec<u8>>,
    /// Versions newest first; no key without one.
    pub(super) keys: BTreeMap<String, Vec<Object>>,
    pub(super) uploads: BTreeMap<(String, UploadId), Pending>,
    /// The state at the last put of an object or a part.
    pub(super) told: Option<Versioning>,
}

#[derive(Debug, Default)]
pub(super) struct World {
    pub(super) buckets: BTreeMap<String, Bucket>,
    pub(super) owner_quotas: BTreeMap<String, Quota>,
}

impl Object {
    pub(super) fn of(
        commit: Commit,
        bytes: Vec<u8>,
        written: CommittedVersion,
        upload: Option<Assembly>,
    ) -> Self {
        let record = VersionRecord {
            storage_class: commit.storage_class,
            id: written.id,
            null: written.null,
            delete_marker: false,
            modified: written.modified,
            size: bytes.len() as u64,
            etag: commit.etag,
            extents: vec![],
            attributes: commit.attributes,
            checksums: commit.checksums,
            tags: commit.tags,
            upload,
            controls: commit.controls,
            controls_stamp: None,
            encryption: None,
            stated_time: commit.stated_time,
        };
        Self {
            first_tags: record.tags.clone(),
            first_class: record.storage_class,
            recorded_controls: record.controls.clone(),
            record,
            bytes: Arc::new(bytes),
        }
    }

    fn marker(id: VersionId, null: bool, modified: Timestamp) -> Self {
        let record = VersionRecord {
            storage_class: StorageClass::Standard,
            id,
            null,
            delete_marker: true,
            modified,
            size: 0,
            etag: ETag::None,
            extents: vec![],
            attributes: Attributes::new(),
            checksums: vec![],
            tags: vec![],
            upload: None,
            controls: ObjectControls::default(),
            controls_stamp: None,
            encryption: None,
            stated_time: None,
        };
        Self {
            record,
            bytes: Arc::default(),
            first_tags: vec![],
            first_class: StorageClass::Standard,
            recorded_controls: ObjectControls::default(),
        }
    }

    /// Whether it was completed with an empty list, as no client can. A rebuild does not know how
    /// to tell it from one whose parts were not written down.
    pub(super) fn is_of_no_part(&self) -> bool {
        self.record.upload.as_ref().is_some_and(|made| made.parts.is_empty())
    }

    pub(super) fn selector(&self) -> Selector {
        if self.record.null { Selector::Null } else { Selector::Id(self.record.id) }
    }

    pub(super) fn named(&self) -> VersionRef {
        if self.record.null { VersionRef::Null } else { VersionRef::Id(self.record.id) }
    }

    /// Whether this is what a listing shows, as far as it is known.
    pub(super) fn is_summed_up_by(&self, found: &VersionSummary) -> bool {
        let id = if self.record.id == UNKNOWN { UNKNOWN } else { found.id };
        let ours = &self.record;
        (ours.id, ours.null, ours.delete_marker) == (id, found.null, found.delete_marker)
            && (ours.modified, ours.size, ours.etag) == (found.modified, found.size, found.etag)
            && ours.stated_time == found.stated_time
    }

    /// Whether this is what was found, as far as it is known.
    pub(super) fn is(&self, found: &VersionRecord) -> bool {
        let id = if self.record.id == UNKNOWN { UNKNOWN } else { found.id };
        VersionRecord { id, extents: vec![], controls_stamp: None, ..found.clone() } == self.record
    }
}

impl Bucket {
    pub(super) fn new(info: BucketInfo) -> Self {
        Self {
            info,
            configurations: BTreeMap::new(),
            keys: BTreeMap::new(),
            uploads: BTreeMap::new(),
            told: None,
        }
    }

    pub(super) fn versions(&self, key: &str) -> &[Object] {
        self.keys.get(key).map_or(&[], Vec::as_slice)
    }

    /// All versions with their keys.
    pub(super) fn all(&self) -> impl Iterator<Item = (&String, &Object)> {
        self.keys.iter().flat_map(|(key, versions)| versions.iter().map(move |version| (key, version)))
    }

    fn position(&self, key: &str, which: Selector) -> Option<usize> {
        self.versions(key).iter().position(|Object { record, .. }| match which {
            Selector::Current => true,
            Selector::Null => record.null,
            Selector::Id(id) => !record.null && record.id == id,
        })
    }

    pub(super) fn find(&self, key: &str, which: Selector) -> Result<&Object, StoreError> {
        let missing = match which {
            Selector::Current => StoreError::NoSuchKey,
            _ => StoreError::NoSuchVersion,
        };
        self.position(key, which).map(|at| &self.versions(key)[at]).ok_or(missing)
    }

    /// Whether a put may be done.
    pub(super) fn check(&self, key: &str, condition: &WriteCondition) -> Result<(), StoreError> {
        let there = self.versions(key).first();
        match condition {
            WriteCondition::None => Ok(()),
            WriteCondition::IfMatch(tag) => check_tag(tag, there),
            WriteCondition::IfAbsent if there.is_some_and(|newest| !newest.record.delete_marker) => {
                Err(StoreError::PreconditionFailed)
            }
            WriteCondition::IfAbsent => Ok(()),
            WriteCondition::IfNoneMatch(tag) => match check_tag(tag, there) {
                Ok(()) => Err(StoreError::PreconditionFailed),
                Err(_) => Ok(()),
            },
            WriteCondition::Both(both) => self.check(key, &both.0).and_then(|()| self.check(key, &both.1)),
        }
    }

    pub(super) fn put(&mut self, key: &str, object: Object) {
        assert_eq!(object.record.null, self.info.versioning != Versioning::Enabled, "of {key}");
        let versions = self.keys.entry(key.into()).or_default();
        if object.record.null {
            versions.retain(|old| !old.record.null);
        }
        versions.insert(0, object);
    }

    /// What a deletion must be answered; the id of a new delete marker is taken from what it was.
    pub(super) fn delete(
        &mut self,
        deletion: &Deletion,
        now: Timestamp,
        answered: &Result<Deleted, StoreError>,
    ) -> Result<Deleted, StoreError> {
        let Deletion { key, which, condition } = deletion;
        let found = self.position(key, *which);
        let version = match which {
            Selector::Null => Some(VersionRef::Null),
            Selector::Id(id) => Some(VersionRef::Id(*id)),
            Selector::Current => None,
        };
        if *condition != DeleteCondition::default() {
            let there = found.map(|at| &self.versions(key)[at]);
            match there.filter(|it| version.is_some() || !it.record.delete_marker) {
                None => return Ok(Deleted { delete_marker: false, version }),
                Some(there) => check_deletion(condition, there)?,
            }
        }
        if version.is_none() && self.info.versioning != Versioning::Unset {
            return Ok(self.put_marker(key, now, answered));
        }
        let removed = found.map(|at| self.remove(key, at));
        let delete_marker = version.is_some() && removed.is_some_and(|old| old.record.delete_marker);
        Ok(Deleted { delete_marker, version })
    }

    fn put_marker(&mut self, key: &str, now: Timestamp, answered: &Result<Deleted, StoreError>) -> Deleted {
        let null = self.info.versioning == Versioning::Suspended;
        let id = match answered {
            Ok(Deleted { version: Some(VersionRef::Id(id)), .. }) if !null => *id,
            _ => UNKNOWN,
        };
        let marker = Object::marker(id, null, now);
        let version = Some(marker.named());
        self.put(key, marker);
        Deleted { delete_marker: true, version }
    }

    fn remove(&mut self, key: &str, at: usize) -> Object {
        let versions = self.keys.get_mut(key).expect("it has the version");
        let removed = versions.remove(at);
        if versions.is_empty() {
            self.keys.remove(key);
        }
        removed
    }
}

fn check_tag(wanted: &str, there: Option<&Object>) -> Result<(), StoreError> {
    let there = there.filter(|object| !object.record.delete_marker).ok_or(StoreError::NoSuchKey)?;
    let tag = there.record.etag.to_string();
    let matches = wanted == "*" || wanted == tag || format!("\"{wanted}\"") == tag;
    if matches { Ok(()) } else { Err(StoreError::PreconditionFailed) }
}

fn check_deletion(condition: &DeleteCondition, there: &Object) -> Result<(), StoreError> {
    let record = &there.record;
    let tag = condition.if_match.as_ref().is_none_or(|tag| check_tag(tag, Some(there)).is_ok());
    let size = condition.size.is_none_or(|size| !record.delete_marker && size == record.size);
    let since = condition.modified.as_ref().map(|time| time.start.as_millis()..time.end.as_millis());
    let time = since.is_none_or(|since| since.contains(&record.last_modified().as_millis()));
    if tag && size && time { Ok(()) } else { Err(StoreError::PreconditionFailed) }
}

impl World {
    pub(super) fn bucket(&self, name: &str) -> Result<&Bucket, StoreError> {
        self.buckets.get(name).ok_or(StoreError::NoSuchBucket)
    }

    pub(super) fn bucket_mut(&mut self, name: &str) -> &mut Bucket {
        self.buckets.get_mut(name).expect("the store has it, too")
    }

    pub(super) fn upload(&self, bucket: &str, key: &str, upload: UploadId) -> Result<&Pending, StoreError> {
        self.bucket(bucket)?.uploads.get(&(key.to_owned(), upload)).ok_or(StoreError::NoSuchUpload)
    }
}
