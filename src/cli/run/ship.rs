//! The threads that send the log, and heartbeats, to the remote.

use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError};
use log::{info, warn};
use siltstone::base::OsEntropy;
use siltstone::store::{ReadOnlyReason, Store, StoreError};

use super::stop::FencedStop;
use super::stoppable_thread::StoppableThread;
use crate::cli::error::CliError;

/// The longest wait for the end of the thread.
const END_MAX: Duration = Duration::from_secs(5);

/// The interval of tries to begin an epoch.
const BEGIN_INTERVAL: Duration = Duration::from_secs(1);

/// The interval of looks whether a heartbeat is due.
const SIGN_LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// The thread.
pub(crate) struct ShipThread(StoppableThread);

impl ShipThread {
    /// Starts the thread, which sends the log at that interval, and informs `fenced` when another
    /// host has taken over.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(crate) fn start(
        store: Arc<Store>,
        every: Duration,
        fenced: Option<FencedStop>,
    ) -> Result<Self, CliError> {
        let thread = StoppableThread::of_store("ship", store, move |store, stopped| {
            run(store, stopped, every);
            let is_fenced = store.health().read_only_reason == Some(ReadOnlyReason::Fenced);
            if let Some(fenced) = fenced.filter(|_| is_fenced) {
                fenced.stop();
            }
        })?;
        Ok(Self(thread))
    }

    /// Sends what was written last, and ends the thread.
    pub(crate) fn end(self) {
        self.0.end_within(END_MAX, "the end of the log");
    }
}

fn run(store: &Store, stopped: &Receiver<()>, every: Duration) {
    let mut pause = Duration::ZERO;
    let mut is_failing = false;
    loop {
        // The stop comes before a last step, which sends what was written until then.
        let is_last = stopped.recv_timeout(pause) != Err(RecvTimeoutError::Timeout);
        match store.ship_step(&OsEntropy) {
            Ok(()) if is_failing => {
                is_failing = false;
                info!("the log reaches the remote again");
            }
            Ok(()) => {}
            // Another host has taken over, or the disk failed: the latch has reported it.
            Err(StoreError::ReadOnly(_)) => return,
            // An outage of hours is one line of the log.
            Err(problem) if !is_failing => {
                is_failing = true;
                warn!("the log does not reach the remote, which is tried again every {every:?}: {problem}");
            }
            Err(_) => {}
        }
        if is_last {
            return;
        }
        // Before the epoch has begun, no writes are taken.
        let is_writing = store.ship_figures().is_some_and(|figures| figures.epoch > 0);
        pause = if is_writing { every } else { every.min(BEGIN_INTERVAL) };
    }
}

/// The thread that gives heartbeats. It has no other work, so that a long parcel or checkpoint
/// does not look like the end of the writer.
pub(crate) struct SignThread(StoppableThread);

impl SignThread {
    /// Starts the thread.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(crate) fn start(store: Arc<Store>) -> Result<Self, CliError> {
        StoppableThread::of_store("sign-of-life", store, give_signs).map(Self)
    }

    /// Ends the thread.
    pub(crate) fn end(self) {
        self.0.end_within(END_MAX, "a heartbeat");
    }
}

fn give_signs(store: &Store, stopped: &Receiver<()>) {
    while stopped.recv_timeout(SIGN_LOOK_INTERVAL) == Err(RecvTimeoutError::Timeout) {
        // A store that takes no writes any more gives none. The ship thread reports outages.
        if let Err(StoreError::ReadOnly(_)) = store.give_heartbeat_if_due() {
            return;
        }
    }
}
