//! The directories of the store and their disks, for administrators.

use super::Service;
use super::users::{UserError, check};
use crate::auth::{Action, Identity};

/// A directory of the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskDirectory {
    /// What the store has it for.
    pub role: DiskRole,
    /// Its path.
    pub dir: String,
    /// Its file system, as `ext4 on /dev/sda1`; empty where that is not known.
    pub file_system: String,
    /// Bytes that are free on it, and all of them; `None` where it does not say, or is not used.
    pub space: Option<(u64, u64)>,
}

/// What the store has a directory for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskRole {
    /// All data; large objects, where there is a fast directory.
    Data,
    /// The log and small objects.
    Fast,
    /// A side of a mirror, by its letter.
    Side(char),
}

/// Tells the directories of the store.
pub(super) type DirectoriesSource = dyn Fn() -> Vec<DiskDirectory> + Send + Sync;

impl Service {
    /// The same service, whose administrators see the directories of the store.
    #[must_use]
    pub fn with_directories(self, tell: impl Fn() -> Vec<DiskDirectory> + Send + Sync + 'static) -> Self {
        Self { directories: Some(Box::new(tell)), ..self }
    }

    /// The directories of the store; none where nobody has told them.
    ///
    /// # Errors
    /// [`UserError::Denied`].
    pub fn directories(&self, identity: &Identity) -> Result<Vec<DiskDirectory>, UserError> {
        check(identity, Action::AdminGetState)?;
        Ok(self.directories.as_ref().map_or_else(Vec::new, |tell| tell()))
    }
}
