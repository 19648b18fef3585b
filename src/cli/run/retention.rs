//! The thread that deletes on the remote what no restore within the window needs.

use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError};
use log::warn;
use siltstone::store::Store;

use super::stoppable_thread::StoppableThread;
use crate::cli::error::CliError;

/// The pause after a call that has left work.
const BUSY_PAUSE: Duration = Duration::from_secs(1);
/// The pause after other calls.
const IDLE_PAUSE: Duration = Duration::from_secs(60);
/// The longest wait for the end of the thread.
const END_MAX: Duration = Duration::from_secs(5);

/// The thread.
pub(crate) struct RetentionThread(StoppableThread);

impl RetentionThread {
    /// Starts the thread.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(crate) fn start(store: Arc<Store>) -> Result<Self, CliError> {
        StoppableThread::of_store("retention", store, run).map(Self)
    }

    /// Ends the thread.
    pub(crate) fn end(self) {
        self.0.end_within(END_MAX, "the end of a delete");
    }
}

fn run(store: &Store, stopped: &Receiver<()>) {
    let mut pause = BUSY_PAUSE;
    let mut is_failing = false;
    while stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
        match store.cleanup_step() {
            Ok(done) => {
                is_failing = false;
                pause = if done.more { BUSY_PAUSE } else { IDLE_PAUSE };
            }
            Err(problem) => {
                // An outage of hours is one line of the log.
                if !is_failing {
                    warn!(
                        "nothing is deleted on the remote, which is tried again every {IDLE_PAUSE:?}: {problem}"
                    );
                }
                is_failing = true;
                pause = IDLE_PAUSE;
            }
        }
    }
}
