//! Failures of parties within a minute, by which each is limited.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::{Duration, Instant};

/// The time that a count holds for.
pub const FAILURE_WINDOW: Duration = Duration::from_secs(60);
/// Parties whose failures are counted. A further one replaces the oldest.
pub const COUNTED_PARTIES_MAX: usize = 4_096;

/// The failures of each party since its count began, at most a minute ago.
#[derive(Debug)]
pub struct FailureCounts<P>(HashMap<P, FailureCount>);

#[derive(Debug)]
struct FailureCount {
    since: Instant,
    failures: u32,
}

impl<P> Default for FailureCounts<P> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<P: Clone + Eq + Hash> FailureCounts<P> {
    /// Counts an attempt before it is made, so that attempts at the same time share the limit.
    /// Returns whether it may be made. [`Self::take_back`] takes it back.
    pub fn begin(&mut self, party: P, failures_max: u32, now: Instant) -> bool {
        let is_over = |count: &FailureCount| now.saturating_duration_since(count.since) >= FAILURE_WINDOW;
        if !self.0.contains_key(&party) && self.0.len() >= COUNTED_PARTIES_MAX {
            self.0.retain(|_, count| !is_over(count));
            if self.0.len() >= COUNTED_PARTIES_MAX {
                remove_oldest(&mut self.0, |count| count.since);
            }
        }
        let count = self.0.entry(party).or_insert(FailureCount { since: now, failures: 0 });
        if is_over(count) {
            *count = FailureCount { since: now, failures: 0 };
        }
        count.failures = count.failures.saturating_add(1);
        count.failures <= failures_max
    }

    /// Takes an attempt back that was no failure of the party. The failures before it stay.
    pub fn take_back(&mut self, party: &P) {
        if let Some(count) = self.0.get_mut(party) {
            count.failures = count.failures.saturating_sub(1);
        }
    }

    /// The parties that are counted.
    pub fn parties(&self) -> impl ExactSizeIterator<Item = &P> {
        self.0.keys()
    }
}

/// Removes the entry with the earliest time.
pub fn remove_oldest<K: Clone + Eq + Hash, V>(map: &mut HashMap<K, V>, time: impl Fn(&V) -> Instant) {
    let oldest = map.iter().min_by_key(|(_, value)| time(value)).map(|(key, _)| key.clone());
    if let Some(oldest) = oldest {
        map.remove(&oldest);
    }
}
