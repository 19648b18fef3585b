//! After a crash, the two sides of a generation are made equal before the first read: what a reader has
//! seen of one must not be gone with the other.
//!
//! Whatever was acknowledged is on both. So a name that one side has alone is that of a file that was
//! just made, or of one that was about to be removed: both get it, and the store removes what it does
//! not need. The log tells which of its groups, and of their bytes, one side lacks. What one side cannot
//! read of the log, or has rotten, it gets from the other one.

use std::collections::BTreeSet;
use std::io;

use super::fill::{NEWEST_SEGMENTS, copy_named, has_nothing, sealed_at};
use crate::base::limits::{MIB, PAGE_BYTES};
use crate::disks::DisksError;
use crate::format::{EPOCH, FileKind, number_of, segment_path, unfinished};
use crate::fs::{File, Fs, crc32_of};
use crate::log::{any_header, level_log, list_numbers, read_checkpoint, remove_unfinished};

/// What was copied from one side to the other.
#[derive(Default)]
struct Levelling {
    files: u64,
    groups: u64,
    packs: u64,
}

/// Makes both sides equal. Durable on return.
///
/// # Errors
/// Of the disks; the sides contradict each other.
pub(super) fn level(sides: [&dyn Fs; 2]) -> Result<(), DisksError> {
    let mut files = 0;
    for side in sides {
        for dir in [FileKind::Segment.dir(), FileKind::Log.dir()] {
            side.create_dir(dir)?;
            // What is seen is to stay.
            side.sync_dir(dir)?;
        }
        remove_unfinished(side)?;
    }
    files += level_names(sides, FileKind::Segment.dir())?;
    files += level_names(sides, FileKind::Log.dir())?;
    let Levelling { files: replaced, groups, packs } = level_metadata(sides)?;
    files += replaced + level_ends(sides)?;
    if files + groups + packs > 0 {
        log::info!(
            "both sides of the mirror are equal again: {files} files, {groups} groups and {packs} packs were copied"
        );
    }
    Ok(())
}

/// Makes the newest segments equally long, and sealed on both sides or on neither: only these are written
/// to again. What lies beyond the end of the shorter one was never acknowledged.
fn level_ends(sides: [&dyn Fs; 2]) -> Result<u64, DisksError> {
    let Some(header) = any_header(sides[0])? else { return Ok(0) };
    let mut levelled = 0;
    for id in list_numbers(sides[0], FileKind::Segment)?.into_iter().rev().take(NEWEST_SEGMENTS) {
        let path = segment_path(id);
        match copy_where_nothing_is_left(sides, &path) {
            Ok(false) => {}
            Ok(true) => {
                levelled += 1;
                continue;
            }
            // What is of use is read where it is.
            Err(error) if matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::InvalidData) => {
                log::warn!("{path} cannot be read on one side of the mirror: {error}");
                continue;
            }
            Err(error) => return Err(error.into()),
        }
        let files = match (sides[0].open(&path), sides[1].open(&path)) {
            (Ok(first), Ok(second)) => [first, second],
            // There is no room for it on one side.
            (Err(error), _) | (_, Err(error)) if error.kind() == io::ErrorKind::NotFound => continue,
            (Err(error), _) | (_, Err(error)) => return Err(error.into()),
        };
        let lens = [files[0].len()?, files[1].len()?];
        let sealed = [sealed_at(sides[0], header.store, id)?, sealed_at(sides[1], header.store, id)?];
        if lens[0] == lens[1] && sealed[0] == sealed[1] {
            continue;
        }
        // Where both end at one place, the last page of one is a footer.
        let is_even = lens[0] == lens[1];
        let longer = usize::from(if is_even { sealed[0].is_none() } else { lens[1] > lens[0] });
        let shorter = 1 - longer;
        let from = if is_even { lens[0].saturating_sub(PAGE_BYTES) } else { lens[shorter] };
        copy_end(files[longer].as_ref(), files[shorter].as_ref(), from)?;
        files[shorter].sync_data()?;
        levelled += 1;
    }
    Ok(levelled)
}

/// Copies the bytes of a file from `offset` on.
fn copy_end(from: &dyn File, to: &dyn File, offset: u64) -> io::Result<()> {
    let len = from.len()?;
    let mut buffer = vec![0; MIB as usize];
    for at in (offset..len).step_by(MIB as usize) {
        let bytes = &mut buffer[..MIB.min(len - at) as usize];
        match from.read_exact_at(bytes, at) {
            // Nobody was told that it is there.
            Err(error) if error.kind() == io::ErrorKind::InvalidData => bytes.fill(0),
            read => read?,
        }
        to.write_all_at(bytes, at)?;
    }
    Ok(())
}

/// Copies the files of a directory that one side lacks.
fn level_names(sides: [&dyn Fs; 2], dir: &str) -> Result<u64, DisksError> {
    let mut copied = 0;
    let first = names_of(sides[0], dir)?;
    let second = names_of(sides[1], dir)?;
    for (from, to, lacking) in
        [(sides[0], sides[1], first.difference(&second)), (sides[1], sides[0], second.difference(&first))]
    {
        for name in lacking {
            let path = format!("{dir}/{name}");
            match copy_named(from, to, &path) {
                // It may be one that is of no use any more. What is of use is read where it is.
                Err(error)
                    if !is_log(name)
                        && matches!(
                            error.kind(),
                            io::ErrorKind::StorageFull | io::ErrorKind::InvalidData
                        ) =>
                {
                    log::warn!("{path} is on one side of the mirror alone: {error}");
                }
                copy => {
                    copy?;
                    copied += 1;
                }
            }
        }
        to.sync_dir(dir)?;
    }
    Ok(copied)
}

fn is_log(name: &str) -> bool {
    number_of(FileKind::Log, name).is_some()
}

fn names_of(side: &dyn Fs, dir: &str) -> io::Result<BTreeSet<String>> {
    let mut names: BTreeSet<String> = side.list(dir)?.into_iter().collect();
    names.retain(|name| {
        let path = format!("{dir}/{name}");
        // It names its own inode.
        path != EPOCH && !path.ends_with(&unfinished(""))
    });
    Ok(names)
}

/// Makes the files of the log and beside it equal that both have.
fn level_metadata(sides: [&dyn Fs; 2]) -> Result<Levelling, DisksError> {
    let dir = FileKind::Log.dir();
    let mut done = Levelling::default();
    let newest = list_numbers(sides[0], FileKind::Log)?.last().copied();
    let both = names_of(sides[1], dir)?;
    for name in names_of(sides[0], dir)?.intersection(&both) {
        let path = format!("{dir}/{name}");
        let log = number_of(FileKind::Log, name);
        if log.is_none_or(|number| Some(number) != newest) && are_equal(sides, &path)? {
            continue;
        }
        if log.is_some() && copy_where_nothing_is_left(sides, &path)? {
            done.files += 1;
            continue;
        }
        if let Some(number) = log {
            let levelled = level_log(sides, number, Some(number) == newest)?;
            done.groups += levelled.groups;
            done.packs += levelled.packs;
            continue;
        }
        let good = match number_of(FileKind::Checkpoint, name) {
            Some(covered) => good_checkpoint(sides, covered)?,
            None => readable(sides, &path),
        };
        let Some(good) = good else { continue };
        copy_named(sides[good], sides[1 - good], &path)?;
        done.files += 1;
    }
    for side in sides {
        side.sync_dir(dir)?;
    }
    Ok(done)
}

/// The side whose checkpoint is good, where one is.
fn good_checkpoint(sides: [&dyn Fs; 2], covered: u64) -> Result<Option<usize>, DisksError> {
    let Some(header) = any_header(sides[0])? else { return Ok(None) };
    let is_good = |side: &dyn Fs| read_checkpoint(side, header.store, covered, &mut |_| Ok(())).is_ok();
    Ok(sides.into_iter().position(is_good))
}

/// The side that can read a small file. Such files are replaced as a whole, and one was so on one side
/// alone: neither version was acknowledged more than the other one.
fn readable(sides: [&dyn Fs; 2], path: &str) -> Option<usize> {
    sides.into_iter().position(|side| side.open_read(path).and_then(|file| crc32_of(file.as_ref())).is_ok())
}

/// Copies a file of which one side has nothing from the other one: an encrypted file without its first page
/// has no bytes, and gets none. Returns whether that was so.
fn copy_where_nothing_is_left(sides: [&dyn Fs; 2], path: &str) -> io::Result<bool> {
    let files = match (sides[0].open_read(path), sides[1].open_read(path)) {
        (Ok(first), Ok(second)) => [first, second],
        // It is looked at again by those who need it.
        _ => return Ok(false),
    };
    let good = match (has_nothing(files[0].as_ref())?, has_nothing(files[1].as_ref())?) {
        (false, true) => 0,
        (true, false) => 1,
        _ => return Ok(false),
    };
    copy_named(sides[good], sides[1 - good], path)?;
    Ok(true)
}

/// Whether both can read a file, and it is the same.
fn are_equal(sides: [&dyn Fs; 2], path: &str) -> io::Result<bool> {
    let files = [sides[0].open_read(path)?, sides[1].open_read(path)?];
    let len = files[0].len()?;
    if len != files[1].len()? {
        return Ok(false);
    }
    let mut buffers = [vec![0; len.min(MIB) as usize], vec![0; len.min(MIB) as usize]];
    for at in (0..len).step_by(MIB as usize) {
        let part = MIB.min(len - at) as usize;
        for (file, buffer) in files.iter().zip(&mut buffers) {
            match file.read_exact_at(&mut buffer[..part], at) {
                Err(error) if error.kind() == io::ErrorKind::InvalidData => return Ok(false),
                read => read?,
            }
        }
        if buffers[0][..part] != buffers[1][..part] {
            return Ok(false);
        }
    }
    Ok(true)
}
