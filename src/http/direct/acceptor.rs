//! Accepts connections through every error of the listener.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::time::{Duration, Instant};

use super::poller::Poller;
use crate::base::NOT_POISONED;

/// The pause of the listener after an error that an immediate retry would repeat.
const PAUSE: Duration = Duration::from_millis(100);

/// A listening socket that survives every error, and from which any thread may accept. When
/// descriptors or memory run out, connections wait in the system's queue until the next attempt.
#[derive(Debug)]
pub(super) struct Acceptor {
    /// `None` after `close`. Accepting takes only the read lock.
    listener: RwLock<Option<TcpListener>>,
    poller: Arc<Poller>,
    paused_until: Mutex<Option<Instant>>,
    accepted: AtomicU64,
}

impl Acceptor {
    /// Watches a non-blocking listener.
    ///
    /// # Errors
    /// When the system cannot watch it.
    pub(super) fn new(listener: TcpListener, poller: Arc<Poller>) -> io::Result<Self> {
        poller.add_listener(&listener)?;
        Ok(Self {
            listener: RwLock::new(Some(listener)),
            poller,
            paused_until: Mutex::default(),
            accepted: AtomicU64::new(0),
        })
    }

    /// Accepts a waiting connection. `None` when none waits, and when accepting fails. A client
    /// that comes by IPv4 to a listener of IPv6 has its IPv4 address.
    pub(super) fn accept(&self, now: Instant) -> Option<(TcpStream, SocketAddr)> {
        let listener = self.listener.read().expect(NOT_POISONED);
        let listener = listener.as_ref()?;
        match listener.accept() {
            Ok((stream, peer)) => {
                self.accepted.fetch_add(1, Ordering::Relaxed);
                Some((stream, SocketAddr::new(peer.ip().to_canonical(), peer.port())))
            }
            // The error concerns one connection. The poller reports the listener again if more of
            // them wait.
            Err(error) if is_transient(&error) => None,
            Err(error) => {
                self.pause(listener, now, &error);
                None
            }
        }
    }

    /// Resumes the listener when its pause is over. Returns when to call this again, or `None` if
    /// there is no pause. A new pause wakes the event loop, which then calls this.
    pub(super) fn resume(&self, now: Instant) -> Option<Instant> {
        let mut paused_until = self.paused_until.lock().expect(NOT_POISONED);
        if (*paused_until)? <= now {
            let listener = self.listener.read().expect(NOT_POISONED);
            let resumed = self.poller.resume_listener(listener.as_ref()?).is_ok();
            *paused_until = (!resumed).then(|| now + PAUSE);
        }
        *paused_until
    }

    /// Closes the listener and returns how many connections were accepted.
    pub(super) fn close(&self) -> u64 {
        *self.listener.write().expect(NOT_POISONED) = None;
        self.accepted.load(Ordering::Relaxed)
    }

    fn pause(&self, listener: &TcpListener, now: Instant, error: &io::Error) {
        ::log::warn!("no connection can be accepted for the moment: {error}");
        // Connections go on waiting, so that the poller would report the listener without end.
        if self.poller.pause_listener(listener).is_ok() {
            *self.paused_until.lock().expect(NOT_POISONED) = Some(now + PAUSE);
            // The event loop may be asleep without a timeout, and would not end the pause.
            self.poller.wake();
        }
    }
}

/// Whether the error says that no connection waits, or concerns only the connection that waited
/// (accept(2), "Error handling").
fn is_transient(error: &io::Error) -> bool {
    use io::ErrorKind as Kind;
    matches!(
        error.kind(),
        Kind::WouldBlock
            | Kind::Interrupted
            | Kind::ConnectionAborted
            | Kind::ConnectionReset
            | Kind::HostUnreachable
            | Kind::NetworkUnreachable
            | Kind::NetworkDown
    )
}
