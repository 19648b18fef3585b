//! Accepts connections, whatever the system says to it.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::readiness::Readiness;

/// How long to leave the listener alone after an error that trying again at once would only repeat.
const PAUSE: Duration = Duration::from_millis(100);

/// A listening socket that survives every error. Descriptors or memory that ran out come back; until then the
/// connections wait in the system's queue.
#[derive(Debug)]
pub(super) struct Acceptor {
    listener: TcpListener,
    readiness: Arc<Readiness>,
    paused_until: Option<Instant>,
}

impl Acceptor {
    /// Watches a listener that does not block.
    ///
    /// # Errors
    /// When the system cannot watch it.
    pub(super) fn new(listener: TcpListener, readiness: Arc<Readiness>) -> io::Result<Self> {
        readiness.add_listener(&listener)?;
        Ok(Self { listener, readiness, paused_until: None })
    }

    /// The next connection that waits; `None` when there is none, or when the system hands out none for now.
    pub(super) fn accept(&mut self, now: Instant) -> Option<(TcpStream, SocketAddr)> {
        match self.listener.accept() {
            Ok(accepted) => Some(accepted),
            // What was the fate of one connection tells nothing of the next, and that is reported again.
            Err(error) if is_passing(&error) => None,
            Err(error) => {
                self.pause(now, &error);
                None
            }
        }
    }

    /// Goes on after a pause that is over. Says when to call it again, if it must be called.
    pub(super) fn resume(&mut self, now: Instant) -> Option<Instant> {
        if self.paused_until? <= now {
            let watched = self.readiness.watch_listener(&self.listener).is_ok();
            self.paused_until = (!watched).then(|| now + PAUSE);
        }
        self.paused_until
    }

    fn pause(&mut self, now: Instant, error: &io::Error) {
        ::log::warn!("no connection can be accepted for the moment: {error}");
        if self.readiness.ignore_listener(&self.listener).is_ok() {
            self.paused_until = Some(now + PAUSE);
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
