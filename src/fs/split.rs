//! Two disks as one file system: a fast one with the log, the checkpoints and the segments of small
//! objects, and a large one with all else.
//!
//! Which disk a segment is on, a look tells: segments move while they are open. One that is on both
//! is the one on the large disk: it gets its name there only once it has been verified, and the
//! other one is about to go.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;

use super::{DiskPlace, File, Fs, Lock, Space, check_one_directory, is_there, split};

/// The directory of the log, whose files are on the fast disk.
const FAST: &str = "meta";
/// The file of that directory that stays on the large disk: it names its own inode, so that a copy of
/// the directory is known as one.
const EPOCH: &str = "meta/epoch";
/// The directories of the large disk alone: the root, and that of the shadow of the log.
const BULK: [&str; 2] = ["", "shadow/meta"];

/// Two disks as one.
pub struct SplitFs {
    fast: Arc<dyn Fs>,
    bulk: Arc<dyn Fs>,
}

impl SplitFs {
    /// The log and small objects on `fast`, all else on `bulk`.
    pub fn new(fast: Arc<dyn Fs>, bulk: Arc<dyn Fs>) -> Self {
        Self { fast, bulk }
    }

    fn disk(&self, place: DiskPlace) -> &dyn Fs {
        match place {
            DiskPlace::Fast => self.fast.as_ref(),
            DiskPlace::Bulk => self.bulk.as_ref(),
        }
    }

    /// The only disk that a file may be on; `None` where it may be on either.
    fn only_place(path: &str) -> Option<DiskPlace> {
        match path.strip_suffix(".new").unwrap_or(path) {
            EPOCH => Some(DiskPlace::Bulk),
            _ => Self::only_place_below(split(path).0),
        }
    }

    /// The only disk that the files of a directory may be on.
    fn only_place_below(dir: &str) -> Option<DiskPlace> {
        match dir {
            FAST => Some(DiskPlace::Fast),
            _ if BULK.contains(&dir) => Some(DiskPlace::Bulk),
            _ => None,
        }
    }

    /// Asks the disks that may have a file for it. One that moves meanwhile is missed on the large
    /// disk before it is named there, and on the fast one after it was removed: the large one is
    /// asked again.
    fn find<T>(&self, path: &str, ask: impl Fn(DiskPlace) -> io::Result<T>) -> io::Result<T> {
        let places: &[DiskPlace] = match Self::only_place(path) {
            Some(DiskPlace::Fast) => &[DiskPlace::Fast],
            Some(DiskPlace::Bulk) => &[DiskPlace::Bulk],
            None => &[DiskPlace::Bulk, DiskPlace::Fast, DiskPlace::Bulk],
        };
        let mut missing = io::ErrorKind::NotFound.into();
        for place in places {
            match ask(*place) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => missing = error,
                found => return found,
            }
        }
        Err(missing)
    }

    fn has(&self, place: DiskPlace, path: &str) -> io::Result<bool> {
        is_there(self.disk(place), path)
    }

    /// Removes a name from a disk, if it is there.
    fn remove_from(&self, place: DiskPlace, path: &str) -> io::Result<bool> {
        match self.disk(place).remove(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            removed => removed.map(|()| true),
        }
    }
}

fn other(place: DiskPlace) -> DiskPlace {
    match place {
        DiskPlace::Fast => DiskPlace::Bulk,
        DiskPlace::Bulk => DiskPlace::Fast,
    }
}

impl Fs for SplitFs {
    fn open(&self, path: &str) -> io::Result<Arc<dyn File>> {
        self.find(path, |place| self.disk(place).open(path))
    }

    fn open_read(&self, path: &str) -> io::Result<Arc<dyn File>> {
        self.find(path, |place| self.disk(place).open_read(path))
    }

    fn open_uncached(&self, path: &str) -> io::Result<Arc<dyn File>> {
        self.find(path, |place| self.disk(place).open_uncached(path))
    }

    fn list(&self, dir: &str) -> io::Result<Vec<String>> {
        if let Some(place) = Self::only_place_below(dir) {
            return self.disk(place).list(dir);
        }
        // Before the other one: a file that moves meanwhile is on one of the lists.
        let mut names: BTreeSet<String> = self.fast.list(dir)?.into_iter().collect();
        names.extend(self.bulk.list(dir)?);
        Ok(names.into_iter().collect())
    }

    fn create_dir(&self, dir: &str) -> io::Result<()> {
        self.bulk.create_dir(dir)?;
        if BULK.contains(&dir) { Ok(()) } else { self.fast.create_dir(dir) }
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        check_one_directory(from, to)?;
        let place = self.place_of(from)?;
        self.disk(place).rename(from, to)?;
        if Self::only_place(to).is_some() {
            return Ok(());
        }
        // A file of that name on the other disk is the one that this one replaces. It is the only
        // one after a crash that undoes the new name, and so stays until that is durable.
        if self.has(other(place), to)? {
            self.disk(place).sync_dir(split(to).0)?;
            self.disk(other(place)).remove(to)?;
        }
        Ok(())
    }

    fn link(&self, from: &str, to: &str) -> io::Result<()> {
        self.find(from, |place| self.disk(place).link(from, to))
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        if let Some(place) = Self::only_place(path) {
            return self.disk(place).remove(path);
        }
        // The one that does not count first: it would count if it were alone.
        let was_fast = self.remove_from(DiskPlace::Fast, path)?;
        let was_bulk = self.remove_from(DiskPlace::Bulk, path)?;
        if was_fast || was_bulk { Ok(()) } else { Err(io::ErrorKind::NotFound.into()) }
    }

    fn sync_dir(&self, dir: &str) -> io::Result<()> {
        if BULK.contains(&dir) {
            return self.bulk.sync_dir(dir);
        }
        // The large disk first: a name there is durable before the one on the fast disk goes.
        match self.bulk.sync_dir(dir) {
            // A directory that was made before there were two disks.
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.fast.sync_dir(dir),
            synced => {
                synced?;
                match self.fast.sync_dir(dir) {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                    synced => synced,
                }
            }
        }
    }

    fn lock(&self, path: &str) -> io::Result<Box<dyn Lock>> {
        let bulk = self.bulk.lock(path)?;
        let fast = self.fast.lock(path)?;
        Ok(Box::new(BothLocks { _bulk: bulk, _fast: fast }))
    }

    fn space(&self) -> io::Result<Space> {
        self.fast.space()
    }

    fn has_two_disks(&self) -> bool {
        true
    }

    fn place_of(&self, path: &str) -> io::Result<DiskPlace> {
        if let Some(place) = Self::only_place(path) {
            return Ok(place);
        }
        self.find(path, |place| self.disk(place).open_read(path).map(|_| place))
    }

    fn create_on(&self, place: DiskPlace, path: &str) -> io::Result<Arc<dyn File>> {
        if let Some(place) = Self::only_place(path) {
            return self.disk(place).create(path);
        }
        if self.has(other(place), path)? {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, format!("{path} is on the other disk")));
        }
        self.disk(place).create(path)
    }

    fn sync_dir_on(&self, place: DiskPlace, dir: &str) -> io::Result<()> {
        self.disk(place).sync_dir(dir)
    }

    fn space_on(&self, place: DiskPlace) -> io::Result<Space> {
        self.disk(place).space()
    }
}

/// The locks of both disks.
struct BothLocks {
    _bulk: Box<dyn Lock>,
    _fast: Box<dyn Lock>,
}

impl Lock for BothLocks {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::sim::{CrashPolicy, SimFs};

    struct Disks {
        fast: SimFs,
        bulk: SimFs,
        both: SplitFs,
    }

    fn disks() -> Disks {
        let fast = SimFs::new();
        let bulk = SimFs::new();
        let both = SplitFs::new(Arc::new(fast.clone()), Arc::new(bulk.clone()));
        for dir in ["data", FAST] {
            both.create_dir(dir).unwrap();
        }
        Disks { fast, bulk, both }
    }

    fn put(fs: &dyn Fs, path: &str, bytes: &[u8]) {
        let file = fs.create(path).unwrap();
        file.write_all_at(bytes, 0).unwrap();
        file.sync_data().unwrap();
    }

    fn bytes(fs: &dyn Fs, path: &str) -> Vec<u8> {
        let file = fs.open_read(path).unwrap();
        let mut bytes = vec![0; file.len().unwrap() as usize];
        file.read_exact_at(&mut bytes, 0).unwrap();
        bytes
    }

    fn is_on(fs: &SimFs, path: &str) -> bool {
        fs.open_read(path).is_ok()
    }

    #[test]
    fn each_kind_of_file_has_its_disk() {
        let disks = disks();
        put(&disks.both, "meta/1.log", b"log");
        put(&disks.both, "KEYS", b"keys");
        disks.both.create_dir("shadow/meta").unwrap();
        put(&disks.both, "shadow/meta/1.log", b"log");
        disks.both.create_on(DiskPlace::Fast, "data/1").unwrap();
        disks.both.create_on(DiskPlace::Bulk, "data/2").unwrap();
        for (path, is_fast) in [
            ("meta/1.log", true),
            ("KEYS", false),
            ("shadow/meta/1.log", false),
            ("data/1", true),
            ("data/2", false),
        ] {
            assert_eq!((is_on(&disks.fast, path), is_on(&disks.bulk, path)), (is_fast, !is_fast), "{path}");
        }
        let mut names = disks.both.list("data").unwrap();
        names.sort();
        assert_eq!(names, ["1", "2"]);
        assert_eq!(disks.both.place_of("data/1").unwrap(), DiskPlace::Fast);
        assert!(disks.both.create_on(DiskPlace::Bulk, "data/1").is_err(), "the name is taken");
    }

    #[test]
    fn a_file_that_is_on_both_is_that_of_the_large_disk_and_listed_once() {
        let disks = disks();
        put(&disks.fast, "data/1", b"old");
        put(&disks.bulk, "data/1", b"new");
        assert_eq!(bytes(&disks.both, "data/1"), b"new");
        assert_eq!(disks.both.list("data").unwrap(), ["1"]);
        disks.both.remove("data/1").unwrap();
        assert!(!is_on(&disks.fast, "data/1") && !is_on(&disks.bulk, "data/1"));
        let again = disks.both.remove("data/1").unwrap_err();
        assert_eq!(again.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_file_that_takes_the_place_of_another_one_is_the_only_one() {
        let disks = disks();
        put(&disks.fast, "data/1", b"old");
        put(&disks.bulk, "data/1.new", b"new");
        disks.both.rename("data/1.new", "data/1").unwrap();
        assert_eq!(bytes(&disks.both, "data/1"), b"new");
        assert!(!is_on(&disks.fast, "data/1"));
    }

    #[test]
    fn what_a_file_replaces_on_the_other_disk_goes_once_the_new_name_is_durable() {
        let disks = disks();
        put(&disks.fast, "data/1", b"old");
        put(&disks.bulk, "data/1.new", b"new");
        for disk in [&disks.fast, &disks.bulk] {
            disk.sync_dir("data").unwrap();
        }
        disks.both.rename("data/1.new", "data/1").unwrap();
        let bulk = disks.bulk.crash(CrashPolicy::DropAll);
        assert_eq!(bytes(&bulk, "data/1"), b"new");
    }

    #[test]
    fn both_disks_are_locked() {
        let disks = disks();
        let lock = disks.both.lock("LOCK").unwrap();
        for disk in [&disks.fast, &disks.bulk] {
            assert_eq!(disk.lock("LOCK").map(drop).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        }
        drop(lock);
        let _bulk = disks.bulk.lock("LOCK").unwrap();
        assert!(disks.both.lock("LOCK").is_err());
        assert!(disks.fast.lock("LOCK").is_ok(), "nothing is kept of a lock that was refused");
    }
}
