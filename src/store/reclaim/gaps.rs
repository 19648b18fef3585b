//! The gaps of a segment in which a hole fits, from its live extents in any order. Memory: six
//! bytes for each [`HOLE_MIN_BYTES`] of the segment, regardless of the number of extents.
//!
//! A gap wide enough for a hole lies between the last live extent that starts in one stretch of
//! [`HOLE_MIN_BYTES`] and the first that starts in a later one. So these two are all that is kept
//! of a stretch.

use std::ops::Range;

use crate::base::limits::{HOLE_MIN_BYTES, PAGE_BYTES};
use crate::format::{ExtentHeader, ExtentRef, UNIT_BYTES, page_ceil};

/// The live extents that start in one stretch.
#[derive(Clone, Copy)]
struct Stretch {
    /// The page where the first of them starts, counted from the start of the stretch;
    /// [`Stretch::NONE`] if there is none.
    first: u16,
    /// The unit where the last of them starts, counted likewise.
    last: u16,
    /// The page after the last of their block tables, counted likewise.
    end: u16,
}

impl Stretch {
    const NONE: u16 = u16::MAX;
    const EMPTY: Self = Self { first: Self::NONE, last: 0, end: 0 };
}

const _: () = assert!(HOLE_MIN_BYTES / UNIT_BYTES < Stretch::NONE as u64);

/// The live extents of a segment, by stretches.
pub(super) struct Gaps {
    stretches: Vec<Stretch>,
    /// Stretches from this one on are ignored.
    stretches_max: usize,
}

/// A gap between live extents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Gap {
    /// The start of the live extent before it, if there is one. Its header states the length of its
    /// descriptor.
    pub(super) before: Option<u64>,
    /// Whole pages without any byte of header, payload or block table of a live extent.
    pub(super) pages: Range<u64>,
}

impl Gaps {
    /// The gaps of a segment whose first `searched_len` bytes are searched.
    pub(super) fn new(searched_len: u64) -> Self {
        Self { stretches: Vec::new(), stretches_max: (searched_len / HOLE_MIN_BYTES) as usize }
    }

    /// The most memory of one, in bytes.
    pub(super) fn memory_max_bytes(searched_len: u64) -> u64 {
        searched_len / HOLE_MIN_BYTES * size_of::<Stretch>() as u64 + 2 * size_of::<(u64, Self)>() as u64
    }

    pub(super) fn add(&mut self, extent: &ExtentRef) {
        // A reference after the end is damage, which other checks find.
        let stretch = match usize::try_from(extent.offset / HOLE_MIN_BYTES) {
            Ok(stretch) if stretch < self.stretches_max => stretch,
            _ => return,
        };
        if self.stretches.len() <= stretch {
            // At once and for good: doubling would pass the most that was reckoned with.
            self.stretches.reserve_exact(self.stretches_max - self.stretches.len());
            self.stretches.resize(stretch + 1, Stretch::EMPTY);
        }
        let within = extent.offset % HOLE_MIN_BYTES;
        let payload_len = u64::from(extent.payload_len);
        let len = ExtentHeader::BYTES as u64 + payload_len + ExtentHeader::table_len(payload_len);
        let stretch = &mut self.stretches[stretch];
        stretch.first = stretch.first.min((within / PAGE_BYTES) as u16);
        stretch.last = stretch.last.max((within / UNIT_BYTES) as u16);
        stretch.end = stretch.end.max((page_ceil(within + len) / PAGE_BYTES) as u16);
    }

    /// The gaps of [`HOLE_MIN_BYTES`] or more in a sealed segment of `len` bytes. Its first and
    /// last page are its header and its footer.
    pub(super) fn find(&self, len: u64) -> Vec<Gap> {
        let mut gaps = Vec::new();
        let mut before = None;
        let mut from = PAGE_BYTES;
        for (at, stretch) in self.stretches.iter().enumerate().filter(|(_, s)| s.first != Stretch::NONE) {
            let start = at as u64 * HOLE_MIN_BYTES;
            gaps.push(Gap { before, pages: from..start + u64::from(stretch.first) * PAGE_BYTES });
            before = Some(start + u64::from(stretch.last) * UNIT_BYTES);
            from = from.max(start + u64::from(stretch.end) * PAGE_BYTES);
        }
        let seen = self.stretches_max as u64 * HOLE_MIN_BYTES;
        gaps.push(Gap { before, pages: from..len.saturating_sub(PAGE_BYTES).min(seen) });
        gaps.retain(|gap| gap.pages.end >= gap.pages.start + HOLE_MIN_BYTES);
        gaps
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::limits::{MIB, SEGMENT_MAX_BYTES, WALK_MEMORY_SHARE};
    use crate::base::{Entropy, SeededEntropy};

    fn extent(offset: u64, payload_len: u64) -> ExtentRef {
        let payload_len = payload_len as u32;
        ExtentRef { segment: 1, offset, payload_len, check: 0, skip: 0, take: payload_len, shared: false }
    }

    /// Every run of pages that no extent touches, computed the slow way.
    fn expected(extents: &[ExtentRef], len: u64) -> Vec<Range<u64>> {
        let mut live = vec![false; (len / PAGE_BYTES) as usize];
        live[0] = true;
        *live.last_mut().unwrap() = true;
        for extent in extents {
            let payload_len = u64::from(extent.payload_len);
            let end = extent.offset + 64 + payload_len + ExtentHeader::table_len(payload_len);
            live[(extent.offset / PAGE_BYTES) as usize..end.div_ceil(PAGE_BYTES) as usize].fill(true);
        }
        let mut runs = Vec::new();
        let mut start = 0;
        for (page, live) in live.iter().enumerate() {
            if *live {
                let run = start as u64 * PAGE_BYTES..page as u64 * PAGE_BYTES;
                runs.extend((run.end - run.start >= HOLE_MIN_BYTES).then_some(run));
                start = page + 1;
            }
        }
        runs
    }

    #[test]
    fn every_wide_gap_is_found_whatever_the_order_of_the_extents() {
        let draw = SeededEntropy::new(3);
        let mut found = 0;
        for _ in 0..300 {
            let len = 40 * MIB;
            let mut at = PAGE_BYTES;
            let mut extents = Vec::new();
            while at < len - 18 * MIB {
                let flow = draw.next_u64();
                let payload_len = if flow.is_multiple_of(7) { flow % (16 * MIB) } else { flow % 300_000 };
                extents.push(extent(at, payload_len));
                at = (at + 64 + payload_len + 1_200).next_multiple_of(if flow.is_multiple_of(3) {
                    64
                } else {
                    4096
                });
                at += if flow.is_multiple_of(5) { (flow >> 20) % (3 * MIB) / 4096 * 4096 } else { 0 };
            }
            let order = draw.next_u64() as usize % extents.len();
            extents.rotate_left(order);
            let mut gaps = Gaps::new(len);
            for extent in &extents {
                gaps.add(extent);
            }
            let gaps = gaps.find(len);
            assert_eq!(gaps.iter().map(|gap| gap.pages.clone()).collect::<Vec<_>>(), expected(&extents, len));
            for Gap { before, pages } in gaps {
                let front = extents.iter().map(|extent| extent.offset).filter(|at| *at < pages.start).max();
                assert_eq!(before, front);
                found += 1;
            }
        }
        assert!(found > 500, "{found}");
    }

    /// 40 GB dead in as many segments as possible, in a store of 20 TiB with 50 million keys: one
    /// walk over the index.
    #[test]
    fn the_gaps_of_forty_thousand_segments_fit_into_what_a_walk_may_use() {
        let index_bytes = 50_000_000 * 55;
        let gaps_bytes = 40_000 * Gaps::memory_max_bytes(SEGMENT_MAX_BYTES);
        assert!(gaps_bytes < index_bytes / WALK_MEMORY_SHARE, "{gaps_bytes}");
        let mut gaps = Gaps::new(SEGMENT_MAX_BYTES);
        gaps.add(&extent(SEGMENT_MAX_BYTES - MIB, 10));
        let used = gaps.stretches.capacity() * size_of::<Stretch>();
        assert!(used as u64 <= Gaps::memory_max_bytes(SEGMENT_MAX_BYTES));
    }

    #[test]
    fn what_lies_behind_the_part_that_is_looked_at_costs_nothing_and_gets_no_hole() {
        let mut gaps = Gaps::new(4 * MIB);
        gaps.add(&extent(MIB, 10));
        gaps.add(&extent(5 * MIB, 10));
        gaps.add(&extent(u64::MAX / 64 * 64, 10));
        assert!(gaps.stretches.len() == 2);
        assert_eq!(gaps.find(9 * MIB), [Gap { before: Some(MIB), pages: MIB + PAGE_BYTES..4 * MIB }]);
        assert_eq!(gaps.find(PAGE_BYTES), []);
        assert_eq!(gaps.find(0), []);
    }
}
