//! What a start does with the sides that are there, by their marks (data-format.md, section 24). The rules
//! are those of the model in `tests/disk_model`.

use thiserror::Error;

use crate::format::{Generation, SideMark, SideState};
use crate::fs::Side;

/// What an operator accepts at a start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Accepted {
    /// A side that may be stale: `--accept-degraded`.
    pub(super) degraded: bool,
    /// A side that was told that it is: `--accept-outdated`.
    pub(super) outdated: bool,
}

/// What a start does with the side that is not its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OtherSide {
    /// It is whole, too. The end of either may be missing on the other one, and which of them has more
    /// is yet to be seen.
    Level,
    /// It is filled. The segments below this number are equal already; without one, none is.
    Fill { sealed_below: Option<u64> },
    /// It is missing, or no side yet.
    Leave,
}

/// What a start does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StartPlan {
    /// The side that is read.
    pub(super) source: usize,
    pub(super) other: OtherSide,
}

/// Why the sides of a mirror are not used. They are numbered as in `--mirror A=B`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum SidesRefusal {
    /// There is no mark.
    #[error(
        "neither directory is a side of a mirror. Give a store a second side with `siltstone-tools disk add`; where it had two, \
         their disks may not be mounted"
    )]
    NoMark,
    /// There is no mark, and a witness.
    #[error(
        "neither directory is a side of a mirror, and the file of --pair-witness is that of one: their disks may not be mounted. To \
         begin a new store, remove that file"
    )]
    BothMissing,
    /// The marks name different mirrors.
    #[error(
        "the directories are sides of different mirrors: another disk may be mounted in the place of one"
    )]
    OtherMirror,
    /// The witness names another mirror.
    #[error(
        "the file of --pair-witness is that of another mirror: name the right one, or a file that is not there yet"
    )]
    OtherWitness,
    /// One side is a copy of the other.
    #[error(
        "both directories are the same side: one is a copy of the other. Take the copy out, and name an empty directory in its \
         place with `siltstone-tools disk replace`"
    )]
    Clone,
    /// Each side was used without the other.
    #[error(
        "each side has gone on without the other, and has what the other lacks; or one was started without the other more than 165 \
         times, and they cannot tell. `siltstone-tools disk list` says how late each is. Name the one to keep with `siltstone-tools \
         disk resolve --keep SIDE`: the other one is set aside, and not overwritten"
    )]
    Apart,
    /// The side that has all cannot be written to.
    #[error(
        "side {} has what the other one lacks, and its disk cannot be written to: mount it for writing. To look at it as it is, start \
         with --read-only",
        letter(.0)
    )]
    LaterIsReadOnly(usize),
    /// Neither side can be written to.
    #[error(
        "neither side can be written to: mount them for writing. To look at them as they are, start with --read-only"
    )]
    BothReadOnly,
    /// Another side may have gone on without this one.
    #[error(
        "side {} lacks what the other side of its mirror may have been given without it. Bring that one back; where it is lost, \
         start once with --accept-degraded",
        letter(.0)
    )]
    OtherMayBeLater(usize),
    /// The mirror went on without this side, by the witness.
    #[error(
        "the file of --pair-witness says that the mirror went on without side {}. Bring the other side back; where it is lost, \
         start once with --accept-degraded, and do without what was written since",
        letter(.0)
    )]
    WitnessIsLater(usize),
    /// The side was told that the other one goes on without it.
    #[error(
        "side {} was dropped, and lacks all that was written since. Bring the other side back; where it is lost, start once with \
         --accept-outdated",
        letter(.0)
    )]
    Told(usize),
    /// The side was being filled.
    #[error(
        "side {} was being filled: its files are a mixture, and are never used. Bring the other side back",
        letter(.0)
    )]
    Filling(usize),
    /// Both sides were being filled.
    #[error(
        "both sides were being filled: their files are a mixture, and are never used. Bring back the side that they were filled from"
    )]
    BothFilling,
}

fn letter(side: &usize) -> char {
    Side::BOTH[*side].letter()
}

/// Decides what a start does. `witness` is the generation that the witness has, if there is one that is
/// not lost. A side without a mark is missing, or empty.
///
/// # Errors
/// No side may be used without an operator's word.
pub(super) fn plan_start(
    sides: [Option<&SideMark>; 2],
    witness: Option<&Generation>,
    accepted: Accepted,
) -> Result<StartPlan, SidesRefusal> {
    let rules = StartRules { witness, accepted };
    let [one, other] = sides;
    let one = one.map(|mark| FoundSide { at: 0, mark });
    let other = other.map(|mark| FoundSide { at: 1, mark });
    match (one, other) {
        (None, None) => Err(SidesRefusal::NoMark),
        (Some(side), None) | (None, Some(side)) => rules.start_alone(side, OtherSide::Leave),
        (Some(one), Some(other)) => rules.start_two(one, other),
    }
}

/// A side that is there.
#[derive(Clone, Copy)]
struct FoundSide<'m> {
    at: usize,
    mark: &'m SideMark,
}

impl FoundSide<'_> {
    fn generation(&self) -> &Generation {
        &self.mark.generation
    }

    /// Whether the generation of this side counts beside the other one that is there: an addition that
    /// was cut off has not reached it.
    fn counts(&self, other: FoundSide<'_>) -> bool {
        let names_other = self.generation().has_member(other.mark.side);
        !names_other || other.generation().knows(self.generation().id)
    }

    /// Whether the other one has nothing that this one lacks.
    fn covers(&self, other: FoundSide<'_>) -> bool {
        let knows = !other.counts(*self) || self.generation().knows(other.generation().id);
        self.counts(other) && knows
    }

    /// The other side is filled. What is equal of one that was being filled before is told by the
    /// generation in its mark, too.
    fn filling(&self, other: FoundSide<'_>) -> OtherSide {
        let ended = self.generation().ended(other.generation().id);
        OtherSide::Fill { sealed_below: ended.map(|ended| ended.sealed_below) }
    }
}

struct StartRules<'w> {
    witness: Option<&'w Generation>,
    accepted: Accepted,
}

impl StartRules<'_> {
    fn start_two(&self, one: FoundSide<'_>, other: FoundSide<'_>) -> Result<StartPlan, SidesRefusal> {
        use SideState::{Filling, Told, Whole};
        if one.mark.mirror != other.mark.mirror {
            return Err(SidesRefusal::OtherMirror);
        }
        if one.mark.side == other.mark.side {
            return Err(SidesRefusal::Clone);
        }
        let is_one_generation = one.generation().id == other.generation().id;
        match (one.mark.state, other.mark.state) {
            (Filling, Filling) => Err(SidesRefusal::BothFilling),
            (Filling, _) => self.start_alone(other, other.filling(one)),
            (_, Filling) => self.start_alone(one, one.filling(other)),
            (Whole, Whole) if is_one_generation => Ok(StartPlan { source: one.at, other: OtherSide::Level }),
            // Neither is known to have more.
            (Told, Told) if is_one_generation => Err(SidesRefusal::Apart),
            (Told, Whole) => self.start_covering(other, one),
            (Whole | Told, _) => self.start_covering(one, other),
        }
    }

    /// Starts the side that covers the other one; `one` where each does.
    fn start_covering(&self, one: FoundSide<'_>, other: FoundSide<'_>) -> Result<StartPlan, SidesRefusal> {
        if one.covers(other) {
            return self.start_alone(one, one.filling(other));
        }
        if other.covers(one) {
            return self.start_alone(other, other.filling(one));
        }
        Err(SidesRefusal::Apart)
    }

    fn start_alone(&self, side: FoundSide<'_>, other: OtherSide) -> Result<StartPlan, SidesRefusal> {
        self.check_alone(side)?;
        Ok(StartPlan { source: side.at, other })
    }

    /// Whether a side may be used without another one of its generation.
    fn check_alone(&self, side: FoundSide<'_>) -> Result<(), SidesRefusal> {
        match side.mark.state {
            SideState::Filling => return Err(SidesRefusal::Filling(side.at)),
            SideState::Told if self.accepted.outdated => return Ok(()),
            SideState::Told => return Err(SidesRefusal::Told(side.at)),
            SideState::Whole => {}
        }
        let generation = side.generation();
        let is_known = self.witness.is_none_or(|witness| generation.knows(witness.id));
        let is_named = self.witness.is_some_and(|witness| witness.has_member(side.mark.side)) && is_known;
        let is_only = generation.is_of_only(side.mark.side) && is_known;
        if is_named || is_only || self.accepted.degraded {
            return Ok(());
        }
        if is_known {
            Err(SidesRefusal::OtherMayBeLater(side.at))
        } else {
            Err(SidesRefusal::WitnessIsLater(side.at))
        }
    }
}

#[cfg(test)]
#[allow(dead_code, reason = "the model has more rules than those of a start")]
#[path = "../../../tests/disk_model/disks.rs"]
mod model;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::base::{SeededEntropy, Timestamp};
    use crate::format::{GenerationId, SideId, StoreId};

    const NOTHING: Accepted = Accepted { degraded: false, outdated: false };
    const DEGRADED: Accepted = Accepted { degraded: true, outdated: false };
    const OUTDATED: Accepted = Accepted { degraded: false, outdated: true };

    const A: SideId = SideId([1; 16]);
    const B: SideId = SideId([2; 16]);

    fn first() -> Generation {
        Generation::first(GenerationId([1; 16]), vec![A, B], Timestamp::from_millis(1))
    }

    fn next(before: &Generation, id: u8, members: &[SideId]) -> Generation {
        before.next(GenerationId([id; 16]), members.to_vec(), u64::from(10 * id), Timestamp::from_millis(1))
    }

    fn side(side: SideId, generation: &Generation) -> SideMark {
        let mirror = StoreId([9; 16]);
        SideMark { mirror, side, number: 1, state: SideState::Whole, generation: generation.clone() }
    }

    fn in_state(state: SideState, mark: SideMark) -> SideMark {
        SideMark { state, ..mark }
    }

    /// The plan of sides that are both there, without a witness, also where they change places.
    fn plan(one: &SideMark, other: &SideMark, accepted: Accepted) -> Result<StartPlan, SidesRefusal> {
        let plan = plan_start([Some(one), Some(other)], None, accepted);
        let turned = plan_start([Some(other), Some(one)], None, accepted);
        match (plan, turned) {
            (Ok(plan), Ok(turned)) => {
                assert_eq!(plan.other, turned.other);
                assert!(plan.other == OtherSide::Level || plan.source != turned.source);
            }
            (Err(_), Err(_)) => {}
            plans => panic!("{plans:?}"),
        }
        plan
    }

    fn alone(mark: &SideMark, witness: Option<&Generation>, accepted: Accepted) -> Option<SidesRefusal> {
        let plan = plan_start([Some(mark), None], witness, accepted);
        if let Ok(plan) = plan {
            assert_eq!(plan, StartPlan { source: 0, other: OtherSide::Leave });
        }
        assert_eq!(plan_start([None, Some(mark)], witness, accepted).is_ok(), plan.is_ok());
        plan.err()
    }

    fn fill(source: usize, sealed_below: Option<u64>) -> Result<StartPlan, SidesRefusal> {
        Ok(StartPlan { source, other: OtherSide::Fill { sealed_below } })
    }

    #[test]
    fn sides_of_one_generation_are_made_level() {
        let level = StartPlan { source: 0, other: OtherSide::Level };
        assert_eq!(plan(&side(A, &first()), &side(B, &first()), NOTHING), Ok(level));
    }

    #[test]
    fn a_side_that_went_on_alone_fills_the_other_one() {
        let later = next(&first(), 2, &[A]);
        let last = next(&later, 3, &[A]);
        assert_eq!(plan(&side(A, &later), &side(B, &first()), NOTHING), fill(0, Some(20)));
        assert_eq!(plan(&side(A, &last), &side(B, &first()), NOTHING), fill(0, Some(20)));
        let told = in_state(SideState::Told, side(B, &first()));
        assert_eq!(plan(&side(A, &last), &told, NOTHING), fill(0, Some(20)));
        let filling = in_state(SideState::Filling, side(B, &later));
        assert_eq!(plan(&side(A, &last), &filling, NOTHING), fill(0, Some(30)));
    }

    #[test]
    fn an_addition_that_reached_one_mark_does_not_count() {
        let alone = next(&first(), 2, &[A]);
        let both = next(&alone, 3, &[A, B]);
        assert_eq!(plan(&side(A, &alone), &side(B, &both), NOTHING), fill(0, None));
    }

    #[test]
    fn sides_that_each_went_on_alone_are_apart() {
        let one = side(A, &next(&first(), 2, &[A]));
        let other = side(B, &next(&first(), 3, &[B]));
        for accepted in [NOTHING, DEGRADED, OUTDATED] {
            assert_eq!(plan(&one, &other, accepted), Err(SidesRefusal::Apart));
        }
    }

    #[test]
    fn a_side_alone_starts_if_it_is_the_only_member_or_is_accepted() {
        let only = side(A, &next(&first(), 2, &[A]));
        assert_eq!(alone(&only, None, NOTHING), None);
        let member = side(A, &first());
        assert!(matches!(alone(&member, None, NOTHING), Some(SidesRefusal::OtherMayBeLater(0))));
        assert!(matches!(alone(&member, None, OUTDATED), Some(SidesRefusal::OtherMayBeLater(0))));
        assert_eq!(alone(&member, None, DEGRADED), None);
    }

    #[test]
    fn a_witness_names_a_side_or_has_later_news() {
        let both = first();
        let without_b = next(&both, 2, &[A]);
        assert_eq!(alone(&side(B, &both), Some(&both), NOTHING), None);
        assert_eq!(alone(&side(A, &without_b), Some(&without_b), NOTHING), None);
        assert_eq!(alone(&side(A, &without_b), Some(&both), NOTHING), None);
        let stale = alone(&side(B, &both), Some(&without_b), NOTHING);
        assert_eq!(stale, Some(SidesRefusal::WitnessIsLater(0)));
        assert_eq!(alone(&side(B, &both), Some(&without_b), DEGRADED), None);
        let forced = side(B, &next(&both, 3, &[B]));
        assert_eq!(alone(&forced, Some(&without_b), NOTHING), Some(SidesRefusal::WitnessIsLater(0)));
    }

    #[test]
    fn a_side_that_was_told_starts_only_where_that_is_accepted() {
        let told = in_state(SideState::Told, side(B, &first()));
        assert_eq!(alone(&told, None, NOTHING), Some(SidesRefusal::Told(0)));
        assert_eq!(alone(&told, Some(&first()), DEGRADED), Some(SidesRefusal::Told(0)));
        assert_eq!(alone(&told, None, OUTDATED), None);
        let other = in_state(SideState::Told, side(A, &first()));
        assert_eq!(plan(&told, &other, OUTDATED), Err(SidesRefusal::Apart));
        // It was dropped for a third disk, which is not there.
        let later = in_state(SideState::Told, side(B, &next(&first(), 2, &[B])));
        assert_eq!(plan(&later, &side(A, &first()), DEGRADED), Err(SidesRefusal::Told(0)));
        assert_eq!(plan(&later, &side(A, &first()), OUTDATED), fill(0, Some(20)));
    }

    #[test]
    fn a_mixture_never_starts() {
        let filling = in_state(SideState::Filling, side(B, &first()));
        let all = Accepted { degraded: true, outdated: true };
        assert_eq!(alone(&filling, Some(&first()), all), Some(SidesRefusal::Filling(0)));
        let other = in_state(SideState::Filling, side(A, &first()));
        assert_eq!(plan(&filling, &other, all), Err(SidesRefusal::BothFilling));
        let member = side(A, &first());
        assert_eq!(plan(&member, &filling, OUTDATED), Err(SidesRefusal::OtherMayBeLater(0)));
        assert_eq!(plan(&member, &filling, DEGRADED), fill(0, None));
    }

    #[test]
    fn sides_that_do_not_belong_together_are_refused() {
        let one = side(A, &first());
        assert_eq!(plan(&one, &one, DEGRADED), Err(SidesRefusal::Clone));
        let other = SideMark { mirror: StoreId([8; 16]), ..side(B, &first()) };
        assert_eq!(plan(&one, &other, DEGRADED), Err(SidesRefusal::OtherMirror));
        assert_eq!(plan_start([None, None], None, DEGRADED), Err(SidesRefusal::NoMark));
    }

    #[test]
    fn a_refusal_names_the_side_and_the_way_out() {
        assert!(SidesRefusal::OtherMayBeLater(1).to_string().starts_with("side B lacks"));
        assert!(SidesRefusal::WitnessIsLater(0).to_string().contains("--accept-degraded"));
        assert!(SidesRefusal::Told(0).to_string().contains("--accept-outdated"));
        assert!(SidesRefusal::Apart.to_string().contains("--keep"));
    }

    /// A generation of the model and the same one of a mark, random ones, in which `disk` is whole.
    fn random_generation(entropy: &SeededEntropy, disk: u8) -> (model::Generation, Generation) {
        let id = entropy.below(5) as u8;
        let other = entropy.below(3) as u8;
        let mut members = vec![disk];
        if other != disk {
            members.push(other);
        }
        let mut line = Vec::new();
        for before in 0..5 {
            if before != id && entropy.below(2) == 0 {
                line.push(before);
            }
        }
        let of_model =
            model::Generation { id, members: model::Bits::of(&members), line: model::Bits::of(&line) };
        let mut generation = Generation::first(
            GenerationId([id; 16]),
            members.iter().map(|member| SideId([*member; 16])).collect(),
            Timestamp::from_millis(1),
        );
        for before in line {
            generation.line.push(crate::format::EndedGeneration {
                id: GenerationId([before; 16]),
                sealed_below: u64::from(before),
            });
        }
        (of_model, generation)
    }

    #[test]
    fn a_plan_is_that_of_the_model() {
        let entropy = SeededEntropy::new(1);
        let mut seen: std::collections::BTreeMap<String, u32> = std::collections::BTreeMap::new();
        for round in 0..50_000 {
            let disks = [[0, 1], [1, 0], [0, 2], [2, 1]][entropy.below(4) as usize];
            let [one, other] = disks.map(|disk| random_generation(&entropy, disk));
            let witness = random_generation(&entropy, entropy.below(3) as u8);
            let has_witness = entropy.below(2) == 0;
            let removed = BTreeSet::new();
            let rules = model::Rules { removed: &removed, witness: has_witness.then_some(witness.0) };
            let found_one = model::Found { disk: disks[0], generation: one.0 };
            let found_other = model::Found { disk: disks[1], generation: other.0 };
            let one = side(SideId([disks[0]; 16]), &one.1);
            let other = side(SideId([disks[1]; 16]), &other.1);
            let filling = in_state(SideState::Filling, other.clone());
            let of_two = rules.of_two(found_one, found_other);
            let of_one = rules.of_one(found_one);
            let plan_of = |other: Option<&SideMark>| {
                plan_start([Some(&one), other], has_witness.then_some(&witness.1), NOTHING)
            };
            for (verdict, plan) in
                [(of_two, plan_of(Some(&other))), (of_one, plan_of(Some(&filling))), (of_one, plan_of(None))]
            {
                let as_model = match plan {
                    Ok(StartPlan { other: OtherSide::Level, .. }) => model::Verdict::Pair,
                    Ok(plan) => model::Verdict::Alone(disks[plan.source]),
                    Err(_) => model::Verdict::Refused,
                };
                assert_eq!(as_model, verdict, "round {round}: {one:?} {other:?} {plan:?}");
                *seen.entry(format!("{verdict:?}")).or_default() += 1;
            }
            if let Ok(StartPlan { other: OtherSide::Fill { .. }, .. }) = plan_of(Some(&other)) {
                let source_is_one = of_two == model::Verdict::Alone(disks[0]);
                let (source, stale) =
                    if source_is_one { (found_one, found_other) } else { (found_other, found_one) };
                assert!(rules.may_overwrite(source, stale), "round {round}");
            }
        }
        assert!(seen.len() == 5 && seen.values().all(|times| *times > 1000), "{seen:?}");
    }
}
