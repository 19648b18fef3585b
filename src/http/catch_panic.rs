//! Calls that may panic.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Makes a call and returns its outcome, or `None` if it panics. The call may leave shared state
/// behind half changed: the handler must be fit for use after a panic, as poisoned locks are.
pub(super) fn catch_panic<T>(call: impl FnOnce() -> T) -> Option<T> {
    let outcome = catch_unwind(AssertUnwindSafe(call));
    if outcome.is_err() {
        ::log::error!("a request made the server panic; the server continues");
    }
    outcome.ok()
}
