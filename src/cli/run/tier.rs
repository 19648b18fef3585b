//! The thread that sends segments to the remote and gives their local bytes back. It also lists
//! their copies every day, and probes the remote every week.

use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError};
use log::{error, info, warn};
use siltstone::base::OsEntropy;
use siltstone::store::{RemoteProbed, Store, StoreError};

use super::stoppable_thread::StoppableThread;
use crate::cli::error::CliError;

/// The interval of looks for segments to send, and for bytes to give back.
const STEP_INTERVAL: Duration = Duration::from_secs(1);
/// The interval while the remote does not answer.
const RETRY_INTERVAL: Duration = Duration::from_secs(2);

/// The longest wait for the end of the thread.
const END_MAX: Duration = Duration::from_secs(2);

/// The thread.
pub(crate) struct TierThread(StoppableThread);

impl TierThread {
    /// Starts the thread.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(crate) fn start(store: Arc<Store>) -> Result<Self, CliError> {
        let thread = StoppableThread::of_store("tier", store, |store, stopped| {
            TierLoop { store, stopped, failing: None }.run();
        })?;
        Ok(Self(thread))
    }

    /// Ends the thread, unless it sends a segment for longer: the next start sends that again.
    pub(crate) fn end(self) {
        self.0.end_within(END_MAX, "a segment");
    }
}

/// Logs the outcome of a probe.
fn tell(probed: &RemoteProbed) {
    match &probed.problem {
        None => info!("the remote was probed, and is fit for all modes"),
        Some(problem) if probed.keeps_objects => {
            warn!("the remote is not fit for --takeover-after, so that no standby may use it: {problem}");
        }
        Some(problem) => error!("the remote does not keep what is sent there: {problem}"),
    }
}

struct TierLoop<'s> {
    store: &'s Store,
    stopped: &'s Receiver<()>,
    /// The error that was logged last, while it lasts.
    failing: Option<String>,
}

impl TierLoop<'_> {
    fn run(&mut self) {
        let mut pause = Duration::ZERO;
        while self.stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
            // Copies that are gone come first: what is given back needs them.
            let inspected =
                self.store.inspect_copies().and_then(|more| self.store.inspect_log().map(|()| more));
            pause = match self.store.tier_step(&OsEntropy).and_then(|done| Ok((done, inspected?))) {
                Ok((done, more)) => self.succeeded(done.more || more),
                Err(problem) => self.failed(&problem),
            };
            if let Some(probed) = &self.store.probe_remote(&OsEntropy) {
                tell(probed);
            }
        }
    }

    fn succeeded(&mut self, more: bool) -> Duration {
        if self.failing.take().is_some() {
            info!("the remote answers again");
        }
        if more { Duration::ZERO } else { STEP_INTERVAL }
    }

    /// An outage of hours is one line of the log.
    fn failed(&mut self, problem: &StoreError) -> Duration {
        let why = problem.to_string();
        if self.failing.is_none() {
            warn!("segments stay on this disk for now, which is tried again every {RETRY_INTERVAL:?}: {why}");
        }
        self.failing = Some(why);
        RETRY_INTERVAL
    }
}
