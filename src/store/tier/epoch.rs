//! The epochs of a store that sends segments to its remote, and no log.
//!
//! Such a store claims an epoch at each start, by the same objects as one that ships its log: each
//! sees the claims of the other. It goes on only from the newest claim, and only in the directory
//! that made it: `meta/epoch` has the nonce of that claim and a number that a copy of the file does
//! not have. Otherwise another directory may be in use, whose objects are there, and nothing is
//! changed.
//!
//! 1. The file notes the newest claim, and the next one that is about to be made. After a crash
//!    either may be the newest one.
//! 2. The next claim is created. Where the remote does not decide races, it is read back after a
//!    pause. The file notes that it is there.
//! 3. Before copies are deleted, and every few seconds while segments are put, the claim after the
//!    own one is looked for: the store behind it is the right one from then on.
//!
//! A block-by-block clone of a disk has the same numbers: of it and the original the one that
//! starts last is the right one.

use std::time::Duration;

use crate::base::{Entropy, Timestamp};
use crate::format::{Claim, ClaimId, EPOCH, EpochRecord, FileKind, SEALED_LINE_MAX_BYTES, StoreId};
use crate::fs::Fs;
use crate::log::{LogError, write_atomically};
use crate::remote::{Remote, RemoteError, RemoteView};
use crate::store::remote_log::chain::RemoteLog;
use crate::store::remote_log::error::ShipError;
use crate::store::remote_log::object::{line, put_once};
use crate::store::remote_log::request::PATIENCE;
use crate::store::remote_log::right::{Claiming, RemoteRefusal};
use crate::store::shared::state_file::StateFile;
use crate::store::tier::Tier;
use crate::store::{ReadOnlyReason, Store, StoreError};

/// The pause before a claim is read back where the remote does not decide races.
const CONFIRMED_AFTER: Duration = Duration::from_secs(2);
/// The interval of looks for the next claim while there is nothing to send, and while segments are
/// sent.
const IDLE_LOOK_INTERVAL: Duration = Duration::from_secs(10 * 60);
const BUSY_LOOK_INTERVAL: Duration = Duration::from_secs(10);

const EPOCH_FILE: StateFile =
    StateFile { path: EPOCH, what: "the epoch of the directory", max_bytes: SEALED_LINE_MAX_BYTES };

impl Store {
    /// Claims an epoch on the remote, unless that is done, or refused for good. Nothing without a
    /// remote, and where the log is shipped, whose epoch is an epoch.
    ///
    /// # Errors
    /// [`StoreError::RemoteUnavailable`]: a later call may succeed; [`StoreError::ReadOnly`] where
    /// the remote has a log that this store does not continue; the errors of the disk.
    pub fn begin_epoch(&self, entropy: &dyn Entropy) -> Result<(), StoreError> {
        let Some(tier) = &self.tier else { return Ok(()) };
        let right = tier.right();
        let has_ended = right.refusal().is_none_or(|why| !why.may_pass());
        let Some(remote) = right.claimant().filter(|_| !has_ended && self.ship.get().is_none()) else {
            return Ok(());
        };
        let begun = self.try_claim(tier, remote, entropy, &mut right.claiming());
        match begun {
            Err(StoreError::RemoteUnavailable(_)) if tier.is_foreign() => right.refuse(RemoteRefusal::NotOwn),
            Err(StoreError::RemoteUnavailable(_)) => right.refuse(RemoteRefusal::Silent),
            _ => {}
        }
        begun
    }

    /// Why nothing is changed on the remote, and no bytes leave the disk; `None` where that may be
    /// done, without a remote, and while a look at it is under way.
    pub fn remote_refusal(&self) -> Option<RemoteRefusal> {
        let refusal = self.tier.as_ref()?.right().refusal();
        refusal.filter(|why| *why != RemoteRefusal::NotLooked)
    }

    /// Whether the remote has answered with another mark than this store's.
    pub(in crate::store) fn has_foreign_remote(&self) -> bool {
        self.tier.as_ref().is_some_and(|tier| tier.is_foreign())
    }

    /// Claims an epoch, or looks for the next one where that was long ago.
    pub(in crate::store) fn keep_epoch(&self, tier: &Tier, entropy: &dyn Entropy) -> Result<(), StoreError> {
        match tier.right().epoch() {
            None => self.begin_epoch(entropy),
            Some(_) => self.look_after(tier, IDLE_LOOK_INTERVAL),
        }
    }

    /// Looks for the next epoch before a segment is put. A look serves for some seconds: a put that
    /// comes too late puts its own name.
    pub(in crate::store) fn look_before_put(&self, tier: &Tier) -> Result<(), StoreError> {
        self.look_after(tier, BUSY_LOOK_INTERVAL)
    }

    fn look_after(&self, tier: &Tier, interval: Duration) -> Result<(), StoreError> {
        let since = self.shared.clock.now().distance(tier.right().claiming().last_look);
        if since < interval { Ok(()) } else { self.look_for_next_epoch(tier) }
    }

    /// Fails where another store has claimed the next epoch: this one changes nothing from then on.
    /// The log that is shipped has looks of its own.
    pub(in crate::store) fn look_for_next_epoch(&self, tier: &Tier) -> Result<(), StoreError> {
        let right = tier.right();
        let Some(epoch) = right.epoch().filter(|_| self.ship.get().is_none()) else { return Ok(()) };
        let remote = tier.remote();
        let log = RemoteLog { remote: remote.as_ref(), store: self.shared.store };
        if log.is_claimed(epoch + 1).map_err(unavailable)? {
            right.refuse(RemoteRefusal::Fenced { by: epoch + 1 });
            return Err(StoreError::RemoteUnavailable(format!("epoch {} is claimed there", epoch + 1)));
        }
        right.claiming().last_look = self.shared.clock.now();
        Ok(())
    }

    fn try_claim(
        &self,
        tier: &Tier,
        remote: &dyn Remote,
        entropy: &dyn Entropy,
        claiming: &mut Claiming,
    ) -> Result<(), StoreError> {
        // 1. The mark: on the remote of another store not even a claim is put.
        self.check_remote_mark()?;
        let right = tier.right();
        let log = RemoteLog { remote, store: self.shared.store };
        // 2. The nonce of the claim is noted in the directory before it is put. After a crash in
        //    between the next start knows the claim as its own; without the note it would take it
        //    for that of another host, and change nothing there.
        let claim = match claiming.claim {
            Some(claim) => claim,
            None => match self.next_claim(tier, log, entropy)? {
                Ok(claim) => *claiming.claim.insert(claim),
                Err(refusal) => {
                    right.refuse(refusal);
                    return self.refuse_writes_of(refusal);
                }
            },
        };
        // 3. The claim, which one of several hosts creates.
        let now = self.shared.clock.now();
        if claiming.since.is_none() {
            let made = Claim { store: self.shared.store, epoch: claim.epoch, made: now, of_tier: true };
            match put_once(remote, &Claim::name(claim.epoch), &made.encode(), &digits(claim.nonce)) {
                Err(ShipError::Remote { error: RemoteError::Exists, .. }) => {
                    right.refuse(RemoteRefusal::Foreign { newest: claim.epoch });
                    return Ok(());
                }
                put => put.map_err(unavailable)?,
            }
            // Noted after the put, whose answer may be lost: the next call puts the same claim
            // again, with the same nonce, and finds it as its own.
            claiming.since = Some(now);
        }
        if !tier.decides_races() {
            if claiming.since.is_some_and(|since| now.distance(since) < CONFIRMED_AFTER) {
                right.refuse(RemoteRefusal::NotLooked);
                return Ok(());
            }
            if claim_of(remote, claim.epoch)? != claim {
                right.refuse(RemoteRefusal::Foreign { newest: claim.epoch });
                return Ok(());
            }
            log::warn!(
                "the remote does not decide races: the claim of epoch {} was read back after {CONFIRMED_AFTER:?}, and of two servers \
                 that start at a time both may hold it. See to it that one runs",
                claim.epoch
            );
        }
        // 4. Another host may have claimed the next epoch since: the tries, and the wait for the
        //    claim to be confirmed, take their time.
        if log.is_claimed(claim.epoch + 1).map_err(unavailable)? {
            right.refuse(RemoteRefusal::Fenced { by: claim.epoch + 1 });
            return Ok(());
        }
        // 5. The claim is noted as held before the right is, so that nothing is put in an epoch
        //    that the directory does not know.
        let noted = note(self.shared.fs.as_ref(), self.shared.store, claim, ClaimId::default());
        noted.map_err(|error| self.shared.failed(error))?;
        claiming.last_look = now;
        right.hold(claim.epoch);
        log::info!("the remote is used as epoch {}", claim.epoch);
        Ok(())
    }

    /// The claim to be made, which the directory notes; or why none is made.
    fn next_claim(
        &self,
        tier: &Tier,
        log: RemoteLog<'_>,
        entropy: &dyn Entropy,
    ) -> Result<Result<ClaimId, RemoteRefusal>, StoreError> {
        let newest = log.newest_claim().map_err(unavailable)?;
        if !tier.abandons_log() && log.has_log(newest).map_err(unavailable)? {
            return Ok(Err(RemoteRefusal::HasLog));
        }
        let fs = self.shared.fs.as_ref();
        let held = match last_held(fs, log, newest).map_err(|error| self.epoch_failed(error))? {
            Ok(held) => held,
            Err(refusal) => return Ok(Err(refusal)),
        };
        // No claim has the nonce that stands for none.
        let tried = ClaimId { epoch: newest + 1, nonce: entropy.next_u64().max(1) };
        note(fs, self.shared.store, held, tried).map_err(|error| self.shared.failed(error))?;
        Ok(Ok(tried))
    }

    /// Takes no writes where the remote has a log that they would be missing in.
    fn refuse_writes_of(&self, refusal: RemoteRefusal) -> Result<(), StoreError> {
        if refusal != RemoteRefusal::HasLog {
            return Ok(());
        }
        self.shared.latch(ReadOnlyReason::LogNotContinued, "the remote has a log".to_owned());
        self.shared.check_writable()
    }

    /// Notes the claim of an epoch, so that a later start without the log goes on from it.
    pub(in crate::store) fn note_epoch(&self, claim: ClaimId) -> Result<(), LogError> {
        note(self.shared.fs.as_ref(), self.shared.store, claim, ClaimId::default())
    }

    fn epoch_failed(&self, error: EpochError) -> StoreError {
        match error {
            EpochError::Remote(error) => error,
            EpochError::Disk(error) => self.shared.failed(error),
        }
    }
}

/// Why the last claim of a directory is not known.
enum EpochError {
    Remote(StoreError),
    Disk(LogError),
}

/// The newest claim, if the directory has made it; or why it has not.
fn last_held(
    fs: &dyn Fs,
    log: RemoteLog<'_>,
    newest: u64,
) -> Result<Result<ClaimId, RemoteRefusal>, EpochError> {
    let record = EPOCH_FILE.load(fs, EpochRecord::decode).map_err(EpochError::Disk)?;
    let record = record.filter(|record| record.store == log.store);
    // The remote has fewer claims than this directory has seen: somebody deleted them, or brought
    // back an old state of the remote. Another claim of the same number would take over objects of
    // an epoch that has been.
    if record.is_some_and(|record| record.held.epoch > newest) {
        return Ok(Err(RemoteRefusal::ClaimsLost));
    }
    if newest == 0 {
        return Ok(Ok(ClaimId::default()));
    }
    let found = claim_of(log.remote, newest).map_err(EpochError::Remote)?;
    let Some(record) = record.filter(|record| [record.held, record.tried].contains(&found)) else {
        return Ok(Err(RemoteRefusal::Foreign { newest }));
    };
    let file = fs.open_read(EPOCH).and_then(|file| file.usage());
    let file = file.map_err(|error| EpochError::Disk(error.into()))?;
    // A copy of the directory has the nonces, but its file has another id. The original may still
    // run, so that the copy changes nothing.
    Ok(if record.file == file.id { Ok(found) } else { Err(RemoteRefusal::Copied { newest }) })
}

/// Fails where a store without a log, which is not in this directory, has made the newest claim: a
/// epoch would take its objects.
pub(in crate::store) fn check_no_other_tier(
    fs: &dyn Fs,
    log: RemoteLog<'_>,
) -> Result<Option<RemoteRefusal>, StoreError> {
    let newest = log.newest_claim().map_err(unavailable)?;
    let claim = line(log.remote, &Claim::name(newest), Claim::decode).map_err(unavailable)?;
    if !claim.is_some_and(|claim| claim.of_tier) {
        return Ok(None);
    }
    match last_held(fs, log, newest) {
        Ok(held) => Ok(held.err()),
        Err(EpochError::Remote(error)) => Err(error),
        Err(EpochError::Disk(error)) => Err(error.into()),
    }
}

/// Whether the directory `fs` has made the newest claim, or there is none: then no other host
/// changes the remote.
///
/// # Errors
/// Errors of the remote, and of the disk.
pub(in crate::store) fn made_newest_claim(
    fs: &dyn Fs,
    log: RemoteLog<'_>,
    newest: u64,
) -> Result<bool, ShipError> {
    match last_held(fs, log, newest) {
        Ok(held) => Ok(held.is_ok()),
        Err(EpochError::Remote(error)) => Err(ShipError::Waiting(error.to_string())),
        Err(EpochError::Disk(error)) => Err(ShipError::Disk(error.to_string())),
    }
}

/// Notes a claim in the directory `fs`, which goes on from it. Durable on return.
///
/// # Errors
/// [`ShipError::Disk`].
pub(in crate::store) fn note_claim(fs: &dyn Fs, store: StoreId, claim: ClaimId) -> Result<(), ShipError> {
    note(fs, store, claim, ClaimId::default()).map_err(|error| ShipError::Disk(error.to_string()))
}

/// Claims the next epoch of the remote for the directory `fs`, which the caller keeps locked: its
/// next start goes on from there, and no other directory does. Returns the epoch.
///
/// # Errors
/// [`ShipError::Claimed`] where another claim is faster; the errors of the remote, and of the disk.
pub fn adopt_remote(
    remote: &dyn Remote,
    fs: &dyn Fs,
    store: StoreId,
    now: Timestamp,
    entropy: &dyn Entropy,
) -> Result<u64, ShipError> {
    let log = RemoteLog { remote, store };
    let newest = log.newest_claim()?;
    // The newest claim counts as held, whoever made it: that is the meaning of adopting. `note`
    // below writes it together with the next one.
    let held = match newest {
        0 => ClaimId::default(),
        newest => claim_of(remote, newest).map_err(|error| ShipError::Waiting(error.to_string()))?,
    };
    let claim = ClaimId { epoch: newest + 1, nonce: entropy.next_u64().max(1) };
    // The claim of a crashed call is known by its nonce, or the one before it is still the newest.
    note(fs, store, held, claim).map_err(|error| failed(&error))?;
    // A writer of a log goes on after a claim without a cut, unless its log is given up.
    let made = Claim { store, epoch: claim.epoch, made: now, of_tier: !log.has_log(newest)? };
    match put_once(remote, &Claim::name(claim.epoch), &made.encode(), &digits(claim.nonce)) {
        Err(ShipError::Remote { error: RemoteError::Exists, .. }) => {
            return Err(ShipError::Claimed(claim.epoch));
        }
        put => put?,
    }
    let found = claim_of(remote, claim.epoch).map_err(|error| ShipError::Waiting(error.to_string()))?;
    if found != claim {
        return Err(ShipError::Claimed(claim.epoch));
    }
    note(fs, store, claim, ClaimId::default()).map_err(|error| failed(&error))?;
    Ok(claim.epoch)
}

fn failed(error: &LogError) -> ShipError {
    ShipError::Disk(error.to_string())
}

/// Notes claims in the directory. Durable on return.
fn note(fs: &dyn Fs, store: StoreId, held: ClaimId, tried: ClaimId) -> Result<(), LogError> {
    let noted = write_atomically(fs, EPOCH, FileKind::Log.dir(), |file| {
        // The id is that of the unfinished file, which the rename keeps.
        let record = EpochRecord { store, held, tried, file: file.usage()?.id };
        Ok(file.write_all_at(&record.encode(), 0)?)
    });
    noted.map(drop)
}

/// A claim that is there, with its nonce; one of another program has none.
fn claim_of(remote: &dyn RemoteView, epoch: u64) -> Result<ClaimId, StoreError> {
    let name = Claim::name(epoch);
    let found = remote.head(&name, PATIENCE);
    let found = found.map_err(|error| StoreError::RemoteUnavailable(format!("{name}: {error}")))?;
    let nonce = found.and_then(|claim| u64::from_str_radix(&claim.nonce?, 16).ok());
    Ok(ClaimId { epoch, nonce: nonce.unwrap_or(0) })
}

fn digits(nonce: u64) -> String {
    format!("{nonce:016x}")
}

#[expect(clippy::needless_pass_by_value, reason = "it is mapped over results")]
fn unavailable(error: ShipError) -> StoreError {
    StoreError::RemoteUnavailable(error.to_string())
}
