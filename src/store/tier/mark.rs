//! The mark of the remote, which says whose objects are there.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use crate::base::NOT_POISONED;
use crate::format::{RemoteMark, StoreId};
use crate::remote::{RemoteError, RemoteView, read_mark};

/// Whether the remote belongs to this store. It is asked until it has said so once.
#[derive(Default)]
pub(super) struct MarkCheck {
    /// The store; unknown until it is open. No byte of a remote is read before.
    store: OnceLock<StoreId>,
    has_passed: AtomicBool,
    /// The mark that has passed.
    mark: OnceLock<RemoteMark>,
    /// Whether the last answer was the mark of nobody or of another store.
    is_foreign: AtomicBool,
    /// The questions that were answered.
    answered: AtomicU64,
    /// What the last one found against the remote; locked while it is asked.
    problem: Mutex<Option<String>>,
}

impl MarkCheck {
    /// Learns of the store.
    pub(super) fn set_store(&self, store: StoreId) {
        self.store.get_or_init(|| store);
    }

    /// Fails unless the remote is marked for the store. Callers that come while it is asked
    /// share the answer.
    ///
    /// # Errors
    /// `HostUnreachable`, with the reason for an operator: objects of another store, or of another
    /// key, would be taken for damage.
    pub(super) fn pass(&self, remote: &dyn RemoteView, within: Duration) -> io::Result<()> {
        if self.has_passed.load(Ordering::Relaxed) {
            return Ok(());
        }
        // Read before the lock: who waits for it finds another number then, and shares the answer
        // that has come meanwhile.
        let before = self.answered.load(Ordering::Acquire);
        let mut problem = self.problem.lock().expect(NOT_POISONED);
        if self.answered.load(Ordering::Acquire) == before {
            *problem = self.ask(remote, within).err();
            self.has_passed.store(problem.is_none(), Ordering::Relaxed);
            self.answered.fetch_add(1, Ordering::Release);
        }
        match problem.as_ref() {
            None => Ok(()),
            Some(why) => Err(io::Error::new(io::ErrorKind::HostUnreachable, format!("the remote: {why}"))),
        }
    }

    /// Has the remote asked again, since another mark was found there.
    pub(super) fn forget(&self) {
        self.has_passed.store(false, Ordering::Relaxed);
    }

    /// The mark, once it has passed.
    pub(super) fn passed(&self) -> Option<&RemoteMark> {
        self.mark.get()
    }

    /// Whether the remote has answered, and with another mark or none.
    pub(super) fn is_foreign(&self) -> bool {
        self.is_foreign.load(Ordering::Relaxed)
    }

    fn ask(&self, remote: &dyn RemoteView, within: Duration) -> Result<(), String> {
        let read = read_mark(remote, within);
        let is_foreign = matches!(read, Ok(None) | Err(RemoteError::Wrong(_)));
        self.is_foreign.store(is_foreign, Ordering::Relaxed);
        let mark = read.map_err(|why| format!("{}: {why}", RemoteMark::NAME))?;
        let mark =
            mark.ok_or_else(|| "it is marked for no store: run siltstone-tools remote init".to_owned())?;
        let is_own = self.store.get() == Some(&mark.store);
        self.is_foreign.store(!is_own, Ordering::Relaxed);
        match is_own {
            true => {
                self.mark.get_or_init(|| mark);
                Ok(())
            }
            false => Err("it belongs to another store: each needs a prefix of its own".to_owned()),
        }
    }
}
