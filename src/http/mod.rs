//! Floor 6: bytes in, bytes out: the engines, their limits and time-outs, and the bounded worker
//! pool.
//!
//! An engine parses bytes into an [`s3::Request`](crate::s3::Request), passes it to an
//! [`s3::Handler`](crate::s3::Handler) and sends the [`s3::Response`](crate::s3::Response). It
//! knows nothing of buckets and objects. A [`Server`] is bound to an address, runs until a
//! [`Handle`] stops it, and returns an [`Outcome`].
//!
//! There are two engines. `direct` is made for ports that any client can reach. `tiny` uses the
//! crate tiny_http, for hosts with a proxy in front. Both validate heads (`request_head`,
//! `request_target`, `fields`) and send responses (`response`, `response_writer`) by the same code.

mod catch_panic;
mod client_origin;
mod config;
mod direct;
mod fields;
mod networks;
mod request_head;
mod request_target;
mod response;
mod response_writer;
mod tiny;
mod tls;

use std::fmt::Debug;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

pub use config::{Config, EngineName};
#[doc(hidden)]
pub use direct::fuzzing;
pub use networks::Networks;
pub use tls::Tls;

use crate::base::Clock;
use crate::s3::Handler;
use crate::service::ServerLoad;

/// An engine that is bound to its address.
trait Engine: Send {
    /// See [`Server::local_addr`].
    fn local_addr(&self) -> SocketAddr;

    /// See [`Server::handle`].
    fn handle(&self) -> Handle;

    /// See [`Server::run`].
    fn run(self: Box<Self>) -> io::Result<Outcome>;
}

/// An engine that runs, as other threads see it.
trait EngineControl: Debug + Send + Sync {
    /// Asks the engine to stop, and returns at once. A second call has no effect.
    fn stop(&self);

    /// See [`Handle::load`].
    fn load(&self) -> Option<ServerLoad>;
}

/// A server that is bound to its address.
pub struct Server {
    engine: Box<dyn Engine>,
}

impl Server {
    /// Binds the address. The system accepts connections from now on; they are served by `run`.
    ///
    /// # Errors
    /// `InvalidInput` for settings out of bounds, and the errors of the system, such as
    /// `AddrInUse`.
    pub fn bind(config: Config, clock: Arc<dyn Clock>, handler: Arc<dyn Handler>) -> io::Result<Self> {
        config.check()?;
        let engine: Box<dyn Engine> = match config.engine {
            EngineName::Direct => Box::new(direct::DirectServer::bind(config, clock, handler)?),
            EngineName::TinyHttp => Box::new(tiny::TinyServer::bind(config, clock, handler)?),
        };
        Ok(Self { engine })
    }

    /// The address that it is bound to, with the port that the system chose.
    pub fn local_addr(&self) -> SocketAddr {
        self.engine.local_addr()
    }

    /// A handle that stops the server.
    pub fn handle(&self) -> Handle {
        self.engine.handle()
    }

    /// Serves in this thread and in the workers until the server is stopped, then finishes running
    /// requests, for at most the shutdown time of the settings.
    ///
    /// # Errors
    /// When a worker cannot be started, or the system fails to report which sockets are ready.
    pub fn run(self) -> io::Result<Outcome> {
        self.engine.run()
    }
}

/// Stops a server and tells its load, from any thread.
#[derive(Debug, Clone)]
pub struct Handle {
    engine: Arc<dyn EngineControl>,
}

impl Handle {
    fn new(engine: impl EngineControl + 'static) -> Self {
        Self { engine: Arc::new(engine) }
    }

    /// Asks the server to stop, and returns at once. The server accepts no more connections and
    /// finishes running requests; then `run` returns. A second call has no effect.
    pub fn shutdown(&self) {
        self.engine.stop();
    }

    /// The load at this moment; `None` if the engine does not know. Its figures are of moments that
    /// differ a little.
    pub fn load(&self) -> Option<ServerLoad> {
        self.engine.load()
    }
}

/// Figures of a server from its start to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// Connections accepted, including those rejected at once; `None` if the engine does not know.
    pub connections_accepted: Option<u64>,
    /// Requests answered by workers, including refused ones. Requests rejected without a worker are
    /// not counted.
    pub requests_answered: u64,
    /// Connections aborted with a running request at the end of the shutdown time.
    pub connections_cut: usize,
    /// Workers that had not returned from the handler even then.
    pub workers_left: usize,
}
