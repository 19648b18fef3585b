//! The acceptors of the engine, one of which runs at a time.
//!
//! An acceptor of the crate ends with the first error of accept(2), or with a panic when
//! descriptors run out a moment later. Its successor listens on a duplicate of the same socket, so
//! that no connection is refused in between. The ended one goes on handing out the requests of its
//! connections.

use std::fs::{self, File};
use std::io;
use std::net::TcpListener;
use std::os::fd::{AsRawFd, RawFd};
use std::path::PathBuf;
use std::sync::{Arc, RwLock};
use std::time::Duration;

use tiny_http::{Request, Server};

use crate::base::NOT_POISONED;

/// How long a worker waits for a request of the newest acceptor before it checks the ended ones,
/// while there are any.
const NEWEST_WAIT_MAX: Duration = Duration::from_millis(20);

/// Ended acceptors that are kept. Connections of older ones are not served.
const ENDED_MAX: usize = 16;

/// Descriptors that one connection takes, with one to find its socket.
const DESCRIPTORS_PER_CONNECTION: usize = 3;

/// The newest acceptor, and the ended ones, whose connections may be open.
pub(super) struct Acceptors {
    listener: TcpListener,
    list: RwLock<AcceptorList>,
}

struct AcceptorList {
    newest: Option<RunningAcceptor>,
    ended: Vec<Arc<Server>>,
}

struct RunningAcceptor {
    server: Arc<Server>,
    /// Its duplicate of the listener, which the crate closes when the acceptor ends.
    descriptor: RawFd,
}

impl Acceptors {
    /// Starts the first acceptor.
    ///
    /// # Errors
    /// When the system is out of descriptors.
    pub(super) fn new(listener: TcpListener) -> io::Result<Self> {
        let newest = Some(RunningAcceptor::new(&listener)?);
        Ok(Self { listener, list: RwLock::new(AcceptorList { newest, ended: Vec::new() }) })
    }

    /// Waits for the next request. `None` for a wake-up without one.
    pub(super) fn receive(&self) -> Option<Request> {
        let (newest, ended) = self.snapshot();
        let newest = newest?;
        if ended.is_empty() {
            return newest.recv().ok();
        }
        let waiting = ended.iter().find_map(|server| try_receive(server));
        waiting.or_else(|| newest.recv_timeout(NEWEST_WAIT_MAX).ok().flatten())
    }

    /// Takes a request that waits already.
    pub(super) fn receive_now(&self) -> Option<Request> {
        let (newest, ended) = self.snapshot();
        for server in newest.iter().chain(&ended) {
            // A wake-up looks like an empty queue, so a second attempt may find a request.
            let request = try_receive(server).or_else(|| try_receive(server));
            if request.is_some() {
                return request;
            }
        }
        None
    }

    /// Starts a successor if the newest acceptor has ended and there are descriptors for a
    /// connection. Also wakes the `workers` that wait for an ended acceptor, because one may have
    /// lost its wake-up to another. To be called at intervals.
    pub(super) fn restart_ended(&self, workers: usize) {
        let mut list = self.list.write().expect(NOT_POISONED);
        for server in &list.ended {
            for _ in 0..workers {
                server.unblock();
            }
        }
        if list.newest.as_ref().is_none_or(|newest| newest.is_accepting(&self.listener)) {
            return;
        }
        let Ok(next) = check_descriptors().and_then(|()| RunningAcceptor::new(&self.listener)) else {
            return;
        };
        ::log::warn!(
            "the acceptor of the engine had ended, probably for lack of descriptors; it has been restarted"
        );
        let Some(old) = list.newest.replace(next) else { return };
        list.ended.insert(0, old.server);
        list.ended.truncate(ENDED_MAX);
    }

    /// Wakes that many waiting workers.
    pub(super) fn wake(&self, workers: usize) {
        let (newest, _) = self.snapshot();
        let Some(newest) = newest else { return };
        for _ in 0..workers {
            newest.unblock();
        }
    }

    /// Ends all acceptors.
    pub(super) fn end(&self) {
        let mut list = self.list.write().expect(NOT_POISONED);
        list.newest = None;
        list.ended.clear();
    }

    fn snapshot(&self) -> (Option<Arc<Server>>, Vec<Arc<Server>>) {
        let list = self.list.read().expect(NOT_POISONED);
        (list.newest.as_ref().map(|newest| Arc::clone(&newest.server)), list.ended.clone())
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
        socket_name(self.descriptor).is_some_and(|socket| Some(socket) == socket_name(listener.as_raw_fd()))
    }
}

/// A request of the acceptor that waits already; `None` for a wake-up, too.
fn try_receive(server: &Server) -> Option<Request> {
    server.try_recv().ok().flatten()
}

/// The system's name of the socket of a descriptor.
fn socket_name(descriptor: RawFd) -> Option<PathBuf> {
    fs::read_link(format!("/proc/self/fd/{descriptor}")).ok()
}

/// Checks that there are descriptors for one connection.
fn check_descriptors() -> io::Result<()> {
    let opened: io::Result<Vec<_>> =
        (0..DESCRIPTORS_PER_CONNECTION).map(|_| File::open("/dev/null")).collect();
    opened.map(drop)
}
