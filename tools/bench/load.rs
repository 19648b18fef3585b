//! The load: a number of clients, each in a thread, and their results.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use siltstone::base::{Entropy, SeededEntropy};

use super::Operation;
use super::report::Result as Measured;
use siltstone::client::{Bucket, Endpoint, HttpConnection, SignedRequest};

/// The longest latency that is recorded, in microseconds. Latencies have three significant digits.
const LATENCY_MAX_MICROS: u64 = 10 * 60 * 1_000_000;

/// The objects of one size, and the clients that use them. The objects are numbered: those from
/// `first` up to but not including `end` exist.
pub(crate) struct Load<'l> {
    bucket: &'l Bucket,
    endpoint: &'l Endpoint,
    size: u64,
    clients: usize,
    stopped: &'l AtomicBool,
    first: AtomicU64,
    end: AtomicU64,
}

/// The results of one client.
struct Seen {
    latencies: Histogram<u64>,
    bytes: u64,
    /// Errors with their counts.
    errors: BTreeMap<String, u64>,
}

/// The next step of a client.
enum Next<'b> {
    Request(SignedRequest<'b>, u16),
    /// No object is left.
    End,
}

impl<'l> Load<'l> {
    /// A load without objects yet.
    pub(crate) fn new(
        bucket: &'l Bucket,
        endpoint: &'l Endpoint,
        size: u64,
        clients: usize,
        stopped: &'l AtomicBool,
    ) -> Self {
        let first = AtomicU64::new(0);
        let end = AtomicU64::new(0);
        Self { bucket, endpoint, size, clients, stopped, first, end }
    }

    /// Whether the user has interrupted the command.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// Puts objects until `count` exist.
    ///
    /// # Errors
    /// A message, if an object cannot be put.
    pub(crate) fn fill_up(&self, count: u64) -> Result<(), String> {
        let body = self.body(0);
        let mut connection = HttpConnection::open(self.endpoint).map_err(|error| error.to_string())?;
        while self.end.load(Ordering::Relaxed) - self.first.load(Ordering::Relaxed) < count
            && !self.is_stopped()
        {
            let key = self.key(self.end.load(Ordering::Relaxed));
            let answer =
                connection.exchange(&self.bucket.put(&key, &body)).map_err(|error| error.to_string())?;
            if answer.status != 200 {
                return Err(format!("an object cannot be put: {}", answer.refusal()));
            }
            self.end.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Runs `operation` on all clients for a time, or until no object is left.
    pub(crate) fn measure(&self, operation: Operation, duration: Duration) -> Measured {
        let begun = Instant::now();
        let until = begun + duration;
        let seen: Vec<Seen> = thread::scope(|scope| {
            let client = |number| scope.spawn(move || self.client(number, operation, until));
            let clients: Vec<_> = (0..self.clients as u64).map(client).collect();
            clients.into_iter().map(|client| client.join().expect("a client does not panic")).collect()
        });
        let elapsed = begun.elapsed();
        let mut all = Seen::new();
        for one in seen {
            all.add(one);
        }
        Measured {
            operation,
            size: self.size,
            clients: self.clients,
            elapsed,
            latencies: all.latencies,
            bytes: all.bytes,
            errors: all.errors,
        }
    }

    fn client(&self, number: u64, operation: Operation, until: Instant) -> Seen {
        let mut seen = Seen::new();
        let body = self.body(number);
        let random = SeededEntropy::new(number);
        let mut connection = match HttpConnection::open(self.endpoint) {
            Ok(connection) => connection,
            Err(error) => {
                seen.fail(error.to_string());
                return seen;
            }
        };
        // A client that starts after the end sends one request all the same.
        let mut over = false;
        while !over && !self.is_stopped() {
            let Next::Request(request, expected) = self.next(operation, &body, &random) else { break };
            let begun = Instant::now();
            match connection.exchange_counting(&request) {
                Ok(answer) if answer.status == expected => {
                    seen.latencies.saturating_record(begun.elapsed().as_micros().max(1) as u64);
                    seen.bytes += answer.len + request.body.len() as u64;
                }
                Ok(answer) => seen.fail(answer.status.to_string()),
                Err(error) => {
                    seen.fail(error.kind().to_string());
                    // Limits the attempts at a server that refuses connections.
                    thread::sleep(Duration::from_millis(100));
                }
            }
            over = Instant::now() >= until;
        }
        seen
    }

    fn next<'b>(&self, operation: Operation, body: &'b [u8], random: &SeededEntropy) -> Next<'b> {
        let some_key = || {
            let first = self.first.load(Ordering::Relaxed);
            let count = self.end.load(Ordering::Relaxed).saturating_sub(first).max(1);
            self.key(first + random.next_u64() % count)
        };
        match operation {
            Operation::Put => {
                let key = self.key(self.end.fetch_add(1, Ordering::Relaxed));
                Next::Request(self.bucket.put(&key, body), 200)
            }
            Operation::Get => Next::Request(self.bucket.object("GET", &some_key()), 200),
            Operation::Head => Next::Request(self.bucket.object("HEAD", &some_key()), 200),
            Operation::List => Next::Request(self.bucket.list(), 200),
            Operation::Delete => {
                let end = self.end.load(Ordering::Relaxed);
                let taken = self.first.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |first| {
                    (first < end).then_some(first + 1)
                });
                match taken {
                    Ok(first) => Next::Request(self.bucket.object("DELETE", &self.key(first)), 204),
                    Err(_) => Next::End,
                }
            }
        }
    }

    fn key(&self, number: u64) -> String {
        format!("{}-{}/{number:012}", self.size, self.clients)
    }

    /// Bytes that cannot be compressed.
    fn body(&self, seed: u64) -> Vec<u8> {
        let mut body = vec![0; self.size as usize];
        SeededEntropy::new(seed).fill(&mut body);
        body
    }
}

impl Seen {
    fn new() -> Self {
        let latencies =
            Histogram::new_with_max(LATENCY_MAX_MICROS, 3).expect("the range and the digits are valid");
        Self { latencies, bytes: 0, errors: BTreeMap::new() }
    }

    fn fail(&mut self, what: String) {
        *self.errors.entry(what).or_default() += 1;
    }

    fn add(&mut self, other: Self) {
        self.latencies.add(other.latencies).expect("all histograms have one range");
        self.bytes += other.bytes;
        for (what, count) in other.errors {
            *self.errors.entry(what).or_default() += count;
        }
    }
}
