//! The metrics of the program that is run when the state of a disk changes.

use std::sync::atomic::{AtomicU64, Ordering};

use super::Exposition;

/// How often the program was run.
#[derive(Debug, Default)]
pub struct DiskHookFigures {
    calls: AtomicU64,
    failures: AtomicU64,
}

impl DiskHookFigures {
    /// Counts a run.
    pub fn count_call(&self) {
        self.calls.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts one that failed.
    pub fn count_failure(&self) {
        self.failures.fetch_add(1, Ordering::Relaxed);
    }
}

/// Adds the runs of the program; none where there is no program.
pub(in crate::service) fn disk_hook(page: &mut Exposition, figures: Option<&DiskHookFigures>) {
    let of = |counter: fn(&DiskHookFigures) -> &AtomicU64| {
        figures.map_or(0, |figures| counter(figures).load(Ordering::Relaxed))
    };
    let help = "Runs of --disk-hook.";
    page.single("disk_hook_calls_total", "counter", help, of(|figures| &figures.calls));
    let help = "Runs of --disk-hook that failed, or were killed after a minute.";
    page.single("disk_hook_failures_total", "counter", help, of(|figures| &figures.failures));
}
