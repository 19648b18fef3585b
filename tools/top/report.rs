//! A view as text and as JSON.

use std::io::{self, Write};

use bytesize::ByteSize;
use serde_json::{Map, Value, json};

use super::view::{LatencyQuantiles, OperationRate, ServerView};

/// The view as one object. Rates are per second.
pub(super) fn describe(view: &ServerView) -> Value {
    let mut object = Map::new();
    object.insert("version".into(), json!(view.version));
    object.insert("requests".into(), view.operations.iter().map(describe_operation).collect());
    object.insert("received_bytes_per_second".into(), json!(view.received_bytes));
    object.insert("sent_bytes_per_second".into(), json!(view.sent_bytes));
    object.insert("queue_wait_ms".into(), describe_quantiles(view.queue_wait));
    let commits = json!({
        "groups_per_second": view.commit_groups,
        "mutations_per_second": view.mutations,
        "latency_ms": describe_quantiles(view.commits),
        "log_sync_ms": describe_quantiles(view.log_syncs),
        "segment_sync_ms": describe_quantiles(view.segment_syncs),
    });
    object.insert("commits".into(), commits);
    object.extend(view.gauges.iter().map(|(name, value)| ((*name).to_owned(), json!(value))));
    object.insert("space_amplification".into(), json!(view.space_amplification()));
    let rates = view.rates.iter();
    object.extend(rates.map(|(name, rate)| (format!("{}_per_second", without_total(name)), json!(rate))));
    let buckets = view.buckets.iter();
    let buckets =
        buckets.map(|(name, bytes, objects)| json!({ "bucket": name, "bytes": bytes, "objects": objects }));
    object.insert("buckets".into(), buckets.collect());
    Value::Object(object)
}

fn without_total(name: &str) -> &str {
    name.trim_end_matches("_total")
}

fn describe_operation(operation: &OperationRate) -> Value {
    json!({
        "operation": operation.name,
        "per_second": operation.rate,
        "4xx_per_second": operation.refused,
        "5xx_per_second": operation.failed,
        "slow_per_second": operation.slow,
        "latency_ms": describe_quantiles(operation.latency),
    })
}

fn describe_quantiles(LatencyQuantiles { median, p99 }: LatencyQuantiles) -> Value {
    let millis = |seconds: Option<f64>| seconds.map(|seconds| seconds * 1e3);
    json!({ "p50": millis(median), "p99": millis(p99) })
}

/// The columns of a page.
const COLUMNS: usize = 80;

/// Writes the view as a page of text, no line of which is wider than a usual terminal.
pub(super) fn write_text(view: &ServerView, endpoint: &str, out: &mut dyn Write) -> io::Result<()> {
    let mut page = Vec::new();
    write_page(view, endpoint, &mut page)?;
    for line in String::from_utf8_lossy(&page).lines() {
        writeln!(out, "{}", cut(line, COLUMNS))?;
    }
    Ok(())
}

/// The text, cut to so many characters.
fn cut(text: &str, columns: usize) -> String {
    if text.chars().count() <= columns {
        return text.to_owned();
    }
    text.chars().take(columns - 1).chain(['…']).collect()
}

fn write_page(view: &ServerView, endpoint: &str, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "siltstone {} at {endpoint}", view.version)?;
    write_warnings(view, out)?;
    let received = size(view.received_bytes);
    let sent = size(view.sent_bytes);
    writeln!(out, "bodies    {received}/s received, {sent}/s sent")?;
    writeln!(out, "queue     {} until a worker takes a request", quantiles(view.queue_wait))?;
    writeln!(
        out,
        "commits   {:.1}/s with {:.1} changes/s, {}",
        view.commit_groups,
        view.mutations,
        quantiles(view.commits)
    )?;
    writeln!(out, "syncs     log {}; segments {}", quantiles(view.log_syncs), quantiles(view.segment_syncs))?;
    write_space(view, out)?;
    writeln!(
        out,
        "\n{:<24} {:>10} {:>7} {:>7} {:>7} {:>9} {:>9}",
        "operation", "requests/s", "4xx/s", "5xx/s", "> 1 s/s", "p50", "p99"
    )?;
    for OperationRate { name, rate, refused, failed, slow, latency } in &view.operations {
        let median = time(latency.median);
        let p99 = time(latency.p99);
        writeln!(
            out,
            "{:<24} {rate:>10.1} {refused:>7.1} {failed:>7.1} {slow:>7.1} {median:>9} {p99:>9}",
            cut(name, 24)
        )?;
    }
    writeln!(out, "\n{:<54} {:>12} {:>12}", "bucket", "objects", "bytes")?;
    for (name, bytes, objects) in &view.buckets {
        writeln!(out, "{:<54} {objects:>12} {:>12}", cut(name, 54), size(*bytes))?;
    }
    Ok(())
}

fn write_warnings(view: &ServerView, out: &mut dyn Write) -> io::Result<()> {
    let warnings = [
        ("store_read_only", "the store takes no writes: the log of the server has the reason"),
        ("store_damaged_places", "damage was found on the disk: the log of the server names the files"),
        ("scrub_bad_extents", "the scrub found bad extents: siltstone-tools verify names the objects"),
    ];
    for (name, text) in warnings {
        if view.gauges.get(name).is_some_and(|value| *value > 0.0) {
            writeln!(out, "WARNING   {text}")?;
        }
    }
    Ok(())
}

fn write_space(view: &ServerView, out: &mut dyn Write) -> io::Result<()> {
    let gauge = |name: &str| view.gauges.get(name).map_or("-".to_owned(), |value| size(*value));
    let rate = |name: &str| view.rates.get(name).map_or("-".to_owned(), |rate| size(*rate));
    let amplification = view.space_amplification().map_or("-".to_owned(), |ratio| format!("{ratio:.2}"));
    writeln!(
        out,
        "disk      {} free of {}; {}/s written",
        gauge("disk_free_bytes"),
        gauge("disk_size_bytes"),
        rate("written_bytes_total")
    )?;
    writeln!(
        out,
        "data      {} live, {} in segments ({amplification} times)",
        gauge("store_live_bytes"),
        gauge("store_segment_bytes")
    )?;
    writeln!(
        out,
        "memory    {} of {}; index {} of {}",
        gauge("memory_used_bytes"),
        gauge("memory_max_bytes"),
        gauge("memory_index_bytes"),
        gauge("memory_index_max_bytes")
    )?;
    writeln!(
        out,
        "reclaim   {}/s given back, {}/s moved; scrub {}/s",
        rate("store_reclaimed_bytes_total"),
        rate("store_moved_bytes_total"),
        rate("scrub_bytes_total")
    )
}

fn size(bytes: f64) -> String {
    ByteSize::b(bytes as u64).to_string()
}

fn quantiles(LatencyQuantiles { median, p99 }: LatencyQuantiles) -> String {
    format!("p50 {}, p99 {}", time(median), time(p99))
}

/// A time in the unit that is easy to read.
fn time(seconds: Option<f64>) -> String {
    match seconds {
        None => "-".to_owned(),
        Some(seconds) if seconds < 0.1 => format!("{:.2} ms", seconds * 1e3),
        Some(seconds) if seconds < 1.0 => format!("{:.1} ms", seconds * 1e3),
        Some(seconds) if seconds < 100.0 => format!("{seconds:.2} s"),
        Some(seconds) => format!("{seconds:.0} s"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::view::{GAUGES, RATES};
    use super::*;

    #[test]
    fn a_page_fits_a_usual_terminal() {
        let latency = LatencyQuantiles { median: Some(0.123_456), p99: Some(1234.5) };
        let operation = |name: &str| OperationRate {
            name: name.to_owned(),
            rate: 123_456.7,
            refused: 1234.5,
            failed: 1234.5,
            slow: 1234.5,
            latency,
        };
        let view = ServerView {
            version: "10.20.30".to_owned(),
            operations: vec![operation("GetObject"), operation("GetBucketNotificationConfiguration")],
            queue_wait: latency,
            received_bytes: 1e12,
            sent_bytes: 1e12,
            commit_groups: 123_456.7,
            mutations: 123_456.7,
            commits: latency,
            log_syncs: latency,
            segment_syncs: latency,
            gauges: GAUGES.into_iter().map(|name| (name, 123_456_789_012_345.0)).collect(),
            rates: RATES.into_iter().map(|name| (name, 123_456_789_012.0)).collect(),
            buckets: vec![("b".repeat(63), 1e15, 1e10), ("ü".repeat(40), 1.0, 1.0)],
        };
        let mut page = Vec::new();
        write_text(&view, "https://objects.example.org:9000", &mut page).unwrap();
        let page = String::from_utf8(page).unwrap();
        for line in page.lines() {
            assert!(line.chars().count() <= 80, "{line}");
            // Only long names are cut.
            assert!(!line.ends_with('…'), "{line}");
        }
        assert!(page.contains("\nGetBucketNotificationCo… ") && page.contains("bbb… "), "{page}");
    }
}
