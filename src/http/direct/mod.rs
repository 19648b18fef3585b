//! The engine `direct`: HTTP/1.1 over the system's sockets, in the shape of Apache's event MPM.
//!
//! One event loop watches every connection that waits. A bounded pool of workers handles requests.
//! Every wait for a client has a limit, and a client can occupy nothing but its own connections.
//!
//! ```text
//!   acceptor -> event loop: reads heads, never blocks -> work queues -> worker: body, handler, response
//!                 ^                                                       |        |
//!                 |          connection table: parked connections         |        +-> lingers for the next request
//!                 +-------------------------------------------------------+            while another worker is idle
//! ```
//!
//! | file | job |
//! |---|---|
//! | `event_loop` | waits for events; closes connections whose deadline has passed; drains them at the end |
//! | `event_handler` | handles one event: accepts, reads heads, hands requests to the queues, rejects without a worker |
//! | `acceptor` | accepts connections, through every error of the listener |
//! | `poller` | epoll: interests, events, the waker |
//! | `connections/` | the connection table: slots with generations, counts, limits, parked connections |
//! | `work_queues/`, `worker_class` | requests that wait for a worker, by class; permits for large work; turns between clients. The reserve of workers, if there is one, has queues of its own |
//! | `worker_pool`, `worker` | the threads that handle requests, one at a time each |
//! | `exchange/` | one request: reads its head, calls the handler, writes the response |
//! | `pending_response` | a response that waits for a worker, or for its client to take more of it |
//! | `request_body/` | the body as the handler reads it, with the chunked transfer coding |
//! | `head` | request heads as bytes: no socket, no clock |
//! | `timed_io`, `stall_budget` | receiving and sending at a minimum rate |
//! | `stream`, `socket`, `tls` | a client's socket: plain or encrypted, blocking or non-blocking |
//! | `read_buffer` | received bytes that a worker has not read |
//! | `engine` | the parts that all threads of an engine share |
//! | `fuzzing` | the parsers, opened to fuzzers and benchmarks |
//!
//! # Who may touch what
//!
//! - **Connections.** The holder of a `Box<Connection>` owns the connection: it alone reads, writes
//!   and changes it. The box is parked in the connection table, queued in a work queue, or held by
//!   one thread. Dropping it closes the socket.
//! - **Parked connections.** A thread that receives the event of a connection unparks it and is its
//!   owner. The poller reports one event and then ignores the connection until it is parked again,
//!   so that two threads never compete for it.
//! - **Event loop.** It alone closes expired connections, resumes a paused listener, and drains
//!   connections at the end. Accepting and handling events is open to workers, too: between two
//!   requests a worker assists the event loop while others wait. The event loop is one thread among
//!   many, and under overload it would not get enough time for it.
//! - **Blocking.** The event handler uses only the non-blocking calls of a stream (`try_receive`,
//!   `try_send_all`). Workers may block on a client, within its stall budget.
//! - **Other threads.** They may hold the `Arc<ClientStream>` to abort the connection, or to ask
//!   whether its client has left.
//! - **Sockets, TLS, epoll.** Only `stream` and `socket` call a connected socket. Only `tls` holds
//!   the state of the encryption, which never sees a socket. Only `poller` knows epoll. Handshakes
//!   are work for workers, one step per event, because a signature takes too long for the event
//!   loop.
//! - **Locks.** No thread holds the locks of the connection table and of the work queues together,
//!   or waits for a client while it holds one of them. The lock of a TLS session is never
//!   contended, because only the owner of the connection takes it.

mod acceptor;
mod connections;
mod engine;
mod event_handler;
mod event_loop;
mod exchange;
pub mod fuzzing;
mod head;
mod pending_response;
mod poller;
mod read_buffer;
mod request_body;
mod socket;
mod stall_budget;
mod stream;
mod timed_io;
mod tls;
mod work_queues;
mod worker;
mod worker_class;
mod worker_pool;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use self::acceptor::Acceptor;
use self::connections::ConnectionTable;
use self::engine::DirectEngine;
use self::event_loop::EventLoop;
use self::poller::Poller;
use self::work_queues::WorkQueues;
use self::worker_pool::WorkerPool;
use super::{Config, Engine, EngineControl, Handle, Outcome};
use crate::base::{Clock, limits};
use crate::s3::Handler;
use crate::service::ServerLoad;

/// Length of the system's queue of connections that are not accepted yet; the system may shorten
/// it.
const BACKLOG: i32 = 4096;

/// The fraction of the shutdown time that is left to workers after their connections were aborted.
const ABORT_TIME_FRACTION: u32 = 10;

/// The longest wait for draining connections at the end.
const FINAL_DRAIN_MAX: Duration = Duration::from_secs(1);

/// An engine that is bound to its address.
pub(super) struct DirectServer {
    address: SocketAddr,
    engine: Arc<DirectEngine>,
}

/// The engine as other threads see it. It holds nothing that holds the handler, which may hold it.
#[derive(Debug)]
struct DirectControl {
    stopping: Arc<AtomicBool>,
    poller: Arc<Poller>,
    connections: Arc<ConnectionTable>,
    queues: Arc<WorkQueues>,
    workers: usize,
}

impl EngineControl for DirectControl {
    /// Sets the flag and wakes the event loop.
    fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.poller.wake();
    }

    fn load(&self) -> Option<ServerLoad> {
        Some(ServerLoad {
            workers: self.workers,
            busy_workers: self.workers.saturating_sub(self.queues.idle_workers()),
            waiting: self.queues.waiting(),
            connections: self.connections.counts().serving,
        })
    }
}

impl DirectServer {
    /// Binds the address.
    ///
    /// # Errors
    /// As `http::Server::bind`.
    pub(super) fn bind(config: Config, clock: Arc<dyn Clock>, handler: Arc<dyn Handler>) -> io::Result<Self> {
        let listener = TcpListener::bind(config.listen)?;
        // Several threads accept. One that comes too late must not wait.
        listener.set_nonblocking(true)?;
        rustix::net::listen(&listener, BACKLOG)?;
        let address = listener.local_addr()?;
        let poller = Arc::new(Poller::new()?);
        let acceptor = Acceptor::new(listener, Arc::clone(&poller))?;
        let queues = WorkQueues::new(config.workers, config.queue_len);
        let reserve = (config.reserve_workers > 0)
            .then(|| WorkQueues::new(config.reserve_workers, limits::RESERVE_QUEUE_LEN));
        let connections = ConnectionTable::new(Arc::clone(&poller), config.draining_max);
        let engine = DirectEngine {
            config,
            clock,
            handler,
            acceptor,
            connections,
            poller,
            stopping: Arc::new(AtomicBool::new(false)),
            queues,
            reserve,
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
        Handle::new(DirectControl {
            stopping: Arc::clone(&engine.stopping),
            poller: Arc::clone(&engine.poller),
            connections: Arc::clone(&engine.connections),
            queues: Arc::clone(&engine.queues),
            workers: engine.config.workers,
        })
    }

    /// Runs the event loop in this thread and the workers in their own. When the shutdown time is
    /// over, open connections are aborted; a worker that does not return even then is abandoned.
    fn run(self: Box<Self>) -> io::Result<Outcome> {
        let engine = self.engine;
        let mut pool = WorkerPool::start(&engine)?;
        let mut event_loop = EventLoop::new(Arc::clone(&engine));
        let accepted = event_loop.serve();
        let outcome = accepted.and_then(|accepted| shut_down(&engine, &mut event_loop, &mut pool, accepted));
        // They hold the table, and the table holds them.
        engine.connections.close_parked();
        outcome
    }
}

/// Waits for running requests, aborts those that take too long, and reports.
fn shut_down(
    engine: &DirectEngine,
    event_loop: &mut EventLoop,
    pool: &mut WorkerPool,
    accepted: u64,
) -> io::Result<Outcome> {
    let time = engine.config.shutdown_timeout;
    let end = engine.deadline_in(time);
    let in_time = event_loop.drain_connections(end - time / ABORT_TIME_FRACTION, || pool.reap() == 0)?;
    let connections_cut = if in_time { 0 } else { engine.connections.abort_all() };
    // Clients need some time to read the last responses, and workers to notice that their
    // connections were aborted.
    let last = end.min(engine.deadline_in(FINAL_DRAIN_MAX));
    event_loop.drain_connections(last, || pool.reap() == 0 && engine.connections.counts().draining == 0)?;
    let workers_left = pool.reap();
    Ok(Outcome {
        connections_accepted: Some(accepted),
        requests_answered: pool.answered(),
        connections_cut,
        workers_left,
    })
}
