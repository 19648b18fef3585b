//! The disk space that is kept free, and the operations that may use it. This one rule makes sure that everything can
//! be deleted, however full the disk is.
//!
//! A delete itself takes space: it is a group of the log, and the log shrinks only after a checkpoint. So there must
//! always be space for that checkpoint and for the log up to it:
//!
//! | claim | leaves free |
//! |---|---|
//! | growth: puts, parts, uploads, tags, new buckets | the checkpoint and the headroom |
//! | upkeep: relocation, delete markers | the checkpoint and half of the headroom |
//! | removal: deletes, aborts, idle groups | the checkpoint |
//! | the checkpoint | nothing |
//!
//! *The checkpoint* is an upper bound on the length of a checkpoint written at this moment. *The headroom* is a
//! constant, `keep_free_bytes`.
//!
//! Why that is enough: a new checkpoint makes the last checkpoint and the log after it removable. Every entry of the
//! new checkpoint is in one of these two. So together they are at least as long as the new one, plus the log of the
//! deletes. After the checkpoint at least as much space is free as before the deletes, and the next checkpoint is no
//! longer than this one.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::base::limits::KIB;

/// The purpose for which disk space is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpaceClaim {
    /// The operation makes the store larger.
    Growth,
    /// The operation makes the metadata larger, or takes space first, but leads to a smaller store.
    Upkeep,
    /// The operation makes the store smaller.
    Removal,
}

/// The header of a checkpoint file, the padding of its last groups, and its end, with a margin.
const CHECKPOINT_BESIDE_BYTES: u64 = 16 * KIB;
/// A group of a checkpoint has more than 256 KiB of entries; header and padding are smaller than this share of it.
const CHECKPOINT_PADDING_SHARE: u64 = 32;

/// The bytes that are kept free.
#[derive(Debug)]
pub struct Reserve {
    headroom_bytes: u64,
    checkpoint_bytes: AtomicU64,
    /// Bytes already allocated for the checkpoint that is being written.
    allocated_bytes: AtomicU64,
}

impl Reserve {
    /// A reserve with this headroom, for a store without metadata.
    pub fn new(headroom_bytes: u64) -> Self {
        let checkpoint_bytes = AtomicU64::new(CHECKPOINT_BESIDE_BYTES);
        Self { headroom_bytes, checkpoint_bytes, allocated_bytes: AtomicU64::new(0) }
    }

    /// Sets the bound on a checkpoint from `checkpoint_len`, the bytes of the last one, and `entry_bytes`, the
    /// entries in the log since.
    pub fn set_checkpoint(&self, checkpoint_len: u64, entry_bytes: u64) {
        let entries = entry_bytes + entry_bytes / CHECKPOINT_PADDING_SHARE;
        self.checkpoint_bytes.store(checkpoint_len + entries + CHECKPOINT_BESIDE_BYTES, Ordering::Relaxed);
    }

    /// The bound on the length of a checkpoint written at this moment, in bytes.
    pub fn checkpoint_bytes(&self) -> u64 {
        self.checkpoint_bytes.load(Ordering::Relaxed)
    }

    /// Sets the bytes that the checkpoint being written has allocated: they need not be kept free.
    pub fn set_allocated(&self, bytes: u64) {
        self.allocated_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Bytes that a claim must leave free.
    pub fn bytes_kept_free(&self, claim: SpaceClaim) -> u64 {
        let headroom = match claim {
            SpaceClaim::Growth => self.headroom_bytes,
            SpaceClaim::Upkeep => self.headroom_bytes / 2,
            SpaceClaim::Removal => 0,
        };
        let checkpoint = self.checkpoint_bytes().saturating_sub(self.allocated_bytes.load(Ordering::Relaxed));
        headroom.saturating_add(checkpoint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::limits::MIB;

    #[test]
    fn removal_may_use_the_space_that_growth_must_leave_free() {
        let reserve = Reserve::new(64 * MIB);
        let empty = reserve.bytes_kept_free(SpaceClaim::Removal);
        reserve.set_checkpoint(10 * MIB, 32 * MIB);
        let kept = [SpaceClaim::Removal, SpaceClaim::Upkeep, SpaceClaim::Growth]
            .map(|claim| reserve.bytes_kept_free(claim) - empty);
        assert_eq!(kept, [43 * MIB, 75 * MIB, 107 * MIB]);
        reserve.set_allocated(40 * MIB);
        assert_eq!(reserve.bytes_kept_free(SpaceClaim::Removal) - empty, 3 * MIB);
        reserve.set_allocated(90 * MIB);
        assert_eq!(reserve.bytes_kept_free(SpaceClaim::Growth), 64 * MIB);
    }
}
