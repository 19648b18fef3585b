//! A disk whose syncs take as long as those of a hard disk.

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use siltstone::base::{OsEntropy, SystemClock};
use siltstone::fs::{BytesElsewhere, DiskPlace, File, FileUsage, Fs, Lock, OsFs, Space};
use siltstone::store::{Store, StoreOptions};

/// Another disk with syncs that take at least some time.
pub(super) struct SlowDisk {
    pub(super) disk: OsFs,
    pub(super) sync_time: Duration,
}

/// A store on a disk.
pub(super) fn open_on(disk: Arc<dyn Fs>) -> Store {
    let options = StoreOptions::default();
    Store::open(disk, Arc::new(SystemClock), &OsEntropy, options).expect("the store opens")
}

struct SlowFile {
    file: Arc<dyn File>,
    sync_time: Duration,
}

impl SlowDisk {
    fn over(&self, file: Arc<dyn File>) -> Arc<dyn File> {
        Arc::new(SlowFile { file, sync_time: self.sync_time })
    }
}

impl Fs for SlowDisk {
    fn create_on(&self, place: DiskPlace, path: &str) -> io::Result<Arc<dyn File>> {
        Ok(self.over(self.disk.create_on(place, path)?))
    }

    fn open(&self, path: &str) -> io::Result<Arc<dyn File>> {
        Ok(self.over(self.disk.open(path)?))
    }

    fn open_read(&self, path: &str) -> io::Result<Arc<dyn File>> {
        self.disk.open_read(path)
    }

    fn open_uncached(&self, path: &str) -> io::Result<Arc<dyn File>> {
        self.disk.open_uncached(path)
    }

    fn list(&self, dir: &str) -> io::Result<Vec<String>> {
        self.disk.list(dir)
    }

    fn create_dir(&self, dir: &str) -> io::Result<()> {
        self.disk.create_dir(dir)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn link(&self, from: &str, to: &str) -> io::Result<()> {
        self.disk.link(from, to)
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        self.disk.remove(path)
    }

    fn sync_dir(&self, dir: &str) -> io::Result<()> {
        thread::sleep(self.sync_time);
        self.disk.sync_dir(dir)
    }

    fn lock(&self, path: &str) -> io::Result<Box<dyn Lock>> {
        self.disk.lock(path)
    }

    fn space(&self) -> io::Result<Space> {
        self.disk.space()
    }
}

impl File for SlowFile {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(buf, offset)
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)
    }

    fn write_zeros(&self, offset: u64, len: u64) -> io::Result<()> {
        self.file.write_zeros(offset, len)
    }

    fn reserve(&self, offset: u64, len: u64) -> io::Result<bool> {
        self.file.reserve(offset, len)
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.file.truncate(len)
    }

    fn punch(&self, offset: u64, len: u64) -> io::Result<()> {
        self.file.punch(offset, len)
    }

    fn next_hole(&self, range: Range<u64>) -> io::Result<Option<Range<u64>>> {
        self.file.next_hole(range)
    }

    fn elsewhere(&self) -> Option<&dyn BytesElsewhere> {
        self.file.elsewhere()
    }

    fn lock_shared(&self) -> io::Result<()> {
        self.file.lock_shared()
    }

    fn has_shared_lock(&self) -> io::Result<bool> {
        self.file.has_shared_lock()
    }

    fn usage(&self) -> io::Result<FileUsage> {
        self.file.usage()
    }

    fn start_writeback(&self, offset: u64, len: u64) -> io::Result<()> {
        self.file.start_writeback(offset, len)
    }

    fn sync_data(&self) -> io::Result<()> {
        thread::sleep(self.sync_time);
        self.file.sync_data()
    }

    fn evict(&self) -> io::Result<()> {
        self.file.evict()
    }
}
