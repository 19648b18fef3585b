//! Threads that are asked to stop, and then waited for: for the store, for signals and for
//! listeners.

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use log::{error, info};
use siltstone::store::Store;

use crate::cli::error::CliError;

/// A thread with a name and an end.
pub(crate) struct StoppableThread<T = ()> {
    name: &'static str,
    /// Asks the thread to stop; `None` once it was asked.
    stop: Option<Box<dyn FnOnce() + Send>>,
    /// Is disconnected when the thread has ended.
    ended: Receiver<()>,
    thread: JoinHandle<T>,
}

impl<T: Send + 'static> StoppableThread<T> {
    /// Starts a thread. `run` returns soon after `stop` was called.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(crate) fn start(
        name: &'static str,
        stop: impl FnOnce() + Send + 'static,
        run: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<Self> {
        let (ending, ended) = bounded(0);
        let thread = thread::Builder::new().name(name.into()).spawn(move || {
            // Dropped after `run`, also by a panic.
            let _ending: Sender<()> = ending;
            run()
        })?;
        Ok(Self { name, stop: Some(Box::new(stop)), ended, thread })
    }

    /// Asks the thread to stop.
    pub(crate) fn stop(&mut self) {
        if let Some(stop) = self.stop.take() {
            stop();
        }
    }

    /// Waits until the thread ends by itself or because it was asked to. `None` after a panic.
    pub(crate) fn join(self) -> Option<T> {
        let ended = self.thread.join();
        if ended.is_err() {
            error!("the {} thread panicked", self.name);
        }
        ended.ok()
    }

    /// Ends the thread, however long its last step takes. `None` after a panic.
    pub(crate) fn end(mut self) -> Option<T> {
        self.stop();
        self.join()
    }
}

impl StoppableThread {
    /// Starts a thread that works with the store, whose health shows its end by a panic. `run`
    /// returns soon after its receiver is disconnected.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(crate) fn of_store(
        name: &'static str,
        store: Arc<Store>,
        run: impl FnOnce(&Store, &Receiver<()>) + Send + 'static,
    ) -> Result<Self, CliError> {
        let (stop, stopped) = bounded(0);
        let started = Self::start(
            name,
            move || drop::<Sender<()>>(stop),
            move || {
                let _watch = store.watch_thread(name);
                run(&store, &stopped);
            },
        );
        started.map_err(|e| CliError::start(format!("cannot start a thread: {e}")))
    }

    /// Ends the thread, unless it sends `unfinished` for longer than `within`: another server may
    /// not answer, and the next start sends that again.
    pub(crate) fn end_within(mut self, within: Duration, unfinished: &str) {
        self.stop();
        if self.ended.recv_timeout(within) == Err(RecvTimeoutError::Timeout) {
            info!("{unfinished} is still on its way: the next start sends it again");
            return;
        }
        self.join();
    }
}
