//! A cache of open segments. It bounds the number of open files, whatever the size of the store.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::base::NOT_POISONED;
use crate::log::Segment;

/// A CLOCK cache. When it is full, a new segment replaces one that was not used since the hand last
/// passed it. That is nearly the least recently used one, at a cost that does not depend on the
/// size of the cache.
pub(super) struct SegmentCache {
    max: usize,
    clock: RwLock<CacheRing>,
}

#[derive(Default)]
struct CacheRing {
    slots: Vec<CachedSegment>,
    /// The slot of each segment.
    positions: HashMap<u64, usize>,
    hand: usize,
}

struct CachedSegment {
    segment: Arc<Segment>,
    /// Whether it was used since the hand last passed it.
    used: AtomicBool,
}

impl SegmentCache {
    /// A cache of at most `max` segments, and at least one.
    pub(super) fn new(max: usize) -> Self {
        Self { max: max.max(1), clock: RwLock::default() }
    }

    pub(super) fn get(&self, id: u64) -> Option<Arc<Segment>> {
        let clock = self.read();
        let slot = &clock.slots[*clock.positions.get(&id)?];
        slot.used.store(true, Ordering::Relaxed);
        Some(slot.segment.clone())
    }

    /// Adds a segment.
    pub(super) fn put(&self, segment: &Arc<Segment>) {
        let slot = CachedSegment { segment: segment.clone(), used: AtomicBool::new(false) };
        // The replaced segment is closed after the lock is released.
        let _last = self.write().put(slot, self.max);
    }

    /// Removes a segment. Its file is closed after the last reader is done.
    pub(super) fn remove(&self, id: u64) {
        let _last = self.write().remove(id);
    }

    /// Removes all segments. Their files are closed after the last readers are done.
    pub(super) fn close_idle(&self) {
        let _last = std::mem::take(&mut *self.write());
    }

    fn read(&self) -> RwLockReadGuard<'_, CacheRing> {
        self.clock.read().expect(NOT_POISONED)
    }

    fn write(&self) -> RwLockWriteGuard<'_, CacheRing> {
        self.clock.write().expect(NOT_POISONED)
    }
}

impl CacheRing {
    fn put(&mut self, slot: CachedSegment, max: usize) -> Option<CachedSegment> {
        let id = slot.segment.id;
        let at = match self.positions.get(&id) {
            Some(at) => *at,
            None if self.slots.len() < max => {
                self.positions.insert(id, self.slots.len());
                self.slots.push(slot);
                return None;
            }
            None => self.next_unused(),
        };
        let last = std::mem::replace(&mut self.slots[at], slot);
        self.positions.remove(&last.segment.id);
        self.positions.insert(id, at);
        Some(last)
    }

    /// Moves the hand past the first slot that was not used since the last pass.
    fn next_unused(&mut self) -> usize {
        loop {
            let at = self.hand % self.slots.len();
            self.hand = at + 1;
            if !std::mem::take(self.slots[at].used.get_mut()) {
                return at;
            }
        }
    }

    fn remove(&mut self, id: u64) -> Option<CachedSegment> {
        let at = self.positions.remove(&id)?;
        let slot = self.slots.swap_remove(at);
        if let Some(moved) = self.slots.get(at) {
            self.positions.insert(moved.segment.id, at);
        }
        Some(slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::Fs;
    use crate::fs::sim::SimFs;

    const MAX: usize = 64;

    fn filled() -> (SegmentCache, impl Fn(u64) -> Arc<Segment>) {
        let file = SimFs::new().create("segment").unwrap();
        let segment = move |id| Arc::new(Segment { id, file: file.clone() });
        let opened = SegmentCache::new(MAX);
        for id in 0..MAX as u64 {
            opened.put(&segment(id));
        }
        (opened, segment)
    }

    fn known(opened: &SegmentCache) -> usize {
        let clock = opened.read();
        assert_eq!(clock.slots.len(), clock.positions.len());
        assert!(clock.positions.iter().all(|(id, at)| clock.slots[*at].segment.id == *id));
        clock.slots.len()
    }

    #[test]
    fn the_segments_in_use_stay_open_and_no_others() {
        let (opened, segment) = filled();
        assert!(opened.get(0).is_some());
        opened.put(&segment(1_000));
        assert!(opened.get(0).is_some() && opened.get(1_000).is_some());
        assert!(opened.get(1).is_none(), "it was not used for longest");
        assert_eq!(known(&opened), MAX);
        opened.remove(0);
        assert!(opened.get(0).is_none());
        assert_eq!(known(&opened), MAX - 1);
    }

    #[test]
    fn segments_used_again_and_again_outlive_any_number_of_others_used_once() {
        let (opened, segment) = filled();
        for id in 1_000..3_000 {
            assert!((0..8).all(|id| opened.get(id).is_some()));
            opened.put(&segment(id));
        }
        assert!((0..8).all(|id| opened.get(id).is_some()));
        assert_eq!(known(&opened), MAX);
    }

    #[test]
    fn one_that_is_put_twice_takes_one_place_and_all_can_be_closed() {
        let (opened, segment) = filled();
        opened.put(&segment(7));
        opened.put(&segment(7));
        assert_eq!(known(&opened), MAX);
        opened.close_idle();
        assert!(opened.get(7).is_none());
        opened.put(&segment(7));
        assert_eq!(known(&opened), 1);
    }
}
