//! The objects on a remote, compared with those that the log there names.
//!
//! An *orphan* is an object of an earlier epoch than the newest root's that no epoch has
//! adopted: a segment that neither the oldest root nor the newest one nor a later parcel names, or
//! a piece of a log that was given up. The epoch of the newest root has shipped all that its host
//! had, so that no host needs an orphan. Nothing else is judged: neither objects of the newest
//! epoch, whose host may be at work, nor names that no store gives.

use std::collections::{BTreeMap, BTreeSet};

use crate::base::Timestamp;
use crate::format::{CopyPhase, Cut, Entry, Heartbeat, Parcel, ParcelId, RemoteCopy, Root};
use crate::remote::{Remote, RemoteObject, RemoteView};
use crate::store::remote_log::chain::{Chain, ParcelRun, RemoteLog, kind_and_epoch, newest_epoch, parcel_of};
use crate::store::remote_log::error::ShipError;
use crate::store::remote_log::object::{line, store_of};
use crate::store::remote_log::request::PATIENCE;
use crate::store::remote_log::root_copies::copies_at;

/// Times that a comparison is begun again because the remote has changed meanwhile.
const TRIES: u32 = 3;

/// The times that a restore from a remote reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RemoteReach {
    /// The oldest root's.
    pub oldest: Timestamp,
    /// The newest parcel's, or the newest root's.
    pub newest: Timestamp,
    /// The epoch of the newest root.
    pub epoch: u64,
    /// The last group.
    pub sequence: u64,
    /// The time of the last heartbeat of that epoch.
    pub heartbeat: Option<Timestamp>,
}

/// The findings of a comparison.
#[derive(Debug, Default)]
pub struct RemoteAudit {
    /// Objects that were looked at.
    pub objects: u64,
    /// The newest claim when it began.
    pub claimed: u64,
    /// Objects that nothing needs.
    pub orphans: Vec<RemoteObject>,
    /// Objects that the newest state needs and that are not there, each with its fault.
    pub missing: Vec<(String, &'static str)>,
}

/// The times that a restore reaches; `None` where there is no log.
///
/// # Errors
/// Errors of the remote.
pub fn remote_reach(remote: &dyn RemoteView) -> Result<Option<RemoteReach>, ShipError> {
    let log = RemoteLog { remote, store: store_of(remote)? };
    let found = newest_epoch(&log).and_then(|cut| adopted_roots(&log, &cut));
    let roots = match found {
        Err(ShipError::NoLog) => return Ok(None),
        found => found?,
    };
    let Some(newest) = roots.first() else { return Ok(None) };
    let Some(oldest) = roots.last() else { return Ok(None) };
    let prefix = Parcel::prefix(newest.epoch);
    let last = log.listed_after(&prefix, &Parcel::name(newest.epoch, newest.after))?;
    let last = last.iter().rev().find_map(|parcel| parcel_of(&parcel.name));
    let head = last.map(|(epoch, counter)| log.head_of_parcel(epoch, counter)).transpose()?.flatten();
    let sequence = head.map_or(newest.covered.sequence, |head| head.end.sequence);
    let heartbeat = line(remote, &Heartbeat::name(newest.epoch), Heartbeat::decode)?;
    Ok(Some(RemoteReach {
        oldest: oldest.made,
        newest: head.map_or(newest.made, |head| head.time.max(newest.made)),
        epoch: newest.epoch,
        sequence,
        heartbeat: heartbeat.filter(|heartbeat| heartbeat.store == log.store).map(|heartbeat| heartbeat.made),
    }))
}

/// Compares the objects on a remote with those that the log names. It reads the parcels that a
/// restore of the newest state reads, and the checkpoints of the oldest root and of the newest one.
/// Nothing is changed; a server may be at work.
///
/// # Errors
/// Errors of the remote; damage of what is read.
pub fn audit_remote(remote: &dyn RemoteView) -> Result<RemoteAudit, ShipError> {
    let log = RemoteLog { remote, store: store_of(remote)? };
    let claimed = log.newest_claim()?;
    for tries in 1.. {
        let cut = newest_epoch(&log)?;
        let roots = adopted_roots(&log, &cut)?;
        let found = Comparison::new(&log, cut, roots.clone()).and_then(Comparison::run);
        let has_changed = || Ok::<_, ShipError>(adopted_roots(&log, &newest_epoch(&log)?)? != roots);
        match found {
            Ok(audit) if audit.missing.is_empty() || tries == TRIES || !has_changed()? => {
                return Ok(RemoteAudit { claimed, ..audit });
            }
            Err(error) if tries == TRIES || !has_changed()? => return Err(error),
            _ => {}
        }
    }
    unreachable!("the last try returns")
}

/// Deletes the orphans of an audit, which the epochs at its beginning do not need.
///
/// # Errors
/// [`ShipError::Claimed`] where a later epoch was claimed since; the errors of the remote.
pub fn delete_orphans(remote: &dyn Remote, audit: &RemoteAudit) -> Result<(), ShipError> {
    let log = RemoteLog { remote, store: store_of(remote)? };
    if log.is_claimed(audit.claimed + 1)? {
        return Err(ShipError::Claimed(audit.claimed + 1));
    }
    audit.orphans.iter().try_for_each(|object| {
        let deleted = remote.delete(&object.name, PATIENCE);
        deleted.map_err(|error| ShipError::Remote { name: object.name.clone(), error })
    })
}

/// All roots that an epoch has put and adopted, the newest first.
fn adopted_roots(log: &RemoteLog<'_>, cut: &Cut) -> Result<Vec<Root>, ShipError> {
    let mut roots = Vec::new();
    log.chain_from(cut, &mut |root| {
        roots.push(*root);
        false
    })?;
    Ok(roots)
}

/// One comparison.
struct Comparison<'r> {
    log: RemoteLog<'r>,
    newest: Root,
    roots: Vec<Root>,
    /// The log from the oldest root on.
    whole: Chain,
    /// All objects by their names.
    listed: BTreeMap<String, u64>,
    audit: RemoteAudit,
}

impl<'r> Comparison<'r> {
    fn new(log: &RemoteLog<'r>, cut: Cut, roots: Vec<Root>) -> Result<Self, ShipError> {
        let newest = *roots.first().ok_or(ShipError::NoLog)?;
        let oldest = *roots.last().ok_or(ShipError::NoLog)?;
        let whole = log.chain_from(&cut, &mut |root| *root == oldest)?.ok_or(ShipError::NoLog)?;
        let listed = log.listed("")?.into_iter().map(|object| (object.name, object.length)).collect();
        Ok(Self { log: *log, newest, roots, whole, listed, audit: RemoteAudit::default() })
    }

    fn run(mut self) -> Result<RemoteAudit, ShipError> {
        self.audit.objects = self.listed.len() as u64;
        let mut copies = copies_at(self.log, &self.newest)?;
        let mut named: BTreeSet<String> = names(&copies).collect();
        named.extend(names(&copies_at(self.log, &self.whole.root)?));
        let newest = Chain::from_root(self.newest, &self.whole);
        let (heads, _) = self.log.heads(&newest, None)?;
        let tail = heads.iter().map(|head| ParcelId { epoch: head.epoch, counter: head.counter });
        let base = self.log.parcels_before(&self.newest)?.into_iter().flat_map(ParcelRun::ids);
        for ParcelId { epoch, counter } in base.chain(tail) {
            let name = Parcel::name(epoch, counter);
            if !self.listed.contains_key(&name) && self.is_gone(&name)? {
                self.audit.missing.push((name, "it is not there"));
                continue;
            }
            let parcel = self.log.parcel(epoch, counter)?;
            self.check_pieces(&parcel)?;
            self.learn(&parcel, &mut copies, &mut named)?;
        }
        for (segment, copy) in copies.iter().filter(|(_, copy)| copy.phase == CopyPhase::Remote) {
            self.check(copy.name(*segment), copy.length)?;
        }
        for root in self.roots.clone() {
            self.check(root.checkpoint_name(), root.checkpoint_length)?;
        }
        self.find_orphans(&named);
        Ok(self.audit)
    }

    /// Learns of the copies that the groups of a parcel after the newest root name.
    fn learn(
        &self,
        parcel: &Parcel,
        copies: &mut BTreeMap<u64, RemoteCopy>,
        named: &mut BTreeSet<String>,
    ) -> Result<(), ShipError> {
        let damaged =
            |error| ShipError::damaged(Parcel::name(parcel.head.epoch, parcel.head.counter), &error);
        let counts = self.newest.covered.sequence + 1..=self.whole.last_sequence(parcel.head.epoch);
        for (head, body) in parcel.unchecked_groups(&self.log.store).map_err(damaged)? {
            if !counts.contains(&head.header().sequence) {
                continue;
            }
            for entry in head.check(body).map_err(damaged)?.entries {
                let Entry::RemoteSegment { segment, copy } = entry else { continue };
                match copy {
                    Some(copy) => {
                        named.insert(copy.name(segment));
                        copies.insert(segment, copy);
                    }
                    None => drop(copies.remove(&segment)),
                }
            }
        }
        Ok(())
    }

    fn check_pieces(&mut self, parcel: &Parcel) -> Result<(), ShipError> {
        for piece in parcel.pieces.iter().filter(|piece| piece.object != 0) {
            let name = Parcel::object_name(parcel.head.epoch, parcel.head.counter, piece.object);
            self.check(name, piece.length)?;
        }
        Ok(())
    }

    /// Checks that an object is there with that length.
    fn check(&mut self, name: String, length: u64) -> Result<(), ShipError> {
        match self.listed.get(&name) {
            Some(found) if *found == length => {}
            Some(_) => self.audit.missing.push((name, "it has another length")),
            None if self.is_gone(&name)? => self.audit.missing.push((name, "it is not there")),
            None => {}
        }
        Ok(())
    }

    /// Whether an object is missing that the listing lacks: it may have been put since.
    fn is_gone(&self, name: &str) -> Result<bool, ShipError> {
        self.log.exists(name).map(|is_there| !is_there)
    }

    fn find_orphans(&mut self, named: &BTreeSet<String>) {
        for (name, length) in &self.listed {
            let Some((kind, epoch)) = kind_and_epoch(name) else { continue };
            let is_needed = match kind {
                "segment" => named.contains(name),
                "log" => parcel_of(name).is_none_or(|(epoch, counter)| self.whole.is_adopted(epoch, counter)),
                _ => true,
            };
            if !is_needed && epoch < self.newest.epoch {
                let object = RemoteObject { name: name.clone(), length: *length, nonce: None, md5: None };
                self.audit.orphans.push(object);
            }
        }
    }
}

fn names(copies: &BTreeMap<u64, RemoteCopy>) -> impl Iterator<Item = String> {
    copies.iter().map(|(segment, copy)| copy.name(*segment))
}
