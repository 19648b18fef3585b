//! A file system that counts the bytes written through it.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use super::{File, FileUsage, Fs, Lock, Space};

/// Receives the sizes of writes.
pub trait WriteMeter: Send + Sync {
    /// Records `bytes` written to the file `path`, the name that it was created or opened by;
    /// `zeros` for writes that only allocate or erase.
    fn written(&self, path: &str, zeros: bool, bytes: u64);
}

/// Another file system; a meter records what is written through it. Metadata writes of the file
/// system itself are not counted.
pub struct MeteredFs {
    fs: Arc<dyn Fs>,
    meter: Arc<dyn WriteMeter>,
}

impl MeteredFs {
    /// Records the writes to `fs` in `meter`.
    pub fn new(fs: Arc<dyn Fs>, meter: Arc<dyn WriteMeter>) -> Self {
        Self { fs, meter }
    }

    fn metered(&self, path: &str, file: Arc<dyn File>) -> Arc<dyn File> {
        Arc::new(MeteredFile { file, path: path.to_owned(), meter: self.meter.clone() })
    }
}

impl Fs for MeteredFs {
    fn create(&self, path: &str) -> io::Result<Arc<dyn File>> {
        Ok(self.metered(path, self.fs.create(path)?))
    }

    fn open(&self, path: &str) -> io::Result<Arc<dyn File>> {
        Ok(self.metered(path, self.fs.open(path)?))
    }

    fn open_read(&self, path: &str) -> io::Result<Arc<dyn File>> {
        self.fs.open_read(path)
    }

    fn open_uncached(&self, path: &str) -> io::Result<Arc<dyn File>> {
        self.fs.open_uncached(path)
    }

    fn list(&self, dir: &str) -> io::Result<Vec<String>> {
        self.fs.list(dir)
    }

    fn create_dir(&self, dir: &str) -> io::Result<()> {
        self.fs.create_dir(dir)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.fs.rename(from, to)
    }

    fn link(&self, from: &str, to: &str) -> io::Result<()> {
        self.fs.link(from, to)
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        self.fs.remove(path)
    }

    fn sync_dir(&self, dir: &str) -> io::Result<()> {
        self.fs.sync_dir(dir)
    }

    fn lock(&self, path: &str) -> io::Result<Box<dyn Lock>> {
        self.fs.lock(path)
    }

    fn space(&self) -> io::Result<Space> {
        self.fs.space()
    }
}

struct MeteredFile {
    file: Arc<dyn File>,
    path: String,
    meter: Arc<dyn WriteMeter>,
}

impl File for MeteredFile {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(buf, offset)
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)?;
        self.meter.written(&self.path, false, bytes.len() as u64);
        Ok(())
    }

    fn write_zeros(&self, offset: u64, len: u64) -> io::Result<()> {
        self.file.write_zeros(offset, len)?;
        self.meter.written(&self.path, true, len);
        Ok(())
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

    fn will_read(&self, range: Range<u64>) -> io::Result<super::ReadAhead> {
        self.file.will_read(range)
    }

    fn discard(&self, range: Range<u64>) -> io::Result<bool> {
        self.file.discard(range)
    }

    fn read_aside(&self, range: Range<u64>) -> Option<Vec<u8>> {
        self.file.read_aside(range)
    }

    fn keep_aside(&self, bytes: &[u8], offset: u64) {
        self.file.keep_aside(bytes, offset);
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
        self.file.sync_data()
    }

    fn evict(&self) -> io::Result<()> {
        self.file.evict()
    }
}
