//! Floor 6: bytes in, bytes out: the engines, their limits and time-outs, and the bounded worker pool.
//!
//! An engine turns bytes into an [`s3::Request`](crate::s3::Request), hands it to an [`s3::Handler`](crate::s3::Handler)
//! and sends the [`s3::Response`](crate::s3::Response); it knows nothing of what is traits. Its face is [`Server`]: bind,
//! run until a [`Handle`] stops it, and an [`Outcome`] at the end.
//!
//! There are two: `direct` is made for ports that strangers reach; `tiny` serves by the crate tiny_http, for hosts where a
//! proxy stands in front. Both judge heads (request, target, fields) and send responses (response, response_writer) by the same code.

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

/// What the rest of the program may ask of an engine that is bound to its address.
trait Engine: Send {
    /// See [`Server::local_addr`].
    fn local_addr(&self) -> SocketAddr;

    /// See [`Server::handle`].
    fn handle(&self) -> Handle;

    /// See [`Server::run`].
    fn run(self: Box<Self>) -> io::Result<Outcome>;
}

/// What an engine does on the order to stop; a second order changes nothing.
trait StopSignal: Debug + Send + Sync {
    /// Gives the order and returns at once.
    fn stop(&self);
}

/// A server that is bound to its address.
pub struct Server {
    engine: Box<dyn Engine>,
}

impl Server {
    /// Binds the address. From here on the system takes connections; they are served by `run`.
    ///
    /// # Errors
    /// `InvalidInput` for settings out of bounds, `AddrInUse` and the like from the system.
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

    /// What stops it.
    pub fn handle(&self) -> Handle {
        self.engine.handle()
    }

    /// Serves in this thread and the workers until the order to stop, then for as long as it takes to finish what
    /// runs, but no longer than the shutdown time of the settings.
    ///
    /// # Errors
    /// When no worker can be started, or the system can no longer tell which sockets are ready.
    pub fn run(self) -> io::Result<Outcome> {
        self.engine.run()
    }
}

/// Stops a server, from any thread.
#[derive(Debug, Clone)]
pub struct Handle {
    engine: Arc<dyn StopSignal>,
}

impl Handle {
    fn new(engine: impl StopSignal + 'static) -> Self {
        Self { engine: Arc::new(engine) }
    }

    /// Gives the order to stop and returns at once: the server accepts nothing more, finishes what runs, and `run`
    /// returns. A second order changes nothing.
    pub fn shutdown(&self) {
        self.engine.stop();
    }
}

/// What a server has done from its start to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// Connections accepted, those turned away at once included; `None` where the engine cannot tell.
    pub connections_accepted: Option<u64>,
    /// Requests answered by workers, refusals included; those turned away because no worker was free are not counted.
    pub requests_answered: u64,
    /// Connections ended under requests that were still running when the shutdown time was over.
    pub connections_cut: usize,
    /// Workers that had not come back from the handler even then.
    pub workers_left: usize,
}
