//! The data segments (data-format.md, section 4): which there are, who needs them, and how they go. Where the next extent is
//! put is told in `lanes`.

mod lanes;
mod opened;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};

use crate::base::Clock;
use crate::format::{ExtentRef, FileKind, StoreId, segment_path};
use crate::fs::{File, Fs};
use crate::log::{Damage, LogError, Reserve, list_numbers, open_file};
use lanes::Lanes;
pub use lanes::{Lane, Place};
use opened::Opened;

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
    /// [`LogError::Damaged`] when it is missing or its header is wrong: the caller was told that extents lie in it.
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

/// What is known of a segment. Whoever reads from it holds this.
#[derive(Debug, Default)]
struct Known {
    header_checked: AtomicBool,
}

/// Keeps segments from going while somebody may read from them. It holds no file open, so that it costs nothing to keep.
#[derive(Debug, Clone, Default)]
pub struct Pins {
    _held: Vec<Arc<Known>>,
}

/// How large segments become, and what they leave free.
#[derive(Debug, Clone, Copy)]
pub struct Sizes {
    /// A segment is left behind when it has reached this size, in bytes.
    pub segment_max_bytes: u64,
    /// The headroom that new extents must leave free beside room for a checkpoint ([`Reserve`]), in bytes.
    pub keep_free_bytes: u64,
    /// Segments whose files are kept open, beside those that somebody uses at the moment.
    pub open_max: usize,
}

/// All data segments of a store.
///
/// A segment that nobody writes to, nobody reads from and no record refers to stays so: only what is referred to is ever found
/// by a reader or shared by a copy. That is why it may go once all three have been seen, in this order.
pub struct Segments {
    fs: Arc<dyn Fs>,
    /// The same disk for what is moved.
    moving: Arc<dyn Fs>,
    clock: Arc<dyn Clock>,
    store: StoreId,
    sizes: Sizes,
    reserve: Reserve,
    next_id: AtomicU64,
    /// Those that there are.
    known: RwLock<BTreeMap<u64, Arc<Known>>>,
    opened: Opened,
    lanes: Lanes,
    /// Those that nobody writes to any more and that may lack a footer: left by an earlier run, or by a disk that was full.
    unsealed: Mutex<BTreeSet<u64>>,
    damage: Vec<Damage>,
}

impl Segments {
    /// Looks which segments there are. The newest that were not sealed and have room left are appended to again. `moving` is the
    /// same disk: what is moved is written through it.
    ///
    /// # Errors
    /// Of the disk.
    pub fn open(
        fs: Arc<dyn Fs>,
        moving: Arc<dyn Fs>,
        clock: Arc<dyn Clock>,
        store: StoreId,
        sizes: Sizes,
    ) -> Result<Self, LogError> {
        let ids = list_numbers(fs.as_ref(), FileKind::Segment)?;
        let mut segments = Self {
            fs,
            moving,
            clock,
            store,
            sizes,
            reserve: Reserve::new(sizes.keep_free_bytes),
            next_id: AtomicU64::new(ids.last().map_or(1, |id| id + 1)),
            known: RwLock::new(ids.iter().map(|id| (*id, Arc::default())).collect()),
            opened: Opened::new(sizes.open_max),
            lanes: Lanes::default(),
            unsealed: Mutex::new(ids.into_iter().collect()),
            damage: Vec::new(),
        };
        segments.resume()?;
        Ok(segments)
    }

    /// What kept segments from being appended to again.
    pub fn damage(&self) -> &[Damage] {
        &self.damage
    }

    /// What new extents must leave free.
    pub fn reserve(&self) -> &Reserve {
        &self.reserve
    }

    /// The size at which one is left behind, in bytes.
    pub fn max_bytes(&self) -> u64 {
        self.sizes.segment_max_bytes
    }

    /// The ids of all segments, ascending.
    pub fn ids(&self) -> Vec<u64> {
        self.known.read().expect("nobody panics while holding it").keys().copied().collect()
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.known.read().expect("nobody panics while holding it").len() as u64
    }

    /// The segment `id`. Few are kept open: to read from one for long takes a pin, and asking again.
    ///
    /// # Errors
    /// As of [`Segment::open`].
    pub fn get(&self, id: u64) -> Result<Arc<Segment>, LogError> {
        if let Some(segment) = self.opened.get(id) {
            return Ok(segment);
        }
        let segment = Arc::new(self.with_a_descriptor(|| self.open_known(id))?);
        self.opened.put(&segment);
        Ok(segment)
    }

    /// Opens a segment. Its header is read once: what is read from it afterwards has checksums of its own.
    fn open_known(&self, id: u64) -> Result<Segment, LogError> {
        if !self.known(id).is_some_and(|known| known.header_checked.load(Ordering::Relaxed)) {
            let segment = Segment::open(self.fs.as_ref(), self.store, id)?;
            self.has_good_header(id);
            return Ok(segment);
        }
        match self.fs.open(&segment_path(id)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(missing(id).into()),
            file => Ok(Segment { id, file: file? }),
        }
    }

    fn known(&self, id: u64) -> Option<Arc<Known>> {
        self.known.read().expect("nobody panics while holding it").get(&id).cloned()
    }

    fn has_good_header(&self, id: u64) {
        if let Some(known) = self.known(id) {
            known.header_checked.store(true, Ordering::Relaxed);
        }
    }

    /// Closes the segments that nobody uses at the moment: where descriptors have run out there are some again.
    pub fn close_idle(&self) {
        self.opened.close_idle();
    }

    /// What `open` gives; where there was no descriptor for it, once more with fewer segments open.
    fn with_a_descriptor<T>(&self, open: impl Fn() -> Result<T, LogError>) -> Result<T, LogError> {
        match open() {
            Err(LogError::Exhausted(_)) => {
                self.close_idle();
                open()
            }
            opened => opened,
        }
    }

    /// Keeps the segments that these extents lie in, as far as they are there. It counts only where a record still refers to
    /// the extents when it has been taken: before that they may have died.
    pub fn pin(&self, extents: &[ExtentRef]) -> Pins {
        let known = self.known.read().expect("nobody panics while holding it");
        let mut ids: Vec<u64> = extents.iter().map(|extent| extent.segment).collect();
        ids.dedup();
        if ids.len() > 1 {
            ids.sort_unstable();
            ids.dedup();
        }
        Pins { _held: ids.iter().filter_map(|id| known.get(id).cloned()).collect() }
    }

    /// Whether nobody reads from a segment at this moment: whoever comes later does so because a record refers to it then.
    pub fn is_unread(&self, id: u64) -> bool {
        let known = self.known.read().expect("nobody panics while holding it");
        known.get(&id).is_some_and(|readers| Arc::strong_count(readers) == 1)
    }

    /// Takes away a segment that nobody writes to and no record refers to, unless somebody reads from it. Its name is gone for
    /// good after a sync of the directory.
    ///
    /// The newest segment stays: its id tells the next start which ids have been given, and an id never means two files.
    ///
    /// # Errors
    /// Of the disk; damage where the file is not this segment: somebody else's file is left alone.
    pub fn remove(&self, id: u64) -> Result<bool, LogError> {
        Segment::open(self.fs.as_ref(), self.store, id)?;
        {
            let mut known = self.known.write().expect("nobody panics while holding it");
            let unread = known.get(&id).is_some_and(|readers| Arc::strong_count(readers) == 1);
            if !unread || known.last_key_value().is_some_and(|(newest, _)| *newest == id) {
                return Ok(false);
            }
            known.remove(&id);
        }
        self.opened.forget(id);
        self.unsealed.lock().expect("nobody panics while holding it").remove(&id);
        self.fs.remove(&segment_path(id))?;
        Ok(true)
    }
}
