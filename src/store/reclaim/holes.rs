//! Punching holes into segments in which too much lives to be moved: steps 8 to 11.

use std::collections::BTreeMap;
use std::ops::Range;

use super::{KEYS_AT_ONCE, Phase, Run, WALKS_AT_ONCE, extents_of};
use crate::base::limits::{HOLE_MIN_BYTES, PAGE_BYTES};
use crate::format::{ExtentHeader, ExtentRef, StoreId, UNIT_BYTES, page_ceil, unit_ceil};
use crate::index::Cursor;
use crate::log::{LogError, Segment};
use crate::store::StoreError;
use crate::store::shared::Published;

/// Segments that are looked at together: the map of one takes up to half a megabyte.
const SEGMENTS_AT_ONCE: usize = 16;
/// A segment is looked at again when another such share of it has died.
const SHARE_AGAIN: u64 = 16;

/// Looks for holes, all in one snapshot: an extent that became another record's meanwhile must not be missed.
pub(super) struct Holes {
    published: Published,
    cursor: Cursor,
    maps: BTreeMap<u64, Map>,
}

/// Which pages of a segment hold something that lives.
struct Map {
    live: Vec<bool>,
    /// Of the live extents of which the block table ends in this page, the last one starts at this unit; 0 for none. How long its
    /// descriptor is, its header tells.
    last: Vec<u32>,
}

impl Map {
    /// Of a segment of so many bytes; the first and the last page are its header and its footer.
    fn new(len: u64) -> Self {
        let pages = len.div_ceil(PAGE_BYTES) as usize;
        let mut live = vec![false; pages];
        live[0] = true;
        live[pages - 1] = true;
        Self { live, last: vec![0; pages] }
    }

    fn add(&mut self, extent: &ExtentRef) {
        let payload_len = u64::from(extent.payload_len);
        let len = ExtentHeader::BYTES as u64 + payload_len + ExtentHeader::table_len(payload_len);
        let first = (extent.offset / PAGE_BYTES) as usize;
        let last = ((extent.offset + len - 1) / PAGE_BYTES) as usize;
        // A reference behind the end is damage, which others find.
        if last < self.live.len() {
            self.live[first..=last].fill(true);
            self.last[last] = self.last[last].max((extent.offset / UNIT_BYTES) as u32);
        }
    }

    /// The runs of pages in which nothing that lives is known of, and where the extent in front starts.
    fn gaps(&self) -> Vec<(Option<u64>, Range<u64>)> {
        let (mut gaps, mut start) = (Vec::new(), None);
        for (page, live) in self.live.iter().enumerate() {
            match (live, start) {
                (false, None) => start = Some(page),
                (true, Some(from)) => {
                    let before = Some(u64::from(self.last[from - 1]) * UNIT_BYTES).filter(|at| *at > 0);
                    gaps.push((before, from as u64 * PAGE_BYTES..page as u64 * PAGE_BYTES));
                    start = None;
                }
                _ => {}
            }
        }
        gaps.retain(|(_, gap)| gap.end - gap.start >= HOLE_MIN_BYTES);
        gaps
    }
}

impl Run<'_> {
    /// Looks which segments may be worth a hole. The order of steps 1 and 2 holds here, too.
    pub(super) fn begin_holes(&mut self) -> Phase {
        let settled = self.shared.segments.settled();
        let unsealed = self.shared.segments.unsealed();
        let published = self.shared.published();
        let mut maps = BTreeMap::new();
        for id in settled.into_iter().filter(|id| !unsealed.contains(id)) {
            let live = published.index.liveness().of(id);
            let Some(len) = self.len(id).filter(|_| live > 0 && id != published.doubtful_segment) else {
                continue;
            };
            if maps.len() < SEGMENTS_AT_ONCE && self.may_have_holes(id, live, len) {
                maps.insert(id, Map::new(len));
            }
        }
        if maps.is_empty() {
            return Phase::Idle;
        }
        Phase::Holes(Holes { published, cursor: Cursor::Start, maps })
    }

    fn may_have_holes(&self, id: u64, live: u64, len: u64) -> bool {
        let then = self.reclaimer.punched.get(&id).copied();
        let enough = HOLE_MIN_BYTES.max(len / SHARE_AGAIN);
        if len < live + HOLE_MIN_BYTES || then.is_some_and(|then| then < live + enough) {
            return false;
        }
        let usage = self.shared.segments.get(id).ok().and_then(|segment| segment.file.usage().ok());
        usage.is_some_and(|usage| usage.links == 1 && usage.allocated_bytes >= live + HOLE_MIN_BYTES)
    }

    pub(super) fn look_for_holes(&mut self, mut holes: Holes) -> Result<Phase, StoreError> {
        for _ in 0..WALKS_AT_ONCE {
            let entries = holes.published.index.walk(&mut holes.cursor, KEYS_AT_ONCE);
            if entries.is_empty() {
                for (id, map) in &holes.maps {
                    let live = holes.published.index.liveness().of(*id);
                    self.punch(*id, live, map)?;
                }
                return Ok(Phase::Idle);
            }
            for extent in entries.iter().flat_map(extents_of) {
                if let Some(map) = holes.maps.get_mut(&extent.segment) {
                    map.add(extent);
                }
            }
        }
        Ok(Phase::Holes(holes))
    }

    /// Steps 9 to 11 for one segment.
    fn punch(&mut self, id: u64, live: u64, map: &Map) -> Result<(), StoreError> {
        let Ok(segment) = self.shared.segments.get(id) else {
            return Ok(());
        };
        let store = self.shared.store;
        let holes: Vec<Range<u64>> =
            map.gaps().into_iter().filter_map(|(before, gap)| hole(&segment, &store, before, gap)).collect();
        let usage =
            |segment: &Segment| segment.file.usage().map_err(|error| self.shared.failed(error.into()));
        let before = usage(&segment)?;
        if before.links > 1 || !self.shared.segments.is_unread(id) {
            return Ok(());
        }
        let punch = || {
            holes.iter().try_for_each(|hole| segment.file.punch(hole.start, hole.end - hole.start))?;
            segment.file.sync_data()
        };
        if !holes.is_empty() {
            punch().map_err(|error| self.shared.write_failed(LogError::from(error)))?;
        }
        self.done.bytes += before.allocated_bytes.saturating_sub(usage(&segment)?.allocated_bytes);
        self.reclaimer.punched.insert(id, live);
        Ok(())
    }
}

/// The part of a gap that can be punched. It begins behind the descriptor of the live extent in front, and then where an extent starts
/// with a page: no header stays behind of which the payload is gone.
fn hole(segment: &Segment, store: &StoreId, before: Option<u64>, gap: Range<u64>) -> Option<Range<u64>> {
    let mut start = match before {
        // A live extent that cannot be read any more has no known end.
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
