//! The objects of the log on the remote, compared with those that a restore of the newest state
//! needs: somebody may delete them while this store ships on. Once a day they are listed. Where one
//! is gone or has another length, the bytes of all segments that the remote lacks are shipped
//! again, and a root; what a restore to an earlier time needed is lost, which an audit reports.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::{EpochStage, Ship};
use crate::format::{Cut, Parcel, ParcelId, Root};
use crate::store::remote_log::chain::{RemoteLog, parcel_of};
use crate::store::remote_log::error::ShipError;
use crate::store::remote_log::request::{PATIENCE, TRIED_AGAIN_AFTER};
use crate::store::{Store, StoreError};

/// The time between two listings.
const LISTING_INTERVAL: Duration = Duration::from_secs(24 * 60 * 60);

/// What a restore of the newest state reads.
#[derive(Debug)]
pub(super) struct NeededObjects {
    /// The newest root.
    pub(super) root: Root,
    /// The last parcel.
    pub(super) last: ParcelId,
    /// The parcels of the own epoch, each with its bytes and its data objects' bytes.
    pub(super) parcels: BTreeMap<u64, u64>,
}

impl Store {
    /// Lists the objects of the log once a day. Where the newest state lacks some, the next
    /// [`Store::ship_step`] ships a new base; until then nothing is written. Nothing where the log
    /// is not shipped.
    ///
    /// # Errors
    /// [`StoreError::RemoteUnavailable`]: a later call goes on.
    pub fn inspect_log(&self) -> Result<(), StoreError> {
        let Some(ship) = self.ship.get() else { return Ok(()) };
        let now = self.shared.clock.uptime();
        if self.shared.check_writable().is_err() || !ship.is_listing_due(now) {
            return Ok(());
        }
        let needed = match &*ship.lock() {
            EpochStage::Current(epoch) => epoch.needed(),
            _ => None,
        };
        let Some(needed) = needed else { return Ok(()) };
        // Set before the work, which may fail: the remote is not asked without end.
        ship.next_listing.store((now + TRIED_AGAIN_AFTER).as_millis() as u64, Ordering::Relaxed);
        let missing = needed.missing(&ship.log(&self.shared));
        let missing = missing.map_err(|error| StoreError::RemoteUnavailable(error.to_string()))?;
        ship.next_listing.store((now + LISTING_INTERVAL).as_millis() as u64, Ordering::Relaxed);
        let Some(name) = missing else { return Ok(()) };
        // Locked only now: a listing of many parcels takes its time, and each write in synchronous
        // mode would wait for it.
        let mut state = ship.lock();
        let EpochStage::Current(epoch) = &mut *state else { return Ok(()) };
        log::error!(
            "{name}, which a restore needs, is gone or changed on the remote: a new checkpoint is shipped"
        );
        ship.renewals.fetch_add(1, Ordering::Relaxed);
        let renewed = epoch.renew(&self.shared, format!("{name} is gone"));
        match ship.after(renewed, &mut state, &self.shared) {
            // The next step of shipping goes on.
            Err(StoreError::RemoteUnavailable(_)) => Ok(()),
            done => done,
        }
    }
}

impl Ship {
    fn is_listing_due(&self, uptime: Duration) -> bool {
        uptime.as_millis() as u64 >= self.next_listing.load(Ordering::Relaxed)
    }
}

impl NeededObjects {
    /// The name of an object that is gone or has another length.
    fn missing(&self, log: &RemoteLog<'_>) -> Result<Option<String>, ShipError> {
        let Root { epoch, number, checkpoint_length, first, .. } = self.root;
        let name = Root::name(epoch, number);
        if !log.exists(&name)? {
            return Ok(Some(name));
        }
        let checkpoint = self.root.checkpoint_name();
        let found = log.remote.head(&checkpoint, PATIENCE);
        let found = found.map_err(|error| ShipError::Remote { name: checkpoint.clone(), error })?;
        if found.is_none_or(|found| found.length != checkpoint_length) {
            return Ok(Some(checkpoint));
        }
        let ParcelId { mut epoch, counter: mut last } = self.last;
        loop {
            let from = if first.epoch == epoch { first.counter } else { 1 };
            if let Some(name) = self.missing_parcel(log, epoch, from..=last)? {
                return Ok(Some(name));
            }
            if epoch <= first.epoch {
                return Ok(None);
            }
            let Some(cut) = log.cut(epoch)? else { return Ok(Some(Cut::name(epoch))) };
            epoch = cut.former;
            last = cut.last;
        }
    }

    /// The first parcel of an epoch that is gone, or that has other bytes than this process has
    /// put.
    fn missing_parcel(
        &self,
        log: &RemoteLog<'_>,
        epoch: u64,
        counters: RangeInclusive<u64>,
    ) -> Result<Option<String>, ShipError> {
        let listed = listed_parcels(log, epoch, *counters.start())?;
        for counter in counters {
            let name = Parcel::name(epoch, counter);
            // Of earlier epochs, and of an earlier process, the lengths are not known here: that
            // the parcel is there has to do.
            let put = self.parcels.get(&counter).filter(|_| epoch == self.last.epoch);
            let is_there = match listed.get(&counter) {
                Some(found) => put.is_none_or(|put| put == found),
                // A listing may lack what was put a moment ago.
                None => log.exists(&name)?,
            };
            if !is_there {
                return Ok(Some(name));
            }
        }
        Ok(None)
    }
}

/// The parcels of an epoch from one on as a listing shows them, each with the bytes of its data
/// objects, too. These mean nothing without it.
fn listed_parcels(log: &RemoteLog<'_>, epoch: u64, first: u64) -> Result<BTreeMap<u64, u64>, ShipError> {
    let before = Parcel::name(epoch, first.saturating_sub(1));
    let mut found = BTreeMap::new();
    let mut has_parcel = BTreeMap::new();
    for object in log.listed_after(&Parcel::prefix(epoch), &before)? {
        let Some((_, counter)) = parcel_of(&object.name) else { continue };
        *found.entry(counter).or_insert(0) += object.length;
        *has_parcel.entry(counter).or_insert(false) |= object.name == Parcel::name(epoch, counter);
    }
    found.retain(|counter, _| has_parcel[counter]);
    Ok(found)
}
