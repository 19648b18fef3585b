//! The possible contents of one sector or length after a crash.

use super::crash::Survivors;

/// A value that is not durable yet.
#[derive(Debug, Clone)]
struct PendingWrite<T> {
    /// The time of the write: the number of changes to the whole disk before it.
    at: u64,
    value: T,
    /// A failed sync marked the page clean: no later sync covers it.
    lost: bool,
}

/// A sector or a length, which the disk writes atomically.
#[derive(Debug, Clone)]
pub(super) struct SimCell<T> {
    durable: T,
    /// Oldest first.
    changes: Vec<PendingWrite<T>>,
}

impl<T: Clone> SimCell<T> {
    pub(super) fn new(durable: T) -> Self {
        Self { durable, changes: Vec::new() }
    }

    /// The value that a reader sees before the crash.
    pub(super) fn current(&self) -> &T {
        self.changes.last().map_or(&self.durable, |change| &change.value)
    }

    /// The durable value.
    pub(super) fn durable(&self) -> &T {
        &self.durable
    }

    pub(super) fn is_durable(&self) -> bool {
        self.changes.is_empty()
    }

    pub(super) fn write(&mut self, at: u64, value: T) {
        self.changes.push(PendingWrite { at, value, lost: false });
    }

    /// Applies a successful sync of the writes up to `mark`.
    pub(super) fn confirm(&mut self, mark: u64) {
        let newest = self.changes.iter().rposition(|change| change.at <= mark && !change.lost);
        if let Some(last) = newest.and_then(|newest| self.changes.drain(..=newest).next_back()) {
            self.durable = last.value;
        }
    }

    /// Applies a failed sync of the writes up to `mark`.
    pub(super) fn mark_lost(&mut self, mark: u64) {
        for change in self.changes.iter_mut().filter(|change| change.at <= mark) {
            change.lost = true;
        }
    }

    /// Drops the lost writes.
    pub(super) fn evict(&mut self) {
        self.changes.retain(|change| !change.lost);
    }

    /// The times of the writes that are not durable.
    pub(super) fn times(&self) -> impl Iterator<Item = u64> {
        self.changes.iter().map(|change| change.at)
    }

    /// The value after a reboot.
    pub(super) fn after_crash(&self, survivors: &mut Survivors) -> T {
        let times: Vec<u64> = self.times().collect();
        match survivors.reached(&times) {
            0 => self.durable.clone(),
            reached => self.changes[reached - 1].value.clone(),
        }
    }
}
