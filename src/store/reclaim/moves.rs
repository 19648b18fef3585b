//! Moving what lives in some segments to others: steps 5 to 7.

use std::collections::{BTreeMap, HashMap, VecDeque};

use super::{Judged, KEYS_AT_ONCE, Phase, Run, WALKS_AT_ONCE, encoded_len, extents_of};
use crate::base::limits::{MIB, MOVE_BATCH_BYTES};
use crate::format::{Entry, ExtentRef};
use crate::index::Cursor;
use crate::log::{CopiedExtents, CopyError, ExtentCopier, ExtentLocation, LogError};
use crate::store::StoreError;
use crate::store::mutation::{Mutation, RecordId, ReferringRecord, Relocation};

/// Records that are changed in one group, and the most bytes of them, so that no commit waits for long.
const OWNERS_AT_ONCE: usize = 256;
const OWNER_BYTES_AT_ONCE: usize = 2 * MIB as usize;
/// Shared extents of which it is remembered where they were moved to. What is behind them waits for the next time.
pub(super) const SHARED_KEPT_MAX: usize = 100_000;

/// What lives in some segments, on its way to others.
pub(super) struct Moves {
    /// The segments, and how much was alive in them at the beginning.
    victims: BTreeMap<u64, u64>,
    cursor: Cursor,
    queue: VecDeque<Wanted>,
    /// Shared extents that were moved, and where to.
    shared: HashMap<ExtentLocation, ExtentLocation>,
}

/// A record, and its extents that are to be moved.
struct Wanted {
    owner: ReferringRecord,
    extents: Vec<ExtentRef>,
}

/// Whether to go on.
#[derive(PartialEq, Eq)]
enum Step {
    GoOn,
    /// All has been looked at, or there is no room left.
    End,
}

impl Moves {
    pub(super) fn new(victims: BTreeMap<u64, u64>) -> Self {
        Self { victims, cursor: Cursor::Start, queue: VecDeque::new(), shared: HashMap::new() }
    }

    fn add(&mut self, entry: Entry) {
        let is_victim = |extent: &&ExtentRef| self.victims.contains_key(&extent.segment);
        let wanted: Vec<ExtentRef> = extents_of(&entry).iter().filter(is_victim).copied().collect();
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
        self.queue.push_back(Wanted { owner: ReferringRecord { bucket, key, id, len }, extents: wanted });
    }
}

impl Run<'_> {
    /// Moves one batch.
    pub(super) fn move_on(&mut self, mut moves: Moves) -> Result<Phase, StoreError> {
        for _ in 0..WALKS_AT_ONCE {
            if !moves.queue.is_empty() {
                return match self.move_batch(&mut moves)? {
                    Step::GoOn => Ok(Phase::Move(moves)),
                    Step::End => self.end(&moves),
                };
            }
            let entries = self.shared.index().walk(&mut moves.cursor, KEYS_AT_ONCE);
            if entries.is_empty() {
                return self.end(&moves);
            }
            entries.into_iter().for_each(|entry| moves.add(entry));
        }
        Ok(Phase::Move(moves))
    }

    /// The segments are dead now, but for what could not be moved, and what was hidden from the walk because it became
    /// another record meanwhile. Where nothing came of it there is no use in trying again.
    fn end(&mut self, moves: &Moves) -> Result<Phase, StoreError> {
        self.remove_dead()?;
        for (id, before) in &moves.victims {
            let live = self.shared.index().liveness().of(*id);
            if live >= *before {
                self.reclaimer.judged.insert(*id, Judged { live, dense: Judged::STUCK });
            } else {
                // There may be others worth it, now that there is room.
                self.done.more = true;
            }
        }
        Ok(Phase::Idle)
    }

    fn move_batch(&mut self, moves: &mut Moves) -> Result<Step, StoreError> {
        let mut copier = ExtentCopier::new(&self.shared.segments, self.shared.store);
        let mut batch = Batch::default();
        let mut step = Step::GoOn;
        while let Some(wanted) = moves.queue.pop_front() {
            if self.copy(wanted, moves, &mut batch, &mut copier)? == Step::End {
                step = Step::End;
                break;
            }
            if batch.is_full(copier.bytes()) {
                break;
            }
        }
        let copied = match copier.finish() {
            Ok(copied) => copied,
            Err(error) => return self.no_room(error),
        };
        match self.refer_to(&copied, batch, moves) {
            Err(StoreError::DiskFull) => Ok(Step::End),
            done => done.map(|()| step),
        }
    }

    /// Step 5 for one record. What does not fit into the batch is put back.
    fn copy(
        &self,
        wanted: Wanted,
        moves: &mut Moves,
        batch: &mut Batch,
        copier: &mut ExtentCopier<'_>,
    ) -> Result<Step, StoreError> {
        let Wanted { owner, mut extents } = wanted;
        let mut rest = Vec::new();
        let mut step = Step::GoOn;
        for (at, extent) in extents.iter().enumerate() {
            if copier.bytes() >= MOVE_BATCH_BYTES {
                rest = extents.split_off(at);
                break;
            }
            let spot = (extent.segment, extent.offset);
            if let Some(moved) = moves.shared.get(&spot) {
                batch.shared.insert(spot, *moved);
                continue;
            }
            match copier.copy(extent) {
                Ok(()) if extent.shared => batch.now_shared.push(spot),
                Ok(()) => {}
                Err(CopyError::Source(LogError::Damaged(damage))) => self.shared.report(&damage),
                Err(CopyError::Source(error)) => log::warn!("an extent stays where it is: {error}"),
                Err(CopyError::Target(error)) => {
                    step = self.no_room(error)?;
                    break;
                }
            }
        }
        if !rest.is_empty() {
            moves.queue.push_front(Wanted { owner: owner.clone(), extents: rest });
        }
        batch.owner_bytes += owner.len;
        batch.owners.push(owner);
        Ok(step)
    }

    /// Step 7. Whoever calls keeps `copied`, and so the places of the copies.
    fn refer_to(
        &mut self,
        copied: &CopiedExtents,
        batch: Batch,
        moves: &mut Moves,
    ) -> Result<(), StoreError> {
        if copied.locations.is_empty() && batch.shared.is_empty() {
            return Ok(());
        }
        let Batch { owners, shared, now_shared, .. } = batch;
        let relocation = Box::new(Relocation { referrers: owners, fresh: copied.locations.clone(), shared });
        self.store.committer.submit(|reply| Mutation::Relocate(relocation, reply))?;
        self.done.moved_bytes += copied.bytes;
        self.reclaimer.filled.extend(copied.allocations.iter().map(|place| place.segment.id));
        for spot in now_shared {
            if let Some(moved) = copied.locations.get(&spot).filter(|_| moves.shared.len() < SHARED_KEPT_MAX)
            {
                moves.shared.insert(spot, *moved);
            }
        }
        Ok(())
    }

    /// A full disk ends the moving for now; any other error the writing.
    fn no_room(&self, error: LogError) -> Result<Step, StoreError> {
        match error {
            LogError::DiskFull(_) => Ok(Step::End),
            error => Err(self.shared.write_failed(error)),
        }
    }
}

/// What is moved in one group.
#[derive(Default)]
struct Batch {
    owners: Vec<ReferringRecord>,
    owner_bytes: usize,
    /// Shared extents that were moved in a group before.
    shared: HashMap<ExtentLocation, ExtentLocation>,
    /// Shared extents that are moved in this one.
    now_shared: Vec<ExtentLocation>,
}

impl Batch {
    fn is_full(&self, copied_bytes: u64) -> bool {
        copied_bytes >= MOVE_BATCH_BYTES
            || self.owners.len() >= OWNERS_AT_ONCE
            || self.owner_bytes >= OWNER_BYTES_AT_ONCE
    }
}
