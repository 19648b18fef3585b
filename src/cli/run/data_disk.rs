//! The disk of the data directory, as the store sees it: where it is encrypted, in the clear.

use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use log::{info, warn};
use siltstone::base::{Clock as _, OsEntropy, SystemClock};
use siltstone::disks::{DiskMirror, MirrorPlaces};
use siltstone::format::LOCK;
use siltstone::fs::{Fs, OsFs, memory_limit, share_disk};
use siltstone::vault::{
    DirectoryKeys, KeyRequest, StoreSecret, VaultError, create_disk, is_encrypted, is_inside, open_disk,
};

use crate::cli::config::options::ServerOptions;
use crate::cli::config::secret_files::warn_of_world;
use crate::cli::config::sections::Sections;
use crate::cli::error::CliError;

/// The time after which a sync of a side of a mirror counts as failed: a sleeping disk needs half of it.
const PATIENCE: Duration = Duration::from_secs(30);

/// Opens the disk of the data directory, which exists. It gets a key where the options ask for one,
/// there is no store yet, and `may_write`. What a server that may write sends to the servers of the
/// `sections` is read above the encryption.
///
/// # Errors
/// What is missing or wrong. Nothing was written.
pub(crate) fn open(
    options: &ServerOptions,
    sections: &Sections,
    may_write: bool,
) -> Result<OpenedDisk, CliError> {
    if let Some(places) = options.start.mirror_places().filter(|_| may_write) {
        return open_mirror(options, &places);
    }
    let fs = open_one(options, sections, may_write)?;
    Ok(OpenedDisk { fs, mirror: None })
}

/// The disk of a store.
pub(crate) struct OpenedDisk {
    pub(crate) fs: Arc<dyn Fs>,
    /// Its two sides, where it has them.
    pub(crate) mirror: Option<Arc<DiskMirror>>,
}

/// Opens both sides of a mirror, and makes the files beside the store equal on both.
fn open_mirror(options: &ServerOptions, places: &MirrorPlaces) -> Result<OpenedDisk, CliError> {
    // Before anything is written.
    let dir = &options.start.data_dir;
    if is_encrypted(&OsFs::new(dir)).map_err(|error| refused(dir, &error))? {
        return Err(CliError::start("--mirror: an encrypted directory is not mirrored by this version"));
    }
    let opened = places.open(Arc::new(OsEntropy), Arc::new(SystemClock), PATIENCE);
    let mirror = Arc::new(opened.map_err(|error| CliError::start(error.to_string()))?);
    Ok(OpenedDisk { fs: mirror.fs(), mirror: Some(mirror) })
}

fn open_one(options: &ServerOptions, sections: &Sections, may_write: bool) -> Result<Arc<dyn Fs>, CliError> {
    let dir = &options.start.data_dir;
    let raw = directories(options, may_write)?;
    let keys = DirectoryKeys::read(raw.as_ref()).map_err(|error| refused(dir, &error))?;
    let has_keys = keys.is_some();
    let secret = options.store.store_key_file.as_deref().map(secret_in).transpose()?;
    let creates = options.store.encrypt_store && may_write && !has_keys;
    if !creates {
        let disk =
            open_disk(raw, secret.as_ref(), Arc::new(OsEntropy)).map_err(|error| refused(dir, &error))?;
        if !has_keys && secret.is_some() {
            return Err(refused(dir, &VaultError::NotEncrypted));
        }
        if let Some(keys) = keys {
            if may_write {
                check_outlets(options, sections)?;
            }
            warn_of_fault(dir, &keys);
            warn_of_neighbours(options);
        }
        return Ok(disk);
    }
    check_apart(options)?;
    check_outlets(options, sections)?;
    let memory_bytes = memory_limit(Path::new("/"), "self").map_or(0, |limit| limit.bytes);
    let request = secret.as_ref().map(|secret| KeyRequest {
        secret,
        entropy: &OsEntropy,
        now: SystemClock.now(),
        memory_bytes,
    });
    // Two starts at a time make one key.
    let lock = raw.lock(LOCK).map_err(|error| refused(dir, &error))?;
    let made =
        create_disk(raw, request.as_ref(), Arc::new(OsEntropy)).map_err(|error| refused(dir, &error))?;
    drop(lock);
    info!("{} is encrypted with a new key, which --store-key-file opens", dir.display());
    warn_of_neighbours(options);
    Ok(made)
}

/// The directories of the store as one disk.
fn directories(options: &ServerOptions, may_write: bool) -> Result<Arc<dyn Fs>, CliError> {
    let start = &options.start;
    let directories = start.directories();
    let disk = match may_write {
        true => directories.open_to_fill(&OsEntropy, SystemClock.now()),
        false => directories.open(),
    };
    let disk = disk.map_err(|error| refused(&start.data_dir, &error))?;
    if let Some(fast) = start.fast_dir.as_ref().filter(|fast| share_disk(fast, &start.data_dir)) {
        warn!("--fast-dir {}: it is on the disk of the data directory, which is no faster", fast.display());
    }
    Ok(disk)
}

fn refused(dir: &Path, error: &dyn Display) -> CliError {
    CliError::start(format!("cannot use {}: {error}", dir.display()))
}

fn secret_in(path: &Path) -> Result<StoreSecret, CliError> {
    let secret = StoreSecret::read(path);
    warn_of_world(path);
    secret.map_err(|why| CliError::start(format!("--store-key-file {}: {why}", path.display())))
}

/// Refuses a key that would lie beside what it protects.
fn check_apart(options: &ServerOptions) -> Result<(), CliError> {
    let Some(key) = &options.store.store_key_file else { return Ok(()) };
    if !is_inside(key, &options.start.data_dir) {
        return Ok(());
    }
    Err(CliError::start(format!(
        "--store-key-file {}: it is in the data directory, where it protects nothing: put it on another disk",
        key.display()
    )))
}

/// Refuses to send to other servers, in the clear, what is encrypted here.
fn check_outlets(options: &ServerOptions, sections: &Sections) -> Result<(), CliError> {
    if options.remote.remote_insecure {
        return Ok(());
    }
    if let Some(remote) = sections.remote.as_ref().filter(|remote| remote.encryption.is_none()) {
        return Err(CliError::start(format!(
            "the data directory is encrypted, and what goes to the remote {} would not be: name a key in the section [remote] as \
             encryption_key_file (siltstone-tools remote key FILE), or set --remote-insecure true",
            remote.place()
        )));
    }
    if let Some(mirror) = sections.mirrors.first() {
        return Err(CliError::start(format!(
            "the data directory is encrypted, and the mirror {} would send its objects in the clear: set --remote-insecure true if who \
             has the target may read them",
            mirror.name
        )));
    }
    Ok(())
}

/// Warns where the key of the directory is in one file alone.
fn warn_of_fault(dir: &Path, keys: &DirectoryKeys) {
    let Some(fault) = keys.fault() else { return };
    warn!(
        "{}: {fault}. With the other one all would be lost: siltstone-tools store-key mend writes both again",
        dir.display()
    );
}

/// Warns of what stays in the clear beside an encrypted directory.
fn warn_of_neighbours(options: &ServerOptions) {
    let users = options.start.users_path();
    if is_inside(&users, &options.start.data_dir) {
        warn!(
            "{} is in the clear, and tells who has the disk the users and their keys: name one elsewhere with --users",
            users.display()
        );
    }
    if let Some(key) =
        options.store.store_key_file.as_deref().filter(|key| is_inside(key, &options.start.data_dir))
    {
        warn!(
            "{} is in the data directory, where it protects nothing: move it to another disk",
            key.display()
        );
    }
}
