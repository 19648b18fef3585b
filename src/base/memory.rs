//! The budget of the memory that the server may use in addition to its index.
//!
//! The memory of workers and connections is set aside at the start, so that ordinary requests
//! reserve nothing. A request that needs more reserves it before it allocates, and releases it
//! afterwards.

use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use super::NOT_POISONED;

/// A number of bytes, parts of which can be reserved.
#[derive(Debug)]
pub struct Budget {
    ceiling: u64,
    fixed: u64,
    state: Mutex<BudgetCounts>,
    released: Condvar,
}

#[derive(Debug, Default)]
struct BudgetCounts {
    reserved: u64,
    /// Reservations refused since the start.
    refused: u64,
}

/// A reserved part of a budget, released on drop. It must live as long as the memory that it stands
/// for.
#[derive(Debug, Default)]
pub struct Reservation {
    /// `None` if nothing is reserved.
    budget: Option<Arc<Budget>>,
    bytes: u64,
}

/// The use of a budget, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryUsage {
    /// The limit; [`u64::MAX`] for none.
    pub ceiling: u64,
    /// Set aside at the start.
    pub fixed: u64,
    /// Reserved now.
    pub reserved: u64,
    /// Number of refused reservations.
    pub refused: u64,
}

impl Budget {
    /// A budget of `ceiling` bytes, of which `fixed` are set aside permanently.
    pub fn new(ceiling: u64, fixed: u64) -> Arc<Self> {
        Arc::new(Self { ceiling, fixed, state: Mutex::default(), released: Condvar::new() })
    }

    /// A budget without a limit.
    pub fn unlimited() -> Arc<Self> {
        Self::new(u64::MAX, 0)
    }

    /// Reserves `bytes` if they are available now.
    pub fn reserve(self: &Arc<Self>, bytes: u64) -> Option<Reservation> {
        self.reserve_within(bytes, Duration::ZERO)
    }

    /// Reserves `bytes`, waiting at most `timeout` for others to release them.
    pub fn reserve_within(self: &Arc<Self>, bytes: u64, timeout: Duration) -> Option<Reservation> {
        self.try_reserve(bytes, timeout).then(|| Reservation { budget: Some(Arc::clone(self)), bytes })
    }

    /// The current use.
    pub fn usage(&self) -> MemoryUsage {
        let state = self.lock();
        MemoryUsage {
            ceiling: self.ceiling,
            fixed: self.fixed,
            reserved: state.reserved,
            refused: state.refused,
        }
    }

    fn try_reserve(&self, bytes: u64, timeout: Duration) -> bool {
        let available = self.ceiling.saturating_sub(self.fixed);
        let mut state = self.lock();
        let mut until = None;
        while available.saturating_sub(state.reserved) < bytes {
            let now = Instant::now();
            let left = until.get_or_insert(now + timeout).saturating_duration_since(now);
            if left.is_zero() || bytes > available {
                state.refused += 1;
                return false;
            }
            let woken = self.released.wait_timeout(state, left).expect(NOT_POISONED);
            state = woken.0;
        }
        state.reserved += bytes;
        true
    }

    fn release(&self, bytes: u64) {
        self.lock().reserved -= bytes;
        self.released.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, BudgetCounts> {
        self.state.lock().expect(NOT_POISONED)
    }
}

impl Reservation {
    /// The number of reserved bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Releases all but `bytes`.
    pub fn shrink_to(&mut self, bytes: u64) {
        if let Some(budget) = self.budget.as_ref().filter(|_| bytes < self.bytes) {
            budget.release(self.bytes - bytes);
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
    fn no_more_is_reserved_than_available_and_all_of_it_is_released() {
        let budget = Budget::new(100, 40);
        let first = budget.reserve(50).unwrap();
        assert!(budget.reserve(11).is_none());
        let mut second = budget.reserve(10).unwrap();
        second.shrink_to(4);
        assert_eq!((first.bytes(), second.bytes()), (50, 4));
        assert_eq!(budget.usage(), MemoryUsage { ceiling: 100, fixed: 40, reserved: 54, refused: 1 });
        drop((first, second));
        assert_eq!(budget.usage().reserved, 0);
        assert!(budget.reserve(60).is_some());
    }

    #[test]
    fn a_budget_that_is_all_set_aside_reserves_nothing() {
        let budget = Budget::new(10, 11);
        assert!(budget.reserve(1).is_none());
        assert!(budget.reserve(0).is_some());
        assert!(Budget::unlimited().reserve(u64::MAX / 2).is_some());
    }

    #[test]
    fn a_waiting_reservation_gets_released_bytes() {
        let budget = Budget::new(10, 0);
        let taken = budget.reserve(6).unwrap();
        thread::scope(|scope| {
            let waiting = scope.spawn(|| budget.reserve_within(8, Duration::from_secs(3600)).is_some());
            // The reservation succeeds whether it waits already or begins later.
            drop(taken);
            assert!(waiting.join().unwrap());
        });
        assert!(
            budget.reserve_within(11, Duration::from_secs(3600)).is_none(),
            "more than the whole budget is refused at once"
        );
    }
}
