//! The engine that the crate tiny_http drives, for use behind a proxy on a network of one's own.
//!
//! The crate accepts, reads heads and keeps a thread for each connection; workers take whole requests off its queue. What it
//! cannot do is done around it here, as far as that goes: every request is judged before any work (gate); a body is read to
//! its end before the answer begins, since the crate would else read it on drop into one buffer of its full length (body);
//! a connection whose framing is lost is ended through a second descriptor of its socket (line); and an acceptor that has
//! died is replaced (acceptors). What remains is in README.md, "The engine tiny_http".

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
use super::{Config, Engine, Handle, Outcome, StopSignal};
use crate::base::Clock;
use crate::s3::Handler;

/// Connections that the system keeps until they are accepted; it may keep fewer.
const BACKLOG: i32 = 4096;

/// How often there is a look whether connections are still accepted.
const RESTART_CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// An engine that is bound to its address.
pub(super) struct TinyServer {
    address: SocketAddr,
    engine: Arc<TinyEngine>,
}

/// The parts of the engine that all its threads use.
struct TinyEngine {
    config: Config,
    clock: Arc<dyn Clock>,
    handler: Arc<dyn Handler>,
    stopping: AtomicBool,
    /// The order to stop, as `run` waits for it.
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

impl StopSignal for TinyEngine {
    fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        // Where it is full the order has been given before.
        let _ = self.order.0.try_send(());
        self.acceptors.wake(self.config.workers);
    }
}

impl TinyServer {
    /// Binds the address.
    ///
    /// # Errors
    /// As `http::Server::bind`.
    pub(super) fn bind(config: Config, clock: Arc<dyn Clock>, handler: Arc<dyn Handler>) -> io::Result<Self> {
        let listener = listen(config.listen)?;
        let address = listener.local_addr()?.as_socket().expect("it is a socket of the internet");
        let acceptors = Acceptors::new(listener.into())?;
        let stopping = AtomicBool::new(false);
        let order = bounded(1);
        let engine = Arc::new(TinyEngine { config, clock, handler, stopping, order, acceptors });
        Ok(Self { address, engine })
    }
}

/// A listener whose connections send small answers at once. It has no time-out for receiving: accepting would inherit it,
/// and the crate takes every error of accepting for the end.
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

    /// Serves in the workers. When the shutdown time is over, workers that are still busy are left behind, with their
    /// connections: the crate has no hold on those.
    fn run(self: Box<Self>) -> io::Result<Outcome> {
        let engine = self.engine;
        let (done, news) = bounded(engine.config.workers);
        for number in 0..engine.config.workers {
            let (engine, done) = (Arc::clone(&engine), done.clone());
            thread::Builder::new().name(format!("http-{number}")).spawn(move || {
                // There is room for the news of every worker; without a server nobody waits for it.
                let _ = done.send(work(&engine));
            })?;
        }
        let outcome = wait_for_end(&engine, &news);
        engine.acceptors.end();
        Ok(outcome)
    }
}

/// Answers requests until the order to stop, and then those that wait already. Says how many.
fn work(engine: &Arc<TinyEngine>) -> u64 {
    let mut exchange = TinyExchange::new(Arc::clone(engine));
    let mut answered = 0;
    while let Some(request) = next(engine) {
        if catch_panic(|| exchange.run(request)).is_none() {
            exchange = TinyExchange::new(Arc::clone(engine));
        }
        answered += 1;
    }
    // Whoever looks for the last requests takes wake-ups that were meant for others.
    engine.acceptors.wake(engine.config.workers);
    answered
}

fn next(engine: &TinyEngine) -> Option<tiny_http::Request> {
    while !engine.is_stopping() {
        if let Some(request) = engine.acceptors.receive() {
            return Some(request);
        }
    }
    engine.acceptors.receive_now()
}

/// Waits for the order to stop, then for the workers as long as they may take, and sums up.
fn wait_for_end(engine: &TinyEngine, news: &Receiver<u64>) -> Outcome {
    while engine.order.1.recv_timeout(RESTART_CHECK_INTERVAL) == Err(RecvTimeoutError::Timeout) {
        engine.acceptors.restart_ended(engine.config.workers);
    }
    let deadline = engine.clock.instant() + engine.config.shutdown_timeout;
    let ended = std::iter::from_fn(|| news.recv_deadline(deadline).ok()).take(engine.config.workers);
    let answered: Vec<u64> = ended.collect();
    Outcome {
        connections_accepted: None,
        requests_answered: answered.iter().sum(),
        connections_cut: 0,
        workers_left: engine.config.workers - answered.len(),
    }
}
