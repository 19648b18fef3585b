//! The history of figures, in memory and over restarts: a sample of each minute of a day and of each
//! hour of ninety days, and the sizes of buckets at the beginning of each of the last days.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use super::Service;
use super::metrics::RequestTotals;
use super::users::{UserError, check};
use crate::auth::{Action, Identity};
use crate::base::limits::{HISTORY_BUCKETS_MAX, HISTORY_DAYS_MAX, HISTORY_HOURS_MAX, HISTORY_MINUTES_MAX};
use crate::base::{HistogramSnapshot, NOT_POISONED, push_latest};
use crate::ops::{BucketSize, BucketUsage, DaySizes, History, HistorySample};

const MINUTE_MILLIS: u64 = 60_000;
const MINUTES_OF_HOUR: u64 = 60;
const MINUTES_OF_DAY: u64 = 24 * MINUTES_OF_HOUR;
/// The days over which the growth of buckets is told.
const GROWTH_DAYS: u64 = 7;
/// The time from which it is told when the disk will be full, and the least of it.
const TREND_OVER_MINUTES: u64 = 14 * MINUTES_OF_DAY;
const TREND_MIN_MINUTES: u64 = MINUTES_OF_DAY;
/// What is further away is nothing to tell.
const FULL_WITHIN_DAYS_MAX: u64 = 1_000;

/// A part of the history that is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HistoryRange {
    /// The last hour, by minutes.
    Hour,
    /// The last 24 hours, by minutes.
    Day,
    /// The last 30 days, by hours.
    Month,
}

impl HistoryRange {
    /// Its length in minutes.
    pub fn minutes(self) -> u64 {
        match self {
            Self::Hour => MINUTES_OF_HOUR,
            Self::Day => MINUTES_OF_DAY,
            Self::Month => 30 * MINUTES_OF_DAY,
        }
    }

    /// The length of what a sample is about.
    pub fn minutes_of_sample(self) -> u64 {
        match self {
            Self::Hour | Self::Day => 1,
            Self::Month => MINUTES_OF_HOUR,
        }
    }
}

/// How buckets have grown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BucketGrowth {
    /// The days since the beginning of which it is told; 0 where nothing is known.
    pub days: u64,
    /// The bytes by which each bucket has grown, in the order in which they were named; negative
    /// for one that has shrunk, `None` where it is not known.
    pub bytes: Vec<Option<i64>>,
}

/// The history, and what the next sample needs.
#[derive(Default)]
pub(super) struct HistoryKeeper(Mutex<KeptHistory>);

#[derive(Default)]
struct KeptHistory {
    history: History,
    /// The counters at the last sample.
    counted: RequestTotals,
    commits: Option<HistogramSnapshot>,
    /// Whether something has happened that is not saved.
    has_news: bool,
}

impl HistoryKeeper {
    fn lock(&self) -> MutexGuard<'_, KeptHistory> {
        self.0.lock().expect(NOT_POISONED)
    }
}

impl Service {
    /// Goes on with the history that the last process has saved.
    pub fn resume_history(&self) {
        self.history.lock().history = self.context.store.history();
    }

    /// Takes a sample of what has happened since the last one; one thread calls it every minute.
    /// Returns whether the history is to be saved: once an hour, if there was a request. Disks of
    /// idle hosts sleep meanwhile.
    pub fn sample_history(&self) -> bool {
        self.note_concerns();
        let totals = self.recorder.metrics.totals();
        let commits = self.context.store.commit_figures().durations;
        let health = self.context.health();
        let minute = self.recorder.clock.now().as_millis() / MINUTE_MILLIS;
        let mut kept = self.history.lock();
        let since = totals.beyond(&kept.counted);
        let commits_since =
            kept.commits.as_ref().map_or_else(|| commits.clone(), |before| commits.beyond(before));
        let sample = HistorySample {
            minute,
            requests: since.requests,
            errors: since.errors,
            received: since.received,
            sent: since.sent,
            commit_micros: commits_since.bound_of_99_percent().unwrap_or(0),
            free: health.disk.map_or(0, |(free, _)| free),
            objects: health.live_bytes,
        };
        kept.counted = totals;
        kept.commits = Some(commits);
        kept.has_news |= sample.requests > 0;
        let begins_hour = add(&mut kept.history, sample);
        let today = minute / MINUTES_OF_DAY;
        if begins_day(&kept.history, today) {
            add_day(&mut kept.history, today, &self.context.store.bucket_usages());
        }
        begins_hour && kept.has_news
    }

    /// Saves the history. Durable on return; a failure is in the log, and another attempt follows
    /// after an hour.
    pub fn save_history(&self) {
        // A copy, so that no page waits for the disk.
        let history = self.history.lock().history.clone();
        match self.context.store.save_history(&history) {
            Ok(()) => self.history.lock().has_news = false,
            Err(error) => log::warn!("the history of the figures was not saved: {error}"),
        }
    }

    /// Whether something has happened since the history was saved.
    pub fn has_unsaved_history(&self) -> bool {
        self.history.lock().has_news
    }

    /// The samples of a range that ends now, the oldest first.
    ///
    /// # Errors
    /// [`UserError::Denied`].
    pub fn samples(&self, identity: &Identity, range: HistoryRange) -> Result<Vec<HistorySample>, UserError> {
        check(identity, Action::AdminGetState)?;
        let now = self.recorder.clock.now().as_millis() / MINUTE_MILLIS;
        let from = now.saturating_sub(range.minutes());
        let kept = self.history.lock();
        let samples = match range {
            HistoryRange::Hour | HistoryRange::Day => &kept.history.minutes,
            HistoryRange::Month => &kept.history.hours,
        };
        let is_shown = |sample: &&HistorySample| sample.minute > from && sample.minute <= now;
        Ok(samples.iter().filter(is_shown).copied().collect())
    }

    /// The time until the disk is full, at the pace of the last days; `None` where it is not known,
    /// and where the disk does not fill.
    pub fn disk_full_in(&self) -> Option<Duration> {
        let days = full_in_days(&self.history.lock().history.hours)?;
        Some(Duration::from_secs(days * MINUTES_OF_DAY * 60))
    }

    /// How much buckets have grown in the last days.
    pub fn growth_of(&self, buckets: &[&str]) -> BucketGrowth {
        let store = &self.context.store;
        let today = self.recorder.clock.now().as_millis() / MINUTE_MILLIS / MINUTES_OF_DAY;
        let kept = self.history.lock();
        let mut days = kept.history.days.iter();
        let Some(begin) = days.find(|it| it.day < today && today - it.day <= GROWTH_DAYS) else {
            return BucketGrowth { days: 0, bytes: vec![None; buckets.len()] };
        };
        let before: HashMap<_, _> = begin.sizes.iter().map(|size| (size.bucket, size.bytes)).collect();
        // Of more buckets some are missing, and not for being new.
        let knows_all = begin.sizes.len() < HISTORY_BUCKETS_MAX;
        let grown = |bucket: &&str| {
            let id = store.bucket(bucket).ok()?.id;
            let now = store.usage(bucket).ok()?.bytes();
            let before = before.get(&id).copied().or(knows_all.then_some(0))?;
            Some(now.cast_signed().wrapping_sub(before.cast_signed()))
        };
        BucketGrowth { days: today - begin.day, bytes: buckets.iter().map(grown).collect() }
    }
}

/// Adds a sample. Returns whether it begins an hour.
fn add(history: &mut History, sample: HistorySample) -> bool {
    // What is of the future was written by a wrong clock.
    history.minutes.retain(|it| it.minute <= sample.minute);
    history.hours.retain(|it| it.minute <= sample.minute);
    history.days.retain(|it| it.day <= sample.minute / MINUTES_OF_DAY);
    match history.minutes.back_mut() {
        Some(last) if last.minute == sample.minute => merge(last, &sample),
        _ => push_latest(&mut history.minutes, sample, HISTORY_MINUTES_MAX),
    }
    let hour = |it: &HistorySample| it.minute / MINUTES_OF_HOUR;
    match history.hours.back_mut() {
        Some(last) if hour(last) == hour(&sample) => {
            merge(last, &sample);
            false
        }
        _ => {
            push_latest(&mut history.hours, sample, HISTORY_HOURS_MAX);
            true
        }
    }
}

/// Adds what came later.
fn merge(into: &mut HistorySample, later: &HistorySample) {
    into.minute = later.minute;
    // A file may have any numbers.
    into.requests = into.requests.saturating_add(later.requests);
    into.errors = into.errors.saturating_add(later.errors);
    into.received = into.received.saturating_add(later.received);
    into.sent = into.sent.saturating_add(later.sent);
    into.commit_micros = into.commit_micros.max(later.commit_micros);
    into.free = later.free;
    into.objects = later.objects;
}

/// Whether the sizes of buckets at the beginning of a day are missing.
fn begins_day(history: &History, day: u64) -> bool {
    history.days.back().is_none_or(|last| last.day < day)
}

/// Adds the sizes of buckets at the beginning of a day.
fn add_day(history: &mut History, day: u64, usages: &[BucketUsage]) {
    let first = usages.iter().take(HISTORY_BUCKETS_MAX);
    let sizes = first.map(|usage| BucketSize { bucket: usage.id, bytes: usage.content.bytes() });
    push_latest(&mut history.days, DaySizes { day, sizes: sizes.collect() }, HISTORY_DAYS_MAX);
}

/// The days until the disk is full: the line through the free bytes of the last days, by least
/// squares, at zero.
fn full_in_days(hours: &VecDeque<HistorySample>) -> Option<u64> {
    let last = hours.back()?;
    let is_late = |it: &&HistorySample| it.free > 0 && last.minute - it.minute < TREND_OVER_MINUTES;
    let late: Vec<_> = hours.iter().filter(is_late).copied().collect();
    let first = late.first()?.minute;
    if last.minute - first < TREND_MIN_MINUTES {
        return None;
    }
    let count = late.len() as f64;
    let days = |it: &HistorySample| (it.minute - first) as f64 / MINUTES_OF_DAY as f64;
    let mean_days = late.iter().map(days).sum::<f64>() / count;
    let mean_free = late.iter().map(|it| it.free as f64).sum::<f64>() / count;
    let mut spread = 0.0;
    let mut slope = 0.0;
    for it in &late {
        let off = days(it) - mean_days;
        spread += off * off;
        slope += off * (it.free as f64 - mean_free);
    }
    let lost_a_day = -slope / spread;
    let left = last.free as f64 / lost_a_day;
    (lost_a_day > 0.0 && left < FULL_WITHIN_DAYS_MAX as f64).then_some(left as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(minute: u64, free: u64) -> HistorySample {
        HistorySample {
            minute,
            requests: 2,
            errors: 1,
            received: 10,
            sent: 20,
            commit_micros: minute,
            free,
            objects: 7,
        }
    }

    #[test]
    fn minutes_are_kept_one_by_one_and_added_up_by_hours() {
        let mut history = History::default();
        let begun = 60 * 1_000;
        let begins: Vec<_> = (0..125).map(|at| add(&mut history, sample(begun + at, at))).collect();
        assert_eq!(begins.iter().filter(|begins| **begins).count(), 3);
        assert!(begins[0] && begins[60] && begins[120]);
        assert_eq!(history.minutes.len(), 125);
        let hours: Vec<_> =
            history.hours.iter().map(|it| (it.minute - begun, it.requests, it.sent, it.free)).collect();
        assert_eq!(hours, [(59, 120, 1200, 59), (119, 120, 1200, 119), (124, 10, 100, 124)]);
        assert_eq!(history.hours[0].commit_micros, begun + 59);
        // Twice within a minute.
        assert!(!add(&mut history, sample(begun + 124, 9)));
        assert_eq!((history.minutes.len(), history.minutes[124].requests), (125, 4));
    }

    #[test]
    fn what_a_clock_ahead_has_written_goes() {
        let mut history = History::default();
        for minute in [600, 601, 9_999_999] {
            add(&mut history, sample(minute, 1));
        }
        add_day(&mut history, 6_944, &[]);
        add(&mut history, sample(602, 1));
        assert!(begins_day(&history, 0));
        add_day(&mut history, 0, &[]);
        assert!(!begins_day(&history, 0) && begins_day(&history, 1));
        let minutes: Vec<_> = history.minutes.iter().map(|it| it.minute).collect();
        assert_eq!((minutes, history.hours.len()), (vec![600, 601, 602], 1));
        assert_eq!(history.days.iter().map(|it| it.day).collect::<Vec<_>>(), [0]);
    }

    #[test]
    fn the_history_is_bounded() {
        let mut history = History::default();
        for minute in 0..(100 * MINUTES_OF_DAY) {
            add(&mut history, sample(minute, 1));
            if begins_day(&history, minute / MINUTES_OF_DAY) {
                add_day(&mut history, minute / MINUTES_OF_DAY, &[]);
            }
        }
        let lens = (history.minutes.len(), history.hours.len(), history.days.len());
        assert_eq!(lens, (HISTORY_MINUTES_MAX, HISTORY_HOURS_MAX, HISTORY_DAYS_MAX));
    }

    #[test]
    fn a_file_with_the_greatest_numbers_is_gone_on_with() {
        let most = |minute| HistorySample {
            minute,
            requests: u64::MAX,
            errors: u64::MAX,
            received: u64::MAX,
            sent: u64::MAX,
            commit_micros: u64::MAX,
            free: u64::MAX,
            objects: u64::MAX,
        };
        let minutes = [most(0), most(MINUTES_OF_DAY + 600), most(u64::MAX)];
        let sizes = vec![BucketSize { bucket: u64::MAX, bytes: u64::MAX }];
        let days = [DaySizes { day: u64::MAX, sizes }].into();
        let mut history = History { minutes: minutes.into(), hours: minutes.into(), days };
        assert_eq!(full_in_days(&history.hours), None);
        assert!(!add(&mut history, sample(MINUTES_OF_DAY + 601, 5)));
        assert!(begins_day(&history, 1));
        assert_eq!(history.hours.back().map(|it| (it.requests, it.free)), Some((u64::MAX, 5)));
        assert_eq!(full_in_days(&history.hours), Some(0));
    }

    #[test]
    fn the_pace_of_the_last_days_tells_when_the_disk_is_full() {
        let hours = |count: u64, free: &dyn Fn(u64) -> u64| -> VecDeque<_> {
            (0..count).map(|hour| sample(hour * 60, free(hour))).collect()
        };
        let full = |count: u64, free: &dyn Fn(u64) -> u64| full_in_days(&hours(count, free));
        // 24 units a day; 4,000 before.
        assert_eq!(full(25, &|hour| 4_000 - hour), Some(165));
        assert_eq!(full(24, &|hour| 4_000 - hour), None, "less than a day is no pace");
        assert_eq!(full(100, &|_| 4_000), None);
        assert_eq!(full(100, &|hour| 4_000 + hour), None);
        assert_eq!(full(100, &|hour| 40_000_000 - hour), None, "that is far away");
        assert_eq!(full_in_days(&VecDeque::new()), None);
        // Of what was before that time nothing counts.
        let turned = full(1_000, &|hour| if hour < 500 { 90_000 - 100 * hour } else { 40_000 });
        assert_eq!(turned, None);
    }
}
