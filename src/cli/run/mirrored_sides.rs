//! The thread that keeps the sides of a mirror equal: it fills one from the other, and repairs each from
//! the other.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError};
use log::{error, info};
use siltstone::base::{Clock as _, SystemClock};
use siltstone::disks::{DiskMirror, FillStep, SideChange, SideStatus};
use siltstone::fs::{Side, SideUse};
use siltstone::service::{MirrorSide, MirrorSides};
use siltstone::store::Store;

use super::stoppable_thread::StoppableThread;
use crate::cli::config::options::StartOptions;
use crate::cli::error::CliError;

/// The wait before a fill that failed is tried again.
const RETRY: Duration = Duration::from_secs(60);
/// The time between repairs.
const REPAIR_EVERY: Duration = Duration::from_secs(60);
/// The scrub reads each side in turn for so many days.
const SCRUB_TURN_SECS: u64 = 7 * 24 * 60 * 60;
/// The copy rests a part of the time that it worked, so that requests find the disks free.
const REST_PART: u32 = 4;

/// A change of a side, with its directory.
pub(crate) struct NamedChange {
    pub(crate) before: SideUse,
    pub(crate) usage: SideUse,
    /// The side after the change.
    pub(crate) side: MirrorSide,
}

/// A mirror, and how far the filling of a side is.
pub(crate) struct RunningMirror {
    mirror: Arc<DiskMirror>,
    dirs: [String; 2],
    left_bytes: AtomicU64,
    fill_bytes: AtomicU64,
    repaired_files: AtomicU64,
    waiting_files: AtomicU64,
}

impl RunningMirror {
    /// The mirror that the options name.
    pub(crate) fn new(mirror: Arc<DiskMirror>, start: &StartOptions) -> Option<Arc<Self>> {
        let places = start.mirror_places()?;
        let dirs = places.sides.map(|dir| dir.display().to_string());
        Some(Arc::new(Self {
            mirror,
            dirs,
            left_bytes: AtomicU64::new(0),
            fill_bytes: AtomicU64::new(0),
            repaired_files: AtomicU64::new(0),
            waiting_files: AtomicU64::new(0),
        }))
    }

    /// The changes of the sides since the last call, the oldest first.
    pub(crate) fn take_changes(&self) -> Vec<NamedChange> {
        let mut changes = Vec::new();
        for SideChange { side, before, status } in self.mirror.take_changes() {
            let usage = status.usage;
            changes.push(NamedChange { before, usage, side: self.shown(side, status) });
        }
        changes
    }

    /// What metrics show of it.
    pub(crate) fn figures(&self) -> MirrorSides {
        let [one, other] = self.mirror.statuses();
        MirrorSides {
            sides: [self.shown(Side::First, one), self.shown(Side::Second, other)],
            left_bytes: self.left_bytes.load(Ordering::Relaxed),
            fill_bytes: self.fill_bytes.load(Ordering::Relaxed),
            repaired_files: self.repaired_files.load(Ordering::Relaxed),
            waiting_files: self.waiting_files.load(Ordering::Relaxed),
        }
    }

    fn shown(&self, side: Side, status: SideStatus) -> MirrorSide {
        MirrorSide {
            letter: side.letter(),
            dir: self.dirs[side.index()].clone(),
            state: word_for(status.usage),
            since: status.since,
            why: status.why,
        }
    }

    fn note_left(&self, left_bytes: u64, fill_bytes: u64) {
        self.left_bytes.store(left_bytes, Ordering::Relaxed);
        self.fill_bytes.store(fill_bytes, Ordering::Relaxed);
    }

    fn run(&self, stopped: &Receiver<()>) {
        self.fill(stopped);
        loop {
            let turn = SystemClock.now().as_secs() / SCRUB_TURN_SECS;
            self.mirror.scrub_from(Side::BOTH[(turn % 2) as usize]);
            match self.mirror.repair_step() {
                Ok(report) => {
                    self.repaired_files.fetch_add(report.files, Ordering::Relaxed);
                    self.waiting_files.store(report.waiting, Ordering::Relaxed);
                }
                Err(problem) => error!("the sides of the mirror are not compared: {problem}"),
            }
            if is_stopped(stopped, REPAIR_EVERY) {
                return;
            }
        }
    }

    fn fill(&self, stopped: &Receiver<()>) {
        loop {
            let mut pace = FillPace { stopped, since: Instant::now() };
            match self.mirror.fill_step(&mut |_| pace.rest()) {
                Ok(FillStep::Nothing) => {
                    self.note_left(0, 0);
                    return;
                }
                Ok(FillStep::Copied { left_bytes, total_bytes }) => self.note_left(left_bytes, total_bytes),
                Ok(FillStep::Joined) => {
                    self.note_left(0, 0);
                    info!("both sides of the mirror are whole");
                    return;
                }
                Err(problem) => {
                    if is_stopped(stopped, Duration::ZERO) {
                        return;
                    }
                    error!("a side of the mirror is not filled: {problem}");
                    if is_stopped(stopped, RETRY) {
                        return;
                    }
                }
            }
        }
    }
}

fn word_for(usage: SideUse) -> &'static str {
    match usage {
        SideUse::Whole => "whole",
        SideUse::Filled => "filling",
        SideUse::Out => "out",
    }
}

fn is_stopped(stopped: &Receiver<()>, within: Duration) -> bool {
    stopped.recv_timeout(within) != Err(RecvTimeoutError::Timeout)
}

/// The rests of a copy.
struct FillPace<'r> {
    stopped: &'r Receiver<()>,
    /// The end of the last rest.
    since: Instant,
}

impl FillPace<'_> {
    /// Rests, after some bytes were copied.
    ///
    /// # Errors
    /// The server stops.
    fn rest(&mut self) -> io::Result<()> {
        let is_stopped = is_stopped(self.stopped, self.since.elapsed() / REST_PART);
        self.since = Instant::now();
        if is_stopped { Err(io::Error::other("the server stops")) } else { Ok(()) }
    }
}

/// The thread.
pub(crate) struct SidesThread(StoppableThread);

impl SidesThread {
    /// Starts the thread.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(crate) fn start(store: &Arc<Store>, mirror: Arc<RunningMirror>) -> Result<Self, CliError> {
        let thread = StoppableThread::of_store("mirror", Arc::clone(store), move |_, stopped| {
            mirror.run(stopped);
        })?;
        Ok(Self(thread))
    }

    /// Ends the thread: the next start begins the filling again.
    pub(crate) fn end(self) {
        self.0.end();
    }
}
