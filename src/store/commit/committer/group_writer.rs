//! Writing commit groups (data-format.md, section 5, "What a commit writes, and why in this
//! order").

use std::sync::Arc;
use std::time::Instant;
use std::{io, thread};

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::base::channel::receive;
use crate::base::limits::{GROUP_BODY_MAX_BYTES, GROUP_LOOKUPS_MAX, MIB, PACK_MAX_BYTES};
use crate::base::md5_of_each;
use crate::format::{ETag, Entry, Features, Pack};
use crate::fs::File;
use crate::index::Index;
use crate::log::{Allocation, LogError, LogVolume, LogWriter, SpaceClaim, WriteHead};
use crate::store::commit::checkpointer::{self, Checkpointer};
use crate::store::commit::mutation::Mutation;
use crate::store::commit::plan::{AvailableRoom, GroupPlan, PendingReply, Planner};
use crate::store::shared::commit_counters::{CommitCounters, DiskWork};
use crate::store::shared::index_budget::IndexBudget;
use crate::store::shared::usage_accounts::UsageAccounts;
use crate::store::shared::{LogShipping, Published, SharedStore};
use crate::store::{ReadOnlyReason, StoreError};

/// The bound on the entries of a group with several mutations. A single mutation may be longer, up
/// to the maximum of a group.
const GROUP_BODY_TARGET_BYTES: usize = GROUP_BODY_MAX_BYTES as usize / 4;

/// The share of the free space for growth that is allocated before the file system is asked again,
/// and its bound in bytes.
const CREDIT_SHARE: u64 = 4;
const CREDIT_MAX_BYTES: u64 = 16 * MIB;
/// The growth of the log before space is requested again after a request.
const RETRY_ROOM_AFTER_BYTES: u64 = MIB;

/// A thread that syncs segments while the committer syncs the log.
struct SegmentSyncer {
    files: Sender<Arc<dyn File>>,
    results: Receiver<io::Result<()>>,
}

impl SegmentSyncer {
    fn start(counters: Arc<CommitCounters>) -> Self {
        let (files, inbox) = bounded::<Arc<dyn File>>(1);
        let (outbox, results) = bounded(1);
        thread::Builder::new()
            .name("segment-sync".into())
            .spawn(move || {
                while let Ok(file) = receive(&inbox) {
                    if outbox.send(counters.sync_segment(file.as_ref())).is_err() {
                        break;
                    }
                }
            })
            .expect("a thread can be started at start-up");
        Self { files, results }
    }

    /// Begins to sync a file. The caller has waited for the previous one.
    fn begin(&self, segment: Arc<dyn File>) {
        self.files.send(segment).expect("the thread lives as long as its sender");
    }

    fn wait(&self) -> io::Result<()> {
        receive(&self.results).expect("the thread replies for each file")
    }
}

/// Mutations for one group.
#[derive(Default)]
pub(super) struct MutationBatch {
    mutations: Vec<Mutation>,
    entry_bytes: usize,
    packed_bytes: usize,
    /// A bound on the planner's work, in lookups in the index.
    lookups: usize,
}

impl MutationBatch {
    /// A batch with its first mutation.
    pub(super) fn of(mutation: Mutation) -> Self {
        let mut batch = Self::default();
        let refused = batch.add(mutation);
        debug_assert!(refused.is_none(), "the first one always fits");
        batch
    }

    pub(super) fn len(&self) -> usize {
        self.mutations.len()
    }

    /// Adds a mutation, or returns it if it belongs to the next group.
    pub(super) fn add(&mut self, mutation: Mutation) -> Option<Mutation> {
        let entry_bytes = self.entry_bytes + mutation.entry_bytes_max();
        let packed_bytes = self.packed_bytes + mutation.packed_bytes_max();
        let lookups = self.lookups + mutation.lookups_max();
        let full = entry_bytes > GROUP_BODY_TARGET_BYTES
            || packed_bytes as u64 > PACK_MAX_BYTES
            || lookups > GROUP_LOOKUPS_MAX
            || is_alone(&mutation)
            || self.mutations.last().is_some_and(is_alone);
        if full && !self.mutations.is_empty() {
            return Some(mutation);
        }
        self.entry_bytes = entry_bytes;
        self.packed_bytes = packed_bytes;
        self.lookups = lookups;
        self.mutations.push(mutation);
        None
    }
}

/// Mutations that make a group of their own: they are decided against the index alone, without the
/// other changes of their group.
fn is_alone(mutation: &Mutation) -> bool {
    matches!(
        mutation.without_cause(),
        Mutation::Bucket(..)
            | Mutation::Relocate(..)
            | Mutation::Rewrap(..)
            | Mutation::OwnerQuota { .. }
            | Mutation::RemoteSegment { .. }
            | Mutation::Follower { .. }
            | Mutation::FollowerNotes { .. }
            | Mutation::Expire(..)
    )
}

/// A group that is durable and not published.
struct UnpublishedGroup {
    entries: Vec<Entry>,
    pack_segment: Option<u64>,
}

/// Writes groups, one at a time.
pub(super) struct GroupWriter {
    shared: Arc<SharedStore>,
    log_writer: LogWriter,
    syncer: SegmentSyncer,
    /// The last group, durable here, while the remote does not have it yet.
    pending: Option<UnpublishedGroup>,
    /// Whether the last group is at or below the watermark of a later group, or has no entries.
    confirmed: bool,
    /// Whether a full index has been logged.
    index_full: bool,
    checkpointer: Checkpointer,
    /// Bytes for growth before the file system is asked for its free space again.
    credit: u64,
    /// Bytes of groups written.
    log_bytes: u64,
    /// The value of `log_bytes` at which space may be requested again.
    retry_room_at: u64,
}

impl GroupWriter {
    pub(super) fn new(shared: Arc<SharedStore>, log_writer: LogWriter) -> Self {
        let checkpointer = Checkpointer::start(shared.clone());
        let syncer = SegmentSyncer::start(Arc::clone(&shared.commit_counters));
        let mut groups = Self {
            shared,
            log_writer,
            syncer,
            pending: None,
            confirmed: true,
            index_full: false,
            checkpointer,
            credit: 0,
            log_bytes: 0,
            retry_room_at: 0,
        };
        groups.log_index_limit();
        groups
    }

    /// Whether an idle group would add nothing.
    pub(super) fn is_confirmed(&self) -> bool {
        self.confirmed
    }

    /// The sequence of the next group.
    pub(super) fn next_sequence(&self) -> u64 {
        self.log_writer.next_sequence()
    }

    /// Makes the changes of a batch durable and visible, and sends the replies.
    pub(super) fn commit(&mut self, batch: MutationBatch) {
        let _latch = LatchOnPanic(self.shared.clone());
        if let Err(error) = self.check_open() {
            for mutation in batch.mutations {
                mutation.reject(error.clone());
            }
            return;
        }
        // 1. Whatever can never be in a group is refused before space is taken for it.
        let (mut mutations, too_large): (Vec<_>, Vec<_>) =
            batch.mutations.into_iter().partition(|m| m.entry_bytes_max() as u64 <= GROUP_BODY_MAX_BYTES);
        for mutation in too_large {
            mutation.reject(StoreError::TooLarge);
        }
        // 2. The entity tags that are MD5s: the planner writes them into the records.
        set_md5_tags(&mut mutations);
        // 3. The space, and the place of the pack: the planner decides by it which changes there is
        //    room for.
        let reserving = self.begin_disk_work();
        let reserved = self.reserve_room(&mutations, batch.entry_bytes, batch.packed_bytes as u64);
        drop(reserving);
        let (room, place) = match reserved {
            Ok(found) => found,
            Err(error) => {
                let error = self.shared.write_failed(error);
                for mutation in mutations {
                    mutation.reject(error.clone());
                }
                return;
            }
        };
        let begun = Instant::now();
        let count = mutations.len();
        // 4. The decisions. Nothing is written by them, so that a group without changes costs no
        //    sync.
        let mut plan = self.plan(mutations, room, place.as_ref());
        let place = self.release_if_unused(place, &plan);
        let replies = std::mem::take(&mut plan.replies);
        // 5. The group is durable and published before anybody is answered, refusals included: a
        //    refusal may rest on a change of this group, and a client that is told of it would see
        //    that change undone after a crash.
        let done = if plan.entries.is_empty() {
            Ok(())
        } else {
            let done = self.write(plan, place.as_ref(), batch.entry_bytes);
            if done.is_ok() {
                self.shared.commit_counters.count_group(count, begun.elapsed());
            }
            done
        };
        // The allocation ends with the group: until then its segment could neither be sealed nor
        // removed.
        drop(place);
        send_replies(replies, &done);
        self.after_commit();
    }

    fn begin_disk_work(&self) -> DiskWork {
        DiskWork::begin(&self.shared.commit_counters, self.shared.clock.instant())
    }

    /// The claims that have disk space, and the allocation of the pack, if there is a pack and
    /// space for it.
    fn reserve_room(
        &mut self,
        mutations: &[Mutation],
        entry_bytes: usize,
        packed_bytes: u64,
    ) -> Result<(AvailableRoom, Option<Allocation>), LogError> {
        let room = self.available_room(entry_bytes as u64)?;
        if !room.growth && mutations.iter().any(|mutation| mutation.claim() == SpaceClaim::Growth) {
            self.shared.request_reclaim();
            self.request_room(SpaceClaim::Growth);
        }
        let place = if room.growth { self.place_pack(packed_bytes)? } else { None };
        Ok((room, place))
    }

    /// The claims that have disk space. Entries are counted twice: for the log, and for the next
    /// checkpoint.
    fn available_room(&mut self, entry_bytes: u64) -> Result<AvailableRoom, LogError> {
        let need = 2 * entry_bytes;
        if let Some(rest) = self.credit.checked_sub(need) {
            self.credit = rest;
            return Ok(AvailableRoom { growth: true, upkeep: true });
        }
        let free = self.shared.room(SpaceClaim::Growth)?;
        self.credit = (free.saturating_sub(need) / CREDIT_SHARE).min(CREDIT_MAX_BYTES);
        let upkeep = self.shared.room(SpaceClaim::Upkeep)? >= need;
        Ok(AvailableRoom { growth: free >= need, upkeep })
    }

    /// Allocates the pack; `None` if there is no pack or no space.
    fn place_pack(&self, len: u64) -> Result<Option<Allocation>, LogError> {
        if len == 0 {
            return Ok(None);
        }
        match self.shared.segments.allocate(WriteHead::Small, len) {
            Ok(place) => Ok(Some(place)),
            Err(LogError::DiskFull(_)) => {
                self.shared.request_reclaim();
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn plan(&self, mutations: Vec<Mutation>, room: AvailableRoom, place: Option<&Allocation>) -> GroupPlan {
        let index = self.shared.index();
        let place_len = place.map(|place| place.len);
        let growth = IndexBudget::of(&index, self.shared.options.index_max_bytes);
        let lock_clock = &self.shared.lock_clock;
        let quotas = self.shared.owner_quotas();
        let accounts = UsageAccounts::new(&index, &quotas, &self.shared.options);
        let ids = &self.shared.ids;
        let keys = self.shared.keys();
        let mut planner = Planner::new((&index, accounts), ids, lock_clock, (room, growth), place_len, keys);
        for mutation in mutations {
            planner.add(mutation);
        }
        planner.finish()
    }

    /// Releases the allocation if the plan has no pack.
    fn release_if_unused(&self, place: Option<Allocation>, plan: &GroupPlan) -> Option<Allocation> {
        if let Some(place) = place.as_ref().filter(|_| plan.pack.is_empty()) {
            self.shared.segments.release_unused(WriteHead::Small, place, 0);
        }
        place.filter(|_| !plan.pack.is_empty())
    }

    /// Makes a plan durable, then visible.
    fn write(
        &mut self,
        mut plan: GroupPlan,
        place: Option<&Allocation>,
        entry_bytes_max: usize,
    ) -> Result<(), StoreError> {
        // An idle group comes here without the look of `check_open`: the group before it is
        // published first, so that the index never skips one.
        self.settle_pending()?;
        self.ensure_log_room(&plan, entry_bytes_max).map_err(|error| self.shared.write_failed(error))?;
        // The remote and the checkpointer, which are waited for before, may take their time.
        let writing = self.begin_disk_work();
        self.log_writer
            .require(features_of(&plan.entries))
            .map_err(|error| self.shared.write_failed(error))?;
        let pack = self.write_pack(&mut plan, place).map_err(|error| self.shared.write_failed(error))?;
        // The segment is synced while the group is encoded, written and synced. The order does not
        // matter: a group is valid only with its pack.
        if let Some(place) = &place {
            self.syncer.begin(place.segment.file.clone());
        }
        let body = encoded(&plan.entries);
        let written = self.log_writer.write(plan.entries.len() as u32, &body, pack);
        let begun = Instant::now();
        let log_synced = written.as_ref().map_or(Ok(()), |_| self.log_writer.file().sync_data());
        self.shared.commit_counters.count_sync(begun.elapsed());
        let segment_synced = place.map_or(Ok(()), |_| self.syncer.wait());
        segment_synced.map_err(|error| {
            let path = place.map(|place| place.segment.path()).unwrap_or_default();
            self.sync_failed(&path, &error)
        })?;
        log_synced.map_err(|error| self.sync_failed(&self.log_writer.path(), &error))?;
        // The next group overwrites one that failed.
        let written = written.map_err(|error| self.shared.write_failed(error))?;
        // In the meantime, another thread may have failed to sync a segment with objects of this
        // group.
        self.shared.check_writable()?;
        self.log_writer.mark_durable(&written);
        drop(writing);
        self.log_bytes += written.len();
        let group = LogVolume::of_group(plan.entries.len() as u64, body.len() as u64);
        self.shared.backlog.add(group, self.shared.segments.reserve());
        let pack_segment = place.map(|place| place.segment.id);
        // Kept until it is published: it is durable, and counts whatever becomes of the remote.
        self.pending = Some(UnpublishedGroup { entries: plan.entries, pack_segment });
        self.shared.set_unpublished(true);
        self.settle_pending().map_err(|error| match error {
            StoreError::RemoteUnavailable(why) => StoreError::InDoubt(why),
            error => error,
        })
    }

    /// Fails if nothing can be committed now.
    fn check_open(&mut self) -> Result<(), StoreError> {
        self.shared.check_writable()?;
        self.shared.check_epoch()?;
        self.shared.check_lag()?;
        self.settle_pending()
    }

    /// Publishes the last group, where that is still to be done. Where each write is answered only
    /// after the remote has it, it is shipped before.
    fn settle_pending(&mut self) -> Result<(), StoreError> {
        let Some(pending) = &self.pending else { return Ok(()) };
        // Groups without entries are written before the epoch begins, and shipped at its beginning.
        // Others wait for an epoch: that in which they were written may have ended meanwhile.
        let is_sync = self.shared.shipping().is_some_and(LogShipping::is_sync);
        if is_sync && (!pending.entries.is_empty() || self.shared.check_epoch().is_ok()) {
            self.shared.ensure_shipped(self.log_writer.next_sequence() - 1)?;
        }
        // Taken only now: after an error of the remote the next call tries again.
        let Some(UnpublishedGroup { entries, pack_segment }) = self.pending.take() else { return Ok(()) };
        self.publish(&entries, pack_segment)?;
        self.shared.set_unpublished(false);
        Ok(())
    }

    /// Makes sure that the log has space for a group. If only the reserve for a checkpoint is left,
    /// it waits for the checkpoint that frees old log files.
    fn ensure_log_room(&mut self, plan: &GroupPlan, entry_bytes_max: usize) -> Result<(), LogError> {
        // Usually the preallocated zeros suffice for the bound.
        if self.log_writer.space_for(entry_bytes_max as u64).is_none() {
            return Ok(());
        }
        let len = encoded(&plan.entries).len() + plan.pack_extents_bytes_max();
        let Some(wanted) = self.log_writer.space_for(len as u64) else { return Ok(()) };
        let mut spare = self.shared.room(SpaceClaim::Removal)?;
        if self.shared.lacks_room(SpaceClaim::Upkeep, 0)? {
            self.request_room(SpaceClaim::Upkeep);
        }
        if spare < wanted.minimum {
            self.shared.request_reclaim();
            // A checkpoint frees whole files of the log alone, so that the current one is closed
            // first.
            self.roll_log()?;
            self.checkpointer.wait_for_room(SpaceClaim::Removal, wanted.preferred);
            spare = self.shared.room(SpaceClaim::Removal)?;
        }
        self.log_writer.set_space_limit(spare);
        Ok(())
    }

    fn write_pack(&self, plan: &mut GroupPlan, place: Option<&Allocation>) -> Result<Option<Pack>, LogError> {
        let pack = std::mem::take(&mut plan.pack);
        let Some(place) = place else {
            return Ok(None);
        };
        let used = pack.len();
        self.shared.segments.write_zeros_ahead(place, used)?;
        let (pack, extents) = pack.write(&self.shared.store, place)?;
        plan.place_pack(&extents);
        self.shared.segments.release_unused(WriteHead::Small, place, used);
        Ok(Some(pack))
    }

    /// Applies the entries to a copy-on-write clone of the index and publishes it.
    fn publish(&mut self, entries: &[Entry], pack_segment: Option<u64>) -> Result<(), StoreError> {
        // Cheap: the parts that do not change are shared with the index that readers have.
        let mut index = Index::clone(&self.shared.index());
        for entry in entries {
            if let Err(error) = index.apply(entry) {
                let why = format!("a durable entry does not fit the index: {error}");
                self.shared.latch(ReadOnlyReason::Contradiction, why.clone());
                return Err(StoreError::ReadOnly(why));
            }
        }
        let sequence = self.log_writer.next_sequence() - 1;
        self.shared.bound_versions(sequence, entries);
        self.shared.publish(Published {
            index: Arc::new(index),
            sequence,
            doubtful_segment: pack_segment.unwrap_or(0),
        });
        self.confirmed = entries.is_empty();
        self.log_index_limit();
        Ok(())
    }

    /// Logs when the index becomes full, and when it has space again.
    fn log_index_limit(&mut self) {
        let room = self.shared.index_budget();
        match room.check() {
            Err(why) if !self.index_full => {
                self.index_full = true;
                log::warn!("puts are refused: {why}");
            }
            Ok(()) if self.index_full && room.has_recovered() => {
                self.index_full = false;
                log::info!("puts are accepted again: the index has space");
            }
            _ => {}
        }
    }

    /// Writes a group without entries, whose watermark confirms that the last group is durable.
    pub(super) fn write_idle_group(&mut self) -> Result<(), StoreError> {
        let _latch = LatchOnPanic(self.shared.clone());
        self.confirmed = true;
        self.shared.check_writable()?;
        self.write(GroupPlan::default(), None, 0)
    }

    /// Goes on with the log in a new file. The group without entries before it makes sure that the
    /// old file has one: the log does not leave a file without.
    pub(super) fn begin_log_file(&mut self) -> Result<(), StoreError> {
        self.write_idle_group()?;
        self.roll_log().map_err(|error| self.shared.write_failed(error))
    }

    fn sync_failed(&self, path: &str, error: &io::Error) -> StoreError {
        let why = format!("syncing {path} failed: {error}");
        self.shared.latch(ReadOnlyReason::SyncFailed, why.clone());
        StoreError::ReadOnly(why)
    }

    fn after_commit(&mut self) {
        if let Err(error) = self.shared.segments.seal_retired_beside_log() {
            log::warn!("a full segment could not be sealed: {error}");
            self.shared.write_failed(error);
        }
        self.request_checkpoint_if_due();
    }

    fn request_checkpoint_if_due(&mut self) {
        if self.checkpointer.is_free() && checkpointer::is_due(&self.shared) {
            match self.roll_log() {
                Ok(()) => self.checkpointer.request(),
                Err(error) => drop(self.shared.write_failed(error)),
            }
        }
    }

    /// Requests space from the metadata without waiting for it, at most once per
    /// [`RETRY_ROOM_AFTER_BYTES`].
    fn request_room(&mut self, claim: SpaceClaim) {
        if self.log_bytes < self.retry_room_at {
            return;
        }
        self.retry_room_at = self.log_bytes + RETRY_ROOM_AFTER_BYTES;
        match self.roll_log() {
            Ok(()) => self.checkpointer.request_room(claim),
            Err(error) => drop(self.shared.write_failed(error)),
        }
    }

    /// Starts a new log file, so that the next checkpoint frees all files before it. On a full disk
    /// the log stays in its file.
    fn roll_log(&mut self) -> Result<(), LogError> {
        self.log_writer.set_space_limit(self.shared.room(SpaceClaim::Removal)?);
        match self.log_writer.roll() {
            Err(LogError::DiskFull(_)) => Ok(()),
            rolled => rolled,
        }
    }

    /// Stops. If the store is closed in order, writes a checkpoint, unless the log after the last
    /// one is short.
    pub(super) fn stop(mut self, closed: bool) {
        let replay_time = self.shared.backlog.replay_time();
        // By the time that the next start would take to read the log: a checkpoint of a large store
        // may take longer than that.
        let brief = replay_time <= self.shared.options.replay_after_close_max;
        if closed && brief && !replay_time.is_zero() && !self.confirmed {
            // If it fails, the next start verifies the pack of the last group.
            let _ = self.write_idle_group();
        }
        self.checkpointer.end();
        if self.shared.check_writable().is_err() {
            return;
        }
        if let Err(error) = self.shared.segments.trim_zeros() {
            log::warn!(
                "preallocated zeros stay at the end of a segment until its extents are relocated: {error}"
            );
        }
        if !closed || brief {
            return;
        }
        if let Err(error) = checkpointer::write(&self.shared) {
            log::warn!("no checkpoint was written, so that the next start reads more of the log: {error}");
        }
    }
}

/// Latches the store read-only if a commit panics: the state of its group is unknown.
struct LatchOnPanic(Arc<SharedStore>);

impl Drop for LatchOnPanic {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.latch(ReadOnlyReason::Panicked, "a commit panicked".into());
        }
    }
}

fn features_of(entries: &[Entry]) -> Features {
    entries.iter().fold(Features::NONE, |features, entry| features.with(entry.features()))
}

fn encoded(entries: &[Entry]) -> Vec<u8> {
    let mut body = Vec::with_capacity(128 * entries.len());
    for entry in entries {
        entry.encode(&mut body);
    }
    body
}

/// Computes the MD5s that the policy leaves to the committer (`base::md5_policy`), side by side.
fn set_md5_tags(mutations: &mut [Mutation]) {
    let (payloads, tags): (Vec<_>, Vec<_>) = mutations.iter_mut().filter_map(Mutation::md5_due).unzip();
    for (tag, md5) in tags.into_iter().zip(md5_of_each(&payloads)) {
        *tag = ETag::Md5(md5);
    }
}

fn send_replies(replies: Vec<PendingReply>, done: &Result<(), StoreError>) {
    for answer in replies {
        answer(done.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::UploadId;
    use crate::store::commit::mutation::UploadChange;
    use crate::store::{DeleteCondition, Deletion, Selector};

    fn deletion_of(keys: usize) -> Mutation {
        let condition = DeleteCondition::default();
        let deletion = Deletion { key: "k".into(), which: Selector::Null, condition };
        let (reply, _answer) = oneshot::channel();
        let bucket = "b".to_owned();
        let deletions = vec![deletion; keys];
        Mutation::Delete { bucket, deletions, bypass_governance: false, reply }
    }

    fn abort_of(parts: usize) -> Mutation {
        let (reply, _answer) = oneshot::channel();
        let change = UploadChange::Abort { upload: UploadId::NONE, parts };
        Mutation::Upload { bucket: "b".into(), key: "k".into(), change, reply }
    }

    #[test]
    fn an_abort_counts_by_its_parts() {
        let mut batch = MutationBatch::of(abort_of(10_000));
        assert!(batch.add(abort_of(10_000)).is_some(), "the next group");
        assert!(batch.add(abort_of(0)).is_none());
    }

    #[test]
    fn a_deletion_of_many_keys_counts_as_many_mutations() {
        let mut batch = MutationBatch::of(deletion_of(1_000));
        assert!(batch.add(deletion_of(1_000)).is_some(), "the next group");
        for _ in 0..GROUP_LOOKUPS_MAX - 1_000 {
            assert!(batch.add(deletion_of(1)).is_none());
        }
        assert!(batch.add(deletion_of(1)).is_some());
        let larger = MutationBatch::of(deletion_of(2 * GROUP_LOOKUPS_MAX));
        assert_eq!(larger.len(), 1, "the first one always fits");
    }
}
