//! What the log holds that no checkpoint covers: what the next start has to read, and the next checkpoint to write.

use std::sync::Mutex;
use std::time::Duration;

use crate::base::limits::{MIB, REPLAY_ENTRY_NANOS, REPLAY_GROUP_NANOS, REPLAY_MAX_MILLIS};
use crate::log::{LogVolume, Reserve};

/// After a checkpoint that failed, the log grows by so much before another is tried.
const RETRY_AFTER_BYTES: u64 = 8 * MIB;
/// No more than that is left for a start to read.
const REPLAY_MAX: Duration = Duration::from_millis(REPLAY_MAX_MILLIS);
const NO_PANIC: &str = "nobody panics while holding it";

/// The groups that no checkpoint covers, and the length of the newest checkpoint.
#[derive(Debug, Default)]
pub(super) struct Backlog(Mutex<BacklogState>);

#[derive(Debug, Default)]
struct BacklogState {
    /// The length of the newest checkpoint, in bytes.
    checkpoint_len: u64,
    /// Those that the checkpoint being written covers, if it succeeds.
    being_covered: LogVolume,
    /// The others.
    groups: LogVolume,
    /// No checkpoint is tried before the log has grown so far.
    not_before: u64,
}

impl BacklogState {
    fn update_reserve(&self, reserve: &Reserve) {
        reserve.set_checkpoint(self.checkpoint_len, self.being_covered.entry_bytes + self.groups.entry_bytes);
    }
}

impl Backlog {
    /// Starts with what a start has found.
    pub(super) fn start(&self, checkpoint_len: u64, groups: LogVolume, reserve: &Reserve) {
        let mut state = self.0.lock().expect(NO_PANIC);
        *state = BacklogState { checkpoint_len, groups, ..BacklogState::default() };
        state.update_reserve(reserve);
    }

    /// Adds a group, after it has been published.
    pub(super) fn add(&self, group: LogVolume, reserve: &Reserve) {
        let mut state = self.0.lock().expect(NO_PANIC);
        state.groups += group;
        state.update_reserve(reserve);
    }

    /// Begins a checkpoint, before its index is taken: a group that is published in between counts as covered by none.
    pub(super) fn begin(&self) {
        let mut state = self.0.lock().expect(NO_PANIC);
        let groups = std::mem::take(&mut state.groups);
        state.being_covered += groups;
        state.not_before = 0;
    }

    /// Ends a checkpoint: one of so many bytes, or none.
    pub(super) fn end(&self, len: Option<u64>, reserve: &Reserve) {
        let mut state = self.0.lock().expect(NO_PANIC);
        let covered = std::mem::take(&mut state.being_covered);
        match len {
            Some(len) => state.checkpoint_len = len,
            None => {
                state.groups += covered;
                state.not_before = state.groups.log_bytes + RETRY_AFTER_BYTES;
            }
        }
        state.update_reserve(reserve);
    }

    /// Whether a checkpoint is due: the log has grown by as much as the last one holds, so that writing checkpoints costs no
    /// more than writing the log, and by `least_bytes`; or a start would take too long to read it.
    pub(super) fn is_due(&self, least_bytes: u64) -> bool {
        let state = self.0.lock().expect(NO_PANIC);
        let due = state.groups.log_bytes >= least_bytes.max(state.checkpoint_len)
            || replay_time(&state.groups) >= REPLAY_MAX;
        due && state.groups.log_bytes >= state.not_before
    }

    /// How long a start would take for all groups that no checkpoint covers.
    pub(super) fn replay_time(&self) -> Duration {
        let state = self.0.lock().expect(NO_PANIC);
        replay_time(&state.being_covered) + replay_time(&state.groups)
    }
}

/// An estimate, from what was measured.
fn replay_time(groups: &LogVolume) -> Duration {
    let nanos = groups.groups * REPLAY_GROUP_NANOS + groups.entries * REPLAY_ENTRY_NANOS;
    Duration::from_nanos(nanos)
}
