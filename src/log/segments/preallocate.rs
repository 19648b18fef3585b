//! Preallocating space in active segments, and zeros for small packs.

use std::io;

use super::write_head::ActiveSegment;
use super::{Allocation, Segments, WriteHead};
use crate::base::limits::{KIB, MIB};
use crate::format::page_ceil;
use crate::fs::DiskPlace;
use crate::log::{LogError, SpaceClaim};

/// Space is preallocated in steps of this size, so that the file system finds it in one piece.
const RESERVE_STEP_BYTES: u64 = 16 * MIB;
/// Zeros are written in steps of this size. The first write to preallocated space changes the file
/// system's metadata; a sync then takes about twice as long as one of a small pack that overwrites
/// zeros.
const ZERO_STEP_BYTES: u64 = 256 * KIB;
/// Packs above this size are written without zeros: writing them once is cheaper.
const ZEROS_FOR_PACKS_TO_BYTES: u64 = 16 * KIB;

impl ActiveSegment {
    /// Writes zeros from the start of an allocation, or after existing zeros, within the
    /// preallocated space.
    fn write_zeros(&mut self, allocation: &Allocation) -> io::Result<()> {
        let from = allocation.offset.max(self.zeroed_to);
        let to = (from + ZERO_STEP_BYTES).min(self.reserved_to);
        self.segment.file.write_zeros(from, to - from)?;
        self.zeroed_to = to;
        Ok(())
    }
}

impl Segments {
    /// Writes zeros for a small pack of `len` bytes to overwrite, where the disk has space for
    /// them.
    ///
    /// # Errors
    /// Of the disk.
    pub fn write_zeros_ahead(&self, allocation: &Allocation, len: u64) -> Result<(), LogError> {
        if len > ZEROS_FOR_PACKS_TO_BYTES {
            return Ok(());
        }
        let mut state = self.active.head(WriteHead::Small);
        let Some(active) = state.as_mut().filter(|active| active.segment.id == allocation.segment.id) else {
            return Ok(());
        };
        if allocation.offset + len <= active.zeroed_to {
            return Ok(());
        }
        match active.write_zeros(allocation).map_err(LogError::from) {
            // The pack itself may still fit.
            Err(LogError::DiskFull(_)) => Ok(()),
            written => written,
        }
    }

    /// Truncates the zeros after the ends of active segments: the next process appends at the ends
    /// of the files.
    ///
    /// # Errors
    /// Of the disk.
    pub fn trim_zeros(&self) -> Result<(), LogError> {
        for head in WriteHead::ALL {
            if let Some(active) =
                self.active.head(head).as_mut().filter(|active| active.zeroed_to > active.end)
            {
                active.trim_zeros()?;
                (active.zeroed_to, active.reserved_to) = (active.end, active.end);
            }
        }
        Ok(())
    }

    /// Bytes that a write head may still take from the file system.
    ///
    /// # Errors
    /// Of the disk.
    pub fn available_bytes(&self, head: WriteHead) -> Result<u64, LogError> {
        self.room_on(self.place_of(head), head.claim())
    }

    /// The disk that a head appends to, or would begin a segment on.
    fn place_of(&self, head: WriteHead) -> DiskPlace {
        self.active.head(head).as_ref().map_or(head.place(), |active| active.place)
    }

    /// Bytes that a claim may take on a disk.
    ///
    /// # Errors
    /// As of [`Segments::free_bytes`].
    pub fn room_on(&self, place: DiskPlace, claim: SpaceClaim) -> Result<u64, LogError> {
        let free_bytes = self.free_bytes_on(place)?;
        if place == DiskPlace::Bulk && self.fs.has_two_disks() {
            return Ok(self.reserve.room_beside_checkpoint(free_bytes, claim));
        }
        Ok(self.reserve.room(free_bytes, claim))
    }

    fn free_bytes_on(&self, place: DiskPlace) -> Result<u64, LogError> {
        self.fs.space_on(place).map(|space| space.free_bytes).map_err(LogError::Exhausted)
    }

    /// Bytes that are free on the file system with the log.
    ///
    /// # Errors
    /// [`LogError::Exhausted`] if it does not say. Nothing was written, so that the disk is as it
    /// was.
    pub fn free_bytes(&self) -> Result<u64, LogError> {
        self.free_bytes_on(DiskPlace::Fast)
    }

    /// Preallocates `len` bytes: a whole step if the disk has the space, else the exact need.
    pub(super) fn preallocate(
        &self,
        head: WriteHead,
        active: &mut ActiveSegment,
        len: u64,
    ) -> Result<(), LogError> {
        let need_to = page_ceil(active.end + len);
        if need_to <= active.reserved_to {
            return Ok(());
        }
        let step_to =
            (active.reserved_to + RESERVE_STEP_BYTES).min(self.options.segment_max_bytes).max(need_to);
        match self.preallocate_to(head, active, step_to) {
            Err(LogError::DiskFull(_)) if step_to > need_to => self.preallocate_to(head, active, need_to),
            done => done,
        }
    }

    fn preallocate_to(&self, head: WriteHead, active: &mut ActiveSegment, to: u64) -> Result<(), LogError> {
        let more = to - active.reserved_to;
        self.check_free(head, active.place, more)?;
        let zeroed = active.segment.file.ensure_allocated(active.reserved_to, more)?;
        // Only once the space is there: after an error it is asked for again.
        active.reserved_to = to;
        if zeroed {
            active.zeroed_to = to;
        }
        if head.claim() == SpaceClaim::Growth {
            self.reserve.take_growth(more);
        }
        Ok(())
    }

    pub(super) fn check_free(&self, head: WriteHead, place: DiskPlace, bytes: u64) -> Result<(), LogError> {
        let room = self.room_on(place, head.claim())?;
        if room < bytes {
            let free_bytes = self.free_bytes_on(place)?;
            let what = format!("{free_bytes} bytes are free, of which {room} may be taken");
            return Err(LogError::DiskFull(io::Error::new(io::ErrorKind::StorageFull, what)));
        }
        Ok(())
    }
}
