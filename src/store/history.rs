//! The history of figures over restarts (data-format.md, section 22). No object depends on it.

use crate::base::limits::HISTORY_FILE_MAX_BYTES;
use crate::format::{HISTORY, History, StoreId};
use crate::fs::Fs;
use crate::log::LogError;
use crate::store::shared::state_file::StateFile;
use crate::store::{Store, StoreError};

const FILE: StateFile =
    StateFile { path: HISTORY, what: "the history of figures", max_bytes: HISTORY_FILE_MAX_BYTES };

/// The saved history; `None` if there is none.
///
/// # Errors
/// As of [`StateFile::load`].
pub(crate) fn load(fs: &dyn Fs, store: &StoreId) -> Result<Option<History>, LogError> {
    FILE.load(fs, |bytes| History::decode(store, bytes))
}

impl Store {
    /// The history that was saved last; an empty one without. A damaged one is reported, and begins
    /// anew.
    pub fn history(&self) -> History {
        let saved = load(self.shared.fs.as_ref(), &self.shared.store).unwrap_or_else(|error| {
            let error = self.shared.failed(error);
            log::warn!("the history of the figures begins anew: {error}");
            None
        });
        saved.unwrap_or_default()
    }

    /// Saves the history. Durable on return; a read-only store and a full disk keep the previous
    /// one.
    ///
    /// # Errors
    /// Of the disk: the store takes no writes from then on.
    pub fn save_history(&self, history: &History) -> Result<(), StoreError> {
        if self.shared.check_writable().is_err() {
            return Ok(());
        }
        match FILE.save(self.shared.fs.as_ref(), &history.encode(&self.shared.store)) {
            Err(LogError::DiskFull(error)) => {
                log::warn!("the history of the figures was not saved: {error}");
                Ok(())
            }
            saved => saved.map_err(|error| self.shared.write_failed(error)),
        }
    }
}
