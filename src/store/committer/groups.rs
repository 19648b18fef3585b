//! One group: what is committed together (data-format.md, section 5, "What a commit writes, and why in this order").

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};

use super::join;
use crate::base::handoff::receive;
use crate::base::limits::{GROUP_BODY_MAX_BYTES, GROUP_MUTATIONS_MAX, PACK_MAX_BYTES};
use crate::base::md5_of_each;
use crate::format::{ETag, Entry, Pack};
use crate::fs::File;
use crate::index::Index;
use crate::log::{Journal, Lane, LogError, Place, Written};
use crate::store::growth::GrowthRoom;
use crate::store::mutation::Mutation;
use crate::store::plan::{Answer, Plan, Planner};
use crate::store::shared::{Published, Shared};
use crate::store::{StoreError, Trouble, checkpointer};

/// A group is closed before its entries could become longer than this; a single mutation may still be, up to what a group
/// can hold.
const GROUP_BODY_TARGET_BYTES: usize = GROUP_BODY_MAX_BYTES as usize / 4;

/// A thread that syncs segments while the committer syncs the log.
struct Syncer {
    files: Sender<Arc<dyn File>>,
    results: Receiver<io::Result<()>>,
}

impl Syncer {
    fn start() -> Self {
        let (files, inbox) = bounded::<Arc<dyn File>>(1);
        let (outbox, results) = bounded(1);
        let run = move || {
            while let Ok(file) = receive(&inbox) {
                if outbox.send(file.sync_data()).is_err() {
                    break;
                }
            }
        };
        thread::Builder::new()
            .name("segment-sync".into())
            .spawn(run)
            .expect("a thread can be started at start-up");
        Self { files, results }
    }

    /// Begins to sync a file; the one before has been waited for.
    fn begin(&self, segment: Arc<dyn File>) {
        self.files.send(segment).expect("the thread lives as long as its sender");
    }

    fn wait(&self) -> io::Result<()> {
        receive(&self.results).expect("the thread answers each file")
    }
}

/// Mutations for one group.
#[derive(Default)]
pub(super) struct Batch {
    mutations: Vec<Mutation>,
    entry_bytes: usize,
    packed_bytes: usize,
}

impl Batch {
    /// The first of a group.
    pub(super) fn of(mutation: Mutation) -> Self {
        let mut batch = Self::default();
        let refused = batch.add(mutation);
        debug_assert!(refused.is_none(), "the first one always fits");
        batch
    }

    pub(super) fn len(&self) -> usize {
        self.mutations.len()
    }

    /// Adds a mutation, or gives it back where it must go into the next group.
    pub(super) fn add(&mut self, mutation: Mutation) -> Option<Mutation> {
        // What these decide on is the index alone, not what others in their group have changed.
        let alone = |m: &Mutation| matches!(m, Mutation::Bucket(..) | Mutation::Move(..));
        let entry_bytes = self.entry_bytes + mutation.entry_bytes_max();
        let packed_bytes = self.packed_bytes + mutation.packed_bytes_max();
        let full = entry_bytes > GROUP_BODY_TARGET_BYTES
            || packed_bytes as u64 > PACK_MAX_BYTES
            || self.mutations.len() >= GROUP_MUTATIONS_MAX
            || alone(&mutation)
            || self.mutations.last().is_some_and(alone);
        if full && !self.mutations.is_empty() {
            return Some(mutation);
        }
        (self.entry_bytes, self.packed_bytes) = (entry_bytes, packed_bytes);
        self.mutations.push(mutation);
        None
    }
}

/// Writes groups, one at a time.
pub(super) struct Groups {
    shared: Arc<Shared>,
    journal: Journal,
    syncer: Syncer,
    /// Whether the last group is below the watermark of a later one, or changed nothing.
    marked: bool,
    /// Whether it was said that the index is full.
    index_full: bool,
    /// Bytes of groups since a checkpoint was last asked for.
    log_bytes: u64,
    checkpoints: Sender<()>,
    checkpointer: JoinHandle<()>,
}

impl Groups {
    pub(super) fn new(shared: Arc<Shared>, journal: Journal) -> Self {
        let (checkpoints, requests) = unbounded();
        let checkpointer = checkpointer::start(shared.clone(), requests);
        let syncer = Syncer::start();
        let mut groups = Self {
            shared,
            journal,
            syncer,
            marked: true,
            index_full: false,
            log_bytes: 0,
            checkpoints,
            checkpointer,
        };
        groups.tell_of_growth();
        groups
    }

    /// Whether a mark would say nothing new.
    pub(super) fn is_marked(&self) -> bool {
        self.marked
    }

    /// The sequence that the next group gets.
    pub(super) fn next_sequence(&self) -> u64 {
        self.journal.next_sequence()
    }

    /// Makes the changes of a batch durable and visible, and answers those who wait for it.
    pub(super) fn commit(&mut self, batch: Batch) {
        let _latch = LatchOnPanic(self.shared.clone());
        if let Err(error) = self.shared.check_writable() {
            batch.mutations.into_iter().for_each(|mutation| mutation.fail(error.clone()));
            return;
        }
        let (mut mutations, too_large): (Vec<_>, Vec<_>) =
            batch.mutations.into_iter().partition(|m| m.entry_bytes_max() as u64 <= GROUP_BODY_MAX_BYTES);
        too_large.into_iter().for_each(|mutation| mutation.fail(StoreError::TooLarge));
        tag_by_md5(&mut mutations);
        let place = match self.place_pack(batch.packed_bytes as u64) {
            Ok(place) => place,
            Err(error) => {
                let error = self.shared.write_failed(error);
                return mutations.into_iter().for_each(|mutation| mutation.fail(error.clone()));
            }
        };
        let mut plan = self.plan(mutations, place.as_ref());
        let place = self.keep_if_needed(place, &plan);
        let answers = std::mem::take(&mut plan.answers);
        let done = if plan.entries.is_empty() { Ok(()) } else { self.write(plan, place.as_ref()) };
        drop(place);
        answer_all(answers, &done);
        self.after_commit();
    }

    /// Finds room for the pack; none when there is no pack or no room.
    fn place_pack(&self, len: u64) -> Result<Option<Place>, LogError> {
        if len == 0 {
            return Ok(None);
        }
        match self.shared.segments.place(Lane::Pack, len) {
            Ok(place) => Ok(Some(place)),
            Err(LogError::DiskFull(_)) => {
                self.shared.want_room();
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn plan(&self, mutations: Vec<Mutation>, place: Option<&Place>) -> Plan {
        let index = self.shared.index();
        let room = place.map(|place| place.len);
        let growth = GrowthRoom::of(&index, self.shared.options.index_max_bytes);
        let mut planner = Planner::new(&index, &self.shared.stamps, self.shared.clock.now(), room, growth);
        mutations.into_iter().for_each(|mutation| planner.add(mutation));
        planner.finish()
    }

    /// Gives back room that the plan turned out to have no use for.
    fn keep_if_needed(&self, place: Option<Place>, plan: &Plan) -> Option<Place> {
        if let Some(place) = place.as_ref().filter(|_| plan.pack.is_empty()) {
            self.shared.segments.give_back(Lane::Pack, place, 0);
        }
        place.filter(|_| !plan.pack.is_empty())
    }

    /// Makes a plan durable and then visible.
    fn write(&mut self, mut plan: Plan, place: Option<&Place>) -> Result<(), StoreError> {
        let pack = self.write_pack(&mut plan, place).map_err(|error| self.shared.write_failed(error))?;
        // The segment is synced while the group is encoded, written and synced. Neither needs the other to be durable first:
        // a group counts only with its pack.
        place.iter().for_each(|place| self.syncer.begin(place.segment.file.clone()));
        let written = self.write_group(&plan, pack);
        let log_synced = written.as_ref().map_or(Ok(()), |_| self.journal.file().sync_data());
        let segment_synced = place.map_or(Ok(()), |_| self.syncer.wait());
        let segment_path = || place.map(|place| place.segment.path()).unwrap_or_default();
        segment_synced.map_err(|error| self.sync_failed(&segment_path(), &error))?;
        log_synced.map_err(|error| self.sync_failed(&self.journal.path(), &error))?;
        // Nothing of a group that failed counts: the next one is written over it.
        let written = written.map_err(|error| self.shared.write_failed(error))?;
        // Another sync may have failed meanwhile, of a segment that this group's objects lie in.
        self.shared.check_writable()?;
        self.journal.is_durable(&written);
        self.log_bytes += written.len();
        self.publish(&plan.entries, place.map(|place| place.segment.id))
    }

    fn write_group(&mut self, plan: &Plan, pack: Option<Pack>) -> Result<Written, LogError> {
        let mut body = Vec::with_capacity(128 * plan.entries.len());
        plan.entries.iter().for_each(|entry| entry.encode(&mut body));
        self.journal.write(plan.entries.len() as u32, &body, pack)
    }

    fn write_pack(&self, plan: &mut Plan, place: Option<&Place>) -> Result<Option<Pack>, LogError> {
        let pack = std::mem::take(&mut plan.pack);
        let Some(place) = place else {
            return Ok(None);
        };
        let used = pack.len();
        self.shared.segments.write_zeros_ahead(place, used)?;
        let (pack, extents) = pack.write(&self.shared.store, place)?;
        plan.place_pack(&extents);
        self.shared.segments.give_back(Lane::Pack, place, used);
        Ok(Some(pack))
    }

    /// Applies the entries to a copy of the index, which costs nothing, and shows that.
    fn publish(&mut self, entries: &[Entry], pack_segment: Option<u64>) -> Result<(), StoreError> {
        let mut index = Index::clone(&self.shared.index());
        for entry in entries {
            if let Err(error) = index.apply(entry) {
                let why = format!("a durable entry does not fit the index: {error}");
                self.shared.latch(Trouble::Contradiction, why.clone());
                return Err(StoreError::ReadOnly(why));
            }
        }
        self.shared.publish(Published {
            index: Arc::new(index),
            sequence: self.journal.next_sequence() - 1,
            doubtful_segment: pack_segment.unwrap_or(0),
        });
        self.marked = entries.is_empty();
        self.tell_of_growth();
        Ok(())
    }

    /// Logs when the index has become full, and when it is so no longer.
    fn tell_of_growth(&mut self) {
        let room = self.shared.growth_room();
        match room.check() {
            Err(why) if !self.index_full => {
                self.index_full = true;
                log::warn!("puts are refused: {why}");
            }
            Ok(()) if self.index_full && room.is_back() => {
                self.index_full = false;
                log::info!("puts are taken again: there is room in the index");
            }
            _ => {}
        }
    }

    /// Writes a group that says that the last one is durable.
    pub(super) fn mark(&mut self) -> Result<(), StoreError> {
        let _latch = LatchOnPanic(self.shared.clone());
        self.marked = true;
        self.shared.check_writable()?;
        self.write(Plan::default(), None)
    }

    fn sync_failed(&self, path: &str, error: &io::Error) -> StoreError {
        let why = format!("syncing {path} failed: {error}");
        self.shared.latch(Trouble::SyncFailed, why.clone());
        StoreError::ReadOnly(why)
    }

    fn after_commit(&mut self) {
        if let Err(error) = self.shared.segments.seal_retired() {
            log::warn!("a full segment could not be sealed: {error}");
            self.shared.write_failed(error);
        }
        if self.log_bytes >= checkpointer::due_after(&self.shared) {
            self.log_bytes = 0;
            let _ = self.checkpoints.send(());
        }
    }

    /// Ends; where the store was closed in good order, with a checkpoint.
    pub(super) fn stop(self, closed: bool) {
        drop(self.checkpoints);
        join(self.checkpointer);
        if self.shared.check_writable().is_err() {
            return;
        }
        if let Err(error) = self.shared.segments.take_zeros_back() {
            log::warn!("zeros stay at the end of a segment until what lives in it is moved: {error}");
        }
        if !closed {
            return;
        }
        if let Err(error) = checkpointer::write(&self.shared) {
            log::warn!("no checkpoint was written, so that the next start reads more of the log: {error}");
        }
    }
}

/// Ends all writing where a group ends by a panic: what had been done of it by then nobody knows.
struct LatchOnPanic(Arc<Shared>);

impl Drop for LatchOnPanic {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.latch(Trouble::Panicked, "a commit ended by a panic".into());
        }
    }
}

/// Works out the MD5s that are left to the committer, side by side.
fn tag_by_md5(mutations: &mut [Mutation]) {
    let (payloads, tags): (Vec<_>, Vec<_>) = mutations.iter_mut().filter_map(Mutation::md5_due).unzip();
    tags.into_iter().zip(md5_of_each(&payloads)).for_each(|(tag, md5)| *tag = ETag::Md5(md5));
}

fn answer_all(answers: Vec<Answer>, done: &Result<(), StoreError>) {
    for answer in answers {
        answer(done.clone());
    }
}
