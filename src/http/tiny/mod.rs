//! The engine that the crate tiny_http drives, for use behind a proxy on a network of one's own.
//!
//! The crate accepts, reads heads and keeps a thread for each connection; workers take whole requests off its queue. What it
//! cannot do is done around it here, as far as that goes: every request is judged before any work (gate); a body is read to
//! its end before the answer begins, since the crate would else read it on drop into one buffer of its full length (body);
//! a connection whose framing is lost is ended through a second descriptor of its socket (line); and an acceptor that has
//! died is replaced (generations). What remains is in README.md, "The engine tiny_http".

mod body;
mod exchange;
mod gate;
mod generations;
mod line;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use socket2::{Domain, Protocol, Socket, Type};

use self::exchange::Exchange;
use self::generations::Generations;
use super::catch_panic::catch_panic;
use super::{Config, Engine, Handle, Outcome, StopSignal};
use crate::base::Clock;
use crate::s3::Handler;

/// Connections that the system keeps until they are accepted; it may keep fewer.
const BACKLOG: i32 = 4096;

/// How often there is a look whether connections are still accepted.
const LOOK: Duration = Duration::from_millis(100);

/// An engine that is bound to its address.
pub(super) struct TinyServer {
    address: SocketAddr,
    shared: Arc<Shared>,
}

/// The parts of the engine that all its threads use.
struct Shared {
    config: Config,
    clock: Arc<dyn Clock>,
    handler: Arc<dyn Handler>,
    stopping: AtomicBool,
    /// The order to stop, as `run` waits for it.
    order: (Sender<()>, Receiver<()>),
    generations: Generations,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

impl Shared {
    fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }
}

impl StopSignal for Shared {
    fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        // Where it is full the order has been given before.
        let _ = self.order.0.try_send(());
        self.generations.wake(self.config.workers);
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
        let generations = Generations::new(listener.into())?;
        let stopping = AtomicBool::new(false);
        let order = bounded(1);
        let shared = Arc::new(Shared { config, clock, handler, stopping, order, generations });
        Ok(Self { address, shared })
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
        Handle { engine: self.shared.clone() }
    }

    /// Serves in the workers. When the shutdown time is over, workers that are still busy are left behind, with their
    /// connections: the crate has no hold on those.
    fn run(self: Box<Self>) -> io::Result<Outcome> {
        let shared = self.shared;
        let (done, news) = bounded(shared.config.workers);
        for number in 0..shared.config.workers {
            let (shared, done) = (Arc::clone(&shared), done.clone());
            thread::Builder::new().name(format!("http-{number}")).spawn(move || {
                // There is room for the news of every worker; without a server nobody waits for it.
                let _ = done.send(work(&shared));
            })?;
        }
        let outcome = muster(&shared, &news);
        shared.generations.end();
        Ok(outcome)
    }
}

/// Answers requests until the order to stop, and then those that wait already. Says how many.
fn work(shared: &Arc<Shared>) -> u64 {
    let mut exchange = Exchange::new(Arc::clone(shared));
    let mut answered = 0;
    while let Some(request) = next(shared) {
        if catch_panic(|| exchange.run(request)).is_none() {
            exchange = Exchange::new(Arc::clone(shared));
        }
        answered += 1;
    }
    // Whoever looks for the last requests takes wake-ups that were meant for others.
    shared.generations.wake(shared.config.workers);
    answered
}

fn next(shared: &Shared) -> Option<tiny_http::Request> {
    while !shared.is_stopping() {
        if let Some(request) = shared.generations.receive() {
            return Some(request);
        }
    }
    shared.generations.receive_now()
}

/// Waits for the order to stop, then for the workers as long as they may take, and sums up.
fn muster(shared: &Shared, news: &Receiver<u64>) -> Outcome {
    while shared.order.1.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
        shared.generations.mend(shared.config.workers);
    }
    let deadline = shared.clock.instant() + shared.config.shutdown_timeout;
    let ended = std::iter::from_fn(|| news.recv_deadline(deadline).ok()).take(shared.config.workers);
    let answered: Vec<u64> = ended.collect();
    Outcome {
        connections_accepted: None,
        requests_answered: answered.iter().sum(),
        connections_cut: 0,
        workers_left: shared.config.workers - answered.len(),
    }
}
