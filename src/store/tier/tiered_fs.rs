//! A file system whose segments may have their bytes on the remote.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Tier;
use super::cold_file::ColdFile;
use super::segment_cache::LocalCache;
use crate::format::{FileKind, number_of, unfinished};
use crate::fs::{DiskPlace, File, Fs, forward_fs};

/// Opens segments as [`ColdFile`]s, and everything else as it is.
pub(in crate::store) struct TieredFs {
    fs: Arc<dyn Fs>,
    tier: Arc<Tier>,
}

impl TieredFs {
    pub(super) fn new(fs: Arc<dyn Fs>, tier: Arc<Tier>) -> Self {
        Self { fs, tier }
    }

    /// What is known of the segment that a path names, if it does. Asked for before the file is
    /// opened: one that is replaced in between passes for the older file, whose pages count for
    /// nothing, and never the other way round.
    fn cache_of(&self, path: &str) -> Option<SegmentAtOpen> {
        let cache = self.tier.cache(segment_of(path)?);
        let generation = cache.generation.load(Ordering::Acquire);
        Some(SegmentAtOpen { cache, generation })
    }

    fn wrap(&self, file: Arc<dyn File>, segment: Option<SegmentAtOpen>, is_writable: bool) -> Arc<dyn File> {
        match segment {
            None => file,
            Some(SegmentAtOpen { cache, generation }) => {
                Arc::new(ColdFile { file, is_writable, cache, generation, tier: self.tier.clone() })
            }
        }
    }
}

/// A segment at the moment when its file is opened.
struct SegmentAtOpen {
    cache: Arc<LocalCache>,
    generation: u64,
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
    fn create_on(&self, place: DiskPlace, path: &str) -> io::Result<Arc<dyn File>> {
        let segment = self.cache_of(path);
        Ok(self.wrap(self.fs.create_on(place, path)?, segment, true))
    }

    fn open(&self, path: &str) -> io::Result<Arc<dyn File>> {
        let segment = self.cache_of(path);
        Ok(self.wrap(self.fs.open(path)?, segment, true))
    }

    fn open_read(&self, path: &str) -> io::Result<Arc<dyn File>> {
        let segment = self.cache_of(path);
        Ok(self.wrap(self.fs.open_read(path)?, segment, false))
    }

    fn open_uncached(&self, path: &str) -> io::Result<Arc<dyn File>> {
        let segment = self.cache_of(path);
        Ok(self.wrap(self.fs.open_uncached(path)?, segment, false))
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
