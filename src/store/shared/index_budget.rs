//! The limit of the index. All keys are in memory, so clients could fill it with puts. Near the
//! limit, the commit refuses mutations that make the index grow; no allocation fails.

use crate::base::limits::KIB;
use crate::index::Index;
use crate::store::StoreError;

/// The last part of the budget, one of so many, is reserved for delete markers.
const FOR_MARKERS: u64 = 32;
/// The index is full if it has no space for this: a put with the longest key and all metadata
/// except tags.
const PUT_GROWTH_BYTES: u64 = 8 * KIB;

/// The cause of growth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store) enum IndexGrowth {
    /// Objects, parts, uploads, tags and buckets.
    Data,
    /// Delete markers: deletes continue for a while after puts are refused.
    Marker,
}

/// The memory that the index may still use.
#[derive(Debug, Clone, Copy)]
pub(in crate::store) struct IndexBudget {
    used: u64,
    ceiling: u64,
}

impl IndexBudget {
    /// The budget of an index with a limit of `ceiling` bytes.
    pub(in crate::store) fn of(index: &Index, ceiling: u64) -> Self {
        Self { used: index.memory_bytes(), ceiling }
    }

    /// Reserves `bytes`. If there is no space for a put, only delete markers get any, so that all
    /// other growth is refused alike.
    ///
    /// # Errors
    /// [`StoreError::IndexFull`].
    pub(in crate::store) fn reserve(&mut self, bytes: u64, growth: IndexGrowth) -> Result<(), StoreError> {
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

    /// Fails if the index is full.
    ///
    /// # Errors
    /// [`StoreError::IndexFull`].
    pub(in crate::store) fn check(mut self) -> Result<(), StoreError> {
        self.reserve(1, IndexGrowth::Data)
    }

    /// Whether a formerly full index has enough space to log it.
    pub(in crate::store) fn has_recovered(mut self) -> bool {
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
    fn the_last_part_is_reserved_for_markers() {
        let mut room = room(30_000_000);
        assert_eq!(room.reserve(995_000, IndexGrowth::Data), Ok(()));
        let full = StoreError::IndexFull { used: 30_995_000, ceiling: 32_000_000 };
        assert_eq!(room.reserve(1, IndexGrowth::Data), Err(full.clone()), "a put would not fit");
        assert_eq!(room.check(), Err(full));
        assert_eq!(room.reserve(1_005_000, IndexGrowth::Marker), Ok(()));
        assert!(room.reserve(1, IndexGrowth::Marker).is_err());
    }

    #[test]
    fn an_index_has_recovered_once_it_has_space_for_more_than_a_put() {
        assert!(room(29_900_000).check().is_ok() && room(29_900_000).has_recovered());
        assert!(room(30_100_000).check().is_ok() && !room(30_100_000).has_recovered());
    }

    #[test]
    fn an_index_beyond_its_limit_does_not_grow() {
        assert!(room(40_000_000).reserve(1, IndexGrowth::Marker).is_err());
        assert!(room(40_000_000).reserve(0, IndexGrowth::Data).is_ok(), "mutations without growth go on");
        assert!(room(u64::MAX).reserve(u64::MAX, IndexGrowth::Data).is_err());
        let mut endless = IndexBudget { used: 1 << 40, ceiling: u64::MAX };
        assert!(endless.reserve(1 << 40, IndexGrowth::Data).is_ok());
    }
}
