//! Planning puts, deletions and tags of objects.

use crate::format::{
    Attributes, BucketRecord, ETag, Entry, ExtentPurpose, RebuildRecord, StorageClass, VersionId,
    VersionRecord, VersionSummary, Versioning,
};
use crate::index::{CountedVersion, marker_index_bytes};
use crate::log::SpaceClaim;
use crate::store::commit::mutation::{DeletionResults, Put, marker_index_bytes_max};
use crate::store::commit::plan::{Holdings, PackedContent, Planner, UpdatedVersion, check};
use crate::store::commit::requests::VersionChange;
use crate::store::shared::index_budget::IndexGrowth;
use crate::store::{
    CommittedVersion, DeleteCondition, Deleted, Deletion, ObjectControls, OwnerCondition, Selector,
    StoreError, VersionRef,
};

impl Planner<'_> {
    pub(super) fn put(&mut self, put: Put) -> Result<CommittedVersion, StoreError> {
        let bucket = self.same_bucket(&put.bucket)?;
        self.check_wrapped(put.encryption.as_ref().map_or(&[], |encryption| &encryption.keys))?;
        let key = put.key.into_bytes();
        let newest = self.newest(bucket.id, &key);
        check(&put.commit.condition, newest.as_ref())?;
        self.check_null_unlocked(bucket, &key)?;
        let upload = put.content.assembly();
        let counted = CountedVersion {
            key: &key,
            attributes: &put.commit.attributes,
            tags: &put.commit.tags,
            parts: upload.as_ref().map_or(0, |assembly| assembly.parts.len()),
            encryption: put.encryption.as_deref(),
            size: put.content.size(),
        };
        let added = Holdings::of_object(counted.size, counted.index_bytes());
        // The change counts what the put replaces, so that an object can be overwritten up to the
        // quota.
        let change = self.change_by_put(bucket, &key, added);
        self.check_quota(bucket, change)?;
        self.check_room(SpaceClaim::Growth)?;
        let null = bucket.versioning != Versioning::Enabled;
        // The ids of a key ascend, so that a rebuild from segments finds the newest version.
        let placed = self.place_content(put.content, |stored| {
            stored.null == null && newest.is_none_or(|newest| newest.id.0 < stored.id)
        })?;
        let id = VersionId(placed.id);
        let record = put.commit.into_record(id, null, placed.modified, placed.size, Vec::new());
        let record = VersionRecord { upload, encryption: put.encryption, ..record };
        let written = CommittedVersion { id, null, modified: placed.modified, etag: record.etag };
        if let Some(packed) = &placed.packed {
            let object = RebuildRecord::in_bucket(bucket, packed.sources.clone(), record.clone());
            self.pack(bucket, &key, placed.id, packed, ExtentPurpose::ObjectRecord(object));
        }
        self.put_version(bucket.id, key, VersionRecord { extents: placed.extents, ..record });
        self.count(bucket, change);
        Ok(written)
    }

    pub(super) fn delete(
        &mut self,
        bucket: &str,
        deletions: Vec<Deletion>,
        bypass_governance: bool,
    ) -> Result<DeletionResults, StoreError> {
        let bucket = self.bucket(bucket)?;
        let adds_markers = bucket.versioning != Versioning::Unset
            && deletions.iter().any(|deletion| deletion.which == Selector::Current);
        if adds_markers {
            self.check_room(SpaceClaim::Upkeep)?;
        }
        let deletions = deletions.into_iter();
        Ok(deletions.map(|deletion| self.delete_one(bucket, deletion, bypass_governance)).collect())
    }

    fn delete_one(
        &mut self,
        bucket: &BucketRecord,
        deletion: Deletion,
        bypass_governance: bool,
    ) -> Result<Deleted, StoreError> {
        let Deletion { key, which, condition } = deletion;
        let key = key.into_bytes();
        let found = self.find(bucket.id, &key, which);
        let named = match which {
            Selector::Current => None,
            Selector::Null => Some(VersionRef::Null),
            Selector::Id(id) => Some(VersionRef::Id(id)),
        };
        // A condition on what is not there counts as met: there is nothing to be deleted.
        if !condition.is_none() {
            let Some(version) = found.filter(|version| named.is_some() || !version.delete_marker) else {
                return Ok(Deleted { delete_marker: false, version: named });
            };
            check_deletion(&condition, &version)?;
            self.check_owner(bucket.id, &key, version.id, &condition.owner)?;
        }
        if named.is_none() && bucket.versioning != Versioning::Unset {
            self.check_null_unlocked(bucket, &key)?;
            return self.add_marker(bucket, key);
        }
        if let Some(version) = found {
            self.check_unlocked(bucket.id, &key, version.id, bypass_governance)?;
            let gone = self.holdings_of_version(bucket, &key, &version);
            self.changes_mut(bucket.id, &key).remove(version.id);
            self.count(bucket, Holdings::NONE - gone);
            self.push_deletion(bucket.id, key, &version);
        }
        let delete_marker = named.is_some() && found.is_some_and(|version| version.delete_marker);
        Ok(Deleted { delete_marker, version: named })
    }

    fn check_owner(
        &self,
        bucket: u64,
        key: &[u8],
        version: VersionId,
        condition: &OwnerCondition,
    ) -> Result<(), StoreError> {
        if *condition == OwnerCondition::Any {
            return Ok(());
        }
        let users = self.version(bucket, key, version).and_then(|version| version.controls.users);
        let owner = users.and_then(|users| users.owner);
        match condition.holds(owner.as_ref().map(|owner| (owner.name.as_str(), owner.since))) {
            true => Ok(()),
            false => Err(StoreError::OtherOwner),
        }
    }

    /// The entry that deletes a version, after the note that it is a null version, where a follower
    /// reads it.
    pub(super) fn push_deletion(&mut self, bucket: u64, key: Vec<u8>, version: &VersionSummary) {
        if version.null && self.is_followed() {
            self.plan.entries.push(Entry::NullDeletion);
        }
        self.plan.entries.push(Entry::VersionDelete { bucket, key, version: version.id });
    }

    /// Adds a delete marker. A quota refuses only those that hide nothing: others delete what is
    /// there.
    pub(super) fn add_marker(&mut self, bucket: &BucketRecord, key: Vec<u8>) -> Result<Deleted, StoreError> {
        let change = self.change_by_put(bucket, &key, Holdings::of_index(marker_index_bytes(&key)));
        let hides = self.newest(bucket.id, &key).is_some_and(|newest| !newest.delete_marker);
        if !hides {
            self.check_quota(bucket, change)?;
        }
        self.growth.reserve(marker_index_bytes_max(&key), IndexGrowth::Marker)?;
        let id = VersionId(self.ids.next());
        let null = bucket.versioning != Versioning::Enabled;
        let record = VersionRecord {
            id,
            null,
            delete_marker: true,
            modified: self.now,
            size: 0,
            etag: ETag::None,
            storage_class: StorageClass::Standard,
            extents: Vec::new(),
            attributes: Attributes::new(),
            checksums: Vec::new(),
            tags: Vec::new(),
            upload: None,
            controls: ObjectControls::default(),
            controls_stamp: None,
            encryption: None,
            stated_time: None,
        };
        self.put_version(bucket.id, key, record);
        self.count(bucket, change);
        let version = if null { VersionRef::Null } else { VersionRef::Id(id) };
        Ok(Deleted { delete_marker: true, version: Some(version) })
    }

    pub(super) fn amend(
        &mut self,
        bucket: &str,
        key: String,
        version: &VersionRecord,
        change: VersionChange,
    ) -> Result<(), StoreError> {
        let bucket = self.bucket(bucket)?;
        let key = key.into_bytes();
        let found = self.version(bucket.id, &key, version.id).ok_or(StoreError::NoSuchVersion)?;
        if !change.is_permitted(&found.controls, self.lock_clock.lock_times()) {
            return Err(StoreError::Locked);
        }
        let adds = change.adds();
        let of_controls = change.is_of_controls();
        let operation = change.operation();
        if adds {
            self.check_room(SpaceClaim::Growth)?;
        }
        if of_controls && !self.place && adds {
            return Err(StoreError::DiskFull);
        }
        let before = Holdings::of_record(&key, &found);
        let record = change.apply_to(found);
        let growth = Holdings::of_record(&key, &record) - before;
        self.check_quota(bucket, growth)?;
        self.count(bucket, growth);
        self.push_cause(operation);
        match (of_controls, self.place) {
            (true, true) => self.update_controls(bucket, key, record),
            // Lifting something must need no disk space. A rebuild from segments then finds what
            // was there before.
            (true, false) | (false, _) => self.update_version(bucket.id, key, record),
        }
        Ok(())
    }

    /// Updates the controls of a version in the log and, by an extent of their own, in a segment.
    /// The extent with the earlier controls dies.
    fn update_controls(&mut self, bucket: &BucketRecord, key: Vec<u8>, mut record: VersionRecord) {
        let pending = self.updated.get(&record.id).is_some_and(|updated| updated.controls.is_some());
        // The last extent is that of the earlier controls. One of this group is not in the list
        // yet.
        if record.controls_stamp.is_some() && !pending {
            record.extents.pop();
        }
        let stamp = self.ids.next();
        record.controls_stamp = Some(stamp);
        let purpose = ExtentPurpose::Controls(record.id, record.controls.clone());
        self.pack(bucket, &key, stamp, &PackedContent::default(), purpose);
        let controls = Some(self.plan.packed.len() - 1);
        self.updated.insert(record.id, UpdatedVersion { record: record.clone(), controls });
        self.plan.entries.push(Entry::VersionAmend { bucket: bucket.id, key, record });
    }
}

fn check_deletion(condition: &DeleteCondition, version: &VersionSummary) -> Result<(), StoreError> {
    let etag = version.etag.to_string();
    let content = (!version.delete_marker).then_some((etag.as_str(), version.size));
    if condition.holds(content, version.last_modified()) {
        Ok(())
    } else {
        Err(StoreError::PreconditionFailed)
    }
}
