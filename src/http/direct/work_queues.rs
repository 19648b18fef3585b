//! The requests that wait for a worker, by the time that they may keep one:
//!
//! | class | what | workers that may do it |
//! |---|---|---|
//! | small | answered with what is at hand | all |
//! | large | a large body in either direction: takes as long as its client likes | three quarters |
//! | heavy | large, and takes the processor or the disk all the time | a quarter of those, and no more than there are processors |
//!
//! Workers are counted, not named: whichever is free takes what may be done. Small requests come first, in their order; of
//! the others each origin has its turn.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;

use super::connection_table::Connection;
use super::fair_queue::FairQueue;

/// How long a request may keep its worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Class {
    /// It is done quickly.
    Small,
    /// It takes as long as its client and its size want.
    Large,
    /// So does it, and it works all the time.
    Heavy,
}

/// How many workers may do what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Caps {
    large: usize,
    heavy: usize,
}

impl Caps {
    /// A quarter is left for small requests, one worker at least where there are two.
    fn of(workers: usize, processors: usize) -> Self {
        let reserved = if workers < 2 { 0 } else { (workers / 4).max(1) };
        let large = workers - reserved;
        Self { large, heavy: (large / 4).clamp(1, processors.max(1)) }
    }
}

/// The queues, until they are closed.
#[derive(Debug)]
pub(super) struct WorkQueues {
    len_max: usize,
    caps: Caps,
    state: Mutex<State>,
    arrivals: Condvar,
    /// What `state` comes to, to look at without it.
    outline: Outline,
}

#[derive(Debug, Default)]
struct Outline {
    /// Whether a free worker would have something to do.
    has_work: AtomicBool,
    /// Requests that wait.
    waiting: AtomicUsize,
    /// Workers that wait.
    idle: AtomicUsize,
}

#[derive(Debug)]
struct State {
    small: VecDeque<Box<Connection>>,
    large: FairQueue<Box<Connection>>,
    heavy: FairQueue<Box<Connection>>,
    /// Workers that do large work, heavy included.
    running_large: usize,
    running_heavy: usize,
    /// Whether heavy work comes before large work next time.
    heavy_first: bool,
    idle: usize,
    closed: bool,
}

/// What a worker is to do next, with the right to do it where that is limited.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) connection: Box<Connection>,
    pub(super) permit: Option<Permit>,
}

/// The right of one worker to do large or heavy work; dropping it gives it back.
#[derive(Debug)]
pub(super) struct Permit {
    queues: Arc<WorkQueues>,
    class: Class,
}

impl Permit {
    /// The class of work that it is for.
    pub(super) fn class(&self) -> Class {
        self.class
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.queues.ended(self.class);
    }
}

impl WorkQueues {
    /// Empty queues before that many workers. Each holds `len_max` connections.
    pub(super) fn new(workers: usize, len_max: usize) -> Arc<Self> {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        let state = State {
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
            caps: Caps::of(workers, processors),
            state: Mutex::new(state),
            arrivals: Condvar::new(),
            outline: Outline::default(),
        })
    }

    /// Lets a connection wait for a worker.
    ///
    /// # Errors
    /// Gives back a connection for which there is no room, be it this one or another; this one where the queues are closed.
    pub(super) fn push(&self, connection: Box<Connection>, class: Class) -> Result<(), Box<Connection>> {
        let mut state = self.lock();
        if state.closed {
            return Err(connection);
        }
        let origin = connection.origin();
        let outcome = match class {
            Class::Small if state.small.len() >= self.len_max => return Err(connection),
            Class::Small => {
                state.small.push_back(connection);
                Ok(())
            }
            Class::Large => state.large.push(origin, connection),
            Class::Heavy => state.heavy.push(origin, connection),
        };
        self.changed(state);
        outcome
    }

    /// The right to begin with work that is at hand; `None` where others come first.
    pub(super) fn try_start(self: &Arc<Self>, class: Class) -> Option<Permit> {
        let mut state = self.lock();
        let others_wait = match class {
            Class::Heavy => !state.heavy.is_empty(),
            Class::Small | Class::Large => !state.large.is_empty(),
        };
        if others_wait || !state.has_room(class, self.caps) {
            return None;
        }
        state.start(class);
        self.outline(&state);
        Some(self.permit(class))
    }

    /// Takes nothing more; what waits is still handed out.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.arrivals.notify_all();
    }

    /// Whether a request waits that a worker may begin with.
    pub(super) fn has_work(&self) -> bool {
        self.outline.has_work.load(Ordering::Relaxed)
    }

    /// Whether a request waits for a worker that does work of that class.
    pub(super) fn is_waited_for(&self, class: Class) -> bool {
        match class {
            Class::Small => self.has_work(),
            Class::Large | Class::Heavy => self.outline.waiting.load(Ordering::Relaxed) > 0,
        }
    }

    /// Whether a worker waits for requests.
    pub(super) fn has_idle_worker(&self) -> bool {
        self.outline.idle.load(Ordering::Relaxed) > 0
    }

    /// The next job, as soon as there is one; `None` once the queues are closed and hold none that may begin. What may not
    /// begin then is left to the workers whose work is in its way.
    pub(super) fn next(self: &Arc<Self>) -> Option<Job> {
        let mut state = self.lock();
        loop {
            if let Some((connection, class)) = state.pop(self.caps) {
                self.outline(&state);
                drop(state);
                let permit = (class > Class::Small).then(|| self.permit(class));
                return Some(Job { connection, permit });
            }
            if state.closed {
                return None;
            }
            state.idle += 1;
            self.outline(&state);
            state = self.arrivals.wait(state).expect("no code panics while it holds the queues");
            state.idle -= 1;
        }
    }

    fn permit(self: &Arc<Self>, class: Class) -> Permit {
        Permit { queues: Arc::clone(self), class }
    }

    fn ended(&self, class: Class) {
        let mut state = self.lock();
        state.running_large -= 1;
        state.running_heavy -= usize::from(class == Class::Heavy);
        self.changed(state);
    }

    /// Has an idle worker look, where there is something for it now.
    fn changed(&self, state: MutexGuard<'_, State>) {
        self.outline(&state);
        let wakes = state.idle > 0 && state.has_work(self.caps);
        drop(state);
        if wakes {
            self.arrivals.notify_one();
        }
    }

    fn outline(&self, state: &State) {
        self.outline.has_work.store(state.has_work(self.caps), Ordering::Relaxed);
        self.outline.waiting.store(state.waiting(), Ordering::Relaxed);
        self.outline.idle.store(state.idle, Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no code panics while it holds the queues")
    }
}

impl State {
    fn waiting(&self) -> usize {
        self.small.len() + self.large.len() + self.heavy.len()
    }

    fn has_room(&self, class: Class, caps: Caps) -> bool {
        match class {
            Class::Small => true,
            Class::Large => self.running_large < caps.large,
            Class::Heavy => self.running_large < caps.large && self.running_heavy < caps.heavy,
        }
    }

    fn has_work(&self, caps: Caps) -> bool {
        !self.small.is_empty()
            || (!self.large.is_empty() && self.has_room(Class::Large, caps))
            || (!self.heavy.is_empty() && self.has_room(Class::Heavy, caps))
    }

    fn start(&mut self, class: Class) {
        self.running_large += usize::from(class > Class::Small);
        self.running_heavy += usize::from(class == Class::Heavy);
    }

    fn pop(&mut self, caps: Caps) -> Option<(Box<Connection>, Class)> {
        if let Some(connection) = self.small.pop_front() {
            return Some((connection, Class::Small));
        }
        let first = if self.heavy_first { Class::Heavy } else { Class::Large };
        let second = if self.heavy_first { Class::Large } else { Class::Heavy };
        let (connection, class) = self.pop_if_room(first, caps).or_else(|| self.pop_if_room(second, caps))?;
        self.heavy_first = class == Class::Large;
        self.start(class);
        Some((connection, class))
    }

    fn pop_if_room(&mut self, class: Class, caps: Caps) -> Option<(Box<Connection>, Class)> {
        if !self.has_room(class, caps) {
            return None;
        }
        let queue = if class == Class::Heavy { &mut self.heavy } else { &mut self.large };
        queue.pop().map(|connection| (connection, class))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quarter_is_left_for_small_requests_and_heavy_ones_never_have_all_of_the_rest() {
        let caps = |workers| {
            let Caps { large, heavy } = Caps::of(workers, 4);
            (large, heavy)
        };
        assert_eq!(
            [1, 2, 3, 4, 8, 12, 96].map(caps),
            [(1, 1), (1, 1), (2, 1), (3, 1), (6, 1), (9, 2), (72, 4)]
        );
    }
}
