//! How much has died in each segment, as far as holes are concerned. Liveness alone does not tell: between live extents lie
//! descriptors and padding, and a segment of small objects that are all alive has more of these than a hole needs. So for
//! each segment the live bytes are kept from which what has died since is counted.

use std::collections::BTreeMap;

use crate::base::limits::HOLE_MIN_BYTES;

/// A segment in which holes were looked for is looked at again when another such share of a segment has died in it.
const SHARE_AGAIN: u64 = 16;
/// A segment of which more than such a share never lived may hold what clients have left behind that went away.
const SHARE_UNEXPLAINED: u64 = 8;

/// From which live bytes the dead bytes of a segment are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LiveBaseline {
    /// All that ever lived in it, while it is written to.
    Filling(u64),
    /// All that may have lived in it. Nobody has looked for holes yet.
    Lived(u64),
    /// What lived in it when holes were looked for.
    Searched(u64),
}

impl LiveBaseline {
    fn live(self) -> u64 {
        match self {
            Self::Filling(live) | Self::Lived(live) | Self::Searched(live) => live,
        }
    }
}

/// The marks of all segments.
#[derive(Default)]
pub(super) struct LiveBaselines {
    baselines: BTreeMap<u64, LiveBaseline>,
    /// The newest segment that there was when the store was opened: of those up to it that have no mark nobody knows what lived
    /// in them.
    newest_known: u64,
}

impl LiveBaselines {
    /// Marks that were kept. `newest` is the newest segment that there is.
    pub(super) fn new(baselines: BTreeMap<u64, LiveBaseline>, newest: u64) -> Self {
        Self { baselines, newest_known: newest }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, LiveBaseline)> {
        self.baselines.iter().map(|(id, baseline)| (*id, *baseline))
    }

    /// Forgets the segments that are gone, and follows those that are filled. `live` has all segments in which something lives.
    pub(super) fn follow(&mut self, live: &BTreeMap<u64, u64>) {
        self.baselines.retain(|id, _| live.contains_key(id));
        for (id, live) in live {
            match self.baselines.get_mut(id) {
                Some(LiveBaseline::Filling(most) | LiveBaseline::Lived(most)) => *most = (*most).max(*live),
                // What was deleted came back, as `rebuild` may have it.
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

    /// Whether it takes a look at the file to give a segment, which nobody writes to any more, its mark.
    pub(super) fn is_unmeasured(&self, id: u64) -> bool {
        matches!(self.baselines.get(&id), None | Some(LiveBaseline::Filling(_)))
    }

    /// Gives a segment its mark. `used` is how many bytes it takes up: what never lived is taken for dead where there is much
    /// of it, or where nobody knows what lived.
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

    /// Notes that holes were looked for while so much was alive.
    pub(super) fn searched(&mut self, id: u64, live: u64) {
        self.baselines.insert(id, LiveBaseline::Searched(live));
    }

    /// How much has died in a segment, in bytes, where that may be enough for a hole; else 0.
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
        // Descriptors and padding are no dead bytes.
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
            // Of the second, much never lived: clients may have gone away.
            baselines.measured(id, 250 * MIB);
            assert_eq!(baselines.dead(id, 200 * MIB, SIZE), 50 * MIB);
        }
    }
}
