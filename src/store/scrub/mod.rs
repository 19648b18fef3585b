//! The scrub: a slow pass over all that is stored, which reads every extent that a record refers to, so that what rots is
//! noticed before somebody needs it. It goes in the order of the index, in small steps, beside all else; extents that
//! are moved or die meanwhile are no damage.
//!
//! What the page cache holds is read from there, so the disk below it goes unread; a later pass finds it there. Nothing
//! that was not cached before is cached afterwards.

use std::collections::{HashSet, VecDeque};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::base::Timestamp;
use crate::base::limits::{
    SCRUB_BAD_EXTENTS_MAX, SCRUB_EVERY_SECS, SCRUB_FILE_MAX_BYTES, SCRUB_SAVE_EVERY_SECS,
};
use crate::format::{
    BadExtent, Entry, ExtentOwner, ExtentRef, OwnerKind, SCRUB, ScrubPosition, ScrubState, StoreId,
    page_ceil, segment_path,
};
use crate::fs::Fs;
use crate::index::{Cursor, Index};
use crate::log::{Damage, LogError, Segment};
use crate::store::health::ScrubHealth;
use crate::store::kept::Kept;
use crate::store::shared::Shared;
use crate::store::{Health, Store, StoreError, extents, verify};

/// Keys that one call may pass, so that it ends soon where they have next to no bytes.
const KEYS_MAX: usize = 4096;
/// What is told of a bad extent is cut off behind so many characters.
const WHAT_LEN_MAX: usize = 1024;

const FILE: Kept = Kept { path: SCRUB, what: "the state of the scrub", max_bytes: SCRUB_FILE_MAX_BYTES };

/// What was kept of the scrub; `None` where nothing was.
///
/// # Errors
/// As of [`Kept::load`].
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
    /// Behind what is pending.
    cursor: Cursor,
    pending: VecDeque<Target>,
    /// Extents that are pending and were checked before the last start.
    skip: u64,
    /// The shared extents that were found good in this pass, by segment and offset.
    good: HashSet<(u64, u64)>,
    saved: Timestamp,
}

/// An extent and one of those who refer to it.
struct Target {
    extent: ExtentRef,
    owner: Arc<ExtentOwner>,
}

impl Store {
    /// Checks extents until `budget_bytes` bytes have been read or the pass is over; at least one where there is any. A pass
    /// begins a week after the last one ended. For whoever keeps house, as often as the disk should be read. Where it
    /// has got to is kept now and then, and at the latest by [`Store::close`]; what was found to be bad, before the
    /// return.
    ///
    /// # Errors
    /// Of the disk, when a segment cannot be opened or a finding not be kept. Damage is no error but a finding: see
    /// [`Store::health`].
    pub fn scrub(&self, budget_bytes: u64) -> Result<Scrubbed, StoreError> {
        // A call that panicked has at worst left an extent out.
        let walk = self.scrubber.walk.lock().unwrap_or_else(PoisonError::into_inner);
        let (shared, scrubber) = (&*self.shared, &self.scrubber);
        Run { shared, scrubber, walk, segment: None, done: Scrubbed::default() }.run(budget_bytes)
    }
}

impl Scrubber {
    /// Goes on where the store's last process was. A file that is damaged is reported, and the pass begins anew.
    pub(super) fn open(shared: &Shared) -> Self {
        let state = match load(shared.fs.as_ref(), &shared.store) {
            Ok(state) => state.unwrap_or_default(),
            Err(error) => {
                let error = shared.failed(error);
                log::warn!("the scrub begins anew: {error}");
                ScrubState::default()
            }
        };
        let walk = Walk {
            cursor: cursor_of(&state.position),
            pending: VecDeque::new(),
            skip: state.done,
            good: HashSet::new(),
            saved: shared.clock.now(),
        };
        Self {
            state: Mutex::new(state),
            walk: Mutex::new(walk),
            extents: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
        }
    }

    /// Keeps where a pass has got to.
    pub(super) fn close(&self, shared: &Shared) {
        if self.state().started.is_some() {
            // It costs no more than reading some again.
            let _ = self.save(shared);
        }
    }

    /// Adds what the scrub knows. Bad extents count as long as somebody refers to them.
    pub(super) fn tell(&self, shared: &Shared, health: &mut Health) {
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
    fn save(&self, shared: &Shared) -> Result<(), StoreError> {
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
    shared: &'a Shared,
    scrubber: &'a Scrubber,
    walk: MutexGuard<'a, Walk>,
    /// The segment that was looked at last. Were it open from call to call, its room could not be given back.
    segment: Option<Arc<Segment>>,
    done: Scrubbed,
}

impl Run<'_> {
    fn run(mut self, budget_bytes: u64) -> Result<Scrubbed, StoreError> {
        self.forget_what_is_gone()?;
        if !self.begin_if_due()? {
            return Ok(self.done);
        }
        for _ in 0..KEYS_MAX {
            while let Some(target) = self.walk.pending.pop_front() {
                self.take(&target)?;
                if self.done.bytes >= budget_bytes {
                    return self.pause();
                }
            }
            if !self.next_key() {
                return self.finish();
            }
        }
        self.pause()
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
        {
            let mut state = self.scrubber.state();
            let rested = |ended: Timestamp| now.as_secs() >= ended.as_secs() + SCRUB_EVERY_SECS;
            match (state.started, state.finished) {
                (Some(_), _) => return Ok(true),
                (None, Some(ended)) if !rested(ended) => return Ok(false),
                _ => {}
            }
            let ScrubState { finished, ref mut bad, .. } = *state;
            let bad = std::mem::take(bad);
            *state = ScrubState { started: Some(now), finished, bad, ..ScrubState::default() };
        }
        self.walk.cursor = Cursor::Start;
        self.walk.pending.clear();
        self.walk.skip = 0;
        self.save().map(|()| true)
    }

    /// Makes the extents of the next key or upload the pending ones; `false` at the end.
    fn next_key(&mut self) -> bool {
        {
            let mut state = self.scrubber.state();
            if self.walk.skip == 0 {
                state.position = position_of(&self.walk.cursor);
                state.done = 0;
            }
        }
        let entries = self.shared.index().walk(&mut self.walk.cursor, 1);
        if entries.is_empty() {
            return false;
        }
        let skip = std::mem::take(&mut self.walk.skip) as usize;
        self.walk.pending.extend(entries.iter().flat_map(targets_of).skip(skip));
        true
    }

    fn take(&mut self, target: &Target) -> Result<(), StoreError> {
        let ExtentRef { segment, offset, shared, .. } = target.extent;
        if !shared || !self.walk.good.contains(&(segment, offset)) {
            self.check(target)?;
        }
        self.scrubber.state().done += 1;
        Ok(())
    }

    fn check(&mut self, target: &Target) -> Result<(), StoreError> {
        let ExtentRef { segment, offset, shared, .. } = target.extent;
        let damage = self.look(target)?;
        self.count(extents::len(&target.extent));
        match damage {
            None => {
                if shared {
                    self.walk.good.insert((segment, offset));
                }
                self.strike_out(target)
            }
            Some(damage) => self.record(target, &damage),
        }
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
    fn open(&mut self, id: u64) -> Result<Arc<Segment>, LogError> {
        match &self.segment {
            Some(segment) if segment.id == id => Ok(segment.clone()),
            _ => {
                self.shared.segments.get(id)?;
                let file = self.shared.fs.open_in_passing(&segment_path(id))?;
                Ok(self.segment.insert(Arc::new(Segment { id, file })).clone())
            }
        }
    }

    fn count(&mut self, bytes: u64) {
        self.done.extents += 1;
        self.done.bytes += page_ceil(bytes);
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
    fn strike_out(&mut self, target: &Target) -> Result<(), StoreError> {
        let ExtentRef { segment, offset, .. } = target.extent;
        let is_this =
            |bad: &BadExtent| (bad.segment, bad.offset) == (segment, offset) && bad.owner == *target.owner;
        let struck = {
            let mut state = self.scrubber.state();
            let before = state.bad.len();
            state.bad.retain(|bad| !is_this(bad));
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
        let saved = self.walk.saved.as_secs();
        if self.shared.clock.now().as_secs() >= saved + SCRUB_SAVE_EVERY_SECS {
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
            (state.started, state.finished) = (None, Some(now));
            (state.position, state.done) = (ScrubPosition::Start, 0);
        }
        self.walk.good = HashSet::new();
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
            (*bucket, key, OwnerKind::Version(record.id), &record.extents)
        }
        Entry::PartPut { bucket, key, upload, record } => {
            (*bucket, key, OwnerKind::Part(*upload, record.number), &record.extents)
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
        OwnerKind::Version(id) => {
            index.find(*bucket, key, |version| version.id == *id).is_some_and(|record| here(&record.extents))
        }
        OwnerKind::Part(upload, number) => index
            .upload(*bucket, key, *upload)
            .is_some_and(|upload| upload.parts.iter().any(|p| p.number == *number && here(&p.extents))),
    }
}

/// Where a bad extent is damaged.
pub(super) fn damage_of(bad: &BadExtent) -> Damage {
    Damage::new(segment_path(bad.segment), bad.at, bad.what.clone())
}

fn is_same(one: &BadExtent, other: &BadExtent) -> bool {
    (one.segment, one.offset, &one.owner) == (other.segment, other.offset, &other.owner)
}

fn cursor_of(position: &ScrubPosition) -> Cursor {
    match position.clone() {
        ScrubPosition::Start => Cursor::Start,
        ScrubPosition::Keys(bucket, key) => Cursor::Keys(bucket, key),
        ScrubPosition::Uploads(bucket, upload) => Cursor::Uploads(bucket, upload),
        ScrubPosition::Behind(bucket) => Cursor::Behind(bucket),
    }
}

fn position_of(cursor: &Cursor) -> ScrubPosition {
    match cursor.clone() {
        Cursor::Start => ScrubPosition::Start,
        Cursor::Keys(bucket, key) => ScrubPosition::Keys(bucket, key),
        Cursor::Uploads(bucket, upload) => ScrubPosition::Uploads(bucket, upload),
        Cursor::Behind(bucket) => ScrubPosition::Behind(bucket),
    }
}
