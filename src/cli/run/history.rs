//! The thread that samples the figures of the server for their history.

use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::RecvTimeoutError;
use siltstone::base::{Clock as _, SystemClock};
use siltstone::service::Service;
use siltstone::store::Store;

use super::stoppable_thread::StoppableThread;
use crate::cli::error::CliError;

const MINUTE_MILLIS: u64 = 60_000;
/// The wait beyond the beginning of a minute: the clock of waits may go faster than that of the
/// wall.
const BEYOND: Duration = Duration::from_millis(50);

/// The thread.
pub(crate) struct HistoryThread(StoppableThread);

impl HistoryThread {
    /// Starts the thread, which goes on with the saved history.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(crate) fn start(store: Arc<Store>, service: Arc<Service>) -> Result<Self, CliError> {
        let thread = StoppableThread::of_store("history", store, move |_, stopped| {
            service.resume_history();
            while stopped.recv_timeout(until_next_minute()) == Err(RecvTimeoutError::Timeout) {
                if service.sample_history() {
                    service.save_history();
                }
            }
            service.sample_history();
            if service.has_unsaved_history() {
                service.save_history();
            }
        })?;
        Ok(Self(thread))
    }

    /// Ends the thread, after it has saved the history.
    pub(crate) fn end(self) {
        self.0.end();
    }
}

fn until_next_minute() -> Duration {
    let into_minute = SystemClock.now().as_millis() % MINUTE_MILLIS;
    Duration::from_millis(MINUTE_MILLIS - into_minute) + BEYOND
}
