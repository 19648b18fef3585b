//! The acceptors of the engine. The crate's acceptor ends with the first error that the system reports to it, whatever the
//! error, or with a panic where a descriptor runs out a moment later. The one that follows listens on a duplicate of the
//! same socket, so that no connection is refused in between; the dead one goes on handing out the requests of the
//! connections that it has accepted.

use std::fs::{self, File};
use std::io;
use std::net::TcpListener;
use std::os::fd::{AsRawFd, RawFd};
use std::path::PathBuf;
use std::sync::{Arc, RwLock};
use std::time::Duration;

use tiny_http::{Request, Server};

/// How long a worker waits for a request of the newest generation before it looks at the older ones, while there are any.
const NEWEST_WAIT_MAX: Duration = Duration::from_millis(20);

/// Older acceptors that are kept; connections of still older ones are answered no more.
const OLDER_MAX: usize = 16;

/// Descriptors that one connection takes, and one to find it by.
const DESCRIPTORS_PER_CONNECTION: usize = 3;

/// The newest acceptor and those before it, whose connections may still be open.
pub(super) struct Acceptors {
    listener: TcpListener,
    list: RwLock<AcceptorList>,
}

struct AcceptorList {
    newest: Option<RunningAcceptor>,
    older: Vec<Arc<Server>>,
}

struct RunningAcceptor {
    server: Arc<Server>,
    /// Its duplicate of the listener. The crate closes it where its acceptor ends, and tells nobody.
    descriptor: RawFd,
}

impl Acceptors {
    /// The first generation.
    ///
    /// # Errors
    /// When the system has no descriptor to spare.
    pub(super) fn new(listener: TcpListener) -> io::Result<Self> {
        let newest = Some(RunningAcceptor::new(&listener)?);
        Ok(Self { listener, list: RwLock::new(AcceptorList { newest, older: Vec::new() }) })
    }

    /// The next request; `None` for a wake-up without one.
    pub(super) fn receive(&self) -> Option<Request> {
        let (newest, older) = self.snapshot();
        let newest = newest?;
        if older.is_empty() {
            return newest.recv().ok();
        }
        let waiting = older.iter().find_map(|server| server.try_recv().ok().flatten());
        waiting.or_else(|| newest.recv_timeout(NEWEST_WAIT_MAX).ok().flatten())
    }

    /// A request that waits already.
    pub(super) fn receive_now(&self) -> Option<Request> {
        let (newest, older) = self.snapshot();
        // A wake-up looks like an empty queue; behind it there may be a request.
        let waiting = |server: &Arc<Server>| (0..=1).find_map(|_| server.try_recv().ok().flatten());
        newest.iter().chain(&older).find_map(waiting)
    }

    /// Puts a new acceptor in the place of one that has ended, once there are descriptors for a connection again. Called from
    /// time to time: of the `workers` that wait for requests of an old one alone, one may lose its wake-up to another.
    pub(super) fn restart_ended(&self, workers: usize) {
        let mut list = self.list.write().expect("nobody panics who holds the list");
        list.older.iter().for_each(|server| (0..workers).for_each(|_| server.unblock()));
        if list.newest.as_ref().is_none_or(|newest| newest.is_accepting(&self.listener)) {
            return;
        }
        let Ok(next) = spare_descriptors().and_then(|()| RunningAcceptor::new(&self.listener)) else {
            return;
        };
        ::log::warn!("the acceptor of the engine had ended, most likely for want of descriptors; it is back");
        let Some(old) = list.newest.replace(next) else { return };
        list.older.insert(0, old.server);
        list.older.truncate(OLDER_MAX);
    }

    /// Wakes that many workers, whatever they wait for.
    pub(super) fn wake(&self, workers: usize) {
        let (newest, _) = self.snapshot();
        (0..workers).for_each(|_| newest.iter().for_each(|server| server.unblock()));
    }

    /// Ends every acceptor.
    pub(super) fn end(&self) {
        let mut list = self.list.write().expect("nobody panics who holds the list");
        list.newest = None;
        list.older.clear();
    }

    fn snapshot(&self) -> (Option<Arc<Server>>, Vec<Arc<Server>>) {
        let list = self.list.read().expect("nobody panics who holds the list");
        (list.newest.as_ref().map(|newest| Arc::clone(&newest.server)), list.older.clone())
    }
}

impl RunningAcceptor {
    fn new(listener: &TcpListener) -> io::Result<Self> {
        let duplicate = listener.try_clone()?;
        let descriptor = duplicate.as_raw_fd();
        let server = Server::from_listener(duplicate, None).map_err(io::Error::other)?;
        Ok(Self { server: Arc::new(server), descriptor })
    }

    /// Whether its duplicate of `listener` is still open.
    fn is_accepting(&self, listener: &TcpListener) -> bool {
        socket_behind(self.descriptor)
            .is_some_and(|socket| Some(socket) == socket_behind(listener.as_raw_fd()))
    }
}

/// What the system calls the socket that a descriptor stands for.
fn socket_behind(descriptor: RawFd) -> Option<PathBuf> {
    fs::read_link(format!("/proc/self/fd/{descriptor}")).ok()
}

/// Whether a connection could be accepted.
fn spare_descriptors() -> io::Result<()> {
    let taken: io::Result<Vec<_>> =
        (0..DESCRIPTORS_PER_CONNECTION).map(|_| File::open("/dev/null")).collect();
    taken.map(drop)
}
