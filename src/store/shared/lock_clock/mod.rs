//! The lock clock: the time of acts and promises that a wrong wall clock must not change (guide,
//! page `guarantees`, "Clocks").
//!
//! There are two times, which differ after the operator has accepted the wall clock alone. Acts by
//! time, such as the expiry of objects, go by the one, and so do retentions in GOVERNANCE mode;
//! retentions in COMPLIANCE mode go by the other, which nobody moves ahead.

mod followed_time;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use crate::base::limits::KIB;
use crate::base::{Clock, NOT_POISONED, Timestamp};
use crate::format::{CLOCK, LockClockState, RetentionMode, SavedTime};
use crate::log::LogError;
use crate::store::shared::SharedStore;
use crate::store::shared::state_file::StateFile;
use crate::store::{Store, StoreError};
use followed_time::{ClockNews, FOLLOWED_MAX, FollowedTime, STEADY_AFTER};

const FILE: StateFile = StateFile { path: CLOCK, what: "the lock clock", max_bytes: 4 * KIB };
/// The distance of the time from the saved one from which it is saved again. Disks of idle hosts
/// sleep meanwhile.
const SAVE_EVERY: Duration = Duration::from_secs(60 * 60);

/// The state of the clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockFigures {
    /// The wall clock.
    pub wall: Timestamp,
    /// The time of retentions in COMPLIANCE mode.
    pub lock_time: Timestamp,
    /// How far the wall clock is ahead of the time of acts by time.
    pub ahead: Duration,
    /// How far it is behind the time of retentions.
    pub behind: Duration,
    /// Whether acts by time are held, since the wall clock jumped ahead.
    pub is_held: bool,
    /// Whether retentions in COMPLIANCE mode do not follow the wall clock, since it jumped ahead.
    pub locks_wait: bool,
    /// The time until the jump is believed, if the wall clock goes on steadily; `None` without one.
    pub believed_in: Option<Duration>,
}

/// The times by which retentions end.
#[derive(Debug, Clone, Copy)]
pub(in crate::store) struct LockTimes {
    pub(in crate::store) governance: Timestamp,
    pub(in crate::store) compliance: Timestamp,
}

impl LockTimes {
    pub(in crate::store) fn of(&self, mode: RetentionMode) -> Timestamp {
        match mode {
            RetentionMode::Governance => self.governance,
            RetentionMode::Compliance => self.compliance,
        }
    }
}

/// The lock clock of an open store.
pub(in crate::store) struct LockClock {
    clock: Arc<dyn Clock>,
    times: Mutex<ClockTimes>,
    /// The time of retentions at the last look, in milliseconds since 1970.
    known: AtomicU64,
}

struct ClockTimes {
    acts: FollowedTime,
    locks: FollowedTime,
    /// What this process has saved last; `None` for one that does not keep the clock.
    saved: Option<LockClockState>,
}

impl LockClock {
    /// A lock clock that goes on from the newest stamp, in microseconds since 1970; 0 for none. A
    /// stamp that is ahead of the wall clock was given by a wrong one, or this one is wrong: the
    /// earlier of the two frees nothing.
    pub(in crate::store) fn since(newest_stamp: u64, clock: Arc<dyn Clock>) -> Self {
        let wall = clock.now();
        let newest = if newest_stamp == 0 { wall } else { Timestamp::from_millis(newest_stamp / 1000) };
        let time = SavedTime { time: newest.min(wall), in_doubt: false };
        let resumed = FollowedTime::resume(time, clock.as_ref());
        let times = ClockTimes { acts: resumed, locks: resumed, saved: None };
        Self { known: AtomicU64::new(resumed.time().as_millis()), times: Mutex::new(times), clock }
    }

    fn resume(&self, state: &LockClockState) {
        let mut times = self.times();
        times.acts = FollowedTime::resume(state.acts, self.clock.as_ref());
        times.locks = FollowedTime::resume(state.locks, self.clock.as_ref());
        self.note(&times);
    }

    /// The time for acts that destroy or move something by its age; `None` while the wall clock is
    /// in doubt.
    pub(in crate::store) fn acts_time(&self) -> Option<Timestamp> {
        let times = self.look();
        // The earlier of both: nothing is old by a clock that is ahead of the other.
        (!times.acts.is_in_doubt()).then(|| times.acts.time().min(self.clock.now()))
    }

    /// The times by which retentions end.
    pub(in crate::store) fn lock_times(&self) -> LockTimes {
        let times = self.look();
        LockTimes { governance: times.acts.time(), compliance: times.locks.time() }
    }

    /// The time that something made now states: the wall clock, unless that was set back. A file
    /// from 1970 would be old as soon as the clock is right.
    pub(in crate::store) fn stamp_time(&self) -> Timestamp {
        let wall = self.clock.now();
        let known = Timestamp::from_millis(self.known.load(Ordering::Relaxed));
        if known.since(wall) <= FOLLOWED_MAX { wall } else { self.look().locks.time().max(wall) }
    }

    /// The time from which the age of something counts that only this store sees: not for a
    /// clock in doubt.
    pub(in crate::store) fn age_time(&self) -> Timestamp {
        let stamp = self.stamp_time();
        let times = self.look();
        if times.acts.is_in_doubt() { times.acts.time() } else { stamp }
    }

    pub(in crate::store) fn figures(&self) -> ClockFigures {
        let times = self.look();
        let wall = self.clock.now();
        ClockFigures {
            wall,
            lock_time: times.locks.time(),
            ahead: wall.since(times.acts.time()),
            behind: times.locks.time().since(wall),
            is_held: times.acts.is_in_doubt(),
            locks_wait: times.locks.is_in_doubt(),
            believed_in: times.acts.doubt_left().or(times.locks.doubt_left()),
        }
    }

    /// Compares both times with the wall clock.
    fn look(&self) -> MutexGuard<'_, ClockTimes> {
        let mut times = self.times();
        let of_acts = times.acts.look(self.clock.as_ref());
        let of_locks = times.locks.look(self.clock.as_ref());
        self.note(&times);
        match (of_acts, of_locks) {
            (Some(news), _) => tell(news, "Nothing expires, moves or is given up by its age"),
            (None, Some(news)) => tell(news, "Retentions in COMPLIANCE mode go on by the clock of before"),
            (None, None) => {}
        }
        times
    }

    /// Takes the wall clock for right, as far as that ends no retention in COMPLIANCE mode.
    fn accept(&self) {
        let mut times = self.look();
        let wall = self.clock.now();
        times.acts.believe(wall);
        // Only back: ahead it would end retentions that no operator may end.
        if wall <= times.locks.time() {
            times.locks.believe(wall);
        }
        self.note(&times);
    }

    fn note(&self, times: &ClockTimes) {
        self.known.store(times.locks.time().as_millis(), Ordering::Relaxed);
    }

    fn times(&self) -> MutexGuard<'_, ClockTimes> {
        self.times.lock().expect(NOT_POISONED)
    }
}

impl ClockTimes {
    fn state(&self) -> LockClockState {
        LockClockState { acts: self.acts.saved(), locks: self.locks.saved() }
    }
}

fn tell(news: ClockNews, held: &str) {
    match news {
        ClockNews::Doubted(ahead) => {
            let ahead = humantime::format_duration(Duration::from_secs(ahead.as_secs()));
            let steady = humantime::format_duration(STEADY_AFTER);
            log::warn!(
                "the clock jumped ahead by {ahead}. {held} until it is right again, the kernel says that it is synchronised, it has run \
                 steadily for {steady}, or `siltstone clock accept` says that it is right"
            );
        }
        ClockNews::Believed => log::info!("the clock, which jumped ahead, is believed"),
        ClockNews::Returned => log::info!("the clock, which had jumped ahead, is right again"),
    }
}

/// Goes on from the clock that was kept.
pub(in crate::store) fn resume(shared: &SharedStore) {
    let kept = FILE.load(shared.fs.as_ref(), |file| LockClockState::decode(&shared.store, file));
    match kept {
        Ok(Some(state)) => shared.lock_clock.resume(&state),
        Ok(None) => {}
        Err(error) => {
            let error = shared.failed(error);
            log::warn!("the lock clock goes on from the newest change of the store: {error}");
        }
    }
    warn_of_the_clock(&shared.lock_clock.figures());
}

/// Warns if the clock is not where it is expected.
fn warn_of_the_clock(figures: &ClockFigures) {
    if figures.is_held {
        tell(ClockNews::Doubted(figures.ahead), "Nothing expires, moves or is given up by its age");
    }
    if figures.behind > FOLLOWED_MAX {
        log::warn!(
            "the clock is {} behind the lock clock: it is wrong now, or it was ahead for long before. Retentions go by the lock clock; \
             if the clock is right, say so by `siltstone clock accept`",
            humantime::format_duration(Duration::from_secs(figures.behind.as_secs()))
        );
    }
}

/// Saves the clock if it has changed by enough, or by anything where the store is closed.
fn save(shared: &SharedStore, is_closing: bool) -> Result<(), StoreError> {
    let state = shared.lock_clock.look().state();
    let saved = shared.lock_clock.times().saved;

    let is_kept = saved.is_some_and(|saved| match is_closing {
        true => saved == state,
        false => is_near(saved.acts, state.acts) && is_near(saved.locks, state.locks),
    });
    if is_kept || shared.check_writable().is_err() {
        return Ok(());
    }
    match FILE.save(shared.fs.as_ref(), &state.encode(&shared.store)) {
        Ok(()) => shared.lock_clock.times().saved = Some(state),
        Err(LogError::DiskFull(error)) => {
            log::warn!(
                "the lock clock is not saved, and goes on from an earlier time after a crash: {error}"
            );
        }
        Err(error) => return Err(shared.write_failed(error)),
    }
    Ok(())
}

fn is_near(one: SavedTime, other: SavedTime) -> bool {
    one.in_doubt == other.in_doubt && one.time.distance(other.time) < SAVE_EVERY
}

impl Store {
    /// Compares the clocks, and saves the lock clock from time to time. The maintenance thread
    /// calls it at intervals. A store whose process does not call it keeps no lock clock.
    ///
    /// # Errors
    /// Of the disk. The store is read-only then.
    pub fn watch_clock(&self) -> Result<(), StoreError> {
        save(&self.shared, false)
    }

    /// Takes the wall clock for right, so that acts by time go on. Retentions in COMPLIANCE mode do
    /// not end earlier by it. Durable on return.
    ///
    /// # Errors
    /// Of the disk.
    pub fn accept_clock(&self) -> Result<ClockFigures, StoreError> {
        self.shared.check_writable()?;
        self.shared.lock_clock.accept();
        self.shared.lock_clock.times().saved = None;
        save(&self.shared, false)?;
        let is_saved = self.shared.lock_clock.times().saved.is_some();
        if is_saved { Ok(self.clock_figures()) } else { Err(StoreError::DiskFull) }
    }

    /// The state of the clocks.
    pub fn clock_figures(&self) -> ClockFigures {
        self.shared.lock_clock.figures()
    }

    /// The time for acts that destroy or move something by its age; `None` while they are held,
    /// since the wall clock jumped ahead.
    pub fn acts_time(&self) -> Option<Timestamp> {
        self.shared.lock_clock.acts_time()
    }

    /// The time by which retentions of a mode end.
    pub fn lock_time(&self, mode: RetentionMode) -> Timestamp {
        self.shared.lock_clock.lock_times().of(mode)
    }

    /// The time from which a retention of a number of days counts: the wall clock, and not one at
    /// which it would have ended already.
    pub fn retention_start(&self, mode: RetentionMode) -> Timestamp {
        self.lock_time(mode).max(self.shared.clock.now())
    }

    pub(in crate::store) fn close_clock(&self) {
        // A process that has not watched the clock does not know it any better.
        if self.shared.lock_clock.times().saved.is_some() {
            // A failure costs an hour of the lock clock at most.
            let _ = save(&self.shared, true);
        }
    }
}
