//! The requests that wait for a worker, by the time for which they may occupy one.
//!
//! | class | requests | workers |
//! |---|---|---|
//! | small | answered from received bytes, with a small response | all |
//! | large | a large body in either direction, at the speed of the client | three quarters |
//! | heavy | large, and busy with the processor or the disk all the time | a quarter of those, at most one per processor |
//!
//! No worker belongs to a class: permits count the workers at large and heavy requests. Small
//! requests come first, in the order of their arrival. Among the others the clients take turns.

mod fair_queue;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;

use self::fair_queue::FairQueue;
use super::connections::Connection;
use super::worker_class::WorkerClass;
use crate::base::NOT_POISONED;

/// The largest numbers of workers at large and at heavy requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ClassLimits {
    /// Large requests, heavy ones included.
    large: usize,
    heavy: usize,
}

impl ClassLimits {
    /// Reserves a quarter of the workers for small requests: none of one worker, at least one of
    /// several.
    fn new(workers: usize, processors: usize) -> Self {
        let reserved = if workers < 2 { 0 } else { (workers / 4).max(1) };
        let large = workers - reserved;
        Self { large, heavy: (large / 4).clamp(1, processors.max(1)) }
    }
}

/// The queues of all classes.
#[derive(Debug)]
pub(super) struct WorkQueues {
    len_max: usize,
    limits: ClassLimits,
    queues: Mutex<ClassQueues>,
    arrivals: Condvar,
    snapshot: LoadSnapshot,
}

/// Figures of the queues that can be read without their lock. They may be slightly out of date.
#[derive(Debug, Default)]
struct LoadSnapshot {
    /// Whether an idle worker would find a request.
    has_work: AtomicBool,
    /// Requests that wait.
    waiting: AtomicUsize,
    /// Workers that wait.
    idle: AtomicUsize,
}

#[derive(Debug)]
struct ClassQueues {
    small: VecDeque<Box<Connection>>,
    large: FairQueue<Box<Connection>>,
    heavy: FairQueue<Box<Connection>>,
    /// Workers at large requests, heavy ones included.
    running_large: usize,
    running_heavy: usize,
    /// Whether the next large request to start is a heavy one if both kinds wait.
    heavy_first: bool,
    idle: usize,
    closed: bool,
}

/// A request for a worker, with the permit for it if its class needs one.
#[derive(Debug)]
pub(super) struct Assignment {
    pub(super) connection: Box<Connection>,
    pub(super) permit: Option<Permit>,
}

/// Permits one worker to do large or heavy work. Dropping it makes room for another.
#[derive(Debug)]
pub(super) struct Permit {
    queues: Arc<WorkQueues>,
    class: WorkerClass,
}

impl Permit {
    /// The class of work that it permits.
    pub(super) fn class(&self) -> WorkerClass {
        self.class
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.queues.finish(self.class);
    }
}

impl WorkQueues {
    /// Empty queues for that many workers. Each queue holds at most `len_max` connections.
    pub(super) fn new(workers: usize, len_max: usize) -> Arc<Self> {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        let queues = ClassQueues {
            small: VecDeque::new(),
            large: FairQueue::new(len_max),
            heavy: FairQueue::new(len_max),
            running_large: 0,
            running_heavy: 0,
            heavy_first: false,
            idle: 0,
            closed: false,
        };
        Arc::new(Self {
            len_max,
            limits: ClassLimits::new(workers, processors),
            queues: Mutex::new(queues),
            arrivals: Condvar::new(),
            snapshot: LoadSnapshot::default(),
        })
    }

    /// Queues a connection whose request waits for a worker.
    ///
    /// # Errors
    /// Returns the connection for which there is no room: this one, or another that it displaces.
    /// Returns this one when the queues are closed.
    pub(super) fn push(
        &self,
        connection: Box<Connection>,
        class: WorkerClass,
    ) -> Result<(), Box<Connection>> {
        let mut queues = self.lock();
        if queues.closed {
            return Err(connection);
        }
        let origin = connection.origin();
        let outcome = match class {
            WorkerClass::Small if queues.small.len() >= self.len_max => return Err(connection),
            WorkerClass::Small => {
                queues.small.push_back(connection);
                Ok(())
            }
            WorkerClass::Large => queues.large.push(origin, connection),
            WorkerClass::Heavy => queues.heavy.push(origin, connection),
        };
        self.notify_change(queues);
        outcome
    }

    /// A permit for a worker that already has a request. `None` when queued requests come first or
    /// the limit is reached.
    pub(super) fn try_start(self: &Arc<Self>, class: WorkerClass) -> Option<Permit> {
        let mut queues = self.lock();
        // A worker that stays with its client must not let it overtake those that wait.
        let others_wait = match class {
            WorkerClass::Heavy => !queues.heavy.is_empty(),
            WorkerClass::Small | WorkerClass::Large => !queues.large.is_empty(),
        };
        if others_wait || !queues.has_room(class, self.limits) {
            return None;
        }
        queues.start(class);
        self.refresh_snapshot(&queues);
        Some(self.permit(class))
    }

    /// Refuses new requests. Queued ones are still handed out.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.arrivals.notify_all();
    }

    /// Whether a request waits that a worker may start.
    pub(super) fn has_work(&self) -> bool {
        self.snapshot.has_work.load(Ordering::Relaxed)
    }

    /// Whether a request waits that a worker occupied by this class keeps from being served.
    pub(super) fn is_under_load(&self, class: WorkerClass) -> bool {
        match class {
            WorkerClass::Small => self.has_work(),
            WorkerClass::Large | WorkerClass::Heavy => self.waiting() > 0,
        }
    }

    /// Whether a worker waits for requests.
    pub(super) fn has_idle_worker(&self) -> bool {
        self.idle_workers() > 0
    }

    /// Workers that wait for requests.
    pub(super) fn idle_workers(&self) -> usize {
        self.snapshot.idle.load(Ordering::Relaxed)
    }

    /// Requests that wait for a worker.
    pub(super) fn waiting(&self) -> usize {
        self.snapshot.waiting.load(Ordering::Relaxed)
    }

    /// Waits for the next request that may start. `None` once the queues are closed and hold no
    /// such request. Requests that have to wait for a permit then are left to the workers that hold
    /// the permits.
    pub(super) fn pop(self: &Arc<Self>) -> Option<Assignment> {
        let mut queues = self.lock();
        loop {
            if let Some((connection, class)) = queues.pop(self.limits) {
                self.refresh_snapshot(&queues);
                drop(queues);
                let permit = (class > WorkerClass::Small).then(|| self.permit(class));
                return Some(Assignment { connection, permit });
            }
            if queues.closed {
                return None;
            }
            // Counted before the wait releases the lock, so that the next push wakes this worker.
            queues.idle += 1;
            self.refresh_snapshot(&queues);
            queues = self.arrivals.wait(queues).expect(NOT_POISONED);
            queues.idle -= 1;
        }
    }

    fn permit(self: &Arc<Self>, class: WorkerClass) -> Permit {
        Permit { queues: Arc::clone(self), class }
    }

    fn finish(&self, class: WorkerClass) {
        let mut queues = self.lock();
        queues.running_large -= 1;
        queues.running_heavy -= usize::from(class == WorkerClass::Heavy);
        self.notify_change(queues);
    }

    /// Refreshes the snapshot, and wakes an idle worker if there is a request for it.
    fn notify_change(&self, queues: MutexGuard<'_, ClassQueues>) {
        self.refresh_snapshot(&queues);
        let wakes = queues.idle > 0 && queues.has_work(self.limits);
        // The woken worker takes the lock first of all.
        drop(queues);
        if wakes {
            self.arrivals.notify_one();
        }
    }

    fn refresh_snapshot(&self, queues: &ClassQueues) {
        self.snapshot.has_work.store(queues.has_work(self.limits), Ordering::Relaxed);
        self.snapshot.waiting.store(queues.waiting(), Ordering::Relaxed);
        self.snapshot.idle.store(queues.idle, Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, ClassQueues> {
        self.queues.lock().expect(NOT_POISONED)
    }
}

impl ClassQueues {
    fn waiting(&self) -> usize {
        self.small.len() + self.large.len() + self.heavy.len()
    }

    fn has_room(&self, class: WorkerClass, limits: ClassLimits) -> bool {
        match class {
            WorkerClass::Small => true,
            WorkerClass::Large => self.running_large < limits.large,
            WorkerClass::Heavy => self.running_large < limits.large && self.running_heavy < limits.heavy,
        }
    }

    fn has_work(&self, limits: ClassLimits) -> bool {
        !self.small.is_empty()
            || (!self.large.is_empty() && self.has_room(WorkerClass::Large, limits))
            || (!self.heavy.is_empty() && self.has_room(WorkerClass::Heavy, limits))
    }

    fn start(&mut self, class: WorkerClass) {
        self.running_large += usize::from(class > WorkerClass::Small);
        self.running_heavy += usize::from(class == WorkerClass::Heavy);
    }

    fn pop(&mut self, limits: ClassLimits) -> Option<(Box<Connection>, WorkerClass)> {
        if let Some(connection) = self.small.pop_front() {
            return Some((connection, WorkerClass::Small));
        }
        // Both kinds take from the same permits, so they take turns while both wait.
        let large = WorkerClass::Large;
        let heavy = WorkerClass::Heavy;
        let (first, second) = if self.heavy_first { (heavy, large) } else { (large, heavy) };
        let (connection, class) =
            self.pop_if_room(first, limits).or_else(|| self.pop_if_room(second, limits))?;
        self.heavy_first = class == large;
        self.start(class);
        Some((connection, class))
    }

    fn pop_if_room(
        &mut self,
        class: WorkerClass,
        limits: ClassLimits,
    ) -> Option<(Box<Connection>, WorkerClass)> {
        if !self.has_room(class, limits) {
            return None;
        }
        let queue = if class == WorkerClass::Heavy { &mut self.heavy } else { &mut self.large };
        queue.pop().map(|connection| (connection, class))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quarter_is_reserved_for_small_requests_and_heavy_ones_never_have_all_of_the_rest() {
        let limits = |workers| {
            let ClassLimits { large, heavy } = ClassLimits::new(workers, 4);
            (large, heavy)
        };
        assert_eq!(
            [1, 2, 3, 4, 8, 12, 96].map(limits),
            [(1, 1), (1, 1), (2, 1), (3, 1), (6, 1), (9, 2), (72, 4)]
        );
    }
}
