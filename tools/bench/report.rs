//! The results as a table and as JSON.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::time::Duration;

use bytesize::ByteSize;
use hdrhistogram::Histogram;
use serde_json::{Value, json};

use super::Operation;

/// The reported percentiles, with their names.
pub(crate) const PERCENTILES: [(f64, &str); 5] =
    [(50.0, "p50"), (90.0, "p90"), (99.0, "p99"), (99.9, "p99.9"), (100.0, "max")];

/// The result of one operation at one size and number of clients.
pub(crate) struct Result {
    pub(crate) operation: Operation,
    /// The size of an object, in bytes.
    pub(crate) size: u64,
    pub(crate) clients: usize,
    pub(crate) elapsed: Duration,
    /// Latencies of successful requests, in microseconds.
    pub(crate) latencies: Histogram<u64>,
    /// Bytes of bodies, in both directions.
    pub(crate) bytes: u64,
    /// Statuses and system errors, with their counts.
    pub(crate) errors: BTreeMap<String, u64>,
}

impl Result {
    /// Successful requests per second.
    pub(crate) fn per_second(&self) -> f64 {
        self.latencies.len() as f64 / self.elapsed.as_secs_f64()
    }

    /// Failed requests.
    pub(crate) fn errors(&self) -> u64 {
        self.errors.values().sum()
    }

    /// The operation with its size and clients.
    pub(crate) fn name(&self) -> String {
        format!("{} {} x{}", self.operation.name(), ByteSize(self.size), self.clients)
    }

    /// A latency in milliseconds.
    pub(crate) fn percentile_ms(&self, percentile: f64) -> f64 {
        self.latencies.value_at_quantile(percentile / 100.0) as f64 / 1000.0
    }

    fn mib_per_second(&self) -> f64 {
        self.bytes as f64 / f64::from(1 << 20) / self.elapsed.as_secs_f64()
    }

    fn to_json(&self) -> Value {
        let latencies: serde_json::Map<String, Value> = PERCENTILES
            .iter()
            .map(|(at, name)| ((*name).to_owned(), json!(self.percentile_ms(*at))))
            .collect();
        json!({
            "operation": self.operation.name(),
            "size_bytes": self.size,
            "clients": self.clients,
            "seconds": self.elapsed.as_secs_f64(),
            "requests": self.latencies.len(),
            "per_second": self.per_second(),
            "body_bytes": self.bytes,
            "latency_ms": latencies,
            "errors": self.errors,
        })
    }
}

/// Writes all results as a table.
pub(crate) fn write(results: &[Result], json: bool, out: &mut dyn Write) -> io::Result<()> {
    if json {
        let results: Vec<Value> = results.iter().map(Result::to_json).collect();
        return writeln!(out, "{:#}", json!({ "results": results }));
    }
    write!(out, "{:<8}{:>10}{:>9}{:>11}{:>10}", "", "size", "clients", "requests/s", "MiB/s")?;
    PERCENTILES.iter().try_for_each(|(_, name)| write!(out, "{:>10}", format!("{name} ms")))?;
    writeln!(out, "{:>8}", "errors")?;
    for result in results {
        let size = ByteSize(result.size).to_string();
        write!(out, "{:<8}{size:>10}{:>9}", result.operation.name(), result.clients)?;
        write!(out, "{:>11.0}{:>10.1}", result.per_second(), result.mib_per_second())?;
        PERCENTILES.iter().try_for_each(|(at, _)| write!(out, "{:>10.2}", result.percentile_ms(*at)))?;
        writeln!(out, "{:>8}", result.errors())?;
    }
    for result in results.iter().filter(|result| result.errors() > 0) {
        for (what, count) in &result.errors {
            writeln!(out, "{}: {count} times {what}", result.name())?;
        }
    }
    Ok(())
}
