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

use std::collections::BTreeSet;
use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Store, StoreError};
use crate::base::NOT_POISONED;
use crate::format::{FileKind, segment_path, unfinished};
use crate::fs::{DiskPlace, Fs, copy_file};
use crate::log::{Damage, LogError, SpaceClaim};

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
    /// Durable groups of the log that its shadow on the large disk lacks.
    pub shadow_lag_groups: u64,
    /// Whether the shadow was given up for some minutes, for lack of space or for its damage.
    pub is_shadow_given_up: bool,
}

/// How far the movement is.
#[derive(Default)]
pub(super) struct Movement {
    /// No segment before this one is on the fast disk.
    first: AtomicU64,
    segments: AtomicU64,
    bytes: AtomicU64,
    /// Segments that cannot be read, which stay until the next start.
    unreadable: Mutex<BTreeSet<u64>>,
}

/// What came of a segment that was to move.
enum MoveOutcome {
    /// It moved, with these bytes.
    Moved(u64),
    /// It stays.
    Unreadable,
    /// It stays for now.
    Later,
}

impl Store {
    /// The fast one of two disks; `None` where there is one.
    pub fn fast_disk(&self) -> Option<FastDiskFigures> {
        let shared = &self.shared;
        let shadowed = shared.followers.shadowed();
        shared.fs.has_two_disks().then(|| FastDiskFigures {
            space: shared.space_on(DiskPlace::Fast),
            moved_segments: self.movement.segments.load(Ordering::Relaxed),
            moved_bytes: self.movement.bytes.load(Ordering::Relaxed),
            shadow_lag_groups: shared.published().sequence.saturating_sub(shadowed.unwrap_or(0)),
            is_shadow_given_up: shadowed.is_none(),
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
        match self.move_to_bulk(id)? {
            MoveOutcome::Moved(bytes) => {
                self.movement.segments.fetch_add(1, Ordering::Relaxed);
                self.movement.bytes.fetch_add(bytes, Ordering::Relaxed);
                Ok(SegmentMove { bytes, more: self.is_fast_short() })
            }
            MoveOutcome::Unreadable => {
                self.movement.unreadable.lock().expect(NOT_POISONED).insert(id);
                Ok(SegmentMove { bytes: 0, more: true })
            }
            MoveOutcome::Later => Ok(SegmentMove::default()),
        }
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
            let place = match self.shared.fs.place_of(&segment_path(id)) {
                // Removed since the list was made.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                place => place?,
            };
            if place == DiskPlace::Bulk {
                if all_before_moved {
                    self.movement.first.store(id + 1, Ordering::Relaxed);
                }
                continue;
            }
            all_before_moved = false;
            let is_unreadable = self.movement.unreadable.lock().expect(NOT_POISONED).contains(&id);
            if !unsealed.contains(&id) && !is_unreadable && self.has_one_name(id)? {
                return Ok(Some(id));
            }
        }
        Ok(None)
    }

    /// Whether a segment has no further name, under which it is being copied elsewhere.
    fn has_one_name(&self, id: u64) -> Result<bool, LogError> {
        Ok(self.shared.fs.open_read(&segment_path(id))?.usage()?.links == 1)
    }

    fn move_to_bulk(&self, id: u64) -> Result<MoveOutcome, StoreError> {
        let shared = &self.shared;
        // A file that was removed meanwhile would come back under its name.
        let Some(_pin) = shared.segments.pin_segment(id) else { return Ok(MoveOutcome::Later) };
        let moved = match &self.tier {
            // What is here of a segment on the remote may be part of it.
            Some(tier) => tier.replace_file(id, |fs| self.copy_to_bulk(fs, id)),
            None => self.copy_and_name(id).map(Some),
        };
        let path = segment_path(id);
        match moved {
            Ok(Some(bytes)) => {
                shared.segments.reopen(id);
                Ok(MoveOutcome::Moved(bytes))
            }
            Ok(None) => Ok(MoveOutcome::Later),
            Err(LogError::DiskFull(error) | LogError::Exhausted(error)) => {
                log::warn!("{path} stays on the fast disk for now: {error}");
                Ok(MoveOutcome::Later)
            }
            Err(LogError::Damaged(damage)) => {
                log::error!("{path} stays on the fast disk: {damage}");
                Ok(MoveOutcome::Unreadable)
            }
            Err(error) => Err(shared.write_failed(error)),
        }
    }

    /// Writes a copy of the file of a segment beside its later name on the large disk. Returns the
    /// space that it takes, in bytes.
    fn copy_to_bulk(&self, fs: &dyn Fs, id: u64) -> Result<u64, LogError> {
        let path = segment_path(id);
        let from = fs.open_uncached(&path)?;
        let bytes = from.usage()?.allocated_bytes;
        let room = self.shared.segments.room_on(DiskPlace::Bulk, SpaceClaim::Upkeep)?;
        if room < bytes {
            let what = format!("the large disk has {room} bytes for it, and it takes {bytes}");
            return Err(LogError::DiskFull(io::Error::new(io::ErrorKind::StorageFull, what)));
        }
        // An earlier try may have left one of the name.
        let _ = fs.remove(&unfinished(&path));
        match copy_file(from.as_ref(), fs, DiskPlace::Bulk, &unfinished(&path)) {
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                Err(Damage::new(path, 0, error.to_string()).into())
            }
            copied => Ok(copied.map(|()| bytes)?),
        }
    }

    /// As [`Store::copy_to_bulk`], and gives the copy its name, durably.
    fn copy_and_name(&self, id: u64) -> Result<u64, LogError> {
        let fs = self.shared.fs.as_ref();
        let bytes = self.copy_to_bulk(fs, id)?;
        let path = segment_path(id);
        fs.rename(&unfinished(&path), &path)?;
        fs.sync_dir(FileKind::Segment.dir())?;
        Ok(bytes)
    }
}
