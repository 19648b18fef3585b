//! The state that outlives a call: how far the pass has come, and the bad extents (data-format.md,
//! section 12).

use std::sync::{Mutex, MutexGuard};

use crate::base::NOT_POISONED;
use crate::base::limits::{SCRUB_BAD_EXTENTS_MAX, SCRUB_FILE_MAX_BYTES};
use crate::format::{BadExtent, ExtentOwner, ExtentOwnerKind, SCRUB, ScrubState, StoreId, segment_path};
use crate::fs::Fs;
use crate::index::Index;
use crate::log::{Damage, ExtentLocation, LogError};
use crate::store::StoreError;
use crate::store::shared::SharedStore;
use crate::store::shared::state_file::StateFile;
use crate::store::sweep::references::ExtentReference;

/// Descriptions of bad extents are cut to this many characters.
const DESCRIPTION_MAX_CHARS: usize = 1024;

const FILE: StateFile =
    StateFile { path: SCRUB, what: "the state of the scrub", max_bytes: SCRUB_FILE_MAX_BYTES };

/// The saved state of the scrub; `None` if there is none.
///
/// # Errors
/// As of [`StateFile::load`].
pub(crate) fn load(fs: &dyn Fs, store: &StoreId) -> Result<Option<ScrubState>, LogError> {
    FILE.load(fs, |bytes| ScrubState::decode(store, bytes))
}

/// The state in memory. [`ScrubStateCell::save`] makes it durable.
pub(super) struct ScrubStateCell(Mutex<ScrubState>);

impl ScrubStateCell {
    /// Loads the state of the store's last process. A damaged file is reported, and the pass starts
    /// over.
    pub(super) fn open(shared: &SharedStore) -> Self {
        let state = load(shared.fs.as_ref(), &shared.store).unwrap_or_else(|error| {
            let error = shared.failed(error);
            log::warn!("the scrub starts over: {error}");
            None
        });
        Self(Mutex::new(state.unwrap_or_default()))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, ScrubState> {
        self.0.lock().expect(NOT_POISONED)
    }

    /// Makes the state durable. A read-only store and a full disk keep it in memory only.
    pub(super) fn save(&self, shared: &SharedStore) -> Result<(), StoreError> {
        if shared.check_writable().is_err() {
            return Ok(());
        }
        // A copy, so that no reader of the state waits for the sync.
        let state = self.lock().clone();
        match FILE.save(shared.fs.as_ref(), &state.encode(&shared.store)) {
            Err(LogError::DiskFull(error)) => {
                log::warn!("the state of the scrub will not survive a restart: {error}");
                Ok(())
            }
            saved => saved.map_err(|error| shared.write_failed(error)),
        }
    }

    /// Lists a bad extent, and saves the list. Returns whether it was listed: an extent without
    /// references may have been moved or deleted, and its space reclaimed, before it was read. A
    /// record that still refers to it has done so all along.
    pub(super) fn list_bad(
        &self,
        shared: &SharedStore,
        reference: &ExtentReference,
        damage: &Damage,
    ) -> Result<bool, StoreError> {
        let bad = BadExtent {
            owner: reference.owner.as_ref().clone(),
            segment: reference.extent.segment,
            offset: reference.extent.offset,
            found: shared.clock.now(),
            at: damage.offset,
            what: damage.what.chars().take(DESCRIPTION_MAX_CHARS).collect(),
        };
        // Asked after the extent was read: one that was reclaimed and written over meanwhile has
        // other bytes, and no owner.
        if !is_referenced(&shared.index(), &bad) {
            return Ok(false);
        }
        log::error!("the scrub found: {damage}");
        {
            let mut state = self.lock();
            let listed = state.bad.iter().position(|listed| is_same(listed, &bad));
            match listed {
                Some(at) => state.bad[at] = bad,
                None if state.bad.len() < SCRUB_BAD_EXTENTS_MAX => state.bad.push(bad),
                None => state.unlisted += 1,
            }
        }
        self.save(shared).map(|()| true)
    }

    /// Removes an extent that reads well from the list: the cause may have been a loose cable.
    pub(super) fn unlist_good(
        &self,
        shared: &SharedStore,
        location: ExtentLocation,
    ) -> Result<(), StoreError> {
        let removed = {
            let mut state = self.lock();
            let before = state.bad.len();
            state.bad.retain(|bad| (bad.segment, bad.offset) != location);
            before - state.bad.len()
        };
        if removed == 0 {
            return Ok(());
        }
        let (segment, offset) = location;
        log::info!("{} at offset {offset}: an extent found bad can be read again", segment_path(segment));
        self.save(shared)
    }

    /// Removes the extents that their record has left from the list.
    pub(super) fn unlist_unreferenced(&self, shared: &SharedStore) -> Result<(), StoreError> {
        let listed = self.lock().bad.clone();
        if listed.is_empty() {
            return Ok(());
        }
        let referenced: Vec<_> = {
            let index = shared.index();
            listed.iter().filter(|bad| is_referenced(&index, bad)).cloned().collect()
        };
        if referenced.len() == listed.len() {
            return Ok(());
        }
        self.lock().bad = referenced;
        self.save(shared)
    }
}

/// Whether the owner of a bad extent still refers to it.
pub(crate) fn is_referenced(index: &Index, bad: &BadExtent) -> bool {
    let ExtentOwner { bucket, key, which } = &bad.owner;
    let extents = match which {
        ExtentOwnerKind::Version(id) => index.version(*bucket, key, *id).map(|version| version.extents),
        ExtentOwnerKind::Part(upload, number) => {
            index.part(*bucket, key, *upload, *number).map(|part| part.extents)
        }
    };
    extents.into_iter().flatten().any(|extent| extent.segment == bad.segment && extent.offset == bad.offset)
}

/// The damage that was found in a bad extent.
pub(crate) fn damage_of(bad: &BadExtent) -> Damage {
    Damage::new(segment_path(bad.segment), bad.at, bad.what.clone())
}

fn is_same(one: &BadExtent, other: &BadExtent) -> bool {
    (one.segment, one.offset, &one.owner) == (other.segment, other.offset, &other.owner)
}
