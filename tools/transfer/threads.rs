//! The threads of a transfer: one lists, several work, and the first shows the progress.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime};
use std::{io, thread};

use crossbeam_channel::{Receiver, SendTimeoutError, Sender, bounded};
use siltstone::base::{NOT_POISONED, Timestamp};

use super::report::TransferReport;
use super::stated_times::StatedTimes;
use crate::progress::{Meter, Unit};

/// Keys that wait for a worker.
const WAITING_MAX: usize = 100_000;
/// The time between two looks at the progress.
const LOOK: Duration = Duration::from_millis(200);

/// The state that the threads of a transfer share.
pub(super) struct Transfer {
    /// The start.
    pub(super) begun: Timestamp,
    /// Whether the target keeps modification times.
    pub(super) times: StatedTimes,
    /// Bytes, or keys, that were listed.
    listed: AtomicU64,
    done_keys: AtomicU64,
    stopped: Arc<AtomicBool>,
    report: Mutex<TransferReport>,
}

/// The jobs that wait for a worker.
pub(super) struct JobQueue<'t, J> {
    transfer: &'t Transfer,
    sender: Sender<J>,
}

impl Transfer {
    /// A transfer that SIGINT stops after the keys that are being copied.
    pub(super) fn new() -> io::Result<Self> {
        let stopped = Arc::new(AtomicBool::new(false));
        signal_hook::flag::register(signal_hook::consts::SIGINT, Arc::clone(&stopped))?;
        Ok(Self {
            begun: Timestamp::from_system(SystemTime::now()),
            times: StatedTimes::default(),
            listed: AtomicU64::new(0),
            done_keys: AtomicU64::new(0),
            stopped,
            report: Mutex::new(TransferReport::default()),
        })
    }

    pub(super) fn report(&self) -> MutexGuard<'_, TransferReport> {
        self.report.lock().expect(NOT_POISONED)
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// Lists on one thread, and works on `parallel` others until all jobs are done. A worker leaves
    /// jobs alone after a stop.
    pub(super) fn run<J: Send>(
        &self,
        parallel: u16,
        verb: &str,
        json: bool,
        list: impl FnOnce(&JobQueue<'_, J>) -> Result<(), String> + Send,
        work: impl Fn(&mut dyn Iterator<Item = J>) + Sync,
    ) {
        self.run_counting(Unit::Bytes, parallel, verb, json, list, work);
    }

    /// As [`Transfer::run`], where the listing does not tell bytes, and jobs are counted.
    pub(super) fn run_keys<J: Send>(
        &self,
        parallel: u16,
        verb: &str,
        json: bool,
        list: impl FnOnce(&JobQueue<'_, J>) -> Result<(), String> + Send,
        work: impl Fn(&mut dyn Iterator<Item = J>) + Sync,
    ) {
        self.run_counting(Unit::Steps, parallel, verb, json, list, work);
    }

    /// Notes that a job of [`Transfer::run_keys`] is done.
    pub(super) fn done_with_key(&self) {
        self.done_keys.fetch_add(1, Ordering::Relaxed);
    }

    fn run_counting<J: Send>(
        &self,
        unit: Unit,
        parallel: u16,
        verb: &str,
        json: bool,
        list: impl FnOnce(&JobQueue<'_, J>) -> Result<(), String> + Send,
        work: impl Fn(&mut dyn Iterator<Item = J>) + Sync,
    ) {
        let (sender, receiver) = bounded(WAITING_MAX);
        thread::scope(|scope| {
            let working: Vec<_> =
                (0..parallel).map(|_| scope.spawn(|| work(&mut self.jobs(&receiver)))).collect();
            let listing = scope.spawn(|| {
                if let Err(why) = list(&JobQueue { transfer: self, sender }) {
                    self.report().unfinished = Some(why);
                }
            });
            let mut meter = if unit == Unit::Steps { Meter::of_steps(json) } else { Meter::start(json) };
            while working.iter().any(|worker| !worker.is_finished()) {
                self.show(&mut meter, unit, verb, listing.is_finished());
                thread::sleep(LOOK);
            }
            meter.finish();
        });
        if self.is_stopped() {
            self.report().unfinished = Some("interrupted".to_owned());
        }
    }

    fn jobs<J>(&self, receiver: &Receiver<J>) -> impl Iterator<Item = J> {
        receiver.iter().take_while(|_| !self.is_stopped())
    }

    fn show(&self, meter: &mut Meter, unit: Unit, verb: &str, listed: bool) {
        let done = match unit {
            Unit::Bytes => self.report().bytes,
            Unit::Steps => self.done_keys.load(Ordering::Relaxed),
        };
        // Before the end of the listing the total is unknown, and with it the time left.
        let total = if listed { self.listed.load(Ordering::Relaxed) } else { 0 };
        let what = if listed { verb.to_owned() } else { format!("listing and {verb}") };
        meter.update(&what, done, total);
    }
}

impl<J> JobQueue<'_, J> {
    /// Waits for a place in the queue. The job is so many bytes, or keys. Returns whether the listing goes on.
    pub(super) fn push(&self, mut job: J, amount: u64) -> bool {
        self.transfer.listed.fetch_add(amount, Ordering::Relaxed);
        // In slices: when all workers have stopped, nothing else ends the wait of a full queue.
        while !self.transfer.is_stopped() {
            match self.sender.send_timeout(job, LOOK) {
                Ok(()) => return true,
                Err(SendTimeoutError::Timeout(back)) => job = back,
                Err(SendTimeoutError::Disconnected(_)) => return false,
            }
        }
        false
    }
}
