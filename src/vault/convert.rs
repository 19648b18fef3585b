//! A data directory in the clear becomes an encrypted one, file by file.

use std::io;
use std::sync::Arc;

use super::encrypted_fs::EncryptedFs;
use super::error::VaultError;
use super::file_start::{FileStart, check_files, files_of, start_of};
use super::keys::{DirectoryKeys, KeyRequest};
use super::open::holds_store;
use crate::base::Entropy;
use crate::base::digest::Crc32;
use crate::base::limits::KIB;
use crate::format::{EPOCH, EpochRecord, FileKind, KeysState, LOCK, STANDBY, unfinished};
use crate::fs::{DiskPlace, File, Fs, Lock, copy_bytes, crc32_of};

/// Bytes beside those of a file that are to be free before it is written again.
const SPARE_BYTES: u64 = 64 * KIB;

/// The directory of the names that a backup needs while it is made.
const BACKUP_DIR: &str = "backup";

/// What a conversion has done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConversionReport {
    /// Files that were encrypted.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Files that an earlier run had encrypted.
    pub done_before: u64,
    /// Files that have further names elsewhere, such as in a backup: those stay in the clear.
    pub linked: u64,
}

/// Encrypts every file of the data directory `fs`, which no process uses, and those of the
/// directories `more`. After an error or a power cut it is called again with the same secret, and
/// goes on. `lock_keys` gives the lock that all take who change the keys; it is held while they are
/// read and written. `progress` is told the bytes done, and how many there are.
///
/// # The order
///
/// 1. The keys are written, and say that the conversion goes on. From then on nobody opens the
///    directory.
/// 2. Each file is written again beside it, read back, synced and renamed over it, and the
///    directory is synced. So under its name is the old file or the new one, whole.
/// 3. When no file is left, the keys say that every file is encrypted.
///
/// # Errors
/// [`VaultError`]. Files that were encrypted stay so.
pub fn convert(
    fs: &Arc<dyn Fs>,
    request: &KeyRequest<'_>,
    entropy: Arc<dyn Entropy>,
    more: &[String],
    lock_keys: &dyn Fn() -> io::Result<Box<dyn Lock>>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<ConversionReport, VaultError> {
    if !holds_store(fs.as_ref())? && fs.list("")?.iter().all(|name| name != STANDBY) {
        return Err(VaultError::Slots("there is no store in it".to_owned()));
    }
    // Held to the end: no server opens a directory that is half encrypted.
    let _lock = fs.lock(LOCK).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => VaultError::Slots("a server uses it: stop it first".to_owned()),
        _ => error.into(),
    })?;
    let dirs = [FileKind::Segment.dir(), FileKind::Log.dir()];
    let dirs: Vec<_> = dirs.into_iter().chain(more.iter().map(String::as_str)).collect();
    let keys_lock = lock_keys()?;
    let (mut keys, key) = match DirectoryKeys::read(fs.as_ref())? {
        None => DirectoryKeys::generate(request, KeysState::Converting)?,
        Some(keys) if keys.state() == KeysState::Done => {
            return Err(VaultError::Slots("it is encrypted already".to_owned()));
        }
        Some(keys) => {
            let key = keys.open(request.secret)?;
            (keys, key)
        }
    };
    // A new key beside files of an earlier run would hide that theirs is lost.
    check_keys(fs.as_ref(), &keys, &dirs)?;
    keys.write(fs.as_ref())?;
    drop(keys_lock);
    remove_remains(fs.as_ref(), more)?;
    let encrypted = EncryptedFs::new(Arc::clone(fs), key, entropy);
    let mut conversion =
        Conversion { encrypted, progress, done: 0, total: 0, report: ConversionReport::default() };
    conversion.run(dirs)?;
    check_files(fs.as_ref(), &[FileKind::Log.dir(), FileKind::Segment.dir()])?;
    // Only after a look at every file: the state says that none is in the clear, and each start
    // relies on it.
    let _keys_lock = lock_keys()?;
    keys.finish();
    keys.write(fs.as_ref())?;
    Ok(conversion.report)
}

/// Fails where a file of these directories is encrypted with another key. Of new keys each of them
/// is another one.
fn check_keys(fs: &dyn Fs, keys: &DirectoryKeys, dirs: &[&str]) -> Result<(), VaultError> {
    for dir in dirs {
        for path in files_of(fs, dir)? {
            match start_of(fs, &path)? {
                FileStart::Salted(page) if page.key != keys.key_id() => {
                    return Err(match DirectoryKeys::read(fs)? {
                        Some(_) => keys.foreign_to(path, page.key),
                        None => VaultError::KeysMissing(path),
                    });
                }
                _ => {}
            }
        }
    }
    Ok(())
}

/// Removes what a crash has left, and the names of a backup that is not being made.
fn remove_remains(fs: &dyn Fs, more: &[String]) -> Result<(), VaultError> {
    let backup = match fs.lock(&format!("{BACKUP_DIR}/{LOCK}")) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            return Err(VaultError::Slots("a backup of it is being made: wait for its end".to_owned()));
        }
        locked => Some(locked?),
    };
    for name in fs.list(BACKUP_DIR)?.iter().filter(|name| *name != LOCK) {
        fs.remove(&format!("{BACKUP_DIR}/{name}"))?;
    }
    if backup.is_some() {
        fs.sync_dir(BACKUP_DIR)?;
    }
    let dirs = [FileKind::Segment.dir(), FileKind::Log.dir()];
    for dir in dirs.into_iter().chain(more.iter().map(String::as_str)) {
        for name in fs.list(dir)?.iter().filter(|name| name.ends_with(&unfinished(""))) {
            fs.remove(&format!("{dir}/{name}"))?;
        }
        // A standby that has followed nothing has no such directory.
        if !fs.list(dir)?.is_empty() {
            fs.sync_dir(dir)?;
        }
    }
    Ok(())
}

struct Conversion<'a> {
    encrypted: EncryptedFs,
    progress: &'a mut dyn FnMut(u64, u64),
    done: u64,
    total: u64,
    report: ConversionReport,
}

impl Conversion<'_> {
    fn run(&mut self, dirs: Vec<&str>) -> Result<(), VaultError> {
        let raw = Arc::clone(self.encrypted.raw());
        let mut files = Vec::new();
        for dir in dirs {
            for path in files_of(raw.as_ref(), dir)? {
                self.total += raw.open_read(&path)?.usage()?.allocated_bytes;
                files.push((dir, path));
            }
        }
        for (dir, path) in files {
            let file = raw.open_uncached(&path)?;
            match FileStart::of(file.as_ref())? {
                FileStart::Salted(_) | FileStart::Damaged(_) => self.report.done_before += 1,
                FileStart::Empty if file.len()? == 0 => {}
                FileStart::Empty | FileStart::Plain => self.encrypt(file.as_ref(), &path, dir)?,
            }
            self.done += file.usage()?.allocated_bytes;
            (self.progress)(self.done, self.total);
        }
        Ok(())
    }

    fn encrypt(&mut self, file: &dyn File, path: &str, dir: &str) -> Result<(), VaultError> {
        let raw = Arc::clone(self.encrypted.raw());
        let usage = file.usage()?;
        let needed_bytes = usage.allocated_bytes + SPARE_BYTES;
        let place = raw.place_of(path)?;
        if raw.space_on(place)?.free_bytes < needed_bytes {
            let why =
                format!("{path}: it is written again beside itself, which needs {needed_bytes} free bytes");
            return Err(io::Error::new(io::ErrorKind::StorageFull, why).into());
        }
        let aside = unfinished(path);
        let copied = self.copy(file, path, place, &aside);
        if copied.is_err() {
            // The error to report is the copy's. What is left is removed by the next run.
            let _ = raw.remove(&aside);
        }
        self.report.bytes += copied?;
        // The copy is durable and was read back. Until here the file under the name is the old one,
        // from here on the new one.
        raw.rename(&aside, path)?;
        raw.sync_dir(dir)?;
        self.report.files += 1;
        self.report.linked += u64::from(usage.links > 1);
        Ok(())
    }

    /// Writes the file again, encrypted, and compares it as it is on the disk. Durable on return.
    fn copy(&self, file: &dyn File, path: &str, place: DiskPlace, aside: &str) -> io::Result<u64> {
        let copy = self.encrypted.create_on(place, aside)?;
        let len = file.len()?;
        let crc = match renumbered(file, path, copy.as_ref())? {
            Some(bytes) => {
                copy.write_all_at(&bytes, 0)?;
                Crc32::of(&bytes)
            }
            None => copy_bytes(file, copy.as_ref())?,
        };
        copy.sync_data()?;
        // Compared as the disk has it, and not the page cache.
        copy.evict()?;
        let written = self.encrypted.open_uncached(aside)?;
        if crc32_of(written.as_ref())? != crc {
            return Err(io::Error::other(format!(
                "{path}: the bytes read back differ from the bytes written"
            )));
        }
        Ok(len)
    }
}

/// The content for the copy of the note of the epoch, which names the number of its own file; so
/// that the copy is no copy of a directory that another host may use.
fn renumbered(file: &dyn File, path: &str, copy: &dyn File) -> io::Result<Option<Vec<u8>>> {
    if path != EPOCH {
        return Ok(None);
    }
    let mut bytes = vec![0; file.len()?.min(KIB) as usize];
    file.read_exact_at(&mut bytes, 0)?;
    let record =
        EpochRecord::decode(&bytes).ok().filter(|record| file.usage().is_ok_and(|u| u.id == record.file));
    let Some(record) = record else { return Ok(None) };
    Ok(Some(EpochRecord { file: copy.usage()?.id, ..record }.encode()))
}
