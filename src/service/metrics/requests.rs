//! Counters of requests since the start. Threads count without a lock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::Exposition;
use crate::base::DurationHistogram;
use crate::s3::Operation;

/// Names of requests without an operation; the last one stands for all that are in no table, such
/// as calls of STS and IAM.
const OTHERS: [&str; 4] = ["None", "Preflight", "Website", "Other"];
/// Classes of status: 1xx to 5xx, and others.
const CLASSES: usize = 6;
const CLASS_OF_SERVER_ERRORS: usize = 5;
/// Microseconds of a second.
const MICRO: f64 = 1e6;

/// The counters, which only increase.
#[derive(Debug)]
pub(in crate::service) struct Metrics {
    /// By operation, sorted by its name.
    requests: Vec<(&'static str, RequestCounters)>,
    received_bytes: AtomicU64,
    sent_bytes: AtomicU64,
    queue_waits: DurationHistogram,
}

/// The requests of all operations, since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::service) struct RequestTotals {
    pub(in crate::service) requests: u64,
    /// Those answered with a status of 500 or more.
    pub(in crate::service) errors: u64,
    pub(in crate::service) received: u64,
    pub(in crate::service) sent: u64,
}

impl RequestTotals {
    /// What has come since `before`.
    pub(in crate::service) fn beyond(&self, before: &Self) -> Self {
        Self {
            requests: self.requests.saturating_sub(before.requests),
            errors: self.errors.saturating_sub(before.errors),
            received: self.received.saturating_sub(before.received),
            sent: self.sent.saturating_sub(before.sent),
        }
    }
}

/// Requests of one operation.
#[derive(Debug, Default)]
struct RequestCounters {
    by_class: [AtomicU64; CLASSES],
    durations: DurationHistogram,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut names: Vec<_> =
            Operation::TABLE.iter().map(|row| row.operation.as_str()).chain(OTHERS).collect();
        names.sort_unstable();
        names.dedup();
        let requests = names.into_iter().map(|name| (name, RequestCounters::default())).collect();
        Self {
            requests,
            received_bytes: AtomicU64::new(0),
            sent_bytes: AtomicU64::new(0),
            queue_waits: DurationHistogram::default(),
        }
    }
}

impl Metrics {
    /// Counts one request when the head of its response is known.
    pub(in crate::service) fn count(
        &self,
        operation: &'static str,
        status: u16,
        took: Duration,
        received_bytes: u64,
        sent_bytes: u64,
    ) {
        self.received_bytes.fetch_add(received_bytes, Ordering::Relaxed);
        self.sent_bytes.fetch_add(sent_bytes, Ordering::Relaxed);
        let counters = self.of(operation);
        let class = usize::from(status / 100).min(CLASSES) % CLASSES;
        counters.by_class[class].fetch_add(1, Ordering::Relaxed);
        counters.durations.count_duration(took);
    }

    /// Counts the wait of a request for a worker.
    pub(in crate::service) fn count_queue_wait(&self, waited: Duration) {
        self.queue_waits.count_duration(waited);
    }

    /// The requests so far, health checks among them.
    pub(in crate::service) fn totals(&self) -> RequestTotals {
        let mut totals = RequestTotals {
            received: self.received_bytes.load(Ordering::Relaxed),
            sent: self.sent_bytes.load(Ordering::Relaxed),
            ..RequestTotals::default()
        };
        for (_, counters) in &self.requests {
            for (class, count) in counters.by_class.iter().enumerate() {
                let count = count.load(Ordering::Relaxed);
                totals.requests += count;
                if class == CLASS_OF_SERVER_ERRORS {
                    totals.errors += count;
                }
            }
        }
        totals
    }

    fn of(&self, operation: &str) -> &RequestCounters {
        let at = |name: &str| self.requests.binary_search_by_key(&name, |(known, _)| known).ok();
        let at = at(operation).or_else(|| at("Other"));
        &self.requests[at.expect("the table has a row for others")].1
    }

    /// Adds all counters. Operations without a request are left out.
    pub(in crate::service) fn show(&self, page: &mut Exposition) {
        let all =
            self.requests.iter().map(|(name, counters)| (*name, counters, counters.durations.snapshot()));
        let used: Vec<_> = all.filter(|(_, _, durations)| durations.count > 0).collect();
        page.family("requests_total", "counter", "Requests answered, by operation and class of status.");
        for (operation, counters, _) in &used {
            for (class, count) in counters.by_class.iter().enumerate() {
                let count = count.load(Ordering::Relaxed);
                if count > 0 {
                    let labels = [("operation", *operation), ("status", &*format!("{class}xx"))];
                    page.sample("requests_total", &labels, count);
                }
            }
        }
        let name = "request_duration_seconds";
        page.family(
            name,
            "histogram",
            "Time from the head of a request to the head of its response, by operation.",
        );
        for (operation, _, durations) in &used {
            page.histogram(name, &[("operation", operation)], durations, MICRO);
        }
        let help = "Time that a request, or the rest of its response, waited in the queue for a worker.";
        page.family("queue_wait_seconds", "histogram", help);
        page.histogram("queue_wait_seconds", &[], &self.queue_waits.snapshot(), MICRO);
        for (name, help, value) in [
            ("received_bytes_total", "Bytes of request bodies.", &self.received_bytes),
            ("sent_bytes_total", "Bytes of response bodies, as announced.", &self.sent_bytes),
        ] {
            page.single(name, "counter", help, value.load(Ordering::Relaxed));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_by_operation_and_class() {
        let metrics = Metrics::default();
        metrics.count("GetObject", 200, Duration::from_millis(1500), 0, 10);
        metrics.count("GetObject", 206, Duration::ZERO, 0, 5);
        metrics.count("PutObject", 403, Duration::ZERO, 7, 100);
        metrics.count("Unheard", 999, Duration::ZERO, 0, 0);
        metrics.count_queue_wait(Duration::from_millis(20));
        metrics.count("GetObject", 507, Duration::ZERO, 0, 0);
        let totals = metrics.totals();
        let expected = RequestTotals { requests: 5, errors: 1, received: 7, sent: 115 };
        assert_eq!((totals, totals.beyond(&totals)), (expected, RequestTotals::default()));
        let mut page = Exposition::default();
        metrics.show(&mut page);
        let page = String::from_utf8(page.finish()).unwrap();
        for line in [
            "siltstone_requests_total{operation=\"GetObject\",status=\"2xx\"} 2",
            "siltstone_requests_total{operation=\"PutObject\",status=\"4xx\"} 1",
            "siltstone_requests_total{operation=\"Other\",status=\"0xx\"} 1",
            "siltstone_request_duration_seconds_bucket{operation=\"GetObject\",le=\"1\"} 2",
            "siltstone_request_duration_seconds_bucket{operation=\"GetObject\",le=\"2.5\"} 3",
            "siltstone_request_duration_seconds_sum{operation=\"GetObject\"} 1.5",
            "siltstone_request_duration_seconds_count{operation=\"GetObject\"} 3",
            "siltstone_queue_wait_seconds_bucket{le=\"0.01\"} 0",
            "siltstone_queue_wait_seconds_bucket{le=\"0.025\"} 1",
            "siltstone_queue_wait_seconds_sum 0.02",
            "siltstone_received_bytes_total 7",
            "siltstone_sent_bytes_total 115",
            "# TYPE siltstone_requests_total counter",
        ] {
            assert!(page.lines().any(|l| l == line), "{line} is missing from\n{page}");
        }
        assert!(!page.contains("DeleteObject"), "unused operations are left out");
    }
}
