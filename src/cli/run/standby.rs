//! The option `--standby` and the command of that name: this host goes on as the writer where its
//! directory is the newest and no other one writes. Otherwise the directory follows the log on the
//! remote until this host takes over; then the server starts in it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use crossbeam_channel::{Receiver, RecvTimeoutError, bounded};
use log::{error, info, warn};
use siltstone::base::{Clock, OsEntropy};
use siltstone::format::LOCK;
use siltstone::fs::{Fs, Lock, OsFs};
use siltstone::http::Config;
use siltstone::remote::RemoteSettings;
use siltstone::service::{StandbyService, StandbyState};
use siltstone::store::{Progress, ShipError, Standby, StandbyStep, TakenOver};

use super::data_dir;
use super::data_disk;
use super::host_clock::HostClock;
use super::listeners::{self, Front, RunningServer};
use super::memory::MemoryPlan;
use super::metrics_token::MetricsTokenFile;
use super::open_files::OpenFiles;
use super::open_store;
use super::promotion::{PromoteRequest, Promotion, WAITS_FOR_LOG};
use super::server_secrets::ServerSecrets;
use super::service_manager::{ServerProgress, ServiceManager};
use super::signals::Signals;
use super::standby_reads::StandbyReads;
use crate::cli::announce;
use crate::cli::config::options::ServerOptions;
use crate::cli::config::sections::Sections;
use crate::cli::error::CliError;

/// The longest wait of a takeover for objects that the remote hides.
const HIDDEN_MAX: Duration = Duration::from_secs(60);
/// The pause after an error of the remote.
const RETRY_INTERVAL: Duration = Duration::from_secs(2);

/// A host that is the writer from now on.
pub(crate) struct Promoted {
    /// Its epoch; `None` where the remote is not marked yet, so that the server begins one when it
    /// is.
    pub(crate) taken: Option<TakenOver>,
    /// Its listener, which answers until the store is open that it is starting.
    pub(crate) front: Front,
}

/// Follows the log until a signal ends it, or this host takes over and the server is to be started.
///
/// # Errors
/// A message for the operator.
pub(crate) fn follow(
    options: &ServerOptions,
    sections: &Sections,
    secrets: ServerSecrets,
    manager: &ServiceManager,
) -> Result<Option<Promoted>, CliError> {
    let settings = settings_of_log(options, sections.remote.as_ref())?;
    let remote = settings.remote().map_err(|why| CliError::usage(format!("the section [remote]: {why}")))?;
    if options.start.fast_dir.is_some() {
        return Err(CliError::usage("--standby: a standby has one directory: leave --fast-dir out"));
    }
    data_dir::check_first_start(options)?;
    let StandbyDirectory { clear, lock } = take_directory(options, sections)?;
    let promotion = Promotion::at(&options.start.data_dir);
    promotion.open();
    warn_of_missing_files(options, &secrets);
    let ring_path = secrets.keys.path().to_owned();
    let (stop, stopped) = bounded(1);
    let clock: Arc<dyn Clock> = Arc::new(HostClock);
    let reads = options.remote.standby_reads.then(|| StandbyReads::new(options, secrets, &clock));
    let reads = reads.transpose()?;
    let metrics_token = MetricsTokenFile::open(options)?;
    let service = Arc::new(standby_service(options, metrics_token.as_ref()));
    let reloader = StandbyReloader { reads: reads.clone(), metrics_token, manager: manager.clone() };
    let signals = Signals::watch(
        move || {
            // A second signal finds the first one waiting.
            let _ = stop.try_send(());
        },
        move || reloader.reload(),
    )?;
    let (plan, files) = plans(options)?;
    let front = listen(options, &plan, files, &clock, Arc::clone(&service))?;
    manager.ready(Arc::new(StandbyProgress));
    let standby = with_takeover(Standby::new(remote, clear, Arc::clone(&clock)), options);
    let standby = match reads {
        None => standby,
        Some(reads) => {
            let services = reads.services(options, &clock, &front.memory, &service);
            standby.with_readers(open_store::store_options(options, &plan, files), Box::new(services))
        }
    };
    let mut following = Following {
        standby,
        service: Arc::clone(&service),
        stopped,
        lock,
        promotion,
        data_dir: options.start.data_dir.clone(),
        users: options.start.users_path(),
        keys: ring_path,
        takeover_after: options.remote.takeover_after.as_ref().map(|time| time.0),
        last_sign: Instant::now(),
        last_whole: Instant::now(),
        is_fit: false,
        problem: None,
        refusal: None,
        waits_for_log: false,
    };
    let end = following.run();
    following.promotion.close();
    // Releases the directory, which the server is to open.
    drop(following);
    signals.end();
    let taken = match end? {
        FollowingEnd::Stopped => {
            if let Some(running) = front.running {
                running.end();
            }
            return Ok(None);
        }
        FollowingEnd::TakenOver(taken) => Some(taken),
        FollowingEnd::Unmarked => None,
    };
    service.show_opening();
    Ok(Some(Promoted { taken, front }))
}

/// The settings of the remote with the log.
fn settings_of_log<'r>(
    options: &ServerOptions,
    remote: Option<&'r RemoteSettings>,
) -> Result<&'r RemoteSettings, CliError> {
    match (remote, options.remote.shipping()) {
        (Some(remote), Some(_)) => Ok(remote),
        _ => Err(CliError::usage(
            "--standby: name a remote in the section [remote] of the configuration file, and set --ship to the mode of the writer",
        )),
    }
}

/// The data directory of a standby.
struct StandbyDirectory {
    /// In the clear, where the disk holds it encrypted.
    clear: Arc<dyn Fs>,
    lock: Box<dyn Lock>,
}

/// Creates the directory if there is none, and locks it against other processes.
fn take_directory(options: &ServerOptions, sections: &Sections) -> Result<StandbyDirectory, CliError> {
    let disk = OsFs::new(&options.start.data_dir);
    let dir = &options.start.data_dir;
    disk.create_root().map_err(|error| refusal(dir, &error))?;
    let clear = data_disk::open(options, sections, true)?.fs;
    let lock = disk.lock(LOCK).map_err(|error| refusal(dir, &error))?;
    Ok(StandbyDirectory { clear, lock })
}

fn refusal(dir: &Path, error: &io::Error) -> CliError {
    CliError::start(format!("cannot use {}: {error}", dir.display()))
}

/// Warns of files that a writer has, and that a standby needs once it is the writer.
fn warn_of_missing_files(options: &ServerOptions, secrets: &ServerSecrets) {
    if !options.start.users_path().exists() {
        warn!(
            "there is no {}: copy it from the writer, unless the environment holds the only keys",
            options.start.users_path().display()
        );
    }
    if !secrets.keys.path().exists() {
        warn!(
            "there is no {}: copy it from the writer, or encrypted objects cannot be read here",
            secrets.keys.path().display()
        );
    }
}

/// The standby, which takes over by itself if it is to.
fn with_takeover(standby: Standby, options: &ServerOptions) -> Standby {
    match &options.remote.takeover_after {
        Some(after) => standby.with_takeover_after(after.0),
        None => standby,
    }
}

/// The pages of a standby.
fn standby_service(options: &ServerOptions, metrics_token: Option<&MetricsTokenFile>) -> StandbyService {
    let service =
        StandbyService::new(options.protocol.metrics, options.protocol.dialect, Arc::new(OsEntropy));
    match metrics_token {
        Some(file) => service.with_metrics_token(Arc::clone(&file.token)),
        None => service,
    }
}

/// The parts of a standby that SIGHUP reloads.
struct StandbyReloader {
    reads: Option<StandbyReads>,
    metrics_token: Option<MetricsTokenFile>,
    manager: ServiceManager,
}

impl StandbyReloader {
    fn reload(&self) {
        self.manager.reloading();
        if let Some(reads) = &self.reads {
            reads.reload();
        }
        if let Some(file) = &self.metrics_token {
            file.reload();
        }
        self.manager.reloaded();
    }
}

/// What the service manager is told of a standby.
struct StandbyProgress;

impl ServerProgress for StandbyProgress {
    /// Its directory is filled by one thread, which nobody waits for.
    fn disk_wait(&self) -> Option<Duration> {
        None
    }

    fn status(&self) -> String {
        "a standby, which follows the log on the remote".to_owned()
    }
}

/// When a file was changed last; `None` if there is none.
fn changed_at(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|metadata| metadata.modified()).ok()
}

/// The division of the memory and of the open files.
fn plans(options: &ServerOptions) -> Result<(MemoryPlan, OpenFiles), CliError> {
    let plan = MemoryPlan::make(options)?;
    let files = OpenFiles::divide(plan.connections_max, plan.workers, listeners::console_files(options));
    Ok((plan, files))
}

/// Starts the listener with the pages of the standby.
fn listen(
    options: &ServerOptions,
    plan: &MemoryPlan,
    files: OpenFiles,
    clock: &Arc<dyn Clock>,
    service: Arc<StandbyService>,
) -> Result<Front, CliError> {
    let front = Front::new(options, plan)?;
    let tls = front.tls.as_ref().map(|(_, tls)| Arc::clone(tls));
    let scheme = if tls.is_some() { "https" } else { "http" };
    let memory = Arc::clone(&front.memory);
    let config = Config { tls, memory, ..listeners::config(options, plan, files) };
    let running = RunningServer::start(config, clock, service)?;
    announce::listening(scheme, running.address());
    Ok(Front { running: Some(running), ..front })
}

/// Why a host follows no more.
enum FollowingEnd {
    /// A signal.
    Stopped,
    /// It has claimed an epoch.
    TakenOver(TakenOver),
    /// It has a store, and the remote is marked for none yet.
    Unmarked,
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
    data_dir: PathBuf,
    /// The path of the users file.
    users: PathBuf,
    /// The path of the key ring.
    keys: PathBuf,
    takeover_after: Option<Duration>,
    /// When the writer last showed that it lives, or the remote did not answer.
    last_sign: Instant,
    /// When the directory last had all that the remote has.
    last_whole: Instant,
    /// Whether the remote was asked whether it is fit for a takeover by itself.
    is_fit: bool,
    /// The error that was logged last, while it lasts.
    problem: Option<String>,
    /// What stood against the last takeover.
    refusal: Option<String>,
    /// Whether no host has sent a log yet, so that there is nothing to take over.
    waits_for_log: bool,
}

impl Following {
    /// Follows until a signal, or until this host writes.
    fn run(&mut self) -> Result<FollowingEnd, CliError> {
        let mut pause = Duration::ZERO;
        while self.stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
            // The step shows the remote as it was when it began, so that reads are as old as that.
            let begun = Instant::now();
            let stepped = self.standby.poll(&mut no_progress);
            if let Ok(StandbyStep { more: false, .. }) = &stepped
                && !self.standby.watches()
            {
                self.service.show_whole(begun);
            }
            if self.is_before_all_logs(&stepped)? {
                info!(
                    "the remote is not marked yet: this host begins its log once siltstone-tools remote init has marked it"
                );
                return Ok(FollowingEnd::Unmarked);
            }
            pause = self.judge(stepped)?;
            self.show();
            if let Some(way) = self.takeover_due()
                && let Some(taken) = self.take_over(way)?
            {
                return Ok(FollowingEnd::TakenOver(taken));
            }
        }
        Ok(FollowingEnd::Stopped)
    }

    /// Whether this host has a store, and the remote is marked for none: no other host can have a
    /// log there.
    fn is_before_all_logs(&self, stepped: &Result<StandbyStep, ShipError>) -> Result<bool, CliError> {
        if !stepped.as_ref().is_err_and(ShipError::is_unmarked) {
            return Ok(false);
        }
        self.standby.is_of_writer().map_err(|error| CliError::start(error.to_string()))
    }

    /// Fails where a takeover by itself could lead to two writers. The remote has answered.
    fn check_fitness(&mut self) -> Result<(), CliError> {
        if self.takeover_after.is_none() || self.is_fit {
            return Ok(());
        }
        match self.standby.decides_races() {
            Ok(true) => {
                self.is_fit = true;
                Ok(())
            }
            Ok(false) => Err(CliError::usage(
                "--takeover-after: the probe found that this remote does not decide races, so that two hosts might write; take over \
                 by hand with siltstone promote",
            )),
            // It is asked again after the next step.
            Err(_) => Ok(()),
        }
    }

    /// Notes the outcome of a step. Returns the pause before the next one.
    fn judge(&mut self, stepped: Result<StandbyStep, ShipError>) -> Result<Duration, CliError> {
        let now = Instant::now();
        match stepped {
            Ok(StandbyStep { more, heartbeat }) => {
                self.check_fitness()?;
                self.waits_for_log = false;
                if self.problem.take().is_some() {
                    info!("the log on the remote is followed again");
                }
                // A writer that lives again ends what stood against a takeover.
                if heartbeat {
                    self.last_sign = now;
                    self.refusal = None;
                }
                if !more {
                    self.last_whole = now;
                }
                Ok(if more { Duration::ZERO } else { self.standby.pause() })
            }
            Err(error) if error.lasts() => Err(self.last_error(&error)),
            Err(error) => {
                // Silence counts only while the remote answers.
                self.last_sign = now;
                self.waits_for_log = error.is_no_log();
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
        let figures = self.standby.figures();
        let lag = self.last_whole.elapsed();
        let lag = if lag < 2 * self.standby.pause() { Duration::ZERO } else { lag };
        self.service.show_users_file(changed_at(&self.users));
        self.service.show_key_ring(self.keys.exists());
        self.service.show(StandbyState {
            figures,
            lag,
            opens: false,
            problem: self.problem.clone().or_else(|| self.refusal.clone()).or_else(|| self.watching()),
        });
    }

    /// What a host waits for whose directory may be the newest.
    fn watching(&self) -> Option<String> {
        let wait = match self.takeover_after {
            Some(after) => format!("goes on {} s after the last heartbeat", after.as_secs()),
            None => "goes on by siltstone promote".to_owned(),
        };
        let told = format!(
            "its directory has all that the remote has; it follows another host that shows that it lives, and else {wait}"
        );
        self.standby.watches().then_some(told)
    }

    /// An error that only an operator ends.
    fn last_error(&self, error: &ShipError) -> CliError {
        CliError::start(format!("{}: {error}", self.data_dir.display()))
    }

    /// Why this host has to take over now.
    fn takeover_due(&mut self) -> Option<TakeoverReason> {
        match self.promotion.take() {
            Some(_) if self.waits_for_log => self.promotion.refuse(WAITS_FOR_LOG),
            Some(PromoteRequest { stopped_the_other: true }) => return Some(TakeoverReason::Operator),
            Some(PromoteRequest { stopped_the_other: false }) => match self.standby.decides_races() {
                Ok(true) => return Some(TakeoverReason::Operator),
                Ok(false) => self.promotion.refuse(
                    "the probe found that this remote does not decide races: stop the other host, and say so with --i-stopped-the-other",
                ),
                Err(error) => self.promotion.refuse(&error.to_string()),
            },
            None => {}
        }
        if self.standby.is_newest() && self.problem.is_none() {
            return Some(TakeoverReason::Newest);
        }
        let least = self.standby.least_silence();
        let is_silent = self.takeover_after.is_some_and(|after| self.last_sign.elapsed() >= after.max(least));
        if !is_silent {
            return None;
        }
        warn!("the writer has given no heartbeat for {:?}", self.last_sign.elapsed());
        Some(TakeoverReason::Silence)
    }

    /// Whether a takeover waits no longer for objects that the remote hides. One that was not asked
    /// for waits until the next silence.
    fn gives_up(&self, why: TakeoverReason, begun: Instant) -> bool {
        let is_early = why != TakeoverReason::Operator && !self.standby.has_claimed();
        is_early || begun.elapsed() >= HIDDEN_MAX
    }

    /// Reports what stands against a takeover, until the next one is tried.
    fn refuse(&mut self, why: TakeoverReason, error: &ShipError) {
        let told = format!("no takeover: {error}");
        error!("{told}");
        if why == TakeoverReason::Operator {
            self.promotion.refuse(&told);
        }
        self.refusal = Some(told);
    }

    /// Takes over; `None` where yet another host has, the remote does not answer, or it hides a
    /// part of the log.
    fn take_over(&mut self, why: TakeoverReason) -> Result<Option<TakenOver>, CliError> {
        match why {
            TakeoverReason::Newest => info!("this host has written last, and goes on"),
            TakeoverReason::Operator | TakeoverReason::Silence => info!("taking over"),
        }
        // If this comes to nothing, the next takeover by itself waits for a silence of its own.
        self.last_sign = Instant::now();
        self.refusal = None;
        let begun = Instant::now();
        loop {
            // An operator means the log as it is now; silence is that after the newest claim that
            // was seen.
            let looked = match why {
                TakeoverReason::Operator => self.standby.look_for_claims(),
                TakeoverReason::Newest | TakeoverReason::Silence => Ok(()),
            };
            let taken = looked.and_then(|()| self.standby.take_over(&OsEntropy, &mut no_progress));
            match taken {
                Ok(Some(taken)) => {
                    info!("this host has claimed epoch {}", taken.epoch());
                    return Ok(Some(taken));
                }
                Ok(None) => {
                    info!("another host takes over, and is followed");
                    return Ok(None);
                }
                Err(error) if error.lasts() => return Err(self.last_error(&error)),
                Err(error @ ShipError::Hidden { .. }) if self.gives_up(why, begun) => {
                    self.refuse(why, &error);
                    return Ok(None);
                }
                Err(error) if why != TakeoverReason::Operator && !self.standby.has_claimed() => {
                    warn!("no takeover, since the remote does not answer: {error}");
                    return Ok(None);
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

/// Why a standby takes over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TakeoverReason {
    /// `siltstone promote`.
    Operator,
    /// The directory has made the newest claim, so that no other host writes.
    Newest,
    /// The writer gives no heartbeats.
    Silence,
}

fn no_progress(_: Progress) {}
