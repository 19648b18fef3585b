//! The command `standby`: the directory follows the log on the remote until this host takes over; then the server starts in it.

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use clap::Args;
use crossbeam_channel::{Receiver, RecvTimeoutError, bounded};
use log::{error, info, warn};
use siltstone::base::{Budget, Clock, OsEntropy, SystemClock};
use siltstone::format::LOCK;
use siltstone::fs::{Fs, Lock, OsFs};
use siltstone::http::{Config, Server};
use siltstone::remote::RemoteSettings;
use siltstone::s3::Handler;
use siltstone::service::{StandbyService, StandbyState};
use siltstone::store::{Progress, ShipError, Standby, StandbyStep, TakenOver};

use super::CliError;
use super::announce;
use super::listeners;
use super::memory::MemoryPlan;
use super::open_files::OpenFiles;
use super::option_values::TimeSpan;
use super::options::ServerOptions;
use super::promote::{PromoteRequest, Promotion};
use super::serve::load_tls;
use super::service_manager::ServiceManager;
use super::signals::Signals;

/// The pause before the next parcel is looked for.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// The pause after an error of the remote.
const RETRY_INTERVAL: Duration = Duration::from_secs(2);
/// The shortest time without a sign of life: a writer gives one every 5 s, and it is looked for every 3 s.
const TAKEOVER_AFTER_MIN: Duration = Duration::from_secs(15);

/// The arguments of `standby`.
#[derive(Debug, Args)]
pub(crate) struct StandbyArguments {
    /// Take over when the writer has given no sign of life for this time; at least 15s. Without it only `promote` takes over
    #[arg(long, value_name = "TIME", env = "SILTSTONE_TAKEOVER_AFTER")]
    takeover_after: Option<TimeSpan>,
}

/// What ends the following.
pub(crate) enum StandbyEnd {
    /// A signal.
    Stopped,
    /// This host has taken over; the server is to be started.
    TakenOver(TakenOver),
}

/// Follows the log until a signal ends it, or this host takes over. The options get the address that was bound.
///
/// # Errors
/// A message for the operator.
pub(crate) fn follow(
    arguments: &StandbyArguments,
    options: &mut ServerOptions,
    remote: Option<&RemoteSettings>,
    manager: &ServiceManager,
) -> Result<StandbyEnd, CliError> {
    if arguments.takeover_after.is_some_and(|time| time.0 < TAKEOVER_AFTER_MIN) {
        return Err(CliError::usage("--takeover-after: at least 15s"));
    }
    let (Some(remote), Some(_)) = (remote, options.shipping()) else {
        return Err(CliError::usage(
            "standby: name a remote in the section [remote] of the configuration file, and set --ship to the mode after a takeover",
        ));
    };
    let remote = remote.remote().map_err(|why| CliError::usage(format!("the section [remote]: {why}")))?;
    let disk = OsFs::new(&options.data_dir);
    let refusal =
        |error: io::Error| CliError::start(format!("cannot use {}: {error}", options.data_dir.display()));
    disk.create_root().map_err(refusal)?;
    let lock = disk.lock(LOCK).map_err(refusal)?;
    if !options.users_path().exists() {
        warn!(
            "there is no {}: copy it from the writer, unless the environment holds the only keys",
            options.users_path().display()
        );
    }
    let (stop, stopped) = bounded(1);
    let stop = move || {
        // A second signal finds the first one waiting.
        let _ = stop.try_send(());
    };
    let signals = Signals::watch(stop, || {})?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let service = StandbyService::new(options.metrics, options.dialect, Arc::new(OsEntropy));
    let service = Arc::new(service);
    let pages = Pages::start(options, &clock, Arc::clone(&service))?;
    options.listen.set_port(pages.server.1);
    manager.ready();
    let standby = Standby::new(remote, Arc::new(disk), clock);
    let mut following = Following {
        standby,
        service,
        stopped,
        lock,
        promotion: Promotion::at(&options.data_dir),
        takeover_after: arguments.takeover_after.map(|time| time.0),
        last_sign: Instant::now(),
        last_whole: Instant::now(),
        problem: None,
    };
    let end = following.run();
    drop(following);
    signals.end();
    pages.end();
    end
}

/// The listener with the pages of the standby.
struct Pages {
    server: (siltstone::http::Handle, u16),
    thread: JoinHandle<()>,
}

impl Pages {
    fn start(
        options: &ServerOptions,
        clock: &Arc<dyn Clock>,
        service: Arc<StandbyService>,
    ) -> Result<Self, CliError> {
        let plan = MemoryPlan::make(options)?;
        let files = OpenFiles::divide(plan.connections_max, plan.workers, listeners::console_files(options));
        let tls = load_tls(options)?.map(|(_, tls)| tls);
        let scheme = if tls.is_some() { "https" } else { "http" };
        let memory: Arc<Budget> = plan.budget();
        let config = Config { tls, memory, ..listeners::config(options, &plan, files) };
        let server = listeners::bind(config, clock, &(service as Arc<dyn Handler>))?;
        let (handle, address) = (server.handle(), server.local_addr());
        let run = move |server: Server| {
            if let Err(error) = server.run() {
                error!("the pages of the standby are no longer served: {error}");
            }
        };
        let thread = thread::Builder::new().name("standby-pages".to_owned()).spawn(move || run(server));
        let thread = thread.map_err(|e| CliError::start(format!("cannot start a thread: {e}")))?;
        announce::listening(scheme, address);
        Ok(Self { server: (handle, address.port()), thread })
    }

    fn end(self) {
        self.server.0.shutdown();
        if self.thread.join().is_err() {
            error!("the thread of the pages panicked");
        }
    }
}

/// The loop of a standby.
struct Following {
    standby: Standby,
    service: Arc<StandbyService>,
    stopped: Receiver<()>,
    /// Kept until the server opens the directory.
    #[expect(dead_code, reason = "dropping it releases the directory")]
    lock: Box<dyn Lock>,
    promotion: Promotion,
    takeover_after: Option<Duration>,
    /// When the writer last showed that it lives, or the remote did not answer.
    last_sign: Instant,
    /// When the directory last had all that the remote has.
    last_whole: Instant,
    /// The error that was logged last, while it lasts.
    problem: Option<String>,
}

impl Following {
    fn run(&mut self) -> Result<StandbyEnd, CliError> {
        self.promotion.forget();
        if self.takeover_after.is_some() {
            self.check_fitness()?;
        }
        let mut pause = Duration::ZERO;
        while self.stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
            let stepped = self.standby.step(&mut no_progress);
            pause = self.judge(stepped)?;
            self.show();
            if self.is_takeover_due()
                && let Some(taken) = self.take_over()?
            {
                return Ok(StandbyEnd::TakenOver(taken));
            }
        }
        Ok(StandbyEnd::Stopped)
    }

    /// Fails where a takeover by itself could lead to two writers.
    fn check_fitness(&mut self) -> Result<(), CliError> {
        match self.standby.decides_races() {
            Ok(true) => Ok(()),
            Ok(false) => Err(CliError::usage(
                "--takeover-after: the probe found that this remote does not decide races, so that two hosts might write; take over \
                 by hand with siltstone promote",
            )),
            Err(error) => Err(CliError::start(format!(
                "--takeover-after: the remote does not say whether it is fit: {error}"
            ))),
        }
    }

    /// Notes the outcome of a step. Returns the pause before the next one.
    fn judge(&mut self, stepped: Result<StandbyStep, ShipError>) -> Result<Duration, CliError> {
        let now = Instant::now();
        match stepped {
            Ok(StandbyStep { more, sign }) => {
                if self.problem.take().is_some() {
                    info!("the log on the remote is followed again");
                }
                if sign {
                    self.last_sign = now;
                }
                if !more {
                    self.last_whole = now;
                }
                Ok(if more { Duration::ZERO } else { POLL_INTERVAL })
            }
            Err(error @ (ShipError::Disk(_) | ShipError::OtherLog)) => {
                Err(CliError::start(error.to_string()))
            }
            Err(error) => {
                // Silence counts only while the remote answers.
                self.last_sign = now;
                let why = error.to_string();
                if self.problem.is_none() {
                    warn!(
                        "the log on the remote is not followed for now, which is tried again every {RETRY_INTERVAL:?}: {why}"
                    );
                }
                self.problem = Some(why);
                Ok(RETRY_INTERVAL)
            }
        }
    }

    fn show(&self) {
        let (figures, lag) = (self.standby.figures(), self.last_whole.elapsed());
        let lag = if lag < 2 * POLL_INTERVAL { Duration::ZERO } else { lag };
        self.service.show(StandbyState { figures, lag, problem: self.problem.clone() });
    }

    fn is_takeover_due(&mut self) -> bool {
        match self.promotion.take() {
            Some(PromoteRequest { stopped_the_other: true }) => return true,
            Some(PromoteRequest { stopped_the_other: false }) => match self.standby.decides_races() {
                Ok(true) => return true,
                Ok(false) => self.promotion.refuse(
                    "the probe found that this remote does not decide races: stop the other host, and say so with --i-stopped-the-other",
                ),
                Err(error) => self.promotion.refuse(&error.to_string()),
            },
            None => {}
        }
        let is_silent = self.takeover_after.is_some_and(|after| self.last_sign.elapsed() >= after);
        if is_silent {
            warn!("the writer has given no sign of life for {:?}", self.last_sign.elapsed());
        }
        is_silent
    }

    /// Takes over; `None` where yet another host has, or the remote does not answer.
    fn take_over(&mut self) -> Result<Option<TakenOver>, CliError> {
        info!("taking over");
        self.last_sign = Instant::now();
        loop {
            match self.standby.take_over(&OsEntropy, &mut no_progress) {
                Ok(Some(taken)) => {
                    info!("this host has claimed reign {}", taken.epoch());
                    return Ok(Some(taken));
                }
                Ok(None) => {
                    info!("another host has taken over, and is followed");
                    return Ok(None);
                }
                Err(error @ (ShipError::Disk(_) | ShipError::OtherLog)) => {
                    return Err(CliError::start(error.to_string()));
                }
                // The claim has fenced the old writer: this host goes on until it has taken over.
                Err(error) => warn!("the takeover is tried again: {error}"),
            }
            if self.stopped.recv_timeout(RETRY_INTERVAL) != Err(RecvTimeoutError::Timeout) {
                return Err(CliError::start("stopped in the middle of a takeover"));
            }
        }
    }
}

fn no_progress(_: Progress) {}
