//! Object lock: versions that must not go yet.

use crate::format::{BucketConfigurationKind, BucketRecord, Features, ObjectControls, VersionId, Versioning};
use crate::store::commit::plan::Planner;
use crate::store::commit::retention;
use crate::store::{Selector, StoreError};

impl Planner<'_> {
    /// Fails if a version is locked. Stores without controls pay nothing. The bucket's
    /// configuration does not matter: a rebuilt store knows the locks of its versions, but no
    /// configurations.
    pub(super) fn check_unlocked(
        &self,
        bucket: u64,
        key: &[u8],
        version: VersionId,
        bypass_governance: bool,
    ) -> Result<(), StoreError> {
        let Some(controls) = self.controls(bucket, key, version) else { return Ok(()) };
        match retention::is_locked(&controls, self.lock_clock.lock_times(), bypass_governance) {
            true => Err(StoreError::Locked),
            false => Ok(()),
        }
    }

    /// Fails if a new null version would replace a locked one.
    pub(super) fn check_null_unlocked(&self, bucket: &BucketRecord, key: &[u8]) -> Result<(), StoreError> {
        if bucket.versioning == Versioning::Enabled || !self.has_controls() {
            return Ok(());
        }
        match self.find(bucket.id, key, Selector::Null) {
            Some(replaced) => self.check_unlocked(bucket.id, key, replaced.id, false),
            None => Ok(()),
        }
    }

    /// Fails if object lock forbids the configuration: it demands versioning, and is never removed.
    pub(super) fn check_lock_configuration(
        &self,
        versioning: Versioning,
        kind: BucketConfigurationKind,
        document: Option<&[u8]>,
    ) -> Result<(), StoreError> {
        let is_lock = kind == BucketConfigurationKind::ObjectLock;
        match is_lock && (document.is_none() || versioning != Versioning::Enabled) {
            true => Err(StoreError::InvalidBucketState),
            false => Ok(()),
        }
    }

    /// Fails if object lock forbids the versioning state of a bucket.
    pub(super) fn check_lock_versioning(&self, name: &str, versioning: Versioning) -> Result<(), StoreError> {
        let (_, configurations) = self.index.configured_bucket(name).ok_or(StoreError::NoSuchBucket)?;
        let locks = configurations.get(BucketConfigurationKind::ObjectLock).is_some();
        match locks && versioning != Versioning::Enabled {
            true => Err(StoreError::InvalidBucketState),
            false => Ok(()),
        }
    }

    fn has_controls(&self) -> bool {
        self.index.features().contains(Features::OBJECT_CONTROLS) || !self.updated.is_empty()
    }

    fn controls(&self, bucket: u64, key: &[u8], version: VersionId) -> Option<ObjectControls> {
        if !self.has_controls() {
            return None;
        }
        let updated = self.updated.get(&version).map(|updated| updated.record.controls.clone());
        updated.or_else(|| self.index.version_outline(bucket, key, version).map(|record| record.controls))
    }
}
