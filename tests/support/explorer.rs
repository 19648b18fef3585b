//! Breadth-first search of all states that a model can reach.

use std::collections::{HashSet, VecDeque};
use std::fmt::Debug;
use std::hash::{DefaultHasher, Hash, Hasher};

/// A transition system with an invariant.
pub(crate) trait StateMachine {
    /// One state, complete: equal states have equal futures.
    type State: Clone + Hash;
    /// The name of a transition, for the path to a violation.
    type Step: Copy + Debug;

    fn start(&self) -> Self::State;
    /// Adds each successor of `state`.
    fn successors(&self, state: &Self::State, found: &mut Vec<(Self::Step, Self::State)>);
    /// The invariant that `state` violates.
    fn violation(&self, state: &Self::State) -> Option<&'static str>;
}

/// The result of a search.
pub(crate) struct Exploration<S> {
    pub(crate) states: usize,
    pub(crate) transitions: usize,
    pub(crate) depth: usize,
    /// The violated invariant and a shortest path to it.
    pub(crate) violation: Option<(&'static str, Vec<S>)>,
}

/// Visits each reachable state once, nearest first, and stops at the first violation, or once it
/// knows of `states_max` states.
///
/// A state is remembered by 64 bits of SipHash alone. Two of a million states collide with a chance
/// of 3 in 10^8; a collision hides states and never invents a violation.
pub(crate) fn explore<M: StateMachine>(machine: &M, states_max: usize) -> Exploration<M::Step> {
    let start = machine.start();
    let mut seen = HashSet::from([fingerprint(&start)]);
    let mut arrivals: Vec<Option<(usize, M::Step)>> = vec![None];
    let mut queue = VecDeque::from([(0, 0, start)]);
    let mut result = Exploration { states: 1, transitions: 0, depth: 0, violation: None };
    let mut found = Vec::new();
    while let Some((index, depth, state)) = queue.pop_front() {
        result.depth = depth;
        if let Some(invariant) = machine.violation(&state) {
            result.violation = Some((invariant, path(&arrivals, index)));
            return result;
        }
        machine.successors(&state, &mut found);
        result.transitions += found.len();
        for (step, next) in found.drain(..) {
            if seen.insert(fingerprint(&next)) {
                queue.push_back((arrivals.len(), depth + 1, next));
                arrivals.push(Some((index, step)));
            }
        }
        result.states = arrivals.len();
        if result.states >= states_max {
            break;
        }
    }
    result
}

fn fingerprint(state: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    state.hash(&mut hasher);
    hasher.finish()
}

fn path<S: Copy>(arrivals: &[Option<(usize, S)>], mut index: usize) -> Vec<S> {
    let mut steps = Vec::new();
    while let Some((parent, step)) = arrivals[index] {
        steps.push(step);
        index = parent;
    }
    steps.reverse();
    steps
}
