//! A thread that handles requests, one at a time, and stays with a connection only while nobody else needs it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::attendant::Attendant;
use super::exchange::{After, Exchange};
use super::head::{self, Outlook};
use super::lanes::Duty;
use super::lot::{Connection, Held, NoRoom, Purpose};
use super::readiness::Watch;
use super::shared::Shared;
use super::stream::is_wait;
use crate::http::Config;

/// Pieces in which a head may come while a worker waits for it. One that comes in more is read by the poller.
const PIECES_MAX: usize = 8;

/// A worker of one engine.
pub(super) struct Worker {
    shared: Arc<Shared>,
    duty: Duty,
    exchange: Exchange,
    attendant: Attendant,
}

/// Where the next request of a connection is.
enum Next {
    /// In the inbox of this worker.
    Here,
    /// Not here: the connection has to wait for it, and for what.
    Wait(Watch),
    /// There will be none.
    Never,
}

impl Worker {
    /// A worker with that duty.
    pub(super) fn new(shared: Arc<Shared>, duty: Duty) -> Self {
        let exchange = Exchange::new(Arc::clone(&shared), duty);
        let attendant = Attendant::new(Arc::clone(&shared), shared.config.head_max_bytes);
        Self { shared, duty, exchange, attendant }
    }

    /// Works until nothing can come into the queues any more. Says how many requests it has answered.
    pub(super) fn work(mut self) -> u64 {
        let mut answered = 0;
        while let Some(connection) = self.next_connection() {
            answered += self.serve(connection);
            // Whoever comes then would find the queue full, or may have to find it so: they are to be told at once.
            if self.shared.lanes.is_waited_for(self.duty) && !self.shared.is_stopping() {
                self.attendant.lend_a_hand();
            }
        }
        answered
    }

    fn next_connection(&self) -> Option<Held> {
        if let Some(connection) = self.shared.lanes.try_next(self.duty) {
            return Some(connection);
        }
        self.shared.idle_workers.fetch_add(1, Ordering::Relaxed);
        let connection = self.shared.lanes.next(self.duty);
        self.shared.idle_workers.fetch_sub(1, Ordering::Relaxed);
        connection
    }

    /// Answers the request that has come on a connection, and those that follow while nobody else needs the worker.
    fn serve(&mut self, mut connection: Held) -> u64 {
        if connection.purpose == Purpose::Handshake {
            self.agree(connection);
            return 0;
        }
        self.exchange.inbox.load(&connection.take_pending().0);
        let mut answered = 0;
        loop {
            let after = match connection.outgoing.take() {
                Some(outgoing) => self.exchange.resume(&connection, *outgoing),
                None => self.exchange.run(&connection),
            };
            if let After::Defer(outgoing) = after {
                connection.outgoing = Some(outgoing);
                if self.keep_inbox(&mut connection).is_ok() {
                    match self.shared.lanes.push(connection, true) {
                        Ok(()) => return answered,
                        Err(refused) => connection = refused,
                    }
                }
                // Better by the wrong worker than not at all.
                connection.take_pending();
                continue;
            }
            answered += 1;
            match after {
                After::Defer(_) => {}
                After::KeepOpen => match self.next_request(&connection) {
                    Next::Here => {}
                    Next::Wait(watch) => {
                        self.give_back(connection, watch);
                        return answered;
                    }
                    Next::Never => return answered,
                },
                After::Close => return answered,
                After::Drain => {
                    let deadline = self.shared.deadline_in(self.shared.config.drain_deadline);
                    self.shared.lot.drain(connection, deadline);
                    return answered;
                }
                After::Cut => {
                    connection.stream.reset_on_close();
                    return answered;
                }
            }
        }
    }

    /// Goes on with a handshake as far as the client has come, and lets the connection wait for the rest. The deadline is
    /// that of the whole handshake.
    fn agree(&self, mut connection: Held) {
        match connection.stream.agree() {
            Ok(()) => {
                connection.purpose = Purpose::Requests;
                connection.deadline = self.shared.deadline_in(self.shared.config.idle_deadline);
                self.shared.lot.park(connection, Watch::Readable);
            }
            Err(error) if is_wait(&error) => self.shared.lot.park(connection, Watch::Readable),
            Err(error) => ::log::debug!("no encryption with {}: {error}", connection.peer),
        }
    }

    /// Looks for the next request of a connection. Others have precedence: with requests in the queue, or with no
    /// other worker free for those to come, it does not wait.
    fn next_request(&mut self, connection: &Connection) -> Next {
        let others_wait = self.shared.lanes.is_waited_for(self.duty);
        match self.has_request() {
            true if others_wait || !self.suits() => return Next::Wait(Watch::Anything),
            true => return Next::Here,
            false => {}
        }
        if others_wait || self.shared.idle_workers.load(Ordering::Relaxed) == 0 || self.shared.is_stopping() {
            return Next::Wait(Watch::Readable);
        }
        self.linger(connection)
    }

    fn linger(&mut self, connection: &Connection) -> Next {
        for _ in 0..PIECES_MAX {
            match connection.stream.receive(self.exchange.inbox.room()) {
                Ok(0) => return Next::Never,
                Ok(count) => self.exchange.inbox.received(count),
                Err(error) if is_wait(&error) => break,
                Err(_) => return Next::Never,
            }
            if self.has_request() {
                return if self.suits() { Next::Here } else { Next::Wait(Watch::Anything) };
            }
        }
        Next::Wait(Watch::Readable)
    }

    /// Whether the inbox holds a head, or more than a head may have.
    fn has_request(&self) -> bool {
        let inbox = &self.exchange.inbox;
        inbox.is_full() || head::has_arrived(inbox.filled(), 0)
    }

    /// Whether the request in the inbox is one for this worker, and needs no more of the client before it is begun.
    fn suits(&self) -> bool {
        match head::outlook(self.exchange.inbox.filled(), self.shared.config.head_max_bytes) {
            Outlook::Quick => true,
            Outlook::Bulk => self.duty == Duty::Any,
            Outlook::Awaited(_) => false,
        }
    }

    fn give_back(&self, mut connection: Held, watch: Watch) {
        let config = &self.shared.config;
        let received = self.exchange.inbox.filled();
        let patience = if received.is_empty() { config.idle_deadline } else { config.head_deadline };
        connection.deadline = self.shared.deadline_in(patience);
        connection.searched = if watch == Watch::Readable { received.len() } else { 0 };
        if self.keep_inbox(&mut connection).is_ok() {
            self.shared.lot.park(connection, watch);
        }
    }

    /// Leaves with a connection what it has received. Where there is no memory for it the connection is to be closed: what
    /// was answered has been sent, and what was not has not been begun.
    fn keep_inbox(&self, connection: &mut Connection) -> Result<(), NoRoom> {
        let Config { head_max_bytes, ref memory, .. } = self.shared.config;
        connection.keep(self.exchange.inbox.filled(), head_max_bytes, memory)
    }
}
