//! Planning expiries: each is decided again by the present state of its key.

use std::sync::Arc;

use crate::base::Timestamp;
use crate::format::{
    BucketConfigurationKind, BucketRecord, UploadId, VersionId, VersionRecord, VersionSummary, Versioning,
};
use crate::log::SpaceClaim;
use crate::store::commit::plan::{Holdings, KeyChanges, Planner};
use crate::store::{ClassTransition, ExpiringItem, ExpiringRole, ExpiryOutcome, ExpiryRequest, StoreError};

impl Planner<'_> {
    /// Decides the expiries of a request, which is the only mutation of its group.
    pub(super) fn expire(&mut self, request: ExpiryRequest) -> Result<Vec<ExpiryOutcome>, StoreError> {
        let bucket = self.same_bucket(&request.bucket)?;
        if !self.is_in_force(&request) {
            return Ok(vec![ExpiryOutcome::Obsolete; request.items.len()]);
        }
        request.items.into_iter().map(|item| self.expire_one(bucket, item)).collect()
    }

    /// Whether the bucket still has the configuration of the decision. Each configuration is an
    /// allocation of its own, and the request keeps this one, so that no other has its address.
    fn is_in_force(&self, request: &ExpiryRequest) -> bool {
        let Some(decided_by) = &request.configuration else { return true };
        let now = self.index.configured_bucket(&request.bucket.name);
        let now = now.and_then(|(_, all)| all.get(BucketConfigurationKind::Lifecycle).cloned());
        now.is_some_and(|now| Arc::ptr_eq(&now, decided_by))
    }

    fn expire_one(
        &mut self,
        bucket: &BucketRecord,
        ExpiringItem { key, role, transition }: ExpiringItem,
    ) -> Result<ExpiryOutcome, StoreError> {
        if let Some(transition) = transition {
            return Ok(self.change_class(bucket, key, role, transition));
        }
        let expired = match role {
            ExpiringRole::Current(version) if self.is_current_object(bucket, &key, version) => {
                self.expire_current(bucket, key, version)
            }
            ExpiringRole::LoneDeleteMarker(version) if self.is_lone_marker(bucket, &key, version) => {
                self.remove_version(bucket, key, version)
            }
            ExpiringRole::Noncurrent { version, newer_noncurrent_min }
                if self.is_noncurrent(bucket, &key, version, newer_noncurrent_min) =>
            {
                self.remove_version(bucket, key, version)
            }
            ExpiringRole::Upload(upload) => self.expire_upload(bucket, key, upload),
            ExpiringRole::IdleUpload(upload, since) if self.is_idle(bucket, &key, upload, since) => {
                self.expire_upload(bucket, key, upload)
            }
            _ => Ok(ExpiryOutcome::Obsolete),
        };
        match expired {
            Err(StoreError::Locked) => Ok(ExpiryOutcome::Locked),
            Err(StoreError::IndexFull { .. }) => Ok(ExpiryOutcome::IndexFull),
            Err(StoreError::DiskFull) => Ok(ExpiryOutcome::DiskFull),
            expired => expired,
        }
    }

    /// Moves a version that still is what the rule took.
    fn change_class(
        &mut self,
        bucket: &BucketRecord,
        key: Vec<u8>,
        role: ExpiringRole,
        transition: ClassTransition,
    ) -> ExpiryOutcome {
        let version = match role {
            ExpiringRole::Current(version) if self.is_current_object(bucket, &key, version) => version,
            ExpiringRole::Noncurrent { version, newer_noncurrent_min }
                if self.is_noncurrent(bucket, &key, version, newer_noncurrent_min) =>
            {
                version
            }
            _ => return ExpiryOutcome::Obsolete,
        };
        let Some(found) = self.version(bucket.id, &key, version) else { return ExpiryOutcome::Obsolete };
        let is_done = found.delete_marker || found.storage_class == transition.class;
        // A record that has grown since would break the bound by which the group was put together.
        if is_done || encoded_len(&found) > transition.record_bytes {
            return ExpiryOutcome::Obsolete;
        }
        if self.check_room(SpaceClaim::Upkeep).is_err() {
            return ExpiryOutcome::DiskFull;
        }
        let record = VersionRecord { storage_class: transition.class, ..found };
        self.update_version(bucket.id, key, record);
        ExpiryOutcome::Moved
    }

    fn is_current_object(&self, bucket: &BucketRecord, key: &[u8], version: VersionId) -> bool {
        self.newest(bucket.id, key).is_some_and(|newest| newest.id == version && !newest.delete_marker)
    }

    fn is_lone_marker(&self, bucket: &BucketRecord, key: &[u8], version: VersionId) -> bool {
        let mut versions = self.versions_now(bucket.id, key);
        let is_marker = versions.next().is_some_and(|newest| newest.id == version && newest.delete_marker);
        is_marker && versions.next().is_none()
    }

    /// Whether at least `newer_min` noncurrent versions are between a version and the current one.
    /// Only so many are read.
    fn is_noncurrent(&self, bucket: &BucketRecord, key: &[u8], version: VersionId, newer_min: u32) -> bool {
        let mut kept = self.versions_now(bucket.id, key).take(newer_min as usize + 1);
        kept.all(|kept| kept.id != version) && self.summary_now(bucket.id, key, version).is_some()
    }

    /// Whether an upload neither began nor got a part since that time.
    fn is_idle(&self, bucket: &BucketRecord, key: &[u8], upload: UploadId, since: Timestamp) -> bool {
        let begun = self.index.upload_record(bucket.id, key, upload).map(|record| record.initiated);
        let mut parts = self.index.parts(bucket.id, key, upload, 0).into_iter().flatten();
        begun.is_some_and(|begun| begun < since) && parts.all(|part| part.modified < since)
    }

    /// The versions of a key after the earlier expiries of the group, newest first.
    fn versions_now<'p>(
        &'p self,
        bucket: u64,
        key: &'p [u8],
    ) -> impl Iterator<Item = VersionSummary> + use<'p> {
        let changes = self.changes(bucket, key);
        let added = changes.into_iter().flat_map(KeyChanges::added);
        let here = self.index.summaries(bucket, key);
        added.chain(here.filter(move |version| changes.is_none_or(|changes| changes.keeps(version))))
    }

    fn summary_now(&self, bucket: u64, key: &[u8], version: VersionId) -> Option<VersionSummary> {
        let found = self.index.version_summary(bucket, key, version)?;
        self.changes(bucket, key).is_none_or(|changes| changes.keeps(&found)).then_some(found)
    }

    fn expire_current(
        &mut self,
        bucket: &BucketRecord,
        key: Vec<u8>,
        version: VersionId,
    ) -> Result<ExpiryOutcome, StoreError> {
        if bucket.versioning == Versioning::Unset {
            return self.remove_version(bucket, key, version);
        }
        // Where versioning is suspended the marker replaces the null version, which may be locked.
        self.check_null_unlocked(bucket, &key)?;
        self.check_room(SpaceClaim::Upkeep)?;
        self.add_marker(bucket, key)?;
        Ok(ExpiryOutcome::MarkerAdded)
    }

    fn remove_version(
        &mut self,
        bucket: &BucketRecord,
        key: Vec<u8>,
        version: VersionId,
    ) -> Result<ExpiryOutcome, StoreError> {
        let Some(found) = self.summary_now(bucket.id, &key, version) else {
            return Ok(ExpiryOutcome::Obsolete);
        };
        self.check_unlocked(bucket.id, &key, version, false)?;
        let gone = self.holdings_of_version(bucket, &key, &found);
        self.changes_mut(bucket.id, &key).remove(version);
        self.count(bucket, Holdings::NONE - gone);
        self.push_deletion(bucket.id, key, &found);
        Ok(ExpiryOutcome::Removed)
    }

    fn expire_upload(
        &mut self,
        bucket: &BucketRecord,
        key: Vec<u8>,
        upload: UploadId,
    ) -> Result<ExpiryOutcome, StoreError> {
        if self.check_upload(bucket.id, &key, upload).is_err() {
            return Ok(ExpiryOutcome::Obsolete);
        }
        let gone = self.holdings_of_upload(bucket.id, &key, upload);
        self.end_upload(bucket.id, key, upload);
        self.count(bucket, Holdings::NONE - gone);
        Ok(ExpiryOutcome::Removed)
    }
}

fn encoded_len(record: &VersionRecord) -> usize {
    let mut encoded = Vec::new();
    record.encode(&mut encoded);
    encoded.len()
}
