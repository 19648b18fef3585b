//! The disk of the data directory, as the store sees it: where it is encrypted, in the clear.

use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use log::{info, warn};
use siltstone::base::{Clock as _, OsEntropy, SystemClock};
use siltstone::disks::{DiskMirror, DisksError, MirrorPlaces};
use siltstone::format::LOCK;
use siltstone::fs::{Fs, OsFs, memory_limit, share_disk};
use siltstone::vault::{
    DirectoryKeys, KeyRequest, StoreKey, StoreSecret, VaultError, copy_keys, create_disk, create_key,
    is_encrypted, is_inside, keys_of, open_disk_with,
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
        return open_mirror(options, sections, &places);
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
fn open_mirror(
    options: &ServerOptions,
    sections: &Sections,
    places: &MirrorPlaces,
) -> Result<OpenedDisk, CliError> {
    let key = mirror_key(options, sections, places)?;
    let opened = places.open(key, Arc::new(OsEntropy), Arc::new(SystemClock), PATIENCE);
    let mirror = Arc::new(opened.map_err(|error| CliError::start(error.to_string()))?);
    Ok(OpenedDisk { fs: mirror.fs(), mirror: Some(mirror) })
}

/// The key of a mirror, if it is encrypted. A new one gets it, where the options ask for one.
fn mirror_key(
    options: &ServerOptions,
    sections: &Sections,
    places: &MirrorPlaces,
) -> Result<Option<StoreKey>, CliError> {
    let dir = &options.start.data_dir;
    let failed = |error: VaultError| refused(dir, &error);
    let secret = options.store.store_key_file.as_deref().map(secret_in).transpose()?;
    let source = match options.start.directories().open() {
        Err(DisksError::NoStore) => return new_mirror_key(options, sections, places, secret.as_ref()),
        opened => opened.map_err(|error| CliError::start(error.to_string()))?,
    };
    let keys = places.keys().map_err(|error| CliError::start(error.to_string()))?;
    let Some(keys) = keys else {
        return match (options.store.encrypt_store, secret) {
            (true, _) => Err(failed(VaultError::StoreExists)),
            (false, Some(_)) => Err(failed(VaultError::NotEncrypted)),
            (false, None) => keys_of(source.as_ref()).map(|_| None).map_err(failed),
        };
    };
    check_outlets(options, sections)?;
    let key = keys.open_for(source.as_ref(), secret.as_ref()).map_err(failed)?;
    warn_of_fault(dir, &keys);
    warn_of_neighbours(options);
    Ok(Some(key))
}

/// The key of a mirror without a store: a new one, or that of a start that was cut off.
fn new_mirror_key(
    options: &ServerOptions,
    sections: &Sections,
    places: &MirrorPlaces,
    secret: Option<&StoreSecret>,
) -> Result<Option<StoreKey>, CliError> {
    let dir = &options.start.data_dir;
    let [first, second] = places.sides.clone().map(OsFs::new);
    let has_keys = is_encrypted(&first).map_err(|error| refused(dir, &error))?;
    if !options.store.encrypt_store && !has_keys {
        return match secret {
            Some(_) => Err(refused(dir, &VaultError::NotEncrypted)),
            None => Ok(None),
        };
    }
    check_apart(options)?;
    check_outlets(options, sections)?;
    if secret.is_none() {
        let why = if has_keys { VaultError::NoSecret } else { VaultError::NothingToEncryptWith };
        return Err(refused(dir, &why));
    }
    let request = secret.map(new_key);
    for side in [&first, &second] {
        side.create_root().map_err(|error| refused(dir, &error))?;
    }
    // Two starts at a time make one key.
    let lock = first.lock(LOCK).map_err(|error| refused(dir, &error))?;
    let key = create_key(&first, request.as_ref()).map_err(|error| refused(dir, &error))?;
    copy_keys(&first, &second).map_err(|error| refused(dir, &error))?;
    drop(lock);
    info!(
        "{} and {} are encrypted with one new key, which --store-key-file opens",
        places.sides[0].display(),
        places.sides[1].display()
    );
    warn_of_neighbours(options);
    Ok(Some(key))
}

/// A key that is to be made, which the secret opens.
fn new_key(secret: &StoreSecret) -> KeyRequest<'_> {
    let memory_bytes = memory_limit(Path::new("/"), "self").map_or(0, |limit| limit.bytes);
    KeyRequest { secret, entropy: &OsEntropy, now: SystemClock.now(), memory_bytes }
}

fn open_one(options: &ServerOptions, sections: &Sections, may_write: bool) -> Result<Arc<dyn Fs>, CliError> {
    let dir = &options.start.data_dir;
    let raw = directories(options, may_write)?;
    let keys = match options.start.mirror_places() {
        Some(places) => places.keys().map_err(|error| refused(dir, &error))?,
        None => keys_of(raw.as_ref()).map_err(|error| refused(dir, &error))?,
    };
    let has_keys = keys.is_some();
    let secret = options.store.store_key_file.as_deref().map(secret_in).transpose()?;
    let creates = options.store.encrypt_store && may_write && !has_keys;
    if !creates {
        let disk = open_disk_with(keys.as_ref(), raw, secret.as_ref(), Arc::new(OsEntropy))
            .map_err(|error| refused(dir, &error))?;
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
    let request = secret.as_ref().map(new_key);
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
    if !is_in_store(key, options) {
        return Ok(());
    }
    Err(CliError::start(format!(
        "--store-key-file {}: it is in the data directory, where it protects nothing: put it on another disk",
        key.display()
    )))
}

/// Whether a file is in the data directory, or in either side of a mirror.
fn is_in_store(file: &Path, options: &ServerOptions) -> bool {
    match options.start.mirror_places() {
        Some(places) => places.sides.iter().any(|side| is_inside(file, side)),
        None => is_inside(file, &options.start.data_dir),
    }
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
    if is_in_store(&users, options) {
        warn!(
            "{} is in the clear, and tells who has the disk the users and their keys: name one elsewhere with --users",
            users.display()
        );
    }
    if let Some(key) = options.store.store_key_file.as_deref().filter(|key| is_in_store(key, options)) {
        warn!(
            "{} is in the data directory, where it protects nothing: move it to another disk",
            key.display()
        );
    }
}
