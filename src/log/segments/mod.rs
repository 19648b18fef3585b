//! The data segments (data-format.md, section 4): which ones exist, what pins them, and how they
//! are removed.
//!
//! - `write_head`, `allocate`, `preallocate`: where the next extent goes.
//! - `seal`, `resume`: the end of a segment, and its return to a write head after a restart.
//! - `cache`: the open files.
//! - `disk_usage`: the disk space of all segments.

mod allocate;
mod cache;
mod disk_usage;
mod preallocate;
mod resume;
mod seal;
mod write_head;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};

use crate::base::limits::PAGE_BYTES;
use crate::base::{Clock, NOT_POISONED};
use crate::format::{ExtentRef, FileHeader, FileKind, StoreId, segment_path};
use crate::fs::{File, Fs};
use crate::log::files::check_header;
use crate::log::{Damage, LogError, Reserve, list_numbers, open_file};
use cache::SegmentCache;
use disk_usage::MeasuredBytes;
use write_head::ActiveSegments;
pub use write_head::{Allocation, WriteHead};

/// A segment, open for reading and, while it is not sealed, for writing.
pub struct Segment {
    /// Its id.
    pub id: u64,
    /// Its file.
    pub file: Arc<dyn File>,
}

impl Segment {
    /// Opens the segment `id`.
    ///
    /// # Errors
    /// [`LogError::Damaged`] when it is missing or its header is wrong: a record says that extents
    /// lie in it.
    pub fn open(fs: &dyn Fs, store: StoreId, id: u64) -> Result<Self, LogError> {
        match open_file(fs, FileKind::Segment, id, Some(store)) {
            Err(LogError::Io(error)) if error.kind() == io::ErrorKind::NotFound => Err(missing(id).into()),
            opened => Ok(Self { id, file: opened?.0 }),
        }
    }

    /// The path of its file, for messages.
    pub fn path(&self) -> String {
        segment_path(self.id)
    }
}

fn missing(id: u64) -> Damage {
    Damage::new(segment_path(id), 0, "the segment is missing")
}

/// The state of a segment that exists. Its readers hold references to it.
#[derive(Debug, Default)]
struct SegmentEntry {
    header_checked: AtomicBool,
    allocated_bytes: MeasuredBytes,
}

/// Keeps segments from being removed while they may be read. It holds no file open, so it is cheap
/// to keep.
#[derive(Debug, Clone, Default)]
pub struct SegmentPins {
    _held: Vec<Arc<SegmentEntry>>,
}

/// The sizes and limits of segments.
#[derive(Debug, Clone, Copy)]
pub struct SegmentOptions {
    /// The size in bytes at which a segment is retired.
    pub segment_max_bytes: u64,
    /// The headroom that new extents leave free, in addition to the space for a checkpoint
    /// ([`Reserve`]), in bytes.
    pub keep_free_bytes: u64,
    /// Segment files that are kept open, not counting those in use.
    pub open_max: usize,
}

/// All data segments of a store.
///
/// A segment without writers, readers and references stays without them: readers find extents, and
/// copies share them, only through references. So a segment may be removed once all three have been
/// checked, in this order.
pub struct Segments {
    fs: Arc<dyn Fs>,
    /// The same disk, for relocated extents.
    relocation_fs: Arc<dyn Fs>,
    clock: Arc<dyn Clock>,
    store: StoreId,
    options: SegmentOptions,
    reserve: Reserve,
    next_id: AtomicU64,
    /// The segments that exist.
    known: RwLock<BTreeMap<u64, Arc<SegmentEntry>>>,
    cache: SegmentCache,
    active: ActiveSegments,
    /// The heads whose last allocation was refused for lack of space.
    full: [AtomicBool; WriteHead::ALL.len()],
    /// Immutable segments that may lack a footer: left by an earlier run, or because the disk was
    /// full.
    unsealed: Mutex<BTreeSet<u64>>,
    damage: Vec<Damage>,
    /// The first id that was not given at the opening.
    first_new: u64,
    /// The segments that are appended to again, and where.
    resumed: BTreeMap<u64, u64>,
}

impl Segments {
    /// Lists the segments. The newest unsealed ones with space left are appended to again.
    /// `relocation_fs` is the same disk; relocated extents are written through it.
    ///
    /// # Errors
    /// Of the disk.
    pub fn open(
        fs: Arc<dyn Fs>,
        relocation_fs: Arc<dyn Fs>,
        clock: Arc<dyn Clock>,
        store: StoreId,
        options: SegmentOptions,
    ) -> Result<Self, LogError> {
        let ids = list_numbers(fs.as_ref(), FileKind::Segment)?;
        let first_new = ids.last().map_or(1, |id| id + 1);
        let mut segments = Self {
            fs,
            relocation_fs,
            clock,
            store,
            options,
            reserve: Reserve::new(options.keep_free_bytes),
            next_id: AtomicU64::new(first_new),
            known: RwLock::new(ids.iter().map(|id| (*id, Arc::default())).collect()),
            cache: SegmentCache::new(options.open_max),
            active: ActiveSegments::default(),
            full: Default::default(),
            unsealed: Mutex::new(ids.into_iter().collect()),
            damage: Vec::new(),
            first_new,
            resumed: BTreeMap::new(),
        };
        segments.resume()?;
        Ok(segments)
    }

    /// The damage that kept segments from being appended to again.
    pub fn damage(&self) -> &[Damage] {
        &self.damage
    }

    /// The space that new extents must leave free.
    pub fn reserve(&self) -> &Reserve {
        &self.reserve
    }

    /// The size at which a segment is retired, in bytes.
    pub fn max_bytes(&self) -> u64 {
        self.options.segment_max_bytes
    }

    /// The ids of all segments, ascending.
    pub fn ids(&self) -> Vec<u64> {
        self.known.read().expect(NOT_POISONED).keys().copied().collect()
    }

    /// The bytes of segments that were there at the opening, as ranges that nothing is written to
    /// any more.
    pub fn found(&self) -> Vec<(u64, Range<u64>)> {
        let found = self.ids().into_iter().filter(|id| *id < self.first_new);
        found.map(|id| (id, 0..self.resumed.get(&id).copied().unwrap_or(u64::MAX))).collect()
    }

    /// The number of segments.
    pub fn count(&self) -> u64 {
        self.known.read().expect(NOT_POISONED).len() as u64
    }

    /// The segment `id`. Only a few are kept open: a long read takes a pin and calls this again.
    ///
    /// # Errors
    /// As of [`Segment::open`].
    pub fn get(&self, id: u64) -> Result<Arc<Segment>, LogError> {
        if let Some(segment) = self.cache.get(id) {
            return Ok(segment);
        }
        let segment = Arc::new(self.with_descriptor_retry(|| self.open_known(id))?);
        self.cache.put(&segment);
        Ok(segment)
    }

    /// Opens a segment. Its header is checked once; everything else in it has its own checksums.
    fn open_known(&self, id: u64) -> Result<Segment, LogError> {
        if !self.known(id).is_some_and(|known| known.header_checked.load(Ordering::Relaxed)) {
            let segment = match Segment::open(self.fs.as_ref(), self.store, id) {
                Err(LogError::Damaged(damage)) => self.open_by_copy(id, damage)?,
                opened => opened?,
            };
            self.mark_header_checked(id);
            return Ok(segment);
        }
        match self.fs.open(&segment_path(id)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(missing(id).into()),
            file => Ok(Segment { id, file: file? }),
        }
    }

    /// Opens a segment whose header has that damage, and good bytes elsewhere.
    ///
    /// # Errors
    /// The damage, where there is no good copy; of its host.
    fn open_by_copy(&self, id: u64, damage: Damage) -> Result<Segment, LogError> {
        let file = match self.fs.open(&segment_path(id)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(damage.into()),
            file => file?,
        };
        let segment = Segment { id, file };
        let mut page = vec![0; PAGE_BYTES as usize];
        // A good header of another file is no decay: files were swapped, and these bytes may be the
        // only ones of that one.
        if segment.read_at(&mut page, 0).is_ok() && FileHeader::decode(&page).is_ok() {
            return Err(damage.into());
        }
        segment.read_copy(&mut page, 0, damage, |page| {
            check_header(page, FileKind::Segment, id, Some(self.store)).map(drop)
        })?;
        Ok(segment)
    }

    fn known(&self, id: u64) -> Option<Arc<SegmentEntry>> {
        self.known.read().expect(NOT_POISONED).get(&id).cloned()
    }

    fn mark_header_checked(&self, id: u64) {
        if let Some(known) = self.known(id) {
            known.header_checked.store(true, Ordering::Relaxed);
        }
    }

    /// Closes the segments that are not in use, to free descriptors.
    pub fn close_idle(&self) {
        self.cache.close_idle();
    }

    /// Calls `open`, and again after closing idle segments where it found no descriptor.
    fn with_descriptor_retry<T>(&self, open: impl Fn() -> Result<T, LogError>) -> Result<T, LogError> {
        match open() {
            Err(LogError::Exhausted(_)) => {
                self.close_idle();
                open()
            }
            opened => opened,
        }
    }

    /// Pins the segments of these extents, as far as they exist. The caller must see a reference to
    /// the extents after this call: before it they may have died.
    pub fn pin(&self, extents: &[ExtentRef]) -> SegmentPins {
        let known = self.known.read().expect(NOT_POISONED);
        // Most objects have their extents in one segment, which needs no sort.
        let mut ids: Vec<u64> = extents.iter().map(|extent| extent.segment).collect();
        ids.dedup();
        if ids.len() > 1 {
            ids.sort_unstable();
            ids.dedup();
        }
        SegmentPins { _held: ids.iter().filter_map(|id| known.get(id).cloned()).collect() }
    }

    /// Pins a segment; `None` where it does not exist.
    pub fn pin_segment(&self, id: u64) -> Option<SegmentPins> {
        self.known(id).map(|known| SegmentPins { _held: vec![known] })
    }

    /// Has a segment opened anew from now on, since its file was replaced by another one with the
    /// same bytes.
    pub fn reopen(&self, id: u64) {
        self.cache.remove(id);
        self.forget_allocated_bytes(id);
    }

    /// Whether a segment is unpinned at this moment. Later readers come only through references.
    pub fn is_unpinned(&self, id: u64) -> bool {
        let known = self.known.read().expect(NOT_POISONED);
        known.get(&id).is_some_and(|readers| Arc::strong_count(readers) == 1)
    }

    /// Removes an immutable, unreferenced segment unless it is pinned. Durable after a sync of the
    /// directory.
    ///
    /// The newest segment stays: its id shows the next start which ids have been given, and an id
    /// never means two files.
    ///
    /// # Errors
    /// Of the disk; damage where the file is not this segment: a foreign file is left alone.
    pub fn remove(&self, id: u64) -> Result<bool, LogError> {
        Segment::open(self.fs.as_ref(), self.store, id)?;
        {
            // Locked for writing, so that nobody takes a pin between the look and the end of the
            // entry.
            let mut known = self.known.write().expect(NOT_POISONED);
            let unread = known.get(&id).is_some_and(|readers| Arc::strong_count(readers) == 1);
            if !unread || known.last_key_value().is_some_and(|(newest, _)| *newest == id) {
                return Ok(false);
            }
            known.remove(&id);
        }
        self.cache.remove(id);
        self.unsealed.lock().expect(NOT_POISONED).remove(&id);
        self.fs.remove(&segment_path(id))?;
        Ok(true)
    }
}
