//! A second host: its directory follows the log on the remote, and it takes over.
//!
//! A parcel that is missing may be the end of the log, or may have been deleted after a later root
//! covered it. So a standby that finds none looks for later epochs and roots; where it has missed
//! parcels it fills its directory from the newest root again. A takeover decides in the same way,
//! and its looks come after its claim: the model in `tests/remote_model` calls it `ReadFromRoot`.
//!
//! It may begin in the directory of a writer (`watch`), so that one command serves all hosts at
//! each start.
//!
//! Several standbys do not fence one another: each claims only the epoch after the newest claim
//! that it has seen, and takes a claim that is new for a heartbeat. So of those that miss the
//! writer at a time one wins, and the others follow it.

mod watch;

use std::cmp::Ordering;
use std::sync::Arc;
use std::time::Duration;

use watch::WatchedDir;

use super::epoch::ClaimedEpoch;
use super::log_copy::{LogCopy, clear, follows, is_used, mark, unmark};
use super::pace::FollowPace;
use super::parcel_applier::ParcelApplier;
use super::readers::{ReaderStore, StandbyReaders};
use super::restore::restore_chain;
use super::wishes::OwnWish;
use super::witness::{FoundEnd, check_end};
use crate::base::limits::MIB;
use crate::base::{Clock, Entropy, Timestamp};
use crate::format::{Cut, FileKind, Heartbeat, LogPosition, Parcel, RemoteMark, Root, TakeoverWish};
use crate::fs::Fs;
use crate::log::LogError;
use crate::remote::{NewObject, Remote, RemoteView};
use crate::store::remote_log::chain::{Chain, RemoteLog};
use crate::store::remote_log::error::{ShipError, disk};
use crate::store::remote_log::object::{line, mark_of};
use crate::store::remote_log::request::PATIENCE;
use crate::store::tier::epoch::note_claim;
use crate::store::{Progress, StoreOptions};

/// Steps without a parcel before the next look for a heartbeat, and for later epochs and roots.
const STEPS_PER_LOOK: u32 = 3;

/// Parcels applied without a pause before a look at what is still ahead, and from one such look to
/// the next.
const PARCELS_PER_LOOK: u64 = 64;
const PARCELS_BEFORE_LOOK: u64 = 4;

/// Times that a takeover reads on before it takes what is missing for hidden.
const END_TRIES: u32 = 3;

/// The length of the log after the checkpoint from which a directory is filled again, where there
/// is a newer root: an open reads it in some seconds.
const LOG_MAX_BYTES: u64 = 256 * MIB;

/// The longest time that what is there is applied for before a claim, where a writer goes on to
/// write.
const CATCH_UP_MAX: Duration = Duration::from_secs(60);

/// Why a directory without a log is left as it is.
const WITHOUT_LOG: &str = "holds segments or checkpoints, and no log. Choose an empty one";

/// What a step has found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StandbyStep {
    /// Whether another step has work at once.
    pub more: bool,
    /// Whether a writer has shown that it lives.
    pub heartbeat: bool,
}

/// The state of a standby.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StandbyFigures {
    /// The number of the epoch that is followed; 0 before the directory is filled.
    pub epoch: u64,
    /// The last group in the directory.
    pub sequence: u64,
    /// Groups that are known to be on the remote, and are not in the directory.
    pub waiting_groups: u64,
    /// Bytes of objects of the log that are known to be on the remote, and were not applied.
    pub lag_bytes: u64,
    /// Parcels applied since the start.
    pub parcels: u64,
    /// Bytes fetched since the start.
    pub bytes: u64,
    /// How many times the directory was filled from a root.
    pub fills: u64,
}

/// An epoch that a standby has claimed, and whose log is in its directory.
#[derive(Debug)]
pub struct TakenOver(pub(super) ClaimedEpoch);

impl TakenOver {
    /// The number of the epoch.
    pub fn epoch(&self) -> u64 {
        self.0.epoch
    }
}

/// Where a directory is in the log on the remote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct LogPlace {
    epoch: u64,
    /// The parcel to be applied next.
    next: u64,
}

/// Where the log goes on after a place.
enum Onward {
    /// With the parcels of the same epoch, the last of which is known if a later one adopts them.
    /// They lead at least to the group `least`, or a root alone has it.
    Here { last: Option<u64>, least: u64 },
    /// In a later epoch.
    There(LogPlace),
    /// Nowhere: parcels are missing, or the directory has some that no later epoch has adopted.
    Gap,
}

/// What became of the next parcel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NextParcel {
    Applied,
    Missing,
    /// Its groups come after others that only a root has.
    Gap,
}

/// A directory that follows the log on a remote.
pub struct Standby {
    remote: Arc<dyn Remote>,
    fs: Arc<dyn Fs>,
    clock: Arc<dyn Clock>,
    /// The mark of the remote, once it was read.
    mark: Option<RemoteMark>,
    /// The directory; `None` until it has been read or filled.
    copy: Option<(LogCopy, LogPlace)>,
    /// The directory of a writer, which is left as it is so far.
    watched: Option<WatchedDir>,
    claimed: Option<ClaimedEpoch>,
    /// The newest claim that was seen. Only the next one may be claimed here: another belongs to a
    /// host that takes over, too.
    newest_claim: u64,
    /// The last heartbeat.
    heartbeat: Option<Heartbeat>,
    /// The newest root that is known of the epoch that is followed.
    root: Option<Root>,
    idle_steps: u32,
    /// Parcels applied since one was missing.
    busy_steps: u64,
    figures: StandbyFigures,
    /// The store of the readers; `None` without any.
    readers: Option<ReaderStore>,
    pace: FollowPace,
    /// The request to the writer; `None` without a takeover by itself.
    wish: Option<OwnWish>,
}

impl Standby {
    /// A standby in a directory, which the caller keeps locked. Nothing is read or written yet.
    pub fn new(remote: Arc<dyn Remote>, fs: Arc<dyn Fs>, clock: Arc<dyn Clock>) -> Self {
        Self {
            remote,
            fs,
            clock,
            mark: None,
            copy: None,
            watched: None,
            claimed: None,
            newest_claim: 0,
            heartbeat: None,
            root: None,
            idle_steps: 0,
            busy_steps: 0,
            figures: StandbyFigures::default(),
            readers: None,
            pace: FollowPace::default(),
            wish: None,
        }
    }

    /// The same standby, whose writer is asked to give heartbeats as often as a takeover after
    /// that time needs.
    #[must_use]
    pub fn with_takeover_after(mut self, after: Duration) -> Self {
        self.wish = Some(OwnWish::new(after));
        self
    }

    /// The same standby, whose directory `readers` read.
    #[must_use]
    pub fn with_readers(mut self, options: StoreOptions, readers: Box<dyn StandbyReaders>) -> Self {
        self.readers = Some(ReaderStore::new(options, readers));
        self
    }

    /// Applies the next parcel; without one, looks for a heartbeat and later epochs at times.
    /// The first step reads the directory, or fills it from the newest root.
    ///
    /// # Errors
    /// Some [last](ShipError::lasts); after others a later step may succeed.
    pub fn step(&mut self, progress: &mut dyn FnMut(Progress)) -> Result<StandbyStep, ShipError> {
        let remote = Arc::clone(&self.remote);
        let log = self.log(remote.as_ref())?;
        if self.copy.is_none() {
            return self.read_or_watch(log, progress);
        }
        match self.apply_next(log, None)? {
            NextParcel::Applied => return self.parcel_was_applied(log),
            NextParcel::Missing => {
                self.busy_steps = 0;
                self.figures.lag_bytes = 0;
                self.idle_steps += 1;
                if !self.idle_steps.is_multiple_of(STEPS_PER_LOOK) {
                    return Ok(StandbyStep::default());
                }
            }
            NextParcel::Gap => {}
        }
        let is_alive = self.read_heartbeat(log)?;
        let claim = self.newest_claim;
        let moved = self.follow_epochs(log, progress)?;
        self.show_readers(log)?;
        // Who claims is about to write. The claimant has as long as a writer to show that it lives.
        Ok(StandbyStep { more: moved, heartbeat: is_alive || moved || self.newest_claim > claim })
    }

    /// As [`Standby::step`], by as few requests as the writer's promise allows: where nothing is
    /// written, one for the next parcel.
    ///
    /// # Errors
    /// As of [`Standby::step`].
    pub fn poll(&mut self, progress: &mut dyn FnMut(Progress)) -> Result<StandbyStep, ShipError> {
        let remote = Arc::clone(&self.remote);
        let log = self.log(remote.as_ref())?;
        if self.copy.is_none() {
            return self.step(progress);
        }
        let now = self.clock.now();
        match self.apply_next(log, None)? {
            NextParcel::Applied => {
                self.pace.applied(now);
                return self.parcel_was_applied(log);
            }
            NextParcel::Gap => return self.look_fully(log, false, progress),
            NextParcel::Missing => {}
        }
        self.busy_steps = 0;
        self.figures.lag_bytes = 0;
        self.pace.missed(now);
        let is_look_due = self.pace.is_full_look_due(now);
        if !is_look_due && !self.pace.is_heartbeat_due(now) {
            return Ok(StandbyStep::default());
        }
        let is_alive = self.read_heartbeat(log)?;
        self.pace.looked_for_heartbeat(now, self.heartbeat.map(|heartbeat| heartbeat.every), is_alive);
        self.tell_wish(now);
        let is_moved = is_look_due || self.lacks_groups() || (!is_alive && self.is_succeeded(log)?);
        if is_moved {
            self.look_fully(log, is_alive, progress)
        } else {
            Ok(StandbyStep { more: false, heartbeat: is_alive })
        }
    }

    /// The pause before the next poll.
    pub fn pause(&self) -> Duration {
        self.pace.pause(self.clock.now())
    }

    /// The shortest silence after which the writer may be taken for gone, as it promises.
    pub fn least_silence(&self) -> Duration {
        self.pace.least_silence()
    }

    /// Whether the last heartbeat names groups that the directory lacks.
    fn lacks_groups(&self) -> bool {
        self.figures().waiting_groups > 0
    }

    /// Whether another host has claimed an epoch after those that are known.
    fn is_succeeded(&self, log: RemoteLog<'_>) -> Result<bool, ShipError> {
        let Some((_, place)) = &self.copy else { return Ok(false) };
        log.is_claimed(place.epoch.max(self.newest_claim) + 1)
    }

    /// Looks for later epochs and roots.
    fn look_fully(
        &mut self,
        log: RemoteLog<'_>,
        is_alive: bool,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<StandbyStep, ShipError> {
        let claim = self.newest_claim;
        let moved = self.follow_epochs(log, progress)?;
        let now = self.clock.now();
        self.pace.looked_fully(now);
        if moved {
            self.pace.applied(now);
        }
        self.show_readers(log)?;
        // Who claims is about to write. The claimant has as long as a writer to show that it lives.
        Ok(StandbyStep { more: moved, heartbeat: is_alive || moved || self.newest_claim > claim })
    }

    fn parcel_was_applied(&mut self, log: RemoteLog<'_>) -> Result<StandbyStep, ShipError> {
        self.idle_steps = 0;
        self.busy_steps += 1;
        if self.busy_steps % PARCELS_PER_LOOK == PARCELS_BEFORE_LOOK {
            self.look_ahead(log)?;
        }
        Ok(StandbyStep { more: true, heartbeat: true })
    }

    /// Puts the wish for heartbeats, where it is due. Without it a takeover waits for as long as
    /// the writer's promise needs.
    fn tell_wish(&mut self, now: Timestamp) {
        let Some(own) = &mut self.wish else { return };
        let Some(mark) = self.mark else { return };
        let every = self.heartbeat.map_or(Duration::ZERO, |heartbeat| heartbeat.every);
        if !own.is_due(now, every) {
            return;
        }
        let wish = TakeoverWish { store: mark.store, after: own.after, made: now };
        let name = TakeoverWish::NAME;
        let bytes = wish.encode();
        let nonce = now.as_millis().to_string();
        let object = NewObject { name, body: &bytes.as_slice(), nonce: &nonce, create_only: false };
        match self.remote.put(&object, PATIENCE) {
            Ok(_) => own.was_put(now),
            Err(error) => {
                log::warn!("the writer is not told how often this standby needs heartbeats: {name}: {error}");
            }
        }
    }

    /// Takes over: applies what is there, unless the directory is a writer's, which has it;
    /// claims the epoch after the newest claim that it has seen, reads on to the end of the log
    /// that it adopts, puts its cut, and makes the directory a writer's, which the ordinary
    /// open goes on with. `None` where another host was faster, which is to be followed. After an
    /// error another call goes on with the same claim.
    ///
    /// # Errors
    /// As of [`Standby::step`].
    pub fn take_over(
        &mut self,
        entropy: &dyn Entropy,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Option<TakenOver>, ShipError> {
        let remote = Arc::clone(&self.remote);
        let log = self.log(remote.as_ref())?;
        let mut claimed = match self.claimed.take() {
            Some(claimed) => claimed,
            None => {
                let seen = self.newest_claim;
                if self.watched.is_some() {
                    self.watch(log, progress)?;
                }
                // 1. The directory has all that the remote shows, before anything is claimed. After
                //    the claim nobody writes until it is whole, and a directory that cannot take
                //    over would end the epoch of a living writer.
                self.catch_up(progress)?;
                // Another host has claimed while this one caught up. A claim on top of it would
                // fence a host that is about to write.
                if seen > 0 && self.newest_claim > seen {
                    return Ok(None);
                }
                self.check_no_other_tier(log)?;
                // 2. The claim of the epoch after the newest one that was seen: of several standbys
                //    one creates it, and the others follow.
                let next = ClaimedEpoch::unclaimed(self.newest_claim + 1, entropy);
                if !next.claim(remote.as_ref(), &log, self.clock.now())? {
                    self.newest_claim = next.epoch;
                    if let Some(watched) = &mut self.watched {
                        watched.is_newest = false;
                    }
                    return Ok(None);
                }
                next
            }
        };
        // 3. What the writer put until it saw the claim. After an error the claim is kept, and
        //    another call goes on with it: a second one would fence this host itself.
        let reached = self.reach_end(log, &mut claimed, progress);
        let epoch = claimed.epoch;
        self.claimed = Some(claimed);
        reached?;
        self.newest_claim = log.newest_claim_from(epoch)?;
        if self.newest_claim > epoch {
            self.claimed = None;
            return Ok(None);
        }
        if let Some(claimed) = &self.claimed {
            // 4. The cut. The open may take long: other hosts see by the cut that this one goes on.
            claimed.begin(remote.as_ref())?;
            // 5. The claim is noted in the directory, so that a start after a crash in the open
            //    goes on at once.
            note_claim(self.fs.as_ref(), log.store, claimed.id())?;
        }
        self.close_readers();
        // 6. The mark goes last. While it is there, the directory may be cleared and filled again,
        //    which after the open would lose writes.
        unmark(self.fs.as_ref())?;
        self.copy = None;
        self.watched = None;
        Ok(self.claimed.take().map(TakenOver))
    }

    /// Whether this host has claimed an epoch, so that nobody writes until it has taken over.
    pub fn has_claimed(&self) -> bool {
        self.claimed.is_some()
    }

    /// Looks for the newest claim, so that a takeover claims the next one.
    ///
    /// # Errors
    /// As of [`Standby::step`].
    pub fn look_for_claims(&mut self) -> Result<(), ShipError> {
        let remote = Arc::clone(&self.remote);
        let log = self.log(remote.as_ref())?;
        self.newest_claim = log.newest_claim()?;
        Ok(())
    }

    /// Applies what is there, for a while at most.
    fn catch_up(&mut self, progress: &mut dyn FnMut(Progress)) -> Result<(), ShipError> {
        let begun = self.clock.instant();
        loop {
            // A step without a parcel looks for later epochs and roots.
            self.idle_steps = STEPS_PER_LOOK - 1;
            if !self.step(progress)?.more {
                // A claim before pieces that the remote hides would end the epoch of a living
                // writer for nothing.
                return self.check_seen();
            }
            if self.clock.instant().duration_since(begun) >= CATCH_UP_MAX {
                return Ok(());
            }
        }
    }

    /// Fails where the last heartbeat names groups that a directory lacks which has all that the
    /// remote shows.
    fn check_seen(&self) -> Result<(), ShipError> {
        let Some((_, place)) = &self.copy else { return Ok(()) };
        let waiting = self.figures().waiting_groups;
        if waiting == 0 {
            return Ok(());
        }
        let why = format!("the writer has told that the remote has {waiting} groups more");
        Err(ShipError::Hidden { name: Parcel::name(place.epoch, place.next), why })
    }

    /// Whether the probe has found that the remote decides races: only then may a host take over by
    /// itself.
    ///
    /// # Errors
    /// The remote does not answer, or has no mark.
    pub fn decides_races(&mut self) -> Result<bool, ShipError> {
        let remote = Arc::clone(&self.remote);
        self.log(remote.as_ref())?;
        Ok(self.mark.is_some_and(|mark| mark.decides_races))
    }

    /// The state.
    pub fn figures(&self) -> StandbyFigures {
        let place = self.copy.as_ref().map(|(copy, place)| (place.epoch, copy.end.sequence));
        let place = place.or(self.watched.as_ref().map(|it| (it.end.epoch, it.dir.end.sequence)));
        let (epoch, sequence) = place.unwrap_or_default();
        let known = self
            .heartbeat
            .filter(|heartbeat| heartbeat.epoch == epoch)
            .map_or(0, |heartbeat| heartbeat.sequence);
        StandbyFigures { epoch, sequence, waiting_groups: known.saturating_sub(sequence), ..self.figures }
    }

    fn log<'r>(&mut self, remote: &'r dyn Remote) -> Result<RemoteLog<'r>, ShipError> {
        let mark = match self.mark {
            Some(mark) => mark,
            None => *self.mark.insert(mark_of(remote)?),
        };
        Ok(RemoteLog { remote, store: mark.store })
    }

    /// The cut of the newest epoch.
    fn newest_epoch(&mut self, log: RemoteLog<'_>) -> Result<Cut, ShipError> {
        self.newest_cut(log)?.ok_or(ShipError::NoLog)
    }

    /// As [`Standby::newest_epoch`]; `None` where the remote has no log.
    fn newest_cut(&mut self, log: RemoteLog<'_>) -> Result<Option<Cut>, ShipError> {
        self.newest_claim = log.newest_claim()?;
        log.newest_cut(self.newest_claim)
    }

    /// Reads the directory of a standby where it holds a part of the log of `newest`; fills it
    /// otherwise, or if it is empty.
    fn read_or_fill(
        &mut self,
        log: RemoteLog<'_>,
        newest: &Cut,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(), ShipError> {
        let chain = log.chain(newest)?.ok_or(ShipError::NoLog)?;
        let fs = Arc::clone(&self.fs);
        for kind in FileKind::ALL {
            fs.create_dir(kind.dir()).map_err(disk)?;
        }
        if !follows(fs.as_ref()).map_err(disk)? {
            if is_used(fs.as_ref())? {
                return Err(ShipError::Occupied(WITHOUT_LOG));
            }
            return self.fill(log, &chain, progress);
        }
        let found = match LogCopy::open(fs.as_ref()) {
            Ok(Some(copy)) if copy.store() == log.store => {
                locate(log, fs.as_ref(), &chain, copy.end)?.map(|at| (copy, at))
            }
            Ok(_) => None,
            Err(LogError::Damaged(damage)) => {
                log::warn!("the directory is filled again: {damage}");
                None
            }
            Err(error) => return Err(ShipError::Disk(error.to_string())),
        };
        let Some((copy, place)) = found else { return self.fill(log, &chain, progress) };
        copy.erase_tail()?;
        self.copy = Some((copy, place));
        self.show_readers(log)
    }

    /// Fills the directory from the root of a chain.
    fn fill(
        &mut self,
        log: RemoteLog<'_>,
        chain: &Chain,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(), ShipError> {
        let fs = Arc::clone(&self.fs);
        // 1. The readers go before their files.
        self.copy = None;
        self.close_readers();
        // 2. The mark comes before the first file goes: what a crash leaves may be filled again,
        //    and does not pass for a writer's directory with damage.
        mark(fs.as_ref())?;
        clear(fs.as_ref())?;
        // 3. The log file gets its name last, so that a directory that is not complete is no store.
        let (heads, _) = log.heads(chain, None)?;
        let report = restore_chain(log, fs.as_ref(), chain, &heads, self.clock.as_ref(), progress)?;
        let last = heads.last().filter(|head| head.epoch == chain.newest());
        let at_root = if chain.root.epoch == chain.newest() { chain.root.after } else { 0 };
        // What an adopted epoch has put after its cut is none of the log, and is not asked for.
        let place = LogPlace { epoch: chain.newest(), next: last.map_or(at_root, |head| head.counter) + 1 };
        let copy = LogCopy::open(fs.as_ref()).map_err(|error| ShipError::Disk(error.to_string()))?;
        let copy = copy.ok_or(ShipError::NoLog)?;
        self.figures.fills += 1;
        self.figures.bytes += report.bytes;
        self.root = Some(chain.root);
        self.copy = Some((copy, place));
        self.show_readers(log)
    }

    /// Applies the next parcel of the epoch, if it is there and not after `last`.
    fn apply_next(&mut self, log: RemoteLog<'_>, last: Option<u64>) -> Result<NextParcel, ShipError> {
        let Some((copy, place)) = &mut self.copy else { return Ok(NextParcel::Missing) };
        if last.is_some_and(|last| place.next > last) {
            return Ok(NextParcel::Missing);
        }
        // The parcels before the first root of an epoch: those without groups have bytes that the
        // directory has.
        let is_before = self.root.is_none_or(|root| root.epoch != place.epoch || place.next <= root.after);
        let found = log.find_parcel_but(place.epoch, place.next, &|head| {
            is_before && head.before == head.end && head.end == copy.end
        });
        let parcel = match found? {
            None => return Ok(NextParcel::Missing),
            Some((_, None)) => {
                place.next += 1;
                return Ok(NextParcel::Applied);
            }
            Some((_, Some(parcel))) => parcel,
        };
        // A parcel of the first root's bytes has no groups, and is in nobody's way.
        if parcel.head.before.sequence > copy.end.sequence && !parcel.groups.is_empty() {
            return Ok(NextParcel::Gap);
        }
        match copy.apply(log, self.fs.as_ref(), self.clock.as_ref(), &parcel) {
            Ok(bytes) => {
                place.next += 1;
                self.figures.parcels += 1;
                self.figures.bytes += bytes;
                self.figures.lag_bytes = self.figures.lag_bytes.saturating_sub(bytes);
                self.show_readers(log)?;
                Ok(NextParcel::Applied)
            }
            Err(error @ ShipError::Remote { .. }) => Err(error),
            // The directory shows how far it is.
            Err(error) => {
                self.copy = None;
                Err(error)
            }
        }
    }

    /// Shows the readers the groups of the directory. They learn which segments are remote, before
    /// the bytes of these go; and see the groups after that, since some bytes are in a remote
    /// segment alone.
    fn show_readers(&mut self, log: RemoteLog<'_>) -> Result<(), ShipError> {
        if let (Some(readers), Some((copy, _))) = (&mut self.readers, &mut self.copy) {
            readers.read_through(copy.end.sequence);
            copy.place_copies(log, self.fs.as_ref())?;
            let remote: Arc<dyn RemoteView> = self.remote.clone();
            readers.show(&self.fs, &self.clock, &remote);
        }
        Ok(())
    }

    /// Takes the directory from the readers, before it becomes another one.
    fn close_readers(&mut self) {
        if let Some(readers) = &mut self.readers {
            readers.close();
        }
    }

    /// Finds out how far the directory is behind.
    fn look_ahead(&mut self, log: RemoteLog<'_>) -> Result<(), ShipError> {
        self.read_heartbeat(log)?;
        if let Some((_, place)) = &self.copy {
            let ahead =
                log.listed_after(&Parcel::prefix(place.epoch), &Parcel::name(place.epoch, place.next - 1))?;
            // The names of its data objects begin with the parcel's.
            let next = Parcel::name(place.epoch, place.next);
            let ahead = ahead.iter().filter(|object| object.name >= next);
            self.figures.lag_bytes = ahead.map(|object| object.length).sum();
        }
        Ok(())
    }

    /// Reads the heartbeat of the epoch. Returns whether it is a new one.
    fn read_heartbeat(&mut self, log: RemoteLog<'_>) -> Result<bool, ShipError> {
        let Some((_, place)) = &self.copy else { return Ok(false) };
        self.read_heartbeat_of(log, place.epoch)
    }

    /// As [`Standby::read_heartbeat`], of any epoch.
    fn read_heartbeat_of(&mut self, log: RemoteLog<'_>, epoch: u64) -> Result<bool, ShipError> {
        let found = line(log.remote, &Heartbeat::name(epoch), Heartbeat::decode)?;
        let found = found.filter(|heartbeat| heartbeat.store == log.store && heartbeat.epoch == epoch);
        let is_new = found.is_some() && found != self.heartbeat;
        // One that is gone proves nothing: the last one that was seen still names groups that the
        // remote had.
        self.heartbeat = found.or(self.heartbeat);
        Ok(is_new)
    }

    /// Looks where the log goes on. Returns whether the directory has got further.
    fn follow_epochs(
        &mut self,
        log: RemoteLog<'_>,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<bool, ShipError> {
        let newest = self.newest_epoch(log)?;
        let Some((copy, place)) = &mut self.copy else { return Ok(false) };
        copy.place_copies(log, self.fs.as_ref())?;
        self.root = log.newest_root(place.epoch, None, &mut |_| true)?.or(self.root);
        let is_too_long = self.root.as_ref().is_some_and(|root| {
            let covers_more = root.epoch == newest.epoch && root.covered.sequence > copy.start();
            covers_more && copy.log_bytes() > LOG_MAX_BYTES.max(root.checkpoint_length)
        });
        if is_too_long {
            let chain = log.chain(&newest)?.ok_or(ShipError::NoLog)?;
            return self.fill(log, &chain, progress).map(|()| true);
        }
        let before = *place;
        if !self.follow(log, &newest)? {
            log::warn!("the directory is filled again from the newest checkpoint on the remote");
            let chain = log.chain(&newest)?.ok_or(ShipError::NoLog)?;
            self.fill(log, &chain, progress)?;
        }
        Ok(self.copy.as_ref().is_some_and(|(_, place)| *place != before))
    }

    /// Follows the log that `newest` has adopted and continued to its first missing parcel. Returns
    /// `false` where others are missing before it. The root is looked for before the parcels: a
    /// parcel after it that is missing has never been there.
    fn follow(&mut self, log: RemoteLog<'_>, newest: &Cut) -> Result<bool, ShipError> {
        while let Some((copy, place)) = &mut self.copy {
            match onward(log, newest, *place, copy.end)? {
                Onward::Gap => return Ok(false),
                Onward::There(there) => *place = there,
                Onward::Here { last, least } => {
                    let from = *place;
                    let stopped = loop {
                        match self.apply_next(log, last)? {
                            NextParcel::Applied => {}
                            stopped => break stopped,
                        }
                    };
                    let Some((copy, place)) = &self.copy else { return Ok(false) };
                    match (stopped, last) {
                        (NextParcel::Gap, _) => return Ok(false),
                        (_, None) => return Ok(copy.end.sequence >= least),
                        (_, Some(_)) if *place == from => return Ok(false),
                        (_, Some(_)) => {}
                    }
                }
            }
        }
        Ok(false)
    }

    /// Gets the directory to the end of the log that a claimed epoch adopts, and freezes its cut.
    fn reach_end(
        &mut self,
        log: RemoteLog<'_>,
        claimed: &mut ClaimedEpoch,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(), ShipError> {
        if claimed.cut.is_none() && self.copy.is_some() {
            let former = log.newest_cut(claimed.epoch - 1)?.ok_or(ShipError::NoLog)?;
            claimed.cut = self.follow_to_end(log, claimed.epoch, &former)?;
        }
        let cut = claimed.adopt(&log)?;
        if self.watched.as_ref().is_some_and(|watched| watched.dir.has(cut.end)) {
            return Ok(());
        }
        if let Some(watched) = self.watched.take() {
            // The other host has written between the look and the claim.
            let replaced = self.replace_watched(log, &cut, &watched, progress);
            if replaced.is_err() {
                self.watched = Some(watched);
            }
            replaced?;
        } else if self.cut_here(log, claimed.epoch) != Some(cut) {
            let chain = log.chain(&cut)?.ok_or(ShipError::NoLog)?;
            self.fill_unless_used(log, &chain, progress)?;
        }
        let Some((copy, _)) = &mut self.copy else { return Err(ShipError::NoLog) };
        copy.place_copies(log, self.fs.as_ref())?;
        if copy.end == cut.end {
            Ok(())
        } else {
            Err(ShipError::damaged(Cut::name(cut.former), &"the log does not lead to its end"))
        }
    }

    /// Follows the log of an epoch to its end. Returns the cut there, for an epoch with that claim;
    /// `None` where the directory is to be filled.
    fn follow_to_end(
        &mut self,
        log: RemoteLog<'_>,
        claim: u64,
        former: &Cut,
    ) -> Result<Option<Cut>, ShipError> {
        for tries in 1.. {
            if !self.follow(log, former)? {
                return Ok(None);
            }
            match self.check_end(log, claim, former.epoch) {
                // The last parcel of the writer that is fenced may come after the look for it.
                Err(ShipError::Hidden { .. }) if tries < END_TRIES => {}
                checked => return checked.map(|()| self.cut_here(log, claim)),
            }
        }
        Ok(None)
    }

    /// Fails where something speaks for a longer log than the directory has.
    fn check_end(&self, log: RemoteLog<'_>, claim: u64, newest: u64) -> Result<(), ShipError> {
        let Some((copy, place)) = &self.copy else { return Ok(()) };
        let last = if place.epoch == newest { place.next - 1 } else { 0 };
        let found = FoundEnd { epoch: newest, last, end: copy.end, has_root: true };
        check_end(&log, claim, found, self.heartbeat)
    }

    /// The cut that adopts the log up to the place of the directory.
    fn cut_here(&self, log: RemoteLog<'_>, epoch: u64) -> Option<Cut> {
        let (copy, place) = self.copy.as_ref()?;
        Some(Cut { store: log.store, epoch, former: place.epoch, last: place.next - 1, end: copy.end })
    }

    /// Fills the directory, which may not have been read yet.
    fn fill_unless_used(
        &mut self,
        log: RemoteLog<'_>,
        chain: &Chain,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(), ShipError> {
        let fs = self.fs.as_ref();
        if !follows(fs).map_err(disk)? && is_used(fs)? {
            return Err(ShipError::Occupied(WITHOUT_LOG));
        }
        self.fill(log, chain, progress)
    }
}

/// The place after a group in a chain; `None` where the chain does not have it after its root.
fn locate(
    log: RemoteLog<'_>,
    fs: &dyn Fs,
    chain: &Chain,
    end: LogPosition,
) -> Result<Option<LogPlace>, ShipError> {
    if end == chain.root.covered {
        return Ok(Some(LogPlace { epoch: chain.root.epoch, next: chain.root.after + 1 }));
    }
    for head in log.heads(chain, None)?.0 {
        if head.end == end {
            return Ok(Some(LogPlace { epoch: head.epoch, next: head.counter + 1 }));
        }
        if head.before.sequence < end.sequence && end.sequence < head.end.sequence {
            let parcel = log.parcel(head.epoch, head.counter)?;
            let groups = ParcelApplier::new(log, fs, head.before).groups(&parcel)?;
            let mut positions = groups
                .iter()
                .map(|(group, _)| LogPosition { sequence: group.header.sequence, crc: group.crc });
            let here = LogPlace { epoch: head.epoch, next: head.counter };
            return Ok(positions.any(|position| position == end).then_some(here));
        }
    }
    Ok(None)
}

/// Where the log of `newest` goes on after a place.
fn onward(log: RemoteLog<'_>, newest: &Cut, place: LogPlace, end: LogPosition) -> Result<Onward, ShipError> {
    if newest.epoch == place.epoch {
        let root = log.newest_root(place.epoch, None, &mut |_| true)?;
        let is_behind = root.is_some_and(|root| root.after >= place.next);
        let is_there = !is_behind || log.exists(&Parcel::name(place.epoch, place.next))?;
        let least = root.map_or(0, |root| root.covered.sequence);
        return Ok(if is_there { Onward::Here { last: None, least } } else { Onward::Gap });
    }
    // Backwards from the newest cut, to the one that adopts the epoch of the place.
    let mut cut = *newest;
    while cut.former != place.epoch {
        if cut.former < place.epoch {
            return Ok(Onward::Gap);
        }
        let former = log.cut(cut.former)?;
        cut = former.ok_or_else(|| ShipError::damaged(Cut::name(cut.former), &"it is missing"))?;
    }
    Ok(match (place.next - 1).cmp(&cut.last) {
        Ordering::Less => Onward::Here { last: Some(cut.last), least: 0 },
        Ordering::Equal if end == cut.end => into_epoch(log, cut.epoch, end)?,
        Ordering::Equal | Ordering::Greater => Onward::Gap,
    })
}

/// The place in an epoch that has adopted all groups of a directory: it begins with the groups that
/// its host had besides, or where there are none or they are in its first root alone, after that
/// root.
fn into_epoch(log: RemoteLog<'_>, epoch: u64, end: LogPosition) -> Result<Onward, ShipError> {
    let begin = Onward::There(LogPlace { epoch, next: 1 });
    let first = line(log.remote, &Root::name(epoch, 1), Root::decode)?;
    Ok(match first.filter(|root| root.store == log.store && root.epoch == epoch) {
        Some(root) if root.covered == end => Onward::There(LogPlace { epoch, next: root.after + 1 }),
        Some(_)
            if log.head_of_parcel(epoch, 1)?.is_some_and(|head| head.before == end && head.end != end) =>
        {
            begin
        }
        None if log.newest_root(epoch, None, &mut |_| true)?.is_none() => begin,
        Some(_) | None => Onward::Gap,
    })
}
