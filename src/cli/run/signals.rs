//! The thread that handles signals.

use std::thread::{self, JoinHandle};

use log::info;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator;

use crate::cli::error::CliError;

/// The signal thread.
pub(crate) struct Signals {
    handle: iterator::Handle,
    thread: JoinHandle<()>,
}

impl Signals {
    /// Starts the thread: SIGTERM and SIGINT call `stop`, SIGHUP calls `reload`.
    ///
    /// # Errors
    /// The thread or the handlers cannot be installed.
    pub(crate) fn watch(
        stop: impl Fn() + Send + 'static,
        reload: impl Fn() + Send + 'static,
    ) -> Result<Self, CliError> {
        let failed = |e| CliError::start(format!("cannot wait for signals: {e}"));
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
        // It panics only if `stop` or `reload` did, which the panic itself has reported.
        let _ = self.thread.join();
    }
}
