//! Options: what a first start needs: the directory, the address, the users and the buckets.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use clap::Args;
use siltstone::disks::StoreDirectories;
use siltstone::store::StoreCreation;

use crate::cli::config::bucket_specs::BucketSpecs;
use crate::cli::config::option_values::one_of;

/// What a first start needs: the directory, the address, the users and the buckets.
#[derive(Debug, Clone, PartialEq, Args)]
pub(crate) struct StartOptions {
    /// Directory of all stored data; created if missing, see --create
    #[arg(long, value_name = "DIR", env = "SILTSTONE_DATA_DIR", global = true)]
    #[arg(default_value = "./siltstone-data")]
    pub(crate) data_dir: PathBuf,

    /// Directory on a fast disk for the log and small objects, where the data directory is on a
    /// slow one; of a store that is there, see siltstone-tools disk add
    #[arg(long, value_name = "DIR", env = "SILTSTONE_FAST_DIR", global = true)]
    pub(crate) fast_dir: Option<PathBuf>,

    /// Whether a store may be made: auto where the directory is empty or missing, never where it is
    /// expected, as on a mount point
    #[arg(long, value_name = "WHEN", env = "SILTSTONE_CREATE", global = true, default_value = "auto")]
    #[arg(value_parser = one_of(&[("auto", StoreCreation::Auto), ("never", StoreCreation::Never)]))]
    pub(crate) create: StoreCreation,

    /// Address to accept connections on; port 0 picks a free one
    #[arg(long, value_name = "ADDR:PORT", env = "SILTSTONE_LISTEN", global = true)]
    #[arg(default_value_t = SocketAddr::from((Ipv4Addr::LOCALHOST, 9000)))]
    pub(crate) listen: SocketAddr,

    /// File of users and permissions; created with one administrator if missing [default:
    /// DIR/users.toml]
    #[arg(long, value_name = "FILE", env = "SILTSTONE_USERS", global = true)]
    pub(crate) users: Option<PathBuf>,

    /// File of the keys of encrypted objects; created with one key if missing. A credential
    /// keys.toml of systemd goes before the default [default: keys.toml beside the users file]
    #[arg(long, value_name = "FILE", env = "SILTSTONE_KEYS_FILE", global = true)]
    pub(crate) keys_file: Option<PathBuf>,

    /// Buckets to make at the start if they are missing: NAME, NAME:versioned, NAME:locked (object
    /// lock), NAME:public (anyone may read objects, and not list them), NAME:versioned+public; may
    /// be repeated
    #[arg(long, value_name = "NAME[:MODIFIER],...", env = "SILTSTONE_BUCKETS", global = true)]
    pub(crate) bucket: Vec<BucketSpecs>,

    /// Empty directories in the data directory that stand for buckets to make, as in MinIO.
    #[arg(skip)]
    pub(crate) bucket_directories: Vec<String>,
}

impl StartOptions {
    /// The directories of the store.
    pub(crate) fn directories(&self) -> StoreDirectories {
        StoreDirectories::new(&self.data_dir, self.fast_dir.as_deref())
    }

    /// The users file.
    pub(crate) fn users_path(&self) -> PathBuf {
        self.users.clone().unwrap_or_else(|| self.data_dir.join("users.toml"))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::cli::config::config_file::options;

    #[test]
    fn the_users_file_is_in_the_data_directory_unless_it_is_named() {
        assert_eq!(options(&[], "data_dir = '/d'").start.users_path(), Path::new("/d/users.toml"));
        let named = options(&[], "data_dir = '/d'\nusers = '/etc/u.toml'");
        assert_eq!(named.start.users_path(), Path::new("/etc/u.toml"));
    }
}
