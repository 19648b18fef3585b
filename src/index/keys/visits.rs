//! The number of versions that scans of this thread came to, for tests of the cost of lookups.

use std::cell::Cell;

thread_local! {
    static VISITED: Cell<u64> = const { Cell::new(0) };
}

pub(super) fn count() {
    VISITED.set(VISITED.get() + 1);
}

/// The versions that scans came to while `run` ran.
pub(crate) fn versions_visited(run: impl FnOnce()) -> u64 {
    let before = VISITED.get();
    run();
    VISITED.get() - before
}
