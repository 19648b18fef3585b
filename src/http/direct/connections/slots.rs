//! The slots of the connection table.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::Instant;

use super::{Connection, ConnectionCounts, ConnectionLimits};
use crate::http::client_origin::ClientOrigin;
use crate::http::direct::poller::ConnectionToken;
use crate::http::direct::stream::ClientStream;

/// The slots of all open connections.
#[derive(Debug, Default)]
pub(super) struct ConnectionSlots {
    list: Vec<ConnectionSlot>,
    free: Vec<u32>,
    draining: usize,
    draining_max: usize,
    /// The number of connections of each origin that has a limit.
    pub(super) by_origin: HashMap<ClientOrigin, usize>,
    /// Whether only draining connections may be parked.
    pub(super) closed: bool,
}

/// The slot of one connection.
#[derive(Debug, Default)]
struct ConnectionSlot {
    /// Counts the connections that have used the slot, so that a late event of one is not taken for
    /// an event of the next.
    generation: u32,
    /// The socket of the connection; `None` in a free slot.
    stream: Option<Arc<ClientStream>>,
    /// The origin that the connection counts for, if that has a limit.
    origin: Option<ClientOrigin>,
    draining: bool,
    parked: Option<Box<Connection>>,
    /// `Connection::evictable_since` of the parked connection.
    evictable_since: Option<Instant>,
}

impl ConnectionSlots {
    /// No slots. At most `draining_max` connections may be draining.
    pub(super) fn new(draining_max: usize) -> Self {
        Self { draining_max, ..Self::default() }
    }

    /// Takes the parked connections that `is_meant` chooses. The caller may release the lock before
    /// it uses them.
    pub(super) fn take_parked(
        &mut self,
        is_meant: &dyn Fn(&Connection) -> bool,
    ) -> impl Iterator<Item = Box<Connection>> + use<> {
        let slots = self.list.iter_mut();
        let parked: Vec<_> =
            slots.filter_map(|slot| slot.parked.take_if(|connection| is_meant(connection))).collect();
        parked.into_iter()
    }

    /// Takes the connection that has been idle longest, if one more connection would exceed a
    /// limit.
    ///
    /// # Errors
    /// When the limit is reached and no connection is idle.
    pub(super) fn evict_if_full(
        &mut self,
        origin: Option<ClientOrigin>,
        max: ConnectionLimits,
    ) -> Result<Option<Box<Connection>>, TableFull> {
        let of_origin = origin.and_then(|origin| self.by_origin.get(&origin).copied()).unwrap_or(0);
        // The limit of the origin comes first: a client that has all of its own connections
        // displaces none of another.
        let evicted = if of_origin >= max.of_origin {
            self.take_longest_idle(|slot| slot.origin == origin)
        } else if self.counts().serving >= max.total {
            self.take_longest_idle(|_| true)
        } else {
            return Ok(None);
        };
        evicted.map(Some).ok_or(TableFull)
    }

    fn take_longest_idle(
        &mut self,
        is_candidate: impl Fn(&ConnectionSlot) -> bool,
    ) -> Option<Box<Connection>> {
        let idle = self.list.iter_mut().filter(|slot| slot.parked.is_some() && is_candidate(slot));
        let idle = idle.filter_map(|slot| Some((slot.evictable_since?, slot)));
        idle.min_by_key(|(since, _)| *since)?.1.parked.take()
    }

    /// Occupies a free slot.
    pub(super) fn insert(
        &mut self,
        stream: Arc<ClientStream>,
        origin: Option<ClientOrigin>,
    ) -> ConnectionToken {
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

    /// Frees the slot of a connection that is closed.
    pub(super) fn remove(&mut self, token: ConnectionToken) {
        let Some(slot) = self.slot(token) else {
            return;
        };
        let was_draining = slot.draining;
        let origin = slot.origin;
        // The old number stands in events that are fetched and not handled yet.
        let generation = slot.generation.wrapping_add(1);
        *slot = ConnectionSlot { generation, ..ConnectionSlot::default() };
        self.draining -= usize::from(was_draining);
        self.free.push(token as u32);
        if let Some(origin) = origin {
            self.uncount(origin);
        }
    }

    fn uncount(&mut self, origin: ClientOrigin) {
        if let Entry::Occupied(mut count) = self.by_origin.entry(origin) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }

    /// Counts a connection as draining, if not too many are. It counts for no origin from then on.
    pub(super) fn mark_draining(&mut self, token: ConnectionToken) -> bool {
        let has_room = self.draining < self.draining_max;
        if let Some(slot) = self.slot(token).filter(|_| has_room) {
            slot.draining = true;
            let origin = slot.origin.take();
            self.draining += 1;
            if let Some(origin) = origin {
                self.uncount(origin);
            }
        }
        has_room
    }

    /// Parks a connection. Returns it if it may not be parked.
    pub(super) fn park(&mut self, connection: Box<Connection>) -> Option<Box<Connection>> {
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

    /// Takes a parked connection out of its slot.
    pub(super) fn unpark(&mut self, token: ConnectionToken) -> Option<Box<Connection>> {
        self.slot(token)?.parked.take()
    }

    /// The sockets of all open connections.
    pub(super) fn streams(&self) -> impl Iterator<Item = &Arc<ClientStream>> {
        self.list.iter().filter_map(|slot| slot.stream.as_ref())
    }

    /// The slot that the connection with `token` occupies; `None` once that connection is closed.
    fn slot(&mut self, token: ConnectionToken) -> Option<&mut ConnectionSlot> {
        let slot = self.list.get_mut(token as u32 as usize)?;
        (slot.stream.is_some() && u64::from(slot.generation) == token >> 32).then_some(slot)
    }

    /// The numbers of connections.
    pub(super) fn counts(&self) -> ConnectionCounts {
        let open = self.list.len() - self.free.len();
        ConnectionCounts { serving: open - self.draining, draining: self.draining }
    }
}

/// A limit is reached, and no connection is idle.
#[derive(Debug)]
pub(super) struct TableFull;

/// A slot number in the lower half, its generation in the upper.
fn token(at: u32, generation: u32) -> ConnectionToken {
    u64::from(generation) << 32 | u64::from(at)
}
