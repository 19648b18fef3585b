//! Options: what a first start needs: the directory, the address, the users and the buckets.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use clap::{ArgAction, Args};
use siltstone::disks::{DisksError, MirrorHome, MirrorPlaces, OtherUse, StoreDirectories};
use siltstone::fs::absolute;
use siltstone::store::StoreCreation;

use crate::cli::config::bucket_specs::BucketSpecs;
use crate::cli::config::option_values::one_of;

/// The data directory where none is named.
pub(crate) const DEFAULT_DATA_DIR: &str = "./siltstone-data";

/// What a first start needs: the directory, the address, the users and the buckets.
#[derive(Debug, Clone, PartialEq, Args)]
pub(crate) struct StartOptions {
    /// Directory of all stored data; created if missing, see --create
    #[arg(long, value_name = "DIR", env = "SILTSTONE_DATA_DIR", global = true)]
    #[arg(default_value = DEFAULT_DATA_DIR)]
    pub(crate) data_dir: PathBuf,

    /// Directory on a fast disk for the log and small objects, where the data directory is on a
    /// slow one; of a store that is there, see siltstone-tools disk add
    #[arg(long, value_name = "DIR", env = "SILTSTONE_FAST_DIR", global = true)]
    pub(crate) fast_dir: Option<PathBuf>,

    /// Two directories on two disks that have the same bytes, in place of one: a store goes on without
    /// either. Both names are needed, in any order; of a store that is there, see siltstone-tools disk
    /// add
    // In the configuration file, `mirror` is a table of something else.
    #[arg(long, visible_alias = "mirror", value_name = "A=B", env = "SILTSTONE_MIRROR", global = true)]
    #[arg(value_parser = MirrorDirs::parse)]
    pub(crate) mirror_dirs: Option<MirrorDirs>,

    /// File on a third disk that notes which side of --mirror counts, so that one starts without the
    /// other after a power cut
    #[arg(long, value_name = "FILE", env = "SILTSTONE_PAIR_WITNESS", global = true)]
    pub(crate) pair_witness: Option<PathBuf>,

    /// Start once with a side of --mirror that may lack what the other one has, which is lost
    #[arg(long, value_name = "BOOL", env = "SILTSTONE_ACCEPT_DEGRADED", global = true)]
    #[arg(action = ArgAction::Set, default_value_t = false)]
    pub(crate) accept_degraded: bool,

    /// Start once with a side of --mirror that was dropped, and lacks what was written since
    #[arg(long, value_name = "BOOL", env = "SILTSTONE_ACCEPT_OUTDATED", global = true)]
    #[arg(action = ArgAction::Set, default_value_t = false)]
    pub(crate) accept_outdated: bool,

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

    /// The other side of a mirror, where the data directory is one.
    #[arg(skip)]
    pub(crate) unread_side: UnreadSide,
}

/// The directories of `--mirror`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MirrorDirs([PathBuf; 2]);

impl MirrorDirs {
    fn parse(text: &str) -> Result<Self, String> {
        MirrorPlaces::parse(text).map(Self)
    }
}

/// The side of a mirror that is not the data directory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct UnreadSide {
    /// Empty where there is no mirror.
    pub(crate) dir: PathBuf,
    pub(crate) usage: OtherUse,
    /// Why it is not known which side counts; empty where it is.
    pub(crate) refusal: String,
}

impl StartOptions {
    /// The directories of the store.
    pub(crate) fn directories(&self) -> StoreDirectories {
        match self.mirror_places() {
            Some(places) => StoreDirectories::mirrored(places),
            None => StoreDirectories::new(&self.data_dir, self.fast_dir.as_deref()),
        }
    }

    /// The two directories of a mirror, where there is one.
    pub(crate) fn mirror_places(&self) -> Option<MirrorPlaces> {
        self.mirror_dirs.as_ref().map(|mirror| MirrorPlaces {
            sides: mirror.0.clone(),
            witness: self.pair_witness.clone(),
            accepts_degraded: self.accept_degraded,
            accepts_outdated: self.accept_outdated,
        })
    }

    /// The users file.
    pub(crate) fn users_path(&self) -> PathBuf {
        let named = self.users.clone().map(|users| self.in_data_dir(users));
        named.unwrap_or_else(|| self.data_dir.join("users.toml"))
    }

    /// Takes the side of a mirror that counts for the data directory from now on.
    ///
    /// # Errors
    /// What the marks say against it: the first side is the data directory then.
    pub(crate) fn choose_side(&mut self) -> Result<(), DisksError> {
        let Some(places) = self.mirror_places() else { return Ok(()) };
        let new = MirrorHome { source: 0, other: OtherUse::Equal };
        let [first, second] = places.sides.clone();
        self.data_dir.clone_from(&first);
        let home = match places.home() {
            Err(DisksError::NoStore) => new,
            Err(error) => {
                self.unread_side.refusal = error.to_string();
                return Err(error);
            }
            Ok(home) => home,
        };
        let (data_dir, dir) = if home.source == 0 { (first, second) } else { (second, first) };
        self.data_dir = data_dir;
        self.unread_side = UnreadSide { dir, usage: home.other, refusal: String::new() };
        Ok(())
    }

    /// The path of a file in either side of a mirror, in the one that counts.
    pub(crate) fn in_data_dir(&self, file: PathBuf) -> PathBuf {
        if self.mirror_dirs.is_none() {
            return file;
        }
        below(&file, &self.unread_side.dir).map_or(file, |rest| self.data_dir.join(rest))
    }

    /// Why a file must not be changed: it is in a side, and it is not known which of them counts.
    pub(crate) fn refusal_for(&self, file: &Path) -> Option<String> {
        let refusal = Some(self.unread_side.refusal.clone()).filter(|why| !why.is_empty());
        refusal.filter(|_| below(file, &self.data_dir).is_some())
    }

    /// The path of the same file on the other side of a mirror, where that has it.
    pub(crate) fn copy_of(&self, file: &Path) -> Option<PathBuf> {
        if self.unread_side.usage == OtherUse::Missing {
            return None;
        }
        Some(self.unread_side.dir.join(below(file, &self.data_dir)?))
    }
}

/// The path of a file within a directory; `None` where it is not inside.
fn below(file: &Path, dir: &Path) -> Option<PathBuf> {
    let dir = absolute(dir).ok()?;
    let parent = absolute(file.parent()?).ok()?;
    Some(parent.strip_prefix(dir).ok()?.join(file.file_name()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::config::config_file::options;

    #[test]
    fn the_users_file_is_in_the_data_directory_unless_it_is_named() {
        assert_eq!(options(&[], "data_dir = '/d'").start.users_path(), Path::new("/d/users.toml"));
        let named = options(&[], "data_dir = '/d'\nusers = '/etc/u.toml'");
        assert_eq!(named.start.users_path(), Path::new("/etc/u.toml"));
    }

    #[test]
    fn a_file_in_either_side_of_a_mirror_is_that_of_the_side_that_counts() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let text = format!("mirror_dirs = '{}={}'\n", path("a").display(), path("b").display());
        let mut start = options(&[], &text).start;
        start.choose_side().unwrap();
        assert_eq!(start.users_path(), path("a/users.toml"));
        assert_eq!(start.copy_of(&start.users_path()), Some(path("b/users.toml")));
        assert_eq!(start.copy_of(&path("c/users.toml")), None);
        start.data_dir = path("b");
        start.unread_side = UnreadSide { dir: path("a"), usage: OtherUse::Missing, refusal: String::new() };
        start.users = Some(path("a/sub/u.toml"));
        assert_eq!(start.users_path(), path("b/sub/u.toml"));
        assert_eq!(start.copy_of(&start.users_path()), None, "it is missing");
    }
}
