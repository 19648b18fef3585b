//! The threads of the workers.

use std::io;
use std::sync::Arc;
use std::thread;

use crossbeam_channel::{Receiver, bounded};

use super::engine::DirectEngine;
use super::worker::Worker;
use crate::http::catch_panic::catch_panic;

/// The workers that were started.
pub(super) struct WorkerPool {
    /// One message from each worker that has ended: how many requests it has answered.
    ended: Receiver<u64>,
    running: usize,
    answered: u64,
}

impl WorkerPool {
    /// Starts the workers. Each ends when the work queues are closed and empty.
    ///
    /// # Errors
    /// When the system starts no more threads.
    pub(super) fn start(engine: &Arc<DirectEngine>) -> io::Result<Self> {
        let workers = (0..engine.config.workers).map(|_| Worker::new(Arc::clone(engine)));
        let reserve =
            (0..engine.config.reserve_workers).filter_map(|_| Worker::of_reserve(Arc::clone(engine)));
        let running = engine.config.workers + engine.config.reserve_workers;
        let (done, ended) = bounded(running);
        for (number, worker) in workers.chain(reserve).enumerate() {
            let done = done.clone();
            thread::Builder::new().name(format!("http-{number}")).spawn(move || {
                // The channel has room for one message of each worker. It fails only when the
                // server is gone.
                let _ = done.send(catch_panic(|| worker.work()).unwrap_or(0));
            })?;
        }
        Ok(Self { ended, running, answered: 0 })
    }

    /// Collects workers that have ended and returns how many still run.
    pub(super) fn reap(&mut self) -> usize {
        for answered in self.ended.try_iter() {
            self.running -= 1;
            self.answered += answered;
        }
        self.running
    }

    /// Requests answered by the workers that were reaped.
    pub(super) fn answered(&self) -> u64 {
        self.answered
    }
}
