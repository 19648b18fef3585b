//! The report of background threads that panic. Without one of them puts succeed for a while, until
//! the log or the dead bytes fill the disk.

use std::sync::Arc;
use std::thread;

use crate::store::Store;
use crate::store::shared::SharedStore;

/// Held by a background thread for as long as it works. [`crate::store::Health::stopped_thread`]
/// names the thread after a panic.
pub struct ThreadWatch {
    shared: Arc<SharedStore>,
    name: &'static str,
}

impl ThreadWatch {
    pub(in crate::store) fn new(shared: Arc<SharedStore>, name: &'static str) -> Self {
        Self { shared, name }
    }
}

impl Drop for ThreadWatch {
    fn drop(&mut self) {
        if thread::panicking() {
            log::error!("the thread `{}` panicked: restart the server, and report the panic", self.name);
            self.shared.thread_stopped(self.name);
        }
    }
}

impl Store {
    /// A watch for a thread that maintains this store. `name` is public.
    pub fn watch_thread(&self, name: &'static str) -> ThreadWatch {
        ThreadWatch::new(Arc::clone(&self.shared), name)
    }
}
