//! The files of a directory.

use std::collections::BTreeSet;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::UNIX_EPOCH;

use siltstone::base::Timestamp;

use super::file_names::SIDE_DIRECTORY;

/// The greatest depth of directories.
const DEPTH_MAX: usize = 200;

/// A file, and its name below the directory.
pub(super) struct FoundFile {
    pub(super) name: String,
    pub(super) length: u64,
    /// The modification time in seconds, in the form of rclone's metadata.
    pub(super) mtime: String,
    /// The modification time; `None` before 1970.
    pub(super) modified: Option<Timestamp>,
}

/// A walk through a directory. Neither files nor directories are changed.
pub(super) struct DirectoryWalk<'w> {
    pub(super) follow_links: bool,
    /// Receives each file; returns whether the walk goes on.
    pub(super) found: &'w mut dyn FnMut(FoundFile) -> bool,
    /// Receives each name that is left out, and why.
    pub(super) left_out: &'w mut dyn FnMut(&Path, &str),
    /// Receives each directory without entries: a bucket has no place for it.
    pub(super) empty: &'w mut dyn FnMut(&Path),
    /// The directories above, to notice loops of links.
    pub(super) above: BTreeSet<(u64, u64)>,
}

impl DirectoryWalk<'_> {
    /// Walks through the directory `root`.
    pub(super) fn start(&mut self, root: &Path) {
        if let Ok(metadata) = fs::metadata(root) {
            self.above.insert((metadata.dev(), metadata.ino()));
        }
        self.walk(root, "");
    }

    /// Walks through `dir`, whose files are named below `prefix`. Returns whether the walk goes on.
    fn walk(&mut self, dir: &Path, prefix: &str) -> bool {
        let names = fs::read_dir(dir).and_then(|entries| {
            entries.map(|entry| entry.map(|entry| entry.file_name())).collect::<Result<Vec<_>, _>>()
        });
        let mut names = match names {
            Ok(names) => names,
            Err(error) => return self.leave_out(dir, &error.to_string()),
        };
        if names.is_empty() && !prefix.is_empty() {
            (self.empty)(dir);
        }
        names.sort();
        for name in names {
            if prefix.is_empty() && name == SIDE_DIRECTORY {
                continue;
            }
            let path = dir.join(&name);
            let goes_on = match name.to_str() {
                Some(name) => self.enter(&path, &format!("{prefix}{name}")),
                None => self.leave_out(&path, "its name is not UTF-8"),
            };
            if !goes_on {
                return false;
            }
        }
        true
    }

    fn leave_out(&mut self, path: &Path, why: &str) -> bool {
        (self.left_out)(path, why);
        true
    }

    fn enter(&mut self, path: &Path, name: &str) -> bool {
        let metadata = if self.follow_links { fs::metadata(path) } else { fs::symlink_metadata(path) };
        let metadata = match metadata {
            Ok(metadata) => metadata,
            Err(error) => return self.leave_out(path, &error.to_string()),
        };
        if metadata.is_dir() {
            return self.descend(path, name, &metadata);
        }
        if metadata.is_symlink() {
            return self.leave_out(path, "it is a symbolic link; --follow-links follows it");
        }
        if !metadata.is_file() {
            return self.leave_out(path, "it is no regular file");
        }
        let mtime = mtime_of(&metadata);
        let modified = metadata.modified().ok().filter(|time| *time >= UNIX_EPOCH);
        (self.found)(FoundFile {
            name: name.to_owned(),
            length: metadata.len(),
            mtime,
            modified: modified.map(Timestamp::from_system),
        })
    }

    fn descend(&mut self, path: &Path, name: &str, metadata: &Metadata) -> bool {
        let place = (metadata.dev(), metadata.ino());
        if self.above.len() >= DEPTH_MAX {
            return self.leave_out(path, "it is too deep");
        }
        if !self.above.insert(place) {
            return self.leave_out(path, "it is a link to a directory above it");
        }
        let goes_on = self.walk(path, &format!("{name}/"));
        self.above.remove(&place);
        goes_on
    }
}

pub(super) fn mtime_of(metadata: &Metadata) -> String {
    let seconds = metadata.mtime();
    let nanos = metadata.mtime_nsec();
    match nanos {
        0 => seconds.to_string(),
        // Before 1970 the fraction counts towards the past.
        _ if seconds < 0 => format!("-{}.{:09}", -(seconds + 1), 1_000_000_000 - nanos),
        _ => format!("{seconds}.{nanos:09}"),
    }
}
