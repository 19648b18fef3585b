//! The directory of a writer that starts again, beside hosts that may have taken over meanwhile.
//!
//! | its log | what happens |
//! |---|---|
//! | has the whole log on the remote, and made the newest claim | its host goes on at once: nobody else writes |
//! | has the whole log on the remote | it is left as it is, until silence or an operator makes its host go on, or another host shows that it lives |
//! | is a part of the log on the remote | it is followed as a standby's |
//! | has groups that the log on the remote lacks | its files are set aside, and it is filled |
//!
//! A host that goes on adopts the end of the log on the remote by its cut, as each that takes over.
//! Its own groups after that end are the first ones of its epoch.

use std::collections::{BTreeMap, BTreeSet};

use super::aside::SegmentsAside;
use super::epoch::adopted;
use super::parcel_applier::ParcelApplier;
use crate::format::{Cut, Entry, LogPosition, StoreId};
use crate::fs::Fs;
use crate::store::remote_log::chain::RemoteLog;
use crate::store::remote_log::error::ShipError;
use crate::store::ship::own_log::{OwnLog, anchors};

/// The longest search for a group among the parcels after a root. Writers put a root after fewer.
const PARCELS_MAX: u64 = 2000;

/// The log of such a directory.
pub(super) struct WriterDir {
    /// The header CRC of each group.
    groups: BTreeMap<u64, u32>,
    /// The last group.
    pub(super) end: LogPosition,
}

/// The end of the log on a remote.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct LogEnd {
    /// The newest epoch with a cut; 0 for none.
    pub(super) epoch: u64,
    /// Its last parcel; 0 for none.
    pub(super) last: u64,
    /// The last group.
    pub(super) end: LogPosition,
}

impl LogEnd {
    /// The one of the newest cut's log, below a claim.
    ///
    /// # Errors
    /// [`ShipError::Hidden`] where something speaks for a longer log; the errors of the remote.
    pub(super) fn find(log: &RemoteLog<'_>, claim: u64, newest: Option<&Cut>) -> Result<Self, ShipError> {
        let Some(cut) = newest else { return Ok(Self::default()) };
        let (last, end) = adopted(log, claim, cut)?;
        Ok(Self { epoch: cut.epoch, last, end })
    }
}

impl WriterDir {
    /// Reads the log. Nothing is written.
    ///
    /// # Errors
    /// [`ShipError::Disk`], also for damage.
    pub(super) fn read(fs: &dyn Fs, store: StoreId) -> Result<Self, ShipError> {
        let own = OwnLog::open(fs, store)?;
        let mut read = Self { groups: BTreeMap::new(), end: own.start.unwrap_or_default() };
        if let Some(start) = own.start {
            read.groups.insert(start.sequence, start.crc);
        }
        own.read(&mut |group| {
            read.end = LogPosition { sequence: group.header.sequence, crc: group.crc };
            read.groups.insert(read.end.sequence, read.end.crc);
        })?;
        Ok(read)
    }

    /// Whether the log has that group, or it is the beginning of all logs.
    pub(super) fn has(&self, at: LogPosition) -> bool {
        at == LogPosition::default() || self.groups.get(&at.sequence) == Some(&at.crc)
    }

    /// What is set aside of the directory `fs`, before it is filled; `None` where the remote has
    /// all of it.
    ///
    /// # Errors
    /// Errors of the remote, and of the disk.
    pub(super) fn lacking(
        &self,
        fs: &dyn Fs,
        log: RemoteLog<'_>,
        newest: &Cut,
    ) -> Result<Option<SegmentsAside>, ShipError> {
        // The usual case costs few requests. The anchors below read the heads of all parcels after
        // the newest root.
        if has_had(fs, log, newest, self.end)? {
            return Ok(None);
        }
        let (_, anchors) = anchors(&log)?;
        let mut own = self.groups.iter().rev();
        let Some((shared, _)) = own.find(|(sequence, crc)| anchors.get(sequence) == Some(crc)) else {
            return Ok(Some(SegmentsAside::All));
        };
        if *shared == self.end.sequence {
            return Ok(None);
        }
        let mut named = BTreeSet::new();
        OwnLog::open(fs, log.store)?.read(&mut |group| {
            if group.header.sequence > *shared {
                named.extend(group.header.pack.iter().map(|pack| pack.segment));
                named.extend(group.entries.iter().flat_map(Entry::extents).map(|extent| extent.segment));
            }
        })?;
        Ok(Some(SegmentsAside::Named(named)))
    }
}

/// Whether the log that a cut adopts and continues has had that group, as far as the remote shows.
fn has_had(fs: &dyn Fs, log: RemoteLog<'_>, newest: &Cut, at: LogPosition) -> Result<bool, ShipError> {
    let mut cut = *newest;
    while cut.end.sequence > at.sequence && cut.former != 0 {
        let Some(former) = log.cut(cut.former)? else { return Ok(false) };
        cut = former;
    }
    if cut.end == at {
        return Ok(true);
    }
    let root = log.newest_root(cut.epoch, None, &mut |root| root.covered.sequence <= at.sequence)?;
    if root.is_some_and(|root| root.covered == at) {
        return Ok(true);
    }
    let first = root.map_or(1, |root| root.after + 1);
    for counter in first..first + PARCELS_MAX {
        let Some(head) = log.head_of_parcel(cut.epoch, counter)? else { return Ok(false) };
        if head.before == at || head.end == at {
            return Ok(true);
        }
        if head.before.sequence < at.sequence && at.sequence < head.end.sequence {
            let parcel = log.parcel(cut.epoch, counter)?;
            let groups = ParcelApplier::new(log, fs, head.before).groups(&parcel)?;
            let mut groups = groups.iter();
            return Ok(groups.any(|(group, _)| group.header.sequence == at.sequence && group.crc == at.crc));
        }
        if head.end.sequence >= at.sequence {
            return Ok(false);
        }
    }
    Ok(false)
}
