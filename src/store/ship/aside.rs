//! The files of a host that was taken over, before its directory is filled from the remote: its
//! log, and the bytes of changes that the remote lacks, get further names below `aside/`. So
//! nothing that was answered goes without a trace, and `divergent` lists it.

use std::collections::BTreeSet;
use std::io;

use crate::format::{FileKind, LogPosition, aside_path, segment_path};
use crate::fs::Fs;
use crate::log::list_numbers;
use crate::store::remote_log::error::{ShipError, disk};

/// The segments whose bytes are set aside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SegmentsAside {
    /// Nothing shows which bytes the remote has.
    All,
    /// Those that changes name which the remote lacks.
    Named(BTreeSet<u64>),
}

/// Sets the files of a directory aside whose log ends with `end`. Durable on return, and the
/// directory is as before: after a crash another call does the same again. Returns the name of the
/// directory.
///
/// # Errors
/// Of the disk; also where its file system has no hard links.
pub(super) fn set_aside(
    fs: &dyn Fs,
    end: LogPosition,
    segments: &SegmentsAside,
) -> Result<String, ShipError> {
    let aside = aside_path(end.sequence, end.crc);
    // 1. The directories, whose names are durable.
    for kind in FileKind::ALL {
        fs.create_dir(&format!("{aside}/{}", kind.dir())).map_err(disk)?;
    }
    // 2. The names. The caller removes none of the old ones before this returns.
    for path in files(fs, segments).map_err(disk)? {
        // A crash of the process may have left bytes of the last group in the cache alone.
        fs.open(&path).and_then(|file| file.sync_data()).map_err(disk)?;
        link_again(fs, &path, &format!("{aside}/{path}")).map_err(disk)?;
    }
    // 3. They are durable.
    for dir in [FileKind::Log.dir(), FileKind::Segment.dir()] {
        fs.sync_dir(&format!("{aside}/{dir}")).map_err(disk)?;
    }
    Ok(aside)
}

/// The files of the log, and of the segments.
fn files(fs: &dyn Fs, segments: &SegmentsAside) -> io::Result<Vec<String>> {
    let mut paths = Vec::new();
    for kind in [FileKind::Checkpoint, FileKind::Log] {
        paths.extend(list_numbers(fs, kind)?.into_iter().map(|number| kind.path(number)));
    }
    for id in list_numbers(fs, FileKind::Segment)? {
        let is_wanted = match segments {
            SegmentsAside::All => true,
            SegmentsAside::Named(named) => named.contains(&id),
        };
        if is_wanted {
            paths.push(segment_path(id));
        }
    }
    Ok(paths)
}

/// Gives a file a further name. One that a crash left may belong to a file that another has
/// replaced since.
fn link_again(fs: &dyn Fs, from: &str, to: &str) -> io::Result<()> {
    match fs.remove(to) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    fs.link(from, to)
}
