//! The access logs of buckets (S3 user guide, "Logging requests with server access logging"): the
//! records of the requests to a bucket, gathered in memory and delivered as objects to another one.
//!
//! A delivery is no request, so that no log records its own. A crash loses what was not delivered.

mod logged_request;
mod record;
mod resource;

use std::collections::HashMap;
use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

pub(super) use logged_request::{AnsweredRequest, LoggedRequest};

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::base::limits::{LOG_OBJECT_BYTES, LOG_WAITING_MAX_BYTES, LOGS_WAITING_MAX_BYTES};
use crate::base::{Clock, Entropy, NOT_POISONED, OsEntropy, Timestamp};
use crate::ops::{Context, LogDelivery, LoggedBucket};
use crate::s3::logging::LogObject;
use crate::s3::{RequestId, S3Error};

const DAY_MILLIS: u64 = 24 * 60 * 60 * 1000;
/// The pause before a delivery that failed is tried again.
const RETRY_AFTER: Duration = Duration::from_secs(30);

/// The records that are due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DueRecords {
    /// Those of a log that waits for so long, or has enough for an object.
    After(Duration),
    /// All, since the server ends.
    All,
}

/// Figures about the logs, since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BucketLogFigures {
    /// Objects that were stored.
    pub delivered: u64,
    /// Deliveries that failed.
    pub failures: u64,
    /// Records that were dropped, since too many waited.
    pub lost_records: u64,
    /// Bytes that wait.
    pub waiting_bytes: u64,
    /// Logs whose last delivery failed.
    pub failing: u64,
}

/// The records that wait.
pub struct BucketLogs {
    clock: Arc<dyn Clock>,
    waiting: Mutex<Waiting>,
    delivered: AtomicU64,
    failures: AtomicU64,
    lost_records: AtomicU64,
    /// Takes a value when records become due earlier than the last delivery could know.
    changed: Sender<()>,
    changes: Receiver<()>,
}

#[derive(Debug, Default)]
struct Waiting {
    by_log: HashMap<LogObjects, WaitingRecords>,
    bytes: usize,
}

/// The objects that records go to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct LogObjects {
    log: LoggedBucket,
    /// The day of the requests, where each has objects of its own.
    day: Option<u64>,
}

/// The records of the next object, and of those after it.
#[derive(Debug)]
struct WaitingRecords {
    text: String,
    since: Instant,
    /// The time of the first request.
    first: Timestamp,
    /// Since when deliveries fail, and when the next one is tried.
    failure: Option<DeliveryFailure>,
}

#[derive(Debug, Clone, Copy)]
struct DeliveryFailure {
    code: &'static str,
    again: Instant,
}

impl WaitingRecords {
    /// When they are to be delivered. `None` for records that wait for longer than a clock counts.
    fn due_at(&self, age: Duration) -> Option<Instant> {
        match self.failure {
            Some(failure) => Some(failure.again),
            None if self.text.len() >= LOG_OBJECT_BYTES => Some(self.since),
            None => self.since.checked_add(age),
        }
    }

    fn is_due(&self, due: DueRecords, now: Instant) -> bool {
        let DueRecords::After(age) = due else { return true };
        self.due_at(age).is_some_and(|at| now >= at)
    }
}

impl BucketLogs {
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        let waiting = Mutex::default();
        let delivered = AtomicU64::new(0);
        let failures = AtomicU64::new(0);
        let lost_records = AtomicU64::new(0);
        let (changed, changes) = bounded(1);
        Self { clock, waiting, delivered, failures, lost_records, changed, changes }
    }

    /// Receives a value when records may be due earlier than [`Self::deliver`] said.
    pub(super) fn changes(&self) -> Receiver<()> {
        self.changes.clone()
    }

    /// The figures at this moment.
    pub fn figures(&self) -> BucketLogFigures {
        let waiting = self.waiting.lock().expect(NOT_POISONED);
        let failing = waiting.by_log.values().filter(|records| records.failure.is_some()).count();
        BucketLogFigures {
            delivered: self.delivered.load(Ordering::Relaxed),
            failures: self.failures.load(Ordering::Relaxed),
            lost_records: self.lost_records.load(Ordering::Relaxed),
            waiting_bytes: waiting.bytes as u64,
            failing: failing as u64,
        }
    }

    /// Adds the records of an answered request.
    pub(super) fn record(&self, logged: &LoggedRequest, answered: &AnsweredRequest<'_>) {
        let mut text = String::new();
        logged.lines(answered, &mut text);
        self.add(logged.log().clone(), answered.time, &text);
    }

    /// Adds records. Where too many wait, those are dropped whose target takes none.
    fn add(&self, log: LoggedBucket, time: Timestamp, text: &str) {
        let mut waiting = self.waiting.lock().expect(NOT_POISONED);
        while waiting.bytes + text.len() > LOGS_WAITING_MAX_BYTES {
            let Some(dropped) = waiting.drop_failing() else { return self.lost(text) };
            self.lost(&dropped);
        }
        let day = log.target.is_by_day().then(|| time.as_millis() / DAY_MILLIS);
        let now = self.clock.instant();
        let objects = LogObjects { log, day };
        let none = WaitingRecords { text: String::new(), since: now, first: time, failure: None };
        let records = waiting.by_log.entry(objects).or_insert(none);
        if records.text.len() + text.len() > LOG_WAITING_MAX_BYTES {
            return self.lost(text);
        }
        let was_empty = records.text.is_empty();
        let was_full = records.text.len() >= LOG_OBJECT_BYTES;
        records.text.push_str(text);
        let is_full = records.text.len() >= LOG_OBJECT_BYTES;
        waiting.bytes += text.len();
        if was_empty || is_full && !was_full {
            // A value that is there already serves for both changes.
            let _ = self.changed.try_send(());
        }
    }

    fn lost(&self, text: &str) {
        self.lost_records.fetch_add(text.lines().count() as u64, Ordering::Relaxed);
    }

    /// Delivers what is due. One thread calls it at a time. Returns when the next records are due,
    /// if any wait.
    pub(super) fn deliver(&self, context: &Context, due: DueRecords) -> Option<Instant> {
        for (objects, records) in self.take_due(due) {
            let outcome = self.deliver_records(context, &objects.log, &records);
            self.conclude(objects, records, outcome, due);
        }
        let DueRecords::After(age) = due else { return None };
        let waiting = self.waiting.lock().expect(NOT_POISONED);
        waiting.by_log.values().filter_map(|records| records.due_at(age)).min()
    }

    fn take_due(&self, due: DueRecords) -> Vec<(LogObjects, WaitingRecords)> {
        let mut waiting = self.waiting.lock().expect(NOT_POISONED);
        let now = self.clock.instant();
        let are_due = waiting.by_log.iter().filter(|(_, records)| records.is_due(due, now));
        let due: Vec<_> = are_due.map(|(objects, _)| objects.clone()).collect();
        let mut taken = Vec::new();
        for objects in due {
            if let Some(records) = waiting.by_log.remove(&objects) {
                waiting.bytes -= records.text.len();
                // Nothing is left of a log whose records were dropped.
                if !records.text.is_empty() {
                    taken.push((objects, records));
                }
            }
        }
        taken
    }

    fn deliver_records(
        &self,
        context: &Context,
        log: &LoggedBucket,
        records: &WaitingRecords,
    ) -> Result<(), S3Error> {
        let key = log.target.key(LogObject {
            region: &context.region,
            source: &log.name,
            of_events: records.first,
            delivered: self.clock.now(),
            unique: OsEntropy.next_u64(),
        });
        let id = RequestId::new(&OsEntropy);
        context.deliver_log(LogDelivery { log, key: &key, records: records.text.as_bytes(), id: &id })
    }

    /// Counts a delivery. What failed waits for another attempt, before what has come since.
    fn conclude(
        &self,
        objects: LogObjects,
        records: WaitingRecords,
        outcome: Result<(), S3Error>,
        due: DueRecords,
    ) {
        let LoggedBucket { name, target, .. } = &objects.log;
        let Err(error) = outcome else {
            self.delivered.fetch_add(1, Ordering::Relaxed);
            if records.failure.is_some() {
                log::info!("the log of the bucket {name} is delivered to {} again", target.bucket);
            }
            return;
        };
        self.failures.fetch_add(1, Ordering::Relaxed);
        let code = error.code.as_str();
        if records.failure.is_none_or(|failure| failure.code != code) {
            let message = &error.message;
            log::error!(
                "the log of the bucket {name} cannot be delivered to {}: {code}: {message}",
                target.bucket
            );
        }
        if due == DueRecords::All {
            return self.lost(&records.text);
        }
        let mut waiting = self.waiting.lock().expect(NOT_POISONED);
        let again = self.clock.instant() + RETRY_AFTER;
        let failure = Some(DeliveryFailure { code, again });
        let newer = waiting.by_log.remove(&objects).map(|newer| newer.text).unwrap_or_default();
        waiting.bytes -= newer.len();
        let mut records = WaitingRecords { failure, ..records };
        if records.text.len() + newer.len() <= LOG_WAITING_MAX_BYTES {
            records.text.push_str(&newer);
        } else {
            self.lost(&newer);
        }
        waiting.bytes += records.text.len();
        waiting.by_log.insert(objects, records);
    }
}

impl Waiting {
    /// Takes the records away of that log whose deliveries fail with the most of them.
    fn drop_failing(&mut self) -> Option<String> {
        let failing = self.by_log.values_mut().filter(|records| records.failure.is_some());
        let most = failing.max_by_key(|records| records.text.len()).filter(|most| !most.text.is_empty())?;
        let dropped = mem::take(&mut most.text);
        self.bytes -= dropped.len();
        Some(dropped)
    }
}
