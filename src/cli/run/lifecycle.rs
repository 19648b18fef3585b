//! The thread that sweeps buckets with lifecycle rules.

use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, TryRecvError};
use log::{error, info, warn};
use siltstone::base::{Clock as _, SystemClock};
use siltstone::ops::{ExpiredItem, LifecycleFigures, LifecycleSweeper, SweepTotals};
use siltstone::service::{AccessLog as _, AccessRecord};
use siltstone::store::Store;

use super::stoppable_thread::StoppableThread;
use crate::cli::error::CliError;
use crate::cli::logs::access_log::AccessLogFile;

/// The interval of checks for buckets that are due: a sweep follows a change of rules within it.
const CHECK_INTERVAL: Duration = Duration::from_secs(30);

/// The thread.
pub(crate) struct LifecycleThread(StoppableThread);

impl LifecycleThread {
    /// Starts the thread, which sweeps at once. Each expiry becomes a line of the access log, and
    /// is counted in `figures`.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(crate) fn start(
        store: Arc<Store>,
        log: Option<Arc<AccessLogFile>>,
        figures: Arc<LifecycleFigures>,
    ) -> Result<Self, CliError> {
        let sweeper = LifecycleSweeper::new(Arc::clone(&store), Arc::new(SystemClock));
        let thread = StoppableThread::of_store("lifecycle", store, move |_, stopped| {
            run(sweeper, stopped, log.as_deref(), &figures);
        })?;
        Ok(Self(thread))
    }

    /// Ends the thread after the group that it commits.
    pub(crate) fn end(self) {
        self.0.end();
    }
}

fn run(
    mut sweeper: LifecycleSweeper,
    stopped: &Receiver<()>,
    log: Option<&AccessLogFile>,
    figures: &LifecycleFigures,
) {
    loop {
        // Asked between two groups of a sweep, which may have millions of versions.
        let swept =
            sweeper.sweep_due(&|| stopped.try_recv() == Err(TryRecvError::Disconnected), &mut |expired| {
                figures.count(expired);
                record(expired, log);
            });
        if swept.is_ok() {
            figures.swept(SystemClock.now(), sweeper.next_sweeps());
        }
        if let Ok(SweepTotals { without_room: waiting @ 1.., .. }) = swept {
            warn!(
                "lifecycle: the disk is full: {waiting} expiries and transitions wait for space, the others go on"
            );
        }
        match swept {
            Ok(totals) if totals != SweepTotals::default() => info!(
                "lifecycle: swept {} buckets; {} versions expired with {} bytes, {} became COLD, {} uploads were aborted, {} versions are locked",
                totals.buckets, totals.versions, totals.bytes, totals.moved, totals.uploads, totals.locked
            ),
            Ok(_) => {}
            Err(problem) => error!("the lifecycle sweep failed: {problem}"),
        }
        if stopped.recv_timeout(CHECK_INTERVAL) == Err(RecvTimeoutError::Disconnected) {
            return;
        }
    }
}

/// Records an expiry, by the names of S3 for its operations ("Amazon S3 server access log format",
/// lifecycle).
fn record(expired: &ExpiredItem<'_>, log: Option<&AccessLogFile>) {
    let ExpiredItem { bucket, key, version, rule, is_hidden, moved_to, bytes: _ } = *expired;
    let operation = match version {
        None => "S3.DELETE.UPLOAD",
        Some(_) if moved_to.is_some() => "S3.TRANSITION.OBJECT",
        Some(_) if is_hidden => "S3.CREATE.DELETEMARKER",
        Some(_) => "S3.EXPIRE.OBJECT",
    };
    let Some(log) = log else {
        let version = version.unwrap_or("-");
        return info!(target: "access", "{operation} /{bucket}/{key} version {version} by the rule {rule:?}");
    };
    let version = version.map(|version| format!("versionId={version}&")).unwrap_or_default();
    log.record(&AccessRecord {
        time: SystemClock.now(),
        id: "-",
        peer: None,
        user: None,
        operation,
        method: "",
        path: &format!("/{bucket}/{key}"),
        query: &format!("{version}lifecycle-rule={rule}"),
        status: 204,
        error: None,
        received: 0,
        sent: 0,
        took: Duration::ZERO,
        secure: false,
        agent: "",
    });
}
