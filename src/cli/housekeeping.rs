//! What is to be done from time to time while the server runs.

use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded, select};
use log::{error, info};
use siltstone::base::limits::MIB;
use siltstone::store::{Reclaimed, ScrubPace, Scrubbed, Store, StoreError};

use super::Failure;

/// How often there is a look for uploads that are too old.
const UPLOADS_INTERVAL: Duration = Duration::from_secs(60);
/// How often there is a look for room to be won back. Without anything to do it costs a glance at each segment.
const RECLAIM_INTERVAL: Duration = Duration::from_secs(10);
/// Between two pieces of work, so that commits and reads come first.
const REST_MIN: Duration = Duration::from_millis(20);
/// How often there is a look whether a scrub is due. The first one waits as long, so that a start is not slowed down.
const SCRUB_INTERVAL: Duration = Duration::from_secs(60);
/// What a scrub reads in one step, in bytes: the end of the server waits no longer than for that.
const SCRUB_STEP_BYTES: u64 = 4 * MIB;

/// The thread that keeps house until it is told to end.
pub(crate) struct Housekeeping {
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

impl Housekeeping {
    /// Begins at once: what has become due while the server was down is not put off. `reclaim_rate` is in bytes a second; without
    /// `scrub_pace` there is no scrub.
    ///
    /// # Errors
    /// When no thread can be started.
    pub(crate) fn start(
        store: Arc<Store>,
        reclaim_rate: u64,
        scrub_pace: Option<ScrubPace>,
    ) -> Result<Self, Failure> {
        let (stop, stopped) = bounded(0);
        let room_wanted = store.room_wanted();
        let run = move || House { room_wanted, store, stopped, reclaim_rate, scrub_pace }.keep();
        let thread = thread::Builder::new().name("housekeeping".into()).spawn(run);
        let thread = thread.map_err(|e| Failure::start(format!("cannot start a thread: {e}")))?;
        Ok(Self { stop, thread })
    }

    /// Ends the thread.
    pub(crate) fn end(self) {
        drop(self.stop);
        if self.thread.join().is_err() {
            error!("housekeeping ended by a panic");
        }
    }
}

struct House {
    store: Arc<Store>,
    stopped: Receiver<()>,
    /// Receives something when a write was refused for want of room.
    room_wanted: Receiver<()>,
    /// Bytes a second.
    reclaim_rate: u64,
    /// How fast what is stored is read to be checked; `None`: not at all.
    scrub_pace: Option<ScrubPace>,
}

impl House {
    fn keep(&self) {
        let start = Instant::now();
        let (mut uploads_due, mut reclaim_due, mut scrub_due) = (start, start, start + SCRUB_INTERVAL);
        loop {
            if Instant::now() >= uploads_due {
                self.give_up_stale_uploads();
                uploads_due = Instant::now() + UPLOADS_INTERVAL;
            }
            if Instant::now() >= reclaim_due {
                reclaim_due = Instant::now() + self.reclaim();
            }
            if Instant::now() >= scrub_due {
                scrub_due = Instant::now() + self.scrub();
            }
            let pause = uploads_due.min(reclaim_due).min(scrub_due).saturating_duration_since(Instant::now());
            select! {
                recv(self.stopped) -> _ => return,
                recv(self.room_wanted) -> _ => reclaim_due = Instant::now(),
                default(pause) => {}
            }
        }
    }

    /// Takes a step of the scrub, and says how long the next one waits.
    fn scrub(&self) -> Duration {
        let Some(pace) = self.scrub_pace else {
            return SCRUB_INTERVAL;
        };
        let start = Instant::now();
        match self.store.scrub(SCRUB_STEP_BYTES) {
            Ok(done @ Scrubbed { more: true, .. }) => pace.rest(&done, start.elapsed()).max(REST_MIN),
            Ok(_) => SCRUB_INTERVAL,
            Err(problem) => {
                error!("what is stored is not checked for damage: {problem}");
                SCRUB_INTERVAL
            }
        }
    }

    /// Wins back some room, and says how long the next attempt waits.
    fn reclaim(&self) -> Duration {
        match self.store.reclaim() {
            Ok(Reclaimed { more: true, urgent: true, .. }) => Duration::ZERO,
            Ok(Reclaimed { more: true, moved_bytes, .. }) => {
                let rest = Duration::from_secs_f64(moved_bytes as f64 / self.reclaim_rate as f64);
                rest.max(REST_MIN)
            }
            Ok(_) | Err(StoreError::ReadOnly(_)) => RECLAIM_INTERVAL,
            Err(problem) => {
                error!("room that is not needed any more stays taken: {problem}");
                RECLAIM_INTERVAL
            }
        }
    }

    fn give_up_stale_uploads(&self) {
        match self.store.abort_expired_uploads() {
            Ok(0) => {}
            Ok(count) => info!("gave up {count} multipart uploads that were older than allowed"),
            Err(problem) => error!("multipart uploads that are older than allowed stay: {problem}"),
        }
    }
}
