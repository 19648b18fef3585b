//! What is to be done from time to time while the server runs.

use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crossbeam_channel::{RecvTimeoutError, Sender, bounded};
use log::{error, info};
use siltstone::store::Store;

use super::Failure;

/// How often there is a look for what has to be done.
const INTERVAL: Duration = Duration::from_secs(60);

/// The thread that keeps house until it is told to end.
pub(crate) struct Housekeeping {
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

impl Housekeeping {
    /// Begins at once: what has become due while the server was down is not put off.
    ///
    /// # Errors
    /// When no thread can be started.
    pub(crate) fn start(store: Arc<Store>) -> Result<Self, Failure> {
        let (stop, stopped) = bounded(0);
        let run = move || {
            loop {
                give_up_stale_uploads(&store);
                if stopped.recv_timeout(INTERVAL) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
            }
        };
        let thread = thread::Builder::new().name("housekeeping".into()).spawn(run);
        let thread = thread.map_err(|e| Failure::start(format!("cannot start a thread: {e}")))?;
        Ok(Self { stop, thread })
    }

    /// Ends the thread.
    pub(crate) fn end(self) {
        drop(self.stop);
        if self.thread.join().is_err() {
            error!("housekeeping ended by a panic");
        }
    }
}

fn give_up_stale_uploads(store: &Store) {
    match store.abort_stale_uploads() {
        Ok(0) => {}
        Ok(count) => info!("gave up {count} multipart uploads that were older than allowed"),
        Err(problem) => error!("multipart uploads that are older than allowed stay: {problem}"),
    }
}
