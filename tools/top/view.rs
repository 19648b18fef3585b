//! The differences between two pages of metrics.

use std::collections::BTreeMap;
use std::time::Duration;

use super::page::{MetricsPage, Sample};

/// Requests that take longer than so many seconds are slow. It is a bound of the histogram.
const SLOW_SECONDS: f64 = 1.0;

/// The state of a server, and its work in an interval. Rates are per second, latencies in seconds.
#[derive(Debug, Default)]
pub(super) struct ServerView {
    pub(super) version: String,
    /// The operations with requests in the interval, the most frequent first.
    pub(super) operations: Vec<OperationRate>,
    /// The wait for a worker.
    pub(super) queue_wait: LatencyQuantiles,
    pub(super) received_bytes: f64,
    pub(super) sent_bytes: f64,
    pub(super) commit_groups: f64,
    pub(super) mutations: f64,
    pub(super) commits: LatencyQuantiles,
    pub(super) log_syncs: LatencyQuantiles,
    pub(super) segment_syncs: LatencyQuantiles,
    /// The figures that are shown as they are, by the name of their metric.
    pub(super) gauges: BTreeMap<&'static str, f64>,
    /// The rates of counters, by the name of their metric.
    pub(super) rates: BTreeMap<&'static str, f64>,
    /// The largest buckets: name, bytes, objects and versions.
    pub(super) buckets: Vec<(String, f64, f64)>,
}

/// The requests of an operation.
#[derive(Debug)]
pub(super) struct OperationRate {
    pub(super) name: String,
    pub(super) rate: f64,
    /// Answers with 4xx.
    pub(super) refused: f64,
    /// Answers with 5xx.
    pub(super) failed: f64,
    pub(super) slow: f64,
    pub(super) latency: LatencyQuantiles,
}

/// Quantiles of a histogram; `None` without values.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub(super) struct LatencyQuantiles {
    pub(super) median: Option<f64>,
    pub(super) p99: Option<f64>,
}

pub(super) const GAUGES: [&str; 13] = [
    "disk_free_bytes",
    "disk_size_bytes",
    "memory_used_bytes",
    "memory_max_bytes",
    "memory_index_bytes",
    "memory_index_max_bytes",
    "store_buckets",
    "store_versions",
    "store_live_bytes",
    "store_segment_bytes",
    "store_read_only",
    "store_damaged_places",
    "scrub_bad_extents",
];
pub(super) const RATES: [&str; 6] = [
    "written_bytes_total",
    "put_bytes_total",
    "store_reclaimed_bytes_total",
    "store_moved_bytes_total",
    "scrub_bytes_total",
    "memory_refused_total",
];

impl ServerView {
    /// The view at the second page, `interval` after the first, with so many of the largest
    /// buckets.
    pub(super) fn between(
        before: &MetricsPage,
        after: &MetricsPage,
        interval: Duration,
        buckets: usize,
    ) -> Self {
        let change = PageChange { before, after, seconds: interval.as_secs_f64().max(1e-3) };
        let quantiles = |name: &str| LatencyQuantiles::of(&change.histogram(name, None));
        let version = after.samples("build_info").find_map(|sample| sample.label("version"));
        let gauges = GAUGES.into_iter().filter_map(|name| Some((name, after.value(name)?)));
        Self {
            version: version.unwrap_or_default().to_owned(),
            operations: change.operations(),
            queue_wait: quantiles("queue_wait_seconds"),
            received_bytes: change.rate("received_bytes_total", |_| true),
            sent_bytes: change.rate("sent_bytes_total", |_| true),
            commit_groups: change.rate("commit_duration_seconds_count", |_| true),
            mutations: change.rate("commit_group_mutations_sum", |_| true),
            commits: quantiles("commit_duration_seconds"),
            log_syncs: quantiles("log_sync_duration_seconds"),
            segment_syncs: quantiles("segment_sync_duration_seconds"),
            gauges: gauges.collect(),
            rates: RATES.into_iter().map(|name| (name, change.rate(name, |_| true))).collect(),
            buckets: largest_buckets(after, buckets),
        }
    }

    /// Bytes of segments on the disk for each live byte.
    pub(super) fn space_amplification(&self) -> Option<f64> {
        let live = self.gauges.get("store_live_bytes").filter(|live| **live > 0.0)?;
        Some(self.gauges.get("store_segment_bytes")? / live)
    }
}

fn largest_buckets(page: &MetricsPage, count: usize) -> Vec<(String, f64, f64)> {
    let mut buckets: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
    for sample in page.samples("bucket_bytes") {
        buckets.entry(sample.label("bucket").unwrap_or_default()).or_default().0 += sample.value;
    }
    for sample in page.samples("bucket_objects").filter(|sample| sample.label("kind") != Some("uploads")) {
        buckets.entry(sample.label("bucket").unwrap_or_default()).or_default().1 += sample.value;
    }
    let named = buckets.into_iter().map(|(name, (bytes, objects))| (name.to_owned(), bytes, objects));
    let mut buckets: Vec<_> = named.collect();
    buckets.sort_by(|one, other| other.1.total_cmp(&one.1));
    buckets.truncate(count);
    buckets
}

/// Two pages, the second some seconds after the first.
struct PageChange<'p> {
    before: &'p MetricsPage,
    after: &'p MetricsPage,
    seconds: f64,
}

impl PageChange<'_> {
    /// The growth of a counter. One that fell was reset by a start of the server.
    fn growth(&self, name: &str, of: impl Fn(&Sample) -> bool) -> f64 {
        let sum = |page: &MetricsPage| -> f64 {
            page.samples(name).filter(|sample| of(sample)).map(|sample| sample.value).sum()
        };
        let before = sum(self.before);
        let after = sum(self.after);
        if after < before { after } else { after - before }
    }

    fn rate(&self, name: &str, of: impl Fn(&Sample) -> bool) -> f64 {
        self.growth(name, of) / self.seconds
    }

    /// The upper bounds of a histogram, and the values up to each that came in the interval.
    fn histogram(&self, name: &str, operation: Option<&str>) -> Vec<(f64, f64)> {
        let bucket = format!("{name}_bucket");
        let of = |sample: &Sample| operation.is_none() || sample.label("operation") == operation;
        let bounds = self.after.samples(&bucket).filter(|sample| of(sample));
        let mut histogram = Vec::new();
        for le in bounds.filter_map(|sample| sample.label("le")) {
            let Ok(bound) = le.parse() else { continue };
            let grown = self.growth(&bucket, |sample| of(sample) && sample.label("le") == Some(le));
            histogram.push((bound, grown));
        }
        histogram
    }

    fn operations(&self) -> Vec<OperationRate> {
        let count = "request_duration_seconds_count";
        let names = self.after.samples(count).filter_map(|sample| sample.label("operation"));
        let operations = names.map(|name| self.operation(name)).filter(|operation| operation.rate > 0.0);
        let mut operations: Vec<_> = operations.collect();
        operations.sort_by(|one, other| other.rate.total_cmp(&one.rate));
        operations
    }

    fn operation(&self, name: &str) -> OperationRate {
        let rate_of = |class: &str| {
            self.rate("requests_total", |sample| {
                sample.label("operation") == Some(name) && sample.label("status") == Some(class)
            })
        };
        let durations = self.histogram("request_duration_seconds", Some(name));
        let all = durations.last().map_or(0.0, |(_, count)| *count);
        let quick =
            durations.iter().find(|(bound, _)| *bound >= SLOW_SECONDS).map_or(0.0, |(_, count)| *count);
        OperationRate {
            name: name.to_owned(),
            rate: all / self.seconds,
            refused: rate_of("4xx"),
            failed: rate_of("5xx"),
            slow: (all - quick) / self.seconds,
            latency: LatencyQuantiles::of(&durations),
        }
    }
}

impl LatencyQuantiles {
    fn of(histogram: &[(f64, f64)]) -> Self {
        Self { median: quantile(histogram, 0.5), p99: quantile(histogram, 0.99) }
    }
}

/// A quantile of a cumulative histogram, interpolated within its bucket as `histogram_quantile` of
/// Prometheus does. Values beyond the last finite bound count as that bound.
fn quantile(histogram: &[(f64, f64)], share: f64) -> Option<f64> {
    let total = histogram.last().map(|(_, count)| *count).filter(|count| *count > 0.0)?;
    let rank = share * total;
    let at = histogram.iter().position(|(_, count)| *count >= rank)?;
    let (lower, below) = at.checked_sub(1).map_or((0.0, 0.0), |at| histogram[at]);
    let (upper, up_to) = histogram[at];
    if upper.is_infinite() || up_to <= below {
        return Some(if upper.is_infinite() { lower } else { upper });
    }
    Some(lower + (upper - lower) * (rank - below) / (up_to - below))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(lines: &[&str]) -> MetricsPage {
        MetricsPage::parse(&lines.iter().map(|line| format!("siltstone_{line}\n")).collect::<String>())
            .unwrap()
    }

    #[test]
    fn quantiles_are_interpolated_within_their_bucket() {
        let histogram = [(1.0, 0.0), (2.0, 50.0), (4.0, 100.0), (f64::INFINITY, 100.0)];
        assert_eq!(quantile(&histogram, 0.5), Some(2.0));
        assert_eq!(quantile(&histogram, 0.75), Some(3.0));
        assert_eq!(quantile(&[(1.0, 1.0), (f64::INFINITY, 100.0)], 0.99), Some(1.0), "beyond the last bound");
        assert_eq!(quantile(&[(1.0, 0.0), (f64::INFINITY, 0.0)], 0.5), None);
        assert_eq!(quantile(&[], 0.5), None);
    }

    #[test]
    fn requests_are_told_by_the_growth_of_their_counters() {
        let name = "request_duration_seconds";
        let at = |get: [u32; 3], put: u32, failed: u32| {
            let lines = [
                format!("requests_total{{operation=\"Get\",status=\"5xx\"}} {failed}"),
                format!("{name}_bucket{{operation=\"Get\",le=\"0.5\"}} {}", get[0]),
                format!("{name}_bucket{{operation=\"Get\",le=\"1\"}} {}", get[1]),
                format!("{name}_bucket{{operation=\"Get\",le=\"+Inf\"}} {}", get[2]),
                format!("{name}_count{{operation=\"Get\"}} {}", get[2]),
                format!("{name}_bucket{{operation=\"Put\",le=\"+Inf\"}} {put}"),
                format!("{name}_count{{operation=\"Put\"}} {put}"),
                format!("sent_bytes_total {}", 1000 * get[2]),
            ];
            page(&lines.each_ref().map(String::as_str))
        };
        let view =
            ServerView::between(&at([9, 9, 9], 5, 1), &at([19, 27, 29], 5, 3), Duration::from_secs(2), 1);
        let [get] = &view.operations[..] else { panic!("{view:?}") };
        assert_eq!(
            (get.name.as_str(), get.rate, get.failed, get.refused, get.slow),
            ("Get", 10.0, 1.0, 0.0, 1.0)
        );
        assert_eq!((get.latency.median, get.latency.p99), (Some(0.5), Some(1.0)));
        assert_eq!(view.sent_bytes, 10_000.0);
        let restarted =
            ServerView::between(&at([9, 9, 9], 5, 1), &at([2, 2, 2], 0, 0), Duration::from_secs(1), 1);
        assert_eq!(restarted.operations[0].rate, 2.0, "counters begin again with the server");
    }

    #[test]
    fn the_largest_buckets_come_first() {
        let page = page(&[
            "bucket_bytes{bucket=\"a\",kind=\"current\"} 5",
            "bucket_bytes{bucket=\"b\",kind=\"current\"} 4",
            "bucket_bytes{bucket=\"b\",kind=\"noncurrent\"} 4",
            "bucket_bytes{bucket=\"c\",kind=\"current\"} 1",
            "bucket_objects{bucket=\"b\",kind=\"current\"} 2",
            "bucket_objects{bucket=\"b\",kind=\"uploads\"} 7",
            "store_live_bytes 10",
            "store_segment_bytes 15",
        ]);
        let view = ServerView::between(&page, &page, Duration::from_secs(1), 2);
        assert_eq!(view.buckets, [("b".to_owned(), 8.0, 2.0), ("a".to_owned(), 5.0, 0.0)]);
        assert_eq!(view.space_amplification(), Some(1.5));
    }
}
