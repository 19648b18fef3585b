//! The threads of a running server beside those that answer requests.

use std::sync::Arc;

use siltstone::mirror::Mirrors;
use siltstone::ops::LifecycleFigures;
use siltstone::service::Service;
use siltstone::store::Store;
use siltstone::webhook::{WebhookFigures, WebhookSettings};

use super::bucket_logs::BucketLogThread;
use super::disk_hook::{DiskHook, DiskHookThread};
use super::history::HistoryThread;
use super::lifecycle::LifecycleThread;
use super::maintenance::Maintenance;
use super::mirrored_sides::{RunningMirror, SidesThread};
use super::mirrors::MirrorThreads;
use super::retention::RetentionThread;
use super::ship::{ShipThread, SignThread};
use super::stop::FencedStop;
use super::tier::TierThread;
use super::webhooks::WebhookThreads;
use crate::cli::config::options::ServerOptions;
use crate::cli::error::CliError;
use crate::cli::logs::access_log::AccessLogFile;

/// The work of the threads beside the store.
pub(crate) struct BackgroundWork {
    /// The targets of events.
    pub(crate) webhooks: Vec<WebhookSettings>,
    /// The figures of each target.
    pub(crate) webhook_figures: WebhookFigures,
    /// The mirrors.
    pub(crate) mirrors: Arc<Mirrors>,
    /// The two sides of the store, where it is on two disks with the same bytes.
    pub(crate) mirror: Option<Arc<RunningMirror>>,
    /// The program that is run on changes of the disks.
    pub(crate) disk_hook: Option<DiskHook>,
    /// The log that expiries are written to.
    pub(crate) expiry_log: Option<Arc<AccessLogFile>>,
    /// The service, whose logs of buckets are delivered and whose figures are sampled.
    pub(crate) service: Arc<Service>,
    /// The figures that expiries are counted in.
    pub(crate) expiries: Arc<LifecycleFigures>,
}

/// The threads. Those for the remote, for webhooks and for mirrors only exist where they are
/// configured.
pub(crate) struct BackgroundThreads {
    bucket_logs: BucketLogThread,
    disk_hook: Option<DiskHookThread>,
    sides: Option<SidesThread>,
    history: HistoryThread,
    lifecycle: LifecycleThread,
    mirrors: MirrorThreads,
    maintenance: Maintenance,
    webhooks: WebhookThreads,
    tier: Option<TierThread>,
    shipping: Option<ShippingThreads>,
}

/// The threads of a store that ships its log.
struct ShippingThreads {
    retention: RetentionThread,
    ship: ShipThread,
    signs: SignThread,
}

impl BackgroundThreads {
    /// Starts the threads. That of the log tells `fenced` when another host has taken over.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub(crate) fn start(
        options: &ServerOptions,
        store: &Arc<Store>,
        work: BackgroundWork,
        fenced: Option<FencedStop>,
    ) -> Result<Self, CliError> {
        let mirror = work.mirror.clone();
        let region = &options.addressing.region.0[0];
        let has_remote = store.tier_figures().is_some();
        let ships = store.ship_figures().is_some();
        Ok(Self {
            history: HistoryThread::start(Arc::clone(store), Arc::clone(&work.service))?,
            bucket_logs: BucketLogThread::start(
                Arc::clone(store),
                work.service,
                options.logs.bucket_log_interval.0,
            )?,
            webhooks: WebhookThreads::start(store, &work.webhooks, region, &work.webhook_figures)?,
            disk_hook: work.disk_hook.map(|hook| DiskHookThread::start(store, hook, mirror)).transpose()?,
            sides: work.mirror.map(|mirror| SidesThread::start(store, mirror)).transpose()?,
            mirrors: MirrorThreads::start(store, &work.mirrors)?,
            tier: has_remote.then(|| TierThread::start(Arc::clone(store))).transpose()?,
            shipping: ships.then(|| ShippingThreads::start(options, store, fenced)).transpose()?,
            maintenance: Maintenance::start(
                Arc::clone(store),
                options.upkeep.reclaim_rate.0,
                options.upkeep.scrub_pace(),
            )?,
            lifecycle: LifecycleThread::start(Arc::clone(store), work.expiry_log, work.expiries)?,
        })
    }

    /// Ends the threads. The log is shipped after the others wrote to it for the last time.
    pub(crate) fn end(self) {
        if let Some(disk_hook) = self.disk_hook {
            disk_hook.end();
        }
        if let Some(sides) = self.sides {
            sides.end();
        }
        self.lifecycle.end();
        self.history.end();
        // Before those that follow the log of the store: its objects are among what they send.
        self.bucket_logs.end();
        self.mirrors.end();
        self.maintenance.end();
        self.webhooks.end();
        if let Some(tier) = self.tier {
            tier.end();
        }
        if let Some(shipping) = self.shipping {
            shipping.end();
        }
    }
}

impl ShippingThreads {
    fn start(
        options: &ServerOptions,
        store: &Arc<Store>,
        fenced: Option<FencedStop>,
    ) -> Result<Self, CliError> {
        // Standbys say what they need beyond that.
        store.promise_takeover(None);
        Ok(Self {
            ship: ShipThread::start(Arc::clone(store), options.remote.ship_interval(), fenced)?,
            retention: RetentionThread::start(Arc::clone(store))?,
            signs: SignThread::start(Arc::clone(store))?,
        })
    }

    fn end(self) {
        self.retention.end();
        self.ship.end();
        // Last: without heartbeats a standby takes over, and the end of the log may take a while.
        self.signs.end();
    }
}
