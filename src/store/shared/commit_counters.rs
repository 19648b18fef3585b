//! Figures of commits since the store was opened.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::base::{CountHistogram, DurationHistogram, HistogramSnapshot};
use crate::fs::File;
use crate::store::Store;

/// The histograms that the commit leader and writers count into.
#[derive(Debug, Default)]
pub(in crate::store) struct CommitCounters {
    durations: DurationHistogram,
    syncs: DurationHistogram,
    segment_syncs: DurationHistogram,
    group_sizes: CountHistogram,
    /// When the disk was given the group that it works on.
    disk_work_since: Mutex<Option<Instant>>,
}

/// Held while the disk works on a group.
pub(in crate::store) struct DiskWork(Arc<CommitCounters>);

impl DiskWork {
    /// Begins at `now`.
    pub(in crate::store) fn begin(counters: &Arc<CommitCounters>, now: Instant) -> Self {
        *counters.disk_work_since() = Some(now);
        Self(Arc::clone(counters))
    }
}

impl Drop for DiskWork {
    fn drop(&mut self) {
        *self.0.disk_work_since() = None;
    }
}

/// Figures of the groups that were committed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitFigures {
    /// The time of each group from its first decision until it was durable and visible, in
    /// microseconds.
    pub durations: HistogramSnapshot,
    /// The time of each sync of the log, in microseconds.
    pub syncs: HistogramSnapshot,
    /// The time of each sync of a segment that a writer waited for, in microseconds.
    pub segment_syncs: HistogramSnapshot,
    /// The mutations of each group.
    pub group_sizes: HistogramSnapshot,
}

impl CommitCounters {
    fn disk_work_since(&self) -> MutexGuard<'_, Option<Instant>> {
        self.disk_work_since.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(in crate::store) fn count_group(&self, mutations: usize, took: Duration) {
        self.group_sizes.count(mutations as u64);
        self.durations.count_duration(took);
    }

    pub(in crate::store) fn count_sync(&self, took: Duration) {
        self.syncs.count_duration(took);
    }

    /// Syncs a segment, and counts the time that it takes. Its bytes are durable on return.
    ///
    /// # Errors
    /// Of the disk.
    pub(in crate::store) fn sync_segment(&self, segment: &dyn File) -> io::Result<()> {
        let begun = Instant::now();
        let synced = segment.sync_data();
        self.segment_syncs.count_duration(begun.elapsed());
        synced
    }
}

impl Store {
    /// Figures of the commits since the store was opened.
    pub fn commit_figures(&self) -> CommitFigures {
        let CommitCounters { durations, syncs, segment_syncs, group_sizes, .. } =
            &*self.shared.commit_counters;
        CommitFigures {
            durations: durations.snapshot(),
            syncs: syncs.snapshot(),
            segment_syncs: segment_syncs.snapshot(),
            group_sizes: group_sizes.snapshot(),
        }
    }

    /// How long the commit in progress has been waiting for the disk; `None` without one. A wait
    /// for the remote does not count.
    pub fn disk_wait(&self) -> Option<Duration> {
        let since = *self.shared.commit_counters.disk_work_since();
        since.map(|since| self.shared.clock.instant().saturating_duration_since(since))
    }
}
