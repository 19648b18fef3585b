//! Bounds of the groups that versions are in. A version has its id before its commit, and a large
//! one long before: its id does not say which group it is in.

use std::collections::VecDeque;

use crate::format::{Entry, VersionId};

/// Groups whose bounds are kept.
const GROUPS_MAX: usize = 4096;

/// The last group that each version can be in, for the versions of all ids.
#[derive(Debug)]
pub(in crate::store) struct CommitBounds {
    /// The last group of which nothing more is known.
    before: u64,
    /// Groups in their order. The lowest ids rise: a group says nothing of ids from which on a
    /// later group has versions, too.
    groups: VecDeque<GroupBound>,
}

/// A group and the lowest id of the versions that it made.
#[derive(Debug)]
struct GroupBound {
    sequence: u64,
    lowest: VersionId,
}

impl CommitBounds {
    /// The bounds where nothing is known of the groups up to `sequence`.
    pub(in crate::store) fn after(sequence: u64) -> Self {
        Self { before: sequence, groups: VecDeque::new() }
    }

    /// Adds the next group.
    pub(in crate::store) fn add(&mut self, sequence: u64, entries: &[Entry]) {
        let mut lowest = None;
        for entry in entries {
            if let Entry::VersionPut { record, .. } = entry {
                lowest = Some(lowest.map_or(record.id, |lowest| record.id.min(lowest)));
            }
        }
        if let Some(lowest) = lowest {
            self.add_group(GroupBound { sequence, lowest });
        }
    }

    fn add_group(&mut self, group: GroupBound) {
        while self.groups.back().is_some_and(|last| last.lowest >= group.lowest) {
            self.groups.pop_back();
        }
        self.groups.push_back(group);
        if self.groups.len() > GROUPS_MAX {
            self.before = self.groups.pop_front().map_or(self.before, |group| group.sequence);
        }
    }

    /// The last group that a committed version can be in.
    pub(in crate::store) fn last_of(&self, version: VersionId) -> u64 {
        let at = self.groups.partition_point(|group| group.lowest <= version);
        match at.checked_sub(1) {
            Some(last) => self.groups[last].sequence,
            None => self.before,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(bounds: &mut CommitBounds, sequence: u64, lowest: u64) {
        bounds.add_group(GroupBound { sequence, lowest: VersionId(lowest) });
    }

    #[test]
    fn a_version_is_in_the_last_group_that_has_no_lower_id_after_it() {
        let mut bounds = CommitBounds::after(7);
        assert_eq!(bounds.last_of(VersionId(1)), 7);
        add(&mut bounds, 8, 100);
        add(&mut bounds, 9, 200);
        add(&mut bounds, 11, 300);
        let last = |bounds: &CommitBounds| [99, 100, 199, 200, 999].map(|id| bounds.last_of(VersionId(id)));
        assert_eq!(last(&bounds), [7, 8, 8, 9, 11]);
        // A slow put, whose id is older than those of the groups before it.
        add(&mut bounds, 12, 150);
        assert_eq!(last(&bounds), [7, 8, 12, 12, 12]);
        add(&mut bounds, 13, 400);
        assert_eq!(last(&bounds), [7, 8, 12, 12, 13]);
    }

    #[test]
    fn the_bounds_of_the_oldest_groups_are_given_up_and_stay_true() {
        let mut bounds = CommitBounds::after(0);
        let groups = GROUPS_MAX as u64 + 10;
        for sequence in 1..=groups {
            add(&mut bounds, sequence, sequence * 10);
        }
        assert_eq!(bounds.groups.len(), GROUPS_MAX);
        for sequence in 1..=groups {
            let last = bounds.last_of(VersionId(sequence * 10 + 5));
            assert_eq!(last, sequence.max(10), "its group, or the last one that is given up");
        }
    }

    #[test]
    fn groups_without_versions_say_nothing() {
        let mut bounds = CommitBounds::after(3);
        bounds.add(4, &[]);
        assert_eq!(bounds.last_of(VersionId(u64::MAX)), 3);
    }
}
