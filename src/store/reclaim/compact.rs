//! Compaction of a store without clients: every segment is emptied into new ones.

use super::ReclaimPolicy;
use crate::store::{Store, StoreError};

impl Store {
    /// The live bytes of the segment with the most of them.
    pub(crate) fn fullest_segment_bytes(&self) -> u64 {
        let index = self.shared.index();
        index.liveness().iter().map(|(_, live)| live).max().unwrap_or(0)
    }

    /// Relocates all live extents. `go_on` is called between two steps with the bytes that were
    /// moved; `false` interrupts. Returns whether all segments were emptied.
    ///
    /// # Errors
    /// As of [`Store::reclaim`].
    pub(crate) fn empty_segments(&self, go_on: &mut dyn FnMut(u64) -> bool) -> Result<bool, StoreError> {
        // The active segments, too: only immutable ones are relocated.
        self.shared.segments.retire(|_| true);
        loop {
            let more = self.reclaim_by(ReclaimPolicy::OFFLINE)?.more;
            if !more {
                // The segments of the last copies are sealed, too.
                let index = self.shared.index();
                self.shared.segments.retire(|id| index.liveness().of(id) > 0);
                drop(index);
                self.shared.segments.seal_retired().map_err(|error| self.shared.write_failed(error))?;
                return Ok(true);
            }
            if !go_on(self.health().moved_bytes) {
                return Ok(false);
            }
        }
    }

    /// Writes two checkpoints, each after a group of its own, so that the log before them can go.
    ///
    /// # Errors
    /// As of [`Store::checkpoint`].
    pub(crate) fn renew_log(&self) -> Result<(), StoreError> {
        for _ in 0..2 {
            self.committer.write_idle_group()?;
            self.checkpoint()?;
        }
        Ok(())
    }
}
