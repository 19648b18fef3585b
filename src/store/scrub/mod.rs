//! The scrub: a slow pass over all stored extents, which finds bytes that have decayed before a
//! client asks for them. It reads in disk order, in small steps, while the store is in use. Extents
//! that are moved or die meanwhile are not damage.
//!
//! # A pass
//!
//! 1. A walk over the index collects the next live extents in disk order, as many as fit into
//!    memory.
//! 2. They are read in that order. This separates good extents from bad ones, and nothing more.
//! 3. If some were bad, another walk finds every record that refers to them. Each is checked
//!    closely and listed.
//!
//! Steps 1 to 3 repeat up to the segment that was the newest at the start of the pass. Bytes
//! written or moved since then were checked on their way, and belong to the next pass.
//!
//! Log and checkpoints have a pass of their own: see `log_scrub`.
//!
//! Pages in the page cache are read from there, so the disk below them stays unread; a later pass
//! reads it. The scrub adds nothing to the page cache.

mod log_scrub;
mod pace;
mod run;
mod sample;
mod state;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

pub use pace::ScrubPace;
pub(crate) use state::{damage_of, is_referenced, load};

use crate::format::{BadExtent, ExtentOwner, ExtentOwnerKind};
use crate::index::{Index, VersionRef};
use crate::log::Damage;
use crate::store::shared::SharedStore;
use crate::store::shared::health::ScrubHealth;
use crate::store::sweep::references::ExtentReference;
use crate::store::{BucketInfo, Health, Store, StoreError};
use log_scrub::LogScrub;
use run::{ScrubPass, ScrubRun};
use state::ScrubStateCell;

/// The work of one call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Scrubbed {
    /// Extents that were checked.
    pub extents: u64,
    /// Bytes that were read, in whole pages.
    pub bytes: u64,
    /// Bytes of the checked extents.
    pub checked_bytes: u64,
    /// Bytes of all live extents.
    pub live_bytes: u64,
    /// Bad extents that were found.
    pub bad: u64,
    /// Whether the pass goes on; otherwise it is finished, or the next one is not due.
    pub more: bool,
}

/// The scrub of a store, from call to call.
pub(super) struct Scrubber {
    state: ScrubStateCell,
    /// Locked for the length of a call: one call at a time.
    pass: Mutex<ScrubPass>,
    counters: ScrubCounters,
    log: LogScrub,
}

/// Extents and bytes checked since the store was opened.
#[derive(Default)]
struct ScrubCounters {
    extents: AtomicU64,
    bytes: AtomicU64,
}

/// A version, or a part of an upload, with a damaged extent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DamagedObject {
    /// The bucket.
    pub bucket: String,
    /// The key.
    pub key: String,
    /// The version as clients see it; `None` for a part of an upload.
    pub version: Option<String>,
}

impl Store {
    /// The objects that the scrub found damaged, as long as they refer to the damaged bytes.
    /// Sorted, each once.
    pub fn damaged_objects(&self) -> Vec<DamagedObject> {
        let bad = self.scrubber.state.lock().bad.clone();
        let index = self.shared.index();
        let buckets = self.buckets();
        let mut objects = Vec::new();
        for bad in bad.iter().filter(|bad| is_referenced(&index, bad)) {
            objects.extend(self.damaged_object(&index, &buckets, bad));
        }
        objects.sort_by(|one, other| {
            (&one.bucket, &one.key, &one.version).cmp(&(&other.bucket, &other.key, &other.version))
        });
        objects.dedup();
        objects
    }

    /// The object of a bad extent, as clients name it; `None` where it is gone.
    fn damaged_object(
        &self,
        index: &Index,
        buckets: &[BucketInfo],
        bad: &BadExtent,
    ) -> Option<DamagedObject> {
        let ExtentOwner { bucket, key, which } = &bad.owner;
        let version = match which {
            ExtentOwnerKind::Version(id) => {
                let found = index.version_summary(*bucket, key, *id)?;
                let named = if found.null { VersionRef::Null } else { VersionRef::Id(*id) };
                Some(named.text(self.client_ids()))
            }
            ExtentOwnerKind::Part(..) => None,
        };
        let bucket = buckets.iter().find(|info| info.id == *bucket)?.name.clone();
        Some(DamagedObject { bucket, key: String::from_utf8_lossy(key).into_owned(), version })
    }

    /// Checks extents until `budget_bytes` bytes have been read or the pass is finished; or looks
    /// through some thousands of keys for the extents that come next. A pass starts a week after
    /// the start of the last one, or right after its end if that is later. [`ScrubPace`] says when
    /// the next call is due. The position of the pass is saved from time to time, and by
    /// [`Store::close`]. A bad extent is saved before the return of the call that found its
    /// records.
    ///
    /// Once a day the log and the checkpoints come first. A damaged file of theirs is replaced before
    /// the return of the call that found it.
    ///
    /// # Errors
    /// Of the disk, if a segment cannot be opened or a bad extent cannot be saved. Damage is not an
    /// error: see [`Store::health`].
    pub fn scrub(&self, budget_bytes: u64) -> Result<Scrubbed, StoreError> {
        let log = self.scrub_log(budget_bytes)?;
        if log.more() {
            return Ok(Scrubbed { bytes: log.bytes, more: true, ..Scrubbed::default() });
        }
        let Scrubber { state, pass, counters, .. } = &self.scrubber;
        // After a panic, at worst one extent was left out.
        let pass = pass.lock().unwrap_or_else(PoisonError::into_inner);
        ScrubRun::new(&self.shared, self.tier.as_deref(), state, counters, pass, budget_bytes).run()
    }
}

impl Scrubber {
    /// Continues the pass of the store's last process.
    pub(super) fn open(shared: &SharedStore) -> Self {
        let state = ScrubStateCell::open(shared);
        let from = {
            let state = state.lock();
            (state.segment, state.offset)
        };
        let pass = Mutex::new(ScrubPass::starting_at(from, shared.clock.instant()));
        let log = LogScrub::starting_at(shared.clock.instant());
        Self { state, pass, counters: ScrubCounters::default(), log }
    }

    /// Saves the position of an unfinished pass.
    pub(super) fn close(&self, shared: &SharedStore) {
        if self.state.lock().goes_on {
            // A failure costs no more than reading some extents again.
            let _ = self.state.save(shared);
        }
    }

    /// Adds the findings of the scrub. Bad extents count as long as a record refers to them.
    pub(super) fn add_to_health(&self, shared: &SharedStore, health: &mut Health) {
        let state = self.state.lock().clone();
        let index = shared.index();
        let bad: Vec<_> = state.bad.iter().filter(|bad| is_referenced(&index, bad)).collect();
        let log = self.log.figures().clone();
        health.scrub = ScrubHealth {
            extents: self.counters.extents.load(Ordering::Relaxed),
            bytes: self.counters.bytes.load(Ordering::Relaxed),
            bad: bad.len() as u64 + state.unlisted,
            finished: state.finished,
            log_finished: log.finished,
            replaced_log_files: log.replaced_files,
        };
        for damage in bad.into_iter().map(damage_of) {
            if !health.damage.contains(&damage) {
                health.damage.push(damage);
            }
        }
    }

    /// Lists a bad extent, as [`ScrubStateCell::list_bad`].
    ///
    /// # Errors
    /// Where it cannot be saved.
    pub(super) fn list_bad(
        &self,
        shared: &SharedStore,
        reference: &ExtentReference,
        damage: &Damage,
    ) -> Result<bool, StoreError> {
        self.state.list_bad(shared, reference, damage)
    }

    /// The number of listed bad extents, referenced or not.
    #[cfg(test)]
    pub(super) fn listed(&self) -> usize {
        self.state.lock().bad.len()
    }
}

impl ScrubCounters {
    fn add(&self, extent_bytes: u64) {
        self.extents.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(extent_bytes, Ordering::Relaxed);
    }
}
