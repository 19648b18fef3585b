//! The faults of a simulated remote: planned ones, random ones, and states that last.

use std::collections::{BTreeSet, VecDeque};

use crate::base::{Entropy as _, SeededEntropy};
use crate::remote::{RemoteCall, RemoteError};

/// The number of kinds of calls.
pub(super) const CALL_KINDS: usize = RemoteCall::ALL.len();

/// A late write lands before one of that many next calls.
const LANDS_WITHIN: u64 = 20;

/// The failure of one call. Those that concern another kind of call act as [`RemoteFault::Lost`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemoteFault {
    /// The call does not fail: a later one is planned to.
    None,
    /// This status answers every try, and the call has no effect: 409, 412, 500, 503, 403, 507.
    Status(u16),
    /// The call has its effect, and its answer is lost.
    Lost,
    /// A put or a delete is answered as failed, and lands before one of the next calls.
    Late,
    /// As [`RemoteFault::Late`], and a create replaces what is there then, as on a remote that has
    /// checked its condition before.
    LateOver,
    /// The answer comes after the time that the call may take, or its bytes drip until then: the
    /// call fails at its deadline, and a write has its effect.
    Slow,
    /// The body of a GET ends early; a stream's in its midst.
    Cut,
    /// A GET is answered with another range.
    WrongRange,
    /// A byte of the body of a GET is another.
    WrongBytes,
}

/// Calls that are held.
#[derive(Default)]
pub(super) struct HeldCalls {
    pub(super) holds: bool,
    pub(super) count: usize,
}

/// The plan of a remote.
#[derive(Default)]
pub(super) struct RemotePlan {
    pub(super) down: bool,
    pub(super) down_at: Option<u64>,
    pub(super) read_only: bool,
    pub(super) full: bool,
    pub(super) ignores_conditions: bool,
    /// Names that GET and HEAD answer 404 for, and whether listings lack them, too.
    pub(super) hidden: BTreeSet<String>,
    pub(super) hides_in_listings: bool,
    /// Where creates are checked and then put without a lock: what draws the time between.
    pub(super) checks_then_puts: Option<SeededEntropy>,
    pub(super) calls: [u64; CALL_KINDS],
    pub(super) held: [HeldCalls; CALL_KINDS],
    planned: VecDeque<(RemoteCall, RemoteFault)>,
    random: Option<SeededEntropy>,
    per_mille: u64,
    /// Functions to be called once, by the number of the call that each comes before.
    pub(super) to_do: Vec<(u64, Box<dyn FnOnce() + Send>)>,
}

impl RemotePlan {
    /// A function that is to be called before the next call.
    pub(super) fn take_due(&mut self) -> Option<Box<dyn FnOnce() + Send>> {
        let next = self.all_calls() + 1;
        let due = self.to_do.iter().position(|(before, _)| *before <= next)?;
        Some(self.to_do.swap_remove(due).1)
    }

    pub(super) fn add(&mut self, call: RemoteCall, fault: RemoteFault) {
        self.planned.push_back((call, fault));
    }

    pub(super) fn fail_at_random(&mut self, seed: u64, per_mille: u64) {
        self.random = Some(SeededEntropy::new(seed));
        self.per_mille = per_mille;
    }

    pub(super) fn all_calls(&self) -> u64 {
        self.calls.iter().sum()
    }

    /// Counts a call, and draws its fault.
    pub(super) fn begin(&mut self, call: RemoteCall) -> Option<RemoteFault> {
        self.calls[call as usize] += 1;
        self.down |= self.down_at.is_some_and(|at| self.all_calls() >= at);
        if let Some(at) = self.planned.iter().position(|(planned, _)| *planned == call) {
            return self
                .planned
                .remove(at)
                .map(|(_, fault)| fault)
                .filter(|fault| *fault != RemoteFault::None);
        }
        let faults = random_faults(call);
        if self.draw(1000) >= self.per_mille {
            None
        } else {
            Some(faults[self.draw(faults.len() as u64) as usize])
        }
    }

    /// A number below `bound`; zero without a seed, or where nothing is below it.
    pub(super) fn draw(&mut self, bound: u64) -> u64 {
        self.random.as_ref().map_or(0, |random| random.next_u64().checked_rem(bound).unwrap_or(0))
    }

    /// The number of the call before which a late write lands.
    pub(super) fn draw_landing(&mut self) -> u64 {
        self.all_calls() + 1 + self.draw(LANDS_WITHIN)
    }

    pub(super) fn check_up(&self) -> Result<(), RemoteError> {
        if self.down { Err(unavailable("connection refused")) } else { Ok(()) }
    }

    pub(super) fn check_writable(&self, call: RemoteCall) -> Result<(), RemoteError> {
        if self.read_only {
            return Err(RemoteError::of_status(403, "the bucket is read-only"));
        }
        if self.full && call == RemoteCall::Put {
            return Err(RemoteError::of_status(507, "no space is left"));
        }
        Ok(())
    }
}

/// The faults that come at random. A 412 without cause is only planned.
fn random_faults(call: RemoteCall) -> &'static [RemoteFault] {
    use RemoteFault::{Cut, Late, Lost, Status, WrongBytes, WrongRange};
    match call {
        RemoteCall::Put => &[Status(409), Status(500), Status(503), Lost, Late],
        RemoteCall::Delete => &[Status(500), Status(503), Lost, Late],
        RemoteCall::Get => &[Status(500), Status(503), Cut, WrongRange, WrongBytes],
        RemoteCall::Head | RemoteCall::List => &[Status(500), Status(503), Lost],
    }
}

pub(super) fn unavailable(why: &str) -> RemoteError {
    RemoteError::Unavailable(why.to_owned())
}
