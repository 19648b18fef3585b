//! The thread that handles signals.

use log::info;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator;

use super::stoppable_thread::StoppableThread;
use crate::cli::error::CliError;

/// The signal thread.
pub(crate) struct Signals(StoppableThread);

impl Signals {
    /// Starts the thread: SIGTERM and SIGINT call `stop`, SIGHUP calls `reload`.
    ///
    /// # Errors
    /// The thread or the handlers cannot be installed.
    pub(crate) fn watch(
        stop: impl Fn() + Send + 'static,
        reload: impl Fn() + Send + 'static,
    ) -> Result<Self, CliError> {
        let mut signals =
            iterator::Signals::new([SIGTERM, SIGINT, SIGHUP]).map_err(|error| failed(&error))?;
        let handle = signals.handle();
        let thread = StoppableThread::start(
            "signals",
            move || handle.close(),
            move || {
                for signal in &mut signals {
                    if signal == SIGHUP {
                        reload();
                    } else {
                        info!("stopping: signal {signal}");
                        stop();
                    }
                }
            },
        );
        thread.map(Self).map_err(|error| failed(&error))
    }

    /// Ends the thread.
    pub(crate) fn end(self) {
        self.0.end();
    }
}

fn failed(error: &std::io::Error) -> CliError {
    CliError::start(format!("cannot wait for signals: {error}"))
}
