//! Buckets with versions, locks and quotas, kept in the slowest and most obvious way.

use std::collections::BTreeMap;
use std::sync::Arc;

use siltstone::store::{
    Quota, Retention, RetentionMode, Selector, UploadId, VersionId, VersionRef, Versioning,
};

use super::rules::ModelRule;

/// A version or a delete marker. Times are in milliseconds.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ModelVersion {
    /// `None` for a new delete marker whose id the store has not told yet.
    pub(super) id: Option<VersionId>,
    pub(super) null: bool,
    pub(super) marker: bool,
    pub(super) modified: u64,
    pub(super) bytes: Arc<Vec<u8>>,
    pub(super) tagged: bool,
    pub(super) retention: Option<Retention>,
    pub(super) held: bool,
}

/// An upload in progress.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ModelUpload {
    pub(super) id: UploadId,
    pub(super) key: String,
    pub(super) initiated: u64,
    /// By number: the bytes and the time.
    pub(super) parts: BTreeMap<u32, (Arc<Vec<u8>>, u64)>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct ModelBucket {
    pub(super) owner: &'static str,
    pub(super) versioning: Versioning,
    /// Versions newest first; no key without one.
    pub(super) keys: BTreeMap<String, Vec<ModelVersion>>,
    pub(super) uploads: Vec<ModelUpload>,
    pub(super) quota: Quota,
    pub(super) rules: Vec<ModelRule>,
}

/// All of a store.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Model {
    pub(super) buckets: BTreeMap<String, ModelBucket>,
    pub(super) owner_quotas: BTreeMap<String, Quota>,
}

/// The reason of a refusal.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Refusal {
    Locked,
    Quota,
    Missing,
}

/// Bytes, objects and uploads.
pub(super) type Amounts = [u64; 3];

impl ModelVersion {
    pub(super) fn marker(null: bool, modified: u64) -> Self {
        let bytes = Arc::default();
        let retention = None;
        Self { id: None, null, marker: true, modified, bytes, tagged: false, retention, held: false }
    }

    pub(super) fn selector(&self) -> Selector {
        if self.null { Selector::Null } else { Selector::Id(self.id.expect("it was learned")) }
    }

    pub(super) fn named(&self) -> VersionRef {
        if self.null { VersionRef::Null } else { VersionRef::Id(self.id.expect("it was learned")) }
    }

    /// Whether it must stay (S3 user guide, "Locking objects with Object Lock").
    pub(super) fn is_locked(&self, lock_time: u64, bypass: bool) -> bool {
        let retained = self.retention.is_some_and(|retention| {
            let is_bypassed = bypass && retention.mode == RetentionMode::Governance;
            lock_time < retention.until.as_millis() && !is_bypassed
        });
        self.held || retained
    }

    /// Whether its retention may be replaced.
    pub(super) fn may_be_retained(&self, new: Option<Retention>, lock_time: u64, bypass: bool) -> bool {
        let Some(old) = self.retention.filter(|old| lock_time < old.until.as_millis()) else { return true };
        match old.mode {
            RetentionMode::Governance if bypass => true,
            mode => new.is_some_and(|new| new.mode == mode && new.until >= old.until),
        }
    }
}

impl ModelUpload {
    pub(super) fn bytes(&self) -> u64 {
        self.parts.values().map(|(bytes, _)| bytes.len() as u64).sum()
    }

    pub(super) fn last_activity(&self) -> u64 {
        self.parts.values().map(|(_, at)| *at).fold(self.initiated, u64::max)
    }
}

impl ModelBucket {
    pub(super) fn new(owner: &'static str) -> Self {
        let versioning = Versioning::Unset;
        let keys = BTreeMap::new();
        let uploads = vec![];
        Self { owner, versioning, keys, uploads, quota: Quota::default(), rules: vec![] }
    }

    pub(super) fn versions(&self) -> impl Iterator<Item = (&String, &ModelVersion)> {
        self.keys.iter().flat_map(|(key, versions)| versions.iter().map(move |version| (key, version)))
    }

    pub(super) fn amounts(&self) -> Amounts {
        let objects = || self.versions().filter(|(_, version)| !version.marker);
        let bytes: usize = objects().map(|(_, version)| version.bytes.len()).sum();
        let parts: u64 = self.uploads.iter().map(ModelUpload::bytes).sum();
        [bytes as u64 + parts, objects().count() as u64, self.uploads.len() as u64]
    }

    /// Puts a version or a marker on top, also if the version that it replaces is locked: quotas
    /// may refuse it as well.
    pub(super) fn put(&mut self, key: &str, version: ModelVersion, lock_time: u64) -> Result<(), Refusal> {
        let is_replaced = |old: &ModelVersion| version.null && old.null;
        let versions = self.keys.entry(key.to_owned()).or_default();
        let is_locked = versions.iter().any(|old| is_replaced(old) && old.is_locked(lock_time, false));
        versions.retain(|old| !is_replaced(old));
        versions.insert(0, version);
        if is_locked { Err(Refusal::Locked) } else { Ok(()) }
    }

    /// Removes a version for good.
    pub(super) fn remove(
        &mut self,
        key: &str,
        nth: usize,
        lock_time: u64,
        bypass: bool,
    ) -> Result<(), Refusal> {
        let versions = self.keys.get_mut(key).ok_or(Refusal::Missing)?;
        if versions[nth].is_locked(lock_time, bypass) {
            return Err(Refusal::Locked);
        }
        versions.remove(nth);
        if versions.is_empty() {
            self.keys.remove(key);
        }
        Ok(())
    }

    /// Deletes the current version as the versioning demands.
    pub(super) fn delete_current(&mut self, key: &str, now: u64, lock_time: u64) -> Result<(), Refusal> {
        match self.versioning {
            Versioning::Unset if self.keys.contains_key(key) => self.remove(key, 0, lock_time, false),
            Versioning::Unset => Ok(()),
            versioning => {
                let null = versioning == Versioning::Suspended;
                self.put(key, ModelVersion::marker(null, now), lock_time)
            }
        }
    }
}

impl Model {
    pub(super) fn bucket(&mut self, name: &str) -> &mut ModelBucket {
        self.buckets.get_mut(name).expect("it was created")
    }

    pub(super) fn owned(&self, owner: &str) -> Amounts {
        let mut owned = [0; 3];
        for bucket in self.buckets.values().filter(|bucket| bucket.owner == owner) {
            for (sum, amount) in owned.iter_mut().zip(bucket.amounts()) {
                *sum += amount;
            }
        }
        owned
    }

    /// The reasons to refuse a change; without one it is made. A quota refuses growth beyond a
    /// limit, and nothing else.
    pub(super) fn refusals(&mut self, change: impl FnOnce(&mut Self) -> Result<(), Refusal>) -> Vec<Refusal> {
        let mut after = self.clone();
        let mut refusals = Vec::new();
        refusals.extend(change(&mut after).err());
        if self.grows_too_much(&after) {
            refusals.push(Refusal::Quota);
        }
        if refusals.is_empty() {
            *self = after;
        }
        refusals
    }

    fn grows_too_much(&self, after: &Self) -> bool {
        let exceeds = |quota: &Quota, before: Amounts, after: Amounts| {
            let limits = [quota.bytes, quota.objects, quota.uploads];
            (0..3).any(|nth| after[nth] > before[nth] && limits[nth].is_some_and(|limit| after[nth] > limit))
        };
        let of_buckets = self
            .buckets
            .iter()
            .any(|(name, bucket)| exceeds(&bucket.quota, bucket.amounts(), after.buckets[name].amounts()));
        let of_owners = self
            .owner_quotas
            .iter()
            .any(|(owner, quota)| exceeds(quota, self.owned(owner), after.owned(owner)));
        of_buckets || of_owners
    }
}
