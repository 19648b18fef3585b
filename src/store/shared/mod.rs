//! The state that readers, writers, the committer and the maintenance share.
//!
//! Begin with [`SharedStore`] on this page: the published index, and the latch that makes a store
//! read-only. Its fields are in files of their own.
//!
//! | File | Job |
//! |---|---|
//! | `health`, `thread_watch` | why a store is read-only, what is damaged, which thread has panicked |
//! | `backlog`, `index_budget`, `write_counters`, `commit_counters` | how long the next start takes; the memory of the index; what was written |
//! | `id_generator`, `lock_clock`, `state_file` | ids that grow; time that a wrong clock does not change; the small files of `meta/` |
//! | `usage_accounts`, `followers`, `cause` | quotas at commit; who follows the log; the requests on whose behalf threads commit |
//! | `extents`, `text` | the extents of records; keys as text |
//! | `object_keys` | the keys of encrypted objects |

pub(super) mod backlog;
pub(super) mod cause;
pub(super) mod commit_bounds;
pub(super) mod commit_counters;
pub(crate) mod extents;
pub(super) mod followers;
pub(super) mod health;
pub(super) mod id_generator;
pub(super) mod index_budget;
pub(super) mod lock_clock;
pub(super) mod object_keys;
pub(super) mod state_file;
pub(crate) mod text;
pub(super) mod thread_watch;
pub(super) mod usage_accounts;
pub(super) mod write_counters;

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, RwLock};
use std::time::Instant;

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::base::limits::{KIB, MOVE_REMOTE_BELOW_LIVE_PERCENT, WALK_MEMORY_MIN_BYTES, WALK_MEMORY_SHARE};
use crate::base::{Clock, NOT_POISONED, Timestamp};
use crate::format::{ClientIds, CopyPhase, Entry, StoreId, VersionId};
use crate::fs::{DiskPlace, Fs};
use crate::index::Index;
use crate::log::{Damage, LogError, Segments, SpaceClaim};
use crate::store::shared::backlog::Backlog;
use crate::store::shared::commit_bounds::CommitBounds;
use crate::store::shared::commit_counters::CommitCounters;
use crate::store::shared::followers::FollowerRegistry;
use crate::store::shared::health::ScrubHealth;
use crate::store::shared::id_generator::IdGenerator;
use crate::store::shared::index_budget::IndexBudget;
use crate::store::shared::lock_clock::LockClock;
use crate::store::shared::object_keys::StoreKeys;
use crate::store::shared::usage_accounts::OwnerQuotas;
use crate::store::shared::write_counters::{MeteredDisk, WriteCounters};
use crate::store::{Health, ReadOnlyReason, StoreError, StoreOptions};

/// Damaged locations that are remembered; more are only logged.
const DAMAGE_KEPT_MAX: usize = 100;
/// The disk space of a small put at most: pages of a new segment and of the pack, and its entry in
/// the log and in the next checkpoint.
const SMALL_PUT_BYTES: u64 = 16 * KIB;

/// The published state: all groups up to a sequence, and no other. It is replaced, never changed,
/// so that readers hold a snapshot for as long as they like and never wait.
#[derive(Clone)]
pub(in crate::store) struct Published {
    pub(in crate::store) index: Arc<Index>,
    /// The sequence of the last group in the index.
    pub(in crate::store) sequence: u64,
    /// The segment with the pack of the last group; 0 for none. Until another group follows,
    /// recovery reads that pack to decide whether the group is valid, so its bytes must stay even
    /// if they are dead.
    pub(in crate::store) doubtful_segment: u64,
}

/// The memory that a walk over `index` may use for its results, in bytes. It grows with the index,
/// so that the number of walks does not.
pub(in crate::store) fn walk_memory_bytes(index: &Index) -> u64 {
    (index.memory_bytes() / WALK_MEMORY_SHARE).max(WALK_MEMORY_MIN_BYTES)
}

/// The way of the log to the remote.
pub(in crate::store) trait LogShipping: Send + Sync {
    /// Fails until the epoch has begun.
    fn check_epoch(&self) -> Result<(), StoreError>;

    /// Fails while the remote lacks older writes than it may.
    fn check_lag(&self, now: Instant) -> Result<(), StoreError>;

    /// Whether the remote has the groups up to that one.
    fn has(&self, sequence: u64) -> bool;

    /// The first group that the log has to keep.
    fn keeps_log_from(&self) -> u64;

    /// Whether a write is answered only after the remote has it.
    fn is_sync(&self) -> bool;

    /// Ships the durable groups up to `through`, and finds that no other host has taken over since.
    ///
    /// # Errors
    /// [`StoreError::RemoteUnavailable`]: a later call goes on with the same bytes;
    /// [`StoreError::ReadOnly`] where another host has taken over.
    fn ship_through(&self, shared: &SharedStore, through: u64) -> Result<(), StoreError>;
}

/// The shared state of an open store.
pub(in crate::store) struct SharedStore {
    pub(in crate::store) fs: Arc<dyn Fs>,
    pub(in crate::store) write_counters: Arc<WriteCounters>,
    pub(in crate::store) commit_counters: Arc<CommitCounters>,
    pub(in crate::store) clock: Arc<dyn Clock>,
    pub(in crate::store) lock_clock: LockClock,
    pub(in crate::store) store: StoreId,
    pub(in crate::store) client_ids: ClientIds,
    pub(in crate::store) options: StoreOptions,
    pub(in crate::store) segments: Segments,
    pub(in crate::store) ids: IdGenerator,
    commit_bounds: Mutex<CommitBounds>,
    published: RwLock<Published>,
    owner_quotas: RwLock<Arc<OwnerQuotas>>,
    read_only: Mutex<Option<(ReadOnlyReason, String)>>,
    damage: Mutex<Vec<Damage>>,
    torn_groups: AtomicU64,
    /// Held while a checkpoint is written: only one at a time.
    pub(in crate::store) checkpointing: Mutex<()>,
    /// The creation time of the newest checkpoint.
    newest_checkpoint: Mutex<Option<Timestamp>>,
    pub(in crate::store) backlog: Backlog,
    /// The deadline for checkpoints of a store that is being closed.
    closed_by: OnceLock<Instant>,
    pub(in crate::store) reclaimed: ReclaimCounters,
    /// The first background thread that panicked.
    stopped_thread: OnceLock<&'static str>,
    /// Whether the bytes of a durable group look dead, since it is not published.
    has_unpublished: AtomicBool,
    /// The log on the remote; not set where the log stays here.
    shipping: OnceLock<Arc<dyn LogShipping>>,
    /// The keys of encrypted objects; not set where none was given.
    keys: OnceLock<StoreKeys>,
    /// The followers of the log.
    pub(in crate::store) followers: FollowerRegistry,
    /// Holds a message after a write was refused for lack of disk space.
    reclaim_requests: (Sender<()>, Receiver<()>),
}

/// Totals of the space reclaimed since the store was opened.
#[derive(Default)]
pub(in crate::store) struct ReclaimCounters {
    pub(in crate::store) segments: AtomicU64,
    pub(in crate::store) bytes: AtomicU64,
    pub(in crate::store) moved_bytes: AtomicU64,
}

/// The directory of a store, and what it is opened with.
#[derive(Clone)]
pub(in crate::store) struct StoreBasis {
    pub(in crate::store) disk: MeteredDisk,
    pub(in crate::store) clock: Arc<dyn Clock>,
    pub(in crate::store) store: StoreId,
    pub(in crate::store) options: StoreOptions,
}

impl SharedStore {
    /// The state with the index after the group `sequence`.
    pub(in crate::store) fn new(basis: StoreBasis, segments: Segments, index: Index, sequence: u64) -> Self {
        let StoreBasis { disk, clock, store, options } = basis;
        let ids = IdGenerator::new(clock.clone(), index.last_stamp());
        let lock_clock = LockClock::since(index.last_stamp(), clock.clone());
        Self {
            fs: disk.fs,
            write_counters: disk.counters,
            commit_counters: Arc::default(),
            clock,
            lock_clock,
            client_ids: ClientIds::new(&store),
            store,
            options,
            segments,
            ids,
            commit_bounds: Mutex::new(CommitBounds::after(sequence)),
            published: RwLock::new(Published { index: Arc::new(index), sequence, doubtful_segment: 0 }),
            owner_quotas: RwLock::default(),
            read_only: Mutex::default(),
            damage: Mutex::default(),
            torn_groups: AtomicU64::new(0),
            checkpointing: Mutex::default(),
            newest_checkpoint: Mutex::default(),
            backlog: Backlog::default(),
            closed_by: OnceLock::new(),
            reclaimed: ReclaimCounters::default(),
            stopped_thread: OnceLock::new(),
            has_unpublished: AtomicBool::new(false),
            shipping: OnceLock::new(),
            keys: OnceLock::new(),
            followers: FollowerRegistry::default(),
            reclaim_requests: bounded(1),
        }
    }

    /// Sets the keys of encrypted objects. Only the first call counts.
    pub(in crate::store) fn set_keys(&self, keys: StoreKeys) {
        let _ = self.keys.set(keys);
    }

    /// The keys of encrypted objects.
    pub(in crate::store) fn keys(&self) -> Option<&StoreKeys> {
        self.keys.get()
    }

    /// A snapshot of the published index.
    pub(in crate::store) fn index(&self) -> Arc<Index> {
        self.published().index
    }

    /// The published state.
    pub(in crate::store) fn published(&self) -> Published {
        self.published.read().expect(NOT_POISONED).clone()
    }

    /// Whether the live extents of a segment stay where they are because of its copy on the remote:
    /// the segment is on its way, or more than a third of the copy is alive.
    pub(in crate::store) fn keeps_remote_copy(&self, segment: u64) -> bool {
        let index = self.index();
        index.remote_copy(segment).is_some_and(|copy| {
            let live_percent = index.liveness().of(segment) * 100 / copy.length.max(1);
            copy.phase != CopyPhase::Remote || live_percent >= MOVE_REMOTE_BELOW_LIVE_PERCENT
        })
    }

    /// Whether the bytes of a segment may be on the remote alone.
    pub(in crate::store) fn is_remote(&self, segment: u64) -> bool {
        self.index().remote_copy(segment).is_some_and(|copy| copy.phase != CopyPhase::Leaving)
    }

    /// The budget for the growth of the published index.
    pub(in crate::store) fn index_budget(&self) -> IndexBudget {
        IndexBudget::of(&self.index(), self.options.index_max_bytes)
    }

    /// Notes the ids of the versions in a group, before it is published.
    pub(in crate::store) fn bound_versions(&self, sequence: u64, entries: &[Entry]) {
        self.commit_bounds.lock().expect(NOT_POISONED).add(sequence, entries);
    }

    /// The last group that a version of the published index can be in.
    pub(in crate::store) fn last_group_of(&self, version: VersionId) -> u64 {
        self.commit_bounds.lock().expect(NOT_POISONED).last_of(version)
    }

    /// Replaces the published state. Only the commit leader may call it.
    pub(in crate::store) fn publish(&self, next: Published) {
        let last = std::mem::replace(&mut *self.published.write().expect(NOT_POISONED), next);
        // Memory that no snapshot holds is freed after the lock is released.
        drop(last);
    }

    /// The quotas of owners that the configuration sets.
    pub(in crate::store) fn owner_quotas(&self) -> Arc<OwnerQuotas> {
        self.owner_quotas.read().expect(NOT_POISONED).clone()
    }

    /// Replaces the quotas of owners that the configuration sets.
    pub(in crate::store) fn configure_owner_quotas(&self, quotas: OwnerQuotas) {
        *self.owner_quotas.write().expect(NOT_POISONED) = Arc::new(quotas);
    }

    /// Fails if the store is read-only.
    /// The reason why the store takes no writes; `None` while it does.
    pub(in crate::store) fn read_only_reason(&self) -> Option<ReadOnlyReason> {
        self.read_only.lock().expect(NOT_POISONED).as_ref().map(|(reason, _)| *reason)
    }

    pub(in crate::store) fn check_writable(&self) -> Result<(), StoreError> {
        match self.read_only.lock().expect(NOT_POISONED).as_ref() {
            Some((_, why)) => Err(StoreError::ReadOnly(why.clone())),
            None => Ok(()),
        }
    }

    /// Ships the log from now on.
    pub(in crate::store) fn set_shipping(&self, shipping: Arc<dyn LogShipping>) {
        // The first call counts.
        let _ = self.shipping.set(shipping);
    }

    /// The shipping of the log; `None` where the log stays here.
    pub(in crate::store) fn shipping(&self) -> Option<&dyn LogShipping> {
        self.shipping.get().map(Arc::as_ref)
    }

    /// Says whether there is a durable group that is not published. It is said before the writers
    /// of the group get their replies.
    pub(in crate::store) fn set_unpublished(&self, is_there: bool) {
        self.has_unpublished.store(is_there, Ordering::Release);
    }

    /// Whether segments may hold bytes of a durable group that is not published. Asked after the
    /// immutable segments were listed, and before the index is looked at: bytes of a later group
    /// are in a segment with a writer.
    pub(in crate::store) fn has_unpublished(&self) -> bool {
        self.has_unpublished.load(Ordering::Acquire)
    }

    /// Fails where the log is shipped and the epoch has not begun.
    pub(in crate::store) fn check_epoch(&self) -> Result<(), StoreError> {
        self.shipping().map_or(Ok(()), LogShipping::check_epoch)
    }

    /// Fails where the log is shipped, and the remote lacks older writes than it may.
    pub(in crate::store) fn check_lag(&self) -> Result<(), StoreError> {
        self.shipping().map_or(Ok(()), |ship| ship.check_lag(self.clock.instant()))
    }

    /// Whether the groups up to that one need not be shipped any more.
    pub(in crate::store) fn is_shipped(&self, sequence: u64) -> bool {
        self.shipping().is_none_or(|ship| ship.has(sequence))
    }

    /// Ships the groups up to that one, if the log is shipped and they are not there: their bytes
    /// may go then.
    ///
    /// # Errors
    /// As [`LogShipping::ship_through`].
    pub(in crate::store) fn ensure_shipped(&self, sequence: u64) -> Result<(), StoreError> {
        self.shipping().map_or(Ok(()), |ship| ship.ship_through(self, sequence))
    }

    /// Makes the store read-only until it is opened again. After a failed sync the state of the
    /// disk is unknown, and a second sync proves nothing (data-format.md, section 1, point 5).
    pub(in crate::store) fn latch(&self, reason: ReadOnlyReason, why: String) {
        log::error!("the store takes no more writes: {why}; {reason}");
        // The first reason stays: later errors are often its results.
        self.read_only.lock().expect(NOT_POISONED).get_or_insert((reason, why));
    }

    /// Takes no writes, since the store was opened to look.
    pub(in crate::store) fn only_look(&self) {
        let why = ReadOnlyReason::LooksOnly;
        self.read_only.lock().expect(NOT_POISONED).get_or_insert((why, why.to_string()));
    }

    /// Whether the store was opened to look.
    pub(in crate::store) fn only_looks(&self) -> bool {
        let read_only = self.read_only.lock().expect(NOT_POISONED);
        matches!(read_only.as_ref(), Some((ReadOnlyReason::LooksOnly, _)))
    }

    /// Logs damage and remembers it.
    pub(in crate::store) fn report(&self, damage: &Damage) {
        let mut known = self.damage.lock().expect(NOT_POISONED);
        if known.contains(damage) {
            return;
        }
        log::error!("{damage}");
        if known.len() < DAMAGE_KEPT_MAX {
            known.push(damage.clone());
        }
    }

    /// Forgets the damage of a file that is gone.
    pub(in crate::store) fn forget_damage(&self, file: &str) {
        self.damage.lock().expect(NOT_POISONED).retain(|damage| damage.file != file);
    }

    /// Whether the file has known damage.
    pub(in crate::store) fn is_damaged(&self, file: &str) -> bool {
        self.damage.lock().expect(NOT_POISONED).iter().any(|damage| damage.file == file)
    }

    /// Turns an error of the log into one of the store, and remembers damage.
    pub(in crate::store) fn failed(&self, error: LogError) -> StoreError {
        if let LogError::Damaged(damage) = &error {
            self.report(damage);
        }
        error.into()
    }

    /// Turns the error of a write into one of the store. A full disk or a lack of descriptors may
    /// pass. After any other error the state of the disk is unknown, even for other writes to
    /// the same file, so the store becomes read-only.
    pub(in crate::store) fn write_failed(&self, error: LogError) -> StoreError {
        match &error {
            LogError::DiskFull(_) => self.request_reclaim(),
            // Of descriptors: files that nobody reads give theirs back, and the next write may
            // pass.
            LogError::Exhausted(_) => self.segments.close_idle(),
            _ => self.latch(ReadOnlyReason::WriteFailed, format!("a write failed: {error}")),
        }
        self.failed(error)
    }

    /// Remembers the creation time of the newest checkpoint.
    pub(in crate::store) fn set_newest_checkpoint(&self, created: Timestamp) {
        *self.newest_checkpoint.lock().expect(NOT_POISONED) = Some(created);
    }

    /// Sets the deadline for checkpoints.
    pub(in crate::store) fn close_by(&self, time: Instant) {
        // The first call counts.
        let _ = self.closed_by.set(time);
    }

    /// Fails after the deadline for checkpoints.
    pub(in crate::store) fn check_close_deadline(&self) -> io::Result<()> {
        match self.closed_by.get() {
            Some(time) if Instant::now() >= *time => {
                Err(io::Error::new(io::ErrorKind::TimedOut, "the store is being closed, and no time is left"))
            }
            _ => Ok(()),
        }
    }

    /// The free bytes of the file system that a claim may use.
    pub(in crate::store) fn room(&self, claim: SpaceClaim) -> Result<u64, LogError> {
        Ok(self.segments.reserve().room(self.segments.free_bytes()?, claim))
    }

    /// Whether a claim may use less than `bytes` bytes, or not even keep its reserve.
    pub(in crate::store) fn lacks_room(&self, claim: SpaceClaim, bytes: u64) -> Result<bool, LogError> {
        let reserve = self.segments.reserve();
        let free_bytes = self.segments.free_bytes()?;
        let lacks_reserve = free_bytes < reserve.bytes_kept_free(claim).saturating_add(bytes);
        if lacks_reserve || reserve.room(free_bytes, claim) < bytes {
            return Ok(true);
        }
        Ok(self.fs.has_two_disks() && self.segments.room_on(DiskPlace::Bulk, claim)? < bytes)
    }

    /// Whether a small put would be refused for lack of space, by the same checks, or the file
    /// system does not say.
    fn refuses_puts(&self) -> bool {
        if self.lacks_room(SpaceClaim::Growth, SMALL_PUT_BYTES).unwrap_or(true) {
            return true;
        }
        // A store that takes no writes is not tried.
        self.check_writable().is_ok()
            && self.segments.refuses_growth().map_err(|error| self.write_failed(error)).unwrap_or(true)
    }

    /// Asks the maintenance to reclaim space, after a write was refused for lack of it.
    pub(in crate::store) fn request_reclaim(&self) {
        // A full channel holds an earlier request.
        let _ = self.reclaim_requests.0.try_send(());
    }

    pub(in crate::store) fn reclaim_requests(&self) -> &Receiver<()> {
        &self.reclaim_requests.1
    }

    /// Remembers that a background thread has panicked.
    pub(in crate::store) fn thread_stopped(&self, name: &'static str) {
        // The first one counts.
        let _ = self.stopped_thread.set(name);
    }

    pub(in crate::store) fn count_torn(&self) {
        self.torn_groups.fetch_add(1, Ordering::Relaxed);
    }

    /// The free and all bytes of one of two disks; `None` where it does not tell.
    pub(in crate::store) fn space_on(&self, place: DiskPlace) -> Option<(u64, u64)> {
        self.fs.space_on(place).ok().map(|space| (space.free_bytes, space.total_bytes))
    }

    pub(in crate::store) fn health(&self) -> Health {
        let Published { index, sequence, .. } = self.published();
        let (read_only_reason, read_only) = self.read_only.lock().expect(NOT_POISONED).clone().unzip();
        Health {
            read_only,
            read_only_reason,
            damage: self.damage.lock().expect(NOT_POISONED).clone(),
            scrub: ScrubHealth::default(),
            torn_groups: self.torn_groups.load(Ordering::Relaxed),
            sequence,
            buckets: index.bucket_count(),
            versions: index.version_count(),
            index_bytes: index.memory_bytes(),
            index_max_bytes: self.options.index_max_bytes,
            index_full: IndexBudget::of(&index, self.options.index_max_bytes).check().is_err(),
            disk: self.space_on(DiskPlace::Bulk),
            newest_checkpoint: *self.newest_checkpoint.lock().expect(NOT_POISONED),
            replay_time: self.backlog.replay_time(),
            disk_full: self.refuses_puts(),
            stopped_thread: self.stopped_thread.get().copied(),
            live_bytes: index.liveness().total(),
            segments: self.segments.count(),
            reclaimed_segments: self.reclaimed.segments.load(Ordering::Relaxed),
            reclaimed_bytes: self.reclaimed.bytes.load(Ordering::Relaxed),
            moved_bytes: self.reclaimed.moved_bytes.load(Ordering::Relaxed),
            written: self.write_counters.since_start(),
        }
    }
}
