//! The settings of the front end, and their bounds.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use super::{Networks, Tls};
use crate::base::{Budget, limits};

/// The engine that serves.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum EngineName {
    /// Made for ports that any client can reach.
    #[default]
    Direct,
    /// The crate tiny_http, for use with a proxy in front. It obeys only the settings `listen`,
    /// `workers`, `head_max_bytes`, `headers_max` and `shutdown_timeout`.
    TinyHttp,
}

/// The settings of an engine. [`Config::new`] gives values for a host with 512 MB of memory.
#[derive(Debug, Clone)]
pub struct Config {
    pub engine: EngineName,
    /// The certificate and key for encrypted connections; `None` serves plain ones. Only the engine
    /// `Direct` encrypts.
    pub tls: Option<Arc<Tls>>,
    /// The address to listen on. With port 0 the system chooses the port.
    pub listen: SocketAddr,
    /// Threads that handle requests, and so the requests handled at a time.
    pub workers: usize,
    /// Further threads, for the requests that
    /// [`Handler::uses_reserve`](crate::s3::Handler::uses_reserve) chooses. They answer these while
    /// all other workers are busy. The engine `TinyHttp` has none.
    pub reserve_workers: usize,
    /// Requests that may wait for a worker. One more is answered with 503 at once.
    pub queue_len: usize,
    /// Connections served at a time. One more displaces the connection that has been idle longest,
    /// or is answered with 503 and closed if none is idle. Must stay below the limit of open files.
    pub connections_max: usize,
    /// The same for one IPv4 address or one IPv6 network of 64 bits, unless it is among the
    /// `trusted_proxies`. `None`: a quarter of `connections_max`.
    pub connections_per_address_max: Option<usize>,
    /// Networks of proxies, whose connections count for no address.
    pub trusted_proxies: Networks,
    /// The longest request head in bytes: request line and header lines.
    pub head_max_bytes: usize,
    /// Header lines of a request, at most [`limits::HEADERS_MAX`].
    pub headers_max: usize,
    /// The longest time from the first byte of a head to its last.
    pub head_deadline: Duration,
    /// The longest time for which a connection stays open without a request.
    pub idle_deadline: Duration,
    /// The rate at which a client must send or receive a body in the long run.
    pub rate_min_bytes_per_sec: u64,
    /// How long a client may stall a worker that receives its body. Each byte received at the
    /// minimum rate refills this budget, which is also the longest pause.
    pub read_stall_budget: Duration,
    /// The same for a client that receives a response.
    pub write_stall_budget: Duration,
    /// How long a worker waits for the next request of its connection while another worker is idle.
    pub linger: Duration,
    /// Connections whose clients may go on sending after their last response. Further ones are
    /// closed at once.
    pub draining_max: usize,
    /// How long a client may go on sending after its last response before the connection is closed.
    pub drain_deadline: Duration,
    /// The longest time from the order to stop to the return of `run`.
    pub shutdown_timeout: Duration,
    /// The memory from which incomplete and queued requests reserve theirs.
    pub memory: Arc<Budget>,
}

impl Config {
    /// The defaults for a server that listens on `listen`.
    pub fn new(listen: SocketAddr) -> Self {
        Self {
            engine: EngineName::default(),
            tls: None,
            listen,
            workers: limits::WORKERS_DEFAULT,
            reserve_workers: 0,
            queue_len: limits::QUEUE_LEN_DEFAULT,
            connections_max: limits::CONNECTIONS_MAX_DEFAULT,
            connections_per_address_max: None,
            trusted_proxies: Networks::loopback(),
            head_max_bytes: limits::HEAD_MAX_BYTES,
            headers_max: limits::HEADERS_MAX,
            head_deadline: Duration::from_secs(limits::HEAD_DEADLINE_DEFAULT_SECS),
            idle_deadline: Duration::from_secs(limits::IDLE_DEADLINE_DEFAULT_SECS),
            rate_min_bytes_per_sec: limits::RATE_MIN_DEFAULT_BYTES_PER_SEC,
            read_stall_budget: Duration::from_secs(limits::READ_STALL_BUDGET_DEFAULT_SECS),
            write_stall_budget: Duration::from_secs(limits::WRITE_STALL_BUDGET_DEFAULT_SECS),
            linger: Duration::from_millis(limits::LINGER_DEFAULT_MILLIS),
            draining_max: limits::DRAINING_MAX,
            drain_deadline: Duration::from_secs(limits::DRAIN_DEADLINE_DEFAULT_SECS),
            shutdown_timeout: Duration::from_secs(limits::SHUTDOWN_TIMEOUT_DEFAULT_SECS),
            memory: Budget::unlimited(),
        }
    }

    /// The largest number of connections of one address.
    pub(super) fn address_connections_max(&self) -> usize {
        let share = self.connections_max / limits::CONNECTIONS_SHARE_DEFAULT;
        self.connections_per_address_max.unwrap_or(share).max(1)
    }

    /// Checks that each setting is within its bounds.
    ///
    /// # Errors
    /// `InvalidInput`, which names the first setting that is out of bounds.
    pub fn check(&self) -> io::Result<()> {
        let linger_max = Duration::from_millis(limits::LINGER_MAX_MILLIS);
        let head_bytes = limits::CHUNK_LINE_MAX_BYTES + 1..=limits::HEAD_MAX_BYTES_CEILING;
        let bounds = [
            ("tls", self.tls.is_none() || self.engine == EngineName::Direct),
            // tiny_http accepts ambiguous heads, and shows only the reading that it has chosen.
            ("listen", self.listen.ip().is_loopback() || self.engine == EngineName::Direct),
            ("workers", (1..=limits::WORKERS_CEILING).contains(&self.workers)),
            ("reserve_workers", self.reserve_workers <= limits::WORKERS_CEILING),
            ("queue_len", (1..=limits::QUEUE_LEN_CEILING).contains(&self.queue_len)),
            ("connections_max", (1..=limits::CONNECTIONS_MAX_CEILING).contains(&self.connections_max)),
            ("connections_per_address_max", self.connections_per_address_max != Some(0)),
            ("draining_max", self.draining_max <= limits::DRAINING_MAX),
            ("head_max_bytes", head_bytes.contains(&self.head_max_bytes)),
            ("headers_max", (1..=limits::HEADERS_MAX).contains(&self.headers_max)),
            ("head_deadline", is_deadline(self.head_deadline)),
            ("idle_deadline", is_deadline(self.idle_deadline)),
            ("rate_min_bytes_per_sec", self.rate_min_bytes_per_sec >= 1),
            ("read_stall_budget", is_deadline(self.read_stall_budget)),
            ("write_stall_budget", is_deadline(self.write_stall_budget)),
            ("linger", is_deadline(self.linger) && self.linger <= linger_max),
            ("drain_deadline", is_deadline(self.drain_deadline)),
            ("shutdown_timeout", is_deadline(self.shutdown_timeout)),
        ];
        match bounds.iter().find(|(_, holds)| !holds) {
            Some((name, _)) => {
                Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{name} is out of bounds")))
            }
            None => Ok(()),
        }
    }
}

fn is_deadline(time: Duration) -> bool {
    !time.is_zero() && time <= Duration::from_secs(limits::DEADLINE_MAX_SECS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_within_bounds_and_each_excess_is_named() {
        let config = Config::new(([127, 0, 0, 1], 0).into());
        assert!(config.check().is_ok());
        let named = |config: Config| config.check().unwrap_err().to_string();
        assert!(named(Config { workers: 0, ..config.clone() }).contains("workers"));
        assert!(named(Config { headers_max: 101, ..config.clone() }).contains("headers_max"));
        assert!(named(Config { head_max_bytes: 1024, ..config.clone() }).contains("head_max_bytes"));
        assert!(named(Config { linger: Duration::from_secs(2), ..config.clone() }).contains("linger"));
        assert!(
            named(Config { read_stall_budget: Duration::ZERO, ..config.clone() })
                .contains("read_stall_budget")
        );
        assert!(named(Config { idle_deadline: Duration::MAX, ..config.clone() }).contains("idle_deadline"));
        assert!(named(Config { queue_len: usize::MAX, ..config }).contains("queue_len"));
    }
}
