//! The data segments: which there are, where the next extent goes, rolling and sealing (data-format.md, section 4).

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, RwLock};

use crate::base::Clock;
use crate::base::limits::{MIB, PAGE_BYTES};
use crate::format::{FileHeader, FileKind, Footer, StoreId, page_ceil, segment_path};
use crate::fs::{File, Fs};
use crate::log::{Damage, LogError, create_file, list_numbers, open_file};

/// Room in a segment is set aside in steps, so that the file system finds it in one piece.
const RESERVE_STEP_BYTES: u64 = 16 * MIB;

/// The two kinds of writers. They append to different segments, because a sync of one waits for all that was written to
/// its file: a commit of small objects must not wait for gigabytes on their way in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lane {
    /// Small objects, packed and synced by the committer.
    Pack,
    /// Large objects, written and synced by whoever receives them.
    Stream,
}

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
            Err(LogError::Io(error)) if error.kind() == io::ErrorKind::NotFound => {
                Err(Damage::new(segment_path(id), 0, "the segment is missing").into())
            }
            opened => Ok(Self { id, file: opened?.0 }),
        }
    }

    /// The path of its file, for messages.
    pub fn path(&self) -> String {
        segment_path(self.id)
    }
}

/// Room for one extent or pack. While any place in a segment is held, the segment is not sealed.
pub struct Place {
    /// Where.
    pub segment: Arc<Segment>,
    /// From which byte on; the start of a page.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
    _writing: Arc<()>,
}

impl Place {
    /// Takes back an extent that nobody refers to. Durable on return.
    ///
    /// # Errors
    /// Of the disk.
    pub fn clear(&self) -> Result<(), LogError> {
        self.segment.file.write_all_at(&vec![0; self.len as usize], self.offset)?;
        Ok(self.segment.file.sync_data()?)
    }
}

/// The segment that a lane appends to.
struct Open {
    segment: Arc<Segment>,
    /// Where the next place starts.
    end: u64,
    /// Up to where room has been set aside.
    reserved_to: u64,
    writing: Arc<()>,
}

/// All data segments of a store.
pub struct Segments {
    fs: Arc<dyn Fs>,
    clock: Arc<dyn Clock>,
    store: StoreId,
    segment_max_bytes: u64,
    /// Bytes of the file system that new extents must leave free.
    keep_free_bytes: u64,
    next_id: AtomicU64,
    ids: RwLock<BTreeSet<u64>>,
    opened: RwLock<HashMap<u64, Arc<Segment>>>,
    lanes: [Mutex<Option<Open>>; 2],
    retired: Mutex<Vec<Open>>,
    damage: Vec<Damage>,
}

impl Segments {
    /// Looks which segments there are. Those that were not sealed and have room left are appended to again.
    ///
    /// # Errors
    /// Of the disk.
    pub fn open(
        fs: Arc<dyn Fs>,
        clock: Arc<dyn Clock>,
        store: StoreId,
        segment_max_bytes: u64,
        keep_free_bytes: u64,
    ) -> Result<Self, LogError> {
        let ids: BTreeSet<u64> = list_numbers(fs.as_ref(), FileKind::Segment)?.into_iter().collect();
        let mut segments = Self {
            fs,
            clock,
            store,
            segment_max_bytes,
            keep_free_bytes,
            next_id: AtomicU64::new(ids.last().map_or(1, |id| id + 1)),
            ids: RwLock::new(ids),
            opened: RwLock::default(),
            lanes: [Mutex::default(), Mutex::default()],
            retired: Mutex::default(),
            damage: Vec::new(),
        };
        segments.resume()?;
        Ok(segments)
    }

    /// What kept segments from being appended to again.
    pub fn damage(&self) -> &[Damage] {
        &self.damage
    }

    /// The ids of all segments, ascending.
    pub fn ids(&self) -> Vec<u64> {
        self.ids.read().expect("nobody panics while holding it").iter().copied().collect()
    }

    /// The segment `id`.
    ///
    /// # Errors
    /// As of [`Segment::open`].
    pub fn get(&self, id: u64) -> Result<Arc<Segment>, LogError> {
        if let Some(segment) = self.opened.read().expect("nobody panics while holding it").get(&id) {
            return Ok(segment.clone());
        }
        let segment = Segment::open(self.fs.as_ref(), self.store, id)?;
        let mut opened = self.opened.write().expect("nobody panics while holding it");
        Ok(opened.entry(id).or_insert_with(|| Arc::new(segment)).clone())
    }

    /// Finds room for `len` bytes (at most half a segment) in a page of its own.
    ///
    /// # Errors
    /// [`LogError::DiskFull`] when the file system has too little room left.
    pub fn place(&self, lane: Lane, len: u64) -> Result<Place, LogError> {
        let mut state = self.lane(lane);
        if state.as_ref().is_none_or(|open| open.end + len > self.segment_max_bytes) {
            let next = self.create()?;
            if let Some(old) = state.replace(next) {
                self.retired.lock().expect("nobody panics while holding it").push(old);
            }
        }
        let open = state.as_mut().expect("it was made where it was missing");
        self.set_room_aside(open, len)?;
        let place =
            Place { segment: open.segment.clone(), offset: open.end, len, _writing: open.writing.clone() };
        open.end = page_ceil(open.end + len);
        Ok(place)
    }

    /// Gives back what lies behind the first `used` bytes of a place, if nothing has been placed behind it since.
    pub fn give_back(&self, lane: Lane, place: &Place, used: u64) {
        let mut state = self.lane(lane);
        let behind = page_ceil(place.offset + place.len);
        if let Some(open) =
            state.as_mut().filter(|open| open.segment.id == place.segment.id && open.end == behind)
        {
            open.end = page_ceil(place.offset + used);
        }
    }

    /// Seals the segments that lanes have left behind and that nobody writes to any more. Cheap when there are none.
    ///
    /// # Errors
    /// Of the disk; the segment is then left without a footer.
    pub fn seal_retired(&self) -> Result<(), LogError> {
        let mut retired = self.retired.lock().expect("nobody panics while holding it");
        for at in (0..retired.len()).rev() {
            if Arc::strong_count(&retired[at].writing) == 1 {
                self.seal(&retired.swap_remove(at))?;
            }
        }
        Ok(())
    }

    fn seal(&self, open: &Open) -> Result<(), LogError> {
        let footer = Footer { segment: open.segment.id, offset: open.end };
        open.segment.file.write_all_at(&footer.encode(&self.store), open.end)?;
        Ok(open.segment.file.sync_data()?)
    }

    fn lane(&self, lane: Lane) -> MutexGuard<'_, Option<Open>> {
        let at = match lane {
            Lane::Pack => 0,
            Lane::Stream => 1,
        };
        self.lanes[at].lock().expect("nobody panics while holding it")
    }

    fn create(&self) -> Result<Open, LogError> {
        self.check_free(PAGE_BYTES)?;
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let header = FileHeader {
            kind: FileKind::Segment,
            store: self.store,
            number: id,
            created: self.clock.now(),
            previous_crc: 0,
        };
        let file = create_file(self.fs.as_ref(), &header, |_| Ok(()))?;
        let segment = Arc::new(Segment { id, file });
        self.ids.write().expect("nobody panics while holding it").insert(id);
        self.opened.write().expect("nobody panics while holding it").insert(id, segment.clone());
        Ok(Open { segment, end: PAGE_BYTES, reserved_to: PAGE_BYTES, writing: Arc::default() })
    }

    /// A whole step where the disk has it, else just what is needed.
    fn set_room_aside(&self, open: &mut Open, len: u64) -> Result<(), LogError> {
        let need_to = page_ceil(open.end + len);
        if need_to <= open.reserved_to {
            return Ok(());
        }
        let step_to = (open.reserved_to + RESERVE_STEP_BYTES).min(self.segment_max_bytes).max(need_to);
        for to in [step_to, need_to] {
            let more = to - open.reserved_to;
            match self
                .check_free(more)
                .and_then(|()| Ok(open.segment.file.reserve(open.reserved_to, more)?))
            {
                Ok(()) => {
                    open.reserved_to = to;
                    return Ok(());
                }
                Err(LogError::DiskFull(_)) if to > need_to => {}
                Err(error) => return Err(error),
            }
        }
        unreachable!("the second attempt asks for no more than is needed and returns either way")
    }

    fn check_free(&self, bytes: u64) -> Result<(), LogError> {
        let free_bytes = self.fs.space()?.free_bytes;
        if free_bytes < self.keep_free_bytes.saturating_add(bytes) {
            let what = format!("{free_bytes} bytes are free, and {} are kept back", self.keep_free_bytes);
            return Err(LogError::DiskFull(io::Error::new(io::ErrorKind::StorageFull, what)));
        }
        Ok(())
    }

    /// The newest segments without a footer go back to the lanes. What lies behind their last byte was never acknowledged,
    /// and what lies before it is never written again, so the next place is the first page behind the end.
    fn resume(&mut self) -> Result<(), LogError> {
        let mut lanes = [Lane::Pack, Lane::Stream].into_iter();
        for id in self.ids().into_iter().rev().take(lanes.len()) {
            let segment = match self.get(id) {
                Err(LogError::Damaged(damage)) => {
                    self.damage.push(damage);
                    continue;
                }
                opened => opened?,
            };
            let len = segment.file.len()?;
            if len + PAGE_BYTES > self.segment_max_bytes || self.is_sealed(&segment)? {
                continue;
            }
            let end = page_ceil(len);
            let lane = lanes.next().expect("no more segments are looked at than there are lanes");
            *self.lane(lane) = Some(Open { segment, end, reserved_to: end, writing: Arc::default() });
        }
        Ok(())
    }

    /// One with a bad footer was sealed, too.
    fn is_sealed(&self, segment: &Segment) -> Result<bool, LogError> {
        match segment.footer(&self.store) {
            Err(LogError::Damaged(_)) => Ok(true),
            footer => Ok(footer?.is_some()),
        }
    }
}
