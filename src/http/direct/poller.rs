//! The thread that has every connection which no worker has: it accepts them, reads heads without waiting for any, hands
//! complete ones to the workers, and closes what takes too long.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::acceptor::Acceptor;
use super::head::{self, Outlook};
use super::lot::{Held, NoRoom, Purpose};
use super::readiness::{Event, Token, Watch};
use super::shared::Shared;
use super::stream::{Stream, is_wait};
use crate::base::limits;
use crate::http::Config;
use crate::http::guarded::guarded;
use crate::http::response::{Asked, DateLine, render_last};
use crate::s3::{ErrorCode, S3Error};

/// The bounds of the time between two looks at the deadlines.
const LOOK_MIN: Duration = Duration::from_millis(10);
const LOOK_MAX: Duration = Duration::from_secs(1);

/// How long a small body may take to follow its head before it counts as bulk.
const PROMPT: Duration = Duration::from_millis(limits::PROMPT_BODY_MILLIS);

/// How often the end of the last connections is looked for while the engine stops.
const STOP_LOOK: Duration = Duration::from_millis(5);

/// Connections accepted in a row before others get their turn.
const BURST: usize = 64;

/// What is received into, unless a head may be larger.
const SCRATCH_BYTES: usize = 64 * limits::KIB as usize;

/// Why a connection is closed with a response that no worker has made.
enum Reason {
    /// Nobody has time for it.
    Overload,
    /// It is at fault.
    Error(S3Error),
}

/// The poller of one engine.
pub(super) struct Poller {
    shared: Arc<Shared>,
    /// It is there until the order to stop.
    acceptor: Option<Acceptor>,
    scratch: Vec<u8>,
    date: DateLine,
    next_look: Instant,
    accepted: u64,
}

impl Poller {
    /// A poller that has not begun.
    pub(super) fn new(shared: Arc<Shared>, acceptor: Acceptor) -> Self {
        let scratch = vec![0; SCRATCH_BYTES.max(shared.config.head_max_bytes)];
        let next_look = shared.clock.instant();
        let acceptor = Some(acceptor);
        Self { shared, acceptor, scratch, date: DateLine::default(), next_look, accepted: 0 }
    }

    /// Serves until the order to stop; then accepts nothing more, turns away whoever waits, and lets the workers end
    /// once the queue is empty. Says how many connections it has accepted.
    ///
    /// # Errors
    /// When the system can no longer tell which sockets are ready.
    pub(super) fn serve(&mut self) -> io::Result<u64> {
        let mut events = Vec::new();
        let mut outcome = Ok(());
        while !self.shared.is_stopping() && outcome.is_ok() {
            let timeout = self.timeout();
            outcome = self.turn(&mut events, timeout);
        }
        self.acceptor = None;
        self.shared.lanes.close();
        for connection in self.shared.lot.close() {
            if !connection.pending.is_empty() {
                self.turn_away(connection, Reason::Overload);
            }
        }
        outcome.map(|()| self.accepted)
    }

    /// Goes on draining closed connections until `done` or until `deadline`; whether it was done.
    ///
    /// # Errors
    /// As `serve`.
    pub(super) fn wind_down(
        &mut self,
        deadline: Instant,
        mut done: impl FnMut() -> bool,
    ) -> io::Result<bool> {
        let mut events = Vec::new();
        while !done() {
            if self.shared.clock.instant() >= deadline {
                return Ok(false);
            }
            self.turn(&mut events, Some(STOP_LOOK))?;
        }
        Ok(true)
    }

    fn turn(&mut self, events: &mut Vec<Event>, timeout: Option<Duration>) -> io::Result<()> {
        self.shared.readiness.wait(events, timeout)?;
        for event in events {
            match *event {
                Event::Bell => {}
                Event::Listener => self.accept(),
                Event::Connection(token) => self.attend(token),
            }
        }
        self.look_at_deadlines();
        Ok(())
    }

    /// How long nothing has to be done if nothing happens.
    fn timeout(&mut self) -> Option<Duration> {
        let now = self.shared.clock.instant();
        let resume = self.acceptor.as_mut().and_then(|acceptor| acceptor.resume(now));
        let census = self.shared.lot.census();
        let look = (census.serving + census.draining > 0).then_some(self.next_look);
        let next = resume.into_iter().chain(look).min()?;
        Some(next.saturating_duration_since(now))
    }

    fn accept(&mut self) {
        let now = self.shared.clock.instant();
        for _ in 0..BURST {
            let Some((socket, peer)) = self.acceptor.as_mut().and_then(|acceptor| acceptor.accept(now))
            else {
                return;
            };
            self.admit(socket, peer, now);
        }
    }

    fn admit(&mut self, socket: TcpStream, peer: SocketAddr, now: Instant) {
        self.accepted += 1;
        let Shared { config, lot, .. } = &*self.shared;
        let Ok(tls) = config.tls.as_ref().map(|tls| tls.accept()).transpose() else {
            return;
        };
        let patience = if tls.is_some() { config.head_deadline } else { config.idle_deadline };
        let Ok(stream) = Stream::new(socket, tls, config.linger, config.write_patience) else {
            return;
        };
        let is_full = lot.census().serving >= config.connections_max;
        let connection = lot.admit(stream, peer, now + patience);
        if is_full {
            self.turn_away(connection, Reason::Overload);
        } else {
            lot.park(connection, Watch::Readable);
        }
    }

    /// Something has happened on a connection that waits, unless it is no longer there.
    fn attend(&mut self, token: Token) {
        let Some(connection) = self.shared.lot.take(token) else {
            return;
        };
        match connection.purpose {
            Purpose::Draining(left) => self.drain(connection, left),
            // It takes a signature and more: work for a worker.
            Purpose::Handshake => self.enqueue(connection, false),
            // A worker has given back bytes that it had no time to look at.
            Purpose::Requests if connection.wanted == 0 && connection.searched < connection.pending.len() => {
                self.judge_head(connection);
            }
            Purpose::Requests => self.read_head(connection),
        }
    }

    fn read_head(&mut self, mut connection: Held) {
        let room = self.shared.config.head_max_bytes - connection.pending.len();
        match connection.stream.receive_now(&mut self.scratch[..room]) {
            // A worker tells the client that its body is not whole.
            Ok(0) if connection.wanted > 0 => self.enqueue(connection, true),
            Ok(0) => {}
            Ok(count) => {
                if connection.pending.is_empty() {
                    connection.deadline = self.shared.deadline_in(self.shared.config.head_deadline);
                }
                let Config { head_max_bytes, ref memory, .. } = self.shared.config;
                match connection.keep(&self.scratch[..count], head_max_bytes, memory) {
                    Ok(()) => self.judge_head(connection),
                    Err(NoRoom) => self.turn_away(connection, Reason::Overload),
                }
            }
            Err(error) if is_wait(&error) => self.shared.lot.park(connection, Watch::Readable),
            Err(_) if connection.wanted > 0 => self.enqueue(connection, true),
            Err(_) => {}
        }
    }

    /// Hands a head to the workers if it is whole, and with it a body that is small; waits for the rest, or gives it up, if it
    /// is not.
    fn judge_head(&mut self, mut connection: Held) {
        let received = connection.pending.len();
        if connection.wanted > 0 {
            self.await_body(connection);
        } else if head::has_arrived(&connection.pending, connection.searched) {
            match head::outlook(&connection.pending, self.shared.config.head_max_bytes) {
                Outlook::Quick => self.enqueue(connection, false),
                Outlook::Bulk => self.enqueue(connection, true),
                Outlook::Awaited(wanted) => {
                    connection.wanted = wanted;
                    connection.deadline = self.shared.deadline_in(PROMPT);
                    self.await_body(connection);
                }
            }
        } else if received >= self.shared.config.head_max_bytes {
            self.turn_away(connection, Reason::Error(head::too_large()));
        } else {
            connection.searched = received;
            self.await_rest(connection);
        }
    }

    /// Lets a connection wait with what has come of its request. Of such there may be as many as there are connections.
    fn await_rest(&mut self, mut connection: Held) {
        let Config { head_max_bytes, ref memory, .. } = self.shared.config;
        match connection.reserve(head_max_bytes, memory) {
            Ok(()) => self.shared.lot.park(connection, Watch::Readable),
            Err(NoRoom) => self.turn_away(connection, Reason::Overload),
        }
    }

    /// No worker waits for a body that a head's room can hold, as long as it comes promptly.
    fn await_body(&mut self, connection: Held) {
        if connection.pending.len() >= connection.wanted {
            self.enqueue(connection, false);
        } else {
            self.await_rest(connection);
        }
    }

    fn enqueue(&mut self, mut connection: Held, bulk: bool) {
        connection.wanted = 0;
        if let Err(connection) = self.shared.lanes.push(connection, bulk) {
            self.turn_away(connection, Reason::Overload);
        }
    }

    fn drain(&mut self, mut connection: Held, left: u64) {
        match connection.stream.receive_now(&mut self.scratch) {
            Ok(count) if count > 0 && (count as u64) < left => {
                connection.purpose = Purpose::Draining(left - count as u64);
            }
            Err(error) if is_wait(&error) => {}
            _ => return,
        }
        self.shared.lot.park(connection, Watch::Readable);
    }

    fn look_at_deadlines(&mut self) {
        let Shared { config, clock, lot, .. } = &*self.shared;
        let now = clock.instant();
        if now < self.next_look {
            return;
        }
        let shortest = config.head_deadline.min(config.idle_deadline).min(config.drain_deadline);
        self.next_look = now + (shortest / 4).clamp(LOOK_MIN, LOOK_MAX);
        for connection in lot.expired(now) {
            if connection.wanted > 0 {
                self.enqueue(connection, true);
            } else if !connection.pending.is_empty() {
                self.turn_away(connection, Reason::Error(S3Error::new(ErrorCode::RequestTimeout)));
            }
        }
    }

    /// Sends a last response if there is room for it at once, and closes the connection.
    fn turn_away(&mut self, connection: Held, reason: Reason) {
        let Shared { config, clock, handler, lot, .. } = &*self.shared;
        let response = guarded(|| match reason {
            Reason::Overload => handler.overloaded(),
            Reason::Error(error) => handler.refused(error),
        });
        let Some(response) = response else {
            return;
        };
        let asked = Asked { head_only: connection.pending.starts_with(b"HEAD "), http10: false };
        let bytes = render_last(&response, asked, self.date.at(clock.now()));
        if matches!(connection.stream.send_now(&bytes), Ok(sent) if sent == bytes.len()) {
            lot.drain(connection, self.shared.deadline_in(config.drain_deadline));
        }
    }
}
