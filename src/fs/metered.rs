//! A file system that counts the bytes written through it.

use std::io;
use std::sync::Arc;

use super::{DiskPlace, File, Fs, forward_file, forward_fs};

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
    fn create_on(&self, place: DiskPlace, path: &str) -> io::Result<Arc<dyn File>> {
        Ok(self.metered(path, self.fs.create_on(place, path)?))
    }

    fn open(&self, path: &str) -> io::Result<Arc<dyn File>> {
        Ok(self.metered(path, self.fs.open(path)?))
    }

    forward_fs!(fs: open_read, open_uncached, list, create_dir, rename, link, remove, sync_dir, lock, space);
}

struct MeteredFile {
    file: Arc<dyn File>,
    path: String,
    meter: Arc<dyn WriteMeter>,
}

impl File for MeteredFile {
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

    forward_file!(file: len, read_exact_at, reserve, truncate, punch, next_hole, elsewhere, lock_shared);
    forward_file!(file: has_shared_lock, usage, start_writeback, sync_data, evict);
}
