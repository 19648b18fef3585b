//! Counters of requests since the start.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The counters, which only increase.
#[derive(Debug, Default)]
pub(super) struct Metrics {
    /// By operation and class of status.
    requests: Mutex<BTreeMap<(&'static str, u16), RequestCounts>>,
    received_bytes: AtomicU64,
    sent_bytes: AtomicU64,
}

/// Requests of one kind.
#[derive(Debug, Default, Clone, Copy)]
struct RequestCounts {
    count: u64,
    /// The sum of their times.
    time: Duration,
}

impl Metrics {
    /// Counts one request after its response.
    pub(super) fn count(
        &self,
        operation: &'static str,
        status: u16,
        took: Duration,
        received_bytes: u64,
        sent_bytes: u64,
    ) {
        self.received_bytes.fetch_add(received_bytes, Ordering::Relaxed);
        self.sent_bytes.fetch_add(sent_bytes, Ordering::Relaxed);
        let mut requests = self.requests.lock().expect("nobody panics while counting");
        let counts = requests.entry((operation, status / 100)).or_default();
        counts.count += 1;
        counts.time += took;
    }

    /// All counters in the text format of Prometheus.
    pub(super) fn exposition(&self) -> String {
        let requests = self.requests.lock().expect("nobody panics while counting").clone();
        let mut page = family("requests_total", "Requests answered, by operation and class of status.");
        for ((operation, class), RequestCounts { count, .. }) in &requests {
            page += &format!(
                "siltstone_requests_total{{operation=\"{operation}\",status=\"{class}xx\"}} {count}\n"
            );
        }
        page += &family("request_seconds_total", "Time from the head of a request to its answer, in all.");
        for ((operation, class), RequestCounts { time, .. }) in &requests {
            page += &format!(
                "siltstone_request_seconds_total{{operation=\"{operation}\",status=\"{class}xx\"}} {:.3}\n",
                time.as_secs_f64()
            );
        }
        let bytes = [
            ("received_bytes_total", "Bytes of request bodies.", &self.received_bytes),
            ("sent_bytes_total", "Bytes of response bodies, as announced.", &self.sent_bytes),
        ];
        for (name, help, value) in bytes {
            page += &family(name, help);
            page += &format!("siltstone_{name} {}\n", value.load(Ordering::Relaxed));
        }
        page
    }
}

fn family(name: &str, help: &str) -> String {
    format!("# HELP siltstone_{name} {help}\n# TYPE siltstone_{name} counter\n")
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
        let page = metrics.exposition();
        for line in [
            "siltstone_requests_total{operation=\"GetObject\",status=\"2xx\"} 2",
            "siltstone_requests_total{operation=\"PutObject\",status=\"4xx\"} 1",
            "siltstone_request_seconds_total{operation=\"GetObject\",status=\"2xx\"} 1.500",
            "siltstone_received_bytes_total 7",
            "siltstone_sent_bytes_total 115",
            "# TYPE siltstone_requests_total counter",
        ] {
            assert!(page.lines().any(|l| l == line), "{line} is missing from\n{page}");
        }
    }
}
