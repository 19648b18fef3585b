//! Every open connection, and the place where those wait that no worker has.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use super::exchange::PendingResponse;
use super::poller::{ConnectionToken, Interest, Poller};
use super::stream::ClientStream;
use crate::base::{Budget, Reservation, limits};
use crate::http::client_origin::ClientOrigin;

/// There is no memory for more.
#[derive(Debug)]
pub(super) struct NoMemory;

/// What a connection is open for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ConnectionPhase {
    /// A client with which the encryption has still to be agreed on.
    Handshake,
    /// Requests.
    Requests,
    /// Its last response is out; that many more bytes are received and thrown away, so that the client, which may
    /// still be sending, comes to read it and meets no reset (RFC 9112, section 9.6).
    Draining(u64),
}

/// An open connection. Whoever has it is the only one that reads or writes; dropping it closes it.
#[derive(Debug)]
pub(super) struct Connection {
    slot: SlotGuard,
    /// The socket.
    pub(super) stream: Arc<ClientStream>,
    /// The client's address.
    pub(super) peer: SocketAddr,
    /// What it is open for.
    pub(super) phase: ConnectionPhase,
    /// When it is to be closed if nothing happens.
    pub(super) deadline: Instant,
    /// Since when it has not been served.
    idle_since: Instant,
    /// Received bytes that no request has taken; without memory while there are none.
    pub(super) received: Vec<u8>,
    /// What has been reserved for them.
    reservation: Reservation,
    /// How many of them are known to hold no whole head.
    pub(super) searched_len: usize,
    /// How many there must be before a worker is needed, where the head says so; else 0.
    pub(super) awaited_len: usize,
    /// A response that is ready and waits for a worker to send it.
    pub(super) pending_response: Option<Box<PendingResponse>>,
    is_registered: bool,
}

impl Connection {
    /// Adds to what waits here. More than [`limits::UNRESERVED_HEAD_BYTES`] take a reservation of `most` from `memory`.
    ///
    /// # Errors
    /// There is no memory for them.
    pub(super) fn append_received(
        &mut self,
        bytes: &[u8],
        reserved_len: usize,
        memory: &Arc<Budget>,
    ) -> Result<(), NoMemory> {
        let is_small = self.received.len() + bytes.len() <= limits::UNRESERVED_HEAD_BYTES;
        if !is_small {
            self.reserve(reserved_len, memory)?;
        }
        if self.received.len() + bytes.len() > self.received.capacity() {
            let room = if is_small { bytes.len() } else { reserved_len - self.received.len() };
            self.received.reserve_exact(room);
        }
        self.received.extend_from_slice(bytes);
        Ok(())
    }

    /// Reserves `reserved_len` bytes for what waits here, unless that has been done.
    ///
    /// # Errors
    /// There is no memory for them.
    pub(super) fn reserve(&mut self, reserved_len: usize, memory: &Arc<Budget>) -> Result<(), NoMemory> {
        if self.reservation.bytes() == 0 {
            self.reservation = memory.reserve(reserved_len as u64).ok_or(NoMemory)?;
        }
        Ok(())
    }

    /// Lets it wait for the next request, which may take `patience` to come.
    pub(super) fn wait_for_request(&mut self, now: Instant, patience: Duration) {
        self.idle_since = now;
        self.deadline = now + patience;
    }

    /// Since when it waits, where another may have its slot: nothing has been answered in part, and no worker is needed.
    fn evictable_since(&self) -> Option<Instant> {
        let waits = !self.is_draining() && self.pending_response.is_none() && self.awaited_len == 0;
        waits.then_some(self.idle_since)
    }

    /// Where its client comes from.
    pub(super) fn origin(&self) -> ClientOrigin {
        ClientOrigin::of(self.peer.ip())
    }

    /// Hands over what waits here.
    pub(super) fn take_received(&mut self) -> (Vec<u8>, Reservation) {
        (std::mem::take(&mut self.received), std::mem::take(&mut self.reservation))
    }

    /// Drops what waits here: the next request has not response_started.
    pub(super) fn discard_received(&mut self) {
        self.take_received();
        self.searched_len = 0;
        self.awaited_len = 0;
    }

    fn is_draining(&self) -> bool {
        matches!(self.phase, ConnectionPhase::Draining(_))
    }
}

/// The right to a slot of the table; dropping it gives the slot back.
#[derive(Debug)]
struct SlotGuard {
    table: Arc<ConnectionTable>,
    token: ConnectionToken,
}

impl Drop for SlotGuard {
    fn drop(&mut self) {
        self.table.release(self.token);
    }
}

/// The open connections.
#[derive(Debug)]
pub(super) struct ConnectionTable {
    poller: Arc<Poller>,
    slots: Mutex<ConnectionSlots>,
}

#[derive(Debug, Default)]
struct ConnectionSlots {
    list: Vec<ConnectionSlot>,
    free: Vec<u32>,
    draining: usize,
    /// How many connections those origins have that may have only so many.
    by_origin: HashMap<ClientOrigin, usize>,
    /// No connection may wait here for requests any more.
    closed: bool,
}

#[derive(Debug, Default)]
struct ConnectionSlot {
    /// Counts the connections that had this slot, so that a late event of one is not taken for one of the next.
    generation: u32,
    stream: Option<Arc<ClientStream>>,
    /// Whom it counts for, where that matters.
    origin: Option<ClientOrigin>,
    draining: bool,
    parked: Option<Box<Connection>>,
    /// As [`Connection::evictable_since`] says of what is parked.
    evictable_since: Option<Instant>,
}

/// How many connections there may be.
#[derive(Debug, Clone, Copy)]
pub(super) struct ConnectionLimits {
    /// In all.
    pub(super) total: usize,
    /// Of one origin.
    pub(super) of_origin: usize,
}

/// How many connections there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ConnectionCounts {
    /// Connections that are open for requests, waiting or with a worker.
    pub(super) serving: usize,
    /// Connections that are drained.
    pub(super) draining: usize,
}

impl ConnectionTable {
    /// An empty table, whose connections are watched by `poller`.
    pub(super) fn new(poller: Arc<Poller>) -> Arc<Self> {
        Arc::new(Self { poller, slots: Mutex::default() })
    }

    /// Makes an accepted socket one of the open connections, to be closed after `patience` if nothing happens. Where there
    /// are too many, in all or of its `origin`, it displaces the longest idle one of them. Says whether there is none.
    pub(super) fn insert(
        self: &Arc<Self>,
        stream: ClientStream,
        peer: SocketAddr,
        origin: Option<ClientOrigin>,
        (now, patience): (Instant, Duration),
        max: ConnectionLimits,
    ) -> (Box<Connection>, bool) {
        let stream = Arc::new(stream);
        let mut slots = self.lock();
        let (displaced, excess) = slots.evict_if_full(origin, max);
        let token = slots.insert(Arc::clone(&stream), origin);
        drop(slots);
        drop(displaced);
        let phase =
            if stream.is_encrypted() { ConnectionPhase::Handshake } else { ConnectionPhase::Requests };
        let connection = Box::new(Connection {
            slot: SlotGuard { table: Arc::clone(self), token },
            stream,
            peer,
            phase,
            deadline: now + patience,
            idle_since: now,
            received: Vec::new(),
            reservation: Reservation::default(),
            searched_len: 0,
            awaited_len: 0,
            pending_response: None,
            is_registered: false,
        });
        (connection, excess)
    }

    /// Lets a connection wait until `watch` comes true, when `take` gets it, or until its deadline, when `expired`
    /// does. It is closed instead where the system cannot watch it, or where it waits for requests and the table is
    /// closed for those. What the encryption has received already makes every watch come true at once.
    pub(super) fn park(&self, mut connection: Box<Connection>, interest: Interest) {
        let token = connection.slot.token;
        let stream = Arc::clone(&connection.stream);
        let interest = if interest == Interest::Readable && stream.has_plaintext() {
            Interest::ReadableOrWritable
        } else {
            interest
        };
        let registered = std::mem::replace(&mut connection.is_registered, true);
        // It is put in its place before it is watched: the event may come at once. Should it be taken and closed in
        // between, the socket lives on in `stream` until it has been watched in vain.
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

    /// The connection that waits under `token`; `None` if that one has been taken or closed.
    pub(super) fn unpark(&self, token: ConnectionToken) -> Option<Box<Connection>> {
        self.lock().slot(token)?.parked.take()
    }

    /// Takes the connections whose deadline has passed.
    pub(super) fn take_expired(&self, now: Instant) -> impl Iterator<Item = Box<Connection>> + use<> {
        self.lock().take_parked(&|connection| connection.deadline <= now)
    }

    /// Ends the sending half of a connection, whose last response is out, and lets it wait for the end of the other
    /// half, at most until `deadline`. Where too many do so already it is closed at once.
    pub(super) fn start_draining(&self, mut connection: Box<Connection>, deadline: Instant) {
        connection.stream.shut_down_sending();
        if self.lock().mark_draining(connection.slot.token) {
            connection.phase = ConnectionPhase::Draining(limits::DRAIN_MAX_BYTES);
            connection.deadline = deadline;
            connection.take_received();
            self.park(connection, Interest::Readable);
        }
    }

    /// Lets no connection wait for requests any more and takes those that do.
    pub(super) fn close_to_requests(&self) -> impl Iterator<Item = Box<Connection>> + use<> {
        let mut slots = self.lock();
        slots.closed = true;
        slots.take_parked(&|connection| !connection.is_draining())
    }

    /// Ends every connection under whoever has it, and says how many of them were open for requests.
    pub(super) fn abort_all(&self) -> usize {
        let slots = self.lock();
        slots.list.iter().filter_map(|slot| slot.stream.as_ref()).for_each(|stream| stream.abort());
        slots.counts().serving
    }

    /// Closes every connection that waits, whatever for.
    pub(super) fn close_parked(&self) {
        let parked = self.lock().take_parked(&|_| true);
        drop(parked);
    }

    /// How many connections there are.
    pub(super) fn counts(&self) -> ConnectionCounts {
        self.lock().counts()
    }

    fn release(&self, token: ConnectionToken) {
        let mut slots = self.lock();
        slots.remove(token);
    }

    fn lock(&self) -> MutexGuard<'_, ConnectionSlots> {
        self.slots.lock().expect("no code panics while it holds the slots")
    }
}

impl ConnectionSlots {
    /// Takes the parked connections that `is_meant` chooses. The caller may release the lock before it uses them.
    fn take_parked(
        &mut self,
        is_meant: &dyn Fn(&Connection) -> bool,
    ) -> impl Iterator<Item = Box<Connection>> + use<> {
        let slots = self.list.iter_mut();
        let parked: Vec<_> = slots.filter_map(|slot| slot.parked.take_if(|c| is_meant(c))).collect();
        parked.into_iter()
    }

    /// Takes the longest idle connection where one more would be too many, in all or of its origin. Says whether that is so
    /// and none is idle.
    fn evict_if_full(
        &mut self,
        origin: Option<ClientOrigin>,
        max: ConnectionLimits,
    ) -> (Option<Box<Connection>>, bool) {
        let of_origin = origin.and_then(|origin| self.by_origin.get(&origin).copied()).unwrap_or(0);
        let displaced = if of_origin >= max.of_origin {
            self.take_longest_idle(|slot| slot.origin == origin)
        } else if self.counts().serving >= max.total {
            self.take_longest_idle(|_| true)
        } else {
            return (None, false);
        };
        let excess = displaced.is_none();
        (displaced, excess)
    }

    fn take_longest_idle(
        &mut self,
        is_candidate: impl Fn(&ConnectionSlot) -> bool,
    ) -> Option<Box<Connection>> {
        let idle = self.list.iter_mut().filter(|slot| slot.parked.is_some() && is_candidate(slot));
        let idle = idle.filter_map(|slot| Some((slot.evictable_since?, slot)));
        idle.min_by_key(|(since, _)| *since)?.1.parked.take()
    }

    /// Takes a free slot.
    fn insert(&mut self, stream: Arc<ClientStream>, origin: Option<ClientOrigin>) -> ConnectionToken {
        let at = self.free.pop().unwrap_or_else(|| {
            self.list.push(ConnectionSlot::default());
            (self.list.len() - 1) as u32
        });
        let slot = &mut self.list[at as usize];
        slot.stream = Some(stream);
        slot.origin = origin;
        if let Some(origin) = origin {
            *self.by_origin.entry(origin).or_default() += 1;
        }
        token(at, slot.generation)
    }

    /// A connection counts for its origin no more.
    fn uncount_origin(&mut self, origin: ClientOrigin) {
        if let Entry::Occupied(mut count) = self.by_origin.entry(origin) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }

    fn remove(&mut self, token: ConnectionToken) {
        let Some(slot) = self.slot(token) else {
            return;
        };
        let (was_draining, origin) = (slot.draining, slot.origin);
        let generation = slot.generation.wrapping_add(1);
        *slot = ConnectionSlot { generation, ..ConnectionSlot::default() };
        self.draining -= usize::from(was_draining);
        self.free.push(token as u32);
        origin.into_iter().for_each(|origin| self.uncount_origin(origin));
    }

    fn mark_draining(&mut self, token: ConnectionToken) -> bool {
        let has_room = self.draining < limits::DRAINING_MAX;
        if let Some(slot) = self.slot(token).filter(|_| has_room) {
            slot.draining = true;
            let origin = slot.origin.take();
            self.draining += 1;
            origin.into_iter().for_each(|origin| self.uncount_origin(origin));
        }
        has_room
    }

    /// Parks a connection, or gives it back where it may not wait.
    fn park(&mut self, connection: Box<Connection>) -> Option<Box<Connection>> {
        if self.closed && !connection.is_draining() {
            return Some(connection);
        }
        match self.slot(connection.slot.token) {
            Some(slot) => {
                slot.evictable_since = connection.evictable_since();
                slot.parked.replace(connection)
            }
            None => Some(connection),
        }
    }

    /// The slot of the connection to which `token` was given, while it has it.
    fn slot(&mut self, token: ConnectionToken) -> Option<&mut ConnectionSlot> {
        let slot = self.list.get_mut(token as u32 as usize)?;
        (slot.stream.is_some() && u64::from(slot.generation) == token >> 32).then_some(slot)
    }

    fn counts(&self) -> ConnectionCounts {
        let open = self.list.len() - self.free.len();
        ConnectionCounts { serving: open - self.draining, draining: self.draining }
    }
}

fn token(at: u32, generation: u32) -> ConnectionToken {
    u64::from(generation) << 32 | u64::from(at)
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    const ANY: ConnectionLimits = ConnectionLimits { total: usize::MAX, of_origin: usize::MAX };

    /// A connection of `table`, its token, and the client's end.
    fn admit(table: &Arc<ConnectionTable>) -> (Box<Connection>, ConnectionToken, TcpStream) {
        let (connection, client, _) = admit_from(table, None, 0, ANY);
        let token = connection.slot.token;
        (connection, token, client)
    }

    /// A connection that comes so many seconds after the first, the client's end, and whether it is one too many.
    fn admit_from(
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
        let (connection, excess) = table.insert(stream, peer, origin, (now, Duration::ZERO), max);
        (connection, client, excess)
    }

    fn table() -> Arc<ConnectionTable> {
        ConnectionTable::new(Arc::new(Poller::new().unwrap()))
    }

    #[test]
    fn an_event_of_a_closed_connection_is_not_one_of_the_next_in_its_slot() {
        let table = table();
        let (first, old, _client) = admit(&table);
        drop(first);
        let (second, new, _client) = admit(&table);
        assert_eq!((old as u32, old != new), (new as u32, true));
        table.park(second, Interest::Readable);
        assert!(table.unpark(old).is_none());
        assert!(table.unpark(new).is_some());
        assert!(table.unpark(new).is_none());
    }

    #[test]
    fn connections_are_counted_for_what_they_are_open_for() {
        let table = table();
        let (first, _, _client) = admit(&table);
        let (second, token, _client) = admit(&table);
        assert_eq!(table.counts(), ConnectionCounts { serving: 2, draining: 0 });
        table.start_draining(second, Instant::now());
        assert_eq!(table.counts(), ConnectionCounts { serving: 1, draining: 1 });
        drop(table.unpark(token));
        drop(first);
        assert_eq!(table.counts(), ConnectionCounts { serving: 0, draining: 0 });
    }

    #[test]
    fn a_closed_lot_keeps_nothing_but_what_is_drained() {
        let table = table();
        let (waiting, _, _client) = admit(&table);
        let (working, _, _client) = admit(&table);
        let (last, _, _client) = admit(&table);
        table.park(waiting, Interest::Readable);
        assert_eq!(table.close_to_requests().count(), 1);
        table.park(working, Interest::Readable);
        table.start_draining(last, Instant::now());
        assert_eq!(table.counts(), ConnectionCounts { serving: 0, draining: 1 });
        assert_eq!(table.take_expired(Instant::now()).count(), 1);
    }

    #[test]
    fn one_connection_too_many_displaces_the_longest_idle_one_of_those_that_count() {
        let table = table();
        let max = ConnectionLimits { total: 4, of_origin: 2 };
        let [one, other] = [1, 2].map(|last| Some(ClientOrigin::of([192, 0, 2, last].into())));
        let (busy, ..) = admit_from(&table, one, 0, max);
        let mut parked = Vec::new();
        for (second, origin) in [(1, one), (2, other), (3, None)] {
            let (connection, client, excess) = admit_from(&table, origin, second, max);
            assert!(!excess);
            parked.push((connection.slot.token, client));
            table.park(connection, Interest::Readable);
        }
        // The share of one origin is used up: the other's are older than nobody's, and stay.
        let (connection, _client, excess) = admit_from(&table, one, 4, max);
        assert!(!excess && table.unpark(parked[0].0).is_none());
        // All of them are in use.
        assert!(admit_from(&table, one, 5, max).2);
        // There are too many in all: the longest idle goes, whosever it is.
        let (newest, _newer_client, excess) = admit_from(&table, other, 6, max);
        assert!(!excess && table.unpark(parked[1].0).is_none());
        assert!(table.unpark(parked[2].0).is_some(), "it has been idle for less long");
        drop((busy, connection, newest));
        assert!(table.lock().by_origin.is_empty());
    }

    #[test]
    fn a_connection_that_is_parked_with_bytes_waiting_is_reported() {
        use std::io::Write;
        let poller = Arc::new(Poller::new().unwrap());
        let table = ConnectionTable::new(Arc::clone(&poller));
        let (connection, token, mut client) = admit(&table);
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
