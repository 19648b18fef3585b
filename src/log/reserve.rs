//! How much of the disk is kept free, and for whom: the one rule by which everything can be deleted, however full the disk is.
//!
//! A delete takes room itself. It is a group of the log, and the log grows until a checkpoint lets it go. So there must always be
//! room for that checkpoint, and for the log up to it:
//!
//! | claim | leaves free |
//! |---|---|
//! | growth: puts, parts, uploads, tags, new buckets | the checkpoint and the headroom |
//! | upkeep: moving extents, delete markers | the checkpoint and half of the headroom |
//! | removal: deletes, aborts, marks | the checkpoint |
//! | the checkpoint | nothing |
//!
//! *The checkpoint* is a bound on the length of one written now. *The headroom* is a constant, `keep_free_bytes`.
//!
//! Why that is enough: with the checkpoint all metadata from before it can go, which is the last checkpoint and the log behind
//! it. Every entry of the new checkpoint stands in one of these. So they are at least as long as it is, and longer by the log
//! of the deletes. After the checkpoint as much is free as before the deletes, and the next one is no longer than this one.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::base::limits::KIB;

/// What wants room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpaceClaim {
    /// Something that makes the store larger.
    Growth,
    /// Something that makes the metadata larger, or takes room first, but on the way to smaller.
    Upkeep,
    /// Something that makes the store smaller.
    Removal,
}

/// The header of a checkpoint's file, the padding of its last groups, and its end, with something to spare.
const CHECKPOINT_BESIDE_BYTES: u64 = 16 * KIB;
/// A group of a checkpoint has more than 256 KiB of entries; header and padding take less than this share of it.
const CHECKPOINT_PADDING_SHARE: u64 = 32;

/// The bytes that are kept free.
#[derive(Debug)]
pub struct Reserve {
    headroom_bytes: u64,
    checkpoint_bytes: AtomicU64,
    /// What is allocated already for the checkpoint that is being written.
    allocated_bytes: AtomicU64,
}

impl Reserve {
    /// A reserve with this headroom, for a store without metadata.
    pub fn new(headroom_bytes: u64) -> Self {
        let checkpoint_bytes = AtomicU64::new(CHECKPOINT_BESIDE_BYTES);
        Self { headroom_bytes, checkpoint_bytes, allocated_bytes: AtomicU64::new(0) }
    }

    /// Sets the bound on a checkpoint: `checkpoint_len` bytes of the last one, and `entry_bytes` of entries in the log since.
    pub fn set_checkpoint(&self, checkpoint_len: u64, entry_bytes: u64) {
        let entries = entry_bytes + entry_bytes / CHECKPOINT_PADDING_SHARE;
        self.checkpoint_bytes.store(checkpoint_len + entries + CHECKPOINT_BESIDE_BYTES, Ordering::Relaxed);
    }

    /// A bound on the length of a checkpoint written now, in bytes.
    pub fn checkpoint_bytes(&self) -> u64 {
        self.checkpoint_bytes.load(Ordering::Relaxed)
    }

    /// Sets how many bytes a checkpoint that is being written has allocated: those need not be kept free any more.
    pub fn set_allocated(&self, bytes: u64) {
        self.allocated_bytes.store(bytes, Ordering::Relaxed);
    }

    /// How many bytes a claim must leave free.
    pub fn kept_from(&self, claim: SpaceClaim) -> u64 {
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
    fn who_makes_the_store_smaller_may_use_what_the_others_leave() {
        let reserve = Reserve::new(64 * MIB);
        let empty = reserve.kept_from(SpaceClaim::Removal);
        reserve.set_checkpoint(10 * MIB, 32 * MIB);
        let kept = [SpaceClaim::Removal, SpaceClaim::Upkeep, SpaceClaim::Growth]
            .map(|claim| reserve.kept_from(claim) - empty);
        assert_eq!(kept, [43 * MIB, 75 * MIB, 107 * MIB]);
        reserve.set_allocated(40 * MIB);
        assert_eq!(reserve.kept_from(SpaceClaim::Removal) - empty, 3 * MIB);
        reserve.set_allocated(90 * MIB);
        assert_eq!(reserve.kept_from(SpaceClaim::Growth), 64 * MIB);
    }
}
