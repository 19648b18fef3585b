//! The memory that the server may use beside its index: a budget of bytes.
//!
//! What each worker and each connection holds at any time is set aside at the start, so that ordinary requests ask for
//! nothing here. What a request may hold beyond that is reserved before it is allocated, and given back with it.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A number of bytes of which parts can be reserved.
#[derive(Debug)]
pub struct Budget {
    ceiling: u64,
    fixed: u64,
    state: Mutex<State>,
    given_back: Condvar,
}

#[derive(Debug, Default)]
struct State {
    reserved: u64,
    /// Requests for bytes that were not there, since the start.
    refused: u64,
}

/// A part of a budget; dropping it gives it back. It is to live as long as the memory that it stands for.
#[derive(Debug, Default)]
pub struct Reservation {
    /// `None` where nothing is reserved.
    budget: Option<Arc<Budget>>,
    bytes: u64,
}

/// What a budget is used for, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// The most that may be used; [`u64::MAX`] for no limit.
    pub ceiling: u64,
    /// Set aside at the start.
    pub fixed: u64,
    /// Reserved at the moment.
    pub reserved: u64,
    /// How often something could not be reserved.
    pub refused: u64,
}

impl Budget {
    /// A budget of `ceiling` bytes, of which `fixed` are set aside for good.
    pub fn new(ceiling: u64, fixed: u64) -> Arc<Self> {
        Arc::new(Self { ceiling, fixed, state: Mutex::default(), given_back: Condvar::new() })
    }

    /// A budget that never ends.
    pub fn unlimited() -> Arc<Self> {
        Self::new(u64::MAX, 0)
    }

    /// Reserves that many bytes if they are there.
    pub fn reserve(self: &Arc<Self>, bytes: u64) -> Option<Reservation> {
        self.reserve_within(bytes, Duration::ZERO)
    }

    /// Reserves that many bytes, waiting for `patience` at the most until others have given them back.
    pub fn reserve_within(self: &Arc<Self>, bytes: u64, patience: Duration) -> Option<Reservation> {
        self.take(bytes, patience).then(|| Reservation { budget: Some(Arc::clone(self)), bytes })
    }

    /// What it is used for.
    pub fn usage(&self) -> Usage {
        let state = self.lock();
        Usage { ceiling: self.ceiling, fixed: self.fixed, reserved: state.reserved, refused: state.refused }
    }

    fn take(&self, bytes: u64, patience: Duration) -> bool {
        let room = self.ceiling.saturating_sub(self.fixed);
        let mut state = self.lock();
        let mut until = None;
        while room.saturating_sub(state.reserved) < bytes {
            let now = Instant::now();
            let left = until.get_or_insert(now + patience).saturating_duration_since(now);
            if left.is_zero() || bytes > room {
                state.refused += 1;
                return false;
            }
            let woken = self.given_back.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner);
            state = woken.0;
        }
        state.reserved += bytes;
        true
    }

    fn give_back(&self, bytes: u64) {
        self.lock().reserved -= bytes;
        self.given_back.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reservation {
    /// How many bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Gives back what is above `bytes`.
    pub fn shrink_to(&mut self, bytes: u64) {
        if let Some(budget) = self.budget.as_ref().filter(|_| bytes < self.bytes) {
            budget.give_back(self.bytes - bytes);
            self.bytes = bytes;
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.shrink_to(0);
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn no_more_is_reserved_than_there_is_and_all_of_it_comes_back() {
        let budget = Budget::new(100, 40);
        let first = budget.reserve(50).unwrap();
        assert!(budget.reserve(11).is_none());
        let mut second = budget.reserve(10).unwrap();
        second.shrink_to(4);
        assert_eq!((first.bytes(), second.bytes()), (50, 4));
        assert_eq!(budget.usage(), Usage { ceiling: 100, fixed: 40, reserved: 54, refused: 1 });
        drop((first, second));
        assert_eq!(budget.usage().reserved, 0);
        assert!(budget.reserve(60).is_some());
    }

    #[test]
    fn a_budget_that_is_all_set_aside_has_room_for_nothing() {
        let budget = Budget::new(10, 11);
        assert!(budget.reserve(1).is_none());
        assert!(budget.reserve(0).is_some());
        assert!(Budget::unlimited().reserve(u64::MAX / 2).is_some());
    }

    #[test]
    fn who_waits_gets_what_others_give_back() {
        let budget = Budget::new(10, 0);
        let taken = budget.reserve(6).unwrap();
        thread::scope(|scope| {
            let waiting = scope.spawn(|| budget.reserve_within(8, Duration::from_secs(3600)).is_some());
            // Whether it waits already or comes later, it gets its bytes.
            drop(taken);
            assert!(waiting.join().unwrap());
        });
        assert!(
            budget.reserve_within(11, Duration::from_secs(3600)).is_none(),
            "what can never be is not waited for"
        );
    }
}
