//! The life of the server process: parts are started from the store up, run until a signal, and
//! stopped in reverse.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::thread;
use std::time::{Duration, Instant};

use bytesize::ByteSize;
use crossbeam_channel::{RecvTimeoutError, bounded};
use log::{error, info, warn};
use siltstone::base::{Clock, OsEntropy};
use siltstone::console::ConsoleAccess;
use siltstone::http::{Config, Tls};
use siltstone::mirror::{MirrorSettings, Mirrors};
use siltstone::ops::LifecycleFigures;
use siltstone::service::{AuditLog, AuditTrail, BucketLogs, HtmlSandbox, Service};
use siltstone::store::{Health, Store};
use siltstone::webhook::{self, WebhookSettings};

use super::background::{BackgroundThreads, BackgroundWork};
use super::buckets;
use super::data_dir;
use super::disk_directories::StoreDisks;
use super::disk_hook::DiskHook;
use super::host_clock::HostClock;
use super::key_ring::RunningKeys;
use super::listeners::{self, ConsoleListen, Front, Listeners};
use super::memory::MemoryPlan;
use super::metrics_token::MetricsTokenFile;
use super::mirrored_sides::RunningMirror;
use super::open_files::OpenFiles;
use super::open_store::{OpenedStore, open_store};
use super::server_secrets::ServerSecrets;
use super::service::{authenticator, console, open_access_log, service};
use super::service_manager::{ServerProgress, ServiceManager};
use super::signals::Signals;
use super::standby::Promoted;
use super::stop::{FencedStop, Stop};
use super::webhooks::{WebhookThreads, reload_secrets};
use crate::cli::announce;
use crate::cli::config::options::{ConsoleOptions, ServerOptions};
use crate::cli::config::sections::Sections;
use crate::cli::config::tls_files::TlsFiles;
use crate::cli::error::CliError;
use crate::cli::logs::access_log::AccessLogFile;
use crate::cli::logs::audit_log::AuditLogFile;
use crate::cli::users::running_users::RunningUsers;
use crate::cli::users::users_file::UsersFile;

/// The time that closing the store may take beyond the shutdown timeout, for a write or a sync in
/// progress.
const CLOSE_GRACE: Duration = Duration::from_secs(1);

/// Serves until a signal ends it; in the epoch that this host has claimed as a standby, and with
/// its listener, if it has.
///
/// # Errors
/// A message for the operator. The store is opened first: its lock keeps a second server from
/// creating files.
pub(crate) fn serve(
    options: &ServerOptions,
    sections: Sections,
    secrets: ServerSecrets,
    manager: &ServiceManager,
    promoted: Option<Promoted>,
) -> Result<(), CliError> {
    let clock: Arc<dyn Clock> = Arc::new(HostClock);
    let plan = MemoryPlan::make(options)?;
    let files = OpenFiles::divide(plan.connections_max, plan.workers, listeners::console_files(options));
    let (taken, front) = match promoted {
        Some(Promoted { taken, front }) => (taken, front),
        None => (None, Front::new(options, &plan)?),
    };
    let disk_hook = DiskHook::open(options)?;
    // A server that only looks sends nothing to others.
    let sections = if options.store.read_only { sections.without_targets() } else { sections };
    let OpenedStore { store, mirror } =
        open_store(options, &sections, taken, &plan, Arc::clone(&clock), files)?;
    let Sections { remote: _, webhooks, mirrors } = sections;
    log_memory(&plan, &store);
    // After the store: a directory that is refused gets no users file.
    if mirror.is_some() {
        data_dir::warn_of_mirror(options);
        data_dir::make_files_level(options, &secrets)?;
    }
    let first_key = create_users_file(options, &secrets.users)?;
    let keys = RunningKeys::open(secrets.keys, !options.store.read_only, store.has_encrypted())?;
    store.set_keys(keys.ring.clone());
    let (users, list) = secrets.users.read().map_err(CliError::start)?;
    store.configure_owner_quotas(users.quotas().clone());
    // Before requests are answered: a client that reaches the server finds its buckets.
    if !options.store.read_only {
        buckets::make(&store, &options.start.bucket, &options.protocol.xml_namespace)?;
    }
    let authenticator = Arc::new(authenticator(options, users, &clock));
    let Front { memory, tls, running } = front;
    let expiries: Arc<LifecycleFigures> = Arc::default();
    let figures = WebhookThreads::figures(&webhooks);
    let service = service(options, &store, &authenticator, &clock, &memory, &figures, &keys)?;
    let mirrors = make_mirrors(mirrors, &clock)?;
    let service = service.with_lifecycle_figures(Arc::clone(&expiries)).with_webhooks(figures.clone());
    let service = service.with_mirrors(Arc::clone(&mirrors));
    let mirror = mirror.and_then(|mirror| RunningMirror::new(mirror, &options.start));
    let service = match mirror.clone() {
        Some(mirror) => service.with_sides(move || mirror.figures()),
        None => service,
    };
    let disks = StoreDisks::of(&options.start, mirror.as_ref());
    let service = service.with_directories(move || disks.described());
    let service = match &disk_hook {
        Some(hook) => service.with_disk_hook(hook.figures()),
        None => service,
    };
    let logs = LogFiles::open(options)?;
    let service = logs.of_service(service);
    // A store that takes no writes delivers none.
    let service = match options.store.read_only {
        true => service,
        false => service.with_bucket_logs(Arc::new(BucketLogs::new(Arc::clone(&clock)))),
    };
    let users = Arc::new(RunningUsers::new(
        secrets.users,
        list,
        Arc::clone(&authenticator),
        Arc::clone(&store),
        Arc::clone(&logs.trail),
    ));
    // The users file is often in the directory.
    let service = if options.store.read_only { service } else { service.with_users(users.clone()) };
    let metrics_token = MetricsTokenFile::open(options)?;
    warn_of_plain_http(options)?;
    tell_who_sees_the_console(options)?;
    warn_of_sandbox(options);
    let shown_tls = tls.as_ref().map(|(_, tls)| Arc::clone(tls));
    let service = Arc::new(with_metrics(service, metrics_token.as_ref(), shown_tls.clone()));
    let config = Config { tls: shown_tls, memory, ..listeners::config(options, &plan, files) };
    let console = console(options, &service, &authenticator, &clock)?;
    let link = first_key.map(|key| console.first_link(&key));
    let listeners = Listeners::bind(
        config,
        running,
        ConsoleListen::of(options, &plan),
        &clock,
        Arc::clone(&service),
        console,
    )?;
    let s3 = listeners.s3_handle();
    service.show_load(move || s3.load());
    // After it is bound: a start that fails there leaves the positions as they are.
    if !options.store.read_only {
        keep_followers(&store, &webhooks, &mirrors);
    }
    let expiry_log = logs.access.clone();
    let reloaded = webhooks.clone();
    let work = BackgroundWork {
        webhooks,
        webhook_figures: figures,
        mirrors,
        mirror,
        disk_hook,
        expiry_log,
        service,
        expiries,
    };
    let keys = keys.with_audit(Arc::clone(&logs.trail));
    let reloader = Reloader { users, keys, tls, logs, webhooks: reloaded, metrics_token };
    let started = StartedServer { listeners, store, reloader, work, first_start: link };
    started.run_until_stopped(options, manager)
}

/// The service, whose metrics show when the certificate expires, and may be read with a token.
fn with_metrics(service: Service, token: Option<&MetricsTokenFile>, tls: Option<Arc<Tls>>) -> Service {
    let service = match token {
        Some(file) => service.with_metrics_token(Arc::clone(&file.token)),
        None => service,
    };
    match tls {
        Some(tls) => service.with_certificate_expiry(move || tls.expires()),
        None => service,
    }
}

fn make_mirrors(settings: Vec<MirrorSettings>, clock: &Arc<dyn Clock>) -> Result<Arc<Mirrors>, CliError> {
    let mirrors = Mirrors::new(settings, clock).map(Arc::new);
    mirrors.map_err(|why| CliError::usage(format!("[[mirror]]: {why}")))
}

/// Forgets the positions of targets that are not configured any more, so that the log is not kept
/// for them. A store that takes no writes keeps them.
fn keep_followers(store: &Store, webhooks: &[WebhookSettings], mirrors: &Mirrors) {
    let names: Vec<_> = webhooks.iter().map(|target| webhook::follower_name(&target.name)).collect();
    let mirrors = mirrors.iter().map(|mirror| mirror.name());
    let names: Vec<_> = names.iter().map(String::as_str).chain(mirrors).collect();
    if let Err(problem) = store.keep_followers(&names) {
        warn!("the log is kept for targets that are not configured any more: {problem}");
    }
}

/// Creates the users file on the first start and shows its keys. Returns the access key if it was
/// created.
fn create_users_file(options: &ServerOptions, users_file: &UsersFile) -> Result<Option<String>, CliError> {
    if options.store.read_only {
        return match users_file.is_missing() {
            true => Err(CliError::start(format!(
                "--read-only makes no users file, and there is no {}: name one with --users, or set keys in the environment",
                users_file.path().display()
            ))),
            false => Ok(None),
        };
    }
    let generated = users_file.create_if_missing(&OsEntropy).map_err(CliError::start)?;
    if let Some(keys) = &generated {
        let endpoint = endpoint(options, options.start.listen);
        announce::keys(users_file.path(), &options.addressing.region.0[0], keys, endpoint.as_deref());
    }
    Ok(generated.map(|keys| keys.access_key))
}

/// The URL by which clients reach the server; `None` while `address` has no port yet.
fn endpoint(options: &ServerOptions, address: SocketAddr) -> Option<String> {
    if let Some(url) = &options.console.public_url {
        return Some(url.clone());
    }
    let scheme = if options.http.tls_cert.is_some() { "https" } else { "http" };
    (address.port() != 0).then(|| format!("{scheme}://{}", announce::reachable(address)))
}

/// The logs of a server in files of their own.
struct LogFiles {
    access: Option<Arc<AccessLogFile>>,
    audit: Option<Arc<AuditLogFile>>,
    /// The last acts, which the audit log has, too.
    trail: Arc<AuditTrail>,
}

impl LogFiles {
    fn open(options: &ServerOptions) -> Result<Self, CliError> {
        let access = open_access_log(options)?;
        let audit = options.logs.audit_log.as_deref().map(AuditLogFile::open);
        let audit = audit.transpose().map_err(CliError::start)?.map(Arc::new);
        let log = audit.clone().map(|log| log as Arc<dyn AuditLog>);
        let trail = Arc::new(AuditTrail::new(log));
        Ok(Self { access, audit, trail })
    }

    /// The service, which writes to them.
    fn of_service(&self, service: Service) -> Service {
        let service = match &self.access {
            Some(log) => service.with_access_log(log.clone()),
            None => service,
        };
        service.with_audit_trail(Arc::clone(&self.trail))
    }

    fn reopen(&self) {
        if let Some(log) = &self.access {
            log.reopen();
        }
        if let Some(log) = &self.audit {
            log.reopen();
        }
    }
}

/// A server whose parts are there, and whose addresses are bound.
struct StartedServer {
    listeners: Listeners,
    store: Arc<Store>,
    reloader: Reloader,
    work: BackgroundWork,
    /// On the first start, the link of the first step if the console is on.
    first_start: Option<Option<String>>,
}

impl StartedServer {
    /// Serves until a signal, then ends the threads in the background and closes the store.
    fn run_until_stopped(self, options: &ServerOptions, manager: &ServiceManager) -> Result<(), CliError> {
        let Self { listeners, store, reloader, work, first_start } = self;
        let scheme = if reloader.tls.is_some() { "https" } else { "http" };
        let stopped: Arc<OnceLock<Instant>> = Arc::default();
        let stop =
            Stop { stopped: Arc::clone(&stopped), handles: listeners.handles(), manager: manager.clone() };
        let is_fenced: Arc<AtomicBool> = Arc::default();
        let fenced = FencedStop { stop: stop.clone(), is_fenced: Arc::clone(&is_fenced) };
        let progress = StoreProgress(Arc::downgrade(&store));
        let reloading = manager.clone();
        // Before the line that says that it listens: a signal after that line ends it in order.
        let signals = Signals::watch(
            move || stop.stop(),
            move || {
                reloading.reloading();
                reloader.reload();
                reloading.reloaded();
            },
        )?;
        let address = listeners.s3_addr();
        let console = listeners.console_addr();
        if let Some(link) = first_start {
            let was_told = endpoint(options, options.start.listen).is_some();
            let endpoint = if was_told { None } else { endpoint(options, address) };
            let console_origin = format!("{scheme}://{}", announce::reachable(console));
            announce::first_steps(endpoint.as_deref(), &console_origin, link.as_deref());
        }
        let background = match options.store.read_only {
            true => None,
            false => Some(BackgroundThreads::start(
                options,
                &store,
                work,
                options.remote.standby.then_some(fenced),
            )?),
        };
        if console != address {
            let ConsoleOptions { console_path, console_url, .. } = &options.console;
            let place =
                announce::console_place(scheme, console, console_path.as_str(), console_url.as_deref());
            info!("the console is at {place}");
        }
        announce::listening(scheme, address);
        manager.ready(Arc::new(progress));
        let outcome = listeners.run();
        // In reverse: no request writes any more, then no thread does, and the store is closed
        // last.
        signals.end();
        if let Some(background) = background {
            background.end();
        }
        // The time of the shutdown has run since the signal, for requests and the store together.
        close(store, *stopped.get_or_init(Instant::now) + options.http.shutdown_timeout.0);
        outcome.map_err(|e| CliError::start(format!("cannot go on serving: {e}")))?;
        if is_fenced.load(Ordering::Relaxed) { Err(CliError::taken_over()) } else { Ok(()) }
    }
}

/// What the service manager is told of a server with an open store.
struct StoreProgress(Weak<Store>);

impl ServerProgress for StoreProgress {
    fn disk_wait(&self) -> Option<Duration> {
        self.0.upgrade()?.disk_wait()
    }

    fn status(&self) -> String {
        self.0.upgrade().map_or_else(|| "stopping".to_owned(), |store| status_of(&store.health()))
    }
}

fn status_of(health: &Health) -> String {
    let Health { versions, buckets, .. } = health;
    if let Some(reason) = health.read_only_reason {
        return format!("takes no writes: {reason}");
    }
    let refusal = match (health.disk_full, health.index_full) {
        (true, _) => "; puts are refused, since the disk is full",
        (false, true) => "; puts are refused, since the index has all of --index-max",
        (false, false) => "",
    };
    let free = match health.disk {
        Some((free, size)) => format!(", {} of {} free", ByteSize(free), ByteSize(size)),
        None => String::new(),
    };
    format!("{versions} versions in {buckets} buckets{free}{refusal}")
}

/// The parts of a running server that SIGHUP reloads.
struct Reloader {
    users: Arc<RunningUsers>,
    keys: RunningKeys,
    tls: Option<(TlsFiles, Arc<Tls>)>,
    logs: LogFiles,
    webhooks: Vec<WebhookSettings>,
    metrics_token: Option<MetricsTokenFile>,
}

impl Reloader {
    fn reload(&self) {
        self.logs.reopen();
        self.users.reload();
        self.keys.reload();
        reload_secrets(&self.webhooks);
        if let Some(file) = &self.metrics_token {
            file.reload();
        }
        if let Some((files, tls)) = &self.tls {
            reload_tls(files, tls);
        }
    }
}

/// Closes the store. A hanging disk does not delay the exit beyond `by`: the rest is left to the
/// next start, as after a crash.
fn close(store: Arc<Store>, by: Instant) {
    let (done, closed) = bounded::<()>(0);
    thread::spawn(move || {
        store.close_by(by);
        drop(done);
    });
    if closed.recv_deadline(by + CLOSE_GRACE) == Err(RecvTimeoutError::Timeout) {
        warn!("the store could not be closed in time: the next start replays more of the log");
    }
}

fn log_memory(plan: &MemoryPlan, store: &Store) {
    let MemoryPlan { ceiling, index_max, fixed, workers, reserve_workers: _, connections_max } = plan;
    info!(
        "memory: at most {ceiling} bytes besides the index, which takes {} of {index_max}; {fixed} are set aside for \
         {workers} workers, {connections_max} connections and the process",
        store.index_bytes()
    );
}

/// Warns of plain HTTP on other than loopback addresses. Signatures protect keys and requests, but
/// do not encrypt data.
fn warn_of_plain_http(options: &ServerOptions) -> Result<(), CliError> {
    if options.http.tls_files()?.is_none() && !options.start.listen.ip().is_loopback() {
        warn!(
            "plain HTTP on {}: all transferred data can be read on the network; set --tls-cert and --tls-key, or use a proxy \
             that encrypts",
            options.start.listen
        );
    }
    Ok(())
}

/// Says that other hosts do not see the console, where they could reach it.
fn tell_who_sees_the_console(options: &ServerOptions) -> Result<(), CliError> {
    let is_reachable = !options.console.console_listen.unwrap_or(options.start.listen).ip().is_loopback();
    if is_reachable && options.console.access() == ConsoleAccess::On && options.http.tls_files()?.is_none() {
        info!(
            "without TLS, browsers on this host alone see the console; a published port of a container makes each one that of another \
             host. In a network that you trust, --console-insecure true (SILTSTONE_CONSOLE_INSECURE=true) shows it to all"
        );
    }
    Ok(())
}

/// Warns of an option that is without effect.
fn warn_of_sandbox(options: &ServerOptions) {
    let has_console =
        options.console.access() != ConsoleAccess::Off && options.console.console_listen.is_none();
    if options.addressing.html_sandbox == HtmlSandbox::Off && has_console {
        warn!(
            "--html-sandbox off has no effect beside the console, where scripts of stored documents could act for its users: give the \
             console another address (--console-listen), or turn it off (--console off)"
        );
    }
}

/// Reads the certificate again for new connections. If it is broken the previous one stays in
/// effect.
fn reload_tls(files: &TlsFiles, tls: &Tls) {
    match files.read_into(tls) {
        Ok(()) => info!("the certificate and its key were read again"),
        Err(problem) => error!("the certificate is unchanged: {problem}"),
    }
}
