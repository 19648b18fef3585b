//! A directory of a disk.

use std::io;
use std::ops::Deref;
use std::sync::Arc;

use super::{DiskPlace, File, Fs, Lock, Space};

/// A directory of another disk, as a disk of its own.
pub struct SubdirFs<F> {
    fs: F,
    dir: String,
}

impl<F> SubdirFs<F> {
    /// The contents of `dir`, which is not the root.
    pub fn new(fs: F, dir: impl Into<String>) -> Self {
        Self { fs, dir: dir.into() }
    }

    /// Where `path` is on the other disk.
    fn at(&self, path: &str) -> String {
        if path.is_empty() { self.dir.clone() } else { format!("{}/{path}", self.dir) }
    }
}

impl<F: Deref<Target: Fs> + Send + Sync> Fs for SubdirFs<F> {
    fn create_on(&self, place: DiskPlace, path: &str) -> io::Result<Arc<dyn File>> {
        self.fs.create_on(place, &self.at(path))
    }

    fn open(&self, path: &str) -> io::Result<Arc<dyn File>> {
        self.fs.open(&self.at(path))
    }

    fn open_read(&self, path: &str) -> io::Result<Arc<dyn File>> {
        self.fs.open_read(&self.at(path))
    }

    fn open_uncached(&self, path: &str) -> io::Result<Arc<dyn File>> {
        self.fs.open_uncached(&self.at(path))
    }

    fn list(&self, dir: &str) -> io::Result<Vec<String>> {
        self.fs.list(&self.at(dir))
    }

    fn create_dir(&self, dir: &str) -> io::Result<()> {
        self.fs.create_dir(&self.at(dir))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.fs.rename(&self.at(from), &self.at(to))
    }

    fn link(&self, from: &str, to: &str) -> io::Result<()> {
        self.fs.link(&self.at(from), &self.at(to))
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        self.fs.remove(&self.at(path))
    }

    fn sync_dir(&self, dir: &str) -> io::Result<()> {
        self.fs.sync_dir(&self.at(dir))
    }

    fn lock(&self, path: &str) -> io::Result<Box<dyn Lock>> {
        self.fs.lock(&self.at(path))
    }

    fn space(&self) -> io::Result<Space> {
        self.fs.space()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::OsFs;

    #[test]
    fn operations_stay_inside_the_subdirectory() {
        let dir = tempfile::tempdir().unwrap();
        let fs = OsFs::new(dir.path());
        let subdir = SubdirFs::new(&fs, "d");
        subdir.create_dir("e").unwrap();
        subdir.create("e/a").unwrap();
        subdir.rename("e/a", "e/b").unwrap();
        subdir.link("e/b", "c").unwrap();
        subdir.sync_dir("").unwrap();
        drop(subdir.lock("LOCK").unwrap());
        assert!(
            subdir.open("c").is_ok()
                && subdir.open_read("e/b").is_ok()
                && subdir.open_uncached("e/b").is_ok()
        );
        subdir.remove("c").unwrap();
        assert_eq!((fs.list("").unwrap(), fs.list("d").unwrap()), (vec![], vec!["LOCK".to_owned()]));
        assert_eq!(subdir.list("e").unwrap(), ["b"]);
        assert!(subdir.space().unwrap().total_bytes > 0);
    }
}
