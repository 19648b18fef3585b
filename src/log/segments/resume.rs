//! Returning unsealed segments to the write heads at start.

use std::sync::Arc;

use super::write_head::ActiveSegment;
use super::{Segment, Segments, WriteHead};
use crate::base::NOT_POISONED;
use crate::base::limits::PAGE_BYTES;
use crate::format::page_ceil;
use crate::log::LogError;

impl Segments {
    /// Assigns the newest unsealed segments to the write heads. Bytes after the last good extent
    /// were never acknowledged, and bytes inside the file are never rewritten. So the next
    /// allocation starts at the first page after the end. Where there are two disks, each head goes on
    /// on its own.
    pub(super) fn resume(&mut self) -> Result<(), LogError> {
        let mut heads = WriteHead::ALL.to_vec();
        for id in self.ids().into_iter().rev().take(WriteHead::ALL.len()) {
            let segment = match self.get(id) {
                Err(LogError::Damaged(damage)) => {
                    self.damage.push(damage);
                    continue;
                }
                opened => opened?,
            };
            let len = segment.file.len()?;
            if len + PAGE_BYTES > self.options.segment_max_bytes || self.is_sealed(&segment)? {
                continue;
            }
            let place = self.fs.place_of(&segment.path())?;
            let is_for = |head: &WriteHead| !self.fs.has_two_disks() || head.place() == place;
            let Some(at) = heads.iter().position(is_for) else { continue };
            let head = heads.remove(at);
            let file = self.fs_of(head).open(&segment.path())?;
            self.resumed.insert(id, page_ceil(len));
            let active = ActiveSegment::new(Arc::new(Segment { id, file }), place, page_ceil(len));
            *self.active.head(head) = Some(active);
            self.unsealed.lock().expect(NOT_POISONED).remove(&id);
        }
        Ok(())
    }
}
