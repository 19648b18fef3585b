//! The table of open connections. Connections are parked here while they wait for an event.

mod connection;
mod slots;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use self::slots::ConnectionSlots;
use super::poller::{ConnectionToken, Interest, Poller};
use super::stream::ClientStream;
use crate::base::{NOT_POISONED, limits};
use crate::http::client_origin::ClientOrigin;

pub(super) use self::connection::{Connection, ConnectionPhase, NoMemory};

/// Holds the slot of a connection. Dropping it frees the slot.
#[derive(Debug)]
struct SlotGuard {
    table: Arc<ConnectionTable>,
    token: ConnectionToken,
}

impl Drop for SlotGuard {
    fn drop(&mut self) {
        self.table.lock().remove(self.token);
    }
}

/// The open connections.
#[derive(Debug)]
pub(super) struct ConnectionTable {
    poller: Arc<Poller>,
    slots: Mutex<ConnectionSlots>,
}

/// The largest numbers of connections.
#[derive(Debug, Clone, Copy)]
pub(super) struct ConnectionLimits {
    pub(super) total: usize,
    pub(super) of_origin: usize,
}

/// The numbers of connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ConnectionCounts {
    /// Connections open for requests, parked or not.
    pub(super) serving: usize,
    /// Connections whose last response has been sent.
    pub(super) draining: usize,
}

/// A connection that was accepted.
pub(super) struct NewConnection {
    pub(super) stream: ClientStream,
    pub(super) peer: SocketAddr,
    /// The origin that it counts for; `None` if that has no limit.
    pub(super) origin: Option<ClientOrigin>,
    pub(super) accepted_at: Instant,
    /// When it is closed if nothing is received.
    pub(super) deadline: Instant,
}

impl ConnectionTable {
    /// An empty table, whose connections are watched by `poller`. At most `draining_max` of them
    /// may be draining.
    pub(super) fn new(poller: Arc<Poller>, draining_max: usize) -> Arc<Self> {
        Arc::new(Self { poller, slots: Mutex::new(ConnectionSlots::new(draining_max)) })
    }

    /// Adds a connection. If one more exceeds a limit, it displaces the connection that has been
    /// idle longest.
    ///
    /// # Errors
    /// Returns the connection if it exceeds a limit and none is idle. It is to be rejected.
    pub(super) fn insert(
        self: &Arc<Self>,
        new: NewConnection,
        max: ConnectionLimits,
    ) -> Result<Box<Connection>, Box<Connection>> {
        let NewConnection { stream, peer, origin, accepted_at, deadline } = new;
        let stream = Arc::new(stream);
        let mut slots = self.lock();
        let evicted = slots.evict_if_full(origin, max);
        let token = slots.insert(Arc::clone(&stream), origin);
        // The drop of the evicted connection takes the lock.
        drop(slots);
        let slot = SlotGuard { table: Arc::clone(self), token };
        let connection = Box::new(Connection::new(slot, stream, peer, accepted_at, deadline));
        match evicted {
            Ok(_) => Ok(connection),
            Err(_) => Err(connection),
        }
    }

    /// Parks a connection until an event of `interest`, when `unpark` gets it, or until its
    /// deadline, when `take_expired` does. Plain text that TLS has already decrypted counts as an
    /// event. The connection is closed if the system cannot watch it, or if it waits for requests
    /// and the table is closed to those.
    pub(super) fn park(&self, mut connection: Box<Connection>, interest: Interest) {
        let token = connection.slot.token;
        let stream = Arc::clone(&connection.stream);
        let has_event = interest == Interest::Readable && stream.has_plaintext();
        let interest = if has_event { Interest::ReadableOrWritable } else { interest };
        let registered = std::mem::replace(&mut connection.is_registered, true);
        // Parked before it is watched, because the event may come at once. If another thread takes
        // and closes it in between, the socket lives on in `stream`, and is watched in vain.
        let refused = self.lock().park(connection);
        if refused.is_some() {
            return;
        }
        let watched = match registered {
            true => self.poller.rearm(&*stream, token, interest),
            false => self.poller.register(&*stream, token, interest),
        };
        if let Err(error) = watched {
            ::log::warn!("a connection is closed because the system cannot watch it: {error}");
            drop(self.unpark(token));
        }
    }

    /// Takes the connection that is parked under `token`. `None` if another thread has taken or
    /// closed it.
    pub(super) fn unpark(&self, token: ConnectionToken) -> Option<Box<Connection>> {
        self.lock().unpark(token)
    }

    /// Takes the parked connections whose deadline has passed.
    pub(super) fn take_expired(&self, now: Instant) -> impl Iterator<Item = Box<Connection>> + use<> {
        self.lock().take_parked(&|connection| connection.deadline <= now)
    }

    /// Ends the sending half of a connection after its last response, and parks it until the client
    /// ends the other half or `deadline` passes. If too many connections are draining, it is closed
    /// at once.
    pub(super) fn start_draining(&self, mut connection: Box<Connection>, deadline: Instant) {
        // 1. The client sees the end of the last response at once.
        connection.stream.shut_down_sending();
        // 2. Where too many drain, the drop closes the connection, and may reset it: a bound on
        //    clients that never end comes before one client's last response.
        let has_room = self.lock().mark_draining(connection.slot.token);
        if has_room {
            connection.phase = ConnectionPhase::Draining(limits::DRAIN_MAX_BYTES);
            connection.deadline = deadline;
            connection.take_received();
            self.park(connection, Interest::Readable);
        }
    }

    /// Parks no more connections that wait for requests, and takes the parked ones.
    pub(super) fn close_to_requests(&self) -> impl Iterator<Item = Box<Connection>> + use<> {
        let mut slots = self.lock();
        slots.closed = true;
        slots.take_parked(&|connection| !connection.is_draining())
    }

    /// Aborts every connection, parked or not. Returns how many of them were open for requests.
    pub(super) fn abort_all(&self) -> usize {
        let slots = self.lock();
        for stream in slots.streams() {
            stream.abort();
        }
        slots.counts().serving
    }

    /// Closes every parked connection.
    pub(super) fn close_parked(&self) {
        let parked = self.lock().take_parked(&|_| true);
        // Each drop takes the lock, which that statement has released.
        drop(parked);
    }

    /// The numbers of connections.
    pub(super) fn counts(&self) -> ConnectionCounts {
        self.lock().counts()
    }

    fn lock(&self) -> MutexGuard<'_, ConnectionSlots> {
        self.slots.lock().expect(NOT_POISONED)
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::time::Duration;

    use super::*;

    const ANY: ConnectionLimits = ConnectionLimits { total: usize::MAX, of_origin: usize::MAX };

    /// A connection of `table`, its token, and the client's end.
    fn insert(table: &Arc<ConnectionTable>) -> (Box<Connection>, ConnectionToken, TcpStream) {
        let (connection, client, _) = insert_from(table, None, 0, ANY);
        let token = connection.slot.token;
        (connection, token, client)
    }

    /// A connection accepted that many seconds after the first, the client's end, and whether it
    /// exceeds a limit.
    fn insert_from(
        table: &Arc<ConnectionTable>,
        origin: Option<ClientOrigin>,
        second: u64,
        max: ConnectionLimits,
    ) -> (Box<Connection>, TcpStream, bool) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (socket, peer) = listener.accept().unwrap();
        let time = Duration::from_millis(10);
        let stream = ClientStream::new(socket, None, time, time).unwrap();
        let now = Instant::now() + Duration::from_secs(second);
        let new = NewConnection { stream, peer, origin, accepted_at: now, deadline: now };
        let inserted = table.insert(new, max);
        let excess = inserted.is_err();
        (inserted.unwrap_or_else(|rejected| rejected), client, excess)
    }

    fn table() -> Arc<ConnectionTable> {
        ConnectionTable::new(Arc::new(Poller::new().unwrap()), limits::DRAINING_MAX)
    }

    #[test]
    fn an_event_of_a_closed_connection_is_not_taken_for_one_of_the_next_in_its_slot() {
        let table = table();
        let (first, old, _client) = insert(&table);
        drop(first);
        let (second, new, _client) = insert(&table);
        assert_eq!((old as u32, old != new), (new as u32, true));
        table.park(second, Interest::Readable);
        assert!(table.unpark(old).is_none());
        assert!(table.unpark(new).is_some());
        assert!(table.unpark(new).is_none());
    }

    #[test]
    fn connections_are_counted_by_their_phase() {
        let table = table();
        let (first, _, _client) = insert(&table);
        let (second, token, _client) = insert(&table);
        assert_eq!(table.counts(), ConnectionCounts { serving: 2, draining: 0 });
        table.start_draining(second, Instant::now());
        assert_eq!(table.counts(), ConnectionCounts { serving: 1, draining: 1 });
        drop(table.unpark(token));
        drop(first);
        assert_eq!(table.counts(), ConnectionCounts { serving: 0, draining: 0 });
    }

    #[test]
    fn a_table_closed_to_requests_parks_only_draining_connections() {
        let table = table();
        let (waiting, _, _client) = insert(&table);
        let (working, _, _client) = insert(&table);
        let (last, _, _client) = insert(&table);
        table.park(waiting, Interest::Readable);
        assert_eq!(table.close_to_requests().count(), 1);
        table.park(working, Interest::Readable);
        table.start_draining(last, Instant::now());
        assert_eq!(table.counts(), ConnectionCounts { serving: 0, draining: 1 });
        assert_eq!(table.take_expired(Instant::now()).count(), 1);
    }

    #[test]
    fn a_connection_beyond_a_limit_displaces_the_one_that_has_been_idle_longest() {
        let table = table();
        let max = ConnectionLimits { total: 4, of_origin: 2 };
        let [one, other] = [1, 2].map(|last| Some(ClientOrigin::of([192, 0, 2, last].into())));
        let (busy, ..) = insert_from(&table, one, 0, max);
        let mut parked = Vec::new();
        for (second, origin) in [(1, one), (2, other), (3, None)] {
            let (connection, client, excess) = insert_from(&table, origin, second, max);
            assert!(!excess);
            parked.push((connection.slot.token, client));
            table.park(connection, Interest::Readable);
        }
        // One origin has reached its limit: only its own connections may be displaced.
        let (connection, _client, excess) = insert_from(&table, one, 4, max);
        assert!(!excess && table.unpark(parked[0].0).is_none());
        // Both of its connections are in use.
        assert!(insert_from(&table, one, 5, max).2);
        // The limit of all connections is reached: the one that has been idle longest is displaced,
        // of any origin.
        let (newest, _newer_client, excess) = insert_from(&table, other, 6, max);
        assert!(!excess && table.unpark(parked[1].0).is_none());
        assert!(table.unpark(parked[2].0).is_some(), "it has not been idle as long");
        drop((busy, connection, newest));
        assert!(table.lock().by_origin.is_empty());
    }

    #[test]
    fn a_connection_parked_with_bytes_waiting_is_reported() {
        use std::io::Write;
        let poller = Arc::new(Poller::new().unwrap());
        let table = ConnectionTable::new(Arc::clone(&poller), limits::DRAINING_MAX);
        let (connection, token, mut client) = insert(&table);
        client.write_all(b"early").unwrap();
        table.park(connection, Interest::Readable);
        let mut events = Vec::new();
        for _ in 0..2 {
            poller.wait(&mut events, None).unwrap();
            assert_eq!(events, [super::super::poller::PollEvent::Connection(token)]);
            poller.wait(&mut events, Some(Duration::ZERO)).unwrap();
            assert_eq!(events, [], "it is silent until it is parked again");
            let connection = table.unpark(token).unwrap();
            table.park(connection, Interest::Readable);
        }
        table.close_parked();
    }
}
