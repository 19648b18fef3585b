//! The engine on the crate tiny_http, for use with a proxy in front, on a private network.
//!
//! The crate accepts connections, reads heads and keeps a thread for each connection. Workers take
//! complete heads off its queue. The files here make up for the gaps of the crate:
//!
//! | file | gap |
//! |---|---|
//! | `validate` | ambiguous and oversized heads are accepted |
//! | `body` | a body that is not read to its end is read on drop, into one buffer of its full length |
//! | `raw_socket` | a connection of doubtful framing cannot be ended |
//! | `acceptors` | the acceptor ends with the first error |
//!
//! The gaps that remain are in README.md, "The engine tiny_http".

mod acceptors;
mod body;
mod exchange;
mod raw_socket;
mod validate;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use socket2::{Domain, Protocol, Socket, Type};

use self::acceptors::Acceptors;
use self::exchange::TinyExchange;
use super::catch_panic::catch_panic;
use super::{Config, Engine, EngineControl, Handle, Outcome};
use crate::base::Clock;
use crate::s3::Handler;
use crate::service::ServerLoad;

/// Length of the system's queue of connections that are not accepted yet; the system may shorten
/// it.
const BACKLOG: i32 = 4096;

/// The interval at which the acceptor is checked.
const RESTART_CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// An engine that is bound to its address.
pub(super) struct TinyServer {
    address: SocketAddr,
    engine: Arc<TinyEngine>,
}

/// The parts of the engine that all its threads share.
struct TinyEngine {
    config: Config,
    clock: Arc<dyn Clock>,
    handler: Arc<dyn Handler>,
    stopping: AtomicBool,
    /// The order to stop, for which `run` waits.
    order: (Sender<()>, Receiver<()>),
    acceptors: Acceptors,
}

impl std::fmt::Debug for TinyEngine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TinyEngine").finish_non_exhaustive()
    }
}

impl TinyEngine {
    fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }
}

impl EngineControl for TinyEngine {
    fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        // It is full if the order has been given before.
        let _ = self.order.0.try_send(());
        self.acceptors.wake(self.config.workers);
    }

    fn load(&self) -> Option<ServerLoad> {
        None
    }
}

impl TinyServer {
    /// Binds the address.
    ///
    /// # Errors
    /// As `http::Server::bind`.
    pub(super) fn bind(config: Config, clock: Arc<dyn Clock>, handler: Arc<dyn Handler>) -> io::Result<Self> {
        let listener = listen(config.listen)?;
        let address = listener.local_addr()?.as_socket().expect("the socket is an internet socket");
        let acceptors = Acceptors::new(listener.into())?;
        let stopping = AtomicBool::new(false);
        let order = bounded(1);
        let engine = Arc::new(TinyEngine { config, clock, handler, stopping, order, acceptors });
        Ok(Self { address, engine })
    }
}

/// A listener whose connections send small packets at once. It has no receive time-out: that would
/// apply to accept(2), too, and every error of accept(2) ends the acceptor.
fn listen(address: SocketAddr) -> io::Result<Socket> {
    let listener = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    listener.set_reuse_address(true)?;
    listener.set_tcp_nodelay(true)?;
    listener.bind(&address.into())?;
    listener.listen(BACKLOG)?;
    Ok(listener)
}

impl Engine for TinyServer {
    fn local_addr(&self) -> SocketAddr {
        self.address
    }

    fn handle(&self) -> Handle {
        Handle { engine: self.engine.clone() }
    }

    /// Serves in the workers. When the shutdown time is over, busy workers and their connections
    /// are abandoned, because the crate offers no way to end them.
    fn run(self: Box<Self>) -> io::Result<Outcome> {
        let engine = self.engine;
        let (done, ended) = bounded(engine.config.workers);
        for number in 0..engine.config.workers {
            let engine = Arc::clone(&engine);
            let done = done.clone();
            thread::Builder::new().name(format!("http-{number}")).spawn(move || {
                // The channel has room for one message of each worker. It fails only when the
                // server is gone.
                let _ = done.send(work(&engine));
            })?;
        }
        let outcome = wait_for_end(&engine, &ended);
        engine.acceptors.end();
        Ok(outcome)
    }
}

/// Answers requests until the order to stop, then those that wait already. Returns how many.
fn work(engine: &Arc<TinyEngine>) -> u64 {
    let mut exchange = TinyExchange::new(Arc::clone(engine));
    let mut answered = 0;
    while let Some(request) = next_request(engine) {
        if catch_panic(|| exchange.run(request)).is_none() {
            exchange = TinyExchange::new(Arc::clone(engine));
        }
        answered += 1;
    }
    // This worker may have consumed wake-ups that were meant for others.
    engine.acceptors.wake(engine.config.workers);
    answered
}

fn next_request(engine: &TinyEngine) -> Option<tiny_http::Request> {
    while !engine.is_stopping() {
        if let Some(request) = engine.acceptors.receive() {
            return Some(request);
        }
    }
    engine.acceptors.receive_now()
}

/// Waits for the order to stop, then for the workers within the shutdown time, and reports.
fn wait_for_end(engine: &TinyEngine, ended: &Receiver<u64>) -> Outcome {
    while engine.order.1.recv_timeout(RESTART_CHECK_INTERVAL) == Err(RecvTimeoutError::Timeout) {
        engine.acceptors.restart_ended(engine.config.workers);
    }
    let deadline = engine.clock.instant() + engine.config.shutdown_timeout;
    let counts = std::iter::from_fn(|| ended.recv_deadline(deadline).ok()).take(engine.config.workers);
    let answered: Vec<u64> = counts.collect();
    Outcome {
        connections_accepted: None,
        requests_answered: answered.iter().sum(),
        connections_cut: 0,
        workers_left: engine.config.workers - answered.len(),
    }
}
