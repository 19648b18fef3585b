//! The shadow of the log is extended while the store is in use.
//!
//! It may lag, but not behind space that is given back: where live extents were relocated, the log
//! says so in groups that the shadow might lack, and the bytes that it still names would be gone.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use super::{Store, StoreError};
use crate::fs::{DiskPlace, is_there};
use crate::log::{LogError, LogShadow, ShadowProgress, SpaceClaim};
use crate::store::shared::SharedStore;

/// Room that the large disk must have for a step.
const STEP_ROOM_BYTES: u64 = 64 * 1024 * 1024;

/// The shadow of the log of a store on two disks.
pub(super) struct ShadowWriter {
    shadow: Mutex<LogShadow>,
    /// Whether the lack of room was said.
    is_short: AtomicBool,
}

/// What became of a request to extend the shadow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ShadowOutcome {
    Extended(ShadowProgress),
    /// The large disk has no room for it.
    NoRoom,
    /// The log cannot be read, or the shadow is none of this log.
    Damaged,
    /// A checkpoint has taken the place of a file that was about to be read.
    Later,
}

impl ShadowWriter {
    /// The shadow of a store; `None` where there is one disk.
    pub(super) fn of(shared: &SharedStore) -> Option<Self> {
        shared.fs.has_two_disks().then(|| Self {
            shadow: Mutex::new(LogShadow::new(shared.fs.clone(), shared.store)),
            is_short: AtomicBool::new(false),
        })
    }

    fn extend(&self, shared: &SharedStore) -> Result<ShadowOutcome, StoreError> {
        let through = shared.published().sequence;
        let extended = self.try_extend(shared, through);
        match extended {
            Ok(progress) => {
                shared.followers.set_shadowed(progress.covered);
                self.is_short.store(false, Ordering::Relaxed);
                Ok(ShadowOutcome::Extended(progress))
            }
            Err(LogError::DiskFull(error)) => {
                if !self.is_short.swap(true, Ordering::Relaxed) {
                    let covered = shared.followers.shadowed();
                    log::warn!("the shadow of the log ends at group {covered} for now: {error}");
                }
                Ok(ShadowOutcome::NoRoom)
            }
            // The file is gone for good reason: a checkpoint was written meanwhile.
            Err(LogError::Damaged(damage))
                if matches!(is_there(shared.fs.as_ref(), &damage.file), Ok(false)) =>
            {
                Ok(ShadowOutcome::Later)
            }
            Err(LogError::Damaged(damage)) => {
                shared.report(&damage);
                Ok(ShadowOutcome::Damaged)
            }
            Err(LogError::Io(error)) if error.kind() == io::ErrorKind::NotFound => Ok(ShadowOutcome::Later),
            Err(LogError::Exhausted(error)) => Err(shared.failed(LogError::Exhausted(error))),
            // A passed deadline is no error of the disk.
            Err(LogError::Io(error)) if error.kind() == io::ErrorKind::TimedOut => {
                Err(shared.failed(LogError::Io(error)))
            }
            Err(error) => Err(shared.write_failed(error)),
        }
    }

    fn try_extend(&self, shared: &SharedStore, through: u64) -> Result<ShadowProgress, LogError> {
        let room = shared.segments.room_on(DiskPlace::Bulk, SpaceClaim::Upkeep)?;
        if room < STEP_ROOM_BYTES {
            let what = format!("the large disk has {room} bytes for it");
            return Err(LogError::DiskFull(io::Error::new(io::ErrorKind::StorageFull, what)));
        }
        // A call that panicked left nothing that the next one builds on.
        let mut shadow = self.shadow.lock().unwrap_or_else(PoisonError::into_inner);
        shadow.extend(through, &|| shared.check_close_deadline())
    }
}

impl Store {
    /// Extends the shadow of the log by a step, where there are two disks. Durable on return. Returns
    /// whether another step has work to do at once.
    ///
    /// # Errors
    /// [`StoreError::ReadOnly`]; a failed write or sync, after which the store takes no writes. Damage
    /// is reported, and no error, nor is a full disk.
    pub fn shadow_log(&self) -> Result<bool, StoreError> {
        let Some(shadow) = &self.shadow else { return Ok(false) };
        self.shared.check_writable()?;
        Ok(matches!(shadow.extend(&self.shared)?, ShadowOutcome::Extended(progress) if progress.more))
    }

    /// Whether space may be given back that is dead by the group `sequence`: the shadow has that
    /// group, or has no room for it.
    pub(super) fn is_shadowed(&self, sequence: u64) -> Result<bool, StoreError> {
        let Some(shadow) = &self.shadow else { return Ok(true) };
        while self.shared.followers.shadowed() < sequence {
            match shadow.extend(&self.shared)? {
                ShadowOutcome::Extended(_) => {}
                // Space is short, and what is given back here helps.
                ShadowOutcome::NoRoom => return Ok(true),
                ShadowOutcome::Damaged | ShadowOutcome::Later => return Ok(false),
            }
        }
        Ok(true)
    }
}
