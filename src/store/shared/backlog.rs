//! The groups that no checkpoint covers: the work of the next start and of the next checkpoint.

use std::sync::Mutex;
use std::time::Duration;

use crate::base::NOT_POISONED;
use crate::base::limits::{MIB, REPLAY_ENTRY_NANOS, REPLAY_GROUP_NANOS, REPLAY_MAX_MILLIS};
use crate::log::{LogVolume, Reserve};

/// The growth of the log before another checkpoint is tried after a failed one.
const RETRY_AFTER_BYTES: u64 = 8 * MIB;
/// The most replay time that is left to the next start.
const REPLAY_MAX: Duration = Duration::from_millis(REPLAY_MAX_MILLIS);

/// The groups that no checkpoint covers, and the length of the newest checkpoint.
#[derive(Debug, Default)]
pub(in crate::store) struct Backlog(Mutex<BacklogState>);

#[derive(Debug, Default)]
struct BacklogState {
    /// The length of the newest checkpoint, in bytes.
    checkpoint_len: u64,
    /// The groups that the checkpoint in progress covers, if it succeeds.
    being_covered: LogVolume,
    /// The later groups.
    groups: LogVolume,
    /// No checkpoint is tried before `groups` has so many bytes of log.
    not_before: u64,
}

impl BacklogState {
    fn update_reserve(&self, reserve: &Reserve) {
        reserve.set_checkpoint(self.checkpoint_len, self.being_covered.entry_bytes + self.groups.entry_bytes);
    }
}

impl Backlog {
    /// Starts with the state that recovery has found.
    pub(in crate::store) fn start(&self, checkpoint_len: u64, groups: LogVolume, reserve: &Reserve) {
        let mut state = self.0.lock().expect(NOT_POISONED);
        *state = BacklogState { checkpoint_len, groups, ..BacklogState::default() };
        state.update_reserve(reserve);
    }

    /// Adds a group, after it has been published.
    pub(in crate::store) fn add(&self, group: LogVolume, reserve: &Reserve) {
        let mut state = self.0.lock().expect(NOT_POISONED);
        state.groups += group;
        state.update_reserve(reserve);
    }

    /// Begins a checkpoint. Call it before the snapshot of the index is taken: a group published in
    /// between counts as not covered.
    pub(in crate::store) fn begin(&self) {
        let mut state = self.0.lock().expect(NOT_POISONED);
        let groups = std::mem::take(&mut state.groups);
        state.being_covered += groups;
        state.not_before = 0;
    }

    /// Ends a checkpoint of `len` bytes; `None` if it failed.
    pub(in crate::store) fn end(&self, len: Option<u64>, reserve: &Reserve) {
        let mut state = self.0.lock().expect(NOT_POISONED);
        let covered = std::mem::take(&mut state.being_covered);
        match len {
            Some(len) => state.checkpoint_len = len,
            None => {
                // As before the attempt. The next one waits for more of the log: the disk that
                // refused this one is asked less often.
                state.groups += covered;
                state.not_before = state.groups.log_bytes + RETRY_AFTER_BYTES;
            }
        }
        state.update_reserve(reserve);
    }

    /// Whether a checkpoint is due. Either the log has grown by `least_bytes` and by the length of
    /// the last checkpoint, so that checkpoints cost no more than the log; or its replay would take
    /// too long.
    pub(in crate::store) fn is_due(&self, least_bytes: u64) -> bool {
        let state = self.0.lock().expect(NOT_POISONED);
        let due = state.groups.log_bytes >= least_bytes.max(state.checkpoint_len)
            || replay_time(&state.groups) >= REPLAY_MAX;
        due && state.groups.log_bytes >= state.not_before
    }

    /// The estimated replay time of all groups that no checkpoint covers.
    pub(in crate::store) fn replay_time(&self) -> Duration {
        let state = self.0.lock().expect(NOT_POISONED);
        replay_time(&state.being_covered) + replay_time(&state.groups)
    }
}

/// An estimate from measured costs per group and entry.
fn replay_time(groups: &LogVolume) -> Duration {
    let nanos = groups.groups * REPLAY_GROUP_NANOS + groups.entries * REPLAY_ENTRY_NANOS;
    Duration::from_nanos(nanos)
}
