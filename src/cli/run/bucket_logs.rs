//! The thread that delivers the logs of buckets.

use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::RecvTimeoutError;
use siltstone::service::{DueRecords, Service};
use siltstone::store::Store;

use super::stoppable_thread::StoppableThread;
use crate::cli::error::CliError;

/// How often it looks for what is due: as soon as a log has enough for an object.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

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
            while stopped.recv_timeout(CHECK_INTERVAL) == Err(RecvTimeoutError::Timeout) {
                service.deliver_bucket_logs(DueRecords::After(interval));
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
