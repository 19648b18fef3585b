//! The files with the secrets of a server.

use super::key_ring::KeysFile;
use crate::cli::users::users_file::UsersFile;

/// The files with the secrets of a server.
pub(crate) struct ServerSecrets {
    pub(crate) users: UsersFile,
    /// The ring of the keys of encrypted objects.
    pub(crate) keys: KeysFile,
}
