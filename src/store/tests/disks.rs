//! The disks of stores: simulated ones as they are, encrypted, or two as one.

use std::cell::{Cell, RefCell};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use zeroize::Zeroizing;

use super::*;
use crate::base::SystemClock;
use crate::disks::{DiskMirror, DisksError, FillStep, MirrorOptions};
use crate::fs::{Fs, SplitFs, SubdirFs};
use crate::vault::{EncryptedFs, StoreKey};

/// The directories of the two disks of a store, on one simulated disk: the power of both goes at the
/// same time.
pub(super) const FAST: &str = "fast";
pub(super) const BULK: &str = "bulk";

/// The sides of a mirror, where they are on one simulated disk.
const FIRST_SIDE: &str = "first";
const SECOND_SIDE: &str = "second";

#[derive(Debug, Clone, Copy, Default)]
struct DiskShape {
    is_encrypted: bool,
    is_two: bool,
    is_mirrored: bool,
}

thread_local! {
    /// The shape of the disks of this thread's stores.
    static SHAPE: Cell<DiskShape> = const {
        Cell::new(DiskShape { is_encrypted: false, is_two: false, is_mirrored: false })
    };
    /// The second side of the mirror of this thread, where it is another disk, and that of its witness.
    static SECOND: RefCell<Option<[SimFs; 2]>> = const { RefCell::new(None) };
}

/// The path of a file of the simulated disk, as the store knows it.
pub(super) fn path_in_store(path: &str) -> &str {
    let within = |dir| path.strip_prefix(dir)?.strip_prefix('/');
    let dirs = [FAST, BULK, FIRST_SIDE, SECOND_SIDE];
    dirs.into_iter().find_map(within).unwrap_or(path)
}

/// Runs a test with encrypted disks.
pub(super) fn on_encrypted_disk(test: impl FnOnce()) {
    with_shape(DiskShape { is_encrypted: true, ..SHAPE.get() }, test);
}

/// Runs a test with two disks for each store.
pub(super) fn on_two_disks(test: impl FnOnce()) {
    with_shape(DiskShape { is_two: true, ..SHAPE.get() }, test);
}

/// Runs a test with the two sides of a mirror for each store: the power of both goes at the same time.
pub(super) fn on_mirror(test: impl FnOnce()) {
    with_shape(DiskShape { is_mirrored: true, ..SHAPE.get() }, test);
}

/// Runs a test with mirrors of which `second` is the second side, with the disk of a witness.
pub(super) fn on_mirror_with<T>(second: &SimFs, witness: &SimFs, test: impl FnOnce() -> T) -> T {
    SECOND.replace(Some([second.clone(), witness.clone()]));
    let tested = test();
    SECOND.replace(None);
    tested
}

/// The options of a mirror of two disks.
pub(super) fn mirror_of(disks: [Arc<dyn Fs>; 2]) -> MirrorOptions {
    // Every start draws other ids.
    static STARTS: AtomicU64 = AtomicU64::new(1);
    let seed = STARTS.fetch_add(1, Ordering::Relaxed);
    MirrorOptions {
        names: [PathBuf::from("/a"), PathBuf::from("/b")],
        disks,
        witness: None,
        key: SHAPE.get().is_encrypted.then(store_key),
        accepts_degraded: false,
        accepts_outdated: false,
        patience: Duration::from_secs(60),
        entropy: Arc::new(SeededEntropy::new(seed << 32)),
        clock: Arc::new(SystemClock),
    }
}

/// Copies all to a side that is being filled.
pub(super) fn fill(mirror: &DiskMirror) -> Result<bool, DisksError> {
    loop {
        match mirror.fill_step(&mut |_| Ok(()))? {
            FillStep::Nothing => return Ok(false),
            FillStep::Joined => return Ok(true),
            FillStep::Copied { .. } => {}
        }
    }
}

/// The witness on its disk.
pub(super) fn witness_on(disk: &SimFs) -> Option<(Arc<dyn Fs>, String)> {
    Some((Arc::new(disk.clone()), "witness".to_owned()))
}

fn mirrored(options: MirrorOptions) -> Option<Arc<dyn Fs>> {
    DiskMirror::open(options).map(|mirror| mirror.fs()).inspect_err(|error| println!("{error}")).ok()
}

fn with_shape(shape: DiskShape, test: impl FnOnce()) {
    let before = SHAPE.replace(shape);
    test();
    SHAPE.set(before);
}

/// The disk of a store, as the test asks for it.
pub(super) fn disk(sim: &SimFs) -> Arc<dyn Fs> {
    let shape = SHAPE.get();
    let bare: Arc<dyn Fs> = Arc::new(sim.clone());
    let second = SECOND.with_borrow(Clone::clone);
    let disk: Arc<dyn Fs> = match second {
        Some([second, witness]) => {
            let options = mirror_of([bare, Arc::new(second)]);
            let opened = mirrored(MirrorOptions { witness: witness_on(&witness), ..options });
            opened.expect("the mirror opens")
        }
        None if shape.is_two => two_disks(sim),
        // Once the power has gone, the store finds out.
        None if shape.is_mirrored => mirrored(mirror_of(two_sides(sim))).unwrap_or(bare),
        None => bare,
    };
    // A mirror encrypts each of its sides.
    let is_mirror = shape.is_mirrored || SECOND.with_borrow(Option::is_some);
    if !shape.is_encrypted || is_mirror {
        return disk;
    }
    // Every start draws other salts.
    static STARTS: AtomicU64 = AtomicU64::new(1);
    let seed = STARTS.fetch_add(1, Ordering::Relaxed) << 32;
    Arc::new(EncryptedFs::new(disk, store_key(), Arc::new(SeededEntropy::new(seed))))
}

fn store_key() -> StoreKey {
    StoreKey::new(Zeroizing::new([7; 32]))
}

fn two_sides(sim: &SimFs) -> [Arc<dyn Fs>; 2] {
    [FIRST_SIDE, SECOND_SIDE].map(|dir| -> Arc<dyn Fs> {
        let _ = sim.create_dir(dir);
        Arc::new(SubdirFs::new(Arc::new(sim.clone()), dir))
    })
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
