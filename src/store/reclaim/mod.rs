//! Reclaiming the space of deleted and replaced objects, while the store is in use.
//!
//! # Removing a dead segment
//!
//! 1. The immutable segments are listed: the store never appends to them again, and every write to
//!    them was committed or has ended.
//! 2. The index shows which of them no record refers to. It holds durable groups only.
//! 3. Each of those is unlinked, unless a reader has it open.
//! 4. The directory is synced.
//!
//! Step 1 must come before step 2: otherwise the bytes of a put that is committed in between would
//! pass for dead. Step 3 checks for readers last: a later reader finds a record that refers
//! elsewhere. Nothing depends on step 4; a name that comes back after a crash is removed again.
//!
//! Recovery reads the pack of the last group to decide whether the group counts, even if all of the
//! pack is dead. The segment of that pack stays until another group has followed.
//!
//! # Relocating the live extents of a mostly dead segment
//!
//! 5. The live extents are copied unchanged and checked on the way. A bad extent is reported and
//!    stays.
//! 6. The copies are synced.
//! 7. The committer makes the records refer to the copies, if they still refer to the originals: an
//!    update of each record, all in one group. The originals are dead from then on, and the segment
//!    is removed as above.
//!
//! Step 6 must come before step 7: otherwise records would refer to bytes that a crash may lose. A
//! crash before step 7 leaves copies without references; they are dead and are reclaimed later. The
//! copier holds the allocations of its copies until step 7 is done, so that they do not pass for
//! dead before.
//!
//! An extent that several records share is copied once. The original stays until the last of those
//! records refers to the copy, which may take several groups.
//!
//! The live extents come from one walk over the index, for as many segments as are worth it. The
//! descriptors in a segment do not suffice: they name the first owner of an extent and none of its
//! copies, and a damaged one would hide live extents.
//!
//! # Punching holes into a mostly live segment
//!
//! 8. One walk over one snapshot of the index finds, for all sealed segments in which enough has
//!    died, every gap of a megabyte or more that no record refers to. The snapshot is taken after
//!    the segments have become immutable, as in steps 1 and 2.
//! 9. A segment whose file has another name is left alone. A process that copies the store, as
//!    `backup` does, gives each segment a further name and then reads the metadata. So a hole may
//!    hold only bytes that were dead in a durable group before the file was seen to have one name.
//!    A look before the snapshot would prove nothing.
//! 10. A segment with readers is left alone, too. Later readers refer to nothing that was dead in
//!     the snapshot, so the gaps stay valid, and the segment is punched once it is free, without
//!     another walk.
//! 11. The holes are punched, and the file is synced. Nothing depends on the sync: any part of the
//!     dead bytes may come back.
//!
//! If space is short, relocation comes first: it frees more than holes do.
//!
//! A read-only store is left as it is: if the log is damaged, bytes that look dead may belong to
//! the lost groups.

mod baselines;
mod candidates;
mod compact;
mod gaps;
mod holes;
mod relocation;
mod verdicts;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Instant;

use crossbeam_channel::Receiver;

use crate::base::limits::{
    COMPACT_BELOW_LIVE_PERCENT, MERGE_BELOW_LIVE_PERCENT, MOVE_BELOW_LIVE_PERCENT, SEGMENTS_BESIDE_MAX,
};
use crate::format::{Entry, FileKind, MoveVerdict};
use crate::log::{LogError, SpaceClaim, WriteHead};
use crate::store::shared::{Published, SharedStore};
use crate::store::{Store, StoreError};
use baselines::LiveBaselines;
use candidates::{CandidateScan, RoomShortage};
use holes::{DeferredHoles, HoleSearch, SearchedSegment};
use relocation::RelocationPass;
pub(crate) use verdicts::load;

/// Segments per call that may get a missing footer.
const SEALED_PER_CALL: usize = 64;
/// If space is short, a write head leaves its segment once this many bytes in it are dead, and at
/// least half of it.
const LEFT_DEAD_MIN_BYTES: u64 = 64 * 1024;
/// Keys per step of a walk, during which the index is locked against the committer.
const KEYS_PER_WALK: usize = 256;
/// Steps of a walk per call.
const WALKS_PER_CALL: usize = 64;

/// The work of one call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reclaimed {
    /// Segments that were removed.
    pub segments: u64,
    /// Bytes that were given back to the file system.
    pub bytes: u64,
    /// Bytes of relocated extents.
    pub moved_bytes: u64,
    /// Whether another call has work to do at once.
    pub more: bool,
    /// Whether space is short, so that the next call should not wait.
    pub urgent: bool,
}

/// Thresholds for relocating the live extents of a segment.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReclaimPolicy {
    /// Segments that would shrink to this percentage of their length, or less, are relocated.
    live_percent_max: u64,
    /// Segments allowed beyond the number that the live bytes would fill.
    beside_max: u64,
    /// If there are more, segments whose live extents fill at most this percentage of a segment are
    /// merged.
    merge_percent_max: u64,
    /// Whether every dead segment goes, even the newest.
    thorough: bool,
}

impl ReclaimPolicy {
    const ONLINE: Self = Self {
        live_percent_max: MOVE_BELOW_LIVE_PERCENT,
        beside_max: SEGMENTS_BESIDE_MAX,
        merge_percent_max: MERGE_BELOW_LIVE_PERCENT,
        thorough: false,
    };
    /// For a store without clients.
    pub(super) const OFFLINE: Self = Self {
        live_percent_max: COMPACT_BELOW_LIVE_PERCENT,
        beside_max: 0,
        merge_percent_max: COMPACT_BELOW_LIVE_PERCENT,
        thorough: true,
    };
}

/// The state from call to call.
#[derive(Default)]
pub(super) struct Reclaimer {
    phase: ReclaimPhase,
    /// Lengths of immutable segments.
    lengths: BTreeMap<u64, u64>,
    /// Segments that are left alone until more has died in them.
    move_verdicts: BTreeMap<u64, MoveVerdict>,
    /// The live bytes from which the dead bytes of each segment are counted.
    baselines: LiveBaselines,
    /// Segments with holes to punch once they have no reader, and the segment at which the next
    /// round begins.
    deferred: BTreeMap<u64, DeferredHoles>,
    deferred_cursor: u64,
    /// The reason why the last scan chose nothing, if there was no space for copies.
    shortage: Option<RoomShortage>,
    /// When the verdicts were last saved, and the CRC of the saved file.
    saved: Option<Instant>,
    kept: u32,
    /// Walks over the whole index that were started.
    #[cfg(test)]
    pub(super) walks: u64,
    /// Segments that hold relocated extents. They are as dense as possible when the write head has
    /// left them.
    relocated_into: BTreeSet<u64>,
}

impl Reclaimer {
    /// Forgets all segments without live extents; `live` holds the others.
    fn forget_all_but(&mut self, live: &BTreeMap<u64, u64>) {
        self.move_verdicts.retain(|id, _| live.contains_key(id));
        self.lengths.retain(|id, _| live.contains_key(id));
        self.deferred.retain(|id, _| live.contains_key(id));
        self.baselines.follow(live);
    }

    fn count_walk(&mut self) {
        #[cfg(test)]
        {
            self.walks += 1;
        }
    }
}

#[derive(Default)]
enum ReclaimPhase {
    #[default]
    Idle,
    /// Finding out how far segments would shrink.
    ScanCandidates(CandidateScan),
    Move(RelocationPass),
    /// Finding gaps for holes.
    FindHoles(HoleSearch),
    Punch(VecDeque<SearchedSegment>),
}

impl ReclaimPhase {
    fn is_walk(&self) -> bool {
        matches!(self, Self::ScanCandidates(_) | Self::FindHoles(_))
    }
}

impl MoveVerdict {
    /// The length of a segment with extents that cannot be moved.
    const UNMOVABLE: u64 = u64::MAX;

    /// Whether the relocated extents would still take more than `most` bytes, as far as is known
    /// without another scan: the extents that died since took at least their own bytes with them,
    /// and their descriptors.
    fn exceeds(self, most: u64, live: u64) -> bool {
        let died = self.live.saturating_sub(live);
        live * 8 > self.live * 7 && self.dense.saturating_sub(died) > most
    }
}

impl Store {
    /// Reclaims space: removes segments without live extents, and relocates the live extents of
    /// mostly dead segments, so that those can be removed. The freed space is durable on return.
    ///
    /// One call does a bounded amount of work: it moves some megabytes, and looks at some thousands
    /// of keys. While [`Reclaimed::more`] is set, another call continues.
    ///
    /// # Errors
    /// [`StoreError::ReadOnly`]; of the disk. Damage is not an error: it is reported, and the
    /// damaged extent stays. Nor is a full disk, on which less is done.
    pub fn reclaim(&self) -> Result<Reclaimed, StoreError> {
        self.reclaim_by(ReclaimPolicy::ONLINE)
    }

    pub(super) fn reclaim_by(&self, policy: ReclaimPolicy) -> Result<Reclaimed, StoreError> {
        self.shared.check_writable()?;
        // A call that panicked left nothing that the next one builds on.
        let mut reclaimer = self.reclaimer.lock().unwrap_or_else(PoisonError::into_inner);
        let shared = self.shared.as_ref();
        let done = Reclaimed::default();
        let mut run =
            ReclaimRun { store: self, shared, reclaimer: &mut reclaimer, policy, is_sealing: false, done };
        let ended = run.run();
        let done = run.done;
        let tally = &self.shared.reclaimed;
        tally.segments.fetch_add(done.segments, Ordering::Relaxed);
        tally.bytes.fetch_add(done.bytes, Ordering::Relaxed);
        tally.moved_bytes.fetch_add(done.moved_bytes, Ordering::Relaxed);
        ended.map(|()| done)
    }

    /// Receives a message when a write was refused for lack of space. [`Store::reclaim`] should
    /// then be called at once.
    pub fn room_wanted(&self) -> Receiver<()> {
        self.shared.reclaim_requests().clone()
    }
}

/// One call.
struct ReclaimRun<'a> {
    store: &'a Store,
    shared: &'a SharedStore,
    reclaimer: &'a mut Reclaimer,
    policy: ReclaimPolicy,
    /// Whether segments without a footer are left for the next call.
    is_sealing: bool,
    done: Reclaimed,
}

impl ReclaimRun<'_> {
    fn run(&mut self) -> Result<(), StoreError> {
        self.done.urgent = self.room_is_short().map_err(|error| self.shared.failed(error))?;
        // Dead segments first: they give more space for less work than a relocation.
        // It looks at every segment; a step of a walk need not wait for that.
        if self.done.urgent || !self.reclaimer.phase.is_walk() {
            self.tidy_up()?;
        }
        self.run_phase()?;
        self.keep_verdicts_if_due()
    }

    fn tidy_up(&mut self) -> Result<(), StoreError> {
        if self.done.urgent {
            self.retire_half_dead();
        }
        if let Err(error) = self.shared.segments.seal_retired() {
            self.shared.write_failed(error);
        }
        self.remove_dead()?;
        // The last step: a segment that was removed needs no footer.
        self.seal();
        Ok(())
    }

    fn run_phase(&mut self) -> Result<(), StoreError> {
        // Taken out: after an error nothing of the phase is trusted, and the next call begins anew.
        let phase = match std::mem::take(&mut self.reclaimer.phase) {
            ReclaimPhase::Idle => self.begin()?,
            ReclaimPhase::ScanCandidates(scan) => self.scan_next(scan),
            ReclaimPhase::Move(pass) => self.relocate_next(pass)?,
            ReclaimPhase::FindHoles(holes) => self.find_holes_next(holes)?,
            ReclaimPhase::Punch(queue) => self.punch_next(queue)?,
        };
        self.done.more |= !matches!(phase, ReclaimPhase::Idle);
        self.reclaimer.phase = phase;
        Ok(())
    }

    /// Whether little is free, or less than the dead bytes that half-dead active segments hold.
    fn room_is_short(&self) -> Result<bool, LogError> {
        let total_bytes = self.shared.fs.space().map_err(LogError::Exhausted)?.total_bytes;
        let near = self.shared.options.segment_max_bytes.min(total_bytes / 16);
        let active = self.shared.segments.active_segments();
        let held = active.into_iter().filter_map(|id| self.dead_if_half_dead(id)).sum();
        self.shared.lacks_room(SpaceClaim::Growth, near.max(held))
    }

    /// Lets the write heads leave segments of which half is dead, since the space of an active
    /// segment cannot be reclaimed.
    fn retire_half_dead(&self) {
        let replaced = self.shared.segments.replace(|id| self.dead_if_half_dead(id).is_some());
        if let Err(error) = replaced {
            self.shared.write_failed(error);
        }
    }

    /// The dead bytes of a segment of which at least half is dead, unless they are few.
    fn dead_if_half_dead(&self, id: u64) -> Option<u64> {
        let live = self.shared.index().liveness().of(id);
        let len = self.shared.segments.get(id).ok()?.file.len().ok()?;
        let dead = len.saturating_sub(live);
        (live * 2 < len && dead >= LEFT_DEAD_MIN_BYTES).then_some(dead)
    }

    /// Steps 1 to 4 for every segment.
    fn remove_dead(&mut self) -> Result<(), StoreError> {
        // 1. The segments, before the index: one that becomes immutable in between may have extents
        //    that the index does not show yet.
        let immutable = self.shared.segments.immutable_segments();
        // The records of a durable group that waits for the remote are not in the index, either.
        if self.shared.has_unpublished() {
            return Ok(());
        }
        // 2. Those that no record refers to.
        let Published { index, doubtful_segment, sequence } = self.shared.published();
        let mut dead = immutable;
        dead.retain(|id| index.liveness().of(*id) == 0 && *id != doubtful_segment);
        // A snapshot keeps in memory what the commits during the removal replace.
        drop(index);
        if dead.is_empty() || !self.may_lose_bytes(sequence)? {
            return Ok(());
        }
        // 3. Each goes, unless a reader has it open.
        let before = self.done.segments;
        self.replace_newest(&dead);
        for id in dead {
            self.remove(id)?;
        }
        // 4. The freed space is durable on return.
        if self.done.segments > before {
            let synced = self.shared.fs.sync_dir(FileKind::Segment.dir());
            synced.map_err(|error| self.shared.write_failed(error.into()))?;
        }
        Ok(())
    }

    /// Replaces the newest segment if it is dead and its space is wanted. Otherwise it stays.
    fn replace_newest(&self, dead: &[u64]) {
        let newest = self.shared.segments.ids().last().copied();
        let replaceable = self.done.urgent || self.policy.thorough;
        if replaceable && newest.is_some_and(|newest| dead.contains(&newest)) {
            // Without space for a new one, the next call may succeed, after the others are gone.
            let _ = self
                .shared
                .segments
                .roll(WriteHead::Relocation)
                .map_err(|error| self.shared.write_failed(error));
        }
    }

    /// Whether bytes may go that are dead by the group `sequence`: a parcel of the log holds the
    /// bytes that its groups name, and the shadow of the log names none of them.
    pub(super) fn may_lose_bytes(&self, sequence: u64) -> Result<bool, StoreError> {
        match self.shared.ensure_shipped(sequence) {
            Err(StoreError::RemoteUnavailable(_)) => Ok(false),
            Err(error) => Err(error),
            Ok(()) => self.store.is_shadowed(sequence),
        }
    }

    fn remove(&mut self, id: u64) -> Result<(), StoreError> {
        let segments = &self.shared.segments;
        let usage = segments.get(id).and_then(|segment| Ok(segment.file.usage()?));
        // The usage is read before: the file has none after it.
        match usage.and_then(|usage| Ok(segments.remove(id)?.then_some(usage))) {
            Ok(None) => {}
            Ok(Some(usage)) => {
                self.reclaimer.relocated_into.remove(&id);
                self.done.segments += 1;
                // Another name keeps the bytes.
                self.done.bytes += if usage.links > 1 { 0 } else { usage.allocated_bytes };
            }
            Err(LogError::Damaged(damage)) => self.shared.report(&damage),
            Err(error) => return Err(self.shared.failed(error)),
        }
        Ok(())
    }

    /// Seals the segments that earlier processes left without a footer.
    fn seal(&mut self) {
        let unsealed = self.shared.segments.unsealed();
        for id in unsealed.iter().copied().take(SEALED_PER_CALL) {
            match self.shared.segments.seal_immutable(id) {
                Ok(()) => {}
                // There may be space another time.
                Err(LogError::DiskFull(_)) => return,
                Err(LogError::Damaged(damage)) => self.shared.report(&damage),
                Err(error) => {
                    self.shared.write_failed(error);
                    return;
                }
            }
        }
        self.is_sealing = unsealed.len() > SEALED_PER_CALL;
        self.done.more |= self.is_sealing;
    }
}

fn encoded_len(entry: &Entry) -> usize {
    let mut encoded = Vec::new();
    entry.encode(&mut encoded);
    encoded.len()
}
