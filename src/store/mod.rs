//! Floor 3: the storage engine. It keeps objects and knows nothing of HTTP.
//!
//! All changes go through the committer, one commit group after another. Readers take a snapshot of
//! the published index, so that they see only durable changes and never wait.
//!
//! Each folder is a room with a page of its own; a room names those above it in this table, and
//! [`Store`], whose methods the rooms define.
//!
//! | Room | Job |
//! |---|---|
//! | `error`, `options`, `progress` | the values that every caller sees |
//! | `shared` | the state that all threads share: the published index, health, counters, clocks |
//! | `remote_log` | reading the log on a remote; the right to change the remote |
//! | `open` | opening: the newest checkpoint, the log after it, many groups at a time |
//! | `commit` | a change: its request and bounds, the decision against the index, durability, publication, checkpoints |
//! | `objects` | buckets, versions, uploads, listings, quotas; bytes of bodies to segments and back |
//! | `expiry`, `follow` | old versions and uploads; changes for consumers such as mirrors, from the log |
//! | `fast_disk` | segments from the fast one of two disks to the large one |
//! | `log_shadow` | the shadow of the log on the large disk |
//! | `reclaim`, `sweep`, `tier`, `scrub` | disk space; reading all extents of a segment; sealed segments on a remote; latent damage |
//! | `ship` | the log on a remote, and stores restored from there or following it |
//!
//! To understand a write, read `commit/mutation.rs`, `commit/plan/mod.rs` and
//! `commit/committer/group_writer.rs`; a start, `open/recovery.rs`; the remote, `tier/mod.rs`, then
//! `ship/mod.rs`. Programs that work on a store without a server are in [`crate::offline`].
//!
//! Ownership by threads and locks:
//!
//! | Owner | Owns |
//! |---|---|
//! | the commit leader: the thread that holds the lock of the `GroupWriter`, either a caller or the committer thread | the log, the active pack segment, and the right to publish an index |
//! | the segment-sync thread | the sync of the pack segment, while the commit leader syncs the log |
//! | the checkpointer thread; on close the committer thread | checkpoints and the removal of log files, one at a time by the lock `checkpointing` |
//! | a caller with an [`ObjectWriter`] or a [`PartWriter`] | the allocations of its extents, until the commit is published |
//! | a caller with a [`FoundVersion`] or an [`ObjectReader`] | pins that keep segments from being removed |
//! | the caller of [`Store::reclaim`] | the lock of the reclaimer; relocated records change by a mutation like all others |
//!
//! The published index is replaced, never changed. The lock around it is held only to swap or to
//! clone a pointer. The latch `read_only` is set once and never reset: after a failed sync the
//! state of the disk is unknown.

pub(crate) mod commit;
mod error;
mod expiry;
mod fast_disk;
mod follow;
pub(crate) mod history;
mod log_shadow;
mod objects;
pub(crate) mod open;
mod options;
mod progress;
pub(crate) mod reclaim;
pub(crate) mod remote_log;
pub(crate) mod scrub;
pub(crate) mod shared;
pub(crate) mod ship;
mod sweep;
mod tier;

use std::sync::{Arc, Mutex, OnceLock};
use std::time::Instant;

pub use crate::base::{DeleteCondition, OwnerCondition, Quota, WriteCondition};
pub use crate::crypto::{KeySource, MasterKey, NamedKey};
pub use crate::format::{
    AclGrants, AssembledPart, Assembly, Attributes, BucketConfigurationKind, BucketRecord as BucketInfo,
    BucketSize, Cause, Checksum, ChecksumAlgorithm, ChecksumType, ClientId, ClientIds, DaySizes, ETag,
    EncryptionKind, History, HistorySample, NamedUsers, ObjectControls, ObjectOwner, PartEncryption,
    PartRecord, PlainDigests, Retention, RetentionMode, SnapshotCursor, StorageClass, UploadId, UploadRecord,
    UserGrant, VersionEncryption, VersionId, VersionRecord, VersionSummary, Versioning, WrappedKey,
};
pub use crate::index::{
    BucketConfiguration, BucketConfigurations, ContentTotal, ListItem, ListPage, ListQuery, ListedVersion,
    OwnerUsage, PlaceCursor, PlacedVersion, Upload, UploadSummary, Usage, VersionPlace, VersionRef,
};
pub use crate::log::Damage;
pub use crate::remote::RequestFigures;
pub use commit::expiring::{
    ClassTransition, EXPIRY_GROUP_MAX, EXPIRY_GROUP_MAX_BYTES, ExpiringItem, ExpiringRole, ExpiryOutcome,
    ExpiryRequest,
};
pub use commit::requests::{
    Commit, CommittedVersion, Completion, ConfiguredBucket, CopyRange, Deleted, Deletion, NewBucket,
    NewUpload, Selector, stated_before,
};
pub use error::{OpenError, QuotaHolder, StoreError};
pub use fast_disk::{FastDiskFigures, SegmentMove};
pub use follow::{
    Beginning, Change, ChangeBatch, ChangeKind, DeletedVersion, DepartedBucket, DepartedBuckets,
    FollowPosition, FollowedKey, Follower, FollowerFigures, FollowerNote, KeyRange, LostChanges, MirrorNote,
    MirrorUpload, MirroredPlace, RefusedKey, RefusedKeys, TargetOrigin,
};
pub use objects::copied_keys::EncryptedPartCopy;
pub use objects::listings::UploadPages;
pub use objects::quotas::{LimitedBucket, LimitedOwner};
pub use objects::reader::ObjectReader;
pub use objects::rewrap::{RewrapCursor, RewrapStep};
pub use objects::uploads::{PartSummary, PartsPage, PartsTotal};
pub use objects::usage::BucketUsage;
pub use objects::versions::FoundVersion;
pub use objects::writer::{ObjectWriter, PartWriter};
pub use open::first_start::{FirstStartError, StoreCreation, check_first_start, empty_directories};
pub use options::StoreOptions;
pub use progress::{Progress, ProgressStep};
pub use reclaim::Reclaimed;
pub use remote_log::error::ShipError;
pub use remote_log::right::RemoteRefusal;
pub use scrub::{DamagedObject, ScrubPace, Scrubbed};
pub use shared::cause::CauseScope;
pub use shared::commit_counters::CommitFigures;
pub use shared::health::{BadFile, Health, ReadOnlyReason};
pub use shared::lock_clock::ClockFigures;
pub use shared::object_keys::{NewEncryption, OpenedKey};
pub use shared::thread_watch::ThreadWatch;
pub use shared::usage_accounts::OwnerQuotas;
pub use ship::log_copy::follows;
pub use ship::readers::StandbyReaders;
pub use ship::restore::{RemoteRestoreReport, restore_from_remote, restore_from_remote_at};
pub use ship::standby::{Standby, StandbyFigures, StandbyStep, TakenOver};
pub use ship::{CleanupProgress, ShipFigures, ShipMode, ShipOptions};
use tier::Tier;
pub use tier::epoch::adopt_remote;
pub use tier::{
    BucketPlacement, CopyFindings, RemoteProbed, RepairFigures, TierFigures, TierOptions, TierProgress,
};

use crate::base::{Clock, Entropy};
use crate::fs::{Fs, Lock, ReadOnlyFs};
use crate::remote::RemoteView;
use commit::checkpointer;
use commit::committer::Committer;
use fast_disk::Movement;
use log_shadow::ShadowWriter;
use open::recovery::{self, Recovered};
use reclaim::Reclaimer;
use scrub::Scrubber;
use shared::{SharedStore, lock_clock};
use ship::Ship;

/// An open store. Dropping it stops its threads but writes no checkpoint; [`Store::close`] also
/// writes one if the next start would take long without it.
pub struct Store {
    shared: Arc<SharedStore>,
    committer: Committer,
    reclaimer: Mutex<Reclaimer>,
    scrubber: Scrubber,
    movement: Movement,
    /// `None` where there is one disk.
    shadow: Option<ShadowWriter>,
    /// Where sealed segments go; `None` if they stay.
    tier: Option<Arc<Tier>>,
    /// The log on the remote; not set where the log stays here.
    ship: OnceLock<Arc<Ship>>,
    /// None where another part of the process owns the directory.
    _lock: Option<Box<dyn Lock>>,
}

impl Store {
    /// Opens the store in `fs`, or creates one in an empty directory. If the log is damaged but its
    /// beginning is readable, the store opens read-only, and [`Store::health`] names the reason.
    ///
    /// # Errors
    /// If another process has it open, if the disk fails, or if nothing is readable.
    pub fn open(
        fs: Arc<dyn Fs>,
        clock: Arc<dyn Clock>,
        entropy: &dyn Entropy,
        options: StoreOptions,
    ) -> Result<Self, OpenError> {
        let lock = recovery::lock(fs.as_ref())?;
        Self::start(recovery::open(fs, clock, entropy, options, None)?, lock)
    }

    /// Starts the threads of a store that has been read.
    fn start(recovered: Recovered, lock: Box<dyn Lock>) -> Result<Self, OpenError> {
        let shared = recovered.shared;
        let committer = Committer::start(shared.clone(), recovered.log_writer)?;
        Ok(Self::new(shared, committer, Some(lock)))
    }

    /// Opens the store in `fs` to look at it: every change is refused, and nothing is written,
    /// neither there nor to the remote, from which cold bytes are read. If the log is damaged, its
    /// beginning is read.
    ///
    /// # Errors
    /// As of [`Store::open`]; also where there is no store.
    pub fn look(
        fs: Arc<dyn Fs>,
        clock: Arc<dyn Clock>,
        options: StoreOptions,
        remote: Option<Arc<dyn RemoteView>>,
    ) -> Result<Self, OpenError> {
        let lock = recovery::lock_to_look(fs.as_ref())?;
        let tier =
            remote.map(|remote| Tier::to_look(remote, fs.clone(), clock.clone(), options.keep_free_bytes));
        let fs = tier.as_ref().map_or(fs.clone(), |tier| Tier::over(tier, fs));
        let shared = recovery::look(Arc::new(ReadOnlyFs::new(fs)), clock, options)?;
        let committer = Committer::start(shared.clone(), None)?;
        let store = Self { tier, ..Self::new(shared, committer, lock) };
        store.let_tier_learn();
        Ok(store)
    }

    fn new(shared: Arc<SharedStore>, committer: Committer, lock: Option<Box<dyn Lock>>) -> Self {
        lock_clock::resume(&shared);
        let scrubber = Scrubber::open(&shared);
        let reclaimer = Mutex::new(Reclaimer::open(&shared));
        let movement = Movement::default();
        let shadow = ShadowWriter::of(&shared);
        let ship = OnceLock::new();
        Self { shared, committer, reclaimer, scrubber, movement, shadow, tier: None, ship, _lock: lock }
    }

    /// Finishes all submitted mutations and stops the threads. Writes a checkpoint unless the next
    /// start needs less than [`StoreOptions::replay_after_close_max`] for the log. Later calls fail
    /// with [`StoreError::Closed`], except reads.
    pub fn close(&self) {
        if self.shared.only_looks() {
            return self.committer.close();
        }
        self.close_clock();
        self.scrubber.close(&self.shared);
        self.committer.close();
        self.close_shadow();
        self.close_reclaimer();
    }

    /// Like [`Store::close`], but aborts a checkpoint that is not finished by `time`.
    pub fn close_by(&self, time: Instant) {
        self.shared.close_by(time);
        self.close();
    }

    /// The mapping between internal ids and the ids that clients see.
    pub fn client_ids(&self) -> &ClientIds {
        &self.shared.client_ids
    }

    /// The id by which mirrors distinguish this store from others.
    pub fn public_id(&self) -> String {
        self.shared.client_ids.of_store()
    }

    /// The memory of the index in bytes: all keys with their versions, uploads and buckets. O(1).
    pub fn index_bytes(&self) -> u64 {
        self.shared.index().memory_bytes()
    }

    /// Writes a checkpoint of the published index, so that the next start is quick.
    ///
    /// # Errors
    /// [`StoreError::DiskFull`]: the store goes on without the checkpoint;
    /// [`StoreError::ReadOnly`]; after another error of the disk the store is read-only.
    pub fn checkpoint(&self) -> Result<(), StoreError> {
        checkpointer::write(&self.shared)
    }

    /// The state of the store, now.
    pub fn health(&self) -> Health {
        let mut health = self.shared.health();
        self.scrubber.add_to_health(&self.shared, &mut health);
        health
    }

    /// The reason why the store takes no writes; `None` while it does.
    pub fn read_only_reason(&self) -> Option<ReadOnlyReason> {
        self.shared.read_only_reason()
    }

    /// The changes that wait for the group that is being written. Those of the next group do.
    pub fn queued_changes(&self) -> usize {
        self.committer.queued()
    }

    /// The bytes that data segments take up on the disk: with preallocated space, without holes.
    /// `None` where the disk does not say, and while further calls have to measure some of very
    /// many segments.
    pub fn segment_bytes(&self) -> Option<u64> {
        self.shared.segments.allocated_bytes().ok().flatten()
    }
}

#[cfg(test)]
mod tests;
