//! What the first page of a file says.

use std::io;

use super::error::VaultError;
use crate::base::limits::PAGE_BYTES;
use crate::format::{FileHeader, FileKind, SIDE_MARK_NUMBER, SaltPage, StoreKeyId, number_of, unfinished};
use crate::fs::{File, Fs};

/// The segments that are looked at where the files of a directory are to name its key.
const LOOKED_AT: usize = 4;

/// What the start of a file says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FileStart {
    /// It has no bytes, or none that were synced.
    Empty,
    /// It is not encrypted.
    Plain,
    /// It is encrypted.
    Salted(SaltPage),
    /// It is encrypted, and its first page is damaged or cannot be read.
    Damaged(String),
}

impl FileStart {
    /// Reads the start of a file.
    pub(super) fn of(file: &dyn File) -> io::Result<Self> {
        let mut head = [0; SaltPage::HEAD_BYTES];
        let len = file.len()?.min(head.len() as u64) as usize;
        match file.read_exact_at(&mut head[..len], 0) {
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                return Ok(Self::Damaged(error.to_string()));
            }
            read => read?,
        }
        // Its sector is on the disk wholly or not at all, and its length comes before the first
        // sync returns: where either is missing, nothing was synced.
        if SaltPage::is_unfinished(&head[..len]) {
            return Ok(Self::Empty);
        }
        Ok(match SaltPage::decode(&head) {
            Ok(page) => Self::Salted(page),
            Err(error) if SaltPage::is_meant(&head) => Self::Damaged(error.to_string()),
            Err(_) => Self::Plain,
        })
    }
}

/// A key, and a file that is encrypted with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FileKey {
    pub(super) key: StoreKeyId,
    pub(super) path: String,
}

/// The keys that the files of a data directory are encrypted with, each once: of all files of the
/// log, and of some segments, of which there may be thousands.
pub(super) fn keys_of_files(fs: &dyn Fs) -> io::Result<Vec<FileKey>> {
    let mut paths = files_of(fs, FileKind::Log.dir())?;
    paths.extend(files_of(fs, FileKind::Segment.dir())?.into_iter().take(LOOKED_AT));
    let mut found: Vec<FileKey> = Vec::new();
    for path in paths {
        let FileStart::Salted(page) = start_of(fs, &path)? else { continue };
        if found.iter().all(|known| known.key != page.key) {
            found.push(FileKey { key: page.key, path });
        }
    }
    Ok(found)
}

/// The paths of the files of a directory that count: those of crashes mean nothing.
pub(super) fn files_of(fs: &dyn Fs, dir: &str) -> io::Result<Vec<String>> {
    let names = fs.list(dir)?.into_iter().filter(|name| !name.ends_with(&unfinished("")));
    Ok(names.map(|name| format!("{dir}/{name}")).collect())
}

/// What the start of a file says. One that was removed meanwhile is empty.
pub(super) fn start_of(fs: &dyn Fs, path: &str) -> io::Result<FileStart> {
    match fs.open_read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(FileStart::Empty),
        opened => FileStart::of(opened?.as_ref()),
    }
}

/// Whether a file is the mark of a side of a mirror under another name, by which nobody reads it: marks are
/// in the clear.
fn is_mark_set_aside(fs: &dyn Fs, path: &str) -> io::Result<bool> {
    let has_number = path.rsplit('/').next().is_some_and(|name| number_of(FileKind::Log, name).is_some());
    let mut page = vec![0; PAGE_BYTES as usize];
    match fs.open_read(path).and_then(|file| file.read_exact_at(&mut page, 0)) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(false),
        read => read?,
    }
    Ok(!has_number && FileHeader::decode(&page).is_ok_and(|header| header.number == SIDE_MARK_NUMBER))
}

/// Fails where a file of these directories is not encrypted.
pub(super) fn check_files(fs: &dyn Fs, dirs: &[&str]) -> Result<(), VaultError> {
    for dir in dirs {
        for path in files_of(fs, dir)? {
            if start_of(fs, &path)? == FileStart::Plain && !is_mark_set_aside(fs, &path)? {
                return Err(VaultError::PlainFile(path));
            }
        }
    }
    Ok(())
}
