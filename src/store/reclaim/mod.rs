//! Winning back the room of what was deleted or replaced, while the store is in use.
//!
//! # What makes it safe
//!
//! A segment goes in these steps:
//!
//! 1. Segments are listed that nobody writes to, nor will. Whatever was written to them has been published, or given up.
//! 2. Of those the index is asked which no record refers to. The index holds durable groups alone.
//! 3. Such a segment loses its name, unless somebody reads from it.
//! 4. The directory is synced.
//!
//! Step 2 before step 1 would take the bytes of a put for dead that is committed in between. Step 3 looks for readers last:
//! whoever comes later has found a record that refers elsewhere. Nothing depends on step 4; a name that comes back after a crash
//! is taken away again.
//!
//! Recovery looks at the bytes of the last group's pack to tell whether the group counts, also where all of it is dead by
//! now. That segment stays until another group has followed.
//!
//! A store that takes no writes is left as it is: where the log is damaged, what looks dead may be what the lost groups
//! refer to.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use crossbeam_channel::Receiver;

use crate::format::FileKind;
use crate::log::{Lane, LogError};
use crate::store::shared::Shared;
use crate::store::{Store, StoreError};

/// Segments that are looked at in one call whether they need a footer.
const SEALED_AT_ONCE: usize = 64;

/// What a call has done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reclaimed {
    /// Segments that were taken away.
    pub segments: u64,
    /// Bytes that were given back to the file system.
    pub bytes: u64,
    /// Bytes of extents that were moved.
    pub moved_bytes: u64,
    /// Whether another call has something to do at once.
    pub more: bool,
    /// Whether room is short, so that it should not be put off.
    pub urgent: bool,
}

/// What is known from call to call.
#[derive(Default)]
pub(super) struct Reclaimer {}

impl Store {
    /// Wins back room: segments of which nothing is wanted any more are taken away. What was given back is durable on return.
    ///
    /// The work of one call is bounded; as long as [`Reclaimed::more`] says so, another one goes on where it ended.
    ///
    /// # Errors
    /// [`StoreError::ReadOnly`]; of the disk. Damage is no error: it is reported, and what is damaged stays.
    pub fn reclaim(&self) -> Result<Reclaimed, StoreError> {
        self.shared.check_writable()?;
        // A call that panicked has left nothing behind that the next one builds on.
        let reclaimer = self.reclaimer.lock().unwrap_or_else(PoisonError::into_inner);
        let done = Run { shared: &self.shared, _reclaimer: &reclaimer, done: Reclaimed::default() }.run()?;
        let tally = &self.shared.reclaimed;
        tally.segments.fetch_add(done.segments, Ordering::Relaxed);
        tally.bytes.fetch_add(done.bytes, Ordering::Relaxed);
        tally.moved_bytes.fetch_add(done.moved_bytes, Ordering::Relaxed);
        Ok(done)
    }

    /// Receives something when a write has been refused for want of room: then [`Store::reclaim`] should not wait for its
    /// turn.
    pub fn room_wanted(&self) -> Receiver<()> {
        self.shared.room_wanted().clone()
    }
}

struct Run<'a> {
    shared: &'a Shared,
    _reclaimer: &'a Reclaimer,
    done: Reclaimed,
}

impl Run<'_> {
    fn run(mut self) -> Result<Reclaimed, StoreError> {
        self.done.urgent = self.room_is_short().map_err(|error| self.shared.failed(error))?;
        if self.done.urgent {
            self.leave_lanes();
        }
        if let Err(error) = self.shared.segments.seal_retired() {
            self.shared.write_failed(error);
        }
        self.remove_dead()?;
        self.seal();
        Ok(self.done)
    }

    fn room_is_short(&self) -> Result<bool, LogError> {
        let options = &self.shared.options;
        let space = self.shared.fs.space()?;
        let near = options.segment_max_bytes.min(space.total_bytes / 16);
        Ok(space.free_bytes < options.keep_free_bytes.saturating_add(near))
    }

    /// Lets the lanes go on in new segments where half of what they have written is dead, since nothing comes back from a
    /// segment that is written to.
    fn leave_lanes(&self) {
        let shared = self.shared;
        let mostly_dead = |id| {
            let live = shared.index().liveness().of(id);
            let len = shared.segments.get(id).ok().and_then(|segment| segment.file.len().ok());
            len.is_some_and(|len| live * 2 < len)
        };
        shared.segments.leave(mostly_dead);
    }

    /// Steps 1 to 4 for every segment.
    fn remove_dead(&mut self) -> Result<(), StoreError> {
        let settled = self.shared.segments.settled();
        let dead: Vec<u64> = {
            let index = self.shared.index();
            let doubtful = self.shared.doubtful_segment();
            let is_dead = |id: &u64| index.liveness().of(*id) == 0 && *id != doubtful;
            settled.into_iter().filter(is_dead).collect()
        };
        let before = self.done.segments;
        self.let_the_newest_go(&dead);
        dead.into_iter().try_for_each(|id| self.remove(id))?;
        if self.done.segments > before {
            let synced = self.shared.fs.sync_dir(FileKind::Segment.dir());
            synced.map_err(|error| self.shared.write_failed(error.into()))?;
        }
        Ok(())
    }

    /// The newest segment stays; where it is dead and room is short, another one takes its place.
    fn let_the_newest_go(&self, dead: &[u64]) {
        let newest = self.shared.segments.ids().last().copied();
        if self.done.urgent && newest.is_some_and(|newest| dead.contains(&newest)) {
            // Without room for it the next call may succeed, when the others have gone.
            let _ = self.shared.segments.roll(Lane::Move).map_err(|error| self.shared.write_failed(error));
        }
    }

    fn remove(&mut self, id: u64) -> Result<(), StoreError> {
        let segments = &self.shared.segments;
        let usage = segments.get(id).and_then(|segment| Ok(segment.file.usage()?));
        match usage.and_then(|usage| Ok(segments.remove(id)?.then_some(usage))) {
            Ok(None) => {}
            Ok(Some(usage)) => {
                self.done.segments += 1;
                // Other names keep the bytes.
                self.done.bytes += if usage.links > 1 { 0 } else { usage.allocated_bytes };
            }
            Err(LogError::Damaged(damage)) => self.shared.report(&damage),
            Err(error) => return Err(self.shared.failed(error)),
        }
        Ok(())
    }

    /// Seals what earlier runs have left without a footer.
    fn seal(&mut self) {
        let unsealed = self.shared.segments.unsealed();
        self.done.more |= unsealed.len() > SEALED_AT_ONCE;
        for id in unsealed.into_iter().take(SEALED_AT_ONCE) {
            match self.shared.segments.seal_settled(id) {
                Ok(()) => {}
                // Another time there may be room.
                Err(LogError::DiskFull(_)) => return,
                Err(LogError::Damaged(damage)) => self.shared.report(&damage),
                Err(error) => {
                    self.shared.write_failed(error);
                    return;
                }
            }
        }
    }
}
