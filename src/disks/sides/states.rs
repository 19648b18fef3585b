//! The states of both sides of a mirror in use, and their changes, for operators.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use crate::base::{Clock, NOT_POISONED, Timestamp};
use crate::fs::{Side, SideUse};

/// Changes that are kept until they are taken: where nobody takes them, the oldest ones go.
const CHANGES_MAX: usize = 64;

/// The state of a side of a mirror in use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SideStatus {
    /// Its use.
    pub usage: SideUse,
    /// The beginning of that use: of a whole side, that of the generation in which it is whole; else
    /// at the earliest the start of the server.
    pub since: Timestamp,
    /// The reason why it is not used; empty where it is.
    pub why: String,
}

/// A change of the use of a side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SideChange {
    /// The side.
    pub side: Side,
    /// Its use before; whole, of a side that a start cannot use.
    pub before: SideUse,
    /// Its state since then.
    pub status: SideStatus,
}

/// The states of both sides. A [`SideUse`] is noted here once it is on the marks.
pub(super) struct SideStates {
    clock: Arc<dyn Clock>,
    noted: Mutex<NotedStates>,
}

struct NotedStates {
    sides: [SideStatus; 2],
    changes: VecDeque<SideChange>,
}

impl SideStates {
    /// Both sides are whole since that time.
    pub(super) fn whole_since(since: Timestamp, clock: Arc<dyn Clock>) -> Self {
        let whole = SideStatus { usage: SideUse::Whole, since, why: String::new() };
        let noted = NotedStates { sides: [whole.clone(), whole], changes: VecDeque::new() };
        Self { clock, noted: Mutex::new(noted) }
    }

    fn noted(&self) -> MutexGuard<'_, NotedStates> {
        self.noted.lock().expect(NOT_POISONED)
    }

    /// Notes the use of a side from now on, and why it is not used, if it is not.
    pub(super) fn note(&self, side: Side, usage: SideUse, why: &str) {
        let status = SideStatus { usage, since: self.clock.now(), why: why.to_owned() };
        let mut noted = self.noted();
        let before = std::mem::replace(&mut noted.sides[side.index()], status.clone()).usage;
        if noted.changes.len() == CHANGES_MAX {
            noted.changes.pop_front();
        }
        noted.changes.push_back(SideChange { side, before, status });
    }

    pub(super) fn statuses(&self) -> [SideStatus; 2] {
        self.noted().sides.clone()
    }

    /// The changes since the last call, the oldest first.
    pub(super) fn take_changes(&self) -> Vec<SideChange> {
        self.noted().changes.drain(..).collect()
    }
}
