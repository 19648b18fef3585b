//! Periodic maintenance: upload expiry, space reclamation, the movement of segments from the fast one
//! of two disks, the shadow of the log there, and the scrub.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, select};
use log::{error, info};
use siltstone::base::limits::MIB;
use siltstone::ops::abort_idle_uploads;
use siltstone::store::{Reclaimed, ScrubPace, Scrubbed, SegmentMove, Store, StoreError};

use super::stoppable_thread::StoppableThread;
use crate::cli::error::CliError;

/// The interval of checks for expired uploads.
const UPLOADS_INTERVAL: Duration = Duration::from_secs(60);
/// The interval of looks at the clock: a jump is reported within it.
const CLOCK_INTERVAL: Duration = Duration::from_secs(10);
/// The interval of attempts to reclaim space. An attempt without work only looks at the counters of
/// each segment.
const RECLAIM_INTERVAL: Duration = Duration::from_secs(10);
/// The interval of steps of the shadow of the log: as much may be missing in it where the fast one of
/// two disks dies.
const SHADOW_INTERVAL: Duration = Duration::from_secs(10);
/// The least pause between two steps, so that commits and reads take precedence.
const REST_MIN: Duration = Duration::from_millis(20);
/// The interval of checks whether a scrub is due. The first check waits as long, so that the start
/// is not slowed down.
const SCRUB_INTERVAL: Duration = Duration::from_secs(60);
/// Bytes that the scrub reads in one step. The shutdown waits for a step at most.
const SCRUB_STEP_BYTES: u64 = 4 * MIB;

/// The maintenance thread.
pub(crate) struct Maintenance(StoppableThread);

impl Maintenance {
    /// Starts the thread. Work that became due while the server was down is not postponed.
    /// `reclaim_rate` is in bytes a second; without `scrub_pace` there is no scrub.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(crate) fn start(
        store: Arc<Store>,
        reclaim_rate: u64,
        scrub_pace: Option<ScrubPace>,
    ) -> Result<Self, CliError> {
        let thread = StoppableThread::of_store("maintenance", store, move |store, stopped| {
            let room_wanted = store.room_wanted();
            let start = Instant::now();
            MaintenanceLoop { start, store, stopped, room_wanted, reclaim_rate, scrub_pace }.run();
        })?;
        Ok(Self(thread))
    }

    /// Ends the thread.
    pub(crate) fn end(self) {
        self.0.end();
    }
}

/// The next time after `now` that is a whole number of `interval`s away from `start`. Work of
/// several intervals stays together in this way, however late the thread wakes: an idle server
/// wakes once for all of it.
fn next_tick(start: Instant, now: Instant, interval: Duration) -> Instant {
    let passed = now.saturating_duration_since(start).as_nanos() % interval.as_nanos();
    now + interval - Duration::from_nanos(passed as u64)
}

struct MaintenanceLoop<'s> {
    /// The first wakeup.
    start: Instant,
    store: &'s Store,
    stopped: &'s Receiver<()>,
    /// Receives a value when a write was refused for lack of space.
    room_wanted: Receiver<()>,
    /// Bytes a second.
    reclaim_rate: u64,
    /// The pace of the scrub; `None` for no scrub.
    scrub_pace: Option<ScrubPace>,
}

impl MaintenanceLoop<'_> {
    fn run(&self) {
        let mut uploads_due = self.start;
        let mut reclaim_due = self.start;
        let mut move_due = self.start;
        let mut shadow_due = self.start;
        let mut scrub_due = self.start + SCRUB_INTERVAL;
        let mut clock_due = self.start;
        loop {
            let woken = Instant::now();
            // The clock comes first: what the others find due depends on it.
            if clock_due <= woken {
                self.watch_clock();
                clock_due = self.next(CLOCK_INTERVAL);
            }
            if uploads_due <= woken {
                self.abort_stale_uploads();
                uploads_due = self.next(UPLOADS_INTERVAL);
            }
            if reclaim_due <= woken {
                reclaim_due = self.reclaim();
            }
            if move_due <= woken {
                move_due = self.move_segment();
            }
            if shadow_due <= woken {
                shadow_due = self.shadow_log();
            }
            if scrub_due <= woken {
                scrub_due = self.scrub();
            }
            let upkeep_due = reclaim_due.min(move_due).min(shadow_due);
            let due = uploads_due.min(upkeep_due).min(scrub_due).min(clock_due);
            let pause = due.saturating_duration_since(Instant::now());
            select! {
                recv(self.stopped) -> _ => return,
                recv(self.room_wanted) -> _ => reclaim_due = Instant::now(),
                default(pause) => {}
            }
        }
    }

    fn next(&self, interval: Duration) -> Instant {
        next_tick(self.start, Instant::now(), interval)
    }

    /// Runs a step of the scrub. Returns the time of the next step.
    fn scrub(&self) -> Instant {
        let Some(pace) = self.scrub_pace else {
            return self.next(SCRUB_INTERVAL);
        };
        let start = Instant::now();
        match self.store.scrub(SCRUB_STEP_BYTES) {
            Ok(done @ Scrubbed { more: true, .. }) => {
                Instant::now() + pace.rest(&done, start.elapsed()).max(REST_MIN)
            }
            Ok(_) => self.next(SCRUB_INTERVAL),
            Err(problem) => {
                error!("the scrub failed: {problem}");
                self.next(SCRUB_INTERVAL)
            }
        }
    }

    /// Runs a step of reclamation. Returns the time of the next step.
    fn reclaim(&self) -> Instant {
        match self.store.reclaim() {
            Ok(Reclaimed { more: true, urgent: true, .. }) => Instant::now(),
            Ok(Reclaimed { more: true, moved_bytes, .. }) => Instant::now() + self.rest_after(moved_bytes),
            Ok(_) | Err(StoreError::ReadOnly(_)) => self.next(RECLAIM_INTERVAL),
            Err(problem) => {
                error!("space could not be reclaimed: {problem}");
                self.next(RECLAIM_INTERVAL)
            }
        }
    }

    /// Moves a segment from the fast one of two disks, where that is short of space. Returns the
    /// time of the next step.
    fn move_segment(&self) -> Instant {
        match self.store.move_segment() {
            Ok(SegmentMove { bytes, more: true }) => Instant::now() + self.rest_after(bytes),
            Ok(_) | Err(StoreError::ReadOnly(_)) => self.next(RECLAIM_INTERVAL),
            Err(problem) => {
                error!("a segment could not be moved from the fast disk: {problem}");
                self.next(RECLAIM_INTERVAL)
            }
        }
    }

    /// Extends the shadow of the log by a step. Returns the time of the next step.
    fn shadow_log(&self) -> Instant {
        match self.store.shadow_log() {
            Ok(true) => Instant::now() + REST_MIN,
            Ok(false) | Err(StoreError::ReadOnly(_)) => self.next(SHADOW_INTERVAL),
            Err(problem) => {
                error!("the shadow of the log was not extended: {problem}");
                self.next(SHADOW_INTERVAL)
            }
        }
    }

    /// The pause after bytes were moved, which keeps to the rate.
    fn rest_after(&self, moved_bytes: u64) -> Duration {
        Duration::from_secs_f64(moved_bytes as f64 / self.reclaim_rate as f64).max(REST_MIN)
    }

    fn watch_clock(&self) {
        if let Err(problem) = self.store.watch_clock() {
            error!("the lock clock could not be saved: {problem}");
        }
    }

    fn abort_stale_uploads(&self) {
        match abort_idle_uploads(self.store) {
            Ok(0) => {}
            Ok(count) => info!("aborted {count} multipart uploads that were idle for longer than allowed"),
            Err(problem) => error!("expired multipart uploads could not be aborted: {problem}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_of_several_intervals_stays_together_however_late_it_is() {
        let start = Instant::now();
        let often = Duration::from_secs(10);
        let seldom = Duration::from_secs(60);
        for late in [0, 1, 3_000_000, 4_999_999_999] {
            let woken = start + Duration::from_nanos(50_000_000_000 + late);
            let done = woken + Duration::from_millis(7);
            assert_eq!(next_tick(start, woken, often), start + seldom, "{late} ns late");
            assert_eq!(next_tick(start, done, seldom), start + seldom, "{late} ns late");
        }
        assert_eq!(next_tick(start, start, often), start + often);
        assert_eq!(next_tick(start, start + often, often), start + often * 2);
    }
}
