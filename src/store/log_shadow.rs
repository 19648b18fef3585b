//! The shadow of the log is extended while the store is in use.
//!
//! It may lag, but not behind space that is given back: where live extents were relocated, or left for
//! a remote, the log says so in groups that the shadow might lack, and the bytes that it still names
//! would be gone. So the reclaimer and the tier wait for it.
//!
//! On a full disk, and where it is damaged, it is given up for some time: it is removed, since an old one
//! would be believed, and nobody waits for it. The store goes on: the shadow is a copy. Where a disk
//! fails, it stays: it may be needed soon.

use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::{Store, StoreError};
use crate::format::SHADOW;
use crate::fs::{DiskPlace, is_there};
use crate::log::{LogError, LogShadow, ShadowProgress, ShadowRoom, SpaceClaim};
use crate::store::shared::SharedStore;

/// The pause after which a shadow that was given up begins anew.
const RETRY_AFTER: Duration = Duration::from_secs(600);

/// The shadow of the log of a store on two disks.
pub(super) struct ShadowWriter {
    state: Mutex<ShadowState>,
    /// The last group when the store was opened.
    opened_at: u64,
}

struct ShadowState {
    shadow: LogShadow,
    /// When it is to begin anew; `None` unless it was given up.
    retry_at: Option<Instant>,
}

/// What became of a request to extend the shadow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ShadowOutcome {
    Extended(ShadowProgress),
    /// There is none for now.
    GivenUp,
    /// It is as it was, and may be extended later.
    Later,
}

impl ShadowWriter {
    /// The shadow of a store; `None` where there is one disk.
    pub(super) fn of(shared: &SharedStore) -> Option<Self> {
        if !shared.fs.has_two_disks() {
            return None;
        }
        let shadow = LogShadow::new(shared.fs.clone(), shared.clock.clone(), shared.store);
        let state = Mutex::new(ShadowState { shadow, retry_at: None });
        Some(Self { state, opened_at: shared.published().sequence })
    }

    fn extend(&self, shared: &SharedStore) -> Result<ShadowOutcome, StoreError> {
        // A call that panicked left nothing that the next one builds on.
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.retry_at.is_some_and(|time| shared.clock.instant() < time) {
            return Ok(ShadowOutcome::GivenUp);
        }
        if state.retry_at.take().is_some() {
            // From here on it is waited for: it may be believed before it has caught up.
            shared.followers.set_shadowed(Some(0));
        }
        let through = shared.published().sequence;
        let room = ShadowRoom {
            bytes: &|| shared.segments.room_on(DiskPlace::Bulk, SpaceClaim::Upkeep),
            check_abort: &|| shared.check_close_deadline(),
        };
        match state.shadow.extend(through, &room) {
            Ok(progress) => {
                shared.followers.set_shadowed(Some(progress.covered));
                Ok(ShadowOutcome::Extended(progress))
            }
            // A passed deadline, or a file that a checkpoint has replaced.
            Err(LogError::Io(error))
                if matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::NotFound) =>
            {
                Ok(ShadowOutcome::Later)
            }
            // The file is gone for good reason: a checkpoint was written meanwhile.
            Err(LogError::Damaged(damage))
                if matches!(is_there(shared.fs.as_ref(), &damage.file), Ok(false))
                    && !damage.file.starts_with(SHADOW) =>
            {
                Ok(ShadowOutcome::Later)
            }
            Err(LogError::Exhausted(error)) => Err(shared.failed(LogError::Exhausted(error))),
            Err(LogError::Damaged(damage)) => {
                shared.report(&damage);
                // A log that cannot be read makes the shadow no worse, and may be about to be lost.
                match damage.file.starts_with(SHADOW) {
                    true => Ok(state.give_up(shared, &LogError::Damaged(damage))),
                    false => Ok(ShadowOutcome::Later),
                }
            }
            Err(error @ LogError::DiskFull(_)) => Ok(state.give_up(shared, &error)),
            Err(error) => {
                log::error!("the shadow of the log was not extended: {error}");
                Ok(ShadowOutcome::Later)
            }
        }
    }
}

impl ShadowState {
    fn give_up(&mut self, shared: &SharedStore, why: &LogError) -> ShadowOutcome {
        if let Err(error) = self.shadow.give_up() {
            log::error!("the shadow of the log cannot be extended ({why}) and not removed ({error})");
            return ShadowOutcome::Later;
        }
        log::warn!("there is no shadow of the log for the next minutes: {why}");
        self.retry_at = Some(shared.clock.instant() + RETRY_AFTER);
        shared.followers.set_shadowed(None);
        ShadowOutcome::GivenUp
    }
}

impl Store {
    /// Extends the shadow of the log by a step, where there are two disks. Durable on return. Returns
    /// whether another step has work to do at once.
    ///
    /// # Errors
    /// [`StoreError::ReadOnly`], and where there is no descriptor left. No error of a disk: the shadow
    /// stays as it is, or is given up then.
    pub fn shadow_log(&self) -> Result<bool, StoreError> {
        let Some(shadow) = &self.shadow else { return Ok(false) };
        self.shared.check_writable()?;
        Ok(matches!(shadow.extend(&self.shared)?, ShadowOutcome::Extended(progress) if progress.more))
    }

    /// Extends the shadow to the end of the log, as far as there is time.
    pub(super) fn close_shadow(&self) {
        loop {
            match self.shadow_log() {
                Ok(true) => {}
                Ok(false) | Err(StoreError::ReadOnly(_)) => return,
                Err(error) => return log::warn!("the shadow of the log lacks its end: {error}"),
            }
        }
    }

    /// Whether space may be given back that is dead by the group `sequence`: the shadow has that group,
    /// or there is none. It is extended for it.
    pub(super) fn is_shadowed(&self, sequence: u64) -> Result<bool, StoreError> {
        let Some(shadow) = &self.shadow else { return Ok(true) };
        while !self.shared.followers.is_shadowed(sequence) {
            match shadow.extend(&self.shared)? {
                ShadowOutcome::Extended(_) => {}
                ShadowOutcome::GivenUp => return Ok(true),
                ShadowOutcome::Later => return Ok(false),
            }
        }
        Ok(true)
    }

    /// As [`Store::is_shadowed`], without waiting: also for groups from before the start, of which
    /// nobody knows the number.
    pub(super) fn shadow_has(&self, sequence: u64) -> bool {
        let Some(shadow) = &self.shadow else { return true };
        self.shared.followers.is_shadowed(sequence.max(shadow.opened_at))
    }
}
