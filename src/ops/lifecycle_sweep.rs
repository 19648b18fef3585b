//! The sweep: takes or moves the versions, and takes the uploads, whose time has come by the
//! lifecycle rules of their buckets.
//!
//! It keeps no position on the disk. After a restart it reads a bucket from the beginning, which
//! costs no disk access, and meets only what it has not taken before; so it makes progress however
//! often it is cut off.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::stored_document::{self, StoredDocument as _};
use crate::base::{Clock, Timestamp};
use crate::s3::lifecycle::{Expiry, ExpiryFacts, ExpiryState, LifecycleConfiguration};
use crate::store::{
    BucketConfiguration, BucketInfo, Cause, CauseScope, ClassTransition, ConfiguredBucket, EXPIRY_GROUP_MAX,
    EXPIRY_GROUP_MAX_BYTES, ExpiringItem, ExpiringRole, ExpiryOutcome, ExpiryRequest, PlaceCursor,
    PlacedVersion, StorageClass, Store, StoreError, UploadPages, VersionPlace, VersionRef, Versioning,
};

/// The time between two sweeps of a bucket whose rules have not changed.
const INTERVAL: Duration = Duration::from_secs(60 * 60);
/// Versions that are read in one step. What is due among them is held in memory.
const STEP_VERSIONS: usize = 2000;
/// A bound on the number of newer versions that a rule may keep (S3 API reference,
/// NoncurrentVersionExpiration).
const NEWER_KEPT_MAX: u32 = 100;

/// A version or an upload that a rule took.
#[derive(Debug, Clone, Copy)]
pub struct ExpiredItem<'i> {
    /// The name of the bucket.
    pub bucket: &'i str,
    pub key: &'i str,
    /// The version, as clients see it; `None` for an upload.
    pub version: Option<&'i str>,
    /// The id of the rule.
    pub rule: &'i str,
    /// Whether a delete marker hides the version, which stays.
    pub is_hidden: bool,
    /// The class that the version got, which stays.
    pub moved_to: Option<StorageClass>,
    /// The size of a removed or moved version, in bytes.
    pub bytes: u64,
}

/// The totals of a sweep.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SweepTotals {
    /// Buckets that were read to their end.
    pub buckets: u64,
    /// Versions that were removed or hidden.
    pub versions: u64,
    /// The sizes of the removed versions, in bytes.
    pub bytes: u64,
    /// Uploads that were aborted.
    pub uploads: u64,
    /// Versions that a lock kept.
    pub locked: u64,
    /// Versions that got another class.
    pub moved: u64,
    /// Versions and uploads that stay for want of disk space. Their buckets stay due.
    pub without_room: u64,
}

/// The last complete sweep of a bucket.
struct LastSweep {
    by: Arc<BucketConfiguration>,
    at: Instant,
}

/// The next sweep of a bucket, if its rules stay as they are.
#[derive(Clone)]
pub struct PlannedSweep {
    by: Arc<BucketConfiguration>,
    at: Timestamp,
}

impl PlannedSweep {
    /// Its time by the wall clock; `None` for a bucket with other rules by now, which is due at
    /// once.
    pub(super) fn by_rules(&self, rules: &Arc<BucketConfiguration>) -> Option<Timestamp> {
        Arc::ptr_eq(&self.by, rules).then_some(self.at)
    }
}

/// Sweeps buckets when they are due: after the start, after a change of their rules, and every
/// hour.
pub struct LifecycleSweeper {
    store: Arc<Store>,
    clock: Arc<dyn Clock>,
    /// By the ids of buckets.
    swept: HashMap<u64, LastSweep>,
}

impl LifecycleSweeper {
    /// A sweeper for which all buckets with rules are due.
    pub fn new(store: Arc<Store>, clock: Arc<dyn Clock>) -> Self {
        Self { store, clock, swept: HashMap::new() }
    }

    /// Sweeps the buckets that are due, and reports each expiry once it is durable. Ends early when
    /// `is_stopped`, which is asked after each group.
    ///
    /// A full disk keeps no bucket from its turn: what removes goes on, since it frees space.
    ///
    /// # Errors
    /// Errors of a commit. What expired before stays expired, and the bucket stays due.
    pub fn sweep_due(
        &mut self,
        is_stopped: &dyn Fn() -> bool,
        report: &mut dyn FnMut(&ExpiredItem<'_>),
    ) -> Result<SweepTotals, StoreError> {
        // While the clock is in doubt, nothing is known to be due.
        let Some(now) = self.store.acts_time() else { return Ok(SweepTotals::default()) };
        let buckets = self.store.buckets();
        let mut totals = SweepTotals::default();
        let instant = self.clock.instant();
        self.swept.retain(|id, _| buckets.iter().any(|bucket| bucket.id == *id));
        for bucket in buckets {
            let Some(by) = self.due_rules(&bucket, instant) else { continue };
            let Some(rules) = stored_document::parsed::<LifecycleConfiguration>(&by, &bucket.name) else {
                log::error!(
                    "the lifecycle rules of the bucket {} cannot be read: nothing expires",
                    bucket.name
                );
                continue;
            };
            let sweep = BucketSweep { store: &self.store, bucket: &bucket, by: &by, rules, now, is_stopped };
            let before = totals.without_room;
            match sweep.run(&mut totals, report) {
                Ok(true) if totals.without_room > before => {}
                Ok(true) => drop(self.swept.insert(bucket.id, LastSweep { by, at: instant })),
                Ok(false) | Err(StoreError::NoSuchBucket) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(totals)
    }

    /// The next sweep of each bucket that was swept, by its id.
    pub fn next_sweeps(&self) -> HashMap<u64, PlannedSweep> {
        let now = self.clock.now();
        let instant = self.clock.instant();
        let mut planned = HashMap::with_capacity(self.swept.len());
        for (id, last) in &self.swept {
            let left = INTERVAL.saturating_sub(instant.duration_since(last.at));
            planned.insert(*id, PlannedSweep { by: Arc::clone(&last.by), at: now.plus(left) });
        }
        planned
    }

    /// The rules of a bucket that is due.
    fn due_rules(&self, bucket: &BucketInfo, now: Instant) -> Option<Arc<BucketConfiguration>> {
        let by = self
            .store
            .configured_bucket(&bucket.name)
            .ok()?
            .configurations
            .get(LifecycleConfiguration::KIND)?
            .clone();
        if let Some(last) = self.swept.get(&bucket.id)
            && now.duration_since(last.at) < INTERVAL
            && Arc::ptr_eq(&last.by, &by)
        {
            return None;
        }
        Some(by)
    }
}

/// Aborts the uploads of all buckets that are idle for longer than the store allows, except those
/// that a rule of their bucket aborts at its own time. Returns their number. Durable on return.
///
/// # Errors
/// Errors of a commit.
pub fn abort_idle_uploads(store: &Store) -> Result<u64, StoreError> {
    store.abort_idle_uploads(&|bucket: &ConfiguredBucket, key, initiated| {
        if bucket.configuration(LifecycleConfiguration::KIND).is_none() {
            return false;
        }
        // Rules that cannot be read may concern the upload.
        let rules: Option<&LifecycleConfiguration> = stored_document::stored(bucket);
        rules.is_none_or(|rules| rules.abort_at(key.as_bytes(), initiated).is_some())
    })
}

/// The earliest expiry of a version by the rules, if it is in this place.
pub(super) fn expiry_of(
    rules: &LifecycleConfiguration,
    placed: &PlacedVersion<'_>,
    place: VersionPlace,
) -> Option<Expiry> {
    rules.expiry(&facts(placed, place, &|| placed.tags()))
}

/// The earliest transition of a version by the rules, if it is in this place.
pub(super) fn transition_of(
    rules: &LifecycleConfiguration,
    placed: &PlacedVersion<'_>,
    place: VersionPlace,
) -> Option<Expiry> {
    let stays = placed.version.delete_marker || placed.version.storage_class == StorageClass::Cold;
    if stays { None } else { rules.transition(&facts(placed, place, &|| placed.tags())) }
}

fn facts<'f>(
    placed: &PlacedVersion<'f>,
    place: VersionPlace,
    tags: &'f dyn Fn() -> Vec<(String, String)>,
) -> ExpiryFacts<'f> {
    let state = match place {
        VersionPlace::Current => ExpiryState::Current,
        VersionPlace::LoneDeleteMarker => ExpiryState::LoneDeleteMarker,
        VersionPlace::Noncurrent { since, newer_noncurrent } => {
            ExpiryState::Noncurrent { since, newer_noncurrent }
        }
    };
    ExpiryFacts { key: placed.key, size: placed.version.size, modified: placed.version.modified, state, tags }
}

/// A version or an upload that is due.
struct DueItem {
    item: ExpiringItem,
    version: Option<VersionRef>,
    rule: usize,
    bytes: u64,
}

struct BucketSweep<'s> {
    store: &'s Store,
    bucket: &'s BucketInfo,
    by: &'s Arc<BucketConfiguration>,
    rules: &'s LifecycleConfiguration,
    now: Timestamp,
    is_stopped: &'s dyn Fn() -> bool,
}

impl BucketSweep<'_> {
    /// Returns whether it came to the end.
    fn run(
        &self,
        totals: &mut SweepTotals,
        report: &mut dyn FnMut(&ExpiredItem<'_>),
    ) -> Result<bool, StoreError> {
        let mut cursor = PlaceCursor::default();
        let mut more = self.rules.concerns_versions();
        while more {
            let mut due = Vec::new();
            let mut hidden = Vec::new();
            let mut moved = Vec::new();
            more = self.store.visit_places(self.bucket, &mut cursor, STEP_VERSIONS, &mut |placed| match self
                .due_expiry(placed)
            {
                None => moved.extend(self.due_transition(placed)),
                Some(item) if self.adds_marker(&item) => hidden.push(item),
                Some(item) => due.push(item),
            });
            // What removes comes first: on a full disk it makes room for the rest.
            let goes_on = self.expire(&due, Cause::LIFECYCLE_EXPIRATION, totals, report)?
                && self.expire(&hidden, Cause::LIFECYCLE_EXPIRATION, totals, report)?
                && self.expire(&moved, Cause::LIFECYCLE_TRANSITION, totals, report)?;
            if !goes_on {
                return Ok(false);
            }
        }
        if self.rules.aborts_uploads() && !self.run_uploads(totals, report)? {
            return Ok(false);
        }
        totals.buckets += 1;
        Ok(true)
    }

    /// Whether an expiry hides its version by a delete marker.
    fn adds_marker(&self, due: &DueItem) -> bool {
        self.bucket.versioning != Versioning::Unset && matches!(due.item.role, ExpiringRole::Current(_))
    }

    fn run_uploads(
        &self,
        totals: &mut SweepTotals,
        report: &mut dyn FnMut(&ExpiredItem<'_>),
    ) -> Result<bool, StoreError> {
        let name = &self.bucket.name;
        let mut pages = UploadPages::default();
        while let Some(page) = pages.next(|query, after| self.store.list_uploads(name, query, after))? {
            let mut due = Vec::new();
            for (key, upload) in page.keys() {
                let abort = self.rules.abort_at(key.as_bytes(), upload.initiated);
                if let Some(abort) = abort.filter(|abort| abort.at <= self.now) {
                    let item = ExpiringItem {
                        key: key.as_bytes().to_vec(),
                        role: ExpiringRole::Upload(upload.id),
                        transition: None,
                    };
                    due.push(DueItem { item, version: None, rule: abort.rule, bytes: 0 });
                }
            }
            if !self.expire(&due, Cause::LIFECYCLE_EXPIRATION, totals, report)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn due_expiry(&self, placed: &PlacedVersion<'_>) -> Option<DueItem> {
        self.due_item(placed, |place| expiry_of(self.rules, placed, place))
    }

    fn due_transition(&self, placed: &PlacedVersion<'_>) -> Option<DueItem> {
        let mut due = self.due_item(placed, |place| transition_of(self.rules, placed, place))?;
        let class = StorageClass::Cold;
        let record_bytes = placed.record_bytes();
        due.item.transition = Some(ClassTransition { class, record_bytes });
        Some(due)
    }

    /// A version, if an action on it is due in its place.
    fn due_item(
        &self,
        placed: &PlacedVersion<'_>,
        action: impl Fn(VersionPlace) -> Option<Expiry>,
    ) -> Option<DueItem> {
        let due = |place| action(place).filter(|found| found.at <= self.now);
        let version = &placed.version;
        let found = due(placed.place)?;
        let role = match placed.place {
            VersionPlace::Current => ExpiringRole::Current(version.id),
            VersionPlace::LoneDeleteMarker => ExpiringRole::LoneDeleteMarker(version.id),
            VersionPlace::Noncurrent { since, newer_noncurrent } => {
                let newer_noncurrent_min = least(newer_noncurrent.min(NEWER_KEPT_MAX), |newer| {
                    due(VersionPlace::Noncurrent { since, newer_noncurrent: newer }).is_some()
                });
                ExpiringRole::Noncurrent { version: version.id, newer_noncurrent_min }
            }
        };
        let named = if version.null { VersionRef::Null } else { VersionRef::Id(version.id) };
        let item = ExpiringItem { key: placed.key.to_vec(), role, transition: None };
        Some(DueItem { item, version: Some(named), rule: found.rule, bytes: version.size })
    }

    /// Submits items in groups. Returns whether the sweep goes on: not when it was stopped, or the
    /// rules were changed.
    fn expire(
        &self,
        mut due: &[DueItem],
        operation: &str,
        totals: &mut SweepTotals,
        report: &mut dyn FnMut(&ExpiredItem<'_>),
    ) -> Result<bool, StoreError> {
        let cause = Cause { operation: operation.to_owned(), ..Cause::default() };
        let _scope = CauseScope::enter(self.store.has_followers().then(|| Arc::new(cause)));
        while !due.is_empty() {
            let (group, later) = due.split_at(group_len(due));
            due = later;
            if (self.is_stopped)() {
                return Ok(false);
            }
            let items = group.iter().map(|due| due.item.clone()).collect();
            let bucket = self.bucket.clone();
            let configuration = Some(self.by.clone());
            let outcomes = match self.store.expire(ExpiryRequest { bucket, configuration, items }) {
                // Not even the log has space. The next bucket may have what frees some.
                Err(StoreError::DiskFull) => vec![ExpiryOutcome::DiskFull; group.len()],
                outcomes => outcomes?,
            };
            for (due, outcome) in group.iter().zip(outcomes) {
                self.conclude(due, outcome, totals, report);
            }
        }
        let now = self.store.configured_bucket(&self.bucket.name)?.configurations;
        let in_force = now.get(LifecycleConfiguration::KIND).is_some_and(|now| Arc::ptr_eq(now, self.by));
        Ok(in_force && !(self.is_stopped)())
    }

    fn conclude(
        &self,
        due: &DueItem,
        outcome: ExpiryOutcome,
        totals: &mut SweepTotals,
        report: &mut dyn FnMut(&ExpiredItem<'_>),
    ) {
        let is_hidden = outcome == ExpiryOutcome::MarkerAdded;
        let moved_to = due.item.transition.map(|transition| transition.class);
        match outcome {
            ExpiryOutcome::Removed | ExpiryOutcome::MarkerAdded | ExpiryOutcome::Moved => {}
            ExpiryOutcome::Locked => {
                totals.locked += 1;
                return;
            }
            ExpiryOutcome::DiskFull => {
                totals.without_room += 1;
                return;
            }
            ExpiryOutcome::Obsolete | ExpiryOutcome::IndexFull => return,
        }
        let bytes = if is_hidden { 0 } else { due.bytes };
        match due.version {
            _ if moved_to.is_some() => totals.moved += 1,
            Some(_) => (totals.versions, totals.bytes) = (totals.versions + 1, totals.bytes + bytes),
            None => totals.uploads += 1,
        }
        let version = due.version.map(|version| version.text(self.store.client_ids()));
        report(&ExpiredItem {
            bucket: &self.bucket.name,
            key: &String::from_utf8_lossy(&due.item.key),
            version: version.as_deref(),
            rule: self.rules.rule_id(due.rule),
            is_hidden,
            moved_to,
            bytes,
        });
    }
}

/// The number of the first items that become durable together.
fn group_len(due: &[DueItem]) -> usize {
    let mut bytes = 0;
    for (count, due) in due.iter().enumerate() {
        bytes += due.item.entry_bytes_max();
        if count == EXPIRY_GROUP_MAX || bytes > EXPIRY_GROUP_MAX_BYTES {
            return count.max(1);
        }
    }
    due.len().max(1)
}

/// The least number up to `max` for which a predicate holds that holds for `max`, and for every
/// greater number than one for which it holds.
fn least(max: u32, holds: impl Fn(u32) -> bool) -> u32 {
    let mut low = 0;
    let mut high = max;
    while low < high {
        let middle = low + (high - low) / 2;
        if holds(middle) { high = middle } else { low = middle + 1 }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_number_is_found() {
        for least_one in 0..=9 {
            assert_eq!(least(9, |number| number >= least_one), least_one);
        }
    }
}
