//! Allocating space for extents, and moving write heads to new segments.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::write_head::ActiveSegment;
use super::{Allocation, Segment, Segments, WriteHead};
use crate::base::NOT_POISONED;
use crate::base::limits::PAGE_BYTES;
use crate::format::{Features, FileHeader, FileKind, page_ceil};
use crate::fs::DiskPlace;
use crate::log::LogError;
use crate::log::files::create_file_on;

impl Segments {
    /// Allocates `len` bytes (at most half a segment), starting at a page.
    ///
    /// # Errors
    /// [`LogError::DiskFull`] when the file system has too little space left.
    pub fn allocate(&self, head: WriteHead, len: u64) -> Result<Allocation, LogError> {
        let outcome = self.allocate_in(head, len);
        self.full[head as usize].store(matches!(outcome, Err(LogError::DiskFull(_))), Ordering::Relaxed);
        outcome
    }

    /// Whether a head needs a file that the file system has no inode for, or was refused space and
    /// would be still. Without such a refusal nothing is tried: there is no other way to learn what
    /// else the file system lacks, such as space by a quota of its own.
    ///
    /// # Errors
    /// As [`Segments::allocate`], except for a full disk.
    pub fn refuses_growth(&self) -> Result<bool, LogError> {
        for head in [WriteHead::Small, WriteHead::Large] {
            let space = self.fs.space_on(head.place()).map_err(LogError::Exhausted)?;
            if space.free_files == Some(0) && self.needs_segment(head, PAGE_BYTES) {
                return Ok(true);
            }
            if !self.full[head as usize].load(Ordering::Relaxed) {
                continue;
            }
            match self.allocate(head, PAGE_BYTES) {
                Ok(allocation) => self.release_unused(head, &allocation, 0),
                Err(LogError::DiskFull(_)) => return Ok(true),
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }

    /// Whether an allocation of `len` bytes takes a new segment.
    fn needs_segment(&self, head: WriteHead, len: u64) -> bool {
        !self.has_room(self.active.head(head).as_ref(), len)
    }

    fn has_room(&self, active: Option<&ActiveSegment>, len: u64) -> bool {
        active.is_some_and(|active| active.end + len <= self.options.segment_max_bytes)
    }

    fn allocate_in(&self, head: WriteHead, len: u64) -> Result<Allocation, LogError> {
        let mut state = self.active.head(head);
        if !self.has_room(state.as_ref(), len) {
            self.check_free(head, self.place_for_new(head)?, PAGE_BYTES)?;
            self.roll_to_new(head, &mut state)?;
        }
        let active = state.as_mut().expect("a missing segment has been created");
        self.preallocate(head, active, len)?;
        let allocation = Allocation {
            segment: active.segment.clone(),
            offset: active.end,
            len,
            _writing: active.writing.clone(),
        };
        active.end = page_ceil(active.end + len);
        Ok(allocation)
    }

    /// Frees the bytes after the first `used` of an allocation, if it is still the last one in its
    /// segment.
    pub fn release_unused(&self, head: WriteHead, allocation: &Allocation, used: u64) {
        let mut state = self.active.head(head);
        let end = page_ceil(allocation.offset + allocation.len);
        if let Some(active) =
            state.as_mut().filter(|active| active.segment.id == allocation.segment.id && active.end == end)
        {
            active.end = page_ceil(allocation.offset + used);
        }
    }

    /// Moves a write head to a new segment. That takes one page, also from the space that is kept
    /// free.
    ///
    /// # Errors
    /// Of the disk.
    pub fn roll(&self, head: WriteHead) -> Result<(), LogError> {
        self.roll_to_new(head, &mut self.active.head(head))
    }

    /// Moves the write heads on from active segments that `is_due` selects by id. A head stays
    /// where there is no inode for a new segment: it can go on in the old one, but not without any.
    /// Where there is no space, it leaves the old one all the same, whose preallocated space is
    /// free then.
    ///
    /// # Errors
    /// Of the disk.
    pub fn replace(&self, is_due: impl Fn(u64) -> bool) -> Result<(), LogError> {
        for head in WriteHead::ALL {
            let mut state = self.active.head(head);
            let Some(place) = state.as_ref().filter(|active| is_due(active.segment.id)).map(|it| it.place)
            else {
                continue;
            };
            match self.roll_to_new(head, &mut state) {
                Ok(()) => {}
                Err(LogError::DiskFull(_)) if self.room_on(place, head.claim())? < PAGE_BYTES => {
                    self.active.retired().extend(state.take());
                }
                Err(LogError::DiskFull(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Retires the active segments that `is_due` selects by id; the next allocation is in a new
    /// segment.
    pub fn retire(&self, is_due: impl Fn(u64) -> bool) {
        for head in WriteHead::ALL {
            let mut state = self.active.head(head);
            if let Some(old) = state.take_if(|active| is_due(active.segment.id)) {
                self.active.retired().push(old);
            }
        }
    }

    fn roll_to_new(&self, head: WriteHead, state: &mut Option<ActiveSegment>) -> Result<(), LogError> {
        // The new segment first: on a full disk the head keeps the old one.
        if let Some(old) = state.replace(self.create(head)?) {
            self.active.retired().push(old);
        }
        Ok(())
    }

    /// The disk for a new segment: that of the head, or the large one where the fast one has no
    /// room for a whole segment. Small objects are slower then, and not refused.
    fn place_for_new(&self, head: WriteHead) -> Result<DiskPlace, LogError> {
        let place = head.place();
        if place == DiskPlace::Bulk || !self.fs.has_two_disks() {
            return Ok(place);
        }
        let room = self.room_on(place, head.claim())?;
        Ok(if room < self.options.segment_max_bytes { DiskPlace::Bulk } else { place })
    }

    fn create(&self, head: WriteHead) -> Result<ActiveSegment, LogError> {
        let place = self.place_for_new(head)?;
        // Used up even where the file cannot be made: an id never means two files.
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let header = FileHeader {
            kind: FileKind::Segment,
            store: self.store,
            number: id,
            features: Features::NONE,
            created: self.clock.now(),
            previous_crc: 0,
        };
        // The file is durable before its id is known: what a reader finds in the list is there.
        let file = self.with_descriptor_retry(|| create_file_on(self.fs_of(head), place, &header))?;
        let segment = Arc::new(Segment { id, file });
        self.known.write().expect(NOT_POISONED).insert(id, Arc::default());
        self.mark_header_checked(id);
        self.cache.put(&segment);
        Ok(ActiveSegment::new(segment, place, PAGE_BYTES))
    }
}
