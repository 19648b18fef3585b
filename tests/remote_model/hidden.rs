//! A remote that answers 404 for parcels that it has, for a while or for ever, while another host
//! takes over.
//!
//! The host that takes over reads parcels up to the first 404. Two witnesses speak for later ones:
//! the heartbeat names the last parcel that was answered when it was put, and a listing shows
//! parcels. It creates its cut only where neither speaks for more; else it reads again. Where
//! listings hide what GETs hide, the sign is the only witness: it covers what was answered before
//! it.

use super::SHIPPED;
use crate::support::explorer::{StateMachine, explore};

const PARCELS: u8 = 4;

/// What the search may do, and what the host that takes over looks at.
#[derive(Clone, Copy, Debug)]
struct HidingRemote {
    /// Whether listings lack what GETs answer 404 for. Then the writer gives its last sign before
    /// the takeover begins.
    hides_in_listings: bool,
    /// Times that an object is hidden.
    hides: u8,
    looks_at_sign: bool,
    looks_at_listing: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Taker {
    Idle,
    /// Has claimed, and has read so many parcels.
    Reads(u8),
    /// Has met a 404 there, and has looked at the sign.
    Found(u8),
    AskedSign(u8),
    /// Has put its cut.
    Cut(u8),
}

#[derive(Clone, Hash)]
struct HidingState {
    put: u8,
    answered: u8,
    sign: u8,
    /// Parcels that GETs answer 404 for, one bit each.
    hidden: u8,
    hides_left: u8,
    /// Whether the writer has found the claim.
    is_fenced: bool,
    taker: Taker,
}

#[derive(Clone, Copy, Debug)]
enum HidingStep {
    Put,
    LookForClaim,
    Sign,
    Hide,
    Show,
    Claim,
    Get,
    LookAtSign,
    List,
}

impl HidingState {
    fn is_shown(&self, parcel: u8) -> bool {
        parcel <= self.put && self.hidden & (1 << parcel) == 0
    }
}

impl StateMachine for HidingRemote {
    type State = HidingState;
    type Step = HidingStep;

    fn start(&self) -> HidingState {
        HidingState {
            put: 0,
            answered: 0,
            sign: 0,
            hidden: 0,
            hides_left: self.hides,
            is_fenced: false,
            taker: Taker::Idle,
        }
    }

    fn successors(&self, state: &HidingState, found: &mut Vec<(HidingStep, HidingState)>) {
        let mut add = |step, change: &dyn Fn(&mut HidingState)| {
            let mut next = state.clone();
            change(&mut next);
            found.push((step, next));
        };
        if !state.is_fenced && state.put < PARCELS && state.put == state.answered {
            add(HidingStep::Put, &|next| next.put += 1);
        }
        if !state.is_fenced && state.answered < state.put {
            match state.taker {
                Taker::Idle => add(HidingStep::LookForClaim, &|next| next.answered = next.put),
                _ => add(HidingStep::LookForClaim, &|next| next.is_fenced = true),
            }
        }
        if !state.is_fenced && state.sign < state.answered {
            add(HidingStep::Sign, &|next| next.sign = next.answered);
        }
        for parcel in 1..=state.put {
            match state.hidden & (1 << parcel) {
                0 if state.hides_left > 0 => add(HidingStep::Hide, &|next| {
                    next.hidden |= 1 << parcel;
                    next.hides_left -= 1;
                }),
                0 => {}
                _ => add(HidingStep::Show, &|next| next.hidden &= !(1 << parcel)),
            }
        }
        match state.taker {
            Taker::Idle if !self.hides_in_listings || state.sign == state.answered => {
                add(HidingStep::Claim, &|next| next.taker = Taker::Reads(0));
            }
            Taker::Idle | Taker::Cut(_) => {}
            Taker::Reads(last) if state.is_shown(last + 1) => {
                add(HidingStep::Get, &|next| next.taker = Taker::Reads(last + 1));
            }
            Taker::Reads(last) => add(HidingStep::Get, &|next| next.taker = Taker::Found(last)),
            Taker::Found(last) => {
                let speaks = self.looks_at_sign && state.sign > last;
                let after = if speaks { Taker::Reads(last) } else { Taker::AskedSign(last) };
                add(HidingStep::LookAtSign, &|next| next.taker = after);
            }
            Taker::AskedSign(last) => {
                let is_listed =
                    |parcel| parcel <= state.put && (!self.hides_in_listings || state.is_shown(parcel));
                let speaks = self.looks_at_listing && (last + 1..=PARCELS).any(is_listed);
                let after = if speaks { Taker::Reads(last) } else { Taker::Cut(last) };
                add(HidingStep::List, &|next| next.taker = after);
            }
        }
    }

    fn violation(&self, state: &HidingState) -> Option<&'static str> {
        matches!(state.taker, Taker::Cut(last) if last < state.answered).then_some(SHIPPED)
    }
}

const LISTED: HidingRemote =
    HidingRemote { hides_in_listings: false, hides: 3, looks_at_sign: true, looks_at_listing: true };

#[test]
fn hidden_parcels_shorten_no_log_that_a_witness_speaks_for() {
    for remote in [LISTED, HidingRemote { hides_in_listings: true, ..LISTED }] {
        let result = explore(&remote, usize::MAX);
        println!(
            "{} states, {} transitions, depth {}: {remote:?}",
            result.states, result.transitions, result.depth
        );
        assert!(result.violation.is_none(), "{:#?}", result.violation);
        assert!(result.states > 300, "{} states", result.states);
    }
}

#[test]
fn without_a_witness_answered_writes_are_given_up() {
    for remote in [
        HidingRemote { looks_at_listing: false, ..LISTED },
        HidingRemote { hides_in_listings: true, looks_at_sign: false, ..LISTED },
    ] {
        let violation = explore(&remote, usize::MAX).violation;
        let (violated, path) =
            violation.unwrap_or_else(|| panic!("both witnesses are not needed: {remote:?}"));
        println!("{remote:?}: {violated}: {path:#?}");
        assert_eq!(violated, SHIPPED);
    }
}
