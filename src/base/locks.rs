//! What a lock means after a panic.
//!
//! A thread that panics while it holds a lock poisons it. There are two kinds of locks, and one
//! rule for each:
//!
//! - **Locks around state** are held for a few statements that do not panic. They are taken by
//!   `.expect(`[`NOT_POISONED`]`)`: where the statement is wrong, the state may be changed by half,
//!   and nobody goes on with it. A request that meets such a lock is answered with 500; a
//!   background thread ends, and [`Health::stopped_thread`](crate::store::Health::stopped_thread)
//!   names it.
//! - **Locks around work** make sure that one thread at a time does something long, such as a
//!   commit, a pass of the scrub or a fetch from the remote. They are taken by
//!   `.unwrap_or_else(PoisonError::into_inner)`: who comes next begins the work again, and finds
//!   nothing half done, since work that a panic ended leaves what a crash would leave. Where that
//!   does not hold, the work says so itself: a commit that panicked makes the store read-only.
//!
//! A few locks around state are taken in the second way, too, where the state is whole after every
//! statement or is read anew by who comes next, and where the process must go on: the lines of a
//! log, the users of a running server, a session of TLS. The function that takes such a lock says
//! why.
//!
//! Simulated disks and remotes take all locks in the second way: their tests panic at will.

/// Why a lock around state is not poisoned.
pub const NOT_POISONED: &str = "no code panics while it holds a lock around state";
