//! One call of [`Store::scrub`](crate::store::Store::scrub), and the position of the pass from call
//! to call.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, MutexGuard};
use std::time::Instant;

use super::sample::{CopyCheck, check_copy, is_sampled};
use super::state::ScrubStateCell;
use super::{ScrubCounters, Scrubbed};
use crate::base::Timestamp;
use crate::base::limits::{SCRUB_EVERY_SECS, SCRUB_SAVE_EVERY_SECS};
use crate::format::{Entry, ExtentRef, ScrubState, page_ceil, segment_path};
use crate::index::Cursor;
use crate::log::{Damage, ExtentLocation, LogError, Segment};
use crate::store::StoreError;
use crate::store::shared::{SharedStore, extents, walk_memory_bytes};
use crate::store::sweep::Sweep;
use crate::store::sweep::batch::{BatchBuilder, LiveExtent};
use crate::store::sweep::references::{ExtentReference, references_of};
use crate::store::tier::Tier;

/// Keys per step of a walk, during which the index is locked against the committer.
const KEYS_PER_WALK: usize = 256;
/// Steps of a walk per call.
const WALKS_PER_CALL: usize = 64;

/// The position of the pass.
pub(super) struct ScrubPass {
    stage: PassStage,
    /// The start of the next batch; `None` after the last.
    next: Option<ExtentLocation>,
    /// Bad extents whose records have not been looked up yet; where it is the copy on the remote
    /// that is bad, with its damage.
    suspects: HashMap<ExtentLocation, Option<Damage>>,
    saved: Instant,
}

enum PassStage {
    /// Collecting the extents that come next on the disk.
    Collect(BatchBuilder),
    /// Reading them.
    Read(std::vec::IntoIter<LiveExtent>),
    /// Finding the records that refer to the suspects.
    Resolve(Cursor),
}

impl ScrubPass {
    /// A pass over all that lies at `from` and after it.
    pub(super) fn starting_at(from: ExtentLocation, saved: Instant) -> Self {
        let stage = PassStage::Read(Vec::new().into_iter());
        Self { stage, next: Some(from), suspects: HashMap::new(), saved }
    }
}

/// The consequence of a step.
enum StepOutcome {
    Continue,
    /// The budget is used up.
    Pause,
    Finish,
}

/// One call.
pub(super) struct ScrubRun<'a> {
    shared: &'a SharedStore,
    tier: Option<&'a Tier>,
    state: &'a ScrubStateCell,
    counters: &'a ScrubCounters,
    pass: MutexGuard<'a, ScrubPass>,
    /// The segment that was read last. It is closed between calls, since the space of an open
    /// segment cannot be reclaimed.
    sweep: Option<Sweep>,
    budget_bytes: u64,
    /// Steps of a walk that are left.
    walks: usize,
    done: Scrubbed,
}

impl<'a> ScrubRun<'a> {
    pub(super) fn new(
        shared: &'a SharedStore,
        tier: Option<&'a Tier>,
        state: &'a ScrubStateCell,
        counters: &'a ScrubCounters,
        pass: MutexGuard<'a, ScrubPass>,
        budget_bytes: u64,
    ) -> Self {
        let done = Scrubbed { live_bytes: shared.index().liveness().total(), ..Scrubbed::default() };
        Self { shared, tier, state, counters, pass, sweep: None, budget_bytes, walks: WALKS_PER_CALL, done }
    }

    pub(super) fn run(mut self) -> Result<Scrubbed, StoreError> {
        // In every call, also between two passes: objects that were deleted are no longer damaged.
        self.state.unlist_unreferenced(self.shared)?;
        if !self.begin_if_due()? {
            return Ok(self.done);
        }
        loop {
            let outcome = match &self.pass.stage {
                PassStage::Collect(_) => self.collect(),
                PassStage::Read(_) => self.read()?,
                PassStage::Resolve(_) => self.resolve()?,
            };
            match outcome {
                StepOutcome::Continue => {}
                StepOutcome::Pause => return self.pause(),
                StepOutcome::Finish => return self.finish(),
            }
        }
    }

    /// Whether a pass is under way or has just been started.
    fn begin_if_due(&mut self) -> Result<bool, StoreError> {
        let now = self.shared.clock.now();
        // A missing segment counts, too.
        let end = self.shared.index().liveness().iter().map(|(id, _)| id).max().unwrap_or(0);
        {
            let mut state = self.state.lock();
            // A clock that was fast and has been corrected delays the next pass by a week at most.
            let was_fast = state.begun.is_some_and(|begun| begun > now);
            if was_fast {
                state.begun = Some(now);
            }
            let rests = state.begun.is_some_and(|begun| now.as_secs() < begun.as_secs() + SCRUB_EVERY_SECS);
            if state.goes_on || rests {
                let goes_on = state.goes_on;
                drop(state);
                return if was_fast { self.save().map(|()| goes_on) } else { Ok(goes_on) };
            }
            let ScrubState { finished, ref mut bad, .. } = *state;
            let bad = std::mem::take(bad);
            *state =
                ScrubState { begun: Some(now), goes_on: true, finished, end, bad, ..ScrubState::default() };
        }
        *self.pass = ScrubPass::starting_at((0, 0), self.pass.saved);
        self.save().map(|()| true)
    }

    /// Starts the next batch, once the suspects of the last one are resolved.
    fn next_batch(&mut self) -> StepOutcome {
        // An open segment may have grown.
        self.sweep = None;
        let Some(from) = self.pass.next else {
            return StepOutcome::Finish;
        };
        let end = {
            let mut state = self.state.lock();
            // The place is that of the batch, as long as it is collected: a restart collects it
            // again.
            (state.segment, state.offset) = from;
            state.end
        };
        let memory_bytes = walk_memory_bytes(&self.shared.index());
        self.pass.stage = PassStage::Collect(BatchBuilder::new(from, end, memory_bytes));
        StepOutcome::Continue
    }

    /// The next keys of a walk; `None` if the call has no steps left. After the last key the result
    /// is empty.
    fn next_keys(&mut self, cursor: &mut Cursor) -> Option<Vec<Entry>> {
        self.walks = self.walks.checked_sub(1)?;
        Some(self.shared.index().walk(cursor, KEYS_PER_WALK))
    }

    fn collect(&mut self) -> StepOutcome {
        let empty = PassStage::Read(Vec::new().into_iter());
        let PassStage::Collect(mut builder) = std::mem::replace(&mut self.pass.stage, empty) else {
            return StepOutcome::Continue;
        };
        let entries = self.next_keys(&mut builder.cursor);
        match entries {
            Some(entries) if entries.is_empty() => {
                let (batch, next) = builder.finish();
                self.pass.next = next;
                self.pass.stage = PassStage::Read(batch.into_iter());
                return StepOutcome::Continue;
            }
            Some(ref entries) => {
                for entry in entries {
                    builder.add(entry);
                }
            }
            None => {}
        }
        self.pass.stage = PassStage::Collect(builder);
        if entries.is_some() { StepOutcome::Continue } else { StepOutcome::Pause }
    }

    fn read(&mut self) -> Result<StepOutcome, StoreError> {
        let PassStage::Read(batch) = &self.pass.stage else {
            return Ok(StepOutcome::Continue);
        };
        let Some(extent) = batch.as_slice().first().copied() else {
            if self.pass.suspects.is_empty() {
                return Ok(self.next_batch());
            }
            // The batch knows no names. Another walk finds every record that refers to a suspect:
            // an extent may have several, or none any more.
            self.pass.stage = PassStage::Resolve(Cursor::Start);
            return Ok(StepOutcome::Continue);
        };
        if self.shared.is_remote(extent.segment) {
            return self.sample(&extent);
        }
        let is_read = self.sweep.as_ref().is_some_and(|sweep| sweep.has_read(&extent));
        if !is_read && self.done.bytes >= self.budget_bytes {
            return Ok(StepOutcome::Pause);
        }
        let is_good = self.is_next_good(&extent)?;
        self.count(&extent);
        if is_good {
            self.state.unlist_good(self.shared, extent.location())?;
        } else {
            self.pass.suspects.insert(extent.location(), None);
        }
        self.skip(&extent);
        Ok(StepOutcome::Continue)
    }

    /// Reads an extent from the remote, if it is in the sample. The others are left to readers, who
    /// verify what they fetch.
    fn sample(&mut self, extent: &LiveExtent) -> Result<StepOutcome, StoreError> {
        let begun = self.state.lock().begun.unwrap_or(Timestamp::from_millis(0));
        if let Some(tier) = self.tier.filter(|tier| is_sampled(extent, begun, tier.scrub_percent())) {
            if self.done.bytes >= self.budget_bytes {
                return Ok(StepOutcome::Pause);
            }
            self.done.bytes += extent.len();
            match check_copy(tier, &self.shared.store, extent) {
                CopyCheck::Good => {
                    self.count(extent);
                    self.state.unlist_good(self.shared, extent.location())?;
                }
                CopyCheck::Bad(damage) => {
                    self.count(extent);
                    self.pass.suspects.insert(extent.location(), Some(damage));
                }
                CopyCheck::Unknown => {}
            }
        }
        self.skip(extent);
        Ok(StepOutcome::Continue)
    }

    /// Goes on after the next extent of the batch.
    fn skip(&mut self, extent: &LiveExtent) {
        if let PassStage::Read(batch) = &mut self.pass.stage {
            batch.next();
        }
        // With suspects the place stays before the first of them: they are known in memory alone,
        // and a restart has to read them again.
        if self.pass.suspects.is_empty() {
            let mut state = self.state.lock();
            state.segment = extent.segment;
            state.offset = extent.offset + 1;
        }
    }

    /// Reads `extent`, the next of the batch.
    fn is_next_good(&mut self, extent: &LiveExtent) -> Result<bool, StoreError> {
        // One handle for all extents of a segment, which lie side by side.
        if self.sweep.as_ref().is_none_or(|sweep| sweep.segment() != extent.segment) {
            self.sweep = match self.open(extent.segment) {
                Ok(segment) => {
                    Some(Sweep::new(segment, self.shared.store).map_err(|e| self.shared.failed(e))?)
                }
                // A missing segment may have been reclaimed a moment ago.
                Err(LogError::Damaged(_)) => None,
                Err(LogError::Io(error)) if error.kind() == io::ErrorKind::NotFound => None,
                Err(error) => return Err(self.shared.failed(error)),
            };
        }
        let Some(sweep) = &mut self.sweep else { return Ok(false) };
        let PassStage::Read(batch) = &self.pass.stage else { return Ok(false) };
        let before = sweep.read_bytes;
        let budget = self.budget_bytes.saturating_sub(self.done.bytes);
        let is_good = sweep.is_good(batch.as_slice(), budget);
        self.done.bytes += sweep.read_bytes - before;
        is_good.map_err(|error| self.shared.failed(error))
    }

    /// Checks the suspects closely, for each record that refers to them.
    fn resolve(&mut self) -> Result<StepOutcome, StoreError> {
        let PassStage::Resolve(cursor) = &self.pass.stage else {
            return Ok(StepOutcome::Continue);
        };
        let mut cursor = cursor.clone();
        let Some(entries) = self.next_keys(&mut cursor) else {
            return Ok(StepOutcome::Pause);
        };
        if entries.is_empty() {
            // Replaced, and not cleared: a bad disk may have made it large.
            self.pass.suspects = HashMap::new();
            return Ok(self.next_batch());
        }
        for reference in entries.iter().flat_map(references_of) {
            if self.pass.suspects.contains_key(&(reference.extent.segment, reference.extent.offset)) {
                self.done.bytes += page_ceil(extents::len(&reference.extent));
                self.resolve_suspect(&reference)?;
            }
        }
        self.pass.stage = PassStage::Resolve(cursor);
        Ok(StepOutcome::Continue)
    }

    fn resolve_suspect(&mut self, reference: &ExtentReference) -> Result<(), StoreError> {
        match self.check_closely(reference)? {
            Some(damage) => {
                self.done.bad += u64::from(self.state.list_bad(self.shared, reference, &damage)?);
            }
            None => log::warn!(
                "{} at offset {}: the scrub found damage that is gone on a second look",
                segment_path(reference.extent.segment),
                reference.extent.offset
            ),
        }
        Ok(())
    }

    fn check_closely(&mut self, reference: &ExtentReference) -> Result<Option<Damage>, StoreError> {
        let ExtentRef { segment: id, offset, .. } = reference.extent;
        if let Some(Some(damage)) = self.pass.suspects.get(&(id, offset)) {
            return Ok(Some(damage.clone()));
        }
        let segment = match self.open(id) {
            Err(LogError::Damaged(damage)) => return Ok(Some(Damage { offset, ..damage })),
            // It may have been reclaimed a moment ago.
            Err(LogError::Io(error)) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Some(Damage::new(segment_path(id), offset, error.to_string())));
            }
            opened => opened.map_err(|error| self.shared.failed(error))?,
        };
        let owner = &reference.owner;
        let errors =
            extents::check(&segment, &self.shared.store, &reference.extent, owner.bucket, &owner.key);
        Ok(errors.into_iter().next().map(|error| error.into_damage(&segment.path(), offset)))
    }

    /// Opens a segment by a handle that leaves the page cache alone. The shared handle has the
    /// header checked.
    fn open(&self, id: u64) -> Result<Arc<Segment>, LogError> {
        self.shared.segments.get(id)?;
        let file = self.shared.fs.open_uncached(&segment_path(id))?;
        Ok(Arc::new(Segment { id, file }))
    }

    fn count(&mut self, extent: &LiveExtent) {
        let bytes = extent.len();
        self.done.extents += 1;
        self.done.checked_bytes += bytes;
        self.counters.add(bytes);
        let mut state = self.state.lock();
        state.extents += 1;
        state.bytes += bytes;
    }

    fn pause(mut self) -> Result<Scrubbed, StoreError> {
        self.done.more = true;
        let since = self.shared.clock.instant().duration_since(self.pass.saved);
        if since.as_secs() >= SCRUB_SAVE_EVERY_SECS {
            self.save_position()?;
        }
        Ok(self.done)
    }

    fn finish(mut self) -> Result<Scrubbed, StoreError> {
        let now = self.shared.clock.now();
        {
            let mut state = self.state.lock();
            log::info!(
                "the scrub has checked {} extents, {} bytes: {} are bad",
                state.extents,
                state.bytes,
                state.bad.len() as u64 + state.unlisted
            );
            state.goes_on = false;
            state.finished = Some(now);
            // The next pass begins at the first segment.
            (state.segment, state.offset, state.end) = (0, 0, 0);
        }
        self.save_position()?;
        Ok(self.done)
    }

    fn save_position(&mut self) -> Result<(), StoreError> {
        self.pass.saved = self.shared.clock.instant();
        self.save()
    }

    fn save(&self) -> Result<(), StoreError> {
        self.state.save(self.shared)
    }
}
