//! The fast one of two disks is kept from filling up: sealed segments move from there to the large
//! one, the oldest first.
//!
//! 1. A segment is copied beside its later name on the large disk, synced, and compared as that disk
//!    has it with what was read.
//! 2. It takes its name there, durably. From then on this file is the segment (`fs/split.rs`).
//! 3. The file on the fast disk goes, and readers open the other one from then on. Those that read
//!    meanwhile keep what they have open.
//!
//! A crash leaves the file on one of the disks, or on both, where it is the same.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Store, StoreError};
use crate::format::{FileKind, segment_path, unfinished};
use crate::fs::{DiskPlace, copy_file};
use crate::log::{LogError, SpaceClaim};

/// A step of the movement.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SegmentMove {
    /// Bytes that were moved.
    pub bytes: u64,
    /// Whether another step has work to do at once.
    pub more: bool,
}

/// The fast one of two disks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FastDiskFigures {
    /// Bytes that are free, and all of them; `None` if it does not say.
    pub space: Option<(u64, u64)>,
    /// Segments that were moved to the large disk since the start.
    pub moved_segments: u64,
    /// Their bytes.
    pub moved_bytes: u64,
}

/// How far the movement is.
#[derive(Default)]
pub(super) struct Movement {
    /// No segment before this one is on the fast disk.
    first: AtomicU64,
    segments: AtomicU64,
    bytes: AtomicU64,
}

impl Store {
    /// The fast one of two disks; `None` where there is one.
    pub fn fast_disk(&self) -> Option<FastDiskFigures> {
        let shared = &self.shared;
        shared.fs.has_two_disks().then(|| FastDiskFigures {
            space: shared.space_on(DiskPlace::Fast),
            moved_segments: self.movement.segments.load(Ordering::Relaxed),
            moved_bytes: self.movement.bytes.load(Ordering::Relaxed),
        })
    }

    /// Moves one segment to the large disk where the fast one is short of space. Durable on return.
    ///
    /// # Errors
    /// [`StoreError::ReadOnly`]; a failed write or sync, after which the store takes no writes. A
    /// segment that cannot be read stays where it is, which is no error, nor is a full disk.
    pub fn move_segment(&self) -> Result<SegmentMove, StoreError> {
        if !self.shared.fs.has_two_disks() || !self.is_fast_short() {
            return Ok(SegmentMove::default());
        }
        self.shared.check_writable()?;
        let Some(id) = self.next_to_move().map_err(|error| self.shared.failed(error))? else {
            return Ok(SegmentMove::default());
        };
        let bytes = self.move_to_bulk(id)?;
        Ok(SegmentMove { bytes, more: bytes > 0 && self.is_fast_short() })
    }

    /// Whether less is free on the fast disk than is to be, or less than the room of two segments:
    /// on a small disk, what is kept for the log alone is more than the former.
    fn is_fast_short(&self) -> bool {
        let Some((free, total)) = self.shared.space_on(DiskPlace::Fast) else { return false };
        let segments = &self.shared.segments;
        let room = segments.room_on(DiskPlace::Fast, SpaceClaim::Growth);
        free < total / 100 * self.shared.options.fast_free_percent
            || room.is_ok_and(|room| room < 2 * segments.max_bytes())
    }

    /// The oldest sealed segment on the fast disk that may move.
    fn next_to_move(&self) -> Result<Option<u64>, LogError> {
        let segments = &self.shared.segments;
        let unsealed = segments.unsealed();
        let mut all_before_moved = true;
        for id in segments.immutable_segments() {
            if id < self.movement.first.load(Ordering::Relaxed) {
                continue;
            }
            if self.shared.fs.place_of(&segment_path(id))? == DiskPlace::Bulk {
                if all_before_moved {
                    self.movement.first.store(id + 1, Ordering::Relaxed);
                }
                continue;
            }
            all_before_moved = false;
            if !unsealed.contains(&id) && self.may_move(id)? {
                return Ok(Some(id));
            }
        }
        Ok(None)
    }

    /// Whether a segment may move: one with a further name is being copied elsewhere, and what is
    /// here of one that the remote has comes and goes.
    fn may_move(&self, id: u64) -> Result<bool, LogError> {
        let links = self.shared.segments.get(id)?.file.usage()?.links;
        Ok(links == 1 && self.shared.index().remote_copy(id).is_none())
    }

    /// Returns the bytes of the segment; 0 if it stays.
    fn move_to_bulk(&self, id: u64) -> Result<u64, StoreError> {
        let shared = &self.shared;
        // A file that was removed meanwhile would come back under its name.
        let Some(_pin) = shared.segments.pin_segment(id) else { return Ok(0) };
        let path = segment_path(id);
        let aside = unfinished(&path);
        let fs = shared.fs.as_ref();
        let from = match fs.open_uncached(&path) {
            Err(error) => return Err(shared.failed(error.into())),
            Ok(from) => from,
        };
        let bytes = from.usage().map_err(|error| shared.failed(error.into()))?.allocated_bytes;
        let room = shared.segments.room_on(DiskPlace::Bulk, SpaceClaim::Upkeep);
        if room.map_err(|error| shared.failed(error))? < bytes {
            log::warn!("{path} stays on the fast disk: the large one has too little space");
            return Ok(0);
        }
        // An earlier try may have left one of the name.
        let _ = fs.remove(&aside);
        match copy_file(from.as_ref(), fs, DiskPlace::Bulk, &aside).map_err(LogError::from) {
            Ok(()) => {}
            Err(LogError::DiskFull(error)) => {
                log::warn!("{path} stays on the fast disk for now: {error}");
                return Ok(0);
            }
            Err(LogError::Io(error)) if error.kind() == io::ErrorKind::InvalidData => {
                log::error!("{path} stays on the fast disk, since it cannot be read: {error}");
                return Ok(0);
            }
            Err(error) => return Err(shared.write_failed(error)),
        }
        let named = fs.rename(&aside, &path).and_then(|()| fs.sync_dir(FileKind::Segment.dir()));
        named.map_err(|error| shared.write_failed(error.into()))?;
        shared.segments.reopen(id);
        self.movement.segments.fetch_add(1, Ordering::Relaxed);
        self.movement.bytes.fetch_add(bytes, Ordering::Relaxed);
        Ok(bytes)
    }
}
