//! Accepts connections, whatever the system says to it.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use super::poller::Poller;

/// How long to leave the listener alone after an error that trying again at once would only repeat.
const PAUSE: Duration = Duration::from_millis(100);

/// A listening socket that survives every error, and from which any thread may accept. Descriptors or memory that ran out
/// come back; until then the connections wait in the system's queue.
#[derive(Debug)]
pub(super) struct Acceptor {
    /// It is there until `close`. Whoever accepts only reads it.
    listener: RwLock<Option<TcpListener>>,
    poller: Arc<Poller>,
    paused_until: Mutex<Option<Instant>>,
    accepted: AtomicU64,
}

impl Acceptor {
    /// Watches a listener that does not block.
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

    /// The next connection that waits; `None` when there is none, or when the system hands out none for now.
    pub(super) fn accept(&self, now: Instant) -> Option<(TcpStream, SocketAddr)> {
        let listener = self.listener.read().unwrap_or_else(PoisonError::into_inner);
        let listener = listener.as_ref()?;
        match listener.accept() {
            Ok(accepted) => {
                self.accepted.fetch_add(1, Ordering::Relaxed);
                Some(accepted)
            }
            // What was the fate of one connection tells nothing of the next, and that is reported again.
            Err(error) if is_passing(&error) => None,
            Err(error) => {
                self.pause(listener, now, &error);
                None
            }
        }
    }

    /// Goes on after a pause that is over. Says when to call it again, if it must be called; the bell rings when that
    /// changes.
    pub(super) fn resume(&self, now: Instant) -> Option<Instant> {
        let mut paused_until = self.paused_until.lock().unwrap_or_else(PoisonError::into_inner);
        if (*paused_until)? <= now {
            let listener = self.listener.read().unwrap_or_else(PoisonError::into_inner);
            let resumed = self.poller.resume_listener(listener.as_ref()?).is_ok();
            *paused_until = (!resumed).then(|| now + PAUSE);
        }
        *paused_until
    }

    /// Closes the listener, and says how many connections have been accepted.
    pub(super) fn close(&self) -> u64 {
        *self.listener.write().unwrap_or_else(PoisonError::into_inner) = None;
        self.accepted.load(Ordering::Relaxed)
    }

    fn pause(&self, listener: &TcpListener, now: Instant, error: &io::Error) {
        ::log::warn!("no connection can be accepted for the moment: {error}");
        if self.poller.pause_listener(listener).is_ok() {
            *self.paused_until.lock().unwrap_or_else(PoisonError::into_inner) = Some(now + PAUSE);
            self.poller.wake();
        }
    }
}

/// Whether the error says that nobody waits, or what became of the one who did (accept(2), "Error handling").
fn is_passing(error: &io::Error) -> bool {
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
