//! Sweeps with a clock that the tests set.

use std::sync::Arc;

use siltstone::base::{ManualClock, SeededEntropy, Timestamp, WriteCondition};
use siltstone::fs::Fs as _;
use siltstone::fs::sim::SimFs;
use siltstone::ops::{ExpiredItem, LifecycleSweeper, SweepTotals};
use siltstone::s3::XmlConfiguration as _;
use siltstone::s3::lifecycle::LifecycleConfiguration;
use siltstone::store::{
    Attributes, BucketConfigurationKind, Commit, DeleteCondition, Deletion, ETag, EXPIRY_GROUP_MAX,
    ListQuery, ObjectControls, Selector, StorageClass, Store, StoreError, StoreOptions, VersionId,
    Versioning,
};

const KIND: BucketConfigurationKind = BucketConfigurationKind::Lifecycle;

/// Noon of a day.
const NOON: u64 = 1_700_000_000_000 / DAY * DAY + DAY / 2;
const DAY: u64 = 24 * 60 * 60 * 1000;

struct Sweeps {
    store: Arc<Store>,
    clock: Arc<ManualClock>,
    sweeper: LifecycleSweeper,
}

impl Sweeps {
    fn new(versioning: Versioning) -> Self {
        Self::on(SimFs::new(), versioning)
    }

    fn on(fs: SimFs, versioning: Versioning) -> Self {
        let sweeps = Self::open(fs);
        sweeps.store.create_bucket("b", "admin").unwrap();
        if versioning != Versioning::Unset {
            sweeps.store.set_versioning("b", versioning).unwrap();
        }
        sweeps
    }

    fn open(fs: SimFs) -> Self {
        let clock = Arc::new(ManualClock::new(Timestamp::from_millis(NOON)));
        let options = StoreOptions { keep_free_bytes: 0, idle_group_after: None, ..StoreOptions::default() };
        let store = Store::open(Arc::new(fs), clock.clone(), &SeededEntropy::new(1), options).unwrap();
        let store = Arc::new(store);
        let sweeper = LifecycleSweeper::new(store.clone(), clock.clone());
        Self { store, clock, sweeper }
    }

    fn rules(&self, rules: &str) {
        self.rules_of("b", rules);
    }

    fn rules_of(&self, bucket: &str, rules: &str) {
        let document = format!("<LifecycleConfiguration>{rules}</LifecycleConfiguration>").into_bytes();
        assert!(LifecycleConfiguration::from_document(&document).is_some(), "{rules}");
        self.store.set_bucket_configuration(bucket, KIND, Some(document)).unwrap();
    }

    fn put(&self, key: &str, len: usize) -> VersionId {
        self.try_put("b", key, len).unwrap()
    }

    fn try_put(&self, bucket: &str, key: &str, len: usize) -> Result<VersionId, StoreError> {
        let mut writer = self.store.writer(bucket, key, None)?;
        writer.write(vec![7; len])?;
        let attributes = Attributes::new();
        let controls = ObjectControls::default();
        let condition = WriteCondition::None;
        let etag = ETag::None;
        let checksums = vec![];
        let tags = vec![];
        let written = writer.commit(Commit {
            storage_class: StorageClass::Standard,
            etag,
            attributes,
            checksums,
            tags,
            controls,
            condition,
            stated_time: None,
        });
        Ok(written?.id)
    }

    fn delete(&self, key: &str) {
        let key = key.to_owned();
        let which = Selector::Current;
        let condition = DeleteCondition::default();
        self.store.delete("b", vec![Deletion { key, which, condition }]).unwrap();
    }

    /// Lets time pass, and sweeps. Returns the totals, and the keys with their rules.
    fn sweep_at(&mut self, millis: u64) -> (SweepTotals, Vec<String>) {
        self.clock.set(Timestamp::from_millis(millis));
        let mut expired = Vec::new();
        let mut report = |item: &ExpiredItem<'_>| expired.push(format!("{} by {}", item.key, item.rule));
        let totals = self.sweeper.sweep_due(&|| false, &mut report).unwrap();
        (totals, expired)
    }

    fn keys(&self) -> Vec<String> {
        let query = ListQuery { limit: 1000, ..ListQuery::default() };
        self.store.list_objects("b", &query).unwrap().items().map(|item| item.name().into_owned()).collect()
    }

    fn versions(&self) -> usize {
        let query = ListQuery { limit: 1000, ..ListQuery::default() };
        self.store.list_versions("b", &query, None).unwrap().keys().count()
    }
}

fn rule(id: &str, prefix: &str, actions: &str) -> String {
    let filter = format!("<Filter><Prefix>{prefix}</Prefix></Filter>");
    format!("<Rule><ID>{id}</ID>{filter}<Status>Enabled</Status>{actions}</Rule>")
}

fn days(days: u32) -> String {
    format!("<Expiration><Days>{days}</Days></Expiration>")
}

#[test]
fn on_a_full_disk_removals_go_on_and_only_markers_and_transitions_wait() {
    let fs = SimFs::with_capacity(8 << 20);
    let sweeps = Sweeps::on(fs.clone(), Versioning::Enabled);
    sweeps.store.create_bucket("c", "admin").unwrap();
    let noncurrent =
        "<NoncurrentVersionExpiration><NoncurrentDays>1</NoncurrentDays></NoncurrentVersionExpiration>";
    let all = days(1) + noncurrent;
    sweeps.rules_of("b", &rule("one day", "", &all));
    sweeps.rules_of("c", &rule("one day", "", &all));
    for _ in 0..3 {
        sweeps.put("versions", 1000);
    }
    let is_full = |at: &u32| sweeps.try_put("c", &format!("k{at}"), 20_000) == Err(StoreError::DiskFull);
    let count = (0_u32..).find(is_full).unwrap();
    assert!(count > 100, "one object after another filled the disk");
    drop(sweeps);
    fs.set_capacity(fs.space().unwrap().total_bytes - fs.space().unwrap().free_bytes);
    let mut sweeps = Sweeps::open(fs.clone());
    let (totals, expired) = sweeps.sweep_at(NOON + 9 * DAY);
    assert_eq!(totals.without_room, 1, "the marker over the current version");
    assert_eq!(totals.versions, 2 + u64::from(count), "noncurrent versions, and the bucket after that one");
    assert_eq!(totals.buckets, 2);
    assert_eq!(expired.iter().filter(|one| one.starts_with("versions ")).count(), 2);
    assert_eq!((sweeps.keys().len(), sweeps.versions()), (1, 1));
    // With space again, the next sweep does the rest, although the rules are the same.
    fs.set_capacity(16 << 20);
    let (totals, expired) = sweeps.sweep_at(NOON + 9 * DAY + 1);
    assert_eq!((totals.without_room, expired), (0, vec!["versions by one day".to_owned()]));
    assert_eq!((sweeps.keys().len(), sweeps.versions()), (0, 2));
}

#[test]
fn a_rule_of_one_day_takes_objects_at_the_midnight_after_it_also_older_ones() {
    let mut sweeps = Sweeps::new(Versioning::Unset);
    sweeps.put("logs/old", 5000);
    sweeps.put("other", 10);
    sweeps.rules(&rule("one day", "logs/", &days(1)));
    let midnight = NOON + DAY + DAY / 2;
    assert_eq!(sweeps.sweep_at(midnight - 1).0, SweepTotals { buckets: 1, ..SweepTotals::default() });
    let live = sweeps.store.health().live_bytes;
    let (totals, expired) = sweeps.sweep_at(midnight + 60 * 60 * 1000);
    assert_eq!(totals, SweepTotals { buckets: 1, versions: 1, bytes: 5000, ..SweepTotals::default() });
    assert_eq!(expired, ["logs/old by one day"]);
    assert_eq!(sweeps.keys(), ["other"]);
    assert!(sweeps.store.health().live_bytes + 5000 <= live, "its space is dead");
}

#[test]
fn a_bucket_is_due_after_a_change_of_its_rules_and_after_an_hour() {
    let mut sweeps = Sweeps::new(Versioning::Unset);
    sweeps.put("a", 1);
    let late = NOON + 9 * DAY;
    assert_eq!(sweeps.sweep_at(late).0.buckets, 0, "without rules");
    sweeps.rules(&rule("r", "b", &days(1)));
    assert_eq!(sweeps.sweep_at(late).0.buckets, 1);
    assert_eq!(sweeps.sweep_at(late + 60 * 60 * 1000 - 1).0.buckets, 0, "just swept");
    assert_eq!(sweeps.sweep_at(late + 60 * 60 * 1000).0.buckets, 1);
    sweeps.rules(&rule("r", "", &days(1)));
    assert_eq!(sweeps.sweep_at(late + 60 * 60 * 1000).1, ["a by r"]);
}

#[test]
fn rules_that_were_removed_take_nothing() {
    let mut sweeps = Sweeps::new(Versioning::Unset);
    sweeps.put("a", 1);
    sweeps.rules(&rule("r", "", &days(1)));
    sweeps.store.set_bucket_configuration("b", KIND, None).unwrap();
    assert_eq!(sweeps.sweep_at(NOON + 9 * DAY), (SweepTotals::default(), vec![]));
    assert_eq!(sweeps.keys(), ["a"]);
}

#[test]
fn rules_that_change_during_a_sweep_end_it() {
    let mut sweeps = Sweeps::new(Versioning::Unset);
    for number in 0..2 * EXPIRY_GROUP_MAX {
        sweeps.put(&format!("k{number:05}"), 1);
    }
    sweeps.rules(&rule("r", "", &days(1)));
    sweeps.clock.set(Timestamp::from_millis(NOON + 9 * DAY));
    let store = sweeps.store.clone();
    let mut expired = 0;
    let mut report = |_: &ExpiredItem<'_>| {
        if expired == 0 {
            store.set_bucket_configuration("b", KIND, None).unwrap();
        }
        expired += 1;
    };
    sweeps.sweeper.sweep_due(&|| false, &mut report).unwrap();
    assert_eq!((expired, sweeps.keys().len()), (EXPIRY_GROUP_MAX, EXPIRY_GROUP_MAX));
}

#[test]
fn a_sweep_that_is_stopped_goes_on_with_the_rest_later() {
    let mut sweeps = Sweeps::new(Versioning::Unset);
    for number in 0..EXPIRY_GROUP_MAX + 1 {
        sweeps.put(&format!("k{number:05}"), 1);
    }
    sweeps.rules(&rule("r", "", &days(1)));
    sweeps.clock.set(Timestamp::from_millis(NOON + 9 * DAY));
    let expired = std::cell::Cell::new(0);
    let is_stopped = || expired.get() > 0;
    let totals = sweeps.sweeper.sweep_due(&is_stopped, &mut |_| expired.set(expired.get() + 1)).unwrap();
    assert_eq!((totals.buckets, totals.versions), (0, EXPIRY_GROUP_MAX as u64));
    assert_eq!(sweeps.sweep_at(NOON + 9 * DAY).0.versions, 1);
    assert_eq!(sweeps.keys(), [""; 0]);
}

#[test]
fn noncurrent_versions_go_beyond_those_that_are_kept_and_then_lone_markers() {
    let mut sweeps = Sweeps::new(Versioning::Enabled);
    for len in 0..6 {
        sweeps.put("k", len);
    }
    let kept = "<NoncurrentVersionExpiration><NoncurrentDays>2</NoncurrentDays>\
                <NewerNoncurrentVersions>3</NewerNoncurrentVersions></NoncurrentVersionExpiration>";
    sweeps.rules(&rule("kept", "", kept));
    assert_eq!(sweeps.sweep_at(NOON + 2 * DAY).0.versions, 0, "before the midnight");
    assert_eq!(sweeps.sweep_at(NOON + 3 * DAY).0.versions, 2);
    assert_eq!(sweeps.versions(), 4);
    sweeps.delete("k");
    let markers = "<Expiration><ExpiredObjectDeleteMarker>true</ExpiredObjectDeleteMarker></Expiration>\
                   <NoncurrentVersionExpiration><NoncurrentDays>1</NoncurrentDays></NoncurrentVersionExpiration>";
    sweeps.rules(&rule("all", "", markers));
    assert_eq!(sweeps.sweep_at(NOON + 9 * DAY).0.versions, 4);
    assert_eq!(sweeps.versions(), 1, "the marker was not alone before");
    assert_eq!(sweeps.sweep_at(NOON + 10 * DAY).0.versions, 1);
    assert_eq!(sweeps.versions(), 0);
}

#[test]
fn current_versions_are_hidden_where_versions_are_kept_and_locked_ones_stay() {
    let mut sweeps = Sweeps::new(Versioning::Enabled);
    let held = sweeps.put("k", 10);
    let found = sweeps.store.find("b", "k", Selector::Id(held)).unwrap().version;
    sweeps.store.set_legal_hold("b", "k", found, true).unwrap();
    let noncurrent =
        "<NoncurrentVersionExpiration><NoncurrentDays>1</NoncurrentDays></NoncurrentVersionExpiration>";
    sweeps.rules(&rule("r", "", &format!("{}{noncurrent}", days(1))));
    let (totals, _) = sweeps.sweep_at(NOON + 3 * DAY);
    assert_eq!((totals.versions, totals.bytes, sweeps.keys().len(), sweeps.versions()), (1, 0, 0, 2));
    let (totals, _) = sweeps.sweep_at(NOON + 9 * DAY);
    assert_eq!((totals.versions, totals.locked, sweeps.versions()), (0, 1, 2));
}

const MOVED: &str = "<Transition><Days>1</Days><StorageClass>COLD</StorageClass></Transition>";

fn class(sweeps: &Sweeps, key: &str) -> StorageClass {
    sweeps.store.find("b", key, Selector::Current).unwrap().version.storage_class
}

#[test]
fn a_transition_moves_what_is_large_enough_once_and_an_expiration_takes_it_later() {
    let mut sweeps = Sweeps::new(Versioning::Unset);
    let large = sweeps.put("logs/large", 200_000);
    sweeps.put("logs/small", 100);
    sweeps.put("other", 200_000);
    sweeps.rules(&rule("cold", "logs/", &(days(3) + MOVED)));
    let (totals, moved) = sweeps.sweep_at(NOON + 2 * DAY);
    assert_eq!(totals, SweepTotals { buckets: 1, moved: 1, ..SweepTotals::default() });
    assert_eq!(moved, ["logs/large by cold"]);
    let found = sweeps.store.find("b", "logs/large", Selector::Current).unwrap().version;
    assert_eq!((found.id, found.storage_class), (large, StorageClass::Cold));
    assert_eq!([class(&sweeps, "logs/small"), class(&sweeps, "other")], [StorageClass::Standard; 2]);
    assert_eq!(sweeps.sweep_at(NOON + 2 * DAY + DAY / 2).0.moved, 0, "it is there already");
    let (totals, expired) = sweeps.sweep_at(NOON + 5 * DAY);
    assert_eq!((totals.versions, totals.moved), (2, 0));
    assert_eq!(expired, ["logs/large by cold", "logs/small by cold"]);
}

#[test]
fn locked_and_noncurrent_versions_are_moved_and_the_newest_noncurrent_ones_stay() {
    let mut sweeps = Sweeps::new(Versioning::Enabled);
    let ids: Vec<_> = (0..4).map(|_| sweeps.put("k", 200_000)).collect();
    let version = sweeps.store.find("b", "k", Selector::Id(ids[0])).unwrap().version;
    sweeps.store.set_legal_hold("b", "k", version, true).unwrap();
    sweeps.rules(&rule(
        "cold",
        "",
        "<NoncurrentVersionTransition><NoncurrentDays>1</NoncurrentDays>\
         <NewerNoncurrentVersions>1</NewerNoncurrentVersions><StorageClass>COLD</StorageClass></NoncurrentVersionTransition>",
    ));
    assert_eq!(sweeps.sweep_at(NOON + 3 * DAY).0.moved, 2);
    let class =
        |id: &VersionId| sweeps.store.find("b", "k", Selector::Id(*id)).unwrap().version.storage_class;
    let classes: Vec<_> = ids.iter().map(class).collect();
    let cold = StorageClass::Cold;
    let standard = StorageClass::Standard;
    assert_eq!(classes, [cold, cold, standard, standard]);
    let held = sweeps.store.find("b", "k", Selector::Id(ids[0])).unwrap().version;
    assert!(held.controls.is_held(), "the lock stays");
}
