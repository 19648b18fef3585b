//! What speaks for a longer log than a reader has found: a remote may answer 404 for objects that
//! it has, as with a listing that lags or a cache before it.
//!
//! An epoch that begins gives up whatever comes after its cut. So it looks for three witnesses
//! before: the heartbeat of the epoch that it adopts names the last group that the remote had; a
//! listing shows parcels, roots and cuts. An end before one of them is none: the reader waits, and
//! refuses by name. A restore to an earlier time is the way to give up objects that are gone for
//! good.

use crate::format::{Cut, Heartbeat, LogPosition, Parcel, ParcelHead, Root};
use crate::store::remote_log::chain::{Chain, RemoteLog, parcel_of};
use crate::store::remote_log::error::ShipError;
use crate::store::remote_log::object::line;

/// The end of the log that a reader has found.
#[derive(Debug, Clone, Copy)]
pub(super) struct FoundEnd {
    /// The newest epoch with a cut.
    pub(super) epoch: u64,
    /// Its last parcel that was found; 0 for none.
    pub(super) last: u64,
    /// The last group.
    pub(super) end: LogPosition,
    /// Whether the log has a root.
    pub(super) has_root: bool,
}

impl FoundEnd {
    /// The end of the log of a chain in an epoch, by the heads after its root.
    pub(super) fn of(epoch: u64, chain: &Chain, heads: &[ParcelHead], end: LogPosition) -> Self {
        let at_root = if chain.root.epoch == epoch { chain.root.after } else { 0 };
        let last = heads.last().filter(|head| head.epoch == epoch).map_or(at_root, |head| head.counter);
        Self { epoch, last, end, has_root: true }
    }
}

/// Fails where a witness speaks for a longer log than was found below a claim. `seen` is the last
/// heartbeat that was read before.
///
/// # Errors
/// [`ShipError::Hidden`] with the name of the object; the errors of the remote.
pub(super) fn check_end(
    log: &RemoteLog<'_>,
    claim: u64,
    found: FoundEnd,
    seen: Option<Heartbeat>,
) -> Result<(), ShipError> {
    // Cuts first: where a whole epoch is hidden, its heartbeats and parcels have other names than
    // those that are looked at below.
    check_cuts(log, claim, found.epoch)?;
    check_heartbeat(log, found, seen)?;
    match found.has_root {
        true => check_parcels(log, found),
        false => check_roots(log, found.epoch),
    }
}

/// The newest cut that a listing shows below a claim is the one that was found, or an older one.
fn check_cuts(log: &RemoteLog<'_>, claim: u64, found: u64) -> Result<(), ShipError> {
    let listed = log.listed_after(Cut::PREFIX, &Cut::name(found))?;
    let later = listed.into_iter().find(|object| object.name < Cut::name(claim));
    later.map_or(Ok(()), |later| Err(hidden(later.name, "a listing shows it")))
}

fn check_heartbeat(log: &RemoteLog<'_>, found: FoundEnd, seen: Option<Heartbeat>) -> Result<(), ShipError> {
    let name = Heartbeat::name(found.epoch);
    let read = line(log.remote, &name, Heartbeat::decode)?;
    // The one that was read before counts, too: a remote that hides parcels may hide the newest
    // heartbeat as well.
    let heartbeats = [read, seen].into_iter().flatten();
    let told = heartbeats.filter(|heartbeat| heartbeat.store == log.store && heartbeat.epoch == found.epoch);
    match told.map(|heartbeat| heartbeat.sequence).max() {
        Some(sequence) if sequence > found.end.sequence => Err(hidden(
            Parcel::name(found.epoch, found.last + 1),
            &format!(
                "the writer has told that the remote has the groups up to {sequence}, and those up to {} are found",
                found.end.sequence
            ),
        )),
        _ => Ok(()),
    }
}

/// A parcel after the last one that a listing shows is one that a GET finds: then it follows no
/// other, and means nothing. Data objects come before their parcel, and mean nothing without it.
fn check_parcels(log: &RemoteLog<'_>, found: FoundEnd) -> Result<(), ShipError> {
    let after = log.listed_after(&Parcel::prefix(found.epoch), &Parcel::name(found.epoch, found.last))?;
    let Some(later) = after.iter().rev().find(|object| is_later(&object.name, found)) else {
        return Ok(());
    };
    let next = Parcel::name(found.epoch, found.last + 1);
    match log.head_of_parcel(found.epoch, found.last + 1)? {
        None => Err(hidden(next, &format!("a listing shows {}", later.name))),
        Some(head) if head.before == found.end => Err(hidden(next, "it was not there a moment ago")),
        Some(_) => Ok(()),
    }
}

fn check_roots(log: &RemoteLog<'_>, epoch: u64) -> Result<(), ShipError> {
    let page = log.page(&Root::prefix(epoch), "")?;
    page.into_iter().next_back().map_or(Ok(()), |root| Err(hidden(root.name, "a listing shows it")))
}

fn hidden(name: String, why: &str) -> ShipError {
    ShipError::Hidden { name, why: why.to_owned() }
}

/// Whether an object is a parcel of the epoch after the last one that was found.
fn is_later(name: &str, found: FoundEnd) -> bool {
    let Some((_, counter)) = parcel_of(name) else { return false };
    counter > found.last && name == Parcel::name(found.epoch, counter)
}
