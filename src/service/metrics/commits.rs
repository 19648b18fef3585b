//! The metrics of commits.

use super::Exposition;
use crate::ops::CommitFigures;

/// Microseconds of a second.
const MICRO: f64 = 1e6;

/// Adds the histograms of commits.
pub(in crate::service) fn commits(page: &mut Exposition, figures: &CommitFigures) {
    let help = "Time of a commit group from its first decision until it is durable and visible.";
    page.family("commit_duration_seconds", "histogram", help);
    page.histogram("commit_duration_seconds", &[], &figures.durations, MICRO);
    page.family("log_sync_duration_seconds", "histogram", "Time of a sync of the log.");
    page.histogram("log_sync_duration_seconds", &[], &figures.syncs, MICRO);
    let help = "Time of a sync of a data segment that a put waited for.";
    page.family("segment_sync_duration_seconds", "histogram", help);
    page.histogram("segment_sync_duration_seconds", &[], &figures.segment_syncs, MICRO);
    page.family("commit_group_mutations", "histogram", "Mutations of a commit group.");
    page.histogram("commit_group_mutations", &[], &figures.group_sizes, 1.0);
}
