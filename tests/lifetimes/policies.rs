//! Rules, quotas, and the work by rules: sweeps, and the abort of idle uploads.

use std::time::Duration;

use siltstone::base::Clock as _;
use siltstone::ops::{ExpiredItem, SweepTotals, abort_idle_uploads};
use siltstone::s3::XmlConfiguration as _;
use siltstone::s3::lifecycle::LifecycleConfiguration;
use siltstone::store::{BucketConfigurationKind, Quota, StoreError};

use super::comparison::check_bytes;
use super::model::ModelVersion;
use super::power::PowerCut;
use super::rules::ModelRule;
use super::run::Run;
use super::sweeps::{ModelSweep, Taken, abort_idle};
use super::{DAY, IDLE_DAYS};

/// The time between two sweeps of a bucket whose rules have not changed.
const INTERVAL: Duration = Duration::from_secs(60 * 60);
const KIND: BucketConfigurationKind = BucketConfigurationKind::Lifecycle;

impl Run {
    pub(super) fn change_rules(&mut self, bucket: &str) {
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

    pub(super) fn change_quota(&mut self, bucket: &str) {
        let quota = self.drawn_quota();
        let is_owner = self.draw.one_in(3);
        println!("the quota of {bucket}, or its owner: {is_owner}, is {quota:?}");
        let cut = self.drawn_cut();
        self.set_quota_until(bucket, is_owner, quota, cut);
    }

    /// Sets a quota; returns whether it was done before the power went.
    pub(super) fn set_quota_until(
        &mut self,
        bucket: &str,
        is_owner: bool,
        quota: Option<Quota>,
        cut: Option<PowerCut>,
    ) -> bool {
        let mut after = self.model.clone();
        let owner = self.model.bucket(bucket).owner;
        match (is_owner, quota) {
            (true, Some(quota)) => drop(after.owner_quotas.insert(owner.to_owned(), quota)),
            (true, None) => drop(after.owner_quotas.remove(owner)),
            (false, quota) => after.bucket(bucket).quota = quota.unwrap_or_default(),
        }
        let done = self.until(cut, &[self.model.clone(), after.clone()], |run| match is_owner {
            true => run.store().set_owner_quota(owner, quota.as_ref()),
            false => run.store().set_bucket_quota(bucket, quota.as_ref()),
        });
        if let Some(done) = &done {
            assert_eq!(*done, Ok(()));
            self.model = after;
        }
        done.is_some()
    }

    pub(super) fn abort_idle(&mut self) {
        println!("abort idle uploads");
        let cut = self.drawn_cut();
        self.abort_idle_until(cut);
    }

    /// Aborts idle uploads; returns whether it was done before the power went.
    pub(super) fn abort_idle_until(&mut self, cut: Option<PowerCut>) -> bool {
        let names = self.store().buckets().into_iter().map(|bucket| bucket.name);
        let (aborted, states) = abort_idle(&self.model, names, self.now() - IDLE_DAYS * DAY);
        let done = self.until(cut, &states, |run| abort_idle_uploads(run.store()));
        if let Some(done) = &done {
            assert_eq!(*done, Ok(aborted));
            self.model = states.last().expect("the first").clone();
        }
        done.is_some()
    }

    /// The buckets with rules that are due, in the order in which they are swept.
    fn due(&self) -> Vec<String> {
        let names = self.store().buckets().into_iter().map(|bucket| bucket.name);
        let now = self.clock.instant();
        let is_due = |name: &String| {
            let is_recent = self.swept.get(name).is_some_and(|last| now.duration_since(*last) < INTERVAL);
            !self.model.buckets[name].rules.is_empty() && !is_recent
        };
        names.filter(is_due).collect()
    }

    pub(super) fn sweep(&mut self) {
        println!("sweep {:?}", self.due());
        let cut = self.drawn_cut();
        self.sweep_until(cut);
    }

    /// Sweeps; returns whether it was done before the power went.
    pub(super) fn sweep_until(&mut self, cut: Option<PowerCut>) -> bool {
        let due = self.due();
        let times = self.times();
        let ids = self.store().clone();
        let text = |version: &ModelVersion| version.named().text(ids.client_ids());
        let expected = ModelSweep::of(&self.model, &due, times, &text);
        drop(ids);
        let Some((answered, taken)) = self.until(cut, &expected.states, Self::sweep_the_store) else {
            self.seen.crashed_sweeps += 1;
            return false;
        };
        self.conclude(&due, expected, answered.unwrap(), taken);
        true
    }

    fn sweep_the_store(&mut self) -> (Result<SweepTotals, StoreError>, Vec<Taken>) {
        let mut taken = Vec::new();
        let mut report = |item: &ExpiredItem<'_>| {
            let version = item.version.unwrap_or("an upload").to_owned();
            let bucket = item.bucket.to_owned();
            let key = item.key.to_owned();
            let rule = item.rule.to_owned();
            taken.push((bucket, key, version, rule, item.is_hidden, item.bytes));
        };
        let sweeper = &mut self.opened.as_mut().expect("it is open").1;
        (sweeper.sweep_due(&|| false, &mut report), taken)
    }

    fn conclude(
        &mut self,
        due: &[String],
        mut expected: ModelSweep,
        totals: SweepTotals,
        mut taken: Vec<Taken>,
    ) {
        let now = self.clock.instant();
        self.seen.taken += taken.len() as u64;
        self.seen.kept += totals.locked;
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
