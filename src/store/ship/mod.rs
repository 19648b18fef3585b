//! The log on the remote: another host takes over from there, or a new one restores it.
//!
//! An epoch begins with a look whether the directory has the whole log, a claim, and the cut. From
//! then on parcels follow, one at a time: groups as they are in the log, with the bytes that their
//! entries name for the first time. After each parcel the next claim is looked for: where there is
//! one, another host takes over, and this store takes no more writes. It claims again where the cut
//! of that host does not come.
//!
//! | Files | Job |
//! |---|---|
//! | `epoch` | the claim, the log that it adopts, the cut |
//! | `pace`, `wishes` | how often a standby looks, and how often its writer gives heartbeats |
//! | `witness` | what speaks for a longer log than the remote shows |
//! | `parcel_builder`, `shipped_ranges` | parcels from the own log; the bytes that were shipped |
//! | `shipper` | one epoch: parcels, roots, the look for the next claim |
//! | `cleanup` | deleting what no restore within the window needs |
//! | `log_inspection` | the objects that a restore needs, listed once a day |
//! | `restore` | a data directory from the log on the remote |
//! | `standby`, `log_copy` | a data directory that follows the log, and a takeover from there |
//! | `readers` | the store that is read from such a directory |
//! | `writer_dir`, `aside` | the directory of a writer that starts again beside other hosts; its files before it is filled |
//! | `lag_bound` | how long ago the remote had the whole log, and the bound of that |
//! | `own_log` | the log of a directory, and the groups that it may share with the remote |
//! | `parcel_applier` | parcels applied to a directory |
//!
//! Until groups are shipped, their bytes stay: the log is kept, nothing is reclaimed that they
//! name, and local bytes of a segment go only after the group was shipped that calls the segment
//! remote.

mod aside;
mod cleanup;
pub(super) mod epoch;
mod lag_bound;
pub(super) mod log_copy;
mod log_inspection;
pub(crate) mod own_log;
mod pace;
mod parcel_applier;
mod parcel_builder;
pub(super) mod readers;
pub(super) mod restore;
mod shipped_ranges;
mod shipper;
pub(super) mod standby;
mod wishes;
mod witness;
mod writer_dir;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

pub use cleanup::CleanupProgress;

use crate::base::{Entropy, NOT_POISONED, Timestamp};
use crate::format::{self, FileKind, Heartbeat, RETURN, ReturnPoint, TakeoverWish, WrittenBytes};
use crate::remote::{NewObject, RemoteError, RemoteView};
use crate::store::remote_log::chain::RemoteLog;
use crate::store::remote_log::error::ShipError;
use crate::store::remote_log::object::line;
use crate::store::remote_log::request::PATIENCE;
use crate::store::remote_log::right::{EpochWriter, RemoteRefusal, RemoteRight};
use crate::store::shared::{LogShipping, SharedStore};
use crate::store::tier::Tier;
use crate::store::tier::epoch::check_no_other_tier;
use crate::store::{ReadOnlyReason, Store, StoreError};
use cleanup::Cleanup;
use epoch::ClaimedEpoch;
use lag_bound::InStep;
use parcel_builder::ShippedSegments;
use shipper::{AdoptedRoot, WriterEpoch};
use standby::TakenOver;
use wishes::KnownWishes;

/// The interval of looks for the next claim while nothing is written, where a takeover is promised:
/// a host that was fenced answers reads for up to this time. Without a promise it is the interval
/// of heartbeats.
const FENCE_CHECK_INTERVAL: Duration = Duration::from_secs(10);

/// The time that a later claim has for its cut. A host that takes over puts it right after its
/// claim; one that fails between the two, or finds that it lacks a part of the log, leaves nobody
/// that writes.
const CUT_PATIENCE: Duration = Duration::from_secs(10);

/// The longest interval of heartbeats: that without a promised takeover.
const HEARTBEAT_EVERY_MAX: Duration = Duration::from_secs(60);
/// The shortest one.
const HEARTBEAT_EVERY_MIN: Duration = Duration::from_secs(5);
/// The time from the begin of an epoch on in which heartbeats come as often as for the shortest
/// time: standbys have put no wish yet.
const EARLY: Duration = Duration::from_secs(10 * 60);
/// The heartbeats within the time after which another host takes over.
const HEARTBEATS_PER_TAKEOVER: u32 = 3;

/// When an acknowledged write is on the remote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShipMode {
    /// After an interval.
    Async,
    /// Before it is answered.
    Sync,
}

/// The settings of shipping.
#[derive(Debug, Clone, Copy)]
pub struct ShipOptions {
    /// When a write is on the remote.
    pub mode: ShipMode,
    /// The interval of roots, from which a restore begins.
    pub root_every: Duration,
    /// The time into the past that a restore reaches at least.
    pub window: Duration,
    /// The age of the oldest write that the remote lacks, beyond which no more are taken; `None`
    /// without a bound.
    pub lag_max: Option<Duration>,
}

/// The state of shipping.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ShipFigures {
    /// The number of the epoch; 0 before it has begun.
    pub epoch: u64,
    /// Groups that the remote does not have.
    pub waiting_groups: u64,
    /// Bytes written to the log and to segments since the remote had all groups; 0 while it has.
    pub lag_bytes: u64,
    /// The time since the remote had all groups; 0 while it has.
    pub lag: Duration,
    /// The bound of it, beyond which no writes are taken; 0 without one.
    pub lag_max: Duration,
    /// Parcels put since the start.
    pub parcels: u64,
    /// Roots put since the start.
    pub roots: u64,
    /// Bytes put since the start.
    pub sent_bytes: u64,
    /// Objects of the remote that were deleted since the start.
    pub deleted_objects: u64,
    /// Their bytes.
    pub deleted_bytes: u64,
    /// Times since the start that objects of the log were gone from the remote, so that a new base
    /// was shipped.
    pub renewals: u64,
    /// The time of the last root of this epoch; `None` before it.
    pub last_root: Option<Timestamp>,
    /// The oldest time that a restore reaches; `None` before it was looked for.
    pub oldest: Option<Timestamp>,
}

/// The shipping of one store.
pub(super) struct Ship {
    remote: Arc<dyn RemoteView>,
    /// Held from the claim on.
    right: Arc<RemoteRight>,
    options: ShipOptions,
    state: Mutex<EpochStage>,
    /// What an earlier epoch of this process has shipped.
    kept: Mutex<Option<ShippedSegments>>,
    /// The groups up to this one are on the remote in this epoch; 0 before it has begun.
    shipped: AtomicU64,
    epoch: AtomicU64,
    /// When the remote had all groups.
    in_step: InStep,
    /// Whether the last requests for the log failed.
    is_failing: AtomicBool,
    /// Bytes that had been written then.
    written_then: AtomicU64,
    parcels: AtomicU64,
    roots: AtomicU64,
    sent_bytes: AtomicU64,
    cleanup: Mutex<Cleanup>,
    deleted_objects: AtomicU64,
    deleted_bytes: AtomicU64,
    /// Times in milliseconds since 1970; 0 for none.
    last_root: AtomicU64,
    oldest: AtomicU64,
    /// The epoch whose cut is put, and that heartbeats are given for; 0 without one.
    heartbeat_epoch: AtomicU64,
    /// The interval of heartbeats that the own configuration promises, in milliseconds.
    heartbeat_every: AtomicU64,
    /// The interval that the last heartbeat promises, in milliseconds.
    promised: AtomicU64,
    /// When heartbeats began, in milliseconds since 1970; 0 before.
    heartbeats_since: AtomicU64,
    /// The time of the next listing of the log, in milliseconds of the uptime.
    next_listing: AtomicU64,
    /// Times that objects were gone, and a new base was shipped.
    renewals: AtomicU64,
    /// What standbys wish.
    wishes: Mutex<KnownWishes>,
    /// The times of the last heartbeat and of the last parcel, in milliseconds since 1970; 0 for
    /// none.
    last_heartbeat: AtomicU64,
    last_parcel: AtomicU64,
}

/// The way into an epoch.
#[derive(Default)]
enum EpochStage {
    /// Nothing is claimed.
    #[default]
    Idle,
    /// The cut has to be put.
    Claimed(ClaimedEpoch),
    /// Parcels are put.
    Current(Box<WriterEpoch>),
    /// Another host has claimed a later epoch, and has not begun it: nothing is written.
    Overtaken(LaterClaim),
    /// Another host has taken over.
    Fenced,
}

/// A claim of another host, whose cut is not there.
#[derive(Debug, Clone, Copy)]
struct LaterClaim {
    /// The own epoch.
    epoch: u64,
    /// The newest claim.
    newest: u64,
    /// When it was first seen.
    since: Instant,
}

impl Ship {
    fn new(tier: &Tier, options: ShipOptions, now: Instant) -> Self {
        Self {
            remote: tier.remote(),
            right: tier.right(),
            options,
            state: Mutex::default(),
            kept: Mutex::default(),
            shipped: AtomicU64::new(0),
            epoch: AtomicU64::new(0),
            in_step: InStep::new(now),
            is_failing: AtomicBool::new(false),
            written_then: AtomicU64::new(0),
            parcels: AtomicU64::new(0),
            roots: AtomicU64::new(0),
            sent_bytes: AtomicU64::new(0),
            cleanup: Mutex::default(),
            deleted_objects: AtomicU64::new(0),
            deleted_bytes: AtomicU64::new(0),
            last_root: AtomicU64::new(0),
            oldest: AtomicU64::new(0),
            heartbeat_epoch: AtomicU64::new(0),
            heartbeat_every: AtomicU64::new(HEARTBEAT_EVERY_MIN.as_millis() as u64),
            promised: AtomicU64::new(HEARTBEAT_EVERY_MIN.as_millis() as u64),
            heartbeats_since: AtomicU64::new(0),
            next_listing: AtomicU64::new(0),
            renewals: AtomicU64::new(0),
            wishes: Mutex::default(),
            last_heartbeat: AtomicU64::new(0),
            last_parcel: AtomicU64::new(0),
        }
    }

    fn lock(&self) -> MutexGuard<'_, EpochStage> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the epoch has to put a root before anything is written.
    fn needs_root(&self) -> bool {
        matches!(&*self.lock(), EpochStage::Current(epoch) if epoch.needs_root())
    }

    fn kept(&self) -> MutexGuard<'_, Option<ShippedSegments>> {
        self.kept.lock().expect(NOT_POISONED)
    }

    fn log<'r>(&'r self, shared: &SharedStore) -> RemoteLog<'r> {
        RemoteLog { remote: self.remote.as_ref(), store: shared.store }
    }

    /// The interval of heartbeats: the own configuration's, or a shorter one that a
    /// standby wishes, or the shortest early in an epoch.
    fn heartbeat_every(&self, now: Timestamp) -> Duration {
        if time_in(&self.heartbeats_since).is_none_or(|since| now.distance(since) < EARLY) {
            return HEARTBEAT_EVERY_MIN;
        }
        let own = Duration::from_millis(self.heartbeat_every.load(Ordering::Relaxed));
        let wished = self.wishes().after(now).map_or(own, heartbeats_within);
        own.min(wished)
    }

    fn wishes(&self) -> MutexGuard<'_, KnownWishes> {
        self.wishes.lock().expect(NOT_POISONED)
    }

    /// Whether a heartbeat is due. Parcels are heartbeats, too; then one in a minute names the last
    /// group.
    fn is_heartbeat_due(&self, now: Timestamp) -> bool {
        // The last heartbeat promised this one.
        let promised = Duration::from_millis(self.promised.load(Ordering::Relaxed));
        let every = self.heartbeat_every(now).min(promised);
        let is_idle = is_past(&self.last_heartbeat, every, now) && is_past(&self.last_parcel, every, now);
        is_idle || is_past(&self.last_heartbeat, HEARTBEAT_EVERY_MAX, now)
    }

    /// The writer of the epoch.
    fn writer(&self) -> Result<EpochWriter<'_>, ShipError> {
        self.right.writer().map_err(|why| {
            let error = RemoteError::Refused(why.to_string());
            ShipError::Remote { name: "the epoch".to_owned(), error }
        })
    }

    /// Remembers whether the remote took the log, and informs who writes it.
    fn note_outcome(&self, done: &Result<(), WriterEpochError>) {
        self.is_failing.store(matches!(done, Err(WriterEpochError::Ship(_))), Ordering::Relaxed);
    }

    /// How far the log on the remote is behind beyond the bound, at `now`: the lag and the bound.
    /// Who ships each write before it is answered has no lag.
    fn lag_beyond_bound(&self, now: Instant) -> Option<(Duration, Duration)> {
        let most = self.options.lag_max.filter(|_| self.options.mode == ShipMode::Async)?;
        // Both count. A host that is cut off has no lag while nothing is written; by the looks for
        // a claim it stops all the same, before a host that has taken over has been in use for
        // long.
        let lag = self.in_step.lag(now).max(self.in_step.since_look(now));
        (lag > most).then_some((lag, most))
    }

    /// Draws the conclusion from what an epoch did.
    fn after(
        &self,
        done: Result<(), WriterEpochError>,
        state: &mut EpochStage,
        shared: &SharedStore,
    ) -> Result<(), StoreError> {
        match done {
            Ok(()) => Ok(()),
            Err(WriterEpochError::Ship(error)) => Err(StoreError::RemoteUnavailable(error.to_string())),
            Err(WriterEpochError::Fenced(why)) => {
                *state = EpochStage::Fenced;
                self.right.refuse(RemoteRefusal::TakenOver);
                shared.latch(ReadOnlyReason::Fenced, why.clone());
                Err(StoreError::ReadOnly(why))
            }
            Err(WriterEpochError::Overtaken(LaterClaim { epoch, newest, since })) => {
                // The epoch is not over for good: the claim may stay without a cut, and then this
                // store goes on.
                // What was shipped is needed again if this store claims again.
                if let EpochStage::Current(epoch) = std::mem::take(state) {
                    *self.kept() = epoch.into_shipped();
                }
                *state = EpochStage::Overtaken(LaterClaim { epoch, newest, since });
                self.right.refuse(RemoteRefusal::NotLooked);
                self.epoch.store(0, Ordering::Release);
                log::warn!(
                    "another host has claimed epoch {newest}: nothing is written until it has begun, or fails to"
                );
                Err(StoreError::RemoteUnavailable(waits_for_cut(newest)))
            }
            Err(WriterEpochError::NeedsRoot(why)) => {
                self.epoch.store(0, Ordering::Release);
                log::warn!(
                    "nothing is written until a new checkpoint is on the remote, since bytes are gone that it lacks: {why}"
                );
                Err(StoreError::RemoteUnavailable(why))
            }
            Err(WriterEpochError::Store(error)) => {
                *state = EpochStage::Idle;
                self.right.refuse(RemoteRefusal::NotLooked);
                self.epoch.store(0, Ordering::Release);
                self.shipped.store(0, Ordering::Release);
                Err(error)
            }
        }
    }
}

fn is_past(millis: &AtomicU64, time: Duration, now: Timestamp) -> bool {
    time_in(millis).is_none_or(|last| now.distance(last) >= time)
}

impl LogShipping for Ship {
    fn check_epoch(&self) -> Result<(), StoreError> {
        if self.epoch.load(Ordering::Acquire) > 0 {
            return Ok(());
        }
        Err(StoreError::RemoteUnavailable(
            "the log is not shipped yet, so that nothing is written".to_owned(),
        ))
    }

    fn check_lag(&self, now: Instant) -> Result<(), StoreError> {
        let Some((lag, most)) = self.lag_beyond_bound(now) else { return Ok(()) };
        Err(StoreError::RemoteUnavailable(format!(
            "it may lack what was written in the last {} s, and --ship-lag-max is {} s",
            lag.as_secs(),
            most.as_secs()
        )))
    }

    fn has(&self, sequence: u64) -> bool {
        self.shipped.load(Ordering::Acquire) >= sequence
    }

    fn keeps_log_from(&self) -> u64 {
        self.shipped.load(Ordering::Acquire) + 1
    }

    fn is_sync(&self) -> bool {
        self.options.mode == ShipMode::Sync
    }

    fn ship_through(&self, shared: &SharedStore, through: u64) -> Result<(), StoreError> {
        self.check_epoch()?;
        if self.has(through) {
            return Ok(());
        }
        // One parcel at a time, and in order: a standby applies each after the one before it.
        let mut state = self.lock();
        let EpochStage::Current(epoch) = &mut *state else { return self.check_epoch() };
        let done = epoch.ship(self, shared, through);
        self.note_outcome(&done);
        self.after(done, &mut state, shared)
    }
}

/// The interval of heartbeats of which enough fit into that time.
fn heartbeats_within(takeover_after: Duration) -> Duration {
    (takeover_after / HEARTBEATS_PER_TAKEOVER).clamp(HEARTBEAT_EVERY_MIN, HEARTBEAT_EVERY_MAX)
}

/// The time in milliseconds that is stored there; `None` for 0.
fn time_in(millis: &AtomicU64) -> Option<Timestamp> {
    match millis.load(Ordering::Relaxed) {
        0 => None,
        millis => Some(Timestamp::from_millis(millis)),
    }
}

fn waits_for_cut(claim: u64) -> String {
    format!("another host has claimed epoch {claim} and has not begun it")
}

/// Why an epoch could not go on.
enum WriterEpochError {
    /// Bytes that the remote lacks are gone here, too.
    NeedsRoot(String),
    /// Another host has claimed a later one.
    Overtaken(LaterClaim),
    /// The remote did not take something; the next try has the same bytes.
    Ship(ShipError),
    /// Another host has taken over.
    Fenced(String),
    /// The own store failed.
    Store(StoreError),
}

impl From<ShipError> for WriterEpochError {
    fn from(error: ShipError) -> Self {
        Self::Ship(error)
    }
}

impl Store {
    /// Ships the log to the remote of the tier from now on, in the epoch that a standby has claimed
    /// for this directory, if there is one. Writes fail with [`StoreError::RemoteUnavailable`]
    /// until [`Store::ship_step`] has begun an epoch. Without a tier it does nothing.
    pub fn ship_log_from(&self, options: ShipOptions, taken: Option<TakenOver>) {
        let Some(tier) = &self.tier else { return };
        let ship = Ship::new(tier, options, self.shared.clock.instant());
        // Before any thread sees it: one that found no claim would make another one.
        if let Some(TakenOver(claimed)) = taken {
            *ship.lock() = EpochStage::Claimed(claimed);
        }
        let ship = Arc::new(ship);
        self.shared.set_shipping(ship.clone());
        // The first call counts.
        let _ = self.ship.set(ship);
    }

    /// Works for the log on the remote: begins the epoch, ships what is durable, puts a root when
    /// one is due.
    ///
    /// # Errors
    /// As of `LogShipping::ship_through`, and the errors of the disk. A later call tries again.
    pub fn ship_step(&self, entropy: &dyn Entropy) -> Result<(), StoreError> {
        let Some(ship) = self.ship.get() else { return Ok(()) };
        self.shared.check_writable()?;
        self.begin_writer_epoch(ship, entropy)?;
        // Time and bytes are read before the group. In the other order, what is written in between
        // would count as shipped, and the lag would be stated as less than it is.
        let begun = self.shared.clock.instant();
        let written = self.shipped_kinds();
        let published = self.shared.published().sequence;
        if let Err(error) = ship.ship_through(&self.shared, published) {
            if !ship.needs_root() {
                return Err(error);
            }
            // Bytes of the groups are gone that only a root makes up for. Writes wait for it.
            self.begin_writer_epoch(ship, entropy)?;
            ship.ship_through(&self.shared, published)?;
        }
        // Only after the groups are there: after an error the lag counts from the last time that
        // all were.
        ship.written_then.store(written, Ordering::Relaxed);
        ship.in_step.note_whole(begun);
        // After a parcel the claim was looked for. An idle writer puts none.
        self.look_for_claim(ship)?;
        self.put_root_if_due(ship)
    }

    /// Promises that other hosts may take over after that time without a heartbeat; where none
    /// does, heartbeats are seldom. Until it is told, they are as often as for the shortest time.
    /// Nothing without shipping.
    pub fn promise_takeover(&self, after: Option<Duration>) {
        let Some(ship) = self.ship.get() else { return };
        let every = after.map_or(HEARTBEAT_EVERY_MAX, heartbeats_within);
        ship.heartbeat_every.store(every.as_millis() as u64, Ordering::Relaxed);
    }

    /// As [`Store::give_heartbeat`], if one is due.
    ///
    /// # Errors
    /// As of [`Store::give_heartbeat`].
    pub fn give_heartbeat_if_due(&self) -> Result<(), StoreError> {
        let Some(ship) = self.ship.get() else { return Ok(()) };
        let now = self.shared.clock.now();
        if ship.heartbeat_epoch.load(Ordering::Acquire) > 0 && ship.wishes().is_due(now) {
            // Without an answer heartbeats stay as seldom as they are.
            let read = line(ship.remote.as_ref(), TakeoverWish::NAME, TakeoverWish::decode);
            let wish = read.ok().flatten().filter(|wish| wish.store == self.shared.store);
            ship.wishes().learn(wish, now);
        }
        if ship.is_heartbeat_due(now) { self.give_heartbeat() } else { Ok(()) }
    }

    /// Puts a heartbeat, by which a standby knows an idle writer from one that is gone. It waits
    /// for no parcel. Without an epoch it does nothing.
    ///
    /// # Errors
    /// [`StoreError::RemoteUnavailable`]; [`StoreError::ReadOnly`] for a store that takes no writes
    /// any more.
    pub fn give_heartbeat(&self) -> Result<(), StoreError> {
        let Some(ship) = self.ship.get() else { return Ok(()) };
        self.shared.check_writable()?;
        let epoch = ship.heartbeat_epoch.load(Ordering::Acquire);
        if epoch == 0 {
            return Ok(());
        }
        let sequence = ship.shipped.load(Ordering::Acquire);
        let made = self.shared.clock.now();
        let every = ship.heartbeat_every(made);
        let heartbeat = Heartbeat { store: self.shared.store, epoch, sequence, made, every };
        let name = Heartbeat::name(epoch);
        let bytes = heartbeat.encode();
        let nonce = heartbeat.made.as_millis().to_string();
        let object = NewObject { name: &name, body: &bytes.as_slice(), nonce: &nonce, create_only: false };
        let put = ship.right.writer()?.put(&object, PATIENCE);
        put.map_err(|error| StoreError::RemoteUnavailable(format!("{name}: {error}")))?;
        ship.last_heartbeat.store(made.as_millis(), Ordering::Relaxed);
        ship.promised.store(every.as_millis() as u64, Ordering::Relaxed);
        Ok(())
    }

    /// The state of shipping; `None` without it.
    pub fn ship_figures(&self) -> Option<ShipFigures> {
        let ship = self.ship.get()?;
        let shipped = ship.shipped.load(Ordering::Acquire);
        let waiting_groups = self.shared.published().sequence.saturating_sub(shipped);
        let lag = ship.in_step.lag(self.shared.clock.instant());
        let written = self.shipped_kinds().saturating_sub(ship.written_then.load(Ordering::Relaxed));
        let (lag, lag_bytes) = if waiting_groups == 0 { (Duration::ZERO, 0) } else { (lag, written) };
        Some(ShipFigures {
            epoch: ship.epoch.load(Ordering::Acquire),
            waiting_groups,
            lag_bytes,
            lag,
            lag_max: ship.options.lag_max.unwrap_or_default(),
            parcels: ship.parcels.load(Ordering::Relaxed),
            roots: ship.roots.load(Ordering::Relaxed),
            sent_bytes: ship.sent_bytes.load(Ordering::Relaxed),
            deleted_objects: ship.deleted_objects.load(Ordering::Relaxed),
            deleted_bytes: ship.deleted_bytes.load(Ordering::Relaxed),
            renewals: ship.renewals.load(Ordering::Relaxed),
            last_root: time_in(&ship.last_root),
            oldest: time_in(&ship.oldest),
        })
    }

    /// Why every write is refused for the sake of the log on the remote; `None` where writes are
    /// taken. Its text is public.
    pub fn ship_obstacle(&self) -> Option<String> {
        let ship = self.ship.get()?;
        if ship.check_epoch().is_err() {
            let why = match (self.has_foreign_remote(), ship.is_failing.load(Ordering::Relaxed)) {
                (true, _) => RemoteRefusal::NotOwn.to_string(),
                (false, true) => "it does not answer as it should".to_owned(),
                (false, false) => "the log there is about to be continued".to_owned(),
            };
            return Some(format!("The log is not sent to the remote yet, so that no write is taken: {why}."));
        }
        if let Some((lag, most)) = ship.lag_beyond_bound(self.shared.clock.instant()) {
            return Some(format!(
                "The remote may lack what was written in the last {} s, and --ship-lag-max is {} s, so that no write is taken until it has \
                 caught up.",
                lag.as_secs(),
                most.as_secs()
            ));
        }
        let waits = ship.options.mode == ShipMode::Sync && ship.is_failing.load(Ordering::Relaxed);
        waits.then(|| {
            "The remote does not take the log, and each write waits for it, so that none is taken.".to_owned()
        })
    }

    /// Bytes written since the start of those kinds that are shipped.
    fn shipped_kinds(&self) -> u64 {
        let WrittenBytes { objects, moved, log, .. } = self.shared.write_counters.since_start();
        objects + moved + log
    }

    /// Begins the epoch, unless it has begun.
    fn begin_writer_epoch(&self, ship: &Ship, entropy: &dyn Entropy) -> Result<(), StoreError> {
        if ship.check_epoch().is_ok() {
            return Ok(());
        }
        // The remote of another store gets neither a claim nor a parcel.
        let marked = self.check_remote_mark();
        ship.is_failing.store(marked.is_err(), Ordering::Relaxed);
        marked?;
        let point = self.return_point()?;
        // The log of an empty store begins with a group, so that there is a checkpoint. After a
        // point that was gone back to, a group of its own makes sure that no other directory
        // continues this log.
        let begins_at = point.map_or(0, |point| point.end.sequence);
        if self.shared.published().sequence == begins_at {
            self.committer.write_idle_group()?;
        }
        let mut state = ship.lock();
        let judged = self.judge_later_claim(ship, &mut state);
        ship.after(judged, &mut state, &self.shared)?;
        let begun = self.next_state(ship, &mut state, entropy, point).and_then(|()| match &mut *state {
            EpochStage::Current(epoch) => epoch.begin(ship, &self.shared).map(|()| epoch.epoch()),
            _ => Ok(0),
        });
        let begun = begun.and_then(|epoch| match point {
            // Nothing may be written before: another start would give it up.
            Some(_) if epoch > 0 => {
                self.forget_return_point().map(|()| epoch).map_err(WriterEpochError::Store)
            }
            _ => Ok(epoch),
        });
        if let Ok(epoch @ 1..) = begun {
            if let EpochStage::Current(epoch) = &*state {
                self.note_claim_of(epoch);
            }
            // The last step: with an epoch writes are taken.
            ship.epoch.store(epoch, Ordering::Release);
            log::info!("the log is shipped as epoch {epoch}");
        }
        let begun = begun.map(drop);
        ship.note_outcome(&begun);
        ship.after(begun, &mut state, &self.shared)
    }

    /// Finds out what became of a claim that has overtaken the epoch. One that stays without a cut
    /// ends it no longer: this store claims again.
    fn judge_later_claim(&self, ship: &Ship, state: &mut EpochStage) -> Result<(), WriterEpochError> {
        let EpochStage::Overtaken(later) = state else { return Ok(()) };
        let log = ship.log(&self.shared);
        let now = self.shared.clock.instant();
        let newest = log.newest_claim_from(later.newest)?;
        shipper::check_no_later_cut(&log, later.epoch, newest)?;
        if newest > later.newest {
            *later = LaterClaim { newest, since: now, ..*later };
        }
        // A claim that is newer than the one that was seen has begun its own time: its host may
        // just be slow.
        if now.duration_since(later.since) < CUT_PATIENCE {
            return Err(WriterEpochError::Ship(ShipError::Waiting(waits_for_cut(newest))));
        }
        log::warn!("epoch {newest} was claimed and has not begun: this host claims the next one");
        *state = EpochStage::Idle;
        Ok(())
    }

    fn next_state(
        &self,
        ship: &Ship,
        state: &mut EpochStage,
        entropy: &dyn Entropy,
        point: Option<ReturnPoint>,
    ) -> Result<(), WriterEpochError> {
        let log = ship.log(&self.shared);
        let Some(remote) = ship.right.claimant() else { return Ok(()) };
        if let EpochStage::Idle = state {
            self.check_no_other_tier(&log)?;
            let mut next = ClaimedEpoch::unclaimed(log.newest_claim()? + 1, entropy);
            // 1. The log is read to its end before the claim. A directory that lacks a part of it
            //    claims nothing: the claim would end the epoch of a living writer, and nobody would
            //    write.
            self.adopt(&log, &mut next, point)?;
            next.cut = None;
            // 2. The claim. Of several hosts one creates it; the others look again.
            if !next.claim(remote, &log, self.shared.clock.now())? {
                return Ok(());
            }
            *state = EpochStage::Claimed(next);
        }
        let EpochStage::Claimed(claimed) = state else { return Ok(()) };
        ship.right.hold(claimed.epoch);
        // 3. The log is read to its end again, after the claim: the former writer may have put
        //    parcels since step 1. Those that it puts from now on are not answered, since it looks
        //    for the claim after each.
        let cut = self.adopt(&log, claimed, point)?;
        // 4. The cut says where the epoch begins. It is frozen, so that no later try adopts more.
        match claimed.begin(remote) {
            Err(ShipError::Remote { error: RemoteError::Exists, .. }) => {
                *state = EpochStage::Idle;
                return Ok(());
            }
            begun => begun?,
        }
        // 5. Heartbeats begin after the cut: before it there is no epoch that could be alive.
        let nonce = claimed.nonce.clone();
        ship.heartbeat_epoch.store(claimed.epoch, Ordering::Release);
        ship.heartbeats_since.store(self.shared.clock.now().as_millis(), Ordering::Relaxed);
        // The chain of an epoch that goes back may have roots after its point.
        // So it has no root to go on from, and begins with one of its own.
        let chain = if point.is_none() { log.chain(&cut)? } else { None };
        let shipped = ship.kept().take();
        let adopted =
            chain.map(|chain| AdoptedRoot { root: chain.root, parcels: chain.adopted_parcels(), shipped });
        *state = EpochStage::Idle;
        *state = EpochStage::Current(Box::new(WriterEpoch::new(&self.shared, &cut, nonce, adopted)?));
        Ok(())
    }

    /// Finds the log that an epoch adopts, all of which has to be here.
    fn adopt(
        &self,
        log: &RemoteLog<'_>,
        claimed: &mut ClaimedEpoch,
        point: Option<ReturnPoint>,
    ) -> Result<format::Cut, WriterEpochError> {
        let cut = match point {
            Some(point) => claimed.adopt_until(log, &point)?,
            None => claimed.adopt(log)?,
        };
        shipper::check_descent(&self.shared, &cut)?;
        Ok(cut)
    }

    /// Fails where the newest claim belongs to a store without a log in another directory: an epoch
    /// would take its objects.
    fn check_no_other_tier(&self, log: &RemoteLog<'_>) -> Result<(), WriterEpochError> {
        match check_no_other_tier(self.shared.fs.as_ref(), *log).map_err(WriterEpochError::Store)? {
            None => Ok(()),
            Some(refusal) => {
                Err(WriterEpochError::Fenced(format!("the remote is not that of this directory: {refusal}")))
            }
        }
    }

    /// Notes the claim of an epoch in the directory, from which a later start without the log goes
    /// on. Without the note that start asks the operator.
    fn note_claim_of(&self, epoch: &WriterEpoch) {
        let noted = epoch.claim().map(|claim| self.note_epoch(claim));
        if let Some(Err(error)) = noted {
            log::warn!("the epoch is not noted in the directory: {error}");
        }
    }

    /// The point at which the log ends on purpose.
    fn return_point(&self) -> Result<Option<ReturnPoint>, StoreError> {
        epoch::return_point(self.shared.fs.as_ref()).map_err(|error| self.shared.failed(error))
    }

    fn forget_return_point(&self) -> Result<(), StoreError> {
        let removed =
            self.shared.fs.remove(RETURN).and_then(|()| self.shared.fs.sync_dir(FileKind::Log.dir()));
        removed.map_err(|error| self.shared.failed(error.into()))
    }

    fn look_for_claim(&self, ship: &Ship) -> Result<(), StoreError> {
        let mut state = ship.lock();
        let EpochStage::Current(epoch) = &mut *state else { return Ok(()) };
        if !epoch.is_look_due(ship, &self.shared) {
            return Ok(());
        }
        let done = epoch.look_for_claim(ship, &self.shared);
        ship.note_outcome(&done);
        ship.after(done, &mut state, &self.shared)
    }

    fn put_root_if_due(&self, ship: &Ship) -> Result<(), StoreError> {
        match &*ship.lock() {
            EpochStage::Current(epoch) if epoch.is_root_due(ship, &self.shared) => {}
            _ => return Ok(()),
        }
        let Some((root, nonce)) = self.root_on_its_way(ship)? else { return Ok(()) };
        // The way of a checkpoint to the remote holds up no parcel.
        let put = shipper::put_root(ship, &self.shared, &root, &nonce);
        let mut state = ship.lock();
        let EpochStage::Current(epoch) = &mut *state else { return Ok(()) };
        match put {
            Ok(()) => epoch.root_was_put(&self.shared, &root),
            Err(WriterEpochError::Store(_)) => epoch.give_root_up(),
            Err(error) => return ship.after(Err(error), &mut state, &self.shared),
        }
        Ok(())
    }

    /// The root that the last call could not put, or a new one with a new checkpoint, whose groups
    /// are shipped.
    fn root_on_its_way(&self, ship: &Ship) -> Result<Option<(format::Root, String)>, StoreError> {
        if let EpochStage::Current(epoch) = &mut *ship.lock() {
            if let Some(frozen) = epoch.root_on_its_way() {
                return Ok(Some(frozen));
            }
            // 1. The parcels that the root needs are noted before its checkpoint is written, as at
            //    the beginning of an epoch.
            epoch.plan_root(&self.shared);
        }
        // 2. The checkpoint, without the lock of the epoch, so that parcels go on meanwhile.
        self.checkpoint()?;
        // 3. The groups that it covers are shipped before it: the root says after which parcel the
        //    log goes on.
        ship.ship_through(&self.shared, self.shared.published().sequence)?;
        // 4. The root is frozen. The epoch may have ended meanwhile.
        let mut state = ship.lock();
        let EpochStage::Current(epoch) = &mut *state else { return Ok(None) };
        match epoch.freeze_root(&self.shared, 0) {
            Ok(_) => Ok(epoch.root_on_its_way()),
            Err(error) => ship.after(Err(error), &mut state, &self.shared).map(|()| None),
        }
    }
}
