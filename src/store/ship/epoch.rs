//! Beginning an epoch: the look at the log, the claim, the log that it adopts, the cut.
//!
//! A directory that goes on as it is has the whole log before it claims, since a claim ends the
//! epoch of a living writer; and after its claim, too, since that one may have written meanwhile.
//!
//! The old writer puts its parcel and then looks for the next claim. The new one creates the claim
//! and then looks for parcels. One of them sees the other, since requests for one name are
//! linearizable and of several creates one succeeds. The model of the protocol is in
//! `tests/remote_model`.

use super::WriterEpochError;
use super::witness::{FoundEnd, check_end};
use crate::base::{Entropy, Timestamp};
use crate::format::{Claim, ClaimId, Cut, LogPosition, RETURN, ReturnPoint, SEALED_LINE_MAX_BYTES};
use crate::fs::Fs;
use crate::log::LogError;
use crate::remote::{Remote, RemoteError};
use crate::store::remote_log::chain::{Chain, RemoteLog, newest_epoch};
use crate::store::remote_log::error::ShipError;
use crate::store::remote_log::object::put_once;
use crate::store::shared::state_file::StateFile;

const RETURN_IS_LATE: &str = "another host has shipped to the remote since this store was restored to an earlier time: restore it again";
const RETURN_IS_OLD: &str =
    "what the time needs to which this store was restored is not kept any more: restore a later time";

/// The file that says that a store goes back.
pub(super) const RETURN_FILE: StateFile =
    StateFile { path: RETURN, what: "the point of a restore", max_bytes: SEALED_LINE_MAX_BYTES };

/// The point at which the log of a store ends on purpose.
pub(super) fn return_point(fs: &dyn Fs) -> Result<Option<ReturnPoint>, LogError> {
    RETURN_FILE.load(fs, ReturnPoint::decode)
}

/// An epoch that is claimed. Its cut is frozen once it is known: every try puts the same bytes.
#[derive(Debug)]
pub(super) struct ClaimedEpoch {
    pub(super) epoch: u64,
    pub(super) nonce: String,
    pub(super) cut: Option<Cut>,
}

impl ClaimedEpoch {
    /// An epoch that is not claimed yet.
    pub(super) fn unclaimed(epoch: u64, entropy: &dyn Entropy) -> Self {
        Self { epoch, nonce: format!("{:016x}", entropy.next_u64()), cut: None }
    }

    /// Creates the claim. Returns `false` where another host has: it is to be followed, and what it
    /// did looked at, before another claim.
    pub(super) fn claim(
        &self,
        remote: &dyn Remote,
        log: &RemoteLog<'_>,
        now: Timestamp,
    ) -> Result<bool, ShipError> {
        let claim = Claim { store: log.store, epoch: self.epoch, made: now, of_tier: false };
        match put_once(remote, &Claim::name(self.epoch), &claim.encode(), &self.nonce) {
            Ok(()) => Ok(true),
            Err(ShipError::Remote { error: RemoteError::Exists, .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Finds the log to adopt, and freezes the cut.
    pub(super) fn adopt(&mut self, log: &RemoteLog<'_>) -> Result<Cut, ShipError> {
        if let Some(cut) = self.cut {
            return Ok(cut);
        }
        let epoch = self.epoch;
        let store = log.store;
        // Below the own claim: a cut of the same epoch is the own one, from a try whose answer was
        // lost.
        let cut = match log.newest_cut(epoch - 1)? {
            None => Cut { store, epoch, former: 0, last: 0, end: LogPosition::default() },
            Some(former) => {
                let (last, end) = adopted(log, epoch, &former)?;
                Cut { store, epoch, former: former.epoch, last, end }
            }
        };
        Ok(*self.cut.insert(cut))
    }

    /// Finds the log to adopt for a store that was restored to an earlier time, and freezes the
    /// cut.
    pub(super) fn adopt_until(
        &mut self,
        log: &RemoteLog<'_>,
        point: &ReturnPoint,
    ) -> Result<Cut, WriterEpochError> {
        if let Some(cut) = self.cut {
            return Ok(cut);
        }
        let newest = log.newest_cut(self.epoch - 1)?;
        let has_returned =
            |cut: &Cut| (cut.former, cut.last, cut.end) == (point.former, point.last, point.end);
        match &newest {
            // Nothing has begun since the restore.
            Some(cut) if cut.epoch == point.newest => {}
            // An own epoch that went back and has begun goes on; one that has not begun is given
            // up.
            Some(cut) if has_returned(cut) => {
                if log.chain(cut)?.is_some_and(|chain| chain.root.epoch == cut.epoch) {
                    return Ok(self.adopt(log)?);
                }
            }
            _ => return Err(WriterEpochError::Fenced(RETURN_IS_LATE.to_owned())),
        }
        // The look after the claim counts: a cleanup that announces a floor later looks for the
        // next claim before it deletes, and finds this one.
        for epoch in point.root.epoch..self.epoch {
            if log.newest_floor(epoch)?.is_some_and(|floor| floor.base > point.root) {
                return Err(WriterEpochError::Fenced(RETURN_IS_OLD.to_owned()));
            }
        }
        let ReturnPoint { former, last, end, .. } = *point;
        Ok(*self.cut.insert(Cut { store: log.store, epoch: self.epoch, former, last, end }))
    }

    /// The claim with its nonce.
    pub(super) fn id(&self) -> ClaimId {
        ClaimId { epoch: self.epoch, nonce: u64::from_str_radix(&self.nonce, 16).unwrap_or(0) }
    }

    /// Creates the cut. The epoch has begun then, unless it is fenced already.
    pub(super) fn begin(&self, remote: &dyn Remote) -> Result<(), ShipError> {
        let cut = self.cut.expect("the log was adopted");
        put_once(remote, &Cut::name(self.epoch), &cut.encode(), &self.nonce)
    }
}

/// The last parcel of an epoch, and the end of the log that it has adopted and continued, for a
/// epoch with that claim.
///
/// # Errors
/// [`ShipError::Hidden`] where something speaks for a longer log.
pub(super) fn adopted(
    log: &RemoteLog<'_>,
    claim: u64,
    newest: &Cut,
) -> Result<(u64, LogPosition), ShipError> {
    let found = FoundEnd { epoch: newest.epoch, last: 0, end: newest.end, has_root: false };
    let Some(chain) = log.chain(newest)? else {
        check_end(log, claim, found, None)?;
        return Ok((0, newest.end));
    };
    let (heads, end) = log.heads(&chain, None)?;
    check_end(log, claim, FoundEnd::of(newest.epoch, &chain, &heads, end), None)?;
    let (epoch, counter, end) = chain.end_of(&heads, end);
    // What an earlier epoch ends with is all that this one has.
    Ok((if epoch == newest.epoch { counter } else { 0 }, end))
}

/// The newest epoch of a log, and the last group of its newest root.
#[derive(Debug, Clone, Copy)]
pub(super) struct NewestEpoch {
    pub(super) epoch: u64,
    pub(super) covered: u64,
}

/// The log from the newest root on that is not younger than `at`.
///
/// # Errors
/// [`ShipError::BeforeWindow`], [`ShipError::NoLog`], and the errors of the remote.
pub(super) fn chain_at(log: &RemoteLog<'_>, at: Timestamp) -> Result<(Chain, NewestEpoch), ShipError> {
    let cut = newest_epoch(log)?;
    let mut roots = Vec::new();
    let found = log.chain_from(&cut, &mut |root| {
        roots.push(*root);
        root.made <= at
    })?;
    match (found, roots.as_slice()) {
        (Some(chain), [newest, ..]) => {
            Ok((chain, NewestEpoch { epoch: cut.epoch, covered: newest.covered.sequence }))
        }
        (None, [.., oldest]) => Err(ShipError::BeforeWindow(oldest.made)),
        _ => Err(ShipError::NoLog),
    }
}
