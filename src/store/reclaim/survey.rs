//! Which segments are worth moving what lives in them. Liveness alone does not tell: it counts neither descriptors nor what
//! lies between extents, so a segment of many small objects that are all alive may look half dead.
//!
//! There are two reasons. A segment that is mostly dead gives back more than its copy takes, so the store takes up no more
//! than a multiple of what lives. And where there are too many segments, the emptiest are put together, be they short or
//! half full: that bounds the number of files.

use std::collections::{BTreeMap, HashSet};

use super::moves::{Moves, SHARED_KEPT_MAX};
use super::{Judged, KEYS_AT_ONCE, Phase, Run, WALKS_AT_ONCE, encoded_len, extents_of};
use crate::base::limits::MOVED_AT_ONCE_MAX_SEGMENTS;
use crate::format::{Entry, ExtentHeader, ExtentRef, unit_ceil};
use crate::index::Cursor;
use crate::log::{ExtentCopier, ExtentLocation, WriteHead};
use crate::store::StoreError;

/// What a descriptor has beside key and record: stamps, names, sizes.
const DESCRIPTOR_BYTES: u64 = 96;
/// Where there are too many segments, there are so many fewer than need be afterwards, so that the index is not walked for
/// every single one.
const MERGED_AHEAD: u64 = 4;

/// Finds out how long some segments would be if nothing but what lives lay in them.
pub(super) struct Survey {
    dense: BTreeMap<u64, Dense>,
    /// Shared extents that were counted.
    shared: HashSet<ExtentLocation>,
    cursor: Cursor,
}

/// The segment that would take least to be moved, when there was no room even for that.
#[derive(Clone, Copy)]
pub(super) struct Starved {
    /// Bytes that it would take.
    bytes: u64,
    /// How much was alive in it, in bytes.
    live: u64,
}

/// What lives in a segment, with all that belongs to it.
#[derive(Clone, Copy, Default)]
struct Dense {
    bytes: u64,
    /// The longest extent, in bytes.
    longest: u64,
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
                let len = extent_bytes(extent, described);
                dense.bytes += len;
                dense.longest = dense.longest.max(len);
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
    pub(super) fn begin(&mut self) -> Result<Phase, StoreError> {
        let settled = self.shared.segments.immutable_segments();
        let all: BTreeMap<u64, u64> = self.shared.index().liveness().iter().collect();
        self.reclaimer.forget_all_but(&all);
        self.punch_put_off()?;
        let live: BTreeMap<u64, u64> =
            settled.into_iter().filter_map(|id| Some((id, *all.get(&id)?))).collect();
        for (id, live) in &live {
            if self.reclaimer.filled.remove(id) {
                let dense = self.len(*id).unwrap_or(Judged::STUCK);
                self.reclaimer.judged.insert(*id, Judged { live: *live, dense });
            }
        }
        let merging = self.files_too_many() > 0;
        let candidates = live.iter().filter(|(id, live)| self.is_candidate(**id, **live, merging));
        let candidates: BTreeMap<u64, u64> = candidates.map(|(id, live)| (*id, *live)).collect();
        if candidates.is_empty() || self.is_starved(&candidates) {
            return Ok(self.begin_holes());
        }
        self.reclaimer.count_walk();
        let dense = candidates.into_keys().map(|id| (id, Dense::default())).collect();
        Ok(Phase::Survey(Survey { dense, shared: HashSet::new(), cursor: Cursor::Start }))
    }

    /// Whether there is as little room for copies as when a survey came to nothing for want of it, and no segment that would
    /// need less by much.
    fn is_starved(&mut self, candidates: &BTreeMap<u64, u64>) -> bool {
        let Some(Starved { bytes, live }) = self.reclaimer.starved else {
            return false;
        };
        let room = self.shared.segments.available_bytes(WriteHead::Relocation).unwrap_or(0);
        let least = candidates.values().min().copied().unwrap_or(0);
        let starved = room < bytes && least * 8 > live * 7;
        self.reclaimer.starved = starved.then_some(Starved { bytes, live });
        starved
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
        let mut all: Vec<(u64, Dense)> = survey.dense.into_iter().collect();
        all.sort_unstable_by_key(|(_, dense)| dense.bytes);
        let (mut worth, others): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|(id, dense)| dense.bytes <= self.worth_bytes(*id));
        let merged = self.merged(&worth, &others);
        worth.extend_from_slice(&others[..merged.unwrap_or(0)]);
        self.judge(&others[merged.unwrap_or(0)..], merged.is_none());
        let mut room = self.shared.segments.available_bytes(WriteHead::Relocation).unwrap_or(0);
        let fits = |(_, dense): &(u64, Dense)| {
            let fits = dense.bytes <= room;
            room = room.saturating_sub(dense.bytes);
            fits
        };
        let chosen = worth.iter().copied().take_while(fits).take(MOVED_AT_ONCE_MAX_SEGMENTS);
        let victims: BTreeMap<u64, u64> = {
            let index = self.shared.index();
            chosen.map(|(id, _)| (id, index.liveness().of(id))).collect()
        };
        if victims.is_empty() {
            let least = worth.first();
            let live = |id: u64| self.shared.index().liveness().of(id);
            self.reclaimer.starved = least.map(|(id, dense)| Starved { bytes: dense.bytes, live: live(*id) });
            return self.begin_holes();
        }
        self.reclaimer.count_walk();
        Phase::Move(Moves::new(victims))
    }

    /// How many of `others`, the emptiest first, are put together with what is moved anyway, so that there are not too many
    /// segments. `None` where there are too many and fewer need not come of it, as unluckily as extents and segments may fit.
    fn merged(&self, worth: &[(u64, Dense)], others: &[(u64, Dense)]) -> Option<usize> {
        let too_many = self.files_too_many();
        if too_many == 0 {
            return Some(0);
        }
        let size = self.shared.options.segment_max_bytes;
        let gathered = Some(ExtentCopier::gather_bytes(size)).filter(|gathered| *gathered < size);
        let (mut bytes, mut longest, mut enough) = (0, gathered.unwrap_or(0), 0);
        for (at, (_, dense)) in worth.iter().chain(others).enumerate() {
            (bytes, longest) = (bytes + dense.bytes, longest.max(dense.longest));
            let copies = u64::div_ceil(bytes, size.saturating_sub(longest).max(1));
            let fewer = (at as u64 + 1).saturating_sub(copies);
            if fewer > 0 && dense.bytes <= self.merge_bytes() {
                enough = at + 1;
            }
            if fewer >= too_many + MERGED_AHEAD {
                break;
            }
        }
        (enough > 0).then(|| enough.saturating_sub(worth.len()))
    }

    /// Remembers what is left alone. Where it is in vain to put them together, they pass for full.
    fn judge(&mut self, left: &[(u64, Dense)], in_vain: bool) {
        let least = if in_vain { self.merge_bytes() + 1 } else { 0 };
        for (id, dense) in left {
            let live = self.shared.index().liveness().of(*id);
            self.reclaimer.judged.insert(*id, Judged { live, dense: dense.bytes.max(least) });
        }
    }

    /// Segments beyond those that there may be.
    fn files_too_many(&self) -> u64 {
        let live: u64 = self.shared.index().liveness().total();
        let wanted = live / self.shared.options.segment_max_bytes + self.policy.beside_max;
        self.shared.segments.count().saturating_sub(wanted)
    }

    /// A first glance, which takes nothing off the disk for segments that are full and mostly alive. Nor is one looked at again
    /// in which little has died since.
    fn is_candidate(&mut self, id: u64, live: u64, merging: bool) -> bool {
        let size = self.shared.options.segment_max_bytes;
        let full = size.max(self.reclaimer.lens.get(&id).copied().unwrap_or(0));
        let mut most = if merging { self.merge_bytes() } else { 0 };
        if live * 100 < full * self.policy.live_percent_max {
            most = most.max(self.worth_bytes(id));
        }
        live <= most && !self.reclaimer.judged.get(&id).is_some_and(|judged| judged.exceeds(most, live))
    }

    /// The length down to which a segment must shrink to be worth it by itself; 0 for one that cannot be opened.
    fn worth_bytes(&mut self, id: u64) -> u64 {
        self.len(id).map_or(0, |len| len * self.policy.live_percent_max / 100)
    }

    /// The length down to which one must shrink to be put together with others.
    fn merge_bytes(&self) -> u64 {
        self.shared.options.segment_max_bytes * self.policy.merge_percent_max / 100
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
}
