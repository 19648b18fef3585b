//! The threads of mirrors.

use std::sync::Arc;
use std::time::Duration;

use siltstone::mirror::Mirrors;
use siltstone::store::Store;

use super::stoppable_thread::StoppableThread;
use crate::cli::error::CliError;

/// The longest wait for the end of a mirror.
const END_MAX: Duration = Duration::from_secs(5);
/// The niceness of the threads of mirrors.
const NICENESS: i32 = 10;

/// The mirrors of a server, each with its threads.
pub(crate) struct MirrorThreads(Vec<StoppableThread>);

impl MirrorThreads {
    /// Starts them.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub(crate) fn start(store: &Arc<Store>, mirrors: &Mirrors) -> Result<Self, CliError> {
        let mut threads = Vec::new();
        for mirror in mirrors.iter() {
            let mirror = Arc::clone(mirror);
            threads.push(StoppableThread::of_store("mirror", Arc::clone(store), move |store, stopped| {
                yield_to_requests();
                mirror.run(store, stopped);
            })?);
        }
        Ok(Self(threads))
    }

    /// Ends them, and saves their positions.
    pub(crate) fn end(mut self) {
        // None waits for another one.
        for thread in &mut self.0 {
            thread.stop();
        }
        for thread in self.0 {
            thread.end_within(END_MAX, "an object of a mirror");
        }
    }
}

/// Lowers the priority of this thread and of those that it starts: requests go first where there
/// are too few processors for both.
fn yield_to_requests() {
    // Elsewhere the call concerns the whole process.
    if cfg!(target_os = "linux")
        && let Err(error) = rustix::process::setpriority_process(None, NICENESS)
    {
        log::info!("mirrors run at the priority of requests: {error}");
    }
}
