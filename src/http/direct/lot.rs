//! Every open connection, and the place where those wait that no worker has.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use super::exchange::Outgoing;
use super::poller::{ConnectionToken, Interest, Poller};
use super::stream::Stream;
use crate::base::{Budget, Reservation, limits};
use crate::http::client_origin::ClientOrigin;

/// There is no memory for more.
#[derive(Debug)]
pub(super) struct NoRoom;

/// What a connection is open for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
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
    place: Place,
    /// The socket.
    pub(super) stream: Arc<Stream>,
    /// The client's address.
    pub(super) peer: SocketAddr,
    /// What it is open for.
    pub(super) purpose: Purpose,
    /// When it is to be closed if nothing happens.
    pub(super) deadline: Instant,
    /// Since when it has not been served.
    idle_since: Instant,
    /// Received bytes that no request has taken; without memory while there are none.
    pub(super) pending: Vec<u8>,
    /// What has been reserved for them.
    room: Reservation,
    /// How many of them are known to hold no whole head.
    pub(super) searched: usize,
    /// How many there must be before a worker is needed, where the head says so; else 0.
    pub(super) wanted: usize,
    /// A response that is ready and waits for a worker to send it.
    pub(super) outgoing: Option<Box<Outgoing>>,
    is_registered: bool,
}

impl Connection {
    /// Adds to what waits here. More than [`limits::UNRESERVED_HEAD_BYTES`] take a reservation of `most` from `memory`.
    ///
    /// # Errors
    /// There is no memory for them.
    pub(super) fn keep(&mut self, bytes: &[u8], most: usize, memory: &Arc<Budget>) -> Result<(), NoRoom> {
        let is_small = self.pending.len() + bytes.len() <= limits::UNRESERVED_HEAD_BYTES;
        if !is_small {
            self.reserve(most, memory)?;
        }
        if self.pending.len() + bytes.len() > self.pending.capacity() {
            let room = if is_small { bytes.len() } else { most - self.pending.len() };
            self.pending.reserve_exact(room);
        }
        self.pending.extend_from_slice(bytes);
        Ok(())
    }

    /// Reserves `most` bytes for what waits here, unless that has been done.
    ///
    /// # Errors
    /// There is no memory for them.
    pub(super) fn reserve(&mut self, most: usize, memory: &Arc<Budget>) -> Result<(), NoRoom> {
        if self.room.bytes() == 0 {
            self.room = memory.reserve(most as u64).ok_or(NoRoom)?;
        }
        Ok(())
    }

    /// Lets it wait for the next request, which may take `patience` to come.
    pub(super) fn served(&mut self, now: Instant, patience: Duration) {
        self.idle_since = now;
        self.deadline = now + patience;
    }

    /// Since when it waits, where another may have its place: nothing has been answered in part, and no worker is needed.
    fn displaceable_since(&self) -> Option<Instant> {
        let waits = !self.is_draining() && self.outgoing.is_none() && self.wanted == 0;
        waits.then_some(self.idle_since)
    }

    /// Where its client comes from.
    pub(super) fn origin(&self) -> ClientOrigin {
        ClientOrigin::of(self.peer.ip())
    }

    /// Hands over what waits here.
    pub(super) fn take_pending(&mut self) -> (Vec<u8>, Reservation) {
        (std::mem::take(&mut self.pending), std::mem::take(&mut self.room))
    }

    /// Drops what waits here: the next request has not begun.
    pub(super) fn forget(&mut self) {
        self.take_pending();
        self.searched = 0;
        self.wanted = 0;
    }

    fn is_draining(&self) -> bool {
        matches!(self.purpose, Purpose::Draining(_))
    }
}

/// An open connection as it goes from hand to hand: whoever holds it has it, and passing it on costs a pointer.
pub(super) type Held = Box<Connection>;

/// The right to a slot of the lot; dropping it gives the slot back.
#[derive(Debug)]
struct Place {
    lot: Arc<Lot>,
    token: ConnectionToken,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.lot.release(self.token);
    }
}

/// The open connections.
#[derive(Debug)]
pub(super) struct Lot {
    poller: Arc<Poller>,
    slots: Mutex<Slots>,
}

#[derive(Debug, Default)]
struct Slots {
    list: Vec<Slot>,
    free: Vec<u32>,
    draining: usize,
    /// How many connections those origins have that may have only so many.
    by_origin: HashMap<ClientOrigin, usize>,
    /// No connection may wait here for requests any more.
    closed: bool,
}

#[derive(Debug, Default)]
struct Slot {
    /// Counts the connections that had this slot, so that a late event of one is not taken for one of the next.
    turn: u32,
    stream: Option<Arc<Stream>>,
    /// Whom it counts for, where that matters.
    origin: Option<ClientOrigin>,
    draining: bool,
    parked: Option<Held>,
    /// As [`Connection::displaceable_since`] says of what is parked.
    displaceable_since: Option<Instant>,
}

/// How many connections there may be.
#[derive(Debug, Clone, Copy)]
pub(super) struct Most {
    /// In all.
    pub(super) in_all: usize,
    /// Of one origin.
    pub(super) of_origin: usize,
}

/// How many connections there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Census {
    /// Connections that are open for requests, waiting or with a worker.
    pub(super) serving: usize,
    /// Connections that are drained.
    pub(super) draining: usize,
}

impl Lot {
    /// An empty lot, whose connections are watched by `poller`.
    pub(super) fn new(poller: Arc<Poller>) -> Arc<Self> {
        Arc::new(Self { poller, slots: Mutex::default() })
    }

    /// Makes an accepted socket one of the open connections, to be closed after `patience` if nothing happens. Where there
    /// are too many, in all or of its `origin`, it displaces the longest idle one of them. Says whether there is none.
    pub(super) fn admit(
        self: &Arc<Self>,
        stream: Stream,
        peer: SocketAddr,
        origin: Option<ClientOrigin>,
        (now, patience): (Instant, Duration),
        most: Most,
    ) -> (Held, bool) {
        let stream = Arc::new(stream);
        let mut slots = self.lock();
        let (displaced, excess) = slots.make_room(origin, most);
        let token = slots.occupy(Arc::clone(&stream), origin);
        drop(slots);
        drop(displaced);
        let purpose = if stream.is_encrypted() { Purpose::Handshake } else { Purpose::Requests };
        let connection = Box::new(Connection {
            place: Place { lot: Arc::clone(self), token },
            stream,
            peer,
            purpose,
            deadline: now + patience,
            idle_since: now,
            pending: Vec::new(),
            room: Reservation::default(),
            searched: 0,
            wanted: 0,
            outgoing: None,
            is_registered: false,
        });
        (connection, excess)
    }

    /// Lets a connection wait until `watch` comes true, when `take` gets it, or until its deadline, when `expired`
    /// does. It is closed instead where the system cannot watch it, or where it waits for requests and the lot is
    /// closed for those. What the encryption has received already makes every watch come true at once.
    pub(super) fn park(&self, mut connection: Held, interest: Interest) {
        let token = connection.place.token;
        let stream = Arc::clone(&connection.stream);
        let interest = if interest == Interest::Readable && stream.has_waiting() {
            Interest::ReadableOrWritable
        } else {
            interest
        };
        let known = std::mem::replace(&mut connection.is_registered, true);
        // It is put in its place before it is watched: the event may come at once. Should it be taken and closed in
        // between, the socket lives on in `stream` until it has been watched in vain.
        let turned_away = self.lock().put(connection);
        if turned_away.is_some() {
            return;
        }
        let watched = match known {
            true => self.poller.rearm(&*stream, token, interest),
            false => self.poller.register(&*stream, token, interest),
        };
        if let Err(error) = watched {
            ::log::warn!("a connection is closed because the system cannot watch it: {error}");
            drop(self.take(token));
        }
    }

    /// The connection that waits under `token`; `None` if that one has been taken or closed.
    pub(super) fn take(&self, token: ConnectionToken) -> Option<Held> {
        self.lock().slot(token)?.parked.take()
    }

    /// Takes the connections whose deadline has passed.
    pub(super) fn expired(&self, now: Instant) -> Vec<Held> {
        let mut slots = self.lock();
        slots.list.iter_mut().filter_map(|slot| slot.parked.take_if(|c| c.deadline <= now)).collect()
    }

    /// Ends the sending half of a connection, whose last response is out, and lets it wait for the end of the other
    /// half, at most until `deadline`. Where too many do so already it is closed at once.
    pub(super) fn drain(&self, mut connection: Held, deadline: Instant) {
        connection.stream.finish();
        if self.lock().start_draining(connection.place.token) {
            connection.purpose = Purpose::Draining(limits::DRAIN_MAX_BYTES);
            connection.deadline = deadline;
            connection.take_pending();
            self.park(connection, Interest::Readable);
        }
    }

    /// Lets no connection wait for requests any more and takes those that do.
    pub(super) fn close(&self) -> Vec<Held> {
        let mut slots = self.lock();
        slots.closed = true;
        let waits = |c: &mut Held| !c.is_draining();
        slots.list.iter_mut().filter_map(|slot| slot.parked.take_if(waits)).collect()
    }

    /// Ends every connection under whoever has it, and says how many of them were open for requests.
    pub(super) fn kill_all(&self) -> usize {
        let slots = self.lock();
        slots.list.iter().filter_map(|slot| slot.stream.as_ref()).for_each(|stream| stream.kill());
        slots.census().serving
    }

    /// Closes every connection that waits, whatever for.
    pub(super) fn clear(&self) {
        let parked: Vec<_> = self.lock().list.iter_mut().filter_map(|slot| slot.parked.take()).collect();
        drop(parked);
    }

    /// How many connections there are.
    pub(super) fn census(&self) -> Census {
        self.lock().census()
    }

    fn release(&self, token: ConnectionToken) {
        let mut slots = self.lock();
        slots.vacate(token);
    }

    fn lock(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().expect("no code panics while it holds the slots")
    }
}

impl Slots {
    /// Takes the longest idle connection where one more would be too many, in all or of its origin. Says whether that is so
    /// and none is idle.
    fn make_room(&mut self, origin: Option<ClientOrigin>, most: Most) -> (Option<Held>, bool) {
        let of_origin = origin.and_then(|origin| self.by_origin.get(&origin).copied()).unwrap_or(0);
        let displaced = if of_origin >= most.of_origin {
            self.take_longest_idle(|slot| slot.origin == origin)
        } else if self.census().serving >= most.in_all {
            self.take_longest_idle(|_| true)
        } else {
            return (None, false);
        };
        let excess = displaced.is_none();
        (displaced, excess)
    }

    fn take_longest_idle(&mut self, is_meant: impl Fn(&Slot) -> bool) -> Option<Held> {
        let idle = self.list.iter_mut().filter(|slot| slot.parked.is_some() && is_meant(slot));
        let idle = idle.filter_map(|slot| Some((slot.displaceable_since?, slot)));
        idle.min_by_key(|(since, _)| *since)?.1.parked.take()
    }

    /// Takes a free slot.
    fn occupy(&mut self, stream: Arc<Stream>, origin: Option<ClientOrigin>) -> ConnectionToken {
        let at = self.free.pop().unwrap_or_else(|| {
            self.list.push(Slot::default());
            (self.list.len() - 1) as u32
        });
        let slot = &mut self.list[at as usize];
        slot.stream = Some(stream);
        slot.origin = origin;
        if let Some(origin) = origin {
            *self.by_origin.entry(origin).or_default() += 1;
        }
        token(at, slot.turn)
    }

    /// A connection counts for its origin no more.
    fn discount(&mut self, origin: ClientOrigin) {
        if let Entry::Occupied(mut count) = self.by_origin.entry(origin) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }

    fn vacate(&mut self, token: ConnectionToken) {
        let Some(slot) = self.slot(token) else {
            return;
        };
        let (was_draining, origin) = (slot.draining, slot.origin);
        let turn = slot.turn.wrapping_add(1);
        *slot = Slot { turn, ..Slot::default() };
        self.draining -= usize::from(was_draining);
        self.free.push(token as u32);
        origin.into_iter().for_each(|origin| self.discount(origin));
    }

    fn start_draining(&mut self, token: ConnectionToken) -> bool {
        let room = self.draining < limits::DRAINING_MAX;
        if let Some(slot) = self.slot(token).filter(|_| room) {
            slot.draining = true;
            let origin = slot.origin.take();
            self.draining += 1;
            origin.into_iter().for_each(|origin| self.discount(origin));
        }
        room
    }

    /// Parks a connection, or gives it back where it may not wait.
    fn put(&mut self, connection: Held) -> Option<Held> {
        if self.closed && !connection.is_draining() {
            return Some(connection);
        }
        match self.slot(connection.place.token) {
            Some(slot) => {
                slot.displaceable_since = connection.displaceable_since();
                slot.parked.replace(connection)
            }
            None => Some(connection),
        }
    }

    /// The slot of the connection to which `token` was given, while it has it.
    fn slot(&mut self, token: ConnectionToken) -> Option<&mut Slot> {
        let slot = self.list.get_mut(token as u32 as usize)?;
        (slot.stream.is_some() && u64::from(slot.turn) == token >> 32).then_some(slot)
    }

    fn census(&self) -> Census {
        let open = self.list.len() - self.free.len();
        Census { serving: open - self.draining, draining: self.draining }
    }
}

fn token(at: u32, turn: u32) -> ConnectionToken {
    u64::from(turn) << 32 | u64::from(at)
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    const ANY: Most = Most { in_all: usize::MAX, of_origin: usize::MAX };

    /// A connection of `lot`, its token, and the client's end.
    fn admit(lot: &Arc<Lot>) -> (Held, ConnectionToken, TcpStream) {
        let (connection, client, _) = admit_from(lot, None, 0, ANY);
        let token = connection.place.token;
        (connection, token, client)
    }

    /// A connection that comes so many seconds after the first, the client's end, and whether it is one too many.
    fn admit_from(
        lot: &Arc<Lot>,
        origin: Option<ClientOrigin>,
        second: u64,
        most: Most,
    ) -> (Held, TcpStream, bool) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (socket, peer) = listener.accept().unwrap();
        let time = Duration::from_millis(10);
        let stream = Stream::new(socket, None, time, time).unwrap();
        let now = Instant::now() + Duration::from_secs(second);
        let (connection, excess) = lot.admit(stream, peer, origin, (now, Duration::ZERO), most);
        (connection, client, excess)
    }

    fn lot() -> Arc<Lot> {
        Lot::new(Arc::new(Poller::new().unwrap()))
    }

    #[test]
    fn an_event_of_a_closed_connection_is_not_one_of_the_next_in_its_slot() {
        let lot = lot();
        let (first, old, _client) = admit(&lot);
        drop(first);
        let (second, new, _client) = admit(&lot);
        assert_eq!((old as u32, old != new), (new as u32, true));
        lot.park(second, Interest::Readable);
        assert!(lot.take(old).is_none());
        assert!(lot.take(new).is_some());
        assert!(lot.take(new).is_none());
    }

    #[test]
    fn connections_are_counted_for_what_they_are_open_for() {
        let lot = lot();
        let (first, _, _client) = admit(&lot);
        let (second, token, _client) = admit(&lot);
        assert_eq!(lot.census(), Census { serving: 2, draining: 0 });
        lot.drain(second, Instant::now());
        assert_eq!(lot.census(), Census { serving: 1, draining: 1 });
        drop(lot.take(token));
        drop(first);
        assert_eq!(lot.census(), Census { serving: 0, draining: 0 });
    }

    #[test]
    fn a_closed_lot_keeps_nothing_but_what_is_drained() {
        let lot = lot();
        let (waiting, _, _client) = admit(&lot);
        let (working, _, _client) = admit(&lot);
        let (last, _, _client) = admit(&lot);
        lot.park(waiting, Interest::Readable);
        assert_eq!(lot.close().len(), 1);
        lot.park(working, Interest::Readable);
        lot.drain(last, Instant::now());
        assert_eq!(lot.census(), Census { serving: 0, draining: 1 });
        assert_eq!(lot.expired(Instant::now()).len(), 1);
    }

    #[test]
    fn one_connection_too_many_displaces_the_longest_idle_one_of_those_that_count() {
        let lot = lot();
        let most = Most { in_all: 4, of_origin: 2 };
        let [one, other] = [1, 2].map(|last| Some(ClientOrigin::of([192, 0, 2, last].into())));
        let (busy, ..) = admit_from(&lot, one, 0, most);
        let mut parked = Vec::new();
        for (second, origin) in [(1, one), (2, other), (3, None)] {
            let (connection, client, excess) = admit_from(&lot, origin, second, most);
            assert!(!excess);
            parked.push((connection.place.token, client));
            lot.park(connection, Interest::Readable);
        }
        // The share of one origin is used up: the other's are older than nobody's, and stay.
        let (connection, _client, excess) = admit_from(&lot, one, 4, most);
        assert!(!excess && lot.take(parked[0].0).is_none());
        // All of them are in use.
        assert!(admit_from(&lot, one, 5, most).2);
        // There are too many in all: the longest idle goes, whosever it is.
        let (newest, _newer_client, excess) = admit_from(&lot, other, 6, most);
        assert!(!excess && lot.take(parked[1].0).is_none());
        assert!(lot.take(parked[2].0).is_some(), "it has been idle for less long");
        drop((busy, connection, newest));
        assert!(lot.lock().by_origin.is_empty());
    }

    #[test]
    fn a_connection_that_is_parked_with_bytes_waiting_is_reported() {
        use std::io::Write;
        let poller = Arc::new(Poller::new().unwrap());
        let lot = Lot::new(Arc::clone(&poller));
        let (connection, token, mut client) = admit(&lot);
        client.write_all(b"early").unwrap();
        lot.park(connection, Interest::Readable);
        let mut events = Vec::new();
        for _ in 0..2 {
            poller.wait(&mut events, None).unwrap();
            assert_eq!(events, [super::super::poller::PollEvent::Connection(token)]);
            poller.wait(&mut events, Some(Duration::ZERO)).unwrap();
            assert_eq!(events, [], "it is silent until it is parked again");
            let connection = lot.take(token).unwrap();
            lot.park(connection, Interest::Readable);
        }
        lot.clear();
    }
}
