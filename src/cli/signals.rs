//! Signals, and the thread that waits for them.

use std::thread::{self, JoinHandle};

use log::info;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator;

use super::Failure;

/// The thread that acts on signals, until it is ended.
pub(crate) struct Signals {
    handle: iterator::Handle,
    thread: JoinHandle<()>,
}

impl Signals {
    /// From here on SIGTERM and SIGINT call `stop`, and SIGHUP calls `reload`, each on a thread of its own kind.
    ///
    /// # Errors
    /// When the system has no room for it.
    pub(crate) fn watch(
        stop: impl Fn() + Send + 'static,
        reload: impl Fn() + Send + 'static,
    ) -> Result<Self, Failure> {
        let failed = |e| Failure::start(format!("cannot wait for signals: {e}"));
        let mut signals = iterator::Signals::new([SIGTERM, SIGINT, SIGHUP]).map_err(failed)?;
        let handle = signals.handle();
        let act = move || {
            for signal in &mut signals {
                if signal == SIGHUP {
                    reload();
                } else {
                    info!("stopping: signal {signal}");
                    stop();
                }
            }
        };
        let thread = thread::Builder::new().name("signals".to_owned()).spawn(act).map_err(failed)?;
        Ok(Self { handle, thread })
    }

    /// Ends the thread.
    pub(crate) fn end(self) {
        self.handle.close();
        // It panics only where `stop` or `reload` did, which the panic itself has reported.
        let _ = self.thread.join();
    }
}
