//! The causes of commits: the requests on whose behalf threads work.

use std::cell::RefCell;
use std::marker::PhantomData;
use std::sync::Arc;

use crate::format::Cause;
use crate::store::Store;

thread_local! {
    static CURRENT: RefCell<Option<Arc<Cause>>> = const { RefCell::new(None) };
}

/// While it exists, the commits of its thread are on behalf of a request, which the log names for
/// its followers.
#[must_use]
pub struct CauseScope {
    before: Option<Arc<Cause>>,
    /// It ends on the thread on which it began.
    of_thread: PhantomData<*const ()>,
}

impl CauseScope {
    /// Begins the scope; `None` for commits without a cause.
    pub fn enter(cause: Option<Arc<Cause>>) -> Self {
        Self { before: CURRENT.replace(cause), of_thread: PhantomData }
    }

    /// The cause of this thread, to enter it on another thread that goes on with the work.
    pub fn current() -> Option<Arc<Cause>> {
        CURRENT.with_borrow(Option::clone)
    }
}

impl Drop for CauseScope {
    fn drop(&mut self) {
        CURRENT.set(self.before.take());
    }
}

impl Store {
    /// Whether a follower reads the causes of commits.
    pub fn has_followers(&self) -> bool {
        self.shared.index().followers().next().is_some()
    }
}
