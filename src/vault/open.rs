//! The door to a data directory, encrypted or not.

use std::io;
use std::sync::Arc;

use super::encrypted_fs::EncryptedFs;
use super::error::VaultError;
use super::file_start::FileStart;
use super::keys::{DirectoryKeys, KeyRequest};
use super::secret::StoreSecret;
use crate::base::Entropy;
use crate::format::{FileKind, KeysState, number_of, unfinished};
use crate::fs::Fs;

/// The files of each directory that are looked at where no key says whether they are encrypted: all
/// of them are, or none.
const LOOKED_AT: usize = 4;

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
    let Some(keys) = DirectoryKeys::read(fs.as_ref())? else {
        return match encrypted_file(fs.as_ref())? {
            Some(path) => Err(VaultError::KeysMissing(path)),
            None => Ok(fs),
        };
    };
    if keys.state() == KeysState::Converting {
        return Err(VaultError::Converting);
    }
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
    let is_new = DirectoryKeys::read(fs.as_ref())?.is_none() && encrypted_file(fs.as_ref())?.is_none();
    if !is_new {
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
/// `to` has another key, or the disk fails.
pub fn copy_keys(from: &dyn Fs, to: &dyn Fs) -> Result<(), VaultError> {
    let Some(keys) = DirectoryKeys::read(from)? else { return Ok(()) };
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

/// The paths of the files of a directory that count: those of crashes mean nothing.
pub(super) fn files_of(fs: &dyn Fs, dir: &str) -> io::Result<Vec<String>> {
    let names = fs.list(dir)?.into_iter().filter(|name| !name.ends_with(&unfinished("")));
    Ok(names.map(|name| format!("{dir}/{name}")).collect())
}

/// What the start of a file says. One that was removed meanwhile is empty.
fn start_of(fs: &dyn Fs, path: &str) -> io::Result<FileStart> {
    match fs.open_read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(FileStart::Empty),
        opened => FileStart::of(opened?.as_ref()),
    }
}

/// A file that is encrypted, of a directory without keys.
fn encrypted_file(fs: &dyn Fs) -> io::Result<Option<String>> {
    for dir in [FileKind::Log.dir(), FileKind::Segment.dir()] {
        for path in files_of(fs, dir)?.into_iter().take(LOOKED_AT) {
            if matches!(start_of(fs, &path)?, FileStart::Salted(_)) {
                return Ok(Some(path));
            }
        }
    }
    Ok(None)
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
