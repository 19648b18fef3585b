//! The metrics of the log on the remote: of its writer, and of a standby.

use std::time::Duration;

use super::Exposition;
use crate::base::Timestamp;
use crate::ops::{ShipFigures, StandbyFigures};

/// Adds the state of the log on the remote; zeros where it stays here.
pub(in crate::service) fn ship(page: &mut Exposition, figures: &ShipFigures) {
    let help = "The number of the epoch in which the log is sent to the remote; 0 without one.";
    page.single("ship_epoch", "gauge", help, figures.epoch);
    let help = "Groups of the log that the remote does not have.";
    page.single("ship_waiting_groups", "gauge", help, figures.waiting_groups);
    let help = "Time since the remote had the whole log.";
    page.single("ship_lag_seconds", "gauge", help, figures.lag.as_secs());
    let help = "The lag beyond which no writes are taken; 0 without a bound.";
    page.single("ship_lag_max_seconds", "gauge", help, figures.lag_max.as_secs());
    let help = "Bytes written to the log and to segments since the remote had the whole log.";
    page.single("ship_lag_bytes", "gauge", help, figures.lag_bytes);
    page.single("ship_parcels_total", "counter", "Pieces of the log that were sent.", figures.parcels);
    page.single("ship_roots_total", "counter", "Checkpoints that were sent.", figures.roots);
    page.single("ship_sent_bytes_total", "counter", "Bytes that were sent for the log.", figures.sent_bytes);
    let help = "Objects of the remote that were deleted because no restore within the window needs them.";
    page.single("ship_deleted_objects_total", "counter", help, figures.deleted_objects);
    let help = "Bytes of these objects.";
    page.single("ship_deleted_bytes_total", "counter", help, figures.deleted_bytes);
    let help = "Times that objects of the log were gone from the remote, so that a new checkpoint was sent.";
    page.single("ship_renewals_total", "counter", help, figures.renewals);
    let last_root = figures.last_root.map_or(0, Timestamp::as_secs);
    let oldest = figures.oldest.map_or(0, Timestamp::as_secs);
    let help =
        "Time of the newest checkpoint on the remote of this epoch, in seconds since 1970; 0 without one.";
    page.single("ship_last_root_timestamp_seconds", "gauge", help, last_root);
    let help =
        "Oldest time that a restore from the remote reaches, in seconds since 1970; 0 while it is not known.";
    page.single("ship_oldest_restore_timestamp_seconds", "gauge", help, oldest);
}

/// Adds the state of a standby, under the names that a writer has for the same log.
pub(in crate::service) fn standby(page: &mut Exposition, figures: &StandbyFigures, lag: Duration) {
    let help = "The number of the epoch that this standby follows; 0 while it is being filled.";
    page.single("ship_epoch", "gauge", help, figures.epoch);
    let help = "Groups that this standby lacks, as of the last heartbeat of the writer.";
    page.single("ship_waiting_groups", "gauge", help, figures.waiting_groups);
    let help = "Time since this standby had the whole log on the remote.";
    page.single("ship_lag_seconds", "gauge", help, lag.as_secs());
    let help = "Bytes of the log on the remote that this standby is known to lack.";
    page.single("ship_lag_bytes", "gauge", help, figures.lag_bytes);
    let help = "Pieces of the log that this standby applied.";
    page.single("ship_parcels_total", "counter", help, figures.parcels);
    let help = "Bytes that were read from the remote.";
    page.single("remote_fetched_bytes_total", "counter", help, figures.bytes);
}
