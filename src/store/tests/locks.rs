//! Versions that a retention or a legal hold keeps, and the clock that they go by.

use super::random::{rebuild_log, segments_of};
use super::*;
use crate::base::Clock;
use crate::fs::Fs;
use crate::offline::backup::{BackupOptions, BackupSource, backup, restore};
use crate::offline::compact::compact as compact_store;
use crate::offline::undelete::{Undeletable, UndeleteQuery};

const DAY_MILLIS: u64 = 24 * 60 * 60 * 1_000;
const START: u64 = 1_700_000_000_000;

fn at(days: u64) -> Timestamp {
    Timestamp::from_millis(START + days * DAY_MILLIS)
}

fn retention(mode: RetentionMode, days: u64) -> Option<Retention> {
    Some(Retention { mode, until: at(days) })
}

struct Locked {
    fs: SimFs,
    clock: Arc<ManualClock>,
    store: Store,
}

impl Locked {
    /// A store with the bucket `b`, which keeps versions and has object lock.
    fn new() -> Self {
        let fs = SimFs::new();
        let clock = Arc::new(ManualClock::new(at(0)));
        let store =
            Store::open(Arc::new(fs.clone()), clock.clone(), &SeededEntropy::new(1), options()).unwrap();
        let configurations = vec![(BucketConfigurationKind::ObjectLock, b"<x/>".to_vec())];
        let name = "b".into();
        let owner = "admin".into();
        let versioning = Versioning::Enabled;
        store.create_configured_bucket(NewBucket { name, owner, versioning, configurations }).unwrap();
        Self { fs, clock, store }
    }

    fn reopen(self) -> Self {
        let Self { fs, clock, store } = self;
        drop(store);
        let store =
            Store::open(Arc::new(fs.clone()), clock.clone(), &SeededEntropy::new(1), options()).unwrap();
        Self { fs, clock, store }
    }

    fn put(&self, key: &str, controls: ObjectControls) -> Selector {
        let mut writer = self.store.writer("b", key, Some(3)).unwrap();
        writer.write(b"abc").unwrap();
        Selector::Id(writer.commit(Commit { controls, ..commit_of(b"abc") }).unwrap().id)
    }

    fn put_retained(&self, mode: RetentionMode, days: u64) -> Selector {
        self.put("k", ObjectControls { retention: retention(mode, days), ..ObjectControls::default() })
    }

    fn delete(&self, which: Selector) -> Result<Deleted, StoreError> {
        delete(&self.store, "b", "k", which)
    }

    fn delete_bypassing(&self, which: Selector) -> Result<Deleted, StoreError> {
        let deletion = Deletion { key: "k".into(), which, condition: DeleteCondition::default() };
        self.store.delete_bypassing_governance("b", vec![deletion])?.remove(0)
    }

    fn retain(&self, which: Selector, new: Option<Retention>, bypass: bool) -> Result<(), StoreError> {
        let version = self.store.find("b", "k", which).unwrap().version;
        self.store.set_retention("b", "k", version, new, bypass)
    }
}

#[test]
fn a_retained_version_stays_until_its_time_and_the_key_goes_on() {
    for mode in [RetentionMode::Governance, RetentionMode::Compliance] {
        let locked = Locked::new();
        let kept = locked.put_retained(mode, 2);
        assert_eq!(locked.delete(kept), Err(StoreError::Locked));
        assert!(locked.delete(Selector::Current).unwrap().delete_marker, "a marker may hide it");
        let other = locked.put("k", ObjectControls::default());
        locked.delete(other).unwrap();
        let locked = locked.reopen();
        assert_eq!(locked.delete(kept), Err(StoreError::Locked), "after a restart");
        assert_eq!(locked.store.delete_bucket("b"), Err(StoreError::BucketNotEmpty));
        locked.clock.set(at(2));
        locked.delete(kept).unwrap();
    }
}

#[test]
fn only_governance_can_be_bypassed_and_never_a_legal_hold() {
    let locked = Locked::new();
    let compliance = locked.put_retained(RetentionMode::Compliance, 2);
    assert_eq!(locked.delete_bypassing(compliance), Err(StoreError::Locked));
    let governance = locked.put_retained(RetentionMode::Governance, 2);
    locked.delete_bypassing(governance).unwrap();
    let held = locked.put("k", ObjectControls { legal_hold: Some(true), ..ObjectControls::default() });
    assert_eq!(locked.delete_bypassing(held), Err(StoreError::Locked));
    let version = locked.store.find("b", "k", held).unwrap().version;
    locked.store.set_legal_hold("b", "k", version, false).unwrap();
    locked.delete(held).unwrap();
}

#[test]
fn retentions_are_extended_but_not_shortened() {
    use RetentionMode::{Compliance, Governance};
    let locked = Locked::new();
    let which = locked.put_retained(Compliance, 2);
    locked.retain(which, retention(Compliance, 3), false).unwrap();
    for (new, bypass) in [(None, true), (retention(Compliance, 2), true), (retention(Governance, 9), true)] {
        assert_eq!(locked.retain(which, new, bypass), Err(StoreError::Locked), "{new:?}");
    }
    let locked = locked.reopen();
    locked.clock.set(at(2));
    assert_eq!(locked.delete(which), Err(StoreError::Locked), "until the later time");
    let which = locked.put_retained(Governance, 5);
    assert_eq!(locked.retain(which, None, false), Err(StoreError::Locked));
    locked.retain(which, None, true).unwrap();
    locked.delete(which).unwrap();
}

#[test]
fn a_clock_that_is_set_back_frees_nothing_and_adds_to_the_time_of_the_store() {
    let locked = Locked::new();
    let which = locked.put_retained(RetentionMode::Compliance, 10);
    locked.clock.set(at(5));
    locked.put("other", ObjectControls::default());
    let ten_years_ago = Timestamp::from_millis(START - 3_650 * DAY_MILLIS);
    locked.clock.set(ten_years_ago);
    let lock_time = |locked: &Locked| locked.store.lock_time(RetentionMode::Compliance);
    assert!(lock_time(&locked) >= at(5), "the time goes on");
    locked.store.watch_clock().unwrap();
    assert_eq!(locked.delete(which), Err(StoreError::Locked));
    let locked = locked.reopen();
    assert!(lock_time(&locked) >= at(5), "after a restart, too");
    assert_eq!(locked.delete(which), Err(StoreError::Locked));
    assert!(locked.store.clock_figures().behind >= Duration::from_secs(5 * 24 * 60 * 60));
}

#[test]
fn object_lock_demands_versioning_and_is_never_removed() {
    let locked = Locked::new();
    let store = &locked.store;
    let kind = BucketConfigurationKind::ObjectLock;
    for versioning in [Versioning::Suspended, Versioning::Unset] {
        assert_eq!(store.set_versioning("b", versioning), Err(StoreError::InvalidBucketState));
    }
    assert_eq!(store.set_bucket_configuration("b", kind, None), Err(StoreError::InvalidBucketState));
    store.create_bucket("plain", "admin").unwrap();
    let lock = || store.set_bucket_configuration("plain", kind, Some(b"<x/>".to_vec()));
    assert_eq!(lock(), Err(StoreError::InvalidBucketState));
    store.set_versioning("plain", Versioning::Enabled).unwrap();
    lock().unwrap();
}

#[test]
fn a_locked_null_version_is_not_replaced() {
    let fs = SimFs::new();
    let store = open(&fs);
    store.create_bucket("b", "admin").unwrap();
    put(&store, "b", "k", b"abc").unwrap();
    let version = store.find("b", "k", Selector::Null).unwrap().version;
    store.set_legal_hold("b", "k", version, true).unwrap();
    assert_eq!(put(&store, "b", "k", b"other").map(|_| ()), Err(StoreError::Locked));
    assert_eq!(delete(&store, "b", "k", Selector::Current), Err(StoreError::Locked));
    store.set_versioning("b", Versioning::Suspended).unwrap();
    assert_eq!(delete(&store, "b", "k", Selector::Current), Err(StoreError::Locked));
    store.set_versioning("b", Versioning::Enabled).unwrap();
    put(&store, "b", "k", b"other").unwrap();
    assert_eq!(get(&store, "b", "k").unwrap(), b"other");
}

/// A tool: it leaves a store behind, on this disk or another.
type Tool = fn(&SimFs, &Arc<ManualClock>) -> SimFs;

fn compacted(fs: &SimFs, clock: &Arc<ManualClock>) -> SimFs {
    let shared: Arc<dyn Fs> = Arc::new(fs.clone());
    compact_store(&shared, clock.clone(), &SeededEntropy::new(1), 200_000, &mut |_| true).unwrap();
    fs.clone()
}

fn backed_up(fs: &SimFs, clock: &Arc<ManualClock>) -> SimFs {
    let to = SimFs::new();
    let again = SimFs::new();
    let elsewhere = |_: &str, _: &str| Err(std::io::ErrorKind::CrossesDevices.into());
    let source = BackupSource { fs, link: &elsewhere };
    backup(&source, &to, &**clock, BackupOptions::default(), &mut |_| {}).unwrap();
    assert_eq!(restore(&to, &again, &mut |_| {}).unwrap().findings, []);
    again
}

fn undeleted(fs: &SimFs, clock: &Arc<ManualClock>) -> SimFs {
    let store = Store::open(Arc::new(fs.clone()), clock.clone(), &SeededEntropy::new(1), options()).unwrap();
    let mut undelete = |found: &[Undeletable]| store.undelete("b", found);
    store.undeletable("b", &UndeleteQuery::default(), &mut undelete).unwrap();
    store.close();
    fs.clone()
}

fn rebuilt(fs: &SimFs, _: &Arc<ManualClock>) -> SimFs {
    let copy = segments_of(fs);
    assert_eq!(rebuild_log(&copy).lost, []);
    copy
}

fn restarted(fs: &SimFs, clock: &Arc<ManualClock>) -> SimFs {
    let years = Duration::from_secs(3_650 * 24 * 60 * 60).as_millis() as u64;
    clock.set(Timestamp::from_millis(clock.now().as_millis() - years));
    fs.clone()
}

#[test]
fn no_tool_and_no_restart_with_an_old_clock_frees_a_locked_version() {
    let tools: [(&str, Tool); 5] = [
        ("compact", compacted),
        ("backup and restore", backed_up),
        ("undelete", undeleted),
        ("rebuild", rebuilt),
        ("a clock set back by ten years", restarted),
    ];
    for (name, tool) in tools {
        let locked = Locked::new();
        let by_put = locked.put_retained(RetentionMode::Compliance, 2);
        let later = locked.put("k", ObjectControls::default());
        locked.retain(later, retention(RetentionMode::Compliance, 2), false).unwrap();
        let held = locked.put("k", ObjectControls::default());
        let version = locked.store.find("b", "k", held).unwrap().version;
        locked.store.set_legal_hold("b", "k", version, true).unwrap();
        locked.put("other", ObjectControls::default());
        delete(&locked.store, "b", "other", Selector::Current).unwrap();
        delete(&locked.store, "b", "k", Selector::Current).unwrap();
        let Locked { fs, clock, store } = locked;
        store.close();
        drop(store);
        let fs = tool(&fs, &clock);
        let store =
            Store::open(Arc::new(fs.clone()), clock.clone(), &SeededEntropy::new(1), options()).unwrap();
        let locked = Locked { fs, clock, store };
        for which in [by_put, later, held] {
            assert_eq!(locked.delete_bypassing(which), Err(StoreError::Locked), "{name}");
            let found = locked.store.find("b", "k", which).unwrap().version;
            assert_eq!(read_all(&locked.store, &found, 0..3).unwrap(), b"abc", "{name}");
        }
    }
}
