//! Figures of commits since the store was opened.

use std::io;
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
        let CommitCounters { durations, syncs, segment_syncs, group_sizes } = &*self.shared.commit_counters;
        CommitFigures {
            durations: durations.snapshot(),
            syncs: syncs.snapshot(),
            segment_syncs: segment_syncs.snapshot(),
            group_sizes: group_sizes.snapshot(),
        }
    }
}
