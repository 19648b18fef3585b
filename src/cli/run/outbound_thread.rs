//! Threads that work with another server, and whose end may not wait for it.

use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use log::{error, info};
use siltstone::store::Store;

use crate::cli::error::CliError;

/// A thread with a name.
pub(crate) struct OutboundThread {
    name: &'static str,
    /// `None` once the thread was asked to end.
    stop: Option<Sender<()>>,
    /// Is disconnected when the thread has ended.
    ended: Receiver<()>,
    thread: JoinHandle<()>,
}

impl OutboundThread {
    /// Starts the thread. `run` returns soon after its receiver is disconnected.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(crate) fn start(
        name: &'static str,
        store: Arc<Store>,
        run: impl FnOnce(&Store, &Receiver<()>) + Send + 'static,
    ) -> Result<Self, CliError> {
        let (stop, stopped) = bounded(0);
        let (ending, ended) = bounded(0);
        let run = move || {
            let _ending: Sender<()> = ending;
            let _watch = store.watch_thread(name);
            run(&store, &stopped);
        };
        let thread = thread::Builder::new().name(name.into()).spawn(run);
        let thread = thread.map_err(|e| CliError::start(format!("cannot start a thread: {e}")))?;
        Ok(Self { name, stop: Some(stop), ended, thread })
    }

    /// Asks the thread to end.
    pub(crate) fn stop(&mut self) {
        self.stop = None;
    }

    /// Ends the thread, unless it sends `unfinished` for longer than `within`: the next start sends
    /// that again.
    pub(crate) fn end(mut self, within: Duration, unfinished: &str) {
        self.stop();
        if self.ended.recv_timeout(within) == Err(RecvTimeoutError::Timeout) {
            info!("{unfinished} is still on its way: the next start sends it again");
        } else if self.thread.join().is_err() {
            error!("the {} thread panicked", self.name);
        }
    }
}
