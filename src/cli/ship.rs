//! The thread that sends the log to the remote.

use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use log::{error, info, warn};
use siltstone::base::OsEntropy;
use siltstone::store::{Store, StoreError};

use super::CliError;

/// The longest wait for the end of the thread.
const END_MAX: Duration = Duration::from_secs(5);

/// The thread.
pub(crate) struct ShipThread {
    stop: Sender<()>,
    /// Is disconnected when the thread has ended.
    ended: Receiver<()>,
    thread: JoinHandle<()>,
}

impl ShipThread {
    /// Starts the thread, which sends the log at that interval.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(crate) fn start(store: Arc<Store>, every: Duration) -> Result<Self, CliError> {
        let (stop, stopped) = bounded(0);
        let (ending, ended) = bounded(0);
        let run = move || {
            let _ending: Sender<()> = ending;
            let _watch = store.watch_thread("ship");
            run(&store, &stopped, every);
        };
        let thread = thread::Builder::new().name("ship".into()).spawn(run);
        let thread = thread.map_err(|e| CliError::start(format!("cannot start a thread: {e}")))?;
        Ok(Self { stop, ended, thread })
    }

    /// Sends what was written last, and ends the thread.
    pub(crate) fn end(self) {
        drop(self.stop);
        if self.ended.recv_timeout(END_MAX) == Err(RecvTimeoutError::Timeout) {
            info!("the end of the log is on its way to the remote: the next start sends it");
        } else if self.thread.join().is_err() {
            error!("the ship thread panicked");
        }
    }
}

fn run(store: &Store, stopped: &Receiver<()>, every: Duration) {
    let (mut pause, mut is_failing) = (Duration::ZERO, false);
    loop {
        let is_last = stopped.recv_timeout(pause) != Err(RecvTimeoutError::Timeout);
        match store.ship_step(&OsEntropy) {
            Ok(()) if is_failing => {
                is_failing = false;
                info!("the log reaches the remote again");
            }
            Ok(()) => {}
            // Another host has taken over, or the disk failed: the latch has told it.
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
        pause = every;
    }
}
