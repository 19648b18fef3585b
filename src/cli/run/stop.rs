//! The ways to stop a running server: by a signal, and because another host has taken over.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use log::info;
use siltstone::http::Handle;

use super::service_manager::ServiceManager;

/// Stops the server.
#[derive(Clone)]
pub(crate) struct Stop {
    /// When it began.
    pub(crate) stopped: Arc<OnceLock<Instant>>,
    /// Its listeners.
    pub(crate) handles: Vec<Handle>,
    pub(crate) manager: ServiceManager,
}

impl Stop {
    pub(crate) fn stop(&self) {
        // Of several signals the first one counts: the time of the shutdown runs from there.
        self.stopped.get_or_init(Instant::now);
        self.manager.stopping();
        for handle in &self.handles {
            handle.shutdown();
        }
    }
}

/// Stops the server of a host that was taken over, so that its next start follows the other one.
pub(crate) struct FencedStop {
    pub(crate) stop: Stop,
    /// Whether it has stopped for that reason.
    pub(crate) is_fenced: Arc<AtomicBool>,
}

impl FencedStop {
    pub(crate) fn stop(&self) {
        info!("stopping: another host has taken over");
        // Before the stop, after which the process looks for the reason.
        self.is_fenced.store(true, Ordering::Relaxed);
        self.stop.stop();
    }
}
