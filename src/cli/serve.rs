//! The life of the process: everything is opened from the ground up, served until a signal, and closed in reverse.

use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{RecvTimeoutError, bounded};
use log::{error, info, warn};
use siltstone::auth::Authenticator;
use siltstone::base::{Budget, Clock, Entropy as _, Md5Pool, OsEntropy, SeededEntropy, SystemClock};
use siltstone::fs::OsFs;
use siltstone::http::{Config, Outcome, Server, Tls};
use siltstone::ops::{Context, PaddingTimes};
use siltstone::s3::route::Addressing;
use siltstone::service::{self, Service};
use siltstone::store::{self, Store};

use super::Failure;
use super::access_log::AccessFile;
use super::announce;
use super::housekeeping::Housekeeping;
use super::memory::Plan;
use super::open_files::OpenFiles;
use super::options::Settings;
use super::signals::Signals;
use super::tls_files::TlsFiles;
use super::users_file::UsersFile;

/// What closing the store may take beyond the shutdown time, for a write or a sync that has begun.
const CLOSE_GRACE: Duration = Duration::from_secs(1);

/// Serves until a signal ends it.
///
/// # Errors
/// In words for the operator. The store is opened first: its lock keeps a second server from making anything.
pub(crate) fn serve(settings: &Settings, users_file: UsersFile) -> Result<(), Failure> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let plan = Plan::make(settings)?;
    let files = OpenFiles::divide(plan.connections_max, plan.workers);
    let store = open_store(settings, &plan, Arc::clone(&clock), files)?;
    tell_of_memory(&plan, &store);
    let memory = plan.budget();
    let made_up = users_file.create_if_missing(&OsEntropy).map_err(Failure::start)?;
    if let Some(keys) = &made_up {
        announce::keys(&settings.users, &settings.regions[0], keys);
    }
    let users = users_file.read().map_err(Failure::start)?;
    let authenticator = Arc::new(Authenticator::new(users, settings.regions.clone(), Arc::clone(&clock)));
    let md5 = Md5Pool::start().map_err(|e| Failure::start(format!("cannot start a thread: {e}")))?;
    let service = service(settings, &store, md5, &authenticator, &clock, &memory);
    let access_log =
        settings.access_log_path().map(|path| AccessFile::open(path, settings.access_log_format));
    let access_log = access_log.transpose().map_err(Failure::start)?.map(Arc::new);
    let service = match &access_log {
        Some(log) => service.with_access_log(log.clone()),
        None => service,
    };
    warn_of_plain_http(settings)?;
    let tls_files = settings.tls_files()?;
    let tls = tls_files.as_ref().map(TlsFiles::read).transpose().map_err(Failure::start)?.map(Arc::new);
    let config = Config { tls: tls.clone(), memory, ..config(settings, &plan, files) };
    let server = Server::bind(config, clock, Arc::new(service))
        .map_err(|e| Failure::start(format!("cannot listen on {}: {e}", settings.listen)))?;
    let stop = server.handle();
    let scheme = if tls.is_some() { "https" } else { "http" };
    let reload = move || {
        reload_users(&users_file, &authenticator);
        if let (Some(files), Some(tls)) = (&tls_files, &tls) {
            reload_tls(files, tls);
        }
        access_log.iter().for_each(|log| log.reopen());
    };
    let stopped: Arc<OnceLock<Instant>> = Arc::default();
    let stopping = Arc::clone(&stopped);
    let order_to_stop = move || {
        stopping.get_or_init(Instant::now);
        stop.shutdown();
    };
    let signals = Signals::watch(order_to_stop, reload)?;
    let address = server.local_addr();
    if made_up.is_some() {
        announce::first_steps(scheme, address);
    }
    let housekeeping = Housekeeping::start(Arc::clone(&store), settings.reclaim_rate, settings.scrub_pace)?;
    announce::listening(scheme, address);
    let outcome = server.run();
    signals.end();
    housekeeping.end();
    close(store, *stopped.get_or_init(Instant::now) + settings.shutdown_timeout);
    outcome.map(report).map_err(|e| Failure::start(format!("cannot go on serving: {e}")))
}

/// Closes the store. A disk that hangs does not keep the process: what is not done by then is left to the next start, as after
/// a crash.
fn close(store: Arc<Store>, by: Instant) {
    let (done, closed) = bounded::<()>(0);
    thread::spawn(move || {
        store.close_by(by);
        drop(done);
    });
    if closed.recv_deadline(by + CLOSE_GRACE) == Err(RecvTimeoutError::Timeout) {
        warn!("the store could not be closed in time: the next start reads more of the log");
    }
}

fn open_store(
    settings: &Settings,
    plan: &Plan,
    clock: Arc<dyn Clock>,
    files: OpenFiles,
) -> Result<Arc<Store>, Failure> {
    let data_dir = &settings.data_dir;
    let options = store::StoreOptions {
        abort_uploads_after: settings.abort_uploads_after,
        segment_max_bytes: settings.segment_max_bytes,
        segments_open_max: files.segments_open_max,
        index_max_bytes: plan.index_max,
        ..store::StoreOptions::default()
    };
    let refuse =
        |e: &dyn std::fmt::Display| Failure::start(format!("cannot use {}: {e}", data_dir.display()));
    let disk = OsFs::new(data_dir);
    disk.create_root().map_err(|e| refuse(&e))?;
    let store = Store::open(Arc::new(disk), clock, &OsEntropy, options).map_err(|e| refuse(&e))?;
    let health = store.health();
    let (buckets, versions, bytes) = (health.buckets, health.versions, health.live_bytes);
    info!("opened {}: {buckets} buckets, {versions} versions, {bytes} bytes", data_dir.display());
    if let Some(reason) = health.read_only {
        error!("the store takes no writes: {reason}");
    }
    Ok(Arc::new(store))
}

fn service(
    settings: &Settings,
    store: &Arc<Store>,
    md5: Md5Pool,
    authenticator: &Arc<Authenticator>,
    clock: &Arc<dyn Clock>,
    memory: &Arc<Budget>,
) -> Service {
    let context = Context {
        store: Arc::clone(store),
        region: settings.regions[0].clone(),
        namespace: settings.xml_namespace.clone(),
        padding: PaddingTimes { after: settings.keep_alive_after, ..PaddingTimes::default() },
        entity_tags: settings.entity_tags,
        md5,
        memory: Arc::clone(memory),
    };
    let settings = service::ServiceSettings {
        default_dialect: settings.dialect,
        addressing: Addressing { domain: settings.domain.clone() },
        metrics: settings.metrics,
    };
    // Ids of requests must differ from those of other starts, and may be foreseen.
    let ids = SeededEntropy::new(OsEntropy.next_u64());
    Service::new(context, Arc::clone(authenticator), Arc::clone(clock), Arc::new(ids), settings)
}

fn tell_of_memory(plan: &Plan, store: &Store) {
    let Plan { ceiling, index_max, fixed, workers, connections_max } = plan;
    info!(
        "memory: {ceiling} bytes at the most beside the index, which takes {} of {index_max}; {fixed} are set aside for \
         {workers} workers, {connections_max} connections and the process",
        store.index_bytes()
    );
}

fn config(settings: &Settings, plan: &Plan, files: OpenFiles) -> Config {
    Config {
        engine: settings.http_engine,
        workers: plan.workers,
        queue_len: settings.queue_len,
        connections_max: files.connections_max,
        connections_per_address_max: settings.connections_per_address_max,
        trusted_proxies: settings.trusted_proxies.clone(),
        idle_deadline: settings.idle_timeout,
        shutdown_timeout: settings.shutdown_timeout,
        ..Config::new(settings.listen)
    }
}

/// Signatures keep secrets secret and requests unchanged, and hide nothing of what is stored and fetched.
fn warn_of_plain_http(settings: &Settings) -> Result<(), Failure> {
    if settings.tls_files()?.is_none() && !settings.listen.ip().is_loopback() {
        warn!(
            "plain HTTP on {}: whoever is on the way reads all that is stored and fetched; set --tls-cert and --tls-key, or \
             have a proxy encrypt it",
            settings.listen
        );
    }
    Ok(())
}

/// Goes by the users file as it is now, or by the users as they were where it is broken.
fn reload_users(users_file: &UsersFile, authenticator: &Authenticator) {
    match users_file.read() {
        Ok(users) => {
            authenticator.replace(users);
            info!("the users file was read again");
        }
        Err(problem) => error!("the users stay as they were: {problem}"),
    }
}

/// Shows clients to come the certificate as it is now, or as it was where it is broken.
fn reload_tls(files: &TlsFiles, tls: &Tls) {
    match files.read_into(tls) {
        Ok(()) => info!("the certificate and its key were read again"),
        Err(problem) => error!("the certificate stays as it was: {problem}"),
    }
}

fn report(outcome: Outcome) {
    let Outcome { requests_answered, connections_accepted, connections_cut, .. } = outcome;
    let connections =
        connections_accepted.map_or_else(String::new, |count| format!(" on {count} connections"));
    info!("answered {requests_answered} requests{connections}, {connections_cut} connections were cut");
}
