//! The dead bytes of each segment, as far as holes are concerned. The live bytes alone do not
//! decide: descriptors and padding lie between live extents, and a segment of small, live objects
//! has more of these than a hole needs. So each segment has a baseline: the live bytes from which
//! the dead bytes are counted.

use std::collections::BTreeMap;

use crate::base::limits::HOLE_MIN_BYTES;

/// A searched segment is searched again after another such share of a segment has died in it.
const SHARE_AGAIN: u64 = 16;
/// A segment of which more than this share never lived may hold the bytes of clients that
/// disconnected.
const SHARE_UNEXPLAINED: u64 = 8;

/// The live bytes from which the dead bytes of a segment are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LiveBaseline {
    /// The most that has lived in it so far, while it is active.
    Filling(u64),
    /// The most that may have lived in it. It was not searched for holes.
    Lived(u64),
    /// The live bytes when it was searched for holes.
    Searched(u64),
}

impl LiveBaseline {
    fn live(self) -> u64 {
        match self {
            Self::Filling(live) | Self::Lived(live) | Self::Searched(live) => live,
        }
    }
}

/// The baselines of all segments.
#[derive(Default)]
pub(super) struct LiveBaselines {
    baselines: BTreeMap<u64, LiveBaseline>,
    /// The newest segment when the store was opened. Nothing is known of the segments up to it that
    /// have no baseline.
    newest_known: u64,
}

impl LiveBaselines {
    /// Saved baselines. `newest` is the newest segment.
    pub(super) fn new(baselines: BTreeMap<u64, LiveBaseline>, newest: u64) -> Self {
        Self { baselines, newest_known: newest }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, LiveBaseline)> {
        self.baselines.iter().map(|(id, baseline)| (*id, *baseline))
    }

    /// Forgets removed segments, and follows active ones. `live` holds all segments with live
    /// extents.
    pub(super) fn follow(&mut self, live: &BTreeMap<u64, u64>) {
        self.baselines.retain(|id, _| live.contains_key(id));
        for (id, live) in live {
            match self.baselines.get_mut(id) {
                Some(LiveBaseline::Filling(most) | LiveBaseline::Lived(most)) => *most = (*most).max(*live),
                // Deleted versions came back, as `rebuild` may cause.
                Some(baseline @ LiveBaseline::Searched(_)) if *live > baseline.live() => {
                    *baseline = LiveBaseline::Lived(*live);
                }
                Some(LiveBaseline::Searched(_)) => {}
                None if *id > self.newest_known => {
                    self.baselines.insert(*id, LiveBaseline::Filling(*live));
                }
                None => {}
            }
        }
    }

    /// Whether the baseline of an immutable segment takes a look at its file.
    pub(super) fn is_unmeasured(&self, id: u64) -> bool {
        matches!(self.baselines.get(&id), None | Some(LiveBaseline::Filling(_)))
    }

    /// Sets the baseline of a segment that takes up `used` bytes. Bytes that never lived count as
    /// dead if there are many of them, or if nothing is known of the segment.
    pub(super) fn measured(&mut self, id: u64, used: u64) {
        let baseline = match self.baselines.get(&id) {
            Some(LiveBaseline::Filling(most)) if used <= *most + used / SHARE_UNEXPLAINED => {
                LiveBaseline::Lived(*most)
            }
            Some(LiveBaseline::Filling(_)) | None => LiveBaseline::Lived(used),
            Some(_) => return,
        };
        self.baselines.insert(id, baseline);
    }

    /// Notes a search for holes, with the live bytes at that time.
    pub(super) fn searched(&mut self, id: u64, live: u64) {
        self.baselines.insert(id, LiveBaseline::Searched(live));
    }

    /// The dead bytes of a segment, if they may suffice for a hole; else 0.
    pub(super) fn dead(&self, id: u64, live: u64, segment_max_bytes: u64) -> u64 {
        let (then, enough) = match self.baselines.get(&id) {
            Some(LiveBaseline::Lived(then)) => (*then, HOLE_MIN_BYTES),
            Some(LiveBaseline::Searched(then)) => {
                (*then, HOLE_MIN_BYTES.max(segment_max_bytes / SHARE_AGAIN))
            }
            Some(LiveBaseline::Filling(_)) | None => return 0,
        };
        let dead = then.saturating_sub(live);
        if dead >= enough { dead } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::limits::MIB;

    const SIZE: u64 = 256 * MIB;

    fn follow(baselines: &mut LiveBaselines, live: &[(u64, u64)]) {
        baselines.follow(&live.iter().copied().collect());
    }

    #[test]
    fn what_died_in_a_segment_that_was_followed_is_known_to_the_byte() {
        let mut baselines = LiveBaselines::new(BTreeMap::new(), 5);
        follow(&mut baselines, &[(6, 100 * MIB)]);
        follow(&mut baselines, &[(6, 250 * MIB)]);
        assert!(baselines.is_unmeasured(6) && baselines.dead(6, 0, SIZE) == 0, "it is written to");
        // Descriptors and padding are not dead bytes.
        baselines.measured(6, 256 * MIB);
        assert_eq!(baselines.dead(6, 250 * MIB, SIZE), 0);
        assert_eq!(baselines.dead(6, 249 * MIB + 1, SIZE), 0, "less than a hole");
        assert_eq!(baselines.dead(6, 249 * MIB, SIZE), MIB);
        baselines.searched(6, 249 * MIB);
        assert_eq!(baselines.dead(6, 234 * MIB, SIZE), 0);
        assert_eq!(baselines.dead(6, 233 * MIB, SIZE), 16 * MIB);
        follow(&mut baselines, &[(6, 255 * MIB)]);
        assert_eq!(baselines.dead(6, 253 * MIB, SIZE), 2 * MIB, "what came back may die again");
        follow(&mut baselines, &[]);
        assert_eq!(baselines.iter().count(), 0);
    }

    #[test]
    fn where_nobody_knows_what_lived_all_that_does_not_live_may_be_dead() {
        let mut baselines = LiveBaselines::new(BTreeMap::new(), 5);
        follow(&mut baselines, &[(5, 200 * MIB), (6, 200 * MIB)]);
        assert!(baselines.is_unmeasured(5));
        for id in [5, 6] {
            // Much of the second never lived: clients may have disconnected.
            baselines.measured(id, 250 * MIB);
            assert_eq!(baselines.dead(id, 200 * MIB, SIZE), 50 * MIB);
        }
    }
}
