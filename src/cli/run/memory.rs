//! The division of the memory limit: permanent memory, and the rest for reservations of requests.

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;

use bytesize::ByteSize;
use log::warn;
use siltstone::base::Budget;
use siltstone::base::limits::{
    CONNECTIONS_MAX_DEFAULT, CONSOLE_CONNECTIONS_MAX, CONSOLE_DRAINING_MAX, CONSOLE_QUEUE_LEN,
    CONSOLE_RESERVE_WORKERS, CONSOLE_WORKERS, DRAINING_MAX, INDEX_DEFAULT_MIN_BYTES, INDEX_DEFAULT_SHARE,
    MEMORY_DEFAULT_MAX_BYTES, MEMORY_DEFAULT_MIN_BYTES, MEMORY_FOR_REQUESTS_MIN_BYTES, MEMORY_MIN_BYTES,
    MEMORY_OF_CONNECTION_BYTES, MEMORY_OF_PROCESS_BYTES, MEMORY_OF_TLS_CONNECTION_BYTES,
    MEMORY_OF_WORKER_BYTES, UNRESERVED_HEAD_BYTES, WORKERS_DEFAULT,
};
use siltstone::console::ConsoleAccess;
use siltstone::fs::{MemoryLimit, memory_limit};
use siltstone::http::EngineName;

use crate::cli::config::option_values::ByteCount;
use crate::cli::config::options::ServerOptions;
use crate::cli::error::CliError;

/// The default shares of workers and of connections in the memory that the process leaves: one in
/// this many.
const WORKERS_SHARE: u64 = 4;
const CONNECTIONS_SHARE: u64 = 6;
/// The same in what is left where that is little, in percent.
const WORKERS_PERCENT: u64 = 60;
const CONNECTIONS_PERCENT: u64 = 40;

/// The division of the memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MemoryPlan {
    /// The limit without the index, in bytes.
    pub(crate) ceiling: u64,
    /// The limit of the index, in bytes.
    pub(crate) index_max: u64,
    /// Bytes set aside permanently.
    pub(crate) fixed: u64,
    /// Threads.
    pub(crate) workers: usize,
    /// Further threads, for pages of the console.
    pub(crate) reserve_workers: usize,
    /// Connections.
    pub(crate) connections_max: usize,
}

impl MemoryPlan {
    /// The plan for `options` on this machine.
    ///
    /// # Errors
    /// Names the options that exceed the limit, with the memory of each.
    pub(crate) fn make(options: &ServerOptions) -> Result<Self, CliError> {
        let limit = memory_limit(Path::new("/"), "self");
        let allowed = limit.as_ref().map(|limit| limit.bytes);
        let ceiling =
            options.http.memory_max.map_or_else(|| default_ceiling(allowed), |ByteCount(bytes)| bytes);
        let index_max = options
            .http
            .index_max
            .map_or_else(|| default_index_max(allowed, ceiling), |ByteCount(bytes)| bytes);
        warn_of_sum(ceiling, index_max, limit.as_ref());
        Self::divide(options, ceiling, index_max)
    }

    fn divide(options: &ServerOptions, ceiling: u64, index_max: u64) -> Result<Self, CliError> {
        if ceiling < MEMORY_MIN_BYTES {
            let least = ByteSize(MEMORY_MIN_BYTES);
            return Err(CliError::usage(format!("--memory-max: {} is less than {least}", ByteSize(ceiling))));
        }
        let each = match options.http.tls_cert {
            Some(_) => MEMORY_OF_TLS_CONNECTION_BYTES,
            None => MEMORY_OF_CONNECTION_BYTES,
        };
        let console = options.console.console_listen.map_or(0, |_| of_console_listener(each));
        let has_reserve =
            options.console.access() != ConsoleAccess::Off && options.http.http_engine == EngineName::Direct;
        let reserve_workers = if has_reserve { CONSOLE_RESERVE_WORKERS } else { 0 };
        // There are two queues of that length.
        let each_in_queue = 2 * UNRESERVED_HEAD_BYTES as u64;
        let left = ceiling - MEMORY_OF_PROCESS_BYTES - console;
        let taken = options.http.queue.get() as u64 * each_in_queue
            + reserve_workers as u64 * MEMORY_OF_WORKER_BYTES
            + DRAINING_MAX as u64 * each
            + MEMORY_FOR_REQUESTS_MIN_BYTES;
        let rest = left.saturating_sub(taken);
        let of_workers = (left / WORKERS_SHARE).min(rest * WORKERS_PERCENT / 100) / MEMORY_OF_WORKER_BYTES;
        let of_connections = (left / CONNECTIONS_SHARE).min(rest * CONNECTIONS_PERCENT / 100) / each;
        let workers = options
            .http
            .workers
            .map_or_else(|| (of_workers as usize).clamp(1, WORKERS_DEFAULT), NonZeroUsize::get);
        let connections_max = options
            .http
            .max_connections
            .map_or_else(|| (of_connections as usize).clamp(1, CONNECTIONS_MAX_DEFAULT), NonZeroUsize::get);
        let costs = [
            ("--workers", workers, MEMORY_OF_WORKER_BYTES),
            ("--max-connections", connections_max + DRAINING_MAX, each),
            ("--queue", options.http.queue.get(), each_in_queue),
            ("--console-listen", 1, console),
            ("--console", reserve_workers, MEMORY_OF_WORKER_BYTES),
        ];
        let costs = costs.map(|(name, count, each)| (name, (count as u64).saturating_mul(each)));
        let fixed = costs.iter().fold(MEMORY_OF_PROCESS_BYTES, |sum, (_, bytes)| sum.saturating_add(*bytes));
        if fixed.saturating_add(MEMORY_FOR_REQUESTS_MIN_BYTES) > ceiling {
            return Err(CliError::usage(too_much(ceiling, &costs)));
        }
        Ok(Self { ceiling, index_max, fixed, workers, reserve_workers, connections_max })
    }

    /// The budget of requests.
    pub(crate) fn budget(&self) -> Arc<Budget> {
        Budget::new(self.ceiling, self.fixed)
    }
}

/// The memory of the listener of the console, with connections that take `each` bytes.
fn of_console_listener(each: u64) -> u64 {
    let connections = (CONSOLE_CONNECTIONS_MAX + CONSOLE_DRAINING_MAX) as u64 * each;
    let queues = CONSOLE_QUEUE_LEN as u64 * 2 * UNRESERVED_HEAD_BYTES as u64;
    CONSOLE_WORKERS as u64 * MEMORY_OF_WORKER_BYTES + connections + queues
}

fn too_much(ceiling: u64, costs: &[(&str, u64)]) -> String {
    let taken = costs.iter().filter(|(_, bytes)| *bytes > 0);
    let costs: Vec<_> = taken.map(|(name, bytes)| format!("{name} takes {}", ByteSize(*bytes))).collect();
    format!(
        "--memory-max: {} is too little: {}, the process {} and single requests at least {}: lower one of them, or \
         raise --memory-max",
        ByteSize(ceiling),
        costs.join(", "),
        ByteSize(MEMORY_OF_PROCESS_BYTES),
        ByteSize(MEMORY_FOR_REQUESTS_MIN_BYTES),
    )
}

/// A quarter of the memory that the process may use, within bounds: most of it is for the index and
/// the page cache.
fn default_ceiling(allowed: Option<u64>) -> u64 {
    let quarter = allowed.unwrap_or(0) / 4;
    quarter.clamp(MEMORY_DEFAULT_MIN_BYTES, MEMORY_DEFAULT_MAX_BYTES)
}

/// The larger part of the remaining memory; unlimited if it is unknown.
fn default_index_max(allowed: Option<u64>, ceiling: u64) -> u64 {
    let (share, of) = INDEX_DEFAULT_SHARE;
    allowed
        .map_or(u64::MAX, |bytes| (bytes.saturating_sub(ceiling) / of * share).max(INDEX_DEFAULT_MIN_BYTES))
}

fn warn_of_sum(ceiling: u64, index_max: u64, limit: Option<&MemoryLimit>) {
    let sum = ceiling.saturating_add(index_max);
    if let Some(MemoryLimit { bytes, source }) = limit.filter(|limit| sum > limit.bytes) {
        warn!(
            "--memory-max and --index-max allow {} together, and the limit is {} ({source}): the server may be killed \
             or fail for lack of memory",
            ByteSize(sum),
            ByteSize(*bytes)
        );
    }
}

#[cfg(test)]
mod tests {
    use siltstone::base::limits::{GIB, MIB};

    use super::*;

    fn plan(options: &str) -> Result<MemoryPlan, String> {
        MemoryPlan::make(&crate::cli::config::config_file::options(&[], options))
            .map_err(|error| error.to_string())
    }

    #[test]
    fn a_small_ceiling_makes_a_small_server_and_a_large_one_no_larger_than_the_defaults() {
        let small = plan("memory_max = '64MiB'").unwrap();
        assert!((4..32).contains(&small.workers) && small.connections_max >= 5000, "{small:?}");
        assert!(small.fixed + MEMORY_FOR_REQUESTS_MIN_BYTES <= 64 * MIB);
        assert_eq!((small.workers, small.connections_max), (12, 8192), "as the guide's page `memory` says");
        let least = plan("memory_max = '48MiB'").unwrap();
        assert!((4..12).contains(&least.workers) && least.connections_max >= 4000, "{least:?}");
        assert!(least.fixed + MEMORY_FOR_REQUESTS_MIN_BYTES <= 48 * MIB);
        let least_encrypted = plan("memory_max = '48MiB'\ntls_cert = 'c'").unwrap();
        assert!(
            least_encrypted.workers >= 4 && least_encrypted.connections_max >= 100,
            "{least_encrypted:?}"
        );
        let large = plan("memory_max = '2GiB'").unwrap();
        assert_eq!(
            (large.workers, large.connections_max, large.ceiling),
            (WORKERS_DEFAULT, CONNECTIONS_MAX_DEFAULT, 2 * GIB)
        );
        let encrypted = plan("memory_max = '64MiB'\ntls_cert = 'c'").unwrap();
        assert!(encrypted.connections_max < small.connections_max / 10);
        let with_console =
            plan("memory_max = '64MiB'\ntls_cert = 'c'\nconsole_listen = '127.0.0.1:0'").unwrap();
        assert!(with_console.workers < encrypted.workers, "{with_console:?}");
        assert_eq!((small.reserve_workers, with_console.reserve_workers), (2, 2));
        for without in ["console = 'off'", "http_engine = 'tiny_http'"] {
            assert_eq!(plan(without).unwrap().reserve_workers, 0, "{without}");
        }
        assert!(plan("").is_ok(), "by the machine");
        assert_eq!(plan("index_max = '10MiB'").unwrap().index_max, 10 * MIB);
    }

    #[test]
    fn options_that_exceed_the_memory_are_named() {
        let refused = plan("memory_max = '64MiB'\nworkers = 200").unwrap_err();
        for part in ["--memory-max", "--workers takes 200.0 MiB", "lower"] {
            assert!(refused.contains(part), "{refused}");
        }
        assert!(plan("memory_max = '64MiB'\nmax_connections = 100000").is_err());
        assert!(plan("memory_max = '64MiB'\nqueue = 60000").is_err());
        let crowded =
            plan("memory_max = '48MiB'\ntls_cert = 'c'\nconsole_listen = '127.0.0.1:0'").unwrap_err();
        assert!(crowded.contains("--console-listen takes 6.5 MiB"), "{crowded}");
        assert!(plan("memory_max = '47MiB'").unwrap_err().contains("is less than 48"));
    }

    #[test]
    fn without_a_word_it_is_a_quarter_of_the_machine_within_bounds() {
        assert_eq!(default_ceiling(Some(512 * MIB)), 128 * MIB);
        assert_eq!(default_ceiling(Some(GIB / 64)), 64 * MIB);
        assert_eq!(default_ceiling(Some(64 * GIB)), GIB);
        assert_eq!(default_ceiling(None), 64 * MIB);
        assert_eq!(default_index_max(Some(512 * MIB), 128 * MIB), 288 * MIB);
        assert_eq!(default_index_max(Some(64 * MIB), 64 * MIB), 8 * MIB);
        assert_eq!(default_index_max(None, 64 * MIB), u64::MAX);
    }
}
