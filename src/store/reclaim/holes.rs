//! Punching holes into segments with too many live bytes for relocation: steps 8 to 11.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;

use super::gaps::{Gap, Gaps};
use super::{KEYS_PER_WALK, ReclaimPhase, ReclaimRun, Reclaimer, WALKS_PER_CALL};
use crate::base::limits::{HOLE_MIN_BYTES, HOLES_DEAD_BYTES_PER_KEY, PAGE_BYTES, SEGMENT_MAX_BYTES};
use crate::format::{Entry, StoreId, page_ceil, unit_ceil};
use crate::index::{Cursor, Index};
use crate::log::{LogError, Segment};
use crate::store::StoreError;
use crate::store::shared::{Published, walk_memory_bytes};

/// Segments opened per call to measure them.
const MEASURED_PER_CALL: usize = 64;
/// Segments punched per call, each with a sync.
const PUNCHED_PER_CALL: usize = 16;
/// Segments with known gaps that wait for a reader or for another name to go.
const DEFERRED_MAX: usize = 4096;

/// The search for gaps. It uses one snapshot, so that an extent that passes to another record
/// meanwhile is not missed.
pub(super) struct HoleSearch {
    published: Published,
    cursor: Cursor,
    gaps: HashMap<u64, Gaps>,
}

/// A searched segment.
pub(super) struct SearchedSegment {
    id: u64,
    /// Its live bytes at the time of the search.
    live: u64,
    gaps: Gaps,
}

/// Holes that wait until their segment has one name, no reader and no lock. Dead bytes stay dead,
/// and later readers do not read them, so they may wait as long as it takes.
pub(super) struct DeferredHoles {
    /// The live bytes of the segment at the time of the search.
    live: u64,
    holes: Vec<Range<u64>>,
}

impl Reclaimer {
    /// If too many wait already, the segment is searched again after more has died in it.
    fn defer(&mut self, id: u64, deferred: DeferredHoles) {
        if self.deferred.len() < DEFERRED_MAX {
            self.deferred.insert(id, deferred);
        } else {
            self.baselines.searched(id, deferred.live);
        }
    }
}

impl ReclaimRun<'_> {
    /// Chooses the segments to search for gaps. The order of steps 1 and 2 holds here, too.
    pub(super) fn begin_holes(&mut self) -> ReclaimPhase {
        let immutable = self.shared.segments.immutable_segments();
        // A durable group that waits for the remote is not in the index: bytes that only its
        // records name would lie in a gap.
        if self.shared.has_unpublished() {
            return ReclaimPhase::Idle;
        }
        if self.is_sealing && !self.reclaims_everything() {
            // After a start it takes some calls to learn which segments are sealed; one walk serves
            // all of them.
            return ReclaimPhase::Idle;
        }
        let unsealed = self.shared.segments.unsealed();
        let published = self.shared.published();
        let liveness = published.index.liveness();
        let sealed = immutable.into_iter().filter(|id| !unsealed.contains(id) && liveness.of(*id) > 0);
        let sealed = sealed.filter(|id| published.index.remote_copy(*id).is_none());
        let sealed: Vec<u64> = sealed.filter(|id| *id != published.doubtful_segment).collect();
        if self.measure(&sealed) {
            // The choice needs all of them measured.
            self.done.more = true;
            return ReclaimPhase::Idle;
        }
        let searched_len = self.searched_len();
        let most = walk_memory_bytes(&published.index) / Gaps::memory_max_bytes(searched_len);
        let chosen = self.worth_a_walk(sealed, &published.index, most.max(1) as usize);
        if chosen.is_empty() {
            return ReclaimPhase::Idle;
        }
        self.reclaimer.count_walk();
        let gaps = chosen.into_iter().map(|id| (id, Gaps::new(searched_len))).collect();
        ReclaimPhase::FindHoles(HoleSearch { published, cursor: Cursor::Start, gaps })
    }

    /// Whether every reclaimable byte is wanted.
    fn reclaims_everything(&self) -> bool {
        self.done.urgent || self.policy.thorough
    }

    /// The searched length of a segment. A longer one was written with another limit.
    fn searched_len(&self) -> u64 {
        self.shared.options.segment_max_bytes.max(SEGMENT_MAX_BYTES)
    }

    /// Measures segments without a baseline. Returns whether some are left for the next call.
    fn measure(&mut self, sealed: &[u64]) -> bool {
        let open: Vec<u64> =
            sealed.iter().copied().filter(|id| self.reclaimer.baselines.is_unmeasured(*id)).collect();
        for id in open.iter().copied().take(MEASURED_PER_CALL) {
            // Space that was set aside beyond the end of the file holds no dead bytes.
            let used = self
                .shared
                .segments
                .get(id)
                .and_then(|segment| Ok(segment.file.usage()?.allocated_bytes.min(segment.file.len()?)));
            // A segment that cannot be opened gets no hole.
            self.reclaimer.baselines.measured(id, used.unwrap_or(0));
        }
        open.len() > MEASURED_PER_CALL
    }

    /// Up to `most` segments with the most dead bytes; none if a walk over the whole index is too
    /// costly for what they may free.
    fn worth_a_walk(&mut self, sealed: Vec<u64>, index: &Index, most: usize) -> Vec<u64> {
        let baselines = &self.reclaimer.baselines;
        let size = self.shared.options.segment_max_bytes;
        let mut dead: Vec<(u64, u64)> = Vec::new();
        for id in sealed {
            let bytes = baselines.dead(id, index.liveness().of(id), size);
            if bytes > 0 && !self.reclaimer.deferred.contains_key(&id) {
                dead.push((bytes, id));
            }
        }
        let all: u64 = dead.iter().map(|(dead, _)| dead).sum();
        if !self.reclaims_everything() && all < index.version_count().saturating_mul(HOLES_DEAD_BYTES_PER_KEY)
        {
            return Vec::new();
        }
        dead.sort_unstable_by(|one, other| other.cmp(one));
        dead.into_iter().take(most).map(|(_, id)| id).collect()
    }

    pub(super) fn find_holes_next(&mut self, mut holes: HoleSearch) -> Result<ReclaimPhase, StoreError> {
        for _ in 0..WALKS_PER_CALL {
            let entries = holes.published.index.walk(&mut holes.cursor, KEYS_PER_WALK);
            if entries.is_empty() {
                return Ok(self.queue_holes(holes));
            }
            for extent in entries.iter().flat_map(Entry::extents) {
                if let Some(gaps) = holes.gaps.get_mut(&extent.segment) {
                    gaps.add(extent);
                }
            }
        }
        Ok(ReclaimPhase::FindHoles(holes))
    }

    fn queue_holes(&mut self, holes: HoleSearch) -> ReclaimPhase {
        let HoleSearch { published, gaps, .. } = holes;
        let mut queue = Vec::new();
        for (id, gaps) in gaps {
            queue.push(SearchedSegment { id, live: published.index.liveness().of(id), gaps });
        }
        queue.sort_unstable_by_key(|searched| searched.id);
        ReclaimPhase::Punch(queue.into())
    }

    /// Steps 9 to 11 for some of the segments.
    pub(super) fn punch_next(
        &mut self,
        mut queue: VecDeque<SearchedSegment>,
    ) -> Result<ReclaimPhase, StoreError> {
        for _ in 0..PUNCHED_PER_CALL {
            let Some(SearchedSegment { id, live, gaps }) = queue.pop_front() else {
                // There may be others, for which there was no memory.
                self.done.more = true;
                return self.keep_verdicts().map(|()| ReclaimPhase::Idle);
            };
            let holes = self.holes_of(id, &gaps);
            if holes.is_empty() {
                // No hole fits: the segment is not searched again before more has died in it.
                self.reclaimer.baselines.searched(id, live);
            } else {
                self.punch(id, DeferredHoles { live, holes })?;
            }
        }
        Ok(ReclaimPhase::Punch(queue))
    }

    /// The length of a sealed segment does not change, so that it may be read after the snapshot.
    fn holes_of(&self, id: u64, gaps: &Gaps) -> Vec<Range<u64>> {
        let Ok(segment) = self.shared.segments.get(id) else { return Vec::new() };
        let Ok(len) = segment.file.len() else { return Vec::new() };
        let gaps = gaps.find(len).into_iter();
        gaps.filter_map(|gap| hole(&segment, &self.shared.store, gap)).collect()
    }

    /// Punches some of the waiting segments, in turn, if they have no reader.
    pub(super) fn punch_deferred(&mut self) -> Result<(), StoreError> {
        let deferred = &self.reclaimer.deferred;
        let turn = self.reclaimer.deferred_cursor;
        let ids = deferred.range(turn..).chain(deferred.range(..turn)).map(|(id, _)| *id);
        let free: Vec<u64> =
            ids.filter(|id| self.shared.segments.is_unpinned(*id)).take(PUNCHED_PER_CALL).collect();
        for id in free {
            self.reclaimer.deferred_cursor = id + 1;
            if let Some(deferred) = self.reclaimer.deferred.remove(&id) {
                self.punch(id, deferred)?;
            }
        }
        Ok(())
    }

    fn punch(&mut self, id: u64, deferred: DeferredHoles) -> Result<(), StoreError> {
        // The copy of a segment that leaves, or has left, has the bytes of the moment when it began
        // to.
        if self.shared.index().remote_copy(id).is_some() {
            return Ok(());
        }
        if !self.may_lose_bytes(self.shared.published().sequence)? {
            self.reclaimer.defer(id, deferred);
            return Ok(());
        }
        // A segment that cannot be opened gets no hole.
        if let Ok(segment) = self.shared.segments.get(id) {
            // Steps 9 and 10: a look at the names and the readers proves something only after the
            // snapshot that the holes come from.
            let usage = || segment.file.usage().map_err(|error| self.shared.failed(error.into()));
            let before = usage()?;
            let is_held = segment.file.has_shared_lock().map_err(|error| self.shared.failed(error.into()))?;
            if before.links > 1 || is_held || !self.shared.segments.is_unpinned(id) {
                self.reclaimer.defer(id, deferred);
                return Ok(());
            }
            let mut holes = deferred.holes.iter();
            let punched = holes.try_for_each(|hole| segment.file.punch(hole.start, hole.end - hole.start));
            let punched = punched.and_then(|()| segment.file.sync_data());
            // Before the error is looked at: some of the holes may be there.
            self.shared.segments.forget_allocated_bytes(id);
            punched.map_err(|error| self.shared.write_failed(LogError::from(error)))?;
            self.done.bytes += before.allocated_bytes.saturating_sub(usage()?.allocated_bytes);
        }
        self.reclaimer.baselines.searched(id, deferred.live);
        Ok(())
    }
}

/// The part of a gap that can be punched. It begins after the descriptor of the live extent before
/// the gap, at the next dead extent that starts at a page. So no header is left whose payload is
/// gone.
fn hole(segment: &Segment, store: &StoreId, Gap { before, pages: gap }: Gap) -> Option<Range<u64>> {
    let mut start = match before {
        // A live extent that cannot be read has no known end.
        Some(at) => unit_ceil(at + segment.extent(store, at).ok()?.extent_len()),
        None => gap.start,
    };
    while !start.is_multiple_of(PAGE_BYTES) {
        start = match segment.extent(store, start) {
            Ok(dead) => unit_ceil(start + dead.extent_len()),
            Err(_) => page_ceil(start),
        };
    }
    let start = start.max(gap.start);
    (start < gap.end && gap.end - start >= HOLE_MIN_BYTES).then_some(start..gap.end)
}
