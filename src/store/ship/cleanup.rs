//! Deleting on the remote: nothing goes that a restore to a time within the window needs.
//!
//! The *base* is the newest root that the epoch has adopted, that is as old as the window, and
//! whose number says that it may become one. A restore to any time of the window begins with it or
//! with a later root. These go:
//!
//! - roots, checkpoints, parcels and data objects that only restores from earlier roots read: their
//!   names come before the base's;
//! - roots after the base that may not become one, after a day, with their checkpoints: restores
//!   begin with the root before;
//! - copies of segments that the base calls dropped.
//!
//! Each step is answered before the next: the base is announced as a *floor*; objects are chosen;
//! the next claim is looked for; the objects are deleted. A deleter that stalls after its look does
//! no harm. The epoch that it does not see begins with the base or a later root, and one that goes
//! back in time looks at the floors after its claim. The model of it is in `tests/remote_model`.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::parcel_builder::put;
use super::{Ship, ShipOptions};
use crate::base::Timestamp;
use crate::format::{CopyPhase, Floor, Parcel, Root};
use crate::store::remote_log::chain::RemoteLog;
use crate::store::remote_log::error::ShipError;
use crate::store::remote_log::request::PATIENCE;
use crate::store::remote_log::root_copies::copies_at;
use crate::store::tier::Tier;
use crate::store::{Store, StoreError};

/// Objects that one call deletes.
const DELETED_PER_CALL: usize = 256;
/// The age from which roots go that may not become a base.
const SPARE_AFTER: Duration = Duration::from_secs(24 * 3600);

/// The work of one call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CleanupProgress {
    /// Objects that were deleted.
    pub deleted: u64,
    /// Whether another call has work to do at once.
    pub more: bool,
}

/// What the cleanup of an epoch knows.
#[derive(Default)]
pub(super) struct Cleanup {
    epoch: u64,
    base: Option<DeleteBase>,
    /// The base that is about to be announced, and its floor: every try puts the same one.
    next: Option<(Floor, DeleteBase)>,
    /// The number of floors that were put.
    floors: u64,
    last_look: Option<Instant>,
    /// Roots after the base that go.
    spare: Vec<Root>,
    /// Whether no object comes before the base any more.
    is_swept: bool,
}

/// A root by which objects are deleted.
struct DeleteBase {
    root: Root,
    /// The names of the copies that no version refers to any more.
    dropped: BTreeSet<String>,
}

/// The roots, the newest of which comes first, that go although they are younger than the base:
/// those of more than a day ago, and of the others those that many parcels made due soon after
/// another one.
fn spare_roots(roots: &[Root], base: Option<Root>, every: Duration, now: Timestamp) -> Vec<Root> {
    let mut spare = Vec::new();
    let mut kept = None;
    for root in roots.iter().rev() {
        let age = now.since(root.made);
        let is_close = kept.is_some_and(|kept| root.made.since(kept) < every);
        let may_go = !Root::is_lasting(root.number) && Some(*root) != base;
        if may_go && (age >= SPARE_AFTER || is_close && age >= every) {
            spare.push(*root);
        } else {
            kept = Some(root.made);
        }
    }
    spare
}

/// An object that goes.
struct DoomedObject {
    name: String,
    bytes: u64,
    /// The segment of which it is a copy.
    segment: Option<u64>,
}

impl Store {
    /// Deletes some of the objects on the remote that no restore to a time within the window needs.
    /// Nothing where the log is not shipped, and before the epoch has begun.
    ///
    /// # Errors
    /// [`StoreError::RemoteUnavailable`]: a later call goes on; the errors of the commit.
    pub fn cleanup_step(&self) -> Result<CleanupProgress, StoreError> {
        let Some(ship) = self.ship.get() else { return Ok(CleanupProgress::default()) };
        let Some(tier) = &self.tier else { return Ok(CleanupProgress::default()) };
        let epoch = ship.epoch.load(Ordering::Acquire);
        // A fenced host deletes nothing: the host that took over has a base and a floor of its own.
        if epoch == 0 || self.shared.check_writable().is_err() {
            return Ok(CleanupProgress::default());
        }
        // While the clock is in doubt, nothing is known to be before the window.
        let Some(now) = self.acts_time() else { return Ok(CleanupProgress::default()) };
        let mut cleanup = ship.cleanup();
        if cleanup.epoch != epoch {
            *cleanup = Cleanup { epoch, ..Cleanup::default() };
        }
        let log = ship.log(&self.shared);

        // 1. The base is found, and told as a floor. An epoch that goes back in time looks at the
        //    floors after its claim: told later, it could begin with a root whose objects go.
        cleanup
            .look_if_due(ship, log, now, self.shared.clock.instant())
            .map_err(|error| unavailable(&error))?;
        // 2. Objects before the base are chosen.
        let mut doomed = cleanup.doomed(log).map_err(|error| unavailable(&error))?;
        doomed.extend(self.dropped_copies(tier, &cleanup, now));
        let more = doomed.len() > DELETED_PER_CALL;
        doomed.truncate(DELETED_PER_CALL);
        // 3. The next claim is looked for. Another host has adopted all that the base has, and
        //    deletes for itself. A claim after this look does no harm, since that epoch begins with
        //    the base or a later root.
        if doomed.is_empty() || log.is_claimed(epoch + 1).map_err(|error| unavailable(&error))? {
            return Ok(CleanupProgress::default());
        }
        // 4. They are deleted.
        let deleted = doomed.len() as u64;
        doomed.iter().try_for_each(|object| self.delete_doomed(ship, object))?;
        Ok(CleanupProgress { deleted, more })
    }

    fn delete_doomed(&self, ship: &Ship, object: &DoomedObject) -> Result<(), StoreError> {
        // The object goes before the index forgets the copy. In the other order a crash in between
        // would leave an object that nothing names, and that only an audit finds.
        let deleted = ship.right.writer()?.delete(&object.name, PATIENCE);
        deleted.map_err(|error| StoreError::RemoteUnavailable(format!("{}: {error}", object.name)))?;
        ship.deleted_objects.fetch_add(1, Ordering::Relaxed);
        ship.deleted_bytes.fetch_add(object.bytes, Ordering::Relaxed);
        object.segment.map_or(Ok(()), |segment| self.set_remote_copy(segment, None))
    }

    /// The copies that the base calls dropped.
    fn dropped_copies(&self, tier: &Tier, cleanup: &Cleanup, now: Timestamp) -> Vec<DoomedObject> {
        let Some(base) = &cleanup.base else { return Vec::new() };
        let index = self.shared.index();
        let copies = index.remote_copies(None).filter(|(_, copy)| {
            copy.phase == CopyPhase::Dropped && now.since(copy.since) >= tier.keep_dropped()
        });
        let named = copies.map(|(id, copy)| DoomedObject {
            name: copy.name(id),
            bytes: copy.length,
            segment: Some(id),
        });
        named.filter(|copy| base.dropped.contains(&copy.name)).take(DELETED_PER_CALL).collect()
    }
}

fn unavailable(error: &ShipError) -> StoreError {
    StoreError::RemoteUnavailable(error.to_string())
}

impl Ship {
    fn cleanup(&self) -> MutexGuard<'_, Cleanup> {
        self.cleanup.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Cleanup {
    /// Looks for a newer base at the interval of roots, and announces it before anything is deleted
    /// by it.
    fn look_if_due(
        &mut self,
        ship: &Ship,
        log: RemoteLog<'_>,
        now: Timestamp,
        instant: Instant,
    ) -> Result<(), ShipError> {
        let is_recent =
            self.last_look.is_some_and(|last| instant.duration_since(last) < ship.options.root_every);
        // A floor whose put had no answer may be there. It is put again as it was before another
        // base is looked for, which would have the same number.
        if self.next.is_none() && !is_recent {
            self.look(ship, log, now)?;
            self.last_look = Some(instant);
        }
        if let Some((floor, _)) = &self.next {
            put(
                ship.writer()?,
                &Floor::name(floor.epoch, floor.number),
                &floor.encode().as_slice(),
                "floor",
            )?;
            self.floors += 1;
            self.base = self.next.take().map(|(_, base)| base);
            self.is_swept = false;
        }
        Ok(())
    }

    fn look(&mut self, ship: &Ship, log: RemoteLog<'_>, now: Timestamp) -> Result<(), ShipError> {
        let ShipOptions { window, .. } = ship.options;
        // From the own cut on: roots of epochs that it has not adopted are none of this log.
        let Some(cut) = log.cut(self.epoch)? else { return Ok(()) };
        let mut roots = Vec::new();
        let mut oldest = now;
        let found = log.chain_from(&cut, &mut |root| {
            roots.push(*root);
            oldest = root.made;
            Root::is_lasting(root.number) && now.since(root.made) >= window
        })?;
        ship.oldest.store(oldest.as_millis(), Ordering::Relaxed);
        let base = found.map(|chain| chain.root);
        // The roots come newest first. The first is left out of the spare ones:
        // The newest root stays, so that a restore is short.
        self.spare = spare_roots(&roots[1.min(roots.len())..], base, ship.options.root_every, now);
        let Some(root) = base.filter(|root| self.base.as_ref().is_none_or(|base| base.root != *root)) else {
            return Ok(());
        };
        // The base's checkpoint decides, and not the index of this moment: a restore to a time
        // after the base may still read a copy that was dropped since.
        let dropped = copies_at(log, &root)?.into_iter().filter(|(_, copy)| copy.phase == CopyPhase::Dropped);
        let dropped = dropped.map(|(segment, copy)| copy.name(segment)).collect();
        let epoch = self.epoch;
        let number = self.floors + 1;
        let floor = Floor { store: log.store, epoch, number, base: root.id() };
        self.next = Some((floor, DeleteBase { root, dropped }));
        Ok(())
    }

    /// The objects of the log that go next.
    fn doomed(&mut self, log: RemoteLog<'_>) -> Result<Vec<DoomedObject>, ShipError> {
        let mut doomed = Vec::new();
        for root in self.spare.drain(..) {
            let checkpoint = (root.checkpoint_name(), root.checkpoint_length);
            // The root goes before its checkpoint: a restore that finds the root would miss the
            // checkpoint.
            for (name, bytes) in [(Root::name(root.epoch, root.number), 0), checkpoint] {
                doomed.push(DoomedObject { name, bytes, segment: None });
            }
        }
        let Some(DeleteBase { root, .. }) = self.base.as_ref().filter(|_| !self.is_swept) else {
            return Ok(doomed);
        };
        // A reader that finds a root finds its checkpoint, unless it stalls: it reads the newest
        // root again then.
        let passed = [
            ("root/", Root::name(root.epoch, root.number)),
            ("checkpoint/", root.checkpoint_name()),
            ("log/", Parcel::name(root.first.epoch, root.first.counter)),
            ("floor/", Floor::name(self.epoch, self.floors)),
        ];
        let before = doomed.len();
        for (prefix, first) in passed {
            if doomed.len() < DELETED_PER_CALL {
                // Listings are in the order of names, and the names in the order of time: the first
                // name that stays ends the search.
                let page = log.page(prefix, "")?.into_iter().take_while(|object| object.name < first);
                doomed.extend(page.map(|object| DoomedObject {
                    name: object.name,
                    bytes: object.length,
                    segment: None,
                }));
            }
        }
        self.is_swept = doomed.len() == before;
        Ok(doomed)
    }
}
