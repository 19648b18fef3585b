//! The listeners: one for S3 requests and the console, or one for each.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::thread;

use log::{error, info};
use rustix::io::Errno;
use siltstone::base::{Clock, limits};
use siltstone::console::Console;
use siltstone::http::{Config, Handle, Outcome, Server};
use siltstone::s3::Handler;
use siltstone::service::Service;

use super::CliError;
use super::memory::MemoryPlan;
use super::open_files::OpenFiles;
use super::options::ServerOptions;

/// The servers, bound to their addresses.
pub(crate) struct Listeners {
    s3: Server,
    /// The server of the console, if that has an address of its own.
    console: Option<Server>,
}

impl Listeners {
    /// Binds the address of `config`, and `console_listen` for the console if it has an address of its own.
    ///
    /// # Errors
    /// Names the address that cannot be bound.
    pub(crate) fn bind(
        config: Config,
        console_listen: Option<SocketAddr>,
        clock: &Arc<dyn Clock>,
        service: Arc<Service>,
        console: Console,
    ) -> Result<Self, CliError> {
        let Some(listen) = console_listen else {
            let s3 = bind(config, clock, &(Arc::new(console) as Arc<dyn Handler>))?;
            return Ok(Self { s3, console: None });
        };
        let own = console_config(listen, &config);
        let config = Config { reserve_workers: 0, ..config };
        let s3 = bind(config, clock, &(service as Arc<dyn Handler>))?;
        let console = console.on_own_listener(s3.local_addr().port());
        let console = bind(own, clock, &(Arc::new(console) as Arc<dyn Handler>))?;
        Ok(Self { s3, console: Some(console) })
    }

    /// The address of S3 requests.
    pub(crate) fn s3_addr(&self) -> SocketAddr {
        self.s3.local_addr()
    }

    /// The address of the console.
    pub(crate) fn console_addr(&self) -> SocketAddr {
        self.console.as_ref().unwrap_or(&self.s3).local_addr()
    }

    /// Handles that stop the servers.
    pub(crate) fn handles(&self) -> Vec<Handle> {
        self.console.iter().chain([&self.s3]).map(Server::handle).collect()
    }

    /// Serves until all servers are stopped, and logs how many requests they have answered. If that of the console fails, S3
    /// requests are served on.
    ///
    /// # Errors
    /// As [`Server::run`], for the server of S3 requests. The other one is stopped first.
    pub(crate) fn run(self) -> io::Result<()> {
        let handle = self.console.as_ref().map(Server::handle);
        let serve =
            |server: Server| thread::Builder::new().name("console".to_owned()).spawn(|| run_console(server));
        let console = self.console.map(serve).transpose()?;
        let outcome = self.s3.run().map(|outcome| report("", outcome));
        handle.iter().for_each(Handle::shutdown);
        // A panic of its event loop has been reported by the panic itself.
        console.map(|thread| thread.join().ok());
        outcome
    }
}

fn run_console(server: Server) {
    match server.run() {
        Ok(outcome) => report("the console ", outcome),
        Err(error) => error!("the console is no longer served: {error}"),
    }
}

/// The files that connections of the console may take besides those of S3 requests.
pub(crate) fn console_files(options: &ServerOptions) -> usize {
    options.console_listen.map_or(0, |_| limits::CONSOLE_CONNECTIONS_MAX + limits::CONSOLE_DRAINING_MAX)
}

/// The settings of the listener of the console. It shares the memory and the certificate of S3 requests.
fn console_config(listen: SocketAddr, s3: &Config) -> Config {
    Config {
        listen,
        workers: limits::CONSOLE_WORKERS,
        queue_len: limits::CONSOLE_QUEUE_LEN,
        connections_max: limits::CONSOLE_CONNECTIONS_MAX,
        connections_per_address_max: None,
        draining_max: limits::CONSOLE_DRAINING_MAX,
        ..s3.clone()
    }
}

/// The settings of the listener of S3 requests, without its certificate and its memory.
pub(crate) fn config(options: &ServerOptions, plan: &MemoryPlan, files: OpenFiles) -> Config {
    Config {
        engine: options.http_engine,
        workers: plan.workers,
        reserve_workers: plan.reserve_workers,
        queue_len: options.queue.get(),
        connections_max: files.connections_max,
        connections_per_address_max: options.max_connections_per_address.map(NonZeroUsize::get),
        trusted_proxies: options.trusted_proxies.clone(),
        idle_deadline: options.idle_timeout.0,
        shutdown_timeout: options.shutdown_timeout.0,
        ..Config::new(options.listen)
    }
}

/// Binds the address. The IPv6 address that stands for all addresses also stands for those of IPv4; on a host without IPv6
/// these alone are bound.
///
/// # Errors
/// Names the address that cannot be bound.
pub(crate) fn bind(
    config: Config,
    clock: &Arc<dyn Clock>,
    handler: &Arc<dyn Handler>,
) -> Result<Server, CliError> {
    let listen = config.listen;
    let by_ipv4 = Config { listen: (Ipv4Addr::UNSPECIFIED, listen.port()).into(), ..config.clone() };
    let bound = Server::bind(config, Arc::clone(clock), Arc::clone(handler));
    let bound = match bound {
        Err(e) if listen.ip() == Ipv6Addr::UNSPECIFIED && lacks_ipv6(&e) => {
            Server::bind(by_ipv4, Arc::clone(clock), Arc::clone(handler))
        }
        bound => bound,
    };
    bound.map_err(|e| CliError::start(format!("cannot listen on {listen}: {e}")))
}

/// Whether the system refused a socket because it has no IPv6.
fn lacks_ipv6(error: &io::Error) -> bool {
    let error = Errno::from_io_error(error);
    matches!(error, Some(Errno::AFNOSUPPORT | Errno::ADDRNOTAVAIL))
}

fn report(whose: &str, outcome: Outcome) {
    let Outcome { requests_answered, connections_accepted, connections_cut, .. } = outcome;
    let connections =
        connections_accepted.map_or_else(String::new, |count| format!(" on {count} connections"));
    info!(
        "{whose}answered {requests_answered} requests{connections}, {connections_cut} connections were cut"
    );
}
