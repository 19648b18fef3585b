//! What was found out about segments, kept over a restart (data-format.md, section 13). None of it is trusted with what lives:
//! it saves walks over the index.

use std::collections::BTreeMap;
use std::sync::PoisonError;

use super::marks::{Mark, Marks};
use super::{Judged, Reclaimer, Run};
use crate::base::digest::Crc32;
use crate::base::limits::{RECLAIM_FILE_MAX_BYTES, RECLAIM_SAVE_EVERY_SECS};
use crate::format::{HoleVerdict, MoveVerdict, RECLAIM, ReclaimState, SegmentVerdict, StoreId};
use crate::fs::Fs;
use crate::log::LogError;
use crate::store::shared::SharedStore;
use crate::store::state_file::StateFile;
use crate::store::{Store, StoreError};

const FILE: StateFile =
    StateFile { path: RECLAIM, what: "what is known of segments", max_bytes: RECLAIM_FILE_MAX_BYTES };

/// What was kept; `None` where nothing was.
///
/// # Errors
/// As of [`StateFile::load`].
pub(in crate::store) fn load(fs: &dyn Fs, store: &StoreId) -> Result<Option<ReclaimState>, LogError> {
    FILE.load(fs, |bytes| ReclaimState::decode(store, bytes))
}

impl Reclaimer {
    /// Takes up what the store's last process has found out. A file that is damaged is reported, and it is found out again.
    pub(in crate::store) fn open(shared: &SharedStore) -> Self {
        let kept = load(shared.fs.as_ref(), &shared.store).unwrap_or_else(|error| {
            let error = shared.failed(error);
            log::warn!("what is dead in segments is looked for again: {error}");
            None
        });
        let (mut marks, mut judged) = (BTreeMap::new(), BTreeMap::new());
        for (id, SegmentVerdict { hole, moving }) in kept.unwrap_or_default().segments {
            marks.extend(hole.map(|HoleVerdict { live, searched }| {
                (id, if searched { Mark::Searched(live) } else { Mark::Lived(live) })
            }));
            judged.extend(moving.map(|MoveVerdict { live, dense }| (id, Judged { live, dense })));
        }
        let newest = shared.segments.ids().last().copied().unwrap_or(0);
        let saved = shared.clock.now();
        let mut this = Self { marks: Marks::new(marks, newest), judged, saved, ..Self::default() };
        this.kept = Crc32::of(&this.encode(&shared.store));
        this
    }

    fn encode(&self, store: &StoreId) -> Vec<u8> {
        self.state().encode(store, FILE.max_bytes)
    }

    fn state(&self) -> ReclaimState {
        let mut segments: BTreeMap<u64, SegmentVerdict> = BTreeMap::new();
        for (id, mark) in self.marks.iter() {
            let (live, searched) = match mark {
                Mark::Lived(live) => (live, false),
                Mark::Searched(live) => (live, true),
                // Where it ends is not known.
                Mark::Filling(_) => continue,
            };
            segments.entry(id).or_default().hole = Some(HoleVerdict { live, searched });
        }
        for (id, Judged { live, dense }) in &self.judged {
            segments.entry(*id).or_default().moving = Some(MoveVerdict { live: *live, dense: *dense });
        }
        ReclaimState { segments }
    }

    /// Makes durable what is known, where that is something else than was kept last. On a full disk it is known until the
    /// store is closed.
    fn save(&mut self, shared: &SharedStore) -> Result<(), StoreError> {
        self.saved = shared.clock.now();
        let file = self.encode(&shared.store);
        let kept = Crc32::of(&file);
        if kept == self.kept {
            return Ok(());
        }
        match FILE.save(shared.fs.as_ref(), &file) {
            Ok(()) => self.kept = kept,
            Err(LogError::DiskFull(error)) => {
                log::debug!("what is known of segments is not kept over a restart: {error}");
            }
            Err(error) => return Err(shared.write_failed(error)),
        }
        Ok(())
    }
}

impl Run<'_> {
    pub(super) fn keep_verdicts(&mut self) -> Result<(), StoreError> {
        self.reclaimer.save(self.shared)
    }

    /// Keeps what has changed since the last time, now and then.
    pub(super) fn keep_verdicts_if_due(&mut self) -> Result<(), StoreError> {
        let since = self.shared.clock.now().as_secs().abs_diff(self.reclaimer.saved.as_secs());
        if since < RECLAIM_SAVE_EVERY_SECS { Ok(()) } else { self.keep_verdicts() }
    }
}

impl Store {
    pub(in crate::store) fn close_reclaimer(&self) {
        if self.shared.check_writable().is_ok() {
            let mut reclaimer = self.reclaimer.lock().unwrap_or_else(PoisonError::into_inner);
            // It costs no more than finding out some again.
            let _ = reclaimer.save(&self.shared);
        }
    }
}
