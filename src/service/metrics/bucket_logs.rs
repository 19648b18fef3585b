//! The metrics of the logs of buckets.

use super::Exposition;
use crate::service::BucketLogFigures;

/// Adds the figures.
pub(in crate::service) fn bucket_logs(page: &mut Exposition, figures: &BucketLogFigures) {
    let help = "Objects with the records of buckets' logs that were stored.";
    page.single("bucket_log_objects_total", "counter", help, figures.delivered);
    let help = "Deliveries of buckets' logs that failed.";
    page.single("bucket_log_failures_total", "counter", help, figures.failures);
    let help = "Records of buckets' logs that were dropped, since too many waited.";
    page.single("bucket_log_lost_records_total", "counter", help, figures.lost_records);
    let help = "Bytes of buckets' logs that wait for their delivery.";
    page.single("bucket_log_waiting_bytes", "gauge", help, figures.waiting_bytes);
    let help = "Logs of buckets whose last delivery failed.";
    page.single("bucket_logs_failing", "gauge", help, figures.failing);
}
