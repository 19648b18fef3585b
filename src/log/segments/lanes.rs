//! Where the next extent goes: finding room, rolling and sealing.

use std::collections::{BTreeSet, HashSet};
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard};

use super::{Segment, Segments};
use crate::base::limits::{KIB, MIB, PAGE_BYTES};
use crate::format::{FileHeader, FileKind, Footer, page_ceil};
use crate::fs::Fs;
use crate::log::{Claim, LogError, create_file};

/// Room in a segment is set aside in steps, so that the file system finds it in one piece.
const RESERVE_STEP_BYTES: u64 = 16 * MIB;
/// Room that is only set aside changes the file system's own metadata when it is written to and synced, which takes about
/// as long again as the sync of a small pack. So zeros are written ahead of small packs, in steps; a large one is better
/// written once.
const ZERO_STEP_BYTES: u64 = 256 * KIB;
const ZEROS_FOR_PACKS_TO_BYTES: u64 = 16 * KIB;

/// The kinds of writers. They append to different segments, because a sync of one waits for all that was written to
/// its file: a commit of small objects must not wait for gigabytes on their way in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lane {
    /// Small objects, packed and synced by the committer.
    Pack,
    /// Large objects, written and synced by whoever receives them.
    Stream,
    /// What is moved out of segments that are mostly dead. It has outlived others already, so it is kept apart from what is
    /// new; and it may use a part of the room that is kept free ([`Claim::Upkeep`]), because moving is how room is won.
    Move,
}

impl Lane {
    const ALL: [Self; 3] = [Self::Pack, Self::Stream, Self::Move];

    fn claim(self) -> Claim {
        match self {
            Self::Pack | Self::Stream => Claim::Growth,
            Self::Move => Claim::Upkeep,
        }
    }
}

/// Room for one extent or pack. While any place in a segment is held, the segment is neither sealed nor taken away: a
/// writer keeps it until what it has put there is published, or given up.
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
        self.segment.file.write_zeros(self.offset, self.len)?;
        Ok(self.segment.file.sync_data()?)
    }
}

/// A segment that a lane appends to, or did.
struct Open {
    segment: Arc<Segment>,
    /// Where the next place starts.
    end: u64,
    /// Up to where room has been set aside.
    reserved_to: u64,
    /// Up to where zeros have been written, as far as that is behind the end.
    zeroed_to: u64,
    writing: Arc<()>,
}

impl Open {
    /// What ends at `end`, with nothing ready behind.
    fn new(segment: Arc<Segment>, end: u64) -> Self {
        Self { segment, end, reserved_to: end, zeroed_to: end, writing: Arc::default() }
    }

    /// Writes zeros from a place on, or behind those that are there already, within the room that was set aside.
    fn write_zeros(&mut self, place: &Place) -> io::Result<()> {
        let from = place.offset.max(self.zeroed_to);
        let to = (from + ZERO_STEP_BYTES).min(self.reserved_to);
        self.segment.file.write_zeros(from, to - from)?;
        self.zeroed_to = to;
        Ok(())
    }

    fn take_zeros_back(&self) -> io::Result<()> {
        self.segment.file.truncate(self.end)
    }
}

/// What the lanes append to, and what they have left behind and is not sealed yet.
#[derive(Default)]
pub(super) struct Lanes {
    open: [Mutex<Option<Open>>; Lane::ALL.len()],
    /// Taken behind a lane, never the other way round.
    retired: Mutex<Vec<Open>>,
}

impl Segments {
    /// Finds room for `len` bytes (at most half a segment) in a page of its own.
    ///
    /// # Errors
    /// [`LogError::DiskFull`] when the file system has too little room left.
    pub fn place(&self, lane: Lane, len: u64) -> Result<Place, LogError> {
        let mut state = self.lane(lane);
        if state.as_ref().is_none_or(|open| open.end + len > self.sizes.segment_max_bytes) {
            self.check_free(lane, PAGE_BYTES)?;
            self.roll_to_new(lane, &mut state)?;
        }
        let open = state.as_mut().expect("it was made where it was missing");
        self.set_room_aside(lane, open, len)?;
        let place =
            Place { segment: open.segment.clone(), offset: open.end, len, _writing: open.writing.clone() };
        open.end = page_ceil(open.end + len);
        Ok(place)
    }

    /// Sees to it that a small pack of `len` bytes is written over zeros, where the disk has room for them.
    ///
    /// # Errors
    /// Of the disk.
    pub fn write_zeros_ahead(&self, place: &Place, len: u64) -> Result<(), LogError> {
        let mut state = self.lane(Lane::Pack);
        let lacks_zeros =
            |open: &&mut Open| open.segment.id == place.segment.id && place.offset + len > open.zeroed_to;
        let Some(open) = state.as_mut().filter(lacks_zeros).filter(|_| len <= ZEROS_FOR_PACKS_TO_BYTES)
        else {
            return Ok(());
        };
        match open.write_zeros(place).map_err(LogError::from) {
            // The pack itself may still fit.
            Err(LogError::DiskFull(_)) => Ok(()),
            written => written,
        }
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

    /// The segments that nobody writes to, nor will. They are asked for before it is asked what is referred to: whatever was
    /// written to them has been published by then, or given up.
    pub fn settled(&self) -> Vec<u64> {
        // All at once: a lane that rolls puts its segment from one place to the other.
        let lanes = Lane::ALL.map(|lane| self.lane(lane));
        let retired = self.retired();
        let open = lanes.iter().filter_map(|lane| lane.as_ref()).chain(retired.iter());
        let busy: HashSet<u64> = open.map(|open| open.segment.id).collect();
        let mut ids = self.ids();
        ids.retain(|id| !busy.contains(id));
        ids
    }

    /// Seals the segments that lanes have left behind and that nobody writes to any more. Cheap when there are none.
    ///
    /// # Errors
    /// Of the disk; the segment is then left without a footer, until [`Segments::seal_settled`].
    pub fn seal_retired(&self) -> Result<(), LogError> {
        let mut retired = self.retired();
        for at in (0..retired.len()).rev() {
            if Arc::strong_count(&retired[at].writing) == 1 {
                let open = retired.swap_remove(at);
                self.seal_behind(&open).inspect_err(|_| self.add_unsealed(open.segment.id))?;
            }
        }
        Ok(())
    }

    /// Seals a segment that nobody writes to, if it lacks its footer. A damaged one is not asked for again.
    ///
    /// # Errors
    /// Of the disk; damage where the segment cannot be trusted.
    pub fn seal_settled(&self, id: u64) -> Result<(), LogError> {
        let sealed = self.get(id).and_then(|segment| match segment.footer(&self.store)? {
            None => self.seal(&segment, page_ceil(segment.file.len()?)),
            Some(_) => Ok(()),
        });
        if matches!(sealed, Ok(()) | Err(LogError::Damaged(_))) {
            self.unsealed.lock().expect("nobody panics while holding it").remove(&id);
        }
        sealed
    }

    /// The segments that nobody writes to and of which it is not known that they are sealed.
    pub fn unsealed(&self) -> BTreeSet<u64> {
        self.unsealed.lock().expect("nobody panics while holding it").clone()
    }

    /// Leaves the segments behind that lanes append to and of which `leave` says so; the next place is in a new one.
    pub fn leave(&self, leave: impl Fn(u64) -> bool) {
        for lane in Lane::ALL {
            let mut state = self.lane(lane);
            if let Some(old) = state.take_if(|open| leave(open.segment.id)) {
                self.retired().push(old);
            }
        }
    }

    /// Takes back the zeros behind the ends of segments: whoever opens them next goes on at the ends of the files.
    ///
    /// # Errors
    /// Of the disk.
    pub fn take_zeros_back(&self) -> Result<(), LogError> {
        for lane in Lane::ALL {
            if let Some(open) = self.lane(lane).as_mut().filter(|open| open.zeroed_to > open.end) {
                open.take_zeros_back()?;
                (open.zeroed_to, open.reserved_to) = (open.end, open.end);
            }
        }
        Ok(())
    }

    /// Lets a lane go on in a new segment. That takes one page, also of what is kept free.
    ///
    /// # Errors
    /// Of the disk.
    pub fn roll(&self, lane: Lane) -> Result<(), LogError> {
        self.roll_to_new(lane, &mut self.lane(lane))
    }

    /// How many bytes a lane may still take from the file system.
    ///
    /// # Errors
    /// Of the disk.
    pub fn room(&self, lane: Lane) -> Result<u64, LogError> {
        Ok(self.fs.space()?.free_bytes.saturating_sub(self.reserve.kept_from(lane.claim())))
    }

    /// The zeros that were written ahead go first, and for good: a footer that has them behind it is none.
    fn seal_behind(&self, open: &Open) -> Result<(), LogError> {
        if open.zeroed_to > open.end {
            open.take_zeros_back()?;
            open.segment.file.sync_data()?;
        }
        self.seal(&open.segment, open.end)
    }

    /// Room that was set aside and is not needed goes back, too.
    fn seal(&self, segment: &Segment, end: u64) -> Result<(), LogError> {
        let footer = Footer { segment: segment.id, offset: end };
        segment.file.write_all_at(&footer.encode(&self.store), end)?;
        segment.file.truncate(u64::MAX)?;
        Ok(segment.file.sync_data()?)
    }

    fn add_unsealed(&self, id: u64) {
        self.unsealed.lock().expect("nobody panics while holding it").insert(id);
    }

    fn lane(&self, lane: Lane) -> MutexGuard<'_, Option<Open>> {
        self.lanes.open[lane as usize].lock().expect("nobody panics while holding it")
    }

    fn retired(&self) -> MutexGuard<'_, Vec<Open>> {
        self.lanes.retired.lock().expect("nobody panics while holding it")
    }

    fn roll_to_new(&self, lane: Lane, state: &mut Option<Open>) -> Result<(), LogError> {
        if let Some(old) = state.replace(self.create(lane)?) {
            self.retired().push(old);
        }
        Ok(())
    }

    /// What is moved may be told apart from what is new.
    fn disk_of(&self, lane: Lane) -> &dyn Fs {
        match lane {
            Lane::Pack | Lane::Stream => self.fs.as_ref(),
            Lane::Move => self.moving.as_ref(),
        }
    }

    fn create(&self, lane: Lane) -> Result<Open, LogError> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let header = FileHeader {
            kind: FileKind::Segment,
            store: self.store,
            number: id,
            created: self.clock.now(),
            previous_crc: 0,
        };
        let file = self.with_a_descriptor(|| create_file(self.disk_of(lane), &header, |_| Ok(())))?;
        let segment = Arc::new(Segment { id, file });
        self.known.write().expect("nobody panics while holding it").insert(id, Arc::default());
        self.has_good_header(id);
        self.opened.put(&segment);
        Ok(Open::new(segment, PAGE_BYTES))
    }

    /// A whole step where the disk has it, else just what is needed.
    fn set_room_aside(&self, lane: Lane, open: &mut Open, len: u64) -> Result<(), LogError> {
        let need_to = page_ceil(open.end + len);
        if need_to <= open.reserved_to {
            return Ok(());
        }
        let step_to = (open.reserved_to + RESERVE_STEP_BYTES).min(self.sizes.segment_max_bytes).max(need_to);
        for to in [step_to, need_to] {
            let more = to - open.reserved_to;
            match self
                .check_free(lane, more)
                .and_then(|()| Ok(open.segment.file.secure(open.reserved_to, more)?))
            {
                Ok(zeroed) => {
                    open.reserved_to = to;
                    if zeroed {
                        open.zeroed_to = to;
                    }
                    return Ok(());
                }
                Err(LogError::DiskFull(_)) if to > need_to => {}
                Err(error) => return Err(error),
            }
        }
        unreachable!("the second attempt asks for no more than is needed and returns either way")
    }

    fn check_free(&self, lane: Lane, bytes: u64) -> Result<(), LogError> {
        let free_bytes = self.fs.space()?.free_bytes;
        let keep_free_bytes = self.reserve.kept_from(lane.claim());
        if free_bytes < keep_free_bytes.saturating_add(bytes) {
            let what = format!("{free_bytes} bytes are free, and {keep_free_bytes} are kept back");
            return Err(LogError::DiskFull(io::Error::new(io::ErrorKind::StorageFull, what)));
        }
        Ok(())
    }

    /// The newest segments without a footer go back to the lanes. What lies behind their last byte was never acknowledged,
    /// and what lies before it is never written again, so the next place is the first page behind the end.
    pub(super) fn resume(&mut self) -> Result<(), LogError> {
        let mut lanes = Lane::ALL.into_iter();
        for id in self.ids().into_iter().rev().take(lanes.len()) {
            let segment = match self.get(id) {
                Err(LogError::Damaged(damage)) => {
                    self.damage.push(damage);
                    continue;
                }
                opened => opened?,
            };
            let len = segment.file.len()?;
            if len + PAGE_BYTES > self.sizes.segment_max_bytes || self.is_sealed(&segment)? {
                continue;
            }
            let end = page_ceil(len);
            let lane = lanes.next().expect("no more segments are looked at than there are lanes");
            let file = self.disk_of(lane).open(&segment.path())?;
            *self.lane(lane) = Some(Open::new(Arc::new(Segment { id, file }), end));
            self.unsealed.lock().expect("nobody panics while holding it").remove(&id);
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
