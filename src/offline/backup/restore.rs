//! Restoring a backup.

use std::io;

use super::file_copier::{FileCopier, ZeroBlocks};
use super::report::{BackupError, FileTotals, RestoreReport};
use super::slots::BackupSlots;
use super::{USERS, verify_copy};
use crate::format::{FileKind, LOCK, StoreId, unfinished};
use crate::fs::{DiskPlace, Fs, Lock};
use crate::keys::KeyRing;
use crate::log::{LogError, list_numbers};
use crate::offline::needed_keys::{KEYS, NeededKey, read_ring, unopened_keys};
use crate::store::open::loader::StoreLoader;
use crate::store::{Progress, ProgressStep};

/// Restores the backup in the directory `backup` into the empty directory `target`, and then checks
/// every checksum. All files are copied: a restored store appends to segments, which must not be
/// the backup's. Durable on return.
///
/// # The order
///
/// Segments first, then checkpoints, then the files of the log, newest first. Each gets its name
/// when it is complete and durable. A server started on the remains of a crash finds no log, or a
/// log without its beginning, and refuses. With the oldest file first, a log without its end would
/// pass for complete.
///
/// # Errors
/// [`BackupError`]. Damage of the restored store is not an error but a finding.
pub fn restore(
    backup: &dyn Fs,
    target: &dyn Fs,
    progress: &mut dyn FnMut(Progress),
) -> Result<RestoreReport, BackupError> {
    let slots = BackupSlots::open_to_read(backup)?;
    let current = slots.current().ok_or(BackupError::NotABackup)?;
    let from = slots.slot_fs(current.slot);
    for dir in ["", FileKind::Segment.dir(), FileKind::Log.dir()] {
        if !target.list(dir)?.is_empty() {
            return Err(BackupError::NotEmpty);
        }
    }
    let lock = lock(target)?;
    let mut secrets = from.list("")?;
    secrets.retain(|name| name == USERS || name == KEYS);
    let files = copy_all(&from, target, &secrets, progress)?;
    // The check takes the lock itself.
    drop(lock);
    let report = verify_copy(target, progress)?;
    Ok(RestoreReport {
        taken: current.taken,
        sequence: current.sequence,
        files,
        with_users: secrets.iter().any(|name| name == USERS),
        with_keys: secrets.iter().any(|name| name == KEYS),
        keys_missing: missing_keys(target, current.store)?,
        findings: report.findings,
        unchecked_bytes: report.counts.unchecked_bytes,
    })
}

/// The keys that the records in a directory name and its ring does not open. Damage, which the
/// check has found, may hide some.
fn missing_keys(target: &dyn Fs, store: StoreId) -> Result<Vec<NeededKey>, BackupError> {
    let mut damage = Vec::new();
    let read = StoreLoader::from_newest(target, store, &mut damage).and_then(|mut loader| {
        loader.replay()?;
        Ok(loader.index)
    });
    let index = match read {
        Err(LogError::Damaged(_)) => return Ok(Vec::new()),
        read => read?,
    };
    // A text that is no ring opens nothing.
    let ring = read_ring(target)?.and_then(|text| KeyRing::parse(&text).ok()).unwrap_or_default();
    Ok(unopened_keys(&index, &ring))
}

fn lock(target: &dyn Fs) -> Result<Box<dyn Lock>, BackupError> {
    target.lock(LOCK).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => BackupError::Busy,
        _ => error.into(),
    })
}

fn copy_all(
    from: &dyn Fs,
    target: &dyn Fs,
    secrets: &[String],
    progress: &mut dyn FnMut(Progress),
) -> Result<FileTotals, BackupError> {
    let mut paths: Vec<_> = secrets.iter().map(|name| ("", name.clone())).collect();
    for kind in [FileKind::Segment, FileKind::Checkpoint, FileKind::Log] {
        target.create_dir(kind.dir())?;
        paths.extend(
            list_numbers(from, kind)?.into_iter().rev().map(|number| (kind.dir(), kind.path(number))),
        );
    }
    let mut total = 0;
    for (_, path) in &paths {
        total += from.open_uncached(path)?.len()?;
    }
    let free_bytes = target.space_on(DiskPlace::Bulk)?.free_bytes;
    if total > free_bytes {
        return Err(BackupError::NoRoom { needed_bytes: total, free_bytes });
    }
    let step = ProgressStep::CopySegments;
    let mut files = FileTotals::default();
    let mut copier = FileCopier { to: target, step, done: 0, total, progress };
    for (dir, path) in paths {
        let zeros =
            if path.ends_with(FileKind::Segment.suffix()) { ZeroBlocks::Skip } else { ZeroBlocks::Write };
        let unfinished_path = unfinished(&path);
        let copied =
            copier.copy(from.open_uncached(&path)?.as_ref(), &unfinished_path, zeros).inspect_err(|_| {
                // The error to report is the copy's.
                let _ = target.remove(&unfinished_path);
            });
        files.add(copied?);
        target.rename(&unfinished_path, &path)?;
        target.sync_dir(dir)?;
    }
    Ok(files)
}
