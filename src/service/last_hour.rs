//! The users and the buckets with the most requests of the last hour, in memory, for the page of
//! the activity.
//!
//! Every request is counted here, so the threads that handle requests must not wait for each other:
//! each counts in a part that no other one holds, and a reader adds the parts up. Most requests
//! name the user and the bucket of the one before, so a part looks for a name from its front, where
//! it puts the last one: a hash of the name would cost more.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

use super::access_log::AccessRecord;
use crate::base::{NOT_POISONED, Timestamp, beginning_of};

/// Parts in which threads count.
const PARTS: usize = 4;
/// The hour goes by in windows, of which the oldest is dropped as a whole.
const WINDOW_MILLIS: u64 = 5 * 60 * 1_000;
const WINDOWS: usize = 12;
/// Names that a part keeps for a window. Clients choose buckets.
const NAMES_MAX: usize = 64;
/// Bytes of a name that are kept: a bucket has 63 at most.
const NAME_MAX_BYTES: usize = 64;
/// Names of each kind that are told.
const TOLD_MAX: usize = 10;

/// What a user did, or was done in a bucket.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BusyName {
    pub name: String,
    pub requests: u64,
    /// Bytes of the bodies in both directions.
    pub bytes: u64,
}

/// Those with the most requests first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BusyNames {
    pub users: Vec<BusyName>,
    /// By requests that succeeded: others may name buckets that are not there.
    pub buckets: Vec<BusyName>,
}

/// The counts of the last hour.
#[derive(Default)]
pub(super) struct LastHour {
    parts: [Mutex<[CountedWindow; WINDOWS]>; PARTS],
}

#[derive(Default)]
struct CountedWindow {
    /// The number of the window since 1970.
    number: u64,
    users: CountedNames,
    buckets: CountedNames,
}

/// The work by name, that of the last request first.
#[derive(Default)]
struct CountedNames(Vec<(Box<str>, CountedWork)>);

#[derive(Clone, Copy, Default)]
struct CountedWork {
    requests: u64,
    bytes: u64,
}

impl LastHour {
    /// Counts a request. `place` stands for its path, where that does not name the bucket.
    pub(super) fn count(&self, record: &AccessRecord<'_>, place: Option<&str>) {
        let bucket = bucket_in(place.unwrap_or(record.path)).filter(|_| record.status < 400);
        if record.user.is_none() && bucket.is_none() {
            return;
        }
        let number = record.time.as_millis() / WINDOW_MILLIS;
        let bytes = record.received + record.sent;
        let mut windows = self.free_part();
        let window = &mut windows[number as usize % WINDOWS];
        if window.number != number {
            *window = CountedWindow { number, ..CountedWindow::default() };
        }
        if let Some(user) = record.user {
            window.users.add(user, bytes);
        }
        if let Some(bucket) = bucket {
            window.buckets.add(bucket, bytes);
        }
    }

    /// The part of this thread, or the next one that no thread holds.
    fn free_part(&self) -> MutexGuard<'_, [CountedWindow; WINDOWS]> {
        let own = part_of_thread();
        let mut parts = self.parts[own..].iter().chain(&self.parts[..own]);
        let free = parts.find_map(|part| part.try_lock().ok());
        free.unwrap_or_else(|| self.parts[own].lock().expect(NOT_POISONED))
    }

    /// Those with the most requests in the hour before `now`.
    pub(super) fn busiest(&self, now: Timestamp) -> BusyNames {
        let last = now.as_millis() / WINDOW_MILLIS;
        let first = (last + 1).saturating_sub(WINDOWS as u64);
        let mut users = HashMap::new();
        let mut buckets = HashMap::new();
        for part in &self.parts {
            let windows = part.lock().expect(NOT_POISONED);
            for window in windows.iter().filter(|window| (first..=last).contains(&window.number)) {
                window.users.add_to(&mut users);
                window.buckets.add_to(&mut buckets);
            }
        }
        BusyNames { users: in_order(users), buckets: in_order(buckets) }
    }
}

impl CountedNames {
    fn add(&mut self, name: &str, bytes: u64) {
        let name = beginning_of(name, NAME_MAX_BYTES);
        let at = self.0.iter().position(|(counted, _)| **counted == *name);
        let at = at.unwrap_or_else(|| self.insert(name));
        let (_, work) = &mut self.0[at];
        work.requests += 1;
        work.bytes += bytes;
        self.0.swap(0, at);
    }

    /// Adds a name, in place of the one with the fewest requests where there is no room. Returns its
    /// place.
    fn insert(&mut self, name: &str) -> usize {
        if self.0.len() == NAMES_MAX {
            let rarest = self.0.iter().enumerate().min_by_key(|(_, (_, work))| work.requests);
            if let Some((rarest, _)) = rarest {
                self.0.swap_remove(rarest);
            }
        }
        self.0.push((name.into(), CountedWork::default()));
        self.0.len() - 1
    }

    fn add_to(&self, sums: &mut HashMap<String, CountedWork>) {
        for (name, work) in &self.0 {
            let sum = sums.entry(name.to_string()).or_default();
            sum.requests += work.requests;
            sum.bytes += work.bytes;
        }
    }
}

/// The bucket that a path begins with. Pages of the server are in none.
fn bucket_in(path: &str) -> Option<&str> {
    let bucket = path.strip_prefix('/')?.split('/').next()?;
    (!matches!(bucket, "" | "-")).then_some(bucket)
}

fn in_order(sums: HashMap<String, CountedWork>) -> Vec<BusyName> {
    let names = sums.into_iter();
    let mut names: Vec<_> =
        names.map(|(name, CountedWork { requests, bytes })| BusyName { name, requests, bytes }).collect();
    names.sort_by(|one, other| (other.requests, &one.name).cmp(&(one.requests, &other.name)));
    names.truncate(TOLD_MAX);
    names
}

/// The part in which this thread counts.
fn part_of_thread() -> usize {
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static PART: Cell<usize> = Cell::new(THREADS.fetch_add(1, Ordering::Relaxed) % PARTS);
    }
    PART.get()
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Duration;

    use super::*;

    /// A time within the first window of an hour.
    const BEGIN: u64 = WINDOW_MILLIS * 1_000;

    fn record<'r>(millis: u64, path: &'r str, user: Option<&'r str>, status: u16) -> AccessRecord<'r> {
        AccessRecord {
            time: Timestamp::from_millis(millis),
            id: "id",
            peer: None,
            user,
            operation: "GetObject",
            method: "GET",
            path,
            query: "",
            status,
            error: None,
            received: 1,
            sent: 2,
            took: Duration::ZERO,
            secure: false,
            agent: "",
        }
    }

    fn busiest(hour: &LastHour, millis: u64) -> BusyNames {
        hour.busiest(Timestamp::from_millis(millis))
    }

    fn names(busy: &[BusyName]) -> Vec<(&str, u64, u64)> {
        busy.iter().map(|it| (&*it.name, it.requests, it.bytes)).collect()
    }

    #[test]
    fn users_and_buckets_are_told_by_their_requests() {
        let hour = LastHour::default();
        hour.count(&record(BEGIN, "/photos/a", Some("ada"), 200), None);
        hour.count(&record(BEGIN + 1, "/k", Some("bob"), 206), Some("/site/k"));
        hour.count(&record(BEGIN + 2, "/photos", Some("ada"), 200), None);
        hour.count(&record(BEGIN + 3, "/no-such-bucket/a", Some("ada"), 404), None);
        for path in ["/", "", "/-/health", "/-"] {
            hour.count(&record(BEGIN + 4, path, None, 200), None);
        }
        let busy = busiest(&hour, BEGIN + 5);
        assert_eq!(names(&busy.users), [("ada", 3, 9), ("bob", 1, 3)]);
        assert_eq!(names(&busy.buckets), [("photos", 2, 6), ("site", 1, 3)]);
    }

    #[test]
    fn an_hour_later_nothing_of_it_counts() {
        let hour = LastHour::default();
        hour.count(&record(BEGIN, "/b/k", Some("ada"), 200), None);
        let last = BEGIN + WINDOW_MILLIS * (WINDOWS as u64 - 1);
        hour.count(&record(last, "/b/k", Some("ada"), 200), None);
        assert_eq!(names(&busiest(&hour, last).buckets), [("b", 2, 6)]);
        assert_eq!(names(&busiest(&hour, last + WINDOW_MILLIS).buckets), [("b", 1, 3)]);
        // The window of the first request is used again.
        hour.count(&record(last + WINDOW_MILLIS, "/b/k", Some("ada"), 200), None);
        assert_eq!(names(&busiest(&hour, last + WINDOW_MILLIS).users), [("ada", 2, 6)]);
        // The clock was set back: what was noted ahead of it is not of the last hour.
        assert_eq!(busiest(&hour, BEGIN - WINDOW_MILLIS), BusyNames::default());
    }

    #[test]
    fn many_names_do_not_crowd_out_the_busy_ones() {
        let hour = LastHour::default();
        let long = "ü".repeat(5_000);
        for number in 0..10 * NAMES_MAX {
            hour.count(&record(BEGIN, &format!("/b{number}/k"), Some(&format!("{number}{long}")), 200), None);
            hour.count(&record(BEGIN, "/busy/k", Some("busy"), 200), None);
        }
        let busy = busiest(&hour, BEGIN);
        let requests = 10 * NAMES_MAX as u64;
        assert_eq!(names(&busy.buckets)[0], ("busy", requests, 3 * requests));
        assert_eq!((busy.users[0].name.as_str(), busy.users.len()), ("busy", TOLD_MAX));
        assert!(busy.users.iter().all(|user| user.name.len() <= NAME_MAX_BYTES));
        let window = (BEGIN / WINDOW_MILLIS) as usize % WINDOWS;
        let kept = hour.parts.iter().map(|part| part.lock().unwrap()[window].buckets.0.len()).max();
        assert_eq!(kept, Some(NAMES_MAX));
    }

    #[test]
    fn no_request_waits_for_one_that_counts() {
        let hour = LastHour::default();
        let held = hour.parts[part_of_thread()].lock().unwrap();
        hour.count(&record(BEGIN, "/b/k", None, 200), None);
        drop(held);
        assert_eq!(names(&busiest(&hour, BEGIN).buckets), [("b", 1, 3)]);
    }

    #[test]
    fn the_counts_of_all_threads_are_added_up() {
        let hour = LastHour::default();
        thread::scope(|threads| {
            for _ in 0..2 * PARTS {
                threads.spawn(|| {
                    for _ in 0..100 {
                        hour.count(&record(BEGIN, "/b/k", None, 200), None);
                    }
                });
            }
        });
        assert_eq!(names(&busiest(&hour, BEGIN).buckets), [("b", 200 * PARTS as u64, 600 * PARTS as u64)]);
    }
}
