//! Saved findings about segments (data-format.md, section 13). They save walks over the index; no
//! live byte depends on them.

use std::collections::BTreeMap;
use std::sync::PoisonError;

use super::baselines::{LiveBaseline, LiveBaselines};
use super::{ReclaimRun, Reclaimer};
use crate::base::digest::Crc32;
use crate::base::limits::{RECLAIM_FILE_MAX_BYTES, RECLAIM_SAVE_EVERY_SECS};
use crate::format::{HoleVerdict, RECLAIM, ReclaimState, SegmentVerdict, StoreId};
use crate::fs::Fs;
use crate::log::LogError;
use crate::store::shared::SharedStore;
use crate::store::shared::state_file::StateFile;
use crate::store::{Store, StoreError};

const FILE: StateFile =
    StateFile { path: RECLAIM, what: "the findings about segments", max_bytes: RECLAIM_FILE_MAX_BYTES };

/// The saved findings; `None` if there are none.
///
/// # Errors
/// As of [`StateFile::load`].
pub(crate) fn load(fs: &dyn Fs, store: &StoreId) -> Result<Option<ReclaimState>, LogError> {
    FILE.load(fs, |bytes| ReclaimState::decode(store, bytes))
}

impl Reclaimer {
    /// Loads the findings of the store's last process. A damaged file is reported, and its findings
    /// are made again.
    pub(in crate::store) fn open(shared: &SharedStore) -> Self {
        let kept = load(shared.fs.as_ref(), &shared.store).unwrap_or_else(|error| {
            let error = shared.failed(error);
            log::warn!("the findings about segments are lost and will be made again: {error}");
            None
        });
        let mut baselines = BTreeMap::new();
        let mut move_verdicts = BTreeMap::new();
        for (id, SegmentVerdict { hole, moving }) in kept.unwrap_or_default().segments {
            baselines.extend(hole.map(|HoleVerdict { live, searched }| {
                (id, if searched { LiveBaseline::Searched(live) } else { LiveBaseline::Lived(live) })
            }));
            move_verdicts.extend(moving.map(|verdict| (id, verdict)));
        }
        // Segments that are made from now on are followed from their first byte. Of older ones
        // without a saved baseline nothing is known.
        let newest = shared.segments.ids().last().copied().unwrap_or(0);
        let saved = Some(shared.clock.instant());
        let mut this = Self {
            baselines: LiveBaselines::new(baselines, newest),
            move_verdicts,
            saved,
            ..Self::default()
        };
        this.kept = Crc32::of(&this.encode(&shared.store));
        this
    }

    fn encode(&self, store: &StoreId) -> Vec<u8> {
        self.state().encode(store, FILE.max_bytes)
    }

    fn state(&self) -> ReclaimState {
        let mut segments: BTreeMap<u64, SegmentVerdict> = BTreeMap::new();
        for (id, baseline) in self.baselines.iter() {
            let (live, searched) = match baseline {
                LiveBaseline::Lived(live) => (live, false),
                LiveBaseline::Searched(live) => (live, true),
                // An active segment has no known end.
                LiveBaseline::Filling(_) => continue,
            };
            segments.entry(id).or_default().hole = Some(HoleVerdict { live, searched });
        }
        for (id, verdict) in &self.move_verdicts {
            segments.entry(*id).or_default().moving = Some(*verdict);
        }
        ReclaimState { segments }
    }

    /// Makes the findings durable, if they differ from the saved ones. On a full disk they last
    /// until the store is closed.
    fn save(&mut self, shared: &SharedStore) -> Result<(), StoreError> {
        self.saved = Some(shared.clock.instant());
        let file = self.encode(&shared.store);
        let kept = Crc32::of(&file);
        if kept == self.kept {
            return Ok(());
        }
        match FILE.save(shared.fs.as_ref(), &file) {
            Ok(()) => self.kept = kept,
            Err(LogError::DiskFull(error)) => {
                log::debug!("the findings about segments will not survive a restart: {error}");
            }
            Err(error) => return Err(shared.write_failed(error)),
        }
        Ok(())
    }
}

impl ReclaimRun<'_> {
    pub(super) fn keep_verdicts(&mut self) -> Result<(), StoreError> {
        self.reclaimer.save(self.shared)
    }

    /// Saves the findings, if that has not been done for some time.
    pub(super) fn keep_verdicts_if_due(&mut self) -> Result<(), StoreError> {
        let now = self.shared.clock.instant();
        if let Some(saved) = self.reclaimer.saved
            && now.duration_since(saved).as_secs() < RECLAIM_SAVE_EVERY_SECS
        {
            return Ok(());
        }
        self.keep_verdicts()
    }
}

impl Store {
    pub(in crate::store) fn close_reclaimer(&self) {
        if self.shared.check_writable().is_ok() {
            let mut reclaimer = self.reclaimer.lock().unwrap_or_else(PoisonError::into_inner);
            // A failure costs no more than finding out some again.
            let _ = reclaimer.save(&self.shared);
        }
    }
}
