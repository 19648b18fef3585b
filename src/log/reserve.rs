//! The disk space that is kept free, and the operations that may use it. This one rule makes sure
//! that everything can be deleted, however full the disk is.
//!
//! A delete itself takes space: it is a group of the log, and the log shrinks only after a
//! checkpoint. So there must always be space for that checkpoint and for the log up to it:
//!
//! | claim | leaves free |
//! |---|---|
//! | growth: puts, parts, uploads, tags, new buckets | the checkpoint and the headroom |
//! | upkeep: relocation, delete markers | the checkpoint and half of the headroom |
//! | removal: deletes, aborts, idle groups | the checkpoint |
//! | the checkpoint | nothing |
//!
//! *The checkpoint* is an upper bound on the length of a checkpoint written at this moment. *The
//! headroom* is a constant, `keep_free_bytes`.
//!
//! Why that is enough: a new checkpoint makes the last checkpoint and the log after it removable.
//! Every entry of the new checkpoint is in one of these two. So together they are at least as long
//! as the new one, plus the log of the deletes. After the checkpoint at least as much space is free
//! as before the deletes, and the next checkpoint is no longer than this one.

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
/// A group of a checkpoint has more than 256 KiB of entries; header and padding are smaller than
/// this share of it.
const CHECKPOINT_PADDING_SHARE: u64 = 32;

/// The bytes that are kept free.
#[derive(Debug)]
pub struct Reserve {
    headroom_bytes: u64,
    checkpoint_bytes: AtomicU64,
    /// Bytes already allocated for the checkpoint that is being written.
    allocated_bytes: AtomicU64,
    /// Bytes that growth may still take, however much is free; `u64::MAX` without such a limit.
    growth_left: AtomicU64,
}

impl Reserve {
    /// A reserve with this headroom, for a store without metadata.
    pub fn new(headroom_bytes: u64) -> Self {
        let checkpoint_bytes = AtomicU64::new(CHECKPOINT_BESIDE_BYTES);
        let allocated_bytes = AtomicU64::new(0);
        let growth_left = AtomicU64::new(u64::MAX);
        Self { headroom_bytes, checkpoint_bytes, allocated_bytes, growth_left }
    }

    /// Sets the bound on a checkpoint from `checkpoint_len`, the bytes of the last one, and
    /// `entry_bytes`, the entries in the log since.
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

    /// Sets the bytes of segments that growth may still take, however much is free: what segments
    /// take up may be limited.
    pub fn set_growth_left(&self, bytes: u64) {
        self.growth_left.store(bytes, Ordering::Relaxed);
    }

    /// Counts bytes of segments that growth has taken.
    pub fn take_growth(&self, bytes: u64) {
        let _ = self.growth_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
            // Without a limit nothing is counted.
            (left != u64::MAX).then(|| left.saturating_sub(bytes))
        });
    }

    /// Bytes that growth may take of `free_bytes` free bytes of a disk that takes no checkpoints.
    pub fn room_beside_checkpoint(&self, free_bytes: u64, claim: SpaceClaim) -> u64 {
        self.limited(free_bytes.saturating_sub(self.headroom(claim)), claim)
    }

    /// Bytes that a claim may take where `free_bytes` bytes are free.
    pub fn room(&self, free_bytes: u64, claim: SpaceClaim) -> u64 {
        self.limited(free_bytes.saturating_sub(self.bytes_kept_free(claim)), claim)
    }

    fn limited(&self, room: u64, claim: SpaceClaim) -> u64 {
        match claim {
            SpaceClaim::Growth => room.min(self.growth_left.load(Ordering::Relaxed)),
            SpaceClaim::Upkeep | SpaceClaim::Removal => room,
        }
    }

    /// Bytes that a claim must leave free.
    pub fn bytes_kept_free(&self, claim: SpaceClaim) -> u64 {
        let headroom = self.headroom(claim);
        let checkpoint = self.checkpoint_bytes().saturating_sub(self.allocated_bytes.load(Ordering::Relaxed));
        headroom.saturating_add(checkpoint)
    }

    fn headroom(&self, claim: SpaceClaim) -> u64 {
        match claim {
            SpaceClaim::Growth => self.headroom_bytes,
            SpaceClaim::Upkeep => self.headroom_bytes / 2,
            SpaceClaim::Removal => 0,
        }
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

    #[test]
    fn growth_may_have_a_limit_of_its_own() {
        let reserve = Reserve::new(0);
        let rooms = || [SpaceClaim::Growth, SpaceClaim::Upkeep].map(|claim| reserve.room(10 * MIB, claim));
        let all = 10 * MIB - CHECKPOINT_BESIDE_BYTES;
        reserve.take_growth(MIB);
        assert_eq!(rooms(), [all, all]);
        reserve.set_growth_left(3 * MIB);
        reserve.take_growth(MIB);
        assert_eq!(rooms(), [2 * MIB, all]);
        reserve.take_growth(9 * MIB);
        assert_eq!(rooms(), [0, all]);
    }
}
