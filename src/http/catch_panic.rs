//! Calls that may panic.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// The outcome of a call into the handler; `None` if it has panicked. What it leaves behind is its own affair: the
/// handler is shared by all workers and must be fit for use after a panic, as locks that are poisoned are.
pub(super) fn catch_panic<T>(call: impl FnOnce() -> T) -> Option<T> {
    let outcome = catch_unwind(AssertUnwindSafe(call));
    if outcome.is_err() {
        ::log::error!("a request has made the server panic; it goes on");
    }
    outcome.ok()
}
