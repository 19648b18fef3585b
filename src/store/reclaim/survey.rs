//! Which segments are worth moving what lives in them. Liveness alone does not tell: it counts neither descriptors nor what
//! lies between extents, so a segment of many small objects that are all alive may look half dead.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::moves::{Moves, SHARED_KEPT_MAX};
use super::{Judged, KEYS_AT_ONCE, Phase, Run, WALKS_AT_ONCE, encoded_len, extents_of};
use crate::base::limits::MOVED_AT_ONCE_MAX_SEGMENTS;
use crate::format::{Entry, ExtentHeader, ExtentRef, unit_ceil};
use crate::index::Cursor;
use crate::log::{Lane, Spot};

/// What a descriptor has beside key and record: stamps, names, sizes.
const DESCRIPTOR_BYTES: u64 = 96;
/// So many segments of less than a quarter of the size may lie about, each left behind by some end of the process.
const SMALL_SEGMENTS_MAX: usize = 8;

/// Finds out how long some segments would be if nothing but what lives lay in them.
pub(super) struct Survey {
    /// Bytes, by segment.
    dense: BTreeMap<u64, u64>,
    /// Shared extents that were counted.
    shared: HashSet<Spot>,
    /// Segments that are too small to be kept, however dense they are.
    small: BTreeSet<u64>,
    cursor: Cursor,
}

impl Survey {
    fn add(&mut self, entry: &Entry) {
        let extents = extents_of(entry);
        if !extents.iter().any(|extent| self.dense.contains_key(&extent.segment)) {
            return;
        }
        // The last one brings the record.
        let described = encoded_len(entry) as u64;
        for (at, extent) in extents.iter().enumerate() {
            // Where there are too many to be remembered, a segment seems to be denser than it is, and stays.
            let is_known = extent.shared
                && self.shared.len() < SHARED_KEPT_MAX
                && !self.shared.insert((extent.segment, extent.offset));
            if is_known {
                continue;
            }
            let described = if at + 1 == extents.len() { described } else { 0 };
            if let Some(dense) = self.dense.get_mut(&extent.segment) {
                *dense += extent_bytes(extent, described);
            }
        }
    }
}

fn extent_bytes(extent: &ExtentRef, described: u64) -> u64 {
    let payload_len = u64::from(extent.payload_len);
    let table_len = ExtentHeader::table_len(payload_len);
    unit_ceil(ExtentHeader::BYTES as u64 + payload_len + table_len + described + DESCRIPTOR_BYTES)
}

impl Run<'_> {
    /// Looks which segments may be worth a survey.
    pub(super) fn begin(&mut self) -> Phase {
        let settled = self.shared.segments.settled();
        let live: BTreeMap<u64, u64> = {
            let index = self.shared.index();
            settled.iter().map(|id| (*id, index.liveness().of(*id))).filter(|(_, live)| *live > 0).collect()
        };
        self.reclaimer.judged.retain(|id, _| live.contains_key(id));
        self.reclaimer.lens.retain(|id, _| live.contains_key(id));
        self.reclaimer.punched.retain(|id, _| live.contains_key(id));
        for id in live.keys().filter(|id| self.reclaimer.filled.remove(id)) {
            self.reclaimer.judged.insert(*id, Judged::Dense(live[id]));
        }
        let size = self.shared.options.segment_max_bytes;
        let mut small: BTreeSet<u64> =
            live.keys().copied().filter(|id| self.len(*id).is_some_and(|len| len * 4 < size)).collect();
        if small.len() <= SMALL_SEGMENTS_MAX {
            small.clear();
        }
        small.retain(|id| !self.is_stuck(*id, live[id]));
        let candidates = live.iter().filter(|(id, live)| {
            small.contains(id) || (self.may_shrink(**id, **live) && !self.is_judged(**id, **live))
        });
        let dense: BTreeMap<u64, u64> = candidates.map(|(id, _)| (*id, 0)).collect();
        // Holes take no room for copies.
        let holes = if self.done.urgent || dense.is_empty() { self.begin_holes() } else { Phase::Idle };
        if dense.is_empty() || !matches!(holes, Phase::Idle) {
            return holes;
        }
        Phase::Survey(Survey { dense, small, shared: HashSet::new(), cursor: Cursor::Start })
    }

    pub(super) fn look_on(&mut self, mut survey: Survey) -> Phase {
        for _ in 0..WALKS_AT_ONCE {
            let entries = self.shared.index().walk(&mut survey.cursor, KEYS_AT_ONCE);
            if entries.is_empty() {
                return self.choose(survey);
            }
            entries.iter().for_each(|entry| survey.add(entry));
        }
        Phase::Survey(survey)
    }

    /// Chooses those that free most for what has to be moved, as many as there is room for the copies.
    fn choose(&mut self, survey: Survey) -> Phase {
        let mut worth: Vec<(u64, u64)> = Vec::new();
        for (id, dense) in survey.dense {
            if survey.small.contains(&id) || self.shrinks_to(id, dense) {
                worth.push((id, dense));
            } else {
                let live = self.shared.index().liveness().of(id);
                self.reclaimer.judged.insert(id, Judged::Dense(live));
            }
        }
        worth.sort_unstable_by_key(|(_, dense)| *dense);
        let mut room = self.shared.segments.room(Lane::Move).unwrap_or(0);
        let fits = |(_, dense): &(u64, u64)| {
            let fits = *dense <= room;
            room = room.saturating_sub(*dense);
            fits
        };
        let chosen = worth.into_iter().take_while(fits).take(MOVED_AT_ONCE_MAX_SEGMENTS);
        let victims: BTreeMap<u64, u64> = {
            let index = self.shared.index();
            chosen.map(|(id, _)| (id, index.liveness().of(id))).collect()
        };
        if victims.is_empty() { self.begin_holes() } else { Phase::Move(Moves::new(victims)) }
    }

    /// A first glance, which takes nothing off the disk for segments that are full and mostly alive.
    fn may_shrink(&mut self, id: u64, live: u64) -> bool {
        let full =
            self.shared.options.segment_max_bytes.max(self.reclaimer.lens.get(&id).copied().unwrap_or(0));
        live * 100 < full * self.policy.live_percent_max && self.shrinks_to(id, live)
    }

    fn shrinks_to(&mut self, id: u64, bytes: u64) -> bool {
        self.len(id).is_some_and(|len| bytes * 100 <= len * self.policy.live_percent_max)
    }

    /// One that cannot be opened is not asked for.
    pub(super) fn len(&mut self, id: u64) -> Option<u64> {
        if let Some(len) = self.reclaimer.lens.get(&id) {
            return Some(*len);
        }
        let len = self.shared.segments.get(id).ok()?.file.len().ok()?;
        self.reclaimer.lens.insert(id, len);
        Some(len)
    }

    /// Whether it has been looked at, and little has died since.
    fn is_judged(&self, id: u64, live: u64) -> bool {
        match self.reclaimer.judged.get(&id) {
            Some(Judged::Dense(then) | Judged::Stuck(then)) => live * 8 > then * 7,
            None => false,
        }
    }

    fn is_stuck(&self, id: u64, live: u64) -> bool {
        matches!(self.reclaimer.judged.get(&id), Some(Judged::Stuck(_))) && self.is_judged(id, live)
    }
}
