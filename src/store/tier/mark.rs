//! The mark of the remote, which says whose objects are there.

use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::format::{RemoteMark, StoreId};
use crate::remote::{Remote, read_mark};

/// Whether the remote belongs to this store. It is asked until it has said so once.
#[derive(Default)]
pub(super) struct MarkCheck {
    /// The store; unknown until it is open. No byte of a remote is read before.
    store: OnceLock<StoreId>,
    has_passed: AtomicBool,
}

impl MarkCheck {
    /// Learns of the store.
    pub(super) fn set_store(&self, store: StoreId) {
        self.store.get_or_init(|| store);
    }

    /// Fails unless the remote is marked as that of the store.
    ///
    /// # Errors
    /// `HostUnreachable`, with the reason for an operator: objects of another store, or of another key, would be taken for damage.
    pub(super) fn pass(&self, remote: &dyn Remote, within: Duration) -> io::Result<()> {
        if self.has_passed.load(Ordering::Relaxed) {
            return Ok(());
        }
        let judged = read(remote, within).and_then(|mark| match self.store.get() == Some(&mark.store) {
            true => Ok(()),
            false => Err("it belongs to another store: each needs a prefix of its own".to_owned()),
        });
        judged.map_err(|why| io::Error::new(io::ErrorKind::HostUnreachable, format!("the remote: {why}")))?;
        self.has_passed.store(true, Ordering::Relaxed);
        Ok(())
    }
}

fn read(remote: &dyn Remote, within: Duration) -> Result<RemoteMark, String> {
    let mark = read_mark(remote, within).map_err(|why| format!("{}: {why}", RemoteMark::NAME))?;
    mark.ok_or_else(|| "it is marked for no store: run siltstone-tools remote init".to_owned())
}
