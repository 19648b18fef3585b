//! A thin layer over epoll, and the only file that knows it.
//!
//! A connection is watched for one event at a time. After the event it is ignored until it is armed
//! again, so that a connection in the hands of a worker wakes no thread. Arming again also reports
//! what arrived in between.

use std::io;
use std::mem::MaybeUninit;
use std::net::TcpListener;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use rustix::io::Errno;

/// Events fetched by one call. They wait with the thread that fetched them if it loses the
/// processor, so there are few.
const EVENTS_MAX: usize = 16;

const LISTENER: u64 = u64::MAX;
const WAKER: u64 = u64::MAX - 1;

/// The caller's number for a connection, which its events carry; neither of the two numbers above.
pub(super) type ConnectionToken = u64;

/// One event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PollEvent {
    /// Connections wait to be accepted.
    Listener,
    /// A thread called `wake`.
    Wake,
    /// The connection with that token is ready, or has ended.
    Connection(ConnectionToken),
}

/// The readiness that a connection is watched for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Interest {
    /// Bytes to receive, or the end.
    Readable,
    /// Room to send, or an error.
    Writable,
    /// Either. The event comes nearly always at once, because there is room to send.
    ReadableOrWritable,
}

impl Interest {
    fn flags(self) -> EventFlags {
        let readable = EventFlags::IN | EventFlags::RDHUP | EventFlags::ONESHOT;
        match self {
            Self::Writable => EventFlags::OUT | EventFlags::ONESHOT,
            Self::Readable => readable,
            Self::ReadableOrWritable => readable | EventFlags::OUT,
        }
    }
}

/// A set of watched sockets, with a waker for other threads.
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
        // Reported once for each wake (`ET`): nobody reads the counter.
        epoll::add(&epoll, &waker, EventData::new_u64(WAKER), EventFlags::IN | EventFlags::ET)?;
        Ok(Self { epoll, waker })
    }

    /// Watches a listener until `pause_listener`.
    pub(super) fn add_listener(&self, listener: &TcpListener) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, listener, EventData::new_u64(LISTENER), EventFlags::IN)?)
    }

    /// Ignores the listener until `resume_listener`.
    pub(super) fn pause_listener(&self, listener: &TcpListener) -> io::Result<()> {
        Ok(epoll::modify(&self.epoll, listener, EventData::new_u64(LISTENER), EventFlags::empty())?)
    }

    /// Watches a paused listener again.
    pub(super) fn resume_listener(&self, listener: &TcpListener) -> io::Result<()> {
        Ok(epoll::modify(&self.epoll, listener, EventData::new_u64(LISTENER), EventFlags::IN)?)
    }

    /// Adds a connection and watches it for one event. Closing the connection removes it.
    pub(super) fn register(
        &self,
        connection: impl AsFd,
        token: ConnectionToken,
        interest: Interest,
    ) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, connection, EventData::new_u64(token), interest.flags())?)
    }

    /// Watches a registered connection for one more event.
    pub(super) fn rearm(
        &self,
        connection: impl AsFd,
        token: ConnectionToken,
        interest: Interest,
    ) -> io::Result<()> {
        Ok(epoll::modify(&self.epoll, connection, EventData::new_u64(token), interest.flags())?)
    }

    /// Wakes one waiting thread, or the next thread that waits. Any thread may call it.
    pub(super) fn wake(&self) {
        // It fails only when the counter of the eventfd is full; then a wake is pending.
        let _ = rustix::io::write(&self.waker, &1_u64.to_ne_bytes());
    }

    /// Waits for events, for at most `timeout` where there is one, and replaces the content of
    /// `events` by them. Any number of threads may wait; each event of a connection goes to one of
    /// them.
    ///
    /// # Errors
    /// When the system fails the wait. No caller can recover from it.
    pub(super) fn wait(&self, events: &mut Vec<PollEvent>, timeout: Option<Duration>) -> io::Result<()> {
        let timeout = timeout.and_then(|time| Timespec::try_from(time).ok());
        let mut room = [const { MaybeUninit::uninit() }; EVENTS_MAX];
        events.clear();
        let fetched = match epoll::wait(&self.epoll, &mut room, timeout.as_ref()) {
            Ok((fetched, _)) => fetched,
            // A signal ends the wait, and the caller looks whether it is to stop.
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
