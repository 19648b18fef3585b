//! Choosing the segments whose live extents are relocated. The live bytes alone do not decide: they
//! include neither descriptors nor padding, so a segment of many small, live objects may look half
//! dead.
//!
//! There are two reasons to relocate. A mostly dead segment frees more than its copy takes, which
//! bounds the size of the store by a multiple of the live bytes. And if there are too many
//! segments, the emptiest are merged, short ones and half-full ones alike, which bounds the number
//! of files.

use std::collections::{BTreeMap, HashSet};

use super::relocation::{RelocationPass, SHARED_TRACKED_MAX};
use super::{KEYS_PER_WALK, ReclaimPhase, ReclaimRun, WALKS_PER_CALL, encoded_len};
use crate::base::limits::MOVED_AT_ONCE_MAX_SEGMENTS;
use crate::format::{Entry, ExtentHeader, ExtentRef, MoveVerdict, unit_ceil};
use crate::index::Cursor;
use crate::log::{ExtentCopier, ExtentLocation, WriteHead};
use crate::store::StoreError;

/// Bytes of a descriptor besides key and record: ids, names, sizes.
const DESCRIPTOR_BYTES: u64 = 96;
/// Segments merged beyond the excess, so that the index is not walked for every single one.
const MERGED_AHEAD: u64 = 4;

/// Finds out how long segments would be with only their live extents.
pub(super) struct CandidateScan {
    sizes: BTreeMap<u64, CompactedSize>,
    /// Shared extents that were counted.
    shared: HashSet<ExtentLocation>,
    cursor: Cursor,
}

/// The cheapest segment to relocate, when there was no space even for that.
#[derive(Clone, Copy)]
pub(super) struct RoomShortage {
    /// Bytes that its copy would take.
    bytes: u64,
    /// Its live bytes.
    live: u64,
}

/// The live extents of a segment, with headers, tables and descriptors.
#[derive(Clone, Copy, Default)]
struct CompactedSize {
    bytes: u64,
    /// Bytes of the longest extent.
    longest: u64,
}

impl CandidateScan {
    fn add(&mut self, entry: &Entry) {
        let extents = entry.extents();
        if !extents.iter().any(|extent| self.sizes.contains_key(&extent.segment)) {
            return;
        }
        // The last extent carries the record.
        let described = encoded_len(entry) as u64;
        for (at, extent) in extents.iter().enumerate() {
            // If there are too many to track, the segment seems denser than it is, and stays.
            // The copier copies a shared extent once, so that it counts once.
            let is_known = extent.shared
                && self.shared.len() < SHARED_TRACKED_MAX
                && !self.shared.insert((extent.segment, extent.offset));
            if is_known {
                continue;
            }
            let described = if at + 1 == extents.len() { described } else { 0 };
            if let Some(dense) = self.sizes.get_mut(&extent.segment) {
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

impl ReclaimRun<'_> {
    /// Chooses the segments to scan, if there are any.
    pub(super) fn begin(&mut self) -> Result<ReclaimPhase, StoreError> {
        let immutable = self.shared.segments.immutable_segments();
        let all: BTreeMap<u64, u64> = self.shared.index().liveness().iter().collect();
        self.reclaimer.forget_all_but(&all);
        self.punch_deferred()?;
        let live: BTreeMap<u64, u64> = immutable
            .into_iter()
            .filter(|id| !self.shared.keeps_remote_copy(*id))
            .filter_map(|id| Some((id, *all.get(&id)?)))
            .collect();
        for (id, live) in &live {
            // Copies were written one after the other, so that the segment is as dense as it gets.
            // Its verdict is known without a scan.
            if self.reclaimer.relocated_into.remove(id) {
                let dense = self.segment_len(*id).unwrap_or(MoveVerdict::UNMOVABLE);
                self.reclaimer.move_verdicts.insert(*id, MoveVerdict { live: *live, dense });
            }
        }
        let merging = self.files_too_many() > 0;
        let candidates = live.iter().filter(|(id, live)| self.is_candidate(**id, **live, merging));
        let candidates: BTreeMap<u64, u64> = candidates.map(|(id, live)| (*id, *live)).collect();
        if candidates.is_empty() || self.is_short_of_room(&candidates) {
            return Ok(self.begin_holes());
        }
        self.reclaimer.count_walk();
        let sizes = candidates.into_keys().map(|id| (id, CompactedSize::default())).collect();
        let scan = CandidateScan { sizes, shared: HashSet::new(), cursor: Cursor::Start };
        Ok(ReclaimPhase::ScanCandidates(scan))
    }

    /// Whether the space for copies is as short as when the last scan chose nothing, and no
    /// candidate needs much less.
    fn is_short_of_room(&mut self, candidates: &BTreeMap<u64, u64>) -> bool {
        let Some(RoomShortage { bytes, live }) = self.reclaimer.shortage else {
            return false;
        };
        let room = self.shared.segments.available_bytes(WriteHead::Relocation).unwrap_or(0);
        let least = candidates.values().min().copied().unwrap_or(0);
        // A scan walks the whole index. Another one is worth that once there is more space, or once
        // a candidate has an eighth less to move than the cheapest had.
        let shortage = room < bytes && least * 8 > live * 7;
        self.reclaimer.shortage = shortage.then_some(RoomShortage { bytes, live });
        shortage
    }

    pub(super) fn scan_next(&mut self, mut scan: CandidateScan) -> ReclaimPhase {
        for _ in 0..WALKS_PER_CALL {
            let entries = self.shared.index().walk(&mut scan.cursor, KEYS_PER_WALK);
            if entries.is_empty() {
                return self.choose(scan);
            }
            for entry in &entries {
                scan.add(entry);
            }
        }
        ReclaimPhase::ScanCandidates(scan)
    }

    /// Chooses the segments that free most for the bytes to move, as many as there is space for.
    fn choose(&mut self, scan: CandidateScan) -> ReclaimPhase {
        let mut all: Vec<(u64, CompactedSize)> = scan.sizes.into_iter().collect();
        all.sort_unstable_by_key(|(_, dense)| dense.bytes);
        let (mut worth, others): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|(id, dense)| dense.bytes <= self.relocate_below_bytes(*id));
        let merged = self.merged(&worth, &others);
        worth.extend_from_slice(&others[..merged.unwrap_or(0)]);
        self.remember_verdicts(&others[merged.unwrap_or(0)..], merged.is_none());
        let mut room = self.shared.segments.available_bytes(WriteHead::Relocation).unwrap_or(0);
        let index = self.shared.index();
        let mut segments = BTreeMap::new();
        for (id, dense) in worth.iter().take(MOVED_AT_ONCE_MAX_SEGMENTS) {
            // Sorted by length: none after it fits, either.
            if dense.bytes > room {
                break;
            }
            room -= dense.bytes;
            segments.insert(*id, index.liveness().of(*id));
        }
        if segments.is_empty() {
            self.reclaimer.shortage = worth
                .first()
                .map(|(id, dense)| RoomShortage { bytes: dense.bytes, live: index.liveness().of(*id) });
            return self.begin_holes();
        }
        self.reclaimer.count_walk();
        ReclaimPhase::Move(RelocationPass::new(segments))
    }

    /// The number of `others`, the emptiest first, to merge with the relocated segments, so that
    /// the number of segments falls. `None` if there are too many segments and merging may not
    /// reduce them, since extents may fit badly.
    fn merged(&self, worth: &[(u64, CompactedSize)], others: &[(u64, CompactedSize)]) -> Option<usize> {
        let too_many = self.files_too_many();
        if too_many == 0 {
            return Some(0);
        }
        let size = self.shared.options.segment_max_bytes;
        let gathered = Some(ExtentCopier::gather_bytes(size)).filter(|gathered| *gathered < size);
        let mut bytes = 0;
        let mut longest = gathered.unwrap_or(0);
        let mut enough = 0;
        for (at, (_, dense)) in worth.iter().chain(others).enumerate() {
            (bytes, longest) = (bytes + dense.bytes, longest.max(dense.longest));
            // An extent lies in one segment: at worst each copy stays short by all but a byte of
            // the longest extent.
            let copies = u64::div_ceil(bytes, size.saturating_sub(longest).max(1));
            let fewer = (at as u64 + 1).saturating_sub(copies);
            if fewer > 0 && dense.bytes <= self.merge_below_bytes() {
                enough = at + 1;
            }
            if fewer >= too_many + MERGED_AHEAD {
                break;
            }
        }
        (enough > 0).then(|| enough.saturating_sub(worth.len()))
    }

    /// Remembers the segments that stay. If merging does not help, they count as full.
    fn remember_verdicts(&mut self, left: &[(u64, CompactedSize)], cannot_merge: bool) {
        let least = if cannot_merge { self.merge_below_bytes() + 1 } else { 0 };
        for (id, dense) in left {
            let live = self.shared.index().liveness().of(*id);
            self.reclaimer.move_verdicts.insert(*id, MoveVerdict { live, dense: dense.bytes.max(least) });
        }
    }

    /// The number of segments beyond the allowed.
    fn files_too_many(&self) -> u64 {
        let live: u64 = self.shared.index().liveness().total();
        let wanted = live / self.shared.options.segment_max_bytes + self.policy.beside_max;
        self.shared.segments.count().saturating_sub(wanted)
    }

    /// A first look, which reads nothing of segments that are full and mostly live. Nor is a
    /// segment scanned again in which little has died since.
    fn is_candidate(&mut self, id: u64, live: u64, merging: bool) -> bool {
        let size = self.shared.options.segment_max_bytes;
        let full = size.max(self.reclaimer.lengths.get(&id).copied().unwrap_or(0));
        let mut most = if merging { self.merge_below_bytes() } else { 0 };
        if live * 100 < full * self.policy.live_percent_max {
            most = most.max(self.relocate_below_bytes(id));
        }
        live <= most
            && !self.reclaimer.move_verdicts.get(&id).is_some_and(|verdict| verdict.exceeds(most, live))
    }

    /// The length down to which a segment must shrink to be relocated for its own sake; 0 if it
    /// cannot be opened.
    fn relocate_below_bytes(&mut self, id: u64) -> u64 {
        self.segment_len(id).map_or(0, |len| len * self.policy.live_percent_max / 100)
    }

    /// The length down to which a segment must shrink to be merged.
    fn merge_below_bytes(&self) -> u64 {
        self.shared.options.segment_max_bytes * self.policy.merge_percent_max / 100
    }

    /// The length of a segment; `None` if it cannot be opened.
    pub(super) fn segment_len(&mut self, id: u64) -> Option<u64> {
        if let Some(len) = self.reclaimer.lengths.get(&id) {
            return Some(*len);
        }
        let len = self.shared.segments.get(id).ok()?.file.len().ok()?;
        self.reclaimer.lengths.insert(id, len);
        Some(len)
    }
}
