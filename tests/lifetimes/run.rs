//! The steps: each is done to the store and to the model, and both must agree on the answer and on everything afterwards.

use std::sync::Arc;

use siltstone::base::{Clock as _, ManualClock, SeededEntropy, Timestamp};
use siltstone::fs::sim::{CrashPolicy, SimFs};
use siltstone::ops::{ExpiredItem, LifecycleSweeper, SweepTotals, abort_idle_uploads};
use siltstone::s3::lifecycle::LifecycleConfiguration;
use siltstone::store::{
    BucketConfigurationKind, Deleted, Retention, RetentionMode, Selector, Store, StoreError, StoreOptions,
    Versioning,
};

use super::comparison::{check_bytes, difference, learn_ids};
use super::model::{Model, ModelBucket, Refusal};
use super::rules::ModelRule;
use super::sweeps::{ModelSweep, Taken, Times, abort_idle};
use super::{DAY, Draw, HOUR, IDLE_DAYS};

const KIND: BucketConfigurationKind = BucketConfigurationKind::Lifecycle;
/// The buckets and their owners.
pub(super) const BUCKETS: [(&str, &str); 3] = [("locked", "ann"), ("paused", "bob"), ("plain", "ann")];
pub(super) const KEYS: [&str; 6] = ["a/1", "a/1/x", "a/2", "b", "b/1", "c"];

pub(super) struct Run {
    pub(super) draw: Draw,
    pub(super) clock: Arc<ManualClock>,
    pub(super) fs: SimFs,
    /// Both `None` only while it restarts.
    opened: Option<(Arc<Store>, LifecycleSweeper)>,
    pub(super) model: Model,
    /// The times of the last complete sweeps, of the buckets whose rules were not changed since.
    swept: std::collections::BTreeMap<String, u64>,
    /// The latest time at which a version or an upload was made, and the latest time that the clock showed.
    stamped: u64,
    latest: u64,
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

pub(super) fn open(fs: &SimFs, clock: &Arc<ManualClock>) -> (Arc<Store>, LifecycleSweeper) {
    let options = StoreOptions {
        log_file_max_bytes: 256 * 1024,
        keep_free_bytes: 0,
        idle_group_after: None,
        checkpoint_after_bytes: 16 * 1024,
        abort_uploads_after: Some(std::time::Duration::from_millis(IDLE_DAYS * DAY)),
        ..StoreOptions::default()
    };
    let store = Store::open(Arc::new(fs.clone()), clock.clone(), &SeededEntropy::new(1), options);
    let store = Arc::new(store.expect("the store opens"));
    let sweeper = LifecycleSweeper::new(store.clone(), clock.clone());
    (store, sweeper)
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
        let (fs, now) = (SimFs::new(), 1_700_000_000_000 / DAY * DAY);
        let clock = Arc::new(ManualClock::new(Timestamp::from_millis(now)));
        let opened = Some(open(&fs, &clock));
        let (draw, model) = (Draw(SeededEntropy::new(seed)), Model::default());
        let (swept, seen) = (Default::default(), Seen::default());
        let mut run = Self { draw, clock, fs, opened, model, swept, stamped: now, latest: now, seen };
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

    /// The time for locks, which is never before a stamp that was given, nor after every time that there ever was. A start leaves out
    /// some stamps, fractions of a second, which retentions of these tests are far from.
    pub(super) fn lock_time(&self) -> u64 {
        let lock_time = self.store().lock_time().as_millis();
        assert!((self.stamped.max(self.now())..self.latest + HOUR / 4).contains(&lock_time), "{lock_time}");
        lock_time
    }

    /// Notes that a version or an upload was made.
    pub(super) fn stamp(&mut self) {
        self.stamped = self.stamped.max(self.now());
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
        let (bucket, key) = (self.draw.of(&BUCKETS).0, *self.draw.of(&KEYS));
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
            _ => self.restart(Some(CrashPolicy::Random(self.draw.below(1 << 32)))),
        }
        self.check();
    }

    fn move_clock(&mut self) {
        let (now, hours) = (self.now(), |hours| hours * HOUR);
        let now = match self.draw.below(20) {
            0..3 => now - hours(1 + self.draw.below(72)),
            3 => now - 3_650 * DAY,
            4..7 => now.max(self.latest),
            7..12 => now + hours(24 * self.draw.below(4)),
            _ => now + hours(1 + self.draw.below(12)),
        };
        println!("the clock shows {now}");
        self.clock.set(Timestamp::from_millis(now));
        self.latest = self.latest.max(now);
    }

    fn set_versioning(&mut self, bucket: &str, versioning: Versioning) {
        println!("{bucket} is {versioning:?}");
        self.store().set_versioning(bucket, versioning).unwrap();
        self.model.bucket(bucket).versioning = versioning;
    }

    fn change_versioning(&mut self) {
        let versioning = *self.draw.of(&[Versioning::Enabled, Versioning::Suspended]);
        self.set_versioning("paused", versioning);
        let refused = self.store().set_versioning("locked", Versioning::Suspended);
        assert_eq!(refused, Err(StoreError::InvalidBucketState));
    }

    fn delete(&mut self, bucket: &str, key: &str) {
        println!("delete {bucket}/{key}");
        let (now, lock_time) = (self.now(), self.lock_time());
        let expected = self.model.refusals(|model| model.bucket(bucket).delete_current(key, now, lock_time));
        let answered = super::objects::delete(self.store(), bucket, key, Selector::Current, false);
        if let Some(Deleted { delete_marker: true, .. }) = self.agreed(answered, &expected) {
            self.stamp();
        }
    }

    /// A version, if there is one: its key, and its number from the newest on.
    pub(super) fn some_version(&self, bucket: &str) -> Option<(String, usize)> {
        let bucket = &self.model.buckets[bucket];
        let all: Vec<_> =
            bucket.keys.iter().flat_map(|(key, all)| (0..all.len()).map(move |n| (key, n))).collect();
        (!all.is_empty()).then(|| self.draw.of(&all)).map(|(key, nth)| ((*key).clone(), *nth))
    }

    fn delete_version(&mut self, bucket: &str) {
        let Some((key, nth)) = self.some_version(bucket) else { return };
        let (bypass, lock_time) = (self.draw.one_in(2), self.lock_time());
        let which = self.model.bucket(bucket).keys[&key][nth].selector();
        println!("delete {bucket}/{key} {which:?}, bypass: {bypass}");
        let expected = self.model.refusals(|model| model.bucket(bucket).remove(&key, nth, lock_time, bypass));
        let answered = super::objects::delete(self.store(), bucket, &key, which, bypass);
        self.agreed(answered, &expected);
    }

    /// A retention that ends between two times that the clock shows.
    pub(super) fn drawn_retention(&self) -> Retention {
        let mode = *self.draw.of(&[RetentionMode::Compliance, RetentionMode::Governance]);
        let from = self.store().lock_time().as_millis() / HOUR * HOUR;
        let until = Timestamp::from_millis(from + self.draw.below(5 * 24) * HOUR + HOUR / 2);
        Retention { mode, until }
    }

    fn retain(&mut self, bucket: &str) {
        let Some((key, nth)) = self.some_version(bucket) else { return };
        let new = (!self.draw.one_in(4)).then(|| self.drawn_retention());
        let (bypass, lock_time) = (self.draw.one_in(3), self.lock_time());
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

    fn hold(&mut self, bucket: &str) {
        let Some((key, nth)) = self.some_version(bucket) else { return };
        let (held, version) = (self.draw.one_in(3), self.model.bucket(bucket).keys[&key][nth].clone());
        if version.marker {
            return;
        }
        println!("hold {bucket}/{key} {:?}: {held}", version.selector());
        let found = self.store().find(bucket, &key, version.selector()).unwrap().version;
        self.store().set_legal_hold(bucket, &key, found, held).unwrap();
        self.model.bucket(bucket).keys.get_mut(&key).unwrap()[nth].held = held;
    }

    fn change_rules(&mut self, bucket: &str) {
        let now = self.now();
        let rules: Vec<_> =
            (0..self.draw.below(4)).map(|nth| ModelRule::drawn(&self.draw, nth, now)).collect();
        println!("{bucket} has {rules:?}");
        self.set_rules(bucket, rules);
    }

    pub(super) fn set_rules(&mut self, bucket: &str, rules: Vec<ModelRule>) {
        let xml: String = rules.iter().map(ModelRule::xml).collect();
        let document = format!("<LifecycleConfiguration>{xml}</LifecycleConfiguration>").into_bytes();
        let document = (!rules.is_empty()).then_some(document);
        assert!(document.iter().all(|it| LifecycleConfiguration::from_document(it).is_some()), "{xml}");
        self.store().set_bucket_configuration(bucket, KIND, document).unwrap();
        self.model.bucket(bucket).rules = rules;
        self.swept.remove(bucket);
    }

    fn change_quota(&mut self, bucket: &str) {
        let quota = self.drawn_quota();
        let is_owner = self.draw.one_in(3);
        println!("the quota of {bucket}, or its owner: {is_owner}, is {quota:?}");
        if is_owner {
            let owner = self.model.bucket(bucket).owner;
            self.store().set_owner_quota(owner, quota.as_ref()).unwrap();
            match quota {
                Some(quota) => drop(self.model.owner_quotas.insert(owner.to_owned(), quota)),
                None => drop(self.model.owner_quotas.remove(owner)),
            }
        } else {
            self.store().set_bucket_quota(bucket, quota.as_ref()).unwrap();
            self.model.bucket(bucket).quota = quota.unwrap_or_default();
        }
    }

    fn abort_idle(&mut self) {
        let since = self.now() - IDLE_DAYS * DAY;
        let expected = abort_idle(&mut self.model, since);
        println!("abort idle uploads: {expected}");
        assert_eq!(abort_idle_uploads(self.store()), Ok(expected));
    }

    /// Ends the store, as a process that is dropped or by a loss of power, and opens it again.
    pub(super) fn restart(&mut self, crash: Option<CrashPolicy>) {
        println!("restart: {crash:?}");
        if let Some(policy) = crash {
            self.fs = self.fs.crash(policy);
        }
        self.opened = None;
        self.opened = Some(open(&self.fs, &self.clock));
        self.swept.clear();
        let health = self.store().health();
        assert_eq!((health.read_only, health.damage, health.torn_groups), (None, vec![], 0));
    }

    /// The buckets with rules that are due, in the order in which they are swept.
    fn due(&self) -> Vec<String> {
        let (now, names) = (self.now(), self.store().buckets().into_iter().map(|bucket| bucket.name));
        let is_due = |name: &String| {
            let is_recent = self.swept.get(name).is_some_and(|last| last.abs_diff(now) < HOUR);
            !self.model.buckets[name].rules.is_empty() && !is_recent
        };
        names.filter(is_due).collect()
    }

    /// Sweeps; in one of three cases the power goes meanwhile.
    pub(super) fn sweep(&mut self) {
        let (due, times) = (self.due(), Times { now: self.now(), lock_time: self.lock_time() });
        let ids = self.store().clone();
        let text = |version: &super::model::ModelVersion| version.named().text(ids.client_ids());
        let expected = ModelSweep::of(&self.model, &due, times, &text);
        let stop = self.draw.one_in(3).then(|| self.fs.operations() + 1 + self.draw.below(6));
        println!("sweep {due:?}, the power goes at {stop:?}");
        stop.into_iter().for_each(|stop| self.fs.stop_at(stop));
        let (answered, taken) = self.sweep_the_store();
        if stop.is_some_and(|stop| self.fs.operations() >= stop) {
            self.after_crash(&expected);
            return;
        }
        self.fs.stop_at(u64::MAX);
        self.conclude(&due, expected, answered.unwrap(), taken);
    }

    fn sweep_the_store(&mut self) -> (Result<SweepTotals, StoreError>, Vec<Taken>) {
        let mut taken = Vec::new();
        let mut report = |item: &ExpiredItem<'_>| {
            let version = item.version.unwrap_or("an upload").to_owned();
            let (bucket, key, rule) = (item.bucket.to_owned(), item.key.to_owned(), item.rule.to_owned());
            taken.push((bucket, key, version, rule, item.is_hidden, item.bytes));
        };
        let sweeper = &mut self.opened.as_mut().expect("it is open").1;
        (sweeper.sweep_due(&|| false, &mut report), taken)
    }

    /// The store is as after one of the commits of the sweep.
    pub(super) fn after_crash(&mut self, expected: &ModelSweep) {
        self.seen.crashed_sweeps += 1;
        let policy = *self.draw.of(&[CrashPolicy::DropAll, CrashPolicy::KeepAll, CrashPolicy::Random(7)]);
        self.restart(Some(policy));
        let store = self.store().clone();
        let states = expected.states.iter().cloned().map(|mut state| {
            learn_ids(&store, &mut state);
            (difference(&store, &state), state)
        });
        let states: Vec<_> = states.collect();
        let Some((_, state)) = states.iter().find(|(difference, _)| difference.is_none()) else {
            panic!("no state of the sweep: {:?}", states.iter().map(|(it, _)| it).collect::<Vec<_>>());
        };
        self.model = state.clone();
        check_bytes(&store, &self.model);
    }

    fn conclude(
        &mut self,
        due: &[String],
        mut expected: ModelSweep,
        totals: SweepTotals,
        mut taken: Vec<Taken>,
    ) {
        let now = self.now();
        self.seen.taken += taken.len() as u64;
        self.seen.kept += totals.locked;
        if taken.iter().any(|(.., is_hidden, _)| *is_hidden) {
            self.stamp();
        }
        taken.sort();
        expected.taken.sort();
        assert_eq!(
            (taken, totals.locked, totals.buckets),
            (expected.taken, expected.locked, due.len() as u64)
        );
        self.model = expected.states.pop().expect("the last");
        self.swept.extend(due.iter().map(|name| (name.clone(), now)));
        self.check();
        check_bytes(self.store(), &self.model);
    }
}
