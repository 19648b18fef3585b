//! Threads that wait for the disks, so that two syncs take as long as the longer one, and one that
//! never ends holds up nobody for ever.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};

/// What a worker does.
pub(super) type Job = Box<dyn FnOnce() -> io::Result<()> + Send>;

/// A job, and where its result goes.
struct Posted {
    job: Job,
    done: Sender<io::Result<()>>,
}

/// Threads that are made as they are needed, and stay.
pub(super) struct Workers {
    posted: Sender<Posted>,
    queue: Receiver<Posted>,
    /// Workers that wait for a job, less the jobs that wait for one.
    idle: Arc<AtomicUsize>,
}

/// The result of a job to come.
pub(super) struct Awaited {
    done: Receiver<io::Result<()>>,
}

impl Workers {
    pub(super) fn new() -> Self {
        let (posted, queue) = unbounded();
        Self { posted, queue, idle: Arc::default() }
    }

    /// Has a worker do a job.
    pub(super) fn start(&self, job: Job) -> Awaited {
        let (done, awaited) = bounded(1);
        let taken = self.idle.fetch_update(Ordering::AcqRel, Ordering::Acquire, |idle| idle.checked_sub(1));
        if taken.is_err() && self.add_worker().is_err() {
            // No thread can be had: whoever waits for the job does it.
            let _ = done.send(job());
            return Awaited { done: awaited };
        }
        // The queue lives as long as this.
        let _ = self.posted.send(Posted { job, done });
        Awaited { done: awaited }
    }

    fn add_worker(&self) -> io::Result<()> {
        let queue = self.queue.clone();
        let idle = Arc::clone(&self.idle);
        let worker = thread::Builder::new().name("sync".to_owned());
        let added = worker.spawn(move || {
            while let Ok(Posted { job, done }) = queue.recv() {
                let result = job();
                // Before the result: who has it may post the next job at once.
                idle.fetch_add(1, Ordering::AcqRel);
                let _ = done.send(result);
            }
        });
        added.map(drop)
    }
}

impl Awaited {
    /// The result of the job.
    ///
    /// # Errors
    /// Of the job; `TimedOut` where it takes longer than `patience`.
    pub(super) fn wait(self, patience: Duration) -> io::Result<()> {
        self.done.recv_timeout(patience).unwrap_or_else(|_| {
            let what = format!("the disk has not answered for {} s", patience.as_secs());
            Err(io::Error::new(io::ErrorKind::TimedOut, what))
        })
    }
}
