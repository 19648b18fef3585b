//! The thread that delivers the logs of buckets.

use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{at, never, select};
use siltstone::service::{DueRecords, Service};
use siltstone::store::Store;

use super::stoppable_thread::StoppableThread;
use crate::cli::error::CliError;

/// The thread.
pub(crate) struct BucketLogThread(StoppableThread);

impl BucketLogThread {
    /// Starts the thread, which delivers what waits for `interval`.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(crate) fn start(
        store: Arc<Store>,
        service: Arc<Service>,
        interval: Duration,
    ) -> Result<Self, CliError> {
        let thread = StoppableThread::of_store("bucket-logs", store, move |_, stopped| {
            let changes = service.bucket_log_changes();
            loop {
                // An idle server has nothing to look for: the thread sleeps until a record comes.
                let next = service.deliver_bucket_logs(DueRecords::After(interval));
                let is_due = next.map_or_else(never, at);
                select! {
                    recv(stopped) -> _ => break,
                    recv(changes) -> _ => {}
                    recv(is_due) -> _ => {}
                }
            }
            service.deliver_bucket_logs(DueRecords::All);
        })?;
        Ok(Self(thread))
    }

    /// Ends the thread, after it has delivered everything.
    pub(crate) fn end(self) {
        self.0.end();
    }
}
