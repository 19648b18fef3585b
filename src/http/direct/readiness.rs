//! Which sockets have something to say: a thin layer over epoll, the only file that knows it.
//!
//! Connections are watched for one event at a time: what has been reported stays silent until it is watched again, so
//! that a connection which a worker has wakes nobody. Watching again also reports what arrived in between.

use std::io;
use std::mem::MaybeUninit;
use std::net::TcpListener;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use rustix::io::Errno;

/// Events fetched by one call. They are in the hands of the thread that fetched them, and wait with it should it lose the
/// processor to others: so they are few.
const EVENTS_MAX: usize = 16;

const LISTENER: u64 = u64::MAX;
const BELL: u64 = u64::MAX - 1;

/// What an event of a connection brings back: the caller's own number for it, never one of the two above.
pub(super) type Token = u64;

/// What has happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Event {
    /// Connections wait to be accepted.
    Listener,
    /// Somebody rang.
    Bell,
    /// The connection watched under that token has bytes, room, or an end.
    Connection(Token),
}

/// What to watch a connection for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Watch {
    /// Bytes to receive, or the end.
    Readable,
    /// Room to send, or an error.
    Writable,
    /// Anything: an event comes as soon as there is room to send, which is nearly always at once.
    Anything,
}

impl Watch {
    fn flags(self) -> EventFlags {
        let once = EventFlags::IN | EventFlags::RDHUP | EventFlags::ONESHOT;
        match self {
            Self::Writable => EventFlags::OUT | EventFlags::ONESHOT,
            Self::Readable => once,
            Self::Anything => once | EventFlags::OUT,
        }
    }
}

/// A set of watched sockets, and a bell that other threads can ring.
#[derive(Debug)]
pub(super) struct Readiness {
    epoll: OwnedFd,
    bell: OwnedFd,
}

impl Readiness {
    /// An empty set.
    ///
    /// # Errors
    /// When the system is out of descriptors.
    pub(super) fn new() -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        epoll::add(&epoll, &bell, EventData::new_u64(BELL), EventFlags::IN | EventFlags::ET)?;
        Ok(Self { epoll, bell })
    }

    /// Watches for connections to accept, until `ignore_listener`.
    pub(super) fn add_listener(&self, listener: &TcpListener) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, listener, EventData::new_u64(LISTENER), EventFlags::IN)?)
    }

    /// Says no more of the listener until it is watched again.
    pub(super) fn ignore_listener(&self, listener: &TcpListener) -> io::Result<()> {
        Ok(epoll::modify(&self.epoll, listener, EventData::new_u64(LISTENER), EventFlags::empty())?)
    }

    /// Watches a listener again that was ignored.
    pub(super) fn watch_listener(&self, listener: &TcpListener) -> io::Result<()> {
        Ok(epoll::modify(&self.epoll, listener, EventData::new_u64(LISTENER), EventFlags::IN)?)
    }

    /// Watches a connection for the first time, for one event. It is forgotten when it is closed.
    pub(super) fn add(&self, connection: impl AsFd, token: Token, watch: Watch) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, connection, EventData::new_u64(token), watch.flags())?)
    }

    /// Watches a connection again, for one event.
    pub(super) fn watch(&self, connection: impl AsFd, token: Token, watch: Watch) -> io::Result<()> {
        Ok(epoll::modify(&self.epoll, connection, EventData::new_u64(token), watch.flags())?)
    }

    /// Wakes whoever waits, or the next who does. Any thread may ring.
    pub(super) fn ring(&self) {
        // The only error is that the bell has been rung beyond counting: it rings.
        let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
    }

    /// Waits for events, at most for `timeout` where there is one, and puts them into `events` in place of what was
    /// there; none when the time is over. Any number of threads may wait; each event of a connection comes to one of them.
    ///
    /// # Errors
    /// None that a caller could cure.
    pub(super) fn wait(&self, events: &mut Vec<Event>, timeout: Option<Duration>) -> io::Result<()> {
        let timeout = timeout.and_then(|time| Timespec::try_from(time).ok());
        let mut room = [const { MaybeUninit::uninit() }; EVENTS_MAX];
        events.clear();
        let fetched = match epoll::wait(&self.epoll, &mut room, timeout.as_ref()) {
            Ok((fetched, _)) => fetched,
            Err(Errno::INTR) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        events.extend(fetched.iter().map(|event: &epoll::Event| match event.data.u64() {
            LISTENER => Event::Listener,
            BELL => Event::Bell,
            token => Event::Connection(token),
        }));
        Ok(())
    }
}
