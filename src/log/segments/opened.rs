//! The segments that are kept open: the ones used last, so that their number does not grow with the store.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, RwLock};

use crate::base::limits::SEGMENTS_OPEN_MAX;
use crate::log::Segment;

#[derive(Default)]
pub(super) struct Opened {
    slots: RwLock<HashMap<u64, Slot>>,
    /// Counts uses.
    now: AtomicU64,
}

struct Slot {
    segment: Arc<Segment>,
    used: AtomicU64,
}

impl Opened {
    pub(super) fn get(&self, id: u64) -> Option<Arc<Segment>> {
        let slots = self.slots.read().expect("nobody panics while holding it");
        let slot = slots.get(&id)?;
        slot.used.store(self.now.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        Some(slot.segment.clone())
    }

    /// Keeps a segment open, in the place of the one that was not used for longest.
    pub(super) fn put(&self, segment: &Arc<Segment>) {
        let used = self.now.fetch_add(1, Ordering::Relaxed);
        let mut slots = self.slots.write().expect("nobody panics while holding it");
        slots.insert(segment.id, Slot { segment: segment.clone(), used: AtomicU64::new(used) });
        if slots.len() > SEGMENTS_OPEN_MAX {
            let used = |(id, slot): (&u64, &Slot)| (slot.used.load(Ordering::Relaxed), *id);
            if let Some((_, oldest)) = slots.iter().map(used).min() {
                slots.remove(&oldest);
            }
        }
    }

    pub(super) fn forget(&self, id: u64) {
        self.slots.write().expect("nobody panics while holding it").remove(&id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::Fs;
    use crate::fs::sim::SimFs;

    #[test]
    fn the_segments_used_last_stay_open_and_no_others() {
        let file = SimFs::new().create("segment").unwrap();
        let opened = Opened::default();
        let put = |id| opened.put(&Arc::new(Segment { id, file: file.clone() }));
        (0..SEGMENTS_OPEN_MAX as u64).for_each(put);
        assert!(opened.get(0).is_some());
        put(1_000);
        assert!(opened.get(0).is_some() && opened.get(1_000).is_some());
        assert!(opened.get(1).is_none(), "it was not used for longest");
        assert_eq!(opened.slots.read().unwrap().len(), SEGMENTS_OPEN_MAX);
        opened.forget(0);
        assert!(opened.get(0).is_none());
    }
}
