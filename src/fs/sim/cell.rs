//! What one place of the disk may hold after a crash.

use super::crash::Survivors;

/// A value on its way to the disk.
#[derive(Debug, Clone)]
struct PendingWrite<T> {
    /// When it was written, by the count of changes to the whole disk.
    at: u64,
    value: T,
    /// A failed sync took the page for written: no later sync carries it.
    lost: bool,
}

/// One place that the disk writes as a whole: a sector, or a length.
#[derive(Debug, Clone)]
pub(super) struct SimCell<T> {
    certain: T,
    /// Oldest first.
    changes: Vec<PendingWrite<T>>,
}

impl<T: Clone> SimCell<T> {
    pub(super) fn new(certain: T) -> Self {
        Self { certain, changes: Vec::new() }
    }

    /// What a reader sees before the crash.
    pub(super) fn current(&self) -> &T {
        self.changes.last().map_or(&self.certain, |change| &change.value)
    }

    /// What no crash takes away.
    pub(super) fn certain(&self) -> &T {
        &self.certain
    }

    pub(super) fn is_durable(&self) -> bool {
        self.changes.is_empty()
    }

    pub(super) fn write(&mut self, at: u64, value: T) {
        self.changes.push(PendingWrite { at, value, lost: false });
    }

    /// A sync of all that was written up to `mark` succeeded.
    pub(super) fn confirm(&mut self, mark: u64) {
        let newest = self.changes.iter().rposition(|change| change.at <= mark && !change.lost);
        if let Some(last) = newest.and_then(|newest| self.changes.drain(..=newest).next_back()) {
            self.certain = last.value;
        }
    }

    /// A sync of all that was written up to `mark` failed.
    pub(super) fn mark_lost(&mut self, mark: u64) {
        for change in self.changes.iter_mut().filter(|change| change.at <= mark) {
            change.lost = true;
        }
    }

    /// Forgets the changes that no sync will carry.
    pub(super) fn evict(&mut self) {
        self.changes.retain(|change| !change.lost);
    }

    /// Times of the changes in doubt.
    pub(super) fn times(&self) -> impl Iterator<Item = u64> {
        self.changes.iter().map(|change| change.at)
    }

    /// The value that a reboot finds.
    pub(super) fn survivor(&self, survivors: &mut Survivors) -> T {
        let times: Vec<u64> = self.times().collect();
        match survivors.reached(&times) {
            0 => self.certain.clone(),
            reached => self.changes[reached - 1].value.clone(),
        }
    }
}
