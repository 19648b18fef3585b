//! Two disks of one host that mirror each other, checked in all interleavings before code rests on
//! it.
//!
//! Each disk is a whole data directory. A group is appended to both, and answered after both. The
//! [`explorer`](crate::support::explorer) visits each reachable state of a small model: a host that
//! starts, writes, drops a side that fails, fills one that comes back, and crashes ([`host`]); disks
//! that fail with and without effect, are taken out, come back and are exchanged for an empty one; an
//! operator who forces a start; a witness on a third device that is lost.
//!
//! # Protocol
//!
//! What makes a side count is no counter but a *generation*: a random id, its *members*, which are the
//! disks that are whole in it, and its *line*, which are those before it. Each disk has a mark: its
//! generation, or that it is being filled. Each group that was answered in a generation is on all of
//! its members.
//!
//! **Drop.** A side that fails: the other one is marked with a new generation without it, then the
//! witness, and only then is anything answered.
//!
//! **Start.** Two sides of one generation go on as a pair, after the tail of the longer one was made
//! durable on the other. Where one side's line has the other one's generation, the former goes on
//! alone, in a new generation, and fills the latter. Where neither does, they are *apart*: an
//! operator names the one to keep, and the other is set aside. One side goes on alone if it is the
//! only member and the witness has no generation that it knows nothing of, or if the witness names
//! it; otherwise an operator forces it.
//!
//! **Fill.** The filled side is marked as such, then overwritten. At the end, while no write comes, a
//! new generation of both is marked: the new side first, then the other one, then the witness. It
//! counts once both have it. An empty disk is filled after an operator has named it: it may be the
//! directory of a disk that is not mounted.
//!
//! # What holds
//!
//! - An answered group is on some disk, whatever was forced.
//! - Nothing answered, and nothing that was read, is missing from what is served, unless a start was
//!   forced.
//! - No mixture is served, and both sides in use are equal between writes.
//! - With disks that nobody took out, a start is never refused.
//! - Two disks become whole and equal again, with an operator where they are apart.
//!
//! Each [`Rule`] that is left out breaks one of them.
//!
//! # Limits of the model
//!
//! A group is appended to a disk as a whole or not at all. An operation that hangs and has its effect
//! later is not in it, nor is a witness that is set back to an older state, nor a clone of a disk. Three
//! disks, two writes, and four faults in all.

mod disks;
mod host;

use std::collections::BTreeSet;
use std::time::Instant;

use disks::Rule;
use host::{MISSING, MIXTURE, OVERWRITTEN, REFUSED, Scenario, UNSEEN};

use crate::support::explorer::explore;
use crate::support::is_long;

/// The states that an ordinary run looks at where no violation is expected. The model names nothing
/// of the product: what it holds changes with the model alone.
const STATES_MAX: usize = 40_000;

fn pair(has_witness: bool) -> Scenario {
    Scenario { writes: 2, faults: 4, has_witness, removed: BTreeSet::new(), only: None }
}

fn holds(scenario: &Scenario) {
    let states_max = if is_long() { usize::MAX } else { STATES_MAX };
    let begun = Instant::now();
    let result = explore(scenario, states_max);
    let states = result.states;
    let transitions = result.transitions;
    println!("{states} states, {transitions} transitions, depth {}, {:?}", result.depth, begun.elapsed());
    assert!(result.violation.is_none(), "{:#?}", result.violation);
    assert!(states >= STATES_MAX, "{states} states");
}

/// Expects that a pair breaks `invariant` without a rule.
fn breaks_without(rule: Rule, invariant: &'static str, mut scenario: Scenario) {
    scenario.removed.insert(rule);
    scenario.only = Some(invariant);
    let result = explore(&scenario, usize::MAX);
    let (_, path) = result.violation.unwrap_or_else(|| panic!("{rule:?} is not needed"));
    println!("without {rule:?}, of {} states: {invariant}: {path:?}", result.states);
}

#[test]
fn a_pair_without_a_witness_loses_nothing() {
    holds(&pair(false));
}

#[test]
fn a_pair_with_a_witness_loses_nothing() {
    holds(&pair(true));
}

#[test]
fn an_answer_before_the_mark_is_overwritten_or_missing() {
    breaks_without(Rule::MarkBeforeAnswer, OVERWRITTEN, Scenario { writes: 1, faults: 3, ..pair(false) });
    breaks_without(Rule::MarkBeforeAnswer, MISSING, Scenario { writes: 1, faults: 2, ..pair(true) });
}

#[test]
fn sides_that_were_started_alone_in_one_generation_pass_for_equal() {
    let rule = Rule::GenerationAtOneSidedStart;
    breaks_without(rule, OVERWRITTEN, Scenario { faults: 3, ..pair(true) });
}

#[test]
fn a_side_that_was_nearly_added_counts_as_later_than_the_one_that_went_on() {
    let rule = Rule::GenerationAfterGivenUpAddition;
    breaks_without(rule, OVERWRITTEN, pair(false));
}

#[test]
fn an_addition_that_marks_the_old_side_first_leaves_none_that_starts() {
    breaks_without(Rule::NewSideFirst, REFUSED, Scenario { writes: 1, faults: 2, ..pair(false) });
}

#[test]
fn a_generation_that_one_member_lacks_leaves_none_that_starts() {
    breaks_without(Rule::CountsOnAllMembers, REFUSED, Scenario { writes: 1, faults: 2, ..pair(false) });
}

#[test]
fn a_filling_that_is_not_marked_is_served_as_a_mixture() {
    breaks_without(Rule::FillingIsMarked, MIXTURE, Scenario { writes: 1, faults: 3, ..pair(false) });
}

#[test]
fn what_was_read_of_one_tail_is_gone_with_the_other() {
    breaks_without(Rule::LevelBeforeRead, UNSEEN, Scenario { faults: 2, ..pair(false) });
}

#[test]
fn counters_in_place_of_lines_overwrite_answered_groups() {
    breaks_without(Rule::LinesDecide, OVERWRITTEN, pair(false));
}

#[test]
fn a_member_that_starts_without_the_others_lacks_what_they_answered() {
    breaks_without(Rule::OnlyMemberStarts, MISSING, Scenario { faults: 2, ..pair(false) });
}

#[test]
fn an_answer_before_the_witness_is_missing_on_the_side_that_it_names() {
    breaks_without(Rule::WitnessBeforeAnswer, MISSING, Scenario { writes: 1, faults: 3, ..pair(true) });
}

#[test]
fn a_witness_before_the_mark_speaks_for_a_generation_that_no_side_has() {
    breaks_without(Rule::WitnessAfterMark, REFUSED, Scenario { writes: 1, faults: 2, ..pair(true) });
}

#[test]
fn a_side_that_does_not_ask_the_witness_starts_beside_the_one_that_went_on() {
    breaks_without(Rule::WitnessIsAsked, MISSING, pair(true));
}
