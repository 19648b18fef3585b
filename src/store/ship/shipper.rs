//! One epoch: parcels, roots, the look for the next claim.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use super::log_inspection::NeededObjects;
use super::parcel_builder::{FrozenParcel, ParcelBuilder, ShippedSegments, put};
use super::{FENCE_CHECK_INTERVAL, LaterClaim, Ship, WriterEpochError};
use crate::base::limits::{KIB, MIB};
use crate::format::{ClaimId, Cut, FileKind, LogPosition, ParcelId, Root, checkpoint_path};
use crate::index::{Cursor, Index};
use crate::log::{LogError, LogFollower, list_numbers};
use crate::store::commit::checkpointer;
use crate::store::remote_log::chain::RemoteLog;
use crate::store::remote_log::request::FileBody;
use crate::store::shared::{LogShipping as _, Published, SharedStore};

/// Keys that are looked at in one step.
const KEYS_AT_ONCE: usize = 256;

/// Parcels of the own tail: to fill a directory again costs less than more of them.
const TAIL_PARCELS_MAX: u64 = 32;

/// A root is put after so many parcels, or so many bytes of them, unless a checkpoint is longer.
const ROOT_AFTER_PARCELS: u64 = 256;
const ROOT_AFTER_BYTES: u64 = 64 * MIB;
/// A parcel costs a reader a request, which is worth so many bytes of a checkpoint.
const PARCEL_IS_WORTH: u64 = 64 * KIB;

/// The root of an adopted epoch from which the log goes on.
pub(super) struct AdoptedRoot {
    pub(super) root: Root,
    /// Parcels after it.
    pub(super) parcels: u64,
    /// What an earlier epoch of this process has shipped.
    pub(super) shipped: Option<ShippedSegments>,
}

/// Parcels that a reader of the newest root has to read.
#[derive(Debug, Clone, Copy, Default)]
struct ParcelVolume {
    parcels: u64,
    bytes: u64,
}

impl ParcelVolume {
    /// Whether a root with a checkpoint of that length spares a reader more than it costs.
    fn is_worth(self, checkpoint: u64) -> bool {
        self.parcels >= ROOT_AFTER_PARCELS.max(checkpoint / PARCEL_IS_WORTH)
            || self.bytes >= ROOT_AFTER_BYTES.max(checkpoint)
    }
}

/// An epoch that has begun.
pub(super) struct WriterEpoch {
    epoch: u64,
    nonce: String,
    follower: LogFollower,
    shipped: ShippedSegments,
    /// The last group that the own log had when the epoch began; 0 once the groups up to it were
    /// shipped. Their bytes may be gone.
    tail: u64,
    /// The index with bytes to be shipped before the first root, and how far they are.
    base: Option<(Arc<Index>, Cursor)>,
    /// Whether nothing is written before a root is put: no adopted epoch has one, or what the
    /// remote lacks is gone here, too.
    needs_root: bool,
    /// The parcel that is on its way, and that every try puts.
    pending: Option<FrozenParcel>,
    /// The first parcel with bytes of segments that were not remote before the checkpoint of the
    /// next root.
    root_first: ParcelId,
    /// Segments with bytes in earlier parcels are sealed when the next root is planned that may
    /// become a base.
    sealed_before: ParcelId,
    /// The root that is on its way, likewise.
    pending_root: Option<Root>,
    next_counter: u64,
    /// The last parcels with their last groups, since the last root but one.
    ends: Vec<(u64, u64)>,
    roots: u64,
    last_root: Instant,
    /// Parcels that were put since the last root, and their bytes; adopted epochs' included.
    since_root: ParcelVolume,
    last_look: Instant,
    /// The newest root that is put.
    newest_root: Option<Root>,
    /// The parcels that it or a later one needs, each with its bytes and its data objects' bytes.
    parcels: BTreeMap<u64, u64>,
}

impl WriterEpoch {
    /// An epoch whose cut is put. Where an adopted epoch has a root, the groups after the cut are
    /// what the remote lacks. Otherwise the bytes of all segments have to follow, and a root,
    /// before anything is written.
    pub(super) fn new(
        shared: &SharedStore,
        cut: &Cut,
        nonce: String,
        adopted: Option<AdoptedRoot>,
    ) -> Result<Self, WriterEpochError> {
        let Published { index, sequence, .. } = shared.published();
        // A first epoch begins with the groups after this moment: what is older comes with its
        // first root.
        let from = if cut.former == 0 { sequence } else { cut.end.sequence };
        let needs_root = adopted.is_none();
        let now = shared.clock.instant();
        let mut root_first = ParcelId { epoch: cut.epoch, counter: 1 };
        let mut last_root = now;
        let mut since_root = ParcelVolume::default();
        if let Some(AdoptedRoot { root, parcels, .. }) = &adopted {
            root_first = root.first;
            // The next root is due as if the adopted epoch had gone on.
            let age = shared.clock.now().since(root.made);
            last_root = now.checked_sub(age).unwrap_or(now);
            since_root.parcels = *parcels;
        }
        let newest_root = adopted.as_ref().map(|adopted| adopted.root);
        let mut shipped = match adopted {
            None => ShippedSegments::of(&index),
            Some(AdoptedRoot { shipped: Some(shipped), .. }) => shipped,
            Some(AdoptedRoot { root, .. }) => ShippedSegments::adopted(&index, &shared.segments, &root),
        };
        // What this directory holds after the cut is in no parcel of the adopted log, also where an
        // earlier epoch of this process has shipped it.
        shipped
            .go_back(shared, groups_after(shared, from)?, sequence)
            .map_err(|error| failed(shared, error))?;
        Ok(Self {
            epoch: cut.epoch,
            nonce,
            follower: groups_after(shared, from)?,
            shipped,
            tail: sequence,
            base: needs_root.then_some((index, Cursor::Start)),
            needs_root,
            pending: None,
            root_first,
            // Segments that were not sealed through the whole epoch before hold up the deletes of
            // parcels.
            sealed_before: ParcelId { epoch: cut.former, counter: 0 },
            pending_root: None,
            next_counter: 1,
            ends: Vec::new(),
            roots: 0,
            last_root,
            since_root,
            last_look: now,
            newest_root,
            parcels: BTreeMap::new(),
        })
    }

    /// Begins where the adopted epoch ends. Where there is no root to go on from, the bytes of all
    /// segments that the remote does not have are shipped, and a root, and nothing is written
    /// meanwhile. After an error of the remote another call goes on.
    pub(super) fn begin(&mut self, ship: &Ship, shared: &SharedStore) -> Result<(), WriterEpochError> {
        if self.needs_root {
            // 1. The bytes come before the root that names them: a root on the remote is one that a
            //    restore may begin with at once.
            self.ship_tail(ship, shared)?;
            self.ship_base(ship, shared)?;
            // 2. The parcels that the root needs are noted before its checkpoint is written. In the
            //    other order a segment could become remote in between: the checkpoint would still
            //    read its bytes from parcels, and those would not count as needed.
            let root = match self.pending_root {
                Some(root) => root,
                None => {
                    self.plan_root(shared);
                    checkpointer::write(shared).map_err(WriterEpochError::Store)?;
                    self.freeze_root(shared, self.next_counter - 1)?
                }
            };
            put_root(ship, shared, &root, &self.nonce)?;
            self.root_was_put(shared, &root);
            // 3. Groups after the root follow as parcels.
            let follower = LogFollower::after(shared.fs.clone(), shared.store, root.covered.sequence);
            self.follower = follower.map_err(|error| WriterEpochError::Store(shared.failed(error)))?;
            self.needs_root = false;
        }
        self.look_for_claim(ship, shared)?;
        ship.shipped.store(self.follower.position().sequence, Ordering::Release);
        Ok(())
    }

    /// What was shipped, for a later epoch of this process; `None` while bytes are on their way
    /// that only the next root makes a part of the log.
    pub(super) fn into_shipped(self) -> Option<ShippedSegments> {
        (!self.needs_root).then_some(self.shipped)
    }

    pub(super) fn epoch(&self) -> u64 {
        self.epoch
    }

    pub(super) fn needs_root(&self) -> bool {
        self.needs_root
    }

    /// Its claim.
    pub(super) fn claim(&self) -> Option<ClaimId> {
        let nonce = u64::from_str_radix(&self.nonce, 16).ok()?;
        Some(ClaimId { epoch: self.epoch, nonce })
    }

    /// Ships groups up to `through`, and looks for the next claim after each parcel.
    pub(super) fn ship(
        &mut self,
        ship: &Ship,
        shared: &SharedStore,
        through: u64,
    ) -> Result<(), WriterEpochError> {
        while !ship.has(through) {
            // 1. The parcel is frozen: after an error every try puts the same bytes, since a try
            //    without an answer may have reached the remote.
            if self.pending.is_none() {
                self.pending = self.next_parcel(shared, through)?;
            }
            // 2. It is put.
            self.put_pending(ship, shared)?;
            // 3. The next claim is looked for, after the put. A host that takes over claims first
            //    and reads the parcels then, so that one of the two sees the other. With the look
            //    before the put, the claim and the read could come in between: the writes of this
            //    parcel would be answered, and the new epoch would lack them. Without a new parcel
            //    this is the look that failed after the last one.
            self.look_for_claim(ship, shared)?;
            // 4. Only then are writes up to here answered, in the mode that waits for the remote.
            ship.shipped.store(self.follower.position().sequence, Ordering::Release);
            ship.last_parcel.store(shared.clock.now().as_millis(), Ordering::Relaxed);
        }
        Ok(())
    }

    /// Whether the last look for the next claim was long ago.
    pub(super) fn is_look_due(&self, ship: &Ship, shared: &SharedStore) -> bool {
        let now = shared.clock.instant();
        let idle = ship.heartbeat_every(shared.clock.now()).max(FENCE_CHECK_INTERVAL);
        // Who promises a bound of the lag looks three times within it.
        let interval = ship.options.lag_max.map_or(idle, |most| idle.min(most / 3));
        now.duration_since(self.last_look).max(ship.in_step.since_look(now)) >= interval
    }

    pub(super) fn is_root_due(&self, ship: &Ship, shared: &SharedStore) -> bool {
        // A root without a parcel since the last one would say the same again.
        let moved = self.ends.last().is_some_and(|(counter, _)| *counter + 1 == self.next_counter);
        let is_old = shared.clock.instant().duration_since(self.last_root) >= ship.options.root_every;
        // A checkpoint that is longer than what it spares a reader costs more than it is worth.
        let checkpoint = shared.segments.reserve().checkpoint_bytes();
        moved && (is_old || self.since_root.is_worth(checkpoint))
    }

    /// Notes the parcels that the next root needs. Its checkpoint is written after it.
    pub(super) fn plan_root(&mut self, shared: &SharedStore) {
        let ids: BTreeSet<u64> = shared.segments.ids().into_iter().collect();
        self.shipped.forget_gone(&ids);
        let first = &self.shipped.first;
        // A segment that is written to for weeks would keep the parcels of all that time.
        if Root::is_lasting(self.roots + 1) {
            let replaced =
                shared.segments.replace(|id| first.get(&id).is_some_and(|first| *first < self.sealed_before));
            // Where there is no inode for another segment, the next root may find one.
            if let Err(error) = replaced {
                shared.write_failed(error);
            }
            self.sealed_before = ParcelId { epoch: self.epoch, counter: self.next_counter };
        }
        let next = ParcelId { epoch: self.epoch, counter: self.next_counter };
        self.root_first = first.values().copied().min().unwrap_or(next);
    }

    /// Decides on the next root, which has the newest checkpoint. Every try puts the same one.
    pub(super) fn freeze_root(&mut self, shared: &SharedStore, base: u64) -> Result<Root, WriterEpochError> {
        let checkpoints = list_numbers(shared.fs.as_ref(), FileKind::Checkpoint);
        let sequence =
            checkpoints.map_err(|error| failed(shared, error.into()))?.last().copied().unwrap_or(0);
        let covered = groups_after(shared, sequence)?.position();
        let file = shared.fs.open_read(&checkpoint_path(sequence)).and_then(|file| file.len());
        // The last parcel that the checkpoint covers whole. One that reaches beyond it is read
        // again by a restore, which leaves out the groups that it has.
        let after = self.ends.iter().rfind(|(_, end)| *end <= sequence).map_or(0, |(counter, _)| *counter);
        let after = after.max(base);
        let root = Root {
            store: shared.store,
            epoch: self.epoch,
            number: self.roots + 1,
            covered,
            checkpoint_length: file.map_err(|error| failed(shared, error.into()))?,
            first: self.root_first.min(ParcelId { epoch: self.epoch, counter: after + 1 }),
            after,
            made: shared.lock_clock.stamp_time(),
        };
        self.since_root = ParcelVolume::default();
        Ok(*self.pending_root.insert(root))
    }

    /// The root to be put, and the nonce of the epoch.
    pub(super) fn root_on_its_way(&self) -> Option<(Root, String)> {
        self.pending_root.map(|root| (root, self.nonce.clone()))
    }

    /// Goes on without a root whose checkpoint is gone here.
    pub(super) fn give_root_up(&mut self) {
        // Its number is used up: a try without an answer may have put it.
        self.roots += u64::from(self.pending_root.take().is_some());
    }

    /// What a restore of the newest state needs; `None` without a root.
    pub(super) fn needed(&self) -> Option<NeededObjects> {
        let root = self.newest_root?;
        let last = ParcelId { epoch: self.epoch, counter: self.next_counter - 1 };
        Some(NeededObjects { root, last, parcels: self.parcels.clone() })
    }

    /// Goes on without anything that was put before: the bytes of all segments that the remote does
    /// not have follow, and a root, before the next write.
    ///
    /// # Errors
    /// [`WriterEpochError::NeedsRoot`] in any case but a failure of the disk.
    pub(super) fn renew(&mut self, shared: &SharedStore, why: String) -> Result<(), WriterEpochError> {
        let Published { index, sequence, .. } = shared.published();
        let follower = LogFollower::after(shared.fs.clone(), shared.store, sequence);
        self.follower = follower.map_err(|error| WriterEpochError::Store(shared.failed(error)))?;
        self.shipped = ShippedSegments::of(&index);
        self.base = Some((index, Cursor::Start));
        self.tail = 0;
        self.needs_root = true;
        self.give_root_up();
        Err(WriterEpochError::NeedsRoot(why))
    }

    pub(super) fn root_was_put(&mut self, shared: &SharedStore, root: &Root) {
        self.newest_root = Some(*root);
        if root.first.epoch == self.epoch {
            self.parcels = self.parcels.split_off(&root.first.counter);
        }
        self.pending_root = None;
        self.roots = root.number;
        self.last_root = shared.clock.instant();
        self.ends.retain(|(counter, _)| *counter > root.after);
        let after = root.after;
        // The last parcel before the root stays in the list: the next root may cover no later one.
        self.ends.insert(0, (after, root.covered.sequence));
    }

    /// Ships the groups after those that the epoch adopts, with their bytes: a standby that has the
    /// adopted ones goes on with them. Where their bytes are gone, as after a start that did not
    /// ship, or where they are many, the first root alone has them.
    fn ship_tail(&mut self, ship: &Ship, shared: &SharedStore) -> Result<(), WriterEpochError> {
        while self.tail > 0 {
            self.put_pending(ship, shared)?;
            let before = self.follower.position().sequence;
            match self.try_build(shared, self.tail, true) {
                Ok(Some(parcel)) if self.next_counter <= TAIL_PARCELS_MAX => self.pending = Some(parcel),
                Ok(None) => self.tail = 0,
                unfinished => {
                    let why = unfinished.err().map_or("they are many".to_owned(), |error| error.to_string());
                    log::info!(
                        "standbys have to be filled again: not all groups before the start are shipped: {why}"
                    );
                    self.give_tail_up(shared, before)?;
                }
            }
        }
        Ok(())
    }

    /// Goes on after the tail. What the groups after `before` name is in no parcel: one that was
    /// begun is not put.
    fn give_tail_up(&mut self, shared: &SharedStore, before: u64) -> Result<(), WriterEpochError> {
        self.shipped
            .go_back(shared, groups_after(shared, before)?, self.tail)
            .map_err(|error| failed(shared, error))?;
        self.follower = groups_after(shared, self.tail)?;
        self.tail = 0;
        Ok(())
    }

    /// Ships the live bytes of the segments that the remote does not have, in parcels without
    /// groups.
    fn ship_base(&mut self, ship: &Ship, shared: &SharedStore) -> Result<(), WriterEpochError> {
        self.put_pending(ship, shared)?;
        while let Some((index, mut cursor)) = self.base.take() {
            let id = ParcelId { epoch: self.epoch, counter: self.next_counter };
            let before = self.follower.position();
            let mut builder = ParcelBuilder::new(shared, &mut self.shipped, id, before);
            let mut is_done = false;
            while !is_done && !builder.is_full() {
                let entries = index.walk(&mut cursor, KEYS_AT_ONCE);
                is_done = entries.is_empty();
                let added = entries.iter().try_for_each(|entry| builder.add_extents(entry));
                added.map_err(|error| WriterEpochError::Store(shared.failed(error)))?;
            }
            self.pending = Some(builder.finish());
            self.base = (!is_done).then_some((index, cursor));
            self.put_pending(ship, shared)?;
        }
        Ok(())
    }

    /// The next parcel; `None` if there is no group up to `through`. Where bytes of the groups are
    /// gone that this directory had before the epoch, only a root can make up for them.
    fn next_parcel(
        &mut self,
        shared: &SharedStore,
        through: u64,
    ) -> Result<Option<FrozenParcel>, WriterEpochError> {
        if self.follower.position().sequence >= self.tail {
            let built = self.try_build(shared, through, false);
            return built.map_err(|error| WriterEpochError::Store(shared.failed(error)));
        }
        let before = self.follower.position().sequence;
        match self.try_build(shared, through.min(self.tail), true) {
            Ok(parcel) => Ok(parcel),
            Err(error) => {
                let Published { index, sequence, .. } = shared.published();
                self.base = Some((index, Cursor::Start));
                self.needs_root = true;
                self.tail = sequence;
                self.give_tail_up(shared, before)?;
                Err(WriterEpochError::NeedsRoot(error.to_string()))
            }
        }
    }

    /// A parcel with the next groups; where their bytes are in doubt, they are read and verified
    /// first.
    fn try_build(
        &mut self,
        shared: &SharedStore,
        through: u64,
        is_in_doubt: bool,
    ) -> Result<Option<FrozenParcel>, LogError> {
        let before = self.follower.position();
        if before.sequence >= through {
            return Ok(None);
        }
        let id = ParcelId { epoch: self.epoch, counter: self.next_counter };
        let mut builder = ParcelBuilder::new(shared, &mut self.shipped, id, before);
        while !builder.is_full() {
            let Some(group) = self.follower.next(through)? else { break };
            if is_in_doubt {
                builder.check(&group.group)?;
            }
            builder.add(&group)?;
        }
        Ok(Some(builder.finish()))
    }

    fn put_pending(&mut self, ship: &Ship, shared: &SharedStore) -> Result<(), WriterEpochError> {
        let Some(parcel) = &self.pending else { return Ok(()) };
        let sent = parcel.put(ship.writer()?, &shared.segments, &mut self.shipped, &self.nonce)?;
        ship.sent_bytes.fetch_add(sent, Ordering::Relaxed);
        ship.parcels.fetch_add(1, Ordering::Relaxed);
        self.since_root.parcels += 1;
        self.since_root.bytes += sent;
        self.ends.push((self.next_counter, parcel.head().end.sequence));
        self.parcels.insert(self.next_counter, sent);
        // Their first parcels are needed no longer once the log on the remote calls them remote,
        // and hold up no root.
        self.shipped.forget_remote();
        self.next_counter += 1;
        self.pending = None;
        Ok(())
    }

    /// Looks for the next claim.
    pub(super) fn look_for_claim(
        &mut self,
        ship: &Ship,
        shared: &SharedStore,
    ) -> Result<(), WriterEpochError> {
        let log = ship.log(shared);
        // The time before the request: nothing is known of a claim that comes after the answer was
        // sent.
        let now = shared.clock.instant();
        let newest = log.newest_claim_from(self.epoch)?;
        if newest == self.epoch {
            self.last_look = now;
            ship.in_step.note_alone(now);
            return Ok(());
        }
        // With a cut the other host has taken over for good. Without one it may have failed between
        // claim and cut: this store waits, and claims again if the cut does not come.
        check_no_later_cut(&log, self.epoch, newest)?;
        Err(WriterEpochError::Overtaken(LaterClaim { epoch: self.epoch, newest, since: now }))
    }
}

fn failed(shared: &SharedStore, error: LogError) -> WriterEpochError {
    WriterEpochError::Store(shared.failed(error))
}

fn groups_after(shared: &SharedStore, sequence: u64) -> Result<LogFollower, WriterEpochError> {
    LogFollower::after(shared.fs.clone(), shared.store, sequence).map_err(|error| failed(shared, error))
}

/// Fails where a claim after the own epoch has its cut: another host has taken over.
pub(super) fn check_no_later_cut(
    log: &RemoteLog<'_>,
    epoch: u64,
    newest: u64,
) -> Result<(), WriterEpochError> {
    match log.newest_cut(newest)?.filter(|cut| cut.epoch > epoch) {
        Some(cut) => {
            Err(WriterEpochError::Fenced(format!("another host has taken over as epoch {}", cut.epoch)))
        }
        None => Ok(()),
    }
}

/// Fails unless the own log continues the log that a cut adopts.
pub(super) fn check_descent(shared: &SharedStore, cut: &Cut) -> Result<(), WriterEpochError> {
    if cut.end == LogPosition::default() {
        return Ok(());
    }
    let own = LogFollower::after(shared.fs.clone(), shared.store, cut.end.sequence);
    match own {
        Ok(own) if own.position() == cut.end => Ok(()),
        Ok(_) | Err(LogError::Damaged(_)) => Err(WriterEpochError::Fenced(format!(
            "the log on the remote ends with group {}, and this store does not have it: restore it from there again",
            cut.end.sequence
        ))),
        Err(error) => Err(WriterEpochError::Store(shared.failed(error))),
    }
}

/// Puts the checkpoint of a root, whose groups are shipped, and the root.
pub(super) fn put_root(
    ship: &Ship,
    shared: &SharedStore,
    root: &Root,
    nonce: &str,
) -> Result<(), WriterEpochError> {
    let file = shared.fs.open_read(&checkpoint_path(root.covered.sequence));
    let file = file.map_err(|error| WriterEpochError::Store(shared.failed(error.into())))?;
    let body = FileBody { file: file.as_ref(), range: 0..root.checkpoint_length };
    let writer = ship.writer()?;
    // The checkpoint comes first: a restore may begin with a root as soon as it is there.
    let mut sent = put(writer, &root.checkpoint_name(), &body, nonce)?;
    sent += put(writer, &Root::name(root.epoch, root.number), &root.encode().as_slice(), nonce)?;
    ship.sent_bytes.fetch_add(sent, Ordering::Relaxed);
    ship.roots.fetch_add(1, Ordering::Relaxed);
    ship.last_root.store(root.made.as_millis(), Ordering::Relaxed);
    Ok(())
}
