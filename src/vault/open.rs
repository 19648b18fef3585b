//! The door to a data directory, encrypted or not.

use std::io;
use std::sync::Arc;

use super::encrypted_fs::EncryptedFs;
use super::error::VaultError;
use super::file_cipher::StoreKey;
use super::file_start::keys_of_files;
use super::keys::{DirectoryKeys, KeyRequest};
use super::secret::StoreSecret;
use crate::base::Entropy;
use crate::format::{FileKind, KeysState, number_of};
use crate::fs::Fs;

/// Opens the disk of a data directory: encrypted where it has keys, and else as it is. Nothing is
/// written.
///
/// # Errors
/// [`VaultError`]: what is missing or wrong.
pub fn open_disk(
    fs: Arc<dyn Fs>,
    secret: Option<&StoreSecret>,
    entropy: Arc<dyn Entropy>,
) -> Result<Arc<dyn Fs>, VaultError> {
    let keys = keys_of(fs.as_ref())?;
    open_disk_with(keys.as_ref(), fs, secret, entropy)
}

/// As [`open_disk`], by keys that were read before.
///
/// # Errors
/// As of [`open_disk`].
pub fn open_disk_with(
    keys: Option<&DirectoryKeys>,
    fs: Arc<dyn Fs>,
    secret: Option<&StoreSecret>,
    entropy: Arc<dyn Entropy>,
) -> Result<Arc<dyn Fs>, VaultError> {
    match keys {
        Some(keys) => Ok(over(keys.open_for(fs.as_ref(), secret)?, fs, entropy)),
        None => Ok(fs),
    }
}

/// Opens the disk of a data directory that has to be encrypted, and makes its key where there is no
/// store yet. The key is durable on return.
///
/// # Errors
/// As of [`open_disk`]; [`VaultError::StoreExists`] where there is a store in the clear.
pub fn create_disk(
    fs: Arc<dyn Fs>,
    request: Option<&KeyRequest<'_>>,
    entropy: Arc<dyn Entropy>,
) -> Result<Arc<dyn Fs>, VaultError> {
    let key = create_key(fs.as_ref(), request)?;
    Ok(over(key, fs, entropy))
}

/// The key of a data directory that has to be encrypted, which is made where there is no store yet. Durable
/// on return.
///
/// # Errors
/// As of [`create_disk`].
pub fn create_key(fs: &dyn Fs, request: Option<&KeyRequest<'_>>) -> Result<StoreKey, VaultError> {
    if let Some(keys) = keys_of(fs)? {
        return keys.open_for(fs, request.map(|request| request.secret));
    }
    if holds_store(fs)? {
        return Err(VaultError::StoreExists);
    }
    let request = request.ok_or(VaultError::NothingToEncryptWith)?;
    let (mut keys, key) = DirectoryKeys::generate(request, KeysState::Done)?;
    keys.write(fs)?;
    Ok(key)
}

fn over(key: StoreKey, fs: Arc<dyn Fs>, entropy: Arc<dyn Entropy>) -> Arc<dyn Fs> {
    Arc::new(EncryptedFs::new(fs, key, entropy))
}

/// The keys of a directory; `None` where it is not encrypted.
///
/// # Errors
/// As of [`DirectoryKeys::read`]; its files are encrypted, and there are no keys.
pub fn keys_of(fs: &dyn Fs) -> Result<Option<DirectoryKeys>, VaultError> {
    if let Some(keys) = DirectoryKeys::read(fs)? {
        return Ok(Some(keys));
    }
    match keys_of_files(fs)?.into_iter().next() {
        Some(file) => Err(VaultError::KeysMissing(file.path)),
        None => Ok(None),
    }
}

/// Whether a directory has keys, so that a secret is needed for it.
///
/// # Errors
/// Of the disk; the keys are damaged.
pub fn is_encrypted(fs: &dyn Fs) -> Result<bool, VaultError> {
    Ok(DirectoryKeys::read(fs)?.is_some())
}

/// Gives the directory `to` the keys of `from`, so that the same secrets open it. Durable on
/// return.
///
/// # Errors
/// `to` has another key, the keys of `from` are not those of its files, or the disk fails.
pub fn copy_keys(from: &dyn Fs, to: &dyn Fs) -> Result<(), VaultError> {
    let Some(keys) = DirectoryKeys::read(from)? else { return Ok(()) };
    keys.check_belongs(from)?;
    keys.check_belongs(to)?;
    if let Some(there) = DirectoryKeys::read(to)?
        && there.key_id() != keys.key_id()
    {
        let why = format!(
            "it is encrypted with the key {}, and the data directory with {}: it belongs to another one",
            there.key_id(),
            keys.key_id()
        );
        return Err(VaultError::Slots(why));
    }
    Ok(keys.write_copy(to)?)
}

/// The newest keys of two directories with the same files; `None` where neither has any. One whose files
/// of keys cannot be read counts for nothing beside the other one.
///
/// # Errors
/// They have two keys; neither can be read; of the disks.
pub fn newest_keys(disks: [&dyn Fs; 2]) -> Result<Option<DirectoryKeys>, VaultError> {
    let found = match disks.map(DirectoryKeys::read) {
        [Ok(first), Ok(second)] => [first, second],
        [Ok(Some(whole)), Err(error)] | [Err(error), Ok(Some(whole))] if is_loss(&error) => {
            [Some(whole), None]
        }
        [Err(error), _] | [_, Err(error)] => return Err(error),
    };
    match found {
        [Some(first), Some(second)] => first.newer_of(second).map(Some),
        [found, None] | [None, found] => Ok(found),
    }
}

/// Whether the keys of a directory cannot be read, in place of saying something that is not understood.
fn is_loss(error: &VaultError) -> bool {
    match error {
        VaultError::KeysDamaged(_) => true,
        VaultError::Io(error) => error.kind() != io::ErrorKind::Unsupported,
        _ => false,
    }
}

/// Gives both of two directories with the same files the newest of their keys. Durable on return.
///
/// # Errors
/// As of [`take_newer_keys`].
pub fn level_keys([first, second]: [&dyn Fs; 2]) -> Result<(), VaultError> {
    take_newer_keys(first, second)?;
    take_newer_keys(second, first)
}

/// Gives a directory the keys of another one with the same files, if they are newer, or those of its own
/// cannot be read. Durable on return.
///
/// # Errors
/// As of [`newest_keys`]; the keys are not those of the files.
pub fn take_newer_keys(own: &dyn Fs, other: &dyn Fs) -> Result<(), VaultError> {
    let Some(newest) = newest_keys([own, other])? else { return Ok(()) };
    newest.check_belongs(own)?;
    // Those who change slots do so while others use the directories: what they wrote meanwhile stays.
    let found = DirectoryKeys::read(own);
    if found.is_ok_and(|found| found.is_some_and(|found| found.is_no_older_than(&newest))) {
        return Ok(());
    }
    newest.write_copy(own)?;
    log::warn!("one side had older keys, or damaged ones, and got those of the other side");
    Ok(())
}

/// Gives a directory, whose files are about to be replaced, the keys of another one. Durable on return.
///
/// # Errors
/// The keys of the other one cannot be read; of the disks.
pub fn replace_keys(from: &dyn Fs, to: &dyn Fs) -> Result<(), VaultError> {
    match DirectoryKeys::read(from)? {
        Some(keys) => Ok(keys.write_copy(to)?),
        None => Ok(()),
    }
}

/// Whether there is a file of a store.
pub(super) fn holds_store(fs: &dyn Fs) -> io::Result<bool> {
    for kind in FileKind::ALL {
        if fs.list(kind.dir())?.iter().any(|name| number_of(kind, name).is_some()) {
            return Ok(true);
        }
    }
    Ok(false)
}
