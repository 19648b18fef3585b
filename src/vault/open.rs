//! The door to a data directory, encrypted or not.

use std::io;
use std::sync::Arc;

use super::encrypted_fs::EncryptedFs;
use super::error::VaultError;
use super::file_start::{FileStart, files_of, keys_of_files, start_of};
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
    let Some(keys) = keys_of(fs.as_ref())? else { return Ok(fs) };
    if keys.state() == KeysState::Converting {
        return Err(VaultError::Converting);
    }
    keys.check_belongs(fs.as_ref())?;
    let key = keys.open(secret.ok_or(VaultError::NoSecret)?)?;
    // The log is read at the start anyhow. A segment is looked at when it is opened: there may be
    // thousands, on a disk that seeks for each.
    check_files(fs.as_ref(), &[FileKind::Log.dir()])?;
    Ok(Arc::new(EncryptedFs::new(fs, key, entropy)))
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
    if keys_of(fs.as_ref())?.is_some() {
        return open_disk(fs, request.map(|request| request.secret), entropy);
    }
    if holds_store(fs.as_ref())? {
        return Err(VaultError::StoreExists);
    }
    let request = request.ok_or(VaultError::NothingToEncryptWith)?;
    let (mut keys, key) = DirectoryKeys::generate(request, KeysState::Done)?;
    keys.write(fs.as_ref())?;
    Ok(Arc::new(EncryptedFs::new(fs, key, entropy)))
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

/// Fails where a file of these directories is not encrypted.
pub(super) fn check_files(fs: &dyn Fs, dirs: &[&str]) -> Result<(), VaultError> {
    for dir in dirs {
        for path in files_of(fs, dir)? {
            if start_of(fs, &path)? == FileStart::Plain {
                return Err(VaultError::PlainFile(path));
            }
        }
    }
    Ok(())
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
