//! Counters of the bytes written to the disk, by purpose.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use crate::format::{FileKind, WrittenBytes};
use crate::fs::{Fs, MeteredFs, WriteMeter};

/// The disk of a store, with all writes counted.
#[derive(Clone)]
pub(in crate::store) struct MeteredDisk {
    pub(in crate::store) fs: Arc<dyn Fs>,
    /// The same disk for relocations, which are counted apart.
    pub(in crate::store) relocation_fs: Arc<dyn Fs>,
    pub(in crate::store) counters: Arc<WriteCounters>,
}

impl MeteredDisk {
    pub(in crate::store) fn new(fs: Arc<dyn Fs>) -> Self {
        let counters = Arc::new(WriteCounters::default());
        Self {
            relocation_fs: metered(fs.clone(), &counters, true),
            fs: metered(fs, &counters, false),
            counters,
        }
    }
}

fn metered(fs: Arc<dyn Fs>, counters: &Arc<WriteCounters>, relocations: bool) -> Arc<dyn Fs> {
    Arc::new(MeteredFs::new(fs, Arc::new(MeterByPath { counters: Arc::clone(counters), relocations })))
}

/// Counters since the store was opened, and the totals from before.
#[derive(Default)]
pub(in crate::store) struct WriteCounters {
    before: OnceLock<WrittenBytes>,
    payload: AtomicU64,
    objects: AtomicU64,
    log: AtomicU64,
    zeros: AtomicU64,
    checkpoints: AtomicU64,
    moved: AtomicU64,
}

impl WriteCounters {
    /// Sets the totals from before the store was opened.
    pub(in crate::store) fn resume_from(&self, before: WrittenBytes) {
        self.before.get_or_init(|| before);
    }

    /// Counts acknowledged payload.
    pub(in crate::store) fn count_payload(&self, bytes: u64) {
        self.payload.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Since the store was opened.
    pub(in crate::store) fn since_start(&self) -> WrittenBytes {
        WrittenBytes {
            payload: self.payload.load(Ordering::Relaxed),
            objects: self.objects.load(Ordering::Relaxed),
            log: self.log.load(Ordering::Relaxed),
            zeros: self.zeros.load(Ordering::Relaxed),
            checkpoints: self.checkpoints.load(Ordering::Relaxed),
            moved: self.moved.load(Ordering::Relaxed),
        }
    }

    /// Over the lifetime of the store, as far as checkpoints have recorded it.
    pub(in crate::store) fn lifetime(&self) -> WrittenBytes {
        self.since_start().plus(&self.before.get().copied().unwrap_or_default())
    }
}

/// Finds the purpose of a write by its path.
struct MeterByPath {
    counters: Arc<WriteCounters>,
    relocations: bool,
}

impl WriteMeter for MeterByPath {
    fn written(&self, path: &str, zeros: bool, bytes: u64) {
        let counters = &self.counters;
        let in_segments = path.starts_with(FileKind::Segment.dir());
        let counter = match (zeros, in_segments, self.relocations) {
            (true, ..) => &counters.zeros,
            (false, true, true) => &counters.moved,
            (false, true, false) => &counters.objects,
            // Unfinished checkpoints included.
            _ if path.contains(FileKind::Checkpoint.suffix()) => &counters.checkpoints,
            _ => &counters.log,
        };
        counter.fetch_add(bytes, Ordering::Relaxed);
    }
}
