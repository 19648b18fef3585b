//! The disk of the data directory, as the store sees it: where it is encrypted, in the clear.

use std::path::Path;
use std::sync::Arc;

use log::{info, warn};
use rustix::process::{Resource, Rlimit, setrlimit};
use siltstone::base::{Clock as _, OsEntropy, SystemClock};
use siltstone::format::LOCK;
use siltstone::fs::{Fs, OsFs, memory_limit};
use siltstone::remote::RemoteSettings;
use siltstone::vault::{KeyRequest, StoreSecret, VaultError, create_disk, is_encrypted, open_disk};

use crate::cli::config::options::ServerOptions;
use crate::cli::config::secret_files::warn_of_world;
use crate::cli::error::CliError;

/// Opens the disk of the data directory, which exists. It gets a key where the options ask for one,
/// there is no store yet, and `may_write`.
///
/// # Errors
/// What is missing or wrong. Nothing was written.
pub(crate) fn open(
    options: &ServerOptions,
    remote: Option<&RemoteSettings>,
    may_write: bool,
) -> Result<Arc<dyn Fs>, CliError> {
    let dir = &options.start.data_dir;
    let refused = |error: VaultError| CliError::start(format!("cannot use {}: {error}", dir.display()));
    let raw = OsFs::new(dir);
    let has_keys = is_encrypted(&raw).map_err(refused)?;
    let secret = options.store.store_key_file.as_deref().map(secret_in).transpose()?;
    let creates = options.store.encrypt_store && may_write && !has_keys;
    if !creates {
        let disk = open_disk(Arc::new(raw), secret.as_ref(), Arc::new(OsEntropy)).map_err(refused)?;
        if !has_keys && secret.is_some() {
            return Err(refused(VaultError::NotEncrypted));
        }
        if has_keys {
            warn_of_neighbours(options, remote);
        }
        return Ok(disk);
    }
    check_apart(options)?;
    let memory_bytes = memory_limit(Path::new("/"), "self").map_or(0, |limit| limit.bytes);
    let request = secret.as_ref().map(|secret| KeyRequest {
        secret,
        entropy: &OsEntropy,
        now: SystemClock.now(),
        memory_bytes,
    });
    // Two starts at a time make one key.
    let lock = raw.lock(LOCK).map_err(|error| refused(error.into()))?;
    let made = create_disk(Arc::new(raw), request.as_ref(), Arc::new(OsEntropy)).map_err(refused)?;
    drop(lock);
    info!("{} is encrypted with a new key, which --store-key-file opens", dir.display());
    warn_of_neighbours(options, remote);
    Ok(made)
}

/// Reads the secret. From then on the process leaves no core file.
fn secret_in(path: &Path) -> Result<StoreSecret, CliError> {
    if let Err(errno) = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) }) {
        warn!("a crash may write the key of the data directory to a core file: {errno}");
    }
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

/// Warns of what stays in the clear beside an encrypted directory.
fn warn_of_neighbours(options: &ServerOptions, remote: Option<&RemoteSettings>) {
    let users = options.start.users_path();
    if is_inside(&users, &options.start.data_dir) {
        warn!(
            "{} is in the clear, and tells who has the disk the users and their keys: name one elsewhere with --users",
            users.display()
        );
    }
    if remote.is_some_and(|remote| remote.encryption.is_none()) {
        warn!(
            "the data directory is encrypted, and what goes to the remote is not: name a key in its section, as encryption_key_file"
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

fn is_inside(file: &Path, dir: &Path) -> bool {
    let absolute = |path: &Path| path.canonicalize().or_else(|_| std::path::absolute(path)).ok();
    absolute(file).zip(absolute(dir)).is_some_and(|(file, dir)| file.starts_with(dir))
}
