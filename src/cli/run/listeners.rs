//! The listeners: one for S3 requests and the console, or one for each.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::sync::Arc;

use log::{error, info};
use rustix::io::Errno;
use siltstone::base::{Budget, Clock, limits};
use siltstone::console::{Console, ConsoleDoor};
use siltstone::http::{Config, Handle, Outcome, Server, Tls};
use siltstone::s3::Handler;
use siltstone::service::{HandlerSwitch, Service};

use super::memory::MemoryPlan;
use super::open_files::OpenFiles;
use super::stoppable_thread::StoppableThread;
use crate::cli::config::options::ServerOptions;
use crate::cli::config::tls_files::TlsFiles;
use crate::cli::error::CliError;

/// What a listener of S3 requests has, whoever answers them.
pub(crate) struct Front {
    pub(crate) memory: Arc<Budget>,
    pub(crate) tls: Option<(TlsFiles, Arc<Tls>)>,
    /// The server, where it runs already.
    pub(crate) running: Option<RunningServer>,
}

impl Front {
    /// Without a server.
    ///
    /// # Errors
    /// The certificate cannot be read.
    pub(crate) fn new(options: &ServerOptions, plan: &MemoryPlan) -> Result<Self, CliError> {
        Ok(Self { memory: plan.budget(), tls: load_tls(options)?, running: None })
    }
}

/// The certificate of the options, if there is one.
///
/// # Errors
/// It cannot be read.
fn load_tls(options: &ServerOptions) -> Result<Option<(TlsFiles, Arc<Tls>)>, CliError> {
    let Some(files) = options.http.tls_files()? else { return Ok(None) };
    let tls = files.read().map_err(CliError::start)?;
    Ok(Some((files, Arc::new(tls))))
}

/// An address that only the console has.
#[derive(Clone, Copy)]
pub(crate) struct ConsoleListen {
    address: SocketAddr,
    /// The workers that answer pages alone.
    reserve_workers: usize,
}

impl ConsoleListen {
    /// The options', if they have one.
    pub(crate) fn of(options: &ServerOptions, plan: &MemoryPlan) -> Option<Self> {
        let address = options.console.console_listen?;
        Some(Self { address, reserve_workers: plan.reserve_workers })
    }
}

/// A server that runs in a thread of its own, so that another handler can take the place of the
/// first.
pub(crate) struct RunningServer {
    handler: Arc<HandlerSwitch>,
    handle: Handle,
    address: SocketAddr,
    thread: StoppableThread<io::Result<Outcome>>,
}

impl RunningServer {
    /// Binds the address, and lets `first` answer.
    ///
    /// # Errors
    /// Names the address that cannot be bound.
    pub(crate) fn start(
        config: Config,
        clock: &Arc<dyn Clock>,
        first: Arc<dyn Handler>,
    ) -> Result<Self, CliError> {
        let handler = Arc::new(HandlerSwitch::new(first));
        let server = bind(config, clock, &(Arc::clone(&handler) as Arc<dyn Handler>))?;
        let handle = server.handle();
        let address = server.local_addr();
        let stop = handle.clone();
        let thread = StoppableThread::start("listener", move || stop.shutdown(), || server.run());
        let thread = thread.map_err(|e| CliError::start(format!("cannot start a thread: {e}")))?;
        Ok(Self { handler, handle, address, thread })
    }

    /// Its address.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops it.
    pub(crate) fn end(mut self) {
        self.thread.stop();
        if let Err(error) = self.wait() {
            error!("requests were no longer answered: {error}");
        }
    }

    fn wait(self) -> io::Result<Outcome> {
        self.thread.join().unwrap_or_else(|| Err(io::Error::other("its thread panicked")))
    }
}

/// A server of S3 requests.
enum S3Server {
    Bound(Server),
    Running(RunningServer),
}

impl S3Server {
    /// Lets `handler` answer: by the server that runs already, if there is one.
    fn new(
        config: Config,
        running: Option<RunningServer>,
        clock: &Arc<dyn Clock>,
        handler: Arc<dyn Handler>,
    ) -> Result<Self, CliError> {
        let Some(running) = running else { return bind(config, clock, &handler).map(Self::Bound) };
        running.handler.replace(handler);
        Ok(Self::Running(running))
    }

    fn local_addr(&self) -> SocketAddr {
        match self {
            Self::Bound(server) => server.local_addr(),
            Self::Running(running) => running.address,
        }
    }

    fn handle(&self) -> Handle {
        match self {
            Self::Bound(server) => server.handle(),
            Self::Running(running) => running.handle.clone(),
        }
    }

    fn run(self) -> io::Result<Outcome> {
        match self {
            Self::Bound(server) => server.run(),
            Self::Running(running) => running.wait(),
        }
    }
}

/// The servers, bound to their addresses.
pub(crate) struct Listeners {
    s3: S3Server,
    /// The server of the console, if that has an address of its own.
    console: Option<Server>,
}

impl Listeners {
    /// Binds the address of `config`, unless a server runs there, and the address of `own` for the
    /// console if it has one of its own.
    ///
    /// # Errors
    /// Names the address that cannot be bound.
    pub(crate) fn bind(
        config: Config,
        running: Option<RunningServer>,
        own: Option<ConsoleListen>,
        clock: &Arc<dyn Clock>,
        service: Arc<Service>,
        console: Console,
    ) -> Result<Self, CliError> {
        let Some(own) = own else {
            let s3 = S3Server::new(config, running, clock, Arc::new(console))?;
            return Ok(Self { s3, console: None });
        };
        let own = console_config(own, &config);
        let door = Arc::new(ConsoleDoor::new(service));
        let s3 = S3Server::new(config, running, clock, Arc::clone(&door) as Arc<dyn Handler>)?;
        let handler = Arc::new(console.on_own_listener(s3.local_addr().port()));
        let console = bind(own, clock, &(Arc::clone(&handler) as Arc<dyn Handler>))?;
        door.open(handler, console.local_addr().port());
        Ok(Self { s3, console: Some(console) })
    }

    /// The address of S3 requests.
    pub(crate) fn s3_addr(&self) -> SocketAddr {
        self.s3.local_addr()
    }

    /// The address of the console.
    pub(crate) fn console_addr(&self) -> SocketAddr {
        self.console.as_ref().map_or_else(|| self.s3.local_addr(), Server::local_addr)
    }

    /// The handle of the server of S3 requests.
    pub(crate) fn s3_handle(&self) -> Handle {
        self.s3.handle()
    }

    /// Handles that stop the servers.
    pub(crate) fn handles(&self) -> Vec<Handle> {
        self.console.iter().map(Server::handle).chain([self.s3.handle()]).collect()
    }

    /// Serves until all servers are stopped, and logs how many requests they have answered. If that
    /// of the console fails, S3 requests are served on.
    ///
    /// # Errors
    /// As [`Server::run`], for the server of S3 requests. The other one is stopped first.
    pub(crate) fn run(self) -> io::Result<()> {
        let console = match self.console {
            Some(server) => {
                let handle = server.handle();
                Some(StoppableThread::start(
                    "console",
                    move || handle.shutdown(),
                    move || run_console(server),
                )?)
            }
            None => None,
        };
        let outcome = self.s3.run().map(|outcome| report("", outcome));
        // Where S3 requests failed, nothing else has stopped the console.
        if let Some(console) = console {
            console.end();
        }
        outcome
    }
}

fn run_console(server: Server) {
    match server.run() {
        Ok(outcome) => report("the console ", outcome),
        Err(error) => error!("the console is no longer served: {error}"),
    }
}

/// The files that connections of the console may take besides S3 requests.
pub(crate) fn console_files(options: &ServerOptions) -> usize {
    options
        .console
        .console_listen
        .map_or(0, |_| limits::CONSOLE_CONNECTIONS_MAX + limits::CONSOLE_DRAINING_MAX)
}

/// The settings of the listener of the console. It shares the memory and the certificate of S3
/// requests.
fn console_config(own: ConsoleListen, s3: &Config) -> Config {
    Config {
        listen: own.address,
        workers: limits::CONSOLE_WORKERS,
        reserve_workers: own.reserve_workers,
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
        engine: options.http.http_engine,
        workers: plan.workers,
        // The reserve is for the pages of the console, wherever these are.
        reserve_workers: if options.console.console_listen.is_some() { 0 } else { plan.reserve_workers },
        queue_len: options.http.queue.get(),
        connections_max: files.connections_max,
        connections_per_address_max: options.http.max_connections_per_address.map(NonZeroUsize::get),
        trusted_proxies: options.http.trusted_proxies.clone(),
        idle_deadline: options.http.idle_timeout.0,
        shutdown_timeout: options.http.shutdown_timeout.0,
        ..Config::new(options.start.listen)
    }
}

/// Binds the address. The IPv6 address that stands for all addresses also stands for those of IPv4;
/// on a host without IPv6 these alone are bound.
///
/// # Errors
/// Names the address that cannot be bound.
fn bind(config: Config, clock: &Arc<dyn Clock>, handler: &Arc<dyn Handler>) -> Result<Server, CliError> {
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
