//! Moving the live extents of some segments to others: steps 5 to 7.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::ControlFlow;

use super::{KEYS_PER_WALK, ReclaimPhase, ReclaimRun, WALKS_PER_CALL, encoded_len};
use crate::base::limits::{MIB, MOVE_BATCH_BYTES};
use crate::format::{Entry, ExtentRef, MoveVerdict};
use crate::index::Cursor;
use crate::log::{CopiedExtents, CopyError, ExtentCopier, ExtentLocation, LogError};
use crate::store::StoreError;
use crate::store::commit::mutation::{Mutation, RecordId, ReferringRecord, Relocation};

/// The most records updated in one group, and the most bytes of them, so that no commit waits for
/// long.
const REFERRERS_PER_GROUP: usize = 256;
const REFERRER_BYTES_PER_GROUP: usize = 2 * MIB as usize;
/// Relocated shared extents that are tracked. Those beyond wait for the next pass.
pub(super) const SHARED_TRACKED_MAX: usize = 100_000;

/// The relocation of the live extents of some segments.
pub(super) struct RelocationPass {
    /// The segments, with their live bytes at the beginning.
    segments: BTreeMap<u64, u64>,
    cursor: Cursor,
    queue: VecDeque<RecordToMove>,
    /// Relocated shared extents, with their new locations.
    shared: HashMap<ExtentLocation, ExtentLocation>,
}

/// A record, and its extents that are to be moved.
struct RecordToMove {
    referrer: ReferringRecord,
    extents: Vec<ExtentRef>,
}

impl RelocationPass {
    pub(super) fn new(segments: BTreeMap<u64, u64>) -> Self {
        Self { segments, cursor: Cursor::Start, queue: VecDeque::new(), shared: HashMap::new() }
    }

    fn add(&mut self, entry: Entry) {
        let extents = entry.extents().iter();
        let wanted: Vec<ExtentRef> =
            extents.filter(|extent| self.segments.contains_key(&extent.segment)).copied().collect();
        if wanted.is_empty() {
            return;
        }
        let len = encoded_len(&entry);
        let (bucket, key, id) = match entry {
            Entry::VersionPut { bucket, key, record } => (bucket, key, RecordId::Version(record.id)),
            Entry::PartPut { bucket, key, upload, record } => {
                (bucket, key, RecordId::Part { upload, number: record.number, id: record.id })
            }
            _ => unreachable!("nothing else has extents"),
        };
        self.queue
            .push_back(RecordToMove { referrer: ReferringRecord { bucket, key, id, len }, extents: wanted });
    }
}

impl ReclaimRun<'_> {
    /// Relocates the next batch.
    pub(super) fn relocate_next(&mut self, mut pass: RelocationPass) -> Result<ReclaimPhase, StoreError> {
        for _ in 0..WALKS_PER_CALL {
            if !pass.queue.is_empty() {
                return match self.relocate_batch(&mut pass)? {
                    ControlFlow::Continue(()) => Ok(ReclaimPhase::Move(pass)),
                    ControlFlow::Break(()) => self.finish_relocation(&pass),
                };
            }
            let entries = self.shared.index().walk(&mut pass.cursor, KEYS_PER_WALK);
            if entries.is_empty() {
                return self.finish_relocation(&pass);
            }
            for entry in entries {
                pass.add(entry);
            }
        }
        Ok(ReclaimPhase::Move(pass))
    }

    /// The segments are dead, except for extents that could not be moved, or that passed to another
    /// record during the walk. A segment without progress is not tried again.
    fn finish_relocation(&mut self, pass: &RelocationPass) -> Result<ReclaimPhase, StoreError> {
        self.remove_dead()?;
        for (id, before) in &pass.segments {
            let live = self.shared.index().liveness().of(*id);
            if live >= *before {
                self.reclaimer.move_verdicts.insert(*id, MoveVerdict { live, dense: MoveVerdict::UNMOVABLE });
            } else {
                // There may be other candidates, with the space freed.
                self.done.more = true;
            }
        }
        Ok(ReclaimPhase::Idle)
    }

    fn relocate_batch(&mut self, pass: &mut RelocationPass) -> Result<ControlFlow<()>, StoreError> {
        let mut copier = ExtentCopier::new(&self.shared.segments, self.shared.store);
        let mut batch = RelocationBatch::default();
        let mut flow = ControlFlow::Continue(());
        while let Some(wanted) = pass.queue.pop_front() {
            if self.copy(wanted, pass, &mut batch, &mut copier)? == ControlFlow::Break(()) {
                flow = ControlFlow::Break(());
                break;
            }
            if batch.is_full(copier.bytes()) {
                break;
            }
        }
        // Step 6: the copies are durable on return.
        let copied = match copier.finish() {
            Ok(copied) => copied,
            Err(error) => return self.stop_if_full(error),
        };
        match self.commit_copies(&copied, batch, pass) {
            Err(StoreError::DiskFull) => Ok(ControlFlow::Break(())),
            done => done.map(|()| flow),
        }
    }

    /// Step 5 for one record. Extents that do not fit into the batch return to the queue.
    fn copy(
        &self,
        record: RecordToMove,
        pass: &mut RelocationPass,
        batch: &mut RelocationBatch,
        copier: &mut ExtentCopier<'_>,
    ) -> Result<ControlFlow<()>, StoreError> {
        let RecordToMove { referrer, mut extents } = record;
        let mut rest = Vec::new();
        let mut flow = ControlFlow::Continue(());
        for (at, extent) in extents.iter().enumerate() {
            if copier.bytes() >= MOVE_BATCH_BYTES {
                rest = extents.split_off(at);
                break;
            }
            let location = (extent.segment, extent.offset);
            if let Some(moved) = pass.shared.get(&location) {
                batch.shared.insert(location, *moved);
                continue;
            }
            match copier.copy(extent) {
                Ok(()) if extent.shared => batch.newly_shared.push(location),
                Ok(()) => {}
                Err(CopyError::Source(LogError::Damaged(damage))) => self.shared.report(&damage),
                Err(CopyError::Source(error)) => log::warn!("an extent stays where it is: {error}"),
                Err(CopyError::Target(error)) => {
                    flow = self.stop_if_full(error)?;
                    break;
                }
            }
        }
        if !rest.is_empty() {
            // To the front: the next batch goes on in this record, so that its extents stay in
            // order.
            pass.queue.push_front(RecordToMove { referrer: referrer.clone(), extents: rest });
        }
        // A record is in the batch also where none of its extents was copied: the shared ones may
        // have been moved by an earlier group.
        batch.referrer_bytes += referrer.len;
        batch.referrers.push(referrer);
        Ok(flow)
    }

    /// Step 7. The caller holds `copied`, and so the allocations of the copies.
    fn commit_copies(
        &mut self,
        copied: &CopiedExtents,
        batch: RelocationBatch,
        pass: &mut RelocationPass,
    ) -> Result<(), StoreError> {
        if copied.locations.is_empty() && batch.shared.is_empty() {
            return Ok(());
        }
        let RelocationBatch { referrers, shared, newly_shared, .. } = batch;
        let relocation = Box::new(Relocation { referrers, fresh: copied.locations.clone(), shared });
        self.store.committer.submit(|reply| Mutation::Relocate(relocation, reply))?;
        self.done.moved_bytes += copied.bytes;
        // What follows counts on the commit: a copy that no record refers to is dead as soon as its
        // allocation is released.
        self.reclaimer
            .relocated_into
            .extend(copied.allocations.iter().map(|allocation| allocation.segment.id));
        for location in newly_shared {
            if let Some(moved) =
                copied.locations.get(&location).filter(|_| pass.shared.len() < SHARED_TRACKED_MAX)
            {
                pass.shared.insert(location, *moved);
            }
        }
        Ok(())
    }

    /// A full disk ends the relocation for the time being; any other error ends all writing.
    fn stop_if_full(&self, error: LogError) -> Result<ControlFlow<()>, StoreError> {
        match error {
            LogError::DiskFull(_) => Ok(ControlFlow::Break(())),
            error => Err(self.shared.write_failed(error)),
        }
    }
}

/// The records and extents of one group.
#[derive(Default)]
struct RelocationBatch {
    referrers: Vec<ReferringRecord>,
    referrer_bytes: usize,
    /// Shared extents that an earlier group moved.
    shared: HashMap<ExtentLocation, ExtentLocation>,
    /// Shared extents that this group moves.
    newly_shared: Vec<ExtentLocation>,
}

impl RelocationBatch {
    fn is_full(&self, copied_bytes: u64) -> bool {
        copied_bytes >= MOVE_BATCH_BYTES
            || self.referrers.len() >= REFERRERS_PER_GROUP
            || self.referrer_bytes >= REFERRER_BYTES_PER_GROUP
    }
}
