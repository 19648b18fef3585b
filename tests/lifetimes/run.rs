//! The steps: each is done to the store and to the model, and both must agree on the answer and on
//! everything afterwards.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use siltstone::base::{Clock as _, ManualClock, SeededEntropy, Timestamp};
use siltstone::fs::sim::{CrashPolicy, SimFs};
use siltstone::ops::LifecycleSweeper;
use siltstone::store::{
    BucketConfigurationKind, Retention, RetentionMode, Selector, Store, StoreError, Versioning,
};

use super::comparison::{difference, learn_ids};
use super::model::{Model, ModelBucket, Refusal};
use super::power::open;
use super::sweeps::Times;
use super::{DAY, HOUR};

/// The buckets and their owners.
pub(super) const BUCKETS: [(&str, &str); 3] = [("locked", "ann"), ("paused", "bob"), ("plain", "ann")];
pub(super) const KEYS: [&str; 4] = ["a/1", "a/1/x", "b", "c"];

pub(super) struct Run {
    pub(super) draw: SeededEntropy,
    pub(super) clock: Arc<ManualClock>,
    pub(super) fs: SimFs,
    /// `None` only while it restarts.
    pub(super) opened: Option<(Arc<Store>, LifecycleSweeper)>,
    pub(super) model: Model,
    /// The times of the last complete sweeps, of the buckets whose rules were not changed since.
    pub(super) swept: BTreeMap<String, Instant>,
    /// How often something expired, was kept by a lock, or was refused by a quota.
    pub(super) seen: Seen,
}

/// Counts of events, so that a test can tell that it met them.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Seen {
    pub(super) taken: u64,
    pub(super) kept: u64,
    pub(super) locked: u64,
    pub(super) over_quota: u64,
    pub(super) crashed_sweeps: u64,
}

fn refusal_of(error: &StoreError) -> Refusal {
    match error {
        StoreError::Locked => Refusal::Locked,
        StoreError::QuotaExceeded { .. } => Refusal::Quota,
        StoreError::NoSuchVersion | StoreError::NoSuchKey => Refusal::Missing,
        other => panic!("{other:?}"),
    }
}

impl Run {
    pub(super) fn start(seed: u64) -> Self {
        let fs = SimFs::new();
        let now = 1_700_000_000_000 / DAY * DAY;
        let clock = Arc::new(ManualClock::new(Timestamp::from_millis(now)));
        // What sets the clock right again is believed.
        clock.set_synchronized(true);
        let opened = Some(open(&fs, &clock));
        let draw = SeededEntropy::new(seed);
        let model = Model::default();
        let swept = Default::default();
        let seen = Seen::default();
        let mut run = Self { draw, clock, fs, opened, model, swept, seen };
        for (name, owner) in BUCKETS {
            run.store().create_bucket(name, owner).unwrap();
            run.model.buckets.insert(name.to_owned(), ModelBucket::new(owner));
            // Null versions, which stay when the bucket begins to keep versions.
            run.put(name, "a/1");
            run.put(name, "b");
        }
        run.set_versioning("locked", Versioning::Enabled);
        run.set_versioning("paused", Versioning::Suspended);
        let lock = (BucketConfigurationKind::ObjectLock, Some(b"<x/>".to_vec()));
        run.store().set_bucket_configuration("locked", lock.0, lock.1).unwrap();
        run
    }

    pub(super) fn store(&self) -> &Arc<Store> {
        &self.opened.as_ref().expect("it is open between steps").0
    }

    pub(super) fn now(&self) -> u64 {
        self.clock.now().as_millis()
    }

    /// The time that has passed, which a wall clock may not show.
    pub(super) fn true_time(&self) -> u64 {
        self.clock.hardware().expect("the host has a hardware clock").as_millis()
    }

    /// The time for locks, which is never before the wall clock, nor after the true time.
    pub(super) fn lock_time(&self) -> u64 {
        let lock_time = self.store().lock_time(RetentionMode::Compliance).as_millis();
        assert!((self.now()..=self.true_time()).contains(&lock_time), "{lock_time}");
        lock_time
    }

    /// What a version states that is made now: not the time of a clock that was set back.
    pub(super) fn stamp_time(&self) -> u64 {
        let now = self.now();
        let lock_time = self.lock_time();
        if lock_time - now <= HOUR { now } else { lock_time }
    }

    pub(super) fn times(&self) -> Times {
        Times { now: self.now(), stamp: self.stamp_time(), lock_time: self.lock_time() }
    }

    /// Whether the store did it, as the model expects.
    pub(super) fn agreed<T: std::fmt::Debug>(
        &mut self,
        answered: Result<T, StoreError>,
        refusals: &[Refusal],
    ) -> Option<T> {
        match answered {
            Ok(done) if refusals.is_empty() => Some(done),
            Err(error) if refusals.contains(&refusal_of(&error)) => {
                self.seen.locked += u64::from(error == StoreError::Locked);
                self.seen.over_quota += u64::from(refusal_of(&error) == Refusal::Quota);
                None
            }
            answered => panic!("answered {answered:?}, expected {refusals:?}"),
        }
    }

    pub(super) fn check(&mut self) {
        let store = self.store().clone();
        learn_ids(&store, &mut self.model);
        assert_eq!(difference(&store, &self.model), None);
    }

    /// Does something.
    pub(super) fn step(&mut self) {
        let bucket = self.draw.one_of(&BUCKETS).0;
        let key = *self.draw.one_of(&KEYS);
        match self.draw.below(100) {
            0..28 => self.put(bucket, key),
            28..32 => self.copy(bucket, key),
            32..38 => self.delete(bucket, key),
            38..46 => self.delete_version(bucket),
            46..56 => self.retain(bucket),
            56..60 => self.hold(bucket),
            60..64 => self.begin(bucket, key),
            64..70 => self.change_upload(bucket),
            70..74 => self.change_rules(bucket),
            74..77 => self.change_quota(bucket),
            77..86 => self.move_clock(),
            86..94 => self.sweep(),
            94 => self.abort_idle(),
            95 => self.change_versioning(),
            96 => self.restart(None),
            97 => self.store().checkpoint().unwrap(),
            _ => {
                self.restart(Some(CrashPolicy::Random(self.draw.below(1 << 32))));
                assert_eq!(self.store().health().torn_groups, 0, "all was answered");
            }
        }
        self.check();
    }

    fn move_clock(&mut self) {
        let now = self.now();
        match self.draw.below(20) {
            0..3 => self.set_wall(now - HOUR * (1 + self.draw.below(72))),
            3 => self.set_wall(now.saturating_sub(3_650 * DAY)),
            4..7 => self.set_wall(self.true_time()),
            7..12 => self.pass(24 * HOUR * self.draw.below(4)),
            _ => self.pass(HOUR * (1 + self.draw.below(12))),
        }
        println!("the clock shows {}", self.now());
    }

    fn set_wall(&mut self, now: u64) {
        self.clock.set_wall(Timestamp::from_millis(now));
        self.store().watch_clock().unwrap();
    }

    /// Lets time pass.
    pub(super) fn pass(&mut self, millis: u64) {
        self.clock.advance(Duration::from_millis(millis));
        self.store().watch_clock().unwrap();
    }

    fn set_versioning(&mut self, bucket: &str, versioning: Versioning) {
        println!("{bucket} is {versioning:?}");
        self.store().set_versioning(bucket, versioning).unwrap();
        self.model.bucket(bucket).versioning = versioning;
    }

    fn change_versioning(&mut self) {
        let versioning = *self.draw.one_of(&[Versioning::Enabled, Versioning::Suspended]);
        self.set_versioning("paused", versioning);
        let refused = self.store().set_versioning("locked", Versioning::Suspended);
        assert_eq!(refused, Err(StoreError::InvalidBucketState));
    }

    fn delete(&mut self, bucket: &str, key: &str) {
        println!("delete {bucket}/{key}");
        let now = self.stamp_time();
        let lock_time = self.lock_time();
        let expected = self.model.refusals(|model| model.bucket(bucket).delete_current(key, now, lock_time));
        let answered = super::objects::delete(self.store(), bucket, key, Selector::Current, false);
        self.agreed(answered, &expected);
    }

    /// A version, if there is one: its key, and its number from the newest on.
    pub(super) fn some_version(&self, bucket: &str) -> Option<(String, usize)> {
        let bucket = &self.model.buckets[bucket];
        let all: Vec<_> =
            bucket.keys.iter().flat_map(|(key, all)| (0..all.len()).map(move |n| (key, n))).collect();
        (!all.is_empty()).then(|| self.draw.one_of(&all)).map(|(key, nth)| ((*key).clone(), *nth))
    }

    fn delete_version(&mut self, bucket: &str) {
        let Some((key, nth)) = self.some_version(bucket) else { return };
        let bypass = self.draw.one_in(2);
        let lock_time = self.lock_time();
        let which = self.model.bucket(bucket).keys[&key][nth].selector();
        println!("delete {bucket}/{key} {which:?}, bypass: {bypass}");
        let expected = self.model.refusals(|model| model.bucket(bucket).remove(&key, nth, lock_time, bypass));
        let answered = super::objects::delete(self.store(), bucket, &key, which, bypass);
        self.agreed(answered, &expected);
    }

    /// A retention that ends between two times that the clock shows.
    pub(super) fn drawn_retention(&self) -> Retention {
        let mode = *self.draw.one_of(&[RetentionMode::Compliance, RetentionMode::Governance]);
        let from = self.lock_time() / HOUR * HOUR;
        let until = Timestamp::from_millis(from + self.draw.below(5 * 24) * HOUR + HOUR / 2);
        Retention { mode, until }
    }

    fn retain(&mut self, bucket: &str) {
        let Some((key, nth)) = self.some_version(bucket) else { return };
        let new = (!self.draw.one_in(4)).then(|| self.drawn_retention());
        let bypass = self.draw.one_in(3);
        let lock_time = self.lock_time();
        let version = self.model.bucket(bucket).keys[&key][nth].clone();
        if version.marker {
            return;
        }
        println!("retain {bucket}/{key} {:?}: {new:?}, bypass: {bypass}", version.selector());
        let expected = match version.may_be_retained(new, lock_time, bypass) {
            true => vec![],
            false => vec![Refusal::Locked],
        };
        let found = self.store().find(bucket, &key, version.selector()).unwrap().version;
        let answered = self.store().set_retention(bucket, &key, found, new, bypass);
        if self.agreed(answered, &expected).is_some() {
            self.model.bucket(bucket).keys.get_mut(&key).unwrap()[nth].retention = new;
        }
    }

    pub(super) fn hold(&mut self, bucket: &str) {
        let Some((key, nth)) = self.some_version(bucket) else { return };
        let held = self.draw.one_in(3);
        let version = self.model.bucket(bucket).keys[&key][nth].clone();
        if version.marker {
            return;
        }
        println!("hold {bucket}/{key} {:?}: {held}", version.selector());
        let found = self.store().find(bucket, &key, version.selector()).unwrap().version;
        self.store().set_legal_hold(bucket, &key, found, held).unwrap();
        self.model.bucket(bucket).keys.get_mut(&key).unwrap()[nth].held = held;
    }
}
