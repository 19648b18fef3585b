//! The engine of its own: HTTP/1.1 over the system's sockets, in the shape of Apache's event MPM.
//!
//! One poller has all connections that wait; a bounded pool of workers handles requests. Neither ever waits for a client
//! without a limit, and no client can hold anything but its own connection.
//!
//! Under more requests than there is time for, the poller is one thread among many that want the processor, and would fall
//! behind with what is cheap: taking requests in and refusing them. So each worker, between two requests, attends to what
//! has come while others wait for it.
//!
//! ```text
//!   accept -> event_loop: reads heads without waiting -> work queues -> worker: body, handler, response
//!                ^                                                    |        |
//!                |        connections: connections that wait                  |        +-> lingers for the next request
//!                +----------------------------------------------------+            while other workers are free
//! ```
//!
//! From the top down:
//!
//! | file | holds |
//! |---|---|
//! | poller | connections that no worker has; limits of time |
//! | event_handler, acceptor | what has to be done about them when something happens; limits of number |
//! | worker | the life of a worker; who has precedence |
//! | exchange | one request and its response |
//! | body | reading what comes behind a head |
//! | head, chunked | HTTP as bytes: no socket, no clock |
//! | connections | the open connections |
//! | work_queues, fair_queue | the queues between: some workers never wait for large bodies, and clients take turns |
//! | wire, stream, session, poller, budget, read_buffer | sockets, encryption, patience and buffers |
//!
//! Only `stream` touches a connected socket, only `session` what encrypts it, and only `poller` knows epoll. A handshake is
//! the work of the workers, step by step as the client comes along, so that no client keeps one waiting with it.

mod acceptor;
mod chunked;
mod connection_table;
mod engine;
mod event_handler;
mod event_loop;
mod exchange;
mod fair_queue;
pub mod fuzzing;
mod head;
mod poller;
mod read_buffer;
mod request_body;
mod stall_budget;
mod stream;
mod timed_io;
mod tls;
mod work_queues;
mod worker;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, bounded};

use self::acceptor::Acceptor;
use self::connection_table::ConnectionTable;
use self::engine::DirectEngine;
use self::event_loop::EventLoop;
use self::poller::Poller;
use self::work_queues::WorkQueues;
use self::worker::Worker;
use super::catch_panic::catch_panic;
use super::{Config, Engine, Handle, Outcome, StopSignal};
use crate::base::Clock;
use crate::s3::Handler;

/// Connections that the system keeps until they are accepted; it may keep fewer.
const BACKLOG: i32 = 4096;

/// The part of the shutdown time that is left for workers whose connections have been ended under them.
const LAST_PART: u32 = 10;

/// How long the server waits at its end for clients that have been told all.
const FAREWELL_MAX: Duration = Duration::from_secs(1);

/// An engine that is bound to its address.
pub(super) struct DirectServer {
    address: SocketAddr,
    engine: Arc<DirectEngine>,
}

/// What ends the waiting of the event_loop.
#[derive(Debug)]
struct Waker {
    stopping: Arc<AtomicBool>,
    poller: Arc<Poller>,
}

impl StopSignal for Waker {
    fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.poller.wake();
    }
}

impl DirectServer {
    /// Binds the address.
    ///
    /// # Errors
    /// As `http::Server::bind`.
    pub(super) fn bind(config: Config, clock: Arc<dyn Clock>, handler: Arc<dyn Handler>) -> io::Result<Self> {
        let listener = TcpListener::bind(config.listen)?;
        listener.set_nonblocking(true)?;
        rustix::net::listen(&listener, BACKLOG)?;
        let address = listener.local_addr()?;
        let poller = Arc::new(Poller::new()?);
        let acceptor = Acceptor::new(listener, Arc::clone(&poller))?;
        let queues = WorkQueues::new(config.workers, config.queue_len);
        let engine = DirectEngine {
            config,
            clock,
            handler,
            acceptor,
            connections: ConnectionTable::new(Arc::clone(&poller)),
            poller,
            stopping: Arc::new(AtomicBool::new(false)),
            queues,
        };
        Ok(Self { address, engine: Arc::new(engine) })
    }
}

impl Engine for DirectServer {
    fn local_addr(&self) -> SocketAddr {
        self.address
    }

    fn handle(&self) -> Handle {
        let engine = &self.engine;
        Handle::new(Waker { stopping: Arc::clone(&engine.stopping), poller: Arc::clone(&engine.poller) })
    }

    /// Serves in this thread and the workers. When the shutdown time is over, connections that are still open are ended,
    /// and a worker that does not come back even so is left behind.
    fn run(self: Box<Self>) -> io::Result<Outcome> {
        let engine = self.engine;
        let mut pool = WorkerPool::start(&engine)?;
        let mut event_loop = EventLoop::new(Arc::clone(&engine));
        let accepted = event_loop.serve();
        let outcome = accepted.and_then(|accepted| stop(&engine, &mut event_loop, &mut pool, accepted));
        engine.connections.close_parked();
        outcome
    }
}

/// Waits for what runs, ends what does not, and sums up.
fn stop(
    engine: &DirectEngine,
    event_loop: &mut EventLoop,
    pool: &mut WorkerPool,
    accepted: u64,
) -> io::Result<Outcome> {
    let time = engine.config.shutdown_timeout;
    let end = engine.deadline_in(time);
    let in_time = event_loop.drain_connections(end - time / LAST_PART, || pool.reap() == 0)?;
    let connections_cut = if in_time { 0 } else { engine.connections.abort_all() };
    // Clients get some time to read the last responses, workers to see that their connections have ended.
    let last = end.min(engine.deadline_in(FAREWELL_MAX));
    event_loop.drain_connections(last, || pool.reap() == 0 && engine.connections.counts().draining == 0)?;
    Ok(Outcome {
        connections_accepted: Some(accepted),
        requests_answered: pool.answered,
        connections_cut,
        workers_left: pool.at_work,
    })
}

/// The workers that have been started.
struct WorkerPool {
    done: Receiver<u64>,
    at_work: usize,
    answered: u64,
}

impl WorkerPool {
    /// Starts the workers. They end when nothing can come into the queues any more.
    fn start(engine: &Arc<DirectEngine>) -> io::Result<Self> {
        let (done, news) = bounded(engine.config.workers);
        for number in 0..engine.config.workers {
            let worker = Worker::new(Arc::clone(engine));
            let done = done.clone();
            thread::Builder::new().name(format!("http-{number}")).spawn(move || {
                // There is room for the news of every worker; without a server nobody waits for it.
                let _ = done.send(catch_panic(|| worker.work()).unwrap_or(0));
            })?;
        }
        Ok(Self { done: news, at_work: engine.config.workers, answered: 0 })
    }

    /// How many workers have not ended yet.
    fn reap(&mut self) -> usize {
        for answered in self.done.try_iter() {
            self.at_work -= 1;
            self.answered += answered;
        }
        self.at_work
    }
}
