//! The disks of stores: simulated ones as they are, encrypted, or two as one.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

use zeroize::Zeroizing;

use super::*;
use crate::fs::{Fs, SplitFs, SubdirFs};
use crate::vault::{EncryptedFs, StoreKey};

/// The directories of the two disks of a store, on one simulated disk: the power of both goes at the
/// same time.
pub(super) const FAST: &str = "fast";
pub(super) const BULK: &str = "bulk";

#[derive(Debug, Clone, Copy, Default)]
struct DiskShape {
    is_encrypted: bool,
    is_two: bool,
}

thread_local! {
    /// The shape of the disks of this thread's stores.
    static SHAPE: Cell<DiskShape> = const { Cell::new(DiskShape { is_encrypted: false, is_two: false }) };
}

/// The path of a file of the simulated disk, as the store knows it.
pub(super) fn path_in_store(path: &str) -> &str {
    let within = |dir| path.strip_prefix(dir)?.strip_prefix('/');
    within(FAST).or_else(|| within(BULK)).unwrap_or(path)
}

/// Runs a test with encrypted disks.
pub(super) fn on_encrypted_disk(test: impl FnOnce()) {
    with_shape(DiskShape { is_encrypted: true, ..SHAPE.get() }, test);
}

/// Runs a test with two disks for each store.
pub(super) fn on_two_disks(test: impl FnOnce()) {
    with_shape(DiskShape { is_two: true, ..SHAPE.get() }, test);
}

fn with_shape(shape: DiskShape, test: impl FnOnce()) {
    let before = SHAPE.replace(shape);
    test();
    SHAPE.set(before);
}

/// The disk of a store, as the test asks for it.
pub(super) fn disk(sim: &SimFs) -> Arc<dyn Fs> {
    let shape = SHAPE.get();
    let disk: Arc<dyn Fs> = if shape.is_two { two_disks(sim) } else { Arc::new(sim.clone()) };
    if !shape.is_encrypted {
        return disk;
    }
    // Every start draws other salts.
    static STARTS: AtomicU64 = AtomicU64::new(1);
    let seed = STARTS.fetch_add(1, Ordering::Relaxed) << 32;
    let key = StoreKey::new(Zeroizing::new([7; 32]));
    Arc::new(EncryptedFs::new(disk, key, Arc::new(SeededEntropy::new(seed))))
}

fn two_disks(sim: &SimFs) -> Arc<dyn Fs> {
    for dir in [FAST, BULK] {
        // Once the power has gone, the store finds out.
        let _ = sim.create_dir(dir);
    }
    let _ = sim.sync_dir("");
    let part = |dir| Arc::new(SubdirFs::new(Arc::new(sim.clone()), dir));
    Arc::new(SplitFs::new(part(FAST), part(BULK)))
}
