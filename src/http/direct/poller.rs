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
const WAKER: u64 = u64::MAX - 1;

/// What an event of a connection brings back: the caller's own number for it, never one of the two above.
pub(super) type ConnectionToken = u64;

/// What has happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PollEvent {
    /// Connections wait to be accepted.
    Listener,
    /// Somebody rang.
    Wake,
    /// The connection watched under that token has bytes, room, or an end.
    Connection(ConnectionToken),
}

/// What to watch a connection for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Interest {
    /// Bytes to receive, or the end.
    Readable,
    /// Room to send, or an error.
    Writable,
    /// Anything: an event comes as soon as there is room to send, which is nearly always at once.
    ReadableOrWritable,
}

impl Interest {
    fn flags(self) -> EventFlags {
        let once = EventFlags::IN | EventFlags::RDHUP | EventFlags::ONESHOT;
        match self {
            Self::Writable => EventFlags::OUT | EventFlags::ONESHOT,
            Self::Readable => once,
            Self::ReadableOrWritable => once | EventFlags::OUT,
        }
    }
}

/// A set of watched sockets, and a bell that other threads can ring.
#[derive(Debug)]
pub(super) struct Poller {
    epoll: OwnedFd,
    waker: OwnedFd,
}

impl Poller {
    /// An empty set.
    ///
    /// # Errors
    /// When the system is out of descriptors.
    pub(super) fn new() -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let waker = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        epoll::add(&epoll, &waker, EventData::new_u64(WAKER), EventFlags::IN | EventFlags::ET)?;
        Ok(Self { epoll, waker })
    }

    /// Watches for connections to accept, until `pause_listener`.
    pub(super) fn add_listener(&self, listener: &TcpListener) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, listener, EventData::new_u64(LISTENER), EventFlags::IN)?)
    }

    /// Says no more of the listener until it is watched again.
    pub(super) fn pause_listener(&self, listener: &TcpListener) -> io::Result<()> {
        Ok(epoll::modify(&self.epoll, listener, EventData::new_u64(LISTENER), EventFlags::empty())?)
    }

    /// Watches a listener again that was ignored.
    pub(super) fn resume_listener(&self, listener: &TcpListener) -> io::Result<()> {
        Ok(epoll::modify(&self.epoll, listener, EventData::new_u64(LISTENER), EventFlags::IN)?)
    }

    /// Watches a connection for the first time, for one event. It is forgotten when it is closed.
    pub(super) fn register(
        &self,
        connection: impl AsFd,
        token: ConnectionToken,
        interest: Interest,
    ) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, connection, EventData::new_u64(token), interest.flags())?)
    }

    /// Watches a connection again, for one event.
    pub(super) fn rearm(
        &self,
        connection: impl AsFd,
        token: ConnectionToken,
        interest: Interest,
    ) -> io::Result<()> {
        Ok(epoll::modify(&self.epoll, connection, EventData::new_u64(token), interest.flags())?)
    }

    /// Wakes whoever waits, or the next who does. Any thread may ring.
    pub(super) fn wake(&self) {
        // The only error is that the bell has been rung beyond counting: it rings.
        let _ = rustix::io::write(&self.waker, &1_u64.to_ne_bytes());
    }

    /// Waits for events, at most for `timeout` where there is one, and puts them into `events` in place of what was
    /// there; none when the time is over. Any number of threads may wait; each event of a connection comes to one of them.
    ///
    /// # Errors
    /// None that a caller could cure.
    pub(super) fn wait(&self, events: &mut Vec<PollEvent>, timeout: Option<Duration>) -> io::Result<()> {
        let timeout = timeout.and_then(|time| Timespec::try_from(time).ok());
        let mut room = [const { MaybeUninit::uninit() }; EVENTS_MAX];
        events.clear();
        let fetched = match epoll::wait(&self.epoll, &mut room, timeout.as_ref()) {
            Ok((fetched, _)) => fetched,
            Err(Errno::INTR) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        events.extend(fetched.iter().map(|event: &epoll::Event| match event.data.u64() {
            LISTENER => PollEvent::Listener,
            WAKER => PollEvent::Wake,
            token => PollEvent::Connection(token),
        }));
        Ok(())
    }
}
