//! Winning back the room of what was deleted or replaced, while the store is in use.
//!
//! # How a segment goes
//!
//! 1. Segments are listed that nobody writes to, nor will. Whatever was written to them has been published, or given up.
//! 2. Of those the index is asked which no record refers to. The index holds durable groups alone.
//! 3. Such a segment loses its name, unless somebody reads from it.
//! 4. The directory is synced.
//!
//! Step 2 before step 1 would take the bytes of a put for dead that is committed in between. Step 3 looks for readers last:
//! whoever comes later has found a record that refers elsewhere. Nothing depends on step 4; a name that comes back after a crash
//! is taken away again.
//!
//! Recovery looks at the bytes of the last group's pack to tell whether the group counts, also where all of it is dead by
//! now. That segment stays until another group has followed.
//!
//! # How what lives leaves a segment that is mostly dead
//!
//! 5. Its live extents are copied as they are, each checked on the way. A bad one is reported and stays.
//! 6. The copies are synced.
//! 7. The committer lets the records refer to the copies, as far as they still refer to the originals: an amendment of each
//!    in one group. From then on the originals are dead, and the segment goes as above.
//!
//! Step 7 before step 6 would have records refer to what a crash may take. A crash before step 7 leaves copies that nothing refers
//! to; they are dead and go in their turn. The copier holds the places of its copies until step 7 is done, so that
//! they are not taken for dead before. An extent that several records share is copied once; it stays where it was until the last of
//! them refers to the copy, however many groups that takes.
//!
//! What lives in a segment is looked up in the index, which is walked once for as many segments as are worth it. The
//! descriptors in the segment would not do: they tell who put an extent, not who has copied it since, and a
//! damaged one would hide what lives.
//!
//! # How holes come into a segment in which much lives
//!
//! 8. Of all sealed segments in which enough has died it is worked out, in one walk over one snapshot of the index, where a
//!    megabyte or more lies in one piece that no record refers to. The snapshot is taken when nobody writes to the segments
//!    any more, as in steps 1 and 2.
//! 9. Such a segment is left alone when its file has another name. Whoever copies the store beside us, as `backup` does, gives
//!    each segment a further name and reads the metadata after that: a hole may hold only what was dead in a durable
//!    group before it was seen that there is one name. Seen earlier than the snapshot, the name would prove nothing.
//! 10. It is left alone, too, while somebody reads from it. Whoever comes later refers to nothing that was dead in the snapshot,
//!     so what was worked out stays true, and the segment is punched when it is free, without another walk.
//! 11. The holes are punched, and the file is synced, which nothing depends on: any part of what is dead may come back.
//!
//! Where room is short, what can be moved is moved first: a hole gives back less than a segment that goes.
//!
//! A store that takes no writes is left as it is: where the log is damaged, what looks dead may be what the lost groups
//! refer to.

mod baselines;
mod candidates;
mod gaps;
mod holes;
mod relocation;
mod verdicts;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use crossbeam_channel::Receiver;

use crate::base::Timestamp;
use crate::base::limits::{
    COMPACT_BELOW_LIVE_PERCENT, MERGE_BELOW_LIVE_PERCENT, MOVE_BELOW_LIVE_PERCENT, SEGMENTS_BESIDE_MAX,
};
use crate::format::{Entry, ExtentRef, FileKind, MoveVerdict};
use crate::log::{LogError, SpaceClaim, WriteHead};
use crate::store::shared::{Published, SharedStore};
use crate::store::{Store, StoreError};
use baselines::LiveBaselines;
use candidates::{CandidateScan, RoomShortage};
use holes::{DeferredHoles, HoleSearch, SearchedSegment};
use relocation::RelocationPass;
pub(super) use verdicts::load;

/// Segments that are looked at in one call whether they need a footer.
const SEALED_PER_CALL: usize = 64;
/// Where room is short, a lane leaves its segment when so much in it is dead, in bytes, and at least half of it.
const LEFT_DEAD_MIN_BYTES: u64 = 64 * 1024;
/// Keys that are taken out of the index at once, while it is locked against the committer.
const KEYS_PER_WALK: usize = 256;
/// So often in one call.
const WALKS_PER_CALL: usize = 64;

/// What a call has done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reclaimed {
    /// Segments that were taken away.
    pub segments: u64,
    /// Bytes that were given back to the file system.
    pub bytes: u64,
    /// Bytes of extents that were moved.
    pub moved_bytes: u64,
    /// Whether another call has something to do at once.
    pub more: bool,
    /// Whether room is short, so that it should not be put off.
    pub urgent: bool,
}

/// Which segments are worth moving what lives in them.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReclaimPolicy {
    /// Those that would shrink to so many hundredths of their length, or less.
    live_percent_max: u64,
    /// Segments that there may be beside those that what lives would fill.
    beside_max: u64,
    /// Where there are more, those that would fill so many hundredths of a segment, or less, are put together.
    merge_percent_max: u64,
    /// Whether no dead segment may stay, not even the newest.
    thorough: bool,
}

impl ReclaimPolicy {
    const ONLINE: Self = Self {
        live_percent_max: MOVE_BELOW_LIVE_PERCENT,
        beside_max: SEGMENTS_BESIDE_MAX,
        merge_percent_max: MERGE_BELOW_LIVE_PERCENT,
        thorough: false,
    };
    /// While nobody uses the store.
    pub(super) const OFFLINE: Self = Self {
        live_percent_max: COMPACT_BELOW_LIVE_PERCENT,
        beside_max: 0,
        merge_percent_max: COMPACT_BELOW_LIVE_PERCENT,
        thorough: true,
    };
}

/// What is known from call to call.
#[derive(Default)]
pub(super) struct Reclaimer {
    phase: ReclaimPhase,
    /// Lengths of segments that nobody writes to.
    lengths: BTreeMap<u64, u64>,
    /// Segments that are left alone until less is alive in them.
    move_verdicts: BTreeMap<u64, MoveVerdict>,
    /// How much has died in each segment since holes were looked for.
    baselines: LiveBaselines,
    /// Segments with holes that are to be punched when nobody reads from them, and whose turn it is to be asked for.
    deferred: BTreeMap<u64, DeferredHoles>,
    deferred_cursor: u64,
    /// Why the last survey came to nothing, where room was wanting.
    shortage: Option<RoomShortage>,
    /// When the verdicts were kept last, and the CRC of what was.
    saved: Timestamp,
    kept: u32,
    /// Walks over the whole index that were begun.
    #[cfg(test)]
    pub(super) walks: u64,
    /// Segments that extents were moved to, and which are as dense as can be when the lane has left them.
    relocated_into: BTreeSet<u64>,
}

impl Reclaimer {
    /// Forgets the segments in which nothing lives any more; `live` has all others.
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
    /// Finding out what moving would bring.
    ScanCandidates(CandidateScan),
    Move(RelocationPass),
    /// Finding out where holes can be.
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

    /// Whether it is longer than `most` bytes still, as far as can be told without another look: what has died took that
    /// much with it at the least, and its descriptors too.
    fn exceeds(self, most: u64, live: u64) -> bool {
        let died = self.live.saturating_sub(live);
        live * 8 > self.live * 7 && self.dense.saturating_sub(died) > most
    }
}

impl Store {
    /// Wins back room: segments of which nothing is wanted any more are taken away, and what lives in those that are
    /// mostly dead is moved, so that they can go. What was given back is durable on return.
    ///
    /// The work of one call is bounded: some megabytes are moved, and some thousands of keys looked at. As long as
    /// [`Reclaimed::more`] says so, another call goes on where it ended.
    ///
    /// # Errors
    /// [`StoreError::ReadOnly`]; of the disk. Damage is no error: it is reported, and what is damaged stays. Nor is a full
    /// disk, on which less is done.
    pub fn reclaim(&self) -> Result<Reclaimed, StoreError> {
        self.reclaim_by(ReclaimPolicy::ONLINE)
    }

    pub(super) fn reclaim_by(&self, policy: ReclaimPolicy) -> Result<Reclaimed, StoreError> {
        self.shared.check_writable()?;
        // A call that panicked has left nothing behind that the next one builds on.
        let mut reclaimer = self.reclaimer.lock().unwrap_or_else(PoisonError::into_inner);
        let (shared, done) = (self.shared.as_ref(), Reclaimed::default());
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

    /// Receives something when a write has been refused for want of room: then [`Store::reclaim`] should not wait for its
    /// turn.
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
    /// Whether the next call has segments to look at that may lack a footer.
    is_sealing: bool,
    done: Reclaimed,
}

impl ReclaimRun<'_> {
    fn run(&mut self) -> Result<(), StoreError> {
        self.done.urgent = self.room_is_short().map_err(|error| self.shared.failed(error))?;
        // It asks for every segment, which a step of a walk need not wait for.
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
        self.seal();
        Ok(())
    }

    fn run_phase(&mut self) -> Result<(), StoreError> {
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

    fn room_is_short(&self) -> Result<bool, LogError> {
        let near = self.shared.options.segment_max_bytes.min(self.shared.fs.space()?.total_bytes / 16);
        self.shared.lacks_room(SpaceClaim::Growth, near)
    }

    /// Lets the lanes go on in new segments where half of what they have written is dead, since nothing comes back from a
    /// segment that is written to.
    fn retire_half_dead(&self) {
        let shared = self.shared;
        shared.segments.retire(|id| {
            let live = shared.index().liveness().of(id);
            let len = shared.segments.get(id).ok().and_then(|segment| segment.file.len().ok());
            len.is_some_and(|len| live * 2 < len && len - live >= LEFT_DEAD_MIN_BYTES)
        });
    }

    /// Steps 1 to 4 for every segment.
    fn remove_dead(&mut self) -> Result<(), StoreError> {
        let immutable = self.shared.segments.immutable_segments();
        let dead: Vec<u64> = {
            let Published { index, doubtful_segment, .. } = self.shared.published();
            let is_dead = |id: &u64| index.liveness().of(*id) == 0 && *id != doubtful_segment;
            immutable.into_iter().filter(is_dead).collect()
        };
        let before = self.done.segments;
        self.replace_newest(&dead);
        dead.into_iter().try_for_each(|id| self.remove(id))?;
        if self.done.segments > before {
            let synced = self.shared.fs.sync_dir(FileKind::Segment.dir());
            synced.map_err(|error| self.shared.write_failed(error.into()))?;
        }
        Ok(())
    }

    /// The newest segment stays; where it is dead and its room is wanted, another one takes its place.
    fn replace_newest(&self, dead: &[u64]) {
        let newest = self.shared.segments.ids().last().copied();
        let replaceable = self.done.urgent || self.policy.thorough;
        if replaceable && newest.is_some_and(|newest| dead.contains(&newest)) {
            // Without room for it the next call may succeed, when the others have gone.
            let _ = self
                .shared
                .segments
                .roll(WriteHead::Relocation)
                .map_err(|error| self.shared.write_failed(error));
        }
    }

    fn remove(&mut self, id: u64) -> Result<(), StoreError> {
        let segments = &self.shared.segments;
        let usage = segments.get(id).and_then(|segment| Ok(segment.file.usage()?));
        match usage.and_then(|usage| Ok(segments.remove(id)?.then_some(usage))) {
            Ok(None) => {}
            Ok(Some(usage)) => {
                self.reclaimer.relocated_into.remove(&id);
                self.done.segments += 1;
                // Other names keep the bytes.
                self.done.bytes += if usage.links > 1 { 0 } else { usage.allocated_bytes };
            }
            Err(LogError::Damaged(damage)) => self.shared.report(&damage),
            Err(error) => return Err(self.shared.failed(error)),
        }
        Ok(())
    }

    /// Seals what earlier runs have left without a footer.
    fn seal(&mut self) {
        let unsealed = self.shared.segments.unsealed();
        for id in unsealed.iter().copied().take(SEALED_PER_CALL) {
            match self.shared.segments.seal_immutable(id) {
                Ok(()) => {}
                // Another time there may be room.
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

/// The extents of a version or part.
fn extents_of(entry: &Entry) -> &[ExtentRef] {
    match entry {
        Entry::VersionPut { record, .. } => &record.extents,
        Entry::PartPut { record, .. } => &record.extents,
        _ => &[],
    }
}

fn encoded_len(entry: &Entry) -> usize {
    let mut encoded = Vec::new();
    entry.encode(&mut encoded);
    encoded.len()
}
