//! The store of the data directory, opened as the options say.

use std::sync::Arc;

use log::{error, info, warn};
use siltstone::base::{Clock, OsEntropy};
use siltstone::disks::DiskMirror;
use siltstone::fs::OsFs;
use siltstone::remote::{RemoteSettings, RemoteView};
use siltstone::store::{self, OpenError, ShipOptions, Store, StoreError, TakenOver};

use super::data_dir;
use super::data_disk::{self, OpenedDisk};
use super::memory::MemoryPlan;
use super::open_files::OpenFiles;
use crate::cli::config::options::ServerOptions;
use crate::cli::config::sections::Sections;
use crate::cli::error::CliError;

/// A store that is open.
pub(crate) struct OpenedStore {
    pub(crate) store: Arc<Store>,
    /// The two sides that it is on, where it has them.
    pub(crate) mirror: Option<Arc<DiskMirror>>,
}

/// Opens the store of the data directory, with the remote of the `sections`, in the epoch of
/// `taken` if this host has claimed one.
///
/// # Errors
/// A message for the operator: the directory or the remote cannot be used.
pub(crate) fn open_store(
    server: &ServerOptions,
    sections: &Sections,
    taken: Option<TakenOver>,
    plan: &MemoryPlan,
    clock: Arc<dyn Clock>,
    files: OpenFiles,
) -> Result<OpenedStore, CliError> {
    data_dir::check_first_start(server)?;
    let data_dir = &server.start.data_dir;
    let tier = server.tier();
    let shipping = server.remote.shipping();
    let is_look = server.store.read_only;
    let settings = sections.remote.as_ref();
    let remote = settings.map(RemoteSettings::remote).transpose();
    let remote = remote.map_err(|why| CliError::usage(format!("the section [remote]: {why}")))?;
    let options = store_options(server, plan, files);
    let disk = OsFs::new(data_dir);
    let follows = store::follows(&disk).map_err(|e| data_dir::refusal(data_dir, &OpenError::from(e)))?;
    if follows && !is_look {
        let what = format!(
            "{} is the directory of a standby: start it there with --standby, and make it the writer with siltstone promote",
            data_dir.display()
        );
        return Err(CliError::start(what));
    }

    // After the refusals: a directory that is named by mistake is not made.
    if !is_look {
        disk.create_root().map_err(|error| data_dir::refusal(data_dir, &error.into()))?;
    }
    let OpenedDisk { fs: disk, mirror } = data_disk::open(server, sections, !is_look)?;
    let store = match &remote {
        remote if is_look => {
            let view = remote.clone().map(|remote| remote as Arc<dyn RemoteView>);
            Store::look(disk, clock, options, view)
        }
        None => Store::open(disk, clock, &OsEntropy, options),
        Some(remote) => Store::open_tiered(disk, clock, &OsEntropy, options, Arc::clone(remote), tier),
    };
    let store = store.map_err(|error| data_dir::refusal(data_dir, &error))?;
    let health = store.health();
    let buckets = health.buckets;
    let versions = health.versions;
    let bytes = health.live_bytes;
    info!("opened {}: {buckets} buckets, {versions} versions, {bytes} bytes", data_dir.display());
    match (store.remote_segments(), &remote) {
        (cold @ 1.., None) => {
            let what = format!(
                "the bytes of {cold} segments are on a remote: name it in the section [remote] of the configuration file"
            );
            return Err(CliError::start(what));
        }
        (0, None) => {}
        (cold, Some(_)) => info!("the remote has {cold} segments"),
    }
    if is_look {
        info!("the server only looks: nothing is written to {} or to a remote", data_dir.display());
        return Ok(OpenedStore { store: Arc::new(store), mirror });
    }
    if let Some(reason) = health.read_only {
        error!("the store takes no writes: {reason}");
    }
    data_dir::warn_of_small_disk(data_dir);
    begin_shipping(shipping, settings, &store, taken)?;
    begin_epoch(&store)?;
    Ok(OpenedStore { store: Arc::new(store), mirror })
}

/// Claims an epoch on the remote of a store that ships no log. Where the remote does not answer,
/// the thread of the tier tries again.
fn begin_epoch(store: &Store) -> Result<(), CliError> {
    match store.begin_epoch(&OsEntropy) {
        Ok(()) => Ok(()),
        Err(StoreError::ReadOnly(_)) => Err(CliError::start(
            "the remote has a log, and this server was started without --ship: start it with --ship async or --ship sync as before. \
             To look at the directory, start it with --read-only. To write without the log, which ends, with --abandon-log true",
        )),
        Err(problem) => {
            warn!("nothing is changed on the remote until it answers: {problem}");
            Ok(())
        }
    }
}

/// The settings of the store.
pub(crate) fn store_options(
    options: &ServerOptions,
    plan: &MemoryPlan,
    files: OpenFiles,
) -> store::StoreOptions {
    store::StoreOptions {
        buckets_max: options.store.buckets_max,
        abort_uploads_after: Some(options.store.abort_uploads_after.0),
        segment_max_bytes: options.store.segment_size.0,
        segments_open_max: files.segments_open_max,
        index_max_bytes: plan.index_max,
        follow_max_bytes: options.upkeep.follow_max.0,
        ..store::StoreOptions::default()
    }
}

/// Lets the log be shipped from now on, where the options say so.
fn begin_shipping(
    shipping: Option<ShipOptions>,
    remote: Option<&RemoteSettings>,
    store: &Store,
    taken: Option<TakenOver>,
) -> Result<(), CliError> {
    let Some(shipping) = shipping else { return Ok(()) };
    if remote.is_none() {
        return Err(CliError::usage(
            "--ship: name a remote in the section [remote] of the configuration file",
        ));
    }
    store.ship_log_from(shipping, taken);
    Ok(())
}
