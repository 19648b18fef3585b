//! A directory of a disk.

use std::io;
use std::sync::Arc;

use super::{File, Fs, Lock, Space};

/// A directory of another disk, as a disk of its own.
pub struct Below<'a> {
    fs: &'a dyn Fs,
    dir: String,
}

impl<'a> Below<'a> {
    /// What is below `dir`, which is not the root.
    pub fn new(fs: &'a dyn Fs, dir: impl Into<String>) -> Self {
        Self { fs, dir: dir.into() }
    }

    /// Where `path` is on the other disk.
    fn at(&self, path: &str) -> String {
        if path.is_empty() { self.dir.clone() } else { format!("{}/{path}", self.dir) }
    }
}

impl Fs for Below<'_> {
    fn create(&self, path: &str) -> io::Result<Arc<dyn File>> {
        self.fs.create(&self.at(path))
    }

    fn open(&self, path: &str) -> io::Result<Arc<dyn File>> {
        self.fs.open(&self.at(path))
    }

    fn open_read(&self, path: &str) -> io::Result<Arc<dyn File>> {
        self.fs.open_read(&self.at(path))
    }

    fn open_in_passing(&self, path: &str) -> io::Result<Arc<dyn File>> {
        self.fs.open_in_passing(&self.at(path))
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
    fn what_is_done_below_is_done_in_that_directory_alone() {
        let dir = tempfile::tempdir().unwrap();
        let fs = OsFs::new(dir.path());
        let below = Below::new(&fs, "d");
        below.create_dir("e").unwrap();
        below.create("e/a").unwrap();
        below.rename("e/a", "e/b").unwrap();
        below.link("e/b", "c").unwrap();
        below.sync_dir("").unwrap();
        drop(below.lock("LOCK").unwrap());
        assert!(
            below.open("c").is_ok() && below.open_read("e/b").is_ok() && below.open_in_passing("e/b").is_ok()
        );
        below.remove("c").unwrap();
        assert_eq!((fs.list("").unwrap(), fs.list("d").unwrap()), (vec![], vec!["LOCK".to_owned()]));
        assert_eq!(below.list("e").unwrap(), ["b"]);
        assert!(below.space().unwrap().total_bytes > 0);
    }
}
