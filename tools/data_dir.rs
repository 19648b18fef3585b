//! The data directory of a command, and what opens it where it is encrypted.

use std::fmt::Display;
use std::io;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use rustix::process::{Resource, Rlimit, setrlimit};
use siltstone::base::{Clock as _, OsEntropy, SystemClock};
use siltstone::disks::{DisksError, MirrorPlaces, OtherUse, StoreDirectories};
use siltstone::format::FAST_MARK;
use siltstone::fs::{Fs, OsFs, absolute};
use siltstone::store::{StoreCreation, check_first_start};
use siltstone::vault::{
    DirectoryKeys, KeysFault, StoreSecret, VaultError, create_disk, is_encrypted, is_inside, keys_of,
    open_disk_with,
};

use crate::outcome::Failure;
use crate::store_key::request;

/// The data directory where none is named.
const DEFAULT_DIR: &str = "./siltstone-data";

/// The data directory, and what opens it.
#[derive(Debug, Clone, Args)]
pub(crate) struct DataDir {
    /// Directory of all stored data [default: ./siltstone-data]
    // Its id is that of no argument of a command: a positional `dir` would get its default.
    #[arg(id = "data_dir", long = "data-dir", value_name = "DIR", env = "SILTSTONE_DATA_DIR", global = true)]
    dir: Option<PathBuf>,

    /// Directory of the log and of small objects, where the store has one on a fast disk
    #[arg(long, value_name = "DIR", env = "SILTSTONE_FAST_DIR", global = true)]
    fast_dir: Option<PathBuf>,

    /// The two directories of a mirrored store, in place of --data-dir: the one that counts is read.
    /// Nothing is written to them, but by `disk`
    #[arg(long, value_name = "A=B", env = "SILTSTONE_MIRROR", global = true)]
    #[arg(value_parser = Mirrored::parse, conflicts_with = "fast_dir")]
    mirror: Option<Mirrored>,

    /// File on a third disk that notes which side of --mirror counts
    #[arg(long, value_name = "FILE", env = "SILTSTONE_PAIR_WITNESS", global = true)]
    pair_witness: Option<PathBuf>,

    /// Take a side of --mirror that may lack what the other one has, which is lost
    #[arg(long, global = true)]
    accept_degraded: bool,

    /// Take a side of --mirror that was dropped, and lacks what was written since
    #[arg(long, global = true)]
    accept_outdated: bool,

    /// File with the key or the passphrase of an encrypted data directory
    #[arg(long, value_name = "FILE", env = "SILTSTONE_STORE_KEY_FILE", global = true)]
    store_key_file: Option<PathBuf>,
}

/// The directories of `--mirror`.
#[derive(Debug, Clone)]
struct Mirrored([PathBuf; 2]);

impl Mirrored {
    fn parse(text: &str) -> Result<Self, String> {
        MirrorPlaces::parse(text).map(Self)
    }
}

impl Deref for DataDir {
    type Target = Path;

    fn deref(&self) -> &Path {
        self.dir.as_deref().unwrap_or(Path::new(DEFAULT_DIR))
    }
}

impl DataDir {
    /// Whether the arguments or the environment name it.
    pub(crate) fn is_named(&self) -> bool {
        self.dir.is_some()
    }

    /// A directory that the same key opens, which may be this one.
    pub(crate) fn beside(&self, dir: &Path) -> Self {
        let mut beside = self.clone();
        let is_same = absolute(dir).is_ok_and(|dir| absolute(self).is_ok_and(|own| own == dir));
        if !is_same {
            beside.fast_dir = None;
            beside.mirror = None;
        }
        beside.dir = Some(dir.to_owned());
        beside
    }

    /// Takes the side of a mirror that counts for the directory. Where none does, the first one is, and
    /// what needs the store says why.
    pub(crate) fn choose_side(&mut self) {
        let Some(places) = self.mirror() else { return };
        let source = places.home().map_or(0, |home| home.source);
        self.dir = Some(places.sides[source].clone());
    }

    /// The two directories of a mirror, as the options name them.
    pub(crate) fn mirror(&self) -> Option<MirrorPlaces> {
        self.mirror.as_ref().map(|mirror| MirrorPlaces {
            sides: mirror.0.clone(),
            witness: self.pair_witness.clone(),
            accepts_degraded: self.accept_degraded,
            accepts_outdated: self.accept_outdated,
        })
    }

    /// The other side of a mirror, where it has the same files or gets them.
    pub(crate) fn other_side(&self) -> Option<PathBuf> {
        let places = self.mirror()?;
        let home = places.home().ok().filter(|home| home.other != OtherUse::Missing)?;
        Some(places.sides[1 - home.source].clone())
    }

    /// The fast directory, as the options name it.
    pub(crate) fn fast_dir(&self) -> Option<&Path> {
        self.fast_dir.as_deref()
    }

    /// The directories of the store.
    pub(crate) fn directories(&self) -> StoreDirectories {
        match self.mirror() {
            Some(places) => StoreDirectories::mirrored(places),
            None => StoreDirectories::new(self, self.fast_dir.as_deref()),
        }
    }

    fn has_no_store(&self) -> bool {
        matches!(self.directories().open(), Err(DisksError::NoStore))
    }

    /// The directories as one disk, to write there. They are marked as a pair where there are two, and
    /// no store in either.
    ///
    /// # Errors
    /// They do not belong together, or the fast one has something else in it; of the disks.
    pub(crate) fn make_pair(&self) -> Result<Arc<dyn Fs>, Failure> {
        if let Some(fast) = self.fast_dir().filter(|_| self.has_no_store()) {
            let known = [FAST_MARK.to_owned()];
            let checked = check_first_start(&OsFs::new(fast), StoreCreation::Auto, &known);
            checked.map_err(|error| Failure::of(fast.display(), error))?;
        }
        let made = self.directories().open_to_fill(&OsEntropy, SystemClock.now());
        made.map_err(|error| self.failed(&error))
    }

    /// The directories as one disk, with the bytes that are there.
    ///
    /// # Errors
    /// One of two is missing, or of another store.
    pub(crate) fn raw_disk(&self) -> Result<Arc<dyn Fs>, Failure> {
        self.directories().open().map_err(|error| self.failed(&error))
    }

    /// Gives a name of a file of the store, named first, to a directory.
    ///
    /// # Errors
    /// As of [`OsFs::link_into`].
    pub(crate) fn link_into(&self, path: &str, target: &OsFs, new: &str) -> io::Result<()> {
        let data = OsFs::new(&**self);
        let Some(fast) = &self.fast_dir else { return data.link_into(path, target, new) };
        // A segment that moves meanwhile is in the data directory before it leaves the fast one.
        match OsFs::new(fast).link_into(path, target, new) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => data.link_into(path, target, new),
            linked => linked,
        }
    }

    /// Its disk, as the store sees it: where it is encrypted, in the clear.
    ///
    /// # Errors
    /// It is encrypted, and not with this key; as of [`DataDir::raw_disk`].
    pub(crate) fn disk(&self) -> Result<Arc<dyn Fs>, Failure> {
        self.in_the_clear(self.raw_disk()?)
    }

    /// A disk of the store, as the store sees it.
    ///
    /// # Errors
    /// It is encrypted, and not with this key; of the disk.
    pub(crate) fn in_the_clear(&self, disk: Arc<dyn Fs>) -> Result<Arc<dyn Fs>, Failure> {
        let secret = self.secret()?;
        let keys = self.keys_of(disk.as_ref())?;
        let opened = open_disk_with(keys.as_ref(), disk, secret.as_ref(), Arc::new(OsEntropy));
        opened.map_err(|error| self.failed(&error))
    }

    /// The keys of a disk of the store; those of both sides of a mirror are the newer ones.
    fn keys_of(&self, disk: &dyn Fs) -> Result<Option<DirectoryKeys>, Failure> {
        match self.mirror() {
            Some(places) => places.keys().map_err(|error| self.failed(&error)),
            None => keys_of(disk).map_err(|error| self.failed(&error)),
        }
    }

    /// The keys of the directory.
    ///
    /// # Errors
    /// It is not encrypted, or they cannot be read.
    pub(crate) fn keys(&self) -> Result<DirectoryKeys, Failure> {
        let keys = self.keys_of(&OsFs::new(self.to_path_buf()))?;
        keys.ok_or_else(|| Failure::of(self.display(), "it is not encrypted"))
    }

    /// Its disk, to make a store there; encrypted if that is asked for, or if it is already.
    ///
    /// # Errors
    /// A key was named, and it would not be used.
    pub(crate) fn disk_to_fill(&self, encrypts: bool) -> Result<Arc<dyn Fs>, Failure> {
        let disk = self.make_pair()?;
        let secret = self.secret()?;
        if encrypts {
            self.check_own_key_apart()?;
            let request = secret.as_ref().map(request);
            let made = create_disk(disk, request.as_ref(), Arc::new(OsEntropy));
            return made.map_err(|error| self.failed(&error));
        }
        if secret.is_some() && !is_encrypted(disk.as_ref()).map_err(|error| self.failed(&error))? {
            return Err(self.failed(&VaultError::NotEncrypted));
        }
        self.disk()
    }

    /// What the file of the options holds; `None` where they name none.
    ///
    /// # Errors
    /// The file cannot be read, or holds no key and no passphrase.
    pub(crate) fn secret(&self) -> Result<Option<StoreSecret>, Failure> {
        self.store_key_file.as_deref().map(secret_in).transpose()
    }

    /// Fails where the file of the options lies in the directory.
    ///
    /// # Errors
    /// As of [`DataDir::check_apart`].
    pub(crate) fn check_own_key_apart(&self) -> Result<(), Failure> {
        self.store_key_file.as_deref().map_or(Ok(()), |file| self.check_apart(file))
    }

    /// Fails where a file that is to open the directory lies in it.
    ///
    /// # Errors
    /// It does: who takes the directory would have what opens it.
    pub(crate) fn check_apart(&self, file: &Path) -> Result<(), Failure> {
        let is_apart = match self.mirror() {
            Some(places) => places.sides.iter().all(|side| !is_inside(file, side)),
            None => !is_inside(file, self),
        };
        if is_apart {
            return Ok(());
        }
        let why = "it is in the data directory, where it protects nothing: put it on another disk";
        Err(Failure::of(file.display(), why))
    }

    /// What is wrong with one of the two files that have its key; `None` also where it is not
    /// encrypted.
    ///
    /// # Errors
    /// Neither can be read.
    pub(crate) fn keys_fault(&self) -> Result<Option<KeysFault>, Failure> {
        let keys = self.keys_of(self.raw_disk()?.as_ref())?;
        Ok(keys.and_then(|keys| keys.fault().cloned()))
    }

    /// The file with what opens it, as the options name it.
    pub(crate) fn store_key_file(&self) -> Option<&Path> {
        self.store_key_file.as_deref()
    }

    /// The failure of a command that needs the directory.
    pub(crate) fn failed(&self, error: &dyn Display) -> Failure {
        Failure::of(self.display(), error)
    }
}

/// The secret in a file. From then on the process leaves no core file.
///
/// # Errors
/// The file cannot be read, or holds no key and no passphrase.
pub(crate) fn secret_in(path: &Path) -> Result<StoreSecret, Failure> {
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    // A process that may not have this limit lowered can have no higher one.
    let _ = setrlimit(Resource::Core, none);
    StoreSecret::read(path).map_err(|why| Failure::of(path.display(), why))
}
