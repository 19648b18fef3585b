//! Creating and opening the files of a store (data-format.md, sections 2 and 3).

use std::fmt;
use std::io;
use std::sync::Arc;

use crate::base::limits::PAGE_BYTES;
use crate::format::{Features, FileHeader, FileKind, StoreId, number_of, unfinished};
use crate::fs::{DiskPlace, File, Fs, remove_if_there};
use crate::log::{Damage, LogError};

/// Creates the file that `header` describes; `fill` may write after the header. The file has its
/// final name and is durable on return.
///
/// The order: content and sync first, so that a file with a final name always has a good header;
/// then the rename; the sync of the directory last, before any reference to the file.
///
/// # Errors
/// Of the disk, or of `fill`. The unfinished file is removed then, since it could occupy the last
/// bytes of a full disk.
pub fn create_file(
    fs: &dyn Fs,
    header: &FileHeader,
    fill: impl FnOnce(&dyn File) -> Result<(), LogError>,
) -> Result<Arc<dyn File>, LogError> {
    write_atomically(fs, &header.kind.path(header.number), header.kind.dir(), |file| {
        file.write_all_at(&header.encode(), 0)?;
        fill(file)
    })
}

/// As [`create_file`], with the header alone, on one of two disks.
///
/// # Errors
/// Of the disk. The unfinished file is removed then.
pub(super) fn create_file_on(
    fs: &dyn Fs,
    place: DiskPlace,
    header: &FileHeader,
) -> Result<Arc<dyn File>, LogError> {
    write_atomically_on(fs, place, &header.kind.path(header.number), header.kind.dir(), |file| {
        Ok(file.write_all_at(&header.encode(), 0)?)
    })
}

/// Creates or replaces the file `path` in the directory `dir` in one step; `fill` writes it.
/// Durable on return.
///
/// # Errors
/// As of [`create_file`].
pub fn write_atomically(
    fs: &dyn Fs,
    path: &str,
    dir: &str,
    fill: impl FnOnce(&dyn File) -> Result<(), LogError>,
) -> Result<Arc<dyn File>, LogError> {
    write_atomically_on(fs, DiskPlace::Bulk, path, dir, fill)
}

/// As [`write_atomically`], on one of two disks where either may have the file.
fn write_atomically_on(
    fs: &dyn Fs,
    place: DiskPlace,
    path: &str,
    dir: &str,
    fill: impl FnOnce(&dyn File) -> Result<(), LogError>,
) -> Result<Arc<dyn File>, LogError> {
    let aside = unfinished(path);
    // A crash may have left one of the name.
    remove_if_there(fs, &aside)?;
    let named = fill_and_name(fs, place, &aside, path, fill);
    if named.is_err() {
        // The first error is the one to report. If the removal fails, the next start repeats it.
        let _ = remove_if_there(fs, &aside);
    }
    let file = named?;
    fs.sync_dir_on(fs.place_of(path)?, dir)?;
    Ok(file)
}

fn fill_and_name(
    fs: &dyn Fs,
    place: DiskPlace,
    aside: &str,
    path: &str,
    fill: impl FnOnce(&dyn File) -> Result<(), LogError>,
) -> Result<Arc<dyn File>, LogError> {
    let file = fs.create_on(place, aside)?;
    fill(file.as_ref())?;
    file.sync_data()?;
    fs.rename(aside, path)?;
    Ok(file)
}

/// Opens a file and checks its header against its name and, where it is known, the store.
///
/// # Errors
/// - [`LogError::Damaged`] when the header contradicts the name, or cannot be read.
/// - [`LogError::Io`] of the kind `Unsupported` when a newer siltstone wrote the file.
pub fn open_file(
    fs: &dyn Fs,
    kind: FileKind,
    number: u64,
    store: Option<StoreId>,
) -> Result<(Arc<dyn File>, FileHeader), LogError> {
    let file = fs.open(&kind.path(number))?;
    let header = read_header(file.as_ref(), kind, number, store)?;
    Ok((file, header))
}

/// Reads the header of an open file, and checks it against the name and, where it is known, the
/// store.
///
/// # Errors
/// As of [`open_file`].
pub(super) fn read_header(
    file: &dyn File,
    kind: FileKind,
    number: u64,
    store: Option<StoreId>,
) -> Result<FileHeader, LogError> {
    let path = kind.path(number);
    let mut page = vec![0; PAGE_BYTES as usize];
    match file.read_exact_at(&mut page, 0) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            return Err(Damage::new(path, 0, "the file is shorter than its header").into());
        }
        Err(error) => return Err(LogError::of_read(error, &path, 0)),
        Ok(()) => {}
    }
    check_header(&page, kind, number, store)
}

/// The header in the first page of a file, checked against its name and, where it is known, the
/// store.
///
/// # Errors
/// As of [`open_file`].
pub fn check_header(
    page: &[u8],
    kind: FileKind,
    number: u64,
    store: Option<StoreId>,
) -> Result<FileHeader, LogError> {
    let path = kind.path(number);
    let header = FileHeader::decode(page).map_err(|error| match error.is_newer() {
        true => newer(&path, error),
        false => Damage::new(&path, 0, format!("file header: {error}")).into(),
    })?;
    if header.kind != kind || header.number != number {
        return Err(Damage::new(
            path,
            0,
            "the header is that of another file: files were swapped or renamed",
        )
        .into());
    }
    if header.features.contains(Features::FAST_DIRECTORY) {
        return Err(newer(&path, "the log is in a fast directory: name it with --fast-dir"));
    }
    if header.features.contains(Features::MIRRORED) {
        return Err(newer(&path, "the directory is one side of a mirror: name both with --mirror A=B"));
    }
    if store.is_some_and(|store| store != header.store) {
        return Err(Damage::new(path, 0, "the file belongs to another store").into());
    }
    Ok(header)
}

/// The error for a file that only a newer siltstone can read, or another directory explains. The file is not damaged and must not
/// be treated as lost.
pub(super) fn newer(path: &str, why: impl fmt::Display) -> LogError {
    LogError::Io(io::Error::new(io::ErrorKind::Unsupported, format!("{path}: {why}")))
}

/// The header of any file that has a good one. It gives the store id when the expected file is
/// damaged.
///
/// # Errors
/// Of the disk, when it cannot be listed.
pub fn any_header(fs: &dyn Fs) -> io::Result<Option<FileHeader>> {
    for kind in FileKind::ALL {
        for number in list_numbers(fs, kind)? {
            if let Ok((_, header)) = open_file(fs, kind, number, None) {
                return Ok(Some(header));
            }
        }
    }
    Ok(None)
}

/// The numbers of all files of a kind, ascending.
///
/// # Errors
/// Of the disk.
pub fn list_numbers(fs: &dyn Fs, kind: FileKind) -> io::Result<Vec<u64>> {
    let mut numbers: Vec<_> = fs.list(kind.dir())?.iter().filter_map(|name| number_of(kind, name)).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// Whether there is any file of a store, be it damaged.
///
/// # Errors
/// Of the disk.
pub fn holds_store(fs: &dyn Fs) -> io::Result<bool> {
    for kind in FileKind::ALL {
        if !list_numbers(fs, kind)?.is_empty() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Removes unfinished files, which a crash can leave.
///
/// # Errors
/// Of the disk.
pub fn remove_unfinished(fs: &dyn Fs) -> io::Result<()> {
    for dir in ["data", "meta"] {
        for name in fs.list(dir)?.iter().filter(|name| name.ends_with(&unfinished(""))) {
            fs.remove(&format!("{dir}/{name}"))?;
        }
    }
    Ok(())
}
