//! Sealing segments: the footer that ends them (data-format.md, section 4).

use std::collections::{BTreeSet, HashSet};

use super::write_head::ActiveSegment;
use super::{Segment, Segments, WriteHead};
use crate::base::NOT_POISONED;
use crate::format::{Footer, page_ceil};
use crate::fs::DiskPlace;
use crate::log::LogError;

impl Segments {
    /// The ids of the segments that the write heads append to.
    pub fn active_segments(&self) -> Vec<u64> {
        let mut ids = Vec::new();
        for head in WriteHead::ALL {
            ids.extend(self.active.head(head).as_ref().map(|active| active.segment.id));
        }
        ids
    }

    /// The ids of the segments that no writer appends to, now or later. Read this list before the
    /// references to extents: everything written to these segments has been published or abandoned
    /// by then.
    pub fn immutable_segments(&self) -> Vec<u64> {
        // All locks are held together, because rolling moves a segment from a head to the retired
        // ones.
        let heads = WriteHead::ALL.map(|head| self.active.head(head));
        let retired = self.active.retired();
        let active = heads.iter().filter_map(|head| head.as_ref()).chain(retired.iter());
        let busy: HashSet<u64> = active.map(|active| active.segment.id).collect();
        let mut ids = self.ids();
        ids.retain(|id| !busy.contains(id));
        ids
    }

    /// Seals the retired segments without writers. Cheap when there are none.
    ///
    /// # Errors
    /// Of the disk; the segment is then left without a footer, until [`Segments::seal_immutable`].
    pub fn seal_retired(&self) -> Result<(), LogError> {
        self.seal_retired_where(|_| true)
    }

    /// As [`Segments::seal_retired`], of those that are on the disk of the log: a commit need not wait
    /// for a slower one.
    ///
    /// # Errors
    /// As of [`Segments::seal_retired`].
    pub fn seal_retired_beside_log(&self) -> Result<(), LogError> {
        let is_one_disk = !self.fs.has_two_disks();
        self.seal_retired_where(|retired| is_one_disk || retired.place == DiskPlace::Fast)
    }

    fn seal_retired_where(&self, is_due: impl Fn(&ActiveSegment) -> bool) -> Result<(), LogError> {
        let mut retired = self.active.retired();
        // From behind, since `swap_remove` moves the last one.
        for at in (0..retired.len()).rev() {
            if !retired[at].is_written_to() && is_due(&retired[at]) {
                let old = retired.swap_remove(at);
                self.trim_and_seal(&old).inspect_err(|_| self.add_unsealed(old.segment.id))?;
            }
        }
        Ok(())
    }

    /// Seals an immutable segment that lacks its footer. A damaged one leaves
    /// [`Segments::unsealed`] too.
    ///
    /// # Errors
    /// Of the disk; damage where the segment cannot be trusted.
    pub fn seal_immutable(&self, id: u64) -> Result<(), LogError> {
        let sealed = self.get(id).and_then(|segment| match segment.footer(&self.store)? {
            None => self.seal(&segment, page_ceil(segment.file.len()?)),
            Some(_) => Ok(()),
        });
        if matches!(sealed, Ok(()) | Err(LogError::Damaged(_))) {
            self.unsealed.lock().expect(NOT_POISONED).remove(&id);
        }
        sealed
    }

    /// The ids of the immutable segments that are not known to be sealed.
    pub fn unsealed(&self) -> BTreeSet<u64> {
        self.unsealed.lock().expect(NOT_POISONED).clone()
    }

    /// Truncates zeros durably before the footer is written: a footer with zeros after it does not
    /// count.
    fn trim_and_seal(&self, old: &ActiveSegment) -> Result<(), LogError> {
        if old.zeroed_to > old.end {
            old.trim_zeros()?;
            old.segment.file.sync_data()?;
        }
        self.seal(&old.segment, old.end)
    }

    /// Writes the footer, and returns unused preallocated space to the file system.
    fn seal(&self, segment: &Segment, end: u64) -> Result<(), LogError> {
        let footer = Footer { segment: segment.id, offset: end };
        segment.file.write_all_at(&footer.encode(&self.store), end)?;
        // Past the end of the file: its length stays, and what was reserved after it goes.
        segment.file.truncate(u64::MAX)?;
        segment.file.sync_data()?;
        self.forget_allocated_bytes(segment.id);
        Ok(())
    }

    fn add_unsealed(&self, id: u64) {
        self.unsealed.lock().expect(NOT_POISONED).insert(id);
    }

    /// A segment with a bad footer counts as sealed.
    pub(super) fn is_sealed(&self, segment: &Segment) -> Result<bool, LogError> {
        match segment.footer(&self.store) {
            Err(LogError::Damaged(_)) => Ok(true),
            footer => Ok(footer?.is_some()),
        }
    }
}
