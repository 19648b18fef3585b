//! The server whose buckets are filled or read: a running one, or one that this process runs over a
//! data directory.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use clap::Args;
use siltstone::auth::{ANY_REGION, Authenticator, KeyPair, Users};
use siltstone::base::limits::MIB;
use siltstone::base::{Budget, Clock, Entropy as _, Md5Pool, OsEntropy, SeededEntropy, SystemClock};
use siltstone::fs::{OsFs, SecretFile};
use siltstone::http::{Config, Handle, Server};
use siltstone::keys::{KeyRing, SharedKeyRing};
use siltstone::ops::Context;
use siltstone::service::{Service, ServiceSettings};
use siltstone::store::{Store, StoreCreation, StoreOptions, check_first_start};

use super::buckets::{Credentials, Place};
use crate::data_dir::DataDir;
use crate::key;
use crate::server_keys::ServerKeys;

/// Memory that the requests of a transfer may reserve.
const MEMORY_BYTES: u64 = 256 * MIB;
/// Threads that answer requests, beside one for each key that is copied at a time.
const FURTHER_WORKERS: u16 = 2;
/// The region of requests without one.
const REGION: &str = "us-east-1";

/// The arguments that name the server.
#[derive(Debug, Args)]
pub(crate) struct OwnServerArguments {
    /// URL of the server
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:9000")]
    server: String,
    #[command(flatten)]
    keys: ServerKeys,
    /// Use the data directory (--data-dir) of a server that does not run
    #[arg(long, conflicts_with = "server")]
    offline: bool,
    /// With --offline, the file of the keys of encrypted objects, instead of keys.toml in the data
    /// directory
    #[arg(long, value_name = "FILE", env = "SILTSTONE_KEYS_FILE")]
    keys_file: Option<PathBuf>,
}

/// The server.
pub(super) enum OwnServer<'a> {
    /// It runs elsewhere.
    Running(&'a OwnServerArguments),
    /// This process runs it.
    Offline(OfflineServer),
}

/// A server on this host alone, with keys that nobody else knows.
pub(super) struct OfflineServer {
    url: String,
    keys: KeyPair,
    handle: Handle,
    thread: JoinHandle<()>,
    store: Arc<Store>,
}

impl OwnServerArguments {
    /// The server, which answers `parallel` keys at a time. `is_filled` says whether a data
    /// directory may be made.
    ///
    /// # Errors
    /// A message, if the data directory cannot be used.
    pub(super) fn start(
        &self,
        data_dir: &DataDir,
        is_filled: bool,
        parallel: u16,
    ) -> Result<OwnServer<'_>, String> {
        if !self.offline {
            return Ok(OwnServer::Running(self));
        }
        let store = open(data_dir, is_filled).map_err(|why| format!("{}: {why}", data_dir.display()))?;
        let keys = self.keys_file.clone().unwrap_or_else(|| data_dir.join(key::NAME));
        let ring = Arc::new(SharedKeyRing::new(read_ring(keys)?));
        store.set_keys(ring.clone());
        let workers = usize::from(parallel + FURTHER_WORKERS);
        let started = OfflineServer::start(Arc::new(store), &ring, workers);
        started
            .map(OwnServer::Offline)
            .map_err(|error| format!("cannot serve {}: {error}", data_dir.display()))
    }
}

impl OwnServer<'_> {
    /// The bucket and prefix that `name` has there.
    ///
    /// # Errors
    /// A message, if the URL is none.
    pub(super) fn place(&self, name: &str, region: &str, ca_file: Option<&Path>) -> Result<Place, String> {
        let (url, access_key, secret_key) = match self {
            Self::Running(own) => (&own.server, &*own.keys.access_key, &*own.keys.secret_key),
            Self::Offline(own) => (&own.url, &*own.keys.access_key, own.keys.secret_key.reveal()),
        };
        Place::open(name, url, &Credentials { access_key, secret_key, token: "" }, region, ca_file)
    }

    /// Whether missing buckets are made: nobody else can, while no server runs.
    pub(super) fn makes_buckets(&self) -> bool {
        matches!(self, Self::Offline(_))
    }

    /// Ends a server of this process, with a checkpoint.
    pub(super) fn end(self) {
        if let Self::Offline(own) = self {
            own.handle.shutdown();
            // A panic has been reported by the panic itself.
            let _ = own.thread.join();
            own.store.close();
        }
    }
}

impl OfflineServer {
    fn start(store: Arc<Store>, ring: &Arc<SharedKeyRing>, workers: usize) -> io::Result<Self> {
        let clock = Arc::new(SystemClock) as Arc<dyn Clock>;
        let keys = KeyPair::generate(&OsEntropy);
        let memory = Budget::new(MEMORY_BYTES, 0);
        let service = service(&store, ring, &keys, &clock, &memory)?;
        let config = Config { workers, memory, ..Config::new(([127, 0, 0, 1], 0).into()) };
        let server = Server::bind(config, clock, Arc::new(service))?;
        let url = format!("http://{}", server.local_addr());
        let handle = server.handle();
        let thread = thread::Builder::new().name("server".to_owned()).spawn(|| {
            if let Err(error) = server.run() {
                log::error!("the server of the data directory ended: {error}");
            }
        })?;
        Ok(Self { url, keys, handle, thread, store })
    }
}

fn service(
    store: &Arc<Store>,
    ring: &Arc<SharedKeyRing>,
    keys: &KeyPair,
    clock: &Arc<dyn Clock>,
    memory: &Arc<Budget>,
) -> io::Result<Service> {
    let users =
        Users::parse(&Users::first_file(keys)).map_err(|error| io::Error::other(error.to_string()))?;
    let regions = vec![REGION.to_owned(), ANY_REGION.to_owned()];
    let authenticator = Arc::new(Authenticator::new(users, regions, Arc::clone(clock)));
    let context = Context {
        any_region: true,
        keys: Arc::clone(ring),
        namespace: String::new(),
        ..Context::new(Arc::clone(store), REGION.to_owned(), Md5Pool::start()?, Arc::clone(memory))
    };
    let ids = Arc::new(SeededEntropy::new(OsEntropy.next_u64()));
    Ok(Service::new(context, authenticator, Arc::clone(clock), ids, ServiceSettings::default()))
}

/// The keys of encrypted objects; none without a file.
fn read_ring(file: PathBuf) -> Result<KeyRing, String> {
    let file = SecretFile::new(file);
    if !file.exists() {
        return Ok(KeyRing::default());
    }
    KeyRing::parse(&file.read()?).map_err(|error| format!("in {}, {error}", file.path().display()))
}

/// Opens the store, which is made if it is to be filled.
fn open(data_dir: &DataDir, is_filled: bool) -> Result<Store, String> {
    if is_filled {
        let disk = OsFs::new(data_dir.to_path_buf());
        let checked = check_first_start(&disk, StoreCreation::Auto, &[]);
        checked.map_err(|error| error.to_string())?;
        disk.create_root().map_err(|error| error.to_string())?;
    }
    let disk = if is_filled { data_dir.disk_to_fill(false) } else { data_dir.disk() };
    let disk = disk.map_err(|failure| failure.to_string())?;
    if !is_filled && disk.list("meta").map_err(|error| error.to_string())?.is_empty() {
        return Err("there is no store in it".to_owned());
    }
    let store = Store::open(disk, Arc::new(SystemClock), &OsEntropy, StoreOptions::default());
    let store = store.map_err(|error| error.to_string())?;
    match store.remote_segments() {
        0 => Ok(store),
        cold => Err(format!(
            "the bytes of {cold} segments are on a remote: start the server, and leave --offline out"
        )),
    }
}
