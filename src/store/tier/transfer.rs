//! Sending segments to the remote, and deleting their copies there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use super::{Tier, TierProgress};
use crate::base::Entropy;
use crate::base::limits::{BLOCK_BYTES, PAGE_BYTES};
use crate::format::{CopyPhase, RemoteCopy, segment_path};
use crate::fs::File;
use crate::index::Index;
use crate::log::{LogError, Segment};
use crate::remote::{Body, Comparison, NewObject, RemoteError};
use crate::store::remote_log::request::{BACKGROUND, FileBody, PATIENCE};
use crate::store::sweep::sealed::SealedExtents;
use crate::store::{Store, StoreError};

/// Copies that one call deletes.
const DELETED_PER_CALL: usize = 64;
/// Places of a copy that are read back where the remote does not say its MD5.
const SAMPLES: u64 = 8;

impl Store {
    /// The sealed segments with live bytes whose copy is not complete, the oldest first.
    pub(super) fn waiting<'i>(&self, index: &'i Index) -> impl Iterator<Item = u64> + use<'i> {
        let unsealed = self.shared.segments.unsealed();
        let doubtful = self.shared.published().doubtful_segment;
        self.shared.segments.immutable_segments().into_iter().filter(move |id| {
            index.liveness().of(*id) > 0
                && *id != doubtful
                && !unsealed.contains(id)
                && index.remote_copy(*id).is_none_or(|copy| copy.phase == CopyPhase::Leaving)
        })
    }

    /// Sends the oldest waiting segment.
    pub(super) fn send_next(
        &self,
        tier: &Tier,
        entropy: &dyn Entropy,
        done: &mut TierProgress,
    ) -> Result<(), StoreError> {
        let index = self.shared.index();
        let mut checks = tier.checks.lock().unwrap_or_else(PoisonError::into_inner);
        let mut waiting: Vec<u64> = self.waiting(&index).collect();
        waiting.retain(|id| !checks.is_damaged(*id, &index));
        let Some(&id) = waiting.first() else { return Ok(()) };
        check_mark(tier)?;
        let file = tier.fs.open_read(&segment_path(id)).map_err(|error| self.shared.failed(error.into()))?;
        let segment = Arc::new(Segment { id, file });
        done.more |= waiting.len() > 1;
        // 1. All live extents are read: damage stays here, where it can be looked at.
        if !self.is_good(&mut checks, &segment, &waiting)? {
            return Ok(());
        }
        self.look_before_put(tier)?;
        // 2. A group states the intent and the name. From then on no hole is punched, so that every
        //    try sends the same bytes under one name; without it a crash after the put would leave
        //    an object that nothing names.
        let copy = self.intend(tier, &index, id, segment.file.as_ref(), entropy)?;
        // 3. The bytes are put, and compared with what the remote has.
        send(tier, id, &copy, segment.file.as_ref(), false).map_err(|error| self.remote_failed(id, error))?;
        let tables = checks.extents.tables(&segment);
        tier.keep_tables(id, tables.iter().map(|(offset, bytes)| (*offset, bytes.as_slice())));
        // 4. A group calls the segment remote, once the remote has every byte of it.
        self.set_remote_copy(id, Some(self.in_phase(copy, CopyPhase::Remote)))?;
        // 5. Only then may local bytes go: this is what lets the cache give them back.
        tier.cache(id).set_copy(&copy, self.shared.published().sequence);
        done.sent += 1;
        Ok(())
    }

    /// Whether all live extents of the first of the waiting segments are good. They are read once,
    /// however often it is sent.
    fn is_good(
        &self,
        checks: &mut SegmentChecks,
        segment: &Arc<Segment>,
        waiting: &[u64],
    ) -> Result<bool, StoreError> {
        if !checks.extents.has(segment.id) {
            checks.extents = SealedExtents::find(&self.shared, waiting);
        }
        if checks.good == Some(segment.id) {
            return Ok(true);
        }
        let bad = self.check_sealed(segment, &checks.extents)?;
        if bad == 0 {
            checks.good = Some(segment.id);
            return Ok(true);
        }
        log::error!("{} is not sent to the remote: {bad} of its live extents are damaged", segment.path());
        checks.damaged.insert(segment.id, self.shared.index().liveness().of(segment.id));
        Ok(false)
    }

    /// Fails unless the remote is marked for this store.
    pub(in crate::store) fn check_remote_mark(&self) -> Result<(), StoreError> {
        self.tier.as_ref().map_or(Ok(()), |tier| check_mark(tier))
    }

    /// The copy that a segment leaves for: one intended before, or a new one.
    fn intend(
        &self,
        tier: &Tier,
        index: &Index,
        id: u64,
        file: &dyn File,
        entropy: &dyn Entropy,
    ) -> Result<RemoteCopy, StoreError> {
        if let Some(intended) = index.remote_copy(id) {
            return Ok(*intended);
        }
        let length = file.len().map_err(|error| self.shared.failed(error.into()))?;
        let nonce = entropy.next_u64() as u32;
        let phase = CopyPhase::Leaving;
        let since = self.shared.lock_clock.age_time();
        let epoch = tier.right.epoch().unwrap_or(1);
        let copy = RemoteCopy { phase, epoch, nonce, length, since };
        // A reclaimer at work may be about to punch holes; the next one sees the intent.
        let _idle = self.reclaimer.lock().unwrap_or_else(PoisonError::into_inner);
        self.set_remote_copy(id, Some(copy))?;
        Ok(copy)
    }

    /// Drops the copies of segments that are gone, and deletes those that were dropped long enough
    /// ago.
    pub(super) fn delete_dropped(&self, tier: &Tier, done: &mut TierProgress) -> Result<(), StoreError> {
        let index = self.shared.index();
        let now = self.acts_time();
        let ids: BTreeSet<u64> = self.shared.segments.ids().into_iter().collect();
        let gone: Vec<(u64, RemoteCopy)> = index
            .remote_copies(None)
            .filter(|(id, copy)| match copy.phase {
                // A restore to an earlier time may need it: it goes when the window has passed.
                CopyPhase::Dropped if self.shared.shipping().is_some() => false,
                CopyPhase::Dropped => {
                    now.is_some_and(|now| now.since(copy.since) >= tier.options.keep_dropped)
                }
                _ => !ids.contains(id) && index.liveness().of(*id) == 0,
            })
            .take(DELETED_PER_CALL)
            .map(|(id, copy)| (id, *copy))
            .collect();
        done.more |= gone.len() == DELETED_PER_CALL;
        if gone.iter().any(|(_, copy)| copy.phase == CopyPhase::Dropped) {
            check_mark(tier)?;
            self.look_for_next_epoch(tier)?;
        }
        for (id, copy) in gone {
            // A copy is called dropped long before it is deleted, so that a backup which was
            // restored meanwhile still finds it.
            if copy.phase != CopyPhase::Dropped {
                self.set_remote_copy(id, Some(self.in_phase(copy, CopyPhase::Dropped)))?;
                continue;
            }
            // The object goes before the index forgets its name: a crash in between asks for the
            // delete again, which is answered as the first one.
            let deleted = tier.right.writer()?.delete(&copy.name(id), PATIENCE);
            deleted.map_err(|error| self.remote_failed(id, error))?;
            self.set_remote_copy(id, None)?;
            done.deleted += 1;
        }
        Ok(())
    }

    fn in_phase(&self, copy: RemoteCopy, phase: CopyPhase) -> RemoteCopy {
        RemoteCopy { phase, since: self.shared.lock_clock.age_time(), ..copy }
    }

    pub(super) fn remote_failed(&self, id: u64, error: RemoteError) -> StoreError {
        match error {
            RemoteError::Body(error) => self.shared.failed(LogError::from(error)),
            error => StoreError::RemoteUnavailable(format!("{}: {error}", segment_path(id))),
        }
    }
}

/// Fails unless the remote is marked for this store.
fn check_mark(tier: &Tier) -> Result<(), StoreError> {
    let passed = tier.mark.pass(tier.remote.as_ref(), PATIENCE);
    passed.map_err(|error| StoreError::RemoteUnavailable(error.to_string()))
}

/// The checks of segments before they are sent.
#[derive(Default)]
pub(super) struct SegmentChecks {
    /// The live extents of segments that wait.
    extents: SealedExtents,
    /// The segment that was found good last.
    good: Option<u64>,
    /// Segments with damage, and their live bytes at that time. They stay here until some of those
    /// die, or until the next start.
    damaged: BTreeMap<u64, u64>,
}

impl SegmentChecks {
    fn is_damaged(&self, segment: u64, index: &Index) -> bool {
        self.damaged.get(&segment) == Some(&index.liveness().of(segment))
    }
}

/// Puts a segment, and compares the copy with it. One that `is_missing` may be there in fact, and
/// then stays as it is.
pub(super) fn send(
    tier: &Tier,
    id: u64,
    copy: &RemoteCopy,
    file: &dyn File,
    is_missing: bool,
) -> Result<(), RemoteError> {
    let name = copy.name(id);
    let nonce = copy.put_nonce();
    let body = FileBody { file, range: 0..copy.length };
    let object = NewObject { name: &name, body: &body, nonce: &nonce, create_only: is_missing };
    let writer = tier.right.writer().map_err(|why| RemoteError::Refused(why.to_string()))?;
    let compared = writer.put_and_compare(&object, BACKGROUND.of_bytes(copy.length))?;
    tier.count_sent(copy.length);
    match compared {
        Comparison::Equal => {}
        Comparison::NoDigest => compare_samples(tier, &name, &body)?,
    }
    tier.note_sent(id);
    Ok(())
}

/// Reads some places back, the first and the last page among them.
fn compare_samples(tier: &Tier, name: &str, body: &FileBody<'_>) -> Result<(), RemoteError> {
    let step = (body.length() / SAMPLES).next_multiple_of(PAGE_BYTES);
    let last = body.length() - PAGE_BYTES..body.length();
    let ranges = (0..SAMPLES).map(|nth| nth * step..(nth * step + BLOCK_BYTES).min(body.length()));
    for range in ranges.filter(|range| range.start < range.end).chain([last]) {
        let found = tier.remote.get(name, range.clone(), PATIENCE)?;
        let mut own = vec![0; (range.end - range.start) as usize];
        body.read_at(range.start, &mut own).map_err(RemoteError::Body)?;
        if found != own {
            return Err(RemoteError::Wrong(format!("{name} differs from the segment at {}", range.start)));
        }
    }
    Ok(())
}

impl Tier {
    fn count_sent(&self, bytes: u64) {
        self.sent_bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}
