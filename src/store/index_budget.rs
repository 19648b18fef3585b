//! How far the index may grow. All keys are in memory, so whoever may put them could fill it: what makes the index grow is
//! refused where the index comes near its ceiling, at the commit, and never by an allocation that fails.

use crate::base::limits::KIB;
use crate::index::Index;
use crate::store::StoreError;

/// The last part of what the index may take up is for delete markers alone: one of so many.
const FOR_MARKERS: u64 = 32;
/// Where so much does not fit, the index is full: what a put needs with the longest key and all metadata, but for tags.
const PUT_GROWTH_BYTES: u64 = 8 * KIB;

/// What makes the index grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IndexGrowth {
    /// Objects, parts, uploads, tags and buckets.
    Data,
    /// Delete markers: deletes go on for a while where puts are refused.
    Marker,
}

/// The memory that is left to the index.
#[derive(Debug, Clone, Copy)]
pub(super) struct IndexBudget {
    used: u64,
    ceiling: u64,
}

impl IndexBudget {
    /// What is left where the index may take up `ceiling` bytes.
    pub(super) fn of(index: &Index, ceiling: u64) -> Self {
        Self { used: index.memory_bytes(), ceiling }
    }

    /// Takes up to `bytes` of what is left. Where a put would not fit nothing does but markers, so that all are refused alike.
    ///
    /// # Errors
    /// [`StoreError::IndexFull`].
    pub(super) fn reserve(&mut self, bytes: u64, growth: IndexGrowth) -> Result<(), StoreError> {
        let (least, most) = match growth {
            IndexGrowth::Data => (PUT_GROWTH_BYTES, self.ceiling - self.ceiling / FOR_MARKERS),
            IndexGrowth::Marker => (0, self.ceiling),
        };
        if bytes > 0 && self.used.saturating_add(bytes.max(least)) > most {
            return Err(StoreError::IndexFull { used: self.used, ceiling: self.ceiling });
        }
        self.used = self.used.saturating_add(bytes);
        Ok(())
    }

    /// Fails where the index is full.
    ///
    /// # Errors
    /// [`StoreError::IndexFull`].
    pub(super) fn check(mut self) -> Result<(), StoreError> {
        self.reserve(1, IndexGrowth::Data)
    }

    /// Whether there is so much room that it is worth telling after there was none.
    pub(super) fn has_recovered(mut self) -> bool {
        self.reserve(self.ceiling / FOR_MARKERS, IndexGrowth::Data).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn room(used: u64) -> IndexBudget {
        IndexBudget { used, ceiling: 32_000_000 }
    }

    #[test]
    fn the_last_part_is_for_markers() {
        let mut room = room(30_000_000);
        assert_eq!(room.reserve(995_000, IndexGrowth::Data), Ok(()));
        let full = StoreError::IndexFull { used: 30_995_000, ceiling: 32_000_000 };
        assert_eq!(room.reserve(1, IndexGrowth::Data), Err(full.clone()), "a put would not fit");
        assert_eq!(room.check(), Err(full));
        assert_eq!(room.reserve(1_005_000, IndexGrowth::Marker), Ok(()));
        assert!(room.reserve(1, IndexGrowth::Marker).is_err());
    }

    #[test]
    fn room_is_back_when_there_is_more_than_a_put_needs() {
        assert!(room(29_900_000).check().is_ok() && room(29_900_000).has_recovered());
        assert!(room(30_100_000).check().is_ok() && !room(30_100_000).has_recovered());
    }

    #[test]
    fn what_is_beyond_the_ceiling_already_takes_nothing_more() {
        assert!(room(40_000_000).reserve(1, IndexGrowth::Marker).is_err());
        assert!(room(40_000_000).reserve(0, IndexGrowth::Data).is_ok(), "what does not grow goes on");
        assert!(room(u64::MAX).reserve(u64::MAX, IndexGrowth::Data).is_err());
        let mut endless = IndexBudget { used: 1 << 40, ceiling: u64::MAX };
        assert!(endless.reserve(1 << 40, IndexGrowth::Data).is_ok());
    }
}
