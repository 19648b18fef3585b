//! The scrub: a slow pass over all that is stored, which reads every extent that a record refers to, so that what rots is
//! noticed before somebody needs it. It goes in the order of the disk, in small steps, beside all else; extents that
//! are moved or die meanwhile are no damage.
//!
//! # A pass
//!
//! 1. A walk over the index gathers the live extents from the place on that the pass has come to, as many as there is memory for.
//! 2. They are read in the order in which they lie. It is only told whether they are good.
//! 3. Where some are not, another walk finds all who refer to them, for whom they are looked at closely and recorded.
//!
//! Then from 1 on with what follows, up to the newest segment that there was at the beginning: what was written or moved since then has
//! been checked on its way, and waits for the next pass.
//!
//! What the page cache holds is read from there, so the disk below it goes unread; a later pass finds it there. Nothing
//! that was not cached before is cached afterwards.

mod batch;
mod pace;
mod sweep;

use std::collections::HashSet;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use pace::ScrubPace;

use crate::base::Timestamp;
use crate::base::limits::{
    SCRUB_BAD_EXTENTS_MAX, SCRUB_EVERY_SECS, SCRUB_FILE_MAX_BYTES, SCRUB_SAVE_EVERY_SECS,
};
use crate::format::{
    BadExtent, Entry, ExtentOwner, ExtentOwnerKind, ExtentRef, SCRUB, ScrubState, StoreId, page_ceil,
    segment_path,
};
use crate::fs::Fs;
use crate::index::{Cursor, Index};
use crate::log::{Damage, ExtentLocation, LogError, Segment};
use crate::store::health::ScrubHealth;
use crate::store::shared::{SharedStore, walk_memory_bytes};
use crate::store::state_file::StateFile;
use crate::store::{Health, Store, StoreError, extents, verify};
use batch::{Gathering, LiveExtent};
use sweep::Sweep;

/// Keys that are taken out of the index at once, while it is locked against the committer.
const KEYS_AT_ONCE: usize = 256;
/// So often in one call.
const WALKS_AT_ONCE: usize = 64;
/// What is told of a bad extent is cut off behind so many characters.
const WHAT_LEN_MAX: usize = 1024;

const FILE: StateFile =
    StateFile { path: SCRUB, what: "the state of the scrub", max_bytes: SCRUB_FILE_MAX_BYTES };

/// What was kept of the scrub; `None` where nothing was.
///
/// # Errors
/// As of [`StateFile::load`].
pub(super) fn load(fs: &dyn Fs, store: &StoreId) -> Result<Option<ScrubState>, LogError> {
    FILE.load(fs, |bytes| ScrubState::decode(store, bytes))
}

/// What a call has done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Scrubbed {
    /// Extents that were checked.
    pub extents: u64,
    /// Bytes that were read for it, in whole pages.
    pub bytes: u64,
    /// Bytes of the extents.
    pub checked_bytes: u64,
    /// Bytes of all extents that there are.
    pub live_bytes: u64,
    /// How many were bad.
    pub bad: u64,
    /// Whether the pass goes on: else it is over, or the next one is not due.
    pub more: bool,
}

/// What is known of the scrub from call to call.
pub(super) struct Scrubber {
    state: Mutex<ScrubState>,
    /// Held for the length of a call: one at a time.
    walk: Mutex<Walk>,
    extents: AtomicU64,
    bytes: AtomicU64,
}

/// Where the pass is.
struct Walk {
    stage: Stage,
    /// Where the next gathering begins; `None` behind the last.
    next: Option<ExtentLocation>,
    /// Extents that are not good, and of which it is not known yet who refers to them.
    suspects: HashSet<ExtentLocation>,
    saved: Timestamp,
}

enum Stage {
    /// Finding out what comes next on the disk.
    Gather(Gathering),
    /// Reading it.
    Read(std::vec::IntoIter<LiveExtent>),
    /// Finding out who refers to the suspects.
    Resolve(Cursor),
}

impl Walk {
    /// Nothing has been gathered yet of what lies at `from` and behind.
    fn new(from: ExtentLocation, saved: Timestamp) -> Self {
        Self { stage: Stage::Read(Vec::new().into_iter()), next: Some(from), suspects: HashSet::new(), saved }
    }
}

/// What comes after a step.
enum Then {
    GoOn,
    /// The budget is used up.
    Pause,
    Finish,
}

/// An extent and one of those who refer to it.
struct Target {
    extent: ExtentRef,
    owner: Arc<ExtentOwner>,
}

impl Store {
    /// Checks extents until `budget_bytes` bytes have been read or the pass is over; or looks through some thousands of keys for
    /// those that come next. A pass begins a week after the last one began, or when that has ended, where it took longer.
    /// [`ScrubPace`] says when the next call is due. Where the pass has got to is kept now and then, and at the
    /// latest by [`Store::close`]; a finding, before the return of the call in which it was found who refers to the extent.
    ///
    /// # Errors
    /// Of the disk, when a segment cannot be opened or a finding not be kept. Damage is no error but a finding: see
    /// [`Store::health`].
    pub fn scrub(&self, budget_bytes: u64) -> Result<Scrubbed, StoreError> {
        // A call that panicked has at worst left an extent out.
        let walk = self.scrubber.walk.lock().unwrap_or_else(PoisonError::into_inner);
        let (shared, scrubber) = (&*self.shared, &self.scrubber);
        let live_bytes = shared.index().liveness().total();
        let done = Scrubbed { live_bytes, ..Scrubbed::default() };
        Run { shared, scrubber, walk, sweep: None, budget_bytes, walks: WALKS_AT_ONCE, done }.run()
    }
}

impl Scrubber {
    /// Goes on where the store's last process was. A file that is damaged is reported, and the pass begins anew.
    pub(super) fn open(shared: &SharedStore) -> Self {
        let state = match load(shared.fs.as_ref(), &shared.store) {
            Ok(state) => state.unwrap_or_default(),
            Err(error) => {
                let error = shared.failed(error);
                log::warn!("the scrub begins anew: {error}");
                ScrubState::default()
            }
        };
        let walk = Walk::new((state.segment, state.offset), shared.clock.now());
        Self {
            state: Mutex::new(state),
            walk: Mutex::new(walk),
            extents: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
        }
    }

    /// Keeps where a pass has got to.
    pub(super) fn close(&self, shared: &SharedStore) {
        if self.state().goes_on {
            // It costs no more than reading some again.
            let _ = self.save(shared);
        }
    }

    /// Adds what the scrub knows. Bad extents count as long as somebody refers to them.
    pub(super) fn tell(&self, shared: &SharedStore, health: &mut Health) {
        let state = self.state().clone();
        let index = shared.index();
        let bad: Vec<_> = state.bad.iter().filter(|bad| is_wanted(&index, bad)).collect();
        health.scrub = ScrubHealth {
            extents: self.extents.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            bad: bad.len() as u64 + state.unlisted,
            finished: state.finished,
        };
        for damage in bad.into_iter().map(damage_of) {
            if !health.damage.contains(&damage) {
                health.damage.push(damage);
            }
        }
    }

    /// How many bad extents are listed, wanted or not.
    #[cfg(test)]
    pub(super) fn known(&self) -> usize {
        self.state().bad.len()
    }

    fn state(&self) -> MutexGuard<'_, ScrubState> {
        self.state.lock().expect("nobody panics while holding it")
    }

    /// Makes the state durable. A store that takes no writes keeps it in memory alone, and so does a full disk.
    fn save(&self, shared: &SharedStore) -> Result<(), StoreError> {
        if shared.check_writable().is_err() {
            return Ok(());
        }
        let state = self.state().clone();
        match FILE.save(shared.fs.as_ref(), &state.encode(&shared.store)) {
            Err(LogError::DiskFull(error)) => {
                log::warn!("what the scrub knows is not kept over a restart: {error}");
                Ok(())
            }
            saved => saved.map_err(|error| shared.write_failed(error)),
        }
    }
}

/// One call.
struct Run<'a> {
    shared: &'a SharedStore,
    scrubber: &'a Scrubber,
    walk: MutexGuard<'a, Walk>,
    /// The segment that was read last. Were it open from call to call, its room could not be given back.
    sweep: Option<Sweep>,
    budget_bytes: u64,
    /// How often keys may still be taken out of the index.
    walks: usize,
    done: Scrubbed,
}

impl Run<'_> {
    fn run(mut self) -> Result<Scrubbed, StoreError> {
        self.forget_what_is_gone()?;
        if !self.begin_if_due()? {
            return Ok(self.done);
        }
        loop {
            let then = match &self.walk.stage {
                Stage::Gather(_) => self.gather(),
                Stage::Read(_) => self.read()?,
                Stage::Resolve(_) => self.resolve()?,
            };
            match then {
                Then::GoOn => {}
                Then::Pause => return self.pause(),
                Then::Finish => return self.finish(),
            }
        }
    }

    fn forget_what_is_gone(&self) -> Result<(), StoreError> {
        let known = self.scrubber.state().bad.clone();
        if known.is_empty() {
            return Ok(());
        }
        let wanted: Vec<_> = {
            let index = self.shared.index();
            known.iter().filter(|bad| is_wanted(&index, bad)).cloned().collect()
        };
        if wanted.len() == known.len() {
            return Ok(());
        }
        self.scrubber.state().bad = wanted;
        self.save()
    }

    fn begin_if_due(&mut self) -> Result<bool, StoreError> {
        let now = self.shared.clock.now();
        // One that is missing counts, too.
        let end = self.shared.index().liveness().iter().map(|(id, _)| id).max().unwrap_or(0);
        {
            let mut state = self.scrubber.state();
            // A clock that was wrong and has been put right puts off nothing for longer than a week.
            let wrong = state.begun.is_some_and(|begun| begun > now);
            if wrong {
                state.begun = Some(now);
            }
            let rests = state.begun.is_some_and(|begun| now.as_secs() < begun.as_secs() + SCRUB_EVERY_SECS);
            if state.goes_on || rests {
                let goes_on = state.goes_on;
                drop(state);
                return if wrong { self.save().map(|()| goes_on) } else { Ok(goes_on) };
            }
            let ScrubState { finished, ref mut bad, .. } = *state;
            let bad = std::mem::take(bad);
            *state =
                ScrubState { begun: Some(now), goes_on: true, finished, end, bad, ..ScrubState::default() };
        }
        *self.walk = Walk::new((0, 0), self.walk.saved);
        self.save().map(|()| true)
    }

    /// Goes on to what comes after the suspects of the last batch have been cleared up.
    fn next_batch(&mut self) -> Then {
        // It may be longer by now, where it is written to.
        self.sweep = None;
        let Some(from) = self.walk.next else {
            return Then::Finish;
        };
        let end = {
            let mut state = self.scrubber.state();
            (state.segment, state.offset) = from;
            state.end
        };
        let memory_bytes = walk_memory_bytes(&self.shared.index());
        self.walk.stage = Stage::Gather(Gathering::new(from, end, memory_bytes));
        Then::GoOn
    }

    /// The next keys of a walk; `None` when the call has passed enough of them. None are left behind the last.
    fn next_keys(&mut self, cursor: &mut Cursor) -> Option<Vec<Entry>> {
        self.walks = self.walks.checked_sub(1)?;
        Some(self.shared.index().walk(cursor, KEYS_AT_ONCE))
    }

    fn gather(&mut self) -> Then {
        let nothing = Stage::Read(Vec::new().into_iter());
        let Stage::Gather(mut gathering) = std::mem::replace(&mut self.walk.stage, nothing) else {
            return Then::GoOn;
        };
        let entries = self.next_keys(&mut gathering.cursor);
        match entries {
            Some(entries) if entries.is_empty() => {
                let (batch, next) = gathering.finish();
                self.walk.next = next;
                self.walk.stage = Stage::Read(batch.into_iter());
                return Then::GoOn;
            }
            Some(ref entries) => entries.iter().for_each(|entry| gathering.add(entry)),
            None => {}
        }
        self.walk.stage = Stage::Gather(gathering);
        if entries.is_some() { Then::GoOn } else { Then::Pause }
    }

    fn read(&mut self) -> Result<Then, StoreError> {
        let Stage::Read(batch) = &self.walk.stage else {
            return Ok(Then::GoOn);
        };
        let Some(extent) = batch.as_slice().first().copied() else {
            if self.walk.suspects.is_empty() {
                return Ok(self.next_batch());
            }
            self.walk.stage = Stage::Resolve(Cursor::Start);
            return Ok(Then::GoOn);
        };
        let is_read = self.sweep.as_ref().is_some_and(|sweep| sweep.has_read(&extent));
        if !is_read && self.done.bytes >= self.budget_bytes {
            return Ok(Then::Pause);
        }
        let is_good = self.is_good(&extent)?;
        if let Stage::Read(batch) = &mut self.walk.stage {
            batch.next();
        }
        self.count(&extent);
        if is_good {
            self.strike_out(extent.spot())?;
        } else {
            self.walk.suspects.insert(extent.spot());
        }
        if self.walk.suspects.is_empty() {
            let mut state = self.scrubber.state();
            (state.segment, state.offset) = (extent.segment, extent.offset + 1);
        }
        Ok(Then::GoOn)
    }

    /// Whether the next extent of the batch is.
    fn is_good(&mut self, extent: &LiveExtent) -> Result<bool, StoreError> {
        if self.sweep.as_ref().is_none_or(|sweep| sweep.segment() != extent.segment) {
            self.sweep = match self.open(extent.segment) {
                Ok(segment) => {
                    Some(Sweep::new(segment, self.shared.store).map_err(|e| self.shared.failed(e))?)
                }
                // What is missing may have been taken away this moment.
                Err(LogError::Damaged(_)) => None,
                Err(LogError::Io(error)) if error.kind() == io::ErrorKind::NotFound => None,
                Err(error) => return Err(self.shared.failed(error)),
            };
        }
        let (Some(sweep), Stage::Read(batch)) = (&mut self.sweep, &self.walk.stage) else {
            return Ok(false);
        };
        let before = sweep.read_bytes;
        let budget = self.budget_bytes.saturating_sub(self.done.bytes);
        let is_good = sweep.is_good(batch.as_slice(), budget);
        self.done.bytes += sweep.read_bytes - before;
        is_good.map_err(|error| self.shared.failed(error))
    }

    /// Looks closely at the suspects, for each of those who refer to them.
    fn resolve(&mut self) -> Result<Then, StoreError> {
        let Stage::Resolve(cursor) = &self.walk.stage else {
            return Ok(Then::GoOn);
        };
        let mut cursor = cursor.clone();
        let Some(entries) = self.next_keys(&mut cursor) else {
            return Ok(Then::Pause);
        };
        if entries.is_empty() {
            self.walk.suspects = HashSet::new();
            return Ok(self.next_batch());
        }
        for target in entries.iter().flat_map(targets_of) {
            if self.walk.suspects.contains(&(target.extent.segment, target.extent.offset)) {
                self.done.bytes += page_ceil(extents::len(&target.extent));
                match self.look(&target)? {
                    Some(damage) => self.record(&target, &damage)?,
                    None => log::warn!(
                        "{} at offset {}: the scrub found damage that is not there any more",
                        segment_path(target.extent.segment),
                        target.extent.offset
                    ),
                }
            }
        }
        self.walk.stage = Stage::Resolve(cursor);
        Ok(Then::GoOn)
    }

    fn look(&mut self, target: &Target) -> Result<Option<Damage>, StoreError> {
        let ExtentRef { segment: id, offset, .. } = target.extent;
        let segment = match self.open(id) {
            Err(LogError::Damaged(damage)) => return Ok(Some(Damage { offset, ..damage })),
            // It was taken away this moment.
            Err(LogError::Io(error)) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Some(Damage::new(segment_path(id), offset, error.to_string())));
            }
            opened => opened.map_err(|error| self.shared.failed(error))?,
        };
        let owner = (target.owner.bucket, target.owner.key.as_slice());
        let errors = extents::check(&segment, &self.shared.store, &target.extent, owner);
        Ok(errors.into_iter().next().map(|error| verify::as_damage(error, &segment.path(), offset)))
    }

    /// Its header is checked where it is opened for others.
    fn open(&self, id: u64) -> Result<Arc<Segment>, LogError> {
        self.shared.segments.get(id)?;
        let file = self.shared.fs.open_uncached(&segment_path(id))?;
        Ok(Arc::new(Segment { id, file }))
    }

    fn count(&mut self, extent: &LiveExtent) {
        let bytes = extent.len();
        self.done.extents += 1;
        self.done.checked_bytes += bytes;
        self.scrubber.extents.fetch_add(1, Ordering::Relaxed);
        self.scrubber.bytes.fetch_add(bytes, Ordering::Relaxed);
        let mut state = self.scrubber.state();
        state.extents += 1;
        state.bytes += bytes;
    }

    /// Keeps a finding, unless nobody refers to the extent any more: it may have been moved or deleted, and its room given
    /// back, before it was read. Whoever refers to it now did so all the while.
    fn record(&mut self, target: &Target, damage: &Damage) -> Result<(), StoreError> {
        let bad = BadExtent {
            owner: target.owner.as_ref().clone(),
            segment: target.extent.segment,
            offset: target.extent.offset,
            found: self.shared.clock.now(),
            at: damage.offset,
            what: damage.what.chars().take(WHAT_LEN_MAX).collect(),
        };
        if !is_wanted(&self.shared.index(), &bad) {
            return Ok(());
        }
        log::error!("the scrub found: {damage}");
        self.done.bad += 1;
        {
            let mut state = self.scrubber.state();
            let known = state.bad.iter().position(|known| is_same(known, &bad));
            match known {
                Some(at) => state.bad[at] = bad,
                None if state.bad.len() < SCRUB_BAD_EXTENTS_MAX => state.bad.push(bad),
                None => state.unlisted += 1,
            }
        }
        self.save()
    }

    /// What can be read again is bad no longer: a cable was loose, perhaps.
    fn strike_out(&mut self, (segment, offset): ExtentLocation) -> Result<(), StoreError> {
        let struck = {
            let mut state = self.scrubber.state();
            let before = state.bad.len();
            state.bad.retain(|bad| (bad.segment, bad.offset) != (segment, offset));
            before - state.bad.len()
        };
        if struck == 0 {
            return Ok(());
        }
        log::info!(
            "{} at offset {offset}: what the scrub found bad can be read again",
            segment_path(segment)
        );
        self.save()
    }

    fn pause(mut self) -> Result<Scrubbed, StoreError> {
        self.done.more = true;
        let since = self.shared.clock.now().as_secs().abs_diff(self.walk.saved.as_secs());
        if since >= SCRUB_SAVE_EVERY_SECS {
            self.save_walk()?;
        }
        Ok(self.done)
    }

    fn finish(mut self) -> Result<Scrubbed, StoreError> {
        let now = self.shared.clock.now();
        {
            let mut state = self.scrubber.state();
            log::info!(
                "the scrub has checked {} extents, {} bytes: {} are bad",
                state.extents,
                state.bytes,
                state.bad.len() as u64 + state.unlisted
            );
            (state.goes_on, state.finished) = (false, Some(now));
            (state.segment, state.offset, state.end) = (0, 0, 0);
        }
        self.save_walk()?;
        Ok(self.done)
    }

    fn save_walk(&mut self) -> Result<(), StoreError> {
        self.walk.saved = self.shared.clock.now();
        self.save()
    }

    fn save(&self) -> Result<(), StoreError> {
        self.scrubber.save(self.shared)
    }
}

fn targets_of(entry: &Entry) -> Vec<Target> {
    let (bucket, key, which, extents) = match entry {
        Entry::VersionPut { bucket, key, record } => {
            (*bucket, key, ExtentOwnerKind::Version(record.id), &record.extents)
        }
        Entry::PartPut { bucket, key, upload, record } => {
            (*bucket, key, ExtentOwnerKind::Part(*upload, record.number), &record.extents)
        }
        _ => return Vec::new(),
    };
    let owner = Arc::new(ExtentOwner { bucket, key: key.clone(), which });
    extents.iter().map(|extent| Target { extent: *extent, owner: owner.clone() }).collect()
}

/// Whether the owner of a bad extent still refers to it.
pub(super) fn is_wanted(index: &Index, bad: &BadExtent) -> bool {
    let ExtentOwner { bucket, key, which } = &bad.owner;
    let here = |extents: &[ExtentRef]| {
        extents.iter().any(|extent| (extent.segment, extent.offset) == (bad.segment, bad.offset))
    };
    match which {
        ExtentOwnerKind::Version(id) => {
            index.find(*bucket, key, |version| version.id == *id).is_some_and(|record| here(&record.extents))
        }
        ExtentOwnerKind::Part(upload, number) => {
            index.part(*bucket, key, *upload, *number).is_some_and(|part| here(&part.extents))
        }
    }
}

/// Where a bad extent is damaged.
pub(super) fn damage_of(bad: &BadExtent) -> Damage {
    Damage::new(segment_path(bad.segment), bad.at, bad.what.clone())
}

fn is_same(one: &BadExtent, other: &BadExtent) -> bool {
    (one.segment, one.offset, &one.owner) == (other.segment, other.offset, &other.owner)
}
