//! A file system whose segments may have their bytes on the remote.

use std::io;
use std::sync::Arc;

use super::Tier;
use super::cold_file::ColdFile;
use crate::format::{FileKind, number_of, unfinished};
use crate::fs::{File, Fs, forward_fs};

/// Opens segments as [`ColdFile`]s, and everything else as it is.
pub(in crate::store) struct TieredFs {
    fs: Arc<dyn Fs>,
    tier: Arc<Tier>,
}

impl TieredFs {
    pub(super) fn new(fs: Arc<dyn Fs>, tier: Arc<Tier>) -> Self {
        Self { fs, tier }
    }

    fn wrap(&self, path: &str, file: Arc<dyn File>, is_writable: bool) -> Arc<dyn File> {
        match segment_of(path) {
            None => file,
            Some(id) => {
                Arc::new(ColdFile { file, is_writable, cache: self.tier.cache(id), tier: self.tier.clone() })
            }
        }
    }
}

/// The segment that a path names, if it does, also while it is made.
fn segment_of(path: &str) -> Option<u64> {
    let name = path
        .strip_suffix(&unfinished(""))
        .unwrap_or(path)
        .strip_prefix(FileKind::Segment.dir())?
        .strip_prefix('/')?;
    number_of(FileKind::Segment, name)
}

impl Fs for TieredFs {
    fn create(&self, path: &str) -> io::Result<Arc<dyn File>> {
        Ok(self.wrap(path, self.fs.create(path)?, true))
    }

    fn open(&self, path: &str) -> io::Result<Arc<dyn File>> {
        Ok(self.wrap(path, self.fs.open(path)?, true))
    }

    fn open_read(&self, path: &str) -> io::Result<Arc<dyn File>> {
        Ok(self.wrap(path, self.fs.open_read(path)?, false))
    }

    fn open_uncached(&self, path: &str) -> io::Result<Arc<dyn File>> {
        Ok(self.wrap(path, self.fs.open_uncached(path)?, false))
    }

    forward_fs!(fs: list, create_dir, rename, link, sync_dir, lock, space);

    fn remove(&self, path: &str) -> io::Result<()> {
        let segment = segment_of(path);
        // The tables first, so that none outlives its segment.
        segment.map_or(Ok(()), |id| self.tier.remove_tables(id))?;
        self.fs.remove(path)?;
        if let Some(id) = segment {
            self.tier.forget(id);
        }
        Ok(())
    }
}
