//! Two queues to the workers: one for what is done quickly, one for what takes as long as the client and the size want
//! (bulk): large bodies in either direction. Some workers are reserved for the first, so that the second can never keep them
//! all.

use std::sync::Mutex;

use crossbeam_channel::{Receiver, Sender, TrySendError, bounded, never, select};

use super::lot::Held;

/// Which work a worker takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Duty {
    /// What comes first.
    Any,
    /// Only what is done quickly.
    Reserved,
}

impl Duty {
    /// The duties of a crew: a quarter of it is reserved, where there are two workers at least.
    pub(super) fn of_crew(workers: usize) -> impl Iterator<Item = Self> {
        let reserved = if workers < 2 { 0 } else { (workers / 4).max(1) };
        (0..workers).map(move |number| if number < reserved { Self::Reserved } else { Self::Any })
    }
}

/// The queues, until they are closed.
#[derive(Debug)]
pub(super) struct Lanes {
    senders: Mutex<Option<[Sender<Held>; 2]>>,
    quick: Receiver<Held>,
    bulk: Receiver<Held>,
}

impl Lanes {
    /// Two queues, each for that many connections.
    pub(super) fn new(len: usize) -> Self {
        let (to_quick, quick) = bounded(len);
        let (to_bulk, bulk) = bounded(len);
        Self { senders: Mutex::new(Some([to_quick, to_bulk])), quick, bulk }
    }

    /// Lets a connection wait for a worker.
    ///
    /// # Errors
    /// Gives it back where its queue is full or closed.
    pub(super) fn push(&self, connection: Held, bulk: bool) -> Result<(), Held> {
        let senders = self.senders.lock().expect("nobody panics who holds the senders");
        match &*senders {
            Some(senders) => {
                senders[usize::from(bulk)].try_send(connection).map_err(TrySendError::into_inner)
            }
            None => Err(connection),
        }
    }

    /// Takes nothing more; what waits is still handed out.
    pub(super) fn close(&self) {
        *self.senders.lock().expect("nobody panics who holds the senders") = None;
    }

    /// Whether somebody waits for a worker of that duty.
    pub(super) fn is_waited_for(&self, duty: Duty) -> bool {
        !self.quick.is_empty() || (duty == Duty::Any && !self.bulk.is_empty())
    }

    /// The next connection, if one waits.
    pub(super) fn try_next(&self, duty: Duty) -> Option<Held> {
        let quick = self.quick.try_recv().ok();
        quick.or_else(|| (duty == Duty::Any).then(|| self.bulk.try_recv().ok()).flatten())
    }

    /// The next connection, as soon as there is one; `None` once both queues are closed and empty.
    pub(super) fn next(&self, duty: Duty) -> Option<Held> {
        let nothing = never();
        let bulk = if duty == Duty::Any { &self.bulk } else { &nothing };
        select! {
            recv(self.quick) -> connection => match connection {
                Ok(connection) => Some(connection),
                Err(_) if duty == Duty::Any => self.bulk.recv().ok(),
                Err(_) => None,
            },
            recv(bulk) -> connection => match connection {
                Ok(connection) => Some(connection),
                Err(_) => self.quick.recv().ok(),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quarter_is_reserved_and_a_lone_worker_does_all() {
        let reserved = |workers| Duty::of_crew(workers).filter(|duty| *duty == Duty::Reserved).count();
        assert_eq!([1, 2, 3, 8, 32].map(reserved), [0, 1, 1, 2, 8]);
        assert_eq!(Duty::of_crew(32).count(), 32);
    }
}
