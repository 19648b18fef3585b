//! A read-only view of a file system.

use std::io;
use std::ops::Deref;
use std::sync::Arc;

use super::{DiskPlace, File, Fs, Lock, forward_fs};

/// A read-only view of another file system, which it owns or borrows: files are opened read-only,
/// and every change is refused. For those that must not modify the store.
pub struct ReadOnlyFs<F> {
    fs: F,
}

impl<F> ReadOnlyFs<F> {
    /// A view of `fs`.
    pub fn new(fs: F) -> Self {
        Self { fs }
    }
}

impl<F: Deref<Target: Fs> + Send + Sync> Fs for ReadOnlyFs<F> {
    forward_fs!(fs: open_read, open_uncached, list, space);

    fn create_on(&self, _: DiskPlace, path: &str) -> io::Result<Arc<dyn File>> {
        refused(path)
    }

    fn open(&self, path: &str) -> io::Result<Arc<dyn File>> {
        self.fs.open_read(path)
    }

    fn create_dir(&self, dir: &str) -> io::Result<()> {
        refused(dir)
    }

    fn rename(&self, from: &str, _to: &str) -> io::Result<()> {
        refused(from)
    }

    fn link(&self, from: &str, _to: &str) -> io::Result<()> {
        refused(from)
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        refused(path)
    }

    fn sync_dir(&self, dir: &str) -> io::Result<()> {
        refused(dir)
    }

    fn lock(&self, path: &str) -> io::Result<Box<dyn Lock>> {
        refused(path)
    }
}

fn refused<T>(path: &str) -> io::Result<T> {
    Err(io::Error::new(io::ErrorKind::ReadOnlyFilesystem, format!("{path}: it is opened read-only")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::OsFs;

    #[test]
    fn a_read_only_view_refuses_changes() {
        let dir = tempfile::tempdir().unwrap();
        let fs = OsFs::new(dir.path());
        fs.create("a").unwrap().write_all_at(b"abc", 0).unwrap();
        let guarded = ReadOnlyFs::new(&fs);
        let file = guarded.open("a").unwrap();
        assert!(file.write_all_at(b"x", 0).is_err() && file.reserve(0, 4096).is_err());
        assert!(guarded.create("b").is_err() && guarded.create_dir("d").is_err());
        assert!(guarded.rename("a", "b").is_err() && guarded.remove("a").is_err());
        assert!(guarded.link("a", "b").is_err());
        assert!(guarded.lock("LOCK").is_err() && guarded.sync_dir("").is_err());
        assert_eq!(guarded.list("").unwrap(), ["a"]);
        assert_eq!(file.len().unwrap(), 3);
    }
}
