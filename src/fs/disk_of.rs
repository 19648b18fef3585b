//! Where a file of the host is: its path without links, and its disk (Linux, `/sys/dev/block`).

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{self, Path, PathBuf};

use rustix::fs::{StatVfsMountFlags, major, minor, statvfs};

/// Whether two files or directories are on one disk, as far as that can be seen: on one file
/// system, or on two partitions of a disk.
pub fn share_disk(one: &Path, other: &Path) -> bool {
    let Some(one) = device(one) else { return false };
    let Some(other) = device(other) else { return false };
    one == other || whole_disk(one).is_some_and(|disk| whole_disk(other) == Some(disk))
}

/// Whether the file system of a directory is mounted so that nobody can write to it, as it is after errors.
/// One that does not tell is none.
pub fn is_read_only(dir: &Path) -> bool {
    statvfs(dir).is_ok_and(|found| found.f_flag.contains(StatVfsMountFlags::RDONLY))
}

/// The path without links; as it is written where there is nothing yet.
///
/// # Errors
/// Of the file system.
pub fn absolute(path: &Path) -> io::Result<PathBuf> {
    match path.canonicalize() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => path::absolute(path),
        known => known,
    }
}

fn device(path: &Path) -> Option<u64> {
    fs::metadata(path).ok().map(|metadata| metadata.dev())
}

/// The disk of a file system, or of its partition; `None` where the file system has no device of
/// its own.
fn whole_disk(device: u64) -> Option<PathBuf> {
    let place = format!("/sys/dev/block/{}:{}", major(device), minor(device));
    let place = fs::canonicalize(place).ok()?;
    if place.join("partition").exists() { place.parent().map(Path::to_owned) } else { Some(place) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_one_file_system_share_a_disk_and_those_of_the_kernel_have_none() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(share_disk(&file, dir.path()));
        assert!(!share_disk(&file, Path::new("/proc/self/status")));
        assert!(!share_disk(&file, &dir.path().join("missing")));
    }
}
