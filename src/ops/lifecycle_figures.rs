//! Figures of the lifecycle sweeps since the start.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard};

use super::Context;
use super::lifecycle_sweep::{ExpiredItem, PlannedSweep};
use super::stored_document::StoredDocument as _;
use crate::base::{NOT_POISONED, Timestamp};
use crate::s3::lifecycle::LifecycleConfiguration;

/// Pairs of a bucket and a rule with figures of their own. Further pairs are counted together.
const PAIRS_MAX: usize = 1_000;
/// The bucket and the rule of the others, which no bucket can have.
const OTHERS: &str = "(other)";

/// Figures that the sweeper counts into, and the metrics show.
#[derive(Default)]
pub struct LifecycleFigures {
    totals: Mutex<LifecycleTotals>,
    planned: Mutex<HashMap<u64, PlannedSweep>>,
}

/// The next sweep of a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextSweep {
    /// No bucket was swept since the start.
    Unknown,
    /// Within a minute: its rules are new.
    Soon,
    /// About this time.
    At(Timestamp),
}

/// The figures at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LifecycleTotals {
    /// By bucket and id of the rule: versions that were removed or hidden, and the bytes of the
    /// removed ones.
    pub expired: BTreeMap<(String, String), (u64, u64)>,
    /// Versions that rules moved to the class COLD, and their bytes.
    pub moved: (u64, u64),
    /// Uploads that rules aborted.
    pub aborted_uploads: u64,
    /// The end of the last sweep of all buckets that were due.
    pub swept: Option<Timestamp>,
}

impl LifecycleFigures {
    /// Counts an expiry.
    pub fn count(&self, item: &ExpiredItem<'_>) {
        let mut totals = self.totals();
        if item.version.is_none() {
            totals.aborted_uploads += 1;
            return;
        }
        if item.moved_to.is_some() {
            totals.moved = (totals.moved.0 + 1, totals.moved.1 + item.bytes);
            return;
        }
        let pair = (item.bucket.to_owned(), item.rule.to_owned());
        let has_place = totals.expired.len() < PAIRS_MAX || totals.expired.contains_key(&pair);
        let pair = if has_place { pair } else { (OTHERS.to_owned(), OTHERS.to_owned()) };
        let (count, bytes) = totals.expired.entry(pair).or_default();
        *count += 1;
        *bytes += item.bytes;
    }

    /// Notes the end of a sweep, and the next ones by the ids of buckets.
    pub fn swept(&self, at: Timestamp, planned: HashMap<u64, PlannedSweep>) {
        self.totals().swept = Some(at);
        *self.planned.lock().expect(NOT_POISONED) = planned;
    }

    /// The next sweep of a bucket; `None` without rules.
    pub fn next_sweep(&self, context: &Context, bucket: &str) -> Option<NextSweep> {
        let found = context.store.configured_bucket(bucket).ok()?;
        let rules = found.configurations.get(LifecycleConfiguration::KIND)?;
        if self.totals().swept.is_none() {
            return Some(NextSweep::Unknown);
        }
        let planned = self.planned.lock().expect(NOT_POISONED);
        let planned = planned.get(&found.info.id).and_then(|planned| planned.by_rules(rules));
        Some(planned.map_or(NextSweep::Soon, NextSweep::At))
    }

    /// The figures so far.
    pub fn snapshot(&self) -> LifecycleTotals {
        self.totals().clone()
    }

    fn totals(&self) -> MutexGuard<'_, LifecycleTotals> {
        self.totals.lock().expect(NOT_POISONED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::StorageClass;

    #[test]
    fn expiries_are_counted_by_bucket_and_rule_up_to_a_bound() {
        let figures = LifecycleFigures::default();
        let item = |rule: &'static str, version: Option<&'static str>, bytes| ExpiredItem {
            bucket: "b",
            key: "k",
            version,
            rule,
            is_hidden: bytes == 0,
            moved_to: None,
            bytes,
        };
        figures.count(&item("r", Some("v"), 5));
        figures.count(&item("r", Some("v"), 0));
        figures.count(&item("r", None, 0));
        for rule in 0..PAIRS_MAX + 5 {
            let rule: &'static str = Box::leak(format!("rule {rule}").into_boxed_str());
            figures.count(&item(rule, Some("v"), 1));
        }
        let moved = ExpiredItem { moved_to: Some(StorageClass::Cold), ..item("r", Some("v"), 7) };
        figures.count(&moved);
        let LifecycleTotals { expired, moved, aborted_uploads, swept } = figures.snapshot();
        assert_eq!(moved, (1, 7));
        let pair = |rule: &str| expired.get(&("b".to_owned(), rule.to_owned()));
        assert_eq!((pair("r"), aborted_uploads, swept), (Some(&(2, 5)), 1, None));
        assert_eq!((expired.len(), pair("rule 998"), pair("rule 999")), (PAIRS_MAX + 1, Some(&(1, 1)), None));
        assert_eq!(expired[&(OTHERS.to_owned(), OTHERS.to_owned())], (6, 6));
    }
}
